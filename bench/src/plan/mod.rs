//! What to measure, as data: transports, patterns, sizes, payload and stop rule, expanded to an
//! ordered list of cells. Knows nothing of how any of it is done.

mod payload;
mod size;
mod stop;
mod transport;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use payload::Payload;
pub use size::{MOST_SIZES, SizeError, Sizes, display_bytes, parse_bytes};
pub use stop::{LEAST_MESSAGES, Stop};
pub use transport::{GrpcTuning, TransportName, UnknownTransport, VerbsOperation};

/// Who sends what, and what is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Ping-pong: one message out, the same message back, one in flight.
    Latency,
    /// Push: messages one way, as many in flight as the depth allows, the last one confirmed by
    /// the receiver before the clock stops.
    Bandwidth,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
        })
    }
}

/// One thing to measure: the coordinates of a figure in the result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// How the message travels.
    pub transport: TransportName,
    /// Who sends what.
    pub pattern: Pattern,
    /// Message size in bytes.
    pub size: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.transport, self.pattern, display_bytes(self.size))
    }
}

/// Everything that is measured in one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The cells in the order in which a report shows them: by pattern, then size, then transport.
    pub cells: Vec<Cell>,
    /// When a cell has been measured enough.
    pub stop: Stop,
    /// In how many interleaved slices each cell is measured.
    pub rounds: u32,
    /// Orders the transports within a size, anew for each round.
    pub seed: u64,
}

impl Plan {
    /// Every pattern at every size over every transport.
    #[must_use]
    pub fn new(
        transports: &[TransportName],
        patterns: &[Pattern],
        sizes: &Sizes,
        stop: Stop,
        rounds: u32,
        seed: u64,
    ) -> Self {
        let mut cells = Vec::new();
        for &pattern in patterns {
            for &size in sizes.as_slice() {
                for transport in transports {
                    cells.push(Cell { transport: transport.clone(), pattern, size });
                }
            }
        }
        Self { cells, stop, rounds: rounds.max(1), seed }
    }
}

/// How many messages may be in flight in a push when nobody says otherwise.
///
/// perftest's transmit depth is 128 whatever the size, which at 8 MiB would hold a GiB in flight;
/// 8 MiB in flight cover the bandwidth-delay product of 400 Gb/s at 160 us.
#[must_use]
pub fn default_depth(size: u64) -> u32 {
    const DEPTH: u64 = 128;
    const BYTES_IN_FLIGHT: u64 = 8 << 20;
    // At least two, so that the wire does not idle while a completion is handled.
    u32::try_from((BYTES_IN_FLIGHT / size.max(1)).clamp(2, DEPTH)).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_every_combination_in_reading_order() {
        let transports = ["verbs-write".parse().unwrap(), "tcp@lo".parse().unwrap()];
        let plan = Plan::new(
            &transports,
            &[Pattern::Latency, Pattern::Bandwidth],
            &Sizes::parse("1,8").unwrap(),
            Stop::default(),
            3,
            7,
        );
        let shown: Vec<_> = plan.cells.iter().map(Cell::to_string).collect();
        assert_eq!(
            shown,
            [
                "verbs-write latency 1 B",
                "tcp@loopback latency 1 B",
                "verbs-write latency 8 B",
                "tcp@loopback latency 8 B",
                "verbs-write bandwidth 1 B",
                "tcp@loopback bandwidth 1 B",
                "verbs-write bandwidth 8 B",
                "tcp@loopback bandwidth 8 B",
            ]
        );
    }

    #[test]
    fn depth_is_bounded_in_messages_and_in_bytes() {
        assert_eq!(default_depth(1), 128);
        assert_eq!(default_depth(64 << 10), 128);
        assert_eq!(default_depth(1 << 20), 8);
        assert_eq!(default_depth(1 << 30), 2);
        assert_eq!(default_depth(u64::MAX), 2);
    }
}
