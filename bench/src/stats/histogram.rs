//! Latency samples in fixed memory, however many.

use hdrhistogram::Histogram as Buckets;

use super::interval::{Interval, median_ranks};

/// The largest sample that keeps its place: one hour. A longer one is recorded as one hour in the
/// buckets; the maximum stays true.
const LARGEST_NS: u64 = 3_600_000_000_000;

/// Significant decimal digits kept by the buckets: a value is reported to 0.1 %.
const DIGITS: u8 = 3;

/// A quantile, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantile {
    /// Nanoseconds, to 0.1 %.
    Known(u64),
    /// Too few samples stand behind it.
    TooFew {
        /// Samples that the quantile needs.
        needs: u64,
        /// Samples there are.
        has: u64,
    },
}

impl Quantile {
    /// The value in nanoseconds, if it is known.
    #[must_use]
    pub fn value(self) -> Option<u64> {
        match self {
            Self::Known(value) => Some(value),
            Self::TooFew { .. } => None,
        }
    }
}

/// Samples in nanoseconds: HDR buckets beside the true minimum, maximum, sum and sum of squares.
///
/// ```
/// use fabricbench::stats::Histogram;
/// let mut histogram = Histogram::new();
/// for sample in 1..=1000 {
///     histogram.record(sample);
/// }
/// assert_eq!(histogram.min(), Some(1));
/// assert_eq!(histogram.quantile(0.5).value(), Some(500));
/// assert_eq!(histogram.quantile(0.999).value(), None); // needs 10,000 samples
/// ```
#[derive(Debug, Clone)]
pub struct Histogram {
    pub(super) buckets: Buckets<u64>,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) sum: u128,
    pub(super) squares: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram. All memory it will ever use is allocated here, about 270 KiB.
    ///
    /// # Panics
    /// Never: the bounds are constants that the bucket layout accepts.
    #[must_use]
    #[expect(clippy::expect_used, reason = "constant bounds, checked by every test of this module")]
    pub fn new() -> Self {
        let buckets =
            Buckets::new_with_bounds(1, LARGEST_NS, DIGITS).expect("constant bounds are valid");
        Self { buckets, min: u64::MAX, max: 0, sum: 0, squares: 0 }
    }

    /// Adds one sample, in nanoseconds. Does not allocate.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        // Saturating: a clock that did not advance between two readings gives 0, which the
        // buckets count as 1; the minimum stays true.
        self.buckets.saturating_record(nanoseconds.max(1));
        self.min = self.min.min(nanoseconds);
        self.max = self.max.max(nanoseconds);
        let nanoseconds = u128::from(nanoseconds);
        self.sum += nanoseconds;
        // Saturating: full after 2 * 10^13 samples of an hour, or two of 585 years.
        self.squares = self.squares.saturating_add(nanoseconds * nanoseconds);
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        // Cannot fail: both have the same bounds.
        let _ = self.buckets.add(&other.buckets);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
    }

    /// Forgets all samples and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.reset();
        self.min = u64::MAX;
        self.max = 0;
        self.sum = 0;
        self.squares = 0;
    }

    /// How many samples there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.buckets.len()
    }

    /// Whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The smallest sample, exact, in nanoseconds.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min)
    }

    /// The largest sample, exact, in nanoseconds.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max)
    }

    /// All samples together, exact, in nanoseconds.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The arithmetic mean, exact up to rounding, in nanoseconds.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum as f64 / self.len() as f64)
    }

    /// The sample standard deviation (divisor n - 1), exact up to rounding, in nanoseconds; none
    /// with fewer than two samples.
    ///
    /// From the sum and the sum of squares in whole numbers, so that a small deviation of large
    /// samples does not drown in the rounding of either: with sum = q n + r,
    /// sum of squares - sum^2 / n = squares - q sum - q r - r^2 / n.
    #[must_use]
    pub fn stddev(&self) -> Option<f64> {
        let n = self.len();
        let degrees = n.checked_sub(2)? + 1;
        let (q, r) = (self.sum / u128::from(n), self.sum % u128::from(n));
        // Together they are at most the true sum of squares, so only a saturated one saturates here.
        let whole = self.squares.saturating_sub(q.saturating_mul(self.sum)).saturating_sub(q * r);
        // The remainder is below n, and its square fits.
        let rest = (r * r) as f64 / n as f64;
        Some(((whole as f64 - rest).max(0.0) / degrees as f64).sqrt())
    }

    /// The quantile `q` in 0..1, if at least 10 / (1 - q) samples stand behind it: with fewer, a
    /// high percentile is nothing but the maximum.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Quantile {
        let (needs, has) = (needed(q), self.len());
        if has < needs {
            return Quantile::TooFew { needs, has };
        }
        Quantile::Known(self.at(self.buckets.value_at_quantile(q)))
    }

    /// The median's confidence interval from order statistics; see [`median_ranks`].
    #[must_use]
    pub fn median_interval(&self, z: f64) -> Option<Interval<u64>> {
        let (low, high) = median_ranks(self.len(), z)?;
        Some(Interval { low: self.at_rank(low), high: self.at_rank(high) })
    }

    fn at_rank(&self, rank: u64) -> u64 {
        let mut seen = 0;
        for bucket in self.buckets.iter_recorded() {
            seen += bucket.count_since_last_iteration();
            if seen >= rank {
                return self.at(bucket.value_iterated_to());
            }
        }
        self.max
    }

    /// A bucket's value, kept within what was really seen.
    fn at(&self, value: u64) -> u64 {
        value.clamp(self.min, self.max)
    }
}

/// Samples that a percentile needs behind it: 10 / (1 - q).
pub(super) fn needed(q: f64) -> u64 {
    // Rounded, since 1 - 0.999 is not exactly 0.001.
    (10.0 / (1.0 - q)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_has_no_figures() {
        let histogram = Histogram::new();
        assert_eq!((histogram.min(), histogram.max(), histogram.mean()), (None, None, None));
        assert_eq!(histogram.quantile(0.5), Quantile::TooFew { needs: 20, has: 0 });
        assert_eq!(histogram.median_interval(1.96), None);
    }

    #[test]
    fn methodology_3_a_percentile_is_absent_until_enough_samples_stand_behind_it() {
        let mut histogram = Histogram::new();
        for sample in 0..999 {
            histogram.record(sample);
        }
        assert_eq!(histogram.quantile(0.99), Quantile::TooFew { needs: 1000, has: 999 });
        histogram.record(999);
        assert_eq!(histogram.quantile(0.99).value(), Some(989));
        assert_eq!(histogram.quantile(0.999), Quantile::TooFew { needs: 10_000, has: 1000 });
    }

    #[test]
    fn methodology_4_extremes_are_true_even_beyond_the_buckets() {
        let mut histogram = Histogram::new();
        histogram.record(0);
        histogram.record(123_456_789);
        histogram.record(2 * LARGEST_NS + 1);
        assert_eq!(histogram.min(), Some(0));
        assert_eq!(histogram.max(), Some(2 * LARGEST_NS + 1));
        assert_eq!(histogram.len(), 3);
    }

    /// The deviation of `samples` with the divisor n - 1.
    fn deviation(samples: impl IntoIterator<Item = u64>) -> Option<f64> {
        let mut histogram = Histogram::new();
        samples.into_iter().for_each(|sample| histogram.record(sample));
        histogram.stddev()
    }

    #[test]
    fn the_deviation_is_that_of_known_distributions() {
        assert_eq!(deviation([]), None);
        assert_eq!(deviation([7]), None, "one sample deviates from nothing");
        assert_eq!(deviation([7; 100]), Some(0.0));
        // Squares of deviations from 5 sum up to 32.
        assert_eq!(deviation([2, 4, 4, 4, 5, 5, 7, 9]), Some((32.0_f64 / 7.0).sqrt()));
        // Discrete uniform over 1..=n: n (n + 1) / 12 with the divisor n - 1.
        let uniform = deviation(1..=10_000).unwrap();
        assert!((uniform - (10_000.0 * 10_001.0 / 12.0_f64).sqrt()).abs() < 1e-9, "{uniform}");
        // Two values, half each: half of the distance, times the root of n / (n - 1).
        let two = deviation((0..1000).map(|index| 1000 + 500 * (index % 2))).unwrap();
        assert!((two - 250.0 * (1000.0 / 999.0_f64).sqrt()).abs() < 1e-9, "{two}");
    }

    /// Where floating-point sums of squares have no digit left: 1 ns in an hour.
    #[test]
    fn a_small_deviation_of_large_samples_is_exact() {
        let samples = (0..1000).map(|index| LARGEST_NS - index % 2);
        let shown = deviation(samples).unwrap();
        assert!((shown - 0.5 * (1000.0 / 999.0_f64).sqrt()).abs() < 1e-12, "{shown}");
        // Beyond what squares can hold it saturates, and does not panic.
        assert!(deviation([u64::MAX; 3]).is_some());
    }

    proptest! {
        #[test]
        fn merging_slices_equals_recording_all(
            samples in prop::collection::vec(0u64..10_000_000_000, 20..300),
            cut in 0usize..300,
        ) {
            let cut = cut.min(samples.len());
            let (mut whole, mut first, mut second) =
                (Histogram::new(), Histogram::new(), Histogram::new());
            for (index, &sample) in samples.iter().enumerate() {
                whole.record(sample);
                if index < cut { first.record(sample) } else { second.record(sample) }
            }
            first.merge(&second);
            prop_assert_eq!(first.len(), whole.len());
            prop_assert_eq!(first.min(), samples.iter().min().copied());
            prop_assert_eq!(first.max(), samples.iter().max().copied());
            prop_assert_eq!(first.mean(), whole.mean());
            prop_assert_eq!(first.stddev(), whole.stddev());
            prop_assert_eq!(first.quantile(0.5), whole.quantile(0.5));
        }

        #[test]
        fn quantiles_are_within_a_thousandth(
            mut samples in prop::collection::vec(1u64..100_000_000_000, 20..400),
        ) {
            let mut histogram = Histogram::new();
            samples.iter().for_each(|&sample| histogram.record(sample));
            samples.sort_unstable();
            let exact = samples[samples.len().div_ceil(2) - 1] as f64;
            let shown = histogram.quantile(0.5).value().unwrap() as f64;
            prop_assert!((shown - exact).abs() <= exact / 1000.0 + 1.0, "{shown} for {exact}");
            let interval = histogram.median_interval(1.96).unwrap();
            prop_assert!(interval.low as f64 <= shown && shown <= interval.high as f64);
        }
    }
}
