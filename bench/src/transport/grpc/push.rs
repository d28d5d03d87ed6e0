//! Pushes and exchanges over the connections of a thread.

use std::{
    future::{Future as _, poll_fn},
    pin::pin,
    task::Poll,
};

use fabricbench_grpc::{Client, Error, ExchangeStream, Message, PushStream};

use futures_util::future::try_join_all;

use crate::transport::Received;

/// A push over each connection. A message goes over one of them, whichever has room, so that a slow
/// one holds up no other.
#[derive(Debug)]
pub(super) struct Pushes {
    streams: Vec<PushStream>,
    // Which is tried first.
    turn: usize,
}

impl Pushes {
    /// Begins; within a runtime.
    pub(super) fn begin(clients: &[Client]) -> Self {
        Self { streams: clients.iter().map(Client::push).collect(), turn: 0 }
    }

    /// Ready at once while a stream has room; else this is where HTTP/2's flow control holds the
    /// sender back.
    pub(super) async fn send(&mut self, message: &Message) -> Result<(), Error> {
        if let [only] = self.streams.as_mut_slice() {
            return only.send(message.clone()).await;
        }
        let (count, turn) = (self.streams.len(), self.turn);
        let sent_by = poll_fn(|cx| {
            for at in (turn..count).chain(0..turn) {
                // One that is not ready has sent nothing, and wakes us when it has room.
                let Some(stream) = self.streams.get_mut(at) else { continue };
                let sending = pin!(stream.send(message.clone()));
                if let Poll::Ready(sent) = sending.poll(cx) {
                    return Poll::Ready(sent.map(|()| at));
                }
            }
            Poll::Pending
        });
        self.turn = (sent_by.await? + 1) % count;
        Ok(())
    }

    /// What the server confirms of all of them.
    pub(super) async fn finish(self) -> Result<Received, Error> {
        let mut all = Received::default();
        // All end at once: one after the other would take a round trip each, within the clock.
        for summary in try_join_all(self.streams.into_iter().map(PushStream::finish)).await? {
            all.messages += summary.messages;
            all.bytes += summary.bytes;
        }
        Ok(all)
    }
}

/// An exchange over each connection, which have their messages in turns.
#[derive(Debug)]
pub(super) struct Exchanges {
    streams: Vec<ExchangeStream>,
    turn: usize,
}

impl Exchanges {
    /// Those that `begin` begins; within a runtime.
    pub(super) fn begin(clients: &[Client], begin: impl Fn(&Client) -> ExchangeStream) -> Self {
        Self { streams: clients.iter().map(begin).collect(), turn: 0 }
    }

    pub(super) async fn send(&mut self, message: Message) -> Result<(), Error> {
        let turn = self.turn;
        // Without a connection there is nobody to send to.
        let count = self.streams.len();
        let Some(stream) = self.streams.get_mut(turn) else { return Ok(()) };
        self.turn = (turn + 1) % count;
        stream.send(message).await
    }

    /// What the server confirms of all of them, and the messages that it sent, with their bytes.
    pub(super) async fn finish(self) -> Result<(Received, u64), Error> {
        let (mut all, mut bytes) = (Received::default(), 0);
        // All end at once: a server pushes until its client has ended.
        for exchanged in try_join_all(self.streams.into_iter().map(ExchangeStream::finish)).await? {
            all.messages += exchanged.sent.messages;
            all.bytes += exchanged.sent.bytes;
            all.returned += exchanged.received.messages;
            bytes += exchanged.received.bytes;
        }
        Ok((all, bytes))
    }
}
