//! Streams of messages from the client: a push, and the client's half of an exchange.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};

use super::tonic_channel::from_status;
use super::{Client, Stack};
use crate::error::{Error, Result};
use crate::lean;
use crate::message::Message;
use crate::observer::{Counts, PayloadCheck};
use crate::queue;
use crate::service::{EXCHANGE, PUSH, PushSummary};
use crate::tuning::Tuning;

impl Client {
    /// Starts a push: a stream of messages that the server confirms at its end.
    pub fn push(&self) -> PushStream {
        PushStream(self.upload(PUSH, async |stack, queued| match stack {
            Stack::Tonic(channel) => channel.push(queued).await,
            Stack::Lean(connection) => lean::push(connection, queued).await,
        }))
    }

    /// Starts an exchange: a push during which the server pushes as well, messages of the size of
    /// our first one, from the time it has that until it has our last one. `check` looks at every
    /// message from the server.
    pub fn exchange(&self, check: impl PayloadCheck + 'static) -> ExchangeStream {
        let peer = self.peer;
        let upload = self.upload(EXCHANGE, async move |stack, queued| match stack {
            Stack::Tonic(channel) => {
                let messages = channel.exchange(queued).await?;
                let received = receive(messages, &check).await;
                received.map_err(|status| from_status(status, peer, EXCHANGE))
            }
            Stack::Lean(connection) => lean::exchange(connection, queued, &check).await,
        });
        ExchangeStream { upload, sent: 0 }
    }

    /// Runs `call` with what is sent over the stream that is returned.
    fn upload<T, F>(
        &self,
        method: &'static str,
        call: impl FnOnce(Stack, queue::Receiver) -> F + Send + 'static,
    ) -> Upload<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (sender, receiver) = queue::channel();
        let call = tokio::spawn(call(self.stack.clone(), receiver));
        let (tuning, peer) = (self.tuning.clone(), self.peer);
        Upload { sender: Some(sender), call: Some(call), tuning, peer, method }
    }
}

/// Messages of one direction of an exchange after which the other has a turn. Both are driven by
/// one thread, and a small message is quickly sent and quickly received.
const TURN: u64 = 1024;

/// What the server's half of an exchange brought: what was counted, and its last message, which is
/// the summary. Which one is the last shows at the end.
async fn receive(
    mut messages: Streaming<Bytes>,
    check: &impl PayloadCheck,
) -> std::result::Result<(Counts, Bytes), Status> {
    let (mut counts, mut corrupt) = (Counts::default(), 0);
    let mut last: Option<Bytes> = None;
    while let Some(message) = messages.message().await? {
        if let Some(before) = last.replace(message) {
            counts.messages += 1;
            counts.bytes += before.len() as u64;
            corrupt += u64::from(!check.accepts(&before));
            // While there is something to receive, nothing is sent.
            if counts.messages.is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
        }
    }
    counts.corrupt = Some(corrupt);
    Ok((counts, last.unwrap_or_default()))
}

/// A push under way. Dropped without [`finish`](PushStream::finish), it is cancelled.
#[derive(Debug)]
pub struct PushStream(Upload<Bytes>);

impl PushStream {
    /// Hands `message` over, waiting for room.
    ///
    /// When it resolves, the message stands in this stream's queue, which holds 1 MiB and 4096
    /// messages, or one message if that is larger. From there it is encoded, HTTP/2 buffers what
    /// it has begun, within the server's window (with tonic up to 1 MiB before, hyper's send
    /// buffer), and then come the sockets' buffers. So nothing is said of its arrival: only
    /// [`finish`](PushStream::finish) does.
    ///
    /// If the future is dropped before it resolves, the message is not sent.
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`]; and as soon as the call has ended, [`Error::ConnectionLost`],
    /// [`Error::Refused`] or [`Error::Protocol`].
    pub async fn send(&mut self, message: impl Into<Message>) -> Result<()> {
        self.0.send(message.into()).await
    }

    /// Ends the stream and waits for the server to confirm what it has received.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`], [`Error::Refused`], [`Error::Protocol`].
    pub async fn finish(mut self) -> Result<PushSummary> {
        let reply = self.0.finish().await?;
        self.0.summary(reply)
    }
}

/// What an exchange came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// What the server says it has received.
    pub sent: PushSummary,
    /// What was received from the server.
    pub received: Counts,
}

/// An exchange under way. Dropped without [`finish`](ExchangeStream::finish), it is cancelled.
#[derive(Debug)]
pub struct ExchangeStream {
    upload: Upload<(Counts, Bytes)>,
    sent: u64,
}

impl ExchangeStream {
    /// Hands `message` over, waiting for room, as [`PushStream::send`]; the server's messages are
    /// received meanwhile.
    ///
    /// # Errors
    /// As [`PushStream::send`].
    pub async fn send(&mut self, message: impl Into<Message>) -> Result<()> {
        self.upload.send(message.into()).await?;
        self.sent += 1;
        if self.sent.is_multiple_of(TURN) {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Ends our half, and waits until the server has received it and all of its half is here.
    ///
    /// # Errors
    /// As [`PushStream::finish`].
    pub async fn finish(mut self) -> Result<Exchanged> {
        let (received, last) = self.upload.finish().await?;
        Ok(Exchanged { sent: self.upload.summary(last)?, received })
    }
}

/// A call whose request is a stream.
#[derive(Debug)]
struct Upload<T> {
    sender: Option<queue::Sender>,
    /// `None` once its outcome has been told: a `JoinHandle` must not be polled again then.
    call: Option<JoinHandle<Result<T>>>,
    tuning: Tuning,
    peer: SocketAddr,
    method: &'static str,
}

impl<T> Upload<T> {
    async fn send(&mut self, message: Message) -> Result<()> {
        self.tuning.admit(message.len() as u64)?;
        let sent = match &mut self.sender {
            Some(sender) => sender.send(message).await,
            None => Err(queue::Gone),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(queue::Gone) => {
                self.sender = None;
                Err(match self.outcome().await {
                    Ok(_) => self.broken("the server replied before the last message"),
                    Err(error) => error,
                })
            }
        }
    }

    async fn finish(&mut self) -> Result<T> {
        self.sender = None;
        self.outcome().await
    }

    async fn outcome(&mut self) -> Result<T> {
        let Some(call) = &mut self.call else {
            return Err(self.ended("the call has ended already, with an error told before"));
        };
        let joined = call.await;
        self.call = None;
        match joined {
            Ok(outcome) => outcome,
            Err(error) => Err(self.ended(&error.to_string())),
        }
    }

    fn summary(&self, reply: Bytes) -> Result<PushSummary> {
        PushSummary::decode(reply).ok_or_else(|| self.broken("it ends with no summary of the push"))
    }

    fn broken(&self, detail: &str) -> Error {
        Error::Protocol { peer: self.peer, method: self.method, detail: detail.to_owned() }
    }

    fn ended(&self, detail: &str) -> Error {
        Error::ConnectionLost { peer: self.peer, method: self.method, detail: detail.to_owned() }
    }
}

impl<T> Drop for Upload<T> {
    fn drop(&mut self) {
        if let Some(call) = &self.call {
            call.abort();
        }
    }
}
