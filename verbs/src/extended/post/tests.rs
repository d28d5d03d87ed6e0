//! Proven on a stub of the provider's end: a structure whose functions note their calls.

use super::*;
use crate::memory::RemoteAddr;
use crate::work::{Local, Operation};
use std::ffi::{c_int, c_void};

/// A provider's queue pair behind the public structure, and what was called on it.
#[repr(C)]
struct Stub {
    qp: sys::ibv_qp_ex,
    /// What completing a batch gives.
    code: c_int,
    calls: Vec<String>,
}

fn note(raw: *mut sys::ibv_qp_ex, call: String) {
    // SAFETY: the queue pair is the first field of a stub that outlives the call, in one thread.
    unsafe { &mut *raw.cast::<Stub>() }.calls.push(call);
}

/// The id and flags that the request being built has.
fn head(raw: *mut sys::ibv_qp_ex) -> String {
    // SAFETY: as above.
    let qp = unsafe { &*raw };
    format!("{} {:#x}", qp.wr_id, qp.wr_flags)
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) = $text:literal;)*) => {$(
        unsafe extern "C" fn $name(raw: *mut sys::ibv_qp_ex $(, $argument: $type)*) {
            note(raw, format!(concat!(stringify!($name), " {}", $text), head(raw) $(, $argument)*));
        }
    )*};
}

functions! {
    start() = "";
    abort() = "";
    send() = "";
    send_imm(value: u32) = " {:#x}";
    write(rkey: u32, at: u64) = " {:#x} {:#x}";
    write_imm(rkey: u32, at: u64, value: u32) = " {:#x} {:#x} {:#x}";
    read(rkey: u32, at: u64) = " {:#x} {:#x}";
    swap(rkey: u32, at: u64, compare: u64, swap: u64) = " {:#x} {:#x} {} {}";
    add(rkey: u32, at: u64, add: u64) = " {:#x} {:#x} {}";
    sge(lkey: u32, at: u64, length: u32) = " {:#x} {:#x} {}";
}

unsafe extern "C" fn ud(raw: *mut sys::ibv_qp_ex, ah: *mut sys::ibv_ah, qpn: u32, qkey: u32) {
    note(raw, format!("ud {:#x} {qpn} {qkey:#x}", ah.addr()));
}

unsafe extern "C" fn inline(raw: *mut sys::ibv_qp_ex, data: *mut c_void, length: usize) {
    note(raw, format!("inline {:#x} {length}", data.addr()));
}

unsafe extern "C" fn finish(raw: *mut sys::ibv_qp_ex) -> c_int {
    note(raw, "complete".to_owned());
    // SAFETY: as above.
    unsafe { &*raw.cast::<Stub>() }.code
}

fn stub() -> Box<Stub> {
    // SAFETY: a C structure of integers, pointers, functions that may be null, a mutex and a
    // condition, all of which may be zero.
    let mut qp: sys::ibv_qp_ex = unsafe { std::mem::zeroed() };
    qp.wr_start = Some(start);
    qp.wr_complete = Some(finish);
    qp.wr_abort = Some(abort);
    qp.wr_send = Some(send);
    qp.wr_send_imm = Some(send_imm);
    qp.wr_rdma_write = Some(write);
    qp.wr_rdma_write_imm = Some(write_imm);
    qp.wr_rdma_read = Some(read);
    qp.wr_atomic_cmp_swp = Some(swap);
    qp.wr_atomic_fetch_add = Some(add);
    qp.wr_set_sge = Some(sge);
    qp.wr_set_inline_data = Some(inline);
    qp.wr_set_ud_addr = Some(ud);
    Box::new(Stub { qp, code: 0, calls: Vec::new() })
}

const AT: RemoteAddr = RemoteAddr { addr: 0x1000, rkey: 0x77 };

fn built(request: &SendRequest, length: u32) -> Vec<String> {
    let mut stub = stub();
    let segment = sys::ibv_sge { addr: 0x5000, length, lkey: 0x33 };
    let qp = NonNull::from(stub.as_mut()).cast().as_ptr();
    // SAFETY: the stub has all functions, and none of them looks at the memory.
    unsafe { build(qp, &request.to_raw(), &segment, false) }.unwrap();
    stub.calls
}

fn request(operation: Operation) -> SendRequest {
    let local = Local { region: RegionId { owner: 1, index: 0 }, offset: 0, length: 8 };
    SendRequest::new(9, operation, local)
}

#[test]
fn each_operation_calls_its_function_with_its_arguments_and_then_names_the_memory() {
    let imm = 0x0102_0304_u32;
    let network = imm.to_be();
    for (operation, call) in [
        (Operation::Send, "send 9 0x2".to_owned()),
        (Operation::SendImm(imm), format!("send_imm 9 0x2 {network:#x}")),
        (Operation::Write(AT), "write 9 0x2 0x77 0x1000".to_owned()),
        (Operation::WriteImm(AT, imm), format!("write_imm 9 0x2 0x77 0x1000 {network:#x}")),
        (Operation::Read(AT), "read 9 0x2 0x77 0x1000".to_owned()),
        (
            Operation::CompareSwap { remote: AT, compare: 4, swap: 5 },
            "swap 9 0x2 0x77 0x1000 4 5".to_owned(),
        ),
        (Operation::FetchAdd { remote: AT, add: 6 }, "add 9 0x2 0x77 0x1000 6".to_owned()),
    ] {
        let calls = built(&request(operation), 8);
        assert_eq!(calls, [call, "sge 9 0x2 0x33 0x5000 8".to_owned()]);
    }
}

#[test]
fn a_batch_is_told_once_and_taken_back_whole() {
    let requests = [request(Operation::Send), request(Operation::Read(AT))];
    let admit = |request: &SendRequest| {
        if matches!(request.operation, Operation::FetchAdd { .. }) {
            return Err(PostError::unposted(PostFailure::UnknownRegion));
        }
        Ok((request.to_raw(), sys::ibv_sge { addr: 0x5000, length: 8, lkey: 0x33 }))
    };
    let mut stub = stub();
    let run = |stub: &mut Stub, requests: &[SendRequest]| {
        stub.calls.clear();
        let qp = NonNull::from(&mut *stub).cast().as_ptr();
        // SAFETY: the stub has all functions, and none of them looks at the memory.
        let result = unsafe { post(qp, requests, false, admit) };
        let names = stub.calls.iter().map(|call| call.split(' ').next().unwrap().to_owned());
        (result, names.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(run(&mut stub, &requests), (Ok(()), "start send sge read sge complete".into()));
    let bad = [requests[0], request(Operation::FetchAdd { remote: AT, add: 1 })];
    let (result, calls) = run(&mut stub, &bad);
    assert_eq!(result.unwrap_err().reason, PostFailure::UnknownRegion);
    assert_eq!(calls, "start send sge abort");
    stub.code = libc::ENOMEM;
    let (result, calls) = run(&mut stub, &requests[..1]);
    assert!(result.unwrap_err().is_queue_full());
    assert_eq!(calls, "start send sge complete");
}

#[test]
fn flags_and_inline_data_are_passed_on() {
    let fenced = SendRequest { fence: true, solicited: true, ..request(Operation::Send) };
    // IBV_SEND_FENCE and IBV_SEND_SOLICITED: 1 and 4.
    assert_eq!(built(&fenced.signaled(false), 8)[0], "send 9 0x5");
    let calls = built(&request(Operation::Write(AT)).inline(true), 6);
    assert_eq!(calls, ["write 9 0xa 0x77 0x1000", "inline 0x5000 6"]);
    // No data is named all the same: it ends the request.
    let calls = built(&request(Operation::Send), 0);
    assert_eq!(calls, ["send 9 0x2", "sge 9 0x2 0x33 0x5000 0"]);
}

#[test]
fn a_datagram_names_its_peer_between_operation_and_memory() {
    let mut stub = stub();
    let mut raw = request(Operation::Send).to_raw();
    let ah = ptr::without_provenance_mut(0x900);
    raw.wr = sys::wr_t { ud: sys::ud_t { ah, remote_qpn: 17, remote_qkey: 0x1111 } };
    let segment = sys::ibv_sge { addr: 0x5000, length: 8, lkey: 0x33 };
    let qp = NonNull::from(stub.as_mut()).cast().as_ptr();
    // SAFETY: the stub has all functions, and none of them looks at the memory.
    unsafe { build(qp, &raw, &segment, true) }.unwrap();
    assert_eq!(stub.calls, ["send 9 0x2", "ud 0x900 17 0x1111", "sge 9 0x2 0x33 0x5000 8"]);
}

#[test]
fn a_function_that_is_missing_is_seen_before_it_is_called() {
    let [rc, uc, datagram] = Transport::ALL.map(|transport| operations(transport, true));
    assert_eq!((rc, uc, datagram), (0b111_1111, 0b1111, 0b1100));
    assert_eq!(operations(Transport::ReliableConnection, false), 0b1_1111);
    let mut stub = stub();
    let raw = NonNull::from(stub.as_mut()).cast::<sys::ibv_qp_ex>();
    // SAFETY: the stub is alive.
    assert!(unsafe { complete(raw, rc) });
    // SAFETY: as above.
    unsafe { (*raw.as_ptr()).wr_atomic_fetch_add = None };
    // SAFETY: as above.
    assert!(unsafe { complete(raw, uc) });
    // SAFETY: as above.
    assert!(!unsafe { complete(raw, rc) });
    let segment = sys::ibv_sge { addr: 0x5000, length: 8, lkey: 0x33 };
    let raw_request = request(Operation::FetchAdd { remote: AT, add: 6 }).to_raw();
    // SAFETY: as above.
    let error = unsafe { build(raw.as_ptr(), &raw_request, &segment, false) }.unwrap_err();
    assert_eq!(error.reason, PostFailure::Refused(libc::EOPNOTSUPP));
}
