//! The arguments of `fabricbench run`.

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, ValueEnum,
    builder::{NonEmptyStringValueParser, PathBufValueParser, TypedValueParser as _},
};

use super::{
    shown::ShownOptions,
    sweep::{Varied, parse_varied},
    tensors::parse_coalesce,
};
use crate::{
    cli::{
        DEFAULT_PORT,
        access::AccessOptions,
        grpc::GrpcOptions,
        options::{
            Phases, VerbsOptions, parse_affinity, parse_buffers, parse_count, parse_depth,
            parse_duration, parse_output, parse_phases, parse_precision, parse_reply, parse_sizes,
            parse_timeout,
        },
        perftest::Habits,
    },
    engine::WarmUp,
    plan::{
        Arrivals, BufferSpec, Coalesce, KneeRule, KneeRuleError, MOST_CALLS_PER_SECOND, MOST_ROLES,
        Pattern, Precision, Service, Sizes, Think, ThinkError,
    },
    session::{Affinity, MOST_THREADS},
    transport::MOST_CONNECTIONS,
};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every cell is measured, 1 an error before anything is measured, or the result could \
                  not be written, 2 wrong usage, 3 some cells are unsupported, failed or skipped, 4 no cell is \
                  measured, 130 interrupted."
)]
pub(in crate::cli) struct RunArguments {
    /// The server: a name or an address, with or without :PORT [default: a server process on this
    /// host, for what loopback and one RDMA device can show]
    #[arg(value_name = "HOST")]
    pub(super) host: Option<String>,
    /// Transports, separated by commas: verbs-OP with OP write, write-imm, send, send-imm, read,
    /// fetch-add, compare-swap (verbs-uc-OP, verbs-ud-OP: unreliable; `verbs`: all that exist);
    /// grpc@PATH, grpc-stock@PATH, grpc-lean@PATH, tcp@PATH with PATH ipoib, ethernet, loopback or an
    /// interface [default: verbs-write, verbs-send, grpc@ipoib, grpc@ethernet; grpc@loopback for the
    /// last two where both sides are on one host]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) transport: Vec<String>,
    /// Service of the verbs transports that name none, as perftest's -c; with the transport `verbs`,
    /// and with none, the operations that it has [default: rc]
    #[arg(
        short = 'c',
        long = "connection",
        value_name = "SERVICE",
        value_enum,
        ignore_case = true
    )]
    pub(super) service: Option<ServiceName>,
    /// Patterns, separated by commas [default: latency, bandwidth; of reads fetch, of atomics rate]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) pattern: Vec<PatternName>,
    /// Both directions at once, as perftest's -b: the pattern bidirectional alone
    #[arg(short = 'b', long = "bidirectional", conflicts_with = "pattern")]
    pub(super) bidirectional: bool,
    /// Message sizes: 64, 4K, 2:8M:x2 (doubling), 4K:64K:+4K, or several by commas [default:
    /// 2:8M:x4]
    #[arg(short = 's', long, alias = "size", value_name = "SPEC", allow_negative_numbers = true, value_parser = parse_sizes)]
    pub(super) sizes: Option<Sizes>,
    /// All sizes from 2 B to 8 MiB by powers of two, as perftest's -a
    #[arg(short = 'a', long, conflicts_with = "sizes")]
    pub(super) all: bool,
    /// Timed messages per cell, over all rounds; with --precision, at the most
    #[arg(short = 'n', long, alias = "iters", value_name = "N", allow_negative_numbers = true, value_parser = parse_count)]
    pub(super) iterations: Option<u64>,
    /// Timed duration per cell, over all rounds; with --precision, at the most [default: 0.6s]
    #[arg(short = 'D', long, value_name = "TIME", conflicts_with = "iterations",
          allow_negative_numbers = true, value_parser = parse_duration)]
    pub(super) duration: Option<Duration>,
    /// Measure each cell until half of the 95 % interval of its figure is no more than this share of it, as
    /// 1%: that of the median over all samples and that over rounds (at least 3), of a push that of the
    /// rates of rounds. What is not known so well by then ends with its -D or -n, or the --budget
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, value_parser = parse_precision)]
    pub(super) precision: Option<Precision>,
    /// Time of the whole run, once the server is reached, as 60s: shared out so that each cell gets its
    /// rounds with the fewest messages at least, and what is left evenly
    #[arg(long, value_name = "TIME", conflicts_with_all = ["duration", "iterations"],
          allow_negative_numbers = true, value_parser = parse_duration)]
    pub(super) budget: Option<Duration>,
    /// Interleaved rounds in which each cell is measured; with --precision, the fewest
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Untimed messages before each slice, at most; their number is in the result
    #[arg(long, value_name = "N", default_value_t = WarmUp::default().messages,
          value_parser = parse_count)]
    pub(super) warm_up: u64,
    /// Time of these messages, at most: what comes first ends the warm-up, which has one message at least
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_duration)]
    pub(super) warm_up_time: Duration,
    /// Calls a second, over all threads and connections, that begin on a schedule whether or not those
    /// before them are answered (an open loop): of the pattern `calls`, which it implies. Each is timed from when it was to
    /// begin. At most --depth are under way on a connection [default: 1024, and at most 64 MiB]
    ///
    /// `search`: measures the closed loop first, then offers shares of what that came to, and closes in on the
    /// highest rate that is sustained and on the knee
    #[arg(long, value_name = "N|search", allow_negative_numbers = true,
          value_parser = parse_rate)]
    pub(super) rate: Option<Rate>,
    /// The rule for the knee of --rate search, FIGURE:TIMES: the highest rate at which p50, p99 or mean of a
    /// call's time is at most so many times the least one [default: p50:2]
    #[arg(long, value_name = "RULE", value_parser = parse_knee)]
    pub(super) knee: Option<KneeRule>,
    /// How the calls of --rate follow one another [default: constant]
    #[arg(long, value_name = "KIND", value_enum)]
    pub(super) arrivals: Option<ArrivalsName>,
    /// Pause between a reply and the next message in its place, as 50us or 2ms, up to 1s, of latency (which it
    /// implies where no pattern is named) and calls:
    /// waited for by polling, and in no sample. 50us:exponential: pauses that differ, with that mean [default:
    /// no]
    #[arg(long, value_name = "TIME", conflicts_with = "rate", value_parser = parse_think)]
    pub(super) think: Option<Thinking>,
    /// Size of the reply to a call, in bytes as in --sizes: of the patterns `calls` and `ps`
    /// [default: 1, an acknowledgement]
    #[arg(long, value_name = "BYTES", value_parser = parse_reply)]
    pub(super) reply_size: Option<u64>,
    /// Make each message of several buffers, which nobody joins: N (sizes split evenly),
    /// N:uniform, N:random or N:skew (also skew-medium, skew-small) with :s,m,l (10 B, 10 KiB, 1 MiB,
    /// or s=64,l=2M) behind it, or 6x1M+3x10K+10. More than once: each. All but the first make up a
    /// size of their own
    #[arg(long, value_name = "SPEC", value_parser = parse_buffers)]
    pub(super) buffers: Vec<BufferSpec>,
    /// Model whose tensors the pattern `tensor` moves: a name of `fabricbench models`, or a file of that
    /// form. Several: each
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',',
          value_parser = NonEmptyStringValueParser::new())]
    pub(super) model: Vec<String>,
    /// Tensors of one server that go in one call: no, all, or those that follow one another up to
    /// SIZE, as in 25M; nobody joins them [default: no; without a value: all]
    #[arg(long, value_name = "SIZE", num_args = 0..=1, default_missing_value = "all",
          value_parser = parse_coalesce)]
    pub(super) coalesce: Option<Coalesce>,
    /// Parameter servers of the patterns `ps` and `tensor`, each with a port and, over gRPC, a thread
    /// of its own [default: 1]
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_ROLES)))]
    pub(super) servers: Option<u32>,
    /// Workers of the patterns `ps` and `tensor`: threads here, each with a connection to every
    /// parameter server [default: 1]
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_ROLES)))]
    pub(super) workers: Option<u32>,
    /// Messages in flight in a push, or calls on each connection [default: 128, and at most 8 MiB; of
    /// ps 1 step, of tensor 16 calls to each server]
    #[arg(short = 't', long = "depth", visible_alias = "tx-depth", value_name = "N",
          allow_negative_numbers = true, value_parser = parse_depth)]
    pub(super) depth: Option<u32>,
    /// Threads on each side, each with connections (of verbs: contexts and completion queues) of its
    /// own; of ps and tensor they are the --workers
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=MOST_THREADS as i64))]
    pub(super) threads: u32,
    /// Connections of each thread, each over a socket of its own and with its own --depth: of TCP and
    /// gRPC, in every pattern but latency, and ps and tensor, whose workers have one to each server
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CONNECTIONS)))]
    pub(super) connections: u32,
    /// Mark one call in N, and say where the time of those goes: of gRPC and TCP in the patterns latency,
    /// calls and ps. `no`: none, which is the default; `yes`, and alone (behind the host): one in 8
    #[arg(long, value_name = "N", num_args = 0..=1, default_value = "no",
          default_missing_value = "yes", value_parser = parse_phases)]
    pub(super) phases: Phases,
    /// Write marked calls here as a trace that Perfetto and chrome://tracing load: of each slice up to
    /// 64, spread over it; with --phases
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Vary a setting, in all combinations with others that are: depth=1:64:x4, threads=1,2,
    /// connections=1:8:x2, rate=1000:64000:x4, arrivals=constant,poisson, think=no,50us, serialized=no,yes, tls=no,yes,
    /// assign, coalesce=no,all,25M, phases=no,yes, runtime, server-threads, qp=1,4,
    /// post-list, cq-mod, inline-size, rx-depth, srq=on,off, completions=poll,events, mtu, post
    #[arg(long, value_name = "AXIS=VALUES", value_parser = parse_varied)]
    pub(super) sweep: Vec<Varied>,
    /// Search for the post list, completion moderation, depth and inline size in which each verbs
    /// push is fastest, before it is measured with them
    #[arg(long)]
    pub(super) tune: bool,
    /// Seed of the order of slices and of the payload [default: from the clock]
    #[arg(long, value_name = "NUMBER")]
    pub(super) seed: Option<u64>,
    /// Write the result here as JSON, every second
    #[arg(short = 'o', long, value_name = "FILE",
          value_parser = PathBufValueParser::new().try_map(parse_output))]
    pub(super) output: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Table, conflicts_with = "json")]
    format: Format,
    /// The same as --format json
    #[arg(long)]
    json: bool,
    /// Gb/s (10^9 bits) with `--format perftest`, as there, in place of MB/s (2^20 bytes)
    #[arg(long = "report_gbits", alias = "report-gbits")]
    pub(super) report_gbits: bool,
    #[command(flatten)]
    pub(super) shown: ShownOptions,
    /// Port of the server's control connection
    #[arg(short = 'p', long, default_value_t = DEFAULT_PORT)]
    pub(super) port: u16,
    /// Time without an answer, or without a completion, after which the server is given up
    #[arg(long, value_name = "TIME", default_value = "5s", allow_negative_numbers = true,
          value_parser = parse_timeout)]
    pub(super) timeout: Duration,
    /// Processor of the client's measuring thread, and of the server's after a colon, or `none`
    /// [default: one each if both sides share a kernel, else none]
    #[arg(long, value_name = "CPU[:CPU]", value_parser = parse_affinity)]
    pub(super) cpus: Option<Affinity>,
    /// Wait so long for a server that is not there yet [default: no time]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) wait: Option<Duration>,
    #[arg(skip = UsualTransports::OF_RUN)]
    pub(in crate::cli) usual: UsualTransports,
    #[command(flatten)]
    pub(super) access: AccessOptions,
    #[command(flatten)]
    pub(super) grpc: GrpcOptions,
    #[command(flatten)]
    pub(super) verbs: VerbsOptions,
    #[command(flatten)]
    pub(super) habits: Habits,
}

impl RunArguments {
    pub(super) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    pub(super) fn warm_up(&self) -> WarmUp {
        WarmUp { messages: self.warm_up, time: self.warm_up_time }
    }
}

/// The transports when nobody names any.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct UsualTransports {
    /// Where both sides are on one host.
    pub(in crate::cli) local: &'static [&'static str],
    /// Between two hosts.
    pub(in crate::cli) remote: &'static [&'static str],
}

impl UsualTransports {
    const OF_RUN: Self = Self {
        local: &["verbs-write", "verbs-send", "grpc@loopback"],
        remote: &["verbs-write", "verbs-send", "grpc@ipoib", "grpc@ethernet"],
    };
}

/// What `--rate` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rate {
    /// So many calls a second.
    PerSecond(u64),
    /// Those that show how much is borne.
    Search,
}

impl Rate {
    /// Calls a second, where they are given.
    pub(super) fn per_second(self) -> Option<u64> {
        match self {
            Self::PerSecond(rate) => Some(rate),
            Self::Search => None,
        }
    }
}

/// How calls follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ArrivalsName {
    /// Evenly
    Constant,
    /// As those of many clients that know nothing of one another
    Poisson,
}

impl ArrivalsName {
    pub(super) fn arrivals(self) -> Arrivals {
        match self {
            Self::Constant => Arrivals::Constant,
            Self::Poisson => Arrivals::Poisson,
        }
    }
}

/// Calls a second, or `search`.
fn parse_rate(text: &str) -> Result<Rate, String> {
    match text.parse() {
        _ if text == "search" => Ok(Rate::Search),
        Ok(rate @ 1..=MOST_CALLS_PER_SECOND) => Ok(Rate::PerSecond(rate)),
        _ => Err(format!(
            "`{text}` is no whole number of calls a second from 1 to {MOST_CALLS_PER_SECOND}, and not `search`"
        )),
    }
}

/// What `--think` says: pauses, or that there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thinking(pub(super) Option<Think>);

fn parse_think(text: &str) -> Result<Thinking, String> {
    match text {
        "no" | "0" => Ok(Thinking(None)),
        time => match time.parse() {
            Ok(think) => Ok(Thinking(Some(think))),
            Err(error) => Err(ThinkError::to_string(&error)),
        },
    }
}

fn parse_knee(text: &str) -> Result<KneeRule, String> {
    text.parse().map_err(|error: KneeRuleError| error.to_string())
}

/// What goes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
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
    /// JSON lines as it goes: the run, each cell when it is done, the end
    Jsonl,
    /// The tables as GitHub shows them
    Markdown,
    /// Gauges as Prometheus reads them, for a node exporter's textfile folder
    Openmetrics,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PatternName {
    /// Ping-pong
    Latency,
    /// Push, confirmed by the receiver
    #[value(alias = "push", alias = "bw")]
    Bandwidth,
    /// Push in both directions at once
    Bidirectional,
    /// The server's data, taken: by reads, or as a stream
    Fetch,
    /// Operations a second
    Rate,
    /// Request and reply, many in flight, each timed
    Calls,
    /// Workers that call every parameter server
    Ps,
    /// Workers that move the tensors of --model: tensor-push and tensor-fetch
    Tensor,
    /// Tensors of --model, sent to their parameter servers
    TensorPush,
    /// Tensors of --model, asked for at their parameter servers
    TensorFetch,
}

impl PatternName {
    pub(super) fn patterns(self) -> &'static [Pattern] {
        match self {
            Self::Latency => &[Pattern::Latency],
            Self::Bandwidth => &[Pattern::Bandwidth],
            Self::Bidirectional => &[Pattern::Bidirectional],
            Self::Fetch => &[Pattern::Fetch],
            Self::Rate => &[Pattern::Rate],
            Self::Calls => &[Pattern::Calls],
            Self::Ps => &[Pattern::Ps],
            Self::Tensor => &[Pattern::TensorPush, Pattern::TensorFetch],
            Self::TensorPush => &[Pattern::TensorPush],
            Self::TensorFetch => &[Pattern::TensorFetch],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ServiceName {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagram
    Ud,
}

impl ServiceName {
    pub(super) fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud => Service::Ud,
        }
    }
}
