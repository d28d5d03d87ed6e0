//! The client's end of the conversation.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use thiserror::Error;

use super::{
    AdmissionError, GreetingError, Link, LinkError, Reply, Request, Token, enter, greet_server,
};
use crate::{
    report::{Path, Status, TcpSide},
    session::{Conversation, Host, Observation, Slice, SliceError},
    transport::{Answer, Offer, StopReason, StopSignal},
};

/// Why no server was reached.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The name means nothing.
    #[error("cannot resolve {host}: {source}; give an address, or mend the name service")]
    Resolve {
        /// What was asked for.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Nobody answers there.
    #[error(
        "no fabricbench server at {host} port {port}: {tried}; start `fabricbench serve` there, or name its port with --port"
    )]
    Unreachable {
        /// What was asked for.
        host: String,
        /// Which port.
        port: u16,
        /// Each address with what the system said.
        tried: String,
    },
    /// Something else answers there.
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    /// It does not let us in, or does not show that it is the one.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// It let us in and was lost.
    #[error("before our turn: {0}")]
    Link(#[from] LinkError),
    /// It takes no further client.
    #[error("{peer} refused: {reason}")]
    Refused {
        /// The peer's address.
        peer: String,
        /// Why, in its words.
        reason: String,
    },
    /// It said something that was not expected.
    #[error("{peer} answered out of turn; is it a fabricbench of the same version?")]
    OutOfTurn {
        /// The peer's address.
        peer: String,
    },
    /// The socket refused.
    #[error("control connection: {0}")]
    Io(#[from] io::Error),
}

/// A host as a user names it, with or without a port: `node2`, `10.0.0.2:18570`, `fd00::1`,
/// `[fd00::1]:18570`, `fe80::1%eth0`.
///
/// # Errors
/// No host, or a port that is no number, in words.
pub fn parse_host(text: &str, default_port: u16) -> Result<(String, u16), String> {
    let port = |text: &str| {
        text.parse::<u16>().map_err(|_| format!("`{text}` is no port number (1 to 65535)"))
    };
    if text.is_empty() || text.starts_with(':') && !text.starts_with("::") {
        return Err(format!(
            "HOST `{text}` is empty; name the server, or leave HOST out to measure this host"
        ));
    }
    if text.contains("://") {
        return Err(format!(
            "HOST `{text}` is a URL; name the server alone, as in node2 or node2:{default_port}"
        ));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) =
            rest.split_once(']').ok_or_else(|| format!("`{text}` lacks its closing bracket"))?;
        return match after.strip_prefix(':') {
            Some(number) => Ok((host.to_owned(), port(number)?)),
            None if after.is_empty() => Ok((host.to_owned(), default_port)),
            None => Err(format!("`{text}` is not [ADDRESS]:PORT")),
        };
    }
    match text.split_once(':') {
        // More than one colon: an IPv6 address without brackets, which cannot carry a port.
        Some((_, rest)) if rest.contains(':') => Ok((text.to_owned(), default_port)),
        Some((host, number)) => Ok((host.to_owned(), port(number)?)),
        None => Ok((text.to_owned(), default_port)),
    }
}

/// A server that has welcomed us.
#[derive(Debug)]
pub struct Client {
    link: Link<Request, Reply>,
    /// The server's host.
    pub there: Host,
    /// The server's address.
    pub address: IpAddr,
}

impl Client {
    /// Connects, greets, shows `token` and has it shown, and waits for our turn; `queued` hears how many
    /// are before us.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        host: &str,
        port: u16,
        token: Option<&Token>,
        here: &Host,
        patience: Duration,
        stop: &StopSignal,
        mut queued: impl FnMut(u64),
    ) -> Result<Self, ConnectError> {
        let (stream, address) = reach(host, port, patience, stop)?;
        greet_server(&stream, patience, stop)?;
        enter(&stream, token, &address.to_string(), patience, stop)?;
        let link = Link::new(stream, address.to_string(), patience, stop.clone())?;
        let address = address.ip();
        let said = link.say(Request::Begin(Box::new(here.clone())));
        let there = loop {
            // Its signs of life bound this wait, not the length of the queue. A server that closed
            // before it heard us has most likely said why.
            let heard: Reply =
                link.hear(Duration::MAX).map_err(|lost| said.clone().err().unwrap_or(lost))?;
            let out_of_turn = || ConnectError::OutOfTurn { peer: link.peer().to_owned() };
            match heard.plain().map_err(|_| out_of_turn())? {
                Reply::Queued { before } => queued(before),
                Reply::Welcome(there) => break *there,
                Reply::Refused(refusal) => {
                    let peer = link.peer().to_owned();
                    return Err(ConnectError::Refused { peer, reason: refusal.reason });
                }
                _ => return Err(out_of_turn()),
            }
        };
        Ok(Self { link, there, address })
    }

    /// Says goodbye, so that the server need not wonder.
    pub fn end(self) {
        let _ = self.link.say(Request::End);
    }

    /// Asks; a loss is told with what was being done.
    fn ask(&mut self, doing: &str, request: Request) -> Result<Reply, SliceError> {
        // Registering memory takes a while for large messages; a dead server shows much earlier.
        const MOST: Duration = Duration::from_secs(60);
        let reply = self.link.ask(request, MOST).map_err(|error| lost(error).while_(doing))?;
        reply.plain().map_err(|_| self.out_of_turn())
    }

    fn out_of_turn(&self) -> SliceError {
        let text = format!("{} answered out of turn", self.link.peer());
        self.link.lost().give(StopReason::PeerLost(text.clone()));
        SliceError::Stopped(StopReason::PeerLost(text))
    }
}

fn lost(error: LinkError) -> SliceError {
    match error {
        LinkError::Lost(reason) => SliceError::Stopped(reason),
        late @ LinkError::Timeout { .. } => {
            SliceError::Stopped(StopReason::PeerLost(late.to_string()))
        }
    }
}

impl Conversation for Client {
    fn prepare(
        &mut self,
        slice: &Slice,
        offers: Vec<Offer>,
    ) -> Result<(Vec<Answer>, Path), SliceError> {
        let request = Request::Prepare {
            cell: Box::new(slice.cell.clone()),
            depth: slice.depth,
            seed: slice.seed,
            cpu: slice.server_cpu,
            offers,
        };
        match self.ask("agreeing the plan", request)? {
            Reply::Prepared { answers, path } => Ok((answers, *path)),
            Reply::Refused(refusal) => {
                let reason = format!("on the server: {}", refusal.reason);
                Err(match refusal.status {
                    Status::Unsupported => SliceError::Unsupported(reason),
                    _ => SliceError::Failed(reason),
                })
            }
            _ => Err(self.out_of_turn()),
        }
    }

    fn start(&mut self) -> Result<(), SliceError> {
        match self.ask("beginning a slice", Request::Start)? {
            Reply::Started => Ok(()),
            _ => Err(self.out_of_turn()),
        }
    }

    fn connections(&mut self) -> Result<Result<TcpSide, String>, SliceError> {
        match self.ask("finishing", Request::Connections)? {
            Reply::Connections(told) => Ok(told.map(|side| *side)),
            _ => Err(self.out_of_turn()),
        }
    }

    fn finish(&mut self, messages: Option<u64>) -> Result<Observation, SliceError> {
        let doing = if messages.is_some() { "finishing" } else { "giving a slice up" };
        match self.ask(doing, Request::Finish { messages })? {
            Reply::Finished(observation) => Ok(*observation),
            _ => Err(self.out_of_turn()),
        }
    }
}

/// Resolves and connects on a thread of its own: neither looks at `stop`, and a name service may
/// take longer than anybody wants to wait.
fn reach(
    host: &str,
    port: u16,
    patience: Duration,
    stop: &StopSignal,
) -> Result<(TcpStream, SocketAddr), ConnectError> {
    const TURN: Duration = Duration::from_millis(50);
    // Connecting is bounded by `patience`, and then has more to tell.
    let deadline = Instant::now() + patience + Duration::from_secs(1);
    let (tell, told) = mpsc::channel();
    let name = host.to_owned();
    thread::Builder::new().name("connect".to_owned()).spawn(move || {
        let _ = tell.send(connect_any(&name, port, patience));
    })?;
    loop {
        match told.recv_timeout(TURN) {
            Ok(reached) => return reached,
            Err(_) => {
                if let Some(reason) = stop.reason() {
                    return Err(LinkError::Lost(reason).into());
                }
                if Instant::now() >= deadline {
                    let source = io::ErrorKind::TimedOut.into();
                    return Err(ConnectError::Resolve { host: host.to_owned(), source });
                }
            }
        }
    }
}

/// The least time one address is given.
const SHORTEST_TRY: Duration = Duration::from_millis(100);

fn connect_any(
    host: &str,
    port: u16,
    patience: Duration,
) -> Result<(TcpStream, SocketAddr), ConnectError> {
    let deadline = Instant::now() + patience;
    let addresses: Vec<SocketAddr> = resolve(host, port)
        .map_err(|source| ConnectError::Resolve { host: host.to_owned(), source })?;
    let mut tried = Vec::new();
    for (index, address) in addresses.iter().enumerate() {
        // An address that leads nowhere must not use up the time of those after it.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        match TcpStream::connect_timeout(address, share.max(SHORTEST_TRY)) {
            Ok(stream) => return Ok((stream, *address)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                tried.push(format!("{address} did not answer within {share:.1?}"));
            }
            Err(error) => tried.push(format!("{address}: {error}")),
        }
    }
    Err(ConnectError::Unreachable { host: host.to_owned(), port, tried: tried.join(", ") })
}

/// Resolves, link-local addresses with an interface as their zone included.
fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_as_people_write_them() {
        let host = |text| parse_host(text, 7).unwrap();
        assert_eq!(host("node2"), ("node2".into(), 7));
        assert_eq!(host("node2:99"), ("node2".into(), 99));
        assert_eq!(host("10.0.0.2:99"), ("10.0.0.2".into(), 99));
        assert_eq!(host("fd00::1"), ("fd00::1".into(), 7));
        assert_eq!(host("[fd00::1]"), ("fd00::1".into(), 7));
        assert_eq!(host("[::1]:99"), ("::1".into(), 99));
        assert_eq!(host("fe80::1%eth0"), ("fe80::1%eth0".into(), 7));
        assert!(parse_host("http://node2:9", 7).unwrap_err().contains("node2:7"));
        assert!(parse_host("node2:http", 7).unwrap_err().contains("http"));
        assert!(parse_host("[::1", 7).is_err());
        assert_eq!(host("::1"), ("::1".into(), 7));
        assert!(parse_host("", 7).is_err() && parse_host(":99", 7).is_err());
        assert!(parse_host("[::1]x", 7).is_err());
    }

    #[test]
    fn a_zone_is_resolved_to_its_interface() {
        let address = resolve("fe80::1%lo", 7).unwrap();
        assert!(matches!(address[..], [SocketAddr::V6(address)] if address.scope_id() == 1));
    }
}
