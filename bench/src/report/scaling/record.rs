//! What is recorded of figures over size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::LatencyKind;
use crate::plan::{Pattern, Roles, TransportName, Variant};

/// What follows from the figures of all sizes together. All of it can be computed anew from the cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRecord {
    /// Of each transport the time of a message over its size.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub fits: Vec<FitRecord>,
    /// Which transport is ahead, by ranges of size.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub leads: Vec<LeadRecord>,
    /// The sizes at which one transport passes another.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub crossovers: Vec<CrossoverRecord>,
    /// How much of what the link, or this host's memory, carries was reached.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub efficiencies: Vec<EfficiencyRecord>,
}

/// What figures are of: those that agree in it can be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// Who sends what.
    pub pattern: Pattern,
    /// What a latency is of; absent where figures are rates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub latency: Option<LatencyKind>,
    /// Size of a reply in bytes: of calls only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reply: Option<u64>,
    /// Parameter servers and workers, where there are any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub roles: Option<Roles>,
    /// The load, where it was varied: rate and arrivals of an open loop, pauses of a closed one.
    #[serde(skip_serializing_if = "Variant::is_empty", default)]
    pub load: Variant,
}

/// A transport, of a sweep in a variant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Contender {
    /// How the message travels.
    pub transport: TransportName,
    /// Settings of its own, where they were varied.
    #[serde(skip_serializing_if = "Variant::is_empty", default)]
    pub variant: Variant,
}

impl std::fmt::Display for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.transport, self.variant)
    }
}

/// t(n) = start-up + n times a byte's time, by least squares of relative residuals, in as many pieces as the
/// criterion finds. t is the median latency, or of patterns that are told as a rate the time by messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitRecord {
    /// What the times are of.
    #[serde(flatten)]
    pub question: Question,
    /// Whose they are.
    #[serde(flatten)]
    pub of: Contender,
    /// The pieces, by size.
    pub pieces: Vec<PieceRecord>,
    /// Root of the mean square of the relative residuals.
    pub residual_rms: f64,
    /// The largest relative residual, with its sign: fitted by measured, less 1.
    pub residual_largest: f64,
    /// The size at which that is.
    pub residual_largest_at: u64,
}

/// A range of sizes with one cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PieceRecord {
    /// The smallest size, in bytes.
    pub from: u64,
    /// The largest size.
    pub to: u64,
    /// How many were measured.
    pub sizes: u64,
    /// Where the line meets size 0, in nanoseconds. Of the piece of the smallest sizes it is the time of a message
    /// without bytes.
    pub start_up_ns: f64,
    /// Its 95 % interval, from a fit to each round: Student's t. Absent with fewer than three rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_up_interval_95: Option<[f64; 2]>,
    /// Time of one more byte, in nanoseconds.
    pub per_byte_ns: f64,
    /// Its interval, in the same way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_byte_interval_95: Option<[f64; 2]>,
    /// Bytes a second that messages approach as they grow, if all is as in this piece: the inverse of a byte's
    /// time. `null` where that is not shown to be above 0.
    pub bytes_per_s: Option<f64>,
    /// The size at which half of that is reached: start-up by a byte's time. `null` where one of the two is not
    /// shown to be above 0.
    pub half_rate_bytes: Option<f64>,
}

/// Neighbouring sizes at which one is ahead, or no difference is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeadRecord {
    /// At what.
    #[serde(flatten)]
    pub question: Question,
    /// Who is ahead; several: those of whom none is shown to be ahead of all others.
    pub ahead: Vec<Contender>,
    /// Where they are several, who is behind the fastest of them at every size.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub behind: Vec<Contender>,
    /// Why it cannot be told of some of them whether they are behind; absent where it can.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lacks: Option<Lacks>,
    /// The smallest size, in bytes.
    pub from: u64,
    /// The largest size.
    pub to: u64,
    /// Sizes at which two or more were measured.
    pub sizes: u64,
    /// Of these, those at which a difference from every other one is shown.
    pub shown: u64,
    /// By how much, at the smallest and the largest size at which it is shown.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub margins: Vec<MarginRecord>,
}

/// What a figure has too little of to be compared.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Lacks {
    /// Rounds have too few messages for a median.
    Messages,
    /// It has one round.
    Rounds,
}

/// How far ahead of the next one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MarginRecord {
    /// At which size.
    pub size: u64,
    /// Time of a message of who is ahead, in nanoseconds: the median latency, or of rates the inverse.
    pub time_ns: f64,
    /// Who is next.
    pub next: Contender,
    /// Its time.
    pub next_time_ns: f64,
    /// The time of the next one by that of who is ahead.
    pub ratio: f64,
    /// The ratio's 95 % interval.
    pub interval_95: [f64; 2],
}

/// A size at which one passes another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossoverRecord {
    /// At what.
    #[serde(flatten)]
    pub question: Question,
    /// Who is ahead at smaller sizes.
    pub below: Contender,
    /// Who is ahead at larger ones.
    pub above: Contender,
    /// The size, in bytes: between measured ones, on logarithms.
    pub size: f64,
    /// The sizes between which no difference is shown, at 95 %.
    pub interval_95: [f64; 2],
    /// The nearest measured sizes at which a difference is shown.
    pub between: [u64; 2],
}

/// What rates are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The rate of the link, as hardware states it; of both directions at once, twice that.
    Line,
    /// Copies in this host's memory by one thread, of blocks of at least the message's size.
    MemoryCopy,
}

/// Rates beside what bounds them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EfficiencyRecord {
    /// Rates of what.
    #[serde(flatten)]
    pub question: Question,
    /// Whose.
    #[serde(flatten)]
    pub of: Contender,
    /// What bounds them.
    pub bound: Bound,
    /// Each size.
    pub sizes: Vec<ShareRecord>,
}

/// A rate beside what bounds it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShareRecord {
    /// Size of a message, in bytes.
    pub size: u64,
    /// What was reached, in bytes a second.
    pub bytes_per_s: f64,
    /// What bounds it.
    pub bound_bytes_per_s: f64,
    /// The first by the second. Above 1 where several processors copy at once, or nothing is copied.
    pub share: f64,
}
