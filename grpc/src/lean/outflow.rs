//! Messages on their way into a stream, as fast as its flow control takes them.

use std::task::{Context, Poll, ready};

use h2::SendStream;

use super::Failure;
use super::framing::{Gathering, Pieces};
use crate::message::Message;

/// The sending half of a stream.
#[derive(Debug)]
pub(super) struct Outflow {
    stream: SendStream<Pieces>,
    gathering: Gathering,
}

impl Outflow {
    pub(super) fn new(stream: SendStream<Pieces>) -> Outflow {
        Outflow { stream, gathering: Gathering::default() }
    }

    /// Takes from `next` what it has and HTTP/2 has room for, and hands it on. Ready at the end of
    /// `next` when all is handed over, and with an error if the peer takes no more.
    ///
    /// What `next` has at once goes into one frame.
    pub(super) fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        mut next: impl FnMut(&mut Context<'_>) -> Poll<Option<Message>>,
    ) -> Poll<Result<(), Failure>> {
        loop {
            let mut ended = false;
            while !self.gathering.is_full() {
                match next(cx) {
                    Poll::Ready(Some(message)) => self.gathering.push(message),
                    Poll::Ready(None) => {
                        ended = true;
                        break;
                    }
                    Poll::Pending => break,
                }
            }
            if !self.gathering.is_empty() {
                ready!(self.poll_room(cx))?;
                self.stream.send_data(self.gathering.take(), false)?;
            } else if !ended {
                return Poll::Pending;
            }
            if ended {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Ends the stream.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        Ok(self.stream.send_data(self.gathering.take(), true)?)
    }

    /// The stream, with all that was taken handed over.
    pub(super) fn into_stream(mut self) -> Result<SendStream<Pieces>, Failure> {
        if !self.gathering.is_empty() {
            self.stream.send_data(self.gathering.take(), false)?;
        }
        Ok(self.stream)
    }

    /// Ready when HTTP/2 has room for any of what was gathered: it sends of a frame what the peer's
    /// windows admit, and keeps the rest.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.stream.reserve_capacity(self.gathering.bytes());
        while self.stream.capacity() == 0 {
            match ready!(self.stream.poll_capacity(cx)) {
                Some(room) => room?,
                // Why, the other half of the stream will tell, if anybody does.
                None => {
                    return Poll::Ready(Err(Failure::Malformed(
                        "the peer takes no more messages".to_owned(),
                    )));
                }
            };
        }
        Poll::Ready(Ok(()))
    }
}
