//! When a cell has been measured enough.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Samples behind a median before it is shown: 10 / (1 - 0.5), the rule for every percentile.
pub const LEAST_MESSAGES: u64 = 20;

/// The stop rule of one cell, over all its rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// After this many timed messages.
    Messages(u64),
    /// After this long, and not before [`LEAST_MESSAGES`] messages.
    After(Duration),
}

impl Default for Stop {
    /// 0.6 s a cell: 96 cells (the default sizes, both patterns, four transports) take about a
    /// minute.
    fn default() -> Self {
        Self::After(Duration::from_millis(600))
    }
}

impl Stop {
    /// The share of round `round` out of `rounds`, such that the shares add up to the whole.
    #[must_use]
    pub fn share(self, round: u32, rounds: u32) -> Self {
        let (round, rounds) = (u64::from(round), u64::from(rounds.max(1)));
        match self {
            Self::Messages(all) => {
                let extra = u64::from(round < all % rounds);
                Self::Messages(all / rounds + extra)
            }
            Self::After(all) => Self::After(all / u32::try_from(rounds).unwrap_or(u32::MAX)),
        }
    }

    /// The share of thread `thread` out of `threads`: they measure at once, so messages are shared out and time is
    /// not.
    #[must_use]
    pub fn beside(self, thread: u32, threads: u32) -> Self {
        match self {
            Self::Messages(_) => self.share(thread, threads),
            Self::After(_) => self,
        }
    }

    /// Messages that one of `rounds` slices measures at the least.
    #[must_use]
    pub fn least_messages(self, rounds: u32) -> u64 {
        match self {
            Self::Messages(share) => share,
            Self::After(_) => LEAST_MESSAGES.div_ceil(u64::from(rounds.max(1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for all in [1, 2, 3, 1000, 1001] {
            let sum: u64 = (0..3)
                .map(|round| match Stop::Messages(all).share(round, 3) {
                    Stop::Messages(share) => share,
                    Stop::After(_) => unreachable!(),
                })
                .sum();
            assert_eq!(sum, all);
        }
        assert_eq!(
            Stop::After(Duration::from_millis(600)).share(2, 3),
            Stop::After(Duration::from_millis(200))
        );
        assert_eq!(Stop::default().least_messages(3) * 3, 21);
    }

    #[test]
    fn threads_share_messages_and_have_all_of_the_time() {
        assert_eq!(Stop::Messages(10).beside(1, 4), Stop::Messages(3));
        assert_eq!(Stop::default().beside(1, 4), Stop::default());
    }
}
