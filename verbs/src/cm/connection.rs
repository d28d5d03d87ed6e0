//! A connection that stands, and its end.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::cm::error::CmError;
use crate::cm::event::EventCode;
use crate::cm::id::{Heard, Id, call_failed};
use crate::cm::until;
use crate::error::Result;
use crate::sys;

/// A connection of two queue pairs. Dropping it ends the connection; the queue pair is the
/// caller's to destroy, before or after.
pub struct Connection {
    id: Id,
    private_data: Vec<u8>,
    /// Whether [`Connection::check`] has seen its end.
    ended: Cell<bool>,
}

impl Connection {
    pub(crate) fn new(id: Id, private_data: Vec<u8>) -> Self {
        Self { id, private_data, ended: Cell::new(false) }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("of", &self.id.subject()).finish_non_exhaustive()
    }
}

impl AsFd for Connection {
    /// Readable when there is something for [`Connection::check`] to tell.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.id.as_fd()
    }
}

impl Connection {
    /// What the peer sent along when it asked or accepted, padded with zeros to the message's
    /// size on InfiniBand and RoCE.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// The own address.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.id.local()
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.id.remote()
    }

    /// Whether the connection still stands. Does not block, but is a system call: look between
    /// batches, or when a wait lasts longer than expected.
    ///
    /// # Errors
    ///
    /// [`CmError::Failed`] when the peer has closed it, or the device goes away.
    pub fn check(&self) -> Result<()> {
        while let Some(Heard { outcome, private_data, .. }) = self.id.next()? {
            if outcome.event.ends_connection() {
                self.ended.set(true);
                // The answer that the peer waits for; a failure leaves it to its time-out.
                // SAFETY: the identifier is alive.
                unsafe { sys::rdma_disconnect(self.id.as_ptr()) };
                let (step, subject) = ("the connection", self.id.subject());
                return Err(CmError::Failed { step, subject, outcome, private_data }.into());
            }
        }
        Ok(())
    }

    /// Ends the connection and waits until the peer has ended it too: by the same, by dropping
    /// its end, or by asking [`Connection::check`]. Two ends held by one thread cannot wait for
    /// each other: drop one first.
    ///
    /// # Errors
    ///
    /// [`CmError::TimedOut`] when the peer does not; the connection is at an end all the same.
    pub fn disconnect(self, timeout: Duration) -> Result<()> {
        let waiting = until(timeout);
        if self.ended.get() {
            return Ok(());
        }
        // SAFETY: the identifier is alive.
        if unsafe { sys::rdma_disconnect(self.id.as_ptr()) } != 0 {
            let error = call_failed("rdma_disconnect", &self.id.subject());
            return match &error {
                // It is at its end already.
                CmError::Call { errno, .. } if errno.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                _ => Err(error.into()),
            };
        }
        let wanted = [EventCode::DISCONNECTED, EventCode::TIMEWAIT_EXIT];
        let cure = "the peer does not say that it is closed too: look whether it is alive";
        self.id.expect("disconnecting", &wanted, waiting, cure)?;
        Ok(())
    }
}
