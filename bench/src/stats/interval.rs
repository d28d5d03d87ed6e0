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

/// The same for the quantile `q` in 0..1: floor(n q - z sqrt(n q (1 - q))) and ceil(1 + n q + z sqrt(n q (1 - q)))
/// (Le Boudec, "Performance Evaluation of Computer and Communication Systems", theorem 2.2).
///
/// `None` where a rank would lie beyond the samples, so that the interval would be open.
#[must_use]
pub fn quantile_ranks(n: u64, q: f64, z: f64) -> Option<(u64, u64)> {
    let (count, mean) = (n as f64, n as f64 * q);
    let spread = z * (mean * (1.0 - q)).sqrt();
    let (low, high) = ((mean - spread).floor(), (1.0 + mean + spread).ceil());
    (low >= 1.0 && high <= count).then_some((low as u64, high as u64))
}

/// The median of `values` (the mean of the middle two for an even number), `None` if there are
/// none. Sorts in place; NaN sorts last.
#[must_use]
pub fn median_of(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    match values.len() % 2 {
        1 => Some(upper),
        _ => Some((values.get(middle.checked_sub(1)?)? + upper) / 2.0),
    }
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

    #[test]
    fn ranks_of_any_quantile() {
        // 990 -+ 1.96 times the root of 9.9 below, and one more above.
        assert_eq!(quantile_ranks(1000, 0.99, 1.96), Some((983, 998)));
        assert_eq!(quantile_ranks(10_000, 0.5, 1.96), median_ranks(10_000, 1.96));
        assert_eq!(
            quantile_ranks(300, 0.99, 1.96),
            None,
            "the upper rank would lie beyond the samples"
        );
        assert_eq!(quantile_ranks(0, 0.5, 1.96), None);
    }

    /// Samples of a trial: so many that the ranks, which are whole, are hardly wider than they must be, and
    /// the binomial distribution promises 95.8 %.
    const SAMPLES: usize = 385;

    /// In how many of 2,000 seeded trials `interval` of samples of `distribution`, a quantile function,
    /// holds the true median.
    fn held(
        distribution: fn(f64) -> f64,
        mut interval: impl FnMut(&mut [f64]) -> Interval<f64>,
    ) -> usize {
        let mut state = 1u64;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let median = distribution(0.5);
        (0..2000)
            .filter(|_| {
                let mut samples: Vec<f64> = (0..SAMPLES).map(|_| distribution(uniform())).collect();
                let interval = interval(&mut samples);
                interval.low <= median && median <= interval.high
            })
            .count()
    }

    fn even(share: f64) -> f64 {
        1e4 * (1.0 + share)
    }

    fn exponential(share: f64) -> f64 {
        -1e4 * (1.0 - share).ln()
    }

    /// Has no mean.
    fn heavy(share: f64) -> f64 {
        1e4 / (1.0 - share)
    }

    /// Two heaps far from each other, of which the lower one has the median.
    fn heaps(share: f64) -> f64 {
        if share < 0.6 { 1e4 * (1.0 + share) } else { 1e6 * (1.0 + share) }
    }

    #[test]
    fn methodology_2_coverage_is_what_it_says() {
        for distribution in [even, exponential, heavy, heaps] {
            let held = held(distribution, |samples| median_interval(samples, 1.96).unwrap());
            assert!((1860..=1940).contains(&held), "{held} of 2000");
        }
    }

    #[test]
    fn methodology_2_coverage_is_that_of_histograms_as_well() {
        let mut histogram = crate::stats::Histogram::new();
        for distribution in [exponential, heaps] {
            let held = held(distribution, |samples| {
                histogram.clear();
                samples.iter().for_each(|&sample| histogram.record(sample as u64));
                let Interval { low, high } = histogram.median_interval(1.96).unwrap();
                Interval { low: low as f64, high: high as f64 }
            });
            assert!((1860..=1940).contains(&held), "{held} of 2000");
        }
    }
}
