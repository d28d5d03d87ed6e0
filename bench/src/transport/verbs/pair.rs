//! A queue pair with its memory, the same on both sides.

use std::collections::BTreeMap;

use fabricbench_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, Endpoint, Gid, Local, MemoryRegion, Mtu,
    Operation, QueuePair, QueuePairOptions, RecvRequest, RegionId, RemoteRegion, SendRequest,
    random_psn,
};

use super::{VerbsPort, failed};
use crate::{
    plan::{Cell, Pattern, Payload, VerbsOperation},
    transport::{
        Patience, StopSignal, TransportError, Turn, VerbsEndpoint, VerbsSettings, Waiting,
        buffer::zeroed,
    },
};

/// Bytes of the confirmation: messages and payload bytes received, big-endian.
pub(super) const CONFIRMATION: usize = 16;

/// The most memory that receives are spread over, in bytes. More receives than fit share slots:
/// what is measured is the transfer, and the message that is verified is the first, when no other
/// has been received into its slot.
const RECEIVE_MEMORY: usize = 16 << 20;

/// perftest sends up to 220 bytes inline in its write latency test; beyond that, fetching the
/// payload by DMA is no slower than copying it into the request.
const INLINE: u32 = 220;

/// Sends between two signalled ones in a ping-pong, where at most one is in flight.
const PINGS_PER_SIGNAL: u32 = 16;

/// Receives kept posted where a side waits for one message at a time.
const FEW_RECEIVES: u32 = 16;

/// Places in the send queue of a ping-pong: those of unsignalled sends come free only with the
/// next signalled one, one in 16.
const PING_DEPTH: u32 = 64;

/// How long a place in the send queue is waited for.
const PLACE_PATIENCE: Patience = Patience(std::time::Duration::from_secs(5));

/// What a pair is made for.
#[derive(Debug, Clone)]
pub struct PairPlan {
    /// Pattern and size.
    pub cell: Cell,
    /// Write or send.
    pub operation: VerbsOperation,
    /// What the messages are filled with.
    pub payload: Payload,
    /// Messages in flight at the most.
    pub depth: u32,
    /// Options.
    pub settings: VerbsSettings,
}

impl PairPlan {
    /// Receives to keep posted: in a push by send one a message, else a few for confirmations.
    fn receives(&self) -> u32 {
        match (self.cell.pattern, self.operation) {
            (Pattern::Bandwidth, VerbsOperation::Send) => self.settings.receive_depth.max(2),
            _ => FEW_RECEIVES,
        }
    }
}

/// A queue pair and its region: receive slots, then the message to send, then the confirmation.
#[derive(Debug)]
pub struct Pair {
    pub(super) queue_pair: QueuePair,
    pub(super) send_queue: CompletionQueue,
    pub(super) receive_queue: CompletionQueue,
    pub(super) region: MemoryRegion,
    region_id: RegionId,
    pub(super) size: u32,
    stride: usize,
    slots: usize,
    receives: u32,
    local: Endpoint,
    port: VerbsPort,
    options: ConnectOptions,
    pub(super) plan: PairPlan,
}

impl Pair {
    /// Makes the queue pair, registers its memory, and posts the receives.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a message the device cannot carry; else what the verbs
    /// say.
    pub fn open(port: &VerbsPort, plan: PairPlan) -> Result<Self, TransportError> {
        let size = port.admit(&plan.cell)?;
        let receives = plan.receives();
        // 64: no two messages in one cache line.
        let stride = (size as usize).next_multiple_of(64);
        let slots = match plan.cell.pattern {
            Pattern::Latency => FEW_RECEIVES as usize,
            Pattern::Bandwidth => receives as usize,
        }
        .min(RECEIVE_MEMORY / stride)
        .max(1);
        let length = stride * (slots + 1) + CONFIRMATION.next_multiple_of(64);

        let context = &port.context;
        let domain = context.alloc_pd().map_err(failed)?;
        let send_depth = match plan.cell.pattern {
            Pattern::Latency => PING_DEPTH,
            // Beside the messages a flush and the two halves of a request to confirm.
            Pattern::Bandwidth => plan.depth.max(1) + 3,
        };
        let send_queue = context.create_completion_queue(send_depth).map_err(failed)?;
        let receive_queue = context.create_completion_queue(receives).map_err(failed)?;
        let region =
            domain.register(length, Access::LOCAL_WRITE | Access::REMOTE_WRITE).map_err(failed)?;
        let options = QueuePairOptions {
            send_depth,
            recv_depth: receives,
            max_inline: plan.settings.inline.unwrap_or(INLINE),
            ..QueuePairOptions::default()
        };
        let mut queue_pair =
            domain.create_queue_pair(&send_queue, &receive_queue, &options).map_err(failed)?;
        let region_id = queue_pair.attach(&region).map_err(failed)?;

        let settings = &plan.settings;
        let options = ConnectOptions {
            access: Access::LOCAL_WRITE | Access::REMOTE_WRITE,
            path_mtu: match settings.path_mtu {
                None => None,
                Some(bytes) => Some(Mtu::from_bytes(bytes).ok_or_else(|| {
                    TransportError::Unsupported(format!(
                        "path MTU {bytes} is none of 256, 512, 1024, 2048, 4096"
                    ))
                })?),
            },
            service_level: settings.service_level,
            traffic_class: settings.traffic_class,
            timeout: settings.timeout,
            ..ConnectOptions::default()
        };
        let local = queue_pair.endpoint(&port.port, &port.gid, random_psn());
        let pair = Self {
            queue_pair,
            send_queue,
            receive_queue,
            region,
            region_id,
            size,
            stride,
            slots,
            receives,
            local,
            port: port.clone(),
            options,
            plan,
        };
        let mut message = zeroed(u64::from(size))?;
        pair.plan.payload.fill(&mut message);
        pair.region.copy_in(pair.message_at(), &message).map_err(failed)?;
        pair.queue_pair.to_init(&pair.port.port, &pair.options).map_err(failed)?;
        for receive in 0..u64::from(receives) {
            pair.post_receive(receive)?;
        }
        Ok(pair)
    }

    /// This pair as the peer must know it.
    #[must_use]
    pub fn endpoint(&self) -> VerbsEndpoint {
        let remote = self.region.remote();
        VerbsEndpoint {
            queue_pair: self.local.qpn,
            packet_sequence: self.local.psn,
            lid: self.local.lid,
            gid: self.local.gid.0,
            path_mtu: self.local.path_mtu,
            address: remote.addr,
            length: remote.len,
            remote_key: remote.rkey,
            responder_resources: self.local.responder_resources,
        }
    }

    /// Connects to the peer; returns the peer's region.
    ///
    /// # Errors
    /// The kernel refused a state change; the peer's memory is smaller than the message.
    pub fn connect(&self, peer: &VerbsEndpoint) -> Result<RemoteRegion, TransportError> {
        if peer.length < u64::from(self.size) {
            return Err(failed(format!(
                "the peer offers {} B of memory for messages of {} B",
                peer.length, self.size
            )));
        }
        let remote = Endpoint {
            qpn: peer.queue_pair & 0x00ff_ffff,
            psn: peer.packet_sequence & 0x00ff_ffff,
            lid: peer.lid,
            gid: Gid(peer.gid),
            path_mtu: peer.path_mtu,
            responder_resources: peer.responder_resources,
        };
        self.queue_pair
            .connect(&self.port.port, &self.port.gid, &self.local, &remote, &self.options)
            .map_err(failed)?;
        Ok(RemoteRegion { addr: peer.address, len: peer.length, rkey: peer.remote_key })
    }

    /// The path MTU both sides agreed on, in bytes.
    #[must_use]
    pub fn agreed_mtu(&self, peer: &VerbsEndpoint) -> u32 {
        let asked = self.plan.settings.path_mtu.unwrap_or(u32::MAX);
        self.local.path_mtu.min(peer.path_mtu).min(asked)
    }

    /// Whether messages go inline: as far as the queue pair allows (asked of it, not of a table; it
    /// may allow more than was asked for) and no further than was wished.
    #[must_use]
    pub fn inline(&self) -> bool {
        self.size <= self.inline_limit()
    }

    fn inline_limit(&self) -> u32 {
        let wish = self.plan.settings.inline.unwrap_or(INLINE);
        wish.min(self.queue_pair.capabilities().max_inline)
    }

    /// Sends from one signalled one to the next.
    pub(super) fn moderation(&self) -> u32 {
        match self.plan.cell.pattern {
            Pattern::Latency => PINGS_PER_SIGNAL,
            // At least four completions a depth, so that the queue is refilled before it runs dry.
            Pattern::Bandwidth => {
                self.plan.settings.completion_moderation.clamp(1, (self.plan.depth / 4).max(1))
            }
        }
    }

    /// What is in force, by name, for a report.
    #[must_use]
    pub fn describe(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("inline limit, B".to_owned(), self.inline_limit().to_string()),
            ("inline".to_owned(), if self.inline() { "yes" } else { "no" }.to_owned()),
            ("receive depth".to_owned(), self.receives.to_string()),
            ("completion moderation".to_owned(), self.moderation().to_string()),
            ("service level".to_owned(), self.plan.settings.service_level.to_string()),
            ("timeout exponent".to_owned(), self.plan.settings.timeout.to_string()),
        ])
    }

    pub(super) fn message_at(&self) -> usize {
        self.stride * self.slots
    }

    pub(super) fn confirmation_at(&self) -> usize {
        self.stride * (self.slots + 1)
    }

    /// The request that sends the message.
    pub(super) fn message_request(&self, operation: Operation) -> SendRequest {
        let local = self.region_id.range(self.message_at(), self.size);
        SendRequest::new(0, operation, local).inline(self.inline())
    }

    /// A request that carries no data.
    pub(super) fn empty_request(&self, operation: Operation) -> SendRequest {
        SendRequest::new(0, operation, self.region_id.range(0, 0))
    }

    pub(super) fn confirmation(&self) -> Local {
        self.region_id.range(self.confirmation_at(), CONFIRMATION as u32)
    }

    /// Posts the receive with this number; its slot is the number modulo the slots.
    #[inline]
    pub(super) fn post_receive(&self, number: u64) -> Result<(), TransportError> {
        let offset = self.stride * (number % self.slots as u64) as usize;
        // A slot holds a confirmation as well: it is at least 64 bytes long.
        let length = self.size.max(CONFIRMATION as u32);
        self.queue_pair
            .post_recv(&RecvRequest::new(number, self.region_id.range(offset, length)))
            .map_err(failed)
    }

    /// The number of the receive that follows the last one posted at first.
    pub(super) fn next_receive(&self) -> u64 {
        u64::from(self.receives)
    }

    pub(super) fn slot_at(&self, number: u64) -> usize {
        self.stride * (number % self.slots as u64) as usize
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

    /// Posts a send; waits for a place where the queue is full, which it is only if completions lag
    /// far behind the echoes.
    #[inline]
    pub(super) fn post(
        &self,
        request: &SendRequest,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        match self.queue_pair.post_send(request) {
            Ok(()) => Ok(()),
            Err(error) if error.is_queue_full() => self.post_when_free(request, stop),
            Err(error) => Err(failed(error)),
        }
    }

    #[cold]
    fn post_when_free(
        &self,
        request: &SendRequest,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        let mut waiting = Waiting::new(stop, PLACE_PATIENCE);
        loop {
            self.reap_sends()?;
            match self.queue_pair.post_send(request) {
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
