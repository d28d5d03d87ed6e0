//! Rates that are searched for.

use std::collections::BTreeSet;

use crate::{
    document::{Document, measured, number},
    process::run,
};

const SEARCH: &str = "run --pattern calls,latency --transport tcp@loopback,grpc@loopback -s 64 -D 0.1s --rounds 1 \
                      --rate search";

#[test]
fn a_search_has_a_closed_loop_the_rates_and_what_they_show() {
    let finished = run(&format!("{SEARCH} --arrivals poisson --format json")).quietly(0);
    let document = Document::read(&finished.stdout);
    assert_eq!(document.0["plan"]["loop_kind"], "open");
    document.cells().iter().for_each(measured);
    let knees = document.0["knees"].as_array().unwrap();
    assert_eq!(knees.len(), 2);
    for knee in knees {
        assert_eq!((&knee["pattern"], &knee["size"]), (&"calls".into(), &64.into()));
        assert_eq!(knee["variant"], serde_json::json!({"arrivals": "poisson"}));
        let of = document
            .cells()
            .iter()
            .filter(|cell| cell["transport"] == knee["transport"] && cell["pattern"] == "calls");
        let (closed, open): (Vec<_>, Vec<_>) = of.partition(|cell| cell["load"].is_null());
        assert_eq!(closed.len(), 1);
        assert_eq!(closed[0]["throughput"]["messages_per_s"], knee["capacity_per_s"]);
        assert!(open.len() >= 10, "{}", open.len());
        let rates: Vec<_> =
            open.iter().map(|cell| number(&cell["load"]["offered_per_s"])).collect();
        assert!(rates.is_sorted(), "{rates:?}");
        let offered: BTreeSet<_> = rates.iter().map(|rate| *rate as u64).collect();
        assert_eq!(offered.len(), rates.len(), "each once: {rates:?}");
        for (cell, rate) in open.iter().zip(rates) {
            assert_eq!(
                cell["variant"],
                serde_json::json!({"rate": rate as u64, "arrivals": "poisson"})
            );
            assert_eq!(cell["load"]["arrivals"], "poisson");
        }
    }
}

#[test]
fn every_face_tells_the_knee() {
    let plan = "run --pattern calls --transport tcp@loopback -s 64 -D 0.1s --rounds 1 --rate search --knee mean:3";
    let table = run(plan).quietly(0).stdout;
    for words in [
        "tcp@loopback calls 64 B: latency against offered rate",
        "offered/s",
        "<- the knee",
        "in a closed loop of 128 on a connection",
        "at most 3.00 times the least one",
        "the closed loops of --rate search",
    ] {
        // A machine that stands still under most rates shows none.
        let is_of_a_knee = words.contains("the knee") || words.contains("at most 3.00");
        let is_excused = is_of_a_knee && table.contains("no knee: ");
        assert!(is_excused || table.contains(words), "no {words} in {table}");
    }
    let markdown = run(&format!("{plan} --format markdown")).quietly(0).stdout;
    assert!(markdown.contains("<summary>latency against offered rate</summary>"), "{markdown}");
    let lines = run(&format!("{plan} --format jsonl")).quietly(0).stdout;
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["kind"], &last["knees"][0]["figure"]), (&"end".into(), &"mean".into()));
    let long = run(&format!("{plan} --format long")).quietly(0).stdout;
    assert!(long.contains("knee at ") || long.contains("no knee: "), "{long}");
}

#[test]
fn what_makes_no_search_is_refused() {
    let plan = "run --transport tcp@loopback -s 64 --pattern";
    for (options, words) in [
        ("latency --rate search", "give --pattern calls"),
        ("calls --rate search --budget 5s", "no --budget"),
        ("calls --knee p99:3", "give that as well"),
        ("calls --rate 100 --knee p99:3", "give that as well"),
        ("calls --rate search --knee p95:3", "p99:3"),
        ("calls --rate searching", "and not `search`"),
        ("calls --rate search --sweep rate=1,2", "one value as well"),
    ] {
        run(&format!("{plan} {options}")).failed(2, &[words]);
    }
}
