//! `fabricbench serve`.

use std::{
    io::Read,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use clap::Args;
use fabricbench_ipoib::TcpBuffers;

use super::{
    DEFAULT_PORT, Exit, Failure,
    access::{AccessOptions, VARIABLE},
    options::parse_timeout,
    print, say,
};
use crate::{
    control::{Guard, Notice, ServeError, Server, Token},
    session::Host,
    transport::{StopReason, StopSignal},
};

#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    /// Port of the control connection; 0 takes any free one and prints it
    #[arg(short = 'p', long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Address to listen on [default: all, IPv6 and IPv4]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// Give a client up that is silent for so long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_timeout)]
    timeout: Duration,
    /// End when standard input ends: for a server that another program starts
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
    #[command(flatten)]
    access: AccessOptions,
}

pub(super) fn serve(arguments: &ServeArguments) -> Result<Exit, Failure> {
    let stop = stop_on_signals()?;
    let (server, made) = bind(arguments)?;
    // A host that cannot say what it has cannot serve.
    Host::here().map_err(Failure::Error)?;
    print(&format!(
        "fabricbench {} listening on {}\n",
        env!("CARGO_PKG_VERSION"),
        server.address()
    ))?;
    if let Some(token) = made {
        print(&format!("clients need this token: {VARIABLE}={}\n", token.reveal()))?;
    }
    if arguments.until_stdin_ends {
        end_with_stdin(&stop)?;
    }
    let host = || {
        Host::here().unwrap_or_else(|reason| Host {
            environment: crate::observe::environment(),
            interfaces: Vec::new(),
            setups: Vec::new(),
            tcp_buffers: TcpBuffers::default(),
            boot: None,
            network_namespace: None,
            rdma: Err(reason),
        })
    };
    let notify = |notice: Notice<'_>| match notice {
        Notice::Began(peer) => say(format_args!("{peer}: testing")),
        Notice::Queued(peer, position) => say(format_args!("{peer}: waits behind {position}")),
        Notice::Ended(peer, how) => say(format_args!("{peer}: {how}")),
        Notice::Refused(why) => say(format_args!("refused: {why}")),
    };
    server.serve(&host, &stop, &notify);
    Ok(Exit::Complete)
}

/// A server on the address that was asked for, and its token if it was made for it.
fn bind(arguments: &ServeArguments) -> Result<(Server, Option<Token>), Failure> {
    let given = arguments.access.token()?;
    // Who reaches a loopback address can as well run it.
    let none = arguments.access.is_insecure()
        || given.is_none() && arguments.listen.is_some_and(|address| address.is_loopback());
    let made = match none || given.is_some() {
        true => None,
        false => Some(Token::generate().map_err(Failure::error)?),
    };
    let guard = given.or_else(|| made.clone()).map_or(Guard::Open, Guard::Token);
    Ok((listen(arguments, &guard)?, made))
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

/// SIGINT and SIGTERM end every wait.
pub(super) fn stop_on_signals() -> Result<StopSignal, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = StopSignal::new();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::Error(format!("cannot handle signals: {error}")))?;
    let given = stop.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for (count, _) in signals.forever().enumerate() {
                given.give(StopReason::Interrupted);
                // The second one means it.
                if count > 0 {
                    std::process::exit(i32::from(Exit::Interrupted.code()));
                }
            }
        })
        .map_err(|error| Failure::Error(format!("cannot handle signals: {error}")))?;
    Ok(stop)
}

fn end_with_stdin(stop: &StopSignal) -> Result<(), Failure> {
    let stop = stop.clone();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut sink = [0; 64];
            while std::io::stdin().read(&mut sink).is_ok_and(|read| read > 0) {}
            stop.give(StopReason::Finished);
        })
        .map(drop)
        .map_err(|error| Failure::Error(format!("cannot watch standard input: {error}")))
}
