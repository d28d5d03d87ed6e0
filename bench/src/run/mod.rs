//! A plan, carried out: slice after slice.

mod advice;
mod checks;
mod drift;
mod figures;
mod frequency;
mod measure;
mod overload;
mod pace;
mod phases;
mod search;
mod tally;
mod trace;
mod trouble;
mod tune;

use std::time::{Duration, Instant};

use advice::advice;
use checks::{failures, under_way};
use drift::{drift, drifted, unsteady};
pub use measure::Measuring;
use measure::WithServer;
use overload::overloads;
use pace::Pace;
pub use pace::{estimate, planned_least};
use phases::unmarked;
use search::Search;
use tally::{Tally, stopped as stopped_by};
use thiserror::Error;
pub use trace::Trace;
use trouble::troubles;

use crate::{
    clock::Clock,
    engine::{Order, Task, WarmUp},
    plan::{Cell, LEAST_MESSAGES, Pattern, Plan},
    report::{
        CellRecord, Document, OutputError, ResultFile, Status, StoppedBy, model, number::figure,
    },
    session::{Conversation, Initiating, SliceError, SlicePhases, SliceRecord},
    transport::{Patience, StopReason},
};

/// A slice that begins.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// Which, from 0.
    pub slice: usize,
    /// How many there will be, as far as is known.
    pub of: usize,
    /// Its cell.
    pub cell: &'a Cell,
    /// What was found of it before.
    pub so_far: &'a CellRecord,
    /// Until the end of the run, as far as is known; `None` while nothing is.
    pub left: Option<Duration>,
}

/// Told how a run goes.
pub trait Progress {
    /// A slice begins.
    fn begin(&mut self, beginning: &Beginning<'_>);
    /// Something that cannot wait for the end.
    fn warn(&mut self, text: &str);
    /// A round of a cell was measured, or failed: what there is of it now.
    fn round_done(&mut self, _round: u32, _cell: &CellRecord) {}
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
    /// The budget ended before the plan.
    #[error("the --budget of {0:?} was spent; what was measured before is kept")]
    BudgetSpent(Duration),
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
    let mut measuring = WithServer::new(initiating, conversation, rules);
    let ended = carry_out(plan, rules, &mut measuring, document, file, progress);
    if let Err(RunError::Output(_)) = ended {
        return ended;
    }
    document.warnings.extend(unmarked(&document.cells, &initiating.variants));
    document.model = model(document);
    document.advice = advice(&document.cells, &initiating.here, &initiating.there);
    // A device or pipe is written once, at the end, so it needs the document also when it was cut.
    document.complete = ended.is_ok();
    if let Some(file) = file {
        file.finish(document)?;
    }
    ended
}

/// Measures the cells of `plan` by `measuring` into `document`; the last writing of the file is the caller's.
///
/// # Errors
/// As [`run`].
pub fn carry_out(
    plan: &Plan,
    rules: Rules,
    measuring: &mut impl Measuring,
    document: &mut Document,
    file: Option<&ResultFile>,
    progress: &mut impl Progress,
) -> Result<(), RunError> {
    document.cells = unmeasured(plan, "the run ended before its turn");
    let mut run = Run {
        rules,
        start: measuring.now(),
        written: Instant::now(),
        slices: 0,
        depths: Vec::new(),
        has_said_longer: false,
    };
    let mut search = Search::of(plan);
    let mut ended = run.stage(plan, 0, measuring, document, file, progress);
    if let Some(search) = &mut search {
        while ended.is_ok()
            && let Some(next) = search.next(plan, &document.cells)
        {
            let first = document.cells.len();
            document.cells.extend(unmeasured(&next, "the run ended before its turn"));
            ended = run.stage(&next, first, measuring, document, file, progress);
        }
    }
    if let Err(RunError::Output(_)) = ended {
        return ended;
    }
    document.measured_s = Some(since(measuring, run.start).as_secs_f64());
    for (record, depth) in document.cells.iter_mut().zip(run.depths) {
        record.line_bytes_per_s = measuring.line(record);
        record.failed_checks = checks::failed(record, depth, record.line_bytes_per_s);
    }
    if let Some(search) = search {
        document.knees = search.knees(&document.cells);
        search.sort(&mut document.cells);
    }
    document.drift = drift(&document.cells);
    document.warnings.extend(failures(&document.cells));
    document.warnings.extend(unsteady(&document.cells));
    document.warnings.extend(document.drift.as_ref().and_then(drifted));
    document.warnings.extend(troubles(&document.cells));
    document.warnings.extend(frequency::moved(document));
    document.warnings.extend(overloads(document));
    ended
}

/// What goes on from one plan of a run to the next.
struct Run {
    rules: Rules,
    start: u64,
    written: Instant,
    /// Slices so far.
    slices: usize,
    /// Operations under way in closed loops, by cell of the document.
    depths: Vec<Option<u64>>,
    /// Whether it was told that the fewest messages make it longer.
    has_said_longer: bool,
}

impl Run {
    /// Measures the cells of `plan`, whose records are those of the document from `first` on.
    fn stage(
        &mut self,
        plan: &Plan,
        first: usize,
        measuring: &mut impl Measuring,
        document: &mut Document,
        file: Option<&ResultFile>,
        progress: &mut impl Progress,
    ) -> Result<(), RunError> {
        let (rules, start) = (self.rules, self.start);
        let mut tallies: Vec<Tally> = plan.cells.iter().map(|_| Tally::default()).collect();
        let (mut order, mut pace) = (Order::new(plan), Pace::new(plan));
        let mut ended = Ok(());
        let mut lacks = false;
        self.depths.resize(first + plan.cells.len(), None);
        'rounds: while pace.begin_round(since(measuring, start)) {
            if let Some(lacking) = pace.lacking(since(measuring, start)).filter(|_| !lacks) {
                lacks = true;
                progress.warn(&too_short(plan, &pace, lacking));
            }
            for cell in order.next_round() {
                let (Some(planned), Some(tally), Some(record)) = (
                    plan.cells.get(cell),
                    tallies.get_mut(cell),
                    document.cells.get_mut(first + cell),
                ) else {
                    continue;
                };
                if pace.is_over(cell) {
                    continue;
                }
                let (began, round) = (since(measuring, start), pace.round());
                if let Some(budget) = plan.budget.filter(|_| pace.is_spent(began)) {
                    ended = Err(RunError::BudgetSpent(budget));
                    break 'rounds;
                }
                let turn = pace.turn(began);
                let task = Task {
                    stop: turn.stop,
                    least_messages: turn.least_messages,
                    warm_up: rules.warm_up,
                    patience: Patience(rules.patience),
                };
                let mut slice = measuring.slice(planned, task, plan.seed ^ u64::from(round));
                progress.begin(&Beginning {
                    slice: self.slices,
                    of: self.slices + pace.slices_left(),
                    cell: &slice.cell,
                    so_far: record,
                    left: pace.left(began),
                });
                self.slices += 1;
                let measured = measuring.measure(first + cell, &mut slice);
                if let Some(depth) = self.depths.get_mut(first + cell) {
                    *depth = under_way(&slice);
                }
                let stopped = match &measured {
                    Err(SliceError::Stopped(reason)) => Some(reason.clone()),
                    _ => None,
                };
                if let Ok(measured) = &measured {
                    frequency::note(
                        [Some(&mut document.client), document.server.as_mut()],
                        measured.mhz,
                    );
                }
                let timed = measured.as_ref().ok().map(pace::timed);
                if let Ok(SliceRecord { phases: Some(phases), .. }) = &measured {
                    progress.marked(&slice.cell, round, phases);
                }
                tally.add(record, planned, (round, &slice), measured);
                progress.round_done(round, record);
                let took = since(measuring, start).saturating_sub(began);
                let by = pace.measured(cell, turn, took, timed, record);
                if let Some(timed) = timed.filter(|_| !self.has_said_longer)
                    && let Some(longer) = pace.longer(cell, turn, timed)
                {
                    self.has_said_longer = true;
                    let left = pace.left(since(measuring, start));
                    progress.warn(&takes_longer(record, longer, left));
                }
                if let Some(by) = by
                    && plan.precision.is_some()
                {
                    stopped_by(record, by);
                }
                if pace.is_over(cell) {
                    // Nothing is added any more.
                    *tally = Tally::default();
                    progress.cell_done(record);
                }
                // Not after each slice: of a plan of thousands of cells, writing would take longer than measuring.
                if let Some(file) = file.filter(|_| self.written.elapsed() >= LONGEST_UNWRITTEN) {
                    file.write(document)?;
                    self.written = Instant::now();
                }
                ended = match stopped {
                    Some(StopReason::PeerLost(how)) => Err(RunError::PeerLost(how)),
                    Some(StopReason::Interrupted | StopReason::Finished) => {
                        Err(RunError::Interrupted)
                    }
                    Some(StopReason::DeviceLost(_)) | None => continue,
                };
                break 'rounds;
            }
            pace.end_round();
        }
        let is_cut = matches!(ended, Err(RunError::BudgetSpent(_)));
        if is_cut || ended.is_ok() && plan.precision.is_some() {
            // A budget that was spent before their next round.
            let open = document.cells.iter_mut().skip(first).enumerate();
            for (_, record) in open.filter(|(cell, _)| !pace.is_over(*cell)) {
                if record.status == Status::Skipped {
                    record.reason = Some(spent(plan));
                } else if plan.precision.is_some() {
                    stopped_by(record, StoppedBy::Budget);
                }
                progress.cell_done(record);
            }
        }
        if is_cut {
            let left_out = cut(plan, document);
            document.warnings.push(left_out);
        }
        ended
    }
}

/// A budget that does not suffice.
fn too_short(plan: &Plan, pace: &Pace, lacking: f64) -> String {
    let budget = plan.budget.unwrap_or_default();
    let takes = budget.as_secs_f64() + lacking;
    format!(
        "a --budget of {budget:?} is too short: {} slices with the fewest messages take about {takes:.1} s \
         with set-up and warm-up; it ends all the same, and what has no figure by then is skipped; give more, or \
         fewer sizes, transports or --rounds",
        pace.slices()
    )
}

/// Why there is no figure of what a budget left no time for.
fn spent(plan: &Plan) -> String {
    format!("the --budget of {:?} was spent", plan.budget.unwrap_or_default())
}

/// What a budget left undone.
fn cut(plan: &Plan, document: &Document) -> String {
    let of =
        |is: &dyn Fn(&CellRecord) -> bool| document.cells.iter().filter(|cell| is(cell)).count();
    let skipped = of(&|cell| cell.status == Status::Skipped);
    let few =
        of(&|cell| cell.status == Status::Measured && cell.rounds.len() < plan.rounds as usize);
    format!(
        "{} before the plan was carried out: of {} cells {skipped} were skipped, and {few} have fewer than {} rounds",
        spent(plan),
        document.cells.len(),
        plan.rounds
    )
}

/// That the fewest messages make a run longer than it was to be.
fn takes_longer(cell: &CellRecord, longer: pace::Longer, left: Option<Duration>) -> String {
    let operation = match cell.pattern {
        Pattern::Calls => "call",
        pattern if pattern.has_roles() => "step",
        _ => "message",
    };
    let pace::Longer { message, given, takes } = longer;
    let shown = |seconds| figure(Some(seconds));
    let left = left
        .map_or_else(String::new, |left| format!("; about {:.0} s are left", left.as_secs_f64()));
    format!(
        "{} {} {}: a {operation} takes {} s, so that the fewest that a median needs ({LEAST_MESSAGES}) make {} s of \
         -D into {} s{left}",
        cell.label(),
        cell.pattern,
        cell.size_label(),
        shown(message),
        shown(given),
        shown(takes)
    )
}

fn since(measuring: &impl Measuring, start: u64) -> Duration {
    Duration::from_nanos(measuring.now().saturating_sub(start))
}

/// The cells of a plan of which nothing was measured, and why.
#[must_use]
pub fn unmeasured(plan: &Plan, reason: &str) -> Vec<CellRecord> {
    plan.cells.iter().map(|cell| tally::unmeasured(cell, reason)).collect()
}
