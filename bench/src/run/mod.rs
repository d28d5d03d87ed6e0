//! A plan, carried out: slice after slice.

mod advice;
mod overload;
mod phases;
mod tally;
mod trace;
mod trouble;
mod tune;

use std::time::{Duration, Instant};

use advice::advice;
use overload::overloads;
use tally::Tally;
use thiserror::Error;
pub use trace::Trace;
use trouble::troubles;

use crate::{
    clock::Clock,
    engine::{Task, WarmUp, slices},
    plan::{Cell, Plan, Stop},
    report::{CellRecord, Document, OutputError, ResultFile, Status},
    session::{Conversation, Initiating, Slice, SliceError, SlicePhases, SliceRecord},
    transport::{Patience, StopReason},
};

/// Told how a run goes.
pub trait Progress {
    /// A slice begins: number `index` of `of`.
    fn begin(&mut self, index: usize, of: usize, slice: &Slice);
    /// A cell has all its rounds, or will never have them.
    fn cell_done(&mut self, cell: &CellRecord);
    /// Calls were marked in a slice of `cell`.
    fn marked(&mut self, _cell: &Cell, _round: u32, _phases: &SlicePhases) {}
}

/// What is the same for every slice.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// What is done before the clock starts, in each slice.
    pub warm_up: WarmUp,
    /// An operation that is not done by then is given up.
    pub patience: Duration,
    /// Whether the settings of each verbs push are searched for before its first slice.
    pub tune: bool,
}

/// Why a run ended early.
#[derive(Debug, Error)]
pub enum RunError {
    /// The result could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The server is lost.
    #[error("lost the server: {0}; what was measured before is kept")]
    PeerLost(String),
    /// The user interrupted.
    #[error("interrupted; what was measured before is kept")]
    Interrupted,
}

/// What a process that is killed may have measured and not written down.
const LONGEST_UNWRITTEN: Duration = Duration::from_secs(1);

/// Measures the cells of `plan` into `document`, which is written to `file` every second, between slices.
///
/// # Errors
/// [`RunError`]; the document then holds what was measured before, and says of the rest why not.
pub fn run<C: Clock + Clone + Send + Sync + 'static>(
    plan: &Plan,
    rules: Rules,
    initiating: &Initiating<C>,
    conversation: &mut impl Conversation,
    document: &mut Document,
    file: Option<&ResultFile>,
    progress: &mut impl Progress,
) -> Result<(), RunError> {
    let mut tallies: Vec<Tally> = plan.cells.iter().cloned().map(Tally::new).collect();
    document.cells = tallies.iter().map(Tally::record).collect();
    let order: Vec<_> = slices(plan).collect();
    let mut ended = Ok(());
    let mut written = Instant::now();
    for (index, next) in order.iter().enumerate() {
        let Some(tally) = tallies.get_mut(next.cell) else { continue };
        if tally.is_over() {
            continue;
        }
        let mut slice = slice(plan, rules, tally, next.round, initiating);
        progress.begin(index, order.len(), &slice);
        let measured = if rules.tune && tune::applies(&slice.cell) {
            match tally.found() {
                Some(found) => Ok(found.clone()),
                None => tune::search(initiating, conversation, &slice, rules),
            }
            .and_then(|found| {
                (slice.depth, slice.tuning) = (found.tuning.depth, Some(found.tuning));
                tally.found_settings(found);
                initiating.measure(conversation, &slice)
            })
        } else {
            initiating.measure(conversation, &slice)
        };
        let stopped = match &measured {
            Err(SliceError::Stopped(reason)) => Some(reason.clone()),
            _ => None,
        };
        if let Ok(SliceRecord { phases: Some(phases), .. }) = &measured {
            progress.marked(&slice.cell, next.round, phases);
        }
        tally.offered(slice.offered);
        tally.add(next.round, slice.depth, measured);
        let last = next.round + 1 == plan.rounds;
        if let Some(record) = document.cells.get_mut(next.cell) {
            *record = tally.record();
            if last || record.status != Status::Measured {
                progress.cell_done(record);
            }
        }
        // Not after each slice: of a plan of thousands of cells, writing would take longer than measuring.
        if let Some(file) = file.filter(|_| written.elapsed() >= LONGEST_UNWRITTEN) {
            file.write(document)?;
            written = Instant::now();
        }
        match stopped {
            Some(StopReason::PeerLost(how)) => ended = Err(RunError::PeerLost(how)),
            Some(StopReason::Interrupted | StopReason::Finished) => {
                ended = Err(RunError::Interrupted);
            }
            Some(StopReason::DeviceLost(_)) | None => continue,
        }
        break;
    }
    document.warnings.extend(unsteady(&document.cells));
    document.warnings.extend(troubles(&document.cells));
    document.warnings.extend(overloads(&document.cells));
    document.advice = advice(&document.cells, &initiating.here, &initiating.there);
    // A device or pipe is written once, at the end, so it needs the document also when it was cut.
    document.complete = ended.is_ok();
    if let Some(file) = file {
        file.finish(document)?;
    }
    ended
}

/// The cells of a plan of which nothing was measured, and why.
#[must_use]
pub fn unmeasured(plan: &Plan, reason: &str) -> Vec<CellRecord> {
    let cell = |cell: &Cell| {
        let mut record = Tally::new(cell.clone()).record();
        record.reason = Some(reason.to_owned());
        record
    };
    plan.cells.iter().map(cell).collect()
}

/// Rounds of one cell that differ by more than this are worth a warning.
const UNSTEADY: f64 = 2.0;

/// A warning if the machine was not steady: a reader should then repeat the run on a quiet one.
fn unsteady(cells: &[CellRecord]) -> Option<String> {
    let spread = |cell: &CellRecord| {
        // Time per message, which every pattern has.
        let times = cell
            .rounds
            .iter()
            .filter(|round| round.messages > 0)
            .map(|round| round.elapsed_ns as f64 / round.messages as f64);
        let (low, high) = times
            .fold((f64::INFINITY, 0.0_f64), |(low, high), time| (time.min(low), time.max(high)));
        high / low
    };
    let measured = cells.iter().filter(|cell| cell.status == Status::Measured).count();
    let count = cells
        .iter()
        .filter(|cell| cell.status == Status::Measured && spread(cell) > UNSTEADY)
        .count();
    (count > 0).then(|| {
        format!(
            "in {count} of {measured} cells the rounds differ by more than a factor of {UNSTEADY} \
             (`rounds` in the document): the machine was not steady; repeat on a quiet one"
        )
    })
}

fn slice<C>(
    plan: &Plan,
    rules: Rules,
    tally: &Tally,
    round: u32,
    initiating: &Initiating<C>,
) -> Slice {
    let cell = tally.cell().clone();
    let settings = initiating.variants.of(&cell.variant);
    let stop = plan.stop.share(round, plan.rounds);
    let task = Task {
        stop,
        least_messages: stop.least_messages(plan.rounds),
        warm_up: rules.warm_up,
        patience: Patience(rules.patience),
    };
    let threads = cell.roles.map_or(settings.threads, |roles| roles.workers);
    Slice {
        depth: settings.depth(&cell),
        offered: settings.offered(&cell),
        cell,
        // A thread without a message would be none.
        threads: match stop {
            Stop::Messages(all) => threads.min(u32::try_from(all).unwrap_or(u32::MAX)),
            Stop::After(_) => threads,
        },
        connections: settings.connections,
        phases: settings.phases,
        seed: plan.seed ^ u64::from(round),
        tuning: None,
        server_cpu: initiating.affinity.server,
        task,
    }
}

/// What one slice came to, for the tally.
type Measured = Result<SliceRecord, SliceError>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plan::Pattern, report::RoundRecord};

    #[test]
    fn rounds_that_differ_are_told() {
        let cell = Cell::new("verbs-send".parse().unwrap(), Pattern::Latency, 1);
        let mut record = Tally::new(cell).record();
        let round = |round, elapsed_ns| RoundRecord { round, messages: 10, elapsed_ns, p50: None };
        record.status = Status::Measured;
        record.rounds = vec![round(0, 1000), round(1, 1900)];
        assert_eq!(unsteady(&[record.clone()]), None);
        record.rounds.push(round(2, 2100));
        assert!(unsteady(&[record.clone()]).unwrap().starts_with("in 1 of 1 cells"));
        record.status = Status::Failed;
        assert_eq!(unsteady(&[record]), None);
    }
}
