//! Messages taken from the server: by calls of Fetch, each of which streams several.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use fabricbench_grpc::{Client, Error, FetchStream};

use super::failed;
use crate::{
    plan::Payload,
    transport::{Received, TransportError, requests::Requests},
};

/// A fetch over the connections of a thread.
pub(super) struct Fetch {
    requests: Requests,
    // Those that are answered, in the order in which they were made.
    calls: Vec<Call>,
    // Which connection has the next call.
    turn: usize,
    arrivals: Arrivals,
}

/// One call.
struct Call {
    stage: Stage,
    // Messages that it is still to bring.
    left: u64,
}

enum Stage {
    /// Nothing has come back.
    Begun(Pin<Box<dyn Future<Output = Result<FetchStream, Error>> + Send>>),
    Answered(Box<FetchStream>),
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetch")
            .field("calls", &self.calls.len())
            .field("arrivals", &self.arrivals)
            .finish_non_exhaustive()
    }
}

impl Fetch {
    /// `depth` is that of each connection.
    pub(super) fn new(depth: u32, size: u64, payload: Payload) -> Self {
        let arrivals = Arrivals { size, payload, received: Received::default() };
        Self { requests: Requests::new(depth), calls: Vec::new(), turn: 0, arrivals }
    }

    /// One more message is wanted. Returns whether a call was made, which is then to be
    /// [sent](Self::send).
    pub(super) fn want(&mut self, clients: &[Client]) -> bool {
        let asked = self.requests.want();
        self.call(clients, asked)
    }

    /// As [`want`](Self::want): what is wanted is waited for now.
    pub(super) fn wait(&mut self, clients: &[Client]) -> bool {
        let asked = self.requests.wait();
        self.call(clients, asked)
    }

    fn call(&mut self, clients: &[Client], asked: Option<u64>) -> bool {
        let (Some(messages), Some(client)) = (asked, clients.get(self.turn)) else { return false };
        self.turn = (self.turn + 1) % clients.len();
        let stage = Stage::Begun(Box::pin(client.fetch(messages, self.arrivals.size)));
        self.calls.push(Call { stage, left: messages });
        true
    }

    /// Sends the call made last, before anything is received: while there is something to receive,
    /// the runtime's tasks have no turn, and the server would learn of the call when all else is
    /// here.
    pub(super) async fn send(&mut self) -> Result<(), TransportError> {
        if let Some(call) = self.calls.last_mut() {
            poll_fn(|cx| Poll::Ready(call.poll_begun(cx))).await?;
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Takes what has arrived, `most` messages at the most, and says how many; pending while there
    /// is none. All calls are read: one that is not would take the window of the others.
    pub(super) fn poll_arrivals(
        &mut self,
        most: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Result<u64, TransportError>> {
        let taken = self.take(most, cx)?;
        self.requests.arrived(taken);
        if taken == 0 { Poll::Pending } else { Poll::Ready(Ok(taken)) }
    }

    /// Ready when every call has ended, to be called when all messages are here: what ends a call
    /// may come behind its last message.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.take(1, cx)?;
        if self.calls.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn take(&mut self, most: u64, cx: &mut Context<'_>) -> Result<u64, TransportError> {
        let (mut taken, mut index) = (0, 0);
        while let Some(call) = self.calls.get_mut(index) {
            if taken == most {
                break;
            }
            match call.poll(cx)? {
                Poll::Pending => index += 1,
                Poll::Ready(Some(message)) => {
                    self.arrivals.count(&message)?;
                    taken += 1;
                }
                Poll::Ready(None) => {
                    self.calls.remove(index);
                }
            }
        }
        Ok(taken)
    }

    /// What has arrived.
    pub(super) fn received(&self) -> Received {
        self.arrivals.received
    }
}

impl Call {
    /// The server's answer, if it is here.
    fn poll_begun(&mut self, cx: &mut Context<'_>) -> Result<(), TransportError> {
        if let Stage::Begun(answer) = &mut self.stage
            && let Poll::Ready(stream) = answer.as_mut().poll(cx).map_err(failed)?
        {
            self.stage = Stage::Answered(Box::new(stream));
        }
        Ok(())
    }

    /// The next message; `None` at the end, which comes after as many as were asked for.
    fn poll(&mut self, cx: &mut Context<'_>) -> Result<Poll<Option<Bytes>>, TransportError> {
        let wrong =
            |what: &str| Err(TransportError::Failed(format!("the server {what} in a fetch")));
        self.poll_begun(cx)?;
        let Stage::Answered(stream) = &mut self.stage else { return Ok(Poll::Pending) };
        let next = stream.poll_next(cx).map_err(failed)?;
        match (&next, self.left) {
            (Poll::Ready(Some(_)), 0) => return wrong("sent more than was asked for"),
            (Poll::Ready(Some(_)), _) => self.left -= 1,
            (Poll::Ready(None), 1..) => return wrong("sent less than was asked for"),
            _ => {}
        }
        Ok(next)
    }
}

/// Counts what arrives.
#[derive(Debug)]
struct Arrivals {
    size: u64,
    payload: Payload,
    received: Received,
}

impl Arrivals {
    /// The content of the first message is verified: it comes in warm-up, where that disturbs
    /// nothing.
    fn count(&mut self, message: &[u8]) -> Result<(), TransportError> {
        if message.len() as u64 != self.size {
            return Err(TransportError::Failed(format!(
                "a message of {} B arrived where {} B were asked for",
                message.len(),
                self.size
            )));
        }
        if self.received.messages == 0 {
            self.received.verified = 1;
            self.received.corrupt = u64::from(!self.payload.matches(message));
        }
        self.received.messages += 1;
        self.received.bytes += self.size;
        Ok(())
    }
}
