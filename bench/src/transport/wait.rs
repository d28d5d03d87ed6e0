//! Waiting in a polling loop without reading a clock on the fast path.

use std::{
    hint,
    time::{Duration, Instant},
};

use super::{StopReason, StopSignal, TransportError};

/// How long a wait may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience(pub Duration);

/// Turns between two looks at the stop signal and the clock: some 10 us of polling, far below
/// any patience, and far more than a fast operation needs.
const TURNS_PER_LOOK: u32 = 512;

/// What a turn of a polling loop is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Poll again.
    Spin,
    /// Poll again, and look at what needs no look at every turn.
    Look,
    /// Give up: patience is at its end.
    Expired,
}

/// One wait in progress.
#[derive(Debug)]
pub struct Waiting<'a> {
    stop: &'a StopSignal,
    patience: Duration,
    turns: u32,
    // Fruitless turns in all.
    spun: u32,
    // Whether the next completion is to make an event.
    armed: bool,
    // Unset until the first look, so that an operation that is quick costs no clock reading.
    since: Option<Instant>,
}

impl<'a> Waiting<'a> {
    /// Begins to wait.
    #[must_use]
    pub fn new(stop: &'a StopSignal, patience: Patience) -> Self {
        Self { stop, patience: patience.0, turns: 0, spun: 0, armed: false, since: None }
    }

    /// One fruitless turn of a polling loop.
    ///
    /// # Errors
    /// [`TransportError::Stopped`] if the stop signal was given.
    #[inline]
    pub fn turn(&mut self) -> Result<Turn, TransportError> {
        self.turns += 1;
        if self.turns < TURNS_PER_LOOK {
            hint::spin_loop();
            return Ok(Turn::Spin);
        }
        self.look()
    }

    /// Fruitless turns so far, to the nearest look.
    pub(super) fn spun(&self) -> u32 {
        self.spun + self.turns
    }

    pub(super) fn is_armed(&self) -> bool {
        self.armed
    }

    pub(super) fn arm(&mut self) {
        self.armed = true;
    }

    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }

    /// Looks at the stop signal and the clock.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    #[cold]
    pub(super) fn look(&mut self) -> Result<Turn, TransportError> {
        self.spun = self.spun.saturating_add(self.turns);
        self.turns = 0;
        if self.stop.is_given() {
            return Err(stopped(self.stop));
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        Ok(if waited < self.patience { Turn::Look } else { Turn::Expired })
    }
}

/// One look at the stop signal, for each operation: a path that is quick never waits long enough
/// for [`Waiting`] to look.
///
/// # Errors
/// [`TransportError::Stopped`] if the stop signal was given.
#[inline]
pub(super) fn go_on(stop: &StopSignal) -> Result<(), TransportError> {
    if stop.is_given() { Err(stopped(stop)) } else { Ok(()) }
}

/// The error of a stop signal that was given.
#[cold]
pub(super) fn stopped(stop: &StopSignal) -> TransportError {
    TransportError::Stopped(stop.reason().unwrap_or(StopReason::Finished))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends() {
        let stop = StopSignal::new();
        let mut waiting = Waiting::new(&stop, Patience(Duration::from_millis(2)));
        while waiting.turn().unwrap() != Turn::Expired {}
    }

    #[test]
    fn a_signal_ends_it_with_the_reason() {
        let stop = StopSignal::new();
        stop.give(StopReason::Interrupted);
        let mut waiting = Waiting::new(&stop, Patience(Duration::from_secs(3600)));
        let error = loop {
            match waiting.turn() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error, TransportError::Stopped(StopReason::Interrupted));
    }
}
