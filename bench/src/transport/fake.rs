//! A scripted transport on a virtual clock, for tests of everything above it.
//!
//! Operations take as long as the script says and no real time passes, so a test can know every
//! figure in advance.

use std::collections::VecDeque;

use super::{Completed, Initiator, Operation, Patience, Received, TransportError};
use crate::clock::VirtualClock;

/// What the next operation does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It is done after so many nanoseconds.
    Takes(u64),
    /// It is never done.
    Hangs,
    /// It goes wrong when waited for.
    Fails(TransportError),
}

/// An initiator that follows a script; when the script is at its end it begins again.
#[derive(Debug)]
pub struct FakeInitiator {
    clock: VirtualClock,
    script: Vec<Step>,
    next: usize,
    depth: usize,
    outstanding: VecDeque<(u64, Step)>,
    /// How many operations were started.
    pub submitted: u64,
    /// The most that were outstanding at once.
    pub most_outstanding: usize,
    /// What a confirmation costs, in nanoseconds.
    pub confirmation: u64,
    size: u64,
}

impl FakeInitiator {
    /// An initiator for messages of `size` bytes.
    #[must_use]
    pub fn new(clock: &VirtualClock, depth: usize, size: u64, script: Vec<Step>) -> Self {
        Self {
            clock: clock.clone(),
            script,
            next: 0,
            depth,
            outstanding: VecDeque::new(),
            submitted: 0,
            most_outstanding: 0,
            confirmation: 0,
            size,
        }
    }
}

impl Initiator for FakeInitiator {
    fn depth(&self) -> usize {
        self.depth
    }

    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        let step = self.script.get(self.next).cloned().unwrap_or(Step::Takes(0));
        self.next = if self.next + 1 < self.script.len() { self.next + 1 } else { 0 };
        self.outstanding.push_back((operation.token, step));
        self.submitted += 1;
        self.most_outstanding = self.most_outstanding.max(self.outstanding.len());
        Ok(())
    }

    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        match self.outstanding.pop_front() {
            Some((token, Step::Takes(time))) => {
                self.clock.advance(time);
                done.push(token);
            }
            Some((_, Step::Fails(error))) => return Err(error),
            Some((_, Step::Hangs)) | None => {
                self.clock.advance(u64::try_from(patience.0.as_nanos()).unwrap_or(u64::MAX));
            }
        }
        Ok(())
    }

    fn confirm(&mut self, _patience: Patience) -> Result<Received, TransportError> {
        self.clock.advance(self.confirmation);
        Ok(Received {
            messages: self.submitted,
            bytes: self.submitted * self.size,
            ..Received::default()
        })
    }
}
