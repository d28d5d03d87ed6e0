//! How a run goes, on standard error.

use std::{
    io::IsTerminal,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::{complain, say};
use crate::{
    report::{CellRecord, Status, number::figure},
    run::{Beginning, Progress},
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
    Lines(Lines),
    Nothing,
    /// Not even what else goes beside errors.
    Quiet,
}

/// Lines, and a thread that says of a long slice that it is still under way.
#[derive(Debug)]
pub(super) struct Lines {
    standing: Arc<Mutex<Standing>>,
    // Ends the thread when it is dropped.
    _over: Option<Sender<()>>,
}

#[derive(Debug)]
struct Standing {
    last: Instant,
    // The slice that is measured, and since when.
    slice: Option<(String, Instant)>,
}

impl Lines {
    fn new() -> Self {
        let standing = Arc::new(Mutex::new(Standing { last: Instant::now(), slice: None }));
        let (over, told) = channel();
        let of_thread = Arc::clone(&standing);
        // It wakes so seldom that it does not disturb a slice. Without it a long slice is silent, no more.
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(move || {
            let mut wait = LONGEST_SILENCE;
            while told.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = still_under_way(&mut locked(&of_thread));
            }
        });
        Self { standing, _over: thread.is_ok().then_some(over) }
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        locked(&self.standing)
    }
}

fn locked(standing: &Mutex<Standing>) -> MutexGuard<'_, Standing> {
    standing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says so if nothing was said for long, and returns when to look again.
fn still_under_way(standing: &mut Standing) -> Duration {
    let silent = standing.last.elapsed();
    if silent < LONGEST_SILENCE {
        return LONGEST_SILENCE.saturating_sub(silent);
    }
    if let Some((slice, since)) = &standing.slice {
        say(format_args!("{slice}; under way for {} s", since.elapsed().as_secs()));
        standing.last = Instant::now();
    }
    LONGEST_SILENCE
}

/// Silence on `--progress lines` at the most.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

impl Shown {
    pub(super) fn new(mode: ProgressMode) -> Self {
        match mode {
            ProgressMode::Lines => Self::Lines(Lines::new()),
            ProgressMode::None => Self::Nothing,
            ProgressMode::Auto if !std::io::stderr().is_terminal() => Self::Nothing,
            ProgressMode::Auto => {
                let bar = ProgressBar::new(0);
                style(&bar, "[{elapsed_precise}] {wide_msg}");
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
            Self::Lines(_) => say(text),
            Self::Nothing => return false,
            // It is to be silent, and so it is said as well as can be.
            Self::Quiet => {}
        }
        true
    }

    /// Shows a line that stays.
    pub(super) fn announce(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.println(text),
            Self::Lines(_) => say(text),
            Self::Nothing | Self::Quiet => {}
        }
    }

    /// Shows a line that was asked for, whatever is shown of the progress.
    pub(super) fn note(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| say(text)),
            Self::Lines(_) | Self::Nothing => say(text),
            Self::Quiet => {}
        }
    }

    pub(super) fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// The templates are constants; were one wrong, the style before it would be shown.
fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

impl Progress for Shown {
    fn begin(&mut self, beginning: &Beginning<'_>) {
        let Beginning { slice, of, .. } = beginning;
        match self {
            Self::Bar(bar) => {
                // Of no slices a bar would be full.
                if *slice == 0 {
                    style(bar, "[{elapsed_precise}] {bar:30} {pos}/{len} {wide_msg}");
                }
                bar.set_length(*of as u64);
                bar.set_position(*slice as u64);
                bar.set_message(so_far(beginning));
            }
            Self::Lines(lines) => {
                let mut standing = lines.standing();
                let text = format!("slice {} of {of}: {}", slice + 1, so_far(beginning));
                if standing.last.elapsed() >= LONGEST_SILENCE {
                    say(&text);
                    standing.last = Instant::now();
                }
                standing.slice = Some((text, Instant::now()));
            }
            Self::Nothing | Self::Quiet => {}
        }
    }

    fn warn(&mut self, text: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| complain(text)),
            Self::Lines(_) | Self::Nothing => complain(text),
            // It is in the result.
            Self::Quiet => {}
        }
    }

    fn cell_done(&mut self, cell: &CellRecord) {
        if let Self::Lines(lines) = self {
            say(summary(cell));
            *lines.standing() = Standing { last: Instant::now(), slice: None };
        }
    }
}

/// The cell that is measured, its figure so far, and how long all of it will still take.
fn so_far(beginning: &Beginning<'_>) -> String {
    let whole =
        |left: Duration| HumanDuration(Duration::from_secs(left.as_secs_f64().round() as u64));
    let left = beginning.left.map_or_else(String::new, |left| format!("; {} left", whole(left)));
    match beginning.so_far.status {
        Status::Measured => format!("{}{left}", summary(beginning.so_far)),
        _ => format!("{}{left}", beginning.cell),
    }
}

/// What a round found: of that round alone, behind it the cell so far.
pub(super) fn round_summary(round: u32, cell: &CellRecord) -> String {
    let of = cell.rounds.iter().find(|of| of.round == round);
    let found = match of {
        Some(of) => {
            let p50 = match of.p50 {
                Some(p50) => format!(", median {:.2} us", p50 / 1e3),
                None => String::new(),
            };
            format!("{} messages in {:.3} s{p50}; ", of.messages, of.elapsed_ns as f64 / 1e9)
        }
        None => String::new(),
    };
    format!("round {}: {found}so far {}", round + 1, summary(cell))
}

fn summary(cell: &CellRecord) -> String {
    let name = format!("{} {} {}", cell.label(), cell.pattern, cell.size_label());
    let within = match cell.half_width() {
        Some(half) => format!(" +- {} %", figure(Some(half * 100.0))),
        None => String::new(),
    };
    let figure = match (cell.status, &cell.latency, &cell.throughput, &cell.reason) {
        (Status::Measured, Some(latency), _, _) => match latency.p50 {
            Some(p50) => format!("{:.2} us{within} ({}, median)", p50 / 1e3, latency.kind),
            None => format!("{} samples, too few for a median", latency.samples),
        },
        (Status::Measured, None, Some(rate), _) => {
            format!("{:.1} MB/s{within}", rate.bytes_per_s / 1e6)
        }
        (_, _, _, Some(reason)) => reason.clone(),
        _ => String::new(),
    };
    format!("{name}: {figure}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Pattern, Plan, Sizes, Stop},
        report::Throughput,
        run::unmeasured,
    };

    #[test]
    fn a_cell_is_shown_with_its_figure_so_far_and_the_time_that_is_left() {
        let transports = ["tcp@loopback".parse().unwrap()];
        let sizes = Sizes::parse("64").unwrap();
        let plan = Plan::new(&transports, &[Pattern::Bandwidth], &sizes, Stop::default(), 3, 1);
        let mut record = unmeasured(&plan, "not yet").remove(0);
        let shown = |record: &CellRecord| {
            let left = Some(Duration::from_millis(12_300));
            so_far(&Beginning { slice: 1, of: 3, cell: &plan.cells[0], so_far: record, left })
        };
        assert_eq!(shown(&record), "tcp@loopback bandwidth 64 B; 12 seconds left");
        record.status = Status::Measured;
        record.throughput = Some(Throughput {
            bytes_per_s: 5e6,
            messages_per_s: 1.0,
            interval_95: Some([4.5e6, 5.5e6]),
        });
        let text = shown(&record);
        assert_eq!(text, "tcp@loopback bandwidth 64 B: 5.0 MB/s +- 10.0 %; 12 seconds left");
    }
}
