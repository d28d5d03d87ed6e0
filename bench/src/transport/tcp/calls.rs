//! Calls over TCP: requests follow one another without a gap, and replies in the order of their
//! requests; both are told apart by their sizes, which both sides know.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Read as _},
    net::TcpStream,
};

use fabricbench_grpc::marks::Side;
use rustix::net::{RecvFlags, recv};

use super::{
    TcpOpening,
    marks::StreamMarks,
    socket::{Got, Turns, again, await_any, closed, io_failed, read_some},
    stream::{Incoming, Outgoing},
};
use crate::{
    plan::{Cell, Payload},
    transport::{
        Answer, Completed, Initiator, MarkedConnection, Offer, Opening, Operation, Patience,
        Received, ServerMarks, StopSignal, TransportError, buffer::filled, wait::go_on,
    },
};

/// The client's side of calls before it is connected.
#[derive(Debug)]
pub struct TcpCallsOpening(pub TcpOpening);

impl Opening for TcpCallsOpening {
    type Initiator = TcpCalls;

    fn offer(&self) -> Offer {
        self.0.offer()
    }

    fn connect(self, answer: &Answer) -> Result<TcpCalls, TransportError> {
        let (streams, settings) = self.0.streams(answer)?;
        let calls = TcpCalls::over(self.0, streams, settings)?;
        Ok(TcpCalls { depth: calls.depth * calls.connections.len(), ..calls })
    }
}

impl TcpCalls {
    /// A worker, whose calls go over a connection to each of `servers`: one is done when all have
    /// replied.
    ///
    /// # Errors
    /// A server is not reached, or there is no memory for a message.
    pub fn to_all(opening: TcpOpening, servers: &[Answer]) -> Result<Self, TransportError> {
        let (mut streams, mut settings) = (Vec::new(), BTreeMap::new());
        for server in servers {
            let (stream, of) = opening.streams(server)?;
            streams.extend(stream);
            settings = of;
        }
        Ok(Self { to_all: true, ..Self::over(opening, streams, settings)? })
    }

    fn over(
        opening: TcpOpening,
        streams: Vec<TcpStream>,
        settings: BTreeMap<String, String>,
    ) -> Result<Self, TransportError> {
        let TcpOpening { cell, payload, depth, marking, stop, .. } = opening;
        let depth = depth.max(1) as usize;
        let mut connections = Vec::new();
        for stream in streams {
            connections.push(Connection {
                stream,
                requests: Outgoing::new(filled(cell.size, &payload, cell.buffers.as_ref())?),
                replies: Incoming::new(cell.reply_size(), payload.clone())?,
                in_flight: VecDeque::with_capacity(depth),
                marks: marking.as_ref().map(|marking| {
                    StreamMarks::new(marking, Side::Client, (cell.size, cell.reply_size()))
                }),
                begun: 0,
                ended: 0,
            });
        }
        Ok(Self { depth, connections, to_all: false, settings, stop })
    }
}

/// The client's side of calls. A call goes over the connection with the fewest in flight, or over all.
#[derive(Debug)]
pub struct TcpCalls {
    connections: Vec<Connection>,
    // Of all connections together.
    depth: usize,
    to_all: bool,
    settings: BTreeMap<String, String>,
    stop: StopSignal,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    requests: Outgoing,
    replies: Incoming,
    // Tokens of calls that are not answered, in their order, which is that of the answers.
    in_flight: VecDeque<u64>,
    marks: Option<StreamMarks>,
    begun: u64,
    ended: u64,
}

impl Initiator for TcpCalls {
    fn depth(&self) -> usize {
        self.depth
    }

    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        // Requests leave together when replies are waited for: sending here could wait for a server
        // that waits for us to take its replies.
        if self.to_all {
            for connection in &mut self.connections {
                connection.begin(operation.token);
            }
            return Ok(());
        }
        let idlest =
            self.connections.iter_mut().min_by_key(|connection| connection.in_flight.len());
        if let Some(connection) = idlest {
            connection.begin(operation.token);
        }
        Ok(())
    }

    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        let mut clock = Turns::new(Some(patience));
        self.hand_over(done)?;
        while done.tokens().is_empty() {
            if self.turn()? {
                clock = Turns::new(Some(patience));
                self.hand_over(done)?;
            } else if !clock.turn(&self.stop)? {
                break;
            }
        }
        Ok(())
    }

    fn reap(&mut self, done: &mut Completed) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        self.send_now()?;
        self.take_now()?;
        self.hand_over(done)
    }

    fn confirm(&mut self, _: Patience) -> Result<Received, TransportError> {
        // Every reply is a confirmation.
        let messages = self.connections.iter().map(|connection| connection.ended).sum();
        Ok(Received { messages, ..Received::default() })
    }

    fn verified(&self) -> (u64, u64) {
        let checks = self.connections.iter().filter_map(|connection| connection.replies.verified);
        checks.fold((0, 0), |(all, bad), same| (all + 1, bad + u64::from(!same)))
    }

    fn marks(&self) -> Vec<MarkedConnection> {
        let marked = |connection: &Connection| connection.marks.as_ref()?.of(&connection.stream);
        self.connections.iter().filter_map(marked).collect()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }
}

impl Connection {
    fn begin(&mut self, token: u64) {
        self.requests.add(1);
        self.in_flight.push_back(token);
        self.begun += 1;
        if let Some(marks) = &mut self.marks {
            marks.begin();
        }
    }
}

impl TcpCalls {
    fn hand_over(&mut self, done: &mut Completed) -> Result<(), TransportError> {
        if self.to_all {
            return self.hand_over_steps(done);
        }
        for Connection { replies, in_flight, marks, begun, ended, .. } in &mut self.connections {
            if replies.messages > *begun {
                return Err(unasked(*begun));
            }
            while *ended < replies.messages
                && done.room() > 0
                && let Some(token) = in_flight.pop_front()
            {
                done.push(token);
                *ended += 1;
            }
            if let Some(marks) = marks {
                marks.end(*ended);
            }
        }
        Ok(())
    }

    /// Of calls to all servers: what the slowest has answered, since replies come in the order of the
    /// requests.
    fn hand_over_steps(&mut self, done: &mut Completed) -> Result<(), TransportError> {
        let ahead = self.connections.iter().find(|one| one.replies.messages > one.begun);
        if let Some(ahead) = ahead {
            return Err(unasked(ahead.begun));
        }
        let answered = self.connections.iter().map(|connection| connection.replies.messages).min();
        let ended = self.connections.first().map_or(0, |connection| connection.ended);
        for _ in ended..answered.unwrap_or(0) {
            if done.room() == 0 {
                break;
            }
            let mut token = None;
            for connection in &mut self.connections {
                token = connection.in_flight.pop_front();
                connection.ended += 1;
                if let Some(marks) = &mut connection.marks {
                    marks.end(connection.ended);
                }
            }
            token.into_iter().for_each(|token| done.push(token));
        }
        Ok(())
    }

    /// Sends what waits to be sent and takes what has come, waiting for either for a [`TURN`] at the
    /// most; whether any byte moved.
    fn turn(&mut self) -> Result<bool, TransportError> {
        let moved = self.send_now()?;
        // The usual case, without a poll(2).
        if let [Connection { stream, requests, replies, marks, .. }] = &mut self.connections[..]
            && requests.is_empty()
        {
            let before = marks.as_ref().and_then(|marks| marks.before_reading(stream));
            return match stream.read(replies.room()) {
                Ok(0) => Err(closed()),
                Ok(got) => {
                    replies.took(got);
                    if let Some(marks) = marks {
                        marks.read(got as u64, before);
                    }
                    Ok(true)
                }
                Err(error) if again(&error) => Ok(moved),
                Err(error) => Err(io_failed("receive", &error)),
            };
        }
        let waiting = |one: &Connection| !one.requests.is_empty();
        await_any(self.connections.iter().map(|one| (&one.stream, waiting(one))))?;
        Ok(self.take_now()? || moved)
    }

    /// Sends what can go at once; whether any byte moved.
    fn send_now(&mut self) -> Result<bool, TransportError> {
        let mut moved = false;
        for Connection { stream, requests, marks, .. } in &mut self.connections {
            let (left, before) = (requests.left(), marks.as_ref().and_then(StreamMarks::before));
            moved |= requests.send_now(stream)?;
            if let Some(marks) = marks {
                marks.wrote(left - requests.left(), before);
            }
        }
        Ok(moved)
    }

    /// Takes what has come; whether any byte moved.
    fn take_now(&mut self) -> Result<bool, TransportError> {
        let mut moved = false;
        for Connection { stream, replies, marks, .. } in &mut self.connections {
            let before = marks.as_ref().and_then(StreamMarks::before);
            match recv(&*stream, replies.room(), RecvFlags::DONTWAIT).map_err(io::Error::from) {
                Ok((0, _)) => return Err(closed()),
                Ok((got, _)) => {
                    replies.took(got);
                    if let Some(marks) = marks {
                        marks.read(got as u64, before);
                    }
                    moved = true;
                }
                Err(error) if again(&error) => {}
                Err(error) => return Err(io_failed("receive", &error)),
            }
        }
        Ok(moved)
    }
}

fn unasked(begun: u64) -> TransportError {
    TransportError::Failed(format!(
        "the server sent more replies than the {begun} that were asked for"
    ))
}

/// The server's side of calls, before it has a connection.
#[derive(Debug)]
pub(super) struct Answering {
    requests: Incoming,
    replies: Outgoing,
    marks: Option<StreamMarks>,
    size: u64,
}

impl Answering {
    /// # Errors
    /// There is no memory for a request and a reply.
    pub(super) fn new(
        cell: &Cell,
        payload: &Payload,
        marks: Option<StreamMarks>,
    ) -> Result<Self, TransportError> {
        Ok(Self {
            requests: Incoming::new(cell.size, payload.clone())?,
            replies: Outgoing::new(filled(cell.reply_size(), payload, None)?),
            marks,
            size: cell.size,
        })
    }

    /// Answers every request, until the client closes or `stop` is given. What was marked goes to `kept`.
    pub(super) fn serve(
        mut self,
        mut stream: TcpStream,
        stop: &StopSignal,
        kept: &ServerMarks,
    ) -> Result<Received, TransportError> {
        let served = self.answer(&mut stream, stop);
        kept.keep(self.marks.as_ref().and_then(|marks| marks.of_peer(&stream)));
        served
    }

    fn answer(
        &mut self,
        stream: &mut TcpStream,
        stop: &StopSignal,
    ) -> Result<Received, TransportError> {
        loop {
            let before = self.marks.as_ref().and_then(|marks| marks.before_reading(stream));
            match read_some(stream, self.requests.room(), stop, None) {
                Ok(Got::Bytes(got)) => {
                    self.replies.add(self.requests.took(got));
                    if let Some(marks) = &mut self.marks {
                        marks.read(got as u64, before);
                    }
                }
                Ok(Got::Nothing) => continue,
                Ok(Got::End) if self.requests.is_between_messages() => return Ok(self.received()),
                Ok(Got::End) => return Err(closed()),
                Err(_) if stop.is_given() => return Ok(self.received()),
                Err(error) => return Err(error),
            }
            // The client takes replies also while it sends: this wait ends.
            let (left, before) =
                (self.replies.left(), self.marks.as_ref().and_then(StreamMarks::before));
            match self.replies.send(stream, stop, None) {
                Err(_) if stop.is_given() => return Ok(self.received()),
                sent => sent?,
            }
            if let Some(marks) = &mut self.marks {
                marks.wrote(left, before);
                marks.end_answered();
            }
        }
    }

    fn received(&self) -> Received {
        let messages = self.requests.messages;
        Received {
            messages,
            bytes: messages.saturating_mul(self.size),
            verified: u64::from(self.requests.verified.is_some()),
            corrupt: u64::from(self.requests.verified == Some(false)),
            ..Received::default()
        }
    }
}
