//! The columns of perftest, for scripts that read what `ib_write_lat` and `ib_write_bw` print.
//!
//! A block a transport, variant and pattern: a title, a line of dashes, the header, a row a size, a line of
//! dashes. Rows begin with a space and a number; whatever else is told begins with `#`. Labels,
//! units and the order of columns are perftest's. What a column means is told above the blocks
//! where it is not what perftest computes.

use std::fmt::Write as _;

use super::{CellRecord, Document, Status, column::Columns, notes::tuned, plain::plain};
use crate::plan::Pattern;

/// What perftest's options change in its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerftestColumns {
    /// Gb/s (10^9 bits) in place of MB/s (2^20 bytes): `--report_gbits`.
    pub gigabits: bool,
    /// The columns of a latency in duration mode: `-D`.
    pub by_duration: bool,
    /// A column of processor time: `--cpu_util`.
    pub cpu_util: bool,
}

/// A column: its label, and the spaces after it.
type Column = (&'static str, usize);

const LATENCY: &[Column] = &[
    ("#bytes", 1),
    ("#iterations", 4),
    ("t_min[usec]", 4),
    ("t_max[usec]", 2),
    ("t_typical[usec]", 4),
    ("t_avg[usec]", 4),
    ("t_stdev[usec]", 3),
    ("99% percentile[usec]", 3),
    ("99.9% percentile[usec]", 1),
];

const LATENCY_BY_DURATION: &[Column] =
    &[("#bytes", 8), ("#iterations", 7), ("t_avg[usec]", 4), ("tps average", 1)];

const MEGABYTES: &[Column] = &[
    ("#bytes", 5),
    ("#iterations", 4),
    ("BW peak[MB/sec]", 4),
    ("BW average[MB/sec]", 3),
    ("MsgRate[Mpps]", 1),
];

const GIGABITS: &[Column] = &[
    ("#bytes", 5),
    ("#iterations", 4),
    ("BW peak[Gb/sec]", 4),
    ("BW average[Gb/sec]", 3),
    ("MsgRate[Mpps]", 1),
];

/// Behind the others.
const CPU_UTIL: Column = ("CPU_Util[%]", 1);

/// The figure that is absent. A number to every parser of columns (awk, C, Python), and none that
/// could be taken for a measurement.
const ABSENT: &str = "nan";

/// perftest's MB/sec: 2^20 bytes.
const MEGABYTE: f64 = 1_048_576.0;

/// The blocks as text.
#[must_use]
pub fn perftest(document: &Document, columns: PerftestColumns) -> String {
    let mut text = notes(document, columns);
    for &pattern in &Pattern::ALL {
        for transport in &document.plan.transports {
            let of = |cell: &&CellRecord| cell.transport == *transport && cell.pattern == pattern;
            let cells: Vec<_> = document.cells.iter().filter(of).collect();
            for column in Columns::of(document, &cells).iter() {
                let of = |cell: &&CellRecord| column.has(cell);
                let cells: Vec<_> = cells.iter().copied().filter(of).collect();
                block(&mut text, &cells, columns, document.client.cpus);
            }
        }
    }
    text
}

/// `cpus`: the client's processors.
fn block(text: &mut String, cells: &[&CellRecord], columns: PerftestColumns, cpus: Option<u32>) {
    let (measured, others): (Vec<&CellRecord>, Vec<_>) =
        cells.iter().partition(|cell| cell.status == Status::Measured);
    for cell in others {
        let reason = cell.reason.as_deref().unwrap_or("no reason is known");
        let status = match cell.status {
            Status::Measured => "measured",
            Status::Unsupported => "unsupported",
            Status::Failed => "failed",
            Status::Skipped => "skipped",
        };
        note(
            text,
            &format!("{} {} {}: {status}: {reason}", cell.label(), cell.pattern, size(cell)),
        );
    }
    // As perftest: without a figure there is no table.
    let Some(first) = measured.first() else { return };
    let pattern = match first.pattern {
        Pattern::Latency => "Latency",
        Pattern::Calls => "Calls (latency)",
        Pattern::Ps => "Parameter servers (latency)",
        Pattern::TensorPush => "Tensors pushed (latency)",
        Pattern::TensorFetch => "Tensors fetched (latency)",
        Pattern::Bidirectional => "Bidirectional BW",
        Pattern::Bandwidth | Pattern::Fetch | Pattern::Rate => "BW",
    };
    let layout = match (first.pattern.is_timed(), columns) {
        (true, PerftestColumns { by_duration: true, .. }) => LATENCY_BY_DURATION,
        (true, _) => LATENCY,
        (_, PerftestColumns { gigabits: true, .. }) => GIGABITS,
        _ => MEGABYTES,
    };
    let mut layout = layout.to_vec();
    if let Some((_, gap)) = layout.last_mut().filter(|_| columns.cpu_util) {
        *gap = 4;
        layout.push(CPU_UTIL);
    }
    let layout = layout.as_slice();
    let rule = "-".repeat(width(layout));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{rule}\n{:20}{} {pattern} Test\n{rule}", "", first.label());
    line(text, layout, layout.iter().map(|&(label, _)| label.to_owned()));
    for cell in measured {
        let cpu = columns.cpu_util.then(|| number(cpu_share(cell, cpus), 2));
        line(text, layout, figures(cell, columns).into_iter().chain(cpu));
    }
    let _ = writeln!(text, "{rule}");
}

/// In bytes, as all of them there, with the buffers that make it up.
fn size(cell: &CellRecord) -> String {
    match (&cell.buffers, &cell.tensors) {
        (_, Some(tensors)) => format!("{} B of {}", cell.size, tensors.model),
        (Some(buffers), None) => format!("{} B in {}", cell.size, buffers.shape),
        (None, None) => format!("{} B", cell.size),
    }
}

fn figures(cell: &CellRecord, columns: PerftestColumns) -> Vec<String> {
    let us = |nanoseconds: Option<f64>| number(nanoseconds.map(|time| time / 1e3), 2);
    let messages = cell.settings.as_ref().map_or(0, |settings| settings.messages);
    let rate = cell.throughput.as_ref();
    let mut figures = vec![cell.size.to_string()];
    match (&cell.latency, cell.pattern.is_timed()) {
        (latency, true) => {
            let of =
                |figure: fn(&super::Latency) -> Option<f64>| us(latency.as_ref().and_then(figure));
            let samples = latency.as_ref().map_or(messages, |latency| latency.samples);
            figures.push(samples.to_string());
            if columns.by_duration {
                figures.push(of(|latency| Some(latency.mean)));
                figures.push(number(rate.map(|rate| rate.messages_per_s), 2));
            } else {
                figures.extend([
                    of(|latency| Some(latency.min)),
                    of(|latency| Some(latency.max)),
                    of(|latency| latency.p50),
                    of(|latency| Some(latency.mean)),
                    of(|latency| latency.stddev),
                    of(|latency| latency.p99),
                    of(|latency| latency.p999),
                ]);
            }
        }
        _ => {
            let unit = if columns.gigabits { 1e9 / 8.0 } else { MEGABYTE };
            let average = rate.map(|rate| rate.bytes_per_s / unit);
            let peak = average.zip(peak_ratio(cell)).map(|(average, ratio)| average * ratio);
            figures.extend([
                messages.to_string(),
                number(peak, 2),
                number(average, 2),
                number(rate.map(|rate| rate.messages_per_s / 1e6), 6),
            ]);
        }
    }
    figures
}

/// Processor time of the client's process in percent of that of all processors of its host.
fn cpu_share(cell: &CellRecord, cpus: Option<u32>) -> Option<f64> {
    let seconds = cell.a_second(cell.cpu?.client_ns)? / 1e9;
    Some(seconds / f64::from(cpus?) * 100.0)
}

/// By how much the fastest round was faster than all of them together.
fn peak_ratio(cell: &CellRecord) -> Option<f64> {
    let rate = |messages: u64, elapsed_ns: u64| {
        (elapsed_ns > 0).then(|| messages as f64 / elapsed_ns as f64)
    };
    let fastest = cell
        .rounds
        .iter()
        .filter_map(|round| rate(round.messages, round.elapsed_ns))
        .reduce(f64::max)?;
    let (messages, elapsed) = cell.rounds.iter().fold((0, 0), |(messages, elapsed), round| {
        (messages + round.messages, elapsed + round.elapsed_ns)
    });
    rate(messages, elapsed).filter(|&all| all > 0.0).map(|all| fastest / all)
}

fn number(value: Option<f64>, decimals: usize) -> String {
    match value.filter(|value| value.is_finite()) {
        Some(value) => format!("{value:.decimals$}"),
        None => ABSENT.to_owned(),
    }
}

fn width(layout: &[Column]) -> usize {
    layout.iter().map(|(label, gap)| label.len() + gap).sum()
}

/// Fields under the labels of their columns, at least a space apart, whatever their length.
fn line(text: &mut String, layout: &[Column], fields: impl Iterator<Item = String>) {
    let mut line = String::new();
    for (field, (label, gap)) in fields.zip(layout) {
        let _ = write!(line, " {field:<width$}", width = label.len() + gap - 1);
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

fn note(text: &mut String, words: &str) {
    // One line, whatever a reason holds, or a piece of it would pass for a row.
    let words = words.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    let _ = writeln!(text, "# {}", plain(&words));
}

fn notes(document: &Document, columns: PerftestColumns) -> String {
    let mut text = String::new();
    let measured = |latency: bool| {
        document
            .cells
            .iter()
            .any(|cell| cell.status == Status::Measured && cell.pattern.is_timed() == latency)
    };
    let rounds = document.plan.rounds;
    note(
        &mut text,
        &format!(
            "fabricbench {}, columns of perftest; each row over {rounds} interleaved rounds",
            document.fabricbench
        ),
    );
    if measured(true) && columns.by_duration {
        note(&mut text, "t_avg: mean over the time asked for; tps: round trips a second");
    } else if measured(true) {
        for words in [
            "t_max: the true maximum, no sample is dropped; t_typical: the median",
            "t_stdev: sample standard deviation, not cut to whole microseconds",
            "nan: fewer samples than the figure needs (20 for t_typical, 1,000 for 99%, 10,000 \
             for 99.9%; give -n)",
        ] {
            note(&mut text, words);
        }
    }
    if let Some(reply) = document.cells.iter().find_map(|cell| cell.reply) {
        note(
            &mut text,
            &format!(
                "Calls: times from request to reply, the whole round trip, with as many in flight \
                 as --depth says; replies of {reply} B"
            ),
        );
    }
    if measured(false) {
        let unit = if columns.gigabits { "Gb: 10^9 bits" } else { "MB: 2^20 bytes" };
        note(&mut text, &format!("{unit}; the clock stops when the last message is confirmed"));
        note(&mut text, "BW peak: the fastest round, not the fastest single message");
    }
    if columns.cpu_util {
        note(
            &mut text,
            "CPU_Util: processor time of this process, warm-up included, by that of all processors of this host",
        );
    }
    for line in tuned(document) {
        note(&mut text, &line);
    }
    for warning in &document.warnings {
        note(&mut text, &format!("warning: {warning}"));
    }
    for advice in &document.advice {
        note(&mut text, &advice.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Axis, Value, Variant},
        report::{CellSettings, Latency, LatencyKind, RoundRecord, Throughput, table},
    };

    fn cell(pattern: Pattern, size: u64) -> CellRecord {
        let round = |round, elapsed_ns| RoundRecord { round, messages: 500, elapsed_ns, p50: None };
        let made = table::tests::cell("verbs-write", size);
        CellRecord {
            pattern,
            latency: (pattern == Pattern::Latency).then(|| Latency {
                split: None,
                p50_rounds_interval_95: None,
                histogram: None,
                unit: "ns".to_owned(),
                kind: LatencyKind::HalfRoundTrip,
                samples: 1000,
                min: 900.0,
                p50: Some(1000.0),
                p99: Some(2000.0),
                p999: None,
                max: 9876.0,
                mean: 1100.0,
                stddev: Some(123.0),
                p50_interval_95: None,
                absent: std::collections::BTreeMap::new(),
            }),
            throughput: Some(Throughput {
                bytes_per_s: 2.0 * MEGABYTE,
                messages_per_s: 2.0 * MEGABYTE / size as f64,
                interval_95: None,
            }),
            settings: made.settings.clone().map(|settings| CellSettings {
                warm_up_messages: 3,
                messages: 1000,
                ..settings
            }),
            rounds: vec![round(0, 1_000_000), round(1, 3_000_000)],
            path: None,
            ..made
        }
    }

    fn document(cells: Vec<CellRecord>) -> Document {
        table::tests::document(&["verbs-write"], cells)
    }

    /// Rows as a script reads them: lines that begin with a number, split at white space.
    fn rows(text: &str) -> Vec<Vec<&str>> {
        let is_row =
            |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
        text.lines().filter(is_row).map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn a_latency_has_perftests_columns() {
        let document = document(vec![cell(Pattern::Latency, 8)]);
        let text = perftest(&document, PerftestColumns::default());
        assert_eq!(
            rows(&text),
            [["8", "1000", "0.90", "9.88", "1.00", "1.10", "0.12", "2.00", "nan"]]
        );
        let header = text.lines().find(|line| line.contains("#bytes")).unwrap();
        let labels = header.replace("% percentile", "%percentile");
        assert!(header.starts_with(" #bytes #iterations "), "{header}");
        assert_eq!(labels.split_whitespace().count(), rows(&text)[0].len());
        let columns = PerftestColumns { by_duration: true, ..PerftestColumns::default() };
        let text = perftest(&document, columns);
        assert_eq!(rows(&text), [["8", "1000", "1.10", "262144.00"]]);
    }

    #[test]
    fn a_rate_is_in_the_unit_that_was_asked_for_and_its_peak_the_fastest_round() {
        let document = document(vec![cell(Pattern::Bandwidth, 8_388_608)]);
        let text = perftest(&document, PerftestColumns::default());
        // 1000 messages in 4 ms, 500 of them in 1 ms: twice as fast.
        assert_eq!(rows(&text), [["8388608", "1000", "4.00", "2.00", "0.000000"]]);
        let columns = PerftestColumns { cpu_util: true, ..PerftestColumns::default() };
        let mut busy = document.clone();
        busy.client.cpus = Some(4);
        let text = perftest(&busy, columns);
        let header = text.lines().find(|line| line.contains("#bytes")).unwrap();
        assert!(header.ends_with("    CPU_Util[%]"), "{header:?}");
        let columns = PerftestColumns { gigabits: true, ..PerftestColumns::default() };
        let text = perftest(&document, columns);
        assert_eq!(rows(&text), [["8388608", "1000", "0.03", "0.02", "0.000000"]]);
        assert!(text.contains("BW average[Gb/sec]") && !text.contains("MB"), "{text}");
    }

    #[test]
    fn each_variant_is_a_block_of_its_own() {
        let of = |qp: u64| {
            let variant = Variant::default().with(Axis::Qp, Value::Number(qp));
            CellRecord { variant, ..cell(Pattern::Bandwidth, 8) }
        };
        let text = perftest(&document(vec![of(1), of(4)]), PerftestColumns::default());
        assert_eq!(rows(&text).len(), 2);
        for title in ["verbs-write[qp=1] BW Test", "verbs-write[qp=4] BW Test"] {
            assert_eq!(text.matches(title).count(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_not_measured_is_a_comment_of_one_line() {
        let mut failed = cell(Pattern::Latency, 8);
        failed.status = Status::Failed;
        failed.reason = Some("cut\n 1 2 3".to_owned());
        let text = perftest(&document(vec![failed]), PerftestColumns::default());
        assert!(text.contains("# verbs-write latency 8 B: failed: cut; 1 2 3\n"), "{text}");
        assert!(text.lines().all(|line| line.starts_with("# ")), "{text}");
    }
}
