//! The result document, version 1: what is in it is a contract with every program that reads it.
//!
//! A figure that could not be measured is `null` or absent, and a reason stands beside it; it is
//! never 0, NaN, infinite or a default.

mod cell;
mod cost;
mod knee;
mod path;
mod times;

use fabricbench_ipoib::Advice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    cell::{
        CellRecord, CellSettings, LoadRecord, Loss, Memory, PayloadCheck, RoundRecord, Status,
        Stopped, StoppedBy, ThinkRecord,
    },
    cost::{CpuCost, CpuShare, CpuShares, CpuUse, Frequency, Per, Wait, Waits},
    knee::KneeRecord,
    path::{Counters, Path, PathKind, Proof},
    times::{Absent, HistogramRecord, Latency, LatencyKind, LatencySplit, Throughput},
};
use super::ModelRecord;
use crate::plan::{Pattern, Sweep, TransportName};

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
    /// What follows from the figures of all sizes together; absent until the run ended, and where nothing does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<ModelRecord>,
    /// What was found where rates were searched for (`--rate search`).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub knees: Vec<KneeRecord>,
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
    /// How fast the processors ran that measured; absent where nothing tells.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub frequency_mhz: Option<Frequency>,
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
    /// How fast its memory is copied; only of a client whose server is on the same host.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_copy: Option<MemoryCopy>,
}

/// Copies in a host's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCopy {
    /// How they were made, in words.
    pub method: String,
    /// By the size of what was copied, ascending: small blocks stay in caches.
    pub blocks: Vec<CopyRate>,
}

impl MemoryCopy {
    /// The rate of the smallest block that is not smaller than a message of `size` bytes, else of the largest, in
    /// bytes a second.
    #[must_use]
    pub fn rate_of(&self, size: u64) -> Option<u64> {
        let block = self.blocks.iter().find(|block| block.block_bytes >= size);
        block.or(self.blocks.last()).map(|block| block.bytes_per_s)
    }
}

/// Copies of blocks of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyRate {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes copied a second.
    pub bytes_per_s: u64,
}
