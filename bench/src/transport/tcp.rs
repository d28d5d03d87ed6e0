//! Plain TCP through a named interface: the floor under gRPC on the same path.
//!
//! A ping-pong is the bare message there and back. In a push each message has one byte in front,
//! which tells data from the request to confirm; the receiver answers that with its counts. Calls are
//! the module `calls`.

mod calls;
mod door;
mod duplex;
mod fetch;
#[cfg(fuzzing)]
mod fuzzing;
mod gathered;
mod inbox;
mod marks;
mod one_way;
mod push;
mod responder;
mod socket;
mod stream;
mod tensors;
mod unsent;

use std::{
    collections::{BTreeMap, VecDeque},
    net::TcpStream,
    time::Duration,
};

use fabricbench_grpc::{Binding, ConnectOptions, marks::Side, socket::connect_blocking_unless};
use fabricbench_ipoib::PathChoice;

#[cfg(fuzzing)]
pub(crate) use fuzzing::tcp_stream;

pub use self::{
    calls::{TcpCalls, TcpCallsOpening},
    responder::TcpResponder,
    tensors::TcpTensors,
};
use self::{
    duplex::Duplex,
    fetch::Fetch,
    inbox::{DATA, Inbox},
    marks::StreamMarks,
    one_way::OneWay,
    push::Spread,
    socket::{failed, prepare},
    stream::Outgoing,
};
use super::{
    Answer, Completed, Initiator, MarkedConnection, Marking, Offer, Opening, Operation, Patience,
    Received, StopSignal, TcpEndpoint, TransportError,
    buffer::{filled, zeroed},
    grpc::GrpcSettings,
    wait::stopped,
};
use crate::plan::{Cell, Pattern, Payload};

/// The client's side before it is connected.
#[derive(Debug)]
pub struct TcpOpening {
    /// Pattern and size.
    pub cell: Cell,
    /// What to send.
    pub payload: Payload,
    /// Both ends' interfaces and addresses.
    pub path: PathChoice,
    /// Time to connect, and time without a byte taken or answered.
    pub timeout: Duration,
    /// Messages in flight on each connection at the most.
    pub depth: u32,
    /// Connections, each over a socket of its own.
    pub connections: u32,
    /// How calls are marked; `None`: none is.
    pub marking: Option<Marking>,
    /// Ends every wait.
    pub stop: StopSignal,
}

impl Opening for TcpOpening {
    type Initiator = TcpInitiator;

    fn offer(&self) -> Offer {
        let one_in = self.marking.as_ref().map(Marking::one_in);
        Offer::Tcp(TcpEndpoint { one_in, ..wish(&self.path, self.connections) })
    }

    fn connect(self, answer: &Answer) -> Result<TcpInitiator, TransportError> {
        let (mut streams, settings) = self.streams(answer)?;
        let (size, depth, stop) = (self.cell.size, self.depth.max(1), self.stop);
        let buffers = self.cell.buffers.as_ref();
        let patience = Patience(self.timeout);
        let way = match self.cell.pattern {
            Pattern::Fetch => {
                let load = (depth, size);
                Way::Fetch(Fetch::new(streams, load, self.payload, patience, stop)?)
            }
            Pattern::Bidirectional => {
                let message = marked(size, &self.payload)?;
                let with_inbox =
                    |stream| Ok((stream, Inbox::new(size, self.payload.clone(), true)?));
                let links: Result<_, TransportError> =
                    streams.into_iter().map(with_inbox).collect();
                Way::Both(Duplex::new(links?, message, stop)?)
            }
            Pattern::Latency => {
                let stream = streams.pop().ok_or_else(|| failed("no connection"))?;
                let echo = zeroed(size)?;
                let message = Outgoing::new(filled(size, &self.payload, buffers)?);
                let (payload, verified) = (self.payload, None);
                let marks = self
                    .marking
                    .as_ref()
                    .map(|marking| StreamMarks::new(marking, Side::Client, (size, size)));
                Way::There(OneWay {
                    stream,
                    payload,
                    message,
                    echo,
                    verified,
                    marks,
                    patience,
                    stop,
                })
            }
            Pattern::Calls | Pattern::Ps | Pattern::TensorPush | Pattern::TensorFetch => {
                return Err(failed("calls have an opening of their own"));
            }
            Pattern::Bandwidth | Pattern::Rate => {
                let message = match buffers {
                    None => vec![marked(size, &self.payload)?],
                    Some(_) => {
                        let buffers = filled(size, &self.payload, buffers)?;
                        std::iter::once(vec![DATA]).chain(buffers).collect()
                    }
                };
                let (message, echo) = (Outgoing::new(message), Vec::new());
                let (payload, verified) = (self.payload, None);
                match streams.pop() {
                    // One is simply written to: as a program does, and iperf3.
                    Some(stream) if streams.is_empty() => Way::There(OneWay {
                        stream,
                        payload,
                        message,
                        echo,
                        verified,
                        marks: None,
                        patience,
                        stop,
                    }),
                    last => {
                        streams.extend(last);
                        Way::Spread(Spread::new(streams, &message, stop))
                    }
                }
            }
        };
        let depth = depth as usize * self.connections.max(1) as usize;
        let handed_over = VecDeque::with_capacity(depth);
        Ok(TcpInitiator { way, depth, handed_over, patience, settings })
    }
}

impl TcpOpening {
    /// Connects, and says what is in force.
    fn streams(
        &self,
        answer: &Answer,
    ) -> Result<(Vec<TcpStream>, BTreeMap<String, String>), TransportError> {
        let options = connect_options(&self.path, answer, self.timeout)?;
        let mut settings = BTreeMap::from([("TCP_NODELAY".to_owned(), "on".to_owned())]);
        let mut streams = Vec::new();
        for _ in 0..self.connections.max(1) {
            let connected = connect_blocking_unless(&options, &|| self.stop.is_given());
            let (stream, binding) = match connected {
                Err(_) if self.stop.is_given() => return Err(stopped(&self.stop)),
                connected => connected.map_err(failed)?,
            };
            prepare(&stream)?;
            settings.insert(SOCKET_BINDING.to_owned(), bound_to(&binding));
            streams.push(stream);
        }
        Ok((streams, settings))
    }
}

/// A message of a push, with its mark in front.
fn marked(size: u64, payload: &Payload) -> Result<Vec<u8>, TransportError> {
    let mut message = zeroed(size.saturating_add(1))?;
    if let Some((mark, content)) = message.split_first_mut() {
        *mark = DATA;
        payload.fill(content);
    }
    Ok(message)
}

/// Where the server is to listen.
pub(super) fn wish(path: &PathChoice, connections: u32) -> TcpEndpoint {
    TcpEndpoint {
        interface: path.remote_interface.clone(),
        address: path.remote_addr,
        connections: connections.max(1),
        grpc: GrpcSettings::default(),
        one_in: None,
    }
}

/// How to connect to the listener of an answer, from the local end of `path`.
pub(super) fn connect_options(
    path: &PathChoice,
    answer: &Answer,
    timeout: Duration,
) -> Result<ConnectOptions, TransportError> {
    match answer {
        Answer::Tcp { port, key, .. } => Ok(ConnectOptions::new(path.remote_socket_addr(*port))
            .interface(&path.local_interface)
            .local_address(path.local_addr)
            .timeout(timeout)
            .key(key.0.clone())),
        Answer::Verbs(_) | Answer::Managed { .. } => Err(TransportError::Failed(
            "the server answered with a queue pair where a listener was asked for".to_owned(),
        )),
    }
}

/// The client's side.
#[derive(Debug)]
pub struct TcpInitiator {
    way: Way,
    depth: usize,
    // Tokens of messages that the socket has taken, or of the one whose echo is awaited.
    handed_over: VecDeque<u64>,
    patience: Patience,
    settings: BTreeMap<String, String>,
}

/// What a pattern does with the socket.
#[derive(Debug)]
enum Way {
    There(OneWay),
    Spread(Spread),
    Fetch(Fetch),
    Both(Duplex),
}

impl Initiator for TcpInitiator {
    fn depth(&self) -> usize {
        self.depth
    }

    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        match &mut self.way {
            // A stream has no queue but its buffer: a full one makes the caller wait here.
            Way::There(way) => way.send()?,
            Way::Spread(way) => way.send(self.patience)?,
            Way::Both(way) => way.send(self.patience)?,
            Way::Fetch(way) => return way.submit(operation),
        }
        self.handed_over.push_back(operation.token);
        Ok(())
    }

    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        match &mut self.way {
            Way::There(way) => {
                if !way.hear(patience)? {
                    return Ok(());
                }
            }
            Way::Spread(_) | Way::Both(_) => {}
            Way::Fetch(way) => return way.complete(patience, done),
        }
        hand_over(&mut self.handed_over, done);
        Ok(())
    }

    fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
        match &mut self.way {
            Way::There(way) => way.confirm(patience),
            Way::Spread(way) => way.confirm(patience),
            Way::Both(way) => way.confirm(patience),
            Way::Fetch(way) => Ok(way.received()),
        }
    }

    fn verified(&self) -> (u64, u64) {
        let received = match &self.way {
            Way::There(way) => return way.verified.map_or((0, 0), |same| (1, u64::from(!same))),
            // The receiver looks at what it gets.
            Way::Spread(_) => return (0, 0),
            Way::Both(way) => way.received(),
            Way::Fetch(way) => way.received(),
        };
        (received.verified, received.corrupt)
    }

    fn marks(&self) -> Vec<MarkedConnection> {
        match &self.way {
            Way::There(way) => way.marks.as_ref().and_then(|marks| marks.of(&way.stream)),
            Way::Spread(_) | Way::Both(_) | Way::Fetch(_) => None,
        }
        .into_iter()
        .collect()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }
}

/// Hands over as many tokens as `done` has room for.
pub(super) fn hand_over(tokens: &mut VecDeque<u64>, done: &mut Completed) {
    while done.room() > 0
        && let Some(token) = tokens.pop_front()
    {
        done.push(token);
    }
}

/// The setting that says what ties a socket to its interface.
pub const SOCKET_BINDING: &str = "socket bound to";

/// How that begins where it is a source address, and not the interface.
pub const ADDRESS_ONLY: &str = "address";

/// What ties a socket to its interface, in words.
pub(super) fn bound_to(binding: &Binding) -> String {
    match binding {
        Binding::Device { interface } => format!("interface {interface}"),
        Binding::SourceAddressOnly { address, why } => {
            format!("{ADDRESS_ONLY} {address} only: {why}")
        }
        Binding::Unbound => "nothing".to_owned(),
    }
}
