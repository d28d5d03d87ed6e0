//! gRPC by tonic and lean, against gRPC in C++ and against plain TCP's own tools.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use fabricbench::plan::display_bytes;

use crate::{
    Outcome,
    cpp_peer::{self, CppPeer, VARIANTS},
    fabricbench::{Fabricbench, beside_us, bytes_per_s, latency_us, messages_per_s},
    iperf3::Iperf3,
    machine::facts,
    markdown::{JUDGED, figure, judged, table},
    ratio::{Bar, LEAST_ROUNDS, Ratio, median},
    rounds::{Figures, Slot, measure_those},
    sockperf::Sockperf,
};

/// Calls under way at once in the pattern of calls.
const CALLS: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// Whole round trip, in microseconds.
    Unary,
    /// Calls a second, [`CALLS`] in flight.
    Calls,
    /// Bytes a second.
    Push,
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
struct Cell {
    pattern: Pattern,
    size: u64,
    /// Over a link that is shaped, not over loopback.
    is_shaped: bool,
}

const fn cell(pattern: Pattern, size: u64, is_shaped: bool) -> Cell {
    Cell { pattern, size, is_shaped }
}

const CELLS: [Cell; 8] = [
    cell(Pattern::Unary, 64, false),
    cell(Pattern::Unary, 64 << 10, false),
    cell(Pattern::Unary, 1 << 20, false),
    cell(Pattern::Calls, 64, false),
    cell(Pattern::Push, 64 << 10, false),
    cell(Pattern::Push, 1 << 20, false),
    cell(Pattern::Push, 64 << 10, true),
    cell(Pattern::Push, 1 << 20, true),
];

// Who is measured, in the order of `Slot::contender`.
const GRPC: usize = VARIANTS.len();
const LEAN: usize = GRPC + 1;
const TCP: usize = GRPC + 2;
const IPERF3: usize = GRPC + 3;
/// iperf3 with writes of the message's size: what a stream of messages is held against.
const IPERF3_ALIKE: usize = GRPC + 4;
const SOCKPERF: usize = GRPC + 5;
const CONTENDERS: usize = GRPC + 6;

/// Names of fabricbench's transports, from [`GRPC`] on.
const OURS: [&str; 3] = ["grpc", "grpc-lean", "tcp"];

fn contenders() -> [&'static str; CONTENDERS] {
    let mut names = [""; CONTENDERS];
    for (name, variant) in names.iter_mut().zip(VARIANTS) {
        *name = variant.name;
    }
    names[GRPC..IPERF3].copy_from_slice(&OURS);
    names[IPERF3] = "iperf3";
    names[IPERF3_ALIKE] = "iperf3 -l";
    names[SOCKPERF] = "sockperf";
    names
}

/// What a contender is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rival {
    /// The variant of the C++ library with the best median at the cell.
    BestCpp,
    Tool(usize),
}

/// One line of the table of ratios.
#[derive(Debug, Clone, Copy)]
struct Duel {
    cell: usize,
    contender: usize,
    rival: Rival,
    bar: Bar,
}

/// The bars: for each cell those of tonic, lean and plain TCP, as far as there is one.
fn duels() -> Vec<Duel> {
    use Bar::{AtLeast, AtMost};
    let cpp = |cell, contender, bar| Duel { cell, contender, rival: Rival::BestCpp, bar };
    let tool = |cell, contender, tool, bar| Duel { cell, contender, rival: Rival::Tool(tool), bar };
    vec![
        cpp(0, GRPC, AtMost(1.15)),
        cpp(0, LEAN, AtMost(0.8)),
        tool(0, TCP, SOCKPERF, AtMost(1.05)),
        cpp(1, LEAN, AtMost(1.0)),
        cpp(2, GRPC, AtMost(1.3)),
        cpp(2, LEAN, AtMost(1.0)),
        cpp(3, GRPC, AtLeast(0.9)),
        cpp(3, LEAN, AtLeast(1.5)),
        cpp(4, GRPC, AtLeast(0.9)),
        cpp(4, LEAN, AtLeast(1.0)),
        tool(4, TCP, IPERF3, AtLeast(1.0)),
        tool(4, TCP, IPERF3_ALIKE, AtLeast(1.0)),
        cpp(5, GRPC, AtLeast(0.9)),
        cpp(5, LEAN, AtLeast(1.0)),
        tool(5, TCP, IPERF3, AtLeast(1.0)),
        tool(5, TCP, IPERF3_ALIKE, AtLeast(1.0)),
        tool(6, GRPC, IPERF3, AtLeast(0.99)),
        tool(6, LEAN, IPERF3, AtLeast(0.99)),
        tool(7, GRPC, IPERF3, AtLeast(0.99)),
        tool(7, LEAN, IPERF3, AtLeast(0.99)),
    ]
}

#[derive(Debug, Args)]
pub struct Options {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = LEAST_ROUNDS,
          value_parser = clap::value_parser!(u32).range(i64::from(LEAST_ROUNDS)..=1000))]
    rounds: u32,
    /// Milliseconds of each run; iperf3 and sockperf take whole seconds
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(100..=60_000))]
    milliseconds: u32,
    /// Processor of every client, and that of every server
    #[arg(long, value_name = "CPU:CPU", value_parser = parse_cpus, default_value = "0:1")]
    cpus: (u32, u32),
    /// A network namespace at the other end of a shaped link, and there the address of its interface
    /// [default: nothing is measured over such a link]
    #[arg(long, value_name = "NETNS,INTERFACE,ADDRESS", value_parser = parse_link)]
    shaped: Option<Link>,
    /// Port of iperf3; the next one is that of the shaped link
    #[arg(long, default_value_t = 5201)]
    iperf3_port: u16,
    /// Port of sockperf
    #[arg(long, default_value_t = 11111)]
    sockperf_port: u16,
    /// The C++ peer [default: the one built in the target directory]
    #[arg(long, value_name = "PATH")]
    peer: Option<PathBuf>,
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

/// The way to the other end of a shaped link.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Link {
    netns: String,
    /// On this side.
    interface: String,
    /// On the other.
    address: String,
}

fn parse_cpus(text: &str) -> Result<(u32, u32), String> {
    let pair = text.split_once(':');
    let pair = pair.and_then(|(client, server)| client.parse().ok().zip(server.parse().ok()));
    pair.ok_or_else(|| "not CPU:CPU, such as 0:1".to_owned())
}

fn parse_link(text: &str) -> Result<Link, String> {
    let words: Vec<&str> = text.split(',').filter(|word| !word.is_empty()).collect();
    let [netns, interface, address] = words[..] else {
        return Err("not NETNS,INTERFACE,ADDRESS, such as peer,eth-a,10.77.2.2".to_owned());
    };
    let [netns, interface, address] = [netns, interface, address].map(str::to_owned);
    Ok(Link { netns, interface, address })
}

/// Everything that runs for the whole comparison.
struct Servers {
    cpp: Vec<CppPeer>,
    ours: Fabricbench,
    iperf3: Iperf3,
    sockperf: Sockperf,
    shaped: Option<(Fabricbench, Iperf3, String)>,
}

impl Servers {
    fn start(options: &Options) -> Result<Servers> {
        let program = options.fabricbench.clone().map_or_else(beside_us, Ok)?;
        let beside = std::env::current_exe().context("where is this program?")?;
        let target = beside.ancestors().nth(2).context("this program is in no target directory")?;
        let peer = options.peer.clone().map_or_else(|| cpp_peer::built(target), Ok)?;
        let cpus = Some(options.cpus);
        let cpp = VARIANTS.map(|variant| CppPeer::on_loopback(&peer, variant, cpus));
        let shaped = options.shaped.as_ref().map(|link| {
            let port = options.iperf3_port + 1;
            let ours = Fabricbench::start(&program, Some(&link.netns), &link.address)?;
            let iperf3 = Iperf3::within(&link.netns, &link.address, port)?;
            anyhow::Ok((ours, iperf3, link.interface.clone()))
        });
        Ok(Servers {
            cpp: cpp.into_iter().collect::<Result<_>>()?,
            ours: Fabricbench::on_loopback(&program)?,
            iperf3: Iperf3::on_loopback(options.iperf3_port)?,
            sockperf: Sockperf::on_loopback(options.sockperf_port, cpus)?,
            shaped: shaped.transpose()?,
        })
    }

    /// Whether a contender can be measured at a cell.
    fn has(&self, slot: Slot) -> bool {
        let Cell { pattern, size, is_shaped } = CELLS[slot.cell];
        match slot.contender {
            _ if is_shaped && self.shaped.is_none() => false,
            SOCKPERF => pattern == Pattern::Unary && size == 64,
            IPERF3 => pattern == Pattern::Push,
            IPERF3_ALIKE => pattern == Pattern::Push && !is_shaped,
            GRPC..IPERF3 => true,
            _ => !is_shaped,
        }
    }

    fn measure(&self, slot: Slot, options: &Options) -> Result<f64> {
        let Cell { pattern, size, is_shaped } = CELLS[slot.cell];
        let time = Duration::from_millis(options.milliseconds.into());
        let whole = options.milliseconds.div_ceil(1000);
        let cpus = Some(options.cpus);
        let (ours, iperf3, path) = match &self.shaped {
            Some((ours, iperf3, interface)) if is_shaped => (ours, iperf3, interface.as_str()),
            _ => (&self.ours, &self.iperf3, "loopback"),
        };
        match slot.contender {
            IPERF3 => iperf3.measure(whole, cpus, None),
            IPERF3_ALIKE => iperf3.measure(whole, cpus, Some(size)),
            SOCKPERF => self.sockperf.round_trip_us(size, whole),
            contender @ GRPC..IPERF3 => {
                let transport = format!("{}@{path}", OURS[contender - GRPC]);
                measure_ours(ours, &transport, pattern, size, time, options.cpus)
            }
            variant => {
                let (name, depth) = match pattern {
                    Pattern::Unary => ("latency", 1),
                    Pattern::Calls => ("calls", CALLS),
                    Pattern::Push => ("push", 1),
                };
                let found = self.cpp[variant].measure(name, size, depth, time)?;
                let figure = match pattern {
                    Pattern::Unary => found.p50_us,
                    Pattern::Calls => found.calls_per_s,
                    Pattern::Push => found.bytes_per_s,
                };
                figure.context("the C++ peer tells no such figure")
            }
        }
    }
}

fn measure_ours(
    ours: &Fabricbench,
    transport: &str,
    pattern: Pattern,
    size: u64,
    time: Duration,
    (client, server): (u32, u32),
) -> Result<f64> {
    let name = match pattern {
        Pattern::Unary => "latency",
        Pattern::Calls => "calls",
        Pattern::Push => "bandwidth",
    };
    let mut arguments: Vec<String> =
        ["--transport", transport, "--pattern", name].map(str::to_owned).into();
    arguments.extend(["--sizes".to_owned(), size.to_string()]);
    arguments.extend(["--duration".to_owned(), format!("{}ms", time.as_millis())]);
    arguments.extend(["--cpus".to_owned(), format!("{client}:{server}")]);
    if pattern == Pattern::Calls {
        arguments.extend(["--reply-size".to_owned(), size.to_string()]);
        arguments.extend(["--tx-depth".to_owned(), CALLS.to_string()]);
    }
    let cell = ours.measure(&arguments, time + Duration::from_secs(15))?;
    match pattern {
        // A latency is half of the round trip.
        Pattern::Unary => Ok(2.0 * latency_us(&cell)?),
        Pattern::Calls => messages_per_s(&cell),
        Pattern::Push => bytes_per_s(&cell),
    }
}

pub fn run(options: &Options) -> Result<Outcome> {
    let servers = Servers::start(options)?;
    let rounds = options.rounds as usize;
    let names = CELLS.map(name);
    let figures = measure_those(
        rounds,
        &names,
        &contenders(),
        |slot| servers.has(slot),
        |slot| servers.measure(slot, options),
    )?;
    print!("{}", facts(&options.about));
    println!(
        "- {rounds} rounds of {} ms for each, in turn; clients on processor {}, servers on {}\n",
        options.milliseconds, options.cpus.0, options.cpus.1
    );
    println!("{}\n{}\n{LEGEND}", rates(&figures), ratios(&figures));
    Ok(outcome(&figures, options.check))
}

const LEGEND: &str = "\
Unary: median of whole round trips, one in flight. Calls: 64 B there and back, 64 in flight on one \
connection. Push: one connection, until the receiver has confirmed the last byte; MB = 10^6 bytes. \
iperf3: one stream, its default writes of 128 KiB whatever the size; `iperf3 -l`: writes of the \
message's size. Figures are medians over the rounds; a ratio is the median of the rounds' ratios, with \
its 95 % interval from order statistics, and `C++` in it is the variant with the best median at that \
cell.";

fn name(cell: Cell) -> String {
    let size = display_bytes(cell.size);
    let path = if cell.is_shaped { "shaped" } else { "loopback" };
    match cell.pattern {
        Pattern::Unary => format!("{path}, unary {size}, us"),
        Pattern::Calls => format!("{path}, {CALLS} calls of {size}, 1000/s"),
        Pattern::Push => format!("{path}, push {size}, MB/s"),
    }
}

/// What a figure is divided by to be shown.
fn unit(cell: usize) -> f64 {
    match CELLS[cell].pattern {
        Pattern::Unary => 1.0,
        Pattern::Calls => 1e3,
        Pattern::Push => 1e6,
    }
}

fn rates(figures: &Figures) -> String {
    let names = contenders();
    let header: Vec<&str> = ["what"].into_iter().chain(names).collect();
    let rows: Vec<Vec<String>> = (0..CELLS.len())
        .map(|cell| {
            let of = |contender| {
                figure(median(figures.of(cell, contender)).map(|rate| rate / unit(cell)))
            };
            [name(CELLS[cell])].into_iter().chain((0..CONTENDERS).map(of)).collect()
        })
        .collect();
    table(&header, 1, &rows)
}

/// The contender that a rival is at a cell.
fn rival(figures: &Figures, cell: usize, rival: Rival) -> Option<usize> {
    let variants = match rival {
        Rival::Tool(tool) => return Some(tool),
        Rival::BestCpp => 0..VARIANTS.len(),
    };
    let measured = variants
        .filter_map(|variant| median(figures.of(cell, variant)).map(|figure| (variant, figure)));
    let best = match CELLS[cell].pattern {
        Pattern::Unary => measured.min_by(|one, other| one.1.total_cmp(&other.1)),
        Pattern::Calls | Pattern::Push => measured.max_by(|one, other| one.1.total_cmp(&other.1)),
    };
    best.map(|(variant, _)| variant)
}

/// A duel, its name and what it came to.
fn fought(figures: &Figures) -> impl Iterator<Item = (Duel, String, Option<Ratio>)> {
    duels().into_iter().map(move |duel| {
        let names = contenders();
        let against = rival(figures, duel.cell, duel.rival);
        let ratio = against.and_then(|against| {
            Ratio::of(figures.of(duel.cell, duel.contender), figures.of(duel.cell, against))
        });
        let rival = against.map_or("C++", |against| names[against]);
        (duel, format!("{} / {rival}", names[duel.contender]), ratio)
    })
}

fn ratios(figures: &Figures) -> String {
    let header: Vec<&str> = ["what", "of"].into_iter().chain(JUDGED).collect();
    let rows: Vec<Vec<String>> = fought(figures)
        .map(|(duel, of, ratio)| {
            [name(CELLS[duel.cell]), of].into_iter().chain(judged(ratio, Some(duel.bar))).collect()
        })
        .collect();
    table(&header, 2, &rows)
}

fn outcome(figures: &Figures, check: bool) -> Outcome {
    let missed =
        fought(figures).any(|(duel, _, ratio)| ratio.is_some_and(|ratio| ratio.misses(duel.bar)));
    Outcome::of(!figures.failures.is_empty(), check && missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everybody's figures: 100 for C++, but 80 for its async and tuned variant, and the given ones.
    fn found(grpc: f64, lean: f64, tool: f64) -> Figures {
        let names = CELLS.map(name);
        measure_those(
            6,
            &names,
            &contenders(),
            |_| true,
            |slot| {
                Ok(match slot.contender {
                    GRPC => grpc,
                    LEAN => lean,
                    TCP | IPERF3 | SOCKPERF => tool,
                    3 => 80.0,
                    _ => 100.0,
                })
            },
        )
        .unwrap()
    }

    #[test]
    fn the_best_variant_is_quoted_whichever_way_is_better() {
        let figures = found(100.0, 100.0, 100.0);
        assert_eq!(rival(&figures, 0, Rival::BestCpp), Some(3));
        assert_ne!(rival(&figures, 5, Rival::BestCpp), Some(3));
        assert_eq!(rival(&figures, 0, Rival::Tool(SOCKPERF)), Some(SOCKPERF));
        let text = ratios(&figures);
        assert!(text.contains("grpc-lean / C++ async tuned") && text.contains("≤ 0.8"), "{text}");
        assert_eq!(text.lines().count(), 2 + duels().len());
    }

    #[test]
    fn a_missed_bar_is_the_outcome_where_it_is_checked() {
        let figures = found(90.0, 60.0, 100.0);
        assert_eq!(outcome(&figures, false), Outcome::Passed);
        // Lean's 60 is no yield of 1.0 or more.
        assert_eq!(outcome(&figures, true), Outcome::Missed);
    }

    #[test]
    fn links_and_processors() {
        let link = parse_link("peer,eth-a,10.77.2.2").unwrap();
        assert_eq!((link.netns.as_str(), link.address.as_str()), ("peer", "10.77.2.2"));
        assert!(parse_link("peer,eth-a").is_err());
        assert_eq!(parse_cpus("0:1"), Ok((0, 1)));
        assert!(parse_cpus("0").is_err());
    }
}
