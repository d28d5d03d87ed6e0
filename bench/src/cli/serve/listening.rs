//! Where a server listens: as asked for, or on the socket that it was started with.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use listenfd::ListenFd;

use super::{Failure, ServeArguments, log::LogFormat};
use crate::control::{Guard, ServeError, Server, Token};

/// A server on the address that was asked for, and its token if it was made for it.
///
/// # Errors
/// The address is not to be had; the token cannot be read.
pub(super) fn bind(arguments: &ServeArguments) -> Result<(Server, Option<Token>), Failure> {
    let inherited = inherited()?;
    let address = match &inherited {
        Some(listener) => listener.local_addr().ok().map(|address| address.ip()),
        None => arguments.listen,
    };
    // Who reaches a loopback address can as well run it.
    let local = address.is_some_and(|address| address.is_loopback());
    let given = arguments.access.token(local)?;
    let none = arguments.access.is_insecure() || given.is_none() && local;
    let made = match none || given.is_some() {
        true => None,
        false if arguments.log == LogFormat::Json => {
            return Err(Failure::Error(NO_TOKEN.to_owned()));
        }
        false => Some(Token::generate().map_err(Failure::error)?),
    };
    let guard = given.or_else(|| made.clone()).map_or(Guard::Open, Guard::Token);
    let server = match inherited {
        Some(listener) => Server::on(listener, arguments.timeout, guard).map_err(unusable)?,
        None => listen(arguments, &guard)?,
    };
    Ok((server.limited(arguments.quota.quota()), made))
}

/// Why a server with a log for programs makes no token.
const NO_TOKEN: &str =
    "a token that was made here would be in the log: give --token-file, or --insecure by name";

/// The socket of a service manager that listens for us, as sd_listen_fds(3) has it.
fn inherited() -> Result<Option<TcpListener>, Failure> {
    ListenFd::from_env().take_tcp_listener(0).map_err(unusable)
}

fn unusable(error: std::io::Error) -> Failure {
    Failure::Error(format!(
        "the socket that came with the start (LISTEN_FDS) is no TCP socket that listens: {error}"
    ))
}

/// IPv6 takes IPv4 in as well, unless the host has it switched off.
fn listen(arguments: &ServeArguments, guard: &Guard) -> Result<Server, Failure> {
    let on = |address| {
        let address = SocketAddr::new(address, arguments.port);
        Server::bind(address, arguments.timeout, guard.clone())
    };
    match arguments.listen {
        Some(address) => on(address).map_err(|error| match error {
            ServeError::Listen { address, source }
                if source.kind() == std::io::ErrorKind::AddrNotAvailable =>
            {
                Failure::Error(format!(
                    "cannot listen on {address}: this host has no such address; it has {}",
                    addresses()
                ))
            }
            error => Failure::error(error),
        }),
        None => on(Ipv6Addr::UNSPECIFIED.into())
            .or_else(|six| on(Ipv4Addr::UNSPECIFIED.into()).map_err(|_| Failure::error(six))),
    }
}

/// Addresses named when one that was asked for is not there.
const MOST_NAMED: usize = 12;

/// The addresses of this host, with their interfaces.
fn addresses() -> String {
    let interfaces = match fabricbench_ipoib::interfaces() {
        Ok(interfaces) => interfaces,
        Err(error) => return format!("some that cannot be listed ({error})"),
    };
    let mut all: Vec<_> = interfaces
        .iter()
        .flat_map(|interface| {
            interface.addresses.iter().map(|address| format!("{} ({})", address.ip, interface.name))
        })
        .collect();
    let more = all.len().saturating_sub(MOST_NAMED);
    all.truncate(MOST_NAMED);
    match more {
        0 => all.join(", "),
        more => format!("{} and {more} more (`fabricbench probe`)", all.join(", ")),
    }
}
