//! From cells to series: what belongs together in a figure, and under which name.

use std::collections::HashMap;

use super::{palette::Style, source::Source};
use crate::{
    plan::{Axis, Pattern, Roles},
    report::{CellRecord, LatencyKind, Status},
};

/// A cell with the run that it is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured<'a> {
    /// Which of the sources.
    pub(super) run: usize,
    pub(super) cell: &'a CellRecord,
}

/// Cells that can stand in one figure: they differ in transport, variant, size and run alone.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) pattern: Pattern,
    /// What latencies are of; `None` where there are none.
    pub(super) kind: Option<LatencyKind>,
    pub(super) reply: Option<u64>,
    pub(super) roles: Option<Roles>,
    pub(super) cells: Vec<Measured<'a>>,
}

impl<'a> Subject<'a> {
    /// Whether sizes are points on an axis; else they are names.
    pub(super) fn is_of_sizes(&self) -> bool {
        let named = |cell: &CellRecord| cell.buffers.is_some() || cell.tensors.is_some();
        let first = self.cells.first().map(|measured| measured.cell.size);
        !self.cells.iter().any(|measured| named(measured.cell))
            && self.cells.iter().any(|measured| Some(measured.cell.size) != first)
    }

    /// One without cells that is like `other` in all else.
    pub(super) fn like(other: &Subject<'_>) -> Self {
        Self {
            pattern: other.pattern,
            kind: other.kind,
            reply: other.reply,
            roles: other.roles,
            cells: Vec::new(),
        }
    }

    /// Letters that name it.
    pub(super) fn slug(&self) -> String {
        let kind = match self.kind {
            Some(LatencyKind::RoundTrip) if self.pattern == Pattern::Latency => "-round-trip",
            _ => "",
        };
        let reply = self.reply.map_or_else(String::new, |reply| format!("-{reply}"));
        let roles = self
            .roles
            .map_or_else(String::new, |roles| format!("-{}-{}", roles.servers, roles.workers));
        format!("{}{kind}{reply}{roles}", self.pattern)
    }

    /// Its cells by series: those of one run that `label` gives one name, in the order in which names come
    /// up, and under a name in the order of the runs.
    pub(super) fn series(&self, label: impl Fn(&CellRecord) -> String) -> Vec<Series<'a>> {
        let mut order: HashMap<String, usize> = HashMap::new();
        let mut series: HashMap<(usize, usize), Series<'a>> = HashMap::new();
        for measured in &self.cells {
            let label = label(measured.cell);
            let next = order.len();
            let index = *order.entry(label.clone()).or_insert(next);
            let new = || Series { run: measured.run, label, cells: Vec::new() };
            series.entry((index, measured.run)).or_insert_with(new).cells.push(measured.cell);
        }
        let mut series: Vec<_> = series.into_iter().collect();
        series.sort_by_key(|(key, _)| *key);
        let has_figures =
            |series: &Series<'_>| series.cells.iter().any(|cell| cell.status == Status::Measured);
        series.into_iter().map(|(_, series)| series).filter(has_figures).collect()
    }
}

/// Cells of one run and one name.
#[derive(Debug)]
pub(super) struct Series<'a> {
    pub(super) run: usize,
    pub(super) label: String,
    pub(super) cells: Vec<&'a CellRecord>,
}

/// Transport and variant without the rate, where that is what a figure goes over.
pub(super) fn label_without_rate(cell: &CellRecord) -> String {
    let values = cell.variant.iter().filter(|(axis, _)| *axis != Axis::Rate);
    let values: Vec<_> = values.map(|(axis, value)| format!("{axis}={value}")).collect();
    match values.is_empty() {
        true => cell.transport.to_string(),
        false => format!("{}[{}]", cell.transport, values.join(",")),
    }
}

/// Names and looks of series: the same in every figure of a report.
#[derive(Debug)]
pub(super) struct Looks<'a> {
    sources: &'a [Source],
    seen: HashMap<String, usize>,
}

impl<'a> Looks<'a> {
    pub(super) fn new(sources: &'a [Source]) -> Self {
        Self { sources, seen: HashMap::new() }
    }

    /// Of the series `label` of a run: its name in legends, and its style.
    pub(super) fn of(&mut self, label: &str, run: usize) -> (String, Style) {
        let name = match self.sources {
            [_] => label.to_owned(),
            several => {
                let run = several.get(run).map_or("?", |source| source.name.as_str());
                format!("{label} · {run}")
            }
        };
        // Dashes tell few runs apart; of more, each series has a colour and a marker of its own.
        let key = if self.sources.len() > Style::runs() { name.as_str() } else { label };
        let next = self.seen.len();
        let index = *self.seen.entry(key.to_owned()).or_insert(next);
        (name, Style::of(index, run))
    }
}

/// The cells that `wanted` wants, by what can stand in one figure, in the order of the documents.
pub(super) fn subjects<'a>(
    sources: &'a [Source],
    wanted: impl Fn(&Measured<'_>) -> bool,
) -> Vec<Subject<'a>> {
    let cells = || {
        sources.iter().enumerate().flat_map(|(run, source)| {
            source.document.cells.iter().map(move |cell| Measured { run, cell })
        })
    };
    // What a cell without figures would have been: what the others of its transport and pattern are.
    let kinds: HashMap<_, _> = cells()
        .filter_map(|Measured { cell, .. }| {
            let latency = cell.latency.as_ref()?;
            Some(((cell.pattern, &cell.transport), latency.kind))
        })
        .collect();
    let mut subjects: Vec<Subject<'a>> = Vec::new();
    for measured in cells().filter(|measured| wanted(measured)) {
        let cell = measured.cell;
        let kind = kinds.get(&(cell.pattern, &cell.transport)).copied();
        let same = |subject: &&mut Subject<'_>| {
            (subject.pattern, subject.reply, subject.roles)
                == (cell.pattern, cell.reply, cell.roles)
                && (subject.kind == kind || kind.is_none() || subject.kind.is_none())
        };
        match subjects.iter_mut().find(same) {
            Some(subject) => {
                subject.kind = subject.kind.or(kind);
                subject.cells.push(measured);
            }
            None => subjects.push(Subject {
                pattern: cell.pattern,
                kind,
                reply: cell.reply,
                roles: cell.roles,
                cells: vec![measured],
            }),
        }
    }
    let has_figures = |subject: &Subject<'_>| {
        subject.cells.iter().any(|measured| measured.cell.status == Status::Measured)
    };
    subjects.retain(has_figures);
    subjects
}
