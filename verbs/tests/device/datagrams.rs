//! Datagrams: destinations, limits, headers.

use fabricbench_verbs::{
    ConnectOptions, Endpoint, Error, GRH_BYTES, Mtu, Operation, PostFailure, QueuePairOptions,
    RecvRequest, SendRequest, Transport, random_psn,
};

use crate::pair::{End, OPTIONS, Pair, device, everything_allowed, shared};

const UD: QueuePairOptions =
    QueuePairOptions { transport: Transport::UnreliableDatagram, ..OPTIONS };

/// Room for a datagram of `length` bytes.
fn room(end: &End, length: usize) -> RecvRequest {
    RecvRequest::new(0, end.id.range(0, (GRH_BYTES + length) as u32))
}

#[test]
fn a_datagram_has_at_most_the_path_mtu() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, port } = Pair::by(Transport::UnreliableDatagram);
    let most = port.active_mtu.unwrap().bytes();
    b.qp.post_recv(&room(&b, most as usize)).unwrap();
    for (length, inline) in [(most + 1, false), (2 * most, false)] {
        let request = a.request(1, Operation::Send, a.id.range(0, length)).inline(inline);
        let error = a.qp.post_send(&request).unwrap_err();
        assert_eq!(error.reason, PostFailure::DatagramTooLong { length, max: most });
        assert!(error.to_string().contains(&format!("carries {most}")), "{error}");
    }
    a.qp.post_send(&a.request(2, Operation::Send, a.id.range(0, most))).unwrap();
    assert_eq!((a.done().id(), b.done().byte_len()), (2, GRH_BYTES as u32 + most));
}

#[test]
fn the_peers_mtu_and_the_callers_limit_a_datagram_too() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    let gid = context.choose_gid(port.number, None).unwrap();
    let pd = context.alloc_pd().unwrap();
    let end = End::new(&context, &pd, &UD);
    let own = end.qp.endpoint(&port, &gid, 0);
    let limit = |remote: &Endpoint, options: &ConnectOptions| {
        pd.create_address_handle(&port, &gid, remote, options).unwrap().path_mtu().bytes()
    };
    let small = Endpoint { path_mtu: 512, ..own };
    assert_eq!(limit(&own, &ConnectOptions::default()), port.active_mtu.unwrap().bytes());
    assert_eq!(limit(&small, &ConnectOptions::default()), 512);
    let asked = ConnectOptions { path_mtu: Mtu::from_bytes(256), ..ConnectOptions::default() };
    assert_eq!(limit(&own, &asked), 256);
}

#[test]
fn one_queue_pair_talks_with_many() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    let gid = context.choose_gid(port.number, None).unwrap();
    let pd = context.alloc_pd().unwrap();
    let options = everything_allowed();
    let mut hub = End::new(&context, &pd, &UD);
    hub.qp.activate(&port, random_psn(), &options).unwrap();
    let own = hub.qp.endpoint(&port, &gid, 0);
    // One way to all of them, since they are on one port.
    let way = pd.create_address_handle(&port, &gid, &own, &options).unwrap();
    let mut others: Vec<End> = (0..5).map(|_| End::new(&context, &pd, &UD)).collect();
    let peers: Vec<_> = others
        .iter_mut()
        .map(|other| {
            other.qp.activate(&port, random_psn(), &options).unwrap();
            other.peer = Some(other.qp.attach_peer(&way, own.qpn, options.qkey).unwrap());
            hub.qp.attach_peer(&way, other.qp.number(), options.qkey).unwrap()
        })
        .collect();
    drop(way);
    // All in one list, each to another.
    let mut list = hub.qp.send_list::<5>();
    for (index, &peer) in peers.iter().enumerate() {
        others[index].qp.post_recv(&room(&others[index], 8)).unwrap();
        hub.region.store_u64(64 * index, 100 + index as u64).unwrap();
        let from = hub.id.range(64 * index, 8);
        let request = SendRequest::new(0, Operation::Send, from).to(peer);
        hub.qp.push_send(&mut list, &request).unwrap();
    }
    hub.qp.post_send_list(&mut list, 0).unwrap();
    for (index, other) in others.iter().enumerate() {
        assert_eq!(other.done().source_queue_pair(), hub.qp.number());
        assert_eq!(other.region.load_u64(GRH_BYTES).unwrap(), 100 + index as u64);
        hub.done();
    }
    // And back, each told by its number.
    for other in &others {
        hub.qp.post_recv(&room(&hub, 8)).unwrap();
        other.qp.post_send(&other.request(0, Operation::Send, other.id.range(0, 8))).unwrap();
        assert_eq!(hub.done().source_queue_pair(), other.qp.number());
    }
}

#[test]
fn the_header_says_where_a_datagram_came_from() {
    let Some(_guard) = shared() else { return };
    let Pair { a, b, .. } = Pair::by(Transport::UnreliableDatagram);
    let (context, port) = device();
    let gid = context.choose_gid(port.number, None).unwrap();
    b.qp.post_recv(&room(&b, 16)).unwrap();
    a.qp.post_send(&a.request(0, Operation::Send, a.id.range(0, 16))).unwrap();
    let got = b.done();
    // Ethernet knows no datagram without one.
    assert!(got.has_grh() || !port.is_ethernet());
    if !got.has_grh() {
        return;
    }
    let mut header = [0; GRH_BYTES];
    b.region.copy_out(0, &mut header).unwrap();
    match gid.entry.gid.ipv4() {
        // The source address of an IPv4 header, which is what the last 20 bytes are.
        Some(address) => {
            assert_eq!((header[20], &header[32..36]), (0x45, &address.octets()[..]));
        }
        None => assert_eq!(header[8..24], gid.entry.gid.0),
    }
}

#[test]
fn another_key_is_not_heard() {
    let Some(_guard) = shared() else { return };
    let Pair { mut a, b, port } = Pair::by(Transport::UnreliableDatagram);
    let (context, _) = device();
    let gid = context.choose_gid(port.number, None).unwrap();
    let (options, remote) = (everything_allowed(), b.qp.endpoint(&port, &gid, 0));
    let pd = a.qp.protection_domain();
    let way = pd.create_address_handle(&port, &gid, &remote, &options).unwrap();
    let stranger = a.qp.attach_peer(&way, remote.qpn, options.qkey ^ 1).unwrap();
    b.qp.post_recv(&room(&b, 8)).unwrap();
    for (id, peer) in [(1, stranger), (2, a.peer.unwrap())] {
        a.region.store_u64(0, id).unwrap();
        a.qp.post_send(&SendRequest::new(id, Operation::Send, a.id.range(0, 8)).to(peer)).unwrap();
        assert_eq!(a.done().id(), id);
    }
    b.done();
    assert_eq!(b.region.load_u64(GRH_BYTES).unwrap(), 2);
}

#[test]
fn destinations_are_checked_before_posting() {
    let Some(_guard) = shared() else { return };
    let Pair { mut a, b, port } = Pair::by(Transport::UnreliableDatagram);
    let request = SendRequest::new(0, Operation::Send, a.id.range(0, 8));
    assert_eq!(a.qp.post_send(&request).unwrap_err().reason, PostFailure::MissingPeer);
    let foreign = a.qp.post_send(&request.to(b.peer.unwrap())).unwrap_err();
    assert_eq!(foreign.reason, PostFailure::UnknownPeer);
    let (context, _) = device();
    let gid = context.choose_gid(port.number, None).unwrap();
    let remote = b.qp.endpoint(&port, &gid, 0);
    let options = everything_allowed();
    let other = context.alloc_pd().unwrap();
    let way = other.create_address_handle(&port, &gid, &remote, &options).unwrap();
    assert!(matches!(a.qp.attach_peer(&way, remote.qpn, 1), Err(Error::Foreign { .. })));
    let text = a.qp.connect(&port, &gid, &remote, &remote, &options).unwrap_err().to_string();
    assert!(text.contains("UD queue pair") && text.contains("attach_peer"), "{text}");
    let privileged = ConnectOptions { qkey: 0x8000_0001, ..options };
    let end = End::new(&context, &other, &UD);
    let text = end.qp.activate(&port, 0, &privileged).unwrap_err().to_string();
    assert!(text.contains("Q_Key"), "{text}");
}
