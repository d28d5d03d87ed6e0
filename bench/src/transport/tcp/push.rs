//! A push over several connections at once: a message goes whole over one of them, whichever has
//! room, so that a slow one holds up no other.

use std::{io, net::TcpStream};

use rustix::{
    event::{PollFd, PollFlags, poll},
    net::{SendFlags, send},
};

use super::{
    CONFIRM, COUNTS, TURN, Turns, again, calls::timespec, counts, io_failed, read_exact, write_all,
};
use crate::transport::{Patience, Received, StopSignal, TransportError, wait::go_on};

/// The client's side.
#[derive(Debug)]
pub(super) struct Spread {
    lanes: Vec<Lane>,
    // Which lane is tried first.
    turn: usize,
    // With DATA in front.
    message: Vec<u8>,
    stop: StopSignal,
}

#[derive(Debug)]
struct Lane {
    stream: TcpStream,
    // Bytes of the message under way that the socket has yet to take.
    rest: usize,
    // Whether the socket may take bytes: until it has refused, and again when the kernel says so.
    has_room: bool,
}

impl Lane {
    /// Writes the rest of the message under way, as far as there is room.
    fn write(&mut self, message: &[u8]) -> Result<(), TransportError> {
        while self.rest > 0 && self.has_room {
            let rest = &message[message.len() - self.rest..];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.stream, rest, flags).map_err(io::Error::from) {
                Ok(taken) => {
                    self.has_room = taken == rest.len();
                    self.rest -= taken;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if again(&error) => self.has_room = false,
                Err(error) => return Err(io_failed("send", &error)),
            }
        }
        Ok(())
    }
}

impl Spread {
    /// Over `streams`, one at least; `message` has its mark in front.
    pub(super) fn new(streams: Vec<TcpStream>, message: Vec<u8>, stop: StopSignal) -> Self {
        let lane = |stream| Lane { stream, rest: 0, has_room: true };
        Self { lanes: streams.into_iter().map(lane).collect(), turn: 0, message, stop }
    }

    /// Begins a message on a lane that has room, waiting as long as any lane takes bytes within each
    /// `patience`.
    pub(super) fn send(&mut self, patience: Patience) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        let mut clock = Turns::new(Some(patience));
        loop {
            let count = self.lanes.len();
            for turn in (self.turn..count).chain(0..self.turn) {
                let lane = &mut self.lanes[turn];
                lane.write(&self.message)?;
                if lane.rest > 0 || !lane.has_room {
                    continue;
                }
                lane.rest = self.message.len();
                lane.write(&self.message)?;
                if lane.rest < self.message.len() {
                    self.turn = (turn + 1) % count;
                    return Ok(());
                }
                lane.rest = 0;
            }
            self.wait(&mut clock, patience)?;
        }
    }

    /// Sleeps until a lane has room.
    fn wait(&mut self, clock: &mut Turns, patience: Patience) -> Result<(), TransportError> {
        let mut sockets: Vec<_> =
            self.lanes.iter().map(|lane| PollFd::new(&lane.stream, PollFlags::OUT)).collect();
        match poll(&mut sockets, Some(&timespec(TURN))).map_err(io::Error::from) {
            Err(error) if !again(&error) => return Err(io_failed("wait for the socket", &error)),
            Ok(_) | Err(_) => {}
        }
        let ready: Vec<bool> = sockets.iter().map(|socket| !socket.revents().is_empty()).collect();
        if ready.contains(&true) {
            *clock = Turns::new(Some(patience));
        } else if !clock.turn(&self.stop)? {
            return Err(TransportError::Failed(
                "the receiver takes no more bytes; the data path may be cut".to_owned(),
            ));
        }
        for (lane, ready) in self.lanes.iter_mut().zip(ready) {
            lane.has_room |= ready;
        }
        Ok(())
    }

    /// Sends what is left, and has every lane confirm.
    pub(super) fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
        let mut clock = Turns::new(Some(patience));
        loop {
            for lane in &mut self.lanes {
                lane.write(&self.message)?;
            }
            if self.lanes.iter().all(|lane| lane.rest == 0) {
                break;
            }
            self.wait(&mut clock, patience)?;
        }
        for Lane { stream, .. } in &mut self.lanes {
            write_all(stream, &[CONFIRM], &self.stop, Some(patience))?;
        }
        let mut all = Received::default();
        for Lane { stream, has_room, .. } in &mut self.lanes {
            *has_room = true;
            // CONFIRM is in front of the answer as well.
            let mut confirmed = [0; 1 + COUNTS];
            if !read_exact(stream, &mut confirmed, &self.stop, Some(patience))? {
                return Err(TransportError::Failed(format!(
                    "the receiver did not confirm within {:?}",
                    patience.0
                )));
            }
            all = all + counts(&confirmed)?;
        }
        Ok(all)
    }
}
