//! The measuring loops of one slice, on one thread or on several at once.

use std::{
    collections::BTreeMap,
    sync::{Barrier, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use fabricbench_grpc::marks::Mark;

use super::{Slice, SliceError};
use crate::{
    clock::Clock,
    engine::{
        Borne, Offered, Pauses, Task, measure_bandwidth, measure_calls, measure_calls_thinking,
        measure_latency, measure_latency_thinking, measure_open,
    },
    plan::Pattern,
    stats::Histogram,
    transport::{Initiator, MarkedConnection, Split},
};

/// What the loops of a slice counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loops {
    /// Messages before the clock started.
    pub(super) warm_up: u64,
    /// Messages that were timed and arrived.
    pub(super) timed: u64,
    /// Messages of the timed ones that were lost.
    pub(super) lost: u64,
    /// Messages that the far side pushed in the same time.
    pub(super) returned: u64,
    /// Messages that the far side pushed, warm-up included.
    pub(super) returned_in_all: u64,
    /// Time of the timed ones, in nanoseconds: of several threads, from the first that began to the
    /// last that ended.
    pub(super) elapsed: u64,
}

/// What the loops of a slice gave.
#[derive(Debug, Default)]
pub(super) struct Driven {
    pub(super) loops: Loops,
    /// Round trips in nanoseconds.
    pub(super) round_trips: Histogram,
    /// Payload checks: compared, and of these different.
    pub(super) verified: (u64, u64),
    /// How the load of an open loop was borne.
    pub(super) borne: Option<Borne>,
    /// The pauses of a closed loop that has any.
    pub(super) pauses: Option<Pauses>,
    /// How long completions waited for the program, where that was asked for.
    pub(super) split: Option<Split>,
    /// What the assignments of each operation took together, where tensors are assigned, in nanoseconds.
    pub(super) assigned: Option<Histogram>,
    /// The marks of the calls that began and ended within the timed part.
    pub(super) marked: Vec<MarkedConnection>,
    /// What was in force.
    pub(super) settings: BTreeMap<String, String>,
    // Clock readings at both ends of the timed part.
    span: (u64, u64),
}

/// Drives each initiator, on a thread of its own if there are several, has `look` look at them when
/// all are done, and ends them: their connections are closed when the server is told to stop, which
/// then need not wait for them.
///
/// # Errors
/// The first that any of them gave, or that of `look`.
pub(super) fn drive<I: Initiator + Send, C: Clock + Sync, T>(
    clock: &C,
    slice: &Slice,
    mut initiators: Vec<I>,
    look: impl FnOnce() -> Result<T, SliceError>,
) -> Result<(Driven, T), SliceError> {
    let driven = match &mut initiators[..] {
        [only] => vec![drive_one(clock, slice, slice.task, (0, 1), only, || {})?],
        several => drive_several(clock, slice, several)?,
    };
    // Before they are asked: some compare much of what they have, which no figure is of.
    let looked = look()?;
    let mut each = driven.into_iter().zip(&initiators).map(|(one, from)| one.told_by(from));
    let mut all =
        each.next().ok_or_else(|| SliceError::Failed("no connection to measure".to_owned()))?;
    if initiators.len() > 1 {
        each.for_each(|one| all.add(one));
        all.loops.elapsed = clock.nanoseconds(all.span.0, all.span.1);
        all.settings.insert("threads".to_owned(), initiators.len().to_string());
    }
    Ok((all, looked))
}

fn drive_several<I: Initiator + Send, C: Clock + Sync>(
    clock: &C,
    slice: &Slice,
    initiators: &mut [I],
) -> Result<Vec<Driven>, SliceError> {
    let threads = u32::try_from(initiators.len()).unwrap_or(u32::MAX);
    let (gate, ready) = (Gate::default(), Barrier::new(initiators.len()));
    let meeting = Meeting::of(initiators.len());
    let driven: Vec<Result<Driven, SliceError>> = thread::scope(|scope| {
        let (gate, ready, meeting) = (&gate, &ready, &meeting);
        let mut begun = Vec::new();
        let mut refused = None;
        for (initiator, index) in initiators.iter_mut().zip(0..) {
            let stop = slice.task.stop.beside(index, threads);
            let task = Task { stop, ..slice.task };
            let measure = move || {
                if !gate.opens() {
                    return Err(SliceError::Failed("not begun".to_owned()));
                }
                let mut expected = Expected { meeting, is_here: false };
                ready.wait();
                drive_one(clock, slice, task, (index, threads), initiator, || expected.meet())
            };
            match thread::Builder::new().spawn_scoped(scope, measure) {
                Ok(thread) => begun.push(thread),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        gate.decide(refused.is_none());
        let ended = begun.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| {
                Err(SliceError::Failed("a measuring thread panicked".to_owned()))
            })
        });
        let refused = refused.map(|error| {
            Err(SliceError::Failed(format!(
                "cannot start {threads} measuring threads: {error}; give fewer --threads or --workers, \
                 or raise the limit (ulimit -u, or TasksMax of a unit)"
            )))
        });
        // It says more than those who did not begin.
        refused.into_iter().chain(ended).collect()
    });
    driven.into_iter().collect()
}

/// Where threads wait for one another when each is warm, so that what is timed begins for all at once:
/// one that is warm early would else be timed while others are not counted.
#[derive(Debug)]
struct Meeting {
    missing: Mutex<usize>,
    complete: Condvar,
}

impl Meeting {
    fn of(threads: usize) -> Self {
        Self { missing: Mutex::new(threads), complete: Condvar::new() }
    }

    fn arrive(&self) -> MutexGuard<'_, usize> {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            self.complete.notify_all();
        }
        missing
    }
}

/// One that the others wait for, until it is warm or has failed before.
struct Expected<'a> {
    meeting: &'a Meeting,
    is_here: bool,
}

impl Expected<'_> {
    fn meet(&mut self) {
        self.is_here = true;
        let mut missing = self.meeting.arrive();
        while *missing > 0 {
            missing = self.meeting.complete.wait(missing).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        if !self.is_here {
            drop(self.meeting.arrive());
        }
    }
}

/// Where threads wait until it is known that there are all of them.
#[derive(Debug, Default)]
struct Gate {
    open: Mutex<Option<bool>>,
    decided: Condvar,
}

impl Gate {
    fn decide(&self, open: bool) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        self.decided.notify_all();
    }

    fn opens(&self) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *open {
                Some(open) => return open,
                None => open = self.decided.wait(open).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Driven {
    /// The same with what its initiator tells at the end.
    fn told_by(self, initiator: &impl Initiator) -> Self {
        let (verified, settings) = (initiator.verified(), initiator.settings());
        let (split, assigned) = (initiator.split(), initiator.assigned().cloned());
        let mut marked = initiator.marks();
        for connection in &mut marked {
            connection.calls.retain(|call| {
                let ends = call.get(Mark::Begin).zip(call.get(Mark::End));
                ends.is_some_and(|(begin, end)| self.span.0 <= begin && end <= self.span.1)
            });
        }
        Self { verified, settings, split, assigned, marked, ..self }
    }

    fn add(&mut self, other: Self) {
        let (loops, more) = (&mut self.loops, other.loops);
        loops.warm_up += more.warm_up;
        loops.timed += more.timed;
        loops.lost += more.lost;
        loops.returned += more.returned;
        loops.returned_in_all += more.returned_in_all;
        self.round_trips.merge(&other.round_trips);
        self.verified.0 += other.verified.0;
        self.verified.1 += other.verified.1;
        if let (Some(borne), Some(more)) = (&mut self.borne, other.borne) {
            borne.beside(more);
        }
        if let (Some(pauses), Some(more)) = (&mut self.pauses, other.pauses) {
            pauses.merge(more);
        }
        if let (Some(split), Some(more)) = (&mut self.split, other.split) {
            split.waits.extend(more.waits);
            split.uncertainty = split.uncertainty.max(more.uncertainty);
        }
        if let (Some(assigned), Some(more)) = (&mut self.assigned, &other.assigned) {
            assigned.merge(more);
        }
        self.marked.extend(other.marked);
        self.span = (self.span.0.min(other.span.0), self.span.1.max(other.span.1));
    }
}

fn drive_one<I: Initiator, C: Clock>(
    clock: &C,
    slice: &Slice,
    task: Task,
    (index, threads): (u32, u32),
    initiator: &mut I,
    warm: impl FnOnce(),
) -> Result<Driven, SliceError> {
    let mut round_trips = Histogram::new();
    let (mut borne, mut pauses) = (None, None);
    // Threads differ in what is drawn at random.
    let seed = slice.seed.wrapping_add(u64::from(index) << 32);
    let thinking = slice.think.map(|think| (think, seed));
    let (loops, span) = match (slice.cell.pattern, slice.offered) {
        (Pattern::Calls, Some((rate, arrivals))) => {
            // The load is that of all threads, which take turns.
            let offered = Offered {
                rate: rate as f64 / f64::from(threads),
                arrivals,
                phase: f64::from(index) / f64::from(threads),
                seed,
            };
            let record = measure_open(initiator, clock, &task, offered, &mut round_trips, warm)?;
            borne = Some(record.borne);
            let loops = Loops {
                warm_up: record.warm_up,
                timed: record.timed,
                elapsed: record.elapsed,
                ..Loops::default()
            };
            (loops, record.span)
        }
        (Pattern::Latency, _) => {
            let record = match thinking {
                None => measure_latency(initiator, clock, &task, &mut round_trips, warm)?,
                Some(thinking) => {
                    let times = &mut round_trips;
                    let (record, made) =
                        measure_latency_thinking(initiator, clock, &task, thinking, times, warm)?;
                    pauses = Some(made);
                    record
                }
            };
            let loops = Loops {
                warm_up: record.warm_up,
                timed: record.timed,
                lost: record.lost,
                elapsed: record.elapsed,
                ..Loops::default()
            };
            (loops, record.span)
        }
        (Pattern::Calls | Pattern::Ps | Pattern::TensorPush | Pattern::TensorFetch, _) => {
            let record = match thinking {
                None => measure_calls(initiator, clock, &task, &mut round_trips, warm)?,
                Some(thinking) => {
                    let times = &mut round_trips;
                    let (record, made) =
                        measure_calls_thinking(initiator, clock, &task, thinking, times, warm)?;
                    pauses = Some(made);
                    record
                }
            };
            let loops = Loops {
                warm_up: record.warm_up,
                timed: record.timed,
                elapsed: record.elapsed,
                ..Loops::default()
            };
            (loops, record.span)
        }
        (Pattern::Bandwidth | Pattern::Bidirectional | Pattern::Fetch | Pattern::Rate, _) => {
            let record = measure_bandwidth(initiator, clock, &task, warm)?;
            let loops = Loops {
                warm_up: record.warm_up,
                timed: record.timed,
                lost: record.lost,
                returned: record.returned,
                returned_in_all: record.returned_in_all,
                elapsed: record.elapsed,
            };
            (loops, record.span)
        }
    };
    Ok(Driven { loops, round_trips, borne, pauses, span, ..Driven::default() })
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, time::Duration};

    use super::*;
    use crate::{
        clock::TscClock,
        engine::WarmUp,
        plan::{Cell, Stop},
        transport::{Completed, Operation, Patience, Received, TransportError},
    };

    /// An initiator that does nothing, and fails where it is told to.
    struct Nothing {
        submitted: u64,
        outstanding: VecDeque<u64>,
        fails: bool,
        // Before the first message.
        delay: Duration,
    }

    impl Initiator for Nothing {
        fn depth(&self) -> usize {
            4
        }

        fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
            thread::sleep(std::mem::take(&mut self.delay));
            self.submitted += 1;
            self.outstanding.push_back(operation.token);
            Ok(())
        }

        fn complete(
            &mut self,
            _patience: Patience,
            done: &mut Completed,
        ) -> Result<(), TransportError> {
            if self.fails {
                return Err(TransportError::Failed("cut".to_owned()));
            }
            self.outstanding.pop_front().into_iter().for_each(|token| done.push(token));
            Ok(())
        }

        fn confirm(&mut self, _patience: Patience) -> Result<Received, TransportError> {
            Ok(Received { messages: self.submitted, ..Received::default() })
        }
    }

    fn slice(pattern: Pattern, messages: u64) -> Slice {
        Slice {
            cell: Cell::new("tcp@loopback".parse().unwrap(), pattern, 8),
            depth: 4,
            offered: None,
            think: None,
            threads: 3,
            connections: 1,
            seed: 1,
            phases: None,
            tuning: None,
            server_cpu: None,
            task: Task {
                stop: Stop::Messages(messages),
                least_messages: messages,
                warm_up: WarmUp { messages: 2, ..WarmUp::default() },
                patience: Patience(Duration::from_secs(1)),
            },
        }
    }

    fn initiators(failing: usize) -> Vec<Nothing> {
        (0..3)
            .map(|index| Nothing {
                submitted: 0,
                outstanding: VecDeque::new(),
                fails: index == failing,
                delay: Duration::ZERO,
            })
            .collect()
    }

    #[test]
    fn threads_share_the_messages_and_their_records_add_up() {
        let clock = TscClock::new();
        for pattern in [Pattern::Latency, Pattern::Rate, Pattern::Calls] {
            let driven = drive(&clock, &slice(pattern, 100), initiators(9), || Ok(())).unwrap().0;
            assert_eq!((driven.loops.timed, driven.loops.warm_up), (100, 6));
            let samples = if pattern == Pattern::Rate { 0 } else { 100 };
            assert_eq!(driven.round_trips.len(), samples);
            assert!(driven.loops.elapsed > 0);
            assert_eq!(driven.settings["threads"], "3");
        }
    }

    /// What others did while one was not warm yet is in no figure.
    #[test]
    fn the_timed_part_begins_for_all_at_once() {
        const DELAY: Duration = Duration::from_secs(1);
        let clock = TscClock::new();
        for pattern in [Pattern::Latency, Pattern::Rate, Pattern::Calls] {
            let mut initiators = initiators(9);
            initiators[1].delay = DELAY;
            let driven = drive(&clock, &slice(pattern, 30), initiators, || Ok(())).unwrap().0;
            assert_eq!(driven.loops.timed, 30);
            assert!(u128::from(driven.loops.elapsed) < DELAY.as_nanos(), "{:?}", driven.loops);
        }
    }

    #[test]
    fn each_thread_measures_as_long_as_one_alone_would() {
        const TIME: Duration = Duration::from_millis(60);
        let mut slice = slice(Pattern::Rate, 1);
        slice.task.stop = Stop::After(TIME);
        let driven = drive(&TscClock::new(), &slice, initiators(9), || Ok(())).unwrap().0;
        assert!(u128::from(driven.loops.elapsed) >= TIME.as_nanos(), "{:?}", driven.loops);
    }

    #[test]
    fn one_that_fails_fails_all() {
        let clock = TscClock::new();
        let failed =
            drive(&clock, &slice(Pattern::Rate, 100), initiators(1), || Ok(())).unwrap_err();
        assert!(failed.to_string().contains("cut"), "{failed}");
    }
}
