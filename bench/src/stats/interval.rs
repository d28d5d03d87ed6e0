//! Confidence intervals of a median from order statistics.
//!
//! No distribution is assumed. The ranks are those of Hoefler and Belli, "Scientific Benchmarking
//! of Parallel Computing Systems" (SC15), after Le Boudec.

/// A closed interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval<T> {
    /// Lower end.
    pub low: T,
    /// Upper end.
    pub high: T,
}

/// The 1-based ranks, among `n` sorted samples, that enclose the median at the confidence whose
/// normal quantile is `z` (1.96 for 95 %): floor((n - z sqrt n) / 2) and ceil(1 + (n + z sqrt n) / 2).
///
/// `None` for n <= 5, where no such pair exists.
#[must_use]
pub fn median_ranks(n: u64, z: f64) -> Option<(u64, u64)> {
    if n <= 5 {
        return None;
    }
    let count = n as f64;
    let spread = z * count.sqrt();
    let low = ((count - spread) / 2.0).floor().max(1.0) as u64;
    let high = (1.0 + (count + spread) / 2.0).ceil() as u64;
    Some((low, high.min(n)))
}

/// The median of `values` (the mean of the middle two for an even number), `None` if there are
/// none. Sorts in place; NaN sorts last.
#[must_use]
pub fn median_of(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 { Some(upper) } else { Some((values[middle - 1] + upper) / 2.0) }
}

/// The median's confidence interval; `None` for five values or fewer. Sorts in place.
#[must_use]
pub fn median_interval(values: &mut [f64], z: f64) -> Option<Interval<f64>> {
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = median_ranks(values.len() as u64, z)?;
    let at = |rank: u64| values.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied();
    Some(Interval { low: at(low)?, high: at(high)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_as_in_the_paper() {
        assert_eq!(median_ranks(5, 1.96), None);
        assert_eq!(median_ranks(100, 1.96), Some((40, 61)));
        assert_eq!(median_ranks(10_000, 1.96), Some((4902, 5099)));
        assert_eq!(median_ranks(6, 1.96), Some((1, 6)), "ranks stay within the samples");
    }

    #[test]
    fn medians() {
        assert_eq!(median_of(&mut []), None);
        assert_eq!(median_of(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median_of(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let mut nine = [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0];
        assert_eq!(median_interval(&mut nine, 1.96), Some(Interval { low: 1.0, high: 9.0 }));
    }

    /// Over many seeded trials the interval holds the true median about as often as it promises.
    #[test]
    fn coverage_is_what_it_says() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let trials = 2000;
        let hits = (0..trials)
            .filter(|_| {
                // Exponential, so clearly skewed: its median is ln 2.
                let mut samples: Vec<f64> = (0..101).map(|_| -(1.0 - uniform()).ln()).collect();
                let interval = median_interval(&mut samples, 1.96).unwrap();
                interval.low <= 2f64.ln() && 2f64.ln() <= interval.high
            })
            .count();
        let coverage = hits as f64 / f64::from(trials);
        assert!((0.93..=0.99).contains(&coverage), "coverage {coverage}");
    }
}
