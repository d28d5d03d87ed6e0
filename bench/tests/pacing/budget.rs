//! `--budget`: the time of a run, shared out.

use std::time::Duration;

use fabricbench::{
    plan::{Pattern, Plan, Stop},
    report::{Document, Status, StoppedBy},
    session::Slice,
};

use super::scripted::{Random, Scripted, Times, plan, run};

/// Set-up differs by transport, and time by size: 0.1 ms at 1 B, 13 ms at 4 MiB.
fn times(slice: &Slice, _: u64, random: &mut Random) -> Times {
    let set_up = match slice.cell.transport.to_string().as_str() {
        "verbs-write" | "verbs-send" => 90e6,
        "grpc@ipoib" => 30e6,
        _ => 10e6,
    };
    let noise = (0.01 * random.normal()).exp();
    Times {
        set_up: (set_up * (0.8 + 0.4 * random.uniform())) as u64,
        operation: (100e3 + slice.cell.size as f64 * 3.0) * noise,
    }
}

fn budgeted(seconds: u64, seed: u64) -> Plan {
    let plan = plan(Pattern::Latency, "1,64,4K,64K,512K,4M", Stop::default(), 3, seed);
    Plan { budget: Some(Duration::from_secs(seconds)), ..plan }
}

fn share_spent(document: &Document, plan: &Plan) -> f64 {
    document.measured_s.unwrap() / plan.budget.unwrap().as_secs_f64()
}

#[test]
fn a_run_ends_with_its_budget_and_every_cell_has_a_figure() {
    for (seconds, seed) in [(20, 1), (60, 2), (60, 3), (300, 4)] {
        let plan = budgeted(seconds, seed);
        let (document, told) = run(&plan, &mut Scripted::new(seed, times));
        let spent = share_spent(&document, &plan);
        assert!((0.95..=1.05).contains(&spent), "{spent} of {seconds} s");
        assert_eq!((told.done, told.warnings.len()), (24, 0), "{:?}", told.warnings);
        for cell in &document.cells {
            assert_eq!(cell.rounds.len(), 3);
            assert!(cell.latency.as_ref().unwrap().p50.is_some(), "{}", cell.label());
            assert_eq!(cell.stopped, None, "no precision was asked for");
        }
        // What is left is known from the start, and true throughout.
        let left = |at: usize| told.left[at].unwrap().as_secs_f64() / seconds as f64;
        assert!((0.99..=1.01).contains(&left(0)), "{}", left(0));
        assert!(told.has_ended && left(told.left.len() - 1) < 0.1);
    }
}

/// It ends with its budget, but for the slice that is under way, and says what it left out.
#[test]
fn a_budget_below_the_least_needs_is_told_and_kept() {
    for seconds in [1, 3] {
        let plan = budgeted(seconds, 5);
        let (document, told) = run(&plan, &mut Scripted::new(5, times));
        assert!(!told.has_ended);
        // The longest slice has 8 messages of 13 ms, and a set-up.
        let longest = 8.0 * 0.014 + 0.11;
        let spent = document.measured_s.unwrap();
        assert!((0.95..1.05 + longest).contains(&(spent / seconds as f64)), "{spent}");
        assert_eq!((told.done, told.warnings.len()), (24, 1), "{:?}", told.warnings);
        let too_short = format!("a --budget of {seconds}s is too short");
        assert!(told.warnings[0].contains(&too_short), "{}", told.warnings[0]);
        let skipped = document.cells.iter().filter(|cell| cell.status == Status::Skipped);
        let skipped: Vec<_> = skipped.map(|cell| cell.reason.clone().unwrap()).collect();
        assert!(skipped.iter().all(|reason| reason.ends_with("s was spent")), "{skipped:?}");
        let few = document.cells.iter().filter(|cell| (1..3).contains(&cell.rounds.len())).count();
        let counts = format!(
            "of 24 cells {} were skipped, and {few} have fewer than 3 rounds",
            skipped.len()
        );
        assert!(document.warnings.iter().any(|warning| warning.ends_with(&counts)), "{counts}");
        assert!(seconds == 3 || !skipped.is_empty());
        assert!(few > 0 || !skipped.is_empty());
    }
}

/// A step of 0.5 s in place of the 0.2 s that a slice was given: told once, and what is left follows.
#[test]
fn steps_that_take_longer_than_a_slice_are_told_once() {
    let stop = Stop::After(Duration::from_millis(600));
    let plan = plan(Pattern::Latency, "64,4K", stop, 3, 8);
    let slow = |_: &Slice, _: u64, _: &mut Random| Times { set_up: 1_000_000, operation: 0.5e9 };
    let (document, told) = run(&plan, &mut Scripted::new(8, slow));
    assert_eq!(told.warnings.len(), 1, "{:?}", told.warnings);
    let said = "a message takes 0.500 s, so that the fewest that a median needs (20) make 0.600 s of -D into 10.5 s";
    assert!(told.warnings[0].contains(said), "{}", told.warnings[0]);
    let left = |at: usize| told.left[at].unwrap().as_secs_f64();
    let all = document.measured_s.unwrap();
    assert!(left(0) < 0.1 * all, "as nothing is known yet");
    assert!((left(8) / (all * 16.0 / 24.0) - 1.0).abs() < 0.1, "{} of {all}", left(8));
}

/// Of messages by number nothing is known at first, and then what is left.
#[test]
fn the_time_that_messages_take_is_told_when_it_is_known() {
    let plan = plan(Pattern::Latency, "64,4K", Stop::Messages(300), 3, 9);
    let even = |_: &Slice, _: u64, _: &mut Random| Times { set_up: 1_000_000, operation: 1e6 };
    let (document, told) = run(&plan, &mut Scripted::new(9, even));
    assert_eq!(told.left[0], None);
    let left = told.left[12].unwrap().as_secs_f64();
    assert!((left / (document.measured_s.unwrap() / 2.0) - 1.0).abs() < 0.1, "{left}");
}

#[test]
fn what_cells_save_that_are_known_narrowly_goes_to_the_others() {
    // gRPC's rounds differ by 20 %; the others' hardly at all.
    let noisy = |slice: &Slice, now: u64, random: &mut Random| {
        let noise = if slice.cell.transport.to_string() == "grpc@ipoib" { 0.2 } else { 1e-4 };
        let noise = (noise * random.normal()).exp();
        Times { operation: 200e3 * noise, ..times(slice, now, random) }
    };
    let plan = Plan { precision: Some("1%".parse().unwrap()), ..budgeted(60, 6) };
    let (document, told) = run(&plan, &mut Scripted::new(6, noisy));
    assert_eq!(told.done, 24);
    let spent = share_spent(&document, &plan);
    assert!((0.95..=1.05).contains(&spent), "{spent}");
    let (mut quiet, mut noisy) = (0, u64::MAX);
    for cell in &document.cells {
        let elapsed: u64 = cell.rounds.iter().map(|round| round.elapsed_ns).sum();
        let stopped = cell.stopped.unwrap();
        if cell.transport.to_string() == "grpc@ipoib" {
            assert_eq!(stopped.by, StoppedBy::Budget);
            assert!(stopped.half_width.unwrap() > 0.01);
            noisy = noisy.min(elapsed);
        } else {
            assert_eq!(stopped.by, StoppedBy::Precision, "{:?}", cell.stopped);
            assert!(stopped.half_width.unwrap() <= 0.01);
            quiet = quiet.max(elapsed);
        }
    }
    assert!(noisy > 5 * quiet, "{noisy} against {quiet}");
}

#[test]
fn a_run_of_which_all_is_known_ends_before_its_budget() {
    let quiet = |slice: &Slice, now: u64, random: &mut Random| Times {
        operation: 200e3,
        ..times(slice, now, random)
    };
    let plan = Plan { precision: Some("2%".parse().unwrap()), ..budgeted(600, 7) };
    let (document, _) = run(&plan, &mut Scripted::new(7, quiet));
    assert!(share_spent(&document, &plan) < 0.5);
    let by = |cell: &fabricbench::report::CellRecord| cell.stopped.unwrap().by;
    assert!(document.cells.iter().all(|cell| by(cell) == StoppedBy::Precision));
}
