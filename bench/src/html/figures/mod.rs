//! From result documents to figures, a file a kind.

mod by_size;
pub(super) mod cost;
mod distribution;
mod latency;
mod load;
mod suite;
mod throughput;
mod unit;

use super::{
    Options,
    figure::Figure,
    series::{Looks, Measured, Subject, subjects},
    source::Source,
};
use crate::{plan::Pattern, report::CellRecord};

/// Figures of one question.
#[derive(Debug)]
pub(super) struct Section {
    /// Its name in links.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) figures: Vec<Figure>,
    /// What is not drawn, and why.
    pub(super) missing: Vec<String>,
}

/// All figures of `sources`, in the order in which they are read. A section without figures says why, or is left out.
pub(super) fn sections(sources: &[Source], options: &Options) -> Vec<Section> {
    let looks = &mut Looks::new(sources);
    let suites: Vec<bool> = sources.iter().map(suite::is_suite).collect();
    // What the suite's own bars show is not shown twice.
    let of_suite = |measured: &Measured<'_>| {
        suites.get(measured.run) == Some(&true) && measured.cell.buffers.is_some()
    };
    let closed = |measured: &Measured<'_>| measured.cell.load.is_none();
    let section = |id, title, figures| Section { id, title, figures, missing: Vec::new() };
    let latencies = subjects(sources, |measured| {
        let cell = measured.cell;
        closed(measured)
            && cell.pattern.is_timed()
            && !(of_suite(measured) && cell.pattern == Pattern::Latency)
    });
    let rates = subjects(sources, |measured| {
        closed(measured) && measured.cell.pattern != Pattern::Latency && !of_suite(measured)
    });
    let costs = subjects(sources, |measured| closed(measured) && measured.cell.cpu.is_some());
    let loads = subjects(sources, |measured| measured.cell.load.is_some());
    let all = [
        section("latency", "Latency", each(&latencies, |subject| latency::latency(subject, looks))),
        section(
            "throughput",
            "Bandwidth and rates",
            each(&rates, |subject| throughput::throughput(subject, looks, options.line_rate)),
        ),
        distributions(sources, options, looks),
        section(
            "load",
            "Latency against load",
            each(&loads, |subject| load::load(subject, looks, sources)),
        ),
        section("cost", "Processor time", each(&costs, |subject| cost::costs(subject, looks))),
        section("tf-grpc", "TF-gRPC-Bench", {
            let of = sources.iter().enumerate().zip(&suites).filter(|(_, is_suite)| **is_suite);
            of.flat_map(|((run, source), _)| suite::suite(source, run, looks)).collect()
        }),
    ];
    let shown = |section: &Section| !section.figures.is_empty() || !section.missing.is_empty();
    all.into_iter().filter(shown).collect()
}

fn each(subjects: &[Subject<'_>], of: impl FnMut(&Subject<'_>) -> Vec<Figure>) -> Vec<Figure> {
    subjects.iter().flat_map(of).collect()
}

/// Of each subject the sizes that were asked for, else the smallest, one in the middle, and the largest.
fn distributions(sources: &[Source], options: &Options, looks: &mut Looks<'_>) -> Section {
    let timed = |cell: &CellRecord| cell.latency.is_some();
    let has = |cell: &CellRecord| {
        cell.latency.as_ref().is_some_and(|latency| latency.histogram.is_some())
    };
    let mut figures = Vec::new();
    let mut missing = Vec::new();
    // Of the rates that were searched for, only the knee: they are many, and have a figure of their own.
    let is_left_out = |measured: &Measured<'_>| {
        let knees = sources.get(measured.run).map_or(&[][..], |source| &source.document.knees);
        let offered = measured.cell.load.as_ref().map(|load| load.offered_per_s);
        knees.iter().any(|knee| knee.has(measured.cell) && knee.knee_per_s != offered)
    };
    for subject in subjects(sources, |measured| has(measured.cell) && !is_left_out(measured)) {
        let mut sizes: Vec<(u64, String)> = Vec::new();
        for measured in &subject.cells {
            let size = (measured.cell.size, measured.cell.size_label());
            if let Err(at) = sizes.binary_search(&size) {
                sizes.insert(at, size);
            }
        }
        for (index, (size, label)) in chosen(&sizes, &options.sizes).into_iter().enumerate() {
            let cells = subject.cells.iter().copied().filter(|measured| {
                measured.cell.size == size && measured.cell.size_label() == label
            });
            let part = Subject { cells: cells.collect(), ..Subject::like(&subject) };
            figures.extend(distribution::distributions(&part, looks, index, &label));
        }
    }
    for source in sources {
        let cells = || source.document.cells.iter().filter(|cell| timed(cell));
        let (all, with) = (cells().count(), cells().filter(|cell| has(cell)).count());
        if with < all {
            missing.push(format!(
                "{}: {} of {all} cells with times have no histogram{}.",
                source.name,
                all - with,
                match with {
                    0 => ", as documents of earlier versions of fabricbench",
                    _ => "",
                }
            ));
        }
    }
    Section { id: "distributions", title: "Latency distributions", figures, missing }
}

fn chosen(sizes: &[(u64, String)], wanted: &[u64]) -> Vec<(u64, String)> {
    if !wanted.is_empty() {
        return sizes.iter().filter(|(size, _)| wanted.contains(size)).cloned().collect();
    }
    let places = [0, sizes.len() / 2, sizes.len().saturating_sub(1)];
    let mut chosen: Vec<_> = places.into_iter().filter_map(|at| sizes.get(at)).cloned().collect();
    chosen.dedup();
    chosen
}
