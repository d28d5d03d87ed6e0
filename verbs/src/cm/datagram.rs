//! Finding a receiver of datagrams by IP address and port.
//!
//! Nothing is connected: the peer's program names one of its queue pairs, and the connection
//! manager brings its number, its Q_Key and the way to it. What is sent then is as with endpoints
//! exchanged otherwise: see [`ProtectionDomain::create_address_handle`] and
//! [`QueuePair::attach_peer`]. The peer learns nothing of this end's queue pair, unless it is told
//! in the private data.
//!
//! [`ProtectionDomain::create_address_handle`]: crate::ProtectionDomain::create_address_handle
#![allow(unsafe_code)]

use std::net::SocketAddr;
use std::time::Duration;

use crate::cm::error::CmError;
use crate::cm::event::EventCode;
use crate::cm::id::{Id, Reached, Service, call_failed};
use crate::cm::listener::{Listener, Request};
use crate::cm::route::Route;
use crate::cm::{Depths, parameters, state, until};
use crate::connect::{ConnectOptions, Endpoint};
use crate::context::Context;
use crate::error::{Error, Result, errno_of};
use crate::gid::Gid;
use crate::port::{Mtu, Port};
use crate::queue_pair::QueuePair;
use crate::sys::{self, Zeroed};

/// The Q_Key of datagrams by the connection manager, `RDMA_UDP_QKEY` of `rdma/rdma_cma.h`: queue
/// pairs that receive them must be activated with it (`ConnectOptions::qkey`).
pub const DATAGRAM_QKEY: u32 = 0x0123_4567;
/// Bytes of private data that a question for a receiver has room for: the 216 of the specification
/// (InfiniBand 12.11.1) less the 36 that carry the IP addresses.
pub const DATAGRAM_REQUEST_DATA: usize = 180;
/// Bytes of private data that the answer has room for (InfiniBand specification, 12.11.2).
pub const DATAGRAM_ANSWER_DATA: usize = 136;

/// A receiver of datagrams, and the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramPeer {
    /// The receiver. Its path MTU is that of the own port: the connection manager does not tell
    /// the peer's.
    pub endpoint: Endpoint,
    /// The Q_Key it expects.
    pub qkey: u32,
    /// The index of the own GID that leads to it.
    pub gid_index: u32,
    /// What it sent along, padded with zeros to [`DATAGRAM_ANSWER_DATA`] bytes.
    pub private_data: Vec<u8>,
}

impl Listener {
    /// Listens at `address` for those who look for a receiver of datagrams; see
    /// [`Listener::bind`]. Answer its requests with [`Request::answer`].
    ///
    /// # Errors
    ///
    /// As [`Listener::bind`].
    pub fn bind_datagram(context: &Context, address: SocketAddr, backlog: u16) -> Result<Self> {
        Self::listen(Id::new(Service::Datagram)?, context, address, backlog)
    }
}

impl Request {
    /// Names `queue_pair` as the receiver, with up to [`DATAGRAM_ANSWER_DATA`] bytes of
    /// `private_data`. It must be active, with [`DATAGRAM_QKEY`], and have receives posted.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a request or a queue pair that is not for datagrams, or one with
    /// another Q_Key, whose datagrams would be lost without a word; [`CmError::OtherDevice`],
    /// [`CmError::PrivateData`], [`CmError::Call`].
    pub fn answer(self, queue_pair: &QueuePair, private_data: &[u8]) -> Result<()> {
        let options = ConnectOptions::default();
        let unsupported = |what: String| {
            let device = queue_pair.context().name().to_owned();
            Err(Error::Unsupported { device, what })
        };
        if self.id.service() != Service::Datagram {
            return unsupported("a receiver of datagrams for who asks to connect".to_owned());
        }
        state::suits(&self.id, queue_pair, &options)?;
        let qkey = qkey_of(queue_pair)?;
        if qkey != DATAGRAM_QKEY {
            return unsupported(format!(
                "Q_Key {qkey:#x} by the connection manager; activate the queue pair with \
                 {DATAGRAM_QKEY:#x}"
            ));
        }
        let none = Depths { responder: 0, initiator: 0 };
        let mut given = parameters(queue_pair, &options, none, private_data, DATAGRAM_ANSWER_DATA)?;
        // SAFETY: the identifier is alive; the private data lives through the call.
        if unsafe { sys::rdma_accept(self.id.as_ptr(), &raw mut given) } != 0 {
            return Err(call_failed("rdma_accept", &self.id.subject()).into());
        }
        Ok(())
    }
}

fn qkey_of(queue_pair: &QueuePair) -> Result<u32> {
    let mut attr = sys::ibv_qp_attr::zeroed();
    let mut init = sys::ibv_qp_init_attr::zeroed();
    let fields = sys::ibv_qp_attr_mask::IBV_QP_QKEY.0.cast_signed();
    // SAFETY: the queue pair is alive and both places are valid.
    let code =
        unsafe { sys::ibv_query_qp(queue_pair.as_ptr(), &raw mut attr, fields, &raw mut init) };
    if code == 0 {
        return Ok(attr.qkey);
    }
    let cure = "has the device been removed?";
    Err(queue_pair.opened().call_failed("ibv_query_qp", errno_of(code), cure))
}

impl Route {
    /// As [`Route::resolve`], to ask for a receiver of datagrams with [`Route::ask`].
    ///
    /// # Errors
    ///
    /// As [`Route::resolve`].
    pub fn resolve_datagram(
        context: &Context,
        port: &Port,
        remote: SocketAddr,
        options: &ConnectOptions,
        timeout: Duration,
    ) -> Result<Self> {
        let local = context.address_towards(port, remote.ip())?;
        Self::find(Id::new(Service::Datagram)?, context, local, remote, options, timeout)
    }

    /// Asks who receives datagrams there, with up to [`DATAGRAM_REQUEST_DATA`] bytes of
    /// `private_data`, for `sender`, a UD queue pair on `port`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a route or queue pair that is not for datagrams;
    /// [`CmError::PrivateData`]; [`CmError::Failed`] with [`EventCode::UNREACHABLE`] when nobody
    /// listens or the peer refuses (its [`Outcome`](crate::cm::Outcome) tells which);
    /// [`CmError::TimedOut`].
    pub fn ask(
        self,
        sender: &QueuePair,
        port: &Port,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<DatagramPeer> {
        let (waiting, options) = (until(timeout), ConnectOptions::default());
        if self.id.service() != Service::Datagram {
            let what = "asking for a receiver by a route for connections".to_owned();
            return Err(Error::Unsupported { device: port.device.clone(), what });
        }
        state::suits(&self.id, sender, &options)?;
        let none = Depths { responder: 0, initiator: 0 };
        let mut given = parameters(sender, &options, none, private_data, DATAGRAM_REQUEST_DATA)?;
        // SAFETY: the identifier is alive and its route resolved; the private data lives through
        // the call.
        if unsafe { sys::rdma_connect(self.id.as_ptr(), &raw mut given) } != 0 {
            return Err(call_failed("rdma_connect", &self.id.subject()).into());
        }
        let cure = "the peer does not answer: is it alive, its RDMA device up, UDP port 4791 open?";
        let step = "asking for the receiver";
        let heard = self.id.expect(step, &[EventCode::ESTABLISHED], waiting, cure)?;
        let Some(Reached { address, qpn, qkey }) = heard.peer else {
            let (subject, outcome) = (self.id.subject(), heard.outcome);
            let private_data = heard.private_data;
            return Err(CmError::Failed { step, subject, outcome, private_data }.into());
        };
        // SAFETY: every byte pattern is a valid array of bytes.
        let gid = Gid(unsafe { address.grh.dgid.raw });
        Ok(DatagramPeer {
            endpoint: Endpoint {
                qpn,
                psn: 0,
                lid: address.dlid,
                gid,
                path_mtu: port.active_mtu.unwrap_or(Mtu::B1024).bytes(),
                responder_resources: 0,
            },
            qkey,
            gid_index: address.grh.sgid_index.into(),
            private_data: heard.private_data,
        })
    }
}
