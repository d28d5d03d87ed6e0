//! A budget, shared out among slices; and what a plan takes, before it begins.

use std::time::Duration;

use super::{
    super::search::{MOST_RATES, is_searched},
    costs::Costs,
    rounds,
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
    let cells = plan.cells.iter().filter(|cell| cell.impossible().is_none());
    let (least_rounds, most) = rounds(plan);
    let costs = Costs::new(cells.clone());
    // Rates that are searched for: with them, as many as there may be.
    let searched =
        plan.search.map_or(0, |_| cells.clone().filter(|cell| is_searched(cell)).count());
    let count = cells.count() + searched * MOST_RATES;
    let known = count - searched * MOST_RATES;
    let overhead = (0..known).map(|cell| costs.overhead(cell)).sum::<f64>() / known.max(1) as f64;
    let (rounds, slice) = match (plan.budget, plan.stop) {
        (Some(budget), _) => {
            let coming = Coming { slices: least_rounds, overhead, least: 0.0 };
            (least_rounds, share(budget.as_secs_f64(), &vec![coming; count]))
        }
        (None, stop @ Stop::After(_)) => match stop.share(0, most) {
            Stop::After(time) => (most, time),
            Stop::Messages(_) => return None,
        },
        (None, Stop::Messages(_)) => return None,
    };
    let slice_s = slice.as_secs_f64();
    Some(EstimateRecord {
        cells: count as u64,
        rounds,
        slice_s,
        overhead_s: overhead,
        total_s: count as f64 * f64::from(rounds) * (slice_s + overhead),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
