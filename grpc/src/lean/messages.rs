//! The messages of one half of a stream.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;

use super::Failure;
use super::framing::Assembly;

/// What a peer sends over a stream, as messages.
#[derive(Debug)]
pub(super) struct Messages {
    body: RecvStream,
    assembly: Assembly,
}

impl Messages {
    /// Refuses messages of more than `limit` bytes.
    pub(super) fn new(body: RecvStream, limit: usize) -> Messages {
        Messages { body, assembly: Assembly::new(limit) }
    }

    /// The next message; `None` after the last.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        loop {
            if let Some(message) = self.assembly.next()? {
                return Poll::Ready(Ok(Some(message)));
            }
            match ready!(self.body.poll_data(cx)).transpose()? {
                Some(chunk) => {
                    // At once: what waits here is one frame at the most, and the sender need not
                    // wait until its messages are looked at.
                    self.body.flow_control().release_capacity(chunk.len())?;
                    self.assembly.put(chunk);
                }
                None if self.assembly.is_between_messages() => return Poll::Ready(Ok(None)),
                None => {
                    return Poll::Ready(Err(Failure::Malformed(
                        "the stream ends within a message".to_owned(),
                    )));
                }
            }
        }
    }

    /// The only message of this half of a stream.
    pub(super) async fn only(&mut self) -> Result<Bytes, Failure> {
        let Some(message) = poll_fn(|cx| self.poll_next(cx)).await? else {
            return Err(Failure::Malformed("no message where one was expected".to_owned()));
        };
        let more = Failure::Malformed("several messages where one was expected".to_owned());
        if !self.assembly.is_between_messages() {
            return Err(more);
        }
        match self.body.is_end_stream() || poll_fn(|cx| self.poll_next(cx)).await?.is_none() {
            true => Ok(message),
            false => Err(more),
        }
    }

    /// What follows the last message.
    pub(super) fn poll_trailers(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<HeaderMap>, Failure>> {
        self.body.poll_trailers(cx).map_err(Failure::from)
    }
}
