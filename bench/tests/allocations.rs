//! What a measurement allocates: nothing that grows with its messages.
//!
//! This program counts what each thread asks of its allocator. Over verbs both ends are in it, on the
//! device of `FABRICBENCH_DEVICE_TESTS=1`; without that, these say why they are skipped and pass.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

use std::time::Duration;

use allocation_counter::measure;
use fabricbench::{
    clock::{Clock, TscClock, VirtualClock},
    engine::{Task, WarmUp, measure_bandwidth, measure_calls, measure_latency},
    plan::{Cell, Pattern, Payload, Service, Stop, TransportName, VerbsName, VerbsOperation},
    stats::Histogram,
    transport::{
        Answer, Initiator, Opening as _, Patience, Pieces, Responder, StopReason, StopSignal,
        VerbsSettings,
        fake::{FakeInitiator, Step},
        verbs::{
            Ask, Pair, PairPlan, Ping, Push, VerbsCallsOpening, VerbsInitiator, VerbsOpening,
            VerbsPort, VerbsResponder, VerbsServer,
        },
    },
};

/// Messages of the shorter and of the longer run.
const RUNS: [u64; 2] = [300, 900];

fn task(messages: u64) -> Task {
    Task {
        stop: Stop::Messages(messages),
        least_messages: messages,
        warm_up: WarmUp { messages: 1, time: Duration::from_secs(60) },
        patience: Patience(Duration::from_secs(20)),
    }
}

/// Allocations of the loop of a pattern.
fn loop_allocates(
    initiator: &mut impl Initiator,
    clock: &impl Clock,
    pattern: Pattern,
    messages: u64,
) -> u64 {
    let mut histogram = Histogram::new();
    let task = task(messages);
    let info = measure(|| match pattern {
        Pattern::Latency => {
            measure_latency(initiator, clock, &task, &mut histogram, || {}).map(drop).unwrap();
        }
        Pattern::Calls => {
            measure_calls(initiator, clock, &task, &mut histogram, || {}).map(drop).unwrap();
        }
        _ => measure_bandwidth(initiator, clock, &task, || {}).map(drop).unwrap(),
    });
    info.count_total
}

#[test]
fn what_is_allocated_is_counted() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1);
}

#[test]
fn the_loops_allocate_nothing() {
    for pattern in [Pattern::Latency, Pattern::Bandwidth] {
        let clock = VirtualClock::default();
        // Some slow ones, which are recorded elsewhere than the others.
        let script = [1_000, 2_000, 9_000_000_000].map(Step::Takes).to_vec();
        let mut initiator = FakeInitiator::new(&clock, 16, 64, script);
        // The scripted transport has a queue of its own, which is as long as it gets after this.
        loop_allocates(&mut initiator, &clock, pattern, 100);
        for messages in RUNS {
            initiator.submitted = 0;
            assert_eq!(loop_allocates(&mut initiator, &clock, pattern, messages), 0, "{pattern}");
        }
    }
}

/// Allocations of client and server while so many messages pass.
fn over_verbs<I: VerbsInitiator>(plan: &PairPlan, messages: u64) -> (u64, u64) {
    let open = || VerbsPort::open(&plan.settings).unwrap();
    let there = Pair::open(&open(), plan.clone().of_responder()).unwrap();
    let here = Pair::open(&open(), plan.clone()).unwrap();
    let stop = StopSignal::new();
    let (answer, client) = (there.endpoint(), here.endpoint());
    let responder = Box::new(VerbsResponder::connect(there, &client).unwrap());
    let opening = VerbsOpening::<I>::new(here, plan.settings.clone(), stop);
    passes(plan, messages, responder, opening.connect(&Answer::Verbs(answer)).unwrap())
}

/// The same while so many calls are made.
fn of_calls(plan: &PairPlan, messages: u64) -> (u64, u64) {
    let open = || VerbsPort::open(&plan.settings).unwrap();
    let there = Pair::open(&open(), plan.clone().of_responder()).unwrap();
    let here = Pair::open(&open(), plan.clone()).unwrap();
    let (answer, client) = (there.endpoint(), here.endpoint());
    let server = Box::new(VerbsServer::connect(there, 0, &[client]).unwrap());
    let opening = VerbsCallsOpening::new(here, plan.settings.clone(), StopSignal::new());
    passes(plan, messages, server, opening.connect(&Answer::Verbs(answer)).unwrap())
}

/// The same of this client and server.
fn passes(
    plan: &PairPlan,
    messages: u64,
    responder: Box<impl Responder>,
    mut initiator: impl Initiator,
) -> (u64, u64) {
    let clock = TscClock::new();
    let ended = StopSignal::new();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut served = Err(fabricbench::transport::TransportError::Failed(String::new()));
            let info = measure(|| served = responder.serve(&ended));
            (info.count_total, served.unwrap())
        });
        let client = loop_allocates(&mut initiator, &clock, plan.cell.pattern, messages);
        ended.give(StopReason::Finished);
        let (server, received) = server.join().unwrap();
        if !plan.verbs.operation.is_one_sided() {
            assert_eq!(received.messages, messages + 1);
        }
        assert_eq!(received.corrupt, 0);
        (client, server)
    })
}

fn plan(service: Service, operation: VerbsOperation, pattern: Pattern) -> PairPlan {
    let verbs = VerbsName { service, operation };
    PairPlan {
        cell: Cell::new(TransportName::Verbs(verbs), pattern, 64),
        verbs,
        payload: Payload::new(7),
        depth: 32,
        settings: VerbsSettings::default(),
        answers: false,
    }
}

/// Neither side of `plan` allocates more for more messages.
#[track_caller]
fn holds<I: VerbsInitiator>(plan: &PairPlan) {
    holds_by(plan, over_verbs::<I>);
}

#[track_caller]
fn holds_by(plan: &PairPlan, allocations: fn(&PairPlan, u64) -> (u64, u64)) {
    let [few, many] = RUNS.map(|messages| allocations(plan, messages));
    assert_eq!(few, many, "{}, {:?}", plan.cell, plan.settings);
    // The first message is looked at, and so is what is confirmed.
    assert!(few.0.max(few.1) < 40, "{}: {few:?}", plan.cell);
}

fn is_there() -> bool {
    let asked = std::env::var("FABRICBENCH_DEVICE_TESTS").is_ok_and(|value| value == "1");
    if !asked {
        eprintln!("skipped: FABRICBENCH_DEVICE_TESTS=1 is not set");
    }
    asked
}

#[test]
fn a_ping_pong_over_verbs_allocates_nothing_for_a_message() {
    if !is_there() {
        return;
    }
    use VerbsOperation::{CompareSwap, FetchAdd, Read, Send, Write, WriteImm};
    let of = |operation| plan(Service::Rc, operation, Pattern::Latency);
    holds::<Ping<true>>(&of(Write));
    holds::<Ping<false>>(&of(WriteImm));
    holds::<Ping<false>>(&of(Send));
    for operation in [Read, FetchAdd, CompareSwap] {
        let mut plan = of(operation);
        plan.cell.size = 8;
        holds::<Ask>(&plan);
    }
    for service in [Service::Uc, Service::Ud] {
        holds::<Ping<false>>(&plan(service, Send, Pattern::Latency));
    }
    let mut pieces = of(Send);
    pieces.settings.pieces = Pieces::Of(24);
    holds::<Ping<false>>(&pieces);
}

#[test]
fn a_push_over_verbs_allocates_nothing_for_a_message() {
    if !is_there() {
        return;
    }
    use VerbsOperation::{Read, Send, Write, WriteImm};
    for operation in [Write, WriteImm, Send] {
        holds::<Push<false>>(&plan(Service::Rc, operation, Pattern::Bandwidth));
    }
    holds::<Push<false>>(&plan(Service::Rc, Read, Pattern::Fetch));
    let mut lists = plan(Service::Rc, Send, Pattern::Bandwidth);
    (lists.settings.post_list, lists.settings.queue_pairs) = (4, 3);
    holds::<Push<false>>(&lists);
    let mut pieces = plan(Service::Rc, Send, Pattern::Bandwidth);
    pieces.settings.pieces = Pieces::Of(24);
    holds::<Push<false>>(&pieces);
}

#[test]
fn calls_over_verbs_allocate_nothing_for_a_message() {
    if !is_there() {
        return;
    }
    use VerbsOperation::{Send, Write, WriteImm};
    for operation in [Write, WriteImm, Send] {
        let mut plan = plan(Service::Rc, operation, Pattern::Calls);
        plan.depth = 5;
        holds_by(&plan, of_calls);
    }
}
