//! The one place where a cell, a transport and an engine loop meet: the client's end is
//! [`Initiating`], the server's [`prepare`] and [`Serving`]. How the two talk is somebody else's business: the
//! client's end sees a [`Conversation`].

mod affinity;
mod check;
mod descriptors;
mod device_watch;
mod drive;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod host;
mod initiate;
mod ip_path;
mod quota;
mod respond;
mod sampled;
mod settings;
mod slice;
mod waits;

use thiserror::Error;

pub use affinity::{Affinity, Kept, bind_thread};
pub use descriptors::raise_descriptor_limit;
pub use host::{Host, Observation, RdmaDevice};
pub use initiate::Initiating;
pub use ip_path::ip_path;
pub use quota::Quota;
pub use respond::{MOST_THREADS, Serving, prepare};
#[cfg(test)]
pub(crate) use sampled::made_call;
pub use sampled::{Phase, SampledCall, Serial, Served, ServedConnection, Span};
pub use settings::{Settings, Variants};
pub use slice::{Slice, SlicePhases, SliceRecord, VerbsTuning};

use crate::{
    engine::EngineError,
    report::{Path, Status, TcpSide},
    transport::{Answer, Offer, StopReason, TransportError},
};

/// What the client's end asks of the server's.
pub trait Conversation {
    /// Makes the server ready for a slice.
    ///
    /// # Errors
    /// The server refused, or is lost.
    fn prepare(
        &mut self,
        slice: &Slice,
        offers: Vec<Offer>,
    ) -> Result<(Vec<Answer>, Path), SliceError>;

    /// Has the server read its counters: from here on, traffic is the slice's.
    ///
    /// # Errors
    /// The server is lost.
    fn start(&mut self) -> Result<(), SliceError>;

    /// What the server's kernel knows of the slice's TCP connections, while they are open; or why
    /// it does not tell.
    ///
    /// # Errors
    /// The server is lost.
    fn connections(&mut self) -> Result<Result<TcpSide, String>, SliceError>;

    /// Ends the slice on the server; `messages` were sent, if all went well.
    ///
    /// # Errors
    /// The server is lost.
    fn finish(&mut self, messages: Option<u64>) -> Result<Observation, SliceError>;
}

/// Why a slice has no figures.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SliceError {
    /// It cannot be measured on these hosts.
    #[error("{0}")]
    Unsupported(String),
    /// It went wrong.
    #[error("{0}")]
    Failed(String),
    /// The user interrupted, or the server is lost: nothing further can be measured.
    #[error("{0}")]
    Stopped(StopReason),
}

impl SliceError {
    /// The status of a cell that ended so.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Unsupported(_) => Status::Unsupported,
            Self::Failed(_) => Status::Failed,
            Self::Stopped(StopReason::Interrupted | StopReason::Finished) => Status::Skipped,
            Self::Stopped(StopReason::PeerLost(_) | StopReason::DeviceLost(_)) => Status::Failed,
        }
    }

    /// The same, where the server is lost, with what was being done.
    #[must_use]
    pub fn while_(self, doing: &str) -> Self {
        match self {
            Self::Stopped(StopReason::PeerLost(how)) => {
                Self::Stopped(StopReason::PeerLost(format!("while {doing}: {how}")))
            }
            other => other,
        }
    }
}

impl From<TransportError> for SliceError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Unsupported(reason) => Self::Unsupported(reason),
            TransportError::Failed(reason)
            | TransportError::Stopped(StopReason::DeviceLost(reason)) => Self::Failed(reason),
            TransportError::Stopped(reason) => Self::Stopped(reason),
        }
    }
}

impl From<EngineError> for SliceError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Transport {
                source: TransportError::Stopped(StopReason::DeviceLost(how)),
                phase,
            } => Self::Failed(format!("{phase}: {how}")),
            // Told with the phase: a user sees how far it had come.
            EngineError::Transport {
                source: TransportError::Stopped(StopReason::PeerLost(how)),
                phase,
            } => Self::Stopped(StopReason::PeerLost(format!("{phase}: {how}"))),
            EngineError::Transport { source: TransportError::Stopped(reason), .. } => {
                Self::Stopped(reason)
            }
            other => Self::Failed(other.to_string()),
        }
    }
}
