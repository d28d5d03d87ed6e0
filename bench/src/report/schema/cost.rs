//! What figures cost: processor time, context switches, and how sides wait.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CellRecord, Side};

/// Processor time of both processes while the cell was measured, in nanoseconds: warm-up included,
/// so of `settings.warm_up_messages + settings.messages` messages. The server's runs from the start
/// of the slice until it is told to stop, and so holds some set-up and waiting.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// What the client's time was spent on; absent where the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client: Option<CpuUse>,
    /// The same of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<CpuUse>,
    /// Shared out among the messages that `throughput.messages_per_s` counts: of a latency round trips, of
    /// tensors steps. Absent, as is that of bytes, where the client pauses, which it does by polling.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_message: Option<CpuShares>,
    /// Shared out among the bytes that `throughput.bytes_per_s` counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_byte: Option<CpuShares>,
}

/// What the processor time of one process was spent on, by `getrusage(2)`: all threads, those that have
/// ended as well. User and system time add up to all of it (but for some microseconds); how it is divided
/// is known from the scheduler's ticks (at 100 to 1,000 a second) unless the kernel accounts for each entry
/// (`CONFIG_VIRT_CPU_ACCOUNTING_GEN` in force).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// In the program, in nanoseconds.
    pub user_ns: u64,
    /// In the kernel on its behalf, in nanoseconds; work of interrupts is on no process's account.
    pub system_ns: u64,
    /// Times that a thread gave its processor up, to wait: context switches.
    pub voluntary_switches: u64,
    /// Times that a thread was taken off its processor.
    pub involuntary_switches: u64,
}

impl CpuCost {
    /// Nanoseconds of one side, and what they were spent on.
    #[must_use]
    pub fn of(&self, side: Side) -> (u64, Option<CpuUse>) {
        match side {
            Side::Client => (self.client_ns, self.client),
            Side::Server => (self.server_ns, self.server),
        }
    }
}

impl CpuUse {
    /// This and `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_add(other.user_ns),
            system_ns: self.system_ns.saturating_add(other.system_ns),
            voluntary_switches: self.voluntary_switches.saturating_add(other.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_add(other.involuntary_switches),
        }
    }

    /// The share of system time, from 0 to 1; `None` where there is less time than ticks can divide, 250 ms
    /// (25 ticks of 10 ms, of which a share of a half is known to a fifth).
    #[must_use]
    pub fn system_share(self) -> Option<f64> {
        let all = self.user_ns.saturating_add(self.system_ns);
        (all >= 250_000_000).then(|| self.system_ns as f64 / all as f64)
    }
}

/// The processor time of both sides for each message, or byte.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CpuShares {
    /// Of the client.
    pub client: CpuShare,
    /// Of the server.
    pub server: CpuShare,
}

/// The processor time of one side for each message, or byte.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CpuShare {
    /// All of it, in nanoseconds.
    pub cpu_ns: f64,
    /// Of that, in the program; absent where the kernel does not tell, as is the rest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user_ns: Option<f64>,
    /// In the kernel.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system_ns: Option<f64>,
    /// Context switches to wait.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub voluntary_switches: Option<f64>,
    /// Context switches to make room for others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub involuntary_switches: Option<f64>,
}

/// What costs are shared out among.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// Messages, operations, round trips, calls or steps.
    Message,
    /// Bytes of payload.
    Byte,
}

impl CellRecord {
    /// What was counted over the whole cell, for each message or byte: warm-up is taken to cost what the rest
    /// does. `None` without a rate.
    #[must_use]
    pub fn shared_out(&self, counted: u64, per: Per) -> Option<f64> {
        let throughput = self.throughput.as_ref()?;
        let rate = match per {
            Per::Message => throughput.messages_per_s,
            Per::Byte => throughput.bytes_per_s,
        };
        let share = self.a_second(counted)? / rate;
        share.is_finite().then_some(share)
    }

    /// Nanoseconds of processor time of one side and what they were spent on, where they are those of its messages:
    /// of a client that polls in its pauses they are not.
    #[must_use]
    pub fn cost(&self, side: Side) -> Option<(u64, Option<CpuUse>)> {
        let is_of_messages = side == Side::Server || self.think.is_none();
        Some(self.cpu.as_ref().filter(|_| is_of_messages)?.of(side))
    }

    /// The processor time of both sides for each message or byte.
    pub(crate) fn cpu_shares(&self, per: Per) -> Option<CpuShares> {
        let share = |side| {
            let (all, usage) = self.cost(side)?;
            let of = |counted: fn(CpuUse) -> u64| self.shared_out(counted(usage?), per);
            Some(CpuShare {
                cpu_ns: self.shared_out(all, per)?,
                user_ns: of(|usage| usage.user_ns),
                system_ns: of(|usage| usage.system_ns),
                voluntary_switches: of(|usage| usage.voluntary_switches),
                involuntary_switches: of(|usage| usage.involuntary_switches),
            })
        };
        Some(CpuShares { client: share(Side::Client)?, server: share(Side::Server)? })
    }
}

/// What the threads of both sides did while they waited for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Waits {
    /// Those of the client.
    pub client: Wait,
    /// Those of the server.
    pub server: Wait,
}

/// What a thread does while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// It looks again and again and keeps its processor, so that its processor time is that of waiting as
    /// well.
    Polls,
    /// It polls for a while and then sleeps.
    PollsThenSleeps,
    /// It sleeps in the kernel until something is there, and gives its processor up.
    Sleeps,
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Polls => "polls",
            Self::PollsThenSleeps => "polls, then sleeps",
            Self::Sleeps => "sleeps",
        })
    }
}

/// The frequency of a host's processors in MHz, read behind each slice: of the one that the measuring thread is bound to,
/// else the highest of those that the process ran on. In a virtual machine it is what the hypervisor states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frequency {
    /// Behind the first slice.
    pub first: u32,
    /// Behind the last one.
    pub last: u32,
    /// The lowest of all.
    pub lowest: u32,
    /// The highest of all.
    pub highest: u32,
}

impl Frequency {
    /// With what was read behind one more slice.
    pub fn add(so_far: &mut Option<Self>, mhz: Option<u32>) {
        let Some(mhz) = mhz else { return };
        let all = so_far.get_or_insert(Self { first: mhz, last: mhz, lowest: mhz, highest: mhz });
        all.last = mhz;
        (all.lowest, all.highest) = (all.lowest.min(mhz), all.highest.max(mhz));
    }

    /// Whether the run ended at another speed than it began with: more than 10 % from it.
    #[must_use]
    pub fn moved(self) -> bool {
        self.first.abs_diff(self.last) > self.first / 10
    }
}
