//! Samples that are looked at now and then, and packed in between.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use super::Histogram;

/// A distribution in some kilobytes while nobody looks at it, where a [`Histogram`] has 270: a plan may have
/// thousands of cells, and the slices of each are far apart.
///
/// ```
/// use fabricbench::stats::Packed;
/// let mut samples = Packed::default();
/// samples.open().record(5);
/// samples.pack();
/// samples.open().record(7);
/// assert_eq!(samples.open().len(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Packed {
    open: Option<Box<Histogram>>,
    // The buckets in HdrHistogram's V2 format, deflated; empty while there were none.
    bytes: Box<[u8]>,
    // All but the buckets, which the format has no place for.
    extremes: (u64, u64),
    sums: (u128, u128),
}

impl Packed {
    /// The samples, in full size until they are [packed](Self::pack) again.
    ///
    /// # Panics
    /// Never: what is read was written here.
    #[expect(
        clippy::expect_used,
        reason = "reads what this module wrote, as every test of it does"
    )]
    pub fn open(&mut self) -> &mut Histogram {
        let Self { open, bytes, extremes, sums } = self;
        open.get_or_insert_with(|| {
            let mut histogram = Histogram::new();
            if !bytes.is_empty() {
                histogram.buckets =
                    Deserializer::new().deserialize(&mut &bytes[..]).expect("written by pack");
                (histogram.min, histogram.max) = *extremes;
                (histogram.sum, histogram.squares) = *sums;
            }
            Box::new(histogram)
        })
    }

    /// What [`Histogram::encoded`] gives of the samples; packs them.
    pub fn encoded(&mut self) -> String {
        self.pack();
        if self.bytes.is_empty() { Histogram::new().encoded() } else { BASE64.encode(&self.bytes) }
    }

    /// Gives back what an open one holds beyond its samples.
    pub fn pack(&mut self) {
        let Some(histogram) = self.open.take().filter(|histogram| !histogram.is_empty()) else {
            return;
        };
        self.bytes = encoded(&histogram).into_boxed_slice();
        self.extremes = (histogram.min, histogram.max);
        self.sums = (histogram.sum, histogram.squares);
    }
}

impl Histogram {
    /// The buckets as base64 of HdrHistogram's V2 format, deflated, which that library's implementations in
    /// other languages read; the true extremes and the sums are not in it.
    #[must_use]
    pub fn encoded(&self) -> String {
        BASE64.encode(encoded(self))
    }
}

fn encoded(histogram: &Histogram) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Cannot fail: a vector takes all, and the bounds fit the format.
    let _ = V2DeflateSerializer::new().serialize(&histogram.buckets, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_one_stays_empty_and_takes_nothing() {
        let mut packed = Packed::default();
        packed.pack();
        assert!(packed.open().is_empty());
        packed.pack();
        assert!(packed.bytes.is_empty() && packed.open.is_none());
    }

    #[test]
    fn a_distribution_is_packed_into_some_kilobytes() {
        let mut packed = Packed::default();
        // Two decades, every bucket of them.
        (10_000..1_000_000).step_by(7).for_each(|time| packed.open().record(time));
        packed.pack();
        assert!(packed.bytes.len() < 16 << 10, "{} bytes", packed.bytes.len());
    }

    proptest! {
        #[test]
        fn what_is_packed_is_there_again(
            samples in prop::collection::vec(0u64..10_000_000_000_000, 1..200),
            cut in 0usize..200,
        ) {
            let mut whole = Histogram::new();
            let mut packed = Packed::default();
            for (index, &sample) in samples.iter().enumerate() {
                whole.record(sample);
                packed.open().record(sample);
                if index == cut {
                    packed.pack();
                }
            }
            packed.pack();
            let again = packed.open();
            prop_assert_eq!(again.len(), whole.len());
            prop_assert_eq!((again.min(), again.max()), (whole.min(), whole.max()));
            prop_assert_eq!((again.mean(), again.stddev()), (whole.mean(), whole.stddev()));
            prop_assert_eq!(again.quantile(0.5), whole.quantile(0.5));
            prop_assert_eq!(again.encoded(), whole.encoded());
            prop_assert_eq!(packed.encoded(), whole.encoded());
        }
    }
}
