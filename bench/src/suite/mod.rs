//! `fabricbench suite`: what a document of a published suite's cells says in that suite's terms, beside the
//! figures that were published.

mod published;
mod text;

use serde::{Deserialize, Serialize};

pub use published::{Network, PublishedFigure, SOURCE};
pub use text::text;

use crate::{
    plan::{Pattern, TransportName},
    report::{CellRecord, CpuCost, Document, LatencyKind, PathKind, Status},
};

/// The value of [`Suite::schema`].
pub const SCHEMA: &str = "fabricbench-suite/1";

/// TF-gRPC-Bench, carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suite {
    /// [`SCHEMA`].
    pub schema: String,
    /// Always `tf-grpc`.
    pub suite: String,
    /// The publication.
    pub source: String,
    /// A table for each benchmark that was asked for.
    pub tables: Vec<BenchmarkTable>,
    /// All that was measured.
    pub document: Document,
}

/// The benchmarks of TF-gRPC-Bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Benchmark {
    /// The payload goes there and comes back.
    P2pLatency,
    /// The payload goes there and an acknowledgement comes back.
    P2pBandwidth,
    /// Every worker calls every parameter server.
    PsThroughput,
}

impl Benchmark {
    /// All of them, in the publication's order.
    pub const ALL: [Self; 3] = [Self::P2pLatency, Self::P2pBandwidth, Self::PsThroughput];

    /// Its name in the publication.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P2pLatency => "P2P-Latency",
            Self::P2pBandwidth => "P2P-Bandwidth",
            Self::PsThroughput => "PS-Throughput",
        }
    }

    /// The pattern that it is.
    #[must_use]
    pub fn pattern(self) -> Pattern {
        match self {
            Self::P2pLatency => Pattern::Latency,
            Self::P2pBandwidth => Pattern::Calls,
            Self::PsThroughput => Pattern::Ps,
        }
    }

    /// What its figures are in, as the publication has them.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::P2pLatency => "ms",
            Self::P2pBandwidth => "MB/s",
            Self::PsThroughput => "RPC/s",
        }
    }

    /// The figure of a measured cell, in that unit.
    fn figure(self, cell: &CellRecord) -> Option<f64> {
        let throughput = cell.throughput.as_ref();
        match self {
            Self::P2pLatency => Some(cell.latency.as_ref()?.p50? / 1e6),
            Self::P2pBandwidth => Some(throughput?.bytes_per_s / 1e6),
            Self::PsThroughput => Some(throughput?.messages_per_s),
        }
    }
}

/// The figures of a benchmark: a row a payload, transports side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkTable {
    /// Which.
    pub benchmark: Benchmark,
    /// Unit of the figures.
    pub unit: String,
    /// Transports with their variants, in the order of the columns.
    pub columns: Vec<String>,
    /// The column that ratios are to; `null` if nothing can be compared with.
    pub base: Option<String>,
    /// The payloads, in their order.
    pub rows: Vec<Row>,
    /// What was published of these payloads, in the same unit.
    pub published: Vec<PublishedFigure>,
}

/// One payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its buffers, as `--buffers` names them.
    pub payload: String,
    /// Bytes.
    pub size: u64,
    /// One for each column.
    pub figures: Vec<Figure>,
}

/// One transport's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What became of the cell.
    pub status: Status,
    /// Why there is no figure; `null` where there is one.
    pub reason: Option<String>,
    /// The figure, in the unit of the table.
    pub value: Option<f64>,
    /// What it is a latency of; absent where it is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub latency: Option<LatencyKind>,
    /// Of it and that of the table's base.
    pub ratio: Option<f64>,
    /// What the processes used meanwhile.
    pub client: Usage,
    /// The same of the server's side.
    pub server: Usage,
}

/// What a process used while a cell was measured; warm-up counts, per operation, as much as the rest.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processors.
    pub processors: Option<f64>,
    /// The most memory that was resident at once, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Bytes a second that its interface or adapter sent, headers and other traffic included; `null`
    /// where that is not counted.
    pub sent_bytes_per_s: Option<f64>,
    /// The same, received.
    pub received_bytes_per_s: Option<f64>,
}

/// Reads `document` as that of TF-gRPC-Bench; `order` has the payloads as the rows are to have them.
#[must_use]
pub fn tf_grpc(document: Document, order: &[String]) -> Suite {
    let of = |benchmark: Benchmark| table(benchmark, &document, order);
    let tables = Benchmark::ALL.into_iter().filter_map(of).collect();
    Suite {
        schema: SCHEMA.to_owned(),
        suite: "tf-grpc".to_owned(),
        source: SOURCE.to_owned(),
        tables,
        document,
    }
}

fn table(benchmark: Benchmark, document: &Document, order: &[String]) -> Option<BenchmarkTable> {
    let cells = document.cells.iter().filter(|cell| cell.pattern == benchmark.pattern());
    let cells: Vec<_> = cells.collect();
    let mut columns: Vec<String> = Vec::new();
    let mut payloads: Vec<(String, u64)> = Vec::new();
    for cell in &cells {
        let payload = (payload(cell), cell.size);
        if !payloads.contains(&payload) {
            payloads.push(payload);
        }
        if !columns.contains(&cell.label()) {
            columns.push(cell.label());
        }
    }
    // The plan goes by size, which a random payload has another of in each run.
    payloads.sort_by_key(|(name, _)| order.iter().position(|ordered| ordered == name));
    let base = base(&cells);
    let row = |(name, size): (String, u64)| {
        let of = |label: &str| {
            let mut cells = cells.iter().copied();
            cells.find(|cell| cell.size == size && payload(cell) == name && cell.label() == label)
        };
        let base = base.as_deref().and_then(of).and_then(|cell| benchmark.figure(cell));
        let figure = |label: &String| match of(label) {
            Some(cell) => figure(benchmark, cell, base),
            None => absent(),
        };
        Row { figures: columns.iter().map(figure).collect(), payload: name, size }
    };
    let rows: Vec<_> = payloads.into_iter().map(row).collect();
    let published = published::figures().filter(|published| published.benchmark == benchmark);
    let published =
        published.filter(|published| rows.iter().any(|row| row.payload == published.payload));
    let published: Vec<_> = published.collect();
    (!cells.is_empty()).then(|| BenchmarkTable {
        benchmark,
        unit: benchmark.unit().to_owned(),
        published,
        columns,
        base,
        rows,
    })
}

fn payload(cell: &CellRecord) -> String {
    cell.buffers.as_ref().map_or_else(|| "1 buffer".to_owned(), |buffers| buffers.shape.clone())
}

/// What the publication compares with: gRPC over Ethernet; failing that the first gRPC.
fn base(cells: &[&CellRecord]) -> Option<String> {
    let grpc = || {
        cells.iter().filter(|cell| {
            matches!(cell.transport, TransportName::Grpc(..)) && cell.status == Status::Measured
        })
    };
    let ethernet =
        grpc().find(|cell| cell.path.as_ref().is_some_and(|path| path.kind == PathKind::Ethernet));
    ethernet.or_else(|| grpc().next()).map(|cell| cell.label())
}

fn figure(benchmark: Benchmark, cell: &CellRecord, base: Option<f64>) -> Figure {
    let value = benchmark.figure(cell);
    let (client, server) = usage(cell);
    let is_latency = benchmark == Benchmark::P2pLatency;
    Figure {
        status: cell.status,
        reason: cell.reason.clone(),
        value,
        latency: cell.latency.as_ref().filter(|_| is_latency).map(|latency| latency.kind),
        ratio: value.zip(base).map(|(value, base)| value / base),
        client,
        server,
    }
}

fn absent() -> Figure {
    Figure {
        status: Status::Skipped,
        reason: Some("not among the cells of this run".to_owned()),
        value: None,
        latency: None,
        ratio: None,
        client: Usage::default(),
        server: Usage::default(),
    }
}

fn usage(cell: &CellRecord) -> (Usage, Usage) {
    let cpu = |of: fn(&CpuCost) -> u64| Some(cell.a_second(of(cell.cpu.as_ref()?))? / 1e9);
    let counters = [&cell.counters, &cell.peer_counters].map(Option::as_ref);
    let [client, server] = counters.map(|counters| {
        let rate = |interface: Option<u64>, words: &str| {
            // InfiniBand counts its data in words of four bytes.
            let port = counters?.rdma.get(words).map(|words| words.saturating_mul(4));
            cell.a_second(interface.or(port)?)
        };
        Usage {
            sent_bytes_per_s: rate(
                counters.and_then(|all| all.interface_tx_bytes),
                "port_xmit_data",
            ),
            received_bytes_per_s: rate(
                counters.and_then(|all| all.interface_rx_bytes),
                "port_rcv_data",
            ),
            ..Usage::default()
        }
    });
    let memory = cell.memory.unwrap_or_default();
    let client = Usage {
        processors: cpu(|cpu| cpu.client_ns),
        peak_memory_bytes: memory.client_peak_bytes,
        ..client
    };
    let server = Usage {
        processors: cpu(|cpu| cpu.server_ns),
        peak_memory_bytes: memory.server_peak_bytes,
        ..server
    };
    (client, server)
}
