//! Request and reply in a closed loop: as many calls in flight as the depth, each of them timed.

use super::{EngineError, Phase, Task, enough};
use crate::{
    clock::Clock,
    stats::Histogram,
    transport::{Completed, Initiator, Operation, Patience},
};

/// What a slice of calls measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallsRecord {
    /// Calls that were not timed.
    pub warm_up: u64,
    /// Calls that were timed, all of which were answered.
    pub timed: u64,
    /// From the first timed submission to the last reply, in nanoseconds.
    pub elapsed: u64,
    /// The clock at both ends of that time.
    pub span: (u64, u64),
}

/// Makes calls, and measures each into `histogram`, in nanoseconds, from its submission until this
/// loop has seen its reply.
///
/// The clock is read once for each submission, and once for all replies that come together. A call
/// costs a constant number of steps, and memory only the depth, once.
///
/// `warm` is called between the warm-up and the timed part.
///
/// # Errors
/// [`EngineError`] with the phase; `histogram` then holds what was recorded before.
pub fn measure_calls<I: Initiator, C: Clock>(
    initiator: &mut I,
    clock: &C,
    task: &Task,
    histogram: &mut Histogram,
    warm: impl FnOnce(),
) -> Result<CallsRecord, EngineError> {
    let warm_up = warm_up(initiator, clock, task)?;
    let mut calls = Calls::new(initiator, task.patience);
    warm();
    let (timed, span) = calls.run(
        clock,
        Phase::Measuring,
        |begun, elapsed| enough(task, begun, elapsed),
        |time| histogram.record(time),
    )?;
    Ok(CallsRecord { warm_up, timed, elapsed: clock.nanoseconds(span.0, span.1), span })
}

/// Makes the calls that are not timed; returns how many there were.
pub(super) fn warm_up<I: Initiator, C: Clock>(
    initiator: &mut I,
    clock: &C,
    task: &Task,
) -> Result<u64, EngineError> {
    let limit = task.warm_up;
    let enough = |begun, elapsed| {
        begun >= limit.messages.max(1) || u128::from(elapsed) >= limit.time.as_nanos()
    };
    let mut calls = Calls::new(initiator, task.patience);
    Ok(calls.run(clock, Phase::WarmUp, enough, |_| {})?.0)
}

struct Calls<'a, I> {
    initiator: &'a mut I,
    patience: Patience,
    // When the call of each token was submitted. A token is in flight once at a time.
    begun: Vec<u64>,
    // Tokens of no call in flight.
    free: Vec<u64>,
    done: Completed,
}

impl<'a, I: Initiator> Calls<'a, I> {
    fn new(initiator: &'a mut I, patience: Patience) -> Self {
        let depth = initiator.depth().max(1);
        let free = (0..depth as u64).rev().collect();
        Self { initiator, patience, begun: vec![0; depth], free, done: Completed::new() }
    }

    /// Calls until `enough(submitted, elapsed)`, then waits for what is in flight; returns how many
    /// there were, and the clock at the first submission and at the last reply.
    #[inline]
    fn run<C: Clock>(
        &mut self,
        clock: &C,
        phase: Phase,
        enough: impl Fn(u64, u64) -> bool,
        mut record: impl FnMut(u64),
    ) -> Result<(u64, (u64, u64)), EngineError> {
        let start = clock.now();
        let (mut now, mut submitted) = (start, 0);
        // The first call is made whatever the clock says.
        while submitted == 0 || self.is_busy() || !enough(submitted, clock.nanoseconds(start, now))
        {
            while submitted == 0 || !enough(submitted, clock.nanoseconds(start, now)) {
                let Some(token) = self.free.pop() else { break };
                now = clock.now();
                if let Some(begun) = self.begun.get_mut(token as usize) {
                    *begun = now;
                }
                self.initiator.submit(Operation { token }).map_err(|error| phase.failed(error))?;
                submitted += 1;
            }
            self.done.clear();
            self.initiator
                .complete(self.patience, &mut self.done)
                .map_err(|error| phase.failed(error))?;
            if self.done.tokens().is_empty() {
                return Err(EngineError::Stalled { phase, patience: self.patience.0 });
            }
            now = clock.now();
            for &token in self.done.tokens() {
                if let Some(&begun) = self.begun.get(token as usize) {
                    record(clock.nanoseconds(begun, now));
                    self.free.push(token);
                }
            }
        }
        Ok((submitted, (start, now)))
    }

    fn is_busy(&self) -> bool {
        self.free.len() < self.begun.len()
    }
}
