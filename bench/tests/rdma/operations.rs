//! Every operation of every service, in every pattern it has.

use crate::pair::{device, document, run, server};

const RELIABLE: [&str; 7] = [
    "verbs-write",
    "verbs-write-imm",
    "verbs-send",
    "verbs-send-imm",
    "verbs-read",
    "verbs-fetch-add",
    "verbs-compare-swap",
];

fn load(transport: &str) -> &'static [&'static str] {
    match transport {
        "verbs-read" => &["fetch", "rate"],
        "verbs-fetch-add" | "verbs-compare-swap" => &["rate"],
        _ => &["bandwidth", "bidirectional", "rate"],
    }
}

/// Each moves its messages, and each row's payload is verified and its path proven.
#[test]
fn every_reliable_operation_in_every_pattern() {
    let Some(_device) = device() else { return };
    let server = server();
    for transport in RELIABLE {
        for patterns in [&["latency"], load(transport)] {
            let options = format!(
                "--transport {transport} --pattern {} -s 8,4097 -n 90 --rounds 2 -t 16",
                patterns.join(",")
            );
            let document = run(&server, &options, 0);
            for cell in document.cells() {
                assert_eq!(cell["status"], "measured", "{cell}");
                assert!(cell["payload"]["verified_messages"].as_u64().unwrap() > 0, "{cell}");
                assert_eq!(cell["payload"]["corrupt_messages"], 0);
                assert_eq!(cell["counters"]["proof"]["holds"], true, "{cell}");
                assert_eq!(cell["settings"]["messages"], 90);
            }
        }
    }
}

/// Half of a round trip of a read would be no time of anything.
#[test]
fn latency_is_labelled_by_what_it_is() {
    let Some(_device) = device() else { return };
    let server = server();
    let transports = "verbs-send,verbs-read,verbs-atomic";
    let document =
        run(&server, &format!("--transport {transports} --pattern latency -s 8 -n 40"), 0);
    let kind = |transport| document.cell(transport, "latency", 8)["latency"]["kind"].clone();
    assert_eq!(kind("verbs-send"), "half-round-trip");
    assert_eq!(kind("verbs-read"), "round-trip");
    assert_eq!(kind("verbs-fetch-add"), "round-trip");
    // Each atomic found what the one before it had left.
    let atomic = document.cell("verbs-fetch-add", "latency", 8);
    let settings = &atomic["settings"];
    let all =
        settings["messages"].as_u64().unwrap() + settings["warm_up_messages"].as_u64().unwrap();
    assert_eq!(atomic["payload"]["verified_messages"], all);
}

/// Queue pairs, lists and moderation in combinations that do not divide one another.
#[test]
fn queue_pairs_and_lists_carry_every_message_once() {
    let Some(_device) = device() else { return };
    let server = server();
    for options in ["-q 3 -t 7 -Q 3", "-l 5 -t 7 -Q 3", "-q 2 -l 4 -t 16", "-q 5 -l 64 -t 64 -Q 16"]
    {
        for transport in RELIABLE {
            let options = format!(
                "--transport {transport} --pattern {} -s 32 -n 501 --rounds 1 {options}",
                load(transport).join(",")
            );
            let document = run(&server, &options, 0);
            for cell in document.cells() {
                assert_eq!(cell["settings"]["messages"], 501, "{options}: {cell}");
                assert_eq!(cell["counters"]["proof"]["holds"], true, "{options}: {cell}");
            }
        }
    }
}

/// Both directions are counted, by both sides.
#[test]
fn bidirectional_is_the_sum_of_both_directions() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-send,verbs-write -b -s 4K -n 400 --rounds 1";
    let document = run(&server, options, 0);
    for cell in document.cells() {
        assert_eq!(cell["pattern"], "bidirectional");
        let proof = &cell["counters"]["proof"];
        let (sent, received) = (&proof["payload_tx_bytes"], &proof["payload_rx_bytes"]);
        assert!(sent.as_u64().unwrap() >= 400 * 4096, "{proof}");
        // The server pushes for as long as the client does, at its own speed.
        assert!(received.as_u64().unwrap() > 4096, "{proof}");
        let rounds = &cell["rounds"][0];
        let one_way =
            rounds["messages"].as_f64().unwrap() * 1e9 / rounds["elapsed_ns"].as_f64().unwrap();
        assert!(cell["throughput"]["messages_per_s"].as_f64().unwrap() > one_way, "{cell}");
    }
}

#[test]
fn what_an_operation_has_not_is_told_by_name() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-read,verbs-write --pattern bandwidth -s 8 -n 9";
    let document = run(&server, options, 3);
    let reason = document.cell("verbs-read", "bandwidth", 8)["reason"].as_str().unwrap();
    assert!(reason.contains("verbs-read is not measured in the pattern bandwidth"), "{reason}");
}

const UNRELIABLE: [&str; 6] = [
    "verbs-uc-write",
    "verbs-uc-write-imm",
    "verbs-uc-send",
    "verbs-uc-send-imm",
    "verbs-ud-send",
    "verbs-ud-send-imm",
];

/// What is lost is counted; what arrived is what was sent.
#[test]
fn every_unreliable_operation_in_every_pattern() {
    let Some(_device) = device() else { return };
    let server = server();
    for transport in UNRELIABLE {
        for patterns in ["latency", "bandwidth,bidirectional,rate"] {
            let options = format!(
                "--transport {transport} --pattern {patterns} -s 1,64,4096 -n 90 --rounds 2 -t 16"
            );
            let document = run(&server, &options, 0);
            for cell in document.cells() {
                assert_eq!(cell["status"], "measured", "{cell}");
                assert_eq!(cell["payload"]["corrupt_messages"], 0, "{cell}");
                let verified = cell["payload"]["verified_messages"].as_u64().unwrap();
                // Of a stamped byte nothing is left to compare.
                assert!(verified > 0 || cell["size"] == 1, "{cell}");
                assert_eq!(cell["counters"]["proof"]["holds"], true, "{cell}");
                let arrived = cell["settings"]["messages"].as_u64().unwrap();
                let loss = &cell["loss"];
                let (sent, lost) = (loss["sent"].as_u64().unwrap(), loss["lost"].as_u64().unwrap());
                assert_eq!(sent, arrived + lost, "{cell}");
                if cell["pattern"] != "latency" {
                    assert_eq!(sent, 90, "{cell}");
                }
            }
        }
    }
}

/// A datagram is one packet.
#[test]
fn a_datagram_longer_than_the_path_mtu_is_refused_by_name() {
    let Some(_device) = device() else { return };
    let server = server();
    for (options, most) in [("-s 4097", 4096), ("-s 2K -m 1024", 1024)] {
        let options = format!("-c UD --transport verbs-send --pattern bandwidth {options}");
        let document = document(crate::pair::client(&server, &options).end(), 4);
        let cell = &document.cells()[0];
        assert_eq!(
            (&cell["transport"], &cell["status"]),
            (&"verbs-ud-send".into(), &"unsupported".into())
        );
        let reason = cell["reason"].as_str().unwrap();
        assert!(
            reason.contains(&format!(
                "over the path MTU of rxe0 port 1, the most that a datagram carries: {most} B"
            )),
            "{reason}"
        );
    }
}

/// One receive for a hundred datagrams in flight: most find none.
#[test]
fn datagrams_that_find_no_receive_are_counted_as_lost() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-ud-send --pattern bandwidth -s 64 -n 3000 -t 100 -r 2 -l 50";
    let document = run(&server, &format!("{options} --rounds 1"), 0);
    let cell = &document.cells()[0];
    let lost = cell["loss"]["lost"].as_u64().unwrap();
    assert!(lost > 0 && lost < 3000, "{cell}");
    assert_eq!(cell["settings"]["messages"].as_u64().unwrap() + lost, 3000);
    let warnings = document.0["warnings"].to_string();
    assert!(warnings.contains(&format!("{lost} of 3000 messages were lost")), "{warnings}");
}

/// The search ends, its settings are used and shown, and nothing is lost by them.
#[test]
fn settings_that_were_searched_for_are_shown_with_the_figure() {
    let Some(_device) = device() else { return };
    let server = server();
    let options =
        "--transport verbs-write,verbs-fetch-add,verbs-ud-send --pattern rate -s 8 -n 2000";
    let document = run(&server, &format!("{options} --rounds 2 --tune"), 0);
    for cell in document.cells() {
        let settings = &cell["settings"]["transport"];
        let text = settings["tuned"].as_str().unwrap();
        assert!(text.starts_with("-l ") && text.contains("times the rate"), "{text}");
        let number = |name: &str| settings[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(number("post list") >= 1 && number("completion moderation") >= 1);
        assert!(cell["settings"]["depth"].as_u64().unwrap() >= 4 * number("post list"));
    }
}

/// Threads have contexts and completion queues of their own, and their figures add up.
#[test]
fn threads_measure_together() {
    let Some(_device) = device() else { return };
    let server = server();
    let transports = "verbs-write,verbs-send,verbs-read,verbs-fetch-add,verbs-ud-send";
    for patterns in ["latency", "rate"] {
        let options = format!(
            "--transport {transports} --pattern {patterns} -s 64 -n 301 --rounds 1 --threads 3 -q 2"
        );
        let document = run(&server, &options, 0);
        for cell in document.cells() {
            assert_eq!(cell["settings"]["transport"]["threads"], "3", "{cell}");
            let lost = cell["loss"]["lost"].as_u64().unwrap_or(0);
            let messages = cell["settings"]["messages"].as_u64().unwrap();
            assert!(messages + lost >= 301, "{cell}");
            assert_eq!(cell["counters"]["proof"]["holds"], true, "{cell}");
        }
    }
}

/// One command for every pair of service and operation that there is.
#[test]
fn one_command_sweeps_all_that_verbs_have() {
    let Some(_device) = device() else { return };
    let server = server();
    let document = run(&server, "--transport verbs -s 64 -n 40 --rounds 1", 0);
    let mut names: Vec<_> =
        document.cells().iter().map(|cell| cell["transport"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RELIABLE.len() + UNRELIABLE.len());
    for cell in document.cells() {
        assert_eq!(cell["status"], "measured", "{cell}");
        assert!(cell["payload"]["verified_messages"].as_u64().unwrap() > 0, "{cell}");
    }
}
