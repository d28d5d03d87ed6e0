//! Marks of sampled calls, on both sides of real connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fabricbench_grpc::marks::{CallMarks, Mark, Recorder, Sampling, Side, Ticks};
use fabricbench_grpc::{
    Client, ConnectOptions, Identity, ListenOptions, Observer, Profile, Tuning,
};
use tokio::task::JoinSet;

use crate::support::{Running, run};

/// In the order in which they must come, whatever the message.
const CLIENT: [Mark; 12] = [
    Mark::Begin,
    Mark::EncodeBegin,
    Mark::EncodeEnd,
    Mark::WriteBegin,
    Mark::FirstWriteEnd,
    Mark::WriteEnd,
    Mark::ReadBegin,
    Mark::LastReadBegin,
    Mark::ReadEnd,
    Mark::DecodeBegin,
    Mark::DecodeEnd,
    Mark::End,
];
const SERVER: [Mark; 12] = [
    Mark::ReadBegin,
    Mark::LastReadBegin,
    Mark::ReadEnd,
    Mark::DecodeBegin,
    Mark::DecodeEnd,
    Mark::HandlerBegin,
    Mark::HandlerEnd,
    Mark::EncodeBegin,
    Mark::EncodeEnd,
    Mark::WriteBegin,
    Mark::FirstWriteEnd,
    Mark::WriteEnd,
];

/// What a socket under TLS cannot tell.
const SEALED: [Mark; 6] = [
    Mark::WriteBegin,
    Mark::FirstWriteEnd,
    Mark::WriteEnd,
    Mark::ReadBegin,
    Mark::LastReadBegin,
    Mark::ReadEnd,
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
    // What cannot be noted.
    absent: Vec<Mark>,
}

impl Marked {
    fn start(tuning: &Tuning, every: u32, observer: Observer) -> Marked {
        Marked::start_with(tuning, every, observer, None)
    }

    fn start_with(
        tuning: &Tuning,
        every: u32,
        observer: Observer,
        identity: Option<Identity>,
    ) -> Marked {
        let (clock, sampling) = (clock(), Sampling { every, seed: 1, capacity: 4096 });
        let observer = observer.mark_with(sampling, 64, clock.clone());
        let mut listen = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        listen.identity = identity.clone();
        let server = Running::start_with(&listen, tuning, observer);
        let recorder = Recorder::new(sampling, Side::Client, clock);
        let mut options = ConnectOptions::new(server.address).marks(recorder.clone());
        let mut absent = Vec::new();
        if let Some(identity) = identity {
            options = options.certificate(identity.certificate());
            absent.extend(SEALED);
        }
        if tuning.profile() == Profile::Lean {
            absent.push(Mark::DecodeBegin);
        }
        Marked { server, options, recorder, absent }
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

    /// What a cause cannot come after.
    fn is_causal(&self, client: &CallMarks, server: &CallMarks) {
        self.in_order(client, &CLIENT);
        self.in_order(server, &SERVER);
        for (cause, effect) in [(client, server), (server, client)] {
            if !self.absent.contains(&Mark::WriteBegin) {
                assert!(
                    cause.get(Mark::WriteBegin) < effect.get(Mark::ReadEnd),
                    "{client:?} {server:?}"
                );
            }
        }
    }

    fn in_order(&self, marks: &CallMarks, order: &[Mark]) {
        let mut last = 0;
        for &mark in order {
            if self.absent.contains(&mark) {
                assert_eq!(marks.get(mark), None, "{mark:?} in {marks:?}");
                continue;
            }
            let at = marks.get(mark).unwrap_or_else(|| panic!("no {mark:?} in {marks:?}"));
            assert!(at >= last, "{mark:?} is too early in {marks:?}");
            last = at;
        }
    }
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
            pairs.iter().for_each(|(client, server)| marked.is_causal(client, server));
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
        pairs.iter().for_each(|(client, server)| marked.is_causal(client, server));
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
        marked.is_causal(&client, &server);
    }
}

/// A call that is refused here, or given up before it began, opens no stream: the marks of those after
/// it are theirs on both sides.
#[test]
fn calls_that_are_never_made_take_no_place() {
    const LARGEST: usize = 64;
    for tuning in
        [Tuning::tuned(LARGEST as u64, 1).unwrap(), Tuning::lean(LARGEST as u64, 1).unwrap()]
    {
        let marked = Marked::start(&tuning, 1, Observer::new());
        let client = run(async {
            let client = Client::connect(&marked.options, &tuning).await.unwrap();
            for _ in 0..20 {
                client.echo(Bytes::from(vec![0; LARGEST + 1])).await.unwrap_err();
                client.fetch(1, LARGEST as u64 + 1).await.unwrap_err();
                drop(client.echo(Bytes::from(vec![0; LARGEST])));
                drop(client.fetch(1, 1));
                client.echo(Bytes::from(vec![0; LARGEST])).await.unwrap();
            }
            client
        });
        let pairs = marked.pairs(&client);
        assert!((19..=20).contains(&pairs.len()), "{}", pairs.len());
        pairs.iter().for_each(|(client, server)| marked.is_causal(client, server));
    }
}

/// The sockets see records; what the codecs and the handler see is noted all the same, of the same
/// calls on both sides.
#[test]
fn under_tls_the_stages_above_the_sockets_are_noted() {
    let tuning = Tuning::tuned(1024, 8).unwrap();
    let identity = Identity::generate().unwrap();
    let marked = Marked::start_with(&tuning, 2, Observer::new(), Some(identity));
    let client = run(async {
        let client = Client::connect(&marked.options, &tuning).await.unwrap();
        client.push().finish().await.unwrap();
        for _ in 0..10 {
            let mut calls = JoinSet::new();
            (0..8).for_each(|_| drop(calls.spawn(client.echo(Bytes::from(vec![0; 1024])))));
            while let Some(call) = calls.join_next().await {
                call.unwrap().unwrap();
            }
        }
        client
    });
    let pairs = marked.pairs(&client);
    assert!((39..=41).contains(&pairs.len()), "{}", pairs.len());
    for (client, server) in &pairs {
        marked.is_causal(client, server);
        assert!(client.get(Mark::EncodeEnd) < server.get(Mark::DecodeBegin));
        assert!(server.get(Mark::EncodeEnd) < client.get(Mark::DecodeBegin));
    }
}
