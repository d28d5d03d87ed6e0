//! Sets of processors, as the kernel writes them: lists (`0-3,8`) and masks (`0000010f`).

use std::collections::BTreeSet;
use std::fmt;

/// More processors than a kernel has (`CONFIG_NR_CPUS` is 8192 at the most): a number beyond is no
/// processor's.
const MOST_PROCESSORS: u32 = 1 << 16;

/// Bits of one word of a mask; words are separated by commas.
const WORD: u32 = 32;

/// A set of processors by their numbers. Its text is a list, such as `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "String", try_from = "String"))]
pub struct Processors(BTreeSet<u32>);

impl Processors {
    /// Reads a list; `None` if it is none. An empty text is the empty set.
    pub fn from_list(text: &str) -> Option<Self> {
        let mut set = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= MOST_PROCESSORS {
                return None;
            }
            set.extend(first..=last);
        }
        Some(Self(set))
    }

    /// Reads a mask, the highest word first; `None` if it is none.
    pub fn from_mask(text: &str) -> Option<Self> {
        let mut set = BTreeSet::new();
        for (position, word) in text.trim().split(',').rev().enumerate() {
            let bits = u32::from_str_radix(word, 16).ok()?;
            let base = u32::try_from(position).ok()?.checked_mul(WORD)?;
            if base >= MOST_PROCESSORS {
                return None;
            }
            set.extend((0..WORD).filter(|bit| bits & (1 << bit) != 0).map(|bit| base + bit));
        }
        Some(Self(set))
    }

    /// As a mask, as `rps_cpus` takes it.
    pub fn mask(&self) -> String {
        let words = self.0.last().map_or(1, |last| last / WORD + 1);
        let word = |word: u32| {
            let bits = self.0.range(word * WORD..(word + 1) * WORD);
            bits.fold(0u32, |bits, processor| bits | 1 << (processor % WORD))
        };
        let lower: Vec<_> = (0..words - 1).rev().map(|at| format!(",{:08x}", word(at))).collect();
        format!("{:x}{}", word(words - 1), lower.concat())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether none is among `others`.
    pub fn are_apart_from(&self, others: &Self) -> bool {
        self.0.is_disjoint(&others.0)
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while rest.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last {
                last if last == first => write!(formatter, "{separator}{first}")?,
                last => write!(formatter, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl From<Processors> for String {
    fn from(processors: Processors) -> Self {
        processors.to_string()
    }
}

impl TryFrom<String> for Processors {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::from_list(&text).ok_or_else(|| format!("{text:?} is no list of processors"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_and_masks_are_those_of_the_kernel() {
        let list = |text| Processors::from_list(text).unwrap();
        assert_eq!(list("0-3,8\n"), Processors::from_mask("0000010f\n").unwrap());
        assert_eq!(list("33,64").mask(), "1,00000002,00000000");
        assert_eq!(Processors::from_mask("00000001,00000000").unwrap().to_string(), "32");
        assert_eq!(list("").mask(), "0");
        assert_eq!((list("0-3,8").count(), list("1,0,2").to_string()), (5, "0-2".to_owned()));
        assert!(
            list("4").are_apart_from(&list("0-3")) && !list("1,4").are_apart_from(&list("0-3"))
        );
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for text in ["a", "3-1", "-1", "0-4294967295", "1-2-3", "0x1"] {
            assert_eq!(Processors::from_list(text), None, "{text}");
        }
        for text in ["", "g", "1,,1", "123456789"] {
            assert_eq!(Processors::from_mask(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in prop::collection::btree_set(0..300u32, 0..40)) {
            let set = Processors(numbers);
            prop_assert_eq!(Processors::from_list(&set.to_string()), Some(set.clone()));
            prop_assert_eq!(Processors::from_mask(&set.mask()), Some(set));
        }
    }
}
