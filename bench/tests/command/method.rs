//! What the record must have, whatever is measured: points of the method that no other test is about.

use serde_json::Value;

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
