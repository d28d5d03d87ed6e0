//! TCP sockets as the kernel sees them: what a connection looks like from inside, which no
//! figure of an application shows.
//!
//! Read by sock_diag (NETLINK_SOCK_DIAG), which needs no privilege, takes nothing from the
//! sockets' owner, and tells of sockets that are hidden in a library.

use std::net::{IpAddr, SocketAddr};

use crate::error::Error;
use crate::netlink::{self, Attributes, Kernel, Message};

/// Type of question and answer (<linux/sock_diag.h>).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `struct inet_diag_req_v2`: family, protocol, extensions, padding, states (u32), then
/// `struct inet_diag_sockid`.
const REQUEST_HEADER: usize = 56;
/// `struct inet_diag_msg`: family, state, timer, retransmissions of the last segment, then
/// `struct inet_diag_sockid` and five numbers.
const ANSWER_HEADER: usize = 72;
/// Where both have `struct inet_diag_sockid`: the local port (big endian), the remote port, 16
/// bytes of local address, 16 of remote address, interface, cookie.
const REQUEST_ID: usize = 8;
const ANSWER_ID: usize = 4;

// Attributes of <linux/inet_diag.h>; as an extension, number n is asked for by bit n - 1.
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const EXTENSIONS: u8 = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);

/// In which state a connection is. States without a connection (listening, SYN-SENT,
/// SYN-RECEIVED, TIME-WAIT) are not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TcpState {
    /// Open both ways.
    Established,
    /// Closed here; the other side has not acknowledged it.
    FinWait1,
    /// Closed here; the other side may still send.
    FinWait2,
    /// Closed by the other side only.
    CloseWait,
    /// Closed by both; the last acknowledgement is missing.
    LastAck,
    /// Closed by both at once.
    Closing,
}

impl TcpState {
    const ALL: [Self; 6] = [
        Self::Established,
        Self::FinWait1,
        Self::FinWait2,
        Self::CloseWait,
        Self::LastAck,
        Self::Closing,
    ];

    /// The number in the kernel's `include/net/tcp_states.h`.
    fn number(self) -> u8 {
        match self {
            Self::Established => 1,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::CloseWait => 8,
            Self::LastAck => 9,
            Self::Closing => 11,
        }
    }
}

/// A TCP connection's end on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// Its own address.
    pub local: SocketAddr,
    /// The other end's.
    pub remote: SocketAddr,
    /// Its state.
    pub state: TcpState,
    /// The congestion control algorithm that it uses, such as `cubic`.
    pub congestion_control: Option<String>,
    /// What the kernel's TCP knows of it.
    pub info: TcpInfo,
}

/// Members of the kernel's `struct tcp_info` (<linux/tcp.h>): of the connection since it was
/// opened, or now. Absent is what the running kernel does not have yet, or has not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Largest segment that it sends now, in bytes.
    pub mss: u32,
    /// Smoothed round trip time in microseconds.
    pub rtt_us: u32,
    /// Mean deviation of the round trip time in microseconds.
    pub rtt_variance_us: u32,
    /// Shortest round trip time of late (5 minutes unless set otherwise), in microseconds.
    pub least_rtt_us: Option<u32>,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// Segments sent again.
    pub retransmits: u32,
    /// Of the segments sent again, those of which the other end said that it had them already: they
    /// were late, and not lost.
    pub unneeded_retransmits: Option<u32>,
    /// Segments with data sent, those sent again included.
    pub segments_sent: Option<u32>,
    /// Bytes that the other end has acknowledged.
    pub bytes_acked: Option<u64>,
    /// Bytes that have arrived in order.
    pub bytes_received: Option<u64>,
    /// The latest rate at which bytes were delivered, per second.
    pub delivery_rate: Option<u64>,
    /// Time in which there was something to send, in microseconds.
    pub busy_us: Option<u64>,
    /// Of that, time in which the other end's receive window held it back.
    pub receive_window_limited_us: Option<u64>,
    /// Of that, time in which the send buffer was too small to send more.
    pub send_buffer_limited_us: Option<u64>,
}

/// Which end of a socket an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// This host's.
    Local,
    /// The other's.
    Remote,
}

/// The connections of the calling thread's network namespace whose address at `end` is one of
/// `addresses`. Those of a server are found by [`End::Local`] and the addresses on which it
/// listens, those of its clients by [`End::Remote`] and the same addresses. The scope of a
/// link-local address is not compared.
///
/// # Errors
///
/// [`Error::Kernel`] if the kernel does not answer, as one without `tcp_diag`.
pub fn tcp_sockets(end: End, addresses: &[SocketAddr]) -> Result<Vec<TcpSocket>, Error> {
    let failed = |source| Error::Kernel { what: "the state of TCP sockets".to_owned(), source };
    let mut found = Vec::new();
    for (family, is_ipv6) in [(libc::AF_INET, false), (libc::AF_INET6, true)] {
        let wanted: Vec<_> =
            addresses.iter().filter(|address| address.is_ipv6() == is_ipv6).collect();
        let question = match wanted[..] {
            [] => continue,
            // The kernel leaves out the others by itself.
            [one] => question(family as u8, Some((end, one.port()))),
            _ => question(family as u8, None),
        };
        let is_wanted = |socket: &TcpSocket| {
            let own = match end {
                End::Local => socket.local,
                End::Remote => socket.remote,
            };
            wanted.iter().any(|wanted| (wanted.ip(), wanted.port()) == (own.ip(), own.port()))
        };
        let answers = Kernel::open_sock_diag()
            .and_then(|mut kernel| kernel.list(&question))
            .map_err(failed)?;
        found.extend(answers.iter().filter_map(socket).filter(is_wanted));
    }
    Ok(found)
}

fn question(family: u8, port: Option<(End, u16)>) -> Message {
    let mut header = [0; REQUEST_HEADER];
    let states = TcpState::ALL.iter().fold(0u32, |states, state| states | 1 << state.number());
    header[0] = family;
    header[1] = libc::IPPROTO_TCP as u8;
    header[2] = EXTENSIONS;
    header[4..8].copy_from_slice(&states.to_ne_bytes());
    if let Some((end, port)) = port {
        let place = match end {
            End::Local => &mut header[REQUEST_ID..REQUEST_ID + 2],
            End::Remote => &mut header[REQUEST_ID + 2..REQUEST_ID + 4],
        };
        place.copy_from_slice(&port.to_be_bytes());
    }
    Message::new(SOCK_DIAG_BY_FAMILY, &header)
}

pub(crate) fn socket(message: &Message) -> Option<TcpSocket> {
    let (header, attributes) = message.header::<ANSWER_HEADER>()?;
    let (&family, &number) = (header.first()?, header.get(1)?);
    let address_length = match i32::from(family) {
        libc::AF_INET => 4,
        libc::AF_INET6 => 16,
        _ => return None,
    };
    let id = header.get(ANSWER_ID..)?;
    let port = |at: usize| Some(u16::from_be_bytes(*id.get(at..)?.first_chunk()?));
    let ip = |at: usize| -> Option<IpAddr> { netlink::ip(id.get(at..at + address_length)?) };
    Some(TcpSocket {
        local: SocketAddr::new(ip(4)?, port(0)?),
        remote: SocketAddr::new(ip(20)?, port(2)?),
        state: TcpState::ALL.into_iter().find(|state| state.number() == number)?,
        congestion_control: attributes.string(INET_DIAG_CONG).filter(|name| !name.is_empty()),
        info: info(attributes)?,
    })
}

/// Older kernels give a shorter structure: its members keep their places for ever.
fn info(attributes: Attributes<'_>) -> Option<TcpInfo> {
    let bytes = attributes.bytes(INET_DIAG_INFO)?;
    let u32_at = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    Some(TcpInfo {
        mss: u32_at(16)?,
        rtt_us: u32_at(68)?,
        rtt_variance_us: u32_at(72)?,
        congestion_window: u32_at(80)?,
        retransmits: u32_at(100)?,
        bytes_acked: u64_at(120),
        bytes_received: u64_at(128),
        // All bits, as long as none was measured.
        least_rtt_us: u32_at(148).filter(|rtt| *rtt != u32::MAX),
        segments_sent: u32_at(156),
        delivery_rate: u64_at(160),
        busy_us: u64_at(168),
        receive_window_limited_us: u64_at(176),
        send_buffer_limited_us: u64_at(184),
        unneeded_retransmits: u32_at(216),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An answer of the kernel's for a connection from 10.0.0.1:1000 to 10.0.0.2:2000, whose
    /// `struct tcp_info` has `length` bytes: in every u32 its place, in every u64 from 104 on as
    /// well.
    fn answer(state: u8, length: usize) -> Message {
        let mut header = [0; ANSWER_HEADER];
        header[..2].copy_from_slice(&[libc::AF_INET as u8, state]);
        header[4..6].copy_from_slice(&1000u16.to_be_bytes());
        header[6..8].copy_from_slice(&2000u16.to_be_bytes());
        header[8..12].copy_from_slice(&[10, 0, 0, 1]);
        header[24..28].copy_from_slice(&[10, 0, 0, 2]);
        let mut info: Vec<u8> = (0..26).flat_map(|word: u32| (word * 4).to_ne_bytes()).collect();
        for at in (104..136).step_by(8) {
            info.extend_from_slice(&(at as u64).to_ne_bytes());
        }
        info.extend((34..40).flat_map(|word: u32| (word * 4).to_ne_bytes()));
        for at in (160..216).step_by(8) {
            info.extend_from_slice(&(at as u64).to_ne_bytes());
        }
        info.extend_from_slice(&216u32.to_ne_bytes());
        Message::new(SOCK_DIAG_BY_FAMILY, &header)
            .with(INET_DIAG_CONG, b"cubic\0")
            .with(INET_DIAG_INFO, &info[..length])
    }

    #[test]
    fn reads_what_the_kernel_knows_of_a_connection() {
        let expected = TcpSocket {
            local: "10.0.0.1:1000".parse().unwrap(),
            remote: "10.0.0.2:2000".parse().unwrap(),
            state: TcpState::Established,
            congestion_control: Some("cubic".to_owned()),
            info: TcpInfo {
                mss: 16,
                rtt_us: 68,
                rtt_variance_us: 72,
                congestion_window: 80,
                retransmits: 100,
                bytes_acked: Some(120),
                bytes_received: Some(128),
                least_rtt_us: Some(148),
                segments_sent: Some(156),
                delivery_rate: Some(160),
                busy_us: Some(168),
                receive_window_limited_us: Some(176),
                send_buffer_limited_us: Some(184),
                unneeded_retransmits: Some(216),
            },
        };
        assert_eq!(socket(&answer(1, 220)), Some(expected));
        assert_eq!(socket(&answer(10, 200)), None, "a listener is no connection");
    }

    #[test]
    fn an_older_kernel_tells_less() {
        // The structure of Linux 3.10.
        let info = socket(&answer(1, 104)).unwrap().info;
        assert_eq!((info.retransmits, info.bytes_acked, info.busy_us), (100, None, None));
        assert_eq!(socket(&answer(1, 103)), None);
    }

    #[test]
    fn a_round_trip_that_was_not_measured_is_absent() {
        let mut info = vec![0; 200];
        info[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let message = Message::new(0, &[]).with(INET_DIAG_INFO, &info);
        let (_, attributes) = message.header::<0>().unwrap();
        assert_eq!(super::info(attributes).unwrap().least_rtt_us, None);
    }

    proptest! {
        #[test]
        fn no_message_is_a_panic(body in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = socket(&Message::new(SOCK_DIAG_BY_FAMILY, &body));
        }
    }
}
