//! How it was measured, in words.

use maud::{Markup, html};

use crate::{
    html::source::Source,
    report::{CellRecord, Document, LatencyKind, number::figure},
};

pub(super) fn method(sources: &[Source]) -> Markup {
    let cells = || sources.iter().flat_map(|source| &source.document.cells);
    let times_are = |kind| cells().any(|cell| kind_of(cell) == Some(kind));
    html! {
        section id="method" {
            h2 { "Method" }
            @for source in sources {
                @if sources.len() > 1 { h3 { (source.name) } }
                (plan(&source.document))
            }
            ul {
                @if times_are(LatencyKind::HalfRoundTrip) {
                    li { "A latency is half of the time from one echo to the next, one message in flight." }
                }
                @if times_are(LatencyKind::RoundTrip) {
                    li { "Times of calls, steps, reads and atomics are whole ones, and say so." }
                }
                @if cells().any(|cell| cell.load.is_some()) {
                    li { "Calls of an open loop are timed from when they were to begin, whenever they were sent." }
                }
                li {
                    "A bandwidth is payload by the time from the first submission until the receiver has confirmed \
                     the last byte. Rates are totals by total time over the rounds."
                }
                li {
                    "A percentile q is given only where 10 / (1 - q) samples stand behind it. Intervals are of 95 % \
                     confidence: over samples from order statistics, which speak of this run; over rounds by Student's t \
                     on logarithms, which says more of the next one."
                }
                li {
                    "Minimum and maximum are the true ones, and nothing is dropped. Transports of one size took turns \
                     within each round in a seeded random order."
                }
                li {
                    "A cell has a figure only if sender and receiver counted the same, the content of a sample arrived \
                     as it was sent, and the counters of interface or adapter, where there are any, moved by the payload."
                }
            }
        }
    }
}

fn kind_of(cell: &CellRecord) -> Option<LatencyKind> {
    cell.latency.as_ref().map(|latency| latency.kind)
}

fn plan(document: &Document) -> Markup {
    let plan = &document.plan;
    html! {
        dl {
            dt { "stop rule" } dd { (plan.stop) }
            dt { "warm-up" } dd { (plan.warm_up) }
            dt { "rounds" } dd { (plan.rounds) }
            @if let Some(precision) = plan.precision {
                dt { "precision" }
                dd { "half of the 95 % interval at most " (figure(Some(precision * 100.0))) " % of the figure" }
            }
            @if let Some(budget) = plan.budget_s {
                dt { "budget" }
                dd { (figure(Some(budget))) " s" }
            }
            @if let Some(measured) = document.measured_s {
                dt { "took" }
                dd { (figure(Some(measured))) " s" }
            }
            dt { "seed" } dd { (plan.seed) }
            dt { "loop" } dd { (plan.loop_kind) }
        }
    }
}
