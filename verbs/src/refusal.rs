//! Why a work request was not posted.

use std::fmt;

use crate::transport::{OperationKind, Transport};

/// Bytes of a message at most: 2^31 (InfiniBand specification, 9.4.3).
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// Why a work request was not posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostFailure {
    /// The queue is full (`ENOMEM`): poll for completions and post again.
    QueueFull,
    /// The range does not lie inside the region.
    OutOfRange {
        /// Bytes from the region's start.
        offset: usize,
        /// Bytes asked for.
        length: u32,
        /// Bytes of the region.
        region: usize,
    },
    /// The region was attached to another queue pair.
    UnknownRegion,
    /// More bytes inline than the queue pair takes.
    InlineTooLong {
        /// Bytes asked for.
        length: u32,
        /// Bytes at most.
        max: u32,
    },
    /// Only sends and writes go inline: for a read or an atomic operation, the device would take
    /// the bytes for an address to write to.
    InlineOperation,
    /// Memory on the device does not go inline: the provider would copy from an address that this
    /// process does not have.
    InlineFromDevice,
    /// Memory on the device does not receive: a provider may copy short messages to it from their
    /// completions, to an address that this process does not have. Writes, reads and atomics reach
    /// it.
    ReceiveOnDevice,
    /// More bytes than a message can have, 2^31 (InfiniBand specification, 9.4.3).
    MessageTooLong {
        /// Bytes asked for.
        length: u32,
    },
    /// Gathered from more ranges than the queue pair takes.
    TooManySegments {
        /// Ranges asked for.
        segments: usize,
        /// Ranges at most.
        max: u32,
    },
    /// The transport has no such operation: see [`Transport::supports`].
    Impossible {
        /// What was asked for.
        operation: OperationKind,
        /// Of a queue pair of this transport.
        transport: Transport,
    },
    /// A datagram without a destination.
    MissingPeer,
    /// The destination was attached to another queue pair.
    UnknownPeer,
    /// A destination for a queue pair that is connected to one already.
    Connected,
    /// More bytes than a datagram to this peer can have: it is one packet.
    DatagramTooLong {
        /// Bytes asked for.
        length: u32,
        /// Bytes at most, the path MTU.
        max: u32,
    },
    /// A receive for a queue pair that takes them from a shared receive queue.
    SharedReceives,
    /// The list was built for another queue pair, or has no place left.
    ListMismatch,
    /// The provider refused it with this error number.
    Refused(i32),
}

/// A work request, or part of a list of them, was not posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostError {
    /// How many requests of the list, from its start, were posted all the same.
    pub posted: usize,
    /// Why the next one was not.
    pub reason: PostFailure,
}

impl PostError {
    #[cold]
    pub(crate) fn unposted(reason: PostFailure) -> Self {
        Self { posted: 0, reason }
    }

    /// From what `ibv_post_send` or `ibv_post_recv` returned.
    #[cold]
    pub(crate) fn returned(code: i32, posted: usize) -> Self {
        // By convention an error number. Some providers return -1 and set errno, and rxe's older
        // ones return it negative.
        let errno = match code {
            -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
            code => code.wrapping_abs(),
        };
        let reason = match errno {
            libc::ENOMEM => PostFailure::QueueFull,
            errno => PostFailure::Refused(errno),
        };
        Self { posted, reason }
    }

    /// Whether polling for completions and trying again will help.
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        self.reason == PostFailure::QueueFull
    }
}

impl std::error::Error for PostError {}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("work request not posted: ")?;
        match self.reason {
            PostFailure::QueueFull => f.write_str(
                "the queue is full; poll for completions first, or create it with more work \
                 requests",
            ),
            PostFailure::OutOfRange { offset, length, region } => write!(
                f,
                "{length} bytes at offset {offset} pass the end of a region of {region} bytes; \
                 choose a range inside it"
            ),
            PostFailure::UnknownRegion => {
                f.write_str("the region is attached to another queue pair; attach it to this one")
            }
            PostFailure::InlineTooLong { length, max } => write!(
                f,
                "{length} bytes inline, this queue pair takes {max}; ask for more when creating \
                 it or post without inline"
            ),
            PostFailure::InlineOperation => {
                f.write_str("only sends and writes go inline; post this operation without it")
            }
            PostFailure::InlineFromDevice => f.write_str(
                "the region is memory on the device, which does not go inline; post it without",
            ),
            PostFailure::ReceiveOnDevice => f.write_str(
                "the region is memory on the device, which does not receive; receive into host \
                 memory, or let the peer write",
            ),
            PostFailure::MessageTooLong { length } => write!(
                f,
                "{length} bytes are more than a message can have ({MAX_MESSAGE}); split it"
            ),
            PostFailure::TooManySegments { segments, max } => write!(
                f,
                "gathered from {segments} ranges, and this queue pair takes {max}; ask for more \
                 when creating it, or post several requests"
            ),
            PostFailure::Impossible { operation, transport } => write!(
                f,
                "there is no {operation} on {transport} queue pairs; use another operation, or \
                 RC, which has all"
            ),
            PostFailure::MissingPeer => f.write_str(
                "a datagram needs a destination; attach_peer gives one to name in the request",
            ),
            PostFailure::UnknownPeer => {
                f.write_str("the peer is attached to another queue pair; attach it to this one")
            }
            PostFailure::Connected => f.write_str(
                "it names a destination, and this queue pair is connected to its only peer; leave \
                 it out",
            ),
            PostFailure::DatagramTooLong { length, max } => write!(
                f,
                "{length} bytes, and a datagram to this peer carries {max} (the path MTU); split \
                 it, or use RC or UC"
            ),
            PostFailure::SharedReceives => f.write_str(
                "this queue pair takes its receives from a shared receive queue; post them there",
            ),
            PostFailure::ListMismatch => {
                f.write_str("the list is full or was built for another queue pair; use a new one")
            }
            PostFailure::Refused(code) => {
                let errno = std::io::Error::from_raw_os_error(code);
                write!(
                    f,
                    "{errno}; is the queue pair connected, and the request allowed on its type?"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_is_told_whatever_the_providers_sign() {
        assert!(PostError::returned(libc::ENOMEM, 0).is_queue_full());
        assert!(PostError::returned(-libc::ENOMEM, 0).is_queue_full());
        assert_eq!(
            PostError::returned(-libc::EINVAL, 0).reason,
            PostFailure::Refused(libc::EINVAL)
        );
    }

    #[test]
    fn queue_full_is_told_from_a_refusal() {
        assert!(PostError::returned(libc::ENOMEM, 3).is_queue_full());
        let refused = PostError::returned(libc::EINVAL, 0);
        assert!(!refused.is_queue_full());
        assert!(refused.to_string().contains("Invalid argument"), "{refused}");
    }
}
