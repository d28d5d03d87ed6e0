//! A push over several connections at once: a message goes whole over one of them, whichever has
//! room, so that a slow one holds up no other.

use std::{io, net::TcpStream};

use rustix::event::{PollFd, PollFlags, poll};

use super::{
    inbox::{CONFIRM, COUNTS, counts},
    socket::{TURN, Turns, again, io_failed, read_exact, timespec, write_all},
    stream::Outgoing,
};
use crate::transport::{Patience, Received, StopSignal, TransportError, wait::go_on};

/// The client's side.
#[derive(Debug)]
pub(super) struct Spread {
    lanes: Vec<Lane>,
    // Which lane is tried first.
    turn: usize,
    stop: StopSignal,
}

#[derive(Debug)]
struct Lane {
    stream: TcpStream,
    // The message under way, as far as the socket has yet to take it.
    message: Outgoing,
    // Whether the socket may take bytes: until it has refused, and again when the kernel says so.
    has_room: bool,
}

impl Lane {
    /// Writes the rest of the message under way, as far as there is room; whether any byte went.
    fn write(&mut self) -> Result<bool, TransportError> {
        if self.message.is_empty() || !self.has_room {
            return Ok(false);
        }
        let moved = self.message.send_now(&self.stream)?;
        self.has_room = self.message.is_empty();
        Ok(moved)
    }
}

impl Spread {
    /// Over `streams`, one at least; `message` has its mark in front.
    pub(super) fn new(streams: Vec<TcpStream>, message: &Outgoing, stop: StopSignal) -> Self {
        let lane = |stream| Lane { stream, message: message.clone(), has_room: true };
        Self { lanes: streams.into_iter().map(lane).collect(), turn: 0, stop }
    }

    /// Begins a message on a lane that has room, waiting as long as any lane takes bytes within each
    /// `patience`.
    pub(super) fn send(&mut self, patience: Patience) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        let mut clock = Turns::new(Some(patience));
        loop {
            let count = self.lanes.len();
            for turn in (self.turn..count).chain(0..self.turn) {
                let Some(lane) = self.lanes.get_mut(turn) else { continue };
                if lane.write()? {
                    clock = Turns::new(Some(patience));
                }
                if !lane.message.is_empty() || !lane.has_room {
                    continue;
                }
                lane.message.add(1);
                if lane.write()? {
                    self.turn = (turn + 1) % count;
                    return Ok(());
                }
                lane.message.take_back();
            }
            self.wait(&mut clock)?;
        }
    }

    /// Sleeps until a lane has room that had none. The clock runs until bytes have gone: room alone
    /// is none.
    fn wait(&mut self, clock: &mut Turns) -> Result<(), TransportError> {
        if !clock.turn(&self.stop)? {
            return Err(TransportError::Failed(
                "the receiver takes no more bytes; the data path may be cut".to_owned(),
            ));
        }
        // One that has room has nothing to send, and would be ready at once, again and again.
        let full = |lane: &&Lane| !lane.has_room;
        let streams = self.lanes.iter().filter(full).map(|lane| &lane.stream);
        let mut sockets: Vec<_> =
            streams.map(|stream| PollFd::new(stream, PollFlags::OUT)).collect();
        match poll(&mut sockets, Some(&timespec(TURN))).map_err(io::Error::from) {
            Err(error) if !again(&error) => return Err(io_failed("wait for the socket", &error)),
            Ok(_) | Err(_) => {}
        }
        let ready: Vec<bool> = sockets.iter().map(|socket| !socket.revents().is_empty()).collect();
        let full = self.lanes.iter_mut().filter(|lane| !lane.has_room);
        for (lane, ready) in full.zip(ready) {
            lane.has_room = ready;
        }
        Ok(())
    }

    /// Sends what is left, and has every lane confirm.
    pub(super) fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
        let mut clock = Turns::new(Some(patience));
        loop {
            for lane in &mut self.lanes {
                if lane.write()? {
                    clock = Turns::new(Some(patience));
                }
            }
            if self.lanes.iter().all(|lane| lane.message.is_empty()) {
                break;
            }
            self.wait(&mut clock)?;
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

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        net::{Ipv4Addr, TcpListener},
        thread,
        time::Duration,
    };

    use super::*;
    use crate::transport::StopReason;

    /// Two connections of which only the second one's receiver reads, with a message on its way over
    /// each.
    fn stalled(stop: &StopSignal) -> (Spread, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connect = || {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            near.set_read_timeout(Some(TURN)).unwrap();
            near.set_write_timeout(Some(TURN)).unwrap();
            (near, listener.accept().unwrap().0)
        };
        let ((first, deaf), (second, mut reader)) = (connect(), connect());
        thread::spawn(move || {
            let mut room = vec![0; 1 << 20];
            while reader.read(&mut room).is_ok_and(|length| length > 0) {}
        });
        let message = Outgoing::new(vec![vec![0; 64 << 20]]);
        let mut spread = Spread::new(vec![first, second], &message, stop.clone());
        for _ in 0..2 {
            spread.send(Patience(Duration::from_secs(20))).unwrap();
        }
        (spread, deaf)
    }

    #[test]
    fn a_stalled_connection_among_others_is_given_up() {
        let (mut spread, _deaf) = stalled(&StopSignal::new());
        let error = spread.confirm(Patience(Duration::from_millis(300))).unwrap_err();
        assert!(error.to_string().contains("takes no more bytes"), "{error}");
    }

    #[test]
    fn the_end_is_seen_while_a_connection_is_stalled() {
        let stop = StopSignal::new();
        let (mut spread, _deaf) = stalled(&stop);
        stop.give(StopReason::Interrupted);
        let error = spread.confirm(Patience(Duration::from_secs(3600))).unwrap_err();
        assert_eq!(error, TransportError::Stopped(StopReason::Interrupted));
    }
}
