//! TF-gRPC-Bench, as bars beside what was published.

use super::by_size::paged;
use crate::{
    html::{
        figure::{Axis, Bar, Bars, Figure, Group, Plot},
        palette::Style,
        scale::Kind,
        series::Looks,
        source::Source,
    },
    report::{LatencyKind, Status, number::figure},
    suite::{
        Benchmark, BenchmarkTable, Figure as SuiteFigure, Network, PublishedFigure, SOURCE, tf_grpc,
    },
};

/// The order of payloads in the publication.
const ORDER: [&str; 3] = ["10:uniform", "10:random", "10:skew"];

/// Whether `source` is of the suite: asked for as such, or with payloads of which figures were published.
pub(super) fn is_suite(source: &Source) -> bool {
    let document = &source.document;
    let asked = document.command.iter().any(|word| word == "suite");
    asked && document.cells.iter().any(|cell| cell.buffers.is_some())
}

/// Two figures for each benchmark: of the run, and what was published of the same payloads.
pub(super) fn suite(source: &Source, run: usize, looks: &mut Looks<'_>) -> Vec<Figure> {
    let suite = tf_grpc(source.document.clone(), &ORDER.map(str::to_owned));
    let of = |table: &BenchmarkTable| {
        let mut figures = measured(table, run, looks);
        figures.extend(published(table, run));
        figures
    };
    suite.tables.iter().flat_map(of).collect()
}

fn axis(benchmark: Benchmark) -> Axis {
    let title = match benchmark {
        Benchmark::P2pLatency => "latency, ms",
        Benchmark::P2pBandwidth => "bandwidth, MB/s (10⁶ B/s of requests)",
        Benchmark::PsThroughput => "calls (RPC) a second",
    };
    Axis { title: title.to_owned(), unit: benchmark.unit().to_owned(), kind: Kind::Linear }
}

fn measured(table: &BenchmarkTable, run: usize, looks: &mut Looks<'_>) -> Vec<Figure> {
    let groups = table.rows.iter().map(|row| {
        let bars = table.columns.iter().zip(&row.figures).map(|(column, figure)| {
            let (name, style) = looks.of(column, run);
            Bar {
                name,
                style,
                value: figure.value,
                interval: None,
                hollow: figure.latency == Some(LatencyKind::RoundTrip),
                text: words(figure, table),
            }
        });
        Group { name: row.payload.clone(), bars: bars.collect() }
    });
    let what = match table.benchmark {
        Benchmark::P2pLatency => "half of the round trip of a payload and its echo, median",
        Benchmark::P2pBandwidth => "payload there, acknowledgement back",
        Benchmark::PsThroughput => {
            "every worker calls every parameter server, all workers together"
        }
    };
    let pages = paged(groups.collect());
    let all = pages.len();
    let figure = |(index, groups): (usize, Vec<Group>)| {
        let bars = Bars { x: axis(table.benchmark), groups };
        let part = if all > 1 { format!(" ({} of {all})", index + 1) } else { String::new() };
        Figure {
            id: format!("tf-grpc-{}-{}-{}", slug(table.benchmark), run + 1, index + 1),
            title: format!("TF-gRPC-Bench, {}{part}", table.benchmark.name()),
            caption: format!("Measured: {what}."),
            table: bars.table(),
            plot: Plot::Bars(bars),
        }
    };
    pages.into_iter().enumerate().map(figure).collect()
}

fn words(of: &SuiteFigure, table: &BenchmarkTable) -> String {
    match (of.status, of.value) {
        (Status::Measured, Some(value)) => {
            let ratio = of.ratio.filter(|ratio| ratio.is_finite()).zip(table.base.as_ref());
            let ratio =
                ratio.map_or_else(String::new, |(ratio, base)| format!("; {ratio:.2} of {base}"));
            format!("{}{ratio}", figure(Some(value)))
        }
        (Status::Unsupported, _) => "unsupported".to_owned(),
        (Status::Failed, _) => "failed".to_owned(),
        _ => "-".to_owned(),
    }
}

fn slug(benchmark: Benchmark) -> &'static str {
    match benchmark {
        Benchmark::P2pLatency => "latency",
        Benchmark::P2pBandwidth => "bandwidth",
        Benchmark::PsThroughput => "ps",
    }
}

fn published(table: &BenchmarkTable, run: usize) -> Option<Figure> {
    let mut groups: Vec<Group> = Vec::new();
    for row in &table.rows {
        for cluster in ['A', 'B'] {
            let of = |figure: &&PublishedFigure| {
                figure.payload == row.payload && figure.cluster == cluster
            };
            let bars: Vec<_> = table.published.iter().filter(of).map(bar).collect();
            if !bars.is_empty() {
                groups.push(Group { name: format!("{}, cluster {cluster}", row.payload), bars });
            }
        }
    }
    if groups.is_empty() {
        return None;
    }
    let bars = Bars { x: axis(table.benchmark), groups };
    let setup = match table.benchmark {
        Benchmark::P2pLatency => "half a round trip as far as its bandwidths tell",
        Benchmark::P2pBandwidth => "calls in flight not told",
        Benchmark::PsThroughput => "2 parameter servers, 3 workers",
    };
    Some(Figure {
        id: format!("tf-grpc-{}-{}-published", slug(table.benchmark), run + 1),
        title: format!("TF-gRPC-Bench, {}: published", table.benchmark.name()),
        caption: format!(
            "On other machines, read off the publication's charts (5 % either way), {setup}. Cluster A: EDR InfiniBand \
             (100 Gb/s) and 40 Gb/s Ethernet; B: FDR (56 Gb/s) and 10 Gb/s. {SOURCE}."
        ),
        table: bars.table(),
        plot: Plot::Bars(bars),
    })
}

fn bar(published: &PublishedFigure) -> Bar {
    let (name, index) = match published.network {
        Network::Ethernet => ("gRPC over Ethernet", 0),
        Network::Ipoib => ("gRPC over IPoIB", 1),
        Network::Rdma => ("gRPC over RDMA", 2),
    };
    Bar {
        name: name.to_owned(),
        style: Style::of(index, 0),
        value: Some(published.value),
        interval: None,
        hollow: false,
        text: figure(Some(published.value)),
    }
}
