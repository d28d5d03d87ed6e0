//! Writes, sends and reads over verbs, against perftest's tests of the same.

use std::{fmt, path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use fabricbench::plan::{
    Pattern, Service, TransportName, VerbsName, VerbsOperation, display_bytes,
};

use crate::{
    Outcome,
    fabricbench::{Fabricbench, beside_us, bytes_per_s, latency_us, messages_per_s},
    machine::facts,
    markdown::{JUDGED, figure, judged, table},
    perftest::Perftest,
    ratio::{Bar, LEAST_ROUNDS, Ratio, median},
    rounds::{Figures, Slot, measure},
};

/// The bar for latency: no more than perftest's.
const LATENCY: Bar = Bar::AtMost(1.0);

/// The bar for bandwidth and message rate: no less than perftest's.
const LOAD: Bar = Bar::AtLeast(1.0);

/// The bar for the message rate with settings that were searched for, against perftest's default.
const TUNED: Bar = Bar::AtLeast(1.3);

const LATENCY_SIZES: [u64; 4] = [2, 64, 1024, 8192];
const BANDWIDTH_SIZES: [u64; 2] = [4096, 65_536];
const RATE_SIZE: u64 = 8;

const OPERATIONS: [VerbsOperation; 3] =
    [VerbsOperation::Write, VerbsOperation::Send, VerbsOperation::Read];

/// Who is measured, in the order of [`Slot::contender`].
const CONTENDERS: [&str; 2] = ["fabricbench", "perftest"];

#[derive(Debug, Args)]
pub struct Options {
    /// RDMA device, for client and server
    #[arg(long, value_name = "NAME")]
    device: String,
    /// GID index [default: each tool's own choice]
    #[arg(long, value_name = "INDEX")]
    gid_index: Option<u32>,
    /// Largest message sent inline, the same for both tools [default: each tool's own; on rxe
    /// fabricbench takes 220 B and perftest none]
    #[arg(long, value_name = "BYTES")]
    inline_size: Option<u32>,
    /// Only one part of the table [default: all]
    #[arg(long, value_enum)]
    pattern: Option<PatternName>,
    /// Only this operation; repeatable [default: all]
    #[arg(long = "operation", value_enum, value_name = "OPERATION")]
    operations: Vec<OperationName>,
    /// Only this size in bytes; repeatable [default: all]
    #[arg(long = "size", value_name = "BYTES")]
    sizes: Vec<u64>,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 11,
          value_parser = clap::value_parser!(u32).range(i64::from(LEAST_ROUNDS)..=1000))]
    rounds: u32,
    /// Round trips of a latency run
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(20..=10_000_000))]
    round_trips: u64,
    /// Messages of a bandwidth run of 64 KiB; four times as many of 4 KiB, ten times as many of 8 B
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(5..=10_000_000))]
    messages: u64,
    /// Processor of the client, of both tools
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    client_cpu: u32,
    /// Processor of the server, of both tools
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    server_cpu: u32,
    /// Seconds after which a single run is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    limit: u64,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PatternName {
    /// Ping-pong
    Latency,
    /// Push, or reads
    Bandwidth,
    /// Messages a second, with each tool's defaults and with ours tuned
    Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OperationName {
    /// verbs-write
    Write,
    /// verbs-send
    Send,
    /// verbs-read
    Read,
}

impl OperationName {
    fn is(self, operation: VerbsOperation) -> bool {
        operation
            == match self {
                Self::Write => VerbsOperation::Write,
                Self::Send => VerbsOperation::Send,
                Self::Read => VerbsOperation::Read,
            }
    }
}

impl PatternName {
    fn is(self, pattern: Pattern) -> bool {
        match self {
            Self::Latency => pattern == Pattern::Latency,
            Self::Bandwidth => matches!(pattern, Pattern::Bandwidth | Pattern::Fetch),
            Self::Rate => pattern == Pattern::Rate,
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Write, send or read.
    pub operation: VerbsOperation,
    /// Latency, bandwidth (of reads: fetch) or rate.
    pub pattern: Pattern,
    /// Whether fabricbench looks for its best settings first.
    pub tuned: bool,
    /// Message size in bytes.
    pub size: u64,
    /// Messages, or round trips, of one run.
    pub messages: u64,
}

impl Cell {
    fn bar(&self) -> Bar {
        match self.pattern {
            Pattern::Latency => LATENCY,
            _ if self.tuned => TUNED,
            _ => LOAD,
        }
    }

    fn transport(&self) -> TransportName {
        TransportName::Verbs(VerbsName { service: Service::Rc, operation: self.operation })
    }

    fn unit(&self) -> (&'static str, f64) {
        match self.pattern {
            Pattern::Latency => ("us", 1.0),
            Pattern::Rate => ("1000/s", 1e3),
            _ => ("MB/s", 1e6),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tuned = if self.tuned { " tuned" } else { "" };
        write!(f, "{} {}{tuned} {}", self.transport(), self.pattern, display_bytes(self.size))
    }
}

fn cells(options: &Options) -> Vec<Cell> {
    let of = |pattern, size, messages, tuned| {
        OPERATIONS.map(|operation| {
            let pattern = match (pattern, operation) {
                (Pattern::Bandwidth, VerbsOperation::Read) => Pattern::Fetch,
                (pattern, _) => pattern,
            };
            Cell { operation, pattern, size, messages, tuned }
        })
    };
    let [medium, large] = BANDWIDTH_SIZES;
    let mut cells: Vec<Cell> = LATENCY_SIZES
        .into_iter()
        .flat_map(|size| of(Pattern::Latency, size, options.round_trips, false))
        .collect();
    cells.extend(of(Pattern::Bandwidth, medium, 4 * options.messages, false));
    cells.extend(of(Pattern::Bandwidth, large, options.messages, false));
    cells.extend(of(Pattern::Rate, RATE_SIZE, 10 * options.messages, false));
    cells.extend(of(Pattern::Rate, RATE_SIZE, 10 * options.messages, true));
    let wanted = |cell: &Cell| {
        let Options { pattern, operations, sizes, .. } = options;
        pattern.is_none_or(|only| only.is(cell.pattern))
            && (operations.is_empty() || operations.iter().any(|only| only.is(cell.operation)))
            && (sizes.is_empty() || sizes.contains(&cell.size))
    };
    cells.retain(wanted);
    cells
}

fn names(cells: &[Cell]) -> Vec<String> {
    cells.iter().map(Cell::to_string).collect()
}

pub fn run(options: &Options) -> Result<Outcome> {
    let perftest = Perftest {
        device: options.device.clone(),
        gid_index: options.gid_index,
        inline_size: options.inline_size,
        cpus: (options.client_cpu, options.server_cpu),
        limit: Duration::from_secs(options.limit),
    };
    let version = Perftest::version()?;
    let program = options.fabricbench.clone().map_or_else(beside_us, Ok)?;
    let ours = Fabricbench::on_loopback(&program)?;
    let cells = cells(options);
    ensure!(
        !cells.is_empty(),
        "no row has that pattern, operation and size: sizes are {LATENCY_SIZES:?} for latency, \
         {BANDWIDTH_SIZES:?} for bandwidth and {RATE_SIZE} for rate"
    );
    let rounds = options.rounds as usize;
    let figures = measure(rounds, &names(&cells), &CONTENDERS, |slot: Slot| {
        let cell = &cells[slot.cell];
        match slot.contender {
            0 => measure_ours(&ours, cell, options),
            _ => perftest.measure(cell),
        }
    })?;
    print!("{}", facts(&options.about));
    println!("- fabricbench {} against perftest {version}", env!("CARGO_PKG_VERSION"));
    let inline = options.inline_size.map_or("each tool's own inline size".to_owned(), |size| {
        format!("up to {size} B inline in both")
    });
    println!("- {rounds} rounds, the two tools in turn within each; {inline}\n");
    print!("{}", render(&cells, &figures));
    println!("\n{LEGEND}");
    Ok(outcome(&cells, &figures, options.check))
}

fn measure_ours(ours: &Fabricbench, cell: &Cell, options: &Options) -> Result<f64> {
    let mut arguments = vec![
        "--transport".to_owned(),
        cell.transport().to_string(),
        "--pattern".to_owned(),
        cell.pattern.to_string(),
        "--sizes".to_owned(),
        cell.size.to_string(),
        "--iterations".to_owned(),
        cell.messages.to_string(),
        // perftest has no warm-up; one message is the least that there is here.
        "--warm-up".to_owned(),
        "1".to_owned(),
        "--cpus".to_owned(),
        format!("{}:{}", options.client_cpu, options.server_cpu),
        "--device".to_owned(),
        options.device.clone(),
    ];
    for (option, number) in
        [("--gid-index", options.gid_index), ("--inline-size", options.inline_size)]
    {
        arguments.extend(number.into_iter().flat_map(|n| [option.to_owned(), n.to_string()]));
    }
    if cell.tuned {
        arguments.push("--tune".to_owned());
    }
    let cell_record = ours.measure(&arguments, Duration::from_secs(options.limit))?;
    match cell.pattern {
        Pattern::Latency => latency_us(&cell_record),
        Pattern::Rate => messages_per_s(&cell_record),
        _ => bytes_per_s(&cell_record),
    }
}

const LEGEND: &str = "\
Latency: half round trips in us, of reads whole ones, the median of each run (perftest's \
t_typical). Bandwidth (of reads: fetch): MB/s, MB = 10^6 bytes (perftest's BW average converted from \
MiB/s). Rate: thousands of messages a second (perftest's MsgRate); `tuned`: with the settings that \
fabricbench's --tune finds in each run, against perftest's defaults. Where something is pushed, \
fabricbench's clock runs until the receiver has confirmed the last byte, perftest's until the last \
completion. Figures are medians \
over the rounds; ratio is the median of the rounds' ratios fabricbench / perftest, with its 95 % \
interval from order statistics. The last two columns hold the bar against the median and against \
the interval's lower end: for a latency that is the best the rounds allow, for a bandwidth the \
worst.";

fn ratio(figures: &Figures, cell: usize) -> Option<Ratio> {
    Ratio::of(figures.of(cell, 0), figures.of(cell, 1))
}

fn render(cells: &[Cell], figures: &Figures) -> String {
    let header: Vec<&str> = ["pattern", "transport", "size", "fabricbench", "perftest"]
        .into_iter()
        .chain(JUDGED)
        .collect();
    let rows: Vec<Vec<String>> = cells
        .iter()
        .enumerate()
        .map(|(index, cell)| {
            let (name, unit) = cell.unit();
            let tuned = if cell.tuned { " tuned" } else { "" };
            let shown = |contender| figure(median(figures.of(index, contender)).map(|m| m / unit));
            let mut row = vec![
                format!("{}{tuned}, {name}", cell.pattern),
                cell.transport().to_string(),
                display_bytes(cell.size).to_string(),
                shown(0),
                shown(1),
            ];
            row.extend(judged(ratio(figures, index), Some(cell.bar())));
            row
        })
        .collect();
    table(&header, 2, &rows)
}

fn outcome(cells: &[Cell], figures: &Figures, check: bool) -> Outcome {
    let missed = cells
        .iter()
        .enumerate()
        .any(|(index, cell)| ratio(figures, index).is_some_and(|ratio| ratio.misses(cell.bar())));
    Outcome::of(!figures.failures.is_empty(), check && missed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    fn example() -> [Cell; 2] {
        let operation = VerbsOperation::Write;
        let cell = |pattern, size| Cell { operation, pattern, size, messages: 100, tuned: false };
        [cell(Pattern::Latency, 2), cell(Pattern::Bandwidth, 65_536)]
    }

    fn found(latency_ratio: f64) -> Figures {
        measure(9, &names(&example()), &CONTENDERS, |slot| {
            let drift = 1.0 + slot.round as f64;
            let theirs = if slot.cell == 0 { 10.0 } else { 40e6 } * drift;
            Ok(match (slot.contender, slot.cell) {
                (0, 0) => latency_ratio * theirs,
                _ => theirs,
            })
        })
        .unwrap()
    }

    #[test]
    fn the_table_has_figures_ratios_and_both_readings() {
        let text = render(&example(), &found(1.2));
        let rows: Vec<&str> = text.lines().skip(2).collect();
        let fields = |row: &str| -> Vec<String> {
            row.trim_matches('|').split('|').map(|field| field.trim().to_owned()).collect()
        };
        assert_eq!(
            fields(rows[0]),
            [
                "latency, us",
                "verbs-write",
                "2 B",
                "60.0",
                "50.0",
                "1.200",
                "1.200 to 1.200",
                "≤ 1",
                "missed",
                "missed"
            ]
        );
        assert_eq!(
            fields(rows[1])[..5],
            ["bandwidth, MB/s", "verbs-write", "64 KiB", "200", "200"]
        );
        assert_eq!(fields(rows[1])[7..], ["≥ 1", "met", "met"]);
    }

    #[test]
    fn bars_count_only_when_checked_and_failures_always() {
        let cells = example();
        assert_eq!(outcome(&cells, &found(1.2), false), Outcome::Passed);
        assert_eq!(outcome(&cells, &found(1.2), true), Outcome::Missed);
        assert_eq!(outcome(&cells, &found(1.0), true), Outcome::Passed);
        let failed = measure(9, &names(&example()), &CONTENDERS, |slot| {
            if slot.round == 3 { Err(anyhow!("cut")) } else { Ok(1.0) }
        });
        // Twice in a row each: not yet hopeless.
        assert_eq!(outcome(&cells, &failed.unwrap(), false), Outcome::Incomplete);
    }
}
