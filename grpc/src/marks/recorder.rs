//! Where the marks of one connection are kept.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CallMarks, Mark, Sampling, Ticks, frames::Piece};

/// Sampled calls under way at once on one connection. A call that is given up is never closed: the
/// oldest makes room.
const MOST_OPEN: usize = 256;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It begins the calls.
    Client,
    /// It answers them: the first bytes of a request begin a call.
    Server {
        /// Calls under way on the connection at the most: so many may begin with one read.
        in_flight: u32,
        /// Whether TLS seals the frames. Calls then begin with their handlers, and end with the
        /// encoding of their replies.
        sealed: bool,
    },
}

/// The marks of one connection, on one side.
///
/// The counters are relaxed: each stands alone, and what belongs together is under the lock.
pub struct Recorder {
    clock: Arc<dyn Ticks>,
    sampling: Sampling,
    side: Side,
    /// Calls begun.
    begun: AtomicU64,
    /// Calls that the server's handlers were given.
    handled: AtomicU64,
    /// The next call that is to be sampled.
    next: AtomicU64,
    /// Sampled calls under way.
    open: AtomicU32,
    state: Mutex<State>,
}

struct State {
    open: Vec<CallMarks>,
    done: Vec<CallMarks>,
    /// Only every so manieth block of calls has a sampled one.
    stride: u64,
}

impl Recorder {
    /// For one connection; all memory that it will ever use is allocated here.
    pub fn new(sampling: Sampling, side: Side, clock: Arc<dyn Ticks>) -> Arc<Recorder> {
        let capacity = sampling.capacity.max(2);
        let sampling = Sampling { capacity, ..sampling };
        Arc::new(Recorder {
            clock,
            sampling,
            side,
            begun: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            next: AtomicU64::new(sampling.after(0, 1)),
            open: AtomicU32::new(0),
            state: Mutex::new(State {
                open: Vec::with_capacity(MOST_OPEN),
                done: Vec::with_capacity(capacity),
                stride: 1,
            }),
        })
    }

    /// Begins the connection's next call, which was handed over at `handed_over`, in ticks; `None` if
    /// it is not sampled.
    #[inline]
    pub fn begin(self: &Arc<Recorder>, handed_over: u64) -> Option<Call> {
        let call = self.begun.fetch_add(1, Relaxed);
        if call < self.next.load(Relaxed) {
            return None;
        }
        self.open(call, Some(handed_over));
        Some(Call { recorder: self.clone(), call })
    }

    /// A call is handed over now, to be begun when its stream is opened.
    #[inline]
    pub(crate) fn hand_over(self: &Arc<Recorder>) -> HandedOver {
        HandedOver { recorder: self.clone(), at: self.now() }
    }

    /// Counts a call whose marks nobody wants.
    pub(crate) fn pass_over(&self) {
        let call = self.begun.fetch_add(1, Relaxed);
        if call >= self.next.load(Relaxed) {
            let stride = self.lock().stride;
            self.next.store(self.sampling.after(call, stride), Relaxed);
        }
    }

    /// The marks of the calls that ended, in that order. They are forgotten here.
    pub fn take(&self) -> Vec<CallMarks> {
        std::mem::take(&mut self.lock().done)
    }

    /// Whose connection it is.
    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// The clock's reading.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Whether the next read or write may be of a sampled call.
    #[inline]
    pub fn is_armed(&self) -> bool {
        if self.open.load(Relaxed) > 0 {
            return true;
        }
        match self.side {
            Side::Client => false,
            Side::Server { in_flight, .. } => {
                let expected = self.begun.load(Relaxed).saturating_add(in_flight.max(1).into());
                self.next.load(Relaxed) < expected
            }
        }
    }

    /// The call that the next request is of, for its handler; `None` if it is not sampled.
    pub(crate) fn handle(self: &Arc<Recorder>) -> Option<Call> {
        let call = self.handled.fetch_add(1, Relaxed);
        if let Side::Server { sealed: true, .. } = self.side
            && call >= self.next.load(Relaxed)
        {
            self.open(call, None);
        }
        if self.open.load(Relaxed) == 0 {
            return None;
        }
        let known = self.lock().open.iter().any(|marks| marks.call == call);
        known.then(|| Call { recorder: self.clone(), call })
    }

    /// A read brought a piece of a call. `span` is when it began and ended, if that was noted.
    #[inline]
    pub(super) fn read(&self, piece: Piece, span: Option<(u64, u64)>) {
        let Some(call) = self.call_of(piece.stream) else { return };
        if let Side::Server { .. } = self.side {
            // Streams are opened in the order of their numbers.
            let begun = self.begun.load(Relaxed);
            if call >= begun {
                self.begun.store(call + 1, Relaxed);
                if call >= self.next.load(Relaxed) {
                    self.open(call, None);
                }
            }
        }
        if self.open.load(Relaxed) == 0 {
            return;
        }
        self.with(call, |marks| {
            let (before, after) = self.span(span);
            marks.set_first(Mark::ReadBegin, before);
            // The last one stays.
            if piece.data {
                marks.set(Mark::LastReadBegin, before);
                marks.set(Mark::ReadEnd, after);
            }
        });
    }

    /// A write took a piece of a call. `span` is when it began and ended, if that was noted.
    #[inline]
    pub(super) fn written(&self, piece: Piece, span: Option<(u64, u64)>) {
        if self.open.load(Relaxed) == 0 {
            return;
        }
        let Some(call) = self.call_of(piece.stream) else { return };
        self.with(call, |marks| {
            let (before, after) = self.span(span);
            if piece.data {
                marks.set_first(Mark::WriteBegin, before);
                marks.set_first(Mark::FirstWriteEnd, after);
            }
            if piece.ends {
                marks.set(Mark::WriteEnd, after);
            }
        });
        if piece.ends && self.side != Side::Client {
            self.close(call, None);
        }
    }

    fn span(&self, span: Option<(u64, u64)>) -> (u64, u64) {
        span.unwrap_or_else(|| {
            let now = self.now();
            (now, now)
        })
    }

    /// Clients open the streams 1, 3, 5 (RFC 9113, section 5.1.1), one a call.
    fn call_of(&self, stream: u32) -> Option<u64> {
        (stream % 2 == 1).then(|| u64::from(stream / 2))
    }

    fn open(&self, call: u64, begin: Option<u64>) {
        let mut state = self.lock();
        self.next.store(self.sampling.after(call, state.stride), Relaxed);
        if state.open.len() == MOST_OPEN {
            state.open.remove(0);
        }
        let mut marks = CallMarks::new(call);
        if let Some(begin) = begin {
            marks.set(Mark::Begin, begin);
        }
        state.open.push(marks);
        self.open.store(state.open.len() as u32, Relaxed);
    }

    fn with(&self, call: u64, note: impl FnOnce(&mut CallMarks)) {
        let mut state = self.lock();
        if let Some(marks) = state.open.iter_mut().find(|marks| marks.call == call) {
            note(marks);
        }
    }

    fn close(&self, call: u64, end: Option<u64>) {
        let mut state = self.lock();
        let Some(place) = state.open.iter().position(|marks| marks.call == call) else { return };
        let mut marks = state.open.remove(place);
        self.open.store(state.open.len() as u32, Relaxed);
        if let Some(end) = end {
            marks.set(Mark::End, end);
        }
        if !self.sampling.keeps(call, state.stride) {
            return;
        }
        if state.done.len() == self.sampling.capacity {
            let stride = state.stride.saturating_mul(2);
            state.stride = stride;
            state.done.retain(|marks| self.sampling.keeps(marks.call, stride));
            if !self.sampling.keeps(call, stride) {
                return;
            }
        }
        state.done.push(marks);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("sampling", &self.sampling)
            .field("side", &self.side)
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}

/// A call that was handed over and has no stream yet.
#[derive(Debug)]
pub(crate) struct HandedOver {
    recorder: Arc<Recorder>,
    at: u64,
}

impl HandedOver {
    /// Its stream is opened; `None` if it is not sampled.
    pub(crate) fn begin(self) -> Option<Call> {
        self.recorder.begin(self.at)
    }
}

/// A sampled call under way.
#[derive(Clone, Debug)]
pub struct Call {
    recorder: Arc<Recorder>,
    call: u64,
}

impl Call {
    /// Notes that it is there now; of several times the last one stays.
    pub fn mark(&self, mark: Mark) {
        self.mark_at(mark, self.recorder.now());
        if mark == Mark::EncodeEnd
            && let Side::Server { sealed: true, .. } = self.recorder.side
        {
            self.end();
        }
    }

    /// Notes that it was there at a time, in ticks; of several times the last one stays.
    pub fn mark_at(&self, mark: Mark, at: u64) {
        self.recorder.with(self.call, |marks| marks.set(mark, at));
    }

    /// Notes that the caller has the reply, or that the server has sent it all, and closes the call.
    pub fn end(&self) {
        let now = self.recorder.now();
        let end = (self.recorder.side == Side::Client).then_some(now);
        self.recorder.close(self.call, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reading is one tick later than the one before it.
    fn ticking() -> Arc<dyn Ticks> {
        let ticks = AtomicU64::new(0);
        Arc::new(move || ticks.fetch_add(1, Relaxed))
    }

    fn recorder(every: u32, capacity: usize, side: Side) -> Arc<Recorder> {
        Recorder::new(Sampling { every, seed: 5, capacity }, side, ticking())
    }

    fn piece(call: u32, ends: bool) -> Piece {
        Piece { stream: 2 * call + 1, data: true, ends }
    }

    #[test]
    fn calls_that_are_not_sampled_leave_no_trace_and_read_no_clock() {
        let recorder = recorder(1000, 8, Side::Client);
        let sampled = recorder.next.load(Relaxed);
        for _ in 0..sampled {
            assert!(recorder.begin(0).is_none() && !recorder.is_armed());
        }
        assert_eq!(recorder.now(), 0, "the first reading");
        assert!(recorder.begin(0).is_some() && recorder.is_armed());
    }

    #[test]
    fn calls_that_overlap_are_told_apart_by_their_streams() {
        let recorder = recorder(1, 8, Side::Client);
        assert!(recorder.begin(0).is_none(), "call 0 opens the connection");
        let (one, two) = (recorder.begin(0).unwrap(), recorder.begin(0).unwrap());
        recorder.written(piece(1, false), Some((100, 109)));
        recorder.written(piece(2, true), Some((200, 209)));
        recorder.written(piece(1, true), Some((300, 309)));
        recorder.read(piece(2, true), Some((400, 409)));
        two.end();
        recorder.read(piece(1, false), Some((500, 509)));
        recorder.read(piece(1, true), Some((600, 609)));
        one.end();
        let [two, one] = recorder.take()[..] else { panic!("two calls") };
        assert_eq!((one.call, two.call), (1, 2));
        assert_eq!(one.get(Mark::WriteBegin), Some(100));
        assert_eq!((one.get(Mark::FirstWriteEnd), one.get(Mark::WriteEnd)), (Some(109), Some(309)));
        assert_eq!(
            (one.get(Mark::ReadBegin), one.get(Mark::LastReadBegin)),
            (Some(500), Some(600))
        );
        assert_eq!((two.get(Mark::WriteBegin), two.get(Mark::ReadBegin)), (Some(200), Some(400)));
        assert!(one.get(Mark::End).is_some() && one.get(Mark::DecodeBegin).is_none());
        assert!(!recorder.is_armed());
    }

    #[test]
    fn a_server_s_calls_begin_with_their_first_bytes_and_end_with_their_last() {
        let recorder = recorder(1, 8, Side::Server { in_flight: 2, sealed: false });
        recorder.read(piece(0, true), None);
        assert!(recorder.is_armed() && recorder.handle().is_none());
        recorder.read(piece(1, false), Some((50, 59)));
        recorder.read(piece(1, true), Some((60, 69)));
        let call = recorder.handle().unwrap();
        call.mark(Mark::HandlerBegin);
        recorder.written(piece(1, false), Some((70, 79)));
        assert!(recorder.take().is_empty());
        recorder.written(piece(1, true), Some((80, 89)));
        let [marks] = recorder.take()[..] else { panic!("one call") };
        assert_eq!(
            (marks.get(Mark::ReadBegin), marks.get(Mark::LastReadBegin)),
            (Some(50), Some(60))
        );
        assert!(marks.get(Mark::HandlerBegin).is_some() && marks.get(Mark::End).is_none());
    }

    #[test]
    fn memory_is_fixed_and_what_is_kept_is_spread_over_all_calls() {
        let recorder = recorder(3, 16, Side::Client);
        let capacity = recorder.lock().done.capacity();
        for _ in 0..10_000 {
            if let Some(call) = recorder.begin(0) {
                call.end();
            }
        }
        assert_eq!(recorder.lock().done.capacity(), capacity);
        let calls: Vec<u64> = recorder.take().iter().map(|marks| marks.call).collect();
        assert!((8..=16).contains(&calls.len()), "{calls:?}");
        assert!(calls[0] < 2000 && calls[calls.len() - 1] > 8000, "{calls:?}");
    }

    /// Both sides keep the same ones, or one side some of the other's.
    #[test]
    fn both_sides_sample_the_same_calls() {
        let client = recorder(7, 32, Side::Client);
        let server = recorder(7, 16, Side::Server { in_flight: 1, sealed: false });
        for call in 0..2000 {
            let sampled = client.begin(0);
            server.read(piece(call, true), None);
            server.written(piece(call, true), None);
            if let Some(sampled) = sampled {
                sampled.end();
            }
        }
        let client: Vec<u64> = client.take().iter().map(|marks| marks.call).collect();
        let server: Vec<u64> = server.take().iter().map(|marks| marks.call).collect();
        assert!(server.len() >= 8 && server.iter().all(|call| client.contains(call)));
    }

    #[test]
    fn calls_that_never_end_make_room() {
        let recorder = recorder(1, 4, Side::Client);
        for _ in 0..1000 {
            let _ = recorder.begin(0);
        }
        assert_eq!(recorder.lock().open.len(), MOST_OPEN);
        recorder.pass_over();
        assert!(recorder.begin(0).is_some());
    }
}
