//! What the kernel says of real interfaces: loopback, and, where the tests may make network
//! namespaces, veth pairs and an emulated IPoIB link. Without root the latter say why they
//! skip, and fail if FABRICBENCH_DEVICE_TESTS=1 asks for them.

#![allow(clippy::unwrap_used)] // Clippy takes only functions marked as tests for tests.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use fabricbench_emulated_ipoib::{End, LARGEST_MTU, Link, Namespace};
use fabricbench_ipoib::{
    Backing, Counters, Error, Interface, Kind, PathName, PathProof, Switch, advice, choose,
    interfaces, route, setups, tcp_buffers,
};

const PAYLOAD: usize = 300_000;
/// Against hanging: nothing here takes longer unless it is stuck.
const PATIENCE: Duration = Duration::from_secs(20);

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Sends [`PAYLOAD`] from the address `source` of the calling thread's namespace to
/// `destination`, where `listener` listens.
fn send(source: IpAddr, listener: &TcpListener) {
    let to = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip(), source);
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            assert_eq!(received.len(), PAYLOAD);
        });
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        stream.write_all(&[7; PAYLOAD]).unwrap();
    });
}

/// Two hosts of a cluster, each a namespace: `eth0` is a veth pair (10.1.0.0/24), `ib0` an
/// emulated IPoIB link (10.2.0.0/24), `idle` a veth pair without an address.
struct Cluster {
    here: Namespace,
    there: Namespace,
    link: Link,
}

impl Cluster {
    /// `None` where the test may not make one, and need not.
    fn new() -> Option<Self> {
        Self::make()
            .inspect_err(|error| {
                let demanded =
                    std::env::var("FABRICBENCH_DEVICE_TESTS").is_ok_and(|value| value == "1");
                assert!(!demanded, "FABRICBENCH_DEVICE_TESTS=1, but {error}");
                eprintln!("skipped: {error}");
            })
            .ok()
    }

    fn make() -> Result<Self, fabricbench_emulated_ipoib::Error> {
        let (here, there) = (Namespace::new()?, Namespace::new()?);
        let end = |namespace, address: &str| End {
            name: "ib0".to_owned(),
            namespace: Some(namespace),
            addresses: vec![address.parse().unwrap()],
        };
        let (mine, peers) = (end(&here, "10.2.0.1/24"), end(&there, "10.2.0.2/24"));
        let link = Link::up(&mine, &peers, LARGEST_MTU, |_| {})?;
        let peer = there.path();
        here.within(|| {
            for name in ["eth0", "idle"] {
                let peer = peer.display();
                ip(&format!("link add {name} type veth peer name {name} netns {peer}"));
                ip(&format!("link set {name} up"));
            }
            ip("address add 10.1.0.1/24 dev eth0");
        })?;
        there.within(|| {
            ip("link set eth0 up");
            ip("link set idle up");
            ip("address add 10.1.0.2/24 dev eth0");
        })?;
        Ok(Self { here, there, link })
    }

    /// A listener on an address of the other host.
    fn listener(&self, ip: &str) -> TcpListener {
        let to = SocketAddr::new(address(ip), 0);
        self.there.within(|| TcpListener::bind(to)).unwrap().unwrap()
    }
}

fn named<'a>(interfaces: &'a [Interface], name: &str) -> &'a Interface {
    interfaces.iter().find(|interface| interface.name == name).unwrap()
}

#[test]
fn loopback_is_found_routed_and_proved() {
    let here = interfaces().unwrap();
    let lo = here.iter().find(|interface| interface.kind == Kind::Loopback).unwrap();
    assert!(lo.addresses.iter().any(|address| address.ip == Ipv4Addr::LOCALHOST));

    let path = choose(&here, &here, &PathName::Loopback, None).unwrap();
    let route = route::check(&path).unwrap();
    assert!(route.local && route.interface == lo.name, "{route:?}");

    let listener = TcpListener::bind(path.remote_socket_addr(0)).unwrap();
    let proof = PathProof::begin(&path.local_interface, Some(path.remote_addr)).unwrap();
    send(path.local_addr, &listener);
    let verdict = proof.finish(PAYLOAD as u64, PAYLOAD as u64).unwrap();
    assert!(verdict.holds, "{}", verdict.text);
    assert!(verdict.tx_delta >= PAYLOAD as u64);
}

#[test]
fn an_interface_that_is_not_there_is_named_with_those_that_are() {
    let error = Counters::read("fabricbench9").unwrap_err();
    assert!(matches!(&error, Error::NoInterface { .. }));
    let text = error.to_string();
    assert!(text.contains("fabricbench9") && text.contains("it has lo"), "{text}");
    for name in ["", "lo\0", "fabricbench-is-too-long", &"lo".repeat(70_000)] {
        let error = Counters::read(name).unwrap_err();
        assert!(matches!(&error, Error::NoInterface { .. }), "{error}");
    }
    let error = route::lookup(address("127.0.0.1"), None, Some("fabricbench9")).unwrap_err();
    assert!(matches!(&error, Error::NoInterface { .. }), "{error}");
}

#[test]
fn interfaces_are_those_of_the_threads_namespace() {
    let Some(cluster) = Cluster::new() else { return };
    let here = cluster.here.within(interfaces).unwrap().unwrap();
    let names: Vec<_> = here.iter().map(|interface| interface.name.as_str()).collect();
    // The namespace was entered without a sysfs of its own, which so shows the host's.
    assert_eq!(names, ["lo", "ib0", "eth0", "idle"]);

    let ib0 = named(&here, "ib0");
    assert!(matches!(&ib0.kind, Kind::Ipoib(ipoib) if ipoib.parent.is_none()));
    assert!(ib0.is_up() && ib0.is_emulated());
    assert_eq!((ib0.mtu, ib0.speed_mbps), (LARGEST_MTU, None));
    assert_eq!(ib0.addresses[0].to_string(), "10.2.0.1/24");

    let eth0 = named(&here, "eth0");
    assert_eq!(eth0.kind, Kind::Ethernet);
    assert_eq!(eth0.backing, Backing::Virtual { kind: "veth".to_owned() });
    assert_eq!(eth0.speed_mbps, None, "veth states a speed that it does not have");
}

#[test]
fn each_path_is_chosen_routed_and_proved_by_its_interface_alone() {
    let Some(cluster) = Cluster::new() else { return };
    let there = cluster.there.within(interfaces).unwrap().unwrap();
    for (path, interface, other) in
        [(PathName::Ipoib, "ib0", "eth0"), (PathName::Ethernet, "eth0", "ib0")]
    {
        let measure = || {
            let here = interfaces().unwrap();
            let choice = choose(&here, &there, &path, Some(address("10.1.0.2"))).unwrap();
            assert_eq!(choice.local_interface, interface);
            assert_eq!(choice.emulated, interface == "ib0");
            let route = route::check(&choice).unwrap();
            assert_eq!((route.gateway, route.local), (None, false));

            let listener = cluster.listener(&choice.remote_addr.to_string());
            let proof = PathProof::begin(interface, Some(choice.remote_addr)).unwrap();
            let wrong = PathProof::begin(other, Some(choice.remote_addr)).unwrap();
            send(choice.local_addr, &listener);

            let verdict = proof.finish(PAYLOAD as u64, 0).unwrap();
            assert!(verdict.holds, "{}", verdict.text);
            let verdict = wrong.finish(PAYLOAD as u64, 0).unwrap();
            assert!(!verdict.holds, "{}", verdict.text);
            let reason = format!("the route to {} is by {interface}", choice.remote_addr);
            assert!(verdict.text.contains(&reason), "{}", verdict.text);
        };
        cluster.here.within(measure).unwrap();
    }
}

#[test]
fn an_address_of_ib0_that_is_reached_through_eth0_is_found_before_and_after() {
    let Some(cluster) = Cluster::new() else { return };
    let there = cluster.there.within(interfaces).unwrap().unwrap();
    let measure = || {
        let here = interfaces().unwrap();
        let choice = choose(&here, &there, &PathName::Ipoib, None).unwrap();
        ip("route add 10.2.0.2/32 via 10.1.0.2 dev eth0");
        let error = route::check(&choice).unwrap_err().to_string();
        let expected = "from 10.2.0.1 on ib0 to 10.2.0.2 by eth0 through 10.1.0.2";
        assert!(error.contains(expected), "{error}");

        let listener = cluster.listener("10.2.0.2");
        let proof = PathProof::begin("ib0", Some(choice.remote_addr)).unwrap();
        send(address("10.1.0.1"), &listener);
        let verdict = proof.finish(PAYLOAD as u64, 0).unwrap();
        assert!(!verdict.holds);
        assert!(verdict.text.starts_with("row says ib0, but ib0 sent "), "{}", verdict.text);
        assert!(verdict.text.ends_with("(the route to 10.2.0.2 is by eth0)"), "{}", verdict.text);
    };
    cluster.here.within(measure).unwrap();
}

#[test]
fn destinations_without_a_way_say_what_to_do() {
    let Some(cluster) = Cluster::new() else { return };
    let text = |to: &str, from: Option<&str>, by: Option<&str>| {
        let lookup = || route::lookup(address(to), from.map(address), by);
        cluster.here.within(lookup).unwrap().unwrap_err().to_string()
    };
    assert!(text("192.0.2.1", None, None).contains("ip route add"));
    assert!(text("fd99::1", None, None).contains("ip route add"));
    let foreign = text("10.1.0.2", Some("192.0.2.7"), None);
    assert!(foreign.contains("from 192.0.2.7") && foreign.contains("no address of this host"));

    let bound = || route::lookup(address("10.1.0.2"), None, Some("ib0")).unwrap();
    assert_eq!(cluster.here.within(bound).unwrap().interface, "ib0");
    let own = || route::lookup(address("10.1.0.1"), None, None).unwrap();
    assert!(cluster.here.within(own).unwrap().local);
}

#[test]
fn counters_that_lag_are_waited_for() {
    let Some(cluster) = Cluster::new() else { return };
    let measure = || {
        let listener = cluster.listener("10.2.0.2");
        let proof = PathProof::begin("ib0", None).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(150));
                send(address("10.2.0.1"), &listener);
            });
            let verdict = proof.finish(PAYLOAD as u64, 0).unwrap();
            assert!(verdict.holds, "{}", verdict.text);
        });
    };
    cluster.here.within(measure).unwrap();
}

#[test]
fn an_interface_that_goes_away_or_is_replaced_is_an_error() {
    let Some(cluster) = Cluster::new() else { return };
    let Cluster { here, link, there: _there } = cluster;
    let begin = || PathProof::begin("ib0", None);
    let proof = here.within(begin).unwrap().unwrap();
    drop(link);
    let error = here.within(|| proof.finish(1, 1)).unwrap().unwrap_err();
    assert!(matches!(&error, Error::Vanished { name } if name == "ib0"), "{error}");

    here.within(|| ip("link add ib0 type veth peer name other")).unwrap();
    let error = here.within(|| proof.finish(0, 0)).unwrap().unwrap_err();
    assert!(matches!(error, Error::Vanished { .. }), "{error}");
}

#[test]
fn an_interface_that_is_down_or_has_no_address_makes_no_path() {
    let Some(cluster) = Cluster::new() else { return };
    let there = cluster.there.within(interfaces).unwrap().unwrap();
    let refusal = |path: PathName| {
        let choose = || choose(&interfaces().unwrap(), &there, &path, None);
        cluster.here.within(choose).unwrap().unwrap_err().to_string()
    };
    let idle = refusal(PathName::Named("idle".to_owned()));
    assert!(idle.contains("ip address add ADDRESS/PREFIX dev idle here"), "{idle}");
    cluster.here.within(|| ip("link set ib0 down")).unwrap();
    let down = refusal(PathName::Ipoib);
    assert!(down.contains("ip link set ib0 up here"), "{down}");
}

/// What sysfs tells of the host's own interfaces, as this process sees them.
#[test]
fn the_setup_of_this_hosts_interfaces_is_read() {
    let (here, setups) = (interfaces().unwrap(), setups().unwrap());
    let names = |interfaces: &[Interface]| {
        interfaces.iter().map(|interface| interface.name.clone()).collect::<Vec<_>>()
    };
    let of: Vec<_> = setups.iter().map(|setup| setup.interface.clone()).collect();
    assert_eq!(of, names(&here));
    for (interface, setup) in here.iter().zip(&setups) {
        assert!(!setup.near.is_empty(), "{setup:?}");
        if interface.kind == Kind::Loopback {
            assert_eq!((setup.receive_queues.len(), setup.transmit_queues.len()), (1, 1));
            assert_eq!(advice(interface, Some(setup)), []);
        }
    }
    let buffers = tcp_buffers(Path::new("/"));
    assert!(buffers.receive_window() > Some(0) && buffers.send > Some(0), "{buffers:?}");
}

/// The namespace was entered without a sysfs of its own: what netlink tells is there, and what the
/// host's sysfs would tell is not taken for it.
#[test]
fn the_setup_of_an_emulated_link_is_told_by_netlink_alone() {
    let Some(cluster) = Cluster::new() else { return };
    let (here, setups) =
        cluster.here.within(|| (interfaces().unwrap(), setups().unwrap())).unwrap();
    for name in ["ib0", "eth0"] {
        let setup = setups.iter().find(|setup| setup.interface == name).unwrap();
        assert!(setup.receive_queues.is_empty() && setup.interrupts.is_empty(), "{setup:?}");
        assert_eq!(advice(named(&here, name), Some(setup)), []);
    }
    let eth0 = setups.iter().find(|setup| setup.interface == "eth0").unwrap();
    // Where the kernel has ethtool by netlink: Linux 5.6 and later.
    if let Some(offloads) = &eth0.offloads {
        assert_eq!(offloads.generic_segmentation, Switch::On, "{offloads:?}");
    }
}
