//! gRPC through a named interface, on a current-thread runtime: the engine's loop drives it. Calls
//! are the module `calls`.

mod calls;
mod fetch;
mod push;
mod responder;
mod settings;
mod tensors;

use std::{
    collections::{BTreeMap, VecDeque},
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

pub use calls::{GrpcCalls, GrpcCallsOpening};
use fabricbench_grpc::{Client, Message, Tuning, marks::Side};
use fabricbench_ipoib::PathChoice;
pub use responder::GrpcResponder;
pub use settings::{GrpcSettings, MOST_RUNTIME_THREADS, RuntimeKind};
pub use tensors::{GrpcTensorResponder, GrpcTensors};
use tokio::{
    runtime::Runtime,
    task::unconstrained,
    time::{Instant, timeout},
};

use self::{
    fetch::Fetch,
    push::{Exchanges, Pushes},
};
use super::{
    Answer, Completed, Initiator, MarkedConnection, Marking, Offer, Opening, Operation, Patience,
    Received, StopSignal, TcpEndpoint, TransportError,
    buffer::filled,
    tcp::{SOCKET_BINDING, bound_to, connect_options, hand_over, wish},
    wait::{go_on, stopped},
};
use crate::plan::{Cell, GrpcTuning, Pattern, Payload};

/// How long a wait lasts before the stop signal is looked at.
const TURN: Duration = Duration::from_millis(100);

/// The settings of a tuning for messages of `size` bytes, raw or `serialized`, `depth` in flight.
///
/// # Errors
/// gRPC cannot carry a message that large.
pub fn tuning(
    kind: GrpcTuning,
    serialized: bool,
    size: u64,
    depth: u32,
) -> Result<Tuning, TransportError> {
    match kind {
        GrpcTuning::Tuned => Tuning::tuned(size, depth),
        GrpcTuning::Stock => Tuning::stock(size),
        GrpcTuning::Lean => Tuning::lean(size, depth),
    }
    .and_then(|tuning| tuning.serialized(serialized))
    .map_err(|error| TransportError::Unsupported(error.to_string()))
}

/// The client's side before it is connected.
#[derive(Debug)]
pub struct GrpcOpening {
    /// Pattern and size.
    pub cell: Cell,
    /// What to send.
    pub payload: Payload,
    /// Both ends' interfaces and addresses.
    pub path: PathChoice,
    /// Time to connect, and time in which the stream takes no message.
    pub timeout: Duration,
    /// HTTP/2 settings.
    pub tuning: Tuning,
    /// Messages in flight on each connection at the most.
    pub depth: u32,
    /// Connections, each over a socket of its own.
    pub connections: u32,
    /// Options.
    pub settings: GrpcSettings,
    /// How calls are marked; `None`: none is.
    pub marking: Option<Marking>,
    /// Ends every wait.
    pub stop: StopSignal,
}

impl Opening for GrpcOpening {
    type Initiator = GrpcInitiator;

    fn offer(&self) -> Offer {
        let one_in = self.marking.as_ref().map(Marking::one_in);
        let wish = wish(&self.path, self.connections);
        Offer::Tcp(TcpEndpoint { grpc: self.settings, one_in, ..wish })
    }

    fn connect(self, answer: &Answer) -> Result<GrpcInitiator, TransportError> {
        let (runtime, clients) = self.link(answer)?;
        let depth = self.depth.max(1) as usize * clients.len();
        let settings = self.in_force(&clients);
        let message = message(&self.cell, &self.payload)?;
        Ok(GrpcInitiator {
            runtime,
            clients,
            pattern: self.cell.pattern,
            fetch: Fetch::new(self.depth, self.cell.size, self.payload.clone()),
            payload: self.payload,
            message,
            pushes: None,
            exchanges: None,
            first: Arc::default(),
            depth,
            waiting: VecDeque::with_capacity(depth),
            patience: Patience(self.timeout),
            settings,
            verified: None,
            confirmed: Received::default(),
            stop: self.stop,
        })
    }
}

impl GrpcOpening {
    /// Connects.
    fn link(&self, answer: &Answer) -> Result<(Runtime, Vec<Client>), TransportError> {
        let runtime = self.settings.runtime.build()?;
        let clients = self.clients(&runtime, answer)?;
        Ok((runtime, clients))
    }

    /// Connects to one server, on a runtime that may have other connections.
    fn clients(&self, runtime: &Runtime, answer: &Answer) -> Result<Vec<Client>, TransportError> {
        let mut options = connect_options(&self.path, answer, self.timeout)?;
        if self.settings.tls {
            let Answer::Tcp { certificate: Some(certificate), .. } = answer else {
                return Err(TransportError::Failed(
                    "the server told no certificate where TLS was asked for".to_owned(),
                ));
            };
            options = options.certificate(certificate);
        }
        let patience = Patience(options.timeout + TURN);
        let mut clients = Vec::new();
        for _ in 0..self.connections.max(1) {
            // One of its own for each connection.
            options.marks = self.marking.as_ref().map(|marking| marking.recorder(Side::Client));
            let connecting = Client::connect(&options, &self.tuning);
            clients.push(drive(runtime, connecting, patience, &self.stop)?.map_err(failed)?);
        }
        Ok(clients)
    }

    /// What is in force, by name.
    fn in_force(&self, clients: &[Client]) -> BTreeMap<String, String> {
        let described = self.tuning.describe().into_iter();
        let mut settings: BTreeMap<_, _> =
            described.map(|setting| (setting.name.to_owned(), setting.value)).collect();
        let GrpcSettings { tls, assign, runtime, server_runtime, .. } = self.settings;
        let mut say = |name: &str, value: String| settings.insert(name.to_owned(), value);
        say("client runtime", runtime.to_string());
        say("server runtime", server_runtime.to_string());
        say("assign", if assign { "on" } else { "off" }.to_owned());
        say("TLS", if tls { "on" } else { "off" }.to_owned());
        if let Some(client) = clients.first() {
            say(SOCKET_BINDING, bound_to(client.binding()));
        }
        settings
    }
}

/// The client's side.
#[derive(Debug)]
pub struct GrpcInitiator {
    // Before the runtime, which runs what these have begun.
    pushes: Option<Pushes>,
    exchanges: Option<Exchanges>,
    fetch: Fetch,
    // One at least.
    clients: Vec<Client>,
    runtime: Runtime,
    pattern: Pattern,
    payload: Payload,
    message: Message,
    // Of all connections together.
    depth: usize,
    // Tokens of messages that the stream has taken, or of the call to come.
    waiting: VecDeque<u64>,
    patience: Patience,
    settings: BTreeMap<String, String>,
    verified: Option<bool>,
    // Of an exchange, in which the runtime's tasks receive.
    first: Arc<FirstMessage>,
    confirmed: Received,
    stop: StopSignal,
}

impl Initiator for GrpcInitiator {
    fn depth(&self) -> usize {
        match self.pattern {
            // A call is a future, which begins when it is waited for: one at a time.
            Pattern::Latency => 1,
            _ => self.depth,
        }
    }

    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        match self.pattern {
            Pattern::Latency
            | Pattern::Calls
            | Pattern::Ps
            | Pattern::TensorPush
            | Pattern::TensorFetch => {}
            Pattern::Fetch => {
                go_on(&self.stop)?;
                if self.fetch.want(&self.clients) {
                    drive(&self.runtime, self.fetch.send(), self.patience, &self.stop)??;
                }
            }
            Pattern::Bidirectional => {
                let exchanges = self.exchanges.get_or_insert_with(|| {
                    let _runtime = self.runtime.enter();
                    let size = self.message.len() as u64;
                    Exchanges::begin(&self.clients, |client| {
                        let (first, payload) = (self.first.clone(), self.payload.clone());
                        client.exchange(move |message: &[u8]| first.check(&payload, size, message))
                    })
                });
                let sending = exchanges.send(self.message.clone());
                drive(&self.runtime, sending, self.patience, &self.stop)?.map_err(failed)?;
            }
            Pattern::Bandwidth | Pattern::Rate => {
                let pushes = self.pushes.get_or_insert_with(|| {
                    let _runtime = self.runtime.enter();
                    Pushes::begin(&self.clients)
                });
                let sending = pushes.send(&self.message);
                drive(&self.runtime, sending, self.patience, &self.stop)?.map_err(failed)?;
            }
        }
        self.waiting.push_back(operation.token);
        Ok(())
    }

    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        if self.pattern == Pattern::Latency {
            let client = self.clients.first().ok_or_else(no_connection)?;
            let call = client.echo(self.message.clone());
            let echo = match drive(&self.runtime, call, patience, &self.stop) {
                Ok(echo) => echo.map_err(failed)?,
                Err(TransportError::Failed(_)) => return Ok(()),
                Err(stopped) => return Err(stopped),
            };
            if self.verified.is_none() {
                self.verified =
                    Some(self.payload.matches(&echo) && echo.len() == self.message.len());
            }
        }
        if self.pattern == Pattern::Fetch {
            if self.fetch.wait(&self.clients) {
                drive(&self.runtime, self.fetch.send(), patience, &self.stop)??;
            }
            let most = done.room() as u64;
            let arrivals = poll_fn(|cx| self.fetch.poll_arrivals(most, cx));
            let arrived = match drive(&self.runtime, arrivals, patience, &self.stop) {
                Ok(arrived) => arrived?,
                Err(TransportError::Failed(_)) => return Ok(()),
                Err(stopped) => return Err(stopped),
            };
            for token in self.waiting.drain(..self.waiting.len().min(arrived as usize)) {
                done.push(token);
            }
            return Ok(());
        }
        hand_over(&mut self.waiting, done);
        Ok(())
    }

    fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
        if self.pattern == Pattern::Fetch {
            let end = poll_fn(|cx| self.fetch.poll_end(cx));
            drive(&self.runtime, end, patience, &self.stop)??;
            return Ok(self.fetch.received());
        }
        if let Some(pushes) = self.pushes.take() {
            let pushed =
                drive(&self.runtime, pushes.finish(), patience, &self.stop)?.map_err(failed)?;
            self.confirmed = self.confirmed + pushed;
        }
        if let Some(exchanges) = self.exchanges.take() {
            let (exchanged, bytes) =
                drive(&self.runtime, exchanges.finish(), patience, &self.stop)?.map_err(failed)?;
            self.confirmed = self.confirmed + exchanged;
            let (arrived, size) = (exchanged.returned, self.message.len() as u64);
            if bytes != arrived.saturating_mul(size) {
                return Err(TransportError::Failed(format!(
                    "the server pushed {arrived} messages of together {bytes} B where each should \
                     have {size} B"
                )));
            }
        }
        Ok(self.confirmed)
    }

    fn verified(&self) -> (u64, u64) {
        match self.pattern {
            Pattern::Fetch => (self.fetch.received().verified, self.fetch.received().corrupt),
            Pattern::Bidirectional => self.first.verified(),
            _ => self.verified.map_or((0, 0), |same| (1, u64::from(!same))),
        }
    }

    fn marks(&self) -> Vec<MarkedConnection> {
        marks(&self.clients)
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }
}

/// What was marked on the connections of `clients`.
fn marks<'a>(clients: impl IntoIterator<Item = &'a Client>) -> Vec<MarkedConnection> {
    let marked = |client: &Client| {
        let calls = client.marks()?.take();
        Some(MarkedConnection { client: client.local_addr(), calls })
    };
    clients.into_iter().filter_map(marked).collect()
}

/// The message of `cell`, in the buffers that it is made of.
fn message(cell: &Cell, payload: &Payload) -> Result<Message, TransportError> {
    let mut buffers = filled(cell.size, payload, cell.buffers.as_ref())?;
    Ok(match (buffers.pop(), buffers.is_empty()) {
        (Some(only), true) => only.into(),
        (last, _) => Message::of(buffers.into_iter().chain(last).map(Into::into).collect()),
    })
}

fn no_connection() -> TransportError {
    TransportError::Failed("there is no connection to the server".to_owned())
}

/// Runs `work` to its end, looking at the stop signal and at the clock in turns. Patience at its
/// end is [`TransportError::Failed`].
fn drive<T>(
    runtime: &Runtime,
    work: impl Future<Output = T>,
    patience: Patience,
    stop: &StopSignal,
) -> Result<T, TransportError> {
    go_on(stop)?;
    runtime.block_on(async {
        // With a budget, tokio puts what used it up to sleep until the runtime has had a turn. If `work` is
        // done before that, the next `block_on` knows nothing of it: calls would wait for ever.
        let mut work = pin!(unconstrained(work));
        let mut since = None;
        loop {
            if let Ok(done) = timeout(TURN, work.as_mut()).await {
                return Ok(done);
            }
            if stop.is_given() {
                return Err(stopped(stop));
            }
            if since.get_or_insert_with(Instant::now).elapsed() >= patience.0 {
                return Err(TransportError::Failed(format!("no answer within {:?}", patience.0)));
            }
        }
    })
}

/// Lets the runtime do what is to be done now, and looks at `work` once; `None` if it is not at its end.
fn glance<T>(
    runtime: &Runtime,
    work: impl Future<Output = T>,
    stop: &StopSignal,
) -> Result<Option<T>, TransportError> {
    go_on(stop)?;
    Ok(runtime.block_on(async {
        // Without it a runtime of one thread would look at `work` and at nothing else.
        tokio::task::yield_now().await;
        let mut work = pin!(unconstrained(work));
        poll_fn(|cx| {
            Poll::Ready(match work.as_mut().poll(cx) {
                Poll::Ready(done) => Some(done),
                Poll::Pending => None,
            })
        })
        .await
    }))
}

fn failed(error: fabricbench_grpc::Error) -> TransportError {
    TransportError::Failed(error.to_string())
}

/// Verifies the first message only: it comes in warm-up, where it disturbs nothing.
#[derive(Debug, Default)]
struct FirstMessage {
    seen: AtomicBool,
    verified: AtomicU64,
    corrupt: AtomicU64,
}

impl FirstMessage {
    /// Messages compared, and of these different.
    fn verified(&self) -> (u64, u64) {
        (self.verified.load(Ordering::Relaxed), self.corrupt.load(Ordering::Relaxed))
    }

    fn check(&self, payload: &Payload, size: u64, message: &[u8]) -> bool {
        if self.seen.swap(true, Ordering::Relaxed) {
            return true;
        }
        let same = message.len() as u64 == size && payload.matches(message);
        self.verified.fetch_add(1, Ordering::Relaxed);
        self.corrupt.fetch_add(u64::from(!same), Ordering::Relaxed);
        same
    }
}
