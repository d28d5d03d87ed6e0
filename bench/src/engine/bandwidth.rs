//! Push: messages one way, the depth kept full, the end confirmed by the receiver.

use super::{EngineError, Phase, Task, enough};
use crate::{
    clock::Clock,
    transport::{Completed, Initiator, Operation, Patience, Received},
};

/// What a push slice measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushRecord {
    /// Messages that were not timed.
    pub warm_up: u64,
    /// Messages that were timed and have arrived.
    pub timed: u64,
    /// Messages that were timed and have not: only where that is no error.
    pub lost: u64,
    /// Messages that the far side pushed meanwhile, warm-up excluded.
    pub returned: u64,
    /// All messages that the far side pushed.
    pub returned_in_all: u64,
    /// From the first timed submission until the receiver had confirmed the last byte, in
    /// nanoseconds.
    pub elapsed: u64,
    /// The clock at both ends of that time.
    pub span: (u64, u64),
}

/// Pushes messages and times them until the receiver confirms.
///
/// `warm` is called between the warm-up and the timed part.
///
/// # Errors
/// [`EngineError`] with the phase.
pub fn measure_bandwidth<I: Initiator, C: Clock>(
    initiator: &mut I,
    clock: &C,
    task: &Task,
    warm: impl FnOnce(),
) -> Result<PushRecord, EngineError> {
    let mut push = Push::new(initiator, task.patience);
    let warm_up = task.warm_up;
    let start = clock.now();
    let warmed = push.run(clock, Phase::WarmUp, start, |sent, elapsed| {
        sent >= warm_up.messages || u128::from(elapsed) >= warm_up.time.as_nanos()
    })?;
    let before = push.confirm()?;
    warm();

    let start = clock.now();
    let sent =
        push.run(clock, Phase::Measuring, start, |sent, elapsed| enough(task, sent, elapsed))?;
    let after = push.confirm()?;
    let span = (start, clock.now());
    let elapsed = clock.nanoseconds(span.0, span.1);
    let timed = after.messages.saturating_sub(before.messages).min(sent);
    Ok(PushRecord {
        warm_up: warmed,
        timed,
        lost: sent - timed,
        returned: after.returned.saturating_sub(before.returned),
        returned_in_all: after.returned,
        elapsed,
        span,
    })
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

    fn confirm(&mut self) -> Result<Received, EngineError> {
        let phase = Phase::Confirming;
        let received =
            self.initiator.confirm(self.patience).map_err(|error| phase.failed(error))?;
        let all = received.messages == self.token;
        if all || (self.initiator.is_lossy() && received.messages < self.token) {
            return Ok(received);
        }
        // Or else the clock would have stopped before the last byte was there.
        Err(EngineError::Unconfirmed { sent: self.token, received: received.messages })
    }
}
