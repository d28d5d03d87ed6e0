//! The one flag that ends every waiting loop.

use std::{
    fmt,
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Who asked for the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The test is over: the ordinary end of a responder.
    Finished,
    /// A signal from the user.
    Interrupted,
    /// The other side is gone or silent; the text says how that was seen.
    PeerLost(String),
    /// The device under the slice is gone; the text says which. Other slices may go on.
    DeviceLost(String),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("the test is over"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::PeerLost(how) | Self::DeviceLost(how) => f.write_str(how),
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    // Apart from the reason, so that a polling loop reads one byte.
    given: AtomicBool,
    reason: OnceLock<StopReason>,
    // For those who have nothing to do until then; pollers never touch it.
    sleepers: Mutex<()>,
    woken: Condvar,
}

/// A flag that is given once and seen by every clone.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Arc<Shared>);

impl StopSignal {
    /// A signal that has not been given.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the signal. The first reason stays.
    pub fn give(&self, reason: StopReason) {
        let _ = self.0.reason.set(reason);
        self.0.given.store(true, Ordering::Release);
        // Taken, so that nobody is between a look at the flag and a sleep.
        drop(self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.woken.notify_all();
    }

    /// Sleeps until it is given, without a single look in between: a wake-up would take time from
    /// whatever is measured on the same processor.
    pub fn wait(&self) {
        let mut asleep = self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_given() {
            asleep = self.0.woken.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether it has been given. One load: made for polling loops. Acquire, so that the reason is
    /// there as well; on x86 it costs the same.
    #[inline]
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.0.given.load(Ordering::Acquire)
    }

    /// Why, if it has been given.
    #[must_use]
    pub fn reason(&self) -> Option<StopReason> {
        self.0.reason.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let signal = StopSignal::new();
        let seen_elsewhere = signal.clone();
        assert!(!seen_elsewhere.is_given());
        signal.give(StopReason::PeerLost("silent".into()));
        signal.give(StopReason::Finished);
        assert!(seen_elsewhere.is_given());
        assert_eq!(seen_elsewhere.reason(), Some(StopReason::PeerLost("silent".into())));
    }

    #[test]
    fn sleepers_wake() {
        let signal = StopSignal::new();
        std::thread::scope(|scope| {
            let sleepers = [(); 2].map(|()| {
                let signal = signal.clone();
                scope.spawn(move || {
                    signal.wait();
                    signal.reason()
                })
            });
            signal.give(StopReason::Finished);
            for sleeper in sleepers {
                assert_eq!(sleeper.join().unwrap(), Some(StopReason::Finished));
            }
        });
        signal.wait();
    }
}
