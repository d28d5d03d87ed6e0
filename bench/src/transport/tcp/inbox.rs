//! What comes in over one connection of a push, taken apart.
//!
//! A message has [`DATA`] in front. [`CONFIRM`] asks for the receiver's counts, or has them behind
//! it, where it is the answer.

use crate::{
    plan::Payload,
    transport::{Received, TransportError, buffer::zeroed},
};

/// The byte before a message.
pub(super) const DATA: u8 = 0;
/// The byte that ends the messages before it.
pub(super) const CONFIRM: u8 = 1;

/// Bytes in an answer to [`CONFIRM`], which is in front of it as well: messages and bytes received,
/// 64 bits each, big-endian.
pub(super) const COUNTS: usize = 16;

/// The counts as they are sent.
pub(super) fn answer(received: &Received) -> [u8; 1 + COUNTS] {
    let counts = u128::from(received.messages) << 64 | u128::from(received.bytes);
    let mut answer = [CONFIRM; 1 + COUNTS];
    let [_, rest @ ..] = &mut answer;
    *rest = counts.to_be_bytes();
    answer
}

/// The messages and bytes of an answer.
///
/// # Errors
/// It is none.
pub(super) fn counts(answer: &[u8; 1 + COUNTS]) -> Result<Received, TransportError> {
    let [kind, counts @ ..] = answer;
    if *kind != CONFIRM {
        return Err(no_message(*kind));
    }
    let counts = u128::from_be_bytes(*counts);
    let (messages, bytes) = ((counts >> 64) as u64, counts as u64);
    Ok(Received { messages, bytes, ..Received::default() })
}

fn no_message(byte: u8) -> TransportError {
    TransportError::Failed(format!("byte {byte} where a message should begin"))
}

/// What the other side has said, beside messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It wants the counts.
    Confirm,
    /// These are the counts.
    Counts(Received),
}

/// Counts messages, and verifies the first one: it comes in warm-up, where it disturbs nothing.
#[derive(Debug)]
pub(super) struct Inbox {
    size: u64,
    payload: Payload,
    // Room for the first message.
    first: Vec<u8>,
    // Bytes still to come of the message that has begun.
    rest: u64,
    // Of an answer, where one is expected behind CONFIRM: what is here.
    answer: Option<([u8; 1 + COUNTS], usize)>,
    asks: bool,
    received: Received,
}

impl Inbox {
    /// For messages of `size` bytes; `asks` says that this is the side whose CONFIRM is answered.
    ///
    /// # Errors
    /// No memory for a message.
    pub(super) fn new(size: u64, payload: Payload, asks: bool) -> Result<Self, TransportError> {
        let (first, received) = (zeroed(size)?, Received::default());
        Ok(Self { size, payload, first, rest: 0, answer: None, asks, received })
    }

    /// What has been received in full.
    pub(super) fn received(&self) -> Received {
        self.received
    }

    /// Whether the connection may end here.
    pub(super) fn is_between_messages(&self) -> bool {
        self.rest == 0 && self.answer.is_none()
    }

    /// Takes bytes from the front of `unread`, to its end or until something is said.
    ///
    /// # Errors
    /// They are no messages.
    pub(super) fn take(&mut self, unread: &mut &[u8]) -> Result<Option<Said>, TransportError> {
        while let Some((&kind, after)) = unread.split_first() {
            if let Some((answer, here)) = &mut self.answer {
                let missing = answer.get_mut(*here..).unwrap_or_default();
                let part;
                (part, *unread) = unread.split_at(missing.len().min(unread.len()));
                missing.iter_mut().zip(part).for_each(|(place, byte)| *place = *byte);
                *here += part.len();
                if *here == answer.len() {
                    let counts = counts(answer)?;
                    self.answer = None;
                    return Ok(Some(Said::Counts(counts)));
                }
            } else if self.rest > 0 {
                self.message(unread);
            } else {
                *unread = after;
                match kind {
                    DATA => self.rest = self.size,
                    CONFIRM if self.asks => self.answer = Some(([CONFIRM; 1 + COUNTS], 1)),
                    CONFIRM => return Ok(Some(Said::Confirm)),
                    other => return Err(no_message(other)),
                }
            }
        }
        Ok(None)
    }

    fn message(&mut self, unread: &mut &[u8]) {
        let part;
        let most = usize::try_from(self.rest).unwrap_or(usize::MAX);
        (part, *unread) = unread.split_at(most.min(unread.len()));
        if self.received.messages == 0 {
            let at = self.first.len() - self.rest as usize;
            let place = self.first.get_mut(at..).and_then(|rest| rest.get_mut(..part.len()));
            if let Some(place) = place {
                place.copy_from_slice(part);
            }
        }
        self.rest -= part.len() as u64;
        self.received.bytes += part.len() as u64;
        if self.rest == 0 {
            if self.received.messages == 0 {
                self.received.verified = 1;
                self.received.corrupt = u64::from(!self.payload.matches(&self.first));
            }
            self.received.messages += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &Payload, size: usize) -> Vec<u8> {
        let mut message = vec![DATA; 1 + size];
        payload.fill(&mut message[1..]);
        message
    }

    /// Whatever the pieces, the same is found in them.
    #[test]
    fn pieces_of_any_length_are_put_together() {
        let payload = Payload::new(3);
        let counts = Received { messages: 7, bytes: 70, ..Received::default() };
        let mut stream = [message(&payload, 10), message(&payload, 10)].concat();
        stream.extend(answer(&counts));
        stream.extend(message(&payload, 10));
        for piece in 1..stream.len() {
            let mut inbox = Inbox::new(10, payload.clone(), true).unwrap();
            let mut said = Vec::new();
            for mut unread in stream.chunks(piece) {
                while !unread.is_empty() {
                    said.extend(inbox.take(&mut unread).unwrap());
                }
            }
            assert_eq!(said, [Said::Counts(counts)]);
            let received = inbox.received();
            assert_eq!((received.messages, received.bytes), (3, 30));
            assert_eq!((received.verified, received.corrupt), (1, 0));
            assert!(inbox.is_between_messages());
        }
    }

    #[test]
    fn a_question_is_told_before_what_follows_it() {
        let payload = Payload::new(3);
        let mut inbox = Inbox::new(4, payload.clone(), false).unwrap();
        let stream = [message(&payload, 4), vec![CONFIRM], message(&payload, 4)].concat();
        let mut unread = &stream[..];
        assert_eq!(inbox.take(&mut unread).unwrap(), Some(Said::Confirm));
        assert_eq!((inbox.received().messages, unread.len()), (1, 5));
        unread = &unread[..3];
        assert_eq!(inbox.take(&mut unread).unwrap(), None);
        assert!(!inbox.is_between_messages());
    }

    #[test]
    fn other_bytes_and_other_content_are_told() {
        let mut inbox = Inbox::new(4, Payload::new(3), false).unwrap();
        let stream = message(&Payload::new(4), 4);
        inbox.take(&mut &stream[..]).unwrap();
        assert_eq!((inbox.received().verified, inbox.received().corrupt), (1, 1));
        let error = inbox.take(&mut &[7_u8][..]).unwrap_err().to_string();
        assert!(error.contains("byte 7"), "{error}");
    }
}
