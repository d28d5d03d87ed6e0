//! How long each slice may take, and when a cell has had enough: by messages or time, by how narrowly its
//! figure is known, and by a budget for the whole run.

mod budget;
mod costs;

use std::time::Duration;

pub use budget::{estimate, planned_least};

use budget::{Coming, least, share};
use costs::{Costs, Spent};

use crate::{
    plan::{LEAST_MESSAGES, Plan, Stop},
    report::{CellRecord, StoppedBy},
    session::SliceRecord,
    stats::LEAST_ROUNDS,
};

/// Slices of a cell that is measured until its figure is known narrowly enough, for each of its least rounds:
/// shorter ones, so that there are rounds to come by which it may be.
const SLICES_A_ROUND: u32 = 4;

/// The most rounds into which a budget is cut.
const MOST_ROUNDS: u32 = 30;

/// By which share of it a budget may be exceeded before the run is cut: what slices cost is known no better.
const OVERRUN: f64 = 0.05;

/// By how much a run has to become longer for the fewest messages of its cells before that is told, in seconds.
const LONGER: f64 = 3.0;

/// The shortest slice into which a budget is cut while there are rounds enough.
const SHORTEST: f64 = 0.05;

/// What a slice is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) stop: Stop,
    pub(super) least_messages: u64,
}

/// That the fewest messages make a cell longer than it was given, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Longer {
    pub(super) message: f64,
    pub(super) given: f64,
    pub(super) takes: f64,
}

/// The pace of a run.
#[derive(Debug)]
pub(super) struct Pace {
    stop: Stop,
    precision: Option<f64>,
    budget: Option<f64>,
    // Rounds that every cell has, and that it has at the most.
    least: u32,
    most: u32,
    round: u32,
    cells: Vec<CellPace>,
    costs: Costs,
}

#[derive(Debug, Clone, Copy, Default)]
struct CellPace {
    rounds: u32,
    messages: u64,
    timed: Duration,
    is_over: bool,
}

impl Pace {
    pub(super) fn new(plan: &Plan) -> Self {
        let (least, most) = rounds(plan);
        Self {
            stop: plan.stop,
            precision: plan.precision.map(|precision| precision.share()),
            budget: plan.budget.map(|budget| budget.as_secs_f64()),
            least,
            most,
            round: 0,
            cells: vec![CellPace::default(); plan.cells.len()],
            costs: Costs::new(plan.cells.iter()),
        }
    }

    /// Whether there is another round, now that `elapsed` of the run has passed.
    pub(super) fn begin_round(&mut self, elapsed: Duration) -> bool {
        if self.cells.iter().all(|cell| cell.is_over) {
            return false;
        }
        let Some(budget) = self.budget else { return self.round < self.most };
        if self.precision.is_some() {
            self.most = self.round + self.rounds_left(budget - elapsed.as_secs_f64());
        }
        self.round < self.most
    }

    /// Which round it is, from 0.
    pub(super) fn round(&self) -> u32 {
        self.round
    }

    /// Whether `cell` gets no further slice.
    pub(super) fn is_over(&self, cell: usize) -> bool {
        self.cells.get(cell).is_none_or(|cell| cell.is_over)
    }

    /// How many slices there are still to come, as far as is known.
    pub(super) fn slices_left(&self) -> usize {
        let open = self.cells.iter().filter(|cell| !cell.is_over);
        open.map(|cell| self.most.saturating_sub(cell.rounds) as usize).sum()
    }

    /// How many slices every cell that is open has had or will have, all together, at the least.
    pub(super) fn slices(&self) -> usize {
        self.cells.iter().filter(|cell| !cell.is_over).count() * self.least as usize
    }

    /// Ends a round.
    pub(super) fn end_round(&mut self) {
        self.round += 1;
    }

    /// Into how many further rounds the time that is left is cut: half of it measures, at the least.
    fn rounds_left(&self, left: f64) -> u32 {
        let open = self.coming(self.round + 1);
        let overheads: f64 = open.iter().map(|cell| cell.overhead).sum();
        let shortest = (overheads / open.len().max(1) as f64).max(SHORTEST);
        let measuring: f64 = open.iter().map(|cell| cell.least.max(shortest)).sum();
        let least = self.least.saturating_sub(self.round);
        let most = MOST_ROUNDS.saturating_sub(self.round).max(least);
        // Saturates, and what is no number becomes 0.
        ((left / (overheads + measuring)).floor() as u32).clamp(least, most)
    }

    /// What the next slice is to do.
    pub(super) fn turn(&self, elapsed: Duration) -> Turn {
        let least_messages = self.least_messages();
        let stop = match self.budget {
            Some(budget) => {
                Stop::After(share(budget - elapsed.as_secs_f64(), &self.coming(self.most)))
            }
            None => self.stop.share(self.round, self.most),
        };
        match stop {
            Stop::Messages(all) => Turn { stop, least_messages: all },
            Stop::After(_) => Turn { stop, least_messages },
        }
    }

    /// The slices to come of each open cell until it has `rounds` of them.
    fn coming(&self, rounds: u32) -> Vec<Coming> {
        let open = self.cells.iter().enumerate().filter(|(_, pace)| !pace.is_over);
        open.map(|(cell, pace)| Coming {
            slices: rounds.saturating_sub(pace.rounds),
            overhead: self.costs.overhead(cell),
            least: self.least_time(cell),
        })
        .collect()
    }

    fn least_messages(&self) -> u64 {
        least_messages(self.least)
    }

    fn least_time(&self, cell: usize) -> f64 {
        self.costs.operations(cell, self.least_messages())
    }

    /// Whether a budget is spent.
    pub(super) fn is_spent(&self, elapsed: Duration) -> bool {
        self.budget.is_some_and(|budget| elapsed.as_secs_f64() >= budget * (1.0 + OVERRUN))
    }

    /// What a slice of `cell` has shown that measured so many operations for `timed`: that the fewest messages take
    /// so much longer than what it was given that the run does. `None` with a budget, which ends all the same, and
    /// where that was known from the start.
    pub(super) fn longer(
        &self,
        cell: usize,
        turn: Turn,
        (timed, operations): (Duration, u64),
    ) -> Option<Longer> {
        let Stop::After(time) = turn.stop else { return None };
        if self.budget.is_some() || self.least != self.most || self.costs.is_planned(cell) {
            return None;
        }
        // More than the fewest: it was its time that ended it, and something stood still.
        let is_longer = timed > 2 * time && operations <= turn.least_messages;
        let rounds = f64::from(self.least);
        let (message, given) = (self.costs.operations(cell, 1), time.as_secs_f64() * rounds);
        let takes = message * turn.least_messages as f64 * rounds;
        (is_longer && takes - given > LONGER).then_some(Longer { message, given, takes })
    }

    /// Time until the end, as far as it can be told: of a budget what is left of it. `None` while nothing is known of
    /// how long messages take, where they decide.
    pub(super) fn left(&self, elapsed: Duration) -> Option<Duration> {
        let mut coming = self.coming(self.most);
        let left = match (self.budget, self.stop.share(0, self.most)) {
            (Some(budget), _) => (budget - elapsed.as_secs_f64()).max(0.0),
            (None, Stop::After(time)) => {
                let time = time.as_secs_f64();
                coming.iter_mut().for_each(|cell| cell.least = cell.least.max(time));
                least(&coming)
            }
            (None, Stop::Messages(messages)) => {
                let open = || self.cells.iter().enumerate().filter(|(_, pace)| !pace.is_over);
                if !open().all(|(cell, _)| self.costs.is_known(cell)) {
                    return None;
                }
                for (of, (cell, _)) in coming.iter_mut().zip(open()) {
                    of.least = self.costs.operations(cell, messages);
                }
                least(&coming)
            }
        };
        Some(Duration::try_from_secs_f64(left).unwrap_or_default())
    }

    /// Seconds by which a budget is too short for the fewest messages of what is to come, if it is.
    pub(super) fn lacking(&self, elapsed: Duration) -> Option<f64> {
        let left = self.budget? - elapsed.as_secs_f64();
        let lacking = least(&self.coming(self.least)) - left;
        (lacking > 0.0).then_some(lacking)
    }

    /// Takes in what a slice of `cell` came to; `None` if it has no figures, and the cell then gets no other.
    /// Returns by which rule the cell is over, if it is.
    pub(super) fn measured(
        &mut self,
        cell: usize,
        turn: Turn,
        took: Duration,
        slice: Option<(Duration, u64)>,
        record: &CellRecord,
    ) -> Option<StoppedBy> {
        let pace = self.cells.get_mut(cell)?;
        let Some((timed, operations)) = slice else {
            pace.is_over = true;
            return None;
        };
        pace.rounds += 1;
        pace.timed += timed;
        pace.messages = pace.messages.saturating_add(operations);
        let pace = *pace;
        self.costs.learn(cell, turn.stop, Spent { took, timed, operations });
        let stopped = self.verdict(pace, record)?;
        self.cells.get_mut(cell)?.is_over = true;
        Some(stopped)
    }

    fn verdict(&self, pace: CellPace, record: &CellRecord) -> Option<StoppedBy> {
        if pace.rounds < self.least {
            return None;
        }
        let narrow = |precision: f64| record.half_width().is_some_and(|half| half <= precision);
        if self.precision.is_some_and(narrow) {
            return Some(StoppedBy::Precision);
        }
        let is_last = pace.rounds >= self.most;
        match (self.budget, self.stop) {
            (Some(_), _) => is_last.then_some(StoppedBy::Budget),
            (None, Stop::After(time)) => {
                let spent = self.precision.is_some() && pace.timed >= time;
                (is_last || spent).then_some(StoppedBy::Time)
            }
            (None, Stop::Messages(all)) => {
                (is_last || pace.messages >= all).then_some(StoppedBy::Messages)
            }
        }
    }
}

/// Messages that a slice of a cell has at the least, of as many rounds.
fn least_messages(rounds: u32) -> u64 {
    LEAST_MESSAGES.div_ceil(u64::from(rounds.max(1)))
}

/// Rounds that every cell of a plan has, and that it has at the most.
pub(super) fn rounds(plan: &Plan) -> (u32, u32) {
    if plan.precision.is_none() {
        return (plan.rounds, plan.rounds);
    }
    let least = plan.rounds.max(LEAST_ROUNDS as u32);
    let most = least.saturating_mul(SLICES_A_ROUND);
    match plan.stop {
        // A round without a message would be no round.
        Stop::Messages(all) if plan.budget.is_none() => {
            (least, most.min(u32::try_from(all).unwrap_or(u32::MAX)).max(least))
        }
        _ => (least, most),
    }
}

/// What [`Pace::measured`] needs to know of a slice.
pub(super) fn timed(slice: &SliceRecord) -> (Duration, u64) {
    (Duration::from_nanos(slice.elapsed), slice.timed + slice.lost)
}
