//! What a server has seen: messages and bytes of each kind, and the sockets it accepted.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use socket2::Socket;
use tonic::Status;

use crate::marks::{CallMarks, Recorder, Sampling, Side, Ticks};
use crate::message::Message;

/// Says whether a received payload is what it should be.
pub trait PayloadCheck: Send + Sync {
    /// True if `payload` is as expected.
    fn accepts(&self, payload: &[u8]) -> bool;
}

impl<F: Fn(&[u8]) -> bool + Send + Sync> PayloadCheck for F {
    fn accepts(&self, payload: &[u8]) -> bool {
        self(payload)
    }
}

/// Connections of a server that are marked; further ones are served unmarked.
const MOST_MARKED: usize = 1024;

/// Makes a payload of so many bytes for the server to send.
pub type PayloadSource = dyn Fn(u64) -> Message + Send + Sync;

/// Makes the reply to a request, or says why it has none.
pub type Answering = dyn Fn(&[u8]) -> std::result::Result<Message, String> + Send + Sync;

/// Received messages of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages received in full.
    pub messages: u64,
    /// Bytes of payload in them.
    pub bytes: u64,
    /// Messages that the check refused; `None` if nothing was checked.
    pub corrupt: Option<u64>,
}

/// Counters of a [`Server`](crate::Server), and hooks into it. Reading them disturbs nobody.
#[derive(Default)]
pub struct Observer {
    check: Option<Arc<dyn PayloadCheck>>,
    source: Option<Arc<PayloadSource>>,
    answering: Option<Arc<Answering>>,
    pub(crate) echoed: Tally,
    pub(crate) called: Tally,
    pub(crate) pushed: Tally,
    pub(crate) fetched: Tally,
    marking: Option<Marking>,
    accept_errors: AtomicU64,
    accepted: AtomicU64,
    open: Mutex<BTreeMap<u64, OpenConnection>>,
}

/// How calls are marked, and where.
struct Marking {
    sampling: Sampling,
    in_flight: u32,
    clock: Arc<dyn Ticks>,
    recorders: Mutex<Vec<(SocketAddr, Arc<Recorder>)>>,
}

struct OpenConnection {
    peer: SocketAddr,
    /// A second handle on the socket, to shut it down from outside its task.
    handle: Option<Socket>,
}

impl Observer {
    /// Counts, and checks nothing.
    pub fn new() -> Observer {
        Observer::default()
    }

    /// Has `check` look at every message received by Echo, Call, Push and Exchange.
    #[must_use]
    pub fn check_with(mut self, check: impl PayloadCheck + 'static) -> Observer {
        self.check = Some(Arc::new(check));
        self
    }

    /// Serves Fetch and Exchange with what `source` makes, instead of zeroes. It is called once a
    /// call.
    #[must_use]
    pub fn serve_from<M: Into<Message>>(
        mut self,
        source: impl Fn(u64) -> M + Send + Sync + 'static,
    ) -> Observer {
        self.source = Some(Arc::new(move |size| source(size).into()));
        self
    }

    /// Marks calls on every connection, at most `in_flight` of them under way on each at a time.
    #[must_use]
    pub fn mark_with(
        mut self,
        sampling: Sampling,
        in_flight: u32,
        clock: Arc<dyn Ticks>,
    ) -> Observer {
        let recorders = Mutex::default();
        self.marking = Some(Marking { sampling, in_flight, clock, recorders });
        self
    }

    /// The marks of the calls that ended, by the peer of their connection; forgotten here.
    pub fn take_marks(&self) -> Vec<(SocketAddr, Vec<CallMarks>)> {
        let Some(marking) = &self.marking else { return Vec::new() };
        let recorders = lock(&marking.recorders);
        recorders.iter().map(|(peer, recorder)| (*peer, recorder.take())).collect()
    }

    /// Replies to every Call with `reply`, instead of an empty message.
    #[must_use]
    pub fn reply_with(self, reply: impl Into<Message>) -> Observer {
        let reply = reply.into();
        self.answer_with(move |_: &[u8]| Ok(reply.clone()))
    }

    /// Replies to every Call with what `answer` makes of its request; an error is told to the client as
    /// an invalid argument.
    #[must_use]
    pub fn answer_with(
        mut self,
        answer: impl Fn(&[u8]) -> std::result::Result<Message, String> + Send + Sync + 'static,
    ) -> Observer {
        self.answering = Some(Arc::new(answer));
        self
    }

    /// Messages received by Echo.
    pub fn echoed(&self) -> Counts {
        self.counts(&self.echoed)
    }

    /// Messages received by Call.
    pub fn called(&self) -> Counts {
        self.counts(&self.called)
    }

    /// Messages received by Push and Exchange.
    pub fn pushed(&self) -> Counts {
        self.counts(&self.pushed)
    }

    /// Messages handed to HTTP/2 by Fetch and Exchange. They are sent, not received: nothing checks them here.
    pub fn fetched(&self) -> Counts {
        Counts { corrupt: None, ..self.counts(&self.fetched) }
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Connections that could not be accepted, for instance for want of file descriptors.
    pub fn accept_errors(&self) -> u64 {
        self.accept_errors.load(Relaxed)
    }

    /// Peers of the connections open now, in the order they were accepted.
    pub fn open_connections(&self) -> Vec<SocketAddr> {
        self.lock_open().values().map(|connection| connection.peer).collect()
    }

    fn counts(&self, tally: &Tally) -> Counts {
        Counts {
            messages: tally.messages.load(Relaxed),
            bytes: tally.bytes.load(Relaxed),
            corrupt: self.check.as_ref().map(|_| tally.corrupt.load(Relaxed)),
        }
    }

    /// Counts a received message; true unless the check refused it.
    pub(crate) fn received(&self, tally: &Tally, payload: &[u8]) -> bool {
        tally.add(payload.len());
        let accepted = self.check.as_ref().is_none_or(|check| check.accepts(payload));
        if !accepted {
            tally.corrupt.fetch_add(1, Relaxed);
        }
        accepted
    }

    /// The reply to a Call.
    pub(crate) fn answer(&self, request: &[u8]) -> std::result::Result<Message, Status> {
        let Some(answering) = &self.answering else { return Ok(Message::default()) };
        answering(request).map_err(Status::invalid_argument)
    }

    pub(crate) fn checks(&self) -> bool {
        self.check.is_some()
    }

    /// Payload of `size` bytes to send.
    pub(crate) fn payload(&self, size: u64) -> Message {
        match &self.source {
            Some(source) => source(size),
            None => vec![0; usize::try_from(size).unwrap_or(usize::MAX)].into(),
        }
    }

    pub(crate) fn count_accept_error(&self) {
        self.accept_errors.fetch_add(1, Relaxed);
    }

    pub(crate) fn marks(&self) -> bool {
        self.marking.is_some()
    }

    /// Where a new connection is marked; `sealed`: by TLS.
    pub(crate) fn recorder(&self, peer: SocketAddr, sealed: bool) -> Option<Arc<Recorder>> {
        let marking = self.marking.as_ref()?;
        let mut recorders = lock(&marking.recorders);
        if recorders.len() == MOST_MARKED {
            return None;
        }
        let side = Side::Server { in_flight: marking.in_flight, sealed };
        let recorder = Recorder::new(marking.sampling, side, marking.clock.clone());
        recorders.push((peer, recorder.clone()));
        Some(recorder)
    }

    pub(crate) fn register(
        self: &Arc<Self>,
        peer: SocketAddr,
        handle: Option<Socket>,
    ) -> Registration {
        let id = self.accepted.fetch_add(1, Relaxed);
        self.lock_open().insert(id, OpenConnection { peer, handle });
        Registration { observer: self.clone(), id }
    }

    /// Ends every open connection: its task reads the end of the stream and finishes.
    pub(crate) fn shut_down_connections(&self) {
        for connection in self.lock_open().values() {
            if let Some(handle) = &connection.handle {
                // Fails only on a socket that is disconnected already, which is what is wanted.
                let _ = handle.shutdown(Shutdown::Both);
            }
        }
    }

    fn lock_open(&self) -> MutexGuard<'_, BTreeMap<u64, OpenConnection>> {
        lock(&self.open)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds the lock can panic half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("echoed", &self.echoed())
            .field("called", &self.called())
            .field("pushed", &self.pushed())
            .field("fetched", &self.fetched())
            .field("accepted", &self.accepted())
            .finish_non_exhaustive()
    }
}

/// Relaxed counters: each stands alone, and readers want no order between them.
#[derive(Default)]
pub(crate) struct Tally {
    messages: AtomicU64,
    bytes: AtomicU64,
    corrupt: AtomicU64,
}

impl Tally {
    pub(crate) fn add(&self, bytes: usize) {
        self.messages.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }
}

/// Keeps a connection in the list of open ones until it is dropped.
pub(crate) struct Registration {
    observer: Arc<Observer>,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.observer.lock_open().remove(&self.id);
    }
}
