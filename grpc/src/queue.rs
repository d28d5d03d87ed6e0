//! The bounded queue between [`PushStream::send`](crate::PushStream::send) and HTTP/2.
//!
//! A channel that counts messages would be either too short for small messages, which should
//! gather into one DATA frame, or too long for large ones, which should not pile up. This one
//! counts bytes. It has one sender and one receiver, and wakes either only when there is enough to
//! do.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tonic::codegen::tokio_stream::Stream;

use crate::message::Message;

/// Bytes that may wait. A message larger than this waits alone.
pub(crate) const QUEUE_BYTES: usize = 1 << 20;

/// Messages that may wait.
pub(crate) const QUEUE_MESSAGES: usize = 4096;

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    finished: bool,
    receiver_gone: bool,
    sender: Option<Waker>,
    receiver: Option<Waker>,
}

impl State {
    fn has_room(&self, size: usize) -> bool {
        self.messages.is_empty()
            || (self.messages.len() < QUEUE_MESSAGES && self.bytes + size <= QUEUE_BYTES)
    }
}

type Shared = Arc<Mutex<State>>;

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    // No code that holds the lock can panic half-way through a change.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The receiver is gone: nothing queued will be sent any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

pub(crate) fn channel() -> (Sender, Receiver) {
    let shared = Shared::default();
    (Sender { shared: shared.clone() }, Receiver { shared })
}

#[derive(Debug)]
pub(crate) struct Sender {
    shared: Shared,
}

impl Sender {
    /// Queues `message` as soon as there is room.
    pub(crate) async fn send(&mut self, message: Message) -> Result<(), Gone> {
        std::future::poll_fn(|cx| self.poll_room(message.len(), cx)).await?;
        let mut state = lock(&self.shared);
        state.bytes += message.len();
        state.messages.push_back(message);
        let receiver = state.receiver.take();
        drop(state);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        Ok(())
    }

    fn poll_room(&self, size: usize, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let mut state = lock(&self.shared);
        if state.receiver_gone {
            return Poll::Ready(Err(Gone));
        }
        if state.has_room(size) {
            return Poll::Ready(Ok(()));
        }
        state.sender = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.finished = true;
        if let Some(receiver) = state.receiver.take() {
            drop(state);
            receiver.wake();
        }
    }
}

/// Yields the messages in order and ends when the sender is dropped.
pub(crate) struct Receiver {
    shared: Shared,
}

impl Stream for Receiver {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let mut state = lock(&self.shared);
        let next = state.messages.pop_front();
        if let Some(message) = &next {
            state.bytes -= message.len();
        }
        // Not at the first free place: a sender that is woken for every message makes batches of
        // one.
        let half_empty =
            state.bytes <= QUEUE_BYTES / 2 && state.messages.len() <= QUEUE_MESSAGES / 2;
        let sender = if half_empty { state.sender.take() } else { None };
        let poll = match next {
            Some(message) => Poll::Ready(Some(message)),
            None if state.finished => Poll::Ready(None),
            None => {
                state.receiver = Some(cx.waker().clone());
                Poll::Pending
            }
        };
        drop(state);
        if let Some(sender) = sender {
            sender.wake();
        }
        poll
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.receiver_gone = true;
        state.messages.clear();
        state.bytes = 0;
        if let Some(sender) = state.sender.take() {
            drop(state);
            sender.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The two ends, each polled with a waker that counts.
    struct Ends {
        sender: Option<Sender>,
        receiver: Option<Receiver>,
        sender_wakes: Arc<Wakes>,
        receiver_wakes: Arc<Wakes>,
    }

    impl Ends {
        fn new() -> Ends {
            let (sender, receiver) = channel();
            Ends {
                sender: Some(sender),
                receiver: Some(receiver),
                sender_wakes: Arc::default(),
                receiver_wakes: Arc::default(),
            }
        }

        fn send(&mut self, size: usize) -> Poll<Result<(), Gone>> {
            let waker = self.sender_wakes.clone().into();
            let sending = self.sender.as_mut().unwrap().send(vec![0; size].into());
            pin!(sending).poll(&mut Context::from_waker(&waker))
        }

        fn receive(&mut self) -> Poll<Option<usize>> {
            let waker = self.receiver_wakes.clone().into();
            let receiver = Pin::new(self.receiver.as_mut().unwrap());
            receiver.poll_next(&mut Context::from_waker(&waker)).map(|m| m.map(|m| m.len()))
        }
    }

    fn count(wakes: &Arc<Wakes>) -> usize {
        wakes.0.load(Ordering::SeqCst)
    }

    #[test]
    fn bytes_and_messages_are_bounded() {
        let mut ends = Ends::new();
        assert_eq!(ends.send(QUEUE_BYTES), Poll::Ready(Ok(())));
        assert_eq!(ends.send(1), Poll::Pending);
        let mut ends = Ends::new();
        for _ in 0..QUEUE_MESSAGES {
            assert_eq!(ends.send(0), Poll::Ready(Ok(())));
        }
        assert_eq!(ends.send(0), Poll::Pending);
    }

    #[test]
    fn a_message_larger_than_the_queue_waits_alone() {
        let mut ends = Ends::new();
        assert_eq!(ends.send(2 * QUEUE_BYTES), Poll::Ready(Ok(())));
        assert_eq!(ends.send(2 * QUEUE_BYTES), Poll::Pending);
        assert_eq!(ends.receive(), Poll::Ready(Some(2 * QUEUE_BYTES)));
        assert_eq!(count(&ends.sender_wakes), 1);
        assert_eq!(ends.send(2 * QUEUE_BYTES), Poll::Ready(Ok(())));
    }

    #[test]
    fn messages_come_in_order_and_then_the_end() {
        let mut ends = Ends::new();
        assert_eq!(ends.receive(), Poll::Pending);
        for size in [3, 0, 7] {
            assert_eq!(ends.send(size), Poll::Ready(Ok(())));
        }
        assert_eq!(count(&ends.receiver_wakes), 1);
        for size in [3, 0, 7] {
            assert_eq!(ends.receive(), Poll::Ready(Some(size)));
        }
        assert_eq!(ends.receive(), Poll::Pending);
        ends.sender = None;
        assert_eq!(count(&ends.receiver_wakes), 2);
        assert_eq!(ends.receive(), Poll::Ready(None));
    }

    #[test]
    fn a_waiting_sender_wakes_when_the_queue_is_half_empty_not_before() {
        let mut ends = Ends::new();
        let quarter = QUEUE_BYTES / 4;
        for _ in 0..4 {
            assert_eq!(ends.send(quarter), Poll::Ready(Ok(())));
        }
        assert_eq!(ends.send(quarter), Poll::Pending);
        assert_eq!(ends.receive(), Poll::Ready(Some(quarter)));
        assert_eq!(count(&ends.sender_wakes), 0);
        assert_eq!(ends.receive(), Poll::Ready(Some(quarter)));
        assert_eq!(count(&ends.sender_wakes), 1);
    }

    #[test]
    fn a_sender_learns_that_the_receiver_is_gone() {
        let mut ends = Ends::new();
        assert_eq!(ends.send(QUEUE_BYTES), Poll::Ready(Ok(())));
        assert_eq!(ends.send(1), Poll::Pending);
        ends.receiver = None;
        assert_eq!(count(&ends.sender_wakes), 1);
        assert_eq!(ends.send(1), Poll::Ready(Err(Gone)));
    }
}
