//! Plain TCP through a named interface: the floor under gRPC on the same path.
//!
//! A ping-pong is the bare message there and back. In a push each message has one byte in front,
//! which tells data from the request to confirm; the receiver answers that with its counts. Calls are
//! the module `calls`.

mod calls;
mod duplex;
mod fetch;
mod inbox;
mod push;
mod stream;

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use fabricbench_grpc::{Binding, ConnectOptions, ListenOptions, socket};
use fabricbench_ipoib::PathChoice;

pub use self::calls::{TcpCalls, TcpCallsOpening};
use self::{
    calls::Answering,
    duplex::Duplex,
    fetch::Fetch,
    inbox::{CONFIRM, COUNTS, DATA, Inbox, Said, answer, counts},
    push::Spread,
    stream::Outgoing,
};
use super::{
    Answer, Completed, Initiator, Offer, Opening, Operation, Patience, Received, Responder,
    StopSignal, TcpEndpoint, TransportError,
    buffer::{filled, zeroed},
    grpc::GrpcSettings,
    wait::{go_on, stopped},
};
use crate::plan::{Cell, Pattern, Payload};

/// How long a socket call blocks before the stop signal is looked at.
const TURN: Duration = Duration::from_millis(100);

/// How much the receiver of a push reads at once: as iperf3 does by default.
const READ_BUFFER: usize = 128 << 10;

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
    /// Ends every wait.
    pub stop: StopSignal,
}

impl Opening for TcpOpening {
    type Initiator = TcpInitiator;

    fn offer(&self) -> Offer {
        Offer::Tcp(wish(&self.path, self.connections))
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
                Way::There(OneWay { stream, payload, message, echo, verified, patience, stop })
            }
            Pattern::Calls | Pattern::Ps => {
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
            let (stream, binding) = socket::connect_blocking(&options).map_err(failed)?;
            prepare(&stream)?;
            settings.insert("socket bound to".to_owned(), bound_to(&binding));
            streams.push(stream);
        }
        Ok((streams, settings))
    }
}

/// A message of a push, with its mark in front.
fn marked(size: u64, payload: &Payload) -> Result<Vec<u8>, TransportError> {
    let mut message = zeroed(size.saturating_add(1))?;
    message[0] = DATA;
    payload.fill(&mut message[1..]);
    Ok(message)
}

/// Where the server is to listen.
pub(super) fn wish(path: &PathChoice, connections: u32) -> TcpEndpoint {
    TcpEndpoint {
        interface: path.remote_interface.clone(),
        address: path.remote_addr,
        connections: connections.max(1),
        grpc: GrpcSettings::default(),
    }
}

/// How to connect to the listener of an answer, from the local end of `path`.
pub(super) fn connect_options(
    path: &PathChoice,
    answer: &Answer,
    timeout: Duration,
) -> Result<ConnectOptions, TransportError> {
    match answer {
        Answer::Tcp { port, .. } => Ok(ConnectOptions::new(path.remote_socket_addr(*port))
            .interface(&path.local_interface)
            .local_address(path.local_addr)
            .timeout(timeout)),
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

    fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }
}

/// A ping-pong, or a push.
#[derive(Debug)]
struct OneWay {
    stream: TcpStream,
    payload: Payload,
    message: Outgoing,
    // Room for the echo; empty in a push.
    echo: Vec<u8>,
    verified: Option<bool>,
    patience: Patience,
    stop: StopSignal,
}

impl OneWay {
    fn send(&mut self) -> Result<(), TransportError> {
        self.message.add(1);
        self.message.send(&mut self.stream, &self.stop, Some(self.patience))
    }

    /// Whether the echo is here, where there is one.
    fn hear(&mut self, patience: Patience) -> Result<bool, TransportError> {
        if self.echo.is_empty() {
            return Ok(true);
        }
        let whole = read_exact(&mut self.stream, &mut self.echo, &self.stop, Some(patience))?;
        if whole && self.verified.is_none() {
            self.verified = Some(self.payload.matches(&self.echo));
        }
        Ok(whole)
    }

    fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
        write_all(&mut self.stream, &[CONFIRM], &self.stop, Some(patience))?;
        // CONFIRM is in front of the answer as well.
        let mut confirmed = [0; 1 + COUNTS];
        if !read_exact(&mut self.stream, &mut confirmed, &self.stop, Some(patience))? {
            return Err(TransportError::Failed(format!(
                "the receiver did not confirm within {:?}",
                patience.0
            )));
        }
        counts(&confirmed)
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

/// What ties a socket to its interface, in words.
pub(super) fn bound_to(binding: &Binding) -> String {
    match binding {
        Binding::Device { interface } => format!("interface {interface}"),
        Binding::SourceAddressOnly { address, why } => format!("address {address} only: {why}"),
        Binding::Unbound => "nothing".to_owned(),
    }
}

/// The server's side: a listener that takes as many connections as were asked for, and serves each of
/// several on a thread of its own.
#[derive(Debug)]
pub struct TcpResponder {
    listener: TcpListener,
    // Of each connection.
    work: Vec<Work>,
}

/// What is done with a connection. The memory for it is there before it is promised.
#[derive(Debug)]
enum Work {
    /// With room for a message.
    Echo(Payload, Vec<u8>),
    Sink(Inbox),
    /// With the message.
    Source(Outgoing),
    /// With what is received, and the message, which has its mark in front.
    Both(Inbox, Vec<u8>),
    Calls(Answering),
}

impl TcpResponder {
    /// Listens on the interface and address that were asked for.
    ///
    /// # Errors
    /// There is no such interface or address here, no port is free, or no memory for a message.
    pub fn listen(
        cell: &Cell,
        payload: Payload,
        wish: &TcpEndpoint,
    ) -> Result<(Self, SocketAddr), TransportError> {
        let work = (0..wish.connections).map(|_| Work::new(cell, payload.clone()));
        let work = work.collect::<Result<_, _>>()?;
        let options =
            ListenOptions::new(SocketAddr::new(wish.address, 0)).interface(&wish.interface);
        let (listener, _) = socket::listen(&options).map_err(failed)?;
        let address = listener.local_addr().map_err(|error| io_failed("listen", &error))?;
        Ok((Self { listener, work }, address))
    }
}

impl Responder for TcpResponder {
    fn serve(self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError> {
        let Self { listener, mut work } = *self;
        if work.len() == 1
            && let Some(work) = work.pop()
        {
            let Some(stream) = accept(&listener, stop)? else { return Ok(Received::default()) };
            prepare(&stream)?;
            return work.serve(stream, stop);
        }
        thread::scope(|scope| {
            let mut serving = Vec::new();
            for work in work {
                let Some(stream) = accept(&listener, stop)? else { break };
                prepare(&stream)?;
                let serve = move || work.serve(stream, stop);
                let started = thread::Builder::new().spawn_scoped(scope, serve);
                serving.push(started.map_err(|error| no_thread(&error))?);
            }
            serving.into_iter().try_fold(Received::default(), |sum, one| {
                let served = one.join().unwrap_or_else(|_| Err(failed("the responder panicked")));
                Ok(sum + served?)
            })
        })
    }
}

impl Work {
    fn new(cell: &Cell, payload: Payload) -> Result<Self, TransportError> {
        let inbox = || Inbox::new(cell.size, payload.clone(), false);
        Ok(match cell.pattern {
            Pattern::Latency => Self::Echo(payload, zeroed(cell.size)?),
            Pattern::Bandwidth | Pattern::Rate => Self::Sink(inbox()?),
            Pattern::Fetch => {
                Self::Source(Outgoing::new(filled(cell.size, &payload, cell.buffers.as_ref())?))
            }
            Pattern::Bidirectional => Self::Both(inbox()?, marked(cell.size, &payload)?),
            Pattern::Calls | Pattern::Ps => Self::Calls(Answering::new(cell, &payload)?),
        })
    }

    fn serve(self, stream: TcpStream, stop: &StopSignal) -> Result<Received, TransportError> {
        match self {
            Self::Echo(payload, message) => echo(stream, &payload, message, stop),
            Self::Sink(inbox) => sink(stream, inbox, stop),
            Self::Source(message) => fetch::serve(stream, message, stop),
            Self::Both(inbox, message) => duplex::serve(stream, inbox, &message, stop),
            Self::Calls(calls) => calls.serve(stream, stop),
        }
    }
}

fn echo(
    mut stream: TcpStream,
    payload: &Payload,
    mut message: Vec<u8>,
    stop: &StopSignal,
) -> Result<Received, TransportError> {
    let mut received = Received::default();
    loop {
        // The client's close between two messages is the end, as is the stop signal.
        match read_some(&mut stream, &mut message, stop, None) {
            Ok(Got::Bytes(got)) => {
                read_exact(&mut stream, &mut message[got..], stop, None)?;
            }
            Ok(Got::Nothing) => continue,
            Ok(Got::End) => return Ok(received),
            Err(_) if stop.is_given() => return Ok(received),
            Err(error) => return Err(error),
        }
        count(&mut received, payload, &message);
        write_all(&mut stream, &message, stop, None)?;
    }
}

fn sink(
    mut stream: TcpStream,
    mut inbox: Inbox,
    stop: &StopSignal,
) -> Result<Received, TransportError> {
    let mut buffer = vec![0; READ_BUFFER];
    loop {
        let got = match read_some(&mut stream, &mut buffer, stop, None) {
            Ok(Got::Bytes(got)) => got,
            Ok(Got::Nothing) => continue,
            Ok(Got::End) if inbox.is_between_messages() => return Ok(inbox.received()),
            Ok(Got::End) => return Err(closed()),
            Err(_) if stop.is_given() => return Ok(inbox.received()),
            Err(error) => return Err(error),
        };
        let mut unread = &buffer[..got];
        while !unread.is_empty() {
            if inbox.take(&mut unread)? == Some(Said::Confirm) {
                write_all(&mut stream, &answer(&inbox.received()), stop, None)?;
            }
        }
    }
}

/// Counts a message, and verifies the first one: it comes in warm-up, where it disturbs nothing.
fn count(received: &mut Received, payload: &Payload, message: &[u8]) {
    if received.messages == 0 {
        received.verified = 1;
        received.corrupt = u64::from(!payload.matches(message));
    }
    received.messages += 1;
    received.bytes += message.len() as u64;
}

fn prepare(stream: &TcpStream) -> Result<(), TransportError> {
    let set = || -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TURN))?;
        stream.set_write_timeout(Some(TURN))
    };
    set().map_err(|error| io_failed("set up the socket", &error))
}

fn accept(listener: &TcpListener, stop: &StopSignal) -> Result<Option<TcpStream>, TransportError> {
    listener.set_nonblocking(true).map_err(|error| io_failed("listen", &error))?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if stop.is_given() {
                    return Ok(None);
                }
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(io_failed("accept", &error)),
        }
    }
}

fn write_all(
    stream: &mut TcpStream,
    mut bytes: &[u8],
    stop: &StopSignal,
    patience: Option<Patience>,
) -> Result<(), TransportError> {
    go_on(stop)?;
    let mut clock = Turns::new(patience);
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(closed()),
            Ok(written) => {
                bytes = &bytes[written..];
                // Patience is for a stream that does not move, not for a long message.
                clock = Turns::new(patience);
            }
            Err(error) if again(&error) => {
                if !clock.turn(stop)? {
                    return Err(TransportError::Failed(
                        "the receiver takes no more bytes; the data path may be cut".to_owned(),
                    ));
                }
            }
            Err(error) => return Err(io_failed("send", &error)),
        }
    }
    Ok(())
}

/// `Ok(false)` when patience ended before the first byte or in between.
fn read_exact(
    stream: &mut TcpStream,
    mut buffer: &mut [u8],
    stop: &StopSignal,
    patience: Option<Patience>,
) -> Result<bool, TransportError> {
    while !buffer.is_empty() {
        match read_some(stream, buffer, stop, patience)? {
            Got::Bytes(got) => buffer = &mut buffer[got..],
            Got::Nothing => return Ok(false),
            Got::End => return Err(closed()),
        }
    }
    Ok(true)
}

/// What a read came to.
enum Got {
    /// So many bytes.
    Bytes(usize),
    /// Nothing before patience ended.
    Nothing,
    /// The other side has closed.
    End,
}

fn read_some(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    stop: &StopSignal,
    patience: Option<Patience>,
) -> Result<Got, TransportError> {
    go_on(stop)?;
    let mut clock = Turns::new(patience);
    loop {
        match stream.read(buffer) {
            Ok(0) => return Ok(Got::End),
            Ok(got) => return Ok(Got::Bytes(got)),
            Err(error) if again(&error) => {
                if !clock.turn(stop)? {
                    return Ok(Got::Nothing);
                }
            }
            Err(error) => return Err(io_failed("receive", &error)),
        }
    }
}

/// Counts the time-outs of one wait.
struct Turns {
    patience: Option<Patience>,
    since: Option<Instant>,
}

impl Turns {
    fn new(patience: Option<Patience>) -> Self {
        Self { patience, since: None }
    }

    fn turn(&mut self, stop: &StopSignal) -> Result<bool, TransportError> {
        if stop.is_given() {
            return Err(stopped(stop));
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        Ok(self.patience.is_none_or(|patience| since.elapsed() < patience.0))
    }
}

fn no_thread(error: &io::Error) -> TransportError {
    TransportError::Failed(format!(
        "no thread for a connection: {error}; give fewer --connections, --threads or --workers, or raise \
         the server's limit (ulimit -u, or TasksMax of a unit)"
    ))
}

fn again(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

fn closed() -> TransportError {
    TransportError::Failed("the other side closed the data connection".to_owned())
}

fn io_failed(what: &str, error: &io::Error) -> TransportError {
    TransportError::Failed(format!("cannot {what}: {error}"))
}

fn failed(error: impl ToString) -> TransportError {
    TransportError::Failed(error.to_string())
}
