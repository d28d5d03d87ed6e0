//! Completion queues: made, polled, armed and waited for.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::channel::{CompletionChannel, Unacknowledged};
use crate::completion::Completion;
use crate::context::{Context, Opened};
use crate::error::{Error, Result, errno_of};
use crate::sys;

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
        // No more than there is room for.
        Ok(into.get(..count).unwrap_or_default())
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
