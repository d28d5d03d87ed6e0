//! What is measured over RDMA: labels, proofs, and that the bytes arrived.

use serde_json::Value;

use crate::{
    document::{Document, proven_by_interface},
    pair::{device, run, server},
};

const PATTERNS: [&str; 2] = ["latency", "bandwidth"];

/// What every row over rxe0 says, on both sides.
#[track_caller]
fn over_rxe(cell: &Value) {
    for path in ["path", "peer_path"] {
        assert_eq!(cell[path]["kind"], "soft-roce");
        assert_eq!(cell[path]["emulated"], true);
        assert_eq!((&cell[path]["device"], &cell[path]["port"]), (&"rxe0".into(), &1.into()));
    }
    // The device is in this namespace, and so are its counters.
    let here = &cell["counters"];
    assert_eq!(here["proof"]["holds"], true, "{here}");
    for packets in ["sent_pkts", "rcvd_pkts"] {
        assert!(here["rdma"][packets].as_u64().unwrap() > 0, "{here}");
    }
    // The server's /sys shows none: no proof, and no failure, but a reason.
    let there = &cell["peer_counters"]["proof"];
    assert!(there["holds"].is_null(), "{there}");
    assert!(there["text"].as_str().unwrap().contains("no traffic counters"), "{there}");
}

#[test]
fn the_transports_of_the_main_job_side_by_side() {
    let Some(_device) = device() else { return };
    let server = server();
    let transports = ["verbs-write", "verbs-send", "grpc@ipoib", "grpc@ethernet"];
    let document = run(&server, "-s 64,64K -n 6 --rounds 2", 0);
    document.all_measured(&transports, &PATTERNS, &[64, 65_536]);
    for cell in document.cells() {
        match cell["transport"].as_str() {
            Some("grpc@ipoib") => {
                proven_by_interface(cell);
                assert_eq!(
                    (&cell["path"]["kind"], &cell["path"]["emulated"]),
                    (&"ipoib".into(), &true.into())
                );
                assert_eq!(cell["path"]["interface"], "ib0");
            }
            Some("grpc@ethernet") => {
                proven_by_interface(cell);
                assert_eq!(cell["path"]["kind"], "ethernet");
                assert_eq!(cell["path"]["backing"], "virtual: veth");
            }
            _ => over_rxe(cell),
        }
    }
    let warnings = document.0["warnings"].to_string();
    if document.0["client"]["virtualization"] == "qemu-tcg" {
        assert!(warnings.contains("emulated machine"), "{warnings}");
    }
}

/// Around the inline limit, the path MTU (4096) and its multiples, and the cache line.
#[test]
fn messages_of_awkward_sizes_arrive_whole() {
    let Some(_device) = device() else { return };
    let server = server();
    let sizes = [1, 2, 3, 63, 64, 65, 4095, 4096, 4097, 1 << 20];
    let list = sizes.map(|size: u64| size.to_string()).join(",");
    let transports = ["verbs-write", "verbs-send"];
    let document = run(
        &server,
        &format!("--transport {} -s {list} -n 3 --rounds 1 --warm-up 2", transports.join(",")),
        0,
    );
    document.all_measured(&transports, &PATTERNS, &sizes);
    document.cells().iter().for_each(over_rxe);
}

fn one<'a>(document: &'a Document, transport: &str, pattern: &str) -> &'a Value {
    document.cell(transport, pattern, document.0["plan"]["sizes"][0].as_u64().unwrap())
}

/// Queues as short as they may be, and signals as rare: every message must still arrive once.
#[test]
fn any_depth_carries_every_message() {
    let Some(_device) = device() else { return };
    let server = server();
    for options in ["-t 1 -Q 1", "-t 3 -Q 100", "-t 64 -r 2", "-t 300 -Q 1 -r 512"] {
        let document = run(
            &server,
            &format!(
                "--transport verbs-write,verbs-send --pattern bandwidth -s 32 -n 700 --rounds 2 \
                 {options}"
            ),
            0,
        );
        for transport in ["verbs-write", "verbs-send"] {
            let cell = one(&document, transport, "bandwidth");
            assert_eq!(cell["settings"]["messages"], 700, "{options}");
            over_rxe(cell);
        }
    }
}

/// Asked of the queue pair, not of a table of devices.
#[test]
fn inline_is_what_the_queue_pair_grants() {
    let Some(_device) = device() else { return };
    let server = server();
    let settings = |options: &str| {
        let options = format!("--transport verbs-write --pattern latency -n 2 {options}");
        let document = run(&server, &options, 0);
        one(&document, "verbs-write", "latency")["settings"]["transport"].clone()
    };
    let small = settings("-s 64");
    assert_eq!(small["inline"], "yes");
    let limit: u64 = small["inline limit, B"].as_str().unwrap().parse().unwrap();
    assert!(limit >= 64);
    assert_eq!(settings(&format!("-s {}", limit + 1))["inline"], "no");
    assert_eq!(settings("-s 64 -I 0")["inline"], "no");
}

#[test]
fn a_path_mtu_that_was_asked_for_is_used_and_shown() {
    let Some(_device) = device() else { return };
    let server = server();
    for (options, mtu) in [("", 4096), ("-m 1024", 1024)] {
        let document =
            run(&server, &format!("--transport verbs-send -s 8K -n 4 --rounds 1 {options}"), 0);
        let cell = one(&document, "verbs-send", "bandwidth");
        assert_eq!((&cell["path"]["mtu"], &cell["peer_path"]["mtu"]), (&mtu.into(), &mtu.into()));
        // 8 KiB take 8 packets of 1024 B, and 2 of 4096 B.
        let messages = cell["settings"]["messages"].as_u64().unwrap()
            + cell["settings"]["warm_up_messages"].as_u64().unwrap();
        let sent = cell["counters"]["rdma"]["sent_pkts"].as_u64().unwrap();
        assert!(sent >= messages * 8192 / mtu, "{sent} packets for {messages} messages");
    }
}

#[test]
fn probe_shows_device_gids_and_what_they_make_possible() {
    let Some(_device) = device() else { return };
    let text = crate::process::run("probe").quietly(0).stdout;
    for part in ["rxe0 port 1", "(emulated)", "<- used", "::ffff:10.77.1.1", "8388608 B"] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    assert!(text.contains("verbs-write, verbs-send         yes"), "{text}");
}

/// One host with one device: what `fabricbench run` without a host measures.
#[test]
fn one_host_measures_through_its_own_device() {
    let Some(_device) = device() else { return };
    let finished = crate::process::run("run -s 64 -n 4 --rounds 1 --format json").quietly(0);
    let document = Document::read(&finished.stdout);
    document.all_measured(&["verbs-write", "verbs-send", "grpc@loopback"], &PATTERNS, &[64]);
    for transport in ["verbs-write", "verbs-send"] {
        // Here the server sees the counters as well.
        let cell = one(&document, transport, "latency");
        assert_eq!(cell["peer_counters"]["proof"]["holds"], true);
    }
}
