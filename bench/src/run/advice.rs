//! What could be set better on the interfaces that carried figures.

use std::time::Duration;

use fabricbench_ipoib::{
    Backing, Cause, Interface,
    advice::{Advice, Window, window},
};

use crate::{
    plan::Pattern,
    report::{AdviceRecord, CellRecord, Side, Status, TcpSide},
    session::Host,
};

/// From this share of its time on a sender is held back by a window or buffer, and not now and then.
const HELD_BACK: f64 = 0.5;

/// A connection whose window bounds it carries this share of a window in a round trip, at the least:
/// the round trip that counts is longer than the shortest one.
const FULL_WINDOW: f64 = 0.5;

/// Of both sides' interfaces, each thing once.
pub(super) fn advice(cells: &[CellRecord], here: &Host, there: &Host) -> Vec<AdviceRecord> {
    let mut all = Vec::new();
    for cell in cells.iter().filter(|cell| cell.status == Status::Measured && cell.tcp.is_some()) {
        let near = interface(here, cell.path.as_ref());
        let far = interface(there, cell.peer_path.as_ref());
        for (side, host, interface) in [(Side::Client, here, near), (Side::Server, there, far)] {
            // Who was reached is a member.
            let found = interface.map(|interface| host.advice(interface)).unwrap_or_default();
            let bears = found.into_iter().filter(|advice| advice.cause != Cause::LimitedMember);
            all.extend(bears.map(|advice| AdviceRecord { side, advice }));
        }
        if let (Some(near), Some(far)) = (near, far) {
            all.extend(too_small(cell, (here, near), (there, far)));
        }
    }
    let mut once: Vec<AdviceRecord> = Vec::new();
    for record in all {
        let key = |record: &AdviceRecord| {
            let Advice { interface, cause, mend, .. } = &record.advice;
            // Cells need windows of different sizes; the first, as it is told, is an example.
            let mend = (*cause != Cause::TcpWindow).then(|| mend.clone());
            (record.side, interface.clone(), *cause, mend)
        };
        if !once.iter().any(|known| key(known) == key(&record)) {
            once.push(record);
        }
    }
    once
}

fn interface<'a>(host: &'a Host, path: Option<&crate::report::Path>) -> Option<&'a Interface> {
    let name = path?.interface.as_ref()?;
    host.interfaces.iter().find(|interface| interface.name == *name)
}

/// Whether TCP's windows are too small for what a push's link carries; where nothing states that, for
/// what it carried while windows or buffers held it back.
fn too_small(
    cell: &CellRecord,
    (here, near): (&Host, &Interface),
    (there, far): (&Host, &Interface),
) -> Option<AdviceRecord> {
    let tcp = cell.tcp.as_ref()?;
    let (side, interface, hosts, sender) = match cell.pattern {
        Pattern::Bandwidth => (Side::Client, near, (here, there), tcp.client.as_ref()?),
        Pattern::Fetch => (Side::Server, far, (there, here), tcp.server.as_ref()?),
        _ => return None,
    };
    let buffers = (&hosts.0.tcp_buffers, &hosts.1.tcp_buffers);
    let round_trip = sender.least_rtt_us?.least;
    let round_trip = Duration::try_from_secs_f64(round_trip / 1e6).ok()?;
    let connections = sender.connections;
    let of = |bytes_per_s| window(&interface.name, buffers, connections, bytes_per_s, round_trip);
    let advice = match line_rate(near, far) {
        Some(rate) => of(rate)?,
        None => {
            let limit = Window::between(buffers.0, buffers.1)?;
            let carried = cell.throughput.as_ref()?.bytes_per_s / connections.max(1) as f64;
            let filled = carried * round_trip.as_secs_f64() / limit.bytes as f64;
            let held = held_back(sender)?;
            if filled < FULL_WINDOW || held < HELD_BACK {
                return None;
            }
            // Twice of what it is has room for more.
            let doubled = 2.0 * limit.bytes as f64 * connections.max(1) as f64;
            let matters = format!(
                "TCP was held back by it for {:.0} % of the time, at {:.3} Gb/s over a round trip of \
                 {:.0} us",
                held * 100.0,
                cell.throughput.as_ref()?.bytes_per_s * 8.0 / 1e9,
                round_trip.as_secs_f64() * 1e6
            );
            Advice { matters, ..of(doubled / round_trip.as_secs_f64())? }
        }
    };
    Some(AdviceRecord { side, advice })
}

/// The share of its time in which a sender waits for a window or for room in its buffer.
fn held_back(sender: &TcpSide) -> Option<f64> {
    let by_receiver = sender.share_of_busy(sender.receive_window_limited_us)?;
    let by_buffer = sender.share_of_busy(sender.send_buffer_limited_us)?;
    Some(by_receiver + by_buffer)
}

/// What the slower end of the link carries in bytes a second, where hardware states it.
fn line_rate(near: &Interface, far: &Interface) -> Option<f64> {
    let speed = |interface: &Interface| match interface.backing {
        Backing::Physical { .. } => interface.speed_mbps,
        Backing::Virtual { .. } | Backing::Emulated { .. } => None,
    };
    Some(f64::from(speed(near)?.min(speed(far)?)) * 1e6 / 8.0)
}

#[cfg(test)]
mod tests {
    use fabricbench_ipoib::{Ipoib, Kind, Mode, State, TcpBuffers};

    use super::*;
    use crate::{
        plan::Cell,
        report::{Environment, Path, PathKind, Spread, TcpRecord, Throughput},
        run::tally::unmeasured,
    };

    fn host(speed_mbps: Option<u32>, mode: Mode) -> Host {
        let ib0 = Interface {
            name: "ib0".to_owned(),
            index: 2,
            kind: Kind::Ipoib(Ipoib {
                mode: Some(mode),
                connected_possible: Some(true),
                ..Ipoib::default()
            }),
            backing: Backing::Physical { driver: None },
            state: State::Up,
            mtu: 65_520,
            speed_mbps,
            addresses: Vec::new(),
        };
        Host {
            environment: Environment::default(),
            interfaces: vec![ib0],
            setups: Vec::new(),
            tcp_buffers: TcpBuffers { receive: Some(2 << 20), send: None, window_scale: Some(1) },
            boot: None,
            network_namespace: None,
            rdma: Err(String::new()),
        }
    }

    /// A push of `bytes_per_s` over a round trip of 1 ms, held back for `held_us` of 1,000.
    fn push(bytes_per_s: f64, held_us: u64) -> CellRecord {
        let cell = Cell::new("tcp@ipoib".parse().unwrap(), Pattern::Bandwidth, 1 << 20);
        let path = Path {
            kind: PathKind::Ipoib,
            device: None,
            port: None,
            interface: Some("ib0".to_owned()),
            emulated: false,
            backing: None,
            address: None,
            mtu: None,
            chosen: None,
        };
        let client = TcpSide {
            connections: 1,
            busy_us: Some(1000),
            receive_window_limited_us: Some(held_us),
            send_buffer_limited_us: Some(0),
            least_rtt_us: Spread::of([1000.0].into_iter()),
            ..TcpSide::default()
        };
        CellRecord {
            status: Status::Measured,
            path: Some(path.clone()),
            peer_path: Some(path),
            throughput: Some(Throughput { bytes_per_s, messages_per_s: 1.0, interval_95: None }),
            tcp: Some(TcpRecord { client: Some(client), ..TcpRecord::default() }),
            ..unmeasured(&cell, "not yet")
        }
    }

    #[test]
    fn what_stands_in_the_way_is_told_once_of_each_side() {
        let (datagram, connected) = (host(None, Mode::Datagram), host(None, Mode::Connected));
        let told = advice(&[push(1e6, 0), push(1e6, 0)], &datagram, &connected);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].side, told[0].advice.cause), (Side::Client, Cause::DatagramMode));
        let text = told[0].to_string();
        assert!(text.starts_with("advice: on the client, ib0: datagram mode"), "{text}");
    }

    #[test]
    fn a_window_too_small_for_the_links_rate_is_told() {
        let hosts = |speed| (host(speed, Mode::Connected), host(speed, Mode::Connected));
        let told = |speed| {
            let (here, there) = hosts(speed);
            advice(&[push(1e6, 0)], &here, &there)
        };
        // A window of 1 MiB in 1 ms is 8.4 Gb/s.
        assert_eq!(told(Some(8_000)), []);
        let text = told(Some(100_000))[0].to_string();
        assert!(text.contains("at most 1048576 B under way (tcp_rmem on the receiving host)"));
        assert!(text.contains("100.0 Gb/s over a round trip of 1000 us take 12500000 B"), "{text}");
        assert_eq!(told(None), []);
    }

    #[test]
    fn without_a_stated_rate_what_tcp_waited_for_decides() {
        let side = || host(None, Mode::Connected);
        let told = |cell| advice(&[cell], &side(), &side());
        let text = told(push(1.04e9, 900))[0].to_string();
        assert!(text.contains("held back by it for 90 % of the time, at 8.320 Gb/s"), "{text}");
        assert!(
            text.contains("/proc/sys/net/ipv4/tcp_rmem) 4194304\" on the receiving host"),
            "{text}"
        );
        // A receiver that is slow holds back as well, and its window is not why.
        assert_eq!(told(push(1e8, 900)), []);
        assert_eq!(told(push(1.04e9, 100)), []);
    }
}
