//! Push: messages one way, the depth kept full, the end confirmed by the receiver.

use super::{EngineError, Phase, Task, enough};
use crate::{
    clock::Clock,
    transport::{Completed, Initiator, Operation, Patience},
};

/// What a push slice measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushRecord {
    /// Messages that were not timed.
    pub warm_up: u64,
    /// Messages that were timed.
    pub timed: u64,
    /// From the first timed submission until the receiver had confirmed the last byte, in
    /// nanoseconds.
    pub elapsed: u64,
}

/// Pushes messages and times them until the receiver confirms.
///
/// # Errors
/// [`EngineError`] with the phase.
pub fn measure_bandwidth<I: Initiator, C: Clock>(
    initiator: &mut I,
    clock: &C,
    task: &Task,
) -> Result<PushRecord, EngineError> {
    let mut push = Push::new(initiator, task.patience);
    let warm_up = task.warm_up;
    let start = clock.now();
    let warmed = push.run(clock, Phase::WarmUp, start, |sent, elapsed| {
        sent >= warm_up.messages || u128::from(elapsed) >= warm_up.time.as_nanos()
    })?;
    push.confirm()?;

    let start = clock.now();
    let timed =
        push.run(clock, Phase::Measuring, start, |sent, elapsed| enough(task, sent, elapsed))?;
    push.confirm()?;
    let elapsed = clock.nanoseconds(start, clock.now());
    Ok(PushRecord { warm_up: warmed, timed, elapsed })
}

struct Push<'a, I> {
    initiator: &'a mut I,
    patience: Patience,
    depth: usize,
    outstanding: usize,
    token: u64,
    done: Completed,
}

impl<'a, I: Initiator> Push<'a, I> {
    fn new(initiator: &'a mut I, patience: Patience) -> Self {
        let depth = initiator.depth().max(1);
        Self { initiator, patience, depth, outstanding: 0, token: 0, done: Completed::new() }
    }

    /// Submits until `enough(submitted, elapsed)`, then waits for all of it; returns how many.
    #[inline]
    fn run<C: Clock>(
        &mut self,
        clock: &C,
        phase: Phase,
        start: u64,
        enough: impl Fn(u64, u64) -> bool,
    ) -> Result<u64, EngineError> {
        let mut sent = 0;
        while !enough(sent, clock.nanoseconds(start, clock.now())) {
            if self.outstanding == self.depth {
                self.reap(phase)?;
            }
            self.initiator
                .submit(Operation { token: self.token })
                .map_err(|error| phase.failed(error))?;
            self.token += 1;
            self.outstanding += 1;
            sent += 1;
        }
        while self.outstanding > 0 {
            self.reap(phase)?;
        }
        Ok(sent)
    }

    #[inline]
    fn reap(&mut self, phase: Phase) -> Result<(), EngineError> {
        self.done.clear();
        self.initiator
            .complete(self.patience, &mut self.done)
            .map_err(|error| phase.failed(error))?;
        match self.done.tokens().len() {
            0 => Err(EngineError::Stalled { phase, patience: self.patience.0 }),
            done => {
                self.outstanding -= done.min(self.outstanding);
                Ok(())
            }
        }
    }

    fn confirm(&mut self) -> Result<(), EngineError> {
        let phase = Phase::Confirming;
        let received =
            self.initiator.confirm(self.patience).map_err(|error| phase.failed(error))?;
        if received.messages == self.token {
            return Ok(());
        }
        // Or else the clock would have stopped before the last byte was there.
        Err(EngineError::Unconfirmed { sent: self.token, received: received.messages })
    }
}
