//! What can go wrong in the connection manager.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::cm::event::Outcome;

/// Why a connection could not be made or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CmError {
    /// There is no connection manager on this host.
    #[error("no RDMA connection manager: {why}")]
    Unavailable {
        /// What is missing and how to get it.
        why: String,
    },

    /// The device's interface has no address that would do.
    #[error(
        "{device} has no {wanted} address to connect from: {found}; give its interface one (ip addr add), \
         or run where that interface is: another network namespace does not see it"
    )]
    NoAddress {
        /// The device's name.
        device: String,
        /// What kind of address is needed.
        wanted: &'static str,
        /// The interface and the addresses it has.
        found: String,
    },

    /// An address belongs to another device than the one named.
    #[error(
        "{address} belongs to RDMA device {found}, not to {wanted}; use an address of {wanted}'s \
         interface, or name {found}"
    )]
    OtherDevice {
        /// The address bound to.
        address: SocketAddr,
        /// The device named.
        wanted: String,
        /// The device the kernel chose.
        found: String,
    },

    /// A call failed at once.
    #[error("{call} for {subject} failed: {errno}; {cure}")]
    Call {
        /// The C function.
        call: &'static str,
        /// Address or connection.
        subject: String,
        /// The error number it gave.
        errno: io::Error,
        /// What is likely to help.
        cure: &'static str,
    },

    /// The connection manager reported a failure.
    #[error("{step} of {subject} failed: {outcome}; {}", outcome.cure())]
    Failed {
        /// What was under way.
        step: &'static str,
        /// Both addresses and the device.
        subject: String,
        /// The event and its status.
        outcome: Outcome,
        /// What the peer sent along when it refused; padded with zeros to the transport's size.
        private_data: Vec<u8>,
    },

    /// The connection manager reported nothing in time.
    #[error("{step} of {subject}: nothing heard in {waited:?}; {cure}")]
    TimedOut {
        /// What was under way.
        step: &'static str,
        /// Both addresses and the device.
        subject: String,
        /// The time allowed.
        waited: Duration,
        /// What is likely to help.
        cure: &'static str,
    },

    /// More private data than the message has room for.
    #[error("{length} bytes of private data, the message has room for {most}; send less")]
    PrivateData {
        /// Bytes given.
        length: usize,
        /// Bytes at most.
        most: usize,
    },
}

impl CmError {
    /// Whether only the time ran out: waiting again may bring it.
    #[must_use]
    pub fn is_time_out(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// The event that ended it, if one did.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Failed { outcome, .. } => Some(*outcome),
            _ => None,
        }
    }
}
