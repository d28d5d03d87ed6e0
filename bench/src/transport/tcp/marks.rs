//! Marks of the calls of one connection. Both directions have message behind message of one size each, so
//! that a place in the stream tells whose bytes pass.

use std::{collections::VecDeque, net::TcpStream, sync::Arc};

use fabricbench_grpc::marks::{Call, Mark, Recorder, Side};
use rustix::event::{PollFd, PollFlags, poll};

use super::socket::{TURN, timespec};
use crate::transport::{MarkedConnection, Marking};

/// What is noted on one side.
#[derive(Debug)]
pub(super) struct StreamMarks {
    recorder: Arc<Recorder>,
    /// Whether calls begin here, or with their first byte.
    side: Side,
    /// Bytes of a message that goes, and of one that comes.
    sizes: (u64, u64),
    /// Bytes that went and came so far.
    moved: (u64, u64),
    /// Calls that began.
    begun: u64,
    /// Marked calls under way, with their numbers.
    open: VecDeque<(u64, Call)>,
}

impl StreamMarks {
    /// `sizes`: bytes of a message that goes, and of one that comes.
    pub(super) fn new(marking: &Marking, side: Side, sizes: (u64, u64)) -> Self {
        let recorder = marking.recorder(side);
        Self { recorder, side, sizes, moved: (0, 0), begun: 0, open: VecDeque::new() }
    }

    /// The next call is handed over now.
    pub(super) fn begin(&mut self) {
        if let Some(call) = self.recorder.begin(self.recorder.now()) {
            self.open.push_back((self.begun, call));
        }
        self.begun += 1;
    }

    /// Now, if a system call that comes may be of a marked call.
    pub(super) fn before(&self) -> Option<u64> {
        self.recorder.is_armed().then(|| self.recorder.now())
    }

    /// The same when there is something to read: it is waited for, for a [`TURN`] at the most, so that the
    /// wait is not taken for reading.
    pub(super) fn before_reading(&self, stream: &TcpStream) -> Option<u64> {
        if self.recorder.is_armed() {
            // Whatever it says, reading will tell.
            let _ = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&timespec(TURN)));
        }
        self.before()
    }

    /// A system call that began at `before` has taken `bytes`.
    pub(super) fn wrote(&mut self, bytes: u64, before: Option<u64>) {
        let from = self.moved.0;
        self.moved.0 += bytes;
        let Some(before) = before.filter(|_| bytes > 0) else { return };
        let after = self.recorder.now();
        let (to, size) = (self.moved.0, self.sizes.0);
        for (number, call) in &self.open {
            let (first, end) = (number * size, (number + 1) * size);
            if from <= first && first < to {
                call.mark_at(Mark::WriteBegin, before);
                call.mark_at(Mark::FirstWriteEnd, after);
            }
            if from < end && end <= to {
                call.mark_at(Mark::WriteEnd, after);
            }
        }
    }

    /// A system call that began at `before` has brought `bytes`.
    pub(super) fn read(&mut self, bytes: u64, before: Option<u64>) {
        let from = self.moved.1;
        self.moved.1 += bytes;
        if self.side != Side::Client {
            while self.begun * self.sizes.1 < self.moved.1 {
                self.begin();
            }
        }
        let Some(before) = before.filter(|_| bytes > 0) else { return };
        let after = self.recorder.now();
        let (to, size) = (self.moved.1, self.sizes.1);
        for (number, call) in &self.open {
            let (first, end) = (number * size, (number + 1) * size);
            if from <= first && first < to {
                call.mark_at(Mark::ReadBegin, before);
            }
            if from < end && end <= to {
                call.mark_at(Mark::LastReadBegin, before);
                call.mark_at(Mark::ReadEnd, after);
            }
        }
    }

    /// So many calls have ended, from the first one on.
    pub(super) fn end(&mut self, ended: u64) {
        while self.open.front().is_some_and(|(number, _)| *number < ended)
            && let Some((_, call)) = self.open.pop_front()
        {
            call.end();
        }
    }

    /// All calls that began have ended.
    pub(super) fn end_begun(&mut self) {
        self.end(self.begun);
    }

    /// On a server: calls of which the whole reply has gone have ended.
    pub(super) fn end_answered(&mut self) {
        self.end(self.moved.0 / self.sizes.0.max(1));
    }

    /// The marks of the calls that ended, of the client's end of a connection. They are forgotten here.
    pub(super) fn of(&self, stream: &TcpStream) -> Option<MarkedConnection> {
        Some(MarkedConnection { client: stream.local_addr().ok()?, calls: self.recorder.take() })
    }

    /// The same of the server's end.
    pub(super) fn of_peer(&self, stream: &TcpStream) -> Option<MarkedConnection> {
        Some(MarkedConnection { client: stream.peer_addr().ok()?, calls: self.recorder.take() })
    }
}

#[cfg(test)]
mod tests {
    use fabricbench_grpc::marks::CallMarks;

    use super::*;
    use crate::clock::TscClock;

    fn marks(side: Side, sizes: (u64, u64)) -> StreamMarks {
        let marking = Marking::new(1, 1, 1, &TscClock::new());
        StreamMarks::new(&marking, side, sizes)
    }

    fn has(marks: &CallMarks, all: &[Mark]) {
        let mut last = 0;
        for &mark in all {
            let at = marks.get(mark).unwrap_or_else(|| panic!("no {mark:?} in {marks:?}"));
            assert!(at >= last, "{mark:?} is too early in {marks:?}");
            last = at;
        }
    }

    const GOES: [Mark; 3] = [Mark::WriteBegin, Mark::FirstWriteEnd, Mark::WriteEnd];
    const COMES: [Mark; 3] = [Mark::ReadBegin, Mark::LastReadBegin, Mark::ReadEnd];

    /// Requests of 10 B and replies of 4, three calls under way at once, moved in pieces that end nowhere
    /// in particular.
    #[test]
    fn places_in_the_stream_tell_calls_apart() {
        let mut client = marks(Side::Client, (10, 4));
        (0..3).for_each(|_| client.begin());
        for bytes in [7, 1, 20, 2] {
            client.wrote(bytes, client.before());
        }
        for bytes in [5, 6, 1] {
            client.read(bytes, client.before());
        }
        client.end(3);
        assert_eq!(client.before(), None);
        // Call 0 is never marked.
        let [one, two] = client.recorder.take()[..] else { panic!("two calls") };
        assert_eq!((one.call, two.call), (1, 2));
        for marks in [&one, &two] {
            has(marks, &[&[Mark::Begin][..], &GOES, &COMES, &[Mark::End]].concat());
        }
        // One went by one system call, two by two; the other way round they came.
        assert_eq!(one.get(Mark::FirstWriteEnd), one.get(Mark::WriteEnd));
        assert!(two.get(Mark::FirstWriteEnd) < two.get(Mark::WriteEnd));
        assert!(one.get(Mark::ReadBegin) < one.get(Mark::LastReadBegin));
        assert!(two.get(Mark::ReadBegin) < two.get(Mark::LastReadBegin));
    }

    #[test]
    fn on_a_server_calls_begin_with_their_bytes() {
        let mut server = marks(Side::Server { in_flight: 2, sealed: false }, (4, 10));
        // Call 1 may come with this read.
        assert!(server.before().is_some());
        server.read(13, server.before());
        server.read(7, server.before());
        server.wrote(4, server.before());
        server.end_answered();
        server.wrote(4, server.before());
        assert!(server.recorder.take().is_empty(), "it has not ended");
        server.end_answered();
        let [marks] = server.recorder.take()[..] else { panic!("one call") };
        has(&marks, &[COMES, GOES].concat());
        assert!(marks.get(Mark::ReadBegin) < marks.get(Mark::LastReadBegin));
    }
}
