//! gRPC and plain TCP, against one iperf3 stream.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use clap::Args;
use fabricbench::plan::display_bytes;

use crate::{
    Outcome,
    fabricbench::{Fabricbench, beside_us, bytes_per_s},
    iperf3::Iperf3,
    machine::facts,
    markdown::{JUDGED, figure, judged, table},
    ratio::{Bar, LEAST_ROUNDS, Ratio, median},
    rounds::{Figures, Slot, measure},
};

const SIZES: [u64; 2] = [1 << 20, 64 << 10];

/// The size that the bars are for: large enough that the cost per byte decides.
const JUDGED_SIZE: u64 = 1 << 20;

/// The bar for gRPC as fabricbench tunes it, against iperf3.
const AGAINST_IPERF3: Bar = Bar::AtLeast(0.6);

/// The bar for gRPC as fabricbench tunes it, against gRPC as it comes.
const AGAINST_STOCK: Bar = Bar::AtLeast(1.5);

const IPERF3: usize = 0;
const GRPC: usize = 1;
const STOCK: usize = 2;
const TCP: usize = 3;

/// Who is measured, in the order of [`Slot::contender`].
const CONTENDERS: [&str; 4] = ["iperf3", "grpc", "grpc-stock", "tcp"];

/// Which ratios are shown for each size, and what the judged size is held against.
const RATIOS: [(usize, usize, Option<Bar>); 3] =
    [(GRPC, IPERF3, Some(AGAINST_IPERF3)), (GRPC, STOCK, Some(AGAINST_STOCK)), (TCP, IPERF3, None)];

#[derive(Debug, Args)]
pub struct Options {
    /// Where `iperf3 --server` and `fabricbench serve` wait [default: both are started here, on
    /// loopback]
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
    /// The path that fabricbench is to take: loopback, ethernet, ipoib or an interface [default:
    /// loopback, and ethernet with ADDRESS]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(i64::from(LEAST_ROUNDS)..=1000))]
    rounds: u32,
    /// Seconds of each run
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Processors of client and server, or `none` [default: 0:1, and none with ADDRESS]
    #[arg(long, value_name = "CPU:CPU", value_parser = parse_cpus)]
    cpus: Option<Cpus>,
    /// Port of iperf3
    #[arg(long, default_value_t = 5201)]
    iperf3_port: u16,
    /// Port of fabricbench at ADDRESS
    #[arg(long, default_value_t = 18570)]
    port: u16,
    /// The fabricbench to measure [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    fabricbench: Option<PathBuf>,
    /// A line to print with the facts on the machine; repeatable
    #[arg(long, value_name = "TEXT")]
    about: Vec<String>,
    /// Exit with 1 if the lower end of an interval misses its bar
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cpus(Option<(u32, u32)>);

fn parse_cpus(text: &str) -> Result<Cpus, String> {
    if text == "none" {
        return Ok(Cpus(None));
    }
    let pair = text.split_once(':');
    let pair = pair.and_then(|(client, server)| client.parse().ok().zip(server.parse().ok()));
    pair.map(|pair| Cpus(Some(pair))).ok_or_else(|| "not CPU:CPU, such as 0:1".to_owned())
}

pub fn run(options: &Options) -> Result<Outcome> {
    let version = Iperf3::version()?;
    let program = options.fabricbench.clone().map_or_else(beside_us, Ok)?;
    let (iperf3, ours, path, cpus) = match &options.address {
        Some(address) => (
            Iperf3::at(address, options.iperf3_port),
            Fabricbench::at(&program, address, options.port),
            "ethernet",
            None,
        ),
        None => (
            Iperf3::on_loopback(options.iperf3_port)?,
            Fabricbench::on_loopback(&program)?,
            "loopback",
            Some((0, 1)),
        ),
    };
    let path = options.path.as_deref().unwrap_or(path);
    let cpus = options.cpus.map_or(cpus, |cpus| cpus.0);
    let rounds = options.rounds as usize;
    let figures = measure(rounds, &names(), &CONTENDERS, |slot: Slot| match slot.contender {
        IPERF3 => iperf3.measure(options.seconds, cpus, None),
        contender => {
            let transport = format!("{}@{path}", CONTENDERS[contender]);
            measure_ours(&ours, &transport, SIZES[slot.cell], options.seconds, cpus)
        }
    })?;
    print!("{}", facts(&options.about));
    println!("- fabricbench {} against iperf3 {version}", env!("CARGO_PKG_VERSION"));
    println!(
        "- path {path}; {rounds} rounds of {} s for each, in turn; {}\n",
        options.seconds,
        cpus.map_or("not pinned".to_owned(), |(client, server)| format!(
            "client on processor {client}, server on {server}"
        ))
    );
    println!("{}\n{}\n{LEGEND}", rates(&figures), ratios(&figures));
    Ok(outcome(&figures, options.check))
}

fn names() -> Vec<String> {
    SIZES.map(|size| display_bytes(size).to_string()).into()
}

fn measure_ours(
    ours: &Fabricbench,
    transport: &str,
    size: u64,
    seconds: u32,
    cpus: Option<(u32, u32)>,
) -> Result<f64> {
    let cpus = cpus.map_or("none".to_owned(), |(client, server)| format!("{client}:{server}"));
    let (size, time) = (size.to_string(), format!("{seconds}s"));
    let arguments = [
        "--transport",
        transport,
        "--pattern",
        "bandwidth",
        "--sizes",
        &size,
        "--duration",
        &time,
        "--cpus",
        &cpus,
    ];
    let limit = Duration::from_secs(u64::from(seconds) + 15);
    bytes_per_s(&ours.measure(&arguments.map(str::to_owned), limit)?)
}

const LEGEND: &str = "\
Push over one connection; MB = 10^6 bytes. iperf3: one stream, its default writes of 128 KiB \
whatever the size, as its receiver counts. grpc is tuned by fabricbench, grpc-stock is tonic as it \
comes, tcp is fabricbench's plain socket. Rates are medians over the rounds; a ratio is the median \
of the rounds' ratios, with its 95 % interval from order statistics. The last two columns hold the \
bar against the median and against the interval's lower end, the worst the rounds allow.";

fn rates(figures: &Figures) -> String {
    let header: Vec<&str> =
        ["message", "iperf3, MB/s", "grpc, MB/s", "grpc-stock, MB/s", "tcp, MB/s"].into();
    let rows: Vec<Vec<String>> = SIZES
        .iter()
        .enumerate()
        .map(|(cell, &size)| {
            let rate =
                |contender| figure(median(figures.of(cell, contender)).map(|rate| rate / 1e6));
            [display_bytes(size).to_string()]
                .into_iter()
                .chain((0..CONTENDERS.len()).map(rate))
                .collect()
        })
        .collect();
    table(&header, 1, &rows)
}

/// Every ratio at every size, with the bar it is held against.
fn compared(figures: &Figures) -> impl Iterator<Item = (u64, String, Option<Ratio>, Option<Bar>)> {
    SIZES.into_iter().enumerate().flat_map(move |(cell, size)| {
        RATIOS.map(|(above, below, bar)| {
            let name = format!("{} / {}", CONTENDERS[above], CONTENDERS[below]);
            let ratio = Ratio::of(figures.of(cell, above), figures.of(cell, below));
            (size, name, ratio, bar.filter(|_| size == JUDGED_SIZE))
        })
    })
}

fn ratios(figures: &Figures) -> String {
    let header: Vec<&str> = ["message", "of"].into_iter().chain(JUDGED).collect();
    let rows: Vec<Vec<String>> = compared(figures)
        .map(|(size, name, ratio, bar)| {
            [display_bytes(size).to_string(), name].into_iter().chain(judged(ratio, bar)).collect()
        })
        .collect();
    table(&header, 2, &rows)
}

fn outcome(figures: &Figures, check: bool) -> Outcome {
    let missed = compared(figures)
        .any(|(_, _, ratio, bar)| ratio.zip(bar).is_some_and(|(ratio, bar)| ratio.misses(bar)));
    Outcome::of(!figures.failures.is_empty(), check && missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rates: [f64; 4]) -> Figures {
        measure(6, &names(), &CONTENDERS, |slot| Ok(rates[slot.contender] * 1e6)).unwrap()
    }

    #[test]
    fn the_bars_are_for_the_large_message() {
        let figures = found([2000.0, 1300.0, 800.0, 1900.0]);
        assert!(rates(&figures).contains("| 1 MiB   |         2000 |       1300 |"));
        let text = ratios(&figures);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 8);
        assert!(rows[2].contains("grpc / iperf3") && rows[2].contains("0.650"), "{}", rows[2]);
        assert!(rows[2].contains("≥ 0.6") && rows[3].contains("≥ 1.5"));
        assert!(rows[4].contains("tcp / iperf3") && rows[5].contains("64 KiB"));
        assert!(!rows[5].contains('≥'), "{}", rows[5]);
    }

    #[test]
    fn either_bar_can_be_missed() {
        assert_eq!(outcome(&found([2000.0, 1300.0, 800.0, 1.0]), true), Outcome::Passed);
        assert_eq!(outcome(&found([2000.0, 1100.0, 100.0, 1.0]), true), Outcome::Missed);
        assert_eq!(outcome(&found([2000.0, 1300.0, 900.0, 1.0]), true), Outcome::Missed);
        assert_eq!(outcome(&found([2000.0, 1100.0, 100.0, 1.0]), false), Outcome::Passed);
    }

    #[test]
    fn processors() {
        assert_eq!(parse_cpus("none"), Ok(Cpus(None)));
        assert_eq!(parse_cpus("2:3"), Ok(Cpus(Some((2, 3)))));
        for wrong in ["", "2", "2:", "a:b"] {
            assert!(parse_cpus(wrong).is_err(), "{wrong}");
        }
    }
}
