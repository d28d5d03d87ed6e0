//! What a stream has not taken yet, in buffers that nobody joins.

use std::{
    collections::VecDeque,
    io::{IoSlice, Write as _},
    net::TcpStream,
};

use bytes::{Buf as _, Bytes};

use super::{
    socket::{Turns, again, closed, io_failed, send_at_once},
    stream::MOST_SLICES,
};
use crate::transport::{StopSignal, TransportError, wait::go_on};

/// Buffers on their way into a socket.
#[derive(Debug, Default)]
pub(super) struct Unsent(VecDeque<Bytes>);

impl Unsent {
    /// These as well.
    pub(super) fn add(&mut self, buffers: &[Bytes]) {
        self.0.extend(buffers.iter().filter(|buffer| !buffer.is_empty()).cloned());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What comes next, as far as it fits; returns how many slices that are.
    fn next<'a>(&'a self, slices: &mut [IoSlice<'a>; MOST_SLICES]) -> usize {
        for (slice, piece) in slices.iter_mut().zip(&self.0) {
            *slice = IoSlice::new(piece);
        }
        self.0.len().min(MOST_SLICES)
    }

    fn took(&mut self, mut bytes: usize) {
        while let Some(first) = self.0.front_mut() {
            if bytes < first.len() {
                first.advance(bytes);
                return;
            }
            bytes -= first.len();
            self.0.pop_front();
        }
    }

    /// Sends as much as the socket takes at once, and says whether that was anything.
    pub(super) fn send_now(&mut self, stream: &TcpStream) -> Result<bool, TransportError> {
        let mut any = false;
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); MOST_SLICES];
            let count = self.next(&mut slices);
            let slices = slices.get(..count).unwrap_or_default();
            let Some((taken, is_all)) = send_at_once(stream, slices)? else { break };
            self.took(taken);
            any = true;
            if !is_all {
                break;
            }
        }
        Ok(any)
    }

    /// Sends all of them, however long that takes, unless `stop` is given.
    pub(super) fn send(
        &mut self,
        stream: &mut TcpStream,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        go_on(stop)?;
        let mut clock = Turns::new(None);
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); MOST_SLICES];
            let count = self.next(&mut slices);
            match stream.write_vectored(slices.get(..count).unwrap_or_default()) {
                Ok(0) => return Err(closed()),
                Ok(taken) => self.took(taken),
                Err(error) if again(&error) => {
                    clock.turn(stop)?;
                }
                Err(error) => return Err(io_failed("send", &error)),
            }
        }
        Ok(())
    }
}
