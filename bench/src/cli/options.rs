//! Options of several commands, and how their values are read.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};

use super::memory::MemoryArguments;
use crate::{
    control::SHORTEST_SILENCE,
    plan::{BufferSpec, Precision, PrecisionError, Sizes, parse_bytes},
    session::Affinity,
    transport::{
        CompletionMode, MOST_QUEUE_PAIRS, Pieces, VerbsSettings,
        verbs::{LONGEST_LIST, PostMode},
    },
};

/// Sends between two signalled ones, when nobody says otherwise.
const COMPLETION_MODERATION: u32 = 32;

/// What stands over the options of the verbs transports.
pub(super) const VERBS_HEADING: &str = "Verbs (given once, here; the server follows)";

/// Options of the verbs transports, with perftest's letters where it has them.
#[derive(Debug, Args)]
#[command(next_help_heading = VERBS_HEADING)]
pub(super) struct VerbsOptions {
    /// RDMA device [default: the first with an active port]
    #[arg(short = 'd', long, alias = "ib-dev", value_name = "NAME",
          value_parser = NonEmptyStringValueParser::new())]
    device: Option<String>,
    /// RDMA device on the server [default: one of the same name, else the first active]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    peer_device: Option<String>,
    /// Port of the device [default: the first active]
    #[arg(short = 'i', long, value_name = "PORT")]
    ib_port: Option<u8>,
    /// GID index, on both sides [default: chosen and explained]
    #[arg(short = 'x', long, value_name = "INDEX")]
    gid_index: Option<u32>,
    /// GID index on the server, where it differs
    #[arg(long, value_name = "INDEX")]
    peer_gid_index: Option<u32>,
    /// How completions are waited for, on both sides
    #[arg(long, value_name = "MODE", value_enum, default_value_t = CompletionName::Poll)]
    completions: CompletionName,
    /// Sleep until an event, as perftest's -e: the same as --completions events
    #[arg(short = 'e', long, conflicts_with = "completions")]
    events: bool,
    /// Fruitless polls before a sleep, with --completions hybrid
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    spins: u32,
    /// One receive queue for all queue pairs, with the receives of --rx-depth for them together
    #[arg(long, visible_aliases = ["use-srq", "srq"])]
    shared_receives: bool,
    /// Interface that posts requests and reads completions
    #[arg(long, value_name = "INTERFACE", value_enum, default_value_t = PostName::Auto)]
    post: PostName,
    /// Split a latency by the device's time stamps of completions: how long they waited for the
    /// program, and the rest
    #[arg(long)]
    timestamps: bool,
    /// GID on this side, by the address it is
    #[arg(long, value_name = "ADDRESS", conflicts_with = "gid_index")]
    gid: Option<IpAddr>,
    /// GID on the server, by the address it is
    #[arg(long, value_name = "ADDRESS", conflicts_with = "peer_gid_index")]
    peer_gid: Option<IpAddr>,
    /// Connect by the RDMA connection manager (rdma_cm) instead of over the control connection: RC
    /// and UD
    #[arg(short = 'R', long = "rdma-cm")]
    rdma_cm: bool,
    /// Send a message that is longer than the device's limit (UD: than the path MTU) in pieces of it,
    /// or of SIZE
    #[arg(long, value_name = "SIZE", num_args = 0..=1, default_missing_value = LARGEST,
          value_parser = parse_pieces)]
    split: Option<Pieces>,
    /// Queue pairs in a push, each with its own depth
    #[arg(short = 'q', long = "qp", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_QUEUE_PAIRS)))]
    queue_pairs: u32,
    /// Messages posted by one call in a push
    #[arg(short = 'l', long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=LONGEST_LIST as i64))]
    post_list: u32,
    /// Receives kept posted on each queue pair
    #[arg(short = 'r', long, value_name = "N", default_value_t = 512,
          value_parser = clap::value_parser!(u32).range(2..=32_768))]
    rx_depth: u32,
    /// Sends between two signalled ones in a push, at most a quarter of the depth [default: 32]
    #[arg(short = 'Q', long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=32_768))]
    cq_mod: Option<u32>,
    /// Largest message sent inline, in bytes [default: up to 220, as the queue pair allows]
    #[arg(short = 'I', long, value_name = "BYTES")]
    inline_size: Option<u32>,
    /// Path MTU in bytes [default: the smaller of both ports']
    #[arg(short = 'm', long, value_name = "BYTES", value_parser = parse_mtu)]
    mtu: Option<u32>,
    /// Service level
    #[arg(short = 'S', long, value_name = "LEVEL", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=15))]
    sl: u8,
    /// Type of service (traffic class)
    #[arg(short = 'T', long, value_name = "TOS", default_value_t = 0)]
    tos: u8,
    /// Timeout of the queue pair: 4.096 us times two to the power of it
    #[arg(short = 'u', long, value_name = "EXPONENT", default_value_t = 14,
          value_parser = clap::value_parser!(u8).range(0..=31))]
    qp_timeout: u8,
    /// Retransmissions before a request fails
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = clap::value_parser!(u8).range(0..=7))]
    retry_count: u8,
    #[command(flatten)]
    memory: MemoryArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PostName {
    /// Extended where the device has it and its provider's is known to be good, else plain
    Auto,
    /// ibv_wr_* and ibv_cq_ex
    Extended,
    /// ibv_post_send and ibv_poll_cq
    Plain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompletionName {
    /// Polled without end: the fastest, at the cost of a processor on each side
    Poll,
    /// Slept for until an event
    Events,
    /// Polled for a while, then slept for
    Hybrid,
}

impl VerbsOptions {
    /// For the client's side.
    pub(super) fn client(&self) -> VerbsSettings {
        VerbsSettings {
            device: self.device.clone(),
            prefer: None,
            port: self.ib_port,
            gid_index: self.gid_index,
            gid_address: self.gid,
            memory: self.memory.settings(),
            timestamps: self.timestamps,
            post: match self.post {
                PostName::Auto => PostMode::Auto,
                PostName::Extended => PostMode::Extended,
                PostName::Plain => PostMode::Plain,
            },
            manager: self.rdma_cm,
            pieces: self.split.unwrap_or_default(),
            receive_depth: self.rx_depth,
            completion_moderation: self.cq_mod.unwrap_or(COMPLETION_MODERATION),
            inline: self.inline_size,
            path_mtu: self.mtu,
            service_level: self.sl,
            traffic_class: self.tos,
            timeout: self.qp_timeout,
            retry: self.retry_count,
            completions: match self.completions {
                _ if self.events => CompletionMode::Events,
                CompletionName::Poll => CompletionMode::Poll,
                CompletionName::Events => CompletionMode::Events,
                CompletionName::Hybrid => CompletionMode::Hybrid { spins: self.spins },
            },
            shared_receives: self.shared_receives,
            queue_pairs: self.queue_pairs,
            post_list: self.post_list,
        }
    }

    /// The completion moderation that was asked for.
    pub(super) fn asked_moderation(&self) -> Option<u32> {
        self.cq_mod
    }

    /// For the server's side.
    pub(super) fn server(&self) -> VerbsSettings {
        VerbsSettings {
            device: self.peer_device.clone(),
            gid_index: self.peer_gid_index.or(self.gid_index),
            gid_address: self.peer_gid,
            // Nothing is timed there.
            timestamps: false,
            ..self.client()
        }
    }
}

/// What `--split` without a size means.
const LARGEST: &str = "largest";

/// A size, or the largest.
fn parse_pieces(text: &str) -> Result<Pieces, String> {
    if text == LARGEST {
        return Ok(Pieces::Largest);
    }
    match parse_bytes(text).map(u32::try_from) {
        Ok(Ok(piece)) => Ok(Pieces::Of(piece)),
        Ok(Err(_)) => Err(format!("`{text}` is longer than any device takes at once")),
        Err(_) => Err(format!(
            "`{text}` is no size of a piece; write 4K, or 8M, or --split behind the host and alone \
             for the largest"
        )),
    }
}

fn parse_mtu(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(mtu @ (256 | 512 | 1024 | 2048 | 4096)) => Ok(mtu),
        _ => Err("a path MTU is 256, 512, 1024, 2048 or 4096".to_owned()),
    }
}

/// `2:8M:x2` and the like.
pub(super) fn parse_sizes(text: &str) -> Result<Sizes, String> {
    Sizes::parse(text).map_err(|error| error.to_string())
}

/// The buffers of a message.
pub(super) fn parse_buffers(text: &str) -> Result<BufferSpec, String> {
    BufferSpec::parse(text).map_err(|error| error.to_string())
}

/// The size of a reply, or what it may be at the most.
pub(super) fn parse_reply(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

/// Seconds as a number, or a number with a unit: `5`, `0.5`, `200ms`, `2s`, `1m`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" => 60.0,
        _ => return Err(format!("`{text}` is no time; write 5, 0.5, 200ms, 2s or 1m")),
    };
    let seconds: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` is no time; write 5, 0.5, 200ms, 2s or 1m"))?;
    match Duration::try_from_secs_f64(seconds * scale) {
        Ok(time) if !time.is_zero() && time <= Duration::from_secs(86_400) => Ok(time),
        _ => Err(format!("`{text}` is not between 1 ns and a day")),
    }
}

/// How narrowly a figure is to be known, as clap wants it.
pub(super) fn parse_precision(text: &str) -> Result<Precision, String> {
    text.parse().map_err(|error: PrecisionError| error.to_string())
}

/// A time after which a silent peer is given up: as [`parse_duration`], and not so short that a
/// healthy one is taken for silent.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if time >= SHORTEST_SILENCE => Ok(time),
        _ => Err(format!(
            "`{text}` is under {} s: signs of life come once a second",
            SHORTEST_SILENCE.as_secs()
        )),
    }
}

/// A number of messages, K and M as thousands and millions would be ambiguous: plain digits only.
pub(super) fn parse_count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("0 messages measure nothing".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("`{text}` is no number of messages")),
    }
}

/// A file, and none of what -o and --output mean to perftest: a number of reads and a kind of
/// figure.
pub(super) fn parse_output(path: PathBuf) -> Result<PathBuf, String> {
    let Some(text) = path.to_str() else { return Ok(path) };
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "-o names the result's file; reads under way, as perftest's -o, are --depth; write \
             ./{text} if a file is meant"
        ));
    }
    if text == "-" {
        return Err(
            "-o names a file, and `-` is none: --format json prints the document; write ./- if a file is meant"
                .to_owned(),
        );
    }
    if matches!(text, "bandwidth" | "message_rate" | "latency") {
        return Err(format!(
            "--output names the result's file; what is printed is chosen by --format; write \
             ./{text} if a file is meant"
        ));
    }
    Ok(path)
}

/// `0:1`, `3`, or `none`.
pub(super) fn parse_affinity(text: &str) -> Result<Affinity, String> {
    if text == "none" {
        return Ok(Affinity::default());
    }
    let cpu = |text: &str| {
        text.parse().map_err(|_| format!("`{text}` is no processor; write 0, 0:1 or none"))
    };
    let (client, server) = match text.split_once(':') {
        Some((client, server)) => (cpu(client)?, Some(cpu(server)?)),
        None => (cpu(text)?, None),
    };
    Ok(Affinity { client: Some(client), server })
}

/// A depth.
pub(super) fn parse_depth(text: &str) -> Result<u32, String> {
    match parse_bytes(text) {
        Ok(depth) if (1..=65_536).contains(&depth) => {
            u32::try_from(depth).map_err(|error| error.to_string())
        }
        _ => Err(format!("`{text}` is no depth from 1 to 65536")),
    }
}

/// Calls of which one is marked, where any is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Phases(pub(super) Option<u32>);

/// Calls of which one is marked when nobody says otherwise: so many that a percentile stands on them, and so
/// few that the figure stays.
const ONE_IN: u32 = 8;

/// `yes`, `no`, or one call in how many.
pub(super) fn parse_phases(text: &str) -> Result<Phases, String> {
    match text {
        "no" | "off" => Ok(Phases(None)),
        "yes" | "on" => Ok(Phases(Some(ONE_IN))),
        _ => match text.parse() {
            Ok(one_in @ 1..=1_000_000) => Ok(Phases(Some(one_in))),
            _ => Err(format!(
                "`{text}` is no number of calls from 1 to 1000000; write 8 for one in 8, yes, no, or \
                 --phases behind the host and alone"
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::transport::verbs::{MemorySettings, Node, PageSize};

    #[test]
    fn times() {
        assert_eq!(parse_duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_duration("1m"), Ok(Duration::from_secs(60)));
        for text in ["", "0", "s", "-1", "1h", "1e99", "9999999999", "inf", "..", "1.2.3"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[derive(Debug, clap::Parser)]
    struct Alone {
        #[command(flatten)]
        verbs: VerbsOptions,
    }

    fn verbs(line: &str) -> VerbsOptions {
        let words = std::iter::once("verbs").chain(line.split_whitespace());
        Alone::try_parse_from(words).unwrap().verbs
    }

    #[test]
    fn the_server_follows_but_for_what_is_its_own() {
        let options = verbs(
            "-R --pages 2M --pages-fallback --numa 1 --odp --post extended --timestamps \
             --gid 10.0.0.1 --peer-gid 10.0.0.2",
        );
        let (here, there) = (options.client(), options.server());
        let memory = MemorySettings {
            pages: PageSize::Huge2M,
            fallback: true,
            node: Node::Number(1),
            on_demand: true,
            ..MemorySettings::default()
        };
        for side in [&here, &there] {
            assert!(side.manager);
            assert_eq!((side.memory, side.post), (memory, PostMode::Extended));
        }
        assert_eq!(here.gid_address, Some("10.0.0.1".parse().unwrap()));
        assert_eq!(there.gid_address, Some("10.0.0.2".parse().unwrap()));
        assert!(here.timestamps && !there.timestamps, "the server times nothing");
        // An address is one side's: the other goes by its rule.
        assert_eq!(verbs("--gid 10.0.0.1").server().gid_address, None);
    }

    #[test]
    fn phases() {
        assert_eq!(parse_phases("no"), Ok(Phases(None)));
        assert_eq!(parse_phases("yes"), Ok(Phases(Some(8))));
        assert_eq!(parse_phases("1"), Ok(Phases(Some(1))));
        for text in ["0", "", "node2", "1000001", "-1"] {
            assert!(parse_phases(text).unwrap_err().contains("behind the host"), "{text}");
        }
    }

    #[test]
    fn pieces() {
        let split = |line: &str| verbs(line).server().pieces;
        assert_eq!(split(""), Pieces::Whole);
        assert_eq!(split("--split"), Pieces::Largest);
        assert_eq!(split("--split 4K"), Pieces::Of(4096));
        assert_eq!(split("--split=8M --timestamps"), Pieces::Of(8 << 20));
        for text in ["0", "node2", "", "4G"] {
            assert!(parse_pieces(text).is_err(), "{text}");
        }
        assert!(parse_pieces("node2").unwrap_err().contains("behind the host"));
    }

    #[test]
    fn processors() {
        let affinity = |client, server| Ok(Affinity { client, server });
        assert_eq!(parse_affinity("none"), affinity(None, None));
        assert_eq!(parse_affinity("3"), affinity(Some(3), None));
        assert_eq!(parse_affinity("0:1"), affinity(Some(0), Some(1)));
        assert!(parse_affinity("0:").is_err() && parse_affinity("all").is_err());
    }

    #[test]
    fn counts_and_depths() {
        assert_eq!(parse_count("1000"), Ok(1000));
        assert!(parse_count("0").is_err() && parse_count("1K").is_err());
        assert_eq!(parse_depth("128"), Ok(128));
        assert!(parse_depth("0").is_err() && parse_depth("65537").is_err());
    }
}
