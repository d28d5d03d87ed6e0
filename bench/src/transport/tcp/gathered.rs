//! Messages of different sizes as a stream brings them.

use super::socket::READ_BUFFER;
use crate::transport::{TransportError, buffer::zeroed};

/// Messages as they come, each in one piece.
#[derive(Debug)]
pub(super) struct Gathered {
    // Room for the largest message, and for many small ones.
    buffer: Vec<u8>,
    // What is here, less what has been consumed.
    begin: usize,
    end: usize,
}

impl Gathered {
    /// # Errors
    /// There is no memory for a message of `largest` bytes.
    pub(super) fn new(largest: u64) -> Result<Self, TransportError> {
        Ok(Self { buffer: zeroed(largest.max(READ_BUFFER as u64))?, begin: 0, end: 0 })
    }

    /// Where the next bytes belong, if the message under way has `size` bytes. A large one is read to
    /// its end and no further: what is behind it would have to be moved. Called when
    /// [compact](Self::compact).
    pub(super) fn room(&mut self, size: usize) -> &mut [u8] {
        let end = size.max(READ_BUFFER).min(self.buffer.len());
        self.buffer.get_mut(self.end..end.max(self.end)).unwrap_or_default()
    }

    /// So many bytes have come there.
    pub(super) fn took(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// All that is here.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.begin..self.end).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// The first `size` bytes, if they are here.
    pub(super) fn first(&self, size: usize) -> Option<&[u8]> {
        self.bytes().get(..size)
    }

    /// Forgets the first `size` bytes.
    pub(super) fn consume(&mut self, size: usize) {
        self.begin = (self.begin + size).min(self.end);
    }

    /// Moves what is here to the beginning.
    pub(super) fn compact(&mut self) {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
    }
}
