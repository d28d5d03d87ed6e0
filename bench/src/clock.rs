//! The clock that measuring loops read.

use std::{cell::Cell, rc::Rc};

/// A monotonic clock read in raw ticks, so that the cost of turning ticks into nanoseconds is paid
/// outside the timed section.
pub trait Clock {
    /// Now, in ticks.
    fn now(&self) -> u64;
    /// Nanoseconds from `start` to `end`; 0 if `end` is not later.
    fn nanoseconds(&self, start: u64, end: u64) -> u64;
}

/// The processor's time-stamp counter where it is invariant, else the system's monotonic clock.
#[derive(Debug, Clone)]
pub struct TscClock(quanta::Clock);

impl TscClock {
    /// Calibrates the counter against the system's clock, once a process; up to 200 ms.
    #[must_use]
    pub fn new() -> Self {
        Self(quanta::Clock::new())
    }
}

impl Default for TscClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TscClock {
    #[inline]
    fn now(&self) -> u64 {
        self.0.raw()
    }

    #[inline]
    fn nanoseconds(&self, start: u64, end: u64) -> u64 {
        self.0.delta_as_nanos(start, end)
    }
}

/// A clock that moves only when told to; ticks are nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct VirtualClock(Rc<Cell<u64>>);

impl VirtualClock {
    /// Moves forward.
    pub fn advance(&self, nanoseconds: u64) {
        self.0.set(self.0.get() + nanoseconds);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> u64 {
        self.0.get()
    }

    fn nanoseconds(&self, start: u64, end: u64) -> u64 {
        end.saturating_sub(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn agrees_with_the_system_clock() {
        let clock = TscClock::new();
        let (ticks, system) = (clock.now(), Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let (ticks, system) = (clock.nanoseconds(ticks, clock.now()), system.elapsed());
        let ratio = ticks as f64 / system.as_nanos() as f64;
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
        assert_eq!(clock.nanoseconds(10, 5), 0);
    }
}
