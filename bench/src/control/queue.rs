//! One test at a time: clients that come meanwhile wait in line and are told their place.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

#[derive(Debug, Default)]
struct State {
    /// The next ticket's number.
    next: u64,
    /// Numbers that wait or are served, in order of arrival; the first is served.
    line: Vec<u64>,
}

/// The line.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    shared: Arc<(Mutex<State>, Condvar)>,
}

/// A place in the line; giving it up (by dropping it) lets the next one move up.
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    queue: Queue,
}

impl Queue {
    /// An empty line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Joins at the end.
    #[must_use]
    pub fn join(&self) -> Ticket {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.line.push(number);
        drop(state);
        Ticket { number, queue: self.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the line itself consistent: each change is one step.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// How many are before this one; 0 means: it is served.
    #[must_use]
    pub fn position(&self) -> usize {
        let state = self.queue.state();
        state.line.iter().position(|&number| number == self.number).unwrap_or(0)
    }

    /// Waits until somebody leaves the line, `most` at the most; returns the position then.
    #[must_use]
    pub fn wait(&self, most: Duration) -> usize {
        let before = self.position();
        if before == 0 {
            return 0;
        }
        let state = self.queue.state();
        let moved = |state: &mut State| {
            state.line.iter().position(|&number| number == self.number).unwrap_or(0) == before
        };
        drop(
            self.queue
                .shared
                .1
                .wait_timeout_while(state, most, moved)
                .unwrap_or_else(PoisonError::into_inner),
        );
        self.position()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.queue.state().line.retain(|&number| number != self.number);
        self.queue.shared.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_and_leavers_make_room() {
        let queue = Queue::new();
        let (first, second, third) = (queue.join(), queue.join(), queue.join());
        assert_eq!((first.position(), second.position(), third.position()), (0, 1, 2));
        drop(second);
        assert_eq!(third.position(), 1);
        let waiter = std::thread::spawn(move || third.wait(Duration::from_secs(20)));
        drop(first);
        assert_eq!(waiter.join().unwrap(), 0);
    }
}
