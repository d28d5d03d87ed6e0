//! What rounds say of the machine: whether it was steady, and whether it drifted.

use std::collections::BTreeSet;

use crate::{
    plan::Pattern,
    report::{CellRecord, DriftRecord, RoundRecord, Status},
    stats::{Interval, LEAST_ROUNDS, median_interval, median_of},
};

/// Rounds of one cell that differ by more than this are worth a warning.
const UNSTEADY: f64 = 2.0;

/// A drift of less is told to nobody: it moves no figure that is compared within rounds.
const LEAST_DRIFT: f64 = 0.01;

/// The normal quantile of a 95 % interval.
const Z_95: f64 = 1.96;

/// A warning if the machine was not steady: a reader should then repeat the run on a quiet one. Of a latency the
/// medians of its rounds count, which are its figure: one call that stood still is in a mean time, and not in them.
pub(super) fn unsteady(cells: &[CellRecord]) -> Option<String> {
    let measured = || cells.iter().filter(|cell| cell.status == Status::Measured);
    let differing = |cell: &CellRecord| {
        let (name, figures) = figures(cell);
        let ends = |(low, high): (f64, f64), figure: &f64| (low.min(*figure), high.max(*figure));
        let (low, high) = figures.iter().fold((f64::INFINITY, 0.0_f64), ends);
        (high / low > UNSTEADY).then_some(name)
    };
    let names: Vec<_> = measured().filter_map(differing).collect();
    let (count, all) = (names.len(), measured().count());
    let names: BTreeSet<_> = names.into_iter().collect();
    let names: Vec<_> = names.into_iter().collect();
    (count > 0).then(|| {
        format!(
            "in {count} of {all} cells the rounds' {} differ by more than a factor of {UNSTEADY} (`rounds` in the \
             document): the machine was not steady; repeat on a quiet one",
            names.join(" or ")
        )
    })
}

/// The figures of the rounds of a cell, and what they are called.
fn figures(cell: &CellRecord) -> (&'static str, Vec<f64>) {
    let is_timed = cell.pattern == Pattern::Latency || cell.load.is_some() || cell.think.is_some();
    let medians: Vec<f64> = cell.rounds.iter().filter_map(|round| round.p50).collect();
    match (is_timed, medians.len()) {
        (true, 2..) => ("medians", medians),
        // Of too few messages for medians.
        (true, _) => ("mean times", times(&cell.rounds).collect()),
        (false, _) => ("rates", times(&cell.rounds).collect()),
    }
}

/// How the last rounds of all cells compare with the first: of each cell the time of a message in the last third
/// of its rounds by that in the first third, and over cells the median of these ratios with its interval by order
/// statistics. `None` with fewer than six cells of three rounds.
pub(super) fn drift(cells: &[CellRecord]) -> Option<DriftRecord> {
    let measured = cells.iter().filter(|cell| cell.status == Status::Measured);
    let mut ratios: Vec<f64> = measured.filter_map(|cell| ratio(&cell.rounds)).collect();
    let Interval { low, high } = median_interval(&mut ratios, Z_95)?;
    let ratio = median_of(&mut ratios)?;
    let significant = (low > 1.0 || high < 1.0) && (ratio - 1.0).abs() >= LEAST_DRIFT;
    Some(DriftRecord { cells: ratios.len() as u64, ratio, interval_95: [low, high], significant })
}

/// The same in words, where it is significant.
pub(super) fn drifted(drift: &DriftRecord) -> Option<String> {
    let DriftRecord { cells, ratio, interval_95: [low, high], significant } = drift;
    let way = if *ratio > 1.0 { "slower" } else { "faster" };
    significant.then(|| {
        format!(
            "the machine became {way} during the run: in the last rounds a message took {ratio:.3} times as long as \
             in the first (median of {cells} cells, 95 % interval {low:.3} to {high:.3}); compare within this run \
             only, or repeat on a steady machine"
        )
    })
}

fn ratio(rounds: &[RoundRecord]) -> Option<f64> {
    if rounds.len() < LEAST_ROUNDS {
        return None;
    }
    let third = rounds.len() / 3;
    let mean = |rounds: &[RoundRecord]| {
        let (sum, count) = times(rounds).fold((0.0, 0), |(sum, n), time| (sum + time.ln(), n + 1));
        (count > 0).then(|| sum / f64::from(count))
    };
    let (first, last) = (mean(rounds.get(..third)?)?, mean(rounds.get(rounds.len() - third..)?)?);
    let ratio = (last - first).exp();
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// Nanoseconds a message, which every pattern has.
fn times(rounds: &[RoundRecord]) -> impl Iterator<Item = f64> + '_ {
    rounds
        .iter()
        .filter(|round| round.messages > 0)
        .map(|round| round.elapsed_ns as f64 / round.messages as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plan::Cell, run::tally::unmeasured};

    fn cell(times: &[f64]) -> CellRecord {
        let cell = Cell::new("verbs-send".parse().unwrap(), Pattern::Latency, 1);
        let rounds = times.iter().zip(0..).map(|(time, round)| RoundRecord {
            round,
            messages: 10,
            elapsed_ns: (time * 10.0) as u64,
            p50: None,
        });
        CellRecord {
            status: Status::Measured,
            rounds: rounds.collect(),
            ..unmeasured(&cell, "not yet")
        }
    }

    #[test]
    fn rounds_that_differ_are_told() {
        let mut record = cell(&[100.0, 190.0]);
        assert_eq!(unsteady(&[record.clone()]), None);
        record = cell(&[100.0, 190.0, 210.0]);
        let said = |record: &CellRecord| unsteady(std::slice::from_ref(record)).unwrap_or_default();
        assert!(said(&record).starts_with("in 1 of 1 cells the rounds' mean times differ"));
        // A call that stood still is no matter of the medians.
        record.rounds.iter_mut().for_each(|round| round.p50 = Some(90.0));
        assert_eq!(said(&record), "");
        record.rounds[0].p50 = Some(200.0);
        assert!(said(&record).starts_with("in 1 of 1 cells the rounds' medians differ"));
        record.pattern = Pattern::Bandwidth;
        assert!(said(&record).starts_with("in 1 of 1 cells the rounds' rates differ"));
        record.status = Status::Failed;
        assert_eq!(unsteady(&[record]), None);
    }

    #[test]
    fn methodology_7_a_drift_is_told_with_its_size_and_interval() {
        let cells: Vec<_> = (0..12)
            .map(|index| {
                let noise = 1.0 + 0.004 * f64::from(index % 5) - 0.008;
                cell(&[1e6, 1.1e6 * noise, 1.2e6 * noise])
            })
            .collect();
        let drift = drift(&cells).unwrap();
        let [low, high] = drift.interval_95;
        assert!(low < 1.2 && 1.2 < high && low > 1.1, "{drift:?}");
        assert!(drift.significant && drift.cells == 12);
        let words = drifted(&drift).unwrap();
        assert!(
            words.starts_with("the machine became slower") && words.contains("12 cells"),
            "{words}"
        );
    }

    #[test]
    fn methodology_7_no_drift_is_told_of_noise() {
        let mut state = 5u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1.0 + 0.1 * ((state >> 11) as f64 / (1u64 << 53) as f64 - 0.5)
        };
        let trials = 500;
        let alarms = (0..trials)
            .filter(|_| {
                let cells: Vec<_> =
                    (0..20).map(|_| cell(&[1e6 * noise(), 1e6 * noise(), 1e6 * noise()])).collect();
                drift(&cells).unwrap().significant
            })
            .count();
        assert!(alarms * 20 <= trials, "{alarms} alarms in {trials} trials");
    }

    #[test]
    fn too_few_cells_or_rounds_tell_nothing() {
        let three = cell(&[100.0, 110.0, 120.0]);
        assert_eq!(drift(&vec![three.clone(); 5]), None);
        assert_eq!(drift(&vec![cell(&[100.0, 120.0]); 20]), None);
        assert!(drift(&vec![three; 6]).is_some());
        let tiny = drift(&vec![cell(&[10_000.0, 10_000.0, 10_005.0]); 20]).unwrap();
        assert!(!tiny.significant && drifted(&tiny).is_none(), "{tiny:?}");
    }
}
