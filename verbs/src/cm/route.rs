//! The side that asks: finding the way to a peer, and connecting.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::net::SocketAddr;
use std::ptr;
use std::time::Duration;

use crate::cm::address::RawAddress;
use crate::cm::connection::Connection;
use crate::cm::event::EventCode;
use crate::cm::id::{Id, Service, call_failed};
use crate::cm::{REQUEST_DATA, agreed, milliseconds, own_depths, parameters, prove, state, until};
use crate::connect::ConnectOptions;
use crate::context::Context;
use crate::error::Result;
use crate::port::Port;
use crate::queue_pair::QueuePair;
use crate::sys;

/// `RDMA_OPTION_ID` and `RDMA_OPTION_ID_TOS` of `rdma/rdma_cma.h`.
const OPTION_ID: c_int = 0;
const OPTION_TYPE_OF_SERVICE: c_int = 0;

/// The way from a named device to a peer's address, found and not used yet.
pub struct Route {
    pub(crate) id: Id,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("of", &self.id.subject()).finish_non_exhaustive()
    }
}

impl Route {
    /// Finds the way from `port` of `context`'s device to `remote`: from the address of the port's
    /// interface in the remote one's network, else the first of its family.
    ///
    /// # Errors
    ///
    /// [`CmError`](crate::CmError): `NoAddress` when the interface has no address of the remote
    /// one's family, `OtherDevice` when the kernel takes another device for the address, `Failed`
    /// with [`EventCode::ADDR_ERROR`] or [`EventCode::ROUTE_ERROR`], `Call` when there is no route,
    /// `TimedOut`.
    pub fn resolve(
        context: &Context,
        port: &Port,
        remote: SocketAddr,
        options: &ConnectOptions,
        timeout: Duration,
    ) -> Result<Self> {
        let local = context.address_towards(port, remote.ip())?;
        Self::resolve_from(context, local, remote, options, timeout)
    }

    /// As [`Route::resolve`], from the address given, which must be of `context`'s device.
    ///
    /// # Errors
    ///
    /// As [`Route::resolve`].
    pub fn resolve_from(
        context: &Context,
        local: SocketAddr,
        remote: SocketAddr,
        options: &ConnectOptions,
        timeout: Duration,
    ) -> Result<Self> {
        Self::find(Id::new(Service::Connection)?, context, local, remote, options, timeout)
    }

    /// Finds the way for a new identifier.
    pub(crate) fn find(
        id: Id,
        context: &Context,
        local: SocketAddr,
        remote: SocketAddr,
        options: &ConnectOptions,
        timeout: Duration,
    ) -> Result<Self> {
        let waiting = until(timeout);
        id.bind(local)?;
        prove(&id, context, local)?;
        if options.traffic_class != 0 {
            let mut class = options.traffic_class;
            let place = (&raw mut class).cast::<c_void>();
            // SAFETY: the identifier is alive, and this option is one byte.
            let code = unsafe {
                sys::rdma_set_option(id.as_ptr(), OPTION_ID, OPTION_TYPE_OF_SERVICE, place, 1)
            };
            if code != 0 {
                return Err(call_failed("rdma_set_option(TOS)", &id.subject()).into());
            }
        }
        let mut raw = RawAddress::new(remote);
        let (none, limit) = (ptr::null_mut(), milliseconds(waiting.0));
        // SAFETY: the identifier is alive and bound, and the address whole; the call copies it.
        let code =
            unsafe { sys::rdma_resolve_addr(id.as_ptr(), none, raw.as_mut_ptr().cast(), limit) };
        if code != 0 {
            let subject = format!("{local} to {remote} over {}", context.name());
            return Err(call_failed("rdma_resolve_addr", &subject).into());
        }
        let cure = "the address does not answer: ping it from this interface";
        id.expect("resolving the address", &[EventCode::ADDR_RESOLVED], waiting, cure)?;
        prove(&id, context, local)?;
        // SAFETY: the identifier is alive and its address resolved.
        if unsafe { sys::rdma_resolve_route(id.as_ptr(), milliseconds(waiting.0)) } != 0 {
            return Err(call_failed("rdma_resolve_route", &id.subject()).into());
        }
        let cure = "no path was found: on InfiniBand, is a subnet manager running (sminfo)?";
        id.expect("resolving the route", &[EventCode::ROUTE_RESOLVED], waiting, cure)?;
        Ok(Self { id })
    }

    /// As [`Request::prepare`](crate::cm::Request::prepare), for this end.
    ///
    /// # Errors
    ///
    /// As [`Request::prepare`](crate::cm::Request::prepare).
    pub fn prepare(&self, queue_pair: &QueuePair, options: &ConnectOptions) -> Result<()> {
        state::suits(&self.id, queue_pair, options)?;
        state::to_init(&self.id, queue_pair, options)
    }

    /// Connects `queue_pair` to whoever listens, with up to [`REQUEST_DATA`] bytes of
    /// `private_data` for it.
    ///
    /// # Errors
    ///
    /// What [`Route::prepare`] gives, and [`CmError`](crate::CmError): `PrivateData`; `Failed` with
    /// [`EventCode::REJECTED`] when nobody listens or the peer refuses (its
    /// [`Outcome`](crate::cm::Outcome) tells which), or [`EventCode::UNREACHABLE`]; `TimedOut`.
    pub fn connect(
        self,
        queue_pair: &QueuePair,
        options: &ConnectOptions,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Connection> {
        let waiting = until(timeout);
        let own = own_depths(queue_pair);
        let mut given = parameters(queue_pair, options, own, private_data, REQUEST_DATA)?;
        self.prepare(queue_pair, options)?;
        // SAFETY: the identifier is alive and its route resolved; the private data lives through
        // the call.
        if unsafe { sys::rdma_connect(self.id.as_ptr(), &raw mut given) } != 0 {
            return Err(call_failed("rdma_connect", &self.id.subject()).into());
        }
        // iWARP's connection manager has done the rest by itself.
        let wanted = [EventCode::CONNECT_RESPONSE, EventCode::ESTABLISHED];
        let cure = "the peer does not answer: is it alive, its RDMA device up, UDP port 4791 open?";
        let heard = self.id.expect("connecting", &wanted, waiting, cure)?;
        if heard.outcome.event == EventCode::CONNECT_RESPONSE {
            state::to_ready(&self.id, queue_pair, options, agreed(queue_pair, &heard))?;
            // SAFETY: the identifier is alive and has the peer's answer.
            if unsafe { sys::rdma_establish(self.id.as_ptr()) } != 0 {
                return Err(call_failed("rdma_establish", &self.id.subject()).into());
            }
        }
        Ok(Connection::new(self.id, heard.private_data))
    }
}
