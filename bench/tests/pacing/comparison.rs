//! Whole runs beside each other, on machines that drift, and with cells that ended early.

use std::time::Duration;

use fabricbench::{
    comparison::{Comparison, Finding, Input, Request},
    plan::{Pattern, Plan, Sizes, Stop, TransportName},
    report::{CellRecord, Document},
    session::Slice,
};

use super::scripted::{Random, Scripted, Times, plan, run};

/// What each figure of a comparison shows.
fn findings(base: &Document, new: &Document) -> Vec<Finding> {
    let input = |document: &Document| Input { file: String::new(), document: document.clone() };
    let comparison = Comparison::of(&input(base), &input(new), &Request::default());
    comparison.figures().map(|(_, figure)| figure.finding).collect()
}

const ROUNDS: u32 = 3;
const SET_UP: u64 = 10_000_000;
const TIMED: Duration = Duration::from_millis(600);

/// A machine that becomes slower by 20 % until two cells are measured, and changes by 0.2 % from slice to
/// slice.
fn drifting(_: &Slice, now: u64, random: &mut Random) -> Times {
    // Warm-up is 50 ms.
    let slice = SET_UP + 50_000_000 + TIMED.as_nanos() as u64 / u64::from(ROUNDS);
    let share = now as f64 / (2.0 * f64::from(ROUNDS) * slice as f64);
    let noise = (0.002 * random.normal()).exp();
    Times { set_up: SET_UP, operation: 1e6 * (1.0 + 0.2 * share) * noise }
}

fn of(transports: &[&str], pattern: Pattern, seed: u64) -> Plan {
    let transports: Vec<TransportName> =
        transports.iter().map(|name| name.parse().unwrap()).collect();
    let size = Sizes::parse("64").unwrap();
    Plan::new(&transports, &[pattern], &size, Stop::After(TIMED), ROUNDS, seed)
}

/// The result as if its only cell was `cell`, over any transport.
fn alone(document: &Document, cell: &CellRecord) -> Document {
    let transport = "tcp@lo".parse().unwrap();
    Document { cells: vec![CellRecord { transport, ..cell.clone() }], ..document.clone() }
}

/// In how many of 20 runs two equal transports are told apart.
fn told_apart(pattern: Pattern, interleaved: bool) -> usize {
    let both = ["verbs-write", "verbs-send"];
    (0..20)
        .filter(|&seed| {
            let mut machine = Scripted::new(seed + 1, drifting);
            let (base, new) = if interleaved {
                let (document, _) = run(&of(&both, pattern, seed), &mut machine);
                (alone(&document, &document.cells[0]), alone(&document, &document.cells[1]))
            } else {
                let [first, second] =
                    both.map(|name| run(&of(&[name], pattern, seed), &mut machine).0);
                (alone(&first, &first.cells[0]), alone(&second, &second.cells[0]))
            };
            let found = findings(&base, &new);
            assert!(!found.is_empty());
            found.contains(&Finding::Slower) || found.contains(&Finding::Faster)
        })
        .count()
}

#[test]
fn methodology_7_drift_does_not_tell_interleaved_transports_apart() {
    for pattern in [Pattern::Latency, Pattern::Bandwidth] {
        assert_eq!(told_apart(pattern, true), 0);
    }
}

/// That drift matters, and that interleaving is what keeps it out.
#[test]
fn methodology_7_drift_tells_transports_apart_that_follow_one_another() {
    for pattern in [Pattern::Latency, Pattern::Bandwidth] {
        assert_eq!(told_apart(pattern, false), 20);
    }
}

/// Cells end when their rounds agree, by accident or not; their intervals are wider for that.
#[test]
fn methodology_11_runs_that_ended_by_their_precision_are_not_told_apart() {
    for deviation in [0.003, 0.01, 0.02] {
        let noise = |_: &Slice, _, random: &mut Random| Times {
            set_up: SET_UP,
            operation: 400e3 * (deviation * random.normal()).exp(),
        };
        let (mut alarms, mut all) = (0, 0);
        for seed in 0..4 {
            let [base, new] = [1, 101].map(|first| {
                let stop = Stop::After(Duration::from_secs(1));
                let plan = plan(Pattern::Bandwidth, "1000:20000:+1000", stop, ROUNDS, seed);
                let plan = Plan { precision: Some("1%".parse().unwrap()), ..plan };
                run(&plan, &mut Scripted::new(seed + first, noise)).0
            });
            let found = findings(&base, &new);
            let differs = |finding: &&Finding| **finding != Finding::NoDifferenceShown;
            alarms += found.iter().filter(differs).count();
            all += found.len();
        }
        assert_eq!(all, 320);
        assert!(alarms <= 16, "{alarms} of {all} where rounds differ by {deviation}");
    }
}
