//! The place where connections show their key ([`Key`]): lets in as many as are expected, and nobody else.
//!
//! A connection that has not shown it waits here, for [`HEAD_TIME`] at the most and among [`MOST_WAITING`] at
//! the most, and costs no thread and no task. So strangers keep nobody out, however many come.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream as BlockingStream};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use crate::key::{Answer, HEAD, Key, NONCE, REFUSAL};

/// How long a connection may take to show its key.
pub const HEAD_TIME: Duration = Duration::from_secs(5);

/// The most connections that have not shown it yet.
pub const MOST_WAITING: usize = 64;

/// A new connection, read without waiting.
pub trait Arriving: AsFd {
    /// As [`Read::read`]; pending when there is nothing yet, and then `cx` is woken by what comes.
    ///
    /// # Errors
    /// The socket's.
    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;
}

/// A non-blocking one. It wakes nobody: poll(2) tells when there is something to read.
impl Arriving for BlockingStream {
    fn poll_take(&mut self, _: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        use io::ErrorKind::{Interrupted, WouldBlock};
        match self.read(into) {
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => Poll::Pending,
            read => Poll::Ready(read),
        }
    }
}

impl Arriving for TcpStream {
    fn poll_take(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut into = ReadBuf::new(into);
        ready!(Pin::new(self).poll_read(cx, &mut into))?;
        Poll::Ready(Ok(into.filled().len()))
    }
}

/// Lets connections in by their key.
#[derive(Debug)]
pub struct Door<S> {
    key: Key,
    places: usize,
    patience: Duration,
    /// Numbers of the heads that were let in.
    shown: Vec<[u8; NONCE]>,
    waiting: VecDeque<Waiting<S>>,
    turned_away: TurnedAway,
}

#[derive(Debug)]
struct Waiting<S> {
    stream: S,
    peer: SocketAddr,
    since: Instant,
    head: [u8; HEAD],
    have: usize,
}

impl<S: Arriving> Door<S> {
    /// For `places` connections that show `key`.
    pub fn new(key: Key, places: usize) -> Door<S> {
        Door {
            key,
            places,
            patience: HEAD_TIME,
            shown: Vec::new(),
            waiting: VecDeque::new(),
            turned_away: TurnedAway::default(),
        }
    }

    /// Who was turned away, from now on.
    pub fn turned_away(&self) -> TurnedAway {
        self.turned_away.clone()
    }

    /// Whether all that were expected are in.
    pub fn is_full(&self) -> bool {
        self.shown.len() >= self.places
    }

    /// Those that wait to be let in.
    pub fn waiting(&self) -> impl Iterator<Item = &S> {
        self.waiting.iter().map(|waiting| &waiting.stream)
    }

    /// When the first of them has waited long enough.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|first| first.since + self.patience)
    }

    /// A connection has come. Where too many wait, one goes ([`to_displace`]).
    pub fn arrive(&mut self, stream: S, peer: SocketAddr, now: Instant) {
        self.waiting.push_back(Waiting { stream, peer, since: now, head: [0; HEAD], have: 0 });
        if self.waiting.len() > MOST_WAITING {
            self.displace();
        }
    }

    /// Makes room, if any can be made: the same one goes.
    pub fn displace(&mut self) {
        let addresses = self.waiting.iter().map(|waiting| waiting.peer.ip());
        let displaced = to_displace(addresses).and_then(|index| self.waiting.remove(index));
        if let Some(displaced) = displaced {
            self.turned_away.add(displaced.peer, Reason::Displaced);
        }
    }

    /// The next connection that is let in, if one is; sends away who has had its time. `cx` is woken by what
    /// those bring who go on waiting.
    pub fn poll_admit(&mut self, cx: &mut Context<'_>, now: Instant) -> Option<(S, SocketAddr)> {
        let mut index = 0;
        while !self.is_full()
            && let Some(waiting) = self.waiting.get_mut(index)
        {
            let reason = match waiting.poll_head(cx) {
                Poll::Pending if now.duration_since(waiting.since) < self.patience => {
                    index += 1;
                    continue;
                }
                Poll::Pending => Reason::Silent,
                Poll::Ready(Err(_)) => Reason::Closed,
                Poll::Ready(Ok(())) => match self.judge(index) {
                    Ok((stream, peer)) => return Some((stream, peer)),
                    Err(reason) => reason,
                },
            };
            if let Some(refused) = self.waiting.remove(index) {
                self.turned_away.add(refused.peer, reason);
            }
        }
        None
    }

    /// Lets in, or tells why not, who has shown a whole head.
    fn judge(&mut self, index: usize) -> Result<(S, SocketAddr), Reason> {
        let waiting = self.waiting.get(index).ok_or(Reason::Closed)?;
        let Some((nonce, answer)) = self.key.admit(&waiting.head) else {
            // It may hear it or not.
            waiting.say(REFUSAL);
            return Err(Reason::OtherKey);
        };
        if self.shown.contains(&nonce) {
            waiting.say(REFUSAL);
            return Err(Reason::Replayed);
        }
        if !waiting.say(&answer) {
            return Err(Reason::Closed);
        }
        let admitted = self.waiting.remove(index).ok_or(Reason::Closed)?;
        self.shown.push(nonce);
        Ok((admitted.stream, admitted.peer))
    }
}

/// Which of those that wait, oldest first, is to go where they are too many: the oldest of those from the address
/// with the most. One that only fills places takes them from itself, and who needs its place for a moment comes
/// in beside it. `None` where nobody waits.
pub fn to_displace(addresses: impl Iterator<Item = IpAddr> + Clone) -> Option<usize> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for address in addresses.clone() {
        *counts.entry(address).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    addresses.into_iter().position(|address| counts.get(&address) == Some(&most))
}

impl<S: Arriving> Waiting<S> {
    /// Ready when the head is here as a whole. What comes behind it is left in the socket.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.head.get_mut(self.have..).filter(|rest| !rest.is_empty()) {
            match ready!(self.stream.poll_take(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                got => self.have += got,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether the socket took it, in which nothing is as yet.
    fn say(&self, answer: &Answer) -> bool {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.stream, answer, flags).is_ok_and(|sent| sent == answer.len())
    }
}

/// Why a connection was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    OtherKey,
    Replayed,
    Silent,
    Displaced,
    Closed,
}

/// Connections that were not let in, counted. Clones are of the same count.
#[derive(Clone, Debug, Default)]
pub struct TurnedAway(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    connections: u64,
    first: Option<(SocketAddr, Reason)>,
}

impl TurnedAway {
    fn add(&self, peer: SocketAddr, reason: Reason) {
        // A panic elsewhere leaves it consistent.
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.connections += 1;
        counted.first.get_or_insert((peer, reason));
    }

    /// How many; where there are any, the first of them and why.
    pub fn told(&self) -> Option<String> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (peer, reason) = counted.first?;
        Some(match counted.connections {
            1 => format!("a data connection from {peer}: {reason}"),
            all => format!("{all} data connections, the first from {peer}: {reason}"),
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::OtherKey => f.write_str("it does not show the key of this test"),
            Reason::Replayed => f.write_str("it shows what another connection has shown"),
            Reason::Silent => write!(f, "it showed no key within {HEAD_TIME:?}"),
            Reason::Displaced => {
                write!(f, "too many (up to {MOST_WAITING}) wait to be let in, and another came")
            }
            Reason::Closed => f.write_str("it was closed before it had shown a key"),
        }
    }
}

#[cfg(test)]
mod tests;
