//! Proof that the payload of a measurement went by the interface that its row names: the
//! interface's counters moved by at least the payload.
//!
//! They may move by more, by headers and by other traffic. So the proof can be deceived by
//! other traffic as heavy as the measurement's, but not by silence: a row whose traffic went
//! elsewhere on an otherwise quiet interface does not pass.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::error::Error;
use crate::route;
use crate::words::thousands;

/// How long counters may lag: several drivers fetch them from the device once a second.
const LONGEST_LAG: Duration = Duration::from_millis(1500);
/// Time between two readings of counters that have not moved far enough.
const READING_INTERVAL: Duration = Duration::from_millis(10);

/// The counters of an interface from before a measurement.
#[derive(Clone, Debug)]
pub struct PathProof {
    interface: String,
    destination: Option<IpAddr>,
    before: Counters,
}

/// Whether the payload went by the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Verdict {
    /// Bytes that the interface sent since [`PathProof::begin`].
    pub tx_delta: u64,
    /// Bytes that it received.
    pub rx_delta: u64,
    /// Whether both are at least the payload.
    pub holds: bool,
    /// The finding in a sentence.
    pub text: String,
}

impl PathProof {
    /// Reads the counters of `interface` before a measurement. `destination`, the peer's
    /// address, is for the text of a failure.
    ///
    /// # Errors
    ///
    /// Those of [`Counters::read`].
    pub fn begin(interface: &str, destination: Option<IpAddr>) -> Result<Self, Error> {
        let before = Counters::read(interface)?;
        Ok(Self { interface: interface.to_owned(), destination, before })
    }

    /// What the interface counted since.
    ///
    /// # Errors
    ///
    /// [`Error::Vanished`] and [`Error::CountersReset`], and those of [`Counters::read`].
    pub fn so_far(&self) -> Result<Counters, Error> {
        let now = Counters::read(&self.interface).map_err(|error| match error {
            Error::NoInterface { name, .. } => Error::Vanished { name },
            other => other,
        })?;
        now.since(&self.before, &self.interface)
    }

    /// Compares with the payload that the measurement sent and received here, in bytes. Waits
    /// up to 1.5 s for counters that lag; if they have moved far enough already, not at all.
    ///
    /// # Errors
    ///
    /// As [`PathProof::so_far`].
    pub fn finish(
        &self,
        expected_tx_payload: u64,
        expected_rx_payload: u64,
    ) -> Result<Verdict, Error> {
        let deadline = Instant::now() + LONGEST_LAG;
        loop {
            let moved = self.so_far()?;
            let verdict = judge(&self.interface, &moved, expected_tx_payload, expected_rx_payload);
            if verdict.holds {
                return Ok(verdict);
            }
            if Instant::now() >= deadline {
                return Ok(Verdict { text: self.explain(verdict.text), ..verdict });
            }
            thread::sleep(READING_INTERVAL);
        }
    }

    /// Adds the kernel's route to a failure, if it is the reason.
    fn explain(&self, text: String) -> String {
        let Some(destination) = self.destination else { return text };
        match route::lookup(destination, None, None) {
            Ok(route) if route.interface != self.interface => {
                format!("{text} (the route to {destination} is by {})", route.interface)
            }
            _ => text,
        }
    }
}

/// Judges what an interface counted by the payload in bytes.
fn judge(interface: &str, moved: &Counters, tx_payload: u64, rx_payload: u64) -> Verdict {
    let (tx_delta, rx_delta) = (moved.tx_bytes, moved.rx_bytes);
    let short = |verb: &str, delta: u64, payload: u64| {
        (delta < payload)
            .then(|| format!("{verb} {} of {} payload bytes", thousands(delta), thousands(payload)))
    };
    let sent = short("sent", tx_delta, tx_payload);
    let received = short("received", rx_delta, rx_payload);
    let shortage: Vec<String> = sent.into_iter().chain(received).collect();
    let holds = shortage.is_empty();
    let text = if holds {
        format!(
            "{interface} sent {} bytes for a payload of {} and received {} for {}",
            thousands(tx_delta),
            thousands(tx_payload),
            thousands(rx_delta),
            thousands(rx_payload)
        )
    } else {
        format!(
            "row says {interface}, but {interface} {}: traffic went elsewhere",
            shortage.join(" and ")
        )
    };
    Verdict { tx_delta, rx_delta, holds, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(tx_bytes: u64, rx_bytes: u64) -> Counters {
        Counters { tx_bytes, rx_bytes, ..Counters::default() }
    }

    #[test]
    fn holds_from_the_payload_on() {
        assert!(judge("ib0", &moved(1000, 500), 1000, 500).holds);
        assert!(judge("ib0", &moved(9000, 9000), 1000, 500).holds);
        assert!(!judge("ib0", &moved(999, 500), 1000, 500).holds);
        assert!(!judge("ib0", &moved(1000, 499), 1000, 500).holds);
    }

    #[test]
    fn a_failure_says_which_direction_fell_short_and_by_how_much() {
        let verdict = judge("ib0", &moved(1_234, 9_000_000), 8_000_000, 8_000_000);
        assert_eq!(
            verdict.text,
            "row says ib0, but ib0 sent 1,234 of 8,000,000 payload bytes: traffic went elsewhere"
        );
        assert_eq!((verdict.tx_delta, verdict.rx_delta), (1_234, 9_000_000));
        let both = judge("ib0", &moved(1, 2), 3, 4).text;
        assert!(both.contains("sent 1 of 3 payload bytes and received 2 of 4"), "{both}");
    }
}
