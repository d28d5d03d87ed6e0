//! Calls over RDMA, of one server and of parameter servers.

use crate::{
    document::{Document, measured, number, without_figures},
    pair::{Resources, device, run, server},
};

/// Every call was answered, counted and proven, and the first of each connection compared at both ends.
#[track_caller]
fn called(document: &Document, calls_each: u64, connections: u64) {
    for cell in document.cells() {
        measured(cell);
        assert_eq!(cell["latency"]["kind"], "round-trip");
        assert_eq!(cell["latency"]["samples"], cell["settings"]["messages"], "{cell}");
        let payload = &cell["payload"];
        // Of a byte that is written there is the stamp and nothing more.
        let stamped = |bytes: &str| cell["transport"] == "verbs-write" && cell[bytes] == 1;
        let ends = [!stamped("size"), !stamped("reply")];
        let compared = connections * ends.iter().filter(|end| **end).count() as u64;
        let rounds = cell["rounds"].as_array().unwrap().len() as u64;
        assert_eq!(payload["verified_messages"], compared * rounds, "{cell}");
        assert_eq!(payload["corrupt_messages"], 0, "{cell}");
        let messages = ["messages", "warm_up_messages"]
            .map(|name| cell["settings"][name].as_u64().unwrap())
            .iter()
            .sum::<u64>();
        let proof = &cell["counters"]["proof"];
        assert_eq!(proof["holds"], true, "{cell}");
        let moved = |bytes: &str| calls_each * messages * cell[bytes].as_u64().unwrap();
        assert_eq!(proof["payload_tx_bytes"], moved("size"), "{cell}");
        assert_eq!(proof["payload_rx_bytes"], moved("reply"), "{cell}");
    }
}

const EVERY: &str = "verbs-write,verbs-write-imm,verbs-send,verbs-send-imm";

#[test]
fn calls_of_every_operation_are_answered() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = format!("--transport {EVERY} --pattern calls --warm-up 5");
    // More calls than slots and than stamps, in several rounds of both.
    for rest in [
        "-s 1,64,9000 -n 700 -t 2 --rounds 2",
        "-s 1,300 -n 300 -t 16 --reply-size 5000 --rounds 1",
        "-s 1 -n 300 -t 255 --reply-size 8 --rounds 1",
    ] {
        called(&run(&server, &format!("{options} {rest}"), 0), 1, 1);
    }
    for rest in ["-e", "-I 0", "--threads 2"] {
        let connections = if rest.starts_with("--threads") { 2 } else { 1 };
        let rest = format!("-s 64 -n 60 -t 4 --reply-size 64 --rounds 1 {rest}");
        called(&run(&server, &format!("{options} {rest}"), 0), 1, connections);
    }
}

#[test]
fn requests_of_several_buffers_are_gathered() {
    let Some(_device) = device() else { return };
    let server = server();
    for (pattern, servers) in [("calls", 1), ("ps --servers 2", 2)] {
        let options = format!("--transport {EVERY} --pattern {pattern} --buffers 3x9+5000 -n 60");
        let document = run(&server, &format!("{options} -t 3 --rounds 1 --reply-size 9"), 0);
        called(&document, servers, servers);
        for cell in document.cells() {
            let told = &cell["settings"]["transport"]["buffers"];
            assert_eq!(*told, "gathered from 4 by the adapter", "{cell}");
        }
    }
}

#[test]
fn every_worker_calls_every_parameter_server() {
    let Some(_device) = device() else { return };
    let server = server();
    let before = Resources::now();
    let options = format!("--transport {EVERY} --pattern ps --servers 2 --workers 3 --rounds 1");
    for rest in ["-s 64 -n 90", "-s 6000 -n 60 -t 3 --reply-size 300"] {
        let document = run(&server, &format!("{options} {rest} --timeout 30s"), 0);
        called(&document, 2, 6);
        for cell in document.cells() {
            assert_eq!(cell["roles"], serde_json::json!({ "servers": 2, "workers": 3 }));
            assert_eq!(cell["settings"]["transport"]["queue pairs"], "2", "{cell}");
            let seconds = number(&cell["rounds"][0]["elapsed_ns"]) / 1e9;
            let calls = number(&cell["throughput"]["messages_per_s"]) * seconds;
            let steps = number(&cell["settings"]["messages"]);
            assert!((calls - 2.0 * steps).abs() < 1e-6, "{calls} calls: {cell}");
        }
    }
    before.are_back();
}

#[test]
fn parameter_servers_over_verbs_stand_beside_those_over_tcp() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-send,verbs-write,tcp@ethernet --pattern ps --servers 2 --workers 3 \
                   --buffers 10:uniform -n 9 --rounds 1 --timeout 1m";
    for cell in run(&server, options, 0).cells() {
        measured(cell);
        assert!(number(&cell["payload"]["verified_messages"]) >= 6.0, "{cell}");
    }
}

#[test]
fn what_calls_do_not_have_is_told_with_the_option() {
    let Some(_device) = device() else { return };
    let server = server();
    for (options, words) in [
        ("--pattern calls -q 2", &["-q", "--threads"][..]),
        ("--pattern ps -l 4", &["--post-list", "pattern ps"]),
        ("--pattern calls --use-srq", &["--use-srq"]),
        ("--pattern calls -R", &["-R"]),
        ("--pattern calls --split 16", &["--split"]),
        ("--pattern calls --reply-size 9M", &["max_msg_sz", "calls are not split"]),
    ] {
        let options = format!("--transport verbs-send {options} -s 64 -n 8 --rounds 1");
        for cell in run(&server, &options, 4).cells() {
            without_figures(cell, "unsupported", words);
        }
    }
}
