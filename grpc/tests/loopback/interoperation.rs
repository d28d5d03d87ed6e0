//! tonic and the lean stack, each as the client of the other: every method, and every refusal.

use std::sync::LazyLock;

use bytes::Bytes;
use fabricbench_grpc::{Client, ConnectOptions, Error, ListenOptions, Observer, Tuning};

use crate::support::{Running, run};

const LARGEST: u64 = 5 << 20;

/// Client and server of different stacks.
fn pairs(largest: u64) -> [(Tuning, Tuning); 4] {
    let tonic = || [Tuning::stock(largest).unwrap(), Tuning::tuned(largest, 4).unwrap()];
    let lean = || Tuning::lean(largest, 4).unwrap();
    let ([stock, tuned], [other_stock, other_tuned]) = (tonic(), tonic());
    [(stock, lean()), (tuned, lean()), (lean(), other_stock), (lean(), other_tuned)]
}

fn message(size: usize) -> Bytes {
    static LONGEST: LazyLock<Bytes> =
        LazyLock::new(|| (0..LARGEST).map(|at| (at ^ (at >> 8)) as u8).collect());
    LONGEST.slice(..size)
}

async fn connect(server: &Running, tuning: &Tuning) -> Client {
    Client::connect(&ConnectOptions::new(server.address), tuning).await.unwrap()
}

#[track_caller]
fn assert_is_refused<T: std::fmt::Debug>(outcome: Result<T, Error>, words: &str) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn calls_of_every_size() {
    for (client, server) in pairs(LARGEST) {
        let options = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        let server = Running::start_with(&options, &server, Observer::new().reply_with(message(9)));
        run(async {
            let client = connect(&server, &client).await;
            for size in [0, 1, 255, 256, 16_379, 16_380, 70_000, 1 << 20, 5 << 20] {
                assert!(client.echo(message(size)).await.unwrap() == message(size), "{size} B");
                assert!(client.call(message(size)).await.unwrap() == message(9));
            }
            let echoes: Vec<_> = (0..300).map(|n| tokio::spawn(client.echo(message(n)))).collect();
            for (n, echo) in echoes.into_iter().enumerate() {
                assert!(echo.await.unwrap().unwrap() == message(n));
            }
        });
        assert_eq!(server.observer.accepted(), 1);
    }
}

#[test]
fn streams_of_every_kind() {
    for (client, server) in pairs(LARGEST) {
        let options = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        let observer = Observer::new()
            .serve_from(|size| message(size as usize))
            .check_with(|seen: &[u8]| seen == message(seen.len()));
        let server = Running::start_with(&options, &server, observer);
        for (size, count) in [(0, 20), (7, 3000), (3000, 400), (64 << 10, 40), (5 << 20, 3)] {
            let (sent, fetched, exchanged) = run(async {
                let client = connect(&server, &client).await;
                let mut push = client.push();
                for _ in 0..count {
                    push.send(message(size)).await.unwrap();
                }
                let sent = push.finish().await.unwrap();
                let mut fetch = client.fetch(count, size as u64).await.unwrap();
                let mut fetched = 0;
                while let Some(one) = fetch.next().await.unwrap() {
                    assert!(one == message(size));
                    fetched += 1;
                }
                let mut exchange = client.exchange(move |seen: &[u8]| seen == message(size));
                for _ in 0..count {
                    exchange.send(message(size)).await.unwrap();
                }
                (sent, fetched, exchange.finish().await.unwrap())
            });
            assert_eq!((sent.messages, sent.corrupt), (count, Some(0)), "{size} B");
            assert_eq!(fetched, count);
            assert_eq!((exchanged.sent.messages, exchanged.sent.corrupt), (count, Some(0)));
            assert_eq!(exchanged.received.corrupt, Some(0));
        }
    }
}

#[test]
fn messages_over_the_server_s_limit_are_refused_in_its_words() {
    for (client, server) in pairs(1000).map(|(client, server)| {
        let client = match client.profile() {
            fabricbench_grpc::Profile::Stock => Tuning::stock(LARGEST),
            fabricbench_grpc::Profile::Tuned => Tuning::tuned(LARGEST, 1),
            fabricbench_grpc::Profile::Lean => Tuning::lean(LARGEST, 1),
        };
        (client.unwrap(), server)
    }) {
        let server = Running::start(&server);
        run(async {
            let client = connect(&server, &client).await;
            assert_is_refused(client.echo(message(1001)).await, "1001");
            assert_is_refused(client.echo(message(2 << 20)).await, "2097152");
            assert_is_refused(client.fetch(1, 1001).await, "1001");
            let mut exchange = client.exchange(|_: &[u8]| true);
            exchange.send(message(1001)).await.unwrap();
            assert_is_refused(exchange.finish().await, "1001");
            let mut push = client.push();
            let refused = loop {
                if let Err(refused) = push.send(message(300_000)).await {
                    break refused;
                }
            };
            // Whether the words or the end of the stream come first, the peer decides.
            assert!(
                matches!(refused, Error::Refused { .. } | Error::ConnectionLost { .. }),
                "{refused}"
            );
            assert!(client.echo(message(1000)).await.unwrap() == message(1000));
        });
    }
}

#[test]
fn a_peer_that_closes_mid_stream_is_a_lost_connection() {
    for (client, server) in pairs(LARGEST) {
        let server = Running::start(&server);
        run(async {
            let client = connect(&server, &client).await;
            let mut fetch = client.fetch(u64::MAX, 1 << 16).await.unwrap();
            fetch.next().await.unwrap();
            let mut push = client.push();
            push.send(message(1 << 16)).await.unwrap();
            while server.observer.pushed().messages < 1 {
                fetch.next().await.unwrap();
            }
            server.kill();
            let lost = loop {
                if let Err(lost) = fetch.next().await {
                    break lost;
                }
            };
            assert!(matches!(lost, Error::ConnectionLost { .. }), "{lost}");
            let lost = push.finish().await.unwrap_err();
            assert!(matches!(lost, Error::ConnectionLost { .. }), "{lost}");
        });
    }
}

/// A client that goes: the server is to serve the next one.
#[test]
fn a_client_that_goes_mid_stream_leaves_the_server_well() {
    for (client, server) in pairs(LARGEST) {
        let server = Running::start(&server);
        for _ in 0..3 {
            run(async {
                let client = connect(&server, &client).await;
                let mut fetch = client.fetch(u64::MAX, 1 << 16).await.unwrap();
                fetch.next().await.unwrap();
                let mut exchange = client.exchange(|_: &[u8]| true);
                exchange.send(message(1 << 16)).await.unwrap();
                let echo = client.echo(message(5 << 20));
                let _ = tokio::time::timeout(std::time::Duration::from_millis(1), echo).await;
            });
        }
        run(async {
            let client = connect(&server, &client).await;
            assert!(client.echo(message(1000)).await.unwrap() == message(1000));
        });
        server.stop().unwrap();
    }
}
