//! Completion queues and what comes out of them.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::context::{Context, Opened};
use crate::error::{Error, Result};
use crate::status::{CompletionError, Status};
use crate::sys::{self, Zeroed, ibv_wc_opcode as opcode};

pub(crate) struct Queue {
    raw: NonNull<sys::ibv_cq>,
    context: Arc<Opened>,
    capacity: u32,
}

// SAFETY: libibverbs objects may be used from any thread at once; polling locks inside.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; queue pairs that complete to it held it.
        unsafe { sys::ibv_destroy_cq(self.raw.as_ptr()) };
    }
}

/// A completion queue. Clones are handles to the same one.
#[derive(Clone)]
pub struct CompletionQueue(pub(crate) Arc<Queue>);

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").field("capacity", &self.0.capacity).finish()
    }
}

impl Context {
    /// Creates a completion queue with room for at least `capacity` completions: count every
    /// signaled request and every receive that can be outstanding at once, since a queue that
    /// overflows is lost with all queue pairs on it.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] beyond the device's limit, [`Error::Call`].
    pub fn create_completion_queue(&self, capacity: u32) -> Result<CompletionQueue> {
        let most = self.limits().completions;
        let entries = i32::try_from(capacity.max(1)).unwrap_or(i32::MAX);
        if capacity > most {
            return Err(Error::Unsupported {
                device: self.name().to_owned(),
                what: format!("a completion queue of {capacity} entries (at most {most})"),
            });
        }
        let (none, channel) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the context is open; no context value and no event channel are allowed.
        let raw = unsafe { sys::ibv_create_cq(self.0.as_ptr(), entries, none, channel, 0) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let cure = "choose a smaller queue, or look for ones left over (rdma resource show)";
            self.0.call_failed("ibv_create_cq", io::Error::last_os_error(), cure)
        })?;
        // SAFETY: the structure is public and was just made.
        let capacity = u32::try_from(unsafe { raw.as_ref() }.cqe).unwrap_or(capacity);
        Ok(CompletionQueue(Arc::new(Queue { raw, context: Arc::clone(&self.0), capacity })))
    }
}

impl CompletionQueue {
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_cq {
        self.0.raw.as_ptr()
    }

    pub(crate) fn context(&self) -> &Arc<Opened> {
        &self.0.context
    }

    /// Completions it has room for: what was asked, or more.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.0.capacity
    }

    /// Takes completions out of the queue, at most as many as `into` has places, and returns
    /// the part of it that was filled: empty when nothing is done yet. Never waits, allocates
    /// or makes a system call of its own.
    ///
    /// # Errors
    ///
    /// [`PollError`] when the queue is broken. A work request that failed is not an error of
    /// the call: see [`Completion::check`].
    #[inline]
    pub fn poll<'a>(&self, into: &'a mut [Completion]) -> Result<&'a [Completion], PollError> {
        let room = i32::try_from(into.len()).unwrap_or(i32::MAX);
        // SAFETY: the queue is alive and `into` has `room` places of the C structure, which
        // `Completion` is transparent over.
        let count = unsafe { sys::ibv_poll_cq(self.as_ptr(), room, into.as_mut_ptr().cast()) };
        usize::try_from(count)
            .ok()
            .and_then(|count| into.get(..count))
            .ok_or(PollError { code: count })
    }
}

/// `ibv_poll_cq` failed: the queue is unusable, as after an overrun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "ibv_poll_cq failed with {code}: the completion queue is broken; create one with room for \
     every signaled request and receive in flight"
)]
pub struct PollError {
    /// The negative value it returned.
    pub code: i32,
}

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

/// One completed work request. An array of default values is what [`CompletionQueue::poll`]
/// fills.
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
