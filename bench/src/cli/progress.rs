//! How a run goes, on standard error.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use super::say;
use crate::{
    report::{CellRecord, Status},
    run::Progress,
    session::Slice,
};

/// What to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProgressMode {
    /// A bar on a terminal, else nothing
    Auto,
    /// A line for each finished cell, and every few seconds where the run stands
    Lines,
    /// Nothing
    None,
}

/// Shows it.
#[derive(Debug)]
pub(super) enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

/// Silence on `--progress lines` at the most.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

impl Shown {
    pub(super) fn new(mode: ProgressMode) -> Self {
        match mode {
            ProgressMode::Lines => Self::Lines { last: Instant::now() },
            ProgressMode::None => Self::Nothing,
            ProgressMode::Auto if !std::io::stderr().is_terminal() => Self::Nothing,
            ProgressMode::Auto => {
                let bar = ProgressBar::new(0);
                // The template is a constant; were it wrong, the default style would be shown.
                if let Ok(style) = ProgressStyle::with_template(
                    "[{elapsed_precise}] {bar:30} {pos}/{len} {wide_msg} {eta} left",
                ) {
                    bar.set_style(style);
                }
                // Drawn from a thread of its own, so seldom that it does not disturb a slice.
                bar.enable_steady_tick(Duration::from_millis(500));
                Self::Bar(bar)
            }
        }
    }

    /// Shows a line, and returns whether it did.
    pub(super) fn say(&self, text: &str) -> bool {
        match self {
            Self::Bar(bar) => bar.set_message(text.to_owned()),
            Self::Lines { .. } => say(text),
            Self::Nothing => return false,
        }
        true
    }

    pub(super) fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Shown {
    fn begin(&mut self, index: usize, of: usize, slice: &Slice) {
        match self {
            Self::Bar(bar) => {
                bar.set_length(of as u64);
                bar.set_position(index as u64);
                bar.set_message(slice.cell.to_string());
            }
            Self::Lines { last } if last.elapsed() >= LONGEST_SILENCE => {
                say(format_args!("slice {} of {of}: {}", index + 1, slice.cell));
                *last = Instant::now();
            }
            Self::Lines { .. } | Self::Nothing => {}
        }
    }

    fn cell_done(&mut self, cell: &CellRecord) {
        if let Self::Lines { last } = self {
            say(summary(cell));
            *last = Instant::now();
        }
    }
}

fn summary(cell: &CellRecord) -> String {
    let name = format!("{} {} {}", cell.label(), cell.pattern, cell.size_label());
    let figure = match (cell.status, &cell.latency, &cell.throughput, &cell.reason) {
        (Status::Measured, Some(latency), _, _) => match latency.p50 {
            Some(p50) => format!("{:.2} us ({}, median)", p50 / 1e3, latency.kind),
            None => format!("{} samples, too few for a median", latency.samples),
        },
        (Status::Measured, None, Some(rate), _) => format!("{:.1} MB/s", rate.bytes_per_s / 1e6),
        (_, _, _, Some(reason)) => reason.clone(),
        _ => String::new(),
    };
    format!("{name}: {figure}")
}
