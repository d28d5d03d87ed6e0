//! Closed loops with pauses: whoever has a reply thinks before the next call.
//!
//! Pauses are waited for by polling the clock, as a timer would be late by as much as a call takes, and are in no
//! sample.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    CallsRecord, EngineError, Phase, PingPongRecord, Task, calls, enough, latency,
    schedule::SplitMix,
};
use crate::{
    clock::Clock,
    plan::{Think, ThinkSpread},
    stats::Histogram,
    transport::{Completed, Initiator, Operation},
};

/// Pauses that were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pauses {
    /// How many.
    pub count: u64,
    /// Their sum, in nanoseconds: each from when a reply was seen until the next call was begun.
    pub sum: u64,
    /// The longest, in nanoseconds.
    pub longest: u64,
}

impl Pauses {
    fn add(&mut self, pause: u64) {
        self.count += 1;
        self.sum += pause;
        self.longest = self.longest.max(pause);
    }

    /// Adds those of another thread, or of another slice.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }
}

/// The lengths of pauses, one after the other.
struct Lengths {
    mean: f64,
    random: Option<SplitMix>,
}

impl Lengths {
    fn new(think: Think, seed: u64) -> Self {
        let random = match think.spread {
            ThinkSpread::Constant => None,
            ThinkSpread::Exponential => Some(SplitMix(seed)),
        };
        Self { mean: think.mean.as_nanos() as f64, random }
    }

    /// The next one, in nanoseconds.
    fn next(&mut self) -> u64 {
        match &mut self.random {
            None => self.mean as u64,
            // Saturates, which is for ever.
            Some(random) => (-self.mean * (1.0 - random.share()).ln()) as u64,
        }
    }
}

/// Measures round trips as [`measure_latency`](super::measure_latency) does, with a pause before each: a sample runs
/// from the submission, before which the clock is read once more, until the echo. The time of the slice has the
/// pauses in it.
///
/// # Errors
/// [`EngineError`] with the phase; `histogram` then holds what was recorded before.
pub fn measure_latency_thinking<I: Initiator, C: Clock>(
    initiator: &mut I,
    clock: &C,
    task: &Task,
    (think, seed): (Think, u64),
    histogram: &mut Histogram,
    warm: impl FnOnce(),
) -> Result<(PingPongRecord, Pauses), EngineError> {
    let mut done = Completed::new();
    let warm_up = latency::warm_up(initiator, clock, task, &mut done)?;
    warm();
    let (mut lengths, mut pauses) = (Lengths::new(think, seed), Pauses::default());
    let (mut timed, lost_before) = (0, initiator.lost());
    let mut lost = lost_before;
    let start = clock.now();
    let mut last = start;
    loop {
        let pause = lengths.next();
        let mut begun = clock.now();
        while clock.nanoseconds(last, begun) < pause {
            std::hint::spin_loop();
            begun = clock.now();
        }
        pauses.add(clock.nanoseconds(last, begun));
        latency::submit(initiator, Phase::Measuring, warm_up + timed)?;
        latency::wait(initiator, task.patience, Phase::Measuring, &mut done)?;
        last = clock.now();
        // The time of a round trip in which a message was lost is that of our patience.
        if initiator.lost() == lost {
            histogram.record(clock.nanoseconds(begun, last));
        } else {
            lost = initiator.lost();
        }
        timed += 1;
        let elapsed = clock.nanoseconds(start, last);
        if enough(task, timed, elapsed) {
            let (lost, span) = (lost - lost_before, (start, last));
            return Ok((PingPongRecord { warm_up, timed, lost, elapsed, span }, pauses));
        }
    }
}

/// Makes calls as [`measure_calls`](super::measure_calls) does, with a pause between a reply and the next call in its
/// place. The first call of each place has a pause before it too: of constant ones a share of one, so that they do
/// not all begin at once.
///
/// # Errors
/// [`EngineError`] with the phase; `histogram` then holds what was recorded before.
pub fn measure_calls_thinking<I: Initiator, C: Clock>(
    initiator: &mut I,
    clock: &C,
    task: &Task,
    (think, seed): (Think, u64),
    histogram: &mut Histogram,
    warm: impl FnOnce(),
) -> Result<(CallsRecord, Pauses), EngineError> {
    let warm_up = calls::warm_up(initiator, clock, task)?;
    warm();
    let failed = |error| Phase::Measuring.failed(error);
    let depth = initiator.depth().max(1);
    let (mut lengths, mut pauses) = (Lengths::new(think, seed), Pauses::default());
    // When the call of each token was begun, or its place came free; in nanoseconds from the start.
    let mut since = vec![0; depth];
    // Places without a call, by when theirs is due.
    let mut thinking: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::with_capacity(depth);
    for token in 0..depth as u64 {
        let first = match think.spread {
            ThinkSpread::Constant => lengths.next() / depth as u64 * token,
            ThinkSpread::Exponential => lengths.next(),
        };
        thinking.push(Reverse((first, token)));
    }
    let mut done = Completed::new();
    let (mut submitted, mut answered, mut progress) = (0, 0, 0);
    let start = clock.now();
    let (mut now, mut end) = (0, start);
    loop {
        while submitted == 0 || !enough(task, submitted, now) {
            let Some(&Reverse((due, token))) = thinking.peek() else { break };
            if due > now {
                break;
            }
            thinking.pop();
            let begun = clock.nanoseconds(start, clock.now());
            if let Some(since) = since.get_mut(token as usize) {
                pauses.add(begun.saturating_sub(*since));
                *since = begun;
            }
            initiator.submit(Operation { token }).map_err(failed)?;
            submitted += 1;
            now = begun;
        }
        if thinking.len() == depth {
            if submitted > 0 && enough(task, submitted, now) {
                break;
            }
            progress = now;
        }
        done.clear();
        initiator.reap(&mut done).map_err(failed)?;
        let seen = clock.now();
        now = clock.nanoseconds(start, seen);
        for &token in done.tokens() {
            if let Some(since) = since.get_mut(token as usize) {
                histogram.record(now.saturating_sub(*since));
                *since = now;
                thinking.push(Reverse((now.saturating_add(lengths.next()), token)));
                answered += 1;
            }
            (progress, end) = (now, seen);
        }
        let patience = task.patience.0;
        if u128::from(now.saturating_sub(progress)) >= patience.as_nanos() {
            return Err(EngineError::Stalled { phase: Phase::Measuring, patience });
        }
    }
    let elapsed = clock.nanoseconds(start, end);
    Ok((CallsRecord { warm_up, timed: answered, elapsed, span: (start, end) }, pauses))
}
