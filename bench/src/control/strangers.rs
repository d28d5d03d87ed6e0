//! Connections that have not been let in yet, bounded: who comes when they are too many takes the place
//! of another.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Shutdown, TcpStream},
    sync::{Mutex, MutexGuard, PoisonError},
};

use fabricbench_grpc::to_displace;

/// The most connections that have not been let in yet. Each has a thread, for as long as greeting and
/// admission may take.
pub(super) const MOST_STRANGERS: usize = 64;

/// All of them, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    address: IpAddr,
    stream: TcpStream,
}

/// One of them, until it is dropped, also by a panic.
#[derive(Debug)]
pub(super) struct Stranger<'a> {
    strangers: &'a Strangers,
    number: u64,
}

impl Strangers {
    /// Counts a new one in. Where they are too many, one is cut off ([`to_displace`]), and its address returned.
    ///
    /// # Errors
    /// The connection's own: it is gone already, or there is no descriptor.
    pub(super) fn add(&self, stream: &TcpStream) -> io::Result<(Stranger<'_>, Option<IpAddr>)> {
        let (address, stream) = (stream.peer_addr()?.ip(), stream.try_clone()?);
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(Waiting { number, address, stream });
        let displaced = (state.waiting.len() > MOST_STRANGERS).then(|| state.displace()).flatten();
        drop(state);
        Ok((Stranger { strangers: self, number }, displaced))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it consistent: each change is one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn displace(&mut self) -> Option<IpAddr> {
        let oldest = to_displace(self.waiting.iter().map(|waiting| waiting.address))?;
        let displaced = self.waiting.remove(oldest)?;
        // Its thread sees the end at its next read.
        let _ = displaced.stream.shutdown(Shutdown::Both);
        Some(displaced.address)
    }
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        self.strangers.state().waiting.retain(|waiting| waiting.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Read,
        net::{Ipv4Addr, SocketAddr, TcpListener},
        time::Duration,
    };

    /// A connection from `127.0.0.last`, its two ends.
    fn connection(listener: &TcpListener, last: u8) -> (TcpStream, TcpStream) {
        let from = SocketAddr::new(Ipv4Addr::new(127, 0, 0, last).into(), 0);
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&from.into()).unwrap();
        socket.connect(&listener.local_addr().unwrap().into()).unwrap();
        (socket.into(), listener.accept().unwrap().0)
    }

    fn is_cut(mut far: &TcpStream) -> bool {
        far.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        far.read(&mut [0]).is_ok_and(|read| read == 0)
    }

    #[test]
    fn who_fills_all_places_displaces_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let strangers = Strangers::default();
        let connections: Vec<_> = (0..MOST_STRANGERS + 9)
            .map(|index| connection(&listener, if index == 0 { 7 } else { 8 }))
            .collect();
        let mut held = Vec::new();
        for (index, (_, near)) in connections.iter().enumerate() {
            let (stranger, displaced) = strangers.add(near).unwrap();
            let over = index >= MOST_STRANGERS;
            assert_eq!(displaced, over.then_some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 8))));
            held.push(stranger);
        }
        let cut: Vec<_> = connections.iter().map(|(far, _)| is_cut(far)).collect();
        let expected: Vec<_> = (0..cut.len()).map(|index| (1..=9).contains(&index)).collect();
        assert_eq!(cut, expected);
        drop(held);
        assert!(strangers.state().waiting.is_empty());
        let (_, displaced) = strangers.add(&connections[0].1).unwrap();
        assert_eq!(displaced, None);
    }
}
