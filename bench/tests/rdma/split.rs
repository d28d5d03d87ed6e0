//! Messages that travel in pieces: what the device's limit is over, and what is cut shorter.

use crate::{
    document::{Document, measured, without_figures},
    pair::{device, run, server},
};

/// The messages of a run are whole, verified on both sides of each cell, and cut as told.
#[track_caller]
fn cut(document: &Document, pieces: &str) {
    for cell in document.cells() {
        measured(cell);
        assert_eq!(cell["settings"]["transport"]["pieces"], pieces, "{cell}");
        let payload = &cell["payload"];
        let verified = payload["verified_messages"].as_u64().unwrap();
        assert!(verified > 0, "{cell}");
        assert_eq!(payload["corrupt_messages"], 0, "{cell}");
    }
}

#[test]
fn a_message_over_the_devices_limit_goes_in_pieces_of_it() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "-s 9M -n 1 --warm-up 1 --rounds 1 --timeout 30s --split";
    for (transport, pattern) in
        [("verbs-send", "latency"), ("verbs-write-imm", "bandwidth"), ("verbs-read", "fetch")]
    {
        let options = format!("{options} --transport {transport} --pattern {pattern}");
        cut(&run(&server, &options, 0), "2, of at most 8388608 B");
    }
}

/// Four pieces a message, and more of them than there are receives, so that they come into every slot.
#[track_caller]
fn in_four(rest: &str) {
    let Some(_device) = device() else { return };
    let options = "-n 40 --warm-up 1 --rounds 1 -t 4 -s 1000 --split 300 --transport";
    cut(&run(&server(), &format!("{options} {rest}"), 0), "4, of at most 300 B");
}

#[test]
fn pieces_of_any_length_are_one_message_in_every_pattern() {
    in_four(
        "verbs-write,verbs-write-imm,verbs-send,verbs-send-imm --pattern latency,bandwidth,bidirectional",
    );
    in_four("verbs-read --pattern latency,fetch,rate");
}

#[test]
fn pieces_that_could_be_lost_are_one_message_too() {
    in_four(
        "verbs-uc-write,verbs-uc-write-imm,verbs-uc-send --pattern latency,bandwidth,bidirectional",
    );
}

#[test]
fn pieces_come_on_several_queue_pairs_and_by_events() {
    in_four("verbs-write,verbs-send --pattern bandwidth -q 3");
    in_four("verbs-send --pattern bandwidth -q 3 --use-srq");
    in_four("verbs-write,verbs-send --pattern latency,bandwidth -e");
}

#[test]
fn datagrams_carry_a_message_over_the_path_mtu_in_pieces() {
    let Some(_device) = device() else { return };
    let server = server();
    for rest in [
        "--transport verbs-ud-send,verbs-ud-send-imm --pattern latency,bandwidth,bidirectional -t 4",
        "--transport verbs-ud-send --pattern bandwidth -q 2 --use-srq -t 3",
    ] {
        let options = format!("-s 16K -n 20 --warm-up 1 --rounds 2 -m 1024 --split {rest}");
        let document = run(&server, &options, 0);
        cut(&document, "16, of at most 1024 B");
        for cell in document.cells() {
            let told = !cell["settings"]["transport"]["arrival"].is_null();
            assert_eq!(told, cell["transport"] == "verbs-ud-send", "{cell}");
        }
    }
}

#[test]
fn what_cannot_be_cut_as_asked_is_told_with_the_option() {
    let Some(_device) = device() else { return };
    let server = server();
    for (options, words) in [
        (
            "--transport verbs-send -s 16M --split 9M",
            &["--split", "rxe0", "max_msg_sz", "8388608 B"][..],
        ),
        ("--transport verbs-ud-send -s 16K --split 8K", &["--split", "path MTU", "rxe0"]),
        ("--transport verbs-fetch-add --split 4", &["fetch-add", "--split"]),
        (
            "--transport verbs-send -s 8M --split 1",
            &["8388608 pieces", "rxe0", "--split SIZE", "-t"],
        ),
        ("--transport verbs-write --pattern bandwidth -s 1K --split 512 -l 4", &["--post-list"]),
    ] {
        for cell in run(&server, &format!("{options} -n 4 --rounds 1"), 4).cells() {
            without_figures(cell, "unsupported", words);
        }
    }
    // What needs no cutting is left whole.
    let options = "--transport verbs-send,verbs-fetch-add -s 64 -n 4 --rounds 1 --split";
    for cell in run(&server, options, 0).cells() {
        assert!(cell["settings"]["transport"]["pieces"].is_null(), "{cell}");
    }
}
