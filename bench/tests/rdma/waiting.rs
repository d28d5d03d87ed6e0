//! Polling, sleeping until an event, and both: for every operation, without a lost wake-up.

use crate::pair::{device, run, server};

const CONNECTED: &str = "verbs-write,verbs-write-imm,verbs-send,verbs-send-imm,verbs-read,\
                         verbs-fetch-add,verbs-compare-swap,verbs-uc-send,verbs-uc-write,\
                         verbs-ud-send";

#[test]
fn every_operation_can_wait_by_events() {
    let Some(_device) = device() else { return };
    let server = server();
    for mode in ["-e", "--completions hybrid --spins 300"] {
        for patterns in ["latency", "rate"] {
            let options = format!(
                "--transport {CONNECTED} --pattern {patterns} -s 64 -n 120 --rounds 1 {mode}"
            );
            let document = run(&server, &options, 0);
            for cell in document.cells() {
                assert_eq!(cell["status"], "measured", "{cell}");
                let shown = cell["settings"]["transport"]["completions"].as_str().unwrap();
                assert!(shown.starts_with(if mode == "-e" { "events" } else { "hybrid, 300" }));
                // A plain write wakes nobody.
                let told = &cell["settings"]["transport"]["arrival"];
                let write = cell["transport"].as_str().unwrap().ends_with("-write");
                assert_eq!(told.is_string(), write && patterns == "latency", "{cell}");
            }
        }
    }
}

/// Both sides sleep and both send, over many queue pairs: each must be woken by the other.
#[test]
fn both_directions_over_many_queue_pairs_do_not_fall_asleep_together() {
    let Some(_device) = device() else { return };
    let server = server();
    for options in ["-q 8 -t 4 -r 4 -e", "-q 5 -t 16 -l 4 -Q 8 -e", "-q 1 -t 1 -e"] {
        let options = format!(
            "--transport verbs-write,verbs-send,verbs-write-imm -b -s 256 -n 600 --rounds 2 {options}"
        );
        let document = run(&server, &options, 0);
        for cell in document.cells() {
            assert_eq!(cell["settings"]["messages"], 600, "{cell}");
        }
    }
}

/// Both sides of a ping-pong by events sleep before messages, and by polling before none. Not before each: on
/// soft-RoCE, whose work may be done within the call that posts it, some are there already.
#[test]
fn methodology_12_events_cost_switches_and_polling_none() {
    let Some(_device) = device() else { return };
    let server = server();
    let mut polling = [f64::NAN; 2];
    for (mode, waits) in [("", "polls"), ("-e", "sleeps")] {
        let options =
            format!("--transport verbs-send --pattern latency -s 64 -n 1000 --rounds 1 {mode}");
        let document = run(&server, &options, 0);
        let cell = &document.cells()[0];
        let told = serde_json::json!({ "client": waits, "server": waits });
        assert_eq!(cell["settings"]["waits"], told, "{cell}");
        for (side, polling) in ["client", "server"].into_iter().zip(&mut polling) {
            let switches = cell["cpu"]["per_message"][side]["voluntary_switches"].as_f64().unwrap();
            if mode == "-e" {
                let more = switches > 2.0 * *polling && switches < 3.0;
                assert!(more, "{side}: {switches} a message, {polling} by polling");
            } else {
                assert!(switches < 0.2, "{side}: {switches} a message");
                *polling = switches;
            }
        }
    }
}

/// The receiver of plain writes has nothing to poll for, so it does not.
#[test]
fn a_receiver_of_writes_leaves_its_processor_alone() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-write --pattern bandwidth -s 4K -D 600ms --rounds 1";
    let document = run(&server, options, 0);
    let cell = &document.cells()[0];
    let elapsed = cell["rounds"][0]["elapsed_ns"].as_f64().unwrap();
    let (client, server) = (&cell["cpu"]["client_ns"], &cell["cpu"]["server_ns"]);
    assert!(server.as_f64().unwrap() < elapsed / 2.0, "{server} ns of {elapsed}");
    assert!(client.as_f64().unwrap() > server.as_f64().unwrap(), "{cell}");
}

/// The receives of all queue pairs together, in connections and datagrams.
#[test]
fn a_shared_receive_queue_serves_all_queue_pairs() {
    let Some(_device) = device() else { return };
    let server = server();
    for waiting in ["", "-e"] {
        let options = format!(
            "--transport verbs-send,verbs-write-imm,verbs-ud-send --pattern \
             latency,bandwidth,bidirectional -s 100 -n 300 --rounds 1 -q 4 -t 8 -r 64 --use-srq {waiting}"
        );
        let document = run(&server, &options, 0);
        for cell in document.cells() {
            assert_eq!(cell["settings"]["transport"]["receive queue"], "shared", "{cell}");
            assert_eq!(cell["payload"]["corrupt_messages"], 0);
        }
    }
    let options = "--transport verbs-uc-send --pattern bandwidth -s 8 --use-srq";
    let unsupported = crate::pair::document(crate::pair::client(&server, options).end(), 4);
    let reason = unsupported.cells()[0]["reason"].as_str().unwrap();
    assert!(reason.contains("UC"), "{reason}");
}
