//! The extended interface: requests built by function calls (`ibv_wr_*`) and completions read
//! field by field, with the device's time (`ibv_cq_ex`).
//!
//! Where a provider has it, it spares copying every request into a structure and out again, and it
//! is the only way to the time at which the device completed a request. Where it is absent, or the
//! provider's is known to be wrong, the plain interface does the same work: what is posted is the
//! same [`SendRequest`](crate::SendRequest), what comes out the same
//! [`Completion`](crate::Completion). [`Context::extended_support`] tells which there is.
//!
//! An [`ExtendedQueuePair`] can complete to an ordinary [`CompletionQueue`]
//! and an ordinary queue pair to an [`ExtendedCompletionQueue`].
#![allow(unsafe_code)]

use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::error::{Error, Result, errno_of};
use crate::queue_pair::QueuePairOptions;
use crate::sys;
use crate::sysfs::Sysfs;

mod poll;
mod post;

pub use poll::{ExtendedCompletionQueue, TimedCompletion};
pub use post::ExtendedQueuePair;

/// The clock of completion time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceClock {
    /// The bits of a time stamp that count; it starts again from 0 after them.
    pub mask: u64,
    /// Ticks per millisecond.
    pub khz: u64,
}

impl DeviceClock {
    /// Nanoseconds from one time stamp to a later one, less than a round of the clock apart;
    /// `None` if the device does not say how fast its clock is.
    #[must_use]
    pub fn nanoseconds(&self, from: u64, to: u64) -> Option<u64> {
        let ticks = u128::from(to.wrapping_sub(from) & self.mask);
        u64::try_from((ticks * 1_000_000).checked_div(u128::from(self.khz))?).ok()
    }
}

/// What of the extended interface a device's provider has, found out by making one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtendedSupport {
    /// Whether requests can be built by function calls.
    pub queue_pair: bool,
    /// Whether completions can be read field by field.
    pub completion_queue: bool,
    /// The clock of the time stamps, if completions can have any.
    pub timestamps: Option<DeviceClock>,
    /// Whether to use what there is unless told otherwise. Not on soft-RoCE, whose provider has
    /// had faults in both halves (rdma-core 44: lists of segments, the end of a poll).
    pub advised: bool,
}

impl Context {
    /// The device's time now, in ticks of its clock: with the host's time around the call it
    /// places the time stamps of completions between the host's own. A system call, or a read over
    /// the bus.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] where the device does not tell, [`Error::Call`].
    pub fn device_time(&self) -> Result<u64> {
        let mut values = sys::ibv_values_ex {
            comp_mask: sys::ibv_values_mask::IBV_VALUES_MASK_RAW_CLOCK.0,
            raw_clock: libc::timespec { tv_sec: 0, tv_nsec: 0 },
        };
        // SAFETY: the context is open, and `values` is a valid place that says what is asked for.
        let code = unsafe { sys::ibv_query_rt_values_ex(self.0.as_ptr(), &raw mut values) };
        match code {
            0 => Ok(ticks(values.raw_clock)),
            _ => {
                let errno = errno_of(code);
                Err(match errno.raw_os_error() {
                    Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => Error::Unsupported {
                        device: self.name().to_owned(),
                        what: "telling its time (ibv_query_rt_values_ex)".to_owned(),
                    },
                    _ => {
                        let cure = "has the device been removed?";
                        self.0.call_failed("ibv_query_rt_values_ex", errno, cure)
                    }
                })
            }
        }
    }

    /// Finds out what of the extended interface there is. Makes and destroys some objects.
    ///
    /// # Errors
    ///
    /// What making a domain and queues gives, but [`Error::Unsupported`].
    pub fn extended_support(&self) -> Result<ExtendedSupport> {
        let limits = self.extended_limits()?;
        let queue = offered(self.create_extended_completion_queue(1, false))?;
        let timed = if limits.completion_timestamp_mask == 0 {
            None
        } else {
            offered(self.create_extended_completion_queue(1, true))?
        };
        let plain: CompletionQueue = self.create_completion_queue(1)?;
        let options =
            QueuePairOptions { send_depth: 1, recv_depth: 1, ..QueuePairOptions::default() };
        let pd = self.alloc_pd()?;
        let queue_pair = offered(pd.create_extended_queue_pair(&plain, &plain, &options))?;
        Ok(ExtendedSupport {
            queue_pair: queue_pair.is_some(),
            completion_queue: queue.is_some(),
            timestamps: timed.and_then(|queue| queue.clock()),
            advised: !is_soft_roce(self),
        })
    }
}

/// The interface has a time here, and providers put ticks in place of its nanoseconds.
fn ticks(clock: libc::timespec) -> u64 {
    let seconds = clock.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
    seconds.wrapping_add(clock.tv_nsec.cast_unsigned())
}

fn is_soft_roce(context: &Context) -> bool {
    // Soft-RoCE alone has this attribute: the interface it runs on.
    Sysfs::default().device(context.name()).join("parent").exists()
}

/// The object, or `None` if the device does not offer it.
fn offered<T>(made: Result<T>) -> Result<Option<T>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(Error::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_differ_by_the_devices_ticks_even_over_a_round() {
        let clock = DeviceClock { mask: (1 << 48) - 1, khz: 156_250 };
        assert_eq!(clock.nanoseconds(1000, 1000 + 156_250), Some(1_000_000));
        assert_eq!(clock.nanoseconds((1 << 48) - 10, 146), Some(156 * 64 / 10));
        let whole = DeviceClock { mask: u64::MAX, khz: 1_000_000 };
        assert_eq!(whole.nanoseconds(u64::MAX, 4), Some(5));
        assert_eq!(DeviceClock { mask: 1, khz: 0 }.nanoseconds(0, 1), None);
    }

    #[test]
    fn the_devices_time_is_all_of_what_it_says() {
        assert_eq!(ticks(libc::timespec { tv_sec: 0, tv_nsec: 7 << 40 }), 7 << 40);
        assert_eq!(ticks(libc::timespec { tv_sec: 2, tv_nsec: 5 }), 2_000_000_005);
    }

    #[test]
    fn only_the_absence_of_a_thing_is_no_error() {
        let unsupported = || Error::Unsupported { device: "d".to_owned(), what: "this".to_owned() };
        assert!(offered::<()>(Err(unsupported())).unwrap().is_none());
        assert!(offered::<()>(Err(Error::NoDevice)).is_err());
        assert!(offered(Ok(())).unwrap().is_some());
    }
}
