//! Settings of verbs that are swept: in force on both sides, and what cannot be told by cell.

use serde_json::Value;

use crate::{
    document::{measured, without_figures},
    pair::{device, run, server},
};

/// What a cell says was in force, as the axes have it.
fn in_force(cell: &Value) -> [(&'static str, Value); 4] {
    let settings = &cell["settings"]["transport"];
    let number = |name: &str| settings[name].as_str().map(|text| text.parse::<u64>().unwrap());
    [
        ("qp", number("queue pairs").into()),
        ("post-list", number("post list").into()),
        ("completions", settings["completions"].clone()),
        ("mtu", cell["path"]["mtu"].clone()),
    ]
}

#[test]
fn one_command_sweeps_queue_pairs_lists_waiting_and_mtu() {
    let Some(_device) = device() else { return };
    let server = server();
    let document = run(
        &server,
        "--transport verbs-send,tcp@v0 --pattern latency,bandwidth -s 8K -n 48 --rounds 1 -t 16 \
         --sweep qp=1,3 --sweep post-list=1,8 --sweep completions=poll,events --sweep mtu=1K,4K",
        0,
    );
    let count = |transport: &str, pattern: &str| {
        let is_it = |cell: &&Value| cell["transport"] == transport && cell["pattern"] == pattern;
        document.cells().iter().filter(is_it).count()
    };
    assert_eq!(count("verbs-send", "bandwidth"), 16);
    assert_eq!(count("verbs-send", "latency"), 4, "one message has one queue pair and no list");
    assert_eq!((count("tcp@v0", "latency"), count("tcp@v0", "bandwidth")), (1, 1));
    for cell in document.cells() {
        measured(cell);
        if cell["transport"] != "verbs-send" {
            assert!(cell["variant"].is_null(), "{cell}");
            continue;
        }
        let latency = cell["pattern"] == "latency";
        for (axis, value) in in_force(cell) {
            let swept = !latency || ["completions", "mtu"].contains(&axis);
            assert_eq!(cell["variant"][axis], if swept { value } else { Value::Null }, "{cell}");
        }
        assert_eq!(cell["peer_path"]["mtu"], cell["path"]["mtu"], "{cell}");
        // 8 KiB take 8 packets of 1 KiB, and 2 of 4 KiB.
        let packets = 8192 / cell["path"]["mtu"].as_u64().unwrap();
        let sent = cell["counters"]["rdma"]["sent_pkts"].as_u64().unwrap();
        assert!(sent >= 48 * packets, "{cell}");
    }
}

/// A list of eight in a depth of four.
#[test]
fn a_combination_that_cannot_be_is_unsupported_alone() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-write --pattern rate -s 64 -n 64 --rounds 1";
    let document = run(&server, &format!("{options} --sweep depth=4,16 --sweep post-list=1,8"), 3);
    assert_eq!(document.cells().len(), 4);
    for cell in document.cells() {
        if cell["variant"]["depth"] == 4 && cell["variant"]["post-list"] == 8 {
            without_figures(cell, "unsupported", &["--post-list 8", "the 4 in flight", "--depth"]);
        } else {
            measured(cell);
            assert_eq!(cell["settings"]["depth"], cell["variant"]["depth"]);
        }
    }
}

/// Moderation is a quarter of the depth at the most, whatever was asked for.
#[test]
fn moderation_that_is_cut_is_warned_of() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-write --pattern rate -s 64 -n 64 --rounds 1 -t 16";
    let document = run(&server, &format!("{options} --sweep cq-mod=1,4,64"), 0);
    for (asked, had) in [(1, "1"), (4, "4"), (64, "4")] {
        let is_it = |cell: &&Value| cell["variant"]["cq-mod"] == asked;
        let cell = document.cells().iter().find(is_it).unwrap();
        assert_eq!(cell["settings"]["transport"]["completion moderation"], had);
    }
    let warnings = document.0["warnings"].to_string();
    assert!(warnings.contains("cut to a quarter of the depth in 1 of 3 cells"), "{warnings}");
    let unasked = run(&server, options, 0).0["warnings"].to_string();
    assert!(!unasked.contains("quarter"), "{unasked}");
}
