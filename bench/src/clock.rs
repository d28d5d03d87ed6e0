//! The clock that measuring loops read.

use std::{cell::Cell, fs, rc::Rc, time::Instant};

/// A monotonic clock read in raw ticks, so that the cost of turning ticks into nanoseconds is paid
/// outside the timed section.
pub trait Clock {
    /// Now, in ticks.
    fn now(&self) -> u64;
    /// Nanoseconds from `start` to `end`; 0 if `end` is not later.
    fn nanoseconds(&self, start: u64, end: u64) -> u64;
}

/// The processor's time-stamp counter where it is invariant and the kernel keeps time by it as well;
/// else the system's monotonic clock.
#[derive(Debug, Clone)]
pub struct TscClock {
    // `None` where the kernel has found that the counter does not run evenly.
    counter: Option<quanta::Clock>,
    origin: Instant,
}

impl TscClock {
    /// Calibrates the counter against the system's clock, once a process; up to 200 ms.
    #[must_use]
    pub fn new() -> Self {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = fs::read_to_string(source).unwrap_or_default();
        let counter = (!distrusts_counter(source.trim())).then(quanta::Clock::new);
        Self { counter, origin: Instant::now() }
    }
}

/// Clock sources that Linux takes when it does not trust the counter: it prefers the counter, or a
/// hypervisor's clock that is made from it, to all of these.
fn distrusts_counter(source: &str) -> bool {
    matches!(source, "hpet" | "acpi_pm" | "pit" | "jiffies" | "refined-jiffies")
}

impl Default for TscClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TscClock {
    #[inline]
    fn now(&self) -> u64 {
        match &self.counter {
            Some(counter) => counter.raw(),
            // 584 years fit.
            None => self.origin.elapsed().as_nanos() as u64,
        }
    }

    #[inline]
    fn nanoseconds(&self, start: u64, end: u64) -> u64 {
        match &self.counter {
            Some(counter) => counter.delta_as_nanos(start, end),
            None => end.saturating_sub(start),
        }
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
    use std::time::Duration;

    #[test]
    fn agrees_with_the_system_clock() {
        agrees(&TscClock::new());
        agrees(&TscClock { counter: None, origin: Instant::now() });
    }

    #[test]
    fn the_counter_is_left_alone_where_the_kernel_left_it() {
        assert!(distrusts_counter("hpet"));
        assert!(!distrusts_counter("tsc") && !distrusts_counter("kvm-clock"));
    }

    fn agrees(clock: &TscClock) {
        let (ticks, system) = (clock.now(), Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let (ticks, system) = (clock.nanoseconds(ticks, clock.now()), system.elapsed());
        let ratio = ticks as f64 / system.as_nanos() as f64;
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
        assert_eq!(clock.nanoseconds(10, 5), 0);
    }
}
