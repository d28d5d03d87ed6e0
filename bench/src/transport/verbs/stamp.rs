//! The byte of a message that tells it from the one before: polled for, or compared when a message may
//! come twice. It is the last; and the last of each piece, where a piece may be lost.

use super::{Pair, failed, layout::Place, pieces::Message, regions::Regions};
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

/// A word of a message, whose stamp is that of the byte `last`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    place: Place,
    bytes: [u8; WORD],
    last: usize,
}

impl Word {
    /// The one that holds the last byte of the message that a lane sends from a slot.
    ///
    /// # Errors
    /// The memory cannot be read.
    pub(super) fn last(pair: &Pair, at: (usize, usize)) -> Result<Self, TransportError> {
        Self::at(pair, at, pair.message.size() - 1)
    }

    /// The one that holds the byte at `offset` of that message.
    fn at(
        pair: &Pair,
        (lane, slot): (usize, usize),
        offset: usize,
    ) -> Result<Self, TransportError> {
        // A message begins on a word, and so do its buffers; each ends in a line of its own.
        let byte = pair.layout.message_byte((lane, slot), offset);
        let last = byte.offset % WORD;
        let place = Place { offset: byte.offset - last, ..byte };
        let mut bytes = [0; WORD];
        pair.regions.copy_out(place, &mut bytes).map_err(failed)?;
        Ok(Self { place, bytes, last })
    }

    #[inline]
    pub(super) fn set(&self, regions: &Regions, stamp: u8) -> Result<(), TransportError> {
        let mut bytes = self.bytes;
        if let Some(place) = bytes.get_mut(self.last) {
            *place = stamp;
        }
        regions.store_u32(self.place, u32::from_ne_bytes(bytes)).map_err(failed)
    }
}

/// The stamps of the message that a ping-pong sends.
#[derive(Debug)]
pub(super) struct Stamped {
    last: Word,
    others: Box<[Word]>,
}

impl Stamped {
    /// # Errors
    /// The memory cannot be read.
    pub(super) fn of(pair: &Pair) -> Result<Self, TransportError> {
        let others =
            others(pair).map(|end| Word::at(pair, (0, 0), end)).collect::<Result<_, _>>()?;
        Ok(Self { last: Word::last(pair, (0, 0))?, others })
    }

    /// Stamps the message, which nobody reads at present.
    #[inline]
    pub(super) fn set(&self, regions: &Regions, stamp: u8) -> Result<(), TransportError> {
        for word in &self.others {
            word.set(regions, stamp)?;
        }
        self.last.set(regions, stamp)
    }
}

/// The stamps of the message that is written to a side, where it polls for them.
#[derive(Debug)]
pub(super) struct Polled {
    last: Place,
    others: Box<[Place]>,
}

impl Polled {
    pub(super) fn of(pair: &Pair) -> Self {
        let target = pair.layout.target(0);
        let others = others(pair).map(|end| target.plus(end)).collect();
        Self { last: target.plus(pair.message.size() - 1), others }
    }

    /// Whether the message with this stamp is here, with all its pieces.
    #[inline]
    pub(super) fn are(&self, regions: &Regions, expected: u8) -> Result<bool, TransportError> {
        if regions.load_u8(self.last).map_err(failed)? != expected {
            return Ok(false);
        }
        for &place in &self.others {
            if regions.load_u8(place).map_err(failed)? != expected {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Where stamps are beside the last byte: at the end of each piece before, where one may be lost.
fn others(pair: &Pair) -> impl Iterator<Item = usize> {
    let message = pair.message;
    let before = match pair.plan.verbs.service.is_lossy() {
        true => message.pieces() - 1,
        false => 0,
    };
    (0..before).map(move |index| end(&message, index))
}

/// Offset of the last byte of a piece.
fn end(message: &Message, index: u32) -> usize {
    let (begin, length) = message.part(index);
    begin + length as usize - 1
}

impl Pair {
    /// Whether messages are stamped.
    pub(super) fn is_stamped(&self) -> bool {
        self.plan.is_stamped(&self.message)
    }

    /// Whether the message at `place` is what was sent, but for its stamps; `None` if it is nothing
    /// but these.
    ///
    /// # Errors
    /// The memory cannot be read.
    #[cold]
    pub(super) fn holds_message(&self, place: Place) -> Result<Option<bool>, TransportError> {
        let mut stamps: Vec<usize> = Vec::new();
        if self.is_stamped() {
            stamps.extend(others(self).chain([self.message.size() - 1]));
        }
        let (mut same, mut from, mut compared) = (true, 0, 0);
        for end in stamps.into_iter().chain([self.message.size()]) {
            let length = end.saturating_sub(from);
            same &= self.holds_payload_from(from, place.plus(from), length)?;
            (from, compared) = (end + 1, compared + length);
        }
        Ok((compared > 0).then_some(same))
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
