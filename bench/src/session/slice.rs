//! What is measured in one go, and what came of it.

use std::collections::BTreeMap;

use super::SampledCall;
use crate::{
    engine::{Borne, Pauses, Task},
    plan::{Arrivals, Cell, Think},
    report::{Counters, CpuCost, Memory, Path, PayloadCheck, TcpRecord, Waits},
    stats::Histogram,
    transport::{Split, VerbsSettings},
};

/// What is measured next.
#[derive(Debug, Clone)]
pub struct Slice {
    /// The cell.
    pub cell: Cell,
    /// Messages in flight at the most.
    pub depth: u32,
    /// Calls a second of an open loop, and how they follow one another; `None`: a closed loop.
    pub offered: Option<(u64, Arrivals)>,
    /// Pauses of a closed loop; `None`: there are none.
    pub think: Option<Think>,
    /// Seed of the payload, of the times at which calls begin, and of pauses.
    pub seed: u64,
    /// Threads on each side, each with connections of its own.
    pub threads: u32,
    /// Connections of each thread, of TCP and gRPC.
    pub connections: u32,
    /// Calls of which one is marked; `None`: none is.
    pub phases: Option<u32>,
    /// Settings of verbs that were searched for, instead of those given.
    pub tuning: Option<VerbsTuning>,
    /// Processor the server is to use.
    pub server_cpu: Option<u32>,
    /// How long, and with what warm-up.
    pub task: Task,
}

/// Settings of a verbs push that can be searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerbsTuning {
    /// Messages in flight on each queue pair.
    pub depth: u32,
    /// Messages posted by one call.
    pub post_list: u32,
    /// Sends between two signalled ones.
    pub completion_moderation: u32,
    /// Largest message sent inline, in bytes; `None`: the usual.
    pub inline: Option<u32>,
}

impl VerbsTuning {
    pub(super) fn apply(tuning: Option<Self>, settings: &VerbsSettings) -> VerbsSettings {
        let settings = settings.clone();
        match tuning {
            None => settings,
            Some(Self { post_list, completion_moderation, inline, .. }) => {
                VerbsSettings { post_list, completion_moderation, inline, ..settings }
            }
        }
    }
}

/// The marked calls of a slice.
#[derive(Debug)]
pub struct SlicePhases {
    /// Calls of which one was marked.
    pub one_in: u32,
    /// The timed ones of them.
    pub calls: Vec<SampledCall>,
    /// Further ones whose marks contradict one another.
    pub contradictory: u64,
}

/// What one slice found.
#[derive(Debug)]
pub struct SliceRecord {
    /// Messages before the clock started.
    pub warm_up: u64,
    /// Messages that were timed and arrived.
    pub timed: u64,
    /// Messages of the timed ones that were lost.
    pub lost: u64,
    /// Messages that the far side pushed in the same time.
    pub returned: u64,
    /// Time they took, in nanoseconds.
    pub elapsed: u64,
    /// Round trips in nanoseconds, or times of calls; empty for a push.
    pub round_trips: Histogram,
    /// How the load of an open loop was borne.
    pub borne: Option<Borne>,
    /// The pauses of a closed loop that has any.
    pub pauses: Option<Pauses>,
    /// How long completions waited for the program, where that was asked for.
    pub split: Option<Split>,
    /// What the assignments of each operation took together, where tensors are assigned, in nanoseconds.
    pub assigned: Option<Histogram>,
    /// The marked calls, where that was asked for.
    pub phases: Option<SlicePhases>,
    /// The client's path.
    pub path: Path,
    /// The server's path.
    pub peer_path: Path,
    /// The client's counters.
    pub counters: Counters,
    /// The server's counters.
    pub peer_counters: Counters,
    /// What both kernels know of the connections, of what goes over TCP.
    pub tcp: Option<TcpRecord>,
    /// Processor time of both sides.
    pub cpu: CpuCost,
    /// How fast the processors of client and server ran, in MHz; `None` where nothing tells.
    pub mhz: [Option<u32>; 2],
    /// What both sides did while they waited.
    pub waits: Waits,
    /// Memory of both sides.
    pub memory: Memory,
    /// Payload checks of both sides.
    pub payload: PayloadCheck,
    /// What was in force.
    pub settings: BTreeMap<String, String>,
}
