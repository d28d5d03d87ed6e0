//! Asynchronous events: what happens to a device beside the work requests.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::context::{Context, Opened};
use crate::error::{Error, Result};
use crate::sys::{self, Zeroed};

/// `enum ibv_event_type` as an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventKind(pub i32);

impl EventKind {
    /// `IBV_EVENT_QP_FATAL`: a queue pair went to the error state.
    pub const QP_FATAL: Self = Self(1);
    /// `IBV_EVENT_DEVICE_FATAL`: the device failed or was removed.
    pub const DEVICE_FATAL: Self = Self(8);
    /// `IBV_EVENT_SRQ_LIMIT_REACHED`: a shared receive queue runs dry.
    pub const SHARED_RECEIVE_LIMIT: Self = Self(15);
    /// `IBV_EVENT_PORT_ACTIVE`.
    pub const PORT_ACTIVE: Self = Self(9);
    /// `IBV_EVENT_PORT_ERR`: the link went down.
    pub const PORT_ERR: Self = Self(10);

    /// The name, or `None` for a type newer than this crate.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 20] = [
            "completion queue error",
            "queue pair fatal error",
            "queue pair request error",
            "queue pair access error",
            "communication established",
            "send queue drained",
            "path migrated",
            "path migration failed",
            "device failed or removed",
            "port active",
            "port down",
            "LID changed",
            "partition keys changed",
            "subnet manager changed",
            "shared receive queue error",
            "shared receive queue limit reached",
            "last work request of the queue pair consumed",
            "client re-register asked for",
            "GID table changed",
            "work queue fatal error",
        ];
        NAMES.get(usize::try_from(self.0).ok()?).copied()
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "event {}", self.0),
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// The device as a whole.
    Device,
    /// A port, by number.
    Port(u8),
    /// A queue pair, by its number.
    QueuePair(u32),
    /// An object that has no number: a completion queue, a shared receive queue, or one of a
    /// kind this crate does not know.
    Object,
}

/// One asynchronous event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// To what.
    pub subject: Subject,
}

impl Event {
    /// Whether traffic on the subject cannot go on: device removed, port down, queue in error.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self.kind.0, 0..=3 | 8 | 10 | 14 | 19)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject {
            Subject::Port(number) => write!(f, "port {number}: {}", self.kind),
            Subject::QueuePair(number) => write!(f, "queue pair {number}: {}", self.kind),
            Subject::Device | Subject::Object => self.kind.fmt(f),
        }
    }
}

/// Makes reading events from `fd`, which is of `context`, give up instead of wait.
pub(crate) fn set_nonblocking(context: &Opened, fd: BorrowedFd<'_>) -> Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd);
    flags
        .and_then(|flags| rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK))
        .map_err(|errno| {
            context.call_failed("fcntl(O_NONBLOCK)", errno.into(), "this is not expected to happen")
        })
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open and its structure public.
        let fd = unsafe { (*self.as_ptr()).async_fd };
        // SAFETY: the descriptor stays open as long as the context, which `self` keeps.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl AsFd for Context {
    /// The descriptor that becomes readable when an event waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Context {
    /// The next asynchronous event, if one waits. Does not block, but is a system call: look
    /// between batches, or when a wait lasts longer than expected, not in the hot path.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] when the descriptor cannot be read.
    pub fn poll_async_event(&self) -> Result<Option<Event>> {
        let mut event = sys::AsyncEvent::zeroed();
        let place = (&raw mut event).cast::<sys::ibv_async_event>();
        // SAFETY: the context is open; `place` has the size and layout of the C structure, and
        // the integer in it takes any event type.
        let code = unsafe { sys::ibv_get_async_event(self.0.as_ptr(), place) };
        if code != 0 {
            let errno = io::Error::last_os_error();
            return match errno.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(self.0.call_failed(
                    "ibv_get_async_event",
                    errno,
                    "has the device been removed?",
                )),
            };
        }
        let seen = Event { kind: EventKind(event.event_type), subject: subject(&event) };
        // SAFETY: `place` holds the event just read, acknowledged once.
        unsafe { sys::ibv_ack_async_event(place) };
        Ok(Some(seen))
    }

    /// Whether the kernel still offers the device to new users.
    ///
    /// A driver that cannot take a device away from its users (soft-RoCE on Linux 6.1) sends no
    /// event when it is deleted: the deletion waits, and traffic goes on, until they have closed
    /// it. Only the device's node cannot be opened any more. A system call or two.
    #[must_use]
    pub fn is_present(&self) -> bool {
        // Opened rather than looked at: in a container the node is a copy that stays.
        let node = std::fs::File::options().read(true).write(true).open(self.0.node());
        !node.is_err_and(|error| {
            matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENXIO | libc::ENODEV))
        })
    }

    /// Whether the device is well: takes out all events that wait and looks for the device. For
    /// every loop that waits, now and then.
    ///
    /// # Errors
    ///
    /// [`Error::Fatal`] for the first event after which traffic cannot go
    /// on, [`Error::Removed`] when the device goes away.
    pub fn check(&self) -> Result<()> {
        while let Some(event) = self.poll_async_event()? {
            if event.is_fatal() {
                return Err(Error::Fatal { device: self.name().to_owned(), event });
            }
        }
        if self.is_present() {
            return Ok(());
        }
        Err(Error::Removed { device: self.name().to_owned() })
    }
}

/// Reads the element of an event that is not acknowledged yet.
fn subject(event: &sys::AsyncEvent) -> Subject {
    match event.event_type {
        1..=7 | 16 => {
            // SAFETY: for these types the element is a queue pair.
            let qp = unsafe { event.element.qp };
            // SAFETY: destroying a queue pair waits until its events are acknowledged, which
            // comes after this, so the pointer is good.
            Subject::QueuePair(unsafe { (*qp).qp_num })
        }
        9..=13 | 17 | 18 => {
            // SAFETY: for these types the element is a port number, and an integer is always
            // valid.
            let number = unsafe { event.element.port_num };
            Subject::Port(u8::try_from(number).unwrap_or(0))
        }
        8 => Subject::Device,
        _ => Subject::Object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_line_up_with_the_codes() {
        assert_eq!(EventKind::QP_FATAL.to_string(), "queue pair fatal error");
        assert_eq!(EventKind::DEVICE_FATAL.to_string(), "device failed or removed");
        assert_eq!(EventKind::PORT_ERR.to_string(), "port down");
        assert!(EventKind::SHARED_RECEIVE_LIMIT.to_string().contains("limit reached"));
        assert_eq!(EventKind(19).to_string(), "work queue fatal error");
        assert_eq!(EventKind(20).to_string(), "event 20");
        assert_eq!(EventKind(-1).to_string(), "event -1");
    }

    #[test]
    fn a_port_event_reads_only_the_number() {
        let mut raw = sys::AsyncEvent::zeroed();
        (raw.event_type, raw.element.port_num) = (10, 2);
        let event = Event { kind: EventKind(10), subject: subject(&raw) };
        assert_eq!(event.to_string(), "port 2: port down");
        assert!(event.is_fatal());
        raw.event_type = 1000;
        assert_eq!(subject(&raw), Subject::Object);
    }
}
