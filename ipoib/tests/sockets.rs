//! What the kernel says of real connections, over loopback.

#![allow(clippy::unwrap_used)] // Clippy takes only functions marked as tests for tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use fabricbench_ipoib::sockets::End;
use fabricbench_ipoib::{TcpSocket, TcpState, tcp_sockets};

const PAYLOAD: usize = 300_000;

/// A connection to `listener`, over which [`PAYLOAD`] has gone from its first end to its second.
fn connection(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| sender.write_all(&[7; PAYLOAD]).unwrap());
        receiver.read_exact(&mut [0; PAYLOAD]).unwrap();
    });
    // The receiver's answer has acknowledged it all.
    receiver.write_all(&[1]).unwrap();
    sender.read_exact(&mut [0]).unwrap();
    (sender, receiver)
}

fn one(end: End, address: SocketAddr) -> TcpSocket {
    let sockets = tcp_sockets(end, &[address]).unwrap();
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    sockets.into_iter().next().unwrap()
}

fn both_ends_are_found(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    let at = listener.local_addr().unwrap();
    assert_eq!(tcp_sockets(End::Local, &[at]).unwrap(), [], "a listener is no connection");
    let (sender, receiver) = connection(&listener);

    let client = one(End::Remote, at);
    assert_eq!((client.local, client.remote), (sender.local_addr().unwrap(), at));
    assert_eq!(client.state, TcpState::Established);
    assert_eq!(client.congestion_control, Some(congestion_control()));
    let info = client.info;
    assert!(info.mss >= 536 && info.congestion_window > 0 && info.rtt_us > 0, "{info:?}");
    assert!(info.bytes_acked.unwrap() >= PAYLOAD as u64, "{info:?}");
    // A busy machine may have been late, and TCP have asked again.
    assert!(info.segments_sent.unwrap() > info.retransmits, "{info:?}");

    let server = one(End::Local, at);
    assert_eq!((server.local, server.remote), (at, sender.local_addr().unwrap()));
    assert_eq!(server.info.bytes_received, Some(PAYLOAD as u64));

    drop(receiver);
    assert_eq!(one(End::Remote, at).state, TcpState::CloseWait);
    drop(sender);
    assert_eq!(tcp_sockets(End::Remote, &[at]).unwrap(), []);
}

fn congestion_control() -> String {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    text.trim().to_owned()
}

#[test]
fn both_ends_of_an_ipv4_connection() {
    both_ends_are_found("127.0.0.1:0");
}

#[test]
fn both_ends_of_an_ipv6_connection() {
    both_ends_are_found("[::1]:0");
}

#[test]
fn connections_to_several_addresses_and_no_others() {
    let listeners = ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0", "127.0.0.1:0"]
        .map(|address| TcpListener::bind(address).unwrap());
    let _open: Vec<_> = listeners
        .iter()
        .flat_map(|listener| [connection(listener), connection(listener)])
        .collect();
    let addresses: Vec<_> =
        listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    for end in [End::Local, End::Remote] {
        // The last listener is somebody else's.
        let sockets = tcp_sockets(end, &addresses[..3]).unwrap();
        assert_eq!(sockets.len(), 6, "{sockets:?}");
        for address in &addresses[..3] {
            let of = |socket: &&TcpSocket| match end {
                End::Local => socket.local == *address,
                End::Remote => socket.remote == *address,
            };
            assert_eq!(sockets.iter().filter(of).count(), 2);
        }
    }
    // The port alone is not the address.
    let mut other = addresses[0];
    other.set_ip("127.0.0.3".parse().unwrap());
    assert_eq!(tcp_sockets(End::Local, &[other]).unwrap(), []);
    assert_eq!(tcp_sockets(End::Local, &[]).unwrap(), []);
}
