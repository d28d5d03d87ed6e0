//! What the two sides of a push say to one another on the data path, beside the messages: sends with
//! an immediate that tells them apart.

use fabricbench_verbs::{Operation, SendRequest};

use super::{
    Pair, failed,
    layout::CONTROL_BYTES,
    pair::{COUNT, DATA},
};
use crate::transport::TransportError;

/// A message beside the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    /// Push as well, until asked to confirm.
    Begin,
    /// So many messages have been sent: confirm when they are here.
    Confirm {
        /// Comes back in the answer.
        nonce: u64,
        /// Messages sent so far.
        messages: u64,
    },
    /// The answer.
    Confirmed {
        /// Of the question.
        nonce: u64,
        /// Messages received so far.
        messages: u64,
        /// Payload bytes of these.
        bytes: u64,
        /// Messages sent so far, and done.
        sent: u64,
    },
    /// Nothing: sent for its completion.
    Flush,
}

const BEGIN: u32 = 1;
const CONFIRM: u32 = 2;
const CONFIRMED: u32 = 3;
const FLUSH: u32 = 4;
const _: () = assert!(DATA == 0);

impl Control {
    fn immediate(self) -> u32 {
        match self {
            Self::Begin => BEGIN,
            Self::Confirm { .. } => CONFIRM,
            Self::Confirmed { .. } => CONFIRMED,
            Self::Flush => FLUSH,
        }
    }

    fn words(self) -> [u64; 4] {
        match self {
            Self::Begin | Self::Flush => [0; 4],
            Self::Confirm { nonce, messages } => [nonce, messages, 0, 0],
            Self::Confirmed { nonce, messages, bytes, sent } => [nonce, messages, bytes, sent],
        }
    }

    fn of(immediate: u32, [nonce, messages, bytes, sent]: [u64; 4]) -> Option<Self> {
        match immediate {
            BEGIN => Some(Self::Begin),
            CONFIRM => Some(Self::Confirm { nonce, messages }),
            CONFIRMED => Some(Self::Confirmed { nonce, messages, bytes, sent }),
            FLUSH => Some(Self::Flush),
            _ => None,
        }
    }

    /// Sends it on `lane`, signalled, with `id`.
    ///
    /// # Errors
    /// It cannot be posted.
    #[cold]
    pub(super) fn post(self, pair: &Pair, lane: usize, id: u64) -> Result<(), TransportError> {
        let mut bytes = [0; CONTROL_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let length = match self {
            Self::Begin | Self::Flush => 0,
            Self::Confirm { .. } | Self::Confirmed { .. } => CONTROL_BYTES,
        };
        // The one before was answered, or is an answer that has been asked for again: nobody reads
        // these bytes any more.
        pair.regions.copy_in(pair.layout.control(), &bytes).map_err(failed)?;
        let local = pair.local(lane, pair.layout.control(), u32::try_from(length).unwrap_or(0));
        let request = pair.request(lane, Operation::SendImm(self.immediate()), local);
        pair.post_in_place(lane, &SendRequest { id, ..request }, &[])
    }

    /// What came with `immediate` into the receive of this number; `None` for what has no meaning.
    ///
    /// # Errors
    /// The region cannot be read.
    #[cold]
    pub(super) fn read(
        pair: &Pair,
        lane: usize,
        number: u64,
        immediate: u32,
    ) -> Result<Option<Self>, TransportError> {
        let mut bytes = [0; CONTROL_BYTES];
        let at = pair.layout.received(lane, number & COUNT);
        pair.regions.copy_out(at, &mut bytes).map_err(failed)?;
        let mut words = [0; 4];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = place.try_into().map(u64::from_be_bytes).unwrap_or(0);
        }
        Ok(Self::of(immediate, words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reads_back_as_it_was_and_none_passes_for_a_message() {
        for control in [
            Control::Begin,
            Control::Confirm { nonce: 3, messages: u64::MAX },
            Control::Confirmed { nonce: 3, messages: 1 << 40, bytes: 7, sent: 9 },
            Control::Flush,
        ] {
            assert_ne!(control.immediate(), DATA);
            assert_eq!(Control::of(control.immediate(), control.words()), Some(control));
        }
        assert_eq!(Control::of(DATA, [0; 4]), None);
    }
}
