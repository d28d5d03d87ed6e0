//! The server's half of the bidirectional stream: two tasks, so that neither direction waits for
//! the other's flow control.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::task::JoinHandle;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use crate::message::Message;
use crate::queue::{QUEUE_BYTES, QUEUE_MESSAGES};
use crate::service::{Shared, receive_all};

/// Begins to receive, and returns what is sent meanwhile.
pub(crate) fn exchange(
    shared: &Arc<Shared>,
    request: Request<Streaming<Bytes>>,
) -> Response<Replies> {
    let incoming = Arc::new(Incoming::default());
    let reading = tokio::spawn({
        let (shared, incoming) = (shared.clone(), incoming.clone());
        async move {
            let begun = |size| incoming.begin(size);
            let outcome = receive_all(&shared, request.into_inner(), begun).await;
            incoming.end(outcome.map(|summary| summary.encode().into()));
        }
    });
    let shared = shared.clone();
    Response::new(Replies { shared, incoming, reading, stage: Stage::Silent, batch: 0 })
}

/// What the receiving task tells the sending one.
#[derive(Default)]
struct Incoming {
    /// Apart from the rest: it is looked at before each message.
    ended: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes in the first message, once it is here.
    size: Option<u64>,
    /// The encoded summary, or why there is none.
    outcome: Option<Result<Message, Status>>,
    waker: Option<Waker>,
}

impl Incoming {
    fn begin(&self, size: u64) {
        let mut state = self.lock();
        state.size = Some(size);
        wake(state);
    }

    fn end(&self, outcome: Result<Message, Status>) {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        self.ended.store(true, Ordering::Release);
        wake(state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Messages of the size of the first one received, as fast as they are taken, until the client has
/// sent its last one; then the summary of what was received.
pub(crate) struct Replies {
    shared: Arc<Shared>,
    incoming: Arc<Incoming>,
    reading: JoinHandle<()>,
    stage: Stage,
    /// Messages since others had a turn.
    batch: usize,
}

impl Replies {
    /// Whether as much was handed over at once as the client's queue would: more would give this
    /// direction larger batches than the other has.
    fn has_had_its_turn(&mut self, size: usize) -> bool {
        let most = (QUEUE_BYTES / size.max(1)).clamp(1, QUEUE_MESSAGES);
        self.batch = (self.batch + 1) % (most + 1);
        self.batch == 0
    }
}

enum Stage {
    /// Nothing has been received yet.
    Silent,
    Sending(Message),
    Over,
}

impl Stream for Replies {
    type Item = Result<Message, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if matches!(self.stage, Stage::Over) {
            return Poll::Ready(None);
        }
        if self.incoming.ended.load(Ordering::Acquire) {
            self.stage = Stage::Over;
            return Poll::Ready(self.incoming.lock().outcome.take());
        }
        if let Stage::Silent = self.stage {
            let size = {
                let mut state = self.incoming.lock();
                let Some(size) = state.size else {
                    state.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                };
                size
            };
            match self.shared.payload(size) {
                Ok(payload) => self.stage = Stage::Sending(payload),
                Err(status) => {
                    self.stage = Stage::Over;
                    return Poll::Ready(Some(Err(status)));
                }
            }
        }
        let Stage::Sending(payload) = &self.stage else { return Poll::Ready(None) };
        let payload = payload.clone();
        if self.has_had_its_turn(payload.len()) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.shared.observer.fetched.add(payload.len());
        Poll::Ready(Some(Ok(payload)))
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.reading.abort();
    }
}
