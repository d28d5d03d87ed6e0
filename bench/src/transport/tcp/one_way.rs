//! A ping-pong, or a push over one connection: as a program does it that simply writes and reads.

use std::net::TcpStream;

use super::{
    inbox::{CONFIRM, COUNTS, counts},
    socket::{read_exact, write_all},
    stream::Outgoing,
};
use crate::{
    plan::Payload,
    transport::{Patience, Received, StopSignal, TransportError},
};

/// A ping-pong, or a push.
#[derive(Debug)]
pub(super) struct OneWay {
    pub(super) stream: TcpStream,
    pub(super) payload: Payload,
    pub(super) message: Outgoing,
    // Room for the echo; empty in a push.
    pub(super) echo: Vec<u8>,
    pub(super) verified: Option<bool>,
    pub(super) patience: Patience,
    pub(super) stop: StopSignal,
}

impl OneWay {
    pub(super) fn send(&mut self) -> Result<(), TransportError> {
        self.message.add(1);
        self.message.send(&mut self.stream, &self.stop, Some(self.patience))
    }

    /// Whether the echo is here, where there is one.
    pub(super) fn hear(&mut self, patience: Patience) -> Result<bool, TransportError> {
        if self.echo.is_empty() {
            return Ok(true);
        }
        let whole = read_exact(&mut self.stream, &mut self.echo, &self.stop, Some(patience))?;
        if whole && self.verified.is_none() {
            self.verified = Some(self.payload.matches(&self.echo));
        }
        Ok(whole)
    }

    pub(super) fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
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
