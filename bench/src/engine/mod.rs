//! The measuring loops: one a pattern, each generic over the transport and the clock.

mod bandwidth;
mod calls;
mod latency;
mod open;
mod schedule;
mod think;

use std::time::Duration;

use thiserror::Error;

pub use bandwidth::{PushRecord, measure_bandwidth};
pub use calls::{CallsRecord, measure_calls};
pub use latency::{PingPongRecord, measure_latency};
pub use open::{Borne, LEAST_ANSWERED, Offered, OpenRecord, measure_open};
pub use schedule::Order;
pub use think::{Pauses, measure_calls_thinking, measure_latency_thinking};

use crate::{
    plan::Stop,
    transport::{Patience, TransportError},
};

/// What one slice of one cell has to do.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// When to end.
    pub stop: Stop,
    /// Timed messages at the least, also when the time is up.
    pub least_messages: u64,
    /// What is done before the clock starts.
    pub warm_up: WarmUp,
    /// An operation that is not done by then is given up.
    pub patience: Patience,
}

/// The rule for warming up: the count, or the time, whichever is reached first, and one message at
/// the least (the one whose payload is verified).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WarmUp {
    /// Messages at the most.
    pub messages: u64,
    /// Time at the most.
    pub time: Duration,
}

impl Default for WarmUp {
    fn default() -> Self {
        Self { messages: 100, time: Duration::from_millis(50) }
    }
}

/// Why a loop ended without a record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EngineError {
    /// The transport said so.
    #[error("{phase}: {source}")]
    Transport {
        /// Where in the loop.
        phase: Phase,
        /// What went wrong.
        source: TransportError,
    },
    /// Nothing came back.
    #[error(
        "{phase}: no completion within {patience:?}: the data path may be cut, or slower than --timeout allows"
    )]
    Stalled {
        /// Where in the loop.
        phase: Phase,
        /// How long was waited.
        patience: Duration,
    },
    /// The receiver confirmed another number of messages than was sent.
    #[error("{sent} messages were sent and {received} confirmed by the receiver")]
    Unconfirmed {
        /// Messages sent so far, warm-up included.
        sent: u64,
        /// Messages confirmed.
        received: u64,
    },
}

/// Where in a loop something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the clock starts.
    WarmUp,
    /// While it runs.
    Measuring,
    /// While the far side confirms.
    Confirming,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::WarmUp => "in warm-up",
            Self::Measuring => "while measuring",
            Self::Confirming => "while confirming",
        })
    }
}

impl Phase {
    fn failed(self, source: TransportError) -> EngineError {
        EngineError::Transport { phase: self, source }
    }
}

/// Whether a slice has enough: `messages` done, `elapsed` nanoseconds.
#[inline]
fn enough(task: &Task, messages: u64, elapsed: u64) -> bool {
    match task.stop {
        Stop::Messages(all) => messages >= all,
        Stop::After(time) => {
            messages >= task.least_messages && u128::from(elapsed) >= time.as_nanos()
        }
    }
}
