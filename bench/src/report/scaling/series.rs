//! Which figures belong together, and what a cell's figure is as a time.

use std::collections::BTreeMap;

use super::{
    super::{CellRecord, Document, Status, StoppedBy, column::Columns},
    record::{Contender, Lacks, Question},
};
use crate::{
    plan::{Axis, Pattern, Variant},
    stats::{Estimate, Interval, Ratio, Reach, Scatter},
};

/// Contenders that answer one question, in the order of the plan.
#[derive(Debug)]
pub(super) struct Contest<'a> {
    pub(super) question: Question,
    pub(super) series: Vec<Series<'a>>,
}

/// The cells of one contender by size.
#[derive(Debug)]
pub(super) struct Series<'a> {
    pub(super) of: Contender,
    pub(super) cells: BTreeMap<u64, &'a CellRecord>,
}

/// Those of a document whose sizes are points on an axis. Figures that fail a check are left out, and so are
/// buffers and tensors, whose sizes are names.
pub(super) fn contests(document: &Document) -> Vec<Contest<'_>> {
    let cells: Vec<_> = document.cells.iter().collect();
    let columns = Columns::of(document, &cells);
    let mut contests = contests_of(&cells);
    let order: Vec<_> = columns.transports().collect();
    let place = |series: &Series<'_>| order.iter().position(|known| **known == series.of.transport);
    contests.iter_mut().for_each(|contest| contest.series.sort_by_key(place));
    contests
}

/// The same of some cells, in their order.
pub(super) fn contests_of<'a>(cells: &[&'a CellRecord]) -> Vec<Contest<'a>> {
    let cells = cells.iter().copied().filter(|cell| is_of_size(cell));
    let mut contests: Vec<Contest<'a>> = Vec::new();
    for cell in cells {
        let question = question(cell);
        let contest = match contests.iter().position(|contest| contest.question == question) {
            Some(at) => contests.get_mut(at),
            None => {
                contests.push(Contest { question, series: Vec::new() });
                contests.last_mut()
            }
        };
        let Some(contest) = contest else { continue };
        let of = Contender {
            transport: cell.transport.clone(),
            variant: variant(cell, |axis| !is_load(axis)),
        };
        match contest.series.iter_mut().find(|series| series.of == of) {
            Some(series) => {
                series.cells.entry(cell.size).or_insert(cell);
            }
            None => contest.series.push(Series { of, cells: BTreeMap::from([(cell.size, cell)]) }),
        }
    }
    contests
}

fn is_of_size(cell: &CellRecord) -> bool {
    let is_sure =
        cell.failed_checks.is_empty() && cell.load.as_ref().is_none_or(|load| load.sustained);
    let is_named = cell.buffers.is_some() || cell.tensors.is_some();
    cell.status == Status::Measured && cell.size > 0 && is_sure && !is_named
}

/// Whether an axis is of what is asked, not of how it is answered.
fn is_load(axis: Axis) -> bool {
    matches!(axis, Axis::Rate | Axis::Arrivals | Axis::Think)
}

fn variant(cell: &CellRecord, wanted: impl Fn(Axis) -> bool) -> Variant {
    let some = cell.variant.iter().filter(|(axis, _)| wanted(*axis));
    some.fold(Variant::default(), |variant, (axis, value)| variant.with(axis, value.clone()))
}

fn question(cell: &CellRecord) -> Question {
    let latency = if is_timed(cell) { cell.latency.as_ref() } else { None };
    Question {
        pattern: cell.pattern,
        latency: latency.map(|latency| latency.kind),
        reply: cell.reply,
        roles: cell.roles,
        load: variant(cell, is_load),
    }
}

/// Whether its figure is the median latency: of one message in flight, and where a schedule or pauses decide the
/// rate.
fn is_timed(cell: &CellRecord) -> bool {
    cell.pattern == Pattern::Latency || cell.load.is_some() || cell.think.is_some()
}

/// The figure of a cell as a time of a message, in nanoseconds.
pub(super) fn time(cell: &CellRecord) -> Option<f64> {
    let time = match is_timed(cell) {
        true => cell.latency.as_ref()?.p50?,
        false => 1e9 / cell.throughput.as_ref()?.messages_per_s,
    };
    (time > 0.0 && time.is_finite()).then_some(time)
}

/// The same of each round, by its number.
pub(super) fn times_of_rounds(cell: &CellRecord) -> BTreeMap<u32, f64> {
    let rounds = cell.rounds.iter().filter(|round| round.messages > 0 && round.elapsed_ns > 0);
    if is_timed(cell) {
        return rounds.filter_map(|round| Some((round.round, round.p50?))).collect();
    }
    // A rate counts what arrived, perhaps both ways: the rounds share it out.
    let (messages, elapsed) = rounds.clone().fold((0.0, 0.0), |(messages, elapsed), round| {
        (messages + round.messages as f64, elapsed + round.elapsed_ns as f64)
    });
    let Some(time) = time(cell) else { return BTreeMap::new() };
    let each = |share: f64| share * messages / elapsed * time;
    let share = |elapsed: u64, messages: u64| elapsed as f64 / messages as f64;
    rounds.map(|round| (round.round, each(share(round.elapsed_ns, round.messages)))).collect()
}

/// The time of `other` by that of `one`, compared within rounds, with its interval. `None` without two rounds that
/// both have: samples alone say nothing of the next round.
pub(super) fn ratio(one: &CellRecord, other: &CellRecord) -> Option<Ratio> {
    let medians = Scatter::paired(&figures(one, other));
    // A round of few samples has no median, and yet a mean.
    let rounds = medians.or_else(|| Scatter::paired(&means(one, other)))?;
    let by_agreement = [one, other]
        .iter()
        .any(|cell| cell.stopped.is_some_and(|stopped| stopped.by == StoppedBy::Precision));
    let rounds = if by_agreement { rounds.ended_by_agreement() } else { rounds };
    let samples = estimate(one).zip(estimate(other));
    let samples = samples.and_then(|(one, other)| Reach::of(&one, &other));
    Ratio::by_either(time(one)?, time(other)?, Some(rounds), samples)
}

/// The figures of the rounds that both have.
fn figures(one: &CellRecord, other: &CellRecord) -> Vec<(f64, f64)> {
    let (one, other) = (times_of_rounds(one), times_of_rounds(other));
    one.iter().filter_map(|(round, &time)| Some((time, *other.get(round)?))).collect()
}

/// What is missing to say that two do not differ: means of a few messages may hide whatever medians would show.
pub(super) fn lacks(one: &CellRecord, other: &CellRecord) -> Option<Lacks> {
    let few = || (figures(one, other).len() < 2).then_some(Lacks::Messages);
    alone_lacks(one).max(alone_lacks(other)).or_else(few)
}

/// What `cell` is missing to be compared at all.
pub(super) fn alone_lacks(cell: &CellRecord) -> Option<Lacks> {
    match () {
        () if !has_rounds(cell) => Some(Lacks::Rounds),
        () if time(cell).is_none() => Some(Lacks::Messages),
        () => None,
    }
}

/// Whether it can be compared within rounds.
pub(super) fn has_rounds(cell: &CellRecord) -> bool {
    cell.rounds.iter().filter(|round| round.messages > 0 && round.elapsed_ns > 0).count() > 1
}

/// The mean times of a message in the rounds that both have, in nanoseconds but for a factor of each.
fn means(one: &CellRecord, other: &CellRecord) -> Vec<(f64, f64)> {
    let of = |cell: &CellRecord| -> BTreeMap<u32, f64> {
        let share = cell.latency.as_ref().map_or(1.0, |latency| latency.kind.share());
        let rounds = cell.rounds.iter().filter(|round| round.messages > 0 && round.elapsed_ns > 0);
        let mean = |elapsed: u64, messages: u64| share * elapsed as f64 / messages as f64;
        rounds.map(|round| (round.round, mean(round.elapsed_ns, round.messages))).collect()
    };
    let (one, other) = (of(one), of(other));
    one.iter().filter_map(|(round, &time)| Some((time, *other.get(round)?))).collect()
}

/// A median with what its samples leave open.
fn estimate(cell: &CellRecord) -> Option<Estimate> {
    let latency = cell.latency.as_ref().filter(|_| is_timed(cell))?;
    let [low, high] = latency.p50_interval_95?;
    Some(Estimate { value: latency.p50?, interval: Interval { low, high } })
}
