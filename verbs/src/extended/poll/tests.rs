//! Proven on a stub of the provider's end: a structure whose functions note their calls.

use super::*;
use std::ffi::c_int;

/// A provider's queue behind the public structure: the completions it will give, and what was
/// called.
#[repr(C)]
struct Stub {
    queue: sys::ibv_cq_ex,
    entries: Vec<sys::ibv_wc>,
    at: usize,
    fails: c_int,
    /// What is told where there is no completion.
    ends: c_int,
    calls: Vec<&'static str>,
}

fn stub(raw: *mut sys::ibv_cq_ex) -> &'static mut Stub {
    // SAFETY: the queue is the first field of a stub that outlives the call, in one thread.
    unsafe { &mut *raw.cast::<Stub>() }
}

impl Stub {
    fn show(&mut self) -> c_int {
        match self.entries.get(self.at) {
            Some(entry) => {
                (self.queue.wr_id, self.queue.status) = (entry.wr_id, entry.status);
                0
            }
            None => self.ends,
        }
    }
}

unsafe extern "C" fn start(raw: *mut sys::ibv_cq_ex, attr: *mut sys::ibv_poll_cq_attr) -> c_int {
    let stub = stub(raw);
    stub.calls.push("start");
    // SAFETY: the caller gives a place.
    assert_eq!(unsafe { (*attr).comp_mask }, 0);
    if stub.fails != 0 { stub.fails } else { stub.show() }
}

unsafe extern "C" fn next(raw: *mut sys::ibv_cq_ex) -> c_int {
    let stub = stub(raw);
    stub.calls.push("next");
    stub.at += 1;
    stub.show()
}

unsafe extern "C" fn end(raw: *mut sys::ibv_cq_ex) {
    let stub = stub(raw);
    stub.calls.push("end");
    stub.at += 1;
}

macro_rules! reads {
    ($($name:ident: $type:ty = $field:expr;)*) => {$(
        unsafe extern "C" fn $name(raw: *mut sys::ibv_cq_ex) -> $type {
            let stub = stub(raw);
            stub.calls.push(stringify!($name));
            let field: fn(&sys::ibv_wc) -> $type = $field;
            field(&stub.entries[stub.at])
        }
    )*};
}

reads! {
    opcode: u32 = |entry| entry.opcode;
    vendor_err: u32 = |entry| entry.vendor_err;
    byte_len: u32 = |entry| entry.byte_len;
    qp_num: u32 = |entry| entry.qp_num;
    src_qp: u32 = |entry| entry.src_qp;
    wc_flags: u32 = |entry| entry.wc_flags;
    imm_data: u32 = |_| 0x0102_0304_u32.to_be();
    completion_ts: u64 = |entry| entry.wr_id * 1000;
}

fn new(entries: Vec<sys::ibv_wc>) -> Box<Stub> {
    // SAFETY: a C structure of integers, pointers, functions that may be null, a mutex and a
    // condition, all of which may be zero.
    let mut queue: sys::ibv_cq_ex = unsafe { std::mem::zeroed() };
    queue.start_poll = Some(start);
    queue.next_poll = Some(next);
    queue.end_poll = Some(end);
    queue.read_opcode = Some(opcode);
    queue.read_vendor_err = Some(vendor_err);
    queue.read_byte_len = Some(byte_len);
    queue.read_imm_data = Some(imm_data);
    queue.read_qp_num = Some(qp_num);
    queue.read_src_qp = Some(src_qp);
    queue.read_wc_flags = Some(wc_flags);
    queue.read_completion_ts = Some(completion_ts);
    Box::new(Stub { queue, entries, at: 0, fails: 0, ends: libc::ENOENT, calls: Vec::new() })
}

fn entry(wr_id: u64, status: u32, wc_flags: u32) -> sys::ibv_wc {
    let mut entry = sys::ibv_wc::zeroed();
    (entry.wr_id, entry.status, entry.wc_flags) = (wr_id, status, wc_flags);
    (entry.opcode, entry.byte_len, entry.qp_num) = (128, 64, 17);
    entry.vendor_err = 0x51;
    entry
}

fn poll_stub(stub: &mut Stub, room: usize, time: bool) -> Result<Vec<TimedCompletion>, PollError> {
    poll_by(stub, room, time, Batch::Many)
}

fn poll_by(
    stub: &mut Stub,
    room: usize,
    time: bool,
    batch: Batch,
) -> Result<Vec<TimedCompletion>, PollError> {
    let mut into = vec![TimedCompletion::default(); room];
    let raw = NonNull::from(&mut *stub).cast();
    // SAFETY: the stub is alive.
    assert!(unsafe { complete(raw, time) });
    // SAFETY: as above, with all its functions.
    let count = unsafe { poll(raw, &mut into, time, batch) }?;
    into.truncate(count);
    Ok(into)
}

#[test]
fn a_poll_starts_reads_what_counts_and_ends() {
    let imm = ibv_wc_flags::IBV_WC_WITH_IMM.0;
    let mut stub = new(vec![entry(1, 0, 0), entry(2, 0, imm), entry(3, 12, imm)]);
    let got = poll_stub(&mut stub, 8, true).unwrap();
    let common = ["qp_num", "opcode", "byte_len", "src_qp", "wc_flags"];
    let mut expected = vec!["start"];
    expected.extend(common);
    expected.extend(["completion_ts", "next"]);
    expected.extend(common);
    expected.extend(["imm_data", "completion_ts", "next", "qp_num", "vendor_err", "next", "end"]);
    assert_eq!(stub.calls, expected);
    let [first, second, third] = &got[..] else { panic!("{got:?}") };
    assert_eq!((first.completion.id(), first.timestamp), (1, Some(1000)));
    assert_eq!((first.completion.byte_len(), first.completion.immediate()), (64, None));
    assert_eq!((first.completion.opcode().0, first.completion.queue_pair()), (128, 17));
    assert_eq!(second.completion.immediate(), Some(0x0102_0304));
    let failure = third.completion.check().unwrap_err();
    assert_eq!((failure.id, failure.status, failure.vendor_error), (3, Status(12), 0x51));
    assert_eq!(third.timestamp, None);
}

#[test]
fn no_more_is_taken_than_there_is_room_for() {
    let mut stub = new((0..3).map(|id| entry(id, 0, 0)).collect());
    let ids = |got: Vec<TimedCompletion>| -> Vec<u64> {
        got.iter().map(|timed| timed.completion.id()).collect()
    };
    assert_eq!(ids(poll_stub(&mut stub, 2, false).unwrap()), [0, 1]);
    assert!(!stub.calls.contains(&"completion_ts"));
    assert_eq!(ids(poll_stub(&mut stub, 2, false).unwrap()), [2]);
    stub.calls.clear();
    assert!(poll_stub(&mut stub, 2, false).unwrap().is_empty());
    assert_eq!(stub.calls, ["start"], "a poll that did not start is not ended");
    assert!(poll_stub(&mut stub, 0, false).unwrap().is_empty());
    assert_eq!(stub.calls, ["start"]);
}

#[test]
fn one_by_one_each_has_a_start_and_an_end_and_none_is_asked_for_in_between() {
    let mut stub = new((0..3).map(|id| entry(id, 0, 0)).collect());
    let got = poll_by(&mut stub, 8, false, Batch::One).unwrap();
    assert_eq!(got.iter().map(|timed| timed.completion.id()).collect::<Vec<_>>(), [0, 1, 2]);
    let steps = |call: &&&str| ["start", "next", "end"].contains(*call);
    let steps: Vec<_> = stub.calls.iter().filter(steps).copied().collect();
    assert_eq!(steps, ["start", "end", "start", "end", "start", "end", "start"]);
}

#[test]
fn an_error_after_completions_is_told_by_the_next_poll() {
    let mut stub = new(vec![entry(1, 0, 0)]);
    stub.ends = libc::EIO;
    assert_eq!(poll_stub(&mut stub, 4, false).unwrap().len(), 1);
    assert_eq!(stub.calls.last(), Some(&"end"));
    assert_eq!(poll_stub(&mut stub, 4, false).unwrap_err(), PollError { code: libc::EIO });
}

#[test]
fn a_broken_queue_is_an_error_and_a_missing_function_is_seen() {
    let mut stub = new(Vec::new());
    stub.fails = libc::EIO;
    assert_eq!(poll_stub(&mut stub, 1, false).unwrap_err(), PollError { code: libc::EIO });
    stub.queue.read_completion_ts = None;
    let raw = NonNull::from(stub.as_mut()).cast();
    // SAFETY: the stub is alive.
    assert!(unsafe { complete(raw, false) });
    // SAFETY: as above.
    assert!(!unsafe { complete(raw, true) });
}
