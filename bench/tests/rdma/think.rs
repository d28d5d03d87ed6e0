//! Pauses between a reply and the next message, over RDMA.

use crate::{
    document::{measured, number},
    pair::{device, run, server},
};

#[test]
fn pauses_are_made_over_every_kind_of_verbs() {
    let Some(_device) = device() else { return };
    let server = server();
    for (pattern, transports) in [
        ("calls -t 4", "verbs-write,verbs-write-imm,verbs-send"),
        ("latency", "verbs-write,verbs-send,verbs-ud-send,verbs-read,verbs-fetch-add"),
    ] {
        let options = format!(
            "--transport {transports} --pattern {pattern} -s 8 --think 4ms -n 40 --rounds 2"
        );
        for cell in run(&server, &options, 0).cells() {
            measured(cell);
            let think = &cell["think"];
            assert_eq!((number(&think["asked"]), &think["spread"]), (4e6, &"constant".into()));
            // The first of each place is shorter in calls.
            let (mean, pauses) = (number(&think["mean"]), number(&think["pauses"]));
            assert!(pauses >= 40.0 && mean * pauses >= 4e6 * (pauses - 8.0), "{cell}");
            assert!(cell.get("failed_checks").is_none(), "{cell}");
        }
    }
}
