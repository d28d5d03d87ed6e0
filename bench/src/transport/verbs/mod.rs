//! Queue pairs on an RDMA device, in every operation that can carry a message.
//!
//! Latency by write: the last byte of each message is a stamp that differs from the one before;
//! the receiver polls it. This relies on a message's bytes being placed in order, as every
//! write-latency test does; InfiniBand's and RoCE's in-order packets provide it.
//!
//! Pushes: a write leaves no trace at the receiver's processor, so the initiator's request to
//! confirm (a send with immediate, which the connection keeps behind all writes before it) carries
//! the count, and the receiver looks at the memory before it answers.
//!
//! Reads and atomics: the initiator does all alone, and what it gets back is compared. Atomics count
//! in a word of the far side, whose final value must be their number.

mod answering;
mod calls;
mod connect;
mod control;
mod extended;
#[cfg(fuzzing)]
mod fuzzing;
mod gather;
mod in_force;
mod inbox;
mod layout;
mod manager;
mod memory;
mod opening;
mod pair;
mod pair_plan;
mod pieces;
mod ping;
mod port;
mod posting;
mod push;
mod regions;
mod request;
mod responder;
mod sender;
mod sleep;
mod slots;
mod split;
mod stamp;
mod word;

pub use answering::VerbsServer;
pub use calls::{VerbsCalls, VerbsCallsOpening};
pub use extended::PostMode;
#[cfg(fuzzing)]
pub(super) use fuzzing::lay_out;
pub use in_force::largest_moderation;
pub use manager::ManagedResponder;
pub use memory::{MemorySettings, Node, PageSize};
pub use opening::{VerbsInitiator, VerbsOpening};
pub use pair::Pair;
pub use pair_plan::{PairPlan, responder_sleeps};
pub use ping::{Ask, Ping};
pub use port::VerbsPort;
pub use push::Push;
pub use regions::PeerRegions;
pub use responder::VerbsResponder;
pub use sender::LONGEST_LIST;

use super::TransportError;

/// After so long a silence, what may have been lost is said again: far longer than a round trip, and
/// far shorter than any patience.
const REPEAT: std::time::Duration = std::time::Duration::from_millis(50);

fn failed(error: impl std::fmt::Display) -> TransportError {
    TransportError::Failed(error.to_string())
}

/// What the device lacks is not a failure: another device might have it.
fn refused(error: fabricbench_verbs::Error) -> TransportError {
    match error {
        fabricbench_verbs::Error::Unsupported { .. } => {
            TransportError::Unsupported(error.to_string())
        }
        error => failed(error),
    }
}
