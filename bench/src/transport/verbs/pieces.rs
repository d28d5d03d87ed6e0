//! Messages that travel in several pieces (`--split`): how they are cut, and how the pieces that arrive
//! become a message again.
//!
//! A reliable connection delivers pieces in order and all of them, so that counting them is enough.
//! Elsewhere any may be lost, and then the message is: there each piece says in its immediate which it
//! is of which message.

use fabricbench_verbs::Completion;

use super::{Pair, layout::Place};
use crate::transport::TransportError;

/// A message as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    size: usize,
    piece: u32,
}

impl Message {
    /// A message of `size` bytes, at least 1, in pieces of `piece` bytes, of which the last may be
    /// shorter; whole if it is no longer.
    pub(super) fn new(size: usize, piece: u32) -> Self {
        let piece = u32::try_from(size).map_or(piece, |size| piece.min(size));
        Self { size, piece: piece.max(1) }
    }

    /// Bytes of all of it.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Bytes of each piece but the last.
    pub(super) fn piece(&self) -> u32 {
        self.piece
    }

    /// Pieces.
    pub(super) fn pieces(&self) -> u32 {
        u32::try_from(self.size.div_ceil(self.piece as usize)).unwrap_or(u32::MAX)
    }

    pub(super) fn is_split(&self) -> bool {
        self.size > self.piece as usize
    }

    /// Where the piece with this number, from 0, begins in the message, and its bytes.
    pub(super) fn part(&self, index: u32) -> (usize, u32) {
        let begin = index as usize * self.piece as usize;
        let left = self.size.saturating_sub(begin);
        (begin, u32::try_from(left).map_or(self.piece, |left| left.min(self.piece)))
    }
}

/// The bit of an immediate that says that the others are a piece's number.
const PIECE: u32 = 1 << 31;

/// Whether what came with `immediate` is a piece.
#[inline]
pub(super) fn is_piece(immediate: u32) -> bool {
    immediate & PIECE != 0
}

/// Immediates that number the pieces of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbering {
    pieces: u32,
    // After so many messages their numbers begin anew.
    messages: u32,
}

impl Numbering {
    pub(super) fn of(message: &Message) -> Self {
        let pieces = message.pieces();
        Self { pieces, messages: (PIECE / pieces).max(1) }
    }

    /// The number of a message as its pieces carry it.
    #[inline]
    pub(super) fn carried(&self, sequence: u64) -> u32 {
        // Less than `messages`, which has 32 bits.
        u32::try_from(sequence % u64::from(self.messages)).unwrap_or(0)
    }

    /// The immediate of a piece of the message with this number.
    #[inline]
    pub(super) fn immediate(&self, sequence: u64, index: u32) -> u32 {
        PIECE | (self.carried(sequence) * self.pieces + index)
    }

    /// Message and piece.
    fn read(&self, immediate: u32) -> (u32, u32) {
        let number = immediate & !PIECE;
        (number / self.pieces, number % self.pieces)
    }
}

/// A message all of whose pieces are here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    /// Its number, where pieces carry one; see [`Numbering::carried`].
    pub(super) number: u32,
    /// Whether it holds the payload, if it is the first.
    pub(super) same: Option<bool>,
}

/// The message of a lane whose pieces are arriving.
#[derive(Debug)]
pub(super) struct Assembly {
    pieces: u32,
    numbering: Option<Numbering>,
    number: u32,
    // So many are here, from the first on and without a gap.
    here: u32,
    // Whether they hold the payload, for as long as this is looked at: until one message was whole.
    same: Option<bool>,
}

impl Assembly {
    /// `None` where each receive brings a message.
    pub(super) fn of(pair: &Pair) -> Option<Self> {
        pair.plan.receives_pieces(&pair.message).then(|| {
            let numbering = pair.plan.verbs.service.is_lossy();
            let numbering = numbering.then(|| Numbering::of(&pair.message));
            Self::new(pair.message.pieces(), numbering)
        })
    }

    fn new(pieces: u32, numbering: Option<Numbering>) -> Self {
        Self { pieces, numbering, number: 0, here: 0, same: Some(true) }
    }

    /// Takes the piece that came into the receive with this number, which nobody has posted anew;
    /// `None` if its message is not whole yet, or has lost a piece.
    ///
    /// # Errors
    /// The memory cannot be read.
    pub(super) fn take(
        &mut self,
        pair: &Pair,
        completion: &Completion,
        (lane, posted): (usize, usize),
        number: u64,
    ) -> Result<Option<Whole>, TransportError> {
        let Some(index) = self.place(completion.immediate()) else { return Ok(None) };
        if let Some(same) = self.same {
            let place = pair.piece_at((lane, posted), number, index);
            self.same = Some(same && holds(pair, place, index)?);
        }
        Ok(self.whole())
    }

    /// Which piece of the message under way this is; `None` if one before it is missing.
    fn place(&mut self, immediate: Option<u32>) -> Option<u32> {
        let (number, index) = match self.numbering {
            Some(numbering) => numbering.read(immediate?),
            None => (self.number, self.here),
        };
        if index == 0 {
            // Of this message, if it comes again, or of the next.
            (self.number, self.here) = (number, 0);
            self.same = self.same.map(|_| true);
        }
        (number == self.number && index == self.here).then(|| {
            self.here += 1;
            index
        })
    }

    fn whole(&mut self) -> Option<Whole> {
        (self.here == self.pieces).then(|| {
            self.here = 0;
            Whole { number: self.number, same: self.same.take() }
        })
    }
}

/// Whether the bytes at `place` are the piece with this number.
#[cold]
fn holds(pair: &Pair, place: Place, index: u32) -> Result<bool, TransportError> {
    let (begin, length) = pair.message.part(index);
    pair.holds_payload_from(begin, place, length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_without_gap_or_overlap() {
        for (size, piece, pieces) in [(16 << 20, 8 << 20, 2), (10, 4, 3), (5, 1, 5), (9, 8, 2)] {
            let message = Message::new(size, piece);
            assert!(message.is_split());
            assert_eq!(message.pieces(), pieces);
            let mut end = 0;
            for index in 0..pieces {
                let (begin, length) = message.part(index);
                assert_eq!(begin, end);
                assert!(length > 0 && length <= piece);
                end = begin + length as usize;
            }
            assert_eq!(end, size);
        }
        for (size, piece) in [(4, 4), (3, 4), (1, u32::MAX)] {
            let whole = Message::new(size, piece);
            assert!(!whole.is_split());
            assert_eq!((whole.pieces(), whole.part(0)), (1, (0, whole.piece())));
            assert_eq!(whole.piece() as usize, size);
        }
    }

    #[test]
    fn a_number_tells_message_and_piece_until_numbers_begin_anew() {
        let numbering = Numbering::of(&Message::new(10, 4));
        for sequence in [0, 1, 7, u64::from(numbering.messages) - 1] {
            for index in 0..3 {
                let immediate = numbering.immediate(sequence, index);
                assert!(is_piece(immediate));
                assert_eq!(numbering.read(immediate), (numbering.carried(sequence), index));
            }
        }
        assert_eq!(numbering.carried(u64::from(numbering.messages)), 0);
        assert!(!is_piece(0) && !is_piece(4), "messages that are whole, and control messages");
    }

    /// What is whole after each of these pieces, told as (message, piece).
    fn whole(assembly: &mut Assembly, pieces: &[(u64, u32)]) -> Vec<Option<u32>> {
        let numbering = assembly.numbering.unwrap();
        let take = |&(sequence, index): &(u64, u32)| {
            assembly.place(Some(numbering.immediate(sequence, index)))?;
            assembly.whole().map(|whole| whole.number)
        };
        pieces.iter().map(take).collect()
    }

    #[test]
    fn a_message_that_lost_a_piece_is_lost_whichever_it_was() {
        let mut assembly = Assembly::new(3, Some(Numbering::of(&Message::new(10, 4))));
        let mut whole = |pieces: &[(u64, u32)]| whole(&mut assembly, pieces);
        assert_eq!(whole(&[(0, 0), (0, 1), (0, 2)]), [None, None, Some(0)]);
        for lost in 0..3 {
            let left: Vec<_> =
                (0..3).filter(|&index| index != lost).map(|index| (1, index)).collect();
            assert_eq!(whole(&left), [None, None], "{lost}");
        }
        // The end of one and the beginning of another are no message.
        assert_eq!(whole(&[(2, 0), (3, 1), (3, 2)]), [None, None, None]);
        assert_eq!(whole(&[(4, 0), (4, 1), (4, 2)]), [None, None, Some(4)]);
        // Sent again as a whole, it is whole though a piece of the first time is missing.
        assert_eq!(whole(&[(5, 0), (5, 2)]), [None, None]);
        assert_eq!(whole(&[(5, 0), (5, 1), (5, 2)]), [None, None, Some(5)]);
    }

    #[test]
    fn pieces_that_cannot_be_lost_are_counted_and_the_first_message_is_looked_at() {
        let mut assembly = Assembly::new(2, None);
        let mut take = || {
            assembly.place(None)?;
            assembly.whole()
        };
        assert_eq!(take(), None);
        assert_eq!(take(), Some(Whole { number: 0, same: Some(true) }));
        assert_eq!(take(), None);
        assert_eq!(take(), Some(Whole { number: 0, same: None }));
    }
}
