//! Work requests: what a queue pair is asked to do.
//!
//! A request names memory by [`RegionId`] and range, not by reference: the queue pair it is
//! posted to holds the region until it is destroyed, so no request can outlive its memory and
//! none needs a reference count.
#![cfg_attr(test, allow(unsafe_code))]

use crate::datagram::PeerId;
use crate::memory::RemoteAddr;
use crate::sys::{self, Zeroed, ibv_send_flags as flag, ibv_wr_opcode as opcode};
use crate::transport::OperationKind;

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
    /// Its kind, without where and with what.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> OperationKind {
        match self {
            Self::Send => OperationKind::Send,
            Self::SendImm(_) => OperationKind::SendImm,
            Self::Write(_) => OperationKind::Write,
            Self::WriteImm(..) => OperationKind::WriteImm,
            Self::Read(_) => OperationKind::Read,
            Self::CompareSwap { .. } => OperationKind::CompareSwap,
            Self::FetchAdd { .. } => OperationKind::FetchAdd,
        }
    }

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
    /// To whom, for a datagram; a connected queue pair has one peer and takes none here.
    pub peer: Option<PeerId>,
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
        Self {
            id,
            operation,
            local,
            peer: None,
            signaled: true,
            inline: false,
            fence: false,
            solicited: false,
        }
    }

    /// The same as a datagram to `peer`.
    #[inline]
    #[must_use]
    pub fn to(self, peer: PeerId) -> Self {
        Self { peer: Some(peer), ..self }
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

    /// The same, waking the peer or not if it waits for solicited completions only.
    #[inline]
    #[must_use]
    pub fn solicited(self, solicited: bool) -> Self {
        Self { solicited, ..self }
    }

    /// Everything of the C structure but its pointers and a datagram's destination, which the
    /// queue pair knows.
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
    /// Where the message goes; its region needs [`Access::LOCAL_WRITE`](crate::Access) and is not
    /// memory on the device, unless the range is empty.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
