//! The extended interface, where the provider has it: the same requests and completions.

use std::time::{Duration, Instant};

use fabricbench_verbs::{
    Access, Context, Error, ExtendedCompletionQueue, ExtendedQueuePair, GRH_BYTES, Kind,
    MemoryRegion, Opcode, Operation, Port, PostFailure, ProtectionDomain, QueuePairOptions,
    RecvRequest, RegionId, SendRequest, Status, TimedCompletion, Transport, random_psn,
};

use crate::pair::{OPTIONS, PATIENCE, REGION, device, everything_allowed, shared};

/// One end, all of it of the extended interface.
struct End {
    qp: ExtendedQueuePair,
    cq: ExtendedCompletionQueue,
    region: MemoryRegion,
    id: RegionId,
}

impl End {
    fn new(context: &Context, pd: &ProtectionDomain) -> Self {
        let channel = context.create_completion_channel().unwrap();
        let cq = context.create_extended_completion_queue_on(&channel, 128, false).unwrap();
        let mut qp = pd.create_extended_queue_pair(cq.queue(), cq.queue(), &OPTIONS).unwrap();
        let access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let region = pd.register(REGION, access).unwrap();
        let id = qp.attach(&region).unwrap();
        Self { qp, cq, region, id }
    }

    fn completions(&self, count: usize) -> Vec<TimedCompletion> {
        let (mut got, start) = (Vec::new(), Instant::now());
        while got.len() < count {
            let mut into = [TimedCompletion::default(); 3];
            got.extend_from_slice(self.cq.poll(&mut into).unwrap());
            assert!(start.elapsed() < PATIENCE, "{} of {count} completions", got.len());
        }
        assert!(self.cq.poll(&mut [TimedCompletion::default()]).unwrap().is_empty());
        got
    }

    fn receive(&self, id: u64, offset: usize, length: u32) {
        let request = RecvRequest::new(id, self.id.range(offset, length));
        self.qp.queue_pair().post_recv(&request).unwrap();
    }
}

fn pair(context: &Context, port: &Port) -> (End, End) {
    let gid = context.choose_gid(port.number, None).unwrap();
    let pd = context.alloc_pd().unwrap();
    let (a, b) = (End::new(context, &pd), End::new(context, &pd));
    let (qp_a, qp_b) = (a.qp.queue_pair(), b.qp.queue_pair());
    let end_a = qp_a.endpoint(port, &gid, random_psn());
    let end_b = qp_b.endpoint(port, &gid, random_psn());
    qp_a.connect(port, &gid, &end_a, &end_b, &everything_allowed()).unwrap();
    qp_b.connect(port, &gid, &end_b, &end_a, &everything_allowed()).unwrap();
    (a, b)
}

#[test]
fn what_is_offered_is_found_out_and_what_is_not_is_refused_by_name() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    let support = context.extended_support().unwrap();
    let limits = context.extended_limits().unwrap();
    if port.kind == Kind::SoftRoce {
        assert!(!support.advised && support.timestamps.is_none(), "{support:?}");
    }
    let timed = context.create_extended_completion_queue(4, true);
    match support.timestamps {
        Some(clock) => {
            assert_eq!(clock.mask, limits.completion_timestamp_mask);
            assert_eq!(timed.unwrap().clock(), Some(clock));
        }
        None => {
            let text = timed.unwrap_err().to_string();
            let name = context.name();
            assert!(
                text.starts_with(&format!("not supported by {name}: completions with time")),
                "{text}"
            );
        }
    }
    match context.device_time() {
        Ok(first) => {
            let mask = limits.completion_timestamp_mask;
            let passed = context.device_time().unwrap().wrapping_sub(first) & mask;
            assert!(passed > 0 && passed < mask / 2, "{passed} ticks");
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(&format!("{}: telling its time", context.name())), "{text}");
        }
    }
    let plain = context.create_extended_completion_queue(4, false);
    assert_eq!(plain.is_ok(), support.completion_queue);
    if let Err(error) = plain {
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
}

/// Whether there is anything to test beyond the refusal above. On soft-RoCE there is.
fn offered(context: &Context, port: &Port) -> bool {
    let support = context.extended_support().unwrap();
    let offered = support.queue_pair && support.completion_queue;
    assert!(offered || port.kind != Kind::SoftRoce, "{support:?}");
    if !offered {
        eprintln!("skipped: {} has no extended interface: {support:?}", context.name());
    }
    offered
}

#[test]
fn requests_of_every_kind_do_what_plain_ones_do() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    if !offered(&context, &port) {
        return;
    }
    let (a, b) = pair(&context, &port);
    let bytes: Vec<u8> = (0..4096).map(|i| (i * 5 % 251) as u8).collect();
    let mut out = vec![0; bytes.len()];
    a.region.copy_in(0, &bytes).unwrap();
    let remote = |offset| b.region.remote().at(offset);
    b.region.store_u64(16_384, 40).unwrap();
    b.receive(90, 32_768, 4096);
    b.receive(91, 40_960, 64);
    b.receive(92, 0, 0);
    // In one batch, and in the order posted.
    let operations = [
        (Operation::Send, a.id.range(0, 4096)),
        (Operation::SendImm(7), a.id.range(0, 64)),
        (Operation::Write(remote(0)), a.id.range(0, 4096)),
        (Operation::WriteImm(remote(8192), 8), a.id.range(0, 100)),
        (Operation::Read(remote(16_384)), a.id.range(8192, 8)),
        (Operation::FetchAdd { remote: remote(16_384), add: 2 }, a.id.range(8200, 8)),
        (
            Operation::CompareSwap { remote: remote(16_384), compare: 42, swap: 9 },
            a.id.range(8208, 8),
        ),
    ];
    let requests: Vec<SendRequest> = operations
        .iter()
        .zip(0..)
        .map(|(&(operation, local), id)| SendRequest::new(id, operation, local))
        .collect();
    a.qp.post_send(&requests).unwrap();
    let sent = a.completions(requests.len());
    let opcodes = [
        Opcode::SEND,
        Opcode::SEND,
        Opcode::WRITE,
        Opcode::WRITE,
        Opcode::READ,
        Opcode::FETCH_ADD,
        Opcode::COMPARE_SWAP,
    ];
    for ((timed, id), opcode) in sent.iter().zip(0..).zip(opcodes) {
        let done = timed.completion.check().unwrap();
        assert_eq!((done.id(), done.opcode(), timed.timestamp), (id, opcode, None));
        assert_eq!(done.queue_pair(), a.qp.queue_pair().number());
    }
    let received = b.completions(3);
    let seen: Vec<_> = received
        .iter()
        .map(|timed| timed.completion.check().unwrap())
        .map(|done| (done.id(), done.byte_len(), done.immediate()))
        .collect();
    assert_eq!(seen, [(90, 4096, None), (91, 64, Some(7)), (92, 100, Some(8))]);
    for (offset, length) in [(32_768, 4096), (40_960, 64), (0, 4096), (8192, 100)] {
        b.region.copy_out(offset, &mut out[..length]).unwrap();
        assert!(out[..length] == bytes[..length], "{length} bytes at {offset}");
    }
    let read = |offset| a.region.load_u64(offset).unwrap();
    assert_eq!((read(8192), read(8200), read(8208)), (40, 40, 42));
    assert_eq!(b.region.load_u64(16_384).unwrap(), 9);
}

#[test]
fn inline_unsignaled_and_refused_requests_behave_as_plain_ones() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    if !offered(&context, &port) {
        return;
    }
    let (a, b) = pair(&context, &port);
    let write = |offset| Operation::Write(b.region.remote().at(offset));
    let request = |id, offset| SendRequest::new(id, write(offset), a.id.range(0, 32)).inline(true);
    a.region.fill(0, 32, 6).unwrap();
    a.qp.post_send(&[request(1, 0).signaled(false), request(2, 64)]).unwrap();
    // Copied when posted: changing the source now must not change what arrives.
    a.region.fill(0, 32, 9).unwrap();
    let [done] = a.completions(1)[..] else { panic!() };
    assert_eq!(done.completion.check().unwrap().id(), 2);
    assert_eq!((b.region.load_u8(31).unwrap(), b.region.load_u8(95).unwrap()), (6, 6));
    // One that cannot be takes the whole batch back, and the queue goes on.
    let outside = SendRequest::new(3, write(0), a.id.range(REGION, 1));
    let error = a.qp.post_send(&[request(4, 128), outside]).unwrap_err();
    assert!(matches!(error.reason, PostFailure::OutOfRange { .. }) && error.posted == 0, "{error}");
    a.qp.post_send(&[request(5, 192)]).unwrap();
    assert_eq!(a.completions(1)[0].completion.check().unwrap().id(), 5);
    assert_eq!((b.region.load_u8(128).unwrap(), b.region.load_u8(192).unwrap()), (0, 9));
    // A failure is told with its status.
    let mut wrong = b.region.remote().at(0);
    wrong.rkey ^= 0x0055_5500;
    let bad = SendRequest::new(6, Operation::Write(wrong), a.id.range(0, 8));
    a.qp.post_send(&[bad]).unwrap();
    let failure = a.completions(1)[0].completion.check().map(|_| ()).unwrap_err();
    assert_eq!((failure.id, failure.status), (6, Status::REMOTE_ACCESS));
}

#[test]
fn an_event_tells_of_a_completion() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    if !offered(&context, &port) {
        return;
    }
    let (a, b) = pair(&context, &port);
    let short = Duration::from_millis(20);
    b.receive(1, 0, 64);
    b.cq.queue().arm(false).unwrap();
    assert!(!b.cq.queue().wait(short).unwrap());
    a.qp.post_send(&[SendRequest::new(2, Operation::Send, a.id.range(0, 64))]).unwrap();
    assert!(b.cq.queue().wait(PATIENCE).unwrap());
    assert_eq!(b.completions(1)[0].completion.check().unwrap().id(), 1);
    a.completions(1);
}

/// A datagram to another queue pair of the port, into a receive that it shares.
#[test]
fn datagrams_and_shared_receives_work_as_with_plain_queue_pairs() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    if !offered(&context, &port) {
        return;
    }
    let options = QueuePairOptions { transport: Transport::UnreliableDatagram, ..OPTIONS };
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_extended_completion_queue(16, false).unwrap();
    let mut receives = pd.create_shared_receive_queue(4).unwrap();
    let region = pd.register(REGION, Access::LOCAL_WRITE).unwrap();
    let room = receives.attach(&region).unwrap().range(0, GRH_BYTES as u32 + 64);
    receives.post_recv(&RecvRequest::new(1, room)).unwrap();
    let (sends, queue) = (cq.queue(), &receives);
    let receiver = pd.create_extended_queue_pair_on(sends, sends, queue, &options).unwrap();
    let mut sender = pd.create_extended_queue_pair(sends, sends, &options).unwrap();
    assert!(receiver.queue_pair().shares_receives());
    let allowed = everything_allowed();
    for qp in [receiver.queue_pair(), sender.queue_pair()] {
        qp.activate(&port, random_psn(), &allowed).unwrap();
    }
    let gid = context.choose_gid(port.number, None).unwrap();
    let target = receiver.queue_pair().endpoint(&port, &gid, 0);
    let way = pd.create_address_handle(&port, &gid, &target, &allowed).unwrap();
    let peer = sender.attach_peer(&way, target.qpn, allowed.qkey).unwrap();
    let id = sender.attach(&region).unwrap();
    region.copy_in(8192, &[0x3c; 64]).unwrap();
    let request = SendRequest::new(2, Operation::SendImm(5), id.range(8192, 64)).to(peer);
    // Not without its destination.
    let error = sender.post_send(&[SendRequest { peer: None, ..request }]).unwrap_err();
    assert_eq!(error.reason, PostFailure::MissingPeer);
    sender.post_send(&[request]).unwrap();
    let (mut got, start) = (Vec::new(), Instant::now());
    while got.len() < 2 {
        let mut into = [TimedCompletion::default(); 4];
        got.extend_from_slice(cq.poll(&mut into).unwrap());
        assert!(start.elapsed() < PATIENCE, "{got:?}");
    }
    got.sort_by_key(|timed| timed.completion.id());
    let [received, sent] = &got[..] else { panic!("{got:?}") };
    assert_eq!(sent.completion.check().unwrap().opcode(), Opcode::SEND);
    let received = received.completion.check().unwrap();
    assert_eq!((received.byte_len(), received.immediate()), (GRH_BYTES as u32 + 64, Some(5)));
    assert_eq!(received.source_queue_pair(), sender.queue_pair().number());
    assert_eq!(received.queue_pair(), target.qpn);
    let mut out = [0; 64];
    region.copy_out(GRH_BYTES, &mut out).unwrap();
    assert_eq!(out, [0x3c; 64]);
}
