//! TCP's windows against what a path needs: a sender has at most a window under way, so that a
//! connection carries a window in a round trip and no more (RFC 7323, 1.1).

use std::time::Duration;

use super::{Advice, Cause};
use crate::setup::TcpBuffers;

/// What a connection may have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// In bytes.
    pub bytes: u64,
    /// Whether the sender's buffer bounds it, not the receiver's window.
    pub of_sender: bool,
}

impl Window {
    /// What `sender` and `receiver` let one connection have under way; `None` if neither is known.
    pub fn between(sender: &TcpBuffers, receiver: &TcpBuffers) -> Option<Self> {
        let of_receiver = receiver.receive_window().map(|bytes| Self { bytes, of_sender: false });
        let of_sender = sender.send.map(|bytes| Self { bytes, of_sender: true });
        of_receiver.into_iter().chain(of_sender).min_by_key(|window| window.bytes)
    }

    /// The round trip in which it is just carried at `bytes_per_s`.
    pub fn lasts(&self, bytes_per_s: f64) -> Duration {
        Duration::try_from_secs_f64(self.bytes as f64 / bytes_per_s).unwrap_or(Duration::MAX)
    }
}

/// Says whether `connections` between `sender` and `receiver`, on whose `interface` they leave, can
/// carry `bytes_per_s` over a round trip of `round_trip`; `None` if they can, or nothing is known.
pub fn window(
    interface: &str,
    (sender, receiver): (&TcpBuffers, &TcpBuffers),
    connections: u64,
    bytes_per_s: f64,
    round_trip: Duration,
) -> Option<Advice> {
    let window = Window::between(sender, receiver)?;
    let needed = bytes_per_s * round_trip.as_secs_f64();
    let connections = connections.max(1);
    if !needed.is_finite() || needed <= window.bytes as f64 * connections as f64 {
        return None;
    }
    // What a connection needs, and of the receiver's buffer that it is a share only.
    let each = (needed / connections as f64).ceil() as u64;
    let (name, largest) = match window.of_sender {
        true => ("tcp_wmem", each),
        false => {
            let share = receiver.receive? as f64 / (window.bytes.max(1)) as f64;
            ("tcp_rmem", (each as f64 * share).ceil() as u64)
        }
    };
    let side = if window.of_sender { "sending" } else { "receiving" };
    Some(Advice {
        interface: interface.to_owned(),
        cause: Cause::TcpWindow,
        found: format!(
            "a TCP connection has at most {} B under way ({name} on the {side} host)",
            window.bytes
        ),
        matters: format!(
            "{:.1} Gb/s over a round trip of {:.0} us take {each} B on each of {connections}",
            bytes_per_s * 8.0 / 1e9,
            round_trip.as_secs_f64() * 1e6
        ),
        // The first two figures, the least and the first size of a buffer, stay as they are.
        mend: format!(
            "sysctl -w net.ipv4.{name}=\"$(cut -f -2 /proc/sys/net/ipv4/{name}) {}\" on the {side} \
             host, or use more connections",
            largest.next_power_of_two()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFERS: TcpBuffers =
        TcpBuffers { receive: Some(6 << 20), send: Some(4 << 20), window_scale: Some(1) };

    #[test]
    fn a_window_is_the_lesser_of_both_sides() {
        let window = Window::between(&BUFFERS, &BUFFERS).unwrap();
        assert_eq!(window, Window { bytes: 3 << 20, of_sender: false });
        let receiver = TcpBuffers { window_scale: Some(-2), receive: Some(64 << 20), ..BUFFERS };
        let window = Window::between(&BUFFERS, &receiver).unwrap();
        assert_eq!(window, Window { bytes: 4 << 20, of_sender: true });
        assert_eq!(window.lasts(4e6).as_millis(), 1048);
        assert_eq!(Window::between(&TcpBuffers::default(), &TcpBuffers::default()), None);
    }

    #[test]
    fn a_window_that_is_smaller_than_rate_by_round_trip_is_told() {
        let of = |connections, gigabits: f64, us| {
            let round_trip = Duration::from_micros(us);
            window("ib0", (&BUFFERS, &BUFFERS), connections, gigabits * 1e9 / 8.0, round_trip)
        };
        // 3 MiB are carried at 100 Gb/s in 252 us.
        assert_eq!(of(1, 100.0, 250), None);
        let advice = of(1, 100.0, 1000).unwrap().to_string();
        let expected = "ib0: a TCP connection has at most 3145728 B under way (tcp_rmem on the \
                        receiving host); 100.0 Gb/s over a round trip of 1000 us take 12500000 B on \
                        each of 1: sysctl -w net.ipv4.tcp_rmem=\"$(cut -f -2 \
                        /proc/sys/net/ipv4/tcp_rmem) 33554432\" on the receiving host, or use more \
                        connections";
        assert_eq!(advice, expected);
        assert_eq!(of(4, 100.0, 1000), None);
        assert!(of(3, 100.0, 1000).is_some());
        assert_eq!(of(1, f64::NAN, 1000), None);
    }
}
