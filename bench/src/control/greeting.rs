//! The first line of a control connection: it tells a fabricbench of another version, or something
//! that is no fabricbench at all, apart from a peer, before anything else is read.

use std::{
    fmt,
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use thiserror::Error;

use crate::transport::{StopReason, StopSignal};

/// Version of everything that follows the greeting. Raised with every change that an older peer
/// would misread.
pub const PROTOCOL: u32 = 15;

const MAGIC: &str = "fabricbench-control";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A greeting is shorter than this; a line that is longer comes from something else.
const LONGEST_LINE: usize = 120;

/// How long a peer may take to greet.
const GREETING_TIME: Duration = Duration::from_secs(5);

/// How long a read lasts before the stop signal is looked at.
const TURN: Duration = Duration::from_millis(100);

/// Why a peer is no peer.
#[derive(Debug, Error)]
pub enum GreetingError {
    /// It speaks something else.
    #[error(
        "{peer} is no fabricbench: it began with {began}; this is fabricbench {VERSION} (control protocol {PROTOCOL})"
    )]
    Foreign {
        /// The peer's address.
        peer: String,
        /// What it sent, shortened and made printable.
        began: String,
    },
    /// It is a fabricbench that speaks another version of the protocol.
    #[error(
        "{peer} runs fabricbench {theirs} (control protocol {protocol}), this is {VERSION} (control protocol {PROTOCOL}); install the same version on both hosts"
    )]
    Version {
        /// The peer's address.
        peer: String,
        /// The peer's fabricbench version.
        theirs: String,
        /// The peer's protocol version.
        protocol: u32,
    },
    /// It sent nothing in time.
    #[error(
        "{peer} did not greet within {within:?}: it is no fabricbench, or it hangs; look at that process"
    )]
    Silent {
        /// The peer's address.
        peer: String,
        /// How long it had.
        within: Duration,
    },
    /// It closed the connection without a greeting.
    #[error(
        "{peer} closed the connection without a greeting: it is no fabricbench, or has too many connections; look at that process"
    )]
    Closed {
        /// The peer's address.
        peer: String,
    },
    /// The connection failed.
    #[error("control connection to {peer}: {source}")]
    Io {
        /// The peer's address.
        peer: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody asked for the end.
    #[error("{0}")]
    Stopped(StopReason),
}

/// Greets as the client: speak first, then check the server's line, for which it has 5 s, or `patience`
/// where that is less.
///
/// # Errors
/// [`GreetingError`].
pub fn greet_server(
    stream: &TcpStream,
    patience: Duration,
    stop: &StopSignal,
) -> Result<(), GreetingError> {
    let peer = name_of(stream);
    say(stream, &peer)?;
    check(stream, &peer, patience.min(GREETING_TIME), stop)
}

/// Greets as the server: check the client's line, and answer with ours whatever it was, so that the
/// other side can say both versions.
///
/// # Errors
/// [`GreetingError`]; the caller closes the connection.
pub fn greet_client(stream: &TcpStream, stop: &StopSignal) -> Result<(), GreetingError> {
    let peer = name_of(stream);
    let checked = check(stream, &peer, GREETING_TIME, stop);
    match checked {
        Ok(()) | Err(GreetingError::Foreign { .. } | GreetingError::Version { .. }) => {
            let said = say(stream, &peer);
            checked.and(said)
        }
        closed => closed,
    }
}

fn greeting() -> String {
    format!("{MAGIC} {PROTOCOL} {VERSION}\n")
}

fn name_of(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "the peer".to_owned(), |address| address.to_string())
}

fn say(mut stream: &TcpStream, peer: &str) -> Result<(), GreetingError> {
    stream.write_all(greeting().as_bytes()).map_err(|source| failed(peer, source))
}

fn failed(peer: &str, source: io::Error) -> GreetingError {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    let peer = peer.to_owned();
    match source.kind() {
        ConnectionReset | BrokenPipe => GreetingError::Closed { peer },
        _ => GreetingError::Io { peer, source },
    }
}

fn check(
    mut stream: &TcpStream,
    peer: &str,
    within: Duration,
    stop: &StopSignal,
) -> Result<(), GreetingError> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    // One deadline for the line, not one for each byte: a peer that trickles is not waited for.
    let deadline = Instant::now() + within;
    let mut line = Vec::new();
    stream.set_read_timeout(Some(TURN)).map_err(|error| failed(peer, error))?;
    loop {
        if let Some(reason) = stop.reason() {
            return Err(GreetingError::Stopped(reason));
        }
        if Instant::now() >= deadline {
            return Err(GreetingError::Silent { peer: peer.to_owned(), within });
        }
        let mut read = [0];
        let got = stream.read(&mut read);
        let [byte] = read;
        match got {
            Ok(0) if line.is_empty() => {
                return Err(GreetingError::Closed { peer: peer.to_owned() });
            }
            Ok(0) => break,
            Ok(_) if byte == b'\n' => break,
            Ok(_) => line.push(byte),
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => continue,
            Err(error) => return Err(failed(peer, error)),
        }
        // A foreign protocol shows at the first byte that differs; waiting for its line would wait
        // for a TLS hello's line feed.
        if line.iter().zip(MAGIC.as_bytes()).any(|(byte, ours)| byte != ours)
            || line.len() > LONGEST_LINE
        {
            break;
        }
    }
    stream.set_read_timeout(None).map_err(|error| failed(peer, error))?;
    judge(&line, peer)
}

/// What a first line, without its line feed, says of `peer`.
pub(super) fn judge(line: &[u8], peer: &str) -> Result<(), GreetingError> {
    let foreign = || GreetingError::Foreign { peer: peer.to_owned(), began: shown(line) };
    let text = std::str::from_utf8(line).map_err(|_| foreign())?;
    let mut words = text.trim_end_matches('\r').split(' ');
    let (magic, protocol, theirs) = (words.next(), words.next(), words.next());
    let protocol: u32 = match (magic, protocol.map(str::parse)) {
        (Some(MAGIC), Some(Ok(protocol))) => protocol,
        _ => return Err(foreign()),
    };
    if protocol != PROTOCOL {
        let theirs = shown(theirs.unwrap_or("of unknown version").as_bytes());
        return Err(GreetingError::Version { peer: peer.to_owned(), theirs, protocol });
    }
    Ok(())
}

/// Bytes from a stranger, safe to print: escaped, and cut.
fn shown(bytes: &[u8]) -> String {
    struct Escaped<'a>(&'a [u8]);
    impl fmt::Display for Escaped<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let cut = self.0.get(..24).unwrap_or(self.0);
            write!(f, "{}", cut.escape_ascii())?;
            if cut.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
        }
    }
    format!("\"{}\"", Escaped(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What the server makes of a client that sends `sent`, and what it answers.
    fn server_meets(sent: &[u8]) -> (Result<(), GreetingError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(sent).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let (server, _) = listener.accept().unwrap();
        let met = greet_client(&server, &StopSignal::new());
        drop(server);
        let mut answer = Vec::new();
        // A reset is as good as an end: the server closed with unread bytes.
        let _ = client.read_to_end(&mut answer);
        (met, String::from_utf8_lossy(&answer).into_owned())
    }

    #[test]
    fn the_same_version_is_met() {
        let (met, answer) = server_meets(format!("{MAGIC} {PROTOCOL} {VERSION}\n").as_bytes());
        met.unwrap();
        assert!(answer.starts_with(&format!("{MAGIC} {PROTOCOL} ")));
    }

    #[test]
    fn another_version_is_refused_with_both() {
        let (met, answer) = server_meets(b"fabricbench-control 99 7.3.0\n");
        let error = met.unwrap_err().to_string();
        assert!(error.contains("7.3.0") && error.contains("control protocol 99"), "{error}");
        assert!(
            error.contains(VERSION) && error.contains(&format!("control protocol {PROTOCOL}")),
            "{error}"
        );
        assert!(answer.starts_with(&format!("{MAGIC} {PROTOCOL} ")), "the client can say both too");
    }

    #[test]
    fn foreign_protocols_are_refused_in_a_line() {
        for sent in [
            &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\n",
            b"fabricbench-control\n",
            b"fabricbench-control one two\n",
            b"fabricbench-control -1 x\n",
            b"fabricbench-contr",
            &[0xff; 4096],
        ] {
            let (met, _) = server_meets(sent);
            let error = met.unwrap_err();
            assert!(matches!(error, GreetingError::Foreign { .. }), "{error:?} for {sent:?}");
            let line = error.to_string();
            assert!(line.len() < 300 && !line.contains('\n') && line.is_ascii(), "{line}");
        }
    }

    #[test]
    fn a_silent_end_is_told_apart() {
        assert!(matches!(server_meets(b"").0, Err(GreetingError::Closed { .. })));
    }
}
