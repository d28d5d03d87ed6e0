//! Workers and parameter servers: every call is made, answered and counted.

use crate::{
    document::{Document, measured, number, proven_by_interface, without_figures},
    process::run,
};

const TRANSPORTS: [&str; 4] =
    ["tcp@loopback", "grpc@loopback", "grpc-stock@loopback", "grpc-lean@loopback"];

fn ps(options: &str) -> Document {
    let transports = TRANSPORTS.join(",");
    let finished =
        run(&format!("run --format json --transport {transports} --pattern ps {options}"));
    Document::read(&finished.quietly(0).stdout)
}

#[test]
fn every_worker_calls_every_server() {
    let document = ps("-s 1,70000 -n 120 --servers 2 --workers 3 --reply-size 300");
    document.all_measured(&TRANSPORTS, &["ps"], &[1, 70_000]);
    for cell in document.cells() {
        proven_by_interface(cell);
        assert_eq!(cell["roles"], serde_json::json!({ "servers": 2, "workers": 3 }));
        assert_eq!((&cell["reply"], &cell["settings"]["depth"]), (&300.into(), &1.into()));
        // A step is one call to each server; the rate is of calls.
        assert_eq!(cell["latency"]["samples"], 120, "{cell}");
        assert_eq!(cell["latency"]["kind"], "round-trip");
        let rounds = cell["rounds"].as_array().unwrap();
        let seconds = rounds.iter().map(|round| number(&round["elapsed_ns"])).sum::<f64>() / 1e9;
        let calls = number(&cell["throughput"]["messages_per_s"]) * seconds;
        assert!((calls - 240.0).abs() < 1e-6, "{calls} calls: {cell}");
        let steps = ["messages", "warm_up_messages"]
            .map(|name| cell["settings"][name].as_u64().unwrap())
            .iter()
            .sum::<u64>();
        let size = cell["size"].as_u64().unwrap();
        assert_eq!(cell["counters"]["proof"]["payload_tx_bytes"], 2 * steps * size, "{cell}");
        assert_eq!(cell["counters"]["proof"]["payload_rx_bytes"], 2 * steps * 300, "{cell}");
        // The kernel counts one connection from each worker to each server.
        assert_eq!(cell["tcp"]["client"]["connections"], 6, "{cell}");
        assert_eq!(cell["tcp"]["server"]["connections"], 6, "{cell}");
    }
    assert_eq!(document.0["warnings"].to_string().matches("connections than").count(), 0);
}

#[test]
fn steps_may_overlap_and_requests_have_buffers() {
    let document = ps("--buffers 10:uniform -n 12 --rounds 1 -t 3 --servers 3 --timeout 1m");
    for cell in document.cells() {
        measured(cell);
        assert_eq!(cell["roles"]["workers"], 1);
        assert_eq!(cell["settings"]["depth"], 3);
        assert!(cell["payload"]["verified_messages"].as_u64().unwrap() >= 4, "{cell}");
    }
}

#[test]
fn one_of_each_is_the_default_and_the_table_says_so() {
    let table = run("run --transport tcp@lo --pattern ps -s 64 -n 40").quietly(0).stdout;
    let words = "ps: calls (RPC) a second of 1 worker(s), each to all of 1 parameter server(s)";
    assert!(table.contains(words), "{table}");
    for format in ["long", "csv", "perftest"] {
        let shown =
            run(&format!("run --transport tcp@lo --pattern ps -s 64 -n 40 --format {format}"));
        assert!(shown.quietly(0).stdout.contains("tcp@loopback"));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (options, word) in [
        ("--servers 2", "--pattern ps"),
        ("--pattern ps --servers 0", "1..=64"),
        ("--pattern ps --workers 3 --threads 2", "give --workers"),
        ("--pattern bandwidth --buffers 2 --buffers 2", "--buffers 2 is given twice"),
        ("--pattern ps --workers 3 -n 6", "give 9 at least"),
        ("--pattern ps --servers 64 --workers 64", "4096 connections"),
        ("--pattern ps --transport verbs-read", "not measured in the pattern ps"),
    ] {
        let refused = run(&format!("run {options}"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(word), "{refused:?}");
    }
    let finished =
        run("run --transport verbs-uc-send,tcp@lo --pattern ps -s 64 -n 5 --format json");
    let document = Document::read(&finished.stdout);
    let words = ["verbs-uc-send is not measured in the pattern ps"];
    without_figures(document.cell("verbs-uc-send", "ps", 64), "unsupported", &words);
}
