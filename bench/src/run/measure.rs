//! Who measures the slices of a run.

use std::collections::HashMap;

use super::{
    Rules,
    checks::line,
    tune::{self, Found},
};
use crate::{
    clock::Clock,
    engine::Task,
    plan::{Cell, Stop},
    report::CellRecord,
    session::{Conversation, Initiating, Slice, SliceError, SliceRecord},
};

/// What measures slices: this host with a server, or a script.
pub trait Measuring {
    /// A slice of `cell`, with all that settings decide.
    fn slice(&self, cell: &Cell, task: Task, seed: u64) -> Slice;

    /// Measures it; `cell` is its cell's index in the plan, and `slice` afterwards says what was in force.
    ///
    /// # Errors
    /// [`SliceError`].
    fn measure(&mut self, cell: usize, slice: &mut Slice) -> Result<SliceRecord, SliceError>;

    /// Nanoseconds since some time in the past.
    fn now(&self) -> u64;

    /// What the hardware of a cell's path carries, in bytes a second; `None` where none states it.
    fn line(&self, _cell: &CellRecord) -> Option<f64> {
        None
    }
}

/// This host, and a server.
pub(super) struct WithServer<'a, C, S> {
    initiating: &'a Initiating<C>,
    conversation: &'a mut S,
    rules: Rules,
    origin: u64,
    // What was searched for, by cell.
    found: HashMap<usize, Found>,
}

impl<'a, C: Clock, S> WithServer<'a, C, S> {
    pub(super) fn new(
        initiating: &'a Initiating<C>,
        conversation: &'a mut S,
        rules: Rules,
    ) -> Self {
        let origin = initiating.clock.now();
        Self { initiating, conversation, rules, origin, found: HashMap::new() }
    }
}

impl<C, S> Measuring for WithServer<'_, C, S>
where
    C: Clock + Clone + Send + Sync + 'static,
    S: Conversation,
{
    fn slice(&self, cell: &Cell, task: Task, seed: u64) -> Slice {
        let settings = self.initiating.variants.of(&cell.variant);
        let threads = cell.roles.map_or(settings.threads, |roles| roles.workers);
        Slice {
            depth: settings.depth(cell),
            offered: settings.offered(cell),
            think: settings.thinks(cell),
            cell: cell.clone(),
            // A thread without a message would be none.
            threads: match task.stop {
                Stop::Messages(all) => threads.min(u32::try_from(all).unwrap_or(u32::MAX)),
                Stop::After(_) => threads,
            },
            connections: settings.connections,
            phases: settings.phases,
            seed,
            tuning: None,
            server_cpu: self.initiating.affinity.server,
            task,
        }
    }

    fn measure(&mut self, cell: usize, slice: &mut Slice) -> Result<SliceRecord, SliceError> {
        if !(self.rules.tune && tune::applies(&slice.cell)) {
            return self.initiating.measure(self.conversation, slice);
        }
        let found = match self.found.get(&cell) {
            Some(found) => found.clone(),
            None => {
                let found = tune::search(self.initiating, self.conversation, slice, self.rules)?;
                self.found.entry(cell).or_insert(found).clone()
            }
        };
        (slice.depth, slice.tuning) = (found.tuning.depth, Some(found.tuning));
        let mut measured = self.initiating.measure(self.conversation, slice)?;
        measured.settings.insert("tuned".to_owned(), found.text);
        Ok(measured)
    }

    fn line(&self, cell: &CellRecord) -> Option<f64> {
        line(cell, &self.initiating.here, &self.initiating.there)
    }

    fn now(&self) -> u64 {
        self.initiating.clock.nanoseconds(self.origin, self.initiating.clock.now())
    }
}
