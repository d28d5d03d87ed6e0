//! What can be said of the ratio of two minima, or of two maxima.
//!
//! An extreme is one sample, so that no interval of its own stands behind it. But if two sides are alike,
//! the samples beyond the other side's extreme are few, whatever the distribution: the r largest of
//! all come from one side, which has the share s of all samples, with a probability below s^r
//! (Rosenbaum's test: Annals of Mathematical Statistics 25, 1954). The ratios that
//! this test leaves standing are the interval.

use super::{distribution::Distribution, ratio::Reach};

/// What the test may err by on each side, for 95 % in the middle.
const TAIL: f64 = 0.025;

/// How far the ratio of the largest samples may be off. `None` if a side has too few samples.
#[must_use]
pub fn reach_of_largest(base: &Distribution, new: &Distribution) -> Option<Reach> {
    let (of_base, of_new) = (beyond(base, new)?, beyond(new, base)?);
    let fall = |side: &Distribution, count: u64| {
        let (largest, inner) = (side.at_rank(side.len())?, side.at_rank(side.len() - count + 1)?);
        logarithm(largest, inner)
    };
    Some(Reach { down: fall(new, of_new)?, up: fall(base, of_base)? })
}

/// How far the ratio of the smallest samples may be off. `None` if a side has too few samples, or one
/// of 0.
#[must_use]
pub fn reach_of_smallest(base: &Distribution, new: &Distribution) -> Option<Reach> {
    let (of_base, of_new) = (beyond(base, new)?, beyond(new, base)?);
    let rise = |side: &Distribution, count: u64| logarithm(side.at_rank(count)?, side.at_rank(1)?);
    Some(Reach { down: rise(base, of_base)?, up: rise(new, of_new)? })
}

/// How many samples of `side` must lie beyond all of `other` to be no accident. `None` if it has not so
/// many.
fn beyond(side: &Distribution, other: &Distribution) -> Option<u64> {
    let share = side.len() as f64 / (side.len() as f64 + other.len() as f64);
    let count = (TAIL.ln() / share.ln()).ceil().max(1.0);
    (count <= side.len() as f64 && !other.is_empty()).then_some(count as u64)
}

fn logarithm(large: u64, small: u64) -> Option<f64> {
    (small > 0).then(|| (large as f64 / small as f64).ln() + super::ratio::RESOLUTION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Histogram;

    fn of(samples: impl IntoIterator<Item = u64>) -> Distribution {
        let mut histogram = Histogram::new();
        samples.into_iter().for_each(|sample| histogram.record(sample));
        Distribution::parse(&histogram.encoded()).unwrap()
    }

    fn close(reach: f64, factor: f64) -> bool {
        (reach - factor.ln()).abs() < 4e-3
    }

    /// Of equal numbers six must lie beyond the other side: 1/64 is below 2.5 %, 1/32 is not.
    #[test]
    fn the_sixth_of_equal_numbers_is_the_limit() {
        let (base, new) =
            (of((1..=100).map(|index| index * 10)), of((1..=100).map(|index| 200 + index)));
        let largest = reach_of_largest(&base, &new).unwrap();
        assert!(close(largest.down, 300.0 / 295.0), "{largest:?}");
        assert!(close(largest.up, 1000.0 / 950.0), "{largest:?}");
        let smallest = reach_of_smallest(&base, &new).unwrap();
        assert!(close(smallest.down, 6.0), "{smallest:?}");
        assert!(close(smallest.up, 206.0 / 201.0), "{smallest:?}");
    }

    #[test]
    fn few_samples_say_nothing() {
        let (few, many) = (of(1..=5), of(1..=1000));
        assert_eq!(reach_of_largest(&few, &few), None);
        assert_eq!(reach_of_smallest(&few, &of([])), None);
        // One of five beyond a thousand is no accident; of the thousand it takes very many.
        assert!(reach_of_largest(&few, &many).is_some());
    }

    #[test]
    fn equal_sides_are_not_told_apart_by_their_extremes() {
        let mut state = 7u64;
        let mut exponential = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1442695040888963407);
            let uniform = ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            (1e6 * (1.0 - uniform.ln())) as u64
        };
        let alarms = (0..500)
            .filter(|_| {
                let [base, new] = [(); 2].map(|()| of((0..200).map(|_| exponential())));
                let ratio = |rank: u64| {
                    (new.at_rank(rank).unwrap() as f64 / base.at_rank(rank).unwrap() as f64).ln()
                };
                let alarm = |ratio: f64, reach: Reach| ratio > reach.down || -ratio > reach.up;
                alarm(ratio(200), reach_of_largest(&base, &new).unwrap())
                    || alarm(ratio(1), reach_of_smallest(&base, &new).unwrap())
            })
            .count();
        // Two tests in each trial.
        assert!(alarms <= 50, "{alarms} of 500");
    }
}
