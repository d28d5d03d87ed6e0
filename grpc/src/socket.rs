//! Sockets that use the interface they are told to, on both sides.
//!
//! A route decides which interface carries a packet, and the route to an address is not always the
//! one the user believes. `SO_BINDTODEVICE` takes the decision away from the route. Where the
//! kernel does not permit it (before Linux 5.7 it needs CAP_NET_RAW), only the source address is
//! bound, and [`Binding`] says so: then the route still decides.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout_at;

use crate::error::{ConnectStage, Error, Result};
use crate::key::{self, Key, Verdict};
use crate::marks::Recorder;
use crate::tls::Identity;
use crate::tuning::Tuning;

/// IFNAMSIZ less the terminating zero (linux/if.h). The kernel cuts longer names short in silence.
const MAX_INTERFACE_NAME: usize = 15;

/// What ties a socket to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// SO_BINDTODEVICE: packets leave and arrive through this interface only.
    Device {
        /// The interface.
        interface: String,
    },
    /// The source address is bound; the kernel's route decides about the interface.
    SourceAddressOnly {
        /// The address.
        address: IpAddr,
        /// Why the socket is not bound to a device.
        why: String,
    },
    /// Neither was asked for; the kernel chooses source address and interface.
    Unbound,
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Address, best that of the interface; port 0 takes any free port.
    pub address: SocketAddr,
    /// Interface that connections must come through.
    pub interface: Option<String>,
    /// Connections that may wait to be accepted.
    pub backlog: u16,
    /// Whose TLS connections must be; `None`: plain TCP.
    pub identity: Option<Identity>,
    /// What connections must show, before TLS, and how many are let in; `None`: whoever comes.
    pub door: Option<(Key, usize)>,
}

impl ListenOptions {
    /// Listens on `address`, through whichever interface.
    pub fn new(address: SocketAddr) -> ListenOptions {
        ListenOptions { address, interface: None, backlog: 1024, identity: None, door: None }
    }

    /// Lets in `places` connections that show `key`, and nobody else.
    #[must_use]
    pub fn door(mut self, key: Key, places: usize) -> ListenOptions {
        self.door = Some((key, places));
        self
    }

    /// Speaks TLS, as `identity`.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> ListenOptions {
        self.identity = Some(identity);
        self
    }

    /// Accepts only what comes through `interface`.
    #[must_use]
    pub fn interface(mut self, interface: impl Into<String>) -> ListenOptions {
        self.interface = Some(interface.into());
        self
    }
}

/// Where a client connects to, and how.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The server's address. A link-local IPv6 address needs a scope, or `interface`.
    pub peer: SocketAddr,
    /// Interface that the connection must use.
    pub interface: Option<String>,
    /// Source address.
    pub local_address: Option<IpAddr>,
    /// Time allowed until the server has answered.
    pub timeout: Duration,
    /// Where calls are marked; `None`: nowhere.
    pub marks: Option<Arc<Recorder>>,
    /// Certificate of the server, PEM, that is trusted over TLS; `None`: plain TCP.
    pub certificate: Option<String>,
    /// What the listener asks to be shown, and shows; `None`: nothing.
    pub key: Option<Key>,
}

impl ConnectOptions {
    /// Connects to `peer` within ten seconds, through whichever interface.
    pub fn new(peer: SocketAddr) -> ConnectOptions {
        ConnectOptions {
            peer,
            interface: None,
            local_address: None,
            timeout: Duration::from_secs(10),
            marks: None,
            certificate: None,
            key: None,
        }
    }

    /// Shows `key`, and has it shown.
    #[must_use]
    pub fn key(mut self, key: Key) -> ConnectOptions {
        self.key = Some(key);
        self
    }

    /// Speaks TLS with a server that has this certificate, which is PEM
    /// ([`Identity::certificate`]).
    #[must_use]
    pub fn certificate(mut self, certificate: impl Into<String>) -> ConnectOptions {
        self.certificate = Some(certificate.into());
        self
    }

    /// Marks calls in `recorder`, which must be of this connection alone.
    #[must_use]
    pub fn marks(mut self, recorder: Arc<Recorder>) -> ConnectOptions {
        self.marks = Some(recorder);
        self
    }

    /// Connects through `interface`.
    #[must_use]
    pub fn interface(mut self, interface: impl Into<String>) -> ConnectOptions {
        self.interface = Some(interface.into());
        self
    }

    /// Connects from `address`.
    #[must_use]
    pub fn local_address(mut self, address: IpAddr) -> ConnectOptions {
        self.local_address = Some(address);
        self
    }

    /// Gives up after `timeout`.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> ConnectOptions {
        self.timeout = timeout;
        self
    }
}

/// A connected socket and what is known of it.
pub(crate) struct Connected {
    pub(crate) stream: TcpStream,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) binding: Binding,
}

/// A non-blocking listening socket. Needs no runtime.
///
/// # Errors
/// [`Error::Listen`], [`Error::NoSuchInterface`], [`Error::InvalidInterfaceName`],
/// [`Error::BindDevice`].
pub fn listen(options: &ListenOptions) -> Result<(std::net::TcpListener, Binding)> {
    let failed = |cause| Error::Listen {
        address: options.address,
        interface: options.interface.clone(),
        cause,
    };
    let socket = new_socket(options.address).map_err(failed)?;
    let address = scoped(options.address, options.interface.as_deref(), &socket)?;
    let source = Some(address.ip()).filter(|ip| !ip.is_unspecified());
    let binding = bind_device(&socket, options.interface.as_deref(), source)?;
    // As std does: a port in TIME_WAIT does not keep a server from starting.
    socket.set_reuse_address(true).map_err(failed)?;
    socket.bind(&address.into()).map_err(failed)?;
    socket.listen(i32::from(options.backlog)).map_err(failed)?;
    Ok((socket.into(), binding))
}

/// Connects within the options' timeout.
pub(crate) async fn connect(options: &ConnectOptions, tuning: &Tuning) -> Result<Connected> {
    let deadline = tokio::time::Instant::now() + options.timeout;
    loop {
        let (socket, peer, binding) = bound(options)?;
        let connecting = TcpSocket::from_std_stream(socket.into()).connect(peer);
        let mut stream = timeout_at(deadline, connecting)
            .await
            .map_err(|_| late(options, ConnectStage::Tcp))?
            .map_err(|cause| failed(options, cause))?;
        if let Some(key) = &options.key {
            let shown = timeout_at(deadline, key::show(&mut stream, key))
                .await
                .map_err(|_| late(options, ConnectStage::Door))??;
            if !is_taken(shown, options)? {
                timeout_at(deadline, tokio::time::sleep(key::RETRY))
                    .await
                    .map_err(|_| late(options, ConnectStage::Door))?;
                continue;
            }
        }
        let set = || {
            set_options(&stream, tuning)?;
            stream.local_addr()
        };
        let local = set().map_err(|cause| failed(options, cause))?;
        return Ok(Connected { stream, local, peer, binding });
    }
}

/// Connects a plain blocking socket within the options' timeout: the same path as a
/// [`Client`](crate::Client)'s, without gRPC on it. Needs no runtime.
///
/// # Errors
/// [`Error::Connect`], [`Error::ConnectTimeout`], [`Error::NoSuchInterface`],
/// [`Error::InvalidInterfaceName`], [`Error::BindDevice`]; where a key is shown [`Error::OtherKey`],
/// [`Error::ForeignListener`], [`Error::NoRandom`].
pub fn connect_blocking(options: &ConnectOptions) -> Result<(std::net::TcpStream, Binding)> {
    connect_blocking_unless(options, &|| false)
}

/// The same, until `is_over` says that nobody wants the connection any more, which it is asked several times
/// a second while the listener is waited for.
///
/// # Errors
/// As [`connect_blocking`]; where it is over, [`Error::ConnectTimeout`].
pub fn connect_blocking_unless(
    options: &ConnectOptions,
    is_over: &dyn Fn() -> bool,
) -> Result<(std::net::TcpStream, Binding)> {
    let deadline = Instant::now() + options.timeout;
    loop {
        let (socket, peer, binding) = bound(options)?;
        let left = deadline.saturating_duration_since(Instant::now());
        // A time of zero means something else to the socket.
        socket.connect_timeout(&peer.into(), left.max(Duration::from_millis(1))).map_err(
            |cause| match cause.kind() {
                io::ErrorKind::TimedOut => late(options, ConnectStage::Tcp),
                _ => failed(options, cause),
            },
        )?;
        socket.set_nonblocking(false).map_err(|cause| failed(options, cause))?;
        let stream = socket.into();
        if let Some(key) = &options.key
            && !is_taken(key::show_blocking(&stream, key, deadline, is_over)?, options)?
        {
            std::thread::sleep(key::RETRY);
            continue;
        }
        return Ok((stream, binding));
    }
}

/// Whether the listener has let the connection in that showed it a key; if it was cut off among strangers,
/// another may be.
fn is_taken(shown: io::Result<Verdict>, options: &ConnectOptions) -> Result<bool> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    let peer = options.peer;
    match shown {
        Ok(Verdict::Taken) => Ok(true),
        Ok(Verdict::Refused) => Err(Error::OtherKey { peer }),
        Ok(Verdict::Foreign) => Err(Error::ForeignListener { peer }),
        Err(cause) => match cause.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => Ok(false),
            TimedOut => Err(late(options, ConnectStage::Door)),
            _ => Err(failed(options, cause)),
        },
    }
}

fn failed(options: &ConnectOptions, cause: io::Error) -> Error {
    Error::Connect { peer: options.peer, interface: options.interface.clone(), cause }
}

fn late(options: &ConnectOptions, stage: ConnectStage) -> Error {
    Error::ConnectTimeout {
        peer: options.peer,
        interface: options.interface.clone(),
        after: options.timeout,
        stage,
    }
}

/// A socket bound as the options say, and the peer's address with its scope.
fn bound(options: &ConnectOptions) -> Result<(Socket, SocketAddr, Binding)> {
    let failed = |cause| failed(options, cause);
    let socket = new_socket(options.peer).map_err(failed)?;
    let peer = scoped(options.peer, options.interface.as_deref(), &socket)?;
    let binding = bind_device(&socket, options.interface.as_deref(), options.local_address)?;
    if let Some(address) = options.local_address {
        let local = match (address, peer) {
            // A link-local source needs the scope as well.
            (IpAddr::V6(ip), SocketAddr::V6(peer)) => {
                SocketAddr::V6(SocketAddrV6::new(ip, 0, 0, peer.scope_id()))
            }
            _ => SocketAddr::new(address, 0),
        };
        socket.bind(&local.into()).map_err(failed)?;
    }
    Ok((socket, peer, binding))
}

/// Options of a connected socket, the same on both sides.
///
/// TCP_NODELAY must be on on both: with it off on either, replies of 200 to 300 B wait 40 ms for a
/// delayed acknowledgement.
pub(crate) fn set_options(stream: &TcpStream, tuning: &Tuning) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if let Some(keepalive) = tuning.keepalive() {
        let socket = SockRef::from(stream);
        socket.set_tcp_keepalive(
            &TcpKeepalive::new()
                .with_time(keepalive.idle)
                .with_interval(keepalive.interval)
                .with_retries(keepalive.probes),
        )?;
        socket.set_tcp_user_timeout(Some(keepalive.user_timeout))?;
    }
    Ok(())
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Gives a link-local address the scope of the interface, unless it has one.
fn scoped(address: SocketAddr, interface: Option<&str>, socket: &Socket) -> Result<SocketAddr> {
    let Some(interface) = interface else { return Ok(address) };
    check_name(interface)?;
    match address {
        SocketAddr::V6(v6) if v6.scope_id() == 0 && v6.ip().is_unicast_link_local() => {
            let index = rustix::net::netdevice::name_to_index(socket, interface)
                .map_err(|_| Error::NoSuchInterface { interface: interface.to_owned() })?;
            Ok(SocketAddr::V6(SocketAddrV6::new(*v6.ip(), v6.port(), v6.flowinfo(), index)))
        }
        _ => Ok(address),
    }
}

fn bind_device(
    socket: &Socket,
    interface: Option<&str>,
    source: Option<IpAddr>,
) -> Result<Binding> {
    let Some(interface) = interface else {
        return Ok(source.map_or(Binding::Unbound, |address| Binding::SourceAddressOnly {
            address,
            why: "no interface was asked for".to_owned(),
        }));
    };
    check_name(interface)?;
    settle(socket.bind_device(Some(interface.as_bytes())), interface, source)
}

/// What the kernel's answer to SO_BINDTODEVICE means.
fn settle(answer: io::Result<()>, interface: &str, source: Option<IpAddr>) -> Result<Binding> {
    let interface = interface.to_owned();
    let Err(cause) = answer else { return Ok(Binding::Device { interface }) };
    if cause.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) {
        return Err(Error::NoSuchInterface { interface });
    }
    match source {
        Some(address) if cause.kind() == io::ErrorKind::PermissionDenied => {
            Ok(Binding::SourceAddressOnly {
                address,
                why: format!(
                    "binding to {interface} is not permitted ({cause}): Linux before 5.7 wants \
                     CAP_NET_RAW for it"
                ),
            })
        }
        _ => Err(Error::BindDevice { interface, cause }),
    }
}

fn check_name(interface: &str) -> Result<()> {
    let fits = (1..=MAX_INTERFACE_NAME).contains(&interface.len());
    if fits && !interface.contains(|c: char| c == '/' || c == '\0' || c.is_whitespace()) {
        return Ok(());
    }
    Err(Error::InvalidInterfaceName { interface: interface.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> io::Result<()> {
        Err(rustix::io::Errno::PERM.into())
    }

    #[test]
    fn without_permission_the_source_address_is_bound_and_said_so() {
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        let binding = settle(refused(), "ib0", Some(address)).unwrap();
        let Binding::SourceAddressOnly { address: bound, why } = binding else {
            panic!("{binding:?}")
        };
        assert_eq!(bound, address);
        assert!(why.contains("ib0") && why.contains("CAP_NET_RAW"), "{why}");
    }

    #[test]
    fn without_permission_and_without_a_source_address_it_is_an_error() {
        let error = settle(refused(), "ib0", None).unwrap_err();
        assert!(matches!(error, Error::BindDevice { .. }), "{error}");
        assert!(error.to_string().contains("ib0"), "{error}");
    }

    #[test]
    fn only_a_missing_permission_falls_back() {
        let address = Some("10.0.0.1".parse().unwrap());
        let error = settle(Err(rustix::io::Errno::INVAL.into()), "ib0", address).unwrap_err();
        assert!(matches!(error, Error::BindDevice { .. }), "{error}");
    }

    #[test]
    fn link_local_addresses_get_the_scope_of_the_interface() {
        let scope = |address: &str, interface: Option<&str>| {
            let address = address.parse().unwrap();
            match scoped(address, interface, &new_socket(address).unwrap()).unwrap() {
                SocketAddr::V6(v6) => v6.scope_id(),
                SocketAddr::V4(_) => 0,
            }
        };
        // The loopback interface is the first of every network namespace.
        assert_eq!(scope("[fe80::1]:1", Some("lo")), 1);
        assert_eq!(scope("[fe80::1%7]:1", Some("lo")), 7);
        assert_eq!(scope("[fe80::1]:1", None), 0);
        assert_eq!(scope("[fd00::1]:1", Some("lo")), 0);
    }
}
