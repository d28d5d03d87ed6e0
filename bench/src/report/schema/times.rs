//! Times and rates of a cell.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Histogram, Interval, Packed, relative_half_width};

/// What a latency is a latency of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyKind {
    /// Half of the time from submission to the arrival of the echo.
    HalfRoundTrip,
    /// All of it: of operations whose way back is not their way there, and of calls.
    RoundTrip,
}

impl std::fmt::Display for LatencyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::HalfRoundTrip => "half round trip",
            Self::RoundTrip => "round trip",
        })
    }
}

impl LatencyKind {
    /// Which share of a round trip it is.
    #[must_use]
    pub fn share(self) -> f64 {
        match self {
            Self::HalfRoundTrip => 0.5,
            Self::RoundTrip => 1.0,
        }
    }

    /// The latency of a round trip, in its unit.
    #[must_use]
    pub fn of(self, round_trip: u64) -> f64 {
        round_trip as f64 * self.share()
    }
}

/// Times of one cell over all its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Always "ns".
    pub unit: String,
    /// What it is a latency of.
    pub kind: LatencyKind,
    /// How many stand behind the figures.
    pub samples: u64,
    /// True minimum.
    pub min: f64,
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// True maximum.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n - 1); `null` with fewer than two samples.
    #[serde(default)]
    pub stddev: Option<f64>,
    /// 95 % confidence interval of the median from order statistics.
    pub p50_interval_95: Option<[f64; 2]>,
    /// 95 % confidence interval of the rounds' medians, by Student's t on their logarithms; absent unless
    /// three rounds have one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p50_rounds_interval_95: Option<[f64; 2]>,
    /// What the device's time stamps say of it; absent without them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub split: Option<LatencySplit>,
    /// All samples, as whole round trips.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub histogram: Option<HistogramRecord>,
    /// Why a percentile is `null`, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub absent: BTreeMap<String, Absent>,
}

impl Latency {
    /// Half of the width of the median's wider 95 % interval, relative to the median. Within a run, samples are
    /// many and their interval is narrow; the one over rounds says how far the next run may be off.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        let p50 = self.p50?;
        let samples = half_width(self.p50_interval_95?, p50)?;
        Some(samples.max(half_width(self.p50_rounds_interval_95?, p50)?))
    }
}

impl Throughput {
    /// Half of the width of the 95 % interval over rounds, relative to the rate.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        half_width(self.interval_95?, self.bytes_per_s)
    }
}

/// A whole distribution, to 0.1 % of each value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramRecord {
    /// Always "hdrhistogram-v2-deflate-base64": what HdrHistogram's implementations read once it is out of base64.
    pub format: String,
    /// Always "round-trip": whole ones, also where the figures beside it are of half of each.
    pub of: String,
    /// Always "ns".
    pub unit: String,
    /// The histogram.
    pub data: String,
}

impl HistogramRecord {
    /// The record of `histogram`.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        Self::with(histogram.encoded())
    }

    /// The record of samples, which are packed then.
    #[must_use]
    pub fn packed(samples: &mut Packed) -> Self {
        Self::with(samples.encoded())
    }

    fn with(data: String) -> Self {
        Self {
            format: "hdrhistogram-v2-deflate-base64".to_owned(),
            of: "round-trip".to_owned(),
            unit: "ns".to_owned(),
            data,
        }
    }
}

/// A latency in two: what was already complete on the device and waited for this program, and the
/// rest. In nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySplit {
    /// Completions that stand behind it: a sample of all, warm-up included.
    pub samples: u64,
    /// The share of the median latency that is the median time from the device's completion until
    /// the program had it: half of that time in half of a round trip; `null` if `samples` are too
    /// few.
    pub host_p50: Option<f64>,
    /// The same of the 99th percentile of that time.
    pub host_p99: Option<f64>,
    /// The median latency less `host_p50`: posting, both devices, the wire and the far side.
    pub wire_p50: Option<f64>,
    /// How far off each time may be: the clocks of device and host were compared no better.
    pub uncertainty: f64,
}

/// Why a percentile is absent: fewer than 10 / (1 - q) samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Absent {
    /// Samples it needs.
    pub needs_samples: u64,
    /// Samples there are.
    pub has_samples: u64,
}

/// Rates of one cell over all its rounds: totals by total time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Payload bytes that arrived, per second, of all workers: each way in a ping-pong, the sum of both in the
    /// pattern `bidirectional`, of the requests alone in the patterns `calls` and `ps`, of the tensors alone in those of tensors.
    pub bytes_per_s: f64,
    /// Messages of these, per second; of tensors steps, each with all of a model.
    pub messages_per_s: f64,
    /// 95 % confidence interval of the rounds' `bytes_per_s`, by Student's t on their logarithms; absent with
    /// fewer than three rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval_95: Option<[f64; 2]>,
}

fn half_width([low, high]: [f64; 2], figure: f64) -> Option<f64> {
    relative_half_width(Interval { low, high }, figure)
}
