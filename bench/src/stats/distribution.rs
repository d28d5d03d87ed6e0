//! A distribution as a result file keeps it.

use std::io::Read as _;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flate2::read::ZlibDecoder;
use hdrhistogram::{Histogram as Buckets, serialization::Deserializer};
use thiserror::Error;

use super::{
    histogram::{Quantile, needed},
    interval::{Interval, median_ranks, quantile_ranks},
};

/// Characters of the longest text that is read: more than a histogram of three digits over an hour can have.
const LONGEST_TEXT: usize = 1 << 20;

/// Bytes of the largest histogram that is read, no longer deflated: of five digits over 64 bits, of which each count
/// is small.
const LARGEST: u64 = 8 << 20;

/// What a deflated histogram begins with, before the length of what follows (HdrHistogram's V2 format).
const DEFLATED: u32 = 0x1c84_9314;

/// Bytes of the number that a histogram begins with, and of the length behind it.
const PREFIX: usize = 8;

/// Bytes before its counts, prefix included.
const HEADER: usize = 40;

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
        let bytes = inflated(bytes)?;
        let buckets: Buckets<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
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

/// The same histogram, not deflated, with as many counts as it says that it has: what reads it makes room by that
/// number, before there are any.
fn inflated(bytes: Vec<u8>) -> Result<Vec<u8>, DistributionError> {
    let wrong = |why: &str| DistributionError::Format(why.to_owned());
    let number = |bytes: &[u8], at: usize| {
        bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    };
    let plain = match number(&bytes, 0) {
        Some(DEFLATED) => {
            let deflated = bytes.get(PREFIX..).unwrap_or_default();
            let mut plain = Vec::new();
            ZlibDecoder::new(deflated)
                .take(LARGEST + 1)
                .read_to_end(&mut plain)
                .map_err(|error| wrong(&error.to_string()))?;
            plain
        }
        _ => bytes,
    };
    if plain.len() as u64 > LARGEST {
        return Err(wrong("it is longer than any that has been deflated"));
    }
    let counts = number(&plain, 4).ok_or_else(|| wrong("it is cut off"))?;
    match plain.len().checked_sub(HEADER) {
        Some(here) if here >= counts as usize => Ok(plain),
        _ => Err(wrong("it is cut off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Histogram;
    use std::io::Write as _;

    /// Found by `ci/fuzz`: room was made for 4 GiB by a length in a text of 100 characters.
    #[test]
    fn no_room_is_made_for_counts_that_are_not_there() {
        let mut written = BASE64.decode(Histogram::new().encoded()).unwrap();
        let mut plain = inflated(written.clone()).unwrap();
        assert_eq!(
            plain.len(),
            HEADER + u32::from_be_bytes(plain[4..8].try_into().unwrap()) as usize
        );
        plain[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        let is_refused = |bytes: &[u8]| {
            matches!(Distribution::parse(&BASE64.encode(bytes)), Err(DistributionError::Format(why))
                if why.contains("cut off"))
        };
        assert!(is_refused(&plain));
        written.truncate(PREFIX);
        let mut deflated = flate2::write::ZlibEncoder::new(written, flate2::Compression::fast());
        deflated.write_all(&plain).unwrap();
        assert!(is_refused(&deflated.finish().unwrap()));
    }

    #[test]
    fn what_inflates_without_end_is_refused() {
        let begun = [DEFLATED.to_be_bytes(), [0; 4]].concat();
        let mut deflated = flate2::write::ZlibEncoder::new(begun, flate2::Compression::best());
        deflated.write_all(&vec![0; LARGEST as usize + 1]).unwrap();
        let text = BASE64.encode(deflated.finish().unwrap());
        assert!(text.len() < 20_000, "{}", text.len());
        let refused = Distribution::parse(&text).unwrap_err().to_string();
        assert!(refused.contains("longer than any"), "{refused}");
    }
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
