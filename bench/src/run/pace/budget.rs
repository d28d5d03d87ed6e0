//! A budget, shared out among slices; and what a plan takes, before it begins.

use std::time::Duration;

use super::{
    super::search::{MOST_RATES, is_searched},
    costs::Costs,
    least_messages, rounds,
};
use crate::{
    plan::{Plan, Stop},
    report::EstimateRecord,
};

/// Slices to come of one cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming {
    pub(super) slices: u32,
    /// Seconds of each besides its timed part.
    pub(super) overhead: f64,
    /// Seconds that the fewest messages take.
    pub(super) least: f64,
}

/// The time that each slice to come may measure, so that all of them together take `left` seconds: the same for
/// all, but for those whose fewest messages take longer. Zero where even those do not fit.
pub(super) fn share(left: f64, coming: &[Coming]) -> Duration {
    let mut time = f64::INFINITY;
    loop {
        // Each pass can only make the time shorter, so that those that need longer can only become more.
        let (mut rest, mut sharing) = (left, 0.0);
        for &Coming { slices, overhead, least } in coming {
            let slices = f64::from(slices);
            rest -= slices * overhead;
            if least < time {
                sharing += slices;
            } else {
                rest -= slices * least;
            }
        }
        let next = if sharing > 0.0 { (rest / sharing).max(0.0) } else { 0.0 };
        if next >= time || next == 0.0 {
            return Duration::try_from_secs_f64(next.min(time)).unwrap_or_default();
        }
        time = next;
    }
}

/// Seconds that the slices to come take at the least.
pub(super) fn least(coming: &[Coming]) -> f64 {
    let each = |of: &Coming| f64::from(of.slices) * (of.overhead + of.least);
    coming.iter().map(each).sum()
}

/// How long `plan` takes, as far as that is known before it begins; `None` where messages decide, whose time
/// is not.
#[must_use]
pub fn estimate(plan: &Plan) -> Option<EstimateRecord> {
    let (least_rounds, most) = rounds(plan);
    let mut coming = planned(plan);
    let overhead =
        coming.iter().map(|cell| cell.overhead).sum::<f64>() / coming.len().max(1) as f64;
    // Rates that are searched for: with them, as many as there may be.
    let possible = plan.cells.iter().filter(|cell| cell.impossible().is_none());
    let searched = plan.search.map_or(0, |_| possible.filter(|cell| is_searched(cell)).count());
    let rate = Coming { slices: least_rounds, overhead, least: 0.0 };
    coming.extend(vec![rate; searched * MOST_RATES]);
    let (rounds, slice) = match (plan.budget, plan.stop) {
        (Some(budget), _) => (least_rounds, share(budget.as_secs_f64(), &coming)),
        (None, stop @ Stop::After(_)) => match stop.share(0, most) {
            Stop::After(time) => (most, time),
            Stop::Messages(_) => return None,
        },
        (None, Stop::Messages(_)) => return None,
    };
    let count = coming.len();
    let slices = coming.iter().map(|cell| cell.least.max(slice.as_secs_f64()));
    let slice_s = slices.sum::<f64>() / count.max(1) as f64;
    Some(EstimateRecord {
        cells: count as u64,
        rounds,
        slice_s,
        overhead_s: overhead,
        total_s: count as f64 * f64::from(rounds) * (slice_s + overhead),
    })
}

/// Seconds that the fewest messages of `plan` take by the rates and pauses that it asks for, whatever the machine.
#[must_use]
pub fn planned_least(plan: &Plan) -> f64 {
    planned(plan).iter().map(|cell| f64::from(cell.slices) * cell.least).sum()
}

/// The slices of the cells that can be measured, as far as they are known before the first.
fn planned(plan: &Plan) -> Vec<Coming> {
    let possible = || plan.cells.iter().filter(|cell| cell.impossible().is_none());
    let (least_rounds, _) = rounds(plan);
    let (costs, messages) = (Costs::new(possible()), least_messages(least_rounds));
    let cell = |cell| Coming {
        slices: least_rounds,
        overhead: costs.overhead(cell),
        least: costs.operations(cell, messages),
    };
    (0..possible().count()).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Axis, Pattern, Sizes, Value};

    /// 20 calls at 1 a second, and as many messages with pauses of 0.5 s, whatever they take.
    #[test]
    fn rates_and_pauses_are_in_the_estimate() {
        let sizes = Sizes::parse("8").unwrap();
        let planned = |pattern, axis, value: Value| {
            let name = ["tcp@loopback".parse().unwrap()];
            let mut plan = Plan::new(&name, &[pattern], &sizes, Stop::default(), 5, 1);
            let cell = &mut plan.cells[0];
            cell.variant = std::mem::take(&mut cell.variant).with(axis, value);
            (estimate(&plan).unwrap().total_s.round(), planned_least(&plan))
        };
        assert_eq!(planned(Pattern::Calls, Axis::Rate, Value::Number(1)), (20.0, 20.0));
        let pause = Value::Word("500ms:exponential".to_owned());
        assert_eq!(planned(Pattern::Latency, Axis::Think, pause), (10.0, 10.0));
        assert_eq!(planned(Pattern::Calls, Axis::Rate, Value::Number(1000)).0, 1.0);
        assert_eq!(planned(Pattern::Latency, Axis::Think, Value::Word("no".to_owned())).1, 0.0);
    }

    fn seconds(left: f64, coming: &[(u32, f64, f64)]) -> f64 {
        let coming: Vec<_> = coming
            .iter()
            .map(|&(slices, overhead, least)| Coming { slices, overhead, least })
            .collect();
        share(left, &coming).as_secs_f64()
    }

    #[test]
    fn what_is_left_is_shared_out_and_who_needs_more_gets_it() {
        assert_eq!(seconds(10.0, &[(2, 0.5, 0.0), (3, 0.5, 0.0)]), 1.5);
        // One slice of 4 s for which nothing can be done; the rest shares what it leaves.
        assert_eq!(seconds(10.0, &[(1, 0.0, 4.0), (3, 0.0, 0.0)]), 2.0);
        // Which makes another one need more than its share.
        assert_eq!(seconds(10.0, &[(1, 0.0, 4.0), (1, 0.0, 2.4), (3, 0.0, 0.0)]), 1.2);
        assert_eq!(seconds(1.0, &[(2, 0.5, 0.0)]), 0.0);
        assert_eq!(seconds(-1.0, &[(2, 0.5, 3.0)]), 0.0);
        assert_eq!(seconds(1.0, &[]), 0.0);
    }

    #[test]
    fn shares_add_up_to_the_budget_where_the_least_fits() {
        let coming: Vec<_> = (0..1000)
            .map(|index| Coming {
                slices: 1 + index % 3,
                overhead: 0.01 * f64::from(index % 7),
                least: if index % 5 == 0 { 0.001 * f64::from(index) } else { 0.0 },
            })
            .collect();
        let budget = least(&coming) * 1.5;
        let time = share(budget, &coming).as_secs_f64();
        let spent: f64 =
            coming.iter().map(|of| f64::from(of.slices) * (of.overhead + time.max(of.least))).sum();
        assert!((spent / budget - 1.0).abs() < 1e-6, "{spent} of {budget}");
    }
}
