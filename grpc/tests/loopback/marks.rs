//! Marks of sampled calls, on both sides of real connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fabricbench_grpc::marks::{CallMarks, Mark, Recorder, Sampling, Side, Ticks};
use fabricbench_grpc::{Client, ConnectOptions, ListenOptions, Observer, Tuning};
use tokio::task::JoinSet;

use crate::support::{Running, run};

/// In the order in which they must come, whatever the message.
const CLIENT: [Mark; 8] = [
    Mark::Begin,
    Mark::EncodeBegin,
    Mark::EncodeEnd,
    Mark::WriteEnd,
    Mark::ReadEnd,
    Mark::DecodeBegin,
    Mark::DecodeEnd,
    Mark::End,
];
const SERVER: [Mark; 8] = [
    Mark::ReadBegin,
    Mark::DecodeBegin,
    Mark::DecodeEnd,
    Mark::HandlerBegin,
    Mark::HandlerEnd,
    Mark::EncodeBegin,
    Mark::EncodeEnd,
    Mark::WriteEnd,
];

/// Nanoseconds, the same for both sides.
fn clock() -> Arc<dyn Ticks> {
    let origin = Instant::now();
    Arc::new(move || origin.elapsed().as_nanos() as u64)
}

struct Marked {
    server: Running,
    options: ConnectOptions,
    recorder: Arc<Recorder>,
}

impl Marked {
    fn start(tuning: &Tuning, every: u32, observer: Observer) -> Marked {
        let (clock, sampling) = (clock(), Sampling { every, seed: 1, capacity: 4096 });
        let observer = observer.mark_with(sampling, 64, clock.clone());
        let listen = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        let server = Running::start_with(&listen, tuning, observer);
        let recorder = Recorder::new(sampling, Side::Client, clock);
        let options = ConnectOptions::new(server.address).marks(recorder.clone());
        Marked { server, options, recorder }
    }

    /// The calls with their marks on both sides; those of the client without the other's are left
    /// out.
    fn pairs(&self, client: &Client) -> Vec<(CallMarks, CallMarks)> {
        let served = self.server.observer.take_marks();
        let [(peer, served)] = &served[..] else { panic!("one connection") };
        assert_eq!(*peer, client.local_addr());
        let marks = self.recorder.take().into_iter();
        let pairs = marks.filter_map(|here| {
            let there = served.iter().find(|there| there.call == here.call)?;
            Some((here, *there))
        });
        pairs.collect()
    }
}

fn in_order(marks: &CallMarks, order: &[Mark]) {
    let mut last = 0;
    for &mark in order {
        let at = marks.get(mark).unwrap_or_else(|| panic!("no {mark:?} in {marks:?}"));
        assert!(at >= last, "{mark:?} is too early in {marks:?}");
        last = at;
    }
}

/// What a cause cannot come after.
fn is_causal(client: &CallMarks, server: &CallMarks) {
    in_order(client, &CLIENT);
    in_order(client, &[Mark::WriteBegin, Mark::FirstWriteEnd, Mark::WriteEnd]);
    in_order(client, &[Mark::WriteBegin, Mark::ReadBegin, Mark::LastReadBegin, Mark::ReadEnd]);
    in_order(server, &SERVER);
    // The message may be decoded before the end of its stream is read.
    in_order(server, &[Mark::ReadBegin, Mark::LastReadBegin, Mark::ReadEnd, Mark::HandlerBegin]);
    in_order(server, &[Mark::HandlerEnd, Mark::WriteBegin, Mark::FirstWriteEnd, Mark::WriteEnd]);
    assert!(client.get(Mark::WriteBegin) < server.get(Mark::ReadEnd), "{client:?} {server:?}");
    assert!(server.get(Mark::WriteBegin) < client.get(Mark::ReadEnd), "{client:?} {server:?}");
}

#[test]
fn every_stage_of_a_call_is_noted_on_both_sides() {
    const LARGE: usize = 3 << 20;
    let largest = LARGE as u64;
    for tuning in [
        Tuning::stock(largest).unwrap(),
        Tuning::tuned(largest, 1).unwrap(),
        Tuning::lean(largest, 1).unwrap(),
    ] {
        for size in [0, 64, LARGE] {
            let marked = Marked::start(&tuning, 2, Observer::new());
            let client = run(async {
                let client = Client::connect(&marked.options, &tuning).await.unwrap();
                for _ in 0..20 {
                    client.echo(Bytes::from(vec![0; size])).await.unwrap();
                }
                client
            });
            let pairs = marked.pairs(&client);
            // The server may not yet have noted that its last write has ended.
            assert!((9..=10).contains(&pairs.len()), "{} B: {}", size, pairs.len());
            pairs.iter().for_each(|(client, server)| is_causal(client, server));
            // The whole message passes between its first byte and its last.
            if size == LARGE {
                assert!(pairs.iter().all(|(client, server)| {
                    client.get(Mark::FirstWriteEnd) < client.get(Mark::WriteEnd)
                        && server.get(Mark::ReadBegin) < server.get(Mark::LastReadBegin)
                }));
            }
        }
    }
}

#[test]
fn calls_that_are_under_way_at_once_keep_their_marks_apart() {
    for tuning in [Tuning::tuned(1024, 64).unwrap(), Tuning::lean(1024, 64).unwrap()] {
        let marked = Marked::start(&tuning, 3, Observer::new());
        let client = run(async {
            let client = Client::connect(&marked.options, &tuning).await.unwrap();
            // A stream between calls takes a number as well.
            client.push().finish().await.unwrap();
            for _ in 0..20 {
                let mut calls = JoinSet::new();
                for size in 0..64 {
                    calls.spawn(client.echo(Bytes::from(vec![0; size * 16])));
                }
                while let Some(call) = calls.join_next().await {
                    call.unwrap().unwrap();
                }
            }
            // Before the server reads this, it has noted the end of all its writes before.
            client.echo(Bytes::new()).await.unwrap();
            client
        });
        let pairs = marked.pairs(&client);
        let sampled = 20 * 64 / 3;
        assert!(pairs.len() >= sampled - 2 && pairs.len() <= sampled + 1, "{}", pairs.len());
        pairs.iter().for_each(|(client, server)| is_causal(client, server));
    }
}

#[test]
fn a_handler_that_waits_is_seen_in_the_handler() {
    const WAIT: Duration = Duration::from_millis(5);
    let tuning = Tuning::tuned(64, 1).unwrap();
    let check = |_: &[u8]| {
        std::thread::sleep(WAIT);
        true
    };
    let marked = Marked::start(&tuning, 1, Observer::new().check_with(check));
    let client = run(async {
        let client = Client::connect(&marked.options, &tuning).await.unwrap();
        for _ in 0..20 {
            client.echo(Bytes::from_static(&[7; 64])).await.unwrap();
        }
        client
    });
    for (client, server) in marked.pairs(&client) {
        let between = |marks: &CallMarks, from, to| {
            let (from, to) = (marks.get(from).unwrap(), marks.get(to).unwrap());
            Duration::from_nanos(to.saturating_sub(from))
        };
        let handled = between(&server, Mark::HandlerBegin, Mark::HandlerEnd);
        assert!(handled >= WAIT, "{handled:?}");
        assert!(between(&client, Mark::WriteBegin, Mark::ReadEnd) >= handled);
        is_causal(&client, &server);
    }
}
