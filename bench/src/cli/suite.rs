//! `fabricbench suite`: a published suite as a run, whose document is read in the suite's terms.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args, CommandFactory as _, Parser as _, Subcommand, ValueEnum,
    builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser as _},
    parser::ValueSource,
};

use super::{
    Cli, Command, DEFAULT_PORT, Exit, Failure,
    access::AccessOptions,
    options::{parse_buffers, parse_depth, parse_duration, parse_output, parse_timeout},
    print,
    progress::ProgressMode,
    run::{UsualTransports, carry_out},
};
use crate::{
    plan::{BufferError, BufferSpec, MOST_BUFFERS},
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
          value_parser = PossibleValuesParser::new(SCHEMES), hide_possible_values = true,
          default_values_t = ["uniform", "random", "skew"].map(str::to_owned))]
    scheme: Vec<String>,
    /// Buffers of a payload
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=MOST_BUFFERS as i64))]
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
    /// More options of `run`, behind `--`: -d mlx5_0, --cpus 0:1, --sweep tls=no,yes. What they say twice,
    /// as -n 1000 how long, they say in place of the above
    #[arg(last = true, value_name = "OPTIONS")]
    more: Vec<OsString>,
    // Behind the others, which its heading would take in.
    #[command(flatten)]
    access: AccessOptions,
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

/// As --buffers knows them.
const SCHEMES: [&str; 5] = ["uniform", "random", "skew", "skew-medium", "skew-small"];

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
    arguments.check_payloads()?;
    let words = arguments.of_run();
    let mut run = match Cli::try_parse_from(&words) {
        Ok(Cli { command: Command::Run(run), .. }) => run,
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

    /// Refuses payloads that cannot be, by the names of the options that make them.
    fn check_payloads(&self) -> Result<(), Failure> {
        let categories = self.categories.as_deref().unwrap_or_default();
        for payload in self.payloads() {
            let Err(error) = BufferSpec::parse(&payload) else { continue };
            let scheme = payload.split(':').nth(1).unwrap_or_default();
            return Err(Failure::Usage(match error {
                BufferError::Shape(_) => format!(
                    "--categories {categories}: categories are s, m and l, each perhaps with a size, as in \
                     s=10,m=10K,l=1M"
                ),
                BufferError::Count(count) => {
                    format!("--iovecs {count}: a payload has from 1 to {MOST_BUFFERS} buffers")
                }
                BufferError::Categories(_, why) => {
                    format!("--categories {categories}: the scheme {scheme} {why}")
                }
                BufferError::Size(_, why) => format!("--categories {categories}: {why}"),
            }));
        }
        Ok(())
    }

    /// Whether the options behind `--` have the one that `run` calls `id`.
    fn says_more(&self, id: &str) -> bool {
        let words = ["fabricbench", "run"].map(OsString::from).into_iter();
        // What cannot be read is refused with all the others.
        let Ok(matches) = Cli::command().try_get_matches_from(words.chain(self.more.clone()))
        else {
            return false;
        };
        let run = matches.subcommand_matches("run");
        run.and_then(|run| run.value_source(id)) == Some(ValueSource::CommandLine)
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
        let mut say_unless = |others: &[&str], word: String| {
            if !others.iter().any(|id| self.says_more(id)) {
                words.push(word.into());
            }
        };
        if let Some(servers) = self.servers {
            say_unless(&["servers"], format!("--servers={servers}"));
        }
        if let Some(workers) = self.workers {
            say_unless(&["workers"], format!("--workers={workers}"));
        }
        say_unless(&["depth"], format!("--depth={}", self.depth));
        let how_long = ["duration", "iterations", "budget"];
        say_unless(&how_long, format!("--duration={}", seconds(self.duration)));
        let warm_up = ["warm_up", "warm_up_time"];
        // By time alone.
        say_unless(&warm_up, format!("--warm-up={}", u64::MAX));
        say_unless(&warm_up, format!("--warm-up-time={}", seconds(self.warm_up / self.rounds)));
        say_unless(&["rounds"], format!("--rounds={}", self.rounds));
        say_unless(&["port"], format!("--port={}", self.port));
        say_unless(&["timeout"], format!("--timeout={}", seconds(self.timeout)));
        if let Some(mode) = self.progress.to_possible_value() {
            say_unless(&["progress"], format!("--progress={}", mode.get_name()));
        }
        if let Some(seed) = self.seed {
            say_unless(&["seed"], format!("--seed={seed}"));
        }
        if let Some(output) = self.output.as_ref().filter(|_| !self.says_more("output")) {
            words.extend(["--output".into(), output.into()]);
        }
        if !["token_file", "insecure"].iter().any(|id| self.says_more(id)) {
            words.extend(self.access.words());
        }
        words.extend(self.more.iter().cloned());
        words
    }
}
