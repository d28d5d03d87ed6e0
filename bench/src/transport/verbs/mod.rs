//! Reliable-connection queue pairs: RDMA write with the receiver polling memory, and send.
//!
//! Latency by write: the last byte of each message is a stamp that differs from the one before;
//! the receiver polls it. This relies on a message's bytes being placed in order, as every
//! write-latency test does; InfiniBand's and RoCE's in-order packets provide it.
//!
//! Bandwidth: a write leaves no trace at the receiver's processor, so the initiator's request to
//! confirm (a send with immediate, which the connection keeps behind all writes before it) carries
//! the count, and the receiver looks at the memory before it answers.

mod initiator;
mod pair;
mod port;
mod responder;

pub use initiator::{Ping, Push, VerbsInitiator, VerbsOpening};
pub use pair::{Pair, PairPlan};
pub use port::VerbsPort;
pub use responder::VerbsResponder;

use super::TransportError;

fn failed(error: impl std::fmt::Display) -> TransportError {
    TransportError::Failed(error.to_string())
}

/// The stamp of the message with this number: never 0, which is what fresh memory holds, and never
/// the one before.
#[inline]
fn stamp(sequence: u64) -> u8 {
    (sequence % 255) as u8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_differ_from_their_neighbours_and_from_fresh_memory() {
        for sequence in 0..1000 {
            assert_ne!(stamp(sequence), 0);
            assert_ne!(stamp(sequence), stamp(sequence + 1));
        }
    }
}
