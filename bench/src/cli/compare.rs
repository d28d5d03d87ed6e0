//! `fabricbench compare`: two results or more beside each other.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::PathBufValueParser};

use super::{Exit, Failure, print};
use crate::comparison::{
    Comparison, Gate, GateError, GateVerdict, Request, Verdict, json, markdown, read, text,
};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 no gate tripped, 1 a file cannot be read, 2 wrong usage (also a gate \
                        that names no figure of either file), 5 a gate tripped, 6 something could not \
                        be compared or held to its gate."
)]
pub(super) struct CompareArguments {
    /// The old result, as `run -o FILE` wrote it
    #[arg(value_name = "BASE", value_parser = PathBufValueParser::new())]
    base: PathBuf,
    /// The new result; several are each compared with BASE
    #[arg(value_name = "NEW", required = true, value_parser = PathBufValueParser::new())]
    new: Vec<PathBuf>,
    /// End with 5 if a figure changed by more than chance explains and beyond a ratio of new to old:
    /// `METRIC > RATIO @ TRANSPORT PATTERN SIZE`, of which all behind RATIO may be left out; may be
    /// given more than once. METRIC is latency.p50, latency.p99, .p999, .mean, .min or .max, bandwidth, rate
    /// or cpu (of a message); `<` instead of `>` for what becomes less; * and ? stand for any characters
    #[arg(long, value_name = "GATE", value_parser = parse_gate)]
    fail_on: Vec<Gate>,
    /// Compare also what is not comparable: other hosts, devices or loads
    #[arg(long)]
    anyway: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A row a figure, for a terminal
    Table,
    /// For a pull request: verdict and what differs, the rest folded
    Markdown,
    /// One document with all figures
    Json,
}

fn parse_gate(text: &str) -> Result<Gate, GateError> {
    text.parse()
}

/// Compares the files and says what that shows.
///
/// # Errors
/// A file is no result, or a gate names nothing.
pub(super) fn compare(arguments: &CompareArguments) -> Result<Exit, Failure> {
    let request = Request {
        anyway: arguments.anyway,
        all_figures: arguments.format == Format::Json,
        gates: arguments.fail_on.clone(),
    };
    let base = read(&arguments.base).map_err(Failure::error)?;
    let comparisons = arguments
        .new
        .iter()
        .map(|new| Ok(Comparison::of(&base, &read(new).map_err(Failure::error)?, &request)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let shown = match arguments.format {
        Format::Table => comparisons.iter().map(text).collect::<Vec<_>>().join("\n"),
        Format::Markdown => comparisons.iter().map(markdown).collect::<Vec<_>>().join("\n"),
        Format::Json => json(&comparisons).map_err(Failure::error)?,
    };
    print(&shown)?;
    let mut gates = comparisons.iter().flat_map(|comparison| &comparison.gates);
    if let Some(gate) = gates.find(|gate| gate.verdict == GateVerdict::NamesNothing) {
        return Err(Failure::Usage(format!(
            "--fail-on `{}`: no cell of either file has such a figure, so that it would pass for ever; the \
             table shows which there are",
            gate.gate
        )));
    }
    let worst = comparisons.iter().map(|comparison| comparison.verdict).max();
    Ok(match worst {
        None | Some(Verdict::Passed) => Exit::Complete,
        Some(Verdict::NotComparable) => Exit::NotComparable,
        Some(Verdict::Tripped) => Exit::Tripped,
    })
}
