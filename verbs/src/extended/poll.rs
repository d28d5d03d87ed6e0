//! Completions read field by field, with the device's time.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::channel::{CompletionChannel, Unacknowledged};
use crate::completion::Completion;
use crate::completion_queue::{CompletionQueue, PollError};
use crate::context::{Context, Opened};
use crate::error::{Error, Result};
use crate::extended::{DeviceClock, is_soft_roce};
use crate::status::Status;
use crate::sys::{self, Zeroed, ibv_create_cq_wc_flags as fields, ibv_wc_flags};

/// The fields of every completion: what [`Completion`] has.
const FIELDS: u64 = (fields::IBV_WC_EX_WITH_BYTE_LEN.0
    | fields::IBV_WC_EX_WITH_IMM.0
    | fields::IBV_WC_EX_WITH_QP_NUM.0
    | fields::IBV_WC_EX_WITH_SRC_QP.0) as u64;
/// The device's time beside them.
const TIME: u64 = fields::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP.0 as u64;

/// One completed work request, and when the device completed it.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct TimedCompletion {
    /// As from an ordinary queue.
    pub completion: Completion,
    /// The device's time in ticks of [`ExtendedCompletionQueue::clock`]; `None` without time
    /// stamps.
    pub timestamp: Option<u64>,
}

/// A completion queue of the extended interface. Clones are handles to the same one.
#[derive(Clone)]
pub struct ExtendedCompletionQueue {
    /// The same queue as queue pairs know it, which keeps it alive.
    queue: CompletionQueue,
    raw: NonNull<sys::ibv_cq_ex>,
    clock: Option<DeviceClock>,
    batch: Batch,
}

/// How completions are taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Batch {
    /// As many as there are between one start and one end, as the interface is meant.
    Many,
    /// A start and an end for each. The rxe provider of rdma-core 44 counts a completion too many
    /// when a poll ends after it has found nothing more, and then gives old ones again.
    One,
}

// SAFETY: libibverbs objects may be used from any thread at once; the queue is locked by the
// provider from the start of a poll to its end.
unsafe impl Send for ExtendedCompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for ExtendedCompletionQueue {}

impl fmt::Debug for ExtendedCompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtendedCompletionQueue")
            .field("capacity", &self.queue.capacity())
            .field("clock", &self.clock)
            .finish()
    }
}

impl Context {
    /// Creates a completion queue of the extended interface, with time stamps if `timestamps`,
    /// with room for at least `capacity` completions; see [`Context::create_completion_queue`].
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] where the provider does not have it, or not with time stamps, or
    /// beyond the device's limit; [`Error::Call`].
    pub fn create_extended_completion_queue(
        &self,
        capacity: u32,
        timestamps: bool,
    ) -> Result<ExtendedCompletionQueue> {
        self.create_extended(capacity, timestamps, None)
    }

    /// The same, with its events on `channel`: [`ExtendedCompletionQueue::queue`] can be armed and
    /// waited for.
    ///
    /// # Errors
    ///
    /// The same, and [`Error::Foreign`] for a channel of another device.
    pub fn create_extended_completion_queue_on(
        &self,
        channel: &CompletionChannel,
        capacity: u32,
        timestamps: bool,
    ) -> Result<ExtendedCompletionQueue> {
        if !Arc::ptr_eq(channel.0.context(), &self.0) {
            return Err(Error::Foreign { what: "the completion channel", parent: "device" });
        }
        self.create_extended(capacity, timestamps, Some(Unacknowledged::on(channel)))
    }

    fn create_extended(
        &self,
        capacity: u32,
        timestamps: bool,
        events: Option<Unacknowledged>,
    ) -> Result<ExtendedCompletionQueue> {
        let most = self.limits().completions;
        if capacity > most {
            let what = format!("a completion queue of {capacity} entries (at most {most})");
            return Err(Error::Unsupported { device: self.name().to_owned(), what });
        }
        let limits = self.extended_limits()?;
        let mask = limits.completion_timestamp_mask;
        if timestamps && mask == 0 {
            return Err(unsupported(&self.0, true));
        }
        let (value, channel) = match &events {
            Some(events) => (events.context(), events.channel().as_ptr()),
            None => (ptr::null_mut(), ptr::null_mut()),
        };
        let mut attr = sys::ibv_cq_init_attr_ex {
            cqe: capacity.max(1),
            cq_context: value,
            channel,
            comp_vector: 0,
            wc_flags: FIELDS | if timestamps { TIME } else { 0 },
            comp_mask: 0,
            flags: 0,
            parent_domain: ptr::null_mut(),
        };
        // SAFETY: the context is open and the attributes are filled; the queue keeps the channel
        // and what `value` points at.
        let raw = unsafe { sys::ibv_create_cq_ex(self.0.as_ptr(), &raw mut attr) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let errno = io::Error::last_os_error();
            match errno.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => {
                    unsupported(&self.0, timestamps)
                }
                _ => {
                    let cure = "choose a smaller queue, or look for ones left over (rdma resource \
                                show)";
                    self.0.call_failed("ibv_create_cq_ex", errno, cure)
                }
            }
        })?;
        // SAFETY: just made; an extended queue begins with an ordinary one, which is how
        // `ibv_cq_ex_to_cq` makes the one of the other.
        let queue = unsafe { CompletionQueue::adopt(raw.cast(), &self.0, events) };
        // SAFETY: the queue is alive and was made with these fields.
        if !unsafe { complete(raw, timestamps) } {
            return Err(unsupported(&self.0, timestamps));
        }
        let clock = timestamps.then_some(DeviceClock { mask, khz: limits.core_clock_khz });
        let batch = if is_soft_roce(self) { Batch::One } else { Batch::Many };
        Ok(ExtendedCompletionQueue { queue, raw, clock, batch })
    }
}

fn unsupported(context: &Opened, timestamps: bool) -> Error {
    let what = if timestamps {
        "completions with time stamps (ibv_cq_ex); take them without"
    } else {
        "completion queues of the extended interface (ibv_cq_ex); take plain ones"
    };
    Error::Unsupported { device: context.name().to_owned(), what: what.to_owned() }
}

/// Whether the provider has filled in every function that polling will call.
///
/// # Safety
///
/// `raw` is a queue that is alive.
unsafe fn complete(raw: NonNull<sys::ibv_cq_ex>, timestamps: bool) -> bool {
    // SAFETY: the caller promises a queue; its structure is public.
    let queue = unsafe { raw.as_ref() };
    queue.start_poll.is_some()
        && queue.next_poll.is_some()
        && queue.end_poll.is_some()
        && queue.read_opcode.is_some()
        && queue.read_vendor_err.is_some()
        && queue.read_byte_len.is_some()
        && queue.read_imm_data.is_some()
        && queue.read_qp_num.is_some()
        && queue.read_src_qp.is_some()
        && queue.read_wc_flags.is_some()
        && (queue.read_completion_ts.is_some() || !timestamps)
}

impl ExtendedCompletionQueue {
    /// The queue to create queue pairs with.
    #[must_use]
    pub fn queue(&self) -> &CompletionQueue {
        &self.queue
    }

    /// The clock of the time stamps, if it has any.
    #[must_use]
    pub fn clock(&self) -> Option<DeviceClock> {
        self.clock
    }

    /// Takes completions out of the queue, as [`CompletionQueue::poll`] does. Poll a queue of the
    /// extended interface with this only.
    ///
    /// # Errors
    ///
    /// [`PollError`] when the queue is broken.
    #[inline]
    pub fn poll<'a>(
        &self,
        into: &'a mut [TimedCompletion],
    ) -> Result<&'a [TimedCompletion], PollError> {
        // SAFETY: the queue is alive, and creating it has checked its functions.
        let count = unsafe { poll(self.raw, into, self.clock.is_some(), self.batch) }?;
        Ok(into.get(..count).unwrap_or_default())
    }
}

/// Polls `queue` into as many places as there are.
///
/// # Safety
///
/// `queue` is alive, and [`complete`] holds for it with these `timestamps`.
#[inline]
unsafe fn poll(
    queue: NonNull<sys::ibv_cq_ex>,
    into: &mut [TimedCompletion],
    timestamps: bool,
    batch: Batch,
) -> Result<usize, PollError> {
    let raw = queue.as_ptr();
    let (mut count, mut started) = (0, false);
    for place in into {
        let code = if started {
            // SAFETY: the caller promises a queue with all its functions; a poll was started.
            unsafe { sys::ibv_next_poll(raw) }
        } else {
            let mut attr = sys::ibv_poll_cq_attr { comp_mask: 0 };
            // SAFETY: as above; no poll is started.
            unsafe { sys::ibv_start_poll(raw, &raw mut attr) }
        };
        match code {
            0 => started = true,
            // What came before an error counts; the next poll tells the error again.
            code if code == libc::ENOENT || count > 0 => break,
            code => return Err(PollError { code }),
        }
        // SAFETY: between the start of a poll and its end there is a completion to read.
        *place = unsafe { read(raw, timestamps) };
        count += 1;
        if batch == Batch::One {
            // SAFETY: a poll was started, and is ended once.
            unsafe { sys::ibv_end_poll(raw) };
            started = false;
        }
    }
    if started {
        // SAFETY: a poll was started, and is ended once.
        unsafe { sys::ibv_end_poll(raw) };
    }
    Ok(count)
}

/// The completion that the poll is at.
///
/// # Safety
///
/// As for [`poll`], between the start of a poll and its end, at a completion.
#[inline]
unsafe fn read(raw: *mut sys::ibv_cq_ex, timestamps: bool) -> TimedCompletion {
    let mut entry = sys::ibv_wc::zeroed();
    // SAFETY: the provider sets this field for the completion that the poll is at, and changes it
    // only when the poll goes on.
    entry.wr_id = unsafe { (*raw).wr_id };
    // SAFETY: as above.
    entry.status = unsafe { (*raw).status };
    // SAFETY: this function and those below are there, by the caller's promise.
    entry.qp_num = unsafe { sys::ibv_wc_read_qp_num(raw) };
    if entry.status != Status::SUCCESS.0 {
        // Nothing else is good for a request that failed.
        // SAFETY: as above.
        entry.vendor_err = unsafe { sys::ibv_wc_read_vendor_err(raw) };
        return TimedCompletion { completion: Completion::from_raw(entry), timestamp: None };
    }
    // SAFETY: as above.
    entry.opcode = unsafe { sys::ibv_wc_read_opcode(raw) };
    // SAFETY: as above.
    entry.byte_len = unsafe { sys::ibv_wc_read_byte_len(raw) };
    // SAFETY: as above.
    entry.src_qp = unsafe { sys::ibv_wc_read_src_qp(raw) };
    // SAFETY: as above.
    entry.wc_flags = unsafe { sys::ibv_wc_read_wc_flags(raw) };
    if entry.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0 {
        // SAFETY: as above.
        entry.imm_data_invalidated_rkey_union.imm_data = unsafe { sys::ibv_wc_read_imm_data(raw) };
    }
    // SAFETY: as above, with time stamps.
    let timestamp = timestamps.then(|| unsafe { sys::ibv_wc_read_completion_ts(raw) });
    TimedCompletion { completion: Completion::from_raw(entry), timestamp }
}

#[cfg(test)]
mod tests;
