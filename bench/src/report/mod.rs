//! The result document and its faces.

mod chart;
mod column;
mod csv;
mod file;
mod knees;
mod long;
mod look;
mod notes;
pub(crate) mod number;
pub(crate) mod openmetrics;
mod perftest;
mod phases;
mod plain;
mod published;
mod scaling;
mod schema;
mod table;
mod tcp;
mod tensors;

pub use chart::latency_chart;
pub use csv::csv;
pub use file::{Content, OutputError, ResultFile};
pub use long::long;
pub use look::Look;
pub(crate) use look::WARNING;
pub(crate) use notes::{notes, reasons, ways};
pub use openmetrics::openmetrics;
pub use perftest::{PerftestColumns, perftest};
pub use phases::{PhaseRecord, PhaseTimes, PhasesRecord, ServerPhases, WireAndPeer};
pub use plain::{plain, plain_throughout};
pub use published::json_schema;
pub use scaling::{
    Bound, Contender, CrossoverRecord, EfficiencyRecord, FitRecord, Lacks, LeadRecord,
    MarginRecord, ModelRecord, PieceRecord, Question, ShareRecord, model,
};
pub(crate) use scaling::{COST_HEAD, COST_NOTE, cost_rows, words as model_words};
pub use schema::{
    Absent, AdviceRecord, CellRecord, CellSettings, CopyRate, Counters, CpuCost, CpuShare,
    CpuShares, CpuUse, Document, DriftRecord, Environment, EstimateRecord, Frequency,
    HistogramRecord, KneeRecord, Latency, LatencyKind, LatencySplit, LoadRecord, Loss, Memory,
    MemoryCopy, Path, PathKind, PayloadCheck, Per, PlanRecord, Proof, RoundRecord, SCHEMA, Side,
    Status, Stopped, StoppedBy, ThinkRecord, Throughput, Wait, Waits,
};
pub use table::{markdown, table};
pub use tcp::{Spread, TcpRecord, TcpSide};
pub use tensors::{Assign, ParameterServer, TensorRecord};
