//! Calls at a rate: they begin on a schedule, and are timed from it.

use std::{thread, time::Duration};

use rustix::process::Signal;

use crate::{
    document::{Document, number, proven_by_interface},
    process::{Running, Server, run},
};

const TRANSPORTS: [&str; 4] =
    ["tcp@loopback", "grpc@loopback", "grpc-stock@loopback", "grpc-lean@loopback"];

fn calls(options: &str) -> Document {
    let transports = TRANSPORTS.join(",");
    let finished =
        run(&format!("run --format json --pattern calls --transport {transports} -s 64 {options}"));
    let document = Document::read(&finished.quietly(0).stdout);
    document.all_measured(&TRANSPORTS, &["calls"], &[64]);
    document.cells().iter().for_each(proven_by_interface);
    document
}

#[test]
fn what_is_no_rate_is_refused_in_words() {
    for rate in ["-5", "NaN", "0.5", "0", "1e9", ""] {
        let plan = format!("run --transport tcp@lo --pattern calls -s 8 --rate={rate}");
        run(&plan).failed(2, &["--rate", "no whole number of calls a second from 1 to"]);
    }
}

#[test]
fn a_rate_that_is_borne_is_what_is_measured() {
    let document = calls("--rate 400 -n 300 --reply-size 300");
    assert_eq!(document.0["plan"]["loop_kind"], "open");
    for cell in document.cells() {
        let load = &cell["load"];
        assert_eq!(cell["variant"], serde_json::json!({"rate": 400}));
        assert_eq!(
            (&load["arrivals"], number(&load["offered_per_s"])),
            (&"constant".into(), 400.0)
        );
        assert_eq!(cell["latency"]["samples"], 300);
        // A schedule of 100 calls a round takes 99 gaps, and no server makes it shorter.
        assert!(number(&load["achieved_per_s"]) <= 400.0 * 100.0 / 99.0, "{load}");
        assert_eq!((&load["bound"], &load["given_up"]), (&1024.into(), &0.into()));
    }
}

#[test]
fn threads_and_connections_share_the_rate() {
    let document = calls("--rate 600 --arrivals poisson -n 240 --threads 2 --connections 2 -t 8");
    for cell in document.cells() {
        assert_eq!(cell["variant"], serde_json::json!({"rate": 600, "arrivals": "poisson"}));
        assert_eq!(cell["load"]["bound"], 2 * 2 * 8);
        assert_eq!(cell["latency"]["samples"], 240);
    }
}

#[test]
fn a_rate_that_no_server_bears_is_said_not_to_be_sustained() {
    let plan = "run --pattern calls --transport tcp@loopback,grpc@loopback -s 64 -D 0.3s --rounds 1 \
                --rate 20000000";
    let document = Document::read(&run(&format!("{plan} --format json")).quietly(0).stdout);
    for cell in document.cells() {
        let load = &cell["load"];
        assert_eq!(load["sustained"], false, "{load}");
        assert!(number(&load["given_up"]) > 0.0 && number(&load["held_back"]) > 0.0, "{load}");
        assert!(number(&load["achieved_per_s"]) < number(&load["offered_per_s"]));
    }
    assert!(
        document.0["warnings"].to_string().contains("not sustained: of 20000000 calls a second")
    );
    let table = run(plan).quietly(0).stdout;
    assert!(table.contains("! / ") && table.contains("(!: the rate was not sustained)"), "{table}");
}

#[test]
fn a_sweep_of_rates_is_a_row_each() {
    let plan = "run --pattern calls --transport tcp@loopback -s 64 -n 60 --rounds 1 \
                --sweep rate=300:1200:x2 --sweep arrivals=constant,poisson";
    let document = Document::read(&run(&format!("{plan} --format json")).quietly(0).stdout);
    let loads: Vec<_> =
        document.cells().iter().map(|cell| number(&cell["load"]["offered_per_s"])).collect();
    assert_eq!(loads, [300.0, 300.0, 600.0, 600.0, 1200.0, 1200.0]);
    let csv = run(&format!("{plan} --format csv")).quietly(0).stdout;
    let mut lines = csv.lines();
    let place = lines.next().unwrap().split(',').position(|name| name == "sustained").unwrap();
    let mut rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let first = rows.next().unwrap();
    assert!(matches!(first[place], "true" | "false"), "{csv}");
    assert_eq!(first[first.len() - 2..], ["300", "constant"], "{csv}");
}

#[test]
fn what_has_no_schedule_is_refused_by_name_and_left_alone_by_a_sweep() {
    let plan =
        "run --pattern calls,latency --transport tcp@loopback -s 64 -n 30 --rounds 1 --format json";
    let finished = run(&format!("{plan} --rate 300"));
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let document = Document::read(&finished.stdout);
    let refused = document.cell("tcp@loopback", "latency", 64);
    assert_eq!(refused["status"], "unsupported");
    assert!(refused["reason"].as_str().unwrap().starts_with("--rate: the pattern "), "{refused}");

    let document = Document::read(&run(&format!("{plan} --sweep rate=300,600")).quietly(0).stdout);
    let loads: Vec<_> = document.cells().iter().map(|cell| cell["load"].is_object()).collect();
    assert_eq!(loads, [true, true, false]);
}

/// For a third of the run the server stands still: calls go on to be due, and all of them are late.
#[test]
fn a_server_that_is_stopped_for_a_second_is_seen_by_the_calls_of_that_second() {
    let server = Server::start();
    let options = "--pattern calls --transport tcp@loopback -s 64 --rate 2000 -n 6000 --rounds 1 \
                   --format json -t 8192";
    let client = Running::start(&mut server.client(options));
    server.process.says_word("testing");
    thread::sleep(Duration::from_millis(1000));
    server.process.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(1000));
    server.process.signal(Signal::CONT);
    let document = Document::read(&client.end().quietly(0).stdout);
    let cell = &document.cells()[0];
    assert_eq!(cell["latency"]["samples"], 6000);
    // Of the 6,000 calls of 3 s 2,000 are late, the first of them by that second: one in a hundred of all
    // is late by most of it. A closed loop would have as many late ones as are in flight.
    let (p99, max) = (number(&cell["latency"]["p99"]), number(&cell["latency"]["max"]));
    assert!(p99 > 0.7 * max && number(&cell["load"]["most_in_flight"]) > 1500.0, "{cell}");
}
