//! Completion events: sleeping until there is something to poll.
//!
//! A completion queue that was created on a [`CompletionChannel`] can be armed; its next
//! completion then makes an event, once, and the channel's descriptor readable. An event says
//! only that polling is worth while, and one that came before the queue was armed makes none.
//! So that none is missed: arm, **poll again**, and wait only if that gave nothing;
//! [`CompletionQueue::poll_or_wait`](crate::CompletionQueue::poll_or_wait) does all three.
//!
//! A channel may serve several queues: one wait for all of them, after which each is to be polled
//! and armed. One thread at a time should wait on a channel: an event wakes one of those waiting,
//! and that need not be the one which polls the queue it was about.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::context::{Context, Opened};
use crate::error::Result;
use crate::event::set_nonblocking;
use crate::sys;

/// Events to read before they are acknowledged: each acknowledgement takes a lock and wakes
/// whoever waits for it, and the queue can be destroyed only when all are.
const ACKNOWLEDGE_AT: u32 = 64;

pub(crate) struct Channel {
    raw: NonNull<sys::ibv_comp_channel>,
    context: Arc<Opened>,
    /// Held while an event is read and while a queue is destroyed, so that no event is of a queue
    /// that is gone.
    reading: Mutex<()>,
}

// SAFETY: libibverbs objects may be used from any thread at once.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the queues on it held it.
        unsafe { sys::ibv_destroy_comp_channel(self.raw.as_ptr()) };
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the structure is public, and alive as long as `self`. Only this field is looked
        // at: libibverbs counts queues in another, maybe now.
        let fd = unsafe { (*self.as_ptr()).fd };
        // SAFETY: the descriptor stays open as long as the channel, which `self` keeps.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl Channel {
    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_comp_channel {
        self.raw.as_ptr()
    }

    pub(crate) fn context(&self) -> &Arc<Opened> {
        &self.context
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads one event, if there is one.
    fn take(&self) -> Result<bool> {
        let _reading = self.lock();
        let (mut cq, mut count) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is alive and does not block; both places are valid. The queue that
        // an event is of is alive, since it is destroyed under the lock held here.
        let code = unsafe { sys::ibv_get_cq_event(self.as_ptr(), &raw mut cq, &raw mut count) };
        if code != 0 {
            let errno = io::Error::last_os_error();
            return match errno.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                _ => {
                    let cure = "has the device been removed?";
                    Err(self.context.call_failed("ibv_get_cq_event", errno, cure))
                }
            };
        }
        // SAFETY: every queue on a channel has its count as context (see `Unacknowledged`), which
        // it keeps until it is destroyed.
        let count = unsafe { &*count.cast::<AtomicU32>() };
        if count.fetch_add(1, Ordering::Relaxed) + 1 >= ACKNOWLEDGE_AT {
            acknowledge(cq, count);
        }
        Ok(true)
    }
}

/// Tells libibverbs that the events of a queue counted so far are dealt with. The caller holds the
/// channel's lock.
fn acknowledge(cq: *mut sys::ibv_cq, count: &AtomicU32) {
    let events = count.swap(0, Ordering::Relaxed);
    if events > 0 {
        // SAFETY: the queue is alive, and as many events of it were read and not acknowledged.
        unsafe { sys::ibv_ack_cq_events(cq, events) };
    }
}

/// What a completion queue on a channel keeps: the channel, and the number of its events that were
/// read and not acknowledged. The address of that number is the queue's context in C.
pub(crate) struct Unacknowledged {
    channel: Arc<Channel>,
    count: Arc<AtomicU32>,
}

impl Unacknowledged {
    pub(crate) fn on(channel: &CompletionChannel) -> Self {
        Self { channel: Arc::clone(&channel.0), count: Arc::new(AtomicU32::new(0)) }
    }

    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    pub(crate) fn context(&self) -> *mut std::ffi::c_void {
        Arc::as_ptr(&self.count).cast_mut().cast()
    }

    /// Destroys the queue. Destroying waits for every event to be acknowledged, for ever.
    pub(crate) fn destroy(&self, cq: *mut sys::ibv_cq) {
        let _reading = self.channel.lock();
        acknowledge(cq, &self.count);
        // SAFETY: created once, destroyed once, by its owner's drop.
        let code = unsafe { sys::ibv_destroy_cq(cq) };
        if code != 0 {
            // It can still have events, which point at the count.
            std::mem::forget(Arc::clone(&self.count));
        }
    }
}

/// Where completion queues report events, and a thread sleeps until one does. Clones are handles
/// to the same one; the module's page says how no event is missed.
#[derive(Clone)]
pub struct CompletionChannel(pub(crate) Arc<Channel>);

impl fmt::Debug for CompletionChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionChannel").field("fd", &self.as_fd()).finish_non_exhaustive()
    }
}

impl AsFd for CompletionChannel {
    /// The descriptor that becomes readable when an event waits, for a poll set of the caller's.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Context {
    /// Creates a channel for completion events.
    ///
    /// # Errors
    ///
    /// [`Error::Call`](crate::Error::Call).
    pub fn create_completion_channel(&self) -> Result<CompletionChannel> {
        // SAFETY: the context is open.
        let raw = unsafe { sys::ibv_create_comp_channel(self.0.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let cure = "each channel is a file descriptor: raise the limit (ulimit -n)";
            let errno = io::Error::last_os_error();
            self.0.call_failed("ibv_create_comp_channel", errno, cure)
        })?;
        let channel = Channel { raw, context: Arc::clone(&self.0), reading: Mutex::new(()) };
        set_nonblocking(&self.0, channel.as_fd())?;
        Ok(CompletionChannel(Arc::new(channel)))
    }
}

impl CompletionChannel {
    /// Sleeps until a queue of this channel has an event, at most for `timeout`, and takes the
    /// event. `false` when there was none.
    ///
    /// Nothing is said about what can be polled: after `true` it may be nothing, and after `false`
    /// it is worth a look all the same. A device that is taken away need not wake anybody
    /// (soft-RoCE does not): wait in pieces, and look at [`Context::check`] between them. Two system
    /// calls.
    ///
    /// # Errors
    ///
    /// [`Error::Call`](crate::Error::Call) when the channel cannot be read, as after the device was removed.
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let limit = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut fds, limit.as_ref()) {
                Ok(0) => return Ok(false),
                // Another thread may have been faster.
                Ok(_) => {
                    if self.0.take()? {
                        return Ok(true);
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    let cure = "this is not expected to happen";
                    return Err(self.0.context.call_failed("poll", errno.into(), cure));
                }
            }
        }
    }
}
