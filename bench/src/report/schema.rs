//! The result document, version 1: what is in it is a contract with every program that reads it.
//!
//! A figure that could not be measured is `null` or absent, and a reason stands beside it; it is
//! never 0, NaN, infinite or a default.

use std::collections::BTreeMap;

use fabricbench_ipoib::Advice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PhasesRecord, TcpRecord, TensorRecord};
use crate::{
    plan::{Arrivals, Buffers, Pattern, Roles, Sweep, TransportName, Variant, display_size},
    stats::{Histogram, Interval, Packed, relative_half_width},
};

/// The value of [`Document::schema`].
pub const SCHEMA: &str = "fabricbench/1";

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of fabricbench that wrote it.
    pub fabricbench: String,
    /// Whether the plan was carried out to its end. `false` while the run goes on, and for ever if
    /// it was cut off.
    pub complete: bool,
    /// When the run began, seconds since 1970-01-01T00:00:00Z.
    pub started_unix_s: u64,
    /// Seconds from the first slice's beginning until now; absent before that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub measured_s: Option<f64>,
    /// The command line.
    pub command: Vec<String>,
    /// What was to be measured, and how.
    pub plan: PlanRecord,
    /// The host that timed.
    pub client: Environment,
    /// The far side; `null` until it was reached.
    pub server: Option<Environment>,
    /// What a reader must know before believing a figure.
    pub warnings: Vec<String>,
    /// Whether the machine drifted during the run; absent with fewer than six cells of three rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drift: Option<DriftRecord>,
    /// What could be set better on the interfaces that carried figures.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub advice: Vec<AdviceRecord>,
    /// The figures.
    pub cells: Vec<CellRecord>,
}

/// How the last third of the rounds of all cells compares with the first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftRecord {
    /// Cells with three rounds or more.
    pub cells: u64,
    /// Time of a message in the last rounds by that in the first: of each cell the ratio of geometric means, of
    /// cells the median.
    pub ratio: f64,
    /// Its 95 % confidence interval from order statistics.
    pub interval_95: [f64; 2],
    /// Whether the interval leaves 1 out, and the ratio is 1 % from it at the least.
    pub significant: bool,
}

/// What could be set better on one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdviceRecord {
    /// Whose interface it is.
    pub side: Side,
    /// The interface, what was found on it, why it matters and what mends it.
    #[serde(flatten)]
    pub advice: Advice,
}

impl std::fmt::Display for AdviceRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "advice: on the {}, {}", self.side, self.advice)
    }
}

/// One of the two hosts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The one that times.
    Client,
    /// The far one.
    Server,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// How the plan was made: enough to run it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRecord {
    /// Transports in the order of the columns.
    pub transports: Vec<TransportName>,
    /// Patterns.
    pub patterns: Vec<Pattern>,
    /// Message sizes in bytes.
    pub sizes: Vec<u64>,
    /// Settings that were varied, each with its values.
    #[serde(skip_serializing_if = "Sweep::is_empty", default)]
    pub sweep: Sweep,
    /// The stop rule, in words.
    pub stop: String,
    /// The warm-up rule, in words.
    pub warm_up: String,
    /// Interleaved rounds.
    pub rounds: u32,
    /// Seed of the order within a round and of the payload.
    pub seed: u64,
    /// How narrowly figures were to be known: half of the 95 % interval, relative to the figure. Absent where
    /// that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub precision: Option<f64>,
    /// Time for the whole run, in seconds; absent where there was no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget_s: Option<f64>,
    /// How long it was to take, before it began; absent where the number of messages decides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estimate: Option<EstimateRecord>,
    /// "closed": an operation starts when another is done; "open" where calls begin on a schedule
    /// ([`CellRecord::load`]).
    pub loop_kind: String,
}

/// How long a run was to take, as far as it was known before it began: `cells` times `rounds` times `slice_s`
/// and `overhead_s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateRecord {
    /// Cells that can be measured.
    pub cells: u64,
    /// Slices of each; with a precision, at the most.
    pub rounds: u32,
    /// Seconds that a slice measures, in the mean.
    pub slice_s: f64,
    /// Seconds of connecting, warm-up and ending of a slice that were assumed.
    pub overhead_s: f64,
    /// Seconds of all.
    pub total_s: f64,
}

/// A host, as far as it explains figures. What could not be found out is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Host name.
    pub hostname: String,
    /// fabricbench on that host.
    pub fabricbench: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Processor model.
    pub cpu: Option<String>,
    /// Logical processors this process may use.
    pub cpus: Option<u32>,
    /// Frequency governor of processor 0.
    pub governor: Option<String>,
    /// Hypervisor or emulator seen, for example `qemu-tcg`.
    pub virtualization: Option<String>,
    /// TCP congestion control in force.
    pub congestion_control: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Memory allocator of the program, on which large gRPC messages depend.
    pub allocator: Option<String>,
    /// How the program was built: `release`, or `debug`, which is many times slower.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub build: Option<String>,
}

/// What became of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It has figures.
    Measured,
    /// It cannot be measured on these hosts.
    Unsupported,
    /// It was tried and went wrong.
    Failed,
    /// It was not tried.
    Skipped,
}

/// One cell: a transport, a pattern, a size, perhaps a variant, and what was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellRecord {
    /// How the message travels.
    pub transport: TransportName,
    /// Who sends what.
    pub pattern: Pattern,
    /// Message size in bytes; of calls that of a request, of tensors that of all of them.
    pub size: u64,
    /// Size of a reply in bytes: of calls only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reply: Option<u64>,
    /// Parameter servers and workers: of the patterns `ps`, `tensor-push` and `tensor-fetch` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub roles: Option<Roles>,
    /// The buffers that a message, or a request, is made of; absent where it is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub buffers: Option<Buffers>,
    /// What a step moves, and how fast that was: of the patterns `tensor-push` and `tensor-fetch` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tensors: Option<TensorRecord>,
    /// Settings that this cell has of its own, where they were varied; absent where it has none.
    #[serde(skip_serializing_if = "Variant::is_empty", default)]
    pub variant: Variant,
    /// What became of it.
    pub status: Status,
    /// Why there are no figures; `null` when there are.
    pub reason: Option<String>,
    /// Which way it went on the client's side.
    pub path: Option<Path>,
    /// Which way it came in on the server's side.
    pub peer_path: Option<Path>,
    /// Times of a ping-pong, of calls, or of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Where the time of marked calls went, where calls were marked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub phases: Option<PhasesRecord>,
    /// The load of an open loop; absent of a closed one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load: Option<LoadRecord>,
    /// Rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// What the client's counters saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// What the server's counters saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_counters: Option<Counters>,
    /// What the kernel's TCP knows of the connections, for what goes over TCP.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp: Option<TcpRecord>,
    /// Processor time of both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuCost>,
    /// Memory of both sides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory: Option<Memory>,
    /// How much of what arrived was compared with what was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadCheck>,
    /// Where messages may be lost without an error: how many were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss: Option<Loss>,
    /// What was in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<CellSettings>,
    /// What the link carries, in bytes a second: of the slower end, as hardware states it. Absent where none does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line_bytes_per_s: Option<f64>,
    /// Checks that its figures fail: what cannot be so, in words. Absent where they pass all.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub failed_checks: Vec<String>,
    /// Why it was measured no longer, where a precision was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<Stopped>,
    /// Each round by itself, so that drift shows.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rounds: Vec<RoundRecord>,
}

impl CellRecord {
    /// Transport and variant: what tells it from the other cells of its pattern and size.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}{}", self.transport, self.variant)
    }

    /// What was counted over the whole cell, warm-up included, for each second of its timed part: operations
    /// before the clock started are taken to cost what the others did. `None` if nothing was timed.
    #[must_use]
    pub fn a_second(&self, counted: u64) -> Option<f64> {
        let settings = self.settings.as_ref()?;
        let operations = (settings.messages + settings.warm_up_messages) as f64;
        let timed: u64 = self.rounds.iter().map(|round| round.messages).sum();
        let elapsed: u64 = self.rounds.iter().map(|round| round.elapsed_ns).sum();
        (operations > 0.0 && elapsed > 0)
            .then(|| counted as f64 / operations * timed as f64 * 1e9 / elapsed as f64)
    }

    /// How narrowly its figure is known: half of the width of the median's wider interval, or without a latency
    /// of the rate's, relative to it. `None` while one of the intervals is not known.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        match &self.latency {
            Some(latency) => latency.half_width(),
            None => self.throughput.as_ref()?.half_width(),
        }
    }

    /// Its size as people write it, and of several buffers which.
    #[must_use]
    pub fn size_label(&self) -> String {
        let model = self.tensors.as_ref().map(|tensors| tensors.model.as_str());
        display_size(self.size, self.buffers.as_ref(), model)
    }
}

/// What was asked of a cell whose calls begin on a schedule, and how that went. Its times are from when
/// a call was to begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRecord {
    /// How calls follow one another.
    pub arrivals: Arrivals,
    /// Calls a second that were to begin, on all threads and connections together.
    pub offered_per_s: f64,
    /// Calls a second that were answered; `null` if the clock did not advance.
    pub achieved_per_s: Option<f64>,
    /// Calls that may be under way at once, on all threads and connections together.
    pub bound: u64,
    /// The most that were.
    pub most_in_flight: u64,
    /// Calls that began late, since as many as may be were under way.
    pub held_back: u64,
    /// Calls that were due and never begun, since twice the time of the schedule was over.
    pub given_up: u64,
    /// Whether the load was borne; if not, times say how long it was offered and not how long a call
    /// takes.
    pub sustained: bool,
}

/// Kinds of path, told apart by detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// RDMA over an InfiniBand link.
    Infiniband,
    /// RDMA over an Ethernet link by an adapter.
    Roce,
    /// RDMA over an Ethernet link by the kernel (rdma_rxe).
    SoftRoce,
    /// RDMA over TCP.
    Iwarp,
    /// IP over InfiniBand: an interface of ARPHRD 32.
    Ipoib,
    /// IP over Ethernet.
    Ethernet,
    /// IP over another kind of interface, such as a tunnel.
    Other,
    /// Within the host.
    Loopback,
}

/// A path as one side sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// What it is.
    pub kind: PathKind,
    /// RDMA device, for verbs.
    pub device: Option<String>,
    /// Port of that device.
    pub port: Option<u8>,
    /// Network interface.
    pub interface: Option<String>,
    /// Whether it passes for hardware that it is not: soft-RoCE, a TUN device of InfiniBand's type.
    /// Interfaces that are made by software and hide nothing (veth) are told by `backing`.
    pub emulated: bool,
    /// What stands behind a network interface: its driver, or the kind of software.
    pub backing: Option<String>,
    /// Local address, or GID.
    pub address: Option<String>,
    /// Path MTU for verbs, interface MTU else, in bytes.
    pub mtu: Option<u32>,
    /// How and why this path was chosen, in words.
    pub chosen: Option<String>,
}

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

fn half_width([low, high]: [f64; 2], figure: f64) -> Option<f64> {
    relative_half_width(Interval { low, high }, figure)
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

/// How far counters moved while the cell was measured, warm-up included.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Bytes the interface sent, headers and other traffic included.
    pub interface_tx_bytes: Option<u64>,
    /// Bytes the interface received.
    pub interface_rx_bytes: Option<u64>,
    /// RDMA counters that moved, by the kernel's names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub rdma: BTreeMap<String, u64>,
    /// What follows from them.
    pub proof: Option<Proof>,
}

/// Whether the payload went where the row says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// Whether counters moved by at least the payload; `null` where the device has no counter that
    /// could tell.
    pub holds: Option<bool>,
    /// Payload bytes sent through the path.
    pub payload_tx_bytes: u64,
    /// Payload bytes received through the path.
    pub payload_rx_bytes: u64,
    /// The finding in words.
    pub text: String,
}

/// Processor time of both processes while the cell was measured, in nanoseconds: warm-up included,
/// so of `settings.warm_up_messages + settings.messages` messages. The server's runs from the start
/// of the slice until it is told to stop, and so holds some set-up and waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CpuCost {
    /// Of the client.
    pub client_ns: u64,
    /// Of the server.
    pub server_ns: u64,
    /// In which threads of the client were ready to run and had no processor; absent where the kernel
    /// does not tell. Of several measuring threads, which have ended when it is read, not theirs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_waiting_ns: Option<u64>,
    /// The same of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_waiting_ns: Option<u64>,
}

/// The most memory that each process had resident at once while the cell was measured, in bytes; what it
/// held before counts. Absent where the kernel does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Of the client.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_peak_bytes: Option<u64>,
    /// Of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_peak_bytes: Option<u64>,
}

/// Messages whose content was compared with what was sent. Of a message that is written, the bytes
/// before the stamp; of a push by write, the first 64 bytes at each confirmation and the rest at the
/// end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PayloadCheck {
    /// Compared, on both sides together.
    pub verified_messages: u64,
    /// Of these, different.
    pub corrupt_messages: u64,
}

/// Messages of a service that does not send again what was lost, warm-up excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Messages sent. In a ping-pong, one that was sent again counts again.
    pub sent: u64,
    /// Of these, those that did not arrive, or whose answer did not.
    pub lost: u64,
}

/// What was in force for a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellSettings {
    /// Messages in flight at the most, or calls; `null` for a push over a stream (TCP, gRPC), where flow
    /// control and buffers decide how many bytes are under way.
    pub depth: Option<u32>,
    /// Messages before the clock started, all rounds together.
    pub warm_up_messages: u64,
    /// Messages that were timed, all rounds together.
    pub messages: u64,
    /// Settings of the transport by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub transport: BTreeMap<String, String>,
}

/// Why a cell was measured no longer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stopped {
    /// The rule that ended it.
    pub by: StoppedBy,
    /// How narrowly its figure was known then: [`CellRecord::half_width`]; `null` where one of the intervals
    /// was not known.
    pub half_width: Option<f64>,
}

/// The rules that end a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// Its figure was known narrowly enough.
    Precision,
    /// Its time was spent.
    Time,
    /// It had its messages.
    Messages,
    /// The time of the whole run was spent.
    Budget,
}

/// One round of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundRecord {
    /// Which, from 0.
    pub round: u32,
    /// Messages timed.
    pub messages: u64,
    /// Time they took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Median of this round in the kind and unit of [`Latency`], with 20 samples or more.
    pub p50: Option<f64>,
}
