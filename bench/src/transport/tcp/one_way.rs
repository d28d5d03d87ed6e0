//! A ping-pong, or a push over one connection: as a program does it that simply writes and reads.

use std::net::TcpStream;

use super::{
    inbox::{CONFIRM, COUNTS, counts},
    marks::StreamMarks,
    socket::{Got, closed, read_exact, read_some, write_all},
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
    // Of a ping-pong.
    pub(super) marks: Option<StreamMarks>,
    pub(super) patience: Patience,
    pub(super) stop: StopSignal,
}

impl OneWay {
    pub(super) fn send(&mut self) -> Result<(), TransportError> {
        self.message.add(1);
        let before = self.marks.as_mut().and_then(|marks| {
            marks.begin();
            marks.before()
        });
        self.message.send(&mut self.stream, &self.stop, Some(self.patience))?;
        if let Some(marks) = &mut self.marks {
            marks.wrote(self.message.size(), before);
        }
        Ok(())
    }

    /// Whether the echo is here, where there is one.
    pub(super) fn hear(&mut self, patience: Patience) -> Result<bool, TransportError> {
        if self.echo.is_empty() {
            return Ok(true);
        }
        let mut have = 0;
        while let Some(room) = self.echo.get_mut(have..).filter(|room| !room.is_empty()) {
            let before = self.marks.as_ref().and_then(|marks| marks.before_reading(&self.stream));
            match read_some(&mut self.stream, room, &self.stop, Some(patience))? {
                Got::Bytes(got) => {
                    have += got;
                    if let Some(marks) = &mut self.marks {
                        marks.read(got as u64, before);
                    }
                }
                Got::Nothing => return Ok(false),
                Got::End => return Err(closed()),
            }
        }
        if self.verified.is_none() {
            self.verified = Some(self.payload.matches(&self.echo));
        }
        if let Some(marks) = &mut self.marks {
            marks.end_begun();
        }
        Ok(true)
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
