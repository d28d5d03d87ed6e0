//! `fabricbench serve`.

mod ending;
mod listening;
mod log;
mod quota;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use fabricbench_grpc::StatusServer;
use fabricbench_ipoib::TcpBuffers;

use super::{
    DEFAULT_PORT, Exit, Failure,
    access::{AccessOptions, VARIABLE},
    options::{parse_duration, parse_timeout},
    print,
};
use crate::{control::Server, session::Host};
pub(super) use ending::stop_on_signals;
use listening::bind;
use log::{Log, LogFormat};
use quota::QuotaOptions;

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
    /// At SIGTERM, take no more clients and leave the test that runs so long to end; SIGINT, or a second
    /// signal, ends it at once
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    grace: Option<Duration>,
    /// Show how the server is to those who watch it: gRPC health checks, /health and /metrics (OpenMetrics)
    /// over HTTP; without token, so where only they reach it
    #[arg(long, value_name = "ADDRESS:PORT")]
    status: Option<SocketAddr>,
    /// How clients that come and go are told on standard error; json is one object a line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log: LogFormat,
    /// End when standard input ends: for a server that another program starts
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
    #[command(flatten)]
    access: AccessOptions,
    #[command(flatten)]
    quota: QuotaOptions,
}

pub(super) fn serve(arguments: &ServeArguments) -> Result<Exit, Failure> {
    let log = Log(arguments.log);
    let ending = ending::on_signals(arguments.grace, arguments.until_stdin_ends, log)?;
    let (server, made) = bind(arguments)?;
    // A host that cannot say what it has cannot serve.
    Host::here().map_err(Failure::Error)?;
    let status = arguments.status.map(|address| shown(&server, address)).transpose()?;
    log.listens(server.address(), status.as_ref().map(StatusServer::address))?;
    if let Some(token) = made {
        print(&format!("clients need this token: {VARIABLE}={}\n", token.reveal()))?;
    }
    if arguments.until_stdin_ends {
        ending::with_stdin(&ending.now)?;
    }
    // Nobody listens, unless a service manager started us.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    // Shown to the end: that it stops is what those who watch want to see.
    let status = Arc::new(status);
    let shown = status.clone();
    ending::when_closing(&ending.closing, move || {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        if let Some(status) = &*shown {
            status.close();
        }
    })?;
    server.serve(&this_host, &ending, &|notice| log.tell(&notice));
    drop(status);
    Ok(Exit::Complete)
}

fn this_host() -> Host {
    Host::here().unwrap_or_else(|reason| Host {
        environment: crate::observe::environment(),
        interfaces: Vec::new(),
        setups: Vec::new(),
        tcp_buffers: TcpBuffers::default(),
        boot: None,
        network_namespace: None,
        rdma: Err(reason),
    })
}

fn shown(server: &Server, address: SocketAddr) -> Result<StatusServer, Failure> {
    let census = server.census();
    StatusServer::start(address, move || census.openmetrics()).map_err(|error| {
        Failure::Error(format!("cannot listen on {address}, which --status names: {error}"))
    })
}
