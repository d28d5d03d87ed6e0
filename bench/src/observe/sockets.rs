//! The TCP connections of a slice, as the kernel sees them.

use std::net::SocketAddr;

use fabricbench_ipoib::{TcpSocket, TcpState, sockets::End, tcp_sockets};

use crate::report::{Spread, TcpSide};

/// Reads the connections to the server's `listeners`: on the client its ends of them
/// ([`End::Remote`]), on the server its own ([`End::Local`]).
///
/// # Errors
/// The kernel does not tell, in words.
pub fn connections(end: End, listeners: &[SocketAddr]) -> Result<TcpSide, String> {
    let sockets = tcp_sockets(end, listeners).map_err(|error| error.to_string())?;
    Ok(side(&sockets))
}

fn side(sockets: &[TcpSocket]) -> TcpSide {
    let infos = || sockets.iter().map(|socket| socket.info);
    let sum = |of: fn(&fabricbench_ipoib::TcpInfo) -> Option<u64>| {
        infos().try_fold(0u64, |sum, info| Some(sum.saturating_add(of(&info)?)))
    };
    let spread = |of: fn(&fabricbench_ipoib::TcpInfo) -> Option<f64>| {
        Spread::of(infos().filter_map(|info| of(&info)))
    };
    let established = |socket: &&TcpSocket| socket.state == TcpState::Established;
    let mut congestion_control: Vec<_> =
        sockets.iter().filter_map(|socket| socket.congestion_control.clone()).collect();
    congestion_control.sort();
    congestion_control.dedup();
    TcpSide {
        connections: sockets.iter().filter(established).count() as u64,
        readings: sockets.len() as u64,
        congestion_control,
        retransmits: infos().map(|info| u64::from(info.retransmits)).sum(),
        unneeded_retransmits: sum(|info| info.unneeded_retransmits.map(u64::from)),
        segments_sent: sum(|info| info.segments_sent.map(u64::from)),
        bytes_acked: sum(|info| info.bytes_acked),
        bytes_received: sum(|info| info.bytes_received),
        busy_us: sum(|info| info.busy_us),
        receive_window_limited_us: sum(|info| info.receive_window_limited_us),
        send_buffer_limited_us: sum(|info| info.send_buffer_limited_us),
        mss: spread(|info| Some(info.mss.into())),
        congestion_window: spread(|info| Some(info.congestion_window.into())),
        rtt_us: spread(|info| Some(info.rtt_us.into())),
        rtt_variance_us: spread(|info| Some(info.rtt_variance_us.into())),
        least_rtt_us: spread(|info| info.least_rtt_us.map(f64::from)),
        delivery_rate: spread(|info| info.delivery_rate.map(|rate| rate as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricbench_ipoib::TcpInfo;

    fn socket(state: TcpState, info: TcpInfo) -> TcpSocket {
        TcpSocket {
            local: ([10, 0, 0, 1], 1).into(),
            remote: ([10, 0, 0, 2], 2).into(),
            state,
            congestion_control: Some("bbr".to_owned()),
            info,
        }
    }

    #[test]
    fn connections_add_up_and_only_established_ones_count() {
        let info = TcpInfo {
            retransmits: 3,
            rtt_us: 10,
            segments_sent: Some(5),
            bytes_acked: Some(7),
            ..TcpInfo::default()
        };
        let other = TcpInfo { rtt_us: 30, bytes_acked: None, ..info };
        let side = side(&[
            socket(TcpState::Established, info),
            socket(TcpState::Established, info),
            socket(TcpState::CloseWait, other),
        ]);
        assert_eq!((side.connections, side.readings, side.retransmits), (2, 3, 9));
        assert_eq!((side.segments_sent, side.bytes_acked), (Some(15), None));
        let rtt = side.rtt_us.unwrap();
        assert!((rtt.least, rtt.most) == (10.0, 30.0) && (rtt.mean - 50.0 / 3.0).abs() < 1e-9);
        assert_eq!(side.congestion_control, ["bbr"]);
        assert_eq!(side.least_rtt_us, None);
    }
}
