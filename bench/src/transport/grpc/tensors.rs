//! Tensors over gRPC: a step is unary calls to all parameter servers, a bounded number of them under way
//! to each.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use fabricbench_grpc::{Client, Message, Observer, TurnedAway};
use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, Stream},
};
use tokio::runtime::Runtime;

use super::{
    GrpcOpening, drive, failed, marks,
    responder::{Bound, CallsMarked},
    tuning,
};
use crate::{
    plan::{Cell, GrpcTuning, Payload},
    stats::Histogram,
    transport::{
        Answer, Completed, Initiator, MarkedConnection, Operation, Patience, Received, Responder,
        ServerMarks, StopSignal, TcpEndpoint, TransportError,
        tensors::{Replies, Steps, Store},
    },
};

/// A call, which ends with its server, its number and its reply.
type Call = BoxFuture<'static, Ended>;
type Ended = (usize, usize, fabricbench_grpc::Result<Bytes>);

/// A worker, which has a connection to each parameter server.
#[derive(Debug)]
pub struct GrpcTensors {
    // Before the runtime, which runs what these have begun.
    under_way: FuturesUnordered<Call>,
    servers: Vec<ToServer>,
    runtime: Runtime,
    replies: Replies,
    // Calls in flight to each server, at the most.
    depth: usize,
    // That of the step under way.
    token: Option<u64>,
    settings: BTreeMap<String, String>,
    stop: StopSignal,
}

/// One parameter server, as a worker sees it.
#[derive(Debug)]
struct ToServer {
    client: Client,
    // Of a step.
    requests: Vec<Message>,
    begun: usize,
    in_flight: usize,
}

impl GrpcTensors {
    /// Worker number `worker`, connected to each of `servers`.
    ///
    /// # Errors
    /// A server is not reached, or there is no memory for what is fetched.
    pub fn connect(
        opening: GrpcOpening,
        steps: &Steps,
        worker: u32,
        servers: &[Answer],
    ) -> Result<Self, TransportError> {
        let runtime = opening.settings.runtime.build()?;
        let (mut to_servers, mut settings) = (Vec::new(), BTreeMap::new());
        for (index, (server, calls)) in servers.iter().zip(steps.calls_each()).enumerate() {
            let clients = opening.clients(&runtime, server)?;
            settings = opening.in_force(&clients);
            let requests = (0..calls).map(|call| Message::of(steps.request(index, call, worker)));
            let requests: Vec<_> = requests.collect();
            let servers = clients.into_iter().map(|client| {
                let (requests, begun) = (requests.clone(), calls);
                ToServer { client, requests, begun, in_flight: 0 }
            });
            to_servers.extend(servers);
        }
        Ok(Self {
            under_way: FuturesUnordered::new(),
            servers: to_servers,
            runtime,
            replies: Replies::new(steps.clone())?,
            depth: opening.depth.max(1) as usize,
            token: None,
            settings,
            stop: opening.stop,
        })
    }
}

impl Initiator for GrpcTensors {
    fn depth(&self) -> usize {
        // A step begins when the one before has ended.
        1
    }

    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        self.token = Some(operation.token);
        self.servers.iter_mut().for_each(|server| server.begun = 0);
        Ok(())
    }

    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        let Some(token) = self.token else { return Ok(()) };
        loop {
            let Self { under_way, servers, replies, depth, .. } = self;
            let reaped = drive(
                &self.runtime,
                poll_fn(|cx| reap(under_way, servers, replies, *depth, cx)),
                patience,
                &self.stop,
            );
            match reaped {
                Ok(reaped) => reaped?,
                // Of a call under way nothing is known until it is answered: not whether its bytes move.
                Err(TransportError::Failed(late)) => {
                    return Err(TransportError::Failed(format!(
                        "{late}: the data path may be cut, or --timeout too short; over gRPC it has to \
                         cover the largest call (see --coalesce)"
                    )));
                }
                Err(stopped) => return Err(stopped),
            }
            if self.under_way.is_empty() {
                self.replies.end_step();
                self.token = None;
                done.push(token);
                return Ok(());
            }
        }
    }

    fn confirm(&mut self, _: Patience) -> Result<Received, TransportError> {
        // Every reply is a confirmation.
        Ok(Received { messages: self.replies.steps_ended(), ..Received::default() })
    }

    fn verified(&self) -> (u64, u64) {
        self.replies.verified()
    }

    fn assigned(&self) -> Option<&Histogram> {
        self.replies.assigned()
    }

    fn marks(&self) -> Vec<MarkedConnection> {
        marks(self.servers.iter().map(|server| &server.client))
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }
}

/// Begins as many calls as may be under way and takes the replies that are here; ready when there was
/// one, and when all are.
fn reap(
    under_way: &mut FuturesUnordered<Call>,
    servers: &mut [ToServer],
    replies: &mut Replies,
    depth: usize,
    cx: &mut Context<'_>,
) -> Poll<Result<(), TransportError>> {
    let mut any = false;
    loop {
        for (index, server) in servers.iter_mut().enumerate() {
            while server.in_flight < depth
                && let Some(request) = server.requests.get(server.begun)
            {
                let (number, call) = (server.begun, server.client.call(request.clone()));
                under_way.push(Box::pin(async move { (index, number, call.await) }));
                server.begun += 1;
                server.in_flight += 1;
            }
        }
        match Pin::new(&mut *under_way).poll_next(cx) {
            Poll::Ready(Some((server, call, reply))) => {
                let reply = reply.map_err(failed)?;
                if let Some(server) = servers.get_mut(server) {
                    server.in_flight -= 1;
                }
                replies.take(server, call, &reply)?;
                any = true;
            }
            Poll::Ready(None) => return Poll::Ready(Ok(())),
            Poll::Pending if any => return Poll::Ready(Ok(())),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// A parameter server.
#[derive(Debug)]
pub struct GrpcTensorResponder {
    bound: Bound,
    store: Store,
    marks: CallsMarked,
}

impl GrpcTensorResponder {
    /// Listens on the interface and address that were asked for, as parameter server number `server`.
    /// What it marks goes to `marks`.
    ///
    /// # Errors
    /// There is no such interface or address here, no port is free, a call is too large, or there is no
    /// memory for the tensors.
    pub fn listen(
        cell: &Cell,
        kind: GrpcTuning,
        depth: u32,
        payload: Payload,
        wish: &TcpEndpoint,
        server: usize,
        marks: &ServerMarks,
    ) -> Result<(Self, Answer), TransportError> {
        let tuning = tuning(kind, wish.grpc.serialized, cell.largest_message(), depth)?;
        let (bound, answer) = Bound::listen(&tuning, wish)?;
        let marks = CallsMarked::new(wish, depth, payload.seed(), marks);
        Ok((Self { bound, store: Store::new(cell, server, payload)?, marks }, answer))
    }

    /// Who is not let in.
    #[must_use]
    pub fn turned_away(&self) -> TurnedAway {
        self.bound.turned_away()
    }
}

impl Responder for GrpcTensorResponder {
    fn serve(self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError> {
        let store = Arc::new(self.store);
        let answer = {
            let store = store.clone();
            move |request: &[u8]| match store.answer(request) {
                Ok(buffers) => Ok(Message::of(buffers)),
                Err(error) => Err(error.to_string()),
            }
        };
        let observer = Arc::new(self.marks.by(Observer::new().answer_with(answer)));
        self.bound.serve(observer.clone(), stop)?;
        self.marks.keep(&observer);
        Ok(store.received())
    }
}
