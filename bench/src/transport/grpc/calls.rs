//! Calls over gRPC: unary calls that are under way at once, on the connections of a thread.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use fabricbench_grpc::{Client, Message};
use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, Stream},
};
use tokio::runtime::Runtime;

use super::{GrpcOpening, drive, failed, glance, marks, message, no_connection};
use crate::{
    plan::Payload,
    transport::{
        Answer, Completed, Initiator, MarkedConnection, Offer, Opening, Operation, Patience,
        Received, StopSignal, TransportError,
    },
};

/// The client's side of calls before it is connected.
#[derive(Debug)]
pub struct GrpcCallsOpening(pub GrpcOpening);

impl Opening for GrpcCallsOpening {
    type Initiator = GrpcCalls;

    fn offer(&self) -> Offer {
        self.0.offer()
    }

    fn connect(self, answer: &Answer) -> Result<GrpcCalls, TransportError> {
        let (runtime, clients) = self.0.link(answer)?;
        let calls = GrpcCalls::over(self.0, runtime, clients)?;
        Ok(GrpcCalls { depth: calls.depth * calls.clients.len(), ..calls })
    }
}

impl GrpcCalls {
    /// A worker, whose calls go over a connection to each of `servers`: one is done when all have
    /// replied.
    ///
    /// # Errors
    /// A server is not reached, or there is no memory for a message.
    pub fn to_all(opening: GrpcOpening, servers: &[Answer]) -> Result<Self, TransportError> {
        let runtime = opening.settings.runtime.build()?;
        let mut clients = Vec::new();
        for server in servers {
            clients.extend(opening.clients(&runtime, server)?);
        }
        let calls = Self::over(opening, runtime, clients)?;
        Ok(Self { unanswered: Some(vec![0; calls.depth]), ..calls })
    }

    fn over(
        opening: GrpcOpening,
        runtime: Runtime,
        clients: Vec<Client>,
    ) -> Result<Self, TransportError> {
        let settings = opening.in_force(&clients);
        let GrpcOpening { cell, payload, depth, stop, .. } = opening;
        let request = message(&cell, &payload)?;
        Ok(Self {
            under_way: FuturesUnordered::new(),
            in_flight: vec![0; clients.len()],
            depth: depth.max(1) as usize,
            unanswered: None,
            clients,
            runtime,
            payload,
            request,
            reply_size: cell.reply_size(),
            ended: 0,
            verified: None,
            settings,
            stop,
        })
    }
}

/// A call, which ends with its token, its connection and its reply.
type Call = BoxFuture<'static, Ended>;
type Ended = (u64, usize, fabricbench_grpc::Result<Bytes>);

/// The client's side of calls.
#[derive(Debug)]
pub struct GrpcCalls {
    // Before the runtime, which runs what these two have begun.
    under_way: FuturesUnordered<Call>,
    clients: Vec<Client>,
    // Of each connection.
    in_flight: Vec<usize>,
    // Where a call goes to all servers: of each token, how many have not replied.
    unanswered: Option<Vec<usize>>,
    runtime: Runtime,
    payload: Payload,
    request: Message,
    reply_size: u64,
    // Of all connections together.
    depth: usize,
    ended: u64,
    verified: Option<bool>,
    settings: BTreeMap<String, String>,
    stop: StopSignal,
}

impl Initiator for GrpcCalls {
    fn depth(&self) -> usize {
        self.depth
    }

    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        if let Some(unanswered) = &mut self.unanswered {
            if let Some(calls) = unanswered.get_mut(operation.token as usize) {
                *calls = self.clients.len();
            }
            for (index, (client, in_flight)) in
                self.clients.iter().zip(&mut self.in_flight).enumerate()
            {
                *in_flight += 1;
                let call = client.call(self.request.clone());
                self.under_way.push(Box::pin(async move { (operation.token, index, call.await) }));
            }
            return Ok(());
        }
        let connections = self.clients.iter().zip(&mut self.in_flight).enumerate();
        let idlest = connections.min_by_key(|(_, (_, calls))| **calls);
        let (connection, (client, in_flight)) = idlest.ok_or_else(no_connection)?;
        *in_flight += 1;
        let call = client.call(self.request.clone());
        // A future begins when it is first polled, that is, in the next `complete`.
        self.under_way.push(Box::pin(async move { (operation.token, connection, call.await) }));
        Ok(())
    }

    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        self.take(Some(patience), done)
    }

    fn reap(&mut self, done: &mut Completed) -> Result<(), TransportError> {
        self.take(None, done)
    }

    fn confirm(&mut self, _: Patience) -> Result<Received, TransportError> {
        // Every reply is a confirmation.
        Ok(Received { messages: self.ended, ..Received::default() })
    }

    fn verified(&self) -> (u64, u64) {
        self.verified.map_or((0, 0), |same| (1, u64::from(!same)))
    }

    fn marks(&self) -> Vec<MarkedConnection> {
        marks(&self.clients)
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }
}

impl GrpcCalls {
    /// Takes the calls that have ended, waiting for one as long as `patience` says; `None`: not at all.
    fn take(
        &mut self,
        patience: Option<Patience>,
        done: &mut Completed,
    ) -> Result<(), TransportError> {
        let (under_way, in_flight) = (&mut self.under_way, &mut self.in_flight);
        let unanswered = &mut self.unanswered;
        let (payload, size, verified) = (&self.payload, self.reply_size, &mut self.verified);
        let mut ended = 0;
        let work = poll_fn(|cx| {
            let before = done.tokens().len();
            while done.room() > 0
                && let Poll::Ready(Some((token, connection, reply))) = next(under_way, cx)
            {
                if let Some(calls) = in_flight.get_mut(connection) {
                    *calls -= 1;
                }
                let reply = match reply {
                    Ok(reply) => reply,
                    Err(error) => return Poll::Ready(Err(failed(error))),
                };
                // The first one whole: it comes in warm-up, where that disturbs nothing.
                let same =
                    reply.len() as u64 == size && (verified.is_some() || payload.matches(&reply));
                *verified = Some(same && *verified != Some(false));
                ended += 1;
                let calls = unanswered.as_mut().and_then(|all| all.get_mut(token as usize));
                if let Some(calls) = calls {
                    *calls -= 1;
                    if *calls > 0 {
                        continue;
                    }
                }
                done.push(token);
            }
            match done.tokens().len() > before || under_way.is_empty() {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        });
        let reaped = match patience {
            Some(patience) => drive(&self.runtime, work, patience, &self.stop),
            None => glance(&self.runtime, work, &self.stop).map(|done| done.unwrap_or(Ok(()))),
        };
        self.ended += ended;
        match reaped {
            Ok(reaped) => reaped,
            // Patience is at its end.
            Err(TransportError::Failed(_)) => Ok(()),
            Err(stopped) => Err(stopped),
        }
    }
}

fn next(under_way: &mut FuturesUnordered<Call>, cx: &mut Context<'_>) -> Poll<Option<Ended>> {
    Pin::new(under_way).poll_next(cx)
}
