//! What the record must have, whatever is measured: points of the method that no other test is about.

use serde_json::{Value, json};

use crate::{
    document::{Document, measured, number},
    process::run,
};

fn document(plan: &str) -> Document {
    Document::read(&run(&format!("run --format json {plan}")).quietly(0).stdout)
}

#[test]
fn methodology_6_half_or_whole_is_one_label_for_every_transport() {
    let transports = "tcp@loopback,grpc@loopback,grpc-stock@loopback,grpc-lean@loopback";
    let plan = format!("--transport {transports} --pattern latency,calls -s 64 -n 60");
    for cell in document(&plan).cells() {
        measured(cell);
        let kind = if cell["pattern"] == "latency" { "half-round-trip" } else { "round-trip" };
        assert_eq!(cell["latency"]["kind"], kind, "{cell}");
    }
}

/// What could explain a difference is there for both sides; what cannot be found out is null, not left out.
#[test]
fn methodology_10_what_could_explain_a_difference_is_in_the_record() {
    let document = document("--transport tcp@loopback --pattern latency -s 64 -n 60 --seed 7").0;
    for side in ["client", "server"] {
        for known in ["hostname", "fabricbench", "kernel", "cpu", "clock_source", "build"] {
            assert!(document[side][known].is_string(), "{side} {known}: {}", document[side]);
        }
        for perhaps in ["governor", "virtualization", "congestion_control", "allocator"] {
            assert!(document[side].get(perhaps).is_some(), "{side} {perhaps}: {}", document[side]);
        }
    }
    assert_eq!(document["plan"]["seed"], 7);
    for rule in ["stop", "warm_up", "loop_kind"] {
        assert!(document["plan"][rule].is_string(), "{rule}");
    }
    assert!(document["command"].to_string().contains("--seed"));
    let cell = &document["cells"][0];
    for path in ["path", "peer_path"] {
        assert!(number(&cell[path]["mtu"]) > 0.0 && cell[path]["interface"] == "lo", "{cell}");
    }
    let settings = &cell["settings"];
    assert!(number(&settings["warm_up_messages"]) > 0.0, "{settings}");
    assert!(settings["transport"].as_object().is_some_and(|all| !all.is_empty()), "{settings}");
}

#[test]
fn methodology_12_processor_time_of_both_sides_stands_beside_the_figure() {
    let plan = "--transport tcp@loopback,grpc@loopback --pattern latency,bandwidth -s 4K -n 2000";
    for cell in document(plan).cells() {
        let cpu: &Value = &cell["cpu"];
        assert!(number(&cpu["client_ns"]) > 0.0 && number(&cpu["server_ns"]) > 0.0, "{cell}");
    }
}

/// Who sleeps until a message is there gives its processor up about once a message, who polls does not; and the
/// document says of both sides what they did.
#[test]
fn methodology_12_who_sleeps_switches_once_a_message_and_who_polls_does_not() {
    let closed = "--transport tcp@loopback --pattern latency -s 64 -n 3000 --rounds 1";
    let document = document(closed);
    let cell = &document.cells()[0];
    assert_eq!(cell["settings"]["waits"], json!({ "client": "sleeps", "server": "sleeps" }));
    for side in ["client", "server"] {
        let switches = number(&cell["cpu"]["per_message"][side]["voluntary_switches"]);
        assert!((0.5..2.0).contains(&switches), "{side}: {switches} a message");
    }
    // The client of an open loop looks at the time until its next call is due.
    let open = "--transport tcp@loopback --pattern calls -s 64 -D 600ms --rounds 1 --rate 2000";
    let document = self::document(open);
    let cell = &document.cells()[0];
    assert_eq!(cell["settings"]["waits"], json!({ "client": "polls", "server": "sleeps" }));
    let switches = |side: &str| number(&cell["cpu"]["per_message"][side]["voluntary_switches"]);
    let (client, server) = (switches("client"), switches("server"));
    // Of a machine that has other work to do the server gets several calls at once, and sleeps less often.
    assert!(client < 0.05 && server > 5.0 * client, "{client} and {server} a call");
}

/// Shares are of what the rates count: the sides' sums come back from them.
#[test]
fn methodology_12_costs_are_shared_out_among_messages_and_bytes() {
    let plan = "--transport tcp@loopback --pattern bandwidth -s 64K -n 4000 --warm-up 1 --rounds 1";
    let document = document(plan);
    let cell = &document.cells()[0];
    let cpu = &cell["cpu"];
    for side in ["client", "server"] {
        let (all, usage) = (number(&cpu[format!("{side}_ns")]), &cpu[side]);
        let divided = number(&usage["user_ns"]) + number(&usage["system_ns"]);
        assert!((divided - all).abs() < 0.05 * all, "{divided} of {all} ns");
        let of_message = &cpu["per_message"][side];
        let messages = all / number(&of_message["cpu_ns"]);
        assert!((4000.0..4003.0).contains(&messages), "{messages} messages");
        let each = number(&of_message["user_ns"]) + number(&of_message["system_ns"]);
        assert!((each * messages - divided).abs() < 1e-6 * divided, "{cpu}");
        let bytes = number(&of_message["cpu_ns"]) / number(&cpu["per_byte"][side]["cpu_ns"]);
        assert!((bytes - 65_536.0).abs() < 1e-3, "{bytes} B a message");
    }
}
