//! The server of a run, and what a run knows once it has one.

use std::{
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

use super::RunArguments;
use crate::{
    cli::{Failure, local_server::LocalServer, progress::Shown, say},
    clock::TscClock,
    control::{Client, ConnectError, parse_host},
    session::{Affinity, Host, Initiating, Settings, Variants, bind_thread},
    transport::{StopSignal, verbs::VerbsPort},
};

/// Time between two tries to reach a server that is waited for.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

pub(in crate::cli) fn connect(
    arguments: &RunArguments,
    here: &Host,
    stop: &StopSignal,
    shown: &Shown,
) -> Result<(Client, Option<LocalServer>), Failure> {
    let (host, port, token, server) = match &arguments.host {
        Some(text) => {
            let (host, port) = parse_host(text, arguments.port).map_err(Failure::Usage)?;
            let local = host == "localhost"
                || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
            (host, port, arguments.access.token(local)?, None)
        }
        None => {
            // Of no use to a server of our own, which makes one; but a wrong name is told.
            arguments.access.of_named_file()?;
            let server = LocalServer::start()?;
            let (address, token) = (server.address, server.token.clone());
            (address.ip().to_string(), address.port(), Some(token), Some(server))
        }
    };
    let mut told = false;
    let mut queued = |before| {
        let words = format!("the server is busy: {before} before us");
        // Progress is for who asked for it; that nothing happens for now is for everybody.
        if !shown.say(&words) && !told {
            say(&words);
        }
        told = true;
    };
    let until = arguments.wait.map(|wait| Instant::now() + wait);
    loop {
        let token = token.as_ref();
        match Client::connect(&host, port, token, here, arguments.timeout, stop, &mut queued) {
            Ok(client) => return Ok((client, server)),
            // Not there yet: neither its name nor its port need be.
            Err(ConnectError::Unreachable { .. } | ConnectError::Resolve { .. })
                if until.is_some_and(|until| Instant::now() < until) && !stop.is_given() =>
            {
                thread::sleep(WAIT_INTERVAL);
            }
            Err(error) => return Err(Failure::error(error)),
        }
    }
}

/// What stays the same over a run with the settings of `variants`; `warnings` gets why threads that would
/// be bound to processors are not.
///
/// # Errors
/// The processor that the client was given cannot be had.
pub(in crate::cli) fn initiating(
    arguments: &RunArguments,
    mut variants: Variants,
    here: &Host,
    client: &Client,
    stop: StopSignal,
    warnings: &mut Vec<String>,
) -> Result<Initiating<TscClock>, Failure> {
    let mut verbs = arguments.verbs.client();
    let port = VerbsPort::open(&verbs);
    let device = port.as_ref().ok().map(|port| port.port.device.clone());
    // Whoever names processors, or wants none, has the last word.
    let threads_anywhere = arguments.cpus.is_some();
    verbs.memory.threads_anywhere = threads_anywhere;
    for settings in variants.iter_mut() {
        settings.verbs.memory.threads_anywhere = threads_anywhere;
        settings.peer_verbs.memory = settings.verbs.memory;
        settings.peer_verbs.prefer.clone_from(&device);
    }
    let near = port.as_ref().ok().and_then(|port| port.processors(&verbs.memory));
    let mut unbound = |why: String| {
        warnings.push(format!(
            "client and server are bound to no processors: {why}; where they take turns on one, times are \
             those of the scheduler"
        ));
        Affinity::default()
    };
    let mut affinity = match arguments.cpus {
        Some(affinity) => affinity,
        // Of several threads the scheduler takes better care; and what is compared runs alike.
        None if arguments.servers.max(arguments.workers) > Some(1)
            || variants.iter().any(Settings::is_multi_threaded) =>
        {
            Affinity::default()
        }
        None => Affinity::automatic(here, &client.there, near.as_deref().unwrap_or(&[]))
            .unwrap_or_else(&mut unbound),
    };
    // Calibrated before it is bound: that sleeps, and may as well do so anywhere.
    let clock = TscClock::new();
    if let Some(cpu) = affinity.client {
        match bind_thread(cpu) {
            Ok(()) => {}
            Err(why) if arguments.cpus.is_none() => affinity = unbound(why),
            Err(why) => return Err(Failure::Usage(why)),
        }
    }
    Ok(Initiating {
        clock,
        here: here.clone(),
        there: client.there.clone(),
        control: Some(client.address),
        port,
        variants,
        affinity,
        connect_timeout: arguments.timeout,
        stop,
    })
}
