//! Which cell of one file is which of the other.

use std::{collections::HashMap, hash::Hash};

use crate::{
    plan::{Buffers, Pattern, Roles, TransportName, Variant},
    report::CellRecord,
};

/// What makes two cells the same thing to measure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Coordinates<'a> {
    transport: &'a TransportName,
    pattern: Pattern,
    size: u64,
    reply: Option<u64>,
    roles: Option<Roles>,
    buffers: Option<&'a Buffers>,
    tensors: Option<(&'a str, &'a str, &'a [u64])>,
}

impl<'a> Coordinates<'a> {
    fn of(cell: &'a CellRecord) -> Self {
        Self {
            transport: &cell.transport,
            pattern: cell.pattern,
            size: cell.size,
            reply: cell.reply,
            roles: cell.roles,
            buffers: cell.buffers.as_ref(),
            tensors: cell.tensors.as_ref().map(|tensors| {
                (tensors.model.as_str(), tensors.coalesce.as_str(), tensors.lengths.as_slice())
            }),
        }
    }
}

/// The cells of two files, brought together.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Matches<'a> {
    /// Those of both, in the order of the old file.
    pub pairs: Vec<(&'a CellRecord, &'a CellRecord)>,
    /// Those of the old file alone.
    pub only_base: Vec<&'a CellRecord>,
    /// Those of the new file alone.
    pub only_new: Vec<&'a CellRecord>,
}

/// Brings together cells with the same coordinates and the same variant; of what is left, those with the
/// same coordinates, where either file has but one, so that it can be said in what they differ.
pub(super) fn matches<'a>(base: &'a [CellRecord], new: &'a [CellRecord]) -> Matches<'a> {
    let (exact, base, new) = pair(base.iter().collect(), new.iter().collect(), |cell| {
        (Coordinates::of(cell), Some(&cell.variant))
    });
    let without: fn(&'a CellRecord) -> (Coordinates<'a>, Option<&'a Variant>) =
        |cell| (Coordinates::of(cell), None);
    let alone = |cells: &[&'a CellRecord]| {
        let mut counts = HashMap::new();
        for cell in cells {
            *counts.entry(without(cell)).or_insert(0_usize) += 1;
        }
        counts
    };
    let (of_base, of_new) = (alone(&base), alone(&new));
    let unique = |cell: &&'a CellRecord| {
        let key = without(cell);
        of_base.get(&key) == Some(&1) && of_new.get(&key) == Some(&1)
    };
    let (base, mut only_base): (Vec<_>, Vec<_>) = base.into_iter().partition(unique);
    let (new, mut only_new): (Vec<_>, Vec<_>) = new.into_iter().partition(unique);
    let (loose, base, new) = pair(base, new, without);
    only_base.extend(base);
    only_new.extend(new);
    Matches { pairs: exact.into_iter().chain(loose).collect(), only_base, only_new }
}

type Paired<'a> = (Vec<(&'a CellRecord, &'a CellRecord)>, Vec<&'a CellRecord>, Vec<&'a CellRecord>);

/// Pairs of the same key; of several with one key the first with the first.
fn pair<'a, K: Eq + Hash>(
    base: Vec<&'a CellRecord>,
    new: Vec<&'a CellRecord>,
    key: impl Fn(&'a CellRecord) -> K,
) -> Paired<'a> {
    let mut waiting: HashMap<K, Vec<usize>> = HashMap::new();
    // From behind, so that the first is taken first.
    for (index, cell) in new.iter().enumerate().rev() {
        waiting.entry(key(cell)).or_default().push(index);
    }
    let mut taken = vec![false; new.len()];
    let (mut pairs, mut only_base) = (Vec::new(), Vec::new());
    for cell in base {
        let found = waiting.get_mut(&key(cell)).and_then(Vec::pop);
        match found.and_then(|index| Some((taken.get_mut(index)?, new.get(index)?))) {
            Some((taken, other)) => {
                *taken = true;
                pairs.push((cell, *other));
            }
            None => only_base.push(cell),
        }
    }
    let only_new = new.into_iter().zip(taken).filter(|(_, taken)| !taken).map(|(cell, _)| cell);
    (pairs, only_base, only_new.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cells(values: &[Value]) -> Vec<CellRecord> {
        let with_defaults = |value: &Value| {
            let mut cell = json!({
                "transport": "tcp@lo", "pattern": "calls", "size": 64, "status": "skipped", "reason": "",
                "path": null, "peer_path": null
            });
            cell.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
            serde_json::from_value(cell).unwrap()
        };
        values.iter().map(with_defaults).collect()
    }

    /// Pairs, cells of the old file alone, of the new file alone.
    fn found(base: &[Value], new: &[Value]) -> (usize, usize, usize) {
        let (base, new) = (cells(base), cells(new));
        let matches = matches(&base, &new);
        (matches.pairs.len(), matches.only_base.len(), matches.only_new.len())
    }

    #[test]
    fn every_coordinate_tells_cells_apart() {
        let tensors = |model: &str, coalesce: &str| json!({"tensors": {"model": model, "lengths": [64], "coalesce": coalesce, "placement": "", "servers": []}});
        for (one, other) in [
            (json!({}), json!({"transport": "tcp@eth0"})),
            (json!({}), json!({"pattern": "latency"})),
            (json!({}), json!({"size": 65})),
            (json!({"reply": 1}), json!({"reply": 2})),
            (
                json!({"roles": {"servers": 1, "workers": 1}}),
                json!({"roles": {"servers": 2, "workers": 1}}),
            ),
            (json!({}), json!({"buffers": {"shape": "2", "lengths": [32, 32]}})),
            (tensors("gpt-2", "no"), tensors("vgg-16", "no")),
            (tensors("gpt-2", "no"), tensors("gpt-2", "all")),
        ] {
            let both = [one.clone(), other.clone()];
            assert_eq!(
                found(std::slice::from_ref(&one), std::slice::from_ref(&other)),
                (0, 1, 1),
                "{other}"
            );
            assert_eq!(found(&both, &[other, one]), (2, 0, 0));
        }
    }

    #[test]
    fn a_variant_is_matched_first_and_left_aside_where_there_is_no_choice() {
        let at = |rate: u64| json!({"variant": {"rate": rate}});
        assert_eq!(found(&[at(100), at(200)], &[at(200), at(100)]), (2, 0, 0));
        assert_eq!(found(&[at(100)], &[at(300)]), (1, 0, 0), "to be refused with the reason");
        assert_eq!(found(&[at(100), at(200)], &[at(200), at(300)]), (2, 0, 0));
        assert_eq!(found(&[at(100), at(200)], &[at(300)]), (0, 2, 1), "which of them?");
        let (base, new) = (cells(&[at(100), at(200)]), cells(&[at(200), at(100)]));
        assert!(matches(&base, &new).pairs.iter().all(|(base, new)| base.variant == new.variant));
    }

    #[test]
    fn a_cell_that_is_there_twice_is_matched_once() {
        assert_eq!(found(&[json!({})], &[json!({}), json!({})]), (1, 0, 1));
        assert_eq!(found(&[], &[]), (0, 0, 0));
    }
}
