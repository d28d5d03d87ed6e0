//! What was published with TF-gRPC-Bench.

use serde::{Deserialize, Serialize};

use super::Benchmark;

/// Where the figures are from.
pub const SOURCE: &str = "Biswas, Lu, Panda: Designing a Micro-Benchmark Suite to \
     Evaluate gRPC for TensorFlow: Early Experiences, arXiv 1804.01138 (2018)";

/// A network of the publication's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// gRPC over Ethernet.
    Ethernet,
    /// gRPC over IPoIB.
    Ipoib,
    /// gRPC carried by RDMA.
    Rdma,
}

/// A figure of the publication, read off its charts by eye: 5 % either way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedFigure {
    /// Of which benchmark.
    pub benchmark: Benchmark,
    /// The payload, as `--buffers` names it.
    pub payload: String,
    /// The cluster: A has EDR InfiniBand (100 Gb/s) and 40 Gb/s Ethernet, B FDR (56 Gb/s) and 10 Gb/s.
    pub cluster: char,
    /// What carried it.
    pub network: Network,
    /// The figure, in the benchmark's unit.
    pub value: f64,
}

/// Clusters with the networks of each, in the order of the rows of [`figures`].
pub(super) const COLUMNS: [(char, Network); 6] = [
    ('A', Network::Ethernet),
    ('A', Network::Ipoib),
    ('A', Network::Rdma),
    ('B', Network::Ethernet),
    ('B', Network::Ipoib),
    ('B', Network::Rdma),
];

/// Every figure of payloads that [`Benchmark`]s have. Payloads by its schemes are of ten buffers;
/// latencies are in milliseconds, of half a round trip as far as its bandwidths tell; PS-Throughput is of
/// two parameter servers and three workers.
pub(super) fn figures() -> impl Iterator<Item = PublishedFigure> {
    use Benchmark::{P2pBandwidth, P2pLatency, PsThroughput};
    let rows = [
        (P2pLatency, "10:uniform", [2.0, 1.95, 0.8, 3.9, 2.8, 1.0]),
        (P2pLatency, "10:random", [1.5, 1.4, 0.6, 4.8, 3.8, 0.5]),
        (P2pLatency, "10:skew", [2.9, 2.7, 1.2, 5.7, 4.2, 1.25]),
        (P2pBandwidth, "10:uniform", [2400.0, 2550.0, 5150.0, 1100.0, 1500.0, 4350.0]),
        (P2pBandwidth, "10:random", [2400.0, 2250.0, 5200.0, 1100.0, 1550.0, 4500.0]),
        (P2pBandwidth, "10:skew", [2350.0, 2450.0, 5250.0, 1100.0, 1500.0, 4900.0]),
        (PsThroughput, "10:uniform", [660.0, 800.0, 2750.0, 450.0, 760.0, 2720.0]),
        (PsThroughput, "10:random", [800.0, 950.0, 2900.0, 620.0, 1150.0, 3630.0]),
        (PsThroughput, "10:skew", [520.0, 530.0, 2130.0, 330.0, 640.0, 1680.0]),
    ];
    // Payloads of buffers of 1 MB, on cluster A alone.
    let megabytes = [
        ("2x1M", [1.18, 0.37]),
        ("4x1M", [2.03, 0.70]),
        ("6x1M", [2.76, 1.05]),
        ("8x1M", [3.93, 1.40]),
        ("10x1M", [4.64, 1.75]),
    ];
    let named = |benchmark, payload: &str, (cluster, network), value| PublishedFigure {
        benchmark,
        payload: payload.to_owned(),
        cluster,
        network,
        value,
    };
    let schemes = rows.into_iter().flat_map(move |(benchmark, payload, values)| {
        COLUMNS.into_iter().zip(values).map(move |(at, value)| named(benchmark, payload, at, value))
    });
    let megabytes = megabytes.into_iter().flat_map(move |(payload, values)| {
        let columns = [('A', Network::Ipoib), ('A', Network::Rdma)];
        columns
            .into_iter()
            .zip(values)
            .map(move |(at, value)| named(P2pLatency, payload, at, value))
    });
    schemes.chain(megabytes)
}
