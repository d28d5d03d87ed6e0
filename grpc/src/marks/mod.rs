//! When one call in so many passes from stage to stage: clock readings of sampled calls, taken by
//! the client, the server and the sockets under them, in fixed memory.
//!
//! A call that is not sampled costs its sender a clock reading, a count and a comparison. Which calls are sampled
//! follows from their place on the connection and a seed, so that both sides mark the same ones
//! without a word on the wire. The sockets tell calls apart by the headers of HTTP/2's frames
//! (`frames`), also where many are under way on one connection; that walk is made for every read
//! and write of a connection that is marked, and on no other. Under TLS the frames are sealed, and
//! the sockets note nothing.
//!
//! A call takes its place when its stream is opened, and not when it is handed over: one that is
//! given up before takes none.

mod codec;
mod frames;
mod recorder;
mod sampling;
mod stream;

pub(crate) use codec::Marked;
pub(crate) use recorder::HandedOver;
pub use recorder::{Call, Recorder, Side};
pub use sampling::Sampling;

#[cfg(fuzzing)]
pub(crate) use frames::pass_any;
pub(crate) use stream::MarkedStream;

/// A monotonic clock that is read in ticks of its own.
pub trait Ticks: Send + Sync {
    /// Now.
    fn now(&self) -> u64;
}

impl<F: Fn() -> u64 + Send + Sync> Ticks for F {
    fn now(&self) -> u64 {
        self()
    }
}

/// A moment in the life of a call, on the side that notes it.
///
/// Reads and writes are system calls on the socket. One that carries bytes of several calls is of
/// each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Client: the call was handed over.
    Begin,
    /// Before the message is encoded.
    EncodeBegin,
    /// After it.
    EncodeEnd,
    /// Before the write that took the message's first byte.
    WriteBegin,
    /// After that write.
    FirstWriteEnd,
    /// After the write that took the call's last byte, the end of its stream or its trailers.
    WriteEnd,
    /// Before the read that brought the first byte.
    ReadBegin,
    /// Before the read that brought the message's last byte.
    LastReadBegin,
    /// After the read that brought the message's last byte; the end of the stream, or the trailers,
    /// may come later.
    ReadEnd,
    /// Before the message is decoded: all of it is there. Absent where it is put together as it
    /// comes.
    DecodeBegin,
    /// After it.
    DecodeEnd,
    /// Server: before the handler has the message.
    HandlerBegin,
    /// Server: the handler has the reply.
    HandlerEnd,
    /// Client: the caller has the reply.
    End,
}

impl Mark {
    /// All of them, in the order of their definition.
    pub const ALL: [Mark; 14] = [
        Mark::Begin,
        Mark::EncodeBegin,
        Mark::EncodeEnd,
        Mark::WriteBegin,
        Mark::FirstWriteEnd,
        Mark::WriteEnd,
        Mark::ReadBegin,
        Mark::LastReadBegin,
        Mark::ReadEnd,
        Mark::DecodeBegin,
        Mark::DecodeEnd,
        Mark::HandlerBegin,
        Mark::HandlerEnd,
        Mark::End,
    ];
}

/// What was noted of one call on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallMarks {
    /// Which call of its connection, from 0.
    pub call: u64,
    at: [u64; Mark::ALL.len()],
}

/// No clock gets there.
const ABSENT: u64 = u64::MAX;

impl CallMarks {
    /// Of a call of which nothing is noted yet.
    pub fn new(call: u64) -> CallMarks {
        CallMarks { call, at: [ABSENT; Mark::ALL.len()] }
    }

    /// When it was, in ticks; `None` if it was not noted.
    pub fn get(&self, mark: Mark) -> Option<u64> {
        self.at.get(mark as usize).copied().filter(|&at| at != ABSENT)
    }

    /// Notes a moment, in place of what was noted before.
    pub fn set(&mut self, mark: Mark, at: u64) {
        if let Some(noted) = self.at.get_mut(mark as usize) {
            *noted = at;
        }
    }

    /// Notes the first moment of its kind.
    fn set_first(&mut self, mark: Mark, at: u64) {
        if let Some(noted) = self.at.get_mut(mark as usize).filter(|noted| **noted == ABSENT) {
            *noted = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_the_places_of_their_order() {
        for (place, mark) in Mark::ALL.into_iter().enumerate() {
            assert_eq!(mark as usize, place);
        }
        let mut marks = CallMarks::new(3);
        assert_eq!(marks.get(Mark::End), None);
        marks.set_first(Mark::End, 7);
        marks.set_first(Mark::End, 8);
        assert_eq!((marks.call, marks.get(Mark::End)), (3, Some(7)));
    }
}
