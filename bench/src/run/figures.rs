//! The figures of a cell, of what its rounds added up to.

use std::collections::BTreeMap;

use crate::{
    report::{Absent, Counters, Latency, LatencyKind, LatencySplit, Proof},
    stats::{Histogram, Interval, Quantile, rounds_interval_95},
};

/// The normal quantile of a 95 % interval.
const Z_95: f64 = 1.96;

/// The interval of rounds' figures, as a document has it.
pub(super) fn over_rounds(figures: &[f64]) -> Option<[f64; 2]> {
    rounds_interval_95(figures).map(|Interval { low, high }| [low, high])
}

/// What time stamps say of a latency whose median is `latency`.
pub(super) fn split(
    waits: &Histogram,
    uncertainty: u64,
    latency: Option<f64>,
    kind: LatencyKind,
) -> LatencySplit {
    // A completion waits once in a round trip.
    let share = |q: f64| waits.quantile(q).value().map(|wait| kind.of(wait));
    let host_p50 = share(0.5);
    LatencySplit {
        samples: waits.len(),
        host_p50,
        host_p99: share(0.99),
        wire_p50: latency.zip(host_p50).map(|(latency, host)| (latency - host).max(0.0)),
        uncertainty: kind.of(uncertainty),
    }
}

/// Without the histogram itself; `medians` are those of the rounds, as `kind` shows them.
pub(super) fn latency(
    round_trips: &Histogram,
    kind: LatencyKind,
    medians: &[f64],
) -> Option<Latency> {
    let shown = |round_trip: u64| kind.of(round_trip);
    let mut absent = BTreeMap::new();
    let mut quantile = |name: &str, q: f64| match round_trips.quantile(q) {
        Quantile::Known(value) => Some(shown(value)),
        Quantile::TooFew { needs, has } => {
            absent.insert(name.to_owned(), Absent { needs_samples: needs, has_samples: has });
            None
        }
    };
    let (p50, p99, p999) = (quantile("p50", 0.5), quantile("p99", 0.99), quantile("p999", 0.999));
    Some(Latency {
        unit: "ns".to_owned(),
        kind,
        samples: round_trips.len(),
        min: shown(round_trips.min()?),
        p50,
        p99,
        p999,
        max: shown(round_trips.max()?),
        mean: round_trips.mean()? * kind.share(),
        stddev: round_trips.stddev().map(|deviation| deviation * kind.share()),
        p50_interval_95: round_trips
            .median_interval(Z_95)
            .map(|interval| [shown(interval.low), shown(interval.high)]),
        p50_rounds_interval_95: over_rounds(medians),
        split: None,
        histogram: None,
        absent,
    })
}

/// What two rounds moved together. A server may say anything of its side.
pub(super) fn sum(one: Counters, other: Counters) -> Counters {
    let add = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
    let mut rdma = one.rdma;
    for (name, moved) in other.rdma {
        let all: &mut u64 = rdma.entry(name).or_default();
        *all = all.saturating_add(moved);
    }
    let proof = match (one.proof, other.proof) {
        (Some(one), Some(other)) => Some(Proof {
            // Holds only if it held every time; a failure would have failed the cell.
            holds: one.holds.zip(other.holds).map(|(one, other)| one && other),
            payload_tx_bytes: one.payload_tx_bytes.saturating_add(other.payload_tx_bytes),
            payload_rx_bytes: one.payload_rx_bytes.saturating_add(other.payload_rx_bytes),
            text: format!("{LAST_ROUND}{}", other.text),
        }),
        _ => None,
    };
    Counters {
        interface_tx_bytes: add(one.interface_tx_bytes, other.interface_tx_bytes),
        interface_rx_bytes: add(one.interface_rx_bytes, other.interface_rx_bytes),
        rdma,
        proof,
    }
}

/// The sums have their own figures; the words are those of one round.
const LAST_ROUND: &str = "in the last round: ";
