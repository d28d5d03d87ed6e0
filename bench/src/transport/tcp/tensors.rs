//! Tensors over TCP: the calls of a step follow one another on the connection to each parameter server,
//! and their replies in the same order.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::TcpStream,
    sync::Arc,
};

use bytes::Bytes;
use rustix::net::{RecvFlags, recv};

use super::{
    TcpOpening,
    gathered::Gathered,
    socket::{Got, Turns, again, await_any, closed, failed, io_failed, read_some},
    unsent::Unsent,
};
use crate::{
    stats::Histogram,
    transport::{
        Answer, Completed, Initiator, Operation, Patience, Received, StopSignal, TransportError,
        tensors::{Replies, Steps, Store},
        wait::go_on,
    },
};

/// A worker, which has a connection to each parameter server.
#[derive(Debug)]
pub struct TcpTensors {
    servers: Vec<ToServer>,
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
    stream: TcpStream,
    // Of a step: the buffers of each request, and the size of its reply.
    calls: Vec<(Vec<Bytes>, usize)>,
    begun: usize,
    // The numbers of calls that are not answered, in their order, which is that of the answers.
    in_flight: VecDeque<usize>,
    outgoing: Unsent,
    incoming: Gathered,
}

impl TcpTensors {
    /// Worker number `worker`, connected to each of `servers`.
    ///
    /// # Errors
    /// A server is not reached, or there is no memory for what is fetched.
    pub fn connect(
        opening: TcpOpening,
        steps: &Steps,
        worker: u32,
        servers: &[Answer],
    ) -> Result<Self, TransportError> {
        let (mut to_servers, mut settings) = (Vec::new(), BTreeMap::new());
        for (index, (server, calls)) in servers.iter().zip(steps.calls_each()).enumerate() {
            let (streams, of) = opening.streams(server)?;
            settings = of;
            let call = |call| {
                let reply = steps.reply_size(index, call) as usize;
                (steps.request(index, call, worker), reply)
            };
            let calls: Vec<_> = (0..calls).map(call).collect();
            let largest = calls.iter().map(|(_, reply)| *reply).max().unwrap_or(0);
            for stream in streams {
                to_servers.push(ToServer {
                    stream,
                    begun: calls.len(),
                    calls: calls.clone(),
                    in_flight: VecDeque::new(),
                    outgoing: Unsent::default(),
                    incoming: Gathered::new(largest as u64)?,
                });
            }
        }
        Ok(Self {
            servers: to_servers,
            replies: Replies::new(steps.clone())?,
            depth: opening.depth.max(1) as usize,
            token: None,
            settings,
            stop: opening.stop,
        })
    }
}

impl Initiator for TcpTensors {
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
        go_on(&self.stop)?;
        let Some(token) = self.token else { return Ok(()) };
        let mut clock = Turns::new(Some(patience));
        loop {
            if self.turn()? {
                clock = Turns::new(Some(patience));
            } else if !clock.turn(&self.stop)? {
                return Ok(());
            }
            if self.servers.iter().all(ToServer::is_done) {
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

    fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }
}

impl TcpTensors {
    /// Begins as many calls as may be in flight, sends what the sockets take and takes what has come,
    /// waiting for either for a turn at the most; whether any byte moved.
    fn turn(&mut self) -> Result<bool, TransportError> {
        let Self { servers, replies, depth, stop, .. } = self;
        let mut moved = false;
        for (index, server) in servers.iter_mut().enumerate() {
            moved |= server.send(*depth)?;
            moved |= server.take(index, replies)?;
        }
        if !moved {
            go_on(stop)?;
            await_any(servers.iter().map(|server| (&server.stream, !server.outgoing.is_empty())))?;
        }
        Ok(moved)
    }
}

impl ToServer {
    fn is_done(&self) -> bool {
        self.begun == self.calls.len() && self.in_flight.is_empty()
    }

    fn send(&mut self, depth: usize) -> Result<bool, TransportError> {
        while self.in_flight.len() < depth
            && let Some((request, _)) = self.calls.get(self.begun)
        {
            self.outgoing.add(request);
            self.in_flight.push_back(self.begun);
            self.begun += 1;
        }
        self.outgoing.send_now(&self.stream)
    }

    /// Bytes of the reply to a call.
    fn reply_size(&self, call: usize) -> usize {
        self.calls.get(call).map_or(0, |&(_, size)| size)
    }

    /// Takes what is here, as long as a call has a reply to come.
    fn take(&mut self, index: usize, replies: &mut Replies) -> Result<bool, TransportError> {
        let Some(next) = self.in_flight.front() else { return Ok(false) };
        let room = self.incoming.room(self.reply_size(*next));
        let got = match recv(&self.stream, room, RecvFlags::DONTWAIT).map_err(io::Error::from) {
            Ok((0, _)) => return Err(closed()),
            Ok((got, _)) => got,
            Err(error) if again(&error) => return Ok(false),
            Err(error) => return Err(io_failed("receive", &error)),
        };
        self.incoming.took(got);
        while let Some(&call) = self.in_flight.front()
            && let Some(reply) = self.incoming.first(self.reply_size(call))
        {
            replies.take(index, call, reply)?;
            let size = reply.len();
            self.incoming.consume(size);
            self.in_flight.pop_front();
        }
        if self.in_flight.is_empty() && !self.incoming.is_empty() {
            return Err(failed("the server sent more than was asked for"));
        }
        self.incoming.compact();
        Ok(true)
    }
}

/// A parameter server's end of one connection, before it has it.
#[derive(Debug)]
pub(super) struct Answering {
    store: Arc<Store>,
    requests: Gathered,
    replies: Unsent,
}

impl Answering {
    /// # Errors
    /// There is no memory for a request.
    pub(super) fn new(store: Arc<Store>) -> Result<Self, TransportError> {
        let requests = Gathered::new(store.largest_request())?;
        Ok(Self { store, requests, replies: Unsent::default() })
    }

    /// Answers every request, until the client closes or `stop` is given. What arrived is known to the
    /// store.
    pub(super) fn serve(
        mut self,
        mut stream: TcpStream,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        loop {
            let size = self.store.request_size(self.requests.bytes())?;
            match read_some(&mut stream, self.requests.room(size.unwrap_or(0)), stop, None) {
                Ok(Got::Bytes(got)) => self.requests.took(got),
                Ok(Got::Nothing) => continue,
                Ok(Got::End) if self.requests.is_empty() => return Ok(()),
                Ok(Got::End) => return Err(closed()),
                Err(_) if stop.is_given() => return Ok(()),
                Err(error) => return Err(error),
            }
            while let Some(size) = self.store.request_size(self.requests.bytes())?
                && let Some(request) = self.requests.first(size)
            {
                self.replies.add(&self.store.answer(request)?);
                self.requests.consume(size);
            }
            self.requests.compact();
            // The client takes replies also while it sends: this wait ends.
            match self.replies.send(&mut stream, stop) {
                Err(_) if stop.is_given() => return Ok(()),
                sent => sent?,
            }
        }
    }
}
