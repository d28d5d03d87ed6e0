//! Queue pairs with their memory, the same on both sides.

use fabricbench_verbs::{
    Completion, ConnectOptions, Endpoint, GRH_BYTES, PeerId, ProtectionDomain, QueuePairOptions,
    SharedReceiveQueue, Transport, cm, random_psn,
};

use super::{
    PairPlan, VerbsPort,
    connect::connect_options,
    extended::{Interface, Poster, Queue},
    failed, gather,
    layout::{Area, Layout, Place},
    manager,
    pieces::Message,
    refused,
    regions::{RegionIds, Regions},
    sleep::{Awaited, Sleep},
    split::Splitter,
};
use crate::{
    plan::{Service, VerbsOperation},
    transport::{TransportError, Turn, Waiting, buffer::zeroed},
};

/// perftest sends up to 220 bytes inline in its write latency test; beyond that, fetching the
/// payload by DMA is no slower than copying it into the request.
pub(super) const INLINE: u32 = 220;

/// One queue pair of a pair.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) queue_pair: Poster,
    pub(super) regions: RegionIds,
    pub(super) local: Endpoint,
    // To whom datagrams go.
    pub(super) peer: Option<PeerId>,
}

/// The receive queue of all lanes, and its names for the memories.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: SharedReceiveQueue,
    pub(super) regions: RegionIds,
}

/// Queue pairs, which share completion queues and memory.
#[derive(Debug)]
pub struct Pair {
    // Ended before the queue pairs they are of.
    pub(super) connections: Vec<cm::Connection>,
    pub(super) lanes: Vec<Lane>,
    pub(super) interface: Interface,
    pub(super) send_queue: Queue,
    pub(super) receive_queue: Queue,
    pub(super) regions: Regions,
    pub(super) layout: Layout,
    pub(super) shared: Option<Shared>,
    sleep: Option<Sleep>,
    pub(super) message: Message,
    pub(super) receives: u32,
    // What the peer's memory is, in its own words.
    pub(super) peer_memory: String,
    pub(super) port: VerbsPort,
    pub(super) options: ConnectOptions,
    pub(super) plan: PairPlan,
}

/// The plan as it will be carried out, what its messages are made of, and where they lie.
///
/// # Errors
/// [`TransportError::Unsupported`] for what the device cannot carry.
fn laid_out(
    port: &VerbsPort,
    mut plan: PairPlan,
) -> Result<(PairPlan, Message, Layout), TransportError> {
    plan.admit_calls()?;
    plan.verbs.operation = plan.noticed();
    let message = port.admit(&plan)?;
    plan.verbs.operation = plan.numbered(&message);
    posted_alone(&plan, &message)?;
    gather::admit(&plan, &message, port)?;
    if plan.settings.manager {
        manager::admit(plan.verbs.service)?;
    }
    few_enough(port, &message, plan.sends(&message).max(plan.receives(&message)))?;
    // A received datagram lies behind its route header, or room for one.
    let header = if plan.verbs.service == Service::Ud { GRH_BYTES } else { 0 };
    let layout = Layout::new(&plan.shape(&message, header))?;
    Ok((plan, message, layout))
}

impl Pair {
    /// Bytes of memory that a pair of `plan` registers.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn memory(port: &VerbsPort, plan: &PairPlan) -> Result<u64, TransportError> {
        let (.., layout) = laid_out(port, plan.clone())?;
        let lengths = [Area::Host, Area::Messages].map(|area| layout.length(area) as u64);
        Ok(lengths.iter().sum())
    }

    /// Makes the queue pairs, registers their memory, and posts the receives.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a message the device cannot carry; else what the verbs
    /// say.
    pub fn open(port: &VerbsPort, plan: PairPlan) -> Result<Self, TransportError> {
        let (plan, message, layout) = laid_out(port, plan)?;
        let (sends, receives, lanes) =
            (plan.sends(&message), plan.receives(&message), plan.lanes());
        let transport = match plan.verbs.service {
            Service::Rc => Transport::ReliableConnection,
            Service::Uc => Transport::UnreliableConnection,
            Service::Ud => Transport::UnreliableDatagram,
        };

        let context = &port.context;
        let domain = context.alloc_pd().map_err(failed)?;
        let entries = |depth: u32| depth.saturating_mul(lanes);
        let sleep = Sleep::by(plan.settings.completions, context)?;
        let interface = plan.post().on(port, plan.settings.timestamps)?;
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
        let send_queue = queue(sends, "-t")?;
        let receive_queue = queue(receives, "-r")?;
        let memory = plan.settings.memory;
        let regions = Regions::register(memory, &domain, &layout, plan.access())?;
        let options = QueuePairOptions {
            send_depth: sends,
            recv_depth: receives,
            max_inline: plan.settings.inline.unwrap_or(INLINE),
            max_segments: plan.segments(),
            transport,
        };
        let shared = match plan.settings.shared_receives {
            true => Some(Shared::new(&domain, receives, &regions)?),
            false => None,
        };
        let lanes = (0..lanes).map(|_| {
            let (queues, shared) = ((&send_queue, &receive_queue), shared.as_ref());
            let shared = shared.map(|shared| &shared.queue);
            let mut queue_pair =
                Poster::new(&domain, interface, queues, shared, &options).map_err(refused)?;
            let regions = RegionIds::attach(&regions, |region| queue_pair.attach(region));
            let regions = regions.map_err(failed)?;
            let local = queue_pair.endpoint(&port.port, &port.gid, random_psn());
            Ok(Lane { queue_pair, regions, local, peer: None })
        });
        let lanes = lanes.collect::<Result<Vec<_>, TransportError>>()?;
        let pair = Self {
            connections: Vec::new(),
            peer_memory: String::new(),
            lanes,
            interface,
            send_queue,
            receive_queue,
            regions,
            layout,
            shared,
            sleep,
            message,
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
        let mut message = zeroed(self.message.size() as u64)?;
        self.plan.payload.fill(&mut message);
        for (index, lane) in self.lanes.iter().enumerate() {
            for slot in 0..self.plan.slots() as usize {
                for (place, bytes) in self.layout.buffers((index, slot)) {
                    let buffer = message.get(bytes).unwrap_or_default();
                    self.regions.copy_in(place, buffer).map_err(failed)?;
                }
            }
            // The connection manager takes a connection's queue pairs through their states itself.
            if !(self.plan.settings.manager && self.plan.verbs.service == Service::Rc) {
                lane.queue_pair.to_init(&self.port.port, &self.options).map_err(failed)?;
                self.post_receives(index)?;
            }
        }
        Ok(())
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

    /// Whether what was read, or written to this side, is the payload.
    pub(super) fn holds_payload_at_target(&self) -> Result<bool, TransportError> {
        self.holds_payload(self.layout.target(0), self.message.size())
    }

    /// Whether `length` bytes at `place` are the beginning of the payload.
    pub(super) fn holds_payload(
        &self,
        place: Place,
        length: usize,
    ) -> Result<bool, TransportError> {
        self.holds_payload_from(0, place, length)
    }

    /// Whether `length` bytes at `place` are those from `begin` on of the payload.
    pub(super) fn holds_payload_from(
        &self,
        begin: usize,
        place: Place,
        length: usize,
    ) -> Result<bool, TransportError> {
        let mut copy = vec![0; length];
        self.regions.copy_out(place, &mut copy).map_err(failed)?;
        Ok(self.plan.payload.matches_from(begin, &copy))
    }
}

/// Refuses a list of messages that travel in pieces, which are posted one by one.
fn posted_alone(plan: &PairPlan, message: &Message) -> Result<(), TransportError> {
    if plan.list() > 1 && message.is_split() {
        return Err(TransportError::Unsupported(format!(
            "messages in {} pieces (--split) are not posted in lists: leave --post-list out",
            message.pieces()
        )));
    }
    Ok(())
}

/// Refuses more pieces under way than a queue pair takes.
fn few_enough(port: &VerbsPort, message: &Message, requests: u32) -> Result<(), TransportError> {
    let most = port.context.limits().work_requests;
    if message.is_split() && requests > most {
        return Err(TransportError::Unsupported(format!(
            "a message in {} pieces, and of those under way {requests} work requests where a queue \
             pair of {} takes {most}; give larger pieces (--split SIZE), or fewer messages in flight \
             (-t)",
            message.pieces(),
            port.port.device
        )));
    }
    Ok(())
}

impl Shared {
    fn new(
        domain: &ProtectionDomain,
        depth: u32,
        regions: &Regions,
    ) -> Result<Self, TransportError> {
        let mut queue = domain.create_shared_receive_queue(depth).map_err(refused)?;
        let regions = RegionIds::attach(regions, |region| queue.attach(region)).map_err(failed)?;
        Ok(Self { queue, regions })
    }
}

/// The immediate of a message, where it has one; control messages have others.
pub(super) const DATA: u32 = 0;

/// A completion's number: the lane above, a count below.
pub(super) const LANE_SHIFT: u32 = 48;

/// The count of a completion's number.
pub(super) const COUNT: u64 = (1 << LANE_SHIFT) - 1;
