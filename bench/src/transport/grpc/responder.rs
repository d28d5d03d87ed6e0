//! The server's side.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fabricbench_grpc::{Identity, ListenOptions, Message, Observer, Server, Tuning, TurnedAway};
use tokio::time::sleep;

use super::{FirstMessage, RuntimeKind, failed, message, tuning};
use crate::{
    plan::{Cell, GrpcTuning, Pattern, Payload},
    transport::{
        Answer, MarkedConnection, Marking, Received, Responder, ServerMarks, SliceKey, StopSignal,
        TcpEndpoint, TransportError, buffer::zeroed,
    },
};

/// How often the server looks at the stop signal. It wakes an otherwise idle thread, so not more
/// often than the end of a slice may lag.
const SERVER_TURN: Duration = Duration::from_millis(10);

/// A server that is bound and does not serve yet.
#[derive(Debug)]
pub(super) struct Bound {
    server: Server,
    runtime: RuntimeKind,
}

impl Bound {
    /// Listens on the interface and address that were asked for.
    pub(super) fn listen(
        tuning: &Tuning,
        wish: &TcpEndpoint,
    ) -> Result<(Self, Answer), TransportError> {
        let mut options =
            ListenOptions::new(SocketAddr::new(wish.address, 0)).interface(&wish.interface);
        options.identity = wish.grpc.tls.then(Identity::generate).transpose().map_err(failed)?;
        let certificate =
            options.identity.as_ref().map(|identity| identity.certificate().to_owned());
        let key = SliceKey::generate()?;
        options.door = Some((key.0.clone(), wish.connections as usize));
        let server = Server::bind(&options, tuning).map_err(failed)?;
        let answer = Answer::Tcp { port: server.local_addr().port(), key, certificate };
        let runtime = wish.grpc.server_runtime;
        runtime.admit()?;
        Ok((Self { server, runtime }, answer))
    }

    /// Who is not let in.
    pub(super) fn turned_away(&self) -> TurnedAway {
        self.server.turned_away().unwrap_or_default()
    }

    /// Serves until `stop` is given.
    pub(super) fn serve(
        self,
        observer: Arc<Observer>,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        let runtime = self.runtime.build()?;
        let until_stopped = {
            let stop = stop.clone();
            async move {
                while !stop.is_given() {
                    sleep(SERVER_TURN).await;
                }
            }
        };
        runtime.block_on(self.server.serve(observer, until_stopped)).map_err(failed)
    }
}

/// The server's side.
#[derive(Debug)]
pub struct GrpcResponder {
    bound: Bound,
    // Where messages are copied to, where that was asked for.
    place: Option<Mutex<Vec<u8>>>,
    pattern: Pattern,
    payload: Payload,
    size: u64,
    // What is sent, where this side sends by itself.
    message: Message,
    // What is replied with, of calls only.
    reply: Message,
    marks: CallsMarked,
}

/// How calls are marked, so many of them in flight on a connection, and where marks are left.
#[derive(Debug)]
pub(super) struct CallsMarked {
    marking: Option<Marking>,
    in_flight: u32,
    marks: ServerMarks,
}

impl CallsMarked {
    /// As `wish` says; `seed` is the payload's, by which both sides mark the same calls.
    pub(super) fn new(wish: &TcpEndpoint, in_flight: u32, seed: u64, marks: &ServerMarks) -> Self {
        let marking = wish.one_in.map(|one_in| marks.marking(one_in, seed));
        Self { marking, in_flight, marks: marks.clone() }
    }

    /// `observer`, which marks them.
    pub(super) fn by(&self, observer: Observer) -> Observer {
        match &self.marking {
            Some(marking) => {
                observer.mark_with(marking.sampling(), self.in_flight, marking.clock())
            }
            None => observer,
        }
    }

    /// Leaves what `observer` has marked.
    pub(super) fn keep(&self, observer: &Observer) {
        let marked = observer.take_marks().into_iter();
        self.marks.keep(marked.map(|(client, calls)| MarkedConnection { client, calls }));
    }
}

impl GrpcResponder {
    /// Listens on the interface and address that were asked for. What it marks goes to `marks`.
    ///
    /// # Errors
    /// There is no such interface or address here, no port is free, or the message is too large.
    pub fn listen(
        cell: &Cell,
        kind: GrpcTuning,
        depth: u32,
        payload: Payload,
        wish: &TcpEndpoint,
        marks: &ServerMarks,
    ) -> Result<(Self, Answer), TransportError> {
        let tuning = tuning(kind, wish.grpc.serialized, cell.largest_message(), depth)?;
        // gRPC allocates when a message comes; that it can is seen here, where it can be refused.
        let mut message = message(cell, &payload)?;
        if !matches!(cell.pattern, Pattern::Fetch | Pattern::Bidirectional) {
            message = Message::default();
        }
        let mut reply = zeroed(cell.reply_size())?;
        payload.fill(&mut reply);
        let (bound, answer) = Bound::listen(&tuning, wish)?;
        let place = wish.grpc.assign.then(|| zeroed(cell.size)).transpose()?.map(Mutex::new);
        let (pattern, size) = (cell.pattern, cell.size);
        let responder = Self {
            bound,
            place,
            pattern,
            size,
            message,
            reply: reply.into(),
            marks: CallsMarked::new(wish, depth, payload.seed(), marks),
            payload,
        };
        Ok((responder, answer))
    }

    /// Who is not let in.
    #[must_use]
    pub fn turned_away(&self) -> TurnedAway {
        self.bound.turned_away()
    }
}

impl Responder for GrpcResponder {
    fn serve(self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError> {
        let first = Arc::new(FirstMessage::default());
        let check = {
            let (first, payload, size) = (first.clone(), self.payload.clone(), self.size);
            let place = self.place;
            move |message: &[u8]| {
                if let Some(place) = &place {
                    assign(place, message);
                }
                first.check(&payload, size, message)
            }
        };
        let message = self.message.clone();
        // Another size than was planned is refused by the service.
        let source = move |_| message.clone();
        let observer = self.marks.by(Observer::new().check_with(check).serve_from(source));
        let observer = Arc::new(observer.reply_with(self.reply.clone()));
        self.bound.serve(observer.clone(), stop)?;
        self.marks.keep(&observer);
        let counts = match self.pattern {
            Pattern::Latency => observer.echoed(),
            Pattern::Calls | Pattern::Ps => observer.called(),
            // Those that were served: what the client received must be as many.
            Pattern::Fetch => observer.fetched(),
            _ => observer.pushed(),
        };
        let returned = match self.pattern {
            Pattern::Bidirectional => observer.fetched().messages,
            _ => 0,
        };
        let (verified, corrupt) = first.verified();
        let (messages, bytes) = (counts.messages, counts.bytes);
        Ok(Received { returned, messages, bytes, verified, corrupt })
    }
}

/// Copies `message` to its place; of one that is longer, as much as there is room for.
fn assign(place: &Mutex<Vec<u8>>, message: &[u8]) {
    // Nothing that holds the lock can panic half-way through.
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    let length = message.len().min(place.len());
    let ((begin, _), (message, _)) = (place.split_at_mut(length), message.split_at(length));
    begin.copy_from_slice(message);
    std::hint::black_box(&mut *place);
}
