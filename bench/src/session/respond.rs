//! The server's end of a slice.

use std::{
    net::SocketAddr,
    thread::{self, JoinHandle},
};

use fabricbench_grpc::TurnedAway;
use fabricbench_ipoib::sockets::End;

use super::{
    Host, Kept, Observation, Quota,
    affinity::admit,
    bind_thread,
    descriptors::{admit_connections, served_connection},
    device_watch::DeviceWatch,
    ip_path::describe,
    sampled::told,
};
use crate::{
    observe::{self, CpuTime, PathWatch, Payload as PayloadMoved, PeakMemory, RunDelay},
    plan::{Cell, Payload, TransportName, VerbsName},
    report::{Path, TcpSide},
    transport::{
        Answer, MOST_CONNECTIONS, Offer, Received, Responder, ServerMarks, StopReason, StopSignal,
        TensorSide, TransportError, VerbsSettings, admit_tensors,
        grpc::{GrpcResponder, GrpcTensorResponder, MOST_RUNTIME_THREADS},
        tcp::TcpResponder,
        tensor_memory,
        verbs::{ManagedResponder, Pair, PairPlan, VerbsPort, VerbsResponder, VerbsServer},
    },
};

/// A responder at work. Dropping it ends the work.
#[derive(Debug)]
pub struct Serving {
    cell: Cell,
    // That of every responder.
    path: Path,
    stop: StopSignal,
    // Where connections come in; of TCP only.
    listeners: Vec<SocketAddr>,
    // Who came there and is not the client; the same.
    turned_away: Vec<TurnedAway>,
    workers: Vec<Worker>,
    // Where they leave what they mark.
    marks: ServerMarks,
    // Only of RDMA.
    devices: Vec<DeviceWatch>,
    begun: Option<Begun>,
    // The processor that the responders are bound to.
    cpu: Option<u32>,
    // So far, when the connections were looked at: those who serve them end with them.
    waited_ns: Option<u64>,
    // Why it was ended before its client asked for it.
    cut: Option<String>,
}

/// What was read when a slice began.
#[derive(Debug)]
struct Begun {
    path: Result<PathWatch, String>,
    cpu: CpuTime,
    delay: RunDelay,
    memory: PeakMemory,
}

/// The most threads that a client may ask for.
pub const MOST_THREADS: usize = 256;

/// One of the responders of a slice.
type Worker = JoinHandle<Result<Received, TransportError>>;

/// What each responder of a slice is made from.
struct Order<'a> {
    here: &'a Host,
    cell: &'a Cell,
    depth: u32,
    payload: Payload,
    stop: &'a StopSignal,
    marks: &'a ServerMarks,
}

/// Makes ready for a slice: what the client must know to connect, and for each of its offers a
/// responder that serves from now on.
///
/// # Errors
/// [`TransportError`]: this host cannot do what is asked, or `quota` does not have it.
pub fn prepare(
    here: &Host,
    cell: Cell,
    depth: u32,
    seed: u64,
    cpu: Option<u32>,
    offers: &[Offer],
    quota: &Quota,
) -> Result<(Vec<Answer>, Serving), TransportError> {
    quota.admit(&cell, depth, offers)?;
    if let Some(cpu) = cpu {
        admit(cpu).map_err(TransportError::Unsupported)?;
    }
    let refused = || {
        let asked = offers.len();
        TransportError::Failed(format!(
            "{asked} connections asked for; from 1 to {MOST_THREADS} can be served"
        ))
    };
    if offers.len() > MOST_THREADS {
        return Err(refused());
    }
    let connections = offers.iter().map(Offer::connections);
    if let Some(asked) = connections.clone().find(|&asked| asked > MOST_CONNECTIONS.into()) {
        return Err(TransportError::Unsupported(format!(
            "{asked} connections a thread asked for; up to {MOST_CONNECTIONS} can be served"
        )));
    }
    let all: u64 = connections.sum();
    admit_connections(all, served_connection(&cell.transport), offers.len() as u64)?;
    // tokio panics where a thread is refused.
    let threads: u64 = offers.iter().map(Offer::runtime_threads).sum();
    if threads > MOST_RUNTIME_THREADS.into() && offers.len() > 1 {
        return Err(TransportError::Unsupported(format!(
            "{threads} threads of runtimes asked for, of all threads together; up to \
             {MOST_RUNTIME_THREADS} can be had: give fewer --server-threads or --threads"
        )));
    }
    admit_tensors(&cell, depth, TensorSide::Server)?;
    quota.admit_memory(tensor_memory(&cell, depth, TensorSide::Server).0)?;
    let stop = StopSignal::new();
    let (payload, marks) = (Payload::new(seed), ServerMarks::new(all));
    let order = Order { here, cell: &cell, depth, payload, stop: &stop, marks: &marks };
    let mut ready = Vec::new();
    let mut memory = 0_u64;
    for (index, offer) in offers.iter().enumerate() {
        ready.push(respond(&order, index, offer, &mut |more| {
            memory = memory.saturating_add(more);
            quota.admit_memory(memory)
        })?);
    }
    let path = ready.first().map(|first| first.path.clone()).ok_or_else(refused)?;
    let mut answers = Vec::new();
    let mut serving = Serving {
        cell,
        path,
        stop,
        listeners: Vec::new(),
        turned_away: Vec::new(),
        workers: Vec::new(),
        marks,
        devices: Vec::new(),
        begun: None,
        cpu,
        waited_ns: None,
        cut: None,
    };
    for (offer, ready) in offers.iter().zip(ready) {
        let Ready { answer, responder, turned_away, device, near, .. } = ready;
        serving.listeners.extend(offer.listener(&answer));
        serving.turned_away.extend(turned_away);
        answers.push(answer);
        serving.devices.extend(device);
        serving.workers.push(start(responder, serving.stop.clone(), cpu, near)?);
    }
    Ok((answers, serving))
}

fn start(
    responder: Box<dyn Responder>,
    stop: StopSignal,
    cpu: Option<u32>,
    near: Option<Vec<u32>>,
) -> Result<Worker, TransportError> {
    thread::Builder::new()
        .name("responder".to_owned())
        .spawn(move || {
            let _kept = match (cpu, near) {
                (None, Some(near)) => Kept::on(&near),
                _ => None,
            };
            if let Some(cpu) = cpu {
                bind_thread(cpu).map_err(TransportError::Failed)?;
            }
            responder.serve(&stop)
        })
        .map_err(|error| TransportError::Failed(format!("no thread for the responder: {error}")))
}

/// A responder that has not begun.
struct Ready {
    answer: Answer,
    path: Path,
    responder: Box<dyn Responder>,
    turned_away: Option<TurnedAway>,
    device: Option<DeviceWatch>,
    // Processors near the device.
    near: Option<Vec<u32>>,
}

/// The responder of the offer number `index`, which of parameter servers is that of the server.
/// `admit` is asked before a pair takes memory.
fn respond(
    order: &Order<'_>,
    index: usize,
    offer: &Offer,
    admit: &mut dyn FnMut(u64) -> Result<(), TransportError>,
) -> Result<Ready, TransportError> {
    let Order { here, cell, depth, payload, marks, .. } = order;
    let (mut device, mut near, mut turned_away) = (None, None, None);
    let (answer, path, responder): (Answer, Path, Box<dyn Responder>) =
        match (&cell.transport, offer) {
            (TransportName::Verbs(verbs), Offer::Verbs { endpoint, settings })
                if !cell.pattern.is_called() =>
            {
                let FarPair { port, pair, device: watch } = open(order, *verbs, settings, admit)?;
                (device, near) = (Some(watch), port.processors(&settings.memory));
                let path = port.path(Some(pair.agreed_mtu(endpoint)));
                let own = pair.endpoint();
                if settings.manager {
                    let (responder, address, key) =
                        ManagedResponder::listen(pair, endpoint.clone())?;
                    (Answer::Managed { endpoint: own, key, address }, path, Box::new(responder))
                } else {
                    let responder = VerbsResponder::connect(pair, endpoint)?;
                    (Answer::Verbs(own), path, Box::new(responder))
                }
            }
            (TransportName::Verbs(verbs), Offer::VerbsServer { server, workers, settings })
                if cell.pattern.is_called() =>
            {
                let planned = cell.roles.map_or(1, |roles| roles.workers);
                let Some(first) = workers.first().filter(|_| workers.len() == planned as usize)
                else {
                    return Err(TransportError::Failed(format!(
                        "{} workers where {planned} are planned",
                        workers.len()
                    )));
                };
                let FarPair { port, pair, device: watch } = open(order, *verbs, settings, admit)?;
                (device, near) = (Some(watch), port.processors(&settings.memory));
                let path = port.path(Some(pair.agreed_mtu(first)));
                let own = pair.endpoint();
                let server = VerbsServer::connect(pair, *server, workers)?;
                (Answer::Verbs(own), path, Box::new(server))
            }
            (TransportName::Grpc(kind, _), Offer::Tcp(wish)) if cell.pattern.is_of_tensors() => {
                let payload = payload.clone();
                let (responder, answer) =
                    GrpcTensorResponder::listen(cell, *kind, *depth, payload, wish, index, marks)?;
                turned_away = Some(responder.turned_away());
                let path = describe(&here.interfaces, &wish.interface, wish.address, None);
                (answer, path, Box::new(responder))
            }
            (TransportName::Grpc(kind, _), Offer::Tcp(wish)) => {
                let (responder, answer) =
                    GrpcResponder::listen(cell, *kind, *depth, payload.clone(), wish, marks)?;
                turned_away = Some(responder.turned_away());
                let path = describe(&here.interfaces, &wish.interface, wish.address, None);
                (answer, path, Box::new(responder))
            }
            (TransportName::Tcp(_), Offer::Tcp(wish)) => {
                let (responder, answer) =
                    TcpResponder::listen(cell, payload.clone(), wish, index, *depth, marks)?;
                turned_away = Some(responder.turned_away());
                let path = describe(&here.interfaces, &wish.interface, wish.address, None);
                (answer, path, Box::new(responder))
            }
            (transport, _) => {
                return Err(TransportError::Failed(format!(
                    "the client's offer does not fit {transport}"
                )));
            }
        };
    Ok(Ready { answer, path, responder, turned_away, device, near })
}

/// The server's pair, not connected, on a device that is watched.
struct FarPair {
    port: VerbsPort,
    pair: Pair,
    device: DeviceWatch,
}

fn open(
    order: &Order<'_>,
    verbs: VerbsName,
    settings: &VerbsSettings,
    admit: &mut dyn FnMut(u64) -> Result<(), TransportError>,
) -> Result<FarPair, TransportError> {
    settings.check().map_err(TransportError::Failed)?;
    let port = VerbsPort::open(settings)?;
    let never = StopSignal::new();
    let device = DeviceWatch::begin(port.context.clone(), order.stop.clone(), never)?;
    let plan = PairPlan {
        cell: order.cell.clone(),
        verbs,
        payload: order.payload.clone(),
        depth: order.depth,
        settings: settings.clone(),
        answers: true,
    };
    let plan = plan.of_responder();
    admit(Pair::memory(&port, &plan)?)?;
    let pair = Pair::open(&port, plan)?;
    Ok(FarPair { port, pair, device })
}

impl Serving {
    /// Which way the slice comes in.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Connections to its listeners that were not the client's, for each of them in words.
    pub fn turned_away(&self) -> impl Iterator<Item = String> {
        self.turned_away.iter().filter_map(TurnedAway::told)
    }

    /// Reads the counters: from here on, traffic is the slice's.
    pub fn start(&mut self) {
        self.begun = Some(Begun {
            path: PathWatch::begin(&self.path),
            cpu: CpuTime::now(),
            delay: RunDelay::now(),
            memory: PeakMemory::begin(),
        });
    }

    /// What the kernel knows of the slice's connections.
    ///
    /// # Errors
    /// It does not tell, in words.
    pub fn connections(&mut self) -> Result<TcpSide, String> {
        self.waited_ns = self.begun.as_ref().and_then(|begun| begun.delay.elapsed_ns());
        observe::connections(End::Local, &self.listeners)
    }

    /// Ends the data path now: its client hears why when it asks for the outcome.
    pub fn cut(&mut self, why: String) {
        self.cut = Some(why);
        self.stop.give(StopReason::Finished);
    }

    /// Ends the slice. `messages` were sent by the client, if all went well there.
    #[must_use]
    pub fn finish(mut self, messages: Option<u64>) -> Observation {
        let begun = self.begun.as_ref();
        let (cpu_ns, cpu_use) = begun.map_or((0, None), |begun| begun.cpu.elapsed());
        let mhz = observe::processor_mhz(self.cpu);
        let waiting_ns = begun.and_then(|begun| begun.delay.elapsed_ns()).max(self.waited_ns);
        let peak_memory_bytes = begun.and_then(|begun| begun.memory.bytes());
        let served = self.end();
        let mut error = self.cut.take();
        let received = served.unwrap_or_else(|failed| {
            error.get_or_insert(failed.to_string());
            Received::default()
        });
        let counters = match (self.begun.take().map(|begun| begun.path), messages) {
            (Some(Ok(watch)), Some(messages)) => {
                // Of what may be lost, only what arrived has passed here.
                let messages = if self.cell.is_lossy() { received.messages } else { messages };
                watch.finish(PayloadMoved::by_responder(&self.cell, messages, received.returned))
            }
            (Some(Err(reason)), Some(_)) => {
                error.get_or_insert(reason);
                crate::report::Counters::default()
            }
            _ => crate::report::Counters::default(),
        };
        let marked = match self.marks.take() {
            none if none.is_empty() => Vec::new(),
            marked => told(marked, self.marks.clock()),
        };
        Observation {
            received,
            counters,
            cpu_ns,
            cpu_use,
            mhz,
            waiting_ns,
            peak_memory_bytes,
            marked,
            error,
        }
    }

    fn end(&mut self) -> Result<Received, TransportError> {
        self.stop.give(StopReason::Finished);
        let mut served = Ok(Received::default());
        for worker in self.workers.drain(..) {
            let one = worker.join().unwrap_or_else(|_| {
                Err(TransportError::Failed("the responder panicked".to_owned()))
            });
            served = served.and_then(|sum: Received| Ok(sum + one?));
        }
        self.devices.clear();
        match self.stop.reason() {
            Some(StopReason::DeviceLost(how)) => Err(TransportError::Failed(how)),
            _ => served,
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
