//! What the kernel's TCP knows of a cell's connections, and how that of several slices adds up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The connections of a TCP or gRPC cell, read on both sides at the end of each slice, before they
/// are closed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TcpRecord {
    /// Connections that were asked for, of all threads together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<u64>,
    /// The client's ends.
    pub client: Option<TcpSide>,
    /// The server's ends.
    pub server: Option<TcpSide>,
    /// Why a side is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// The ends of a cell's connections on one side. Counts and times are sums over all connections and
/// rounds, from opening to the end of the slice, warm-up included. Absent is what the side's kernel
/// does not tell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TcpSide {
    /// Connections that the kernel counts as established, in the last round.
    pub connections: u64,
    /// Connections read in all rounds: what stands behind sums and spreads.
    pub readings: u64,
    /// Congestion control algorithms in use, each once.
    pub congestion_control: Vec<String>,
    /// Segments sent again.
    pub retransmits: u64,
    /// Of these, those that the other side said it had already: late, and not lost.
    pub unneeded_retransmits: Option<u64>,
    /// Segments with data sent, those sent again included.
    pub segments_sent: Option<u64>,
    /// Bytes that the other side acknowledged.
    pub bytes_acked: Option<u64>,
    /// Bytes that arrived in order.
    pub bytes_received: Option<u64>,
    /// Time in which there was something to send, in microseconds.
    pub busy_us: Option<u64>,
    /// Of that, time in which the receiver's window held it back.
    pub receive_window_limited_us: Option<u64>,
    /// Of that, time in which the send buffer held it back.
    pub send_buffer_limited_us: Option<u64>,
    /// Largest segment, in bytes.
    pub mss: Option<Spread>,
    /// Congestion window at the end, in segments.
    pub congestion_window: Option<Spread>,
    /// Smoothed round trip time at the end, in microseconds.
    pub rtt_us: Option<Spread>,
    /// Its mean deviation, in microseconds.
    pub rtt_variance_us: Option<Spread>,
    /// Shortest round trip time seen, in microseconds.
    pub least_rtt_us: Option<Spread>,
    /// Latest rate of delivery, in bytes per second.
    pub delivery_rate: Option<Spread>,
}

/// How a quantity differs from connection to connection, and from round to round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The smallest.
    pub least: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of `values`; `None` if there are none.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (mut count, mut sum) = (0u64, 0.0);
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            count += 1;
            sum += value;
            least = value.min(least);
            most = value.max(most);
        }
        (count > 0).then(|| Self { least, mean: sum / count as f64, most })
    }

    /// Of `weight` values that are `self`, and `more` that are `other`.
    fn with(self, weight: u64, other: Self, more: u64) -> Self {
        let share = more as f64 / (weight as f64 + more as f64);
        Self {
            least: self.least.min(other.least),
            // Rounding must not take it out of its bounds.
            mean: (self.mean * (1.0 - share) + other.mean * share)
                .max(self.least.min(other.least))
                .min(self.most.max(other.most)),
            most: self.most.max(other.most),
        }
    }
}

impl TcpSide {
    /// Above this share of segments sent again, loss decides how fast a connection is: a congestion
    /// window that is halved at each loss holds 1.22 / sqrt(share) segments in the mean (Mathis and
    /// others, 1997), here 39, which is 56 KB in segments of 1,448 B, and less than 10 Gb/s needs over
    /// a round trip of 50 us.
    pub const LOSSY: f64 = 1e-3;

    /// Fewer segments sent again are no sign of loss: TCP also sends again when an answer is late, as on
    /// a machine that is busy, and not always learns that it was not needed.
    pub const LEAST_RETRANSMITS: u64 = 20;

    /// Whether so much was sent again, and needed, that loss counts.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        let lost = self.retransmits.saturating_sub(self.unneeded_retransmits.unwrap_or(0));
        let share =
            self.segments_sent.filter(|&sent| sent > 0).map(|sent| lost as f64 / sent as f64);
        lost >= Self::LEAST_RETRANSMITS && share.is_some_and(|share| share > Self::LOSSY)
    }

    /// The share of segments that were sent again, from 0 to 1; `None` if it is not known.
    #[must_use]
    pub fn retransmitted(&self) -> Option<f64> {
        let sent = self.segments_sent.filter(|&sent| sent > 0)?;
        Some(self.retransmits as f64 / sent as f64)
    }

    /// The share of the time in which there was something to send that `limited` is, from 0 to 1.
    #[must_use]
    pub fn share_of_busy(&self, limited: Option<u64>) -> Option<f64> {
        let busy = self.busy_us.filter(|&busy| busy > 0)?;
        Some(limited? as f64 / busy as f64)
    }

    /// Adds a later slice.
    fn add(&mut self, later: Self) {
        let (before, more) = (self.readings, later.readings);
        let sum = |one: Option<u64>, other: Option<u64>| match (before, more) {
            (_, 0) => one,
            (0, _) => other,
            _ => Some(one?.saturating_add(other?)),
        };
        let spread = |one: Option<Spread>, other: Option<Spread>| match (before, more) {
            (_, 0) => one,
            (0, _) => other,
            _ => Some(one?.with(before, other?, more)),
        };
        for algorithm in later.congestion_control {
            if !self.congestion_control.contains(&algorithm) {
                self.congestion_control.push(algorithm);
            }
        }
        *self = Self {
            connections: later.connections,
            readings: before.saturating_add(more),
            congestion_control: std::mem::take(&mut self.congestion_control),
            retransmits: self.retransmits.saturating_add(later.retransmits),
            unneeded_retransmits: sum(self.unneeded_retransmits, later.unneeded_retransmits),
            segments_sent: sum(self.segments_sent, later.segments_sent),
            bytes_acked: sum(self.bytes_acked, later.bytes_acked),
            bytes_received: sum(self.bytes_received, later.bytes_received),
            busy_us: sum(self.busy_us, later.busy_us),
            receive_window_limited_us: sum(
                self.receive_window_limited_us,
                later.receive_window_limited_us,
            ),
            send_buffer_limited_us: sum(self.send_buffer_limited_us, later.send_buffer_limited_us),
            mss: spread(self.mss, later.mss),
            congestion_window: spread(self.congestion_window, later.congestion_window),
            rtt_us: spread(self.rtt_us, later.rtt_us),
            rtt_variance_us: spread(self.rtt_variance_us, later.rtt_variance_us),
            least_rtt_us: spread(self.least_rtt_us, later.least_rtt_us),
            delivery_rate: spread(self.delivery_rate, later.delivery_rate),
        };
    }
}

impl TcpRecord {
    /// Adds a later slice. A side that is missing in one of them is missing in the sum: what is left
    /// would pass for all of it.
    pub fn add(&mut self, later: Self) {
        let side = |one: Option<TcpSide>, other: Option<TcpSide>| {
            let mut one = one?;
            one.add(other?);
            Some(one)
        };
        self.client = side(self.client.take(), later.client);
        self.server = side(self.server.take(), later.server);
        self.reason = self.reason.take().or(later.reason);
        self.asked = later.asked;
    }

    /// Whether either kernel counts other connections than were asked for.
    #[must_use]
    pub fn is_miscounted(&self) -> bool {
        let sides = [&self.client, &self.server].into_iter().flatten();
        let counted = |side: &TcpSide| self.asked.is_some_and(|asked| side.connections != asked);
        sides.into_iter().any(counted)
    }

    /// Segments sent again on both sides; `None` if neither is known.
    #[must_use]
    pub fn retransmits(&self) -> Option<u64> {
        let sides = [&self.client, &self.server].into_iter().flatten();
        sides.map(|side| side.retransmits).reduce(u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(readings: u64, rtt: f64) -> TcpSide {
        TcpSide {
            connections: readings,
            readings,
            congestion_control: vec!["cubic".to_owned()],
            retransmits: 2,
            segments_sent: Some(1000),
            busy_us: Some(400),
            receive_window_limited_us: Some(100),
            rtt_us: Some(Spread { least: rtt, mean: rtt, most: rtt }),
            ..TcpSide::default()
        }
    }

    fn record(client: TcpSide) -> TcpRecord {
        TcpRecord { client: Some(client), server: Some(TcpSide::default()), ..TcpRecord::default() }
    }

    #[test]
    fn slices_add_up() {
        let mut record_of_two = record(side(1, 100.0));
        record_of_two.add(record(side(3, 200.0)));
        let client = record_of_two.client.unwrap();
        assert_eq!((client.connections, client.readings), (3, 4));
        assert_eq!((client.retransmits, client.segments_sent), (4, Some(2000)));
        assert_eq!(client.rtt_us, Some(Spread { least: 100.0, mean: 175.0, most: 200.0 }));
        assert_eq!(client.congestion_control, ["cubic"]);
        assert_eq!(client.retransmitted(), Some(0.002));
        assert_eq!(client.share_of_busy(client.receive_window_limited_us), Some(0.25));
        assert_eq!(client.bytes_acked, None, "what one slice does not know, the sum does not");
    }

    #[test]
    fn a_mean_stays_within_its_bounds() {
        let same = Spread { least: 53_760.0, mean: 53_760.0, most: 53_760.0 };
        for weight in 1..100 {
            assert_eq!(same.with(weight, same, 1), same);
        }
    }

    #[test]
    fn what_was_late_is_not_lost() {
        let late = TcpSide { retransmits: 60, unneeded_retransmits: Some(41), ..side(1, 1.0) };
        assert!(!late.is_lossy());
        assert!(TcpSide { unneeded_retransmits: Some(40), ..late.clone() }.is_lossy());
        assert!(TcpSide { unneeded_retransmits: None, ..late.clone() }.is_lossy());
        let much = TcpSide { segments_sent: Some(1_000_000), unneeded_retransmits: None, ..late };
        assert!(!much.is_lossy(), "20 of a million");
    }

    #[test]
    fn a_side_that_is_missing_once_is_missing() {
        let mut sum = record(side(1, 100.0));
        sum.add(TcpRecord { reason: Some("no".to_owned()), ..TcpRecord::default() });
        sum.add(record(side(1, 100.0)));
        assert_eq!((sum.client, sum.reason), (None, Some("no".to_owned())));
    }

    #[test]
    fn nothing_sent_is_no_share() {
        assert_eq!(TcpSide::default().retransmitted(), None);
        assert_eq!(TcpSide::default().share_of_busy(Some(1)), None);
        assert_eq!(Spread::of(std::iter::empty()), None);
    }
}
