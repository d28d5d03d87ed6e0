//! The memory of the harness beside message buffers: a program of its own, so that nothing else counts.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

#[path = "pacing/scripted.rs"]
mod scripted;

use std::fs;

use fabricbench::{
    observe::PeakMemory,
    plan::{Pattern, Plan, Sizes, Stop},
    report::{Content, ResultFile},
    transport::StopSignal,
};
use scripted::{Scripted, Times, into, plan, usual_settings};

/// Issue 5: however long it runs, and with however many cells.
const MOST: u64 = 64 << 20;

#[test]
fn five_thousand_cells_take_less_than_64_mib() {
    let sizes = Sizes::parse("1:1250:+1").unwrap();
    let transports = scripted::TRANSPORTS.map(|name| name.parse().unwrap());
    let plan = Plan {
        cells: Plan::new(&transports, &[Pattern::Latency], &sizes, Stop::Messages(2000), 2, 1)
            .cells,
        ..plan(Pattern::Latency, "1", Stop::Messages(2000), 2, 1)
    };
    assert_eq!(plan.cells.len(), 5000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let file = ResultFile::create(&path, Content::Result, &StopSignal::new()).unwrap();
    // Samples of each cell spread over some thousand buckets, as real ones do.
    let mut measuring = Scripted::new(1, |_, _, random| Times {
        set_up: 1,
        operation: 20e3 * (1.0 + random.uniform()),
    });
    measuring.spread = 200;
    measuring.settings = usual_settings();
    let peak = PeakMemory::begin();
    let Some(before) = peak.bytes() else { return };
    let (document, _) = into(&plan, &mut measuring, Some(&file));
    file.finish(&document).unwrap();
    let most = peak.bytes().unwrap();
    let written = fs::metadata(&path).unwrap().len();
    println!(
        "{} MiB before, {} MiB at most, {} MiB written",
        before >> 20,
        most >> 20,
        written >> 20
    );
    assert!(document.cells.iter().all(|cell| cell.latency.as_ref().unwrap().samples == 2000));
    assert!(most < MOST, "{} MiB, of which {} were there before", most >> 20, before >> 20);
}
