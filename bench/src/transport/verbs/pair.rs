//! Queue pairs with their memory, the same on both sides.

use std::collections::BTreeMap;

use fabricbench_verbs::{
    Completion, ConnectOptions, Endpoint, GRH_BYTES, Local, MemoryRegion, Operation, PeerId,
    ProtectionDomain, QueuePairOptions, RecvRequest, RegionId, RemoteRegion, SendRequest,
    SharedReceiveQueue, Transport, cm, random_psn,
};

use super::{
    PairPlan, VerbsPort,
    connect::connect_options,
    extended::{Interface, Poster, Queue},
    failed,
    layout::Layout,
    manager, refused,
    sleep::{Awaited, Sleep},
    split::Splitter,
};
use crate::{
    plan::{Pattern, Service, TransportName, VerbsOperation},
    transport::{Patience, StopSignal, TransportError, Turn, Waiting, buffer::zeroed},
};

/// perftest sends up to 220 bytes inline in its write latency test; beyond that, fetching the
/// payload by DMA is no slower than copying it into the request.
const INLINE: u32 = 220;

/// Sends between two signalled ones in a ping-pong, where at most one is in flight.
const PINGS_PER_SIGNAL: u32 = 16;

/// Places in the send queue of a ping-pong: those of unsignalled sends come free only with the
/// next signalled one, one in 16.
const PING_DEPTH: u32 = 64;

/// Places in a send queue beside those of the messages: for flushes and control messages.
const SPARE_SENDS: u32 = 4;

/// How long a place in the send queue is waited for.
const PLACE_PATIENCE: Patience = Patience(std::time::Duration::from_secs(5));

/// One queue pair of a pair.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) queue_pair: Poster,
    region: RegionId,
    pub(super) local: Endpoint,
    // To whom datagrams go.
    pub(super) peer: Option<PeerId>,
}

/// The receive queue of all lanes, and its name for the region.
#[derive(Debug)]
struct Shared {
    queue: SharedReceiveQueue,
    region: RegionId,
}

/// Queue pairs, which share completion queues and a region.
#[derive(Debug)]
pub struct Pair {
    // Ended before the queue pairs they are of.
    pub(super) connections: Vec<cm::Connection>,
    pub(super) lanes: Vec<Lane>,
    interface: Interface,
    pub(super) send_queue: Queue,
    pub(super) receive_queue: Queue,
    pub(super) region: MemoryRegion,
    pub(super) layout: Layout,
    shared: Option<Shared>,
    sleep: Option<Sleep>,
    pub(super) size: u32,
    receives: u32,
    // What the peer's region is, in its own words.
    pub(super) peer_memory: String,
    pub(super) port: VerbsPort,
    pub(super) options: ConnectOptions,
    pub(super) plan: PairPlan,
}

impl Pair {
    /// Makes the queue pairs, registers their memory, and posts the receives.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a message the device cannot carry; else what the verbs
    /// say.
    pub fn open(port: &VerbsPort, mut plan: PairPlan) -> Result<Self, TransportError> {
        plan.verbs.operation = plan.noticed();
        let size = port.admit(&plan)?;
        if plan.settings.manager {
            manager::admit(plan.verbs.service)?;
        }
        let (receives, lanes) = (plan.receives(), plan.lanes());
        let (transport, header) = match plan.verbs.service {
            Service::Rc => (Transport::ReliableConnection, 0),
            Service::Uc => (Transport::UnreliableConnection, 0),
            // A received datagram lies behind its route header, or room for one.
            Service::Ud => (Transport::UnreliableDatagram, GRH_BYTES),
        };
        let layout = Layout::new(size, header, receives, lanes)?;

        let context = &port.context;
        let domain = context.alloc_pd().map_err(failed)?;
        let send_depth = match plan.cell.pattern {
            Pattern::Latency => PING_DEPTH,
            _ => plan.depth.max(1) + SPARE_SENDS,
        };
        let entries = |depth: u32| depth.saturating_mul(lanes);
        let sleep = Sleep::by(plan.settings.completions, context)?;
        let interface = plan.settings.post.on(port, plan.settings.timestamps)?;
        let channel = sleep.as_ref().map(Sleep::channel);
        let queue = |depth: u32, option: &str| {
            let entries = entries(depth);
            match Queue::new(context, interface, channel, entries).map_err(refused) {
                Err(TransportError::Unsupported(why)) if entries > context.limits().completions => {
                    let why =
                        format!("{why}: give fewer queue pairs (-q), or less to each ({option})");
                    Err(TransportError::Unsupported(why))
                }
                queue => queue,
            }
        };
        let send_queue = queue(send_depth, "-t")?;
        let receive_queue = queue(receives, "-r")?;
        let region = plan.settings.memory.register(&domain, layout.length(), plan.access())?;
        let options = QueuePairOptions {
            send_depth,
            recv_depth: receives,
            max_inline: plan.settings.inline.unwrap_or(INLINE),
            transport,
        };
        let shared = match plan.settings.shared_receives {
            true => Some(Shared::new(&domain, receives, &region)?),
            false => None,
        };
        let lanes = (0..lanes).map(|_| {
            let (queues, shared) = ((&send_queue, &receive_queue), shared.as_ref());
            let shared = shared.map(|shared| &shared.queue);
            let mut queue_pair =
                Poster::new(&domain, interface, queues, shared, &options).map_err(refused)?;
            let region = queue_pair.attach(&region).map_err(failed)?;
            let local = queue_pair.endpoint(&port.port, &port.gid, random_psn());
            Ok(Lane { queue_pair, region, local, peer: None })
        });
        let lanes = lanes.collect::<Result<Vec<_>, TransportError>>()?;
        let pair = Self {
            connections: Vec::new(),
            peer_memory: String::new(),
            lanes,
            interface,
            send_queue,
            receive_queue,
            region,
            layout,
            shared,
            sleep,
            size,
            receives,
            port: port.clone(),
            options: connect_options(&plan)?,
            plan,
        };
        pair.inline_as_asked()?;
        pair.make_ready()?;
        Ok(pair)
    }

    /// Fills in the payload and posts the receives.
    fn make_ready(&self) -> Result<(), TransportError> {
        let mut message = zeroed(u64::from(self.size))?;
        self.plan.payload.fill(&mut message);
        for (index, lane) in self.lanes.iter().enumerate() {
            self.region.copy_in(self.layout.message(index), &message).map_err(failed)?;
            // The connection manager takes a connection's queue pairs through their states itself.
            if !(self.plan.settings.manager && self.plan.verbs.service == Service::Rc) {
                lane.queue_pair.to_init(&self.port.port, &self.options).map_err(failed)?;
                self.post_receives(index)?;
            }
        }
        Ok(())
    }

    /// Posts the first receives on a queue pair that is in INIT; on the queue of all with the
    /// first.
    pub(super) fn post_receives(&self, lane: usize) -> Result<(), TransportError> {
        if self.shared.is_some() && lane > 0 {
            return Ok(());
        }
        (0..u64::from(self.receives)).try_for_each(|receive| self.post_receive(lane, receive))
    }

    /// What compares the device's clock with the host's, where completions carry its time.
    pub(super) fn splitter(&self) -> Result<Option<Box<Splitter>>, TransportError> {
        match self.interface {
            Interface::Timed { mask } => {
                Ok(Some(Box::new(Splitter::begin(&self.port.context, mask)?)))
            }
            _ => Ok(None),
        }
    }

    /// Whether messages go inline: as far as the queue pair allows (asked of it, not of a table; it
    /// may allow more than was asked for) and no further than was wished.
    #[must_use]
    pub fn inline(&self) -> bool {
        // Memory on the device has no address to copy from.
        !self.plan.settings.memory.on_device
            && !self.plan.verbs.operation.is_one_sided()
            && self.size <= self.inline_limit()
    }

    /// Bytes that one side may have sent of which it does not know yet that they arrived.
    pub(super) fn most_in_flight(&self) -> u64 {
        u64::from(self.size) * u64::from(self.plan.depth.max(1)) * self.lanes.len() as u64
    }

    /// Refuses what was asked for with `-I` and is not had.
    pub(super) fn inline_as_asked(&self) -> Result<(), TransportError> {
        let could =
            !self.plan.settings.memory.on_device && !self.plan.verbs.operation.is_one_sided();
        match self.plan.settings.inline {
            Some(asked) if could && self.size <= asked && !self.inline() => {
                Err(TransportError::Unsupported(format!(
                    "a queue pair of {} takes {} B inline at most, and {asked} B were asked for \
                     (-I); ask for no more, or leave it out",
                    self.port.port.device,
                    self.inline_limit()
                )))
            }
            _ => Ok(()),
        }
    }

    fn inline_limit(&self) -> u32 {
        let wish = self.plan.settings.inline.unwrap_or(INLINE);
        let granted = self.lanes.iter().map(|lane| lane.queue_pair.capabilities().max_inline).min();
        wish.min(granted.unwrap_or(0))
    }

    /// Sends from one signalled one to the next.
    pub(super) fn moderation(&self) -> u32 {
        match self.plan.cell.pattern {
            Pattern::Latency => PINGS_PER_SIGNAL,
            // At least four completions a depth, so that the queue is refilled before it runs dry.
            _ => self.plan.settings.completion_moderation.clamp(1, (self.plan.depth / 4).max(1)),
        }
    }

    /// Messages that are posted by one call.
    pub(super) fn list(&self) -> u32 {
        match self.plan.cell.pattern {
            Pattern::Latency => 1,
            // Its operands differ from one to the next, and a list is made once.
            _ if self.plan.verbs.operation == VerbsOperation::CompareSwap => 1,
            _ => self.plan.settings.post_list.clamp(1, self.plan.depth.max(1)),
        }
    }

    /// What is in force, by name, for a report.
    #[must_use]
    pub fn describe(&self) -> BTreeMap<String, String> {
        let settings = &self.plan.settings;
        let mut described = BTreeMap::from([
            ("inline limit, B".to_owned(), self.inline_limit().to_string()),
            ("inline".to_owned(), if self.inline() { "yes" } else { "no" }.to_owned()),
            ("receive depth".to_owned(), self.receives.to_string()),
            ("completion moderation".to_owned(), self.moderation().to_string()),
            ("interface".to_owned(), self.interface.to_string()),
            ("completions".to_owned(), settings.completions.to_string()),
            ("client memory".to_owned(), self.region.backing().to_string()),
            ("server memory".to_owned(), self.peer_memory.clone()),
            ("service".to_owned(), self.plan.verbs.service.to_string()),
            ("service level".to_owned(), settings.service_level.to_string()),
            ("timeout exponent".to_owned(), settings.timeout.to_string()),
        ]);
        if self.plan.cell.pattern != Pattern::Latency {
            described.insert("queue pairs".to_owned(), self.lanes.len().to_string());
            described.insert("post list".to_owned(), self.list().to_string());
        }
        if let TransportName::Verbs(asked) = &self.plan.cell.transport
            && asked.operation != self.plan.verbs.operation
        {
            described.insert("arrival".to_owned(), "told by an immediate".to_owned());
        }
        if self.shared.is_some() {
            described.insert("receive queue".to_owned(), "shared".to_owned());
        }
        described
    }

    /// The request that carries a message on `lane`. An atomic's values are the caller's business.
    pub(super) fn message_request(&self, lane: usize, remote: &RemoteRegion) -> SendRequest {
        let at = |offset: usize| remote.at(offset as u64);
        let message = self.layout.message(lane);
        let target = self.layout.target(lane);
        let (operation, local) = match self.plan.verbs.operation {
            VerbsOperation::Write => (Operation::Write(at(target)), message),
            VerbsOperation::WriteImm => (Operation::WriteImm(at(target), DATA), message),
            VerbsOperation::Send => (Operation::Send, message),
            VerbsOperation::SendImm => (Operation::SendImm(DATA), message),
            VerbsOperation::Read => (Operation::Read(at(message)), target),
            VerbsOperation::FetchAdd => {
                (Operation::FetchAdd { remote: at(self.layout.word(lane)), add: 1 }, target)
            }
            VerbsOperation::CompareSwap => {
                let remote = at(self.layout.word(lane));
                (Operation::CompareSwap { remote, compare: 0, swap: 1 }, target)
            }
        };
        let local = self.local(lane, local, self.size);
        self.request(lane, operation, local).inline(self.inline())
    }

    /// A request on `lane`, addressed to its peer.
    pub(super) fn request(&self, lane: usize, operation: Operation, local: Local) -> SendRequest {
        let request = SendRequest::new(0, operation, local);
        match self.lanes.get(lane).and_then(|lane| lane.peer) {
            Some(peer) => request.to(peer),
            None => request,
        }
    }

    /// Whether the last byte of a message is a stamp: where memory is polled for it, and where a
    /// message may come twice because its answer was lost.
    pub(super) fn is_stamped(&self) -> bool {
        self.plan.cell.pattern == Pattern::Latency
            && (self.plan.verbs.service.is_lossy()
                || self.plan.verbs.operation == VerbsOperation::Write)
    }

    /// Where what came into the receive with this number lies: or, of a write, where it was
    /// written to.
    #[inline]
    pub(super) fn arrived_at(&self, lane: usize, number: u64) -> usize {
        match self.plan.verbs.operation {
            VerbsOperation::Write | VerbsOperation::WriteImm => self.layout.target(lane),
            _ => self.layout.received(lane, number),
        }
    }

    /// A range of this side's memory as a request on `lane` names it.
    #[inline]
    pub(super) fn local(&self, lane: usize, offset: usize, length: u32) -> Local {
        // Every caller's lane is one of ours.
        let region = self.lanes.get(lane).or(self.lanes.first()).map(|lane| lane.region);
        match region {
            Some(region) => region.range(offset, length),
            None => unreachable!("a pair has a lane"),
        }
    }

    /// Posts the receive with this number; its slot is the number modulo the slots.
    #[inline]
    pub(super) fn post_receive(&self, lane: usize, number: u64) -> Result<(), TransportError> {
        let Some(Lane { queue_pair, region, .. }) = self.lanes.get(lane) else { return Ok(()) };
        let range = |region: &RegionId| {
            region.range(self.layout.receive(lane, number), self.layout.receive_bytes())
        };
        // The lane travels along, so that a completion tells it without a search.
        let id = ((lane as u64) << LANE_SHIFT) | number;
        match &self.shared {
            None => queue_pair.post_recv(&RecvRequest::new(id, range(region))),
            Some(Shared { queue, region }) => queue.post_recv(&RecvRequest::new(id, range(region))),
        }
        .map_err(failed)
    }

    /// The lane that a completed receive came on, where its number does not tell: of a shared queue
    /// all receives are posted as the first lane's.
    #[inline]
    pub(super) fn lane_of(&self, completion: &Completion, posted: usize) -> usize {
        if self.shared.is_none() {
            return posted;
        }
        let number = completion.queue_pair();
        self.lanes.iter().position(|lane| lane.queue_pair.number() == number).unwrap_or(posted)
    }

    /// One fruitless turn of a loop that waits for completions.
    #[inline]
    pub(super) fn turn(
        &self,
        waiting: &mut Waiting<'_>,
        awaited: Awaited,
    ) -> Result<Turn, TransportError> {
        let Some(sleep) = &self.sleep else { return waiting.turn() };
        let receives = (awaited != Awaited::Sends).then(|| self.receive_queue.plain());
        let sends = (awaited != Awaited::Receives).then(|| self.send_queue.plain());
        sleep.turn(waiting, receives.into_iter().chain(sends))
    }

    /// How messages travel, which may not be what was asked for: a write that is waited for by events
    /// has an immediate.
    #[must_use]
    pub fn operation(&self) -> VerbsOperation {
        self.plan.verbs.operation
    }

    /// The number of the receive that follows the last one posted at first.
    pub(super) fn next_receive(&self) -> u64 {
        u64::from(self.receives)
    }

    /// Whether `length` bytes at `offset` are the beginning of the payload.
    pub(super) fn holds_payload(
        &self,
        offset: usize,
        length: usize,
    ) -> Result<bool, TransportError> {
        let mut copy = vec![0; length];
        self.region.copy_out(offset, &mut copy).map_err(failed)?;
        Ok(self.plan.payload.matches(&copy))
    }

    /// Posts a send on `lane` where there is a place for it: for those who count completions, which
    /// waiting for a place would take from them.
    ///
    /// # Errors
    /// It cannot be posted, a full queue included.
    #[inline]
    pub(super) fn post_in_place(
        &self,
        lane: usize,
        request: &SendRequest,
    ) -> Result<(), TransportError> {
        let Some(Lane { queue_pair, .. }) = self.lanes.get(lane) else { return Ok(()) };
        queue_pair.post_send(request).map_err(failed)
    }

    /// Posts a send on `lane`; waits for a place where the queue is full, which it is only if
    /// completions lag far behind, and drops completions meanwhile.
    #[inline]
    pub(super) fn post(
        &self,
        lane: usize,
        request: &SendRequest,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        let Some(Lane { queue_pair, .. }) = self.lanes.get(lane) else { return Ok(()) };
        match queue_pair.post_send(request) {
            Ok(()) => Ok(()),
            Err(error) if error.is_queue_full() => self.post_when_free(queue_pair, request, stop),
            Err(error) => Err(failed(error)),
        }
    }

    #[cold]
    fn post_when_free(
        &self,
        queue_pair: &Poster,
        request: &SendRequest,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        let mut waiting = Waiting::new(stop, PLACE_PATIENCE);
        loop {
            self.reap_sends()?;
            match queue_pair.post_send(request) {
                Err(full) if full.is_queue_full() && waiting.turn()? != Turn::Expired => {}
                posted => return posted.map_err(failed),
            }
        }
    }

    /// Takes what the send queue has done, so that a failure shows and its slots come free.
    #[inline]
    pub(super) fn reap_sends(&self) -> Result<usize, TransportError> {
        let mut completions = [Completion::default(); 8];
        let mut done = 0;
        for completion in self.send_queue.poll(&mut completions).map_err(failed)? {
            completion.check().map_err(failed)?;
            done += 1;
        }
        Ok(done)
    }
}

impl Shared {
    fn new(
        domain: &ProtectionDomain,
        depth: u32,
        region: &MemoryRegion,
    ) -> Result<Self, TransportError> {
        let mut queue = domain.create_shared_receive_queue(depth).map_err(refused)?;
        let region = queue.attach(region).map_err(failed)?;
        Ok(Self { queue, region })
    }
}

/// The immediate of a message, where it has one; control messages have others.
pub(super) const DATA: u32 = 0;

/// A completion's number: the lane above, a count below.
pub(super) const LANE_SHIFT: u32 = 48;

/// The count of a completion's number.
pub(super) const COUNT: u64 = (1 << LANE_SHIFT) - 1;
