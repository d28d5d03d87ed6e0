//! Connecting by the RDMA connection manager (`rdma_cm`): by IP address and port, as sockets do.
//!
//! The connection manager finds the route, agrees on numbers with the peer's and takes both queue
//! pairs through their states. It is the only way to connect on iWARP, the usual one in storage
//! and message passing, and what `-R` means in perftest. The queue pair is an ordinary
//! [`QueuePair`], made in a domain of a [`Context`] that the caller opened: the connection manager
//! is told its number, so that posting and polling are the same either way.
//!
//! Which device an address belongs to is the kernel's decision. Every end here is for a *named*
//! device: it is bound to an address of that device's interface, and the device the kernel chose is
//! compared with the one named before anything is sent.
//!
//! Every wait has a deadline. After one has passed, the attempt is over; a [`Listener`] can go on.
//!
//! Datagrams have no connection, but their receiver can be found the same way:
//! [`Listener::bind_datagram`] and [`Route::resolve_datagram`].
//!
//! librdmacm keeps a context of its own open on each device it has used, until the process ends. A
//! deletion of the device (`rdma link delete`) may wait for that.
//!
//! ```no_run
//! use fabricbench_verbs::{cm, *};
//! use std::time::Duration;
//!
//! # fn main() -> Result<()> {
//! # let (context, port) = open(None, None)?;
//! # let pd = context.alloc_pd()?;
//! # let cq = context.create_completion_queue(64)?;
//! # let region = pd.register(4096, Access::REMOTE_WRITE)?;
//! let (patience, options) = (Duration::from_secs(5), ConnectOptions::default());
//! // One end:
//! let address = context.cm_addresses(&port)?[0];
//! let listener = cm::Listener::bind(&context, address, 8)?;
//! let request = listener.next(patience)?;
//! let qp = pd.create_queue_pair(&cq, &cq, &QueuePairOptions::default())?;
//! request.prepare(&qp, &options)?; // from here on, receives can be posted
//! let connection = request.accept(&qp, &options, &region.remote().to_bytes(), patience)?;
//! // The other end:
//! let route = cm::Route::resolve(&context, &port, listener.local_addr()?, &options, patience)?;
//! let connection = route.connect(&qp, &options, b"who I am", patience)?;
//! let target = RemoteRegion::from_bytes(connection.private_data());
//! connection.disconnect(patience)?;
//! # Ok(())
//! # }
//! ```

use std::ffi::c_int;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::connect::ConnectOptions;
use crate::context::Context;
use crate::error::Result;
use crate::queue_pair::QueuePair;
use crate::sys;

mod address;
mod connection;
mod datagram;
mod error;
mod event;
mod id;
mod listener;
mod route;
mod state;

pub use connection::Connection;
pub use datagram::{DATAGRAM_ANSWER_DATA, DATAGRAM_QKEY, DATAGRAM_REQUEST_DATA, DatagramPeer};
pub use error::CmError;
pub use event::{EventCode, Outcome};
pub use listener::{Listener, Request};
pub use route::Route;

use id::{Heard, Id};
use state::Depths;

/// Bytes of private data that a request to connect has room for: the 92 of the specification
/// (InfiniBand 12.6.5) less the 36 that carry the IP addresses.
pub const REQUEST_DATA: usize = 56;
/// Bytes of private data that an acceptance has room for (InfiniBand specification, 12.6.8).
pub const ACCEPT_DATA: usize = 196;
/// Bytes of private data that a refusal has room for (InfiniBand specification, 12.6.7).
pub const REJECT_DATA: usize = 148;

/// A deadline, and the time allowed until it for errors to say.
fn until(timeout: Duration) -> (Instant, Duration) {
    let now = Instant::now();
    // Longer than anyone waits, where the sum does not fit.
    (now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(1 << 30)), timeout)
}

/// Milliseconds for the kernel's own limit on a step, which must not be 0.
fn milliseconds(deadline: Instant) -> c_int {
    let left = deadline.saturating_duration_since(Instant::now()).as_millis().max(1);
    c_int::try_from(left).unwrap_or(c_int::MAX)
}

/// The device an identifier is bound to must be the one named.
fn prove(id: &Id, context: &Context, address: SocketAddr) -> Result<()> {
    match id.device() {
        Some(found) if found == context.name() => Ok(()),
        found => Err(CmError::OtherDevice {
            address,
            wanted: context.name().to_owned(),
            found: found.unwrap_or_else(|| "none (all of them)".to_owned()),
        }
        .into()),
    }
}

fn parameters(
    queue_pair: &QueuePair,
    options: &ConnectOptions,
    depths: Depths,
    private_data: &[u8],
    most: usize,
) -> Result<sys::rdma_conn_param> {
    let length = private_data.len();
    let too_long = CmError::PrivateData { length, most };
    let private_data_len = match u8::try_from(length) {
        Ok(length) if usize::from(length) <= most => length,
        _ => return Err(too_long.into()),
    };
    Ok(sys::rdma_conn_param {
        private_data: private_data.as_ptr().cast(),
        private_data_len,
        responder_resources: depths.responder,
        initiator_depth: depths.initiator,
        flow_control: 1,
        retry_count: options.retry,
        rnr_retry_count: options.rnr_retry,
        srq: queue_pair.shares_receives().into(),
        qp_num: queue_pair.number(),
    })
}

fn own_depths(queue_pair: &QueuePair) -> Depths {
    let limits = queue_pair.opened().limits();
    Depths { responder: limits.responder_resources, initiator: limits.initiator_depth }
}

/// What this end can do of what the peer asks.
fn agreed(queue_pair: &QueuePair, heard: &Heard) -> Depths {
    let own = own_depths(queue_pair);
    Depths {
        responder: own.responder.min(heard.responder_resources),
        initiator: own.initiator.min(heard.initiator_depth),
    }
}
