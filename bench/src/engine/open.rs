//! Request and reply in an open loop: calls begin at times that are settled beforehand, whether or not
//! those before them have been answered, and each is timed from the time at which it was to begin.
//!
//! So a server that stands still for a second at 1,000 calls a second is seen by 1,000 of them, where a
//! closed loop, which waits with it, would see it once ("coordinated omission", G. Tene, 2013).

use super::{EngineError, Phase, Task, calls::warm_up, schedule::SplitMix};
use crate::{
    clock::Clock,
    plan::{Arrivals, Stop},
    stats::Histogram,
    transport::{Completed, Initiator, Operation},
};

/// When calls begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offered {
    /// Calls a second of this initiator; more than 0.
    pub rate: f64,
    /// How they follow one another.
    pub arrivals: Arrivals,
    /// Of constant arrivals: when the first one begins, as a share of the time between two, so that
    /// several threads take turns.
    pub phase: f64,
    /// Of Poisson arrivals.
    pub seed: u64,
}

/// What a slice of an open loop measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRecord {
    /// Calls that were not timed.
    pub warm_up: u64,
    /// Calls that were timed, all of which were answered.
    pub timed: u64,
    /// From the start of the schedule to its end, which is when one more call would have begun, or to the
    /// last reply if that is later; in nanoseconds.
    pub elapsed: u64,
    /// The clock at both ends of that time.
    pub span: (u64, u64),
    /// How the load was borne.
    pub borne: Borne,
}

/// How an offered load was borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Borne {
    /// Calls that began late, since as many as may be were under way.
    pub held_back: u64,
    /// Calls that were due and never begun.
    pub given_up: u64,
    /// Calls that may be under way at once.
    pub bound: u64,
    /// The most that were under way at once.
    pub most_in_flight: u64,
    /// Whether the load was too much: calls were given up, or the last one was held back, or what was
    /// under way when the schedule ended took more than 5 % of it to end, or less than 90 % of the rate was
    /// answered.
    pub overloaded: bool,
}

impl Borne {
    /// Adds what another thread bore at the same time.
    pub fn beside(&mut self, other: Self) {
        self.most_in_flight += other.most_in_flight;
        self.bound += other.bound;
        self.held_back += other.held_back;
        self.given_up += other.given_up;
        self.overloaded |= other.overloaded;
    }

    /// Adds what was borne in a later slice.
    pub fn then(&mut self, later: Self) {
        self.most_in_flight = self.most_in_flight.max(later.most_in_flight);
        self.bound = self.bound.max(later.bound);
        self.held_back += later.held_back;
        self.given_up += later.given_up;
        self.overloaded |= later.overloaded;
    }
}

/// The share of a schedule's length that its end may take, beyond the quickest call: what remains to be
/// answered longer than that has piled up.
const LONGEST_END: f64 = 0.05;

/// The least share of the offered rate that is answered, where it is borne. The quickest call says nothing where all
/// have piled up, as it is itself late then.
pub const LEAST_ANSWERED: f64 = 0.9;

/// The same of a schedule so short that its end says nothing.
const LEAST_ANSWERED_OF_FEW: f64 = 0.5;

/// An end that is shorter says nothing: a call may always be late by so much, in nanoseconds.
const SHORT: u64 = 1_000_000;

/// After so many times the length of a schedule by time, what is left of it is given up.
const LONGEST: u64 = 2;

/// Makes calls as `offered` says, and measures each into `histogram`, in nanoseconds, from the time at
/// which it was to begin until this loop has seen its reply. At most the initiator's depth are under
/// way; a call that finds no room begins as soon as there is, and its wait is in its time.
///
/// Waits by polling: a timer would be late by as much as a call takes. `warm` is called between the
/// warm-up and the timed part.
///
/// # Errors
/// [`EngineError`] with the phase; `histogram` then holds what was recorded before.
pub fn measure_open<I: Initiator, C: Clock>(
    initiator: &mut I,
    clock: &C,
    task: &Task,
    offered: Offered,
    histogram: &mut Histogram,
    warm: impl FnOnce(),
) -> Result<OpenRecord, EngineError> {
    let warm_up = warm_up(initiator, clock, task)?;
    warm();
    let failed = |error| Phase::Measuring.failed(error);
    let depth = initiator.depth().max(1);
    let mut due = Schedule::new(offered);
    // When the call of each token was to begin. A token is in flight once at a time.
    let mut begins = vec![0; depth];
    let mut free: Vec<u64> = (0..depth as u64).rev().collect();
    let mut done = Completed::new();
    let mut borne = Borne { bound: depth as u64, ..Borne::default() };
    let (mut submitted, mut answered, mut quickest) = (0, 0, u64::MAX);
    // Of the call that was begun last: when it was due, and whether it found no room then.
    let (mut last_due, mut last_held) = (0, false);
    // When calls were last found due without room for them, and when there was last nothing to wait for.
    let (mut full, mut progress) = (None, 0);
    let start = clock.now();
    let (mut end, mut answered_at) = (start, 0);
    loop {
        let tick = clock.now();
        let now = clock.nanoseconds(start, tick);
        let is_planned = |submitted: u64, at: u64| match task.stop {
            Stop::Messages(all) => submitted < all,
            Stop::After(time) => {
                submitted < task.least_messages || u128::from(at) < time.as_nanos()
            }
        };
        let is_over = match task.stop {
            Stop::Messages(_) => false,
            Stop::After(time) => {
                submitted >= task.least_messages
                    && u128::from(now) >= time.as_nanos() * u128::from(LONGEST)
            }
        };
        while !is_over && is_planned(submitted, due.next) && due.next <= now {
            let Some(token) = free.pop() else {
                full = Some(now);
                break;
            };
            last_due = due.next;
            last_held = full.is_some_and(|full| last_due <= full);
            borne.held_back += u64::from(last_held);
            if let Some(begins) = begins.get_mut(token as usize) {
                *begins = last_due;
            }
            initiator.submit(Operation { token }).map_err(failed)?;
            submitted += 1;
            due.advance();
        }
        let left = is_planned(submitted, due.next);
        if let (true, true, Stop::After(time)) = (is_over, left, task.stop) {
            borne.given_up = due.until(time.as_secs_f64() * 1e9).max(1);
        }
        let under_way = depth - free.len();
        borne.most_in_flight = borne.most_in_flight.max(under_way as u64);
        if under_way == 0 {
            if left && is_over {
                break;
            }
            // n calls take n times the time between two: until the last one has begun it is one less, and
            // the rate would be more than what was offered.
            if !left && now >= due.end() {
                if answered_at < due.end() {
                    end = tick;
                }
                break;
            }
            progress = now;
        }
        done.clear();
        initiator.reap(&mut done).map_err(failed)?;
        let seen = clock.now();
        let now = clock.nanoseconds(start, seen);
        for &token in done.tokens() {
            if let Some(&begun) = begins.get(token as usize) {
                let time = now.saturating_sub(begun);
                histogram.record(time);
                quickest = quickest.min(time);
                answered += 1;
                free.push(token);
            }
            (progress, answered_at, end) = (now, now, seen);
        }
        let patience = task.patience.0;
        if u128::from(now.saturating_sub(progress)) >= patience.as_nanos() {
            return Err(EngineError::Stalled { phase: Phase::Measuring, patience });
        }
    }
    let elapsed = clock.nanoseconds(start, end);
    let ending = answered_at.saturating_sub(last_due).saturating_sub(quickest);
    let least = if answered_at.saturating_sub(due.end()) > SHORT {
        LEAST_ANSWERED
    } else {
        LEAST_ANSWERED_OF_FEW
    };
    borne.overloaded = borne.given_up > 0
        || last_held
        || (ending > SHORT && ending as f64 > LONGEST_END * last_due as f64)
        || due.end() as f64 / (answered_at as f64) < least;
    Ok(OpenRecord { warm_up, timed: answered, elapsed, span: (start, end), borne })
}

/// When one call after the other is due, in nanoseconds from the start.
struct Schedule {
    next: u64,
    /// Mean time between two.
    gap: f64,
    /// How many were before, and the phase: of constant arrivals.
    index: f64,
    phase: f64,
    /// Of Poisson arrivals, with the time of `next`, unrounded.
    random: Option<(SplitMix, f64)>,
}

impl Schedule {
    fn new(offered: Offered) -> Self {
        let gap = 1e9 / offered.rate;
        let random = match offered.arrivals {
            Arrivals::Constant => None,
            Arrivals::Poisson => Some((SplitMix(offered.seed), 0.0)),
        };
        let mut schedule =
            Self { next: 0, gap, index: offered.phase - 1.0, phase: offered.phase, random };
        schedule.advance();
        schedule
    }

    /// When as many calls as were taken have had their time, if none begins after them.
    fn end(&self) -> u64 {
        self.next.saturating_sub((self.phase * self.gap) as u64)
    }

    /// Calls that are due before `time`, in nanoseconds: of random ones their mean.
    fn until(&self, time: f64) -> u64 {
        let left = match &self.random {
            None => time / self.gap - self.index,
            Some((_, next)) => (time - next) / self.gap,
        };
        // What is due at that time is not before it, whatever a division leaves.
        (left - 1e-6).ceil() as u64
    }

    fn advance(&mut self) {
        let at = match &mut self.random {
            None => {
                self.index += 1.0;
                self.index * self.gap
            }
            // Times between arrivals of a Poisson process are exponentially distributed.
            Some((random, at)) => {
                *at -= self.gap * (1.0 - random.share()).ln();
                *at
            }
        };
        // Saturates, which is for ever.
        self.next = at as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rate: f64, arrivals: Arrivals, phase: f64, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(Offered { rate, arrivals, phase, seed: 7 });
        let next = |_| {
            let next = schedule.next;
            schedule.advance();
            next
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn constant_arrivals_are_evenly_apart_and_threads_take_turns() {
        assert_eq!(times(1000.0, Arrivals::Constant, 0.0, 3), [0, 1_000_000, 2_000_000]);
        assert_eq!(times(500.0, Arrivals::Constant, 0.5, 2), [1_000_000, 3_000_000]);
        // No error adds up: the last of a million is where it is to be.
        assert_eq!(
            times(3.0, Arrivals::Constant, 0.0, 3_000_001).pop(),
            Some(1_000_000_000_000_000)
        );
    }

    #[test]
    fn what_is_left_of_a_schedule_is_shared_by_the_threads_without_a_remainder() {
        for (all, threads) in [(600, 4), (30_000, 3), (7, 2), (10, 7)] {
            let left = |thread: u32| {
                let (rate, phase) = (f64::from(all), f64::from(thread));
                let (rate, phase) = (rate / f64::from(threads), phase / f64::from(threads));
                let arrivals = Arrivals::Constant;
                Schedule::new(Offered { rate, arrivals, phase, seed: 7 }).until(1e9)
            };
            assert_eq!((0..threads).map(left).sum::<u64>(), u64::from(all as u32));
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_their_kind() {
        let times = times(1000.0, Arrivals::Poisson, 0.0, 100_001);
        let gaps: Vec<f64> =
            times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Of an exponential distribution both are the mean; 0.01 are three standard errors.
        assert!((mean - 1.0).abs() < 0.01 && (square.sqrt() - 1.0).abs() < 0.02, "{mean} {square}");
    }
}
