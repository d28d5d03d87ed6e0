//! The server's end: waits for clients and serves one test after the other.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use thiserror::Error;

use super::{
    AdmissionError, Census, GreetingError, Guard, Link, LinkError, Queue, Refusal, Reply, Request,
    Ticket, admit, greet_client,
    limits::within_limits,
    strangers::{MOST_STRANGERS, Strangers},
    time_limit::TimeLimit,
};
use crate::{
    report::Status,
    session::{self, Host, Quota, Serving},
    transport::{StopReason, StopSignal, TransportError},
};

/// Clients served or queued at once; more are turned away. Each takes three threads.
const MOST_CLIENTS: u64 = 64;

/// Time for a client that is turned away to hear why, and go.
const HEARD: Duration = Duration::from_secs(1);

/// Why a server cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The port is not to be had.
    #[error(
        "cannot listen on {address}: {source}; another port is chosen with --port (0: any free one)"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// What a server tells its operator.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A client's turn has come.
    Began(&'a str),
    /// A client waits behind others.
    Queued(&'a str, usize),
    /// A client is gone.
    Ended {
        /// The client.
        peer: &'a str,
        /// What ended it; `None` if it was done.
        how: Option<&'a str>,
        /// Whether its turn had come.
        began: bool,
    },
    /// Something that is no client knocked.
    Refused(&'a str),
}

/// How a server is to end.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// It takes no more clients, and ends with those whose turn had come.
    pub closing: StopSignal,
    /// It ends, and cuts its clients off.
    pub now: StopSignal,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    silence: Duration,
    guard: Guard,
    quota: Quota,
    census: Arc<Census>,
}

impl Server {
    /// Listens on `address`; port 0 takes any free one. A client is let in as `guard` says, and given up
    /// when it is silent for `silence`.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn bind(address: SocketAddr, silence: Duration, guard: Guard) -> Result<Self, ServeError> {
        TcpListener::bind(address)
            .and_then(|listener| Self::on(listener, silence, guard))
            .map_err(|source| ServeError::Listen { address, source })
    }

    /// As [`Server::bind`], on a socket that listens already.
    ///
    /// # Errors
    /// The socket's own.
    pub fn on(listener: TcpListener, silence: Duration, guard: Guard) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (quota, census) = (Quota::default(), Arc::default());
        Ok(Self { listener, address, silence, guard, quota, census })
    }

    /// The same, whose clients may have what `quota` says.
    #[must_use]
    pub fn limited(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done and does.
    #[must_use]
    pub fn census(&self) -> Arc<Census> {
        self.census.clone()
    }

    /// Serves until it is to end. `host` describes this host anew for each client, since interfaces come
    /// and go.
    pub fn serve(
        &self,
        host: &(impl Fn() -> Host + Sync),
        ending: &Ending,
        notify: &(impl Fn(Notice<'_>) + Sync),
    ) {
        let notify = &|notice: Notice<'_>| {
            self.census.count(&notice);
            notify(notice);
        };
        let queue = Queue::new();
        let strangers = Strangers::default();
        thread::scope(|scope| {
            while !self.is_over(ending) {
                let stream = match self.listener.accept() {
                    Ok((stream, _)) => stream,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(20));
                        continue;
                    }
                    // A connection that ended before it was accepted, no memory, too many open
                    // files: accept(2) has a long list, and the next one may fare better.
                    Err(error) => {
                        notify(Notice::Refused(&format!("a connection: {error}")));
                        thread::sleep(Duration::from_millis(100));
                        continue;
                    }
                };
                let stranger = match strangers.add(&stream) {
                    Ok((stranger, None)) => stranger,
                    Ok((stranger, Some(displaced))) => {
                        notify(Notice::Refused(&format!(
                            "a connection from {displaced}: {MOST_STRANGERS} wait to be let in, and another came"
                        )));
                        stranger
                    }
                    // It is gone already, or there is no descriptor for it.
                    Err(error) => {
                        notify(Notice::Refused(&format!("a connection: {error}")));
                        continue;
                    }
                };
                let queue = &queue;
                let started = thread::Builder::new().name("client".to_owned()).spawn_scoped(
                    scope,
                    move || {
                        let Some(client) = self.meet(stream, &ending.now, notify) else { return };
                        let counted = Counted::new(&self.census);
                        drop(stranger);
                        self.attend(client, (counted.number, queue), host, ending, notify);
                    },
                );
                if started.is_err() {
                    notify(Notice::Refused("no thread for a connection; it was closed"));
                }
            }
        });
    }

    fn is_over(&self, ending: &Ending) -> bool {
        ending.now.is_given() || ending.closing.is_given() && self.census.clients.load(Relaxed) == 0
    }
}

/// One of the connections, until it is dropped, also by a panic.
struct Counted<'a> {
    census: &'a Census,
    number: u64,
}

impl<'a> Counted<'a> {
    fn new(census: &'a Census) -> Self {
        Self { census, number: census.clients.fetch_add(1, Relaxed) + 1 }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.census.clients.fetch_sub(1, Relaxed);
    }
}

/// What a connection is from its acceptance to its end, one after the other.
impl Server {
    /// Greets, and lets in who may come; `None` for others, of whom `notify` has heard.
    fn meet(
        &self,
        stream: TcpStream,
        stop: &StopSignal,
        notify: &impl Fn(Notice<'_>),
    ) -> Option<(TcpStream, String)> {
        // Asked at once: a connection that was reset does not know any more.
        let peer = stream.peer_addr().map_or_else(|_| "a peer".to_owned(), |peer| peer.to_string());
        let greeted = stream
            .set_nonblocking(false)
            .map_err(|source| GreetingError::Io { peer: peer.clone(), source })
            .and_then(|()| greet_client(&stream, stop));
        match greeted {
            Ok(()) => {}
            Err(GreetingError::Stopped(_)) => return None,
            Err(error) => {
                notify(Notice::Refused(&error.to_string()));
                return None;
            }
        }
        match admit(&stream, &self.guard, &peer, stop) {
            Ok(()) => Some((stream, peer)),
            Err(AdmissionError::Stopped(_)) => None,
            Err(error) => {
                notify(Notice::Refused(&error.to_string()));
                None
            }
        }
    }

    /// Serves who has been let in.
    fn attend(
        &self,
        (stream, peer): (TcpStream, String),
        (number, queue): (u64, &Queue),
        host: &impl Fn() -> Host,
        ending: &Ending,
        notify: &impl Fn(Notice<'_>),
    ) {
        let link = match Link::new(stream, peer, self.silence, StopSignal::new()) {
            Ok(link) => link,
            Err(error) => return notify(Notice::Refused(&error.to_string())),
        };
        let turned_away = if ending.closing.is_given() {
            Some(STOPPING.to_owned())
        } else {
            (number > MOST_CLIENTS).then(|| {
                format!(
                    "too many clients, the limit is {MOST_CLIENTS}; try again when others have ended"
                )
            })
        };
        if let Some(reason) = turned_away {
            notify(Notice::Refused(&format!("{}: {reason}", link.peer())));
            // Heard first: closed with something unread, it would be reset, and what it is told be lost.
            if hear(&link, &ending.now, Some(link.silence())).is_ok() {
                turn_away(&link, reason, &ending.now);
            }
            return;
        }
        // Given back last of all, so that the notice of an end comes before that of the next beginning.
        let mut turn = Turn { place: None, began: false, doing: "waiting for its turn" };
        let ended = self.serve_client(&link, queue, &mut turn, host, ending, notify);
        let how = ended.err().map(|error| {
            // The notice names the peer already.
            let how = error.to_string();
            let how = how.strip_prefix(link.peer()).unwrap_or(&how);
            format!("while {}: {}", turn.doing, how.trim_start_matches([':', ' ']))
        });
        notify(Notice::Ended { peer: link.peer(), how: how.as_deref(), began: turn.began });
    }
}

/// Tells of connections to a slice's ports that were not its client's.
fn tell_turned_away(serving: Option<&Serving>, notify: &impl Fn(Notice<'_>)) {
    let told = serving.into_iter().flat_map(Serving::turned_away);
    told.for_each(|told| notify(Notice::Refused(&told)));
}

/// A client's place in the line, whether its turn has come, and what is done for it.
struct Turn {
    place: Option<Ticket>,
    began: bool,
    doing: &'static str,
}

/// Why a server that is closing takes nobody in.
const STOPPING: &str = "the server is stopping; try again when it is back";

/// Tells a client why, and gives it the time to hear it.
fn turn_away(link: &Link<Reply, Request>, reason: String, stop: &StopSignal) {
    let refusal = Refusal { status: Status::Skipped, reason };
    if link.say(Reply::Refused(refusal)).is_ok() {
        let _ = hear(link, stop, Some(HEARD));
    }
}

impl Server {
    fn serve_client(
        &self,
        link: &Link<Reply, Request>,
        queue: &Queue,
        turn: &mut Turn,
        host: &impl Fn() -> Host,
        ending: &Ending,
        notify: &impl Fn(Notice<'_>),
    ) -> Result<(), LinkError> {
        let stop = &ending.now;
        let Request::Begin(_) = hear(link, stop, Some(link.silence()))? else {
            return Err(out_of_turn(link));
        };
        await_turn(turn.place.insert(queue.join()), link, ending, notify)?;
        (turn.began, turn.doing) = (true, "agreeing the plan");
        notify(Notice::Began(link.peer()));
        let here = host();
        link.say(Reply::Welcome(Box::new(here.clone())))?;
        let mut serving = None;
        let time = TimeLimit::begin(self.quota.time);
        let slices = (&mut serving, &mut turn.doing);
        let ended = self.serve_slices(link, &here, slices, &time, stop, notify);
        tell_turned_away(serving.as_ref(), notify);
        ended
    }

    /// Until the client says that this was all. A slice that it leaves is left in `serving`, and what was
    /// being done in `doing`.
    fn serve_slices(
        &self,
        link: &Link<Reply, Request>,
        here: &Host,
        (serving, doing): (&mut Option<Serving>, &mut &'static str),
        time: &TimeLimit,
        stop: &StopSignal,
        notify: &impl Fn(Notice<'_>),
    ) -> Result<(), LinkError> {
        loop {
            match time.hear(link, serving, stop)? {
                Request::Prepare { cell, depth, seed, cpu, offers } => {
                    // One slice at a time: what was before has ended, or ends here.
                    tell_turned_away(serving.as_ref(), notify);
                    drop(serving.take());
                    let admitted = time.admit().and_then(|()| within_limits(&cell, depth));
                    let prepared = admitted.and_then(|()| {
                        session::prepare(here, *cell, depth, seed, cpu, &offers, &self.quota)
                    });
                    link.say(match prepared {
                        Ok((answers, ready)) => {
                            let path = Box::new(ready.path().clone());
                            *serving = Some(ready);
                            *doing = "connecting the data path";
                            Reply::Prepared { answers, path }
                        }
                        Err(error) => Reply::Refused(refusal(error)),
                    })?;
                }
                Request::Start => match serving {
                    Some(serving) => {
                        serving.start();
                        *doing = "measuring";
                        link.say(Reply::Started)?;
                    }
                    None => return Err(out_of_turn(link)),
                },
                Request::Connections => match serving {
                    Some(serving) => {
                        link.say(Reply::Connections(serving.connections().map(Box::new)))?;
                    }
                    None => return Err(out_of_turn(link)),
                },
                Request::Finish { messages } => match serving.take() {
                    Some(serving) => {
                        tell_turned_away(Some(&serving), notify);
                        let observed = serving.finish(messages);
                        self.census.slices.fetch_add(u64::from(messages.is_some()), Relaxed);
                        *doing = "waiting for the next slice";
                        link.say(Reply::Finished(Box::new(observed)))?;
                    }
                    None => return Err(out_of_turn(link)),
                },
                Request::End => return Ok(()),
                Request::Begin(_) => return Err(out_of_turn(link)),
            }
        }
    }
}

fn await_turn(
    ticket: &Ticket,
    link: &Link<Reply, Request>,
    ending: &Ending,
    notify: &impl Fn(Notice<'_>),
) -> Result<(), LinkError> {
    let mut told = 0;
    let mut position = ticket.position();
    while position > 0 {
        if position != told {
            link.say(Reply::Queued { before: position as u64 })?;
            notify(Notice::Queued(link.peer(), position));
            told = position;
        }
        position = ticket.wait(Duration::from_millis(200));
        if let Some(reason) = ending.now.reason().or_else(|| link.lost().reason()) {
            return Err(LinkError::Lost(reason));
        }
        if let Some(reason) = ending.closing.reason().filter(|_| position > 0) {
            turn_away(link, STOPPING.to_owned(), &ending.now);
            return Err(LinkError::Lost(reason));
        }
    }
    Ok(())
}

/// Waits for the client's next request: as long as it lives, the server is not told to end, and
/// `most` is not over.
pub(super) fn hear(
    link: &Link<Reply, Request>,
    stop: &StopSignal,
    most: Option<Duration>,
) -> Result<Request, LinkError> {
    let since = Instant::now();
    loop {
        match link.hear(Duration::from_millis(200)) {
            Err(LinkError::Timeout { peer, .. }) => {
                if let Some(reason) = stop.reason() {
                    return Err(LinkError::Lost(reason));
                }
                if let Some(after) = most.filter(|&most| since.elapsed() >= most) {
                    return Err(LinkError::Timeout { peer, after });
                }
            }
            heard => return heard,
        }
    }
}

fn refusal(error: TransportError) -> Refusal {
    let status = match error {
        TransportError::Unsupported(_) => Status::Unsupported,
        TransportError::Failed(_) | TransportError::Stopped(_) => Status::Failed,
    };
    Refusal { status, reason: error.to_string() }
}

fn out_of_turn(link: &Link<Reply, Request>) -> LinkError {
    LinkError::Lost(StopReason::PeerLost(format!("{} spoke out of turn", link.peer())))
}
