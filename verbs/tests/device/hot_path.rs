//! Posting and polling allocate nothing.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use fabricbench_verbs::{
    Completion, GRH_BYTES, MemoryRegion, Operation, PostFailure, RecvRequest, SendRequest,
    Transport,
};

use crate::pair::{End, PATIENCE, Pair, shared};

/// The system's allocator, with a count of what each thread asks of it.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is done by the system's allocator; the count needs no memory and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `body` allocates, done a thousand times.
fn allocations(mut body: impl FnMut()) -> u64 {
    // What is made at first use only, such as a thread's own data.
    body();
    let before = ASKED.get();
    for _ in 0..1000 {
        body();
    }
    ASKED.get() - before
}

fn drain(end: &End, mut count: usize) {
    let mut completions = [Completion::default(); 16];
    while count > 0 {
        for completion in end.cq.poll(&mut completions).unwrap() {
            completion.check().unwrap();
            count -= 1;
        }
    }
}

fn touch(region: &MemoryRegion) {
    let mut bytes = [0; 64];
    region.copy_in(0, &bytes).unwrap();
    region.copy_out(0, &mut bytes).unwrap();
    region.store_u64(0, region.load_u64(8).unwrap()).unwrap();
}

#[test]
fn posting_and_polling_allocate_nothing() {
    let Some(_guard) = shared() else { return };
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1)))) >= 1000, "nothing is counted");

    let Pair { a, b, .. } = Pair::with_events(Transport::ReliableConnection);
    let write = Operation::Write(b.region.remote().at(0));
    let request = SendRequest::new(0, write, a.id.range(0, 64));
    let one = || {
        touch(&a.region);
        a.qp.post_send(&request).unwrap();
        drain(&a, 1);
    };
    assert_eq!(allocations(one), 0, "a write");

    let gathered = || {
        a.qp.post_send_gathered(&request, &[]).unwrap();
        drain(&a, 1);
    };
    assert_eq!(allocations(gathered), 0, "a write that may be gathered");

    let mut list = a.qp.send_list::<8>();
    let many = || {
        list.clear();
        for id in 0..8 {
            a.qp.push_send(&mut list, &SendRequest { id, ..request }.inline(true)).unwrap();
        }
        a.qp.post_send_list(&mut list, 0).unwrap();
        drain(&a, 8);
    };
    assert_eq!(allocations(many), 0, "a list of writes");

    let refused = || {
        let long = SendRequest { local: a.id.range(0, 4096), ..request }.inline(true);
        let reason = a.qp.post_send(&long).unwrap_err().reason;
        assert!(matches!(reason, PostFailure::InlineTooLong { .. }));
    };
    assert_eq!(allocations(refused), 0, "a request that is refused");

    let asleep = || {
        b.qp.post_recv(&RecvRequest::new(0, b.id.range(0, 64))).unwrap();
        let mut completions = [Completion::default()];
        assert!(b.cq.poll_or_wait(&mut completions, Duration::ZERO).unwrap().is_empty());
        a.qp.post_send(&SendRequest { operation: Operation::Send, ..request }).unwrap();
        let got = b.cq.poll_or_wait(&mut completions, PATIENCE).unwrap();
        assert_eq!(got.len(), 1);
        drain(&a, 1);
    };
    assert_eq!(allocations(asleep), 0, "waiting for an event");

    let Pair { a, b, .. } = Pair::by(Transport::UnreliableDatagram);
    let datagram = || {
        b.qp.post_recv(&RecvRequest::new(0, b.id.range(0, (GRH_BYTES + 64) as u32))).unwrap();
        a.qp.post_send(&a.request(0, Operation::Send, a.id.range(0, 64))).unwrap();
        drain(&a, 1);
        drain(&b, 1);
    };
    assert_eq!(allocations(datagram), 0, "a datagram");
}
