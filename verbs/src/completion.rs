//! Completion queues and what comes out of them.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::channel::{CompletionChannel, Unacknowledged};
use crate::context::{Context, Opened};
use crate::error::{Error, Result, errno_of};
use crate::status::{CompletionError, Status};
use crate::sys::{self, Zeroed, ibv_wc_opcode as opcode};

pub(crate) struct Queue {
    raw: NonNull<sys::ibv_cq>,
    context: Arc<Opened>,
    capacity: u32,
    events: Option<Unacknowledged>,
}

// SAFETY: libibverbs objects may be used from any thread at once; polling locks inside.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        match &self.events {
            Some(events) => events.destroy(self.raw.as_ptr()),
            None => {
                // SAFETY: created once, destroyed once; queue pairs that complete to it held it.
                unsafe { sys::ibv_destroy_cq(self.raw.as_ptr()) };
            }
        }
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
        self.create(capacity, None)
    }

    /// The same, with its events on `channel`: it can be armed and waited for.
    ///
    /// # Errors
    ///
    /// The same, and [`Error::Foreign`] for a channel of another device.
    pub fn create_completion_queue_on(
        &self,
        channel: &CompletionChannel,
        capacity: u32,
    ) -> Result<CompletionQueue> {
        if !Arc::ptr_eq(channel.0.context(), &self.0) {
            return Err(Error::Foreign { what: "the completion channel", parent: "device" });
        }
        self.create(capacity, Some(Unacknowledged::on(channel)))
    }

    fn create(&self, capacity: u32, events: Option<Unacknowledged>) -> Result<CompletionQueue> {
        let most = self.limits().completions;
        let entries = i32::try_from(capacity.max(1)).unwrap_or(i32::MAX);
        if capacity > most {
            return Err(Error::Unsupported {
                device: self.name().to_owned(),
                what: format!("a completion queue of {capacity} entries (at most {most})"),
            });
        }
        let (value, channel) = match &events {
            Some(events) => (events.context(), events.channel().as_ptr()),
            None => (ptr::null_mut(), ptr::null_mut()),
        };
        // SAFETY: the context is open, and the channel is one of it; the queue keeps the channel
        // and what `value` points at.
        let raw = unsafe { sys::ibv_create_cq(self.0.as_ptr(), entries, value, channel, 0) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let cure = "choose a smaller queue, or look for ones left over (rdma resource show)";
            self.0.call_failed("ibv_create_cq", io::Error::last_os_error(), cure)
        })?;
        // SAFETY: the structure is public and was just made.
        let capacity = u32::try_from(unsafe { raw.as_ref() }.cqe).unwrap_or(capacity);
        let context = Arc::clone(&self.0);
        Ok(CompletionQueue(Arc::new(Queue { raw, context, capacity, events })))
    }
}

impl CompletionQueue {
    /// Takes over a queue just made on `context`, with its events if it was made with their
    /// channel.
    ///
    /// # Safety
    ///
    /// `raw` is a queue of that device, and channel, that nothing else destroys.
    pub(crate) unsafe fn adopt(
        raw: NonNull<sys::ibv_cq>,
        context: &Arc<Opened>,
        events: Option<Unacknowledged>,
    ) -> Self {
        // SAFETY: the caller promises a queue; its structure is public.
        let capacity = u32::try_from(unsafe { raw.as_ref() }.cqe).unwrap_or(0);
        Self(Arc::new(Queue { raw, context: Arc::clone(context), capacity, events }))
    }

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

    /// The channel its events go to.
    ///
    /// # Errors
    ///
    /// [`Error::NoChannel`] for a queue created without.
    pub fn channel(&self) -> Result<CompletionChannel> {
        let events = self.0.events.as_ref().ok_or(Error::NoChannel)?;
        Ok(CompletionChannel(Arc::clone(events.channel())))
    }

    /// Asks for one event, for the next completion; with `solicited_only` for the next one that is
    /// a failure or of a message sent [`solicited`](crate::SendRequest::solicited). Completions
    /// that are in the queue already make none: poll after arming, before waiting. Arming again
    /// before there was an event changes nothing, but from solicited to all.
    ///
    /// # Errors
    ///
    /// [`Error::NoChannel`] for a queue created without, [`Error::Call`].
    pub fn arm(&self, solicited_only: bool) -> Result<()> {
        if self.0.events.is_none() {
            return Err(Error::NoChannel);
        }
        // SAFETY: the queue is alive and has a channel.
        let code = unsafe { sys::ibv_req_notify_cq(self.as_ptr(), solicited_only.into()) };
        if code == 0 {
            return Ok(());
        }
        let cure = "has the device been removed?";
        Err(self.0.context.call_failed("ibv_req_notify_cq", errno_of(code), cure))
    }

    /// Sleeps until there is an event on the queue's channel: see [`CompletionChannel::wait`].
    ///
    /// # Errors
    ///
    /// [`Error::NoChannel`] for a queue created without, [`Error::Call`].
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        self.channel()?.wait(timeout)
    }

    /// Takes completions out of the queue, as [`CompletionQueue::poll`] does, and when there are
    /// none sleeps until some come, at most for `timeout`: polls, arms, polls again, and waits.
    /// Empty when the time is over.
    ///
    /// # Errors
    ///
    /// [`Error::NoChannel`] for a queue created without, [`Error::Poll`], [`Error::Call`].
    pub fn poll_or_wait<'a>(
        &self,
        into: &'a mut [Completion],
        timeout: Duration,
    ) -> Result<&'a [Completion]> {
        let mut count = self.poll(into)?.len();
        let deadline = Instant::now().checked_add(timeout);
        let mut waiting = true;
        while count == 0 && waiting {
            self.arm(false)?;
            count = self.poll(into)?.len();
            if count == 0 {
                let left =
                    deadline.map_or(timeout, |at| at.saturating_duration_since(Instant::now()));
                waiting = self.wait(left)?;
                count = self.poll(into)?.len();
            }
        }
        Ok(&into[..count])
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
