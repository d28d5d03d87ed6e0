//! How a message travels: submission and completion, one implementation for each kind of transport.
//!
//! The shape is that of verbs, io_uring and UCX: it fits a polled queue pair without cost, and a
//! gRPC call or a socket without contortion. The measuring loops in [`crate::engine`] are generic
//! over [`Initiator`], so for verbs they compile to post and poll, with no dynamic call, allocation
//! or lock between.
//!
//! What "done" means: for a ping-pong, the echo has arrived; for a push, a completion says that the
//! message has left the initiator's hands and its place in the depth is free again, and
//! [`Initiator::confirm`] returns only when the receiver has every byte.

mod buffer;
mod endpoint;
pub mod fake;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub mod grpc;
mod key;
mod marks;
mod requests;
mod stop;
pub mod tcp;
mod tensors;
pub mod verbs;
mod wait;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::stats::Histogram;

pub use endpoint::{
    Answer, CompletionMode, MOST_CONNECTIONS, MOST_QUEUE_PAIRS, Offer, Pieces, QueuePairEnd,
    RegionEnd, TcpEndpoint, VerbsEndpoint, VerbsSettings,
};
pub use key::SliceKey;
pub use marks::{MarkedConnection, Marking, ServerMarks};
pub use stop::{StopReason, StopSignal};
pub use tensors::{Steps, TensorSide, admit_tensors, tensor_memory};
pub use wait::{Patience, Turn, Waiting};

/// Why a transport could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TransportError {
    /// It cannot be done here; another host or another plan might.
    #[error("{0}")]
    Unsupported(String),
    /// It was tried and went wrong.
    #[error("{0}")]
    Failed(String),
    /// Somebody asked for the end: the user, or the loss of the peer.
    #[error("stopped: {0}")]
    Stopped(StopReason),
}

/// One operation to start. Its direction, size and buffers were settled when the pair was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Comes back in [`Completed`] when the operation is done.
    pub token: u64,
}

/// The tokens of operations that are done, in fixed memory.
#[derive(Debug)]
pub struct Completed {
    tokens: [u64; Self::CAPACITY],
    len: usize,
}

impl Completed {
    /// The most tokens one call to [`Initiator::complete`] returns.
    pub const CAPACITY: usize = 256;

    /// No token.
    #[must_use]
    pub fn new() -> Self {
        Self { tokens: [0; Self::CAPACITY], len: 0 }
    }

    /// The tokens, in the order in which their operations ended.
    #[must_use]
    pub fn tokens(&self) -> &[u64] {
        self.tokens.get(..self.len).unwrap_or_default()
    }

    /// How many more tokens fit.
    #[must_use]
    pub fn room(&self) -> usize {
        Self::CAPACITY - self.len
    }

    /// Forgets all tokens.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a token; a transport asks for [`room`](Self::room) first.
    #[inline]
    pub fn push(&mut self, token: u64) {
        if let Some(slot) = self.tokens.get_mut(self.len) {
            *slot = token;
            self.len += 1;
        }
    }
}

impl Default for Completed {
    fn default() -> Self {
        Self::new()
    }
}

/// What the far side says it has received; in a fetch, what it says it has served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Received {
    /// Messages, warm-up included.
    pub messages: u64,
    /// Payload bytes, warm-up included.
    pub bytes: u64,
    /// Messages whose content was compared with the payload pattern.
    pub verified: u64,
    /// Of these, messages that differed.
    pub corrupt: u64,
    /// Messages pushed the other way, where both sides push.
    #[serde(default)]
    pub returned: u64,
}

impl std::ops::Add for Received {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            bytes: self.bytes.saturating_add(other.bytes),
            verified: self.verified.saturating_add(other.verified),
            corrupt: self.corrupt.saturating_add(other.corrupt),
            returned: self.returned.saturating_add(other.returned),
        }
    }
}

/// Waits of completions for the program, by the device's time stamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// From the device's completion until the program had it, in nanoseconds: a sample of all,
    /// warm-up included.
    pub waits: Vec<u64>,
    /// How far off each may be, in nanoseconds: the clocks were compared no better.
    pub uncertainty: u64,
}

/// The side that starts operations and is timed.
pub trait Initiator {
    /// The most operations that may be outstanding.
    fn depth(&self) -> usize;

    /// Starts one operation and does not wait for it. The caller keeps at most
    /// [`depth`](Self::depth) outstanding.
    ///
    /// # Errors
    /// The connection is broken, or the operation was refused.
    fn submit(&mut self, operation: Operation) -> Result<(), TransportError>;

    /// Waits until at least one operation is done or `patience` is at its end, and adds the tokens
    /// of those that are done to `done`, as many as it has room for; the others come with the next
    /// call. None added means that patience ended.
    ///
    /// # Errors
    /// An operation failed, the connection broke, or the stop signal was given.
    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError>;

    /// Adds the tokens of operations that are done, as [`complete`](Self::complete) does, and waits for
    /// none.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    fn reap(&mut self, done: &mut Completed) -> Result<(), TransportError> {
        self.complete(Patience(std::time::Duration::ZERO), done)
    }

    /// Waits until the far side has received everything submitted so far, and returns its count.
    /// Called with nothing outstanding. Only a push needs it.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); patience at its end is an error here.
    fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError>;

    /// Whether a message may be lost without an error: what is confirmed may then be less than what
    /// was submitted.
    fn is_lossy(&self) -> bool {
        false
    }

    /// Messages that were lost and sent again so far; an operation it happened to has no time.
    #[inline]
    fn lost(&self) -> u64 {
        0
    }

    /// Payload checks made on this side so far: (messages compared, of these different).
    fn verified(&self) -> (u64, u64) {
        (0, 0)
    }

    /// How long completions waited for the program, where the device stamps them and this was asked
    /// for. Called when all is done.
    fn split(&self) -> Option<Split> {
        None
    }

    /// What the assignments of each operation took together, on whichever side they were made, in
    /// nanoseconds, warm-up included; of patterns of tensors with `--assign`.
    fn assigned(&self) -> Option<&Histogram> {
        None
    }

    /// The marks of calls that ended, where calls are marked, by connection. Called when all is done; they
    /// are forgotten here.
    fn marks(&self) -> Vec<MarkedConnection> {
        Vec::new()
    }

    /// What is in force on this side, by name, for a report.
    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

/// The far side: echoes or sinks until told to stop.
pub trait Responder: Send {
    /// Serves until `stop` is given, and returns what arrived.
    ///
    /// # Errors
    /// The connection broke before that, or an operation failed.
    fn serve(self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError>;
}

/// An initiator whose far side is not known yet: it makes an offer, and connects by the answer.
pub trait Opening {
    /// What it opens.
    type Initiator: Initiator;

    /// What the far side must know to answer.
    fn offer(&self) -> Offer;

    /// Connects to the far side that gave `answer`.
    ///
    /// # Errors
    /// The answer does not fit the offer, or the connection cannot be made.
    fn connect(self, answer: &Answer) -> Result<Self::Initiator, TransportError>;
}
