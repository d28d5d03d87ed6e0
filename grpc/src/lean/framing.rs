//! Messages to DATA frames and back: five bytes of flag and length before each message, wherever
//! frames begin and end (gRPC over HTTP/2, "Length-Prefixed-Message").

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::Failure;
use crate::codec::GRPC_PREFIX;
use crate::message::Message;

/// Messages up to this size are copied behind one another: that costs less than a piece of their
/// own in a system call.
const COPIED: usize = 2 << 10;

/// A frame of several messages is full at this size. It goes out with two system calls or three, and
/// the receiver's copy of it is still in the cache when it is looked at.
const FULL: usize = 512 << 10;

/// More pieces than this do not go into one system call: so many h2 hands to one `writev`, less one
/// for the frame's header.
const PIECES: usize = 14;

/// The bytes of one DATA frame, in the pieces that they came in.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// The first piece, apart from the others: most frames have one or two.
    first: Bytes,
    others: VecDeque<Bytes>,
    remaining: usize,
}

impl Pieces {
    /// One message.
    pub(super) fn of(message: impl Into<Message>) -> Pieces {
        let message = message.into();
        let [only] = message.buffers() else {
            let mut gathering = Gathering::default();
            gathering.push(message);
            return gathering.take();
        };
        Pieces::of_buffer(only.clone())
    }

    fn of_buffer(message: Bytes) -> Pieces {
        let remaining = GRPC_PREFIX + message.len();
        let is_copied = message.len() <= COPIED;
        let copied = if is_copied { message.len() } else { 0 };
        let mut first = BytesMut::with_capacity(GRPC_PREFIX + copied);
        put_prefix(&mut first, message.len());
        let mut others = VecDeque::new();
        if is_copied {
            first.put_slice(&message);
        } else {
            others.push_back(message);
        }
        Pieces { first: first.freeze(), others, remaining }
    }
}

/// No larger message is admitted by any tuning.
fn put_prefix(into: &mut BytesMut, length: usize) {
    // Not compressed.
    into.put_u8(0);
    into.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let pieces = std::iter::once(&self.first).chain(&self.others);
        let mut count = 0;
        for (slice, piece) in into.iter_mut().zip(pieces.filter(|piece| !piece.is_empty())) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        self.remaining -= count;
        while count >= self.first.len() {
            count -= self.first.len();
            match self.others.pop_front() {
                Some(next) => self.first = next,
                None => {
                    self.first = Bytes::new();
                    return;
                }
            }
        }
        self.first.advance(count);
    }
}

/// Gathers messages of a stream into frames.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    pieces: VecDeque<Bytes>,
    /// Prefixes and small messages behind the last piece.
    tail: BytesMut,
    bytes: usize,
}

impl Gathering {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether another message is better left to the next frame.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= FULL || self.pieces.len() + 2 > PIECES
    }

    /// Bytes with all prefixes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, message: Message) {
        let framed = GRPC_PREFIX + message.len();
        self.bytes += framed;
        if message.len() <= COPIED {
            if self.tail.capacity() - self.tail.len() < framed {
                self.tail.reserve(if self.tail.is_empty() { framed } else { FULL });
            }
            put_prefix(&mut self.tail, message.len());
            message.buffers().iter().for_each(|buffer| self.tail.put_slice(buffer));
            return;
        }
        put_prefix(&mut self.tail, message.len());
        for buffer in message.buffers() {
            if buffer.len() <= COPIED {
                self.tail.put_slice(buffer);
                continue;
            }
            if !self.tail.is_empty() {
                self.pieces.push_back(self.tail.split().freeze());
            }
            self.pieces.push_back(buffer.clone());
        }
    }

    /// What was gathered; what comes next is gathered anew.
    pub(super) fn take(&mut self) -> Pieces {
        let mut others = std::mem::take(&mut self.pieces);
        if !self.tail.is_empty() {
            others.push_back(self.tail.split().freeze());
        }
        let remaining = std::mem::take(&mut self.bytes);
        Pieces { first: others.pop_front().unwrap_or_default(), others, remaining }
    }
}

/// Puts messages together from what DATA frames bring.
#[derive(Debug)]
pub(super) struct Assembly {
    /// Bytes of a message that may come in.
    limit: usize,
    /// What the last frame brought and nobody has taken.
    chunk: Bytes,
    /// A message that began in an earlier frame, with its prefix.
    begun: BytesMut,
}

impl Assembly {
    pub(super) fn new(limit: usize) -> Assembly {
        Assembly { limit, chunk: Bytes::new(), begun: BytesMut::new() }
    }

    /// The content of the next frame. All messages of the one before must have been taken.
    pub(super) fn put(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// Whether the bytes so far end with a message.
    pub(super) fn is_between_messages(&self) -> bool {
        self.begun.is_empty() && self.chunk.is_empty()
    }

    /// The next message; `None` if a further frame is needed.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        if self.begun.is_empty() {
            if let Some(prefix) = self.chunk.first_chunk() {
                let end = GRPC_PREFIX + self.length(*prefix)?;
                if self.chunk.len() >= end {
                    return Ok(Some(self.chunk.split_to(end).slice(GRPC_PREFIX..)));
                }
                self.begun.reserve(end);
            } else if self.chunk.is_empty() {
                return Ok(None);
            }
        }
        let missing = GRPC_PREFIX.saturating_sub(self.begun.len());
        self.gather(missing);
        let Some(prefix) = self.begun.first_chunk() else { return Ok(None) };
        let end = GRPC_PREFIX + self.length(*prefix)?;
        let missing = end - self.begun.len();
        if self.begun.capacity() < end {
            self.begun.reserve(missing);
        }
        self.gather(missing);
        if self.begun.len() < end {
            return Ok(None);
        }
        let message = std::mem::take(&mut self.begun).freeze();
        Ok(Some(message.slice(GRPC_PREFIX..)))
    }

    fn gather(&mut self, most: usize) {
        let taken = self.chunk.split_to(most.min(self.chunk.len()));
        self.begun.extend_from_slice(&taken);
    }

    fn length(&self, prefix: [u8; GRPC_PREFIX]) -> Result<usize, Failure> {
        let [flag, length @ ..] = prefix;
        match flag {
            0 => {}
            1 => {
                return Err(Failure::Status(tonic::Status::unimplemented(
                    "a compressed message: compression was not offered",
                )));
            }
            other => {
                return Err(Failure::Malformed(format!(
                    "a message begins with {other:#04x} where gRPC has a compression flag"
                )));
            }
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > self.limit {
            return Err(Failure::Status(tonic::Status::out_of_range(format!(
                "a message of {length} B is over the limit of {} B",
                self.limit
            ))));
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(size: usize) -> Bytes {
        (0..size).map(|at| (at % 251) as u8).collect()
    }

    fn bytes_of(mut pieces: impl Buf) -> Bytes {
        pieces.copy_to_bytes(pieces.remaining())
    }

    /// All messages of `wire`, cut into frames of `frame` bytes.
    fn reassembled(wire: &Bytes, frame: usize, limit: usize) -> Result<Vec<Bytes>, Failure> {
        let mut assembly = Assembly::new(limit);
        let mut messages = Vec::new();
        for chunk in wire.chunks(frame) {
            assembly.put(Bytes::copy_from_slice(chunk));
            while let Some(message) = assembly.next()? {
                messages.push(message);
            }
        }
        assert!(assembly.is_between_messages());
        Ok(messages)
    }

    #[test]
    fn buffers_small_and_large_are_one_message() {
        let sizes = [1, COPIED, COPIED + 1, 0, 3 * COPIED, 7];
        let buffers: Vec<Bytes> = sizes.iter().map(|&size| message(size)).collect();
        let whole = buffers.concat();
        let mut pieces = Pieces::of(Message::of(buffers));
        let framed = pieces.copy_to_bytes(pieces.remaining());
        assert_eq!(
            framed[..GRPC_PREFIX],
            Pieces::of(Bytes::from(whole.clone())).chunk()[..GRPC_PREFIX]
        );
        assert!(framed[GRPC_PREFIX..] == whole);
    }

    #[test]
    fn what_was_framed_comes_out_wherever_frames_are_cut() {
        let sizes = [0, 1, 100, COPIED, COPIED + 1, 0, 9000, 3];
        let mut gathering = Gathering::default();
        sizes.iter().for_each(|&size| gathering.push(message(size).into()));
        let bytes = gathering.bytes();
        let wire = bytes_of(gathering.take());
        assert_eq!(wire.len(), bytes);
        assert!(gathering.is_empty());
        let one_by_one: Vec<u8> =
            sizes.iter().flat_map(|&size| bytes_of(Pieces::of(message(size)))).collect();
        assert_eq!(wire, one_by_one);
        for frame in [1, 4, 5, 6, 7, 1000, wire.len()] {
            let messages = reassembled(&wire, frame, 9000).unwrap();
            assert_eq!(messages, sizes.map(message), "{frame} B a frame");
        }
    }

    #[test]
    fn a_message_in_one_frame_is_not_copied() {
        let large = message(1 << 16);
        let pieces = Pieces::of(large.clone());
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(pieces.chunks_vectored(&mut slices), 2);
        assert_eq!(slices[1].as_ptr(), large.as_ptr());

        let wire = bytes_of(pieces);
        let mut assembly = Assembly::new(1 << 16);
        assembly.put(wire.clone());
        let received = assembly.next().unwrap().unwrap();
        assert_eq!(received.as_ptr(), wire[GRPC_PREFIX..].as_ptr());
    }

    #[test]
    fn a_frame_is_full_before_it_needs_two_system_calls() {
        let mut gathering = Gathering::default();
        let mut count = 0;
        while !gathering.is_full() {
            gathering.push(message(COPIED + 1).into());
            count += 1;
        }
        assert_eq!(count, PIECES / 2);
        assert!(gathering.take().others.len() < PIECES);
        for _ in 0..100 {
            gathering.push(message(10).into());
        }
        assert!(!gathering.is_full());
        gathering.push(message(FULL).into());
        assert!(gathering.is_full());
    }

    #[test]
    fn pieces_advance_across_their_borders() {
        let mut pieces = Pieces::of(message(5000));
        pieces.advance(3);
        assert_eq!((pieces.remaining(), pieces.chunk().len()), (5002, 2));
        pieces.advance(2);
        assert_eq!(pieces.chunk().len(), 5000);
        pieces.advance(4999);
        assert_eq!(pieces.chunk(), &message(5000)[4999..]);
        pieces.advance(1);
        assert!(!pieces.has_remaining() && pieces.chunk().is_empty());
    }

    #[test]
    fn what_is_no_message_of_ours_is_refused() {
        let refused = |wire: &[u8]| reassembled(&Bytes::copy_from_slice(wire), 99, 10).unwrap_err();
        let over = refused(&[0, 0, 0, 0, 11]);
        assert!(matches!(&over, Failure::Status(status) if status.message().contains("11 B")));
        assert!(matches!(refused(&[0, 255, 255, 255, 255]), Failure::Status(_)));
        assert!(matches!(refused(&[1, 0, 0, 0, 1, 7]), Failure::Status(_)));
        assert!(matches!(refused(&[7, 0, 0, 0, 1, 7]), Failure::Malformed(_)));
        let mut assembly = Assembly::new(10);
        assembly.put(Bytes::from_static(&[0, 0, 0, 0, 9, 1]));
        assert!(assembly.next().unwrap().is_none());
        assert!(!assembly.is_between_messages());
    }
}
