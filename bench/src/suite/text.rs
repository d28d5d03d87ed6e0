//! A suite as text: each benchmark's table with the published one under it, and what was used.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{
    Benchmark, BenchmarkTable, Figure, Network, Suite, Usage,
    published::{COLUMNS, SOURCE},
};
use crate::{
    plan::{Roles, display_bytes},
    report::{CellRecord, LatencyKind, Status, notes, number::figure},
};

/// Tables, paths and warnings.
#[must_use]
pub fn text(suite: &Suite) -> String {
    let mut text = String::new();
    let plan = &suite.document.plan;
    let _ = writeln!(
        text,
        "TF-gRPC-Bench, of {SOURCE}\n{}, in {} interleaved rounds; warm-up of {}\n",
        plan.stop, plan.rounds, plan.warm_up
    );
    for table in &suite.tables {
        let _ = writeln!(text, "{}\n{}\n", title(table, suite), measured(table));
        if let Some(published) = published(table) {
            text.push_str(other_roles(table, suite));
            let _ = writeln!(text, "{published}\n");
        }
    }
    let _ = writeln!(
        text,
        "use of each process: processors; memory, at the most; what its interface or adapter sent and \
         received\n{}\n",
        used(suite)
    );
    text.push_str(&notes(&suite.document));
    text
}

fn title(table: &BenchmarkTable, suite: &Suite) -> String {
    let mut cells = suite.document.cells.iter();
    let what = match table.benchmark {
        Benchmark::P2pLatency => "half of the round trip, median; RT: the whole".to_owned(),
        Benchmark::P2pBandwidth => {
            let of = |cell: &CellRecord| {
                let settings = cell.settings.as_ref()?;
                (cell.pattern == table.benchmark.pattern()).then_some(settings.depth?)
            };
            match cells.find_map(of) {
                Some(1) | None => "one call after the other".to_owned(),
                Some(depth) => format!("{depth} calls in flight"),
            }
        }
        Benchmark::PsThroughput => {
            let Roles { servers, workers } = cells.find_map(|cell| cell.roles).unwrap_or_default();
            format!("{servers} parameter server(s), {workers} worker(s), of all workers together")
        }
    };
    let ratio = table.base.as_ref().map_or_else(String::new, |base| format!(" [ratio to {base}]"));
    format!("{}: {}{ratio}; {what}", table.benchmark.name(), table.unit)
}

fn measured(table: &BenchmarkTable) -> String {
    let header = ["payload", "size"].into_iter().map(str::to_owned);
    let mut rows = aligned(header.chain(table.columns.iter().cloned()));
    for row in &table.rows {
        let start = [row.payload.clone(), display_bytes(row.size).to_string()];
        rows.add_row(start.into_iter().chain(row.figures.iter().map(shown)));
    }
    finished(rows)
}

fn shown(of: &Figure) -> String {
    match of.status {
        Status::Measured => match of.latency {
            Some(LatencyKind::RoundTrip) => format!("RT {}", figure(of.value)),
            _ => with_ratio(of.value, of.ratio),
        },
        Status::Unsupported => "unsupported".to_owned(),
        Status::Failed => "failed".to_owned(),
        Status::Skipped => "-".to_owned(),
    }
}

fn with_ratio(value: Option<f64>, ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) => format!("{} [{ratio:.2}]", figure(value)),
        None => figure(value),
    }
}

/// That the published figures are of other numbers of servers and workers.
fn other_roles(table: &BenchmarkTable, suite: &Suite) -> &'static str {
    let of_publication = Roles { servers: 2, workers: 3 };
    let roles = suite.document.cells.iter().find_map(|cell| cell.roles).unwrap_or_default();
    if table.benchmark == Benchmark::PsThroughput && roles != of_publication {
        "not of the same setup, and so not to be compared: give --servers 2 --workers 3 to measure what was \
         published\n"
    } else {
        ""
    }
}

/// What the publication has of the same payloads.
fn published(table: &BenchmarkTable) -> Option<String> {
    let first = table.published.first()?;
    let setup = match first.benchmark {
        Benchmark::P2pLatency => "half a round trip as far as its bandwidths tell",
        Benchmark::P2pBandwidth => "calls in flight not told",
        Benchmark::PsThroughput => "of 2 parameter servers and 3 workers",
    };
    let name = |network| match network {
        Network::Ethernet => "Ethernet",
        Network::Ipoib => "IPoIB",
        Network::Rdma => "RDMA",
    };
    let header = COLUMNS.map(|(cluster, network)| format!("{cluster} {}", name(network)));
    let mut rows = aligned(std::iter::once("payload".to_owned()).chain(header));
    for row in &table.rows {
        let find = |(cluster, network)| {
            let mut of = table.published.iter().filter(|of| of.payload == row.payload);
            of.find(|of| of.cluster == cluster && of.network == network).map(|of| of.value)
        };
        let values = COLUMNS.map(|column| {
            let value = find(column);
            let base = find((column.0, Network::Ethernet));
            with_ratio(value, value.zip(base).map(|(value, base)| value / base))
        });
        if COLUMNS.into_iter().any(|column| find(column).is_some()) {
            rows.add_row(std::iter::once(row.payload.clone()).chain(values));
        }
    }
    Some(format!(
        "published, {} [ratio to Ethernet], read off charts (5 % either way), {setup}; A: EDR 100 Gb/s and 40GbE, B: FDR \
         56 Gb/s and 10GbE\n{}",
        table.unit,
        finished(rows)
    ))
}

fn used(suite: &Suite) -> String {
    let header = [
        "benchmark",
        "payload",
        "transport",
        "client",
        "MiB",
        "sent MB/s",
        "recv MB/s",
        "server",
        "MiB",
        "sent MB/s",
        "recv MB/s",
    ];
    let mut rows = aligned(header.into_iter().map(str::to_owned));
    for table in &suite.tables {
        for row in &table.rows {
            let measured = |(_, of): &(&String, &Figure)| of.status == Status::Measured;
            for (column, of) in table.columns.iter().zip(&row.figures).filter(measured) {
                let name = [table.benchmark.name(), row.payload.as_str(), column.as_str()];
                let figures = [&of.client, &of.server].into_iter().flat_map(usage);
                rows.add_row(name.map(str::to_owned).into_iter().chain(figures));
            }
        }
    }
    finished(rows)
}

fn usage(of: &Usage) -> [String; 4] {
    let megabytes = |rate: Option<f64>| figure(rate.map(|rate| rate / 1e6));
    [
        of.processors.map_or_else(|| "-".to_owned(), |count| format!("{count:.2}")),
        figure(of.peak_memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20))),
        megabytes(of.sent_bytes_per_s),
        megabytes(of.received_bytes_per_s),
    ]
}

fn aligned(header: impl Iterator<Item = String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table
}

fn finished(mut table: Table) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
