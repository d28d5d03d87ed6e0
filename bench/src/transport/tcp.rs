//! Plain TCP through a named interface: the floor under gRPC on the same path.
//!
//! A ping-pong is the bare message there and back. In a push each message has one byte in front,
//! which tells data from the request to confirm; the receiver answers that with its counts. Calls are
//! the module `calls`.

mod calls;
mod stream;

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use calls::Answering;
pub use calls::{TcpCalls, TcpCallsOpening};
use fabricbench_grpc::{Binding, ConnectOptions, ListenOptions, socket};
use fabricbench_ipoib::PathChoice;

use super::{
    Answer, Completed, Initiator, Offer, Opening, Operation, Patience, Received, Responder,
    StopSignal, TcpEndpoint, TransportError,
    buffer::zeroed,
    wait::{go_on, stopped},
};
use crate::plan::{Cell, Pattern, Payload};

/// How long a socket call blocks before the stop signal is looked at.
const TURN: Duration = Duration::from_millis(100);

/// The byte before a message of a push.
const DATA: u8 = 0;
/// The byte that asks for confirmation; no message follows.
const CONFIRM: u8 = 1;

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
    /// Messages in flight at the most.
    pub depth: u32,
    /// Ends every wait.
    pub stop: StopSignal,
}

impl Opening for TcpOpening {
    type Initiator = TcpInitiator;

    fn offer(&self) -> Offer {
        Offer::Tcp(wish(&self.path))
    }

    fn connect(self, answer: &Answer) -> Result<TcpInitiator, TransportError> {
        let (stream, settings) = self.stream(answer)?;
        let framed = usize::from(self.cell.pattern != Pattern::Latency);
        let mut message = zeroed(self.cell.size.saturating_add(framed as u64))?;
        self.payload.fill(&mut message[framed..]);
        let echo = zeroed(if framed == 1 { 0 } else { self.cell.size })?;
        Ok(TcpInitiator {
            stream,
            payload: self.payload,
            echo,
            message,
            depth: self.depth.max(1) as usize,
            handed_over: VecDeque::with_capacity(self.depth as usize),
            verified: None,
            patience: Patience(self.timeout),
            settings,
            stop: self.stop,
        })
    }
}

impl TcpOpening {
    /// Connects, and says what is in force.
    fn stream(
        &self,
        answer: &Answer,
    ) -> Result<(TcpStream, BTreeMap<String, String>), TransportError> {
        let options = connect_options(&self.path, answer, self.timeout)?;
        let (stream, binding) = socket::connect_blocking(&options).map_err(failed)?;
        prepare(&stream)?;
        let settings = BTreeMap::from([
            ("TCP_NODELAY".to_owned(), "on".to_owned()),
            ("socket bound to".to_owned(), bound_to(&binding)),
        ]);
        Ok((stream, settings))
    }
}

/// Where the server is to listen.
pub(super) fn wish(path: &PathChoice) -> TcpEndpoint {
    TcpEndpoint { interface: path.remote_interface.clone(), address: path.remote_addr }
}

/// How to connect to the listener of an answer, from the local end of `path`.
pub(super) fn connect_options(
    path: &PathChoice,
    answer: &Answer,
    timeout: Duration,
) -> Result<ConnectOptions, TransportError> {
    match answer {
        Answer::Tcp { port } => Ok(ConnectOptions::new(path.remote_socket_addr(*port))
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
    stream: TcpStream,
    payload: Payload,
    message: Vec<u8>,
    echo: Vec<u8>,
    depth: usize,
    // Tokens of messages that the socket has taken, or of the one whose echo is awaited.
    handed_over: VecDeque<u64>,
    verified: Option<bool>,
    patience: Patience,
    settings: BTreeMap<String, String>,
    stop: StopSignal,
}

impl Initiator for TcpInitiator {
    fn depth(&self) -> usize {
        self.depth
    }

    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        // A stream has no queue but its buffer: a full one makes the caller wait here.
        write_all(&mut self.stream, &self.message, &self.stop, Some(self.patience))?;
        self.handed_over.push_back(operation.token);
        Ok(())
    }

    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        if !self.echo.is_empty() {
            if !read_exact(&mut self.stream, &mut self.echo, &self.stop, Some(patience))? {
                return Ok(());
            }
            if self.verified.is_none() {
                self.verified = Some(self.payload.matches(&self.echo));
            }
        }
        hand_over(&mut self.handed_over, done);
        Ok(())
    }

    fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
        write_all(&mut self.stream, &[CONFIRM], &self.stop, Some(patience))?;
        let mut counts = [0; 16];
        if !read_exact(&mut self.stream, &mut counts, &self.stop, Some(patience))? {
            return Err(TransportError::Failed(format!(
                "the receiver did not confirm within {:?}",
                patience.0
            )));
        }
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&counts[at..at + 8]);
            u64::from_be_bytes(bytes)
        };
        Ok(Received { messages: word(0), bytes: word(8), ..Received::default() })
    }

    fn verified(&self) -> (u64, u64) {
        self.verified.map_or((0, 0), |same| (1, u64::from(!same)))
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

/// What ties a socket to its interface, in words.
pub(super) fn bound_to(binding: &Binding) -> String {
    match binding {
        Binding::Device { interface } => format!("interface {interface}"),
        Binding::SourceAddressOnly { address, why } => format!("address {address} only: {why}"),
        Binding::Unbound => "nothing".to_owned(),
    }
}

/// The server's side: a listener that takes one connection.
#[derive(Debug)]
pub struct TcpResponder {
    listener: TcpListener,
    cell: Cell,
    payload: Payload,
    // Room for one message: the one that is echoed, or the first one of a push.
    message: Vec<u8>,
    // Of calls only.
    calls: Option<Answering>,
}

impl TcpResponder {
    /// Listens on the interface and address that were asked for.
    ///
    /// # Errors
    /// There is no such interface or address here, no port is free, or no memory for a message.
    pub fn listen(
        cell: Cell,
        payload: Payload,
        wish: &TcpEndpoint,
    ) -> Result<(Self, SocketAddr), TransportError> {
        let (message, calls) = match cell.pattern {
            Pattern::Calls => (Vec::new(), Some(Answering::new(&cell, &payload)?)),
            _ => (zeroed(cell.size)?, None),
        };
        let options =
            ListenOptions::new(SocketAddr::new(wish.address, 0)).interface(&wish.interface);
        let (listener, _) = socket::listen(&options).map_err(failed)?;
        let address = listener.local_addr().map_err(|error| io_failed("listen", &error))?;
        Ok((Self { listener, cell, payload, message, calls }, address))
    }
}

impl Responder for TcpResponder {
    fn serve(mut self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError> {
        let Some(stream) = accept(&self.listener, stop)? else { return Ok(Received::default()) };
        prepare(&stream)?;
        if let Some(calls) = self.calls {
            return calls.serve(stream, stop);
        }
        match self.cell.pattern {
            Pattern::Latency => self.echo(stream, stop),
            _ => self.sink(stream, stop),
        }
    }
}

impl TcpResponder {
    fn echo(
        &mut self,
        mut stream: TcpStream,
        stop: &StopSignal,
    ) -> Result<Received, TransportError> {
        let buffer = &mut self.message;
        let mut received = Received::default();
        loop {
            // The client's close between two messages is the end, as is the stop signal.
            match read_some(&mut stream, buffer, stop, None) {
                Ok(Got::Bytes(got)) => {
                    read_exact(&mut stream, &mut buffer[got..], stop, None)?;
                }
                Ok(Got::Nothing) => continue,
                Ok(Got::End) => return Ok(received),
                Err(_) if stop.is_given() => return Ok(received),
                Err(error) => return Err(error),
            }
            count(&mut received, &self.payload, buffer);
            write_all(&mut stream, buffer, stop, None)?;
        }
    }

    fn sink(
        &mut self,
        mut stream: TcpStream,
        stop: &StopSignal,
    ) -> Result<Received, TransportError> {
        let first = &mut self.message;
        let mut buffer = vec![0; READ_BUFFER];
        let mut received = Received::default();
        // Bytes still to come of the message that has begun.
        let mut rest = 0u64;
        loop {
            let got = match read_some(&mut stream, &mut buffer, stop, None) {
                Ok(Got::Bytes(got)) => got,
                Ok(Got::Nothing) => continue,
                Ok(Got::End) if rest == 0 => return Ok(received),
                Ok(Got::End) => return Err(closed()),
                Err(_) if stop.is_given() => return Ok(received),
                Err(error) => return Err(error),
            };
            let mut unread = &buffer[..got];
            while !unread.is_empty() {
                if rest == 0 {
                    let (kind, after) = (unread[0], &unread[1..]);
                    unread = after;
                    match kind {
                        DATA => rest = self.cell.size,
                        CONFIRM => {
                            let mut counts = [0; 16];
                            counts[..8].copy_from_slice(&received.messages.to_be_bytes());
                            counts[8..].copy_from_slice(&received.bytes.to_be_bytes());
                            write_all(&mut stream, &counts, stop, None)?;
                        }
                        other => {
                            return Err(TransportError::Failed(format!(
                                "byte {other} where a message should begin"
                            )));
                        }
                    }
                    continue;
                }
                let part = unread.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
                if received.messages == 0 {
                    let at = first.len() - rest as usize;
                    first[at..at + part].copy_from_slice(&unread[..part]);
                }
                unread = &unread[part..];
                rest -= part as u64;
                received.bytes += part as u64;
                if rest == 0 {
                    if received.messages == 0 {
                        received.verified = 1;
                        received.corrupt = u64::from(!self.payload.matches(first));
                    }
                    received.messages += 1;
                }
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
                std::thread::sleep(Duration::from_millis(1));
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

fn failed(error: fabricbench_grpc::Error) -> TransportError {
    TransportError::Failed(error.to_string())
}
