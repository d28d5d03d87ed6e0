//! Latency against size.

use super::{
    by_size::{Quantity, Value, by_size},
    unit::Unit,
};
use crate::{
    html::{
        figure::Figure,
        series::{Looks, Measured, Subject},
    },
    plan::{Pattern, display_bytes},
    report::{CellRecord, Latency, LatencyKind},
};

/// The figures of a subject's latencies.
pub(super) fn latency(subject: &Subject<'_>, looks: &mut Looks<'_>) -> Vec<Figure> {
    let medians = subject.cells.iter().filter_map(|measured| measured.cell.latency.as_ref()?.p50);
    let unit = Unit::covering(medians);
    let value = |cell: &CellRecord| {
        let latency = cell.latency.as_ref()?;
        let median = latency.p50?;
        let interval = interval(latency);
        Some(Value {
            value: unit.of(median),
            interval: interval.map(|ends| ends.map(|end| unit.of(end))),
            thin: latency.p99.map(|p99| unit.of(p99)),
            text: unit.words(median, interval, latency.p99),
        })
    };
    let (title, of) = words(subject);
    let intervals = intervals(subject);
    let (title, caption) = match subject.is_of_sizes() {
        true => (
            format!("{title} against message size"),
            format!(
                "{of}. Marks: the median, with {intervals} where that is wider than the mark; without a cap it reaches beyond the \
                 figure. Thin lines: the 99th \
                 percentile, where 1,000 samples or more stand behind it."
            ),
        ),
        false => (title, format!("{of}. Bars: the median; whiskers: {intervals}.")),
    };
    let quantity = Quantity {
        id: format!("latency-{}", subject.slug()),
        title,
        caption,
        axis: format!("{}, {}", axis(subject), unit.name),
        unit: unit.name.to_owned(),
        limits: Vec::new(),
        of: &value,
    };
    by_size(subject, looks, &quantity)
}

/// The median's 95 % interval over samples or that over rounds, whichever reaches further on each side.
pub(super) fn interval(latency: &Latency) -> Option<[f64; 2]> {
    match (latency.p50_interval_95, latency.p50_rounds_interval_95) {
        (Some([low, high]), Some([other_low, other_high])) => {
            Some([low.min(other_low), high.max(other_high)])
        }
        (one, other) => one.or(other),
    }
}

/// What [`interval`] is in a subject, in words.
pub(super) fn intervals(subject: &Subject<'_>) -> &'static str {
    let over_rounds = |measured: &Measured<'_>| {
        let latency = measured.cell.latency.as_ref();
        latency.is_some_and(|latency| latency.p50_rounds_interval_95.is_some())
    };
    match subject.cells.iter().any(over_rounds) {
        true => "the wider of its 95 % confidence intervals (over samples, over rounds)",
        false => "its 95 % confidence interval (order statistics)",
    }
}

/// What a subject's times are of, as a title and as a sentence.
pub(super) fn words(subject: &Subject<'_>) -> (String, String) {
    let half = subject.kind != Some(LatencyKind::RoundTrip);
    let replies = subject
        .reply
        .map_or_else(String::new, |reply| format!(", replies of {}", display_bytes(reply)));
    let roles = subject.roles.unwrap_or_default();
    let (workers, servers) = (roles.workers, roles.servers);
    let (title, of) = match subject.pattern {
        Pattern::Calls => ("Time of a call", format!("The whole round trip of a call{replies}")),
        Pattern::Ps => (
            "Time of a step",
            format!(
                "A step of one of {workers} worker(s): a call to each of {servers} parameter server(s){replies}"
            ),
        ),
        Pattern::TensorPush => (
            "Time of a step (push)",
            format!("All tensors of a model once, from one of {workers} worker(s) to {servers} parameter server(s)"),
        ),
        Pattern::TensorFetch => (
            "Time of a step (fetch)",
            format!("All tensors of a model once, to one of {workers} worker(s) from {servers} parameter server(s)"),
        ),
        _ if half => (
            "Latency",
            "Half of the round trip of a message and its echo, one message in flight".to_owned(),
        ),
        _ => (
            "Latency, whole round trip",
            "The whole round trip of operations in which the far processor takes no part, one in flight".to_owned(),
        ),
    };
    (title.to_owned(), of)
}

/// What stands at the axis.
pub(super) fn axis(subject: &Subject<'_>) -> &'static str {
    match (subject.pattern, subject.kind) {
        (Pattern::Ps | Pattern::TensorPush | Pattern::TensorFetch, _) => "time of a step",
        (Pattern::Calls, _) => "round trip",
        (_, Some(LatencyKind::RoundTrip)) => "round trip",
        _ => "half round trip",
    }
}
