//! Work requests: what a queue pair is asked to do.
//!
//! A request names memory by [`RegionId`] and range, not by reference: the queue pair it is
//! posted to holds the region until it is destroyed, so no request can outlive its memory and
//! none needs a reference count.
#![cfg_attr(test, allow(unsafe_code))]

use std::fmt;

use crate::memory::RemoteAddr;
use crate::sys::{self, Zeroed, ibv_send_flags as flag, ibv_wr_opcode as opcode};

/// A region as a queue pair knows it, from [`QueuePair::attach`](crate::QueuePair::attach).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionId {
    /// Which queue pair; unique in the process.
    pub(crate) owner: u64,
    pub(crate) index: u32,
}

impl RegionId {
    /// A range of the region: `length` bytes from `offset`. Checked when it is posted.
    #[inline]
    #[must_use]
    pub fn range(self, offset: usize, length: u32) -> Local {
        Local { region: self, offset, length }
    }
}

/// A range of an attached region: what a request sends from or receives into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// The region.
    pub region: RegionId,
    /// Bytes from its start.
    pub offset: usize,
    /// Bytes. 0 makes a message without data.
    pub length: u32,
}

/// What a send request does at the far side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A message into the next receive the peer posted.
    Send,
    /// The same, with a value for the peer's completion.
    SendImm(u32),
    /// The local range is written to the peer's memory; the peer gets no completion.
    Write(RemoteAddr),
    /// The same, then one of the peer's receives completes with the value.
    WriteImm(RemoteAddr, u32),
    /// The peer's memory is read into the local range.
    Read(RemoteAddr),
    /// The peer's 64-bit word becomes `swap` if it is `compare`; its value before comes back
    /// into the local range of 8 bytes.
    CompareSwap {
        /// The word, aligned to 8 bytes.
        remote: RemoteAddr,
        /// The value it must have.
        compare: u64,
        /// The value it then gets.
        swap: u64,
    },
    /// `add` is added to the peer's 64-bit word; its value before comes back into the local
    /// range of 8 bytes.
    FetchAdd {
        /// The word, aligned to 8 bytes.
        remote: RemoteAddr,
        /// What to add.
        add: u64,
    },
}

impl Operation {
    /// Whether the bytes of the local range go to the peer.
    #[inline]
    pub(crate) fn sends_local_bytes(self) -> bool {
        matches!(self, Self::Send | Self::SendImm(_) | Self::Write(_) | Self::WriteImm(..))
    }
}

/// One request for the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRequest {
    /// The caller's number for it, found again in the completion.
    pub id: u64,
    /// What to do.
    pub operation: Operation,
    /// The local range.
    pub local: Local,
    /// Whether success makes a completion (failure always does). Every queue needs one signaled
    /// request at least per its depth: slots of unsignaled ones come free only with a later
    /// signaled one's completion.
    pub signaled: bool,
    /// Whether the bytes are copied into the request when it is posted, so that the device need
    /// not fetch them and the range may be reused at once. Up to
    /// [`Capabilities::max_inline`](crate::Capabilities::max_inline) bytes; sends and writes only.
    pub inline: bool,
    /// Whether to wait until reads and atomics posted before are done.
    pub fence: bool,
    /// Whether the peer's completion wakes it if it waits for solicited ones.
    pub solicited: bool,
}

impl SendRequest {
    /// A signaled request, not inline.
    #[inline]
    #[must_use]
    pub fn new(id: u64, operation: Operation, local: Local) -> Self {
        Self { id, operation, local, signaled: true, inline: false, fence: false, solicited: false }
    }

    /// The same with or without a completion on success.
    #[inline]
    #[must_use]
    pub fn signaled(self, signaled: bool) -> Self {
        Self { signaled, ..self }
    }

    /// The same, inline or not.
    #[inline]
    #[must_use]
    pub fn inline(self, inline: bool) -> Self {
        Self { inline, ..self }
    }

    /// Everything of the C structure but its pointers.
    #[inline]
    pub(crate) fn to_raw(self) -> sys::ibv_send_wr {
        let mut raw = sys::ibv_send_wr::zeroed();
        raw.wr_id = self.id;
        raw.num_sge = i32::from(self.local.length != 0);
        let bit = |set: bool, bits: flag| if set { bits.0 } else { 0 };
        raw.send_flags = bit(self.signaled, flag::IBV_SEND_SIGNALED)
            | bit(self.inline, flag::IBV_SEND_INLINE)
            | bit(self.fence, flag::IBV_SEND_FENCE)
            | bit(self.solicited, flag::IBV_SEND_SOLICITED);
        let rdma = |at: RemoteAddr| sys::wr_t {
            rdma: sys::rdma_t { remote_addr: at.addr, rkey: at.rkey },
        };
        let atomic = |at: RemoteAddr, compare_add, swap| sys::wr_t {
            atomic: sys::atomic_t { remote_addr: at.addr, compare_add, swap, rkey: at.rkey },
        };
        match self.operation {
            Operation::Send => raw.opcode = opcode::IBV_WR_SEND,
            Operation::SendImm(value) => {
                raw.opcode = opcode::IBV_WR_SEND_WITH_IMM;
                raw.imm_data_invalidated_rkey_union.imm_data = value.to_be();
            }
            Operation::Write(at) => (raw.opcode, raw.wr) = (opcode::IBV_WR_RDMA_WRITE, rdma(at)),
            Operation::WriteImm(at, value) => {
                (raw.opcode, raw.wr) = (opcode::IBV_WR_RDMA_WRITE_WITH_IMM, rdma(at));
                raw.imm_data_invalidated_rkey_union.imm_data = value.to_be();
            }
            Operation::Read(at) => (raw.opcode, raw.wr) = (opcode::IBV_WR_RDMA_READ, rdma(at)),
            Operation::CompareSwap { remote, compare, swap } => {
                raw.opcode = opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
                raw.wr = atomic(remote, compare, swap);
            }
            Operation::FetchAdd { remote, add } => {
                raw.opcode = opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
                raw.wr = atomic(remote, add, 0);
            }
        }
        raw
    }
}

/// One request for the receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvRequest {
    /// The caller's number for it, found again in the completion.
    pub id: u64,
    /// Where the message goes; its region needs [`Access::LOCAL_WRITE`](crate::Access).
    pub local: Local,
}

impl RecvRequest {
    /// A receive into `local`.
    #[inline]
    #[must_use]
    pub fn new(id: u64, local: Local) -> Self {
        Self { id, local }
    }
}

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
    /// More bytes than a message can have, 2^31 (InfiniBand specification, 9.4.3).
    MessageTooLong {
        /// Bytes asked for.
        length: u32,
    },
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
            PostFailure::MessageTooLong { length } => write!(
                f,
                "{length} bytes are more than a message can have ({MAX_MESSAGE}); split it"
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

    const LOCAL: Local = Local { region: RegionId { owner: 1, index: 0 }, offset: 0, length: 8 };
    const AT: RemoteAddr = RemoteAddr { addr: 0x1000, rkey: 0x77 };

    #[test]
    fn flags_and_opcodes_reach_the_c_structure() {
        let request = SendRequest::new(5, Operation::Write(AT), LOCAL).inline(true);
        let raw = request.to_raw();
        assert_eq!((raw.wr_id, raw.opcode, raw.num_sge), (5, opcode::IBV_WR_RDMA_WRITE, 1));
        assert_eq!(raw.send_flags, flag::IBV_SEND_SIGNALED.0 | flag::IBV_SEND_INLINE.0);
        // SAFETY: the member that a write sets.
        let rdma = unsafe { raw.wr.rdma };
        assert_eq!((rdma.remote_addr, rdma.rkey), (0x1000, 0x77));
        let quiet = SendRequest { local: Local { length: 0, ..LOCAL }, ..request };
        let raw = quiet.signaled(false).inline(false).to_raw();
        assert_eq!((raw.send_flags, raw.num_sge), (0, 0));
    }

    #[test]
    fn immediates_travel_in_network_order() {
        let raw = SendRequest::new(0, Operation::SendImm(1), LOCAL).to_raw();
        // SAFETY: the member that an immediate sets.
        let imm = unsafe { raw.imm_data_invalidated_rkey_union.imm_data };
        assert_eq!(imm.to_ne_bytes(), [0, 0, 0, 1]);
        assert_eq!(raw.opcode, opcode::IBV_WR_SEND_WITH_IMM);
    }

    #[test]
    fn queue_full_is_told_from_a_refusal() {
        assert!(PostError::returned(libc::ENOMEM, 3).is_queue_full());
        let refused = PostError::returned(libc::EINVAL, 0);
        assert!(!refused.is_queue_full());
        assert!(refused.to_string().contains("Invalid argument"), "{refused}");
    }
}
