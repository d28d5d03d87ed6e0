//! The side that waits: listening, and answering a request.
#![allow(unsafe_code)]

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::cm::connection::Connection;
use crate::cm::error::CmError;
use crate::cm::event::EventCode;
use crate::cm::id::{Heard, Id, Service, call_failed};
use crate::cm::{ACCEPT_DATA, REJECT_DATA, agreed, parameters, prove, state, until};
use crate::connect::ConnectOptions;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::queue_pair::QueuePair;
use crate::sys;

/// Waits for requests to connect at one address of one device.
pub struct Listener {
    id: Id,
    context: Context,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("at", &self.id.subject()).finish_non_exhaustive()
    }
}

impl AsFd for Listener {
    /// Readable when a request waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.id.as_fd()
    }
}

impl Listener {
    /// Listens at `address`, which must be one of `context`'s device; port 0 takes any that is
    /// free. At most `backlog` requests wait at a time.
    ///
    /// # Errors
    ///
    /// [`CmError::OtherDevice`] when the address belongs to another device,
    /// [`CmError::Call`] when no device has it or the port is taken, [`CmError::Unavailable`].
    pub fn bind(context: &Context, address: SocketAddr, backlog: u16) -> Result<Self> {
        Self::listen(Id::new(Service::Connection)?, context, address, backlog)
    }

    pub(crate) fn listen(
        id: Id,
        context: &Context,
        address: SocketAddr,
        backlog: u16,
    ) -> Result<Self> {
        id.bind(address)?;
        prove(&id, context, address)?;
        // SAFETY: the identifier is alive.
        if unsafe { sys::rdma_listen(id.as_ptr(), backlog.into()) } != 0 {
            return Err(call_failed("rdma_listen", &address.to_string()).into());
        }
        Ok(Self { id, context: context.clone() })
    }

    /// The address it listens at, with the port it got.
    ///
    /// # Errors
    ///
    /// [`CmError::Call`] if the library does not know it, which is not expected to happen.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.id.local().ok_or_else(|| call_failed("rdma_listen", &self.id.subject()).into())
    }

    /// The next request to connect.
    ///
    /// # Errors
    ///
    /// [`CmError::TimedOut`] when none came, after which it can be called again;
    /// [`CmError::Failed`] when the device goes away; [`CmError::OtherDevice`] for a request that
    /// came over another device.
    pub fn next(&self, timeout: Duration) -> Result<Request> {
        let wanted = [EventCode::CONNECT_REQUEST];
        let cure = "no peer has asked to connect: is it started, and with this address and port?";
        let heard = self.id.expect("listening", &wanted, until(timeout), cure)?;
        let id = self.id.of_request(&heard)?;
        let id = id.ok_or(Error::Foreign { what: "the event", parent: "listener" })?;
        if let Some(address) = id.local() {
            prove(&id, &self.context, address)?;
        }
        Ok(Request { id, heard })
    }
}

/// A peer's wish to connect. Dropping it refuses.
pub struct Request {
    pub(crate) id: Id,
    heard: Heard,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("from", &self.peer_addr()).finish_non_exhaustive()
    }
}

impl Request {
    /// What the peer sent along, padded with zeros to the size of the message on InfiniBand and
    /// RoCE: [`REQUEST_DATA`](crate::cm::REQUEST_DATA) bytes for a connection.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.heard.private_data
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.id.remote()
    }

    /// Takes a new queue pair to INIT, so that receives can be posted before the peer is told
    /// that it may send. [`Request::accept`] does it too if it has not been done.
    ///
    /// # Errors
    ///
    /// [`CmError::OtherDevice`] for a queue pair of another device, [`Error::Unsupported`] for one
    /// that is not a reliable connection, [`Error::Call`].
    pub fn prepare(&self, queue_pair: &QueuePair, options: &ConnectOptions) -> Result<()> {
        state::suits(&self.id, queue_pair, options)?;
        state::to_init(&self.id, queue_pair, options)
    }

    /// Connects `queue_pair` to the peer, with up to [`ACCEPT_DATA`] bytes of `private_data` for
    /// it, and waits until the peer knows.
    ///
    /// # Errors
    ///
    /// What [`Request::prepare`] gives; [`CmError::PrivateData`]; [`CmError::Failed`] when the
    /// peer gave up, [`CmError::TimedOut`] when it is silent.
    pub fn accept(
        self,
        queue_pair: &QueuePair,
        options: &ConnectOptions,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Connection> {
        let waiting = until(timeout);
        let depths = agreed(queue_pair, &self.heard);
        let mut given = parameters(queue_pair, options, depths, private_data, ACCEPT_DATA)?;
        self.prepare(queue_pair, options)?;
        state::to_ready(&self.id, queue_pair, options, depths)?;
        // SAFETY: the identifier is alive; the private data lives through the call.
        if unsafe { sys::rdma_accept(self.id.as_ptr(), &raw mut given) } != 0 {
            return Err(call_failed("rdma_accept", &self.id.subject()).into());
        }
        let cure = "the peer asked to connect and is silent since: look whether it is alive";
        self.id.expect("accepting", &[EventCode::ESTABLISHED], waiting, cure)?;
        Ok(Connection::new(self.id, self.heard.private_data))
    }

    /// Refuses, with up to [`REJECT_DATA`] bytes for the peer to say why.
    ///
    /// # Errors
    ///
    /// [`CmError::PrivateData`], [`CmError::Call`].
    pub fn reject(self, private_data: &[u8]) -> Result<()> {
        let (length, most) = (private_data.len(), REJECT_DATA);
        let Some(bytes) = u8::try_from(length).ok().filter(|_| length <= most) else {
            return Err(CmError::PrivateData { length, most }.into());
        };
        // SAFETY: the identifier is alive and the data has that length.
        let code =
            unsafe { sys::rdma_reject(self.id.as_ptr(), private_data.as_ptr().cast(), bytes) };
        if code == 0 { Ok(()) } else { Err(call_failed("rdma_reject", &self.id.subject()).into()) }
    }
}
