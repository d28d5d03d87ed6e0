//! A machine that drifts by 20 % during a run.

use std::time::Duration;

use fabricbench::{
    clock::{Clock as _, VirtualClock},
    plan::{Pattern, Plan, Stop},
    report::{CellRecord, Document},
    session::Slice,
};

use super::scripted::{Random, Scripted, Times, plan, run};

/// Nanoseconds after which an operation takes a fifth longer.
const DRIFT_AFTER: f64 = 20e9;

/// Two transports that are alike, on a machine that becomes slower.
fn drifting(_: &Slice, now: u64, random: &mut Random) -> Times {
    let drift = 1.0 + 0.2 * now as f64 / DRIFT_AFTER;
    let noise = (0.002 * random.normal()).exp();
    Times { set_up: 10_000_000, operation: 100e3 * drift * noise }
}

fn alike() -> Plan {
    let stop = Stop::After(Duration::from_millis(600));
    plan(Pattern::Latency, "1,8,64,512,4K,32K,256K", stop, 3, 1)
}

fn of<'a>(document: &'a Document, transport: &str) -> Vec<&'a CellRecord> {
    document.cells.iter().filter(|cell| cell.transport.to_string() == transport).collect()
}

fn median(cell: &CellRecord) -> f64 {
    cell.latency.as_ref().unwrap().p50.unwrap()
}

fn over_rounds(cell: &CellRecord) -> [f64; 2] {
    cell.latency.as_ref().unwrap().p50_rounds_interval_95.unwrap()
}

#[test]
fn methodology_7_drift_does_not_decide_between_interleaved_transports_and_is_told() {
    let (document, _) = run(&alike(), &mut Scripted::new(1, drifting));
    let took = document.measured_s.unwrap() * 1e9;
    assert!((0.8..1.3).contains(&(took / DRIFT_AFTER)), "{took}");
    for (one, other) in of(&document, "verbs-write").iter().zip(of(&document, "tcp@ipoib")) {
        let ratio = median(one) / median(other);
        assert!((0.98..1.02).contains(&ratio), "{ratio}");
    }
    // From the middle of the first third to that of the last.
    let drift = document.drift.unwrap();
    assert!(drift.significant && drift.cells == 28, "{drift:?}");
    assert!((1.1..1.16).contains(&drift.ratio), "{drift:?}");
    let told = document.warnings.iter().filter(|warning| warning.contains("became slower"));
    assert_eq!(told.count(), 1, "{:?}", document.warnings);
}

#[test]
fn methodology_7_one_after_the_other_drift_does_decide() {
    let clock = VirtualClock::default();
    let mut one_after_the_other = Vec::new();
    for name in ["verbs-write", "tcp@ipoib"] {
        let all = alike();
        let cells = all.cells.iter().filter(|cell| cell.transport.to_string() == name);
        let alone = Plan { cells: cells.cloned().collect(), ..all.clone() };
        let mut measuring = Scripted::new(1, drifting);
        measuring.clock = clock.clone();
        one_after_the_other.push(run(&alone, &mut measuring).0);
        clock.advance((DRIFT_AFTER / 2.0) as u64);
    }
    assert!(clock.now() > DRIFT_AFTER as u64);
    let (one, other) = (&one_after_the_other[0], &one_after_the_other[1]);
    for (one, other) in of(one, "verbs-write").iter().zip(of(other, "tcp@ipoib")) {
        assert!(median(other) / median(one) > 1.1);
        assert!(over_rounds(one)[1] < over_rounds(other)[0], "as if they were different");
    }
}

#[test]
fn no_drift_is_told_of_a_steady_machine() {
    let steady = |_: &Slice, _: u64, random: &mut Random| Times {
        set_up: 10_000_000,
        operation: 100e3 * (0.03 * random.normal()).exp(),
    };
    let (document, _) = run(&alike(), &mut Scripted::new(3, steady));
    let drift = document.drift.unwrap();
    assert!(!drift.significant, "{drift:?}");
    assert_eq!(document.warnings, Vec::<String>::new());
    // A closed loop on a made clock keeps Little's law.
    assert!(document.cells.iter().all(|cell| cell.failed_checks.is_empty()));
}
