//! Messages taken from the server: a request is a number, 64 bits, big-endian, and is answered with
//! so many messages, the bare bytes.

use std::{collections::VecDeque, net::TcpStream};

use super::{
    socket::{Got, READ_BUFFER, closed, read_exact, read_some, write_all},
    stream::Outgoing,
};
use crate::{
    plan::Payload,
    transport::{
        Completed, Operation, Patience, Received, StopSignal, TransportError, buffer::zeroed,
        requests::Requests, wait::go_on,
    },
};

/// The client's side, over one connection or several in turns.
#[derive(Debug)]
pub(super) struct Fetch {
    sources: Vec<Source>,
    requests: Requests,
    // What is on its way, in the order in which it was asked for: from which source, and how many
    // messages.
    asked: VecDeque<(usize, u64)>,
    tokens: VecDeque<u64>,
    // Which source is asked next.
    turn: usize,
    buffer: Vec<u8>,
    arrivals: Arrivals,
    patience: Patience,
    stop: StopSignal,
}

/// A connection, and what has been read from it and not been handed over.
#[derive(Debug)]
struct Source {
    stream: TcpStream,
    messages: u64,
    // Bytes of the message that has begun.
    begun: u64,
}

/// Counts what arrives, and keeps the first message for verification: it comes in warm-up.
#[derive(Debug)]
struct Arrivals {
    size: u64,
    payload: Payload,
    first: Vec<u8>,
    received: Received,
}

impl Fetch {
    pub(super) fn new(
        streams: Vec<TcpStream>,
        (depth, size): (u32, u64),
        payload: Payload,
        patience: Patience,
        stop: StopSignal,
    ) -> Result<Self, TransportError> {
        let source = |stream| Source { stream, messages: 0, begun: 0 };
        let first = zeroed(size)?;
        Ok(Self {
            sources: streams.into_iter().map(source).collect(),
            requests: Requests::new(depth),
            asked: VecDeque::new(),
            tokens: VecDeque::with_capacity(depth as usize),
            turn: 0,
            buffer: vec![0; READ_BUFFER],
            arrivals: Arrivals { size, payload, first, received: Received::default() },
            patience,
            stop,
        })
    }

    pub(super) fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        let asked = self.requests.want();
        self.ask(asked)?;
        self.tokens.push_back(operation.token);
        Ok(())
    }

    fn ask(&mut self, asked: Option<u64>) -> Result<(), TransportError> {
        let Some(messages) = asked else { return Ok(()) };
        let turn = self.turn;
        self.turn = (turn + 1) % self.sources.len();
        let stream = &mut self.sources.get_mut(turn).ok_or_else(closed)?.stream;
        write_all(stream, &messages.to_be_bytes(), &self.stop, Some(self.patience))?;
        self.asked.push_back((turn, messages));
        Ok(())
    }

    pub(super) fn complete(
        &mut self,
        patience: Patience,
        done: &mut Completed,
    ) -> Result<(), TransportError> {
        let asked = self.requests.wait();
        self.ask(asked)?;
        let Some((turn, left)) = self.asked.front_mut() else { return Ok(()) };
        let source = self.sources.get_mut(*turn).ok_or_else(closed)?;
        while source.messages == 0 {
            match read_some(&mut source.stream, &mut self.buffer, &self.stop, Some(patience))? {
                Got::Bytes(got) => {
                    source.take(self.buffer.get(..got).unwrap_or_default(), &mut self.arrivals);
                }
                Got::Nothing => return Ok(()),
                Got::End => return Err(closed()),
            }
        }
        let taken = source.messages.min(*left).min(done.room() as u64);
        source.messages -= taken;
        *left -= taken;
        if *left == 0 {
            self.asked.pop_front();
        }
        self.requests.arrived(taken);
        for token in self.tokens.drain(..self.tokens.len().min(taken as usize)) {
            done.push(token);
        }
        Ok(())
    }

    /// What has arrived.
    pub(super) fn received(&self) -> Received {
        self.arrivals.received
    }
}

impl Source {
    fn take(&mut self, mut bytes: &[u8], arrivals: &mut Arrivals) {
        let size = arrivals.size;
        if arrivals.received.messages == 0 {
            let rest = usize::try_from(size - self.begun).unwrap_or(usize::MAX);
            let (message, after) = bytes.split_at(bytes.len().min(rest));
            arrivals.verify(self.begun as usize, message);
            self.count(message.len() as u64, arrivals);
            bytes = after;
        }
        self.count(bytes.len() as u64, arrivals);
    }

    fn count(&mut self, bytes: u64, arrivals: &mut Arrivals) {
        let begun = self.begun + bytes;
        let (messages, begun) = (begun / arrivals.size, begun % arrivals.size);
        self.begun = begun;
        self.messages += messages;
        arrivals.received.messages += messages;
        arrivals.received.bytes += bytes;
    }
}

impl Arrivals {
    fn verify(&mut self, at: usize, part: &[u8]) {
        let end = at + part.len();
        // No more than is missing of it, as `Source::take` cuts it.
        if let Some(place) = self.first.get_mut(at..end) {
            place.copy_from_slice(part);
        }
        if end == self.first.len() {
            self.received.verified = 1;
            self.received.corrupt = u64::from(!self.payload.matches(&self.first));
        }
    }
}

/// The server's side of one connection: answers until the client closes it, or `stop`. Returns what
/// it served.
pub(super) fn serve(
    mut stream: TcpStream,
    message: Outgoing,
    stop: &StopSignal,
) -> Result<Received, TransportError> {
    let mut served = Received::default();
    match answer(&mut stream, message, stop, &mut served) {
        Err(_) if stop.is_given() => Ok(served),
        answered => answered.map(|()| served),
    }
}

fn answer(
    stream: &mut TcpStream,
    mut message: Outgoing,
    stop: &StopSignal,
    served: &mut Received,
) -> Result<(), TransportError> {
    let mut request = [0; 8];
    loop {
        match read_some(stream, &mut request, stop, None)? {
            Got::Bytes(got) => {
                read_exact(stream, request.get_mut(got..).unwrap_or_default(), stop, None)?
            }
            Got::Nothing => continue,
            Got::End => return Ok(()),
        };
        for _ in 0..u64::from_be_bytes(request) {
            message.add(1);
            message.send(stream, stop, None)?;
            served.messages += 1;
            served.bytes += message.size();
        }
    }
}
