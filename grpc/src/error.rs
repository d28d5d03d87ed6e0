//! What can go wrong, said in one line each: what failed, on what, and what to do.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// How far a connection attempt had come when its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectStage {
    /// No answer to the TCP handshake.
    Tcp,
    /// TCP is connected, and the far side does not let the connection in.
    Door,
    /// TCP is connected, but the far side does not answer as a gRPC server.
    Grpc,
}

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The named network interface is not there.
    #[error("interface {interface} does not exist on this host: `ip link` lists those that do")]
    NoSuchInterface {
        /// The name as given.
        interface: String,
    },

    /// The name cannot be that of a network interface.
    #[error(
        "{interface:?} cannot be an interface name: it must have 1 to 15 bytes, no '/' and no space"
    )]
    InvalidInterfaceName {
        /// The name as given.
        interface: String,
    },

    /// A socket could not be tied to the interface, and there is no source address to tie it to
    /// instead.
    #[error(
        "cannot bind a socket to interface {interface}: {cause}; give a local address to bind to \
         instead, or run with CAP_NET_RAW"
    )]
    BindDevice {
        /// The interface asked for.
        interface: String,
        /// What the kernel said.
        cause: io::Error,
    },

    /// The server could not listen.
    #[error("cannot listen on {address}{}: {cause}; {}", on_interface(.interface), listen_advice(.cause))]
    Listen {
        /// The address asked for; port 0 asks for any free port.
        address: SocketAddr,
        /// The interface asked for.
        interface: Option<String>,
        /// What the kernel said.
        cause: io::Error,
    },

    /// The client could not connect.
    #[error("cannot connect to {peer}{}: {cause}; {}", on_interface(.interface), connect_advice(.cause))]
    Connect {
        /// The server's address.
        peer: SocketAddr,
        /// The interface asked for.
        interface: Option<String>,
        /// What the kernel said.
        cause: io::Error,
    },

    /// Nobody answered in time.
    #[error("no answer from {peer}{} within {after:?}; {}", on_interface(.interface), timeout_advice(.stage))]
    ConnectTimeout {
        /// The server's address.
        peer: SocketAddr,
        /// The interface asked for.
        interface: Option<String>,
        /// The time allowed.
        after: Duration,
        /// How far the attempt had come.
        stage: ConnectStage,
    },

    /// Something answers at the address, but not this crate's service.
    #[error(
        "{peer} does not speak this service: {detail}; is the port that of a gRPC server of fabricbench?"
    )]
    NotThisService {
        /// The server's address.
        peer: SocketAddr,
        /// What it said instead.
        detail: String,
    },

    /// The listener expects others.
    #[error(
        "{peer} refused the data connection: it expects one with another key; does another client use it?"
    )]
    OtherKey {
        /// The listener's address.
        peer: SocketAddr,
    },

    /// The listener does not show the key.
    #[error(
        "what listens at {peer} does not show the key of this test: it is another program; look at          what has that port"
    )]
    ForeignListener {
        /// The listener's address.
        peer: SocketAddr,
    },

    /// No key, or nothing new to show of it.
    #[error("the system gives no random numbers; see whether getrandom(2) is permitted")]
    NoRandom,

    /// A message larger than the tuning admits.
    #[error(
        "a message of {size} B is over the limit of {limit} B: raise the tuning's largest message"
    )]
    MessageTooLarge {
        /// Bytes in the message.
        size: u64,
        /// Bytes admitted.
        limit: u64,
    },

    /// A planned message that gRPC cannot carry: its length prefix has 32 bits.
    #[error(
        "a gRPC message has at most {} B, not {size} B: split it or choose a smaller size",
        crate::MAX_MESSAGE
    )]
    OverGrpcLimit {
        /// Bytes planned.
        size: u64,
    },

    /// The connection broke; it is never replaced by a new one in silence.
    #[error(
        "connection to {peer} lost during {method}: {detail}; see whether the server still runs"
    )]
    ConnectionLost {
        /// The server's address.
        peer: SocketAddr,
        /// The method that was running.
        method: &'static str,
        /// The innermost cause known.
        detail: String,
    },

    /// The server answered with a gRPC error.
    #[error("{peer} refused {method}: {code} ({message})")]
    Refused {
        /// The server's address.
        peer: SocketAddr,
        /// The method called.
        method: &'static str,
        /// What the gRPC status code means.
        code: &'static str,
        /// The server's own words.
        message: String,
    },

    /// The server ended a push before the client did, or replied with something else than a
    /// summary.
    #[error("{peer} broke the protocol of {method}: {detail}; do both sides run the same version?")]
    Protocol {
        /// The server's address.
        peer: SocketAddr,
        /// The method called.
        method: &'static str,
        /// What was wrong.
        detail: String,
    },

    /// The lean stack has less than tonic.
    #[error("the lean stack has no {what}: use tonic, tuned or stock")]
    NotLean {
        /// What was asked for.
        what: &'static str,
    },

    /// No certificate could be made.
    #[error("cannot make a certificate for TLS: {detail}; measure without TLS")]
    Certificate {
        /// What was wrong.
        detail: String,
    },

    /// The server stopped serving.
    #[error("server on {address} failed: {detail}; start it again")]
    Serve {
        /// Where it listened.
        address: SocketAddr,
        /// What was wrong.
        detail: String,
    },
}

fn on_interface(interface: &Option<String>) -> String {
    interface.as_ref().map(|name| format!(" on interface {name}")).unwrap_or_default()
}

/// What to do where the kernel has no file descriptor left.
fn descriptor_advice(cause: &io::Error) -> Option<&'static str> {
    let errno = rustix::io::Errno::from_io_error(cause)?;
    match errno {
        rustix::io::Errno::MFILE => {
            Some("raise this process's limit (ulimit -n), or use fewer connections")
        }
        rustix::io::Errno::NFILE => Some("raise the system's limit (sysctl fs.file-max)"),
        _ => None,
    }
}

fn listen_advice(cause: &io::Error) -> &'static str {
    if let Some(advice) = descriptor_advice(cause) {
        return advice;
    }
    match cause.kind() {
        io::ErrorKind::AddrInUse => "choose another port, or port 0 for any free one",
        io::ErrorKind::AddrNotAvailable => {
            "the address is not one of this host's: `ip addr` lists those that are"
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 need privileges: choose another",
        _ => "check the address and the interface",
    }
}

fn connect_advice(cause: &io::Error) -> &'static str {
    if let Some(advice) = descriptor_advice(cause) {
        return advice;
    }
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => "no server listens there: start it, or check the port",
        io::ErrorKind::AddrNotAvailable => {
            "the local address is not one of this host's: `ip addr` lists those that are"
        }
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            "no route leads there: check `ip route get` and that the interface is up"
        }
        io::ErrorKind::NetworkDown => "the interface is down: `ip link set ... up`",
        io::ErrorKind::InvalidInput => {
            "a link-local address needs its interface, as in fe80::1%eth0"
        }
        _ => "check the address, the interface and any firewall between",
    }
}

fn timeout_advice(stage: &ConnectStage) -> &'static str {
    match stage {
        ConnectStage::Tcp => "check the address, the interface and any firewall between",
        ConnectStage::Door => {
            "it does not let the connection in; is the port beset by others (see what the server says)?"
        }
        ConnectStage::Grpc => "TCP is connected, but no gRPC server answers: check the port",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_out_of_file_descriptors_is_not_told_of_firewalls() {
        let of = |errno: rustix::io::Errno| Error::Connect {
            peer: ([127, 0, 0, 1], 1).into(),
            interface: None,
            cause: errno.into(),
        };
        for (errno, word) in [
            (rustix::io::Errno::MFILE, "ulimit -n"),
            (rustix::io::Errno::NFILE, "fs.file-max"),
            (rustix::io::Errno::PROTO, "firewall"),
        ] {
            let text = of(errno).to_string();
            assert!(text.contains(word), "{text}");
        }
    }
}
