//! The server's side.

use std::{
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
};

use fabricbench_grpc::{Door, ListenOptions, TurnedAway, marks::Side, socket};

use super::{
    calls::Answering,
    door::Entrance,
    duplex, fetch,
    inbox::{Inbox, Said, answer},
    marked,
    marks::StreamMarks,
    socket::{
        Got, READ_BUFFER, closed, failed, io_failed, no_thread, prepare, read_some, write_all,
    },
    stream::Outgoing,
    tensors,
};
use crate::{
    plan::{Cell, Pattern, Payload},
    transport::{
        Answer, Received, Responder, ServerMarks, SliceKey, StopSignal, TcpEndpoint,
        TransportError,
        buffer::{filled, zeroed},
        tensors::Store,
    },
};

/// The server's side: takes as many connections as were asked for, of its client's alone, and serves each
/// of several on a thread of its own.
#[derive(Debug)]
pub struct TcpResponder {
    entrance: Entrance,
    // Of each connection.
    work: Vec<Work>,
    // Of all of them: those of a parameter server.
    tensors: Option<Arc<Store>>,
    // Where it leaves what it marked.
    marks: ServerMarks,
}

/// What is done with a connection. The memory for it is there before it is promised.
#[derive(Debug)]
enum Work {
    /// With room for a message.
    Echo(Payload, Vec<u8>, Option<StreamMarks>),
    Sink(Inbox),
    /// With the message.
    Source(Outgoing),
    /// With what is received, and the message, which has its mark in front.
    Both(Inbox, Vec<u8>),
    Calls(Answering),
    Tensors(tensors::Answering),
}

impl TcpResponder {
    /// Listens on the interface and address that were asked for, as server number `server` of those
    /// that a slice has. What it marks goes to `marks`.
    ///
    /// # Errors
    /// There is no such interface or address here, no port is free, or no memory for a message.
    pub fn listen(
        cell: &Cell,
        payload: Payload,
        wish: &TcpEndpoint,
        server: usize,
        depth: u32,
        marks: &ServerMarks,
    ) -> Result<(Self, Answer), TransportError> {
        let store = || Store::new(cell, server, payload.clone()).map(Arc::new);
        let tensors = cell.pattern.is_of_tensors().then(store).transpose()?;
        let marking = wish.one_in.map(|one_in| marks.marking(one_in, payload.seed()));
        let side = Side::Server { in_flight: depth, sealed: false };
        let marked = |reply| {
            let marking = marking.as_ref()?;
            Some(StreamMarks::new(marking, side, (reply, cell.size)))
        };
        let work = (0..wish.connections).map(|_| match &tensors {
            Some(store) => tensors::Answering::new(store.clone()).map(Work::Tensors),
            None => Work::new(cell, payload.clone(), marked),
        });
        let work = work.collect::<Result<Vec<_>, _>>()?;
        let options =
            ListenOptions::new(SocketAddr::new(wish.address, 0)).interface(&wish.interface);
        let (listener, _) = socket::listen(&options).map_err(failed)?;
        let address = listener.local_addr().map_err(|error| io_failed("listen", &error))?;
        let key = SliceKey::generate()?;
        let door = Door::new(key.0.clone(), work.len());
        let answer = Answer::Tcp { port: address.port(), key, certificate: None };
        let entrance = Entrance { listener, door };
        Ok((Self { entrance, work, tensors, marks: marks.clone() }, answer))
    }

    /// Who is not let in.
    #[must_use]
    pub fn turned_away(&self) -> TurnedAway {
        self.entrance.door.turned_away()
    }
}

impl Responder for TcpResponder {
    fn serve(self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError> {
        let Self { entrance, work, tensors, marks } = *self;
        let served = serve_all(entrance, work, stop, &marks)?;
        Ok(served + tensors.map_or_else(Received::default, |store| store.received()))
    }
}

/// What arrived on all connections, each served on a thread of its own where there are several.
fn serve_all(
    mut entrance: Entrance,
    mut work: Vec<Work>,
    stop: &StopSignal,
    marks: &ServerMarks,
) -> Result<Received, TransportError> {
    if work.len() == 1
        && let Some(work) = work.pop()
    {
        let Some(stream) = entrance.next(stop)? else { return Ok(Received::default()) };
        drop(entrance);
        prepare(&stream)?;
        return work.serve(stream, stop, marks);
    }
    thread::scope(|scope| {
        let mut serving = Vec::new();
        for work in work {
            let Some(stream) = entrance.next(stop)? else { break };
            prepare(&stream)?;
            let serve = move || work.serve(stream, stop, marks);
            let started = thread::Builder::new().spawn_scoped(scope, serve);
            serving.push(started.map_err(|error| no_thread(&error))?);
        }
        drop(entrance);
        serving.into_iter().try_fold(Received::default(), |sum, one| {
            let served = one.join().unwrap_or_else(|_| Err(failed("the responder panicked")));
            Ok(sum + served?)
        })
    })
}

impl Work {
    /// `marks` makes those of a connection with replies of so many bytes.
    fn new(
        cell: &Cell,
        payload: Payload,
        marks: impl Fn(u64) -> Option<StreamMarks>,
    ) -> Result<Self, TransportError> {
        let inbox = || Inbox::new(cell.size, payload.clone(), false);
        Ok(match cell.pattern {
            Pattern::Latency => Self::Echo(payload, zeroed(cell.size)?, marks(cell.size)),
            Pattern::Bandwidth | Pattern::Rate => Self::Sink(inbox()?),
            Pattern::Fetch => {
                Self::Source(Outgoing::new(filled(cell.size, &payload, cell.buffers.as_ref())?))
            }
            Pattern::Bidirectional => Self::Both(inbox()?, marked(cell.size, &payload)?),
            Pattern::Calls | Pattern::Ps => {
                Self::Calls(Answering::new(cell, &payload, marks(cell.reply_size()))?)
            }
            Pattern::TensorPush | Pattern::TensorFetch => {
                return Err(failed("the tensors of a server are those of all its connections"));
            }
        })
    }

    fn serve(
        self,
        stream: TcpStream,
        stop: &StopSignal,
        kept: &ServerMarks,
    ) -> Result<Received, TransportError> {
        match self {
            Self::Echo(payload, message, mut marks) => {
                let served = echo(&stream, &payload, message, stop, &mut marks);
                kept.keep(marks.and_then(|marks| marks.of_peer(&stream)));
                served
            }
            Self::Sink(inbox) => sink(stream, inbox, stop),
            Self::Source(message) => fetch::serve(stream, message, stop),
            Self::Both(inbox, message) => duplex::serve(stream, inbox, &message, stop),
            Self::Calls(calls) => calls.serve(stream, stop, kept),
            // Its store knows of all connections.
            Self::Tensors(calls) => calls.serve(stream, stop).map(|()| Received::default()),
        }
    }
}

fn echo(
    stream: &TcpStream,
    payload: &Payload,
    mut message: Vec<u8>,
    stop: &StopSignal,
    marks: &mut Option<StreamMarks>,
) -> Result<Received, TransportError> {
    let mut received = Received::default();
    let (mut reader, mut writer) = (stream, stream);
    let mut have = 0;
    loop {
        let before = marks.as_ref().and_then(|marks| marks.before_reading(stream));
        // The client's close between two messages is the end, as is the stop signal.
        match read_some(&mut reader, message.get_mut(have..).unwrap_or_default(), stop, None) {
            Ok(Got::Bytes(got)) => {
                have += got;
                if let Some(marks) = marks {
                    marks.read(got as u64, before);
                }
            }
            Ok(Got::Nothing) => continue,
            Ok(Got::End) if have == 0 => return Ok(received),
            Ok(Got::End) => return Err(closed()),
            Err(_) if stop.is_given() && have == 0 => return Ok(received),
            Err(error) => return Err(error),
        }
        if have < message.len() {
            continue;
        }
        have = 0;
        count(&mut received, payload, &message);
        let before = marks.as_ref().and_then(StreamMarks::before);
        write_all(&mut writer, &message, stop, None)?;
        if let Some(marks) = marks {
            marks.wrote(message.len() as u64, before);
            marks.end_answered();
        }
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
        let mut unread = buffer.get(..got).unwrap_or_default();
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
