//! A cell of the result document.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{PhasesRecord, TcpRecord, TensorRecord},
    Counters, CpuCost, Latency, Path, Throughput, Waits,
};
use crate::plan::{
    Arrivals, Buffers, Pattern, Roles, ThinkSpread, TransportName, Variant, display_size,
};

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
    /// The pauses of a closed loop between a reply and the next call; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub think: Option<ThinkRecord>,
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
        // A document may come from anywhere, and hold any number.
        let operations = settings.messages as f64 + settings.warm_up_messages as f64;
        let timed: f64 = self.rounds.iter().map(|round| round.messages as f64).sum();
        let elapsed: f64 = self.rounds.iter().map(|round| round.elapsed_ns as f64).sum();
        (operations > 0.0 && elapsed > 0.0)
            .then(|| counted as f64 / operations * timed * 1e9 / elapsed)
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

    /// Whether its load was borne in most rounds: what stood still once says nothing of the load. `true` where none
    /// was offered.
    #[must_use]
    pub fn is_borne(&self) -> bool {
        self.load.as_ref().is_none_or(|load| {
            // An earlier version did not count the rounds.
            let counted = load.rounds_not_sustained > 0;
            load.sustained || counted && 2 * load.rounds_not_sustained < self.rounds.len() as u64
        })
    }

    /// How its load was borne, in words, unless it was in every round.
    #[must_use]
    pub fn unborne(&self) -> Option<String> {
        let load = self.load.as_ref().filter(|load| !load.sustained)?;
        let rounds = self.rounds.len() as u64;
        Some(match self.is_borne() {
            true => {
                let borne = rounds.saturating_sub(load.rounds_not_sustained);
                format!("sustained in {borne} of {rounds} rounds")
            }
            false => "not sustained".to_owned(),
        })
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
    /// Whether the load was borne in every round; if not, times say how long it was offered and not how long a
    /// call takes.
    pub sustained: bool,
    /// Rounds in which it was not borne.
    #[serde(default)]
    pub rounds_not_sustained: u64,
}

/// The pauses of a closed loop, which are in no latency, and in the time that rates are by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThinkRecord {
    /// Always "ns".
    pub unit: String,
    /// The mean that was asked for.
    pub asked: f64,
    /// How pauses were to differ.
    pub spread: ThinkSpread,
    /// Pauses that were made, the first of each place in the depth included.
    pub pauses: u64,
    /// Their mean: from when a reply was seen until the next call was begun.
    pub mean: f64,
    /// The longest.
    pub longest: f64,
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
    /// What each side's threads did while they waited for messages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waits: Option<Waits>,
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
