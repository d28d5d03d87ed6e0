//! Message sizes: the grammar users type, and what it expands to.

use std::fmt;

use thiserror::Error;

/// The most sizes one specification may expand to: a guard against a typing slip such as
/// `1:1G:+1`, which would ask for a thousand million cells.
pub const MOST_SIZES: usize = 4096;

/// Why a size specification was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizeError {
    /// A number could not be read.
    #[error(
        "size `{0}` is not a number of bytes; write 64, 4K, 1M or 2G (K, M, G are powers of 1024)"
    )]
    NotANumber(String),
    /// A size of zero bytes: nothing would be transferred.
    #[error("size 0 transfers nothing; the smallest message is 1 byte")]
    Zero,
    /// Larger than 2^64 - 1.
    #[error("size `{0}` does not fit in 64 bits")]
    TooLarge(String),
    /// A range whose end lies below its start.
    #[error("size range `{0}` ends below its start; write it as SMALLEST:LARGEST")]
    Descending(String),
    /// A step that does not advance.
    #[error(
        "size step `{0}` does not advance; write x2 (times two) or +4K (plus 4096) after the range"
    )]
    Step(String),
    /// A range with too many or too few parts.
    #[error("size range `{0}` is not START:END, START:END:xFACTOR or START:END:+STEP")]
    Shape(String),
    /// More sizes than [`MOST_SIZES`].
    #[error("size specification `{0}` asks for more than {MOST_SIZES} sizes; take a larger step")]
    TooMany(String),
    /// Nothing between the commas.
    #[error("size specification `{0}` has an empty part")]
    Empty(String),
}

/// An ascending list of distinct message sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(Vec<u64>);

impl Sizes {
    /// Reads `64`, `2:8M:x2`, `4K:64K:+4K`, or several of these joined by commas.
    ///
    /// K, M and G are powers of 1024 as in perftest and OSU; an `iB` or `B` may follow. A range
    /// without a step doubles. The end of a range is included even when the step jumps over it, so
    /// that the largest size asked for is always measured.
    ///
    /// # Errors
    /// [`SizeError`] names the part that could not be read.
    pub fn parse(text: &str) -> Result<Self, SizeError> {
        let mut sizes = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            if part.is_empty() {
                return Err(SizeError::Empty(text.to_owned()));
            }
            expand(part, &mut sizes)?;
            if sizes.len() > MOST_SIZES {
                return Err(SizeError::TooMany(text.to_owned()));
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Self(sizes))
    }

    /// These, none of them 0.
    #[must_use]
    pub fn of(mut sizes: Vec<u64>) -> Self {
        sizes.retain(|&size| size > 0);
        sizes.sort_unstable();
        sizes.dedup();
        Self(sizes)
    }

    /// The sizes in bytes, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }
}

fn expand(part: &str, sizes: &mut Vec<u64>) -> Result<(), SizeError> {
    let mut fields = part.split(':');
    let start = parse_bytes(fields.next().unwrap_or_default())?;
    let Some(end) = fields.next() else {
        sizes.push(start);
        return Ok(());
    };
    let end = parse_bytes(end)?;
    let step = fields.next().unwrap_or("x2");
    if fields.next().is_some() {
        return Err(SizeError::Shape(part.to_owned()));
    }
    if end < start {
        return Err(SizeError::Descending(part.to_owned()));
    }
    let next: Box<dyn Fn(u64) -> Option<u64>> = if let Some(factor) = step.strip_prefix(['x', '*'])
    {
        let factor: u64 = factor.parse().map_err(|_| SizeError::Step(step.to_owned()))?;
        if factor < 2 {
            return Err(SizeError::Step(step.to_owned()));
        }
        Box::new(move |size| size.checked_mul(factor))
    } else if let Some(increment) = step.strip_prefix('+') {
        let increment = parse_bytes(increment).map_err(|_| SizeError::Step(step.to_owned()))?;
        Box::new(move |size| size.checked_add(increment))
    } else {
        return Err(SizeError::Step(step.to_owned()));
    };
    let mut size = start;
    while size < end {
        sizes.push(size);
        if sizes.len() > MOST_SIZES {
            return Err(SizeError::TooMany(part.to_owned()));
        }
        match next(size) {
            Some(larger) => size = larger,
            None => break,
        }
    }
    sizes.push(end);
    Ok(())
}

/// Reads a number of bytes such as `64`, `4K`, `1MiB`.
///
/// # Errors
/// [`SizeError::NotANumber`], [`SizeError::Zero`] or [`SizeError::TooLarge`].
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(SizeError::NotANumber(text.to_owned())),
    };
    if number.is_empty() {
        return Err(SizeError::NotANumber(text.to_owned()));
    }
    let number: u64 = number.parse().map_err(|_| SizeError::TooLarge(text.to_owned()))?;
    if number == 0 {
        return Err(SizeError::Zero);
    }
    number.checked_mul(1 << shift).ok_or_else(|| SizeError::TooLarge(text.to_owned()))
}

/// A size as people write it: `2 B`, `64 KiB`, `1.5 MiB` stays `1536 KiB`.
#[must_use]
pub fn display_bytes(size: u64) -> impl fmt::Display {
    struct Shown(u64);
    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let size = self.0;
            for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
                if size >= 1 << shift && size.trailing_zeros() >= shift {
                    return f.pad(&format!("{} {unit}", size >> shift));
                }
            }
            f.pad(&format!("{size} B"))
        }
    }
    Shown(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(text: &str) -> Vec<u64> {
        Sizes::parse(text).unwrap().0
    }

    #[test]
    fn ranges_lists_and_suffixes() {
        assert_eq!(sizes("64"), [64]);
        assert_eq!(sizes("2:16"), [2, 4, 8, 16]);
        assert_eq!(sizes("2:8M:x2").len(), 23);
        assert_eq!(sizes("1K:4K:+1K"), [1024, 2048, 3072, 4096]);
        assert_eq!(sizes("64K,2,1MiB,2"), [2, 65_536, 1_048_576]);
        assert_eq!(sizes("2:100:x4"), [2, 8, 32, 100], "the end is measured");
        assert_eq!(sizes("5:5"), [5]);
        assert_eq!(sizes("18446744073709551615"), [u64::MAX]);
    }

    #[test]
    fn refusals_name_the_part() {
        assert_eq!(Sizes::parse("0"), Err(SizeError::Zero));
        assert_eq!(Sizes::parse("0:8"), Err(SizeError::Zero));
        assert_eq!(Sizes::parse("4Q"), Err(SizeError::NotANumber("4Q".into())));
        assert_eq!(Sizes::parse("-4"), Err(SizeError::NotANumber("-4".into())));
        assert_eq!(Sizes::parse(""), Err(SizeError::Empty(String::new())));
        assert_eq!(Sizes::parse("8,,9"), Err(SizeError::Empty("8,,9".into())));
        assert_eq!(Sizes::parse("8:4"), Err(SizeError::Descending("8:4".into())));
        assert_eq!(Sizes::parse("2:8:x1"), Err(SizeError::Step("x1".into())));
        assert_eq!(Sizes::parse("2:8:+0"), Err(SizeError::Step("+0".into())));
        assert_eq!(Sizes::parse("2:8:2"), Err(SizeError::Step("2".into())));
        assert_eq!(Sizes::parse("1:2:x2:3"), Err(SizeError::Shape("1:2:x2:3".into())));
        assert!(matches!(Sizes::parse("1:1G:+1"), Err(SizeError::TooMany(_))));
        assert!(matches!(Sizes::parse("99999999999G"), Err(SizeError::TooLarge(_))));
    }

    #[test]
    fn shown_in_the_largest_whole_unit() {
        assert_eq!(display_bytes(2).to_string(), "2 B");
        assert_eq!(display_bytes(1000).to_string(), "1000 B");
        assert_eq!(display_bytes(1536).to_string(), "1536 B");
        assert_eq!(display_bytes(64 << 10).to_string(), "64 KiB");
        assert_eq!(display_bytes(3 << 20).to_string(), "3 MiB");
        assert_eq!(format!("{:>8}", display_bytes(2)), "     2 B");
    }

    proptest! {
        #[test]
        fn never_panics_and_is_ascending(text in "[0-9KMGxk:,+* ]{0,24}") {
            if let Ok(sizes) = Sizes::parse(&text) {
                prop_assert!(sizes.0.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(sizes.0.first().is_some_and(|&smallest| smallest > 0));
            }
        }

        #[test]
        fn a_range_holds_both_its_ends(start in 1u64..1 << 40, span in 0u64..1 << 40) {
            let end = start + span;
            let sizes = Sizes::parse(&format!("{start}:{end}:x3")).unwrap();
            prop_assert_eq!(sizes.0.first(), Some(&start));
            prop_assert_eq!(sizes.0.last(), Some(&end));
        }
    }
}
