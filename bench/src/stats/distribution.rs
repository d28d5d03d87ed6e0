//! A distribution as a result file keeps it.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use hdrhistogram::{Histogram as Buckets, serialization::Deserializer};
use thiserror::Error;

use super::{
    histogram::{Quantile, needed},
    interval::{Interval, median_ranks, quantile_ranks},
};

/// Characters of the longest text that is read: more than a histogram of three digits over an hour can have.
const LONGEST_TEXT: usize = 1 << 20;

/// Why a text is no distribution.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum DistributionError {
    /// Longer than any that is written.
    #[error("a histogram of {0} characters is longer than any that fabricbench writes")]
    TooLong(usize),
    /// Not base64.
    #[error("a histogram is not base64: {0}")]
    Text(String),
    /// Not HdrHistogram's format.
    #[error("a histogram is not in HdrHistogram's V2 format: {0}")]
    Format(String),
}

/// Samples by value, in ascending order, to 0.1 %.
///
/// ```
/// use fabricbench::stats::{Distribution, Histogram};
/// let mut histogram = Histogram::new();
/// (1..=1000).for_each(|sample| histogram.record(sample));
/// let read = Distribution::parse(&histogram.encoded()).unwrap();
/// assert_eq!(read.len(), 1000);
/// assert_eq!(read.quantile(0.5), histogram.quantile(0.5));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    // Value, and how many samples are no larger.
    cumulated: Vec<(u64, u64)>,
}

impl Distribution {
    /// Reads what [`Histogram::encoded`](super::Histogram::encoded) wrote: base64 of HdrHistogram's V2 format,
    /// deflated or not, as that library's implementations in other languages write it.
    ///
    /// # Errors
    /// [`DistributionError`].
    pub fn parse(text: &str) -> Result<Self, DistributionError> {
        if text.len() > LONGEST_TEXT {
            return Err(DistributionError::TooLong(text.len()));
        }
        let bytes = BASE64
            .decode(text.trim())
            .map_err(|error| DistributionError::Text(error.to_string()))?;
        let buckets: Buckets<u64> = Deserializer::new()
            .deserialize(&mut &bytes[..])
            .map_err(|error| DistributionError::Format(error.to_string()))?;
        let mut seen = 0_u64;
        let cumulated = buckets
            .iter_recorded()
            .map(|bucket| {
                seen = seen.saturating_add(bucket.count_since_last_iteration());
                (bucket.value_iterated_to(), seen)
            })
            .collect();
        Ok(Self { cumulated })
    }

    /// How many samples there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.cumulated.last().map_or(0, |&(_, seen)| seen)
    }

    /// Whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cumulated.is_empty()
    }

    /// The quantile `q` in 0..1, if at least 10 / (1 - q) samples stand behind it.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Quantile {
        let (needs, has) = (needed(q), self.len());
        if has < needs {
            return Quantile::TooFew { needs, has };
        }
        let rank = (q * has as f64).ceil().max(1.0) as u64;
        self.at_rank(rank).map_or(Quantile::TooFew { needs, has }, Quantile::Known)
    }

    /// The median's confidence interval from order statistics; see [`median_ranks`].
    #[must_use]
    pub fn median_interval(&self, z: f64) -> Option<Interval<u64>> {
        let (low, high) = median_ranks(self.len(), z)?;
        Some(Interval { low: self.at_rank(low)?, high: self.at_rank(high)? })
    }

    /// The confidence interval of the quantile `q` from order statistics; see [`quantile_ranks`].
    #[must_use]
    pub fn quantile_interval(&self, q: f64, z: f64) -> Option<Interval<u64>> {
        let (low, high) = quantile_ranks(self.len(), q, z)?;
        Some(Interval { low: self.at_rank(low)?, high: self.at_rank(high)? })
    }

    /// Each value that occurs, with how many samples are no larger, in ascending order.
    pub fn cumulated(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.cumulated.iter().copied()
    }

    pub(super) fn at_rank(&self, rank: u64) -> Option<u64> {
        let at = self.cumulated.partition_point(|&(_, seen)| seen < rank);
        self.cumulated.get(at).or(self.cumulated.last()).map(|&(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Histogram;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_histogram_is_told() {
        assert!(matches!(Distribution::parse("?"), Err(DistributionError::Text(_))));
        assert!(matches!(Distribution::parse(""), Err(DistributionError::Format(_))));
        assert!(matches!(Distribution::parse("AAAAAAAA"), Err(DistributionError::Format(_))));
        let long = "A".repeat(LONGEST_TEXT + 1);
        assert!(matches!(Distribution::parse(&long), Err(DistributionError::TooLong(_))));
        let none = Distribution::parse(&Histogram::new().encoded()).unwrap();
        assert!(none.is_empty());
        assert_eq!(none.quantile(0.5), Quantile::TooFew { needs: 20, has: 0 });
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(samples in prop::collection::vec(1u64..10_000_000_000, 1..400)) {
            let mut histogram = Histogram::new();
            samples.iter().for_each(|&sample| histogram.record(sample));
            let read = Distribution::parse(&histogram.encoded()).unwrap();
            prop_assert_eq!(read.len(), histogram.len());
            for q in [0.25, 0.5, 0.9, 0.99] {
                let (read, written) = (read.quantile(q).value(), histogram.quantile(q).value());
                prop_assert_eq!(read.is_some(), written.is_some());
                // The histogram keeps its figures within the true extremes.
                let close = read.zip(written).is_none_or(|(read, written)| {
                    read.abs_diff(written) as f64 <= written as f64 / 1000.0
                });
                prop_assert!(close, "{:?} for {:?}", read, written);
            }
        }

        #[test]
        fn no_text_is_too_much(text in "[A-Za-z0-9+/]{0,200}") {
            let _ = Distribution::parse(&text);
        }
    }
}
