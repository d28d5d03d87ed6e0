//! Receives that many queue pairs take from, and completions that they share.

use std::time::Instant;

use fabricbench_verbs::{
    Access, Completion, CompletionQueue, Context, Error, EventKind, GRH_BYTES, MemoryRegion,
    Operation, Port, PostFailure, ProtectionDomain, QueuePairOptions, RecvRequest, RegionId,
    SharedReceiveQueue, Transport,
};

use crate::pair::{End, OPTIONS, PATIENCE, Pair, alone, device, everything_allowed, shared};

const SLOT: usize = 256;
const SLOTS: usize = 32;

/// A receiver of several queue pairs: one queue for receives, one for completions.
struct Hub {
    context: Context,
    port: Port,
    queue: SharedReceiveQueue,
    region: MemoryRegion,
    id: RegionId,
    cq: CompletionQueue,
}

impl Hub {
    fn new() -> Self {
        let (context, port) = device();
        let pd = context.alloc_pd().unwrap();
        let mut queue = pd.create_shared_receive_queue(SLOTS as u32).unwrap();
        assert!(queue.depth() >= SLOTS as u32);
        let region = pd.register(SLOT * SLOTS, Access::LOCAL_WRITE).unwrap();
        let id = queue.attach(&region).unwrap();
        let cq = context.create_completion_queue(256).unwrap();
        Self { context, port, queue, region, id, cq }
    }

    fn receive(&self, slot: usize) -> RecvRequest {
        RecvRequest::new(slot as u64, self.id.range(slot * SLOT, SLOT as u32))
    }

    /// A client connected to a queue pair of this receiver.
    fn joined(&self, transport: Transport) -> Pair {
        let (options, pd) = (QueuePairOptions { transport, ..OPTIONS }, self.domain());
        let client = End::new(&self.context, &pd, &options);
        let qp = pd.create_queue_pair_on(&self.cq, &self.cq, &self.queue, &options).unwrap();
        assert!(qp.shares_receives() && qp.capabilities().recv_depth == 0);
        let server = End::of(qp, self.cq.clone());
        Pair::joined(client, server, self.port.clone(), &everything_allowed())
    }

    fn domain(&self) -> ProtectionDomain {
        self.queue.protection_domain()
    }

    fn next(&self) -> Completion {
        let mut buffer = [Completion::default()];
        let start = Instant::now();
        loop {
            if let [completion] = self.cq.poll(&mut buffer).unwrap() {
                return *completion.check().unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "no completion in {PATIENCE:?}");
        }
    }
}

fn send(pair: &Pair, text: &[u8]) {
    pair.a.region.copy_in(0, text).unwrap();
    let local = pair.a.id.range(0, text.len() as u32);
    pair.a.qp.post_send(&pair.a.request(0, Operation::Send, local)).unwrap();
}

#[test]
fn queue_pairs_of_two_transports_take_from_one_queue() {
    let Some(_guard) = shared() else { return };
    let hub = Hub::new();
    let pairs = [
        hub.joined(Transport::ReliableConnection),
        hub.joined(Transport::UnreliableDatagram),
        hub.joined(Transport::ReliableConnection),
    ];
    for round in 0..3 {
        let mut list = hub.queue.recv_list::<SLOTS>();
        for slot in 0..SLOTS {
            if slot % 2 == 0 {
                hub.queue.post_recv(&hub.receive(slot)).unwrap();
            } else {
                hub.queue.push_recv(&mut list, &hub.receive(slot)).unwrap();
            }
        }
        hub.queue.post_recv_list(&mut list, 0).unwrap();
        let mut used = [false; SLOTS];
        for number in 0..SLOTS {
            let pair = &pairs[number % pairs.len()];
            let text = format!("round {round}, message {number}");
            send(pair, text.as_bytes());
            // Whoever it is for, one queue of receives and one of completions.
            let got = hub.next();
            assert_eq!(got.queue_pair(), pair.b.qp.number());
            let slot = usize::try_from(got.id()).unwrap();
            assert!(!std::mem::replace(&mut used[slot], true), "slot {slot} was used twice");
            let header = if pair.a.peer.is_some() { GRH_BYTES } else { 0 };
            assert_eq!(got.byte_len() as usize, header + text.len());
            let mut out = vec![0; text.len()];
            hub.region.copy_out(slot * SLOT + header, &mut out).unwrap();
            assert_eq!(out, text.as_bytes());
            pair.a.done();
        }
        assert!(used.iter().all(|&used| used));
    }
}

#[test]
fn an_empty_queue_holds_a_reliable_sender_up_until_there_is_a_receive() {
    let Some(_guard) = shared() else { return };
    let hub = Hub::new();
    let pair = hub.joined(Transport::ReliableConnection);
    send(&pair, b"early");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(pair.a.cq.poll(&mut [Completion::default()]).unwrap().is_empty());
    hub.queue.post_recv(&hub.receive(0)).unwrap();
    assert_eq!((hub.next().byte_len(), pair.a.done().id()), (5, 0));
}

#[test]
fn a_queue_and_its_memory_live_as_long_as_a_queue_pair_on_it() {
    let Some(_guard) = shared() else { return };
    let hub = Hub::new();
    let pair = hub.joined(Transport::ReliableConnection);
    hub.queue.post_recv(&hub.receive(1)).unwrap();
    let Hub { queue, region, cq, context, .. } = hub;
    // The device still has the receive.
    drop((queue, region));
    send(&pair, b"into what nobody holds but the queue pair");
    pair.a.done();
    assert_eq!(pair.b.done().id(), 1);
    drop((pair, cq, context));
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let Some(_guard) = shared() else { return };
    let mut hub = Hub::new();
    let pair = hub.joined(Transport::ReliableConnection);
    let error = pair.b.qp.post_recv(&RecvRequest::new(0, pair.b.id.range(0, 8))).unwrap_err();
    assert_eq!(error.reason, PostFailure::SharedReceives);
    let mut list = pair.b.qp.recv_list::<1>();
    pair.b.qp.push_recv(&mut list, &RecvRequest::new(0, pair.b.id.range(0, 8))).unwrap();
    let error = pair.b.qp.post_recv_list(&mut list, 0).unwrap_err();
    assert_eq!(error.reason, PostFailure::SharedReceives);
    // Regions and lists of a queue pair are not those of the queue it takes from.
    let error = hub.queue.post_recv(&RecvRequest::new(0, pair.b.id.range(0, 8))).unwrap_err();
    assert_eq!(error.reason, PostFailure::UnknownRegion);
    let error = hub.queue.post_recv_list(&mut list, 0).unwrap_err();
    assert_eq!(error.reason, PostFailure::ListMismatch);
    let past = RecvRequest::new(0, hub.id.range(SLOT * SLOTS, 1));
    let error = hub.queue.post_recv(&past).unwrap_err();
    assert!(matches!(error.reason, PostFailure::OutOfRange { .. }), "{error}");

    let other = hub.context.alloc_pd().unwrap();
    let stranger = other.register(64, Access::LOCAL_WRITE).unwrap();
    assert!(matches!(hub.queue.attach(&stranger), Err(Error::Foreign { .. })));
    let foreign = other.create_queue_pair_on(&hub.cq, &hub.cq, &hub.queue, &OPTIONS);
    assert!(matches!(foreign, Err(Error::Foreign { .. })));
    let options = QueuePairOptions { transport: Transport::UnreliableConnection, ..OPTIONS };
    let unreliable = hub.domain().create_queue_pair_on(&hub.cq, &hub.cq, &hub.queue, &options);
    let text = unreliable.unwrap_err().to_string();
    assert!(text.contains("shared receive queues of UC"), "{text}");
    let most = hub.context.limits().shared_receive_requests;
    let text = other.create_shared_receive_queue(most + 1).unwrap_err().to_string();
    assert!(text.contains(&format!("at most {most}")), "{text}");
}

#[test]
fn a_queue_that_runs_dry_says_so() {
    // Events are of the device, so of every test's that has it open.
    let Some(_guard) = alone() else { return };
    let hub = Hub::new();
    let pair = hub.joined(Transport::ReliableConnection);
    for slot in 0..4 {
        hub.queue.post_recv(&hub.receive(slot)).unwrap();
    }
    hub.queue.arm_limit(3).unwrap();
    assert_eq!(hub.context.poll_async_event().unwrap(), None);
    for _ in 0..2 {
        send(&pair, b"x");
        hub.next();
    }
    let start = Instant::now();
    let event = loop {
        if let Some(event) = hub.context.poll_async_event().unwrap() {
            break event;
        }
        assert!(start.elapsed() < PATIENCE, "no event");
    };
    assert!(event.kind == EventKind::SHARED_RECEIVE_LIMIT && !event.is_fatal(), "{event}");
}

#[test]
fn queue_pairs_share_a_completion_queue() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_completion_queue(256).unwrap();
    let pairs: Vec<Pair> = (0..4)
        .map(|_| {
            let end = || End::of(pd.create_queue_pair(&cq, &cq, &OPTIONS).unwrap(), cq.clone());
            Pair::joined(end(), end(), port.clone(), &everything_allowed())
        })
        .collect();
    for (number, pair) in pairs.iter().enumerate() {
        let id = 10 * number as u64;
        pair.b.qp.post_recv(&RecvRequest::new(id, pair.b.id.range(0, 64))).unwrap();
        let request = pair.a.request(id + 1, Operation::Send, pair.a.id.range(0, 8));
        pair.a.qp.post_send(&request).unwrap();
    }
    // Two of each pair, told by number and queue pair, in whatever order.
    let mut seen: Vec<(u64, u32)> =
        (0..2 * pairs.len()).map(|_| pairs[0].a.done()).map(|c| (c.id(), c.queue_pair())).collect();
    let mut wanted: Vec<(u64, u32)> = pairs
        .iter()
        .enumerate()
        .flat_map(|(number, pair)| {
            let id = 10 * number as u64;
            [(id, pair.b.qp.number()), (id + 1, pair.a.qp.number())]
        })
        .collect();
    seen.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(seen, wanted);
}
