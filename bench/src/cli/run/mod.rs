//! `fabricbench run`.

mod document;
mod plan;

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use clap::{
    Args, ValueEnum,
    builder::{PathBufValueParser, TypedValueParser as _},
};

use self::{
    document::{document, plan_record, warnings},
    plan::{plan, seed},
};
use super::{
    DEFAULT_PORT, Exit, Failure, complain,
    local_server::LocalServer,
    options::{
        VerbsOptions, parse_affinity, parse_count, parse_depth, parse_duration, parse_output,
        parse_reply, parse_sizes, parse_timeout,
    },
    perftest::Habits,
    print,
    progress::{ProgressMode, Shown},
    say,
    serve::stop_on_signals,
};
use crate::{
    clock::TscClock,
    control::{Client, ConnectError, parse_host},
    engine::WarmUp,
    plan::{Cell, Pattern, Plan, Service, Sizes, TransportName},
    report::{Document, PerftestColumns, ResultFile, Status, csv, long, perftest, table},
    run::{Rules, RunError, unmeasured},
    session::{Affinity, Host, Initiating, MOST_THREADS, bind_thread},
    transport::{CompletionMode, StopReason, StopSignal, verbs::VerbsPort},
};

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// The server: a name or an address, with or without :PORT [default: a server process on this
    /// host, for what loopback and one RDMA device can show]
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// Transports, separated by commas: verbs-OP with OP write, write-imm, send, send-imm, read,
    /// fetch-add, compare-swap (verbs-uc-OP, verbs-ud-OP: unreliable; `verbs`: all that exist);
    /// grpc@PATH, grpc-stock@PATH, tcp@PATH with PATH ipoib, ethernet, loopback or an interface
    /// [default: verbs-write, verbs-send, grpc@ipoib, grpc@ethernet; grpc@loopback for the last two
    /// where both sides are on one host]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    transport: Vec<String>,
    /// Service of the verbs transports that name none, as perftest's -c; with the transport `verbs`,
    /// and with none, the operations that it has [default: rc]
    #[arg(
        short = 'c',
        long = "connection",
        value_name = "SERVICE",
        value_enum,
        ignore_case = true
    )]
    service: Option<ServiceName>,
    /// Patterns, separated by commas [default: latency, bandwidth; of reads fetch, of atomics rate]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pattern: Vec<PatternName>,
    /// Both directions at once, as perftest's -b: the pattern bidirectional alone
    #[arg(short = 'b', long = "bidirectional", conflicts_with = "pattern")]
    bidirectional: bool,
    /// Message sizes: 64, 4K, 2:8M:x2 (doubling), 4K:64K:+4K, or several by commas
    #[arg(short = 's', long, alias = "size", value_name = "SPEC", default_value = "2:8M:x4",
          value_parser = parse_sizes)]
    sizes: Sizes,
    /// All sizes from 2 B to 8 MiB by powers of two, as perftest's -a
    #[arg(short = 'a', long, conflicts_with = "sizes")]
    all: bool,
    /// Timed messages per cell, over all rounds
    #[arg(short = 'n', long, alias = "iters", value_name = "N", value_parser = parse_count)]
    iterations: Option<u64>,
    /// Timed duration per cell, over all rounds [default: 0.6s]
    #[arg(short = 'D', long, value_name = "TIME", conflicts_with = "iterations",
          value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Interleaved rounds in which each cell is measured
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Untimed messages before each slice, at most (and at most 50 ms)
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = parse_count)]
    warm_up: u64,
    /// Size of the reply to a call, in bytes as in --sizes: of the pattern `calls` [default: 1, an
    /// acknowledgement]
    #[arg(long, value_name = "BYTES", value_parser = parse_reply)]
    reply_size: Option<u64>,
    /// Messages in flight in a push, or calls on each connection [default: 128, and at most 8 MiB]
    #[arg(short = 't', long = "depth", visible_alias = "tx-depth", value_name = "N",
          value_parser = parse_depth)]
    depth: Option<u32>,
    /// Threads on each side, each with connections (of verbs: contexts and completion queues) of its
    /// own
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=MOST_THREADS as i64))]
    threads: u32,
    /// Search for the post list, completion moderation, depth and inline size in which each verbs
    /// push is fastest, before it is measured with them
    #[arg(long)]
    tune: bool,
    /// Seed of the order of transports and of the payload [default: from the clock]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Write the result here as JSON, after every slice
    #[arg(short = 'o', long, value_name = "FILE",
          value_parser = PathBufValueParser::new().try_map(parse_output))]
    output: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Gb/s (10^9 bits) with `--format perftest`, as there, in place of MB/s (2^20 bytes)
    #[arg(long = "report_gbits", alias = "report-gbits")]
    report_gbits: bool,
    /// Progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    progress: ProgressMode,
    /// Port of the server's control connection
    #[arg(short = 'p', long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Time without an answer, or without a completion, after which the server is given up
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_timeout)]
    timeout: Duration,
    /// Processor of the client's measuring thread, and of the server's after a colon, or `none`
    /// [default: one each if both sides share a kernel, else none]
    #[arg(long, value_name = "CPU[:CPU]", value_parser = parse_affinity)]
    cpus: Option<Affinity>,
    /// Wait so long for a server that is not there yet [default: no time]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,
    #[command(flatten)]
    verbs: VerbsOptions,
    #[command(flatten)]
    _habits: Habits,
}

/// What goes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Transports side by side, a row a size
    Table,
    /// Every figure, a row a cell
    Long,
    /// The result document
    Json,
    /// Comma-separated values
    Csv,
    /// The columns of perftest's programs, a block a transport and pattern
    Perftest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PatternName {
    /// Ping-pong
    Latency,
    /// Push, confirmed by the receiver
    Bandwidth,
    /// Push in both directions at once
    Bidirectional,
    /// Reads
    Fetch,
    /// Operations a second
    Rate,
    /// Request and reply, many in flight, each timed
    Calls,
}

impl PatternName {
    fn pattern(self) -> Pattern {
        match self {
            Self::Latency => Pattern::Latency,
            Self::Bandwidth => Pattern::Bandwidth,
            Self::Bidirectional => Pattern::Bidirectional,
            Self::Fetch => Pattern::Fetch,
            Self::Rate => Pattern::Rate,
            Self::Calls => Pattern::Calls,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServiceName {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagram
    Ud,
}

impl ServiceName {
    fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud => Service::Ud,
        }
    }
}

pub(super) fn run(arguments: &RunArguments) -> Result<Exit, Failure> {
    if arguments.report_gbits && arguments.format != Format::Perftest {
        return Err(Failure::Usage(
            "--report_gbits belongs to --format perftest; the other formats are in MB/s (10^6 bytes)"
                .to_owned(),
        ));
    }
    let list = arguments.verbs.client().post_list;
    if let Some(depth) = arguments.depth
        && list > depth
    {
        return Err(Failure::Usage(format!(
            "--post-list {list} posts more at once than the {depth} in flight of --depth; give a \
             shorter list or a larger depth"
        )));
    }
    let plan = plan(arguments, arguments.host.is_none(), seed(arguments))?;
    let stop = stop_on_signals()?;
    let here = Host::here().map_err(Failure::Error)?;
    let mut document = document(arguments, &plan, &here);
    let mut shown = Shown::new(arguments.progress);

    let outcome = measure(arguments, plan, here, &stop, &mut document, &mut shown);
    shown.end();
    // Whatever happened, standard output gets one whole document of what there is.
    if let Err(Ended::NotBegun(failure)) = outcome {
        if arguments.format == Format::Json {
            render(arguments, &document)?;
        }
        return Err(failure);
    }
    render(arguments, &document)?;
    match outcome {
        Ok(()) => Ok(verdict(&document)),
        Err(Ended::Run(RunError::Interrupted)) => {
            complain(RunError::Interrupted);
            Ok(Exit::Interrupted)
        }
        Err(Ended::Run(lost @ RunError::PeerLost(_))) => {
            complain(lost);
            Ok(match verdict(&document) {
                Exit::Nothing => Exit::Nothing,
                _ => Exit::Partial,
            })
        }
        Err(Ended::Run(error @ RunError::Output(_))) => Err(Failure::error(error)),
        Err(Ended::NotBegun(failure)) => Err(failure),
    }
}

enum Ended {
    NotBegun(Failure),
    Run(RunError),
}

fn measure(
    arguments: &RunArguments,
    plan: Plan,
    here: Host,
    stop: &StopSignal,
    document: &mut Document,
    shown: &mut Shown,
) -> Result<(), Ended> {
    let not_begun = |document: &mut Document, file: Option<&ResultFile>, failure: Failure| {
        document.cells = unmeasured(&plan, &format!("the run did not begin: {failure}"));
        // The failure says more than that it could not be written down as well.
        let _ = file.map(|file| file.finish(document));
        Ended::NotBegun(failure)
    };
    let file = match arguments.output.as_deref().map(ResultFile::create).transpose() {
        Ok(file) => file,
        Err(error) => return Err(not_begun(document, None, Failure::error(error))),
    };
    let file = file.as_ref();
    // At once, so that the document of an earlier run is never taken for this one's.
    if let Some(Err(error)) = file.map(|file| file.write(document)) {
        return Err(not_begun(document, None, Failure::error(error)));
    }
    let (mut client, _server) = match connect(arguments, &here, stop, shown) {
        Ok(connected) => connected,
        Err(failure) => {
            let ended = not_begun(document, file, failure);
            return Err(match stop.reason() {
                Some(StopReason::Interrupted) => Ended::Run(RunError::Interrupted),
                _ => ended,
            });
        }
    };
    document.server = Some(client.there.environment.clone());
    let verbs = |cell: &Cell| matches!(cell.transport, TransportName::Verbs(_));
    let polls = arguments.verbs.client().completions == CompletionMode::Poll
        && plan.cells.iter().any(verbs);
    document.warnings = warnings(&here, &client.there, arguments.threads, polls);
    let initiating = match initiating(arguments, &here, &client, stop.clone()) {
        Ok(initiating) => initiating,
        Err(failure) => return Err(not_begun(document, file, failure)),
    };
    let plan = if arguments.transport.is_empty() && here.shares_network_with(&client.there) {
        // Whatever name the server was given: traffic between the two never leaves this host.
        let plan = self::plan::plan(arguments, true, plan.seed).map_err(Ended::NotBegun)?;
        document.plan = plan_record(arguments, &plan);
        plan
    } else {
        plan
    };
    let rules = Rules {
        depth: arguments.depth,
        warm_up: WarmUp { messages: arguments.warm_up, ..WarmUp::default() },
        patience: arguments.timeout,
        tune: arguments.tune,
        threads: arguments.threads,
    };
    let outcome = crate::run::run(&plan, rules, &initiating, &mut client, document, file, shown);
    client.end();
    outcome.map_err(Ended::Run)
}

/// Time between two tries to reach a server that is waited for.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

fn connect(
    arguments: &RunArguments,
    here: &Host,
    stop: &StopSignal,
    shown: &Shown,
) -> Result<(Client, Option<LocalServer>), Failure> {
    let (host, port, server) = match &arguments.host {
        Some(text) => {
            let (host, port) = parse_host(text, arguments.port).map_err(Failure::Usage)?;
            (host, port, None)
        }
        None => {
            let server = LocalServer::start()?;
            (server.address.ip().to_string(), server.address.port(), Some(server))
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
        match Client::connect(&host, port, here, arguments.timeout, stop, &mut queued) {
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

fn initiating(
    arguments: &RunArguments,
    here: &Host,
    client: &Client,
    stop: StopSignal,
) -> Result<Initiating<TscClock>, Failure> {
    let mut verbs = arguments.verbs.client();
    // Whoever names processors, or wants none, has the last word.
    verbs.memory.threads_anywhere = arguments.cpus.is_some();
    let port = VerbsPort::open(&verbs);
    let near = port.as_ref().ok().and_then(|port| port.processors(&verbs.memory));
    let affinity = match arguments.cpus {
        Some(affinity) => affinity,
        // Of several threads the scheduler takes better care.
        None if arguments.threads > 1 => Affinity::default(),
        None => Affinity::automatic(here, &client.there, near.as_deref().unwrap_or(&[])),
    };
    // Calibrated before it is bound: that sleeps, and may as well do so anywhere.
    let clock = TscClock::new();
    if let Some(cpu) = affinity.client {
        bind_thread(cpu).map_err(Failure::Usage)?;
    }
    let device = port.as_ref().ok().map(|port| port.port.device.clone());
    let mut peer_verbs = arguments.verbs.server(device);
    peer_verbs.memory = verbs.memory;
    Ok(Initiating {
        clock,
        here: here.clone(),
        there: client.there.clone(),
        control: Some(client.address),
        port,
        verbs,
        peer_verbs,
        affinity,
        connect_timeout: arguments.timeout,
        stop,
    })
}

fn render(arguments: &RunArguments, document: &Document) -> Result<(), Failure> {
    match arguments.format {
        Format::Perftest => {
            let columns = PerftestColumns {
                gigabits: arguments.report_gbits,
                by_duration: arguments.duration.is_some(),
            };
            print(&perftest(document, columns))
        }
        Format::Table => print(&table(document)),
        Format::Long => print(&long(document)),
        Format::Csv => print(&csv(document).map_err(Failure::error)?),
        Format::Json => {
            let text = serde_json::to_string_pretty(document).map_err(Failure::error)?;
            print(&format!("{text}\n"))
        }
    }
}

fn verdict(document: &Document) -> Exit {
    let measured = document.cells.iter().filter(|cell| cell.status == Status::Measured).count();
    match measured {
        0 => Exit::Nothing,
        all if all == document.cells.len() => Exit::Complete,
        _ => Exit::Partial,
    }
}
