//! The extended interface and the plain one (`--post`): the same messages by either.

use crate::{
    document::{measured, without_figures},
    pair::{device, run, server},
};

#[test]
fn every_operation_is_carried_by_the_extended_interface() {
    let Some(_device) = device() else { return };
    let server = server();
    let reliable = "verbs-write,verbs-write-imm,verbs-send,verbs-send-imm,verbs-read,\
                    verbs-fetch-add,verbs-compare-swap";
    let all = &format!("{reliable},verbs-uc-send,verbs-ud-send-imm");
    for (transports, options) in [
        (all, "-s 64,4000 -n 40 --rounds 2"),
        (all, "--pattern bandwidth,fetch,rate -s 64 -n 130 -q 3 -l 4 -t 16 --rounds 1"),
        (&reliable.to_owned(), "-s 300 -n 60 -e --shared-receives --rounds 1"),
    ] {
        let options = format!("--post extended --transport {transports} {options}");
        let finished = crate::pair::client(&server, &options).end();
        let document = crate::document::Document::read(&finished.stdout);
        let mut compared = 0;
        for cell in document.cells() {
            // What an operation has no pattern for stays as it is.
            if cell["status"] == "unsupported" {
                let reason = cell["reason"].as_str().unwrap();
                assert!(reason.contains("is not measured in the pattern"), "{reason}");
                continue;
            }
            measured(cell);
            assert_eq!(cell["payload"]["corrupt_messages"], 0, "{cell}");
            compared += cell["payload"]["verified_messages"].as_u64().unwrap();
            let interface = &cell["settings"]["transport"]["interface"];
            assert_eq!(interface, "extended (ibv_wr_*, ibv_cq_ex)");
        }
        assert!(compared >= 9, "{compared} messages were compared");
    }
}

/// They split a latency where there are any.
#[test]
fn time_stamps_that_soft_roce_lacks_are_unsupported_by_name() {
    let Some(_device) = device() else { return };
    let server = server();
    for post in ["", "--post extended"] {
        let options = format!(
            "--timestamps {post} --transport verbs-send,verbs-read --pattern latency -s 8 -n 9"
        );
        for cell in run(&server, &options, 4).cells() {
            without_figures(cell, "unsupported", &["rxe0", "no time stamps", "--timestamps"]);
        }
    }
}

/// Soft-RoCE's provider has had faults in it, so that there it must be asked for.
#[test]
fn soft_roce_is_plain_unless_asked() {
    let Some(_device) = device() else { return };
    let server = server();
    for options in ["", "--post auto", "--post plain"] {
        let options = format!("--transport verbs-send --pattern latency -s 8 -n 9 {options}");
        let document = run(&server, &options, 0);
        let interface = &document.cells()[0]["settings"]["transport"]["interface"];
        assert_eq!(interface, "plain (ibv_post_send, ibv_poll_cq)");
    }
}
