//! Ping-pong: one message out, the same one back.

use super::{EngineError, Phase, Task, WarmUp, enough};
use crate::{
    clock::Clock,
    stats::Histogram,
    transport::{Completed, Initiator, Operation, Patience},
};

/// What a ping-pong slice measured.
#[derive(Debug)]
pub struct PingPongRecord {
    /// Round trips that were not timed.
    pub warm_up: u64,
    /// Round trips that were timed.
    pub timed: u64,
    /// Messages that were lost and sent again; their round trips are not recorded.
    pub lost: u64,
    /// From the first timed submission to the last echo, in nanoseconds.
    pub elapsed: u64,
    /// The clock at both ends of that time.
    pub span: (u64, u64),
}

/// Measures round trips into `histogram`, in nanoseconds, one message in flight.
///
/// A sample runs from one completion to the next: the clock is read once a round trip, and nothing
/// between two messages escapes the figure. A sample is recorded when the next message has been
/// submitted, so that a recording does not delay a message that is sent by submitting it.
///
/// `warm` is called between the warm-up and the timed part.
///
/// # Errors
/// [`EngineError`] with the phase; `histogram` then holds what was recorded before.
pub fn measure_latency<I: Initiator, C: Clock>(
    initiator: &mut I,
    clock: &C,
    task: &Task,
    histogram: &mut Histogram,
    warm: impl FnOnce(),
) -> Result<PingPongRecord, EngineError> {
    let mut done = Completed::new();
    let warm_up = warm_up(initiator, clock, task, &mut done)?;
    warm();
    let (mut timed, lost_before) = (0, initiator.lost());
    let mut lost = lost_before;
    let start = clock.now();
    let (mut last, mut sample) = (start, None);
    loop {
        submit(initiator, Phase::Measuring, warm_up + timed)?;
        if let Some((from, to)) = sample.take() {
            histogram.record(clock.nanoseconds(from, to));
        }
        wait(initiator, task.patience, Phase::Measuring, &mut done)?;
        let now = clock.now();
        // The time of a round trip in which a message was lost is that of our patience.
        if initiator.lost() == lost {
            sample = Some((last, now));
        } else {
            lost = initiator.lost();
        }
        last = now;
        timed += 1;
        if enough(task, timed, clock.nanoseconds(start, now)) {
            if let Some((from, to)) = sample {
                histogram.record(clock.nanoseconds(from, to));
            }
            let (lost, elapsed) = (lost - lost_before, clock.nanoseconds(start, now));
            return Ok(PingPongRecord { warm_up, timed, lost, elapsed, span: (start, now) });
        }
    }
}

/// Sends what is not timed; returns how many that were.
pub(super) fn warm_up<I: Initiator, C: Clock>(
    initiator: &mut I,
    clock: &C,
    task: &Task,
    done: &mut Completed,
) -> Result<u64, EngineError> {
    let WarmUp { messages, time } = task.warm_up;
    let start = clock.now();
    let mut sent = 0;
    loop {
        submit(initiator, Phase::WarmUp, sent)?;
        wait(initiator, task.patience, Phase::WarmUp, done)?;
        sent += 1;
        let elapsed = clock.nanoseconds(start, clock.now());
        if sent >= messages || u128::from(elapsed) >= time.as_nanos() {
            return Ok(sent);
        }
    }
}

#[inline]
pub(super) fn submit<I: Initiator>(
    initiator: &mut I,
    phase: Phase,
    token: u64,
) -> Result<(), EngineError> {
    initiator.submit(Operation { token }).map_err(|error| phase.failed(error))
}

#[inline]
pub(super) fn wait<I: Initiator>(
    initiator: &mut I,
    patience: Patience,
    phase: Phase,
    done: &mut Completed,
) -> Result<(), EngineError> {
    done.clear();
    initiator.complete(patience, done).map_err(|error| phase.failed(error))?;
    if done.tokens().is_empty() {
        return Err(EngineError::Stalled { phase, patience: patience.0 });
    }
    Ok(())
}
