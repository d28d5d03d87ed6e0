//! All figures of all cells, and why some have none.

use maud::{Markup, html};

use crate::{
    html::{figures::cost::cost, source::Source},
    report::{CellRecord, Document, LatencyKind, Per, Side, Status, number::figure, reasons},
};

/// Tables with more rows are closed at first.
const MOST_OPEN: usize = 60;

const HEAD: [&str; 18] = [
    "transport",
    "pattern",
    "size",
    "samples",
    "min µs",
    "p50 µs",
    "over samples",
    "over rounds",
    "p99 µs",
    "p99.9 µs",
    "max µs",
    "mean µs",
    "MB/s",
    "over rounds",
    "messages/s",
    "CPU client µs",
    "CPU server µs",
    "",
];

/// A table a run.
pub(super) fn all(sources: &[Source]) -> Markup {
    html! {
        section id="figures" {
            h2 { "All figures" }
            p class="soft" {
                "Latencies are halves of round trips; those marked RT are whole ones. Behind a median stand its 95 % \
                 confidence intervals over samples and over rounds, behind a rate that over rounds. MB/s: 10⁶ bytes of \
                 payload a second. CPU: processor time of each process for a message, warm-up included. A dash: too few \
                 samples, or nothing of the kind."
            }
            @for source in sources {
                @let cells = source.document.cells.len();
                details open[cells <= MOST_OPEN] {
                    summary { @if sources.len() > 1 { (source.name) ": " } (cells) " cells" }
                    (rows(&source.document))
                }
                @let reasons = reasons(&source.document);
                @if !reasons.is_empty() {
                    h3 { "Cells without figures" @if sources.len() > 1 { ": " (source.name) } }
                    ul class="ways" { @for reason in reasons.lines() { li { (reason) } } }
                }
            }
        }
    }
}

fn rows(document: &Document) -> Markup {
    html! {
        div class="scroll breakout" {
            table class="all" {
                thead { tr { @for name in HEAD { th scope="col" { (name) } } } }
                tbody { @for cell in &document.cells { (row(cell)) } }
            }
        }
    }
}

fn row(cell: &CellRecord) -> Markup {
    let latency = cell.latency.as_ref();
    let us = |value: Option<f64>| figure(value.map(|nanoseconds| nanoseconds / 1e3));
    let interval = |ends: Option<[f64; 2]>, unit: f64| match ends {
        Some(ends) => ends.map(|end| figure(Some(end / unit))).join(" to "),
        None => "-".to_owned(),
    };
    let samples = latency.and_then(|latency| latency.p50_interval_95);
    let rounds = latency.and_then(|latency| latency.p50_rounds_interval_95);
    let kind = match latency.map(|latency| latency.kind) {
        Some(LatencyKind::RoundTrip) => "RT ",
        _ => "",
    };
    let rate = cell.throughput.as_ref();
    let figures = [
        latency.map_or_else(|| "-".to_owned(), |latency| figure(Some(latency.samples as f64))),
        us(latency.map(|latency| latency.min)),
        format!("{kind}{}", us(latency.and_then(|latency| latency.p50))),
        interval(samples, 1e3),
        interval(rounds, 1e3),
        us(latency.and_then(|latency| latency.p99)),
        us(latency.and_then(|latency| latency.p999)),
        us(latency.map(|latency| latency.max)),
        us(latency.map(|latency| latency.mean)),
        figure(rate.map(|rate| rate.bytes_per_s / 1e6)),
        interval(rate.and_then(|rate| rate.interval_95), 1e6),
        figure(rate.map(|rate| rate.messages_per_s)),
        us(cost(cell, Side::Client, Per::Message)),
        us(cost(cell, Side::Server, Per::Message)),
    ];
    html! {
        tr {
            th scope="row" { (cell.label()) }
            td class="word" { (cell.pattern) }
            td { (cell.size_label()) }
            @if cell.status == Status::Measured {
                @for figure in &figures { td { (figure) } }
                td class="word" { (remark(cell)) }
            } @else {
                td class="word" colspan=(figures.len() + 1) { (word(cell.status)) }
            }
        }
    }
}

fn remark(cell: &CellRecord) -> String {
    if let Some(unborne) = cell.unborne() {
        return unborne;
    }
    if !cell.failed_checks.is_empty() {
        return format!("fails a check: {}", cell.failed_checks.join("; "));
    }
    let loss = cell.loss.filter(|loss| loss.lost > 0);
    loss.map_or_else(String::new, |loss| format!("{} of {} lost", loss.lost, loss.sent))
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Measured => "measured",
        Status::Unsupported => "unsupported",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
    }
}
