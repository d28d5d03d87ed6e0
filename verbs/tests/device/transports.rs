//! Every transport with every operation: the bytes arrive, or the request is refused by name.

use std::time::Instant;

use fabricbench_verbs::{
    GRH_BYTES, Opcode, Operation, OperationKind, PostFailure, RecvRequest, RemoteAddr, SendRequest,
    Transport,
};

use crate::pair::{End, PATIENCE, Pair, device, shared};

/// Where things lie in both regions.
const SOURCE: usize = 0;
const TARGET: usize = 16 * 1024;
const WORD: usize = 48 * 1024;
const IMMEDIATE: u32 = 0xfeed_0001;

fn operation(kind: OperationKind, remote: impl Fn(usize) -> RemoteAddr) -> Operation {
    match kind {
        OperationKind::Send => Operation::Send,
        OperationKind::SendImm => Operation::SendImm(IMMEDIATE),
        OperationKind::Write => Operation::Write(remote(TARGET)),
        OperationKind::WriteImm => Operation::WriteImm(remote(TARGET), IMMEDIATE),
        OperationKind::Read => Operation::Read(remote(TARGET)),
        OperationKind::CompareSwap => {
            Operation::CompareSwap { remote: remote(WORD), compare: 40, swap: 2 }
        }
        OperationKind::FetchAdd => Operation::FetchAdd { remote: remote(WORD), add: 2 },
        other => panic!("a new operation needs its test: {other}"),
    }
}

/// Bytes that no other transfer of this length has.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251 + seed * 31 + 1) as u8).collect()
}

fn bytes_at(end: &End, offset: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    end.region.copy_out(offset, &mut bytes).unwrap();
    bytes
}

fn until_there(end: &End, offset: usize, wanted: &[u8]) {
    let start = Instant::now();
    while bytes_at(end, offset, wanted.len()) != wanted {
        assert!(start.elapsed() < PATIENCE, "the bytes did not arrive");
    }
}

/// Carries `length` bytes from `from` to `to` (or the other way, by a read), and checks them.
fn transfer(from: &End, to: &End, kind: OperationKind, length: usize, inline: bool, seed: usize) {
    let transport = from.qp.transport();
    let bytes = pattern(seed, length);
    let header = if transport == Transport::UnreliableDatagram { GRH_BYTES } else { 0 };
    let notified =
        matches!(kind, OperationKind::Send | OperationKind::SendImm | OperationKind::WriteImm);
    let (source, target) = if kind == OperationKind::Read { (to, from) } else { (from, to) };
    let (sent_from, arrives_at) =
        if kind == OperationKind::Read { (TARGET, SOURCE) } else { (SOURCE, TARGET + header) };
    source.region.copy_in(sent_from, &bytes).unwrap();
    target.region.fill(arrives_at, length.max(1), 0).unwrap();
    if notified {
        let room = to.id.range(TARGET, (header + length) as u32);
        to.qp.post_recv(&RecvRequest::new(seed as u64, room)).unwrap();
    }
    let remote = to.region.remote();
    let operation = operation(kind, |offset| remote.at(offset as u64));
    let local = from.id.range(SOURCE, length as u32);
    from.qp.post_send(&from.request(1000, operation, local).inline(inline)).unwrap();
    assert_eq!(from.done().id(), 1000);
    if notified {
        let got = to.done();
        assert_eq!((got.id(), got.queue_pair()), (seed as u64, to.qp.number()));
        let immediate = (kind != OperationKind::Send).then_some(IMMEDIATE);
        assert_eq!(got.immediate(), immediate);
        if kind == OperationKind::WriteImm {
            assert_eq!(got.opcode(), Opcode::RECV_WRITE_IMM);
        } else {
            assert_eq!((got.opcode(), got.byte_len()), (Opcode::RECV, (header + length) as u32));
        }
        if transport == Transport::UnreliableDatagram {
            assert_eq!(got.source_queue_pair(), from.qp.number());
        }
        assert!(bytes_at(target, arrives_at, length) == bytes, "{transport} {kind} of {length}");
    } else {
        // An unreliable write is complete when it is sent.
        until_there(target, arrives_at, &bytes);
    }
}

/// Atomics are told by both values of the word, before and after.
fn atomic(from: &End, to: &End, kind: OperationKind) {
    to.region.store_u64(WORD, 40).unwrap();
    from.region.store_u64(SOURCE, 0).unwrap();
    let remote = to.region.remote();
    let operation = operation(kind, |offset| remote.at(offset as u64));
    from.qp.post_send(&from.request(1, operation, from.id.range(SOURCE, 8))).unwrap();
    from.done();
    assert_eq!(from.region.load_u64(SOURCE).unwrap(), 40, "{kind}: the value before");
    let after = if kind == OperationKind::FetchAdd { 42 } else { 2 };
    assert_eq!(to.region.load_u64(WORD).unwrap(), after, "{kind}: the value after");
}

#[test]
fn every_pair_of_transport_and_operation_moves_bytes_or_is_refused_by_name() {
    let Some(_guard) = shared() else { return };
    let atomics = device().0.limits().atomics;
    let mut moved = 0;
    for transport in Transport::ALL {
        for kind in OperationKind::ALL {
            let Pair { a, b, port } = Pair::by(transport);
            if !transport.supports(kind) {
                refused(&a, &b, kind);
                continue;
            }
            moved += 1;
            if matches!(kind, OperationKind::CompareSwap | OperationKind::FetchAdd) {
                if atomics {
                    atomic(&a, &b, kind);
                    atomic(&b, &a, kind);
                }
                continue;
            }
            // Of one packet, just more than one where that can be, and no bytes at all.
            let mtu = port.active_mtu.unwrap().bytes() as usize;
            let longest = if transport.is_connected() { 3 * mtu + 1 } else { mtu };
            for (seed, length) in [1, 200, mtu, longest, 0].into_iter().enumerate() {
                transfer(&a, &b, kind, length, false, seed);
                transfer(&b, &a, kind, length, false, seed + 100);
            }
            if kind != OperationKind::Read {
                transfer(&a, &b, kind, 33, true, 9);
            }
        }
    }
    assert_eq!(moved, 7 + 4 + 2);
}

/// Before the driver sees it, alone and in a list; the queue pair can be used as before.
fn refused(from: &End, to: &End, kind: OperationKind) {
    let transport = from.qp.transport();
    let remote = to.region.remote();
    let operation = operation(kind, |offset| remote.at(offset as u64));
    let request = from.request(1, operation, from.id.range(SOURCE, 8));
    let error = from.qp.post_send(&request).unwrap_err();
    assert_eq!(error.reason, PostFailure::Impossible { operation: kind, transport });
    let text = error.to_string();
    assert!(text.contains(&format!("no {kind} on {transport}")), "{text}");
    let mut list = from.qp.send_list::<2>();
    assert_eq!(from.qp.push_send(&mut list, &request).unwrap_err(), error);
    assert!(list.is_empty());
    transfer(from, to, OperationKind::Send, 64, false, 1);
}

/// What is posted without a receive at the far side is lost: the sender's completion only says
/// that it was sent, and later messages are not held up.
#[test]
fn without_a_receive_an_unreliable_message_is_lost_and_the_next_arrives() {
    let Some(_guard) = shared() else { return };
    for transport in [Transport::UnreliableConnection, Transport::UnreliableDatagram] {
        let Pair { a, b, .. } = Pair::by(transport);
        for round in 0..20 {
            let lost = a.request(round, Operation::SendImm(7), a.id.range(SOURCE, 100));
            a.qp.post_send(&lost).unwrap();
            assert_eq!(a.done().id(), round);
            // Exactly one completion comes, that of the second.
            transfer(&a, &b, OperationKind::SendImm, 100, false, round as usize);
            assert!(b.cq.poll(&mut [Default::default()]).unwrap().is_empty(), "{transport}");
        }
    }
}

#[test]
fn a_peer_that_is_gone_is_no_error_to_an_unreliable_sender() {
    let Some(_guard) = shared() else { return };
    for transport in [Transport::UnreliableConnection, Transport::UnreliableDatagram] {
        let Pair { a, b, .. } = Pair::by(transport);
        drop(b);
        for id in 0..10 {
            a.qp.post_send(&a.request(id, Operation::Send, a.id.range(SOURCE, 100))).unwrap();
            assert_eq!(a.done().id(), id);
        }
    }
}

#[test]
fn a_connected_queue_pair_takes_no_destination() {
    let Some(_guard) = shared() else { return };
    let Pair { a: datagrams, .. } = Pair::by(Transport::UnreliableDatagram);
    for transport in [Transport::ReliableConnection, Transport::UnreliableConnection] {
        let Pair { mut a, .. } = Pair::by(transport);
        let request = SendRequest::new(0, Operation::Send, a.id.range(0, 8));
        let error = a.qp.post_send(&request.to(datagrams.peer.unwrap())).unwrap_err();
        assert_eq!(error.reason, PostFailure::Connected);
        let (context, port) = device();
        let gid = context.choose_gid(port.number, None).unwrap();
        let remote = datagrams.qp.endpoint(&port, &gid, 0);
        let pd = a.qp.protection_domain();
        let handle = pd.create_address_handle(&port, &gid, &remote, &Default::default()).unwrap();
        let text = a.qp.attach_peer(&handle, remote.qpn, 1).unwrap_err().to_string();
        assert!(text.contains(&format!("peers of a {transport} queue pair")), "{text}");
        let text = a.qp.activate(&port, 0, &Default::default()).unwrap_err().to_string();
        assert!(text.contains(&format!("{transport} queue pair ready without a peer")), "{text}");
    }
}
