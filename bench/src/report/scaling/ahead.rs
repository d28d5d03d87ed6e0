//! Who is ahead at which sizes, and where one passes another.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::CellRecord,
    record::{CrossoverRecord, Lacks, LeadRecord, MarginRecord},
    series::{Contest, alone_lacks, contests_of, has_rounds, lacks, ratio, time},
};
use crate::stats::{Ratio, Shown, crossings, shown};

/// Of more contenders, only those that are the fastest somewhere are compared with all others.
const MOST_PAIRED: usize = 12;

/// Two contenders beside each other, by their places in the contest: the time of the second by that of the first.
struct Pair {
    one: usize,
    other: usize,
    sizes: Vec<u64>,
    ratios: Vec<Ratio>,
}

/// What a contest shows.
pub(super) struct Standing<'a, 'b> {
    contest: &'b Contest<'a>,
    /// At each size with two cells or more: the cells, the fastest first, those without a figure last, with their
    /// places.
    ranked: BTreeMap<u64, Vec<(usize, &'a CellRecord)>>,
    pairs: Vec<Pair>,
    /// By size, those that are shown to be ahead, each with whom it is ahead of.
    ahead: BTreeSet<(u64, usize, usize)>,
}

impl<'a, 'b> Standing<'a, 'b> {
    pub(super) fn of(contest: &'b Contest<'a>) -> Self {
        let mut ranked: BTreeMap<u64, Vec<(usize, &CellRecord)>> = BTreeMap::new();
        for (place, series) in contest.series.iter().enumerate() {
            for (&size, &cell) in &series.cells {
                ranked.entry(size).or_default().push((place, cell));
            }
        }
        ranked.retain(|_, cells| cells.len() > 1);
        for cells in ranked.values_mut() {
            let time = |cell: &CellRecord| match alone_lacks(cell) {
                None => time(cell).unwrap_or(f64::INFINITY),
                Some(_) => f64::INFINITY,
            };
            cells.sort_by(|(_, one), (_, other)| time(one).total_cmp(&time(other)));
        }
        let fastest: BTreeSet<usize> =
            ranked.values().filter_map(|cells| Some(cells.first()?.0)).collect();
        let count = contest.series.len();
        let is_compared = |place: &usize| count <= MOST_PAIRED || fastest.contains(place);
        let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
        let pairs: Vec<Pair> = pairs
            .filter(|(one, other)| is_compared(one) || is_compared(other))
            .filter_map(|(one, other)| pair(contest, one, other))
            .collect();
        let mut ahead = BTreeSet::new();
        for Pair { one, other, sizes, ratios } in &pairs {
            for (&size, shown) in sizes.iter().zip(shown(ratios)) {
                match shown {
                    Shown::Above => ahead.insert((size, *one, *other)),
                    Shown::Below => ahead.insert((size, *other, *one)),
                    Shown::Nothing => false,
                };
            }
        }
        Self { contest, ranked, pairs, ahead }
    }

    /// Ranges of neighbouring sizes, ascending.
    pub(super) fn leads(&self) -> Vec<LeadRecord> {
        let all = || self.ranked.values().flatten();
        if !all().any(|(_, cell)| has_rounds(cell)) {
            return Vec::new();
        }
        let mut ranges: Vec<Range> = Vec::new();
        for (&size, cells) in &self.ranked {
            let next = self.range(size, cells);
            // Where one is ahead on both sides, it is not less so between.
            let between = ranges.len().checked_sub(2).filter(|&at| {
                ranges.get(at).is_some_and(|before| next.is_lead() && before.ahead == next.ahead)
            });
            match (between, ranges.last_mut()) {
                (Some(at), Some(_)) => {
                    let rest = ranges.split_off(at + 1);
                    if let Some(range) = ranges.last_mut() {
                        rest.into_iter().for_each(|tie| range.sizes.extend(tie.sizes));
                        range.add(next);
                    }
                }
                (None, Some(last))
                    if last.ahead == next.ahead && last.lacks == next.lacks
                        || !last.is_lead() && !next.is_lead() && last.lacks == next.lacks =>
                {
                    last.add(next);
                }
                _ => ranges.push(next),
            }
        }
        ranges.iter().filter_map(|range| self.record(range)).collect()
    }

    /// What is found at one size.
    fn range(&self, size: u64, cells: &[(usize, &CellRecord)]) -> Range {
        let ahead = self.not_behind(size, cells);
        let not_behind = || cells.iter().filter(|(place, _)| ahead.contains(place));
        let lacks = match cells.first() {
            Some((fastest, first)) => not_behind()
                .filter(|(place, _)| place != fastest)
                .filter_map(|(_, cell)| lacks(first, cell))
                .max(),
            None => None,
        };
        let behind = cells.iter().map(|(place, _)| *place).filter(|place| !ahead.contains(place));
        let (behind, sizes) = (behind.collect(), vec![size]);
        let shown = if ahead.len() == 1 { sizes.clone() } else { Vec::new() };
        Range { ahead, behind, lacks, sizes, shown }
    }

    /// The cells that are shown to be ahead of all others of their size.
    fn leaders(&self) -> impl Iterator<Item = &'a CellRecord> {
        self.ranked.iter().filter_map(|(&size, cells)| {
            (self.not_behind(size, cells).len() == 1).then_some(cells.first()?.1)
        })
    }

    /// The fastest at a size, with those that are not shown to be slower.
    fn not_behind(&self, size: u64, cells: &[(usize, &CellRecord)]) -> BTreeSet<usize> {
        let Some(&(fastest, _)) = cells.first() else { return BTreeSet::new() };
        let places = cells.iter().map(|(place, _)| *place);
        places.filter(|&place| !self.ahead.contains(&(size, fastest, place))).collect()
    }

    fn record(&self, range: &Range) -> Option<LeadRecord> {
        let ends = [range.shown.first(), range.shown.last()];
        let ends: BTreeSet<u64> = ends.into_iter().flatten().copied().collect();
        let named = |place: &usize| Some(self.contest.series.get(*place)?.of.clone());
        let is_behind = |place: &&usize| !range.is_lead() && !range.ahead.contains(place);
        Some(LeadRecord {
            question: self.contest.question.clone(),
            ahead: range.ahead.iter().filter_map(named).collect(),
            behind: range.behind.iter().filter(is_behind).filter_map(named).collect(),
            lacks: range.lacks,
            from: *range.sizes.first()?,
            to: *range.sizes.last()?,
            sizes: range.sizes.len() as u64,
            shown: range.shown.len() as u64,
            margins: ends.into_iter().filter_map(|size| self.margin(size)).collect(),
        })
    }

    fn margin(&self, size: u64) -> Option<MarginRecord> {
        let [(_, fastest), (next, second), ..] = self.ranked.get(&size)?.as_slice() else {
            return None;
        };
        let Ratio { value, interval } = ratio(fastest, second)?;
        Some(MarginRecord {
            size,
            time_ns: time(fastest)?,
            next: self.contest.series.get(*next)?.of.clone(),
            next_time_ns: time(second)?,
            ratio: value,
            interval_95: [interval.low, interval.high],
        })
    }

    /// Where one passes another, by pairs.
    pub(super) fn crossovers(&self) -> Vec<CrossoverRecord> {
        self.pairs.iter().flat_map(|pair| self.crossovers_of(pair)).collect()
    }

    fn crossovers_of(&self, pair: &Pair) -> Vec<CrossoverRecord> {
        let sizes: Vec<f64> = pair.sizes.iter().map(|&size| size as f64).collect();
        let name = |place: usize| Some(self.contest.series.get(place)?.of.clone());
        let record = |crossing: crate::stats::Crossing| {
            // Where the ratio rises, the second one becomes the slower.
            let (below, above) =
                if crossing.rises { (pair.other, pair.one) } else { (pair.one, pair.other) };
            let (from, to) = crossing.between;
            Some(CrossoverRecord {
                question: self.contest.question.clone(),
                below: name(below)?,
                above: name(above)?,
                size: crossing.at,
                interval_95: [crossing.interval.low, crossing.interval.high],
                between: [*pair.sizes.get(from)?, *pair.sizes.get(to)?],
            })
        };
        crossings(&sizes, &pair.ratios).into_iter().filter_map(record).collect()
    }
}

fn pair(contest: &Contest<'_>, one: usize, other: usize) -> Option<Pair> {
    let (of_one, of_other) = (contest.series.get(one)?, contest.series.get(other)?);
    let both = of_one
        .cells
        .iter()
        .filter_map(|(&size, &cell)| Some((size, ratio(cell, of_other.cells.get(&size)?)?)));
    let (sizes, ratios) = both.unzip();
    Some(Pair { one, other, sizes, ratios })
}

/// Those of some cells that are shown to be ahead of all others of their size, as the words have it.
pub(in crate::report) fn leaders<'a>(cells: &[&'a CellRecord]) -> Vec<&'a CellRecord> {
    let of = |contest| Standing::of(&contest).leaders().collect::<Vec<_>>();
    contests_of(cells).into_iter().flat_map(of).collect()
}

/// Neighbouring sizes with the same finding.
struct Range {
    ahead: BTreeSet<usize>,
    behind: BTreeSet<usize>,
    lacks: Option<Lacks>,
    sizes: Vec<u64>,
    shown: Vec<u64>,
}

impl Range {
    /// Whether one alone is ahead.
    fn is_lead(&self) -> bool {
        self.ahead.len() == 1
    }

    fn add(&mut self, other: Self) {
        self.ahead.extend(other.ahead);
        self.behind.extend(other.behind);
        self.sizes.extend(other.sizes);
        self.shown.extend(other.shown);
    }
}
