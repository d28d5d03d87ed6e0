//! Messages made of several buffers that nobody has joined: how many, how long each.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::size::parse_bytes;

/// The most buffers of a message: what the kernel takes in one call (IOV_MAX).
pub const MOST_BUFFERS: usize = 1024;

/// The buffers of one message, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Buffers {
    /// What was asked for, as [`BufferSpec`] reads it.
    pub shape: String,
    /// Bytes of each.
    pub lengths: Vec<u64>,
}

impl Buffers {
    /// Bytes of all together; `None` if that has no 64 bits.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.lengths.iter().try_fold(0u64, |sum, &length| sum.checked_add(length))
    }

    /// Why a message of `size` bytes does not consist of these; `None` if it does.
    #[must_use]
    pub fn impossible(&self, size: u64) -> Option<String> {
        let count = self.lengths.len();
        if count == 0 || count > MOST_BUFFERS {
            return Some(format!(
                "{count} buffers (--buffers): from 1 to {MOST_BUFFERS} are possible"
            ));
        }
        if self.lengths.contains(&0) {
            return Some(format!(
                "{size} B are too few for {count} buffers (--buffers) of a byte at least"
            ));
        }
        (self.total() != Some(size)).then(|| {
            format!("buffers {} (--buffers) do not make up a message of {size} B", self.shape)
        })
    }
}

/// Which of its buffers a mix has the most of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// The categories in turn, in equal shares.
    Uniform,
    /// The category of each buffer is drawn at random, and more than one comes up.
    Random,
    /// Most of one category, fewer of the next: of three 60, 30 and 10 percent, of two 60 and 40.
    Skew(Category),
}

/// A category of buffers, with the size that TF-gRPC-Bench gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// 10 B.
    Small,
    /// 10 KiB.
    Medium,
    /// 1 MiB.
    Large,
}

impl Category {
    const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// Bytes of a buffer when nobody says otherwise.
    #[must_use]
    pub fn usual(self) -> u64 {
        match self {
            Self::Small => 10,
            Self::Medium => 10 << 10,
            Self::Large => 1 << 20,
        }
    }

    fn letter(self) -> &'static str {
        match self {
            Self::Small => "s",
            Self::Medium => "m",
            Self::Large => "l",
        }
    }
}

/// What the messages of a run are to be made of: `--buffers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferSpec {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// So many of a message of any size.
    Even(usize),
    /// So many, by a scheme from categories with their sizes.
    Mix(usize, Scheme, Vec<(Category, u64)>),
    /// These.
    Exact(Vec<u64>),
}

/// What is wrong with the text of `--buffers`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BufferError {
    /// It is none of the forms.
    #[error(
        "`{0}` is not N, N:SCHEME, N:SCHEME:CATEGORIES or SIZE+SIZE+NxSIZE; a scheme is uniform, random, skew, \
         skew-medium or skew-small, categories are s, m, l, each perhaps with a size: s=10,m=10K,l=1M"
    )]
    Shape(String),
    /// Too few or too many buffers.
    #[error("{0} buffers; a message has from 1 to {MOST_BUFFERS}")]
    Count(String),
    /// A scheme without the categories that it needs.
    #[error("the scheme of `{0}` {1}")]
    Categories(String, &'static str),
    /// A size that could not be read, or is too large together with the others.
    #[error("the sizes of `{0}`: {1}")]
    Size(String, String),
}

impl BufferSpec {
    /// Reads `10`, `10:uniform`, `10:skew-small:s=64,m,l=2M` or `6x1M+3x10K+10`.
    ///
    /// # Errors
    /// [`BufferError`].
    pub fn parse(text: &str) -> Result<Self, BufferError> {
        let text = text.trim();
        let kind = if text.contains(['+', 'x']) { exact(text)? } else { mix(text)? };
        let spec = Self { text: text.to_owned(), kind };
        if let Kind::Mix(..) | Kind::Exact(_) = spec.kind
            && spec.worst().is_none()
        {
            return Err(BufferError::Size(spec.text, "together over 64 bits".to_owned()));
        }
        Ok(spec)
    }

    /// Whether the buffers make up the size of the message, instead of sharing it.
    #[must_use]
    pub fn has_own_size(&self) -> bool {
        !matches!(self.kind, Kind::Even(_))
    }

    /// The buffers of a message of `size` bytes, which counts only where they share it; `seed` is that
    /// of what is random.
    #[must_use]
    pub fn buffers(&self, size: u64, seed: u64) -> Buffers {
        let lengths = match &self.kind {
            Kind::Even(count) => even(size, *count),
            Kind::Exact(lengths) => lengths.clone(),
            Kind::Mix(count, scheme, categories) => match scheme {
                Scheme::Uniform => {
                    categories.iter().map(|&(_, size)| size).cycle().take(*count).collect()
                }
                Scheme::Random => random(*count, categories, seed),
                Scheme::Skew(most) => skewed(*count, *most, categories),
            },
        };
        Buffers { shape: self.text.clone(), lengths }
    }

    /// Bytes that a message has at the most.
    fn worst(&self) -> Option<u64> {
        match &self.kind {
            Kind::Even(_) => None,
            Kind::Exact(lengths) => {
                lengths.iter().try_fold(0u64, |sum, &length| sum.checked_add(length))
            }
            Kind::Mix(count, _, categories) => {
                categories.iter().map(|&(_, size)| size).max()?.checked_mul(*count as u64)
            }
        }
    }
}

impl fmt::Display for BufferSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

fn counted(text: &str) -> Option<Result<usize, BufferError>> {
    let number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    number.then(|| match text.parse() {
        Ok(count) if (1..=MOST_BUFFERS).contains(&count) => Ok(count),
        _ => Err(BufferError::Count(text.to_owned())),
    })
}

/// `6x1M+3x10K+10`.
fn exact(text: &str) -> Result<Kind, BufferError> {
    let mut lengths = Vec::new();
    for part in text.split('+') {
        let (count, size) = part.split_once('x').unwrap_or(("1", part));
        let count = counted(count.trim()).ok_or_else(|| BufferError::Shape(text.to_owned()))??;
        let size = parse_bytes(size)
            .map_err(|error| BufferError::Size(text.to_owned(), error.to_string()))?;
        if lengths.len() + count > MOST_BUFFERS {
            return Err(BufferError::Count(format!("more than {MOST_BUFFERS}")));
        }
        lengths.extend(std::iter::repeat_n(size, count));
    }
    Ok(Kind::Exact(lengths))
}

/// `10`, or `10:skew:s,l=2M`.
fn mix(text: &str) -> Result<Kind, BufferError> {
    let shape = || BufferError::Shape(text.to_owned());
    let mut fields = text.split(':');
    let count = counted(fields.next().unwrap_or_default()).ok_or_else(shape)??;
    let Some(scheme) = fields.next() else { return Ok(Kind::Even(count)) };
    let scheme = match scheme {
        "uniform" => Scheme::Uniform,
        "random" => Scheme::Random,
        "skew" | "skew-large" => Scheme::Skew(Category::Large),
        "skew-medium" => Scheme::Skew(Category::Medium),
        "skew-small" => Scheme::Skew(Category::Small),
        _ => return Err(shape()),
    };
    let categories = match fields.next() {
        None => Category::ALL.map(|category| (category, category.usual())).to_vec(),
        Some(list) => categories(text, list)?,
    };
    if fields.next().is_some() {
        return Err(shape());
    }
    let lacks = |what| Err(BufferError::Categories(text.to_owned(), what));
    match scheme {
        Scheme::Uniform => {}
        _ if categories.len() < 2 => return lacks("needs two categories at least"),
        _ if count < 2 => return lacks("needs two buffers at least"),
        Scheme::Skew(most) if !categories.iter().any(|&(category, _)| category == most) => {
            return lacks("is biased to a category that is not among those given");
        }
        _ => {}
    }
    Ok(Kind::Mix(count, scheme, categories))
}

/// `s,m=4K,l`, in the order of their sizes whatever the order in which they were typed.
fn categories(text: &str, list: &str) -> Result<Vec<(Category, u64)>, BufferError> {
    let shape = || BufferError::Shape(text.to_owned());
    let mut found = Category::ALL.map(|category| (category, None));
    for part in list.split(',') {
        let (letter, size) = part.split_once('=').map_or((part, None), |(a, b)| (a, Some(b)));
        let (category, found) = found
            .iter_mut()
            .find(|(category, _)| category.letter() == letter.trim())
            .ok_or_else(shape)?;
        let size = match size {
            None => category.usual(),
            Some(size) => parse_bytes(size)
                .map_err(|error| BufferError::Size(text.to_owned(), error.to_string()))?,
        };
        if found.replace(size).is_some() {
            return Err(shape());
        }
    }
    Ok(found.into_iter().filter_map(|(category, size)| Some((category, size?))).collect())
}

/// As equal as can be, the longer ones first; some are empty if there are not bytes enough.
fn even(size: u64, count: usize) -> Vec<u64> {
    let (each, over) = (size / count as u64, size % count as u64);
    (0..count as u64).map(|index| each + u64::from(index < over)).collect()
}

fn skewed(count: usize, most: Category, categories: &[(Category, u64)]) -> Vec<u64> {
    // Of those that are not most, the larger comes first.
    let rank = |category: Category| (category != most, std::cmp::Reverse(category.usual()));
    let mut ranked = categories.to_vec();
    ranked.sort_by_key(|&(category, _)| rank(category));
    let shares: &[usize] = if ranked.len() == 3 { &[60, 30, 10] } else { &[60, 40] };
    // Of each its share and its number.
    let mut counts: Vec<_> = shares.iter().map(|share| (share, count * share / 100)).collect();
    // What is left over goes to those who are furthest below their share.
    while counts.iter().map(|(_, of)| of).sum::<usize>() < count {
        let short =
            |(share, of): &&mut (&usize, usize)| (count * **share).saturating_sub(*of * 100);
        let Some((_, of)) = counts.iter_mut().rev().max_by_key(short) else { break };
        *of += 1;
    }
    let each = ranked.iter().zip(counts);
    each.flat_map(|(&(_, size), (_, count))| std::iter::repeat_n(size, count)).collect()
}

fn random(count: usize, categories: &[(Category, u64)], seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        // SplitMix64 (Steele, Lea, Flood 2014): the same buffers from a seed on every platform.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % categories.len() as u64
    };
    loop {
        let drawn: Vec<u64> = (0..count).map(|_| next()).collect();
        // Two buffers and two categories at least: sooner or later two differ.
        if drawn.iter().any(|one| drawn.first() != Some(one)) {
            let sizes = drawn.into_iter().filter_map(|index| categories.get(index as usize));
            return sizes.map(|&(_, size)| size).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lengths(text: &str, size: u64) -> Vec<u64> {
        BufferSpec::parse(text).unwrap().buffers(size, 7).lengths
    }

    const S: u64 = 10;
    const M: u64 = 10 << 10;
    const L: u64 = 1 << 20;

    #[test]
    fn the_schemes_of_the_paper() {
        assert_eq!(lengths("10:uniform", 0), [S, M, L, S, M, L, S, M, L, S]);
        assert_eq!(lengths("10:skew", 0), [L, L, L, L, L, L, M, M, M, S]);
        assert_eq!(lengths("10:skew-small", 0), [S, S, S, S, S, S, L, L, L, M]);
        assert_eq!(lengths("10:skew-medium", 0), [M, M, M, M, M, M, L, L, L, S]);
        let drawn = lengths("10:random", 0);
        assert!(drawn.len() == 10 && drawn.iter().all(|length| [S, M, L].contains(length)));
        assert_eq!(drawn, lengths("10:random", 0), "the seed decides");
        let other = BufferSpec::parse("10:random").unwrap().buffers(0, 8).lengths;
        assert_ne!(drawn, other);
    }

    #[test]
    fn categories_and_sizes_of_ones_own() {
        assert_eq!(lengths("4:uniform:l=2M,s", 0), [S, 2 << 20, S, 2 << 20]);
        assert_eq!(lengths("5:skew:s=1,l=3", 0), [3, 3, 3, 1, 1]);
        assert_eq!(lengths("3:skew", 0), [L, L, M]);
        assert_eq!(lengths("3:uniform:m=64", 0), [64; 3]);
        assert_eq!(lengths("2x1M+3x10K+10", 0), [L, L, M, M, M, S]);
        assert_eq!(lengths("4+5", 0), [4, 5]);
    }

    #[test]
    fn an_even_split_takes_any_size_that_fills_it() {
        let spec = BufferSpec::parse("3").unwrap();
        assert!(!spec.has_own_size());
        assert_eq!(spec.buffers(8, 0).lengths, [3, 3, 2]);
        assert_eq!(spec.buffers(8, 0).impossible(8), None);
        let few = spec.buffers(2, 0).impossible(2).unwrap();
        assert!(few.contains("2 B are too few for 3 buffers"), "{few}");
        let other = spec.buffers(8, 0).impossible(9).unwrap();
        assert!(other.contains("do not make up"), "{other}");
        let lengths = vec![u64::MAX, 1];
        assert!(Buffers { shape: String::new(), lengths }.impossible(0).is_some());
    }

    #[test]
    fn refusals_say_what_can_be_written() {
        for (text, word) in [
            ("", "N:SCHEME"),
            ("many", "N:SCHEME"),
            ("0", "from 1 to 1024"),
            ("1025", "from 1 to 1024"),
            ("10:normal", "uniform, random, skew"),
            ("10:skew:x", "categories"),
            ("10:skew:s,s,l", "categories"),
            ("10:skew:s,m,l:4", "N:SCHEME"),
            ("10:random:s", "two categories"),
            ("1:random", "two buffers"),
            ("10:skew:s,m", "biased"),
            ("10:uniform:s=0", "size 0"),
            ("10:uniform:s=4Q", "4Q"),
            ("1000x1M+25x1", "from 1 to 1024"),
            ("4+", "sizes"),
            ("x4", "N:SCHEME"),
            ("2x17179869183G", "64 bits"),
        ] {
            let refused = BufferSpec::parse(text).unwrap_err().to_string();
            assert!(refused.contains(word), "{text}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_makes_a_message(text in "[0-9KMxsml:=,+-]{0,16}(:(uniform|random|skew))?", seed: u64) {
            if let Ok(spec) = BufferSpec::parse(&text) {
                let buffers = spec.buffers(1 << 20, seed);
                prop_assert!((1..=MOST_BUFFERS).contains(&buffers.lengths.len()));
                let size = if spec.has_own_size() { buffers.total().unwrap() } else { 1 << 20 };
                prop_assert_eq!(buffers.impossible(size), None);
            }
        }
    }
}
