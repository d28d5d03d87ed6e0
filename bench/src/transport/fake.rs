//! A scripted transport on a virtual clock, for tests of everything above it.
//!
//! Operations take as long as the script says and no real time passes, so a test can know every
//! figure in advance.

use std::collections::VecDeque;

use super::{Completed, Initiator, Operation, Patience, Received, TransportError};
use crate::clock::{Clock as _, VirtualClock};

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

/// A server of calls that takes the same time for each: one after the other, or all at once.
#[derive(Debug)]
pub struct FakeServer {
    clock: VirtualClock,
    depth: usize,
    service: u64,
    // What a look costs, so that time goes on.
    look: u64,
    /// From when until when it stands still, in nanoseconds.
    pub stall: (u64, u64),
    /// Whether calls are served beside one another, so that there is no load that is too much.
    pub parallel: bool,
    is_free: u64,
    under_way: VecDeque<(u64, u64)>,
}

impl FakeServer {
    /// A server that takes `service` nanoseconds for a call, of which `depth` may be under way; a look at it
    /// takes `look` nanoseconds.
    #[must_use]
    pub fn new(clock: &VirtualClock, depth: usize, service: u64, look: u64) -> Self {
        Self {
            clock: clock.clone(),
            depth,
            service,
            look,
            stall: (0, 0),
            parallel: false,
            is_free: 0,
            under_way: VecDeque::new(),
        }
    }

    /// The clock that it moves.
    #[must_use]
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }
}

impl Initiator for FakeServer {
    fn depth(&self) -> usize {
        self.depth
    }

    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        let now = self.clock.now();
        let mut begins = if self.parallel { now } else { now.max(self.is_free) };
        if (self.stall.0..self.stall.1).contains(&begins) {
            begins = self.stall.1;
        }
        self.is_free = begins + self.service;
        self.under_way.push_back((operation.token, self.is_free));
        Ok(())
    }

    fn complete(&mut self, _: Patience, done: &mut Completed) -> Result<(), TransportError> {
        if let Some(&(_, ends)) = self.under_way.front() {
            self.clock.advance(ends.saturating_sub(self.clock.now()));
        }
        self.reap(done)
    }

    fn reap(&mut self, done: &mut Completed) -> Result<(), TransportError> {
        self.clock.advance(self.look);
        while let Some(&(token, ends)) = self.under_way.front()
            && ends <= self.clock.now()
            && done.room() > 0
        {
            done.push(token);
            self.under_way.pop_front();
        }
        Ok(())
    }

    fn confirm(&mut self, _: Patience) -> Result<Received, TransportError> {
        Ok(Received::default())
    }
}
