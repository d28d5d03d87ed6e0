//! Both stacks of the crate, as client and as server of a gRPC program in C++ (`ci/grpc-peer`).
//!
//! `FABRICBENCH_GRPC_PEER` is its path; without it there is nothing to test here (`ci/test
//! grpc-peer` builds it).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic anywhere")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use fabricbench_grpc::{Client, ConnectOptions, Error, ListenOptions, Observer, Server, Tuning};

const LARGEST: u64 = 5 << 20;
const SIZES: [usize; 7] = [0, 1, 255, 16 << 10, 70_000, 1 << 20, 5 << 20];

/// How the peer is run: its calls by completion queues or not, tuned or not.
const VARIANTS: [&[&str]; 4] = [&[], &["--async"], &["--tuned"], &["--async", "--tuned"]];

/// Bound against hanging.
const PATIENCE: Duration = Duration::from_secs(60);

fn stacks() -> [Tuning; 3] {
    [
        Tuning::stock(LARGEST).unwrap(),
        Tuning::tuned(LARGEST, 4).unwrap(),
        Tuning::lean(LARGEST, 4).unwrap(),
    ]
}

fn message(size: usize) -> Bytes {
    static LONGEST: LazyLock<Bytes> =
        LazyLock::new(|| (0..LARGEST).map(|at| (at ^ (at >> 8)) as u8).collect());
    LONGEST.slice(..size)
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.unwrap() })
}

fn peer(command: &str) -> Option<Command> {
    let Some(program) = std::env::var_os("FABRICBENCH_GRPC_PEER") else {
        eprintln!("skipped: FABRICBENCH_GRPC_PEER is not set");
        return None;
    };
    let mut peer = Command::new(program);
    peer.arg(command);
    Some(peer)
}

/// The peer as a server; killed at the end.
struct Serving {
    child: Child,
    address: SocketAddr,
}

impl Serving {
    fn start(arguments: &[&str]) -> Option<Serving> {
        let mut command = peer("serve")?;
        command.args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        Some(Serving { child, address: SocketAddr::from(([127, 0, 0, 1], port)) })
    }

    async fn connect(&self, tuning: &Tuning) -> Client {
        Client::connect(&ConnectOptions::new(self.address), tuning).await.unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn our_clients_call_every_method_of_the_peer() {
    for variant in VARIANTS {
        let reply = [variant, &["--reply", "300"]].concat();
        let Some(server) = Serving::start(&reply) else { return };
        for tuning in stacks() {
            run(async {
                let client = server.connect(&tuning).await;
                for size in SIZES {
                    assert!(client.echo(message(size)).await.unwrap() == message(size), "{size} B");
                    assert_eq!(client.call(message(size)).await.unwrap().len(), 300);
                    let count = 3 + 200_000 / (size as u64 + 200);
                    let mut push = client.push();
                    for _ in 0..count {
                        push.send(message(size)).await.unwrap();
                    }
                    let sent = push.finish().await.unwrap();
                    assert_eq!((sent.messages, sent.bytes), (count, count * size as u64));
                    let mut fetch = client.fetch(count, size as u64).await.unwrap();
                    let mut fetched = 0;
                    while let Some(message) = fetch.next().await.unwrap() {
                        assert_eq!(message.len(), size);
                        fetched += 1;
                    }
                    assert_eq!(fetched, count);
                    let mut exchange = client.exchange(move |seen: &[u8]| seen.len() == size);
                    for _ in 0..count {
                        exchange.send(message(size)).await.unwrap();
                    }
                    let exchanged = exchange.finish().await.unwrap();
                    assert_eq!(
                        (exchanged.sent.messages, exchanged.received.corrupt),
                        (count, Some(0))
                    );
                }
                let calls: Vec<_> =
                    (0..500).map(|n| tokio::spawn(client.echo(message(n)))).collect();
                for (n, call) in calls.into_iter().enumerate() {
                    assert!(call.await.unwrap().unwrap() == message(n));
                }
            });
        }
    }
}

#[test]
fn the_peer_calls_every_method_of_our_servers() {
    for tuning in stacks() {
        let options = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        let server = Server::bind(&options, &tuning).unwrap();
        let port = server.local_addr().port().to_string();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = std::thread::spawn(move || {
            run(server.serve(Arc::new(Observer::new()), async { drop(stopped.await) }))
        });
        for variant in VARIANTS {
            let Some(mut command) = peer("check") else { return };
            let limit = LARGEST.to_string();
            command.args(["--port", &port, "--limit", &limit]).args(variant);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{variant:?}, {}: {output:?}", tuning.profile());
        }
        drop(stop);
        serving.join().unwrap().unwrap();
    }
}

#[test]
fn what_the_peer_refuses_is_told() {
    for variant in [&[][..], &["--async"]] {
        let limited = [variant, &["--limit", "1000"]].concat();
        let Some(server) = Serving::start(&limited) else { return };
        for tuning in stacks() {
            run(async {
                let client = server.connect(&tuning).await;
                let refusals = [
                    client.echo(message(1001)).await.map(drop),
                    client.echo(message(1 << 20)).await.map(drop),
                    match client.fetch(1, 1001).await {
                        Ok(mut fetch) => fetch.next().await.map(drop),
                        Err(error) => Err(error),
                    },
                ];
                for refusal in refusals {
                    let error = refusal.unwrap_err();
                    assert!(matches!(error, Error::Refused { .. }), "{error}");
                }
                assert_eq!(client.echo(message(1000)).await.unwrap().len(), 1000);
            });
        }
    }
}

#[test]
fn a_peer_that_dies_mid_stream_is_a_lost_connection() {
    for tuning in stacks() {
        let Some(mut server) = Serving::start(&[]) else { return };
        run(async {
            let client = server.connect(&tuning).await;
            let mut fetch = client.fetch(u64::MAX, 1 << 16).await.unwrap();
            fetch.next().await.unwrap();
            server.child.kill().unwrap();
            let lost = loop {
                if let Err(lost) = fetch.next().await {
                    break lost;
                }
            };
            assert!(matches!(lost, Error::ConnectionLost { .. }), "{lost}");
        });
    }
}
