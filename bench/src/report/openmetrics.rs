//! The figures as OpenMetrics text, for a Prometheus node exporter's textfile folder or a push gateway.
//!
//! Both read Prometheus' older text format, which knows no type `info` and drops a file that has one: all are
//! gauges, and what else is of OpenMetrics alone (units, the end) is a comment there.
//!
//! Names and units keep to "OpenMetrics 1.0" (seconds, bytes, the unit at the end of the name), so that
//! latencies are in seconds here and in nanoseconds elsewhere.

use std::fmt::Write as _;

use super::{CellRecord, Document, Status};

/// A metric: name, unit, what it is, and the samples of a cell, each with its further labels.
type Family = (&'static str, &'static str, &'static str, fn(&CellRecord) -> Vec<Sample>);

/// Further labels with a leading comma, and a value.
type Sample = (String, f64);

const FAMILIES: [Family; 9] = [
    (
        "latency_seconds",
        "seconds",
        "Latency by quantile: half of a round trip or the whole, as the label kind says",
        |cell| {
            let Some(latency) = &cell.latency else { return Vec::new() };
            let kind = latency.kind.to_string().replace(' ', "-");
            let quantiles = [("0.5", latency.p50), ("0.99", latency.p99), ("0.999", latency.p999)];
            let shown = |(quantile, value): (&str, Option<f64>)| {
                let labels = format!(",kind=\"{kind}\",quantile=\"{quantile}\"");
                Some((labels, value? / 1e9))
            };
            quantiles.into_iter().filter_map(shown).collect()
        },
    ),
    ("latency_min_seconds", "seconds", "The shortest time of all", |cell| {
        one(cell.latency.as_ref().map(|latency| latency.min / 1e9))
    }),
    ("latency_max_seconds", "seconds", "The longest time of all", |cell| {
        one(cell.latency.as_ref().map(|latency| latency.max / 1e9))
    }),
    ("latency_samples", "", "Samples behind the latency", |cell| {
        one(cell.latency.as_ref().map(|latency| latency.samples as f64))
    }),
    ("throughput_bytes_per_second", "bytes_per_second", "Payload bytes that arrived", |cell| {
        one(cell.throughput.as_ref().map(|rate| rate.bytes_per_s))
    }),
    ("throughput_messages_per_second", "messages_per_second", "Messages that arrived", |cell| {
        one(cell.throughput.as_ref().map(|rate| rate.messages_per_s))
    }),
    (
        "cpu_seconds",
        "seconds",
        "Processor time of a process while the cell was measured, warm-up included",
        |cell| {
            let Some(cpu) = &cell.cpu else { return Vec::new() };
            let side = |side, ns: u64| (format!(",side=\"{side}\""), ns as f64 / 1e9);
            vec![side("client", cpu.client_ns), side("server", cpu.server_ns)]
        },
    ),
    ("tcp_retransmitted_segments", "", "Segments that TCP sent again", |cell| {
        let Some(tcp) = &cell.tcp else { return Vec::new() };
        let sides = [("client", &tcp.client), ("server", &tcp.server)];
        let shown = |(side, of): (&str, &Option<super::TcpSide>)| {
            Some((format!(",side=\"{side}\""), of.as_ref()?.retransmits as f64))
        };
        sides.into_iter().filter_map(shown).collect()
    }),
    ("measured", "", "1 if the cell has figures, 0 if it has none", |cell| {
        one(Some(f64::from(u8::from(cell.status == Status::Measured))))
    }),
];

fn one(value: Option<f64>) -> Vec<Sample> {
    value.map(|value| (String::new(), value)).into_iter().collect()
}

/// All figures of `document` as gauges, and how it was made as one that is 1; what is absent has no sample.
#[must_use]
pub fn openmetrics(document: &Document) -> String {
    let mut text = String::new();
    let server = document.server.as_ref();
    head(&mut text, "run_info", "gauge", "", "How the figures were made");
    let _ = writeln!(
        text,
        "fabricbench_run_info{{version=\"{}\",client=\"{}\",server=\"{}\",complete=\"{}\",emulated=\"{}\"}} 1",
        escaped(&document.fabricbench),
        escaped(&document.client.hostname),
        escaped(server.map_or("", |server| &server.hostname)),
        document.complete,
        document.cells.iter().any(|cell| cell.path.as_ref().is_some_and(|path| path.emulated)),
    );
    head(&mut text, "started_seconds", "gauge", "seconds", "When the run began, since 1970");
    let _ = writeln!(text, "fabricbench_started_seconds {}", document.started_unix_s);
    for (name, unit, help, samples) in FAMILIES {
        head(&mut text, name, "gauge", unit, help);
        for cell in &document.cells {
            let labels = labels(cell);
            for (more, value) in samples(cell) {
                let _ = writeln!(text, "fabricbench_{name}{{{labels}{more}}} {value}");
            }
        }
    }
    text.push_str("# EOF\n");
    text
}

/// What stands above the samples of a metric of ours; `unit` is empty where it has none.
pub(crate) fn head(text: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    let _ = writeln!(text, "# TYPE fabricbench_{name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(text, "# UNIT fabricbench_{name} {unit}");
    }
    let _ = writeln!(text, "# HELP fabricbench_{name} {help}");
}

/// What tells a cell from the others.
fn labels(cell: &CellRecord) -> String {
    let mut labels = format!(
        "transport=\"{}\",pattern=\"{}\",size=\"{}\"",
        escaped(&cell.transport.to_string()),
        cell.pattern,
        cell.size
    );
    let mut add = |name: &str, value: String| {
        let _ = write!(labels, ",{name}=\"{}\"", escaped(&value));
    };
    if let Some(reply) = cell.reply {
        add("reply", reply.to_string());
    }
    if let Some(roles) = cell.roles {
        add("servers", roles.servers.to_string());
        add("workers", roles.workers.to_string());
    }
    if let Some(buffers) = &cell.buffers {
        add("buffers", buffers.shape.clone());
    }
    if let Some(tensors) = &cell.tensors {
        add("model", tensors.model.clone());
    }
    for (axis, value) in cell.variant.iter() {
        add(&axis.name().replace('-', "_"), value.to_string());
    }
    labels
}

/// A value of a label: backslash, quote and line feed are escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
