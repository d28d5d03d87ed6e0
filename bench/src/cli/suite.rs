//! `fabricbench suite`: a published suite as a run, whose document is read in the suite's terms.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args, Parser as _, Subcommand, ValueEnum,
    builder::{PathBufValueParser, TypedValueParser as _},
};

use super::{
    Cli, Command, DEFAULT_PORT, Exit, Failure,
    options::{parse_buffers, parse_depth, parse_duration, parse_output, parse_timeout},
    print,
    progress::ProgressMode,
    run::{UsualTransports, carry_out},
};
use crate::{
    plan::BufferSpec,
    report::csv,
    suite::{Benchmark, text, tf_grpc},
};

#[derive(Debug, Subcommand)]
pub(super) enum SuiteName {
    /// TF-gRPC-Bench (arXiv 1804.01138): P2P-Latency, P2P-Bandwidth and PS-Throughput
    TfGrpc(Box<TfGrpcArguments>),
}

#[derive(Debug, Args)]
pub(super) struct TfGrpcArguments {
    /// The server: a name or an address, with or without :PORT [default: a server process on this host]
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// Transports, separated by commas, as of `run` [default: verbs-write, verbs-send, grpc@ipoib,
    /// grpc@ethernet, tcp@ipoib, tcp@ethernet; with @loopback where both sides are on one host]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    transport: Vec<String>,
    /// Benchmarks, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum,
          default_values_t = [BenchmarkName::P2pLatency, BenchmarkName::P2pBandwidth, BenchmarkName::PsThroughput])]
    benchmark: Vec<BenchmarkName>,
    /// Schemes, separated by commas: uniform, random, skew (skew-medium, skew-small: biased to these)
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values_t = ["uniform", "random", "skew"].map(str::to_owned))]
    scheme: Vec<String>,
    /// Buffers of a payload
    #[arg(long, value_name = "N", default_value_t = 10)]
    iovecs: u32,
    /// Categories of buffers, with or without a size: s,m,l or s=64,l=2M [default: s=10,m=10K,l=1M]
    #[arg(long, value_name = "LIST")]
    categories: Option<String>,
    /// A payload in place of the schemes', as --buffers of `run`: 10x1M, 6x1M+3x10K+10. More than once:
    /// each
    #[arg(long, value_name = "SPEC", value_parser = parse_buffers,
          conflicts_with_all = ["scheme", "iovecs", "categories"])]
    buffers: Vec<BufferSpec>,
    /// How gRPC gets the payloads: as they are, or as protobuf messages
    #[arg(long, value_enum, default_value_t = Mode::NonSerialized)]
    mode: Mode,
    /// Parameter servers of PS-Throughput [default: 1]
    #[arg(long, value_name = "N")]
    servers: Option<u32>,
    /// Workers of PS-Throughput [default: 1]
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Calls in flight of P2P-Bandwidth, and steps under way of PS-Throughput
    #[arg(short = 't', long, value_name = "N", default_value_t = 1, value_parser = parse_depth)]
    depth: u32,
    /// Running time of each figure, over all rounds
    #[arg(short = 'D', long, value_name = "TIME", default_value = "10s",
          value_parser = parse_duration)]
    duration: Duration,
    /// Warm-up of each figure, over all rounds
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    warm_up: Duration,
    /// Interleaved rounds in which each figure is measured
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seed of the random scheme, of the order of transports and of the payload [default: from the clock]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Write the result here as JSON, every second: the document that `run` writes
    #[arg(short = 'o', long, value_name = "FILE",
          value_parser = PathBufValueParser::new().try_map(parse_output))]
    output: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    progress: ProgressMode,
    /// Port of the server's control connection
    #[arg(short = 'p', long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Time without an answer, or without a completion, after which the server is given up
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_timeout)]
    timeout: Duration,
    /// More options of `run`, behind `--`, which are none of the above: -d mlx5_0, --cpus 0:1,
    /// --sweep tls=no,yes
    #[arg(last = true, value_name = "OPTIONS")]
    more: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchmarkName {
    /// The payload goes there and comes back
    P2pLatency,
    /// The payload goes there, and an acknowledgement comes back
    P2pBandwidth,
    /// Every worker calls every parameter server
    PsThroughput,
}

impl BenchmarkName {
    fn benchmark(self) -> Benchmark {
        match self {
            Self::P2pLatency => Benchmark::P2pLatency,
            Self::P2pBandwidth => Benchmark::P2pBandwidth,
            Self::PsThroughput => Benchmark::PsThroughput,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Raw buffers, nothing encoded
    NonSerialized,
    /// A protobuf message with a field of bytes
    Serialized,
    /// Side by side
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The suite's tables, the published ones, and what was used
    Text,
    /// All of it as one document, with all that was measured
    Json,
    /// Comma-separated values, as those of `run`
    Csv,
}

const USUAL: UsualTransports = UsualTransports {
    local: &["verbs-write", "verbs-send", "grpc@loopback", "tcp@loopback"],
    remote: &[
        "verbs-write",
        "verbs-send",
        "grpc@ipoib",
        "grpc@ethernet",
        "tcp@ipoib",
        "tcp@ethernet",
    ],
};

/// Carries the suite out and prints what it says.
///
/// # Errors
/// The arguments make no sense, or the run did not begin.
pub(super) fn suite(name: &SuiteName) -> Result<Exit, Failure> {
    let SuiteName::TfGrpc(arguments) = name;
    let words = arguments.of_run();
    let mut run = match Cli::try_parse_from(&words) {
        Ok(Cli { command: Command::Run(run) }) => run,
        Ok(_) => return Err(Failure::Usage("no arguments of a run".to_owned())),
        Err(refused) => return Err(Failure::Usage(super::one_line(&refused.to_string()))),
    };
    run.usual = USUAL;
    let (document, outcome) = carry_out(&run, &words)?;
    if outcome.has_begun() {
        let suite = || tf_grpc(document.clone(), &arguments.payloads());
        match arguments.format {
            Format::Csv => print(&csv(&document).map_err(Failure::error)?)?,
            Format::Text => print(&text(&suite()))?,
            Format::Json => {
                let json = serde_json::to_string_pretty(&suite()).map_err(Failure::error)?;
                print(&format!("{json}\n"))?;
            }
        }
    }
    outcome.exit(&document)
}

impl TfGrpcArguments {
    /// As --buffers of `run` takes them.
    fn payloads(&self) -> Vec<String> {
        if !self.buffers.is_empty() {
            return self.buffers.iter().map(BufferSpec::to_string).collect();
        }
        let categories = self.categories.as_ref();
        let categories = categories.map_or_else(String::new, |list| format!(":{list}"));
        let payload = |scheme: &String| format!("{}:{scheme}{categories}", self.iovecs);
        self.scheme.iter().map(payload).collect()
    }

    /// The command line of the run that it is: options mean there what they mean here.
    fn of_run(&self) -> Vec<OsString> {
        let seconds = |time: Duration| format!("{}s", time.as_secs_f64());
        let mut words: Vec<OsString> = ["fabricbench", "run"].map(OsString::from).to_vec();
        words.extend(self.host.as_ref().map(OsString::from));
        let mut say = |word: String| words.push(word.into());
        for transport in &self.transport {
            say(format!("--transport={transport}"));
        }
        for benchmark in &self.benchmark {
            say(format!("--pattern={}", benchmark.benchmark().pattern()));
        }
        for payload in self.payloads() {
            say(format!("--buffers={payload}"));
        }
        match self.mode {
            Mode::NonSerialized => {}
            // As axes, which leave transports alone that have no messages.
            Mode::Serialized => say("--sweep=serialized=yes".to_owned()),
            Mode::Both => say("--sweep=serialized=no,yes".to_owned()),
        }
        // Which a run refuses if it has no parameter servers.
        self.servers.into_iter().for_each(|servers| say(format!("--servers={servers}")));
        self.workers.into_iter().for_each(|workers| say(format!("--workers={workers}")));
        say(format!("--depth={}", self.depth));
        say(format!("--duration={}", seconds(self.duration)));
        // By time alone.
        say(format!("--warm-up={}", u64::MAX));
        say(format!("--warm-up-time={}", seconds(self.warm_up / self.rounds)));
        say(format!("--rounds={}", self.rounds));
        say(format!("--port={}", self.port));
        say(format!("--timeout={}", seconds(self.timeout)));
        let progress = self.progress.to_possible_value();
        progress.into_iter().for_each(|mode| say(format!("--progress={}", mode.get_name())));
        self.seed.into_iter().for_each(|seed| say(format!("--seed={seed}")));
        if let Some(output) = &self.output {
            words.extend(["--output".into(), output.into()]);
        }
        words.extend(self.more.iter().cloned());
        words
    }
}
