//! What comes out of a completion queue.
#![allow(unsafe_code)]

use std::fmt;

use crate::status::{CompletionError, Status};
use crate::sys::{self, Zeroed, ibv_wc_opcode as opcode};

/// What a completed work request did, `enum ibv_wc_opcode` as an integer. Only good for a
/// request that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(pub u32);

impl Opcode {
    /// A send.
    pub const SEND: Self = Self(opcode::IBV_WC_SEND);
    /// An RDMA write.
    pub const WRITE: Self = Self(opcode::IBV_WC_RDMA_WRITE);
    /// An RDMA read.
    pub const READ: Self = Self(opcode::IBV_WC_RDMA_READ);
    /// A compare and swap.
    pub const COMPARE_SWAP: Self = Self(opcode::IBV_WC_COMP_SWAP);
    /// A fetch and add.
    pub const FETCH_ADD: Self = Self(opcode::IBV_WC_FETCH_ADD);
    /// A receive that a send arrived in.
    pub const RECV: Self = Self(opcode::IBV_WC_RECV);
    /// A receive consumed by an RDMA write with immediate.
    pub const RECV_WRITE_IMM: Self = Self(opcode::IBV_WC_RECV_RDMA_WITH_IMM);
}

/// One completed work request. An array of default values is what
/// [`CompletionQueue::poll`](crate::CompletionQueue::poll) fills.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Completion(sys::ibv_wc);

impl Default for Completion {
    fn default() -> Self {
        Self(sys::ibv_wc::zeroed())
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("id", &self.id())
            .field("status", &self.status())
            .field("opcode", &self.opcode())
            .field("byte_len", &self.byte_len())
            .finish_non_exhaustive()
    }
}

impl Completion {
    #[inline]
    pub(crate) fn from_raw(raw: sys::ibv_wc) -> Self {
        Self(raw)
    }

    /// The id given when the request was posted. Good even for a failed request.
    #[inline]
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    /// How it ended.
    #[inline]
    #[must_use]
    pub fn status(&self) -> Status {
        Status(self.0.status)
    }

    /// The completion itself if the request succeeded: one comparison.
    ///
    /// # Errors
    ///
    /// [`CompletionError`] with the reason and the likely cure.
    #[inline]
    pub fn check(&self) -> Result<&Self, CompletionError> {
        if self.0.status == Status::SUCCESS.0 { Ok(self) } else { Err(self.failure()) }
    }

    #[cold]
    fn failure(&self) -> CompletionError {
        CompletionError {
            id: self.id(),
            queue_pair: self.0.qp_num,
            status: self.status(),
            vendor_error: self.0.vendor_err,
        }
    }

    /// What the request did.
    #[inline]
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        Opcode(self.0.opcode)
    }

    /// Bytes received or read; not set for sends and writes.
    #[inline]
    #[must_use]
    pub fn byte_len(&self) -> u32 {
        self.0.byte_len
    }

    /// The immediate value the peer sent along, in host byte order.
    #[inline]
    #[must_use]
    pub fn immediate(&self) -> Option<u32> {
        if self.0.wc_flags & sys::ibv_wc_flags::IBV_WC_WITH_IMM.0 == 0 {
            return None;
        }
        // SAFETY: both members of the union are a `u32`.
        Some(u32::from_be(unsafe { self.0.imm_data_invalidated_rkey_union.imm_data }))
    }

    /// The number of the local queue pair it belongs to.
    #[inline]
    #[must_use]
    pub fn queue_pair(&self) -> u32 {
        self.0.qp_num
    }

    /// The number of the queue pair that a datagram came from. Set for UD receives only.
    #[inline]
    #[must_use]
    pub fn source_queue_pair(&self) -> u32 {
        self.0.src_qp
    }

    /// Whether the first [`GRH_BYTES`](crate::GRH_BYTES) of a UD receive hold a global route
    /// header; they are there in any case. On RoCE v2 over IPv4, the last 20 of them are the IPv4
    /// header.
    #[inline]
    #[must_use]
    pub fn has_grh(&self) -> bool {
        self.0.wc_flags & sys::ibv_wc_flags::IBV_WC_GRH.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_request_queue_status_and_cure_in_one_line() {
        let mut raw = sys::ibv_wc::zeroed();
        (raw.wr_id, raw.qp_num, raw.status, raw.vendor_err) = (7, 19, 12, 0x81);
        let text = Completion(raw).check().unwrap_err().to_string();
        assert!(text.starts_with("work request 7 of queue pair 19 failed: transport retry"));
        assert!(
            text.contains("(status 12), vendor error 0x81; the peer does not answer"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn a_status_newer_than_the_header_is_an_error_with_its_number() {
        let mut raw = sys::ibv_wc::zeroed();
        raw.status = 4242;
        assert!(Completion(raw).check().unwrap_err().to_string().contains("status 4242"));
    }

    #[test]
    fn immediate_only_when_flagged_and_in_host_order() {
        let mut raw = sys::ibv_wc::zeroed();
        raw.imm_data_invalidated_rkey_union.imm_data = 0x0102_0304_u32.to_be();
        assert_eq!(Completion(raw).immediate(), None);
        raw.wc_flags = sys::ibv_wc_flags::IBV_WC_WITH_IMM.0;
        assert_eq!(Completion(raw).immediate(), Some(0x0102_0304));
    }
}
