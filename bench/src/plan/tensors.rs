//! What the patterns `tensor-push` and `tensor-fetch` move: the tensors of a model, placed on
//! parameter servers, and gathered into calls.

use std::{cmp::Reverse, fmt, ops::Range, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{
    model::{LARGEST_MODEL, MOST_TENSORS, Model},
    size::{display_bytes, parse_bytes},
};

/// Bytes in front of the tensors of a call: which call of a step it is, and whose.
pub const CALL_HEADER: u64 = 8;

/// Bytes of the reply to a call that pushes.
pub const CALL_REPLY: u64 = 8;

/// What each step moves, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tensors {
    /// The model's name.
    pub model: String,
    /// Bytes of each tensor, in the order of the model.
    pub lengths: Vec<u64>,
    /// Which tensors go in one call.
    pub coalesce: Coalesce,
    /// Whether what arrives is copied to the tensor's own memory.
    pub assign: bool,
}

/// Which tensors of one server go in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Coalesce {
    /// Each alone.
    #[default]
    No,
    /// All together.
    All,
    /// Those that follow one another, up to so many bytes; a larger one alone.
    Bucket(u64),
}

impl FromStr for Coalesce {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "no" => Ok(Self::No),
            "all" => Ok(Self::All),
            size => parse_bytes(size).map(Self::Bucket).map_err(|_| {
                format!(
                    "`{text}` is no way to coalesce tensors; write no, all, or a size as in 25M"
                )
            }),
        }
    }
}

impl TryFrom<String> for Coalesce {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Coalesce> for String {
    fn from(coalesce: Coalesce) -> Self {
        coalesce.to_string()
    }
}

impl fmt::Display for Coalesce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No => f.pad("no"),
            Self::All => f.pad("all"),
            Self::Bucket(size) => size.fmt(f),
        }
    }
}

/// A tensor among the others of its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Which, in the order of the model.
    pub index: usize,
    /// Its bytes among those of the model.
    pub bytes: Range<u64>,
}

/// Tensors that travel together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TensorCall {
    /// In the order of the model; one at least.
    pub tensors: Vec<Placed>,
}

impl TensorCall {
    /// Bytes of its tensors.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes.end - tensor.bytes.start).sum()
    }
}

impl Tensors {
    /// Those of `model`.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        let (model, lengths) = (model.name.clone(), model.sizes().collect());
        Self { model, lengths, coalesce: Coalesce::No, assign: false }
    }

    /// Bytes of all together; `None` if that has no 64 bits.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.lengths.iter().try_fold(0u64, |sum, &length| sum.checked_add(length))
    }

    /// The calls of a step, of each of `servers`.
    ///
    /// Tensors are placed the largest first, each on the server that has the fewest bytes so far
    /// (Graham, 1969: the longest processing time first), of equals the one that comes first. A
    /// server's calls are in the order of the model.
    #[must_use]
    pub fn calls(&self, servers: u32) -> Vec<Vec<TensorCall>> {
        let mut begin = 0;
        let place = |(index, &length): (usize, &u64)| {
            let bytes = begin..begin + length;
            begin = bytes.end;
            Placed { index, bytes }
        };
        let mut by_size: Vec<_> = self.lengths.iter().enumerate().map(place).collect();
        by_size.sort_by_key(|tensor| Reverse(tensor.bytes.end - tensor.bytes.start));
        let mut shares = vec![(0, Vec::new()); servers.max(1) as usize];
        for tensor in by_size {
            if let Some((load, share)) = shares.iter_mut().min_by_key(|(load, _)| *load) {
                *load += tensor.bytes.end - tensor.bytes.start;
                share.push(tensor);
            }
        }
        let gather = |(_, mut share): (u64, Vec<Placed>)| {
            share.sort_by_key(|tensor| tensor.index);
            self.gathered(share)
        };
        shares.into_iter().map(gather).collect()
    }

    fn gathered(&self, share: Vec<Placed>) -> Vec<TensorCall> {
        let (mut calls, mut filled) = (Vec::<TensorCall>::new(), 0);
        for tensor in share {
            let length = tensor.bytes.end - tensor.bytes.start;
            let fits = match self.coalesce {
                Coalesce::No => false,
                Coalesce::All => true,
                Coalesce::Bucket(size) => filled + length <= size,
            };
            match calls.last_mut() {
                Some(call) if fits => {
                    filled += length;
                    call.tensors.push(tensor);
                }
                _ => {
                    filled = length;
                    calls.push(TensorCall { tensors: vec![tensor] });
                }
            }
        }
        calls
    }

    /// Bytes of the largest call of a step, with its header.
    #[must_use]
    pub fn largest_call(&self, servers: u32) -> u64 {
        let calls = self.calls(servers);
        let largest = calls.iter().flatten().map(TensorCall::bytes).max();
        largest.unwrap_or(0).saturating_add(CALL_HEADER)
    }

    /// Why a step of `size` bytes to so many servers does not move these; `None` if it does.
    #[must_use]
    pub fn impossible(&self, size: u64, servers: u32) -> Option<String> {
        let (model, count) = (&self.model, self.lengths.len());
        if count == 0 || count > MOST_TENSORS || self.lengths.contains(&0) {
            return Some(format!("model {model}: from 1 to {MOST_TENSORS} tensors, none empty"));
        }
        if size > LARGEST_MODEL || self.total() != Some(size) {
            return Some(format!(
                "model {model}: its tensors do not make up {size} B, of at most {}",
                display_bytes(LARGEST_MODEL)
            ));
        }
        (count < servers as usize).then(|| {
            format!(
                "model {model} has {count} tensors: give --servers {count} at the most, so that each has one"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tensors(lengths: &[u64], coalesce: Coalesce) -> Tensors {
        Tensors { model: "own".to_owned(), lengths: lengths.to_vec(), coalesce, assign: false }
    }

    /// Of each server, of each call, the tensors.
    fn indices(lengths: &[u64], coalesce: Coalesce, servers: u32) -> Vec<Vec<Vec<usize>>> {
        let call = |call: TensorCall| call.tensors.iter().map(|tensor| tensor.index).collect();
        let calls = tensors(lengths, coalesce).calls(servers);
        calls.into_iter().map(|calls| calls.into_iter().map(call).collect()).collect()
    }

    #[test]
    fn the_largest_is_placed_first_on_who_has_least() {
        let alone = |servers: &[&[usize]]| -> Vec<Vec<Vec<usize>>> {
            servers.iter().map(|of| of.iter().map(|&index| vec![index]).collect()).collect()
        };
        assert_eq!(indices(&[1, 9, 5, 5], Coalesce::No, 2), alone(&[&[0, 1], &[2, 3]]));
        assert_eq!(indices(&[4, 4, 4], Coalesce::No, 2), alone(&[&[0, 2], &[1]]));
        let offsets: Vec<_> = tensors(&[1, 9, 5, 5], Coalesce::All).calls(2)[1][0]
            .tensors
            .iter()
            .map(|tensor| tensor.bytes.clone())
            .collect();
        assert_eq!(offsets, [10..15, 15..20], "bytes are counted in the order of the model");
    }

    #[test]
    fn what_follows_one_another_is_gathered_up_to_the_size() {
        let lengths = [2, 2, 2, 9, 1, 1];
        assert_eq!(indices(&lengths, Coalesce::All, 1), [[[0, 1, 2, 3, 4, 5]]]);
        let gathered: [Vec<Vec<usize>>; 1] = [vec![vec![0, 1], vec![2], vec![3], vec![4, 5]]];
        assert_eq!(indices(&lengths, Coalesce::Bucket(5), 1), gathered);
        assert_eq!(tensors(&lengths, Coalesce::Bucket(5)).largest_call(1), 9 + CALL_HEADER);
        assert_eq!(tensors(&lengths, Coalesce::All).largest_call(1), 17 + CALL_HEADER);
    }

    #[test]
    fn ways_to_coalesce_are_read_as_they_are_shown() {
        for (text, shown) in [("no", "no"), ("all", "all"), ("25M", "26214400")] {
            let coalesce: Coalesce = text.parse().unwrap();
            assert_eq!(coalesce.to_string(), shown);
            assert_eq!(shown.parse(), Ok(coalesce));
            let written = serde_json::to_string(&coalesce).unwrap();
            assert_eq!(written, format!("\"{shown}\""));
            assert_eq!(serde_json::from_str::<Coalesce>(&written).unwrap(), coalesce);
        }
        for text in ["", "0", "yes", "-1", "4Q"] {
            assert!(text.parse::<Coalesce>().unwrap_err().contains("25M"), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_a_step_is_told() {
        let reason = |lengths: &[u64], size, servers| {
            tensors(lengths, Coalesce::No).impossible(size, servers)
        };
        assert_eq!(reason(&[3, 4], 7, 2), None);
        assert!(reason(&[3, 4], 8, 1).unwrap().contains("do not make up 8 B"));
        assert!(reason(&[3, 4], 7, 3).unwrap().contains("--servers 2"));
        assert!(reason(&[], 0, 1).unwrap().contains("from 1 to"));
        assert!(reason(&[3, 0], 3, 1).unwrap().contains("none empty"));
        assert!(reason(&[u64::MAX, 2], 1, 1).unwrap().contains("do not make up"));
        assert!(reason(&[LARGEST_MODEL + 1], LARGEST_MODEL + 1, 1).unwrap().contains("1024 GiB"));
    }

    proptest! {
        /// However they are placed and gathered: every tensor goes once, in the order of the model, and no
        /// server has more than another by more than a tensor.
        #[test]
        fn every_tensor_goes_once(
            lengths in prop::collection::vec(1u64..1000, 1..60),
            servers in 1u32..9,
            bucket in prop::option::of(1u64..3000),
        ) {
            let coalesce = bucket.map_or(Coalesce::No, Coalesce::Bucket);
            let calls = tensors(&lengths, coalesce).calls(servers);
            prop_assert_eq!(calls.len(), servers as usize);
            let mut seen = vec![0; lengths.len()];
            let mut loads = Vec::new();
            for calls in &calls {
                let order: Vec<_> =
                    calls.iter().flat_map(|call| &call.tensors).map(|tensor| tensor.index).collect();
                prop_assert!(order.is_sorted());
                order.iter().for_each(|&index| seen[index] += 1);
                for call in calls {
                    prop_assert!(!call.tensors.is_empty());
                    let fits = bucket.is_some_and(|bucket| call.bytes() <= bucket);
                    prop_assert!(call.tensors.len() == 1 || fits);
                }
                loads.push(calls.iter().map(TensorCall::bytes).sum::<u64>());
            }
            prop_assert!(seen.iter().all(|&count| count == 1), "{:?}", seen);
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            prop_assert!(most - least <= *lengths.iter().max().unwrap());
        }
    }
}
