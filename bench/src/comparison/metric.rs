//! The figures of a cell that can be compared, by the names that a gate has for them.

use std::fmt;

use serde::Serialize;

use crate::{
    plan::Pattern,
    report::{CellRecord, Latency, Side},
};

/// A figure of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Metric {
    /// The median of times.
    #[serde(rename = "latency.p50")]
    P50,
    /// Their 99th percentile.
    #[serde(rename = "latency.p99")]
    P99,
    /// Their 99.9th percentile.
    #[serde(rename = "latency.p999")]
    P999,
    /// Their arithmetic mean.
    #[serde(rename = "latency.mean")]
    Mean,
    /// The smallest.
    #[serde(rename = "latency.min")]
    Min,
    /// The largest.
    #[serde(rename = "latency.max")]
    Max,
    /// Bytes a second.
    #[serde(rename = "bandwidth")]
    Bandwidth,
    /// Messages a second.
    #[serde(rename = "rate")]
    Rate,
    /// Processor time of both sides for a message.
    #[serde(rename = "cpu")]
    Cpu,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::P50,
        Self::P99,
        Self::P999,
        Self::Mean,
        Self::Min,
        Self::Max,
        Self::Bandwidth,
        Self::Rate,
        Self::Cpu,
    ];

    /// Its name in a gate, in tables and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "latency.p50",
            Self::P99 => "latency.p99",
            Self::P999 => "latency.p999",
            Self::Mean => "latency.mean",
            Self::Min => "latency.min",
            Self::Max => "latency.max",
            Self::Bandwidth => "bandwidth",
            Self::Rate => "rate",
            Self::Cpu => "cpu",
        }
    }

    /// The metric of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Whether less of it is better.
    #[must_use]
    pub fn is_cost(self) -> bool {
        !matches!(self, Self::Bandwidth | Self::Rate)
    }

    /// The quantile that it is.
    #[must_use]
    pub(super) fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            _ => None,
        }
    }

    /// The unit in which people read it.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Bandwidth => "MB/s",
            Self::Rate => "1000/s",
            Self::Cpu => "us/message",
            _ => "us",
        }
    }

    /// How many of its own unit (nanoseconds, bytes a second, messages a second) one of [`unit`](Self::unit) is.
    #[must_use]
    pub fn scale(self) -> f64 {
        if self == Self::Bandwidth { 1e6 } else { 1e3 }
    }

    /// The figure of `cell`, in nanoseconds, bytes a second or messages a second; `None` where it has
    /// none, or one that is not above zero, of which there is no ratio.
    #[must_use]
    pub fn of(self, cell: &CellRecord) -> Option<f64> {
        let latency = |figure: fn(&Latency) -> Option<f64>| cell.latency.as_ref().and_then(figure);
        let figure = match self {
            Self::P50 => latency(|latency| latency.p50),
            Self::P99 => latency(|latency| latency.p99),
            Self::P999 => latency(|latency| latency.p999),
            Self::Mean => latency(|latency| Some(latency.mean)),
            Self::Min => latency(|latency| Some(latency.min)),
            Self::Max => latency(|latency| Some(latency.max)),
            Self::Bandwidth => cell.throughput.as_ref().map(|rates| rates.bytes_per_s),
            Self::Rate => cell.throughput.as_ref().map(|rates| rates.messages_per_s),
            Self::Cpu => [Side::Client, Side::Server]
                .into_iter()
                .map(|side| Some(cell.cost(side)?.0 as f64))
                .sum::<Option<f64>>()
                .zip(cell.settings.as_ref())
                .map(|(all, settings)| {
                    all / (settings.messages as f64 + settings.warm_up_messages as f64)
                }),
        };
        figure.filter(|figure| figure.is_finite() && *figure > 0.0)
    }

    /// What is shown of a pattern unless other figures are asked for.
    #[must_use]
    pub fn shown(pattern: Pattern) -> &'static [Self] {
        match pattern {
            Pattern::Latency => &[Self::P50, Self::P99],
            Pattern::Calls | Pattern::Ps => &[Self::P50, Self::P99, Self::Rate],
            Pattern::TensorPush | Pattern::TensorFetch => &[Self::P50, Self::Bandwidth],
            Pattern::Bandwidth | Pattern::Bidirectional | Pattern::Fetch => &[Self::Bandwidth],
            Pattern::Rate => &[Self::Rate],
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
