//! The patterns beside latency and bandwidth over streams: what went which way, and that it was
//! looked at.

use serde_json::Value;

use crate::{
    document::{Document, number, proven_by_interface},
    process::run,
};

const TRANSPORTS: [&str; 4] =
    ["grpc@loopback", "grpc-stock@loopback", "grpc-lean@loopback", "tcp@loopback"];

/// Measures over every transport, and asserts of each cell what holds for any pattern.
fn measured(pattern: &str, sizes: &str, options: &str) -> Document {
    let transports = TRANSPORTS.join(",");
    let finished = run(&format!(
        "run --format json --transport {transports} --pattern {pattern} -s {sizes} {options}"
    ));
    let document = Document::read(&finished.quietly(0).stdout);
    for cell in document.cells() {
        assert_eq!(cell["status"], "measured");
        proven_by_interface(cell);
        assert_eq!(cell["payload"]["corrupt_messages"], 0, "{cell}");
    }
    document
}

fn payload(cell: &Value, side: &str, direction: &str) -> u64 {
    cell[side]["proof"][format!("payload_{direction}_bytes")].as_u64().unwrap()
}

fn messages(cell: &Value) -> u64 {
    let count = |name: &str| cell["settings"][name].as_u64().unwrap();
    count("messages") + count("warm_up_messages")
}

/// Payload goes to the client, all of it, and nothing else is called payload.
fn fetched(cell: &Value) {
    let bytes = messages(cell) * cell["size"].as_u64().unwrap();
    for (side, sent, received) in [("counters", 0, bytes), ("peer_counters", bytes, 0)] {
        assert_eq!(payload(cell, side, "tx"), sent, "{cell}");
        assert_eq!(payload(cell, side, "rx"), received, "{cell}");
    }
    // The client looks at the first message of each round.
    let rounds = cell["rounds"].as_array().unwrap().len() as u64;
    assert_eq!(cell["payload"]["verified_messages"], rounds, "{cell}");
}

#[test]
fn fetches_of_any_size() {
    let document = measured("fetch", "1,63,4096,65537", "-n 300");
    assert_eq!(document.cells().len(), 4 * TRANSPORTS.len());
    for cell in document.cells() {
        fetched(cell);
        assert_eq!(cell["settings"]["messages"], 300);
    }
    let depth = |size: u64| {
        document.cell("grpc@loopback", "fetch", size)["settings"]["depth"].as_u64().unwrap()
    };
    assert_eq!((depth(1), depth(4096), depth(65_537)), (8192, 2048, 127));
}

#[test]
fn fetches_of_any_depth() {
    for depth in [1, 2, 7] {
        let document = measured("fetch", "1000", &format!("-n 50 -t {depth}"));
        for cell in document.cells() {
            fetched(cell);
            assert_eq!(cell["settings"]["depth"], depth);
        }
    }
}

/// Windows of stock gRPC hold 2 MiB of a stream, and 5 MiB of a connection.
#[test]
fn fetches_larger_than_the_windows() {
    let document = measured("fetch", "5M", "-n 12 -t 8 --rounds 1 --timeout 1m");
    document.cells().iter().for_each(fetched);
    let document = measured("fetch", "64", "-n 140000 -t 65536 --rounds 1 --timeout 1m");
    document.cells().iter().for_each(fetched);
}

/// What arrives on one side was sent by the other, in both directions, and the rate is of both.
fn exchanged(cell: &Value) {
    let size = cell["size"].as_u64().unwrap();
    assert_eq!(payload(cell, "counters", "tx"), messages(cell) * size, "{cell}");
    assert_eq!(payload(cell, "peer_counters", "rx"), messages(cell) * size, "{cell}");
    let returned = payload(cell, "counters", "rx");
    assert_eq!(payload(cell, "peer_counters", "tx"), returned, "{cell}");
    assert_eq!(returned % size, 0, "{cell}");
    let rounds = cell["rounds"].as_array().unwrap();
    let seconds = rounds.iter().map(|round| number(&round["elapsed_ns"])).sum::<f64>() / 1e9;
    let there = cell["settings"]["messages"].as_u64().unwrap() as f64 / seconds;
    let both = number(&cell["throughput"]["messages_per_s"]);
    assert!(both >= there * (1.0 - 1e-9), "{both} a second, {there} of them there: {cell}");
}

#[test]
fn both_sides_push_at_once() {
    let mut all_returned = [0; TRANSPORTS.len()];
    for (size, messages) in [("1", 9000), ("1000", 6000), ("1M", 60)] {
        let document = measured("bidirectional", size, &format!("-n {messages} --timeout 1m"));
        for cell in document.cells() {
            exchanged(cell);
            // Each side looks at the first message of each round, if there is one.
            let rounds = cell["rounds"].as_array().unwrap().len() as u64;
            let verified = cell["payload"]["verified_messages"].as_u64().unwrap();
            assert!((rounds..=2 * rounds).contains(&verified), "{cell}");
            let transport = TRANSPORTS.iter().position(|name| cell["transport"] == *name);
            all_returned[transport.unwrap()] += payload(cell, "counters", "rx");
        }
    }
    // How much depends on how busy this machine is.
    assert!(all_returned.iter().all(|&returned| returned > 0), "{all_returned:?}");
}

#[test]
fn both_sides_push_few_or_large_messages() {
    let document = measured("bidirectional", "8", "-n 1 --rounds 1 --warm-up 1");
    document.cells().iter().for_each(exchanged);
    let document = measured("bidirectional", "3M", "-n 5 --rounds 1 --timeout 1m");
    document.cells().iter().for_each(exchanged);
}

/// Neither side may wait to send while the other waits as well.
#[test]
fn several_threads_push_both_ways() {
    let document = measured("bidirectional", "256K", "-n 600 --threads 2 --timeout 1m");
    document.cells().iter().for_each(exchanged);
    let document = measured("fetch", "1000", "-n 601 --threads 2");
    for cell in document.cells() {
        let bytes = messages(cell) * 1000;
        assert_eq!(payload(cell, "counters", "rx"), bytes, "{cell}");
    }
}
