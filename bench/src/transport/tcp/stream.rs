//! Messages of one size on a stream that carries nothing else, several of them to a system call.

use std::{
    io::{self, IoSlice, Write},
    net::TcpStream,
    sync::Arc,
};

use super::socket::{READ_BUFFER, Turns, again, closed, io_failed, send_at_once};
use crate::{
    plan::Payload,
    transport::{Patience, StopSignal, TransportError, buffer::zeroed, wait::go_on},
};

/// Buffers handed to the kernel at once. It takes up to 1024 (IOV_MAX); an array of these is made
/// for each system call.
pub(super) const MOST_SLICES: usize = 64;

/// Copies of one message on their way into a socket.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    // What one message is made of, in order, none of it empty. Shared by those who send the same.
    buffers: Arc<[Vec<u8>]>,
    size: u64,
    // Bytes that the socket has yet to take, of all copies together.
    left: u64,
}

impl Outgoing {
    pub(super) fn new(buffers: Vec<Vec<u8>>) -> Self {
        let size = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        Self { buffers: buffers.into(), size, left: 0 }
    }

    /// Bytes of one copy.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// So many copies more.
    pub(super) fn add(&mut self, copies: u64) {
        self.left = self.left.saturating_add(copies.saturating_mul(self.size));
    }

    /// No copy more: what the socket has not taken is not to be sent.
    pub(super) fn take_back(&mut self) {
        self.left = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Bytes that the socket has yet to take.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// What comes next, as far as it fits; returns how many slices that are.
    fn next<'a>(&'a self, slices: &mut [IoSlice<'a>; MOST_SLICES]) -> usize {
        let mut left = self.left;
        // How much of the copy that is under way has gone.
        let mut gone = (self.size - left % self.size.max(1)) % self.size.max(1);
        let mut count = 0;
        for buffer in self.buffers.iter().cycle() {
            let Some(slice) = slices.get_mut(count).filter(|_| left > 0) else { break };
            if let Some(rest) = buffer.get(gone as usize..).filter(|rest| !rest.is_empty()) {
                *slice = IoSlice::new(rest);
                count += 1;
                left = left.saturating_sub(rest.len() as u64);
            }
            gone = gone.saturating_sub(buffer.len() as u64);
        }
        count
    }

    fn took(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
    }

    /// Sends all of it, waiting as long as bytes are taken within each `patience`.
    pub(super) fn send(
        &mut self,
        stream: &mut TcpStream,
        stop: &StopSignal,
        patience: Option<Patience>,
    ) -> Result<(), TransportError> {
        go_on(stop)?;
        let mut clock = Turns::new(patience);
        while !self.is_empty() {
            match self.write_some(stream) {
                Ok(0) => return Err(closed()),
                Ok(taken) => {
                    self.took(taken);
                    clock = Turns::new(patience);
                }
                Err(error) if again(&error) => {
                    if !clock.turn(stop)? {
                        return Err(TransportError::Failed(
                            "the receiver takes no more bytes; the data path may be cut".to_owned(),
                        ));
                    }
                }
                Err(error) => return Err(io_failed("send", &error)),
            }
        }
        Ok(())
    }

    /// Hands over what comes next by one system call: where that is one buffer, without making a
    /// list for it.
    fn write_some(&self, stream: &mut TcpStream) -> io::Result<usize> {
        if let [only] = &self.buffers[..]
            && self.left <= self.size
        {
            let gone = (self.size - self.left) as usize;
            return stream.write(only.get(gone..).unwrap_or_default());
        }
        let mut slices = [IoSlice::new(&[]); MOST_SLICES];
        let count = self.next(&mut slices);
        stream.write_vectored(slices.get(..count).unwrap_or_default())
    }

    /// Sends as much as the socket takes at once, and says whether that was anything.
    pub(super) fn send_now(&mut self, stream: &TcpStream) -> Result<bool, TransportError> {
        let before = self.left;
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); MOST_SLICES];
            let count = self.next(&mut slices);
            let slices = slices.get(..count).unwrap_or_default();
            let Some((taken, is_all)) = send_at_once(stream, slices)? else { break };
            self.took(taken);
            if !is_all {
                break;
            }
        }
        Ok(self.left < before)
    }
}

/// Messages of one size as they come, each in one piece. The first is verified: it comes in
/// warm-up, where that disturbs nothing.
#[derive(Debug)]
pub(super) struct Incoming {
    // Room for whole messages.
    buffer: Vec<u8>,
    filled: usize,
    size: usize,
    payload: Payload,
    /// Messages that are here in full, so far.
    pub(super) messages: u64,
    /// Whether the first was as sent.
    pub(super) verified: Option<bool>,
}

impl Incoming {
    /// # Errors
    /// There is no memory for such a message.
    pub(super) fn new(size: u64, payload: Payload) -> Result<Self, TransportError> {
        let whole = (READ_BUFFER as u64 / size.max(1)).max(1);
        let buffer = zeroed(whole.saturating_mul(size))?;
        let size = buffer.len() / whole as usize;
        Ok(Self { buffer, filled: 0, size, payload, messages: 0, verified: None })
    }

    /// Where the next bytes belong.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.filled..).unwrap_or_default()
    }

    /// So many bytes have come there; returns how many messages that completes.
    pub(super) fn took(&mut self, bytes: usize) -> u64 {
        self.filled = (self.filled + bytes).min(self.buffer.len());
        let whole = self.filled / self.size.max(1);
        if whole > 0 {
            if self.verified.is_none() {
                let first = self.buffer.get(..self.size).unwrap_or_default();
                self.verified = Some(self.payload.matches(first));
            }
            let used = whole * self.size;
            self.buffer.copy_within(used..self.filled, 0);
            self.filled -= used;
            self.messages += whole as u64;
        }
        whole as u64
    }

    /// Whether no message has begun to come that is not here in full.
    pub(super) fn is_between_messages(&self) -> bool {
        self.filled == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the socket takes at a time, each byte goes once and in its place.
        #[test]
        fn copies_follow_one_another_byte_by_byte(
            lengths in prop::collection::vec(1usize..9, 1..100),
            copies in 1u64..5,
            takes in prop::collection::vec(1usize..50, 1..20),
        ) {
            let mut bytes = 0u8..=255;
            let buffers: Vec<Vec<u8>> = lengths
                .iter()
                .map(|&length| {
                    (0..length).map(|_| bytes.next().unwrap_or_else(|| { bytes = 0..=255; 7 })).collect()
                })
                .collect();
            let expected = buffers.concat().repeat(copies as usize);
            let mut outgoing = Outgoing::new(buffers);
            outgoing.add(copies);
            let mut sent = Vec::new();
            for take in takes.iter().cycle() {
                if outgoing.is_empty() {
                    break;
                }
                let mut slices = [IoSlice::new(&[]); MOST_SLICES];
                let count = outgoing.next(&mut slices);
                let offered: Vec<u8> =
                    slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
                prop_assert!(!offered.is_empty());
                let taken = (*take).min(offered.len());
                sent.extend_from_slice(&offered[..taken]);
                outgoing.took(taken);
            }
            prop_assert_eq!(sent, expected);
        }

        /// However the stream is cut, as many messages come out as went in, and the first is looked at.
        #[test]
        fn messages_are_counted_wherever_the_stream_is_cut(
            size in prop_oneof![1u64..300, 60_000u64..200_000],
            cuts in prop::collection::vec(1usize..150_000, 1..12),
        ) {
            let payload = Payload::new(3);
            let mut message = vec![0; size as usize];
            payload.fill(&mut message);
            let mut incoming = Incoming::new(size, payload).unwrap();
            let all: usize = cuts.iter().sum();
            let stream = message.repeat(all.div_ceil(message.len()));
            let mut bytes = 0;
            for cut in cuts {
                let room = incoming.room();
                prop_assert!(!room.is_empty());
                let cut = cut.min(room.len());
                room[..cut].copy_from_slice(&stream[bytes..bytes + cut]);
                incoming.took(cut);
                bytes += cut;
            }
            let bytes = bytes as u64;
            prop_assert_eq!(incoming.messages, bytes / size);
            prop_assert_eq!(incoming.is_between_messages(), bytes.is_multiple_of(size));
            prop_assert_eq!(incoming.verified, (bytes >= size).then_some(true));
        }
    }
}
