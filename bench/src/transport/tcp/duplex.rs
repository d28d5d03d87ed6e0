//! Both directions of a socket at once, on one thread: neither side may wait for room to send
//! without receiving meanwhile, or both would wait for ever.
//!
//! Either way it goes as in a push. The server pushes from the client's first message until the
//! client asks it to confirm; its counts stand behind its last message.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use super::{
    inbox::{CONFIRM, Inbox, Said, answer},
    socket::{READ_BUFFER, TURN, Turns, again, closed, io_failed, timespec},
};
use crate::transport::{Patience, Received, StopSignal, TransportError, wait::go_on};

/// One side of one connection.
#[derive(Debug)]
struct Link {
    stream: TcpStream,
    inbox: Inbox,
    buffer: Vec<u8>,
    // Bytes written since it was read: who may write much without a pause is not to forget to read.
    unread: usize,
    // Whether the one that is to have it has asked for the counts, and what they are.
    asked: bool,
    counts: Option<Received>,
}

/// What a read came to.
enum Heard {
    /// No bytes are there.
    Nothing,
    /// Messages, or parts of them.
    Bytes,
    /// Something beside.
    Said(Said),
    /// The other side has closed.
    End,
}

impl Link {
    fn new(stream: TcpStream, inbox: Inbox) -> Result<Self, TransportError> {
        stream.set_nonblocking(true).map_err(|error| io_failed("set up the socket", &error))?;
        let buffer = vec![0; READ_BUFFER];
        Ok(Self { stream, inbox, buffer, unread: 0, asked: false, counts: None })
    }

    /// Writes what there is room for: 0 if there is none.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, TransportError> {
        match self.stream.write(bytes) {
            Ok(0) => Err(closed()),
            Ok(written) => {
                self.unread += written;
                Ok(written)
            }
            Err(error) if again(&error) => Ok(0),
            Err(error) => Err(io_failed("send", &error)),
        }
    }

    fn is_to_be_read(&self) -> bool {
        self.unread >= READ_BUFFER
    }

    fn read(&mut self) -> Result<Heard, TransportError> {
        self.unread = 0;
        let got = match self.stream.read(&mut self.buffer) {
            Ok(0) => return Ok(Heard::End),
            Ok(got) => got,
            Err(error) if again(&error) => return Ok(Heard::Nothing),
            Err(error) => return Err(io_failed("receive", &error)),
        };
        let mut unread = self.buffer.get(..got).unwrap_or_default();
        match self.inbox.take(&mut unread)? {
            None => Ok(Heard::Bytes),
            // Each side waits for what follows it.
            Some(_) if !unread.is_empty() => Err(TransportError::Failed(format!(
                "{} bytes behind the end of the messages",
                unread.len()
            ))),
            Some(said) => Ok(Heard::Said(said)),
        }
    }
}

/// Sleeps until one of `links` has bytes, or the one that `writes` has room, but no longer than a
/// turn.
fn wait<'a>(
    links: impl Iterator<Item = &'a Link>,
    writes: Option<usize>,
) -> Result<(), TransportError> {
    let mut fds: Vec<_> = links
        .enumerate()
        .map(|(index, link)| {
            let room = if writes == Some(index) { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(&link.stream, PollFlags::IN | room)
        })
        .collect();
    match poll(&mut fds, Some(&timespec(TURN))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(io_failed("wait for the socket", &io::Error::from(error))),
    }
}

/// The client's side, over one connection or several in turns.
#[derive(Debug)]
pub(super) struct Duplex {
    links: Vec<Link>,
    // Which link sends next.
    turn: usize,
    // With DATA in front.
    message: Vec<u8>,
    stop: StopSignal,
}

impl Duplex {
    /// Over connections and what is received by each; `message` has its mark in front.
    pub(super) fn new(
        connections: Vec<(TcpStream, Inbox)>,
        message: Vec<u8>,
        stop: StopSignal,
    ) -> Result<Self, TransportError> {
        let links: Result<Vec<_>, _> =
            connections.into_iter().map(|(stream, inbox)| Link::new(stream, inbox)).collect();
        Ok(Self { links: links?, turn: 0, message, stop })
    }

    /// Sends a message.
    pub(super) fn send(&mut self, patience: Patience) -> Result<(), TransportError> {
        let turn = self.turn;
        self.turn = (turn + 1) % self.links.len();
        let message = std::mem::take(&mut self.message);
        let sent = self.write_all(turn, &message, patience);
        self.message = message;
        sent
    }

    /// Receives by every link while `turn` has no room.
    fn write_all(
        &mut self,
        turn: usize,
        mut bytes: &[u8],
        patience: Patience,
    ) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        let mut clock = Turns::new(Some(patience));
        while !bytes.is_empty() {
            let link = self.links.get_mut(turn).ok_or_else(closed)?;
            let written = link.write(bytes)?;
            bytes = bytes.get(written..).unwrap_or_default();
            let mut moved = written > 0;
            if !moved || link.is_to_be_read() {
                moved |= self.receive()?;
            }
            if moved {
                clock = Turns::new(Some(patience));
            } else {
                wait(self.links.iter(), Some(turn))?;
                if !clock.turn(&self.stop)? {
                    return Err(TransportError::Failed(
                        "the receiver takes no more bytes; the data path may be cut".to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Reads every link once; whether there was anything.
    fn receive(&mut self) -> Result<bool, TransportError> {
        let mut any = false;
        for link in &mut self.links {
            match link.read()? {
                Heard::Nothing => continue,
                Heard::Bytes => {}
                Heard::Said(Said::Counts(counts)) if link.asked => {
                    (link.asked, link.counts) = (false, Some(counts));
                }
                Heard::End => return Err(closed()),
                Heard::Said(_) => {
                    return Err(TransportError::Failed(
                        "the receiver confirmed without being asked to".to_owned(),
                    ));
                }
            }
            any = true;
        }
        Ok(any)
    }

    /// Has every link confirmed, and all that the server has pushed received.
    pub(super) fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
        for turn in 0..self.links.len() {
            self.links.get_mut(turn).ok_or_else(closed)?.asked = true;
            self.write_all(turn, &[CONFIRM], patience)?;
        }
        let mut clock = Turns::new(Some(patience));
        while self.links.iter().any(|link| link.asked) {
            if self.receive()? {
                clock = Turns::new(Some(patience));
                continue;
            }
            wait(self.links.iter(), None)?;
            if !clock.turn(&self.stop)? {
                return Err(TransportError::Failed(format!(
                    "the receiver did not confirm within {:?}",
                    patience.0
                )));
            }
        }
        let counts = self.links.iter_mut().filter_map(|link| link.counts.take());
        let confirmed = counts.fold(Received::default(), |sum, one| sum + one);
        Ok(Received { returned: self.received().messages, ..confirmed })
    }

    /// What the server has pushed, as far as it is here.
    pub(super) fn received(&self) -> Received {
        let received = self.links.iter().map(|link| link.inbox.received());
        received.fold(Received::default(), |sum, one| sum + one)
    }
}

/// The server's side of one connection: receives until the client closes it, or `stop`, and pushes
/// `message`, which has its mark in front, whenever the client does.
pub(super) fn serve(
    stream: TcpStream,
    inbox: Inbox,
    message: &[u8],
    stop: &StopSignal,
) -> Result<Received, TransportError> {
    let mut link = Link::new(stream, inbox)?;
    let mut pushed = 0;
    let served = push(&mut link, message, stop, &mut pushed);
    let received = Received { returned: pushed, ..link.inbox.received() };
    match served {
        Err(_) if stop.is_given() => Ok(received),
        served => served.map(|()| received),
    }
}

fn push(
    link: &mut Link,
    message: &[u8],
    stop: &StopSignal,
    pushed: &mut u64,
) -> Result<(), TransportError> {
    let mut pushing = false;
    let mut sending: &[u8] = &[];
    loop {
        go_on(stop)?;
        if sending.is_empty() {
            if link.asked {
                link.asked = false;
                write_all(link, &answer(&link.inbox.received()), stop)?;
            } else if pushing {
                sending = message;
            }
        }
        let mut moved = false;
        if !sending.is_empty() {
            let written = link.write(sending)?;
            sending = sending.get(written..).unwrap_or_default();
            moved = written > 0;
            *pushed += u64::from(sending.is_empty());
        }
        if !moved || link.is_to_be_read() {
            match link.read()? {
                Heard::Nothing => {}
                Heard::Bytes => (pushing, moved) = (true, true),
                Heard::Said(Said::Confirm) => (pushing, link.asked, moved) = (false, true, true),
                Heard::End if link.inbox.is_between_messages() => return Ok(()),
                Heard::End | Heard::Said(Said::Counts(_)) => return Err(closed()),
            }
        }
        if !moved {
            let writes = if sending.is_empty() { None } else { Some(0) };
            wait(std::iter::once(&*link), writes)?;
        }
    }
}

/// For the few bytes behind which the other side waits.
fn write_all(link: &mut Link, mut bytes: &[u8], stop: &StopSignal) -> Result<(), TransportError> {
    while !bytes.is_empty() {
        go_on(stop)?;
        match link.write(bytes)? {
            0 => wait(std::iter::once(&*link), Some(0))?,
            written => bytes = bytes.get(written..).unwrap_or_default(),
        }
    }
    Ok(())
}
