//! Closed loops with pauses between a reply and the next call.

use crate::{
    document::{Document, measured, number},
    process::run,
};

const THINK: &str = "run --pattern calls,latency --transport tcp@loopback,grpc@loopback,grpc-lean@loopback -s 64 \
                     --rounds 2 -t 4";

#[test]
fn pauses_are_in_the_rate_and_in_no_latency() {
    let document = Document::read(
        &run(&format!("{THINK} -n 80 --think 2ms --threads 2 --format json")).quietly(0).stdout,
    );
    assert_eq!(document.cells().len(), 6);
    for cell in document.cells() {
        measured(cell);
        let think = &cell["think"];
        assert_eq!(cell["variant"], serde_json::json!({"think": "2ms"}));
        assert_eq!((number(&think["asked"]), &think["spread"]), (2e6, &"constant".into()));
        // The first of each place is shorter, so that they take turns; none of the others is.
        let places = if cell["pattern"] == "calls" { 8.0 } else { 2.0 };
        let (mean, pauses) = (number(&think["mean"]), number(&think["pauses"]));
        assert!(pauses >= 80.0 && mean * pauses >= 2e6 * (pauses - 2.0 * places), "{cell}");
        // No more than the pauses allow, but for the first of each place, which are shorter.
        let rate = number(&cell["throughput"]["messages_per_s"]);
        assert!(rate <= 1.5 * places / 2e-3, "{rate}: {cell}");
        assert_eq!(cell["latency"]["samples"], 80);
        assert!(cell.get("failed_checks").is_none(), "{cell}");
        // The client polls in its pauses.
        assert!(
            cell["cpu"]["client_ns"].is_u64() && cell["cpu"]["per_message"].is_null(),
            "{cell}"
        );
    }
    let long = run("run --transport tcp@loopback -s 8 -n 20 --think 1ms --format long");
    assert_eq!(long.code, Some(0), "latency is what it implies: {}", long.stdout);
    let says =
        "waiting: tcp@loopback: client sleeps (and polls in its pauses), server sleeps; who polls";
    assert!(long.stdout.contains(says), "{}", long.stdout);
}

#[test]
fn a_sweep_has_pauses_beside_none() {
    let plan = format!("{THINK} -n 40 --sweep think=no,100us,100us:exponential --format json");
    let document = Document::read(&run(&plan).quietly(0).stdout);
    assert_eq!(document.cells().len(), 18);
    for cell in document.cells() {
        let thinks = cell["variant"]["think"] != "no";
        assert_eq!(cell["think"].is_object(), thinks, "{cell}");
        if thinks {
            assert!(cell.get("failed_checks").is_none(), "{cell}");
            let spread = &cell["think"]["spread"];
            let exponential = cell["variant"]["think"] == "100us:exponential";
            assert_eq!(*spread == "exponential", exponential, "{cell}");
        }
    }
}

#[test]
fn what_is_no_pause_is_refused() {
    let plan = "run --transport tcp@loopback -s 64 --pattern";
    for (options, words) in [
        ("calls --think 2s", "up to 1s"),
        ("calls --think 5us:uniform", ":exponential"),
        ("calls --think 1ms --rate 100", "--rate"),
        ("bandwidth --think 1ms", "which latency and calls have"),
        ("calls --think 1ms --sweep think=no,2ms", "one value as well"),
    ] {
        run(&format!("{plan} {options}")).failed(2, &[words]);
    }
}
