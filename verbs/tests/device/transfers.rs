//! Bytes that arrive.

use std::time::Instant;

use fabricbench_verbs::{
    Access, Completion, Counters, Opcode, Operation, QueuePairOptions, RecvRequest, SendRequest,
    Sysfs,
};

use crate::pair::{End, OPTIONS, PATIENCE, Pair, alone, device, shared};

const ROUNDS: u64 = 50;

#[test]
fn send_and_receive_back_and_forth() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    let (recv, send) = (|end: &End| end.id.range(1024, 256), |end: &End| end.id.range(0, 200));
    for round in 0..ROUNDS {
        for (from, to) in [(&a, &b), (&b, &a)] {
            to.qp.post_recv(&RecvRequest::new(round, recv(to))).unwrap();
            let bytes = [round as u8 ^ 0x5a; 200];
            from.region.copy_in(0, &bytes).unwrap();
            let request = SendRequest::new(1000 + round, Operation::SendImm(0xfeed), send(from));
            from.qp.post_send(&request).unwrap();
            assert_eq!(from.done().id(), 1000 + round);
            let got = to.done();
            assert_eq!((got.id(), got.opcode(), got.byte_len()), (round, Opcode::RECV, 200));
            assert_eq!(got.immediate(), Some(0xfeed));
            assert_eq!(got.queue_pair(), to.qp.number());
            let mut out = [0; 200];
            to.region.copy_out(1024, &mut out).unwrap();
            assert_eq!(out, bytes);
        }
    }
}

#[test]
fn write_to_a_receiver_that_polls_its_memory() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    for round in 1..=ROUNDS as u8 {
        for (from, to) in [(&a, &b), (&b, &a)] {
            from.region.fill(0, 64, round).unwrap();
            let write = Operation::Write(to.region.remote().at(4096));
            let request = SendRequest::new(0, write, from.id.range(0, 64)).inline(true);
            from.qp.post_send(&request).unwrap();
            let start = Instant::now();
            while to.region.load_u8(4096 + 63).unwrap() != round {
                assert!(start.elapsed() < PATIENCE, "the write of round {round} did not arrive");
            }
            from.done();
        }
    }
}

#[test]
fn read_and_atomics_bring_back_the_far_value() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    let (context, _) = device();
    let remote = b.region.remote().at(512);
    b.region.store_u64(512, 40).unwrap();
    a.qp.post_send(&SendRequest::new(1, Operation::Read(remote), a.id.range(0, 8))).unwrap();
    assert_eq!((a.done().opcode(), a.region.load_u64(0).unwrap()), (Opcode::READ, 40));
    if !context.limits().atomics {
        return;
    }
    let add = Operation::FetchAdd { remote, add: 2 };
    a.qp.post_send(&SendRequest::new(2, add, a.id.range(8, 8))).unwrap();
    assert_eq!((a.done().opcode(), a.region.load_u64(8).unwrap()), (Opcode::FETCH_ADD, 40));
    let swap = Operation::CompareSwap { remote, compare: 42, swap: 7 };
    a.qp.post_send(&SendRequest::new(3, swap, a.id.range(16, 8))).unwrap();
    assert_eq!((a.done().opcode(), a.region.load_u64(16).unwrap()), (Opcode::COMPARE_SWAP, 42));
    assert_eq!(b.region.load_u64(512).unwrap(), 7);
}

#[test]
fn write_with_immediate_completes_a_receive() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    b.qp.post_recv(&RecvRequest::new(9, b.id.range(0, 0))).unwrap();
    a.region.fill(0, 100, 3).unwrap();
    let write = Operation::WriteImm(b.region.remote().at(0), 77);
    a.qp.post_send(&SendRequest::new(1, write, a.id.range(0, 100))).unwrap();
    let got = b.done();
    assert_eq!((got.id(), got.immediate()), (9, Some(77)));
    assert_eq!(got.opcode(), Opcode::RECV_WRITE_IMM);
    assert_eq!(b.region.load_u8(99).unwrap(), 3);
    a.done();
}

#[test]
fn a_list_is_posted_in_one_call_and_again() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    let mut recvs = b.qp.recv_list::<8>();
    let mut sends = a.qp.send_list::<8>();
    for index in 0..8_usize {
        a.region.fill(index * 16, 16, index as u8 + 1).unwrap();
        let to = b.id.range(index * 16, 16);
        b.qp.push_recv(&mut recvs, &RecvRequest::new(index as u64, to)).unwrap();
        let from = a.id.range(index * 16, 16);
        let request = SendRequest::new(index as u64, Operation::Send, from).signaled(index == 7);
        a.qp.push_send(&mut sends, &request).unwrap();
    }
    assert!(
        a.qp.push_send(&mut sends, &SendRequest::new(8, Operation::Send, a.id.range(0, 1)))
            .is_err()
    );
    for _ in 0..3 {
        b.qp.post_recv_list(&mut recvs, 0).unwrap();
        a.qp.post_send_list(&mut sends, 0).unwrap();
        assert_eq!(a.done().id(), 7, "only the last is signaled");
        for index in 0..8 {
            assert_eq!(b.done().id(), index);
        }
        assert_eq!(b.region.load_u8(7 * 16 + 15).unwrap(), 8);
        b.region.fill(0, 128, 0).unwrap();
    }
    let mut none = [Completion::default(); 4];
    assert!(a.cq.poll(&mut none).unwrap().is_empty());
    // A list carries keys of the memory its own queue pair holds, and of no other's.
    assert!(b.qp.post_send_list(&mut sends, 0).is_err());
}

#[test]
fn inline_is_what_the_queue_pair_got() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::new();
    let max = a.qp.capabilities().max_inline;
    assert!(max >= OPTIONS.max_inline, "asked for {}, got {max}", OPTIONS.max_inline);
    let write = Operation::Write(b.region.remote().at(0));
    let request = |length| SendRequest::new(0, write, a.id.range(0, length)).inline(true);
    a.region.fill(0, max as usize, 6).unwrap();
    a.qp.post_send(&request(max)).unwrap();
    // Copied when posted: changing the source now must not change what arrives.
    a.region.fill(0, max as usize, 9).unwrap();
    a.done();
    assert_eq!(b.region.load_u8(max as usize - 1).unwrap(), 6);
    let text = a.qp.post_send(&request(max + 1)).unwrap_err().to_string();
    assert!(text.contains(&format!("takes {max}")), "{text}");
}

#[test]
fn more_inline_than_the_device_has_gives_the_most_it_has() {
    let Some(_guard) = shared() else { return };
    let (context, _) = device();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_completion_queue(16).unwrap();
    let wish = 1 << 20;
    let options = QueuePairOptions { max_inline: wish, ..OPTIONS };
    let got = pd.create_queue_pair(&cq, &cq, &options).unwrap().capabilities().max_inline;
    assert!(got < wish, "{got}");
    // The amount it got can be had by asking for it.
    let options = QueuePairOptions { max_inline: got, ..OPTIONS };
    let again = pd.create_queue_pair(&cq, &cq, &options).unwrap().capabilities().max_inline;
    assert!(again >= got, "{again} after {got}");
}

#[test]
fn a_message_longer_than_many_packets_arrives_whole() {
    let Some(_guard) = shared() else { return };
    let Pair { mut a, b, port, .. } = Pair::new();
    let length = (1 << 20).min(port.max_message as usize);
    let pd = a.qp.protection_domain();
    let source = pd.register(length, Access::LOCAL_READ).unwrap();
    let target = pd.register(length, Access::REMOTE_WRITE).unwrap();
    let from = a.qp.attach(&source).unwrap();
    let bytes: Vec<u8> = (0..length).map(|i| (i * 7 % 251) as u8).collect();
    source.copy_in(0, &bytes).unwrap();
    let write = Operation::Write(target.remote().at(0));
    a.qp.post_send(&SendRequest::new(0, write, from.range(0, length as u32))).unwrap();
    a.done();
    let mut out = vec![0; length];
    target.copy_out(0, &mut out).unwrap();
    assert!(out == bytes);
    drop(b);
}

#[test]
fn counters_move_by_what_was_sent() {
    let Some(_guard) = alone() else { return };
    let Pair { a, b, port, .. } = Pair::new();
    let read = || {
        let counters = Counters::read(&Sysfs::default(), &port.device, port.number);
        std::thread::sleep(counters.refresh);
        Counters::read(&Sysfs::default(), &port.device, port.number)
    };
    let before = read();
    for _ in 0..100 {
        let write = Operation::Write(b.region.remote().at(0));
        a.qp.post_send(&SendRequest::new(0, write, a.id.range(0, 8))).unwrap();
        a.done();
    }
    let traffic = read().since(&before).traffic();
    assert!(traffic.sent_packets.is_some_and(|packets| packets >= 100), "{traffic:?}");
    assert!(traffic.received_packets.is_some_and(|packets| packets >= 100), "{traffic:?}");
}
