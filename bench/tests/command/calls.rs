//! Request and reply with sizes of their own, many in flight, each of them timed.

use crate::{
    document::{Document, number, proven_by_interface},
    process::run,
};

const TRANSPORTS: [&str; 4] =
    ["tcp@loopback", "grpc@loopback", "grpc-stock@loopback", "grpc-lean@loopback"];

fn calls(sizes: &[u64], options: &str) -> Document {
    let list: Vec<_> = sizes.iter().map(u64::to_string).collect();
    let finished = run(&format!(
        "run --format json --pattern calls --transport {} -s {} {options}",
        TRANSPORTS.join(","),
        list.join(",")
    ))
    .quietly(0);
    let document = Document::read(&finished.stdout);
    document.all_measured(&TRANSPORTS, &["calls"], sizes);
    document.cells().iter().for_each(proven_by_interface);
    document
}

#[test]
fn every_call_is_timed_and_counted_on_both_sides() {
    let document = calls(&[1, 300, 65_536], "-n 600 -t 16 --reply-size 300");
    for cell in document.cells() {
        assert_eq!((&cell["reply"], &cell["settings"]["depth"]), (&300.into(), &16.into()));
        assert_eq!(cell["latency"]["samples"], 600);
        assert_eq!(cell["latency"]["kind"], "round-trip");
        assert!(cell["payload"]["verified_messages"].as_u64().unwrap() >= 2, "{cell}");
        // Little's law, as far as it is exact: no more are in flight than the depth.
        let rate = number(&cell["throughput"]["messages_per_s"]);
        let in_flight = rate * number(&cell["latency"]["mean"]) / 1e9;
        assert!(in_flight > 0.5 && in_flight <= 16.001, "{in_flight} in flight: {cell}");
    }
}

#[test]
fn a_reply_is_one_byte_unless_said_otherwise() {
    for cell in calls(&[64], "-n 40").cells() {
        assert_eq!((&cell["reply"], &cell["settings"]["depth"]), (&1.into(), &128.into()));
    }
}

/// Each wait ends as soon as one call does, with others at every stage: none of those may be forgotten.
#[test]
fn many_calls_in_flight_all_end() {
    for cell in calls(&[64], "-n 2000 --rounds 1 -t 128").cells() {
        assert_eq!(cell["latency"]["samples"], 2000, "{cell}");
    }
}

/// More than any socket buffers holds is under way both ways: a side that sends without taking
/// what comes would wait for ever.
#[test]
fn large_requests_and_replies_pass_one_another() {
    calls(&[3 << 20], "-n 30 --rounds 1 -t 8 --reply-size 5M --timeout 1m");
    calls(&[1], "-n 20 --rounds 1 -t 4 --reply-size 8M --timeout 1m");
}

#[test]
fn several_threads_make_calls() {
    for cell in calls(&[64], "-n 100 -t 4 --threads 3").cells() {
        assert_eq!(cell["latency"]["samples"], 100);
        assert_eq!(cell["settings"]["transport"]["threads"], "3");
    }
}

#[test]
fn every_format_shows_calls() {
    let plan = "run --transport tcp@loopback,grpc@loopback --pattern calls -s 64 -n 100 -t 2";
    let of = |format: &str| run(&format!("{plan} --format {format}")).quietly(0).stdout;
    let table = of("table");
    for part in ["calls: thousands a second", "round trip", "replies of 1 B", " / "] {
        assert!(table.contains(part), "{table}");
    }
    let csv = of("csv");
    let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let reply = rows.next().unwrap().iter().position(|name| *name == "reply_bytes").unwrap();
    assert!(rows.all(|row| row[reply] == "1"), "{csv}");
    assert!(of("long").contains("calls"));
    let perftest = of("perftest");
    assert!(perftest.contains("Calls (latency) Test") && perftest.contains("replies of 1 B"));
}

#[test]
fn what_has_no_calls_is_unsupported_by_name() {
    let finished =
        run("run --transport verbs-read,tcp@lo --pattern calls -s 64 -n 5 --format json");
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let document = Document::read(&finished.stdout);
    let refused = document.cell("verbs-read", "calls", 64);
    assert!(refused["reason"].as_str().unwrap().contains("not measured in the pattern calls"));
}
