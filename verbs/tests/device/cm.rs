//! Connecting by the connection manager: by IPv4 and IPv6, refused, unheard, and on the wrong device.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fabricbench_verbs::cm::{
    Connection, DATAGRAM_QKEY, EventCode, Listener, REQUEST_DATA, Request, Route,
};
use fabricbench_verbs::{
    CmError, ConnectOptions, Context, Error, GRH_BYTES, Kind, Operation, Port, ProtectionDomain,
    QueuePairOptions, RecvRequest, RemoteRegion, SendRequest, State, Transport, open,
};

use crate::pair::{End, OPTIONS, PATIENCE, alone, device, everything_allowed, resources, shared};

/// A device and everything that both ends share.
struct Stage {
    context: Context,
    port: Port,
    pd: ProtectionDomain,
}

impl Stage {
    fn new() -> Self {
        let (context, port) = device();
        let pd = context.alloc_pd().unwrap();
        Self { context, port, pd }
    }

    fn end(&self) -> End {
        End::new(&self.context, &self.pd, &OPTIONS)
    }

    fn address(&self, wanted: impl Fn(&SocketAddr) -> bool) -> SocketAddr {
        let addresses = self.context.cm_addresses(&self.port).unwrap();
        *addresses.iter().find(|address| wanted(address)).unwrap_or_else(|| panic!("{addresses:?}"))
    }

    fn listen(&self, address: SocketAddr) -> Listener {
        Listener::bind(&self.context, address, 4).unwrap()
    }

    fn route(&self, to: SocketAddr, options: &ConnectOptions) -> Result<Route, Error> {
        Route::resolve(&self.context, &self.port, to, options, PATIENCE)
    }
}

/// Two ends, connected; the listener's is the first.
struct Connected {
    near: (End, Connection),
    far: (End, Connection),
}

fn connect(stage: &Stage, address: SocketAddr, options: &ConnectOptions) -> Connected {
    let listener = stage.listen(address);
    let to = listener.local_addr().unwrap();
    assert!(to.port() != 0 && to.ip() == address.ip(), "{to}");
    let (near, far) = (stage.end(), stage.end());
    let (told, route) = (near.region.remote(), stage.route(to, options).unwrap());
    route.prepare(&far.qp, options).unwrap();
    assert_eq!(far.qp.state().unwrap(), State::INIT);
    let (near, far) = thread::scope(|scope| {
        let accept = scope.spawn(move || {
            let request: Request = listener.next(PATIENCE).unwrap();
            assert!(request.private_data().starts_with(b"from the far end"));
            assert_eq!(request.peer_addr().map(|peer| peer.ip()), Some(to.ip()));
            request.prepare(&near.qp, options).unwrap();
            near.qp.post_recv(&RecvRequest::new(1, near.id.range(0, 64))).unwrap();
            let accepted = request.accept(&near.qp, options, &told.to_bytes(), PATIENCE).unwrap();
            (near, accepted)
        });
        let connection = route.connect(&far.qp, options, b"from the far end", PATIENCE).unwrap();
        (accept.join().unwrap(), (far, connection))
    });
    Connected { near, far }
}

/// A send, and a write in the other direction to the region told by private data, compared byte by
/// byte; then the end of the connection as both sides see it.
fn exchange_and_part(Connected { near, far }: Connected) {
    let ((near, accepted), (far, connection)) = (near, far);
    assert_eq!(far.qp.state().unwrap(), State::RTS);
    assert_eq!(accepted.peer_addr(), connection.local_addr());
    let bytes: Vec<u8> = (0..64).map(|i| i * 3 + 1).collect();
    let mut out = [0; 64];
    far.region.copy_in(128, &bytes).unwrap();
    far.qp.post_send(&SendRequest::new(2, Operation::Send, far.id.range(128, 64))).unwrap();
    far.done();
    assert_eq!((near.done().id(), near.region.len()), (1, far.region.len()));
    near.region.copy_out(0, &mut out).unwrap();
    assert_eq!(out[..], bytes);

    let target = RemoteRegion::from_bytes(connection.private_data()).unwrap();
    assert_eq!(target, near.region.remote());
    far.region.copy_in(0, &[0x5a; 64]).unwrap();
    let write = Operation::Write(target.at(4096));
    far.qp.post_send(&SendRequest::new(3, write, far.id.range(0, 64))).unwrap();
    far.done();
    near.region.copy_out(4096, &mut out).unwrap();
    assert_eq!(out, [0x5a; 64]);
    // The values asked for were set: a read too is allowed.
    let read = Operation::Read(target.at(4096));
    far.qp.post_send(&SendRequest::new(4, read, far.id.range(512, 64))).unwrap();
    far.done();

    accepted.check().unwrap();
    connection.check().unwrap();
    let parting = thread::spawn(move || connection.disconnect(PATIENCE).unwrap());
    let start = Instant::now();
    let error = loop {
        match accepted.check() {
            Ok(()) => assert!(start.elapsed() < PATIENCE, "the peer's end is not seen"),
            Err(error) => break error,
        }
    };
    assert_eq!(failure(&error), Some(EventCode::DISCONNECTED), "{error}");
    // To have asked is an answer: the peer need not wait for more.
    parting.join().unwrap();
    accepted.disconnect(PATIENCE).unwrap();
}

fn failure(error: &Error) -> Option<EventCode> {
    match error {
        Error::Cm(error) => error.outcome().map(|outcome| outcome.event),
        _ => None,
    }
}

#[test]
fn two_ends_connect_by_ipv4_and_exchange() {
    let Some(_guard) = shared() else { return };
    let stage = Stage::new();
    let address = stage.address(SocketAddr::is_ipv4);
    exchange_and_part(connect(&stage, address, &everything_allowed()));
}

#[test]
fn two_ends_connect_by_ipv6_and_exchange() {
    let Some(_guard) = alone() else { return };
    let stage = Stage::new();
    // A link that has been down has lost its IPv6 address.
    let netdev = stage.port.netdev.clone().unwrap();
    let arguments = ["-6", "address", "replace", "fd77:1::1/64", "dev", &netdev, "nodad"];
    assert!(Command::new("ip").args(arguments).status().unwrap().success());
    let address = stage.address(|address| address.ip().to_string().starts_with("fd77:"));
    exchange_and_part(connect(&stage, address, &everything_allowed()));
}

#[test]
fn the_options_decide_what_the_queue_pair_allows() {
    let Some(_guard) = shared() else { return };
    let stage = Stage::new();
    let options = ConnectOptions {
        access: fabricbench_verbs::Access::LOCAL_WRITE,
        timeout: 10,
        retry: 2,
        traffic_class: 32,
        ..ConnectOptions::default()
    };
    let Connected { near, far } = connect(&stage, stage.address(SocketAddr::is_ipv4), &options);
    let write = Operation::Write(near.0.region.remote().at(0));
    far.0.qp.post_send(&SendRequest::new(1, write, far.0.id.range(0, 8))).unwrap();
    let status = far.0.failure().status;
    assert_ne!(status, fabricbench_verbs::Status::SUCCESS);
    assert_eq!(near.0.region.load_u64(0).unwrap(), 0);
}

/// Connects to a listener that does `refuse` with the request.
fn refused(
    stage: &Stage,
    listener: Listener,
    refuse: impl FnOnce(Request) + Send,
) -> (Listener, Error) {
    let (options, end) = (everything_allowed(), stage.end());
    let route = stage.route(listener.local_addr().unwrap(), &options).unwrap();
    thread::scope(|scope| {
        let listening = scope.spawn(move || {
            refuse(listener.next(PATIENCE).unwrap());
            listener
        });
        let error = route.connect(&end.qp, &options, &[], PATIENCE).unwrap_err();
        (listening.join().unwrap(), error)
    })
}

#[test]
fn a_refusal_carries_its_reason() {
    let Some(_guard) = shared() else { return };
    let stage = Stage::new();
    let listener = stage.listen(stage.address(SocketAddr::is_ipv4));
    let (listener, error) =
        refused(&stage, listener, |request| request.reject(b"too many already").unwrap());
    let text = error.to_string();
    assert!(text.starts_with("connecting of 10.77.1.1:"), "{text}");
    assert!(text.contains("REJECTED, reason 28: refused by the application"), "{text}");
    let Error::Cm(CmError::Failed { outcome, private_data, .. }) = error else {
        panic!("{text}");
    };
    assert!(outcome.refused_by_peer() && private_data.starts_with(b"too many already"));
    // A request that is dropped is refused as well: nobody waits for an answer that never comes.
    let (_, error) = refused(&stage, listener, drop);
    assert_eq!(failure(&error), Some(EventCode::REJECTED), "{error}");
}

#[test]
fn nobody_listening_is_told_at_once() {
    let Some(_guard) = shared() else { return };
    let stage = Stage::new();
    let address = stage.address(SocketAddr::is_ipv4);
    // A port that was free just now.
    let free = stage.listen(address).local_addr().unwrap();
    let (options, far, start) = (everything_allowed(), stage.end(), Instant::now());
    let route = stage.route(free, &options).unwrap();
    let error = route.connect(&far.qp, &options, &[], PATIENCE).unwrap_err();
    assert!(error.to_string().contains("nobody listens there: start the peer first"), "{error}");
    assert!(start.elapsed() < PATIENCE / 2);
}

#[test]
fn silence_ends_at_the_deadline() {
    let Some(_guard) = shared() else { return };
    let stage = Stage::new();
    let listener = stage.listen(stage.address(SocketAddr::is_ipv4));
    let patience = Duration::from_millis(300);
    let start = Instant::now();
    let error = listener.next(patience).unwrap_err();
    assert!(matches!(&error, Error::Cm(error) if error.is_time_out()), "{error}");
    assert!(error.to_string().contains("nothing heard in 300ms; no peer has asked"), "{error}");
    // A listener that nobody serves: the request is taken and never answered.
    let (options, far) = (everything_allowed(), stage.end());
    let route = stage.route(listener.local_addr().unwrap(), &options).unwrap();
    let error = route.connect(&far.qp, &options, &[], patience).unwrap_err();
    assert!(matches!(&error, Error::Cm(error) if error.is_time_out()), "{error}");
    // An address in the network that nobody has.
    let nobody = SocketAddr::new("10.77.1.250".parse().unwrap(), 7);
    let error = Route::resolve(&stage.context, &stage.port, nobody, &options, patience);
    let text = error.map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("10.77.1.250:7 over") && text.contains("ping it from this"), "{text}");
    assert!(start.elapsed() < PATIENCE / 2);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let Some(_guard) = shared() else { return };
    let stage = Stage::new();
    let address = stage.address(SocketAddr::is_ipv4);
    let bind = |address| Listener::bind(&stage.context, address, 4).map(|_| ()).unwrap_err();
    let text = bind("192.0.2.1:0".parse().unwrap()).to_string();
    assert!(text.starts_with("rdma_bind_addr for 192.0.2.1:0 failed: "), "{text}");
    let listener = stage.listen(address);
    let taken = bind(listener.local_addr().unwrap()).to_string();
    assert!(taken.contains("another program has this port"), "{taken}");
    let text = bind("0.0.0.0:0".parse().unwrap()).to_string();
    assert!(text.contains("belongs to RDMA device none (all of them)"), "{text}");
    // An interface whose addresses are of the other family only, as far as the peer's is concerned.
    let (options, far) = (everything_allowed(), stage.end());
    let from: SocketAddr = address;
    let to: SocketAddr = "[fd77:1::2]:7".parse().unwrap();
    let mixed = Route::resolve_from(&stage.context, from, to, &options, PATIENCE);
    let text = mixed.map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("family"), "{text}");
    let route = stage.route(listener.local_addr().unwrap(), &options).unwrap();
    let error = route.connect(&far.qp, &options, &[0; REQUEST_DATA + 1], PATIENCE).unwrap_err();
    assert!(error.to_string().contains("57 bytes of private data"), "{error}");
}

const UD: QueuePairOptions =
    QueuePairOptions { transport: Transport::UnreliableDatagram, ..OPTIONS };

#[test]
fn a_receiver_of_datagrams_is_found_and_reached() {
    let Some(_guard) = shared() else { return };
    let stage = Stage::new();
    let options = ConnectOptions { qkey: DATAGRAM_QKEY, ..everything_allowed() };
    let end = || {
        let end = End::new(&stage.context, &stage.pd, &UD);
        end.qp.activate(&stage.port, 5, &options).unwrap();
        end
    };
    let (receiver, mut sender) = (end(), end());
    let address = stage.address(SocketAddr::is_ipv4);
    let listener = Listener::bind_datagram(&stage.context, address, 4).unwrap();
    let to = listener.local_addr().unwrap();
    let route =
        || Route::resolve_datagram(&stage.context, &stage.port, to, &options, PATIENCE).unwrap();
    let room = u32::try_from(GRH_BYTES).unwrap() + 64;
    receiver.qp.post_recv(&RecvRequest::new(1, receiver.id.range(0, room))).unwrap();
    let found = route();
    let (peer, listener, receiver) = thread::scope(|scope| {
        let answering = scope.spawn(move || {
            let request = listener.next(PATIENCE).unwrap();
            assert!(request.private_data().starts_with(b"who"));
            request.answer(&receiver.qp, b"me").unwrap();
            (listener, receiver)
        });
        let peer = found.ask(&sender.qp, &stage.port, b"who", PATIENCE).unwrap();
        let (listener, receiver) = answering.join().unwrap();
        (peer, listener, receiver)
    });
    assert_eq!((peer.endpoint.qpn, peer.qkey), (receiver.qp.number(), DATAGRAM_QKEY));
    assert!(peer.private_data.starts_with(b"me"));
    let gid = stage.context.choose_gid(stage.port.number, Some(peer.gid_index)).unwrap();
    let way = stage.pd.create_address_handle(&stage.port, &gid, &peer.endpoint, &options).unwrap();
    let id = sender.qp.attach_peer(&way, peer.endpoint.qpn, peer.qkey).unwrap();
    sender.region.copy_in(0, &[0x6b; 64]).unwrap();
    let request = SendRequest::new(2, Operation::Send, sender.id.range(0, 64)).to(id);
    sender.qp.post_send(&request).unwrap();
    sender.done();
    assert_eq!(receiver.done().byte_len(), room);
    let mut out = [0; 64];
    receiver.region.copy_out(GRH_BYTES, &mut out).unwrap();
    assert_eq!(out, [0x6b; 64]);

    // Refused, by the program, by the wrong Q_Key and the wrong kind of queue pair.
    let (found, connected) = (route(), stage.end());
    let other = End::new(&stage.context, &stage.pd, &UD);
    other.qp.activate(&stage.port, 5, &everything_allowed()).unwrap();
    let error = thread::scope(|scope| {
        scope.spawn(move || {
            let request = listener.next(PATIENCE).unwrap();
            let error = request.answer(&other.qp, &[]).unwrap_err();
            assert!(
                error.to_string().contains("activate the queue pair with 0x1234567"),
                "{error}"
            );
        });
        found.ask(&sender.qp, &stage.port, &[], PATIENCE).unwrap_err()
    });
    assert_eq!(failure(&error), Some(EventCode::UNREACHABLE), "{error}");
    let found = route();
    let error = found.ask(&connected.qp, &stage.port, &[], PATIENCE).unwrap_err();
    assert!(error.to_string().contains("a RC queue pair where"), "{error}");
    // The listener is gone.
    let error = route().ask(&sender.qp, &stage.port, &[], PATIENCE).unwrap_err();
    assert!(error.to_string().contains("nobody listens there"), "{error}");
}

#[test]
fn an_address_of_another_device_is_refused_with_both_names() {
    const INSIDE: &str = "FABRICBENCH_TEST_OTHER_DEVICE";
    let test = "cm::an_address_of_another_device_is_refused_with_both_names";
    if let Some(name) = std::env::var_os(INSIDE) {
        // A process of its own: librdmacm keeps the other device open as long as it lives.
        let (context, port) = open(name.to_str(), None).unwrap();
        let address: SocketAddr = "10.77.2.1:0".parse().unwrap();
        let error = Listener::bind(&context, address, 1).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Cm(CmError::OtherDevice { .. })), "{text}");
        assert!(
            text.contains(&format!(
                "10.77.2.1:0 belongs to RDMA device rxe-b, not to {}",
                port.device
            )),
            "{text}"
        );
        let options = everything_allowed();
        let to: SocketAddr = "10.77.2.1:7".parse().unwrap();
        let error = Route::resolve_from(&context, address, to, &options, PATIENCE).unwrap_err();
        assert!(matches!(error, Error::Cm(CmError::OtherDevice { .. })), "{error}");
        return;
    }
    let Some(_guard) = alone() else { return };
    let (context, port) = device();
    if port.kind != Kind::SoftRoce {
        eprintln!("skipped: only done beside a soft-RoCE device");
        return;
    }
    let rdma = |arguments: &[&str]| {
        let status = Command::new("rdma").args(arguments).status().unwrap();
        assert!(status.success(), "rdma {arguments:?}");
    };
    rdma(&["link", "add", "rxe-b", "type", "rxe", "netdev", "eth-a"]);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(INSIDE, context.name())
        .output()
        .unwrap();
    rdma(&["link", "delete", "rxe-b"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn connecting_again_and_again_by_the_manager_leaves_nothing_behind() {
    let Some(_guard) = alone() else { return };
    let stage = Stage::new();
    let address = stage.address(SocketAddr::is_ipv4);
    let options = everything_allowed();
    // librdmacm opens the device at its first use and keeps it.
    drop(connect(&stage, address, &options));
    settle();
    let before = resources();
    for round in 0..100 {
        let Connected { near, far } = connect(&stage, address, &options);
        assert_ne!(resources(), before, "the count does not see what is there");
        // In turn: dropped as it is, or parted in good order, from either end.
        let ((near, accepted), (far, connection)) = (near, far);
        match round % 4 {
            0 => drop((accepted, connection)),
            1 => drop((connection, accepted)),
            2 => {
                drop(connection);
                accepted.disconnect(PATIENCE).unwrap();
            }
            _ => thread::scope(|scope| {
                scope.spawn(move || accepted.disconnect(PATIENCE).unwrap());
                connection.disconnect(PATIENCE).unwrap();
            }),
        }
        drop((near, far));
    }
    settle();
    assert_eq!(resources(), before);
}

/// The kernel frees a connection's own objects a moment after it is closed.
fn settle() {
    thread::sleep(Duration::from_millis(200));
}
