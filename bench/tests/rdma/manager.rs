//! Connected by the RDMA connection manager (`-R`): both ends in this namespace, since the kernel
//! finds a device by the address of its interface, which `peer` does not have.

use std::{net::SocketAddr, process::Command, thread};

use fabricbench::{
    plan::{Cell, Pattern, Payload, Service, VerbsName, VerbsOperation},
    transport::{
        Answer, Completed, Initiator as _, Opening as _, Operation, Patience, Responder as _,
        SliceKey, StopReason, StopSignal, VerbsSettings,
        verbs::{ManagedResponder, Pair, PairPlan, Ping, VerbsOpening, VerbsPort},
    },
};
use fabricbench_verbs::{ConnectOptions, QueuePairOptions, cm};

use crate::{
    document::{measured, without_figures},
    pair::{Resources, device, local_server, run},
    process::PATIENCE,
};

#[test]
fn connections_carry_every_message_and_say_how_they_were_made() {
    let Some(_device) = device() else { return };
    let server = local_server();
    let transports = "verbs-write,verbs-send,verbs-read,verbs-fetch-add,verbs-ud-send";
    for options in [
        "-s 64,4K -n 40 --rounds 2",
        "-s 64 -n 90 -q 3 -t 8 -m 1024 -r 8",
        "-s 64 -n 90 -q 2 --threads 2 --post extended -e",
    ] {
        let document = run(&server, &format!("-R --transport {transports} {options}"), 0);
        for cell in document.cells() {
            measured(cell);
            assert_eq!(cell["payload"]["corrupt_messages"], 0);
            assert_eq!(cell["counters"]["proof"]["holds"], true, "{cell}");
            for path in ["path", "peer_path"] {
                assert_eq!(cell[path]["device"], "rxe0");
                let chosen = cell[path]["chosen"].as_str().unwrap();
                assert!(chosen.ends_with("; connected by rdma_cm, device proven"), "{chosen}");
            }
            if options.contains("-m 1024") {
                assert_eq!(cell["path"]["mtu"], 1024);
            }
        }
    }
    // Without it, nothing of the sort is said.
    let document = run(&server, "--transport verbs-write --pattern latency -s 8 -n 4", 0);
    assert!(!document.cells()[0]["path"]["chosen"].to_string().contains("rdma_cm"));
}

#[test]
fn a_gid_that_is_an_ipv6_address_connects_by_it() {
    let Some(_device) = device() else { return };
    let server = local_server();
    let index = gid_index("fd77:0001:0000:0000:0000:0000:0000:0001");
    let options = format!("-R -x {index} --transport verbs-send,verbs-ud-send -s 64 -n 9");
    for cell in run(&server, &options, 0).cells() {
        assert_eq!(cell["path"]["address"], "fd77:1::1");
    }
}

#[test]
fn a_gid_that_others_cannot_reach_is_refused() {
    let Some(_device) = device() else { return };
    let server = local_server();
    let index = gid_index("fe80:0000:0000:0000");
    let options = format!("-R -x {index} --transport verbs-send --pattern latency -s 64 -n 9");
    for cell in run(&server, &options, 4).cells() {
        without_figures(cell, "unsupported", &["rdma_cm (-R)", "rxe0", "10.77.1.1"]);
    }
}

/// The index of the first GID of rxe0 that is written so.
fn gid_index(gid: &str) -> usize {
    let path = "/sys/class/infiniband/rxe0/ports/1/gids";
    let is = |index: &usize| {
        std::fs::read_to_string(format!("{path}/{index}")).is_ok_and(|text| text.starts_with(gid))
    };
    (0..32).find(is).unwrap_or_else(|| panic!("rxe0 has no GID {gid}"))
}

#[test]
fn an_unreliable_connection_is_refused_by_name() {
    let Some(_device) = device() else { return };
    let server = local_server();
    for cell in run(&server, "-R --transport verbs-uc-send -s 64 -n 4", 4).cells() {
        without_figures(cell, "unsupported", &["UC", "rdma_cm (-R)"]);
    }
}

/// Without an address of the device, the connection manager would take another one.
#[test]
fn a_device_without_an_address_is_named() {
    let Some(_device) = device() else { return };
    // In `peer`, rxe0 is there and its interface is not.
    let server = crate::pair::server();
    let options = "-R --transport verbs-write,verbs-ud-send --pattern latency -s 64 -n 4";
    for cell in run(&server, options, 4).cells() {
        without_figures(cell, "failed", &["on the server", "rxe0", "address"]);
    }
}

/// A second device, on eth-a, is not reached from the first one's address.
#[test]
fn a_server_on_another_device_is_an_error_that_names_both() {
    let Some(_device) = device() else { return };
    let second = Second::add();
    let server = local_server();
    let options =
        "-R -d rxe0 --peer-device rxe9 --transport verbs-write --pattern latency -s 64 -n 4";
    let document = run(&server, options, 4);
    let text = document.cells()[0]["reason"].to_string();
    for part in ["resolving the address", "10.77.2.1", "10.77.1.1", "rxe0"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    // The second device itself is as good as the first.
    let options = "-R -d rxe9 --peer-device rxe9 --transport verbs-write,verbs-send -s 64 -n 9";
    for cell in run(&server, options, 0).cells() {
        assert_eq!(
            (&cell["path"]["device"], &cell["peer_path"]["device"]),
            (&"rxe9".into(), &"rxe9".into())
        );
        let chosen = cell["path"]["chosen"].as_str().unwrap();
        assert!(chosen.ends_with("connected by rdma_cm, device proven"), "{chosen}");
    }
    // librdmacm holds the device until the process ends.
    drop(server);
    drop(second);
}

struct Second;

impl Second {
    fn add() -> Self {
        rdma("link add rxe9 type rxe netdev eth-a");
        Self
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        rdma("link delete rxe9");
    }
}

#[track_caller]
fn rdma(arguments: &str) {
    let output = Command::new("rdma").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "rdma {arguments}: {output:?}");
}

#[test]
fn nothing_stays_behind() {
    let Some(_device) = device() else { return };
    let before = Resources::now();
    let server = local_server();
    for _ in 0..3 {
        run(&server, "-R --transport verbs-send,verbs-ud-send -s 64 -n 9 -q 3", 0);
    }
    drop(server);
    before.are_back();
}

/// Whoever asks at the address without the right to is refused, and the client is served after.
#[test]
fn a_stranger_is_refused_and_the_client_served() {
    let Some(_device) = device() else { return };
    let settings = VerbsSettings { manager: true, ..VerbsSettings::default() };
    let port = VerbsPort::open(&settings).unwrap();
    let (transport, size) = ("verbs-send".parse().unwrap(), 64);
    let plan = PairPlan {
        cell: Cell::new(transport, Pattern::Latency, size),
        verbs: VerbsName { service: Service::Rc, operation: VerbsOperation::Send },
        payload: Payload::new(7),
        depth: 1,
        settings: settings.clone(),
        answers: false,
    };
    let (near, far) = (Pair::open(&port, plan.clone()).unwrap(), Pair::open(&port, plan).unwrap());
    let endpoint = far.endpoint();
    let (responder, address, key) = ManagedResponder::listen(far, near.endpoint()).unwrap();
    // Of another slice, and of another place in this one.
    let wrong = [SliceKey::generate().unwrap().0.claim(0), key.0.claim(1)];
    let stop = StopSignal::new();
    thread::scope(|scope| {
        let served = scope.spawn(|| Box::new(responder).serve(&stop));
        for data in [&b""[..], b"let me in", &wrong[0], &wrong[1], &key.0.claim(0)[..16]] {
            let error = stranger(&port, address, data).unwrap_err();
            assert!(error.to_string().contains("REJECTED"), "{error}");
        }
        let opening = VerbsOpening::<Ping<false>>::new(near, settings, stop.clone());
        let mut ping = opening.connect(&Answer::Managed { endpoint, key, address }).unwrap();
        ping.submit(Operation { token: 7 }).unwrap();
        let mut done = Completed::new();
        ping.complete(Patience(PATIENCE), &mut done).unwrap();
        assert_eq!(done.tokens(), [7]);
        stop.give(StopReason::Finished);
        assert_eq!(served.join().unwrap().unwrap().messages, 1);
    });
}

fn stranger(port: &VerbsPort, address: SocketAddr, data: &[u8]) -> fabricbench_verbs::Result<()> {
    let domain = port.context.alloc_pd()?;
    let queue = port.context.create_completion_queue(4)?;
    let queue_pair = domain.create_queue_pair(&queue, &queue, &QueuePairOptions::default())?;
    let options = ConnectOptions::default();
    let route = cm::Route::resolve(&port.context, &port.port, address, &options, PATIENCE)?;
    route.connect(&queue_pair, &options, data, PATIENCE).map(drop)
}
