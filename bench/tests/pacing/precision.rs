//! `--precision`: a cell is measured until its figure is known.

use std::time::Duration;

use fabricbench::{
    plan::{Pattern, Plan, Stop},
    report::{CellRecord, StoppedBy},
    session::Slice,
};

use super::scripted::{Random, Scripted, Times, plan, run};

/// The true time of an operation, in nanoseconds.
const TRUE: f64 = 400e3;

fn noise(deviation: f64) -> impl FnMut(&Slice, u64, &mut Random) -> Times {
    move |_, _, random| Times {
        set_up: 10_000_000,
        operation: TRUE * (deviation * random.normal()).exp(),
    }
}

fn precise(pattern: Pattern, sizes: &str, seed: u64) -> Plan {
    let stop = Stop::After(Duration::from_secs(1));
    Plan { precision: Some("1%".parse().unwrap()), ..plan(pattern, sizes, stop, 3, seed) }
}

fn timed(cell: &CellRecord) -> f64 {
    cell.rounds.iter().map(|round| round.elapsed_ns as f64 / 1e9).sum()
}

#[test]
fn methodology_2_a_cell_ends_when_it_is_known_or_its_time_is_spent_and_says_which() {
    for pattern in [Pattern::Latency, Pattern::Bandwidth] {
        let (quiet, _) = run(&precise(pattern, "1,2,4", 1), &mut Scripted::new(1, noise(5e-4)));
        for cell in &quiet.cells {
            let stopped = cell.stopped.unwrap();
            assert_eq!(stopped.by, StoppedBy::Precision);
            assert!(stopped.half_width.unwrap() <= 0.01);
            assert_eq!(stopped.half_width, cell.half_width());
            assert!(cell.rounds.len() >= 3 && timed(cell) < 0.6, "{}", timed(cell));
        }
        let (noisy, _) = run(&precise(pattern, "1,2,4", 1), &mut Scripted::new(1, noise(0.1)));
        for cell in &noisy.cells {
            let stopped = cell.stopped.unwrap();
            assert_eq!(stopped.by, StoppedBy::Time);
            assert!(stopped.half_width.unwrap() > 0.01, "{:?}", cell.stopped);
            assert!((0.99..1.05).contains(&timed(cell)), "{}", timed(cell));
        }
    }
}

#[test]
fn many_samples_alone_do_not_make_a_figure_known() {
    let (document, _) =
        run(&precise(Pattern::Latency, "1,2", 2), &mut Scripted::new(2, noise(0.1)));
    for cell in &document.cells {
        let latency = cell.latency.as_ref().unwrap();
        let [low, high] = latency.p50_interval_95.unwrap();
        let within = (high - low) / 2.0 / latency.p50.unwrap();
        assert!(latency.half_width().unwrap() > within);
        let [low, high] = latency.p50_rounds_interval_95.unwrap();
        assert!(
            low < high && latency.p50.unwrap() > low * 0.9 && latency.p50.unwrap() < high * 1.1
        );
    }
}

#[test]
fn messages_are_a_maximum_as_time_is() {
    let plan = Plan { stop: Stop::Messages(2400), ..precise(Pattern::Latency, "1", 3) };
    let messages = |cell: &CellRecord| cell.settings.as_ref().unwrap().messages;
    let (noisy, _) = run(&plan, &mut Scripted::new(3, noise(0.1)));
    for cell in &noisy.cells {
        assert_eq!((cell.stopped.unwrap().by, messages(cell)), (StoppedBy::Messages, 2400));
    }
    let (quiet, _) = run(&plan, &mut Scripted::new(3, noise(1e-4)));
    assert!(quiet.cells.iter().all(|cell| messages(cell) < 2400), "{:?}", quiet.cells[0].stopped);
}

/// Looking after each round at whether to go on costs some confidence: of a fixed number of rounds 95 % of the
/// intervals hold the truth (`stats/rounds.rs`), of these 90 % at the least.
#[test]
fn methodology_2_intervals_hold_the_truth_also_where_they_decided_the_end() {
    for deviation in [0.003, 0.01, 0.03] {
        let (mut held, mut all) = (0, 0);
        for seed in 0..25 {
            let plan = precise(Pattern::Bandwidth, "1000:20000:+1000", seed);
            let (document, _) = run(&plan, &mut Scripted::new(seed + 1, noise(deviation)));
            for cell in &document.cells {
                let rate = cell.throughput.as_ref().unwrap();
                let [low, high] = rate.interval_95.unwrap();
                let truth = cell.size as f64 * 1e9 / TRUE;
                held += usize::from(low <= truth && truth <= high);
                all += 1;
            }
        }
        let coverage = f64::from(held as u32) / f64::from(all as u32);
        assert!((0.9..0.99).contains(&coverage), "{deviation}: {coverage} of {all}");
    }
}
