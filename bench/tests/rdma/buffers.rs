//! Messages of several buffers, which the device gathers.

use crate::{
    document::{Document, measured, number, without_figures},
    pair::{device, local_server, run, server},
};

/// Both ends of each cell compared a message, all of whose bytes were right, and buffers were gathered.
#[track_caller]
fn gathered(document: &Document, buffers: &str) {
    for cell in document.cells() {
        measured(cell);
        let told = &cell["settings"]["transport"]["buffers"];
        assert_eq!(*told, format!("gathered from {buffers} by the adapter"), "{cell}");
        let payload = &cell["payload"];
        let sides = if cell["pattern"] == "latency" { 2.0 } else { 1.0 };
        assert!(number(&payload["verified_messages"]) >= sides, "{cell}");
        assert_eq!(payload["corrupt_messages"], 0, "{cell}");
        assert_eq!(cell["counters"]["proof"]["holds"], true, "{cell}");
    }
}

#[test]
fn buffers_of_any_length_are_one_message_in_every_pattern() {
    let Some(_device) = device() else { return };
    let server = server();
    let transports = "verbs-write,verbs-write-imm,verbs-send,verbs-send-imm";
    let options =
        "-n 30 --warm-up 1 --rounds 1 -t 4 --pattern latency,bandwidth,bidirectional,rate";
    for (buffers, count) in [("1+64+4096+2x700", "5"), ("3+2", "2")] {
        let options = format!("{options} --transport {transports} --buffers {buffers}");
        gathered(&run(&server, &options, 0), count);
    }
    let scheme =
        "--transport verbs-write,verbs-send --pattern latency,bandwidth --buffers 10:uniform";
    gathered(&run(&server, &format!("{scheme} -n 3 --rounds 1 --timeout 30s"), 0), "10");
}

#[test]
fn services_that_lose_messages_and_other_ways_to_post_gather_too() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "-n 30 --warm-up 1 --rounds 1 -t 4 --buffers 7x100+3";
    for rest in [
        "--transport verbs-uc-write,verbs-uc-send,verbs-ud-send --pattern latency,bandwidth",
        "--transport verbs-write,verbs-send --pattern latency,bandwidth -e",
        "--transport verbs-send --pattern bandwidth -q 3 --use-srq",
        "--transport verbs-send --pattern rate -I 0",
    ] {
        gathered(&run(&server, &format!("{options} {rest}"), 0), "8");
    }
    let managed = "--transport verbs-write,verbs-send --pattern latency -R";
    gathered(&run(&local_server(), &format!("{options} {managed}"), 0), "8");
}

#[test]
fn what_is_not_gathered_is_told_with_the_reason() {
    let Some(_device) = device() else { return };
    let server = server();
    for (options, words) in [
        (
            "--pattern latency --buffers 33 -s 64",
            &["33 buffers", "the 32 that rxe0", "max_sge"][..],
        ),
        ("--pattern rate --buffers 4 -s 64 -l 4", &["--post-list"]),
        ("--pattern rate --buffers 4 -s 64 --split 32", &["--split"]),
        ("--pattern rate --buffers 4 -s 64 --post extended", &["--post extended"]),
    ] {
        let options = format!("--transport verbs-send {options} -n 8 --rounds 1");
        for cell in run(&server, &options, 4).cells() {
            without_figures(cell, "unsupported", words);
        }
    }
    // As many as the device takes, and one, which is no different from a message without.
    let all = "--transport verbs-write --pattern latency --buffers 32 -s 64 -n 8 --rounds 1";
    gathered(&run(&server, all, 0), "32");
    let one = "--transport verbs-write --pattern rate --buffers 1 -s 64 -l 4 -n 8 --rounds 1";
    for cell in run(&server, one, 0).cells() {
        measured(cell);
        assert!(cell["settings"]["transport"]["buffers"].is_null(), "{cell}");
    }
}
