//! Each row of the table, by a result in which only that differs.

use serde_json::{Value, json};

use super::*;
use crate::report::SCHEMA;

fn cell() -> Value {
    let path = json!({
        "kind": "roce", "device": "mlx5_0", "port": 1, "interface": "eth0", "emulated": false,
        "backing": "mlx5_core", "address": "::1", "mtu": 4096, "chosen": "the first"
    });
    json!({
        "transport": "tcp@eth0", "pattern": "calls", "size": 64, "reply": 1, "status": "measured",
        "reason": null, "path": path, "peer_path": path,
        "latency": {"unit": "ns", "kind": "round-trip", "samples": 1, "min": 1.0, "p50": null,
                    "p99": null, "p999": null, "max": 1.0, "mean": 1.0, "p50_interval_95": null},
        "load": {"arrivals": "constant", "offered_per_s": 400.0, "achieved_per_s": 400.0, "bound": 1024,
                 "most_in_flight": 3, "held_back": 0, "given_up": 0, "sustained": true},
        "counters": {"interface_tx_bytes": 1, "interface_rx_bytes": 1, "proof":
                     {"holds": true, "payload_tx_bytes": 1, "payload_rx_bytes": 1, "text": ""}},
        "settings": {"depth": 16, "warm_up_messages": 1, "messages": 1,
                     "transport": {"TCP_NODELAY": "on"}},
        "variant": {"rate": 400}
    })
}

pub(in crate::comparison) fn document() -> Value {
    let host = json!({
        "hostname": "node1", "fabricbench": "0.1.0", "kernel": "6.1", "cpu": "EPYC", "cpus": 64,
        "governor": "performance", "virtualization": null, "congestion_control": "cubic",
        "clock_source": "tsc", "allocator": "mimalloc", "build": "release"
    });
    json!({
        "schema": SCHEMA, "fabricbench": "0.1.0", "complete": true, "started_unix_s": 1, "command": ["fabricbench", "run"],
        "plan": {"transports": [], "patterns": [], "sizes": [], "stop": "2 s", "warm_up": "none",
                 "rounds": 3, "seed": 1, "loop_kind": "closed"},
        "client": host, "server": host, "warnings": [], "cells": []
    })
}

/// Sets what `pointer` points to, and says what then differs.
fn differing(
    mut changed: Value,
    pointer: &str,
    to: Value,
    of: impl Fn(Value) -> Vec<Difference>,
) -> Vec<(Severity, String)> {
    *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = to;
    of(changed).into_iter().map(|difference| (difference.severity, difference.what)).collect()
}

fn of_documents(changed: Value) -> Vec<Difference> {
    let read = |value: Value| serde_json::from_value::<Document>(value).unwrap();
    of_runs(&read(document()), &read(changed))
}

fn of_measured_cells(changed: Value) -> Vec<Difference> {
    let read = |value: Value| serde_json::from_value::<CellRecord>(value).unwrap();
    of_cells(&read(cell()), &read(changed))
}

#[test]
fn each_row_of_a_run_has_its_severity() {
    for (pointer, to, severity, what) in [
        ("/plan/stop", json!("3 s"), Warning, "stop rule"),
        ("/plan/warm_up", json!("some"), Warning, "warm-up rule"),
        ("/plan/rounds", json!(5), Warning, "rounds"),
        ("/command", json!(["fabricbench", "run", "node2"]), Warning, "command"),
    ] {
        let found = differing(document(), pointer, to, of_documents);
        assert_eq!(found, [(severity, what.to_owned())], "{pointer}");
    }
}

#[test]
fn each_row_of_a_host_has_its_severity_on_both_sides() {
    let rows = [
        ("hostname", json!("node9"), Refused, "host name"),
        ("cpu", json!("Xeon"), Refused, "processor"),
        ("cpus", json!(8), Refused, "processors"),
        ("virtualization", json!("qemu-tcg"), Refused, "virtualization"),
        ("allocator", json!("glibc"), Refused, "memory allocator"),
        ("build", json!("debug"), Refused, "build of fabricbench"),
        ("fabricbench", json!("0.2.0"), Warning, "version of fabricbench"),
        ("kernel", json!("6.2"), Warning, "kernel"),
        ("governor", json!("powersave"), Warning, "frequency governor"),
        ("congestion_control", json!("bbr"), Warning, "congestion control"),
        ("clock_source", json!("hpet"), Warning, "clock source"),
    ];
    assert_eq!(rows.len(), OF_HOST.len());
    for (field, to, severity, what) in rows {
        for side in ["client", "server"] {
            let found =
                differing(document(), &format!("/{side}/{field}"), to.clone(), of_documents);
            assert_eq!(found, [(severity, format!("{what} of the {side}"))]);
        }
    }
}

#[test]
fn each_row_of_a_cell_has_its_severity() {
    let rows = [
        ("/latency/kind", json!("half-round-trip"), Refused, "kind of latency"),
        ("/load/offered_per_s", json!(500.0), Refused, "load"),
        ("/load/arrivals", json!("poisson"), Refused, "load"),
        ("/load", json!(null), Refused, "load"),
        ("/settings/depth", json!(1), Refused, "depth"),
        ("/settings/depth", json!(null), Refused, "depth"),
        ("/variant", json!({}), Refused, "settings of the cell"),
        ("/load/sustained", json!(false), Warning, "whether the load was borne"),
        ("/counters/proof/holds", json!(null), Warning, "whether counters prove the path"),
        ("/settings/transport/TCP_NODELAY", json!("off"), Warning, "setting `TCP_NODELAY`"),
        ("/settings/transport", json!({}), Warning, "setting `TCP_NODELAY`"),
    ];
    for (pointer, to, severity, what) in rows {
        let found = differing(cell(), pointer, to, of_measured_cells);
        assert_eq!(found, [(severity, what.to_owned())], "{pointer}");
    }
}

#[test]
fn each_row_of_a_path_has_its_severity_on_both_sides() {
    let rows = [
        ("kind", json!("soft-roce"), Refused, "kind of path"),
        ("device", json!("mlx5_1"), Refused, "RDMA device"),
        ("port", json!(2), Refused, "port"),
        ("interface", json!("eth1"), Refused, "interface"),
        ("emulated", json!(true), Refused, "emulated"),
        ("backing", json!("mlx4_core"), Warning, "driver"),
        ("mtu", json!(1024), Warning, "MTU"),
    ];
    assert_eq!(rows.len(), OF_PATH.len());
    for (field, to, severity, what) in rows {
        for (name, side) in [("path", "client"), ("peer_path", "server")] {
            let found =
                differing(cell(), &format!("/{name}/{field}"), to.clone(), of_measured_cells);
            assert_eq!(found, [(severity, format!("{what} on the {side}"))]);
        }
    }
}

#[test]
fn what_says_nothing_of_figures_does_not_differ() {
    for (pointer, to) in [
        ("/started_unix_s", json!(2)),
        ("/plan/seed", json!(2)),
        ("/warnings", json!(["noisy"])),
        ("/complete", json!(false)),
        (
            "/command",
            json!(["/usr/bin/fabricbench", "run", "-o", "a", "--seed=3", "--output", "b"]),
        ),
        // What a side does not tell is not known to differ.
        ("/client/governor", json!(null)),
        ("/client/cpu", json!(null)),
        ("/server", json!(null)),
    ] {
        assert_eq!(differing(document(), pointer, to, of_documents), [], "{pointer}");
    }
    for pointer in ["/path/address", "/path/chosen", "/path/device"] {
        assert_eq!(differing(cell(), pointer, json!(null), of_measured_cells), [], "{pointer}");
    }
}
