//! The last byte of a message where it tells one from the next: polled for, or compared when a message
//! may come twice.

use super::{Pair, failed, layout::Place, regions::Regions};
use crate::transport::TransportError;

/// The stamp of the message with this number: never 0, which is what fresh memory holds, and never
/// the one before.
#[inline]
pub(super) fn stamp(sequence: u64) -> u8 {
    (sequence % 255) as u8 + 1
}

/// Bytes that are stored at once: memory on the device takes whole words, and reading what stands
/// beside a byte would cost more than the message.
const WORD: usize = 4;

/// The last word of the message that a ping-pong sends, but for its stamp.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamped {
    word: Place,
    bytes: [u8; WORD],
    /// Which of them is the stamp.
    last: usize,
}

impl Stamped {
    /// # Errors
    /// The memory cannot be read.
    pub(super) fn of(pair: &Pair) -> Result<Self, TransportError> {
        let last = pair.size as usize - 1;
        // A message begins on a word, and ends in a line of its own.
        let word = pair.layout.message(0).plus(last - last % WORD);
        let mut bytes = [0; WORD];
        pair.regions.copy_out(word, &mut bytes).map_err(failed)?;
        Ok(Self { word, bytes, last: last % WORD })
    }

    /// Stamps the message, which nobody reads at present.
    #[inline]
    pub(super) fn set(&self, regions: &Regions, stamp: u8) -> Result<(), TransportError> {
        let mut bytes = self.bytes;
        if let Some(place) = bytes.get_mut(self.last) {
            *place = stamp;
        }
        regions.store_u32(self.word, u32::from_ne_bytes(bytes)).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_differ_from_their_neighbours_and_from_fresh_memory() {
        for sequence in 0..1000 {
            assert_ne!(stamp(sequence), 0);
            assert_ne!(stamp(sequence), stamp(sequence + 1));
        }
    }
}
