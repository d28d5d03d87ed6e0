//! What goes in comes out, whatever its size, over each stack, over IPv4 and IPv6.

use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use fabricbench_grpc::{
    Client, ConnectOptions, Error, ListenOptions, Message, Observer, Profile, Server, Tuning,
};
use tokio::{runtime::Builder, sync::oneshot, task::yield_now, time::sleep};

use crate::support::{Running, run};

const SIZES: [usize; 5] = [0, 1, 16 << 10, 5 << 20, 64 << 20];
const LARGEST: u64 = 64 << 20;

fn profiles() -> [Tuning; 5] {
    let raw = [Tuning::stock(LARGEST).unwrap(), Tuning::tuned(LARGEST, 1).unwrap()];
    let [stock, tuned] = raw.clone().map(|tuning| tuning.serialized(true).unwrap());
    let [raw_stock, raw_tuned] = raw;
    [raw_stock, raw_tuned, stock, tuned, Tuning::lean(LARGEST, 1).unwrap()]
}

/// No two neighbouring stretches alike, so that a lost, doubled or swapped one is seen.
fn pattern(size: usize) -> Bytes {
    static LONGEST: LazyLock<Bytes> = LazyLock::new(|| {
        let mut bytes = Vec::with_capacity(LARGEST as usize);
        for at in 0..LARGEST as u32 / 4 {
            bytes.extend_from_slice(&(at ^ at.rotate_left(13)).to_ne_bytes());
        }
        bytes.into()
    });
    LONGEST.slice(..size)
}

async fn connect(server: &Running, tuning: &Tuning) -> Client {
    Client::connect(&ConnectOptions::new(server.address), tuning).await.unwrap()
}

#[test]
fn echo_returns_every_size_unchanged() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for tuning in profiles() {
            let server = Running::start_on(address, &tuning);
            run(async {
                let client = connect(&server, &tuning).await;
                for size in SIZES {
                    let message = pattern(size);
                    let echo = client.echo(message.clone()).await.unwrap();
                    assert!(echo == message, "{size} B over {address}, {}", tuning.profile());
                }
            });
            let seen = server.observer.echoed();
            assert_eq!(seen.messages, SIZES.len() as u64);
            assert_eq!(seen.bytes, SIZES.iter().sum::<usize>() as u64);
            assert_eq!(seen.corrupt, None);
        }
    }
}

/// `message` in buffers of these lengths, and what is left of it in one more.
fn cut(mut message: Bytes, lengths: &[usize]) -> Message {
    let mut buffers: Vec<Bytes> = lengths.iter().map(|&length| message.split_to(length)).collect();
    buffers.push(message);
    Message::of(buffers)
}

#[test]
fn buffers_that_nobody_joined_are_one_message_whoever_sends_them() {
    const SIZE: usize = 3 << 20;
    let message = || cut(pattern(SIZE), &[1, 0, 10 << 10, 1 << 20]);
    assert_eq!((message().len(), message().buffers().len()), (SIZE, 5));
    for tuning in profiles() {
        let options = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        let observer = Observer::new()
            .check_with(|received: &[u8]| received == pattern(SIZE))
            .serve_from(move |_| message())
            .reply_with(message());
        let server = Running::start_with(&options, &tuning, observer);
        run(async {
            let client = connect(&server, &tuning).await;
            assert!(client.echo(message()).await.unwrap() == pattern(SIZE));
            assert!(client.call(message()).await.unwrap() == pattern(SIZE));
            let mut fetch = client.fetch(2, SIZE as u64).await.unwrap();
            while let Some(fetched) = fetch.next().await.unwrap() {
                assert!(fetched == pattern(SIZE));
            }
            let mut push = client.push();
            for _ in 0..3 {
                push.send(message()).await.unwrap();
            }
            assert_eq!(push.finish().await.unwrap().messages, 3);
        });
        for seen in [server.observer.echoed(), server.observer.called(), server.observer.pushed()] {
            assert_eq!((seen.bytes, seen.corrupt), (seen.messages * SIZE as u64, Some(0)));
        }
    }
}

#[test]
fn a_call_is_answered_with_what_was_settled_and_any_number_are_under_way() {
    for tuning in profiles() {
        let options = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        let server =
            Running::start_with(&options, &tuning, Observer::new().reply_with(pattern(3000)));
        run(async {
            let client = connect(&server, &tuning).await;
            let calls: Vec<_> = (1..=200).map(|size| client.call(pattern(size))).collect();
            // Begun in an order that is not that of their ends.
            let calls: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
            for call in calls.into_iter().rev() {
                assert!(call.await.unwrap().unwrap() == pattern(3000));
            }
        });
        let seen = server.observer.called();
        assert_eq!((seen.messages, seen.bytes), (200, 200 * 201 / 2));
        assert_eq!(server.observer.echoed().messages, 0);
    }
}

#[test]
fn a_call_is_answered_by_what_it_asks_for_or_refused() {
    for tuning in profiles() {
        let options = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        let answer = |request: &[u8]| match request {
            [size] => Ok(pattern(usize::from(*size)).into()),
            _ => Err("one byte says how many".to_owned()),
        };
        let server = Running::start_with(&options, &tuning, Observer::new().answer_with(answer));
        run(async {
            let client = connect(&server, &tuning).await;
            for size in [0u8, 7, 255] {
                let reply = client.call(vec![size]).await.unwrap();
                assert!(reply == pattern(usize::from(size)));
            }
            let refused = client.call(vec![1, 2]).await.unwrap_err().to_string();
            assert!(refused.contains("one byte says how many"), "{refused}");
            assert_eq!(client.call(vec![3]).await.unwrap().len(), 3, "the connection goes on");
        });
        assert_eq!(server.observer.called().messages, 5);
    }
}

#[test]
fn without_a_reply_a_call_is_answered_with_nothing() {
    let tuning = Tuning::tuned(8, 1).unwrap();
    let server = Running::start(&tuning);
    let reply = run(async { connect(&server, &tuning).await.call(pattern(8)).await.unwrap() });
    assert!(reply.is_empty());
}

#[test]
fn push_is_confirmed_with_what_the_server_received() {
    for tuning in profiles() {
        let server = Running::start(&tuning);
        for (size, count) in [(0, 10), (1, 5000), (300, 3000), (16 << 10, 500), (5 << 20, 4)] {
            let before = server.observer.pushed();
            let summary = run(async {
                let client = connect(&server, &tuning).await;
                let mut push = client.push();
                let message = pattern(size);
                for _ in 0..count {
                    push.send(message.clone()).await.unwrap();
                }
                push.finish().await.unwrap()
            });
            assert_eq!((summary.messages, summary.bytes), (count, count * size as u64));
            let after = server.observer.pushed();
            assert_eq!(after.messages - before.messages, count);
            assert_eq!(after.bytes - before.bytes, summary.bytes);
        }
    }
}

#[test]
fn a_push_of_nothing_is_confirmed() {
    let tuning = Tuning::tuned(0, 1).unwrap();
    let server = Running::start(&tuning);
    let summary = run(async { connect(&server, &tuning).await.push().finish().await.unwrap() });
    assert_eq!((summary.messages, summary.bytes, summary.corrupt), (0, 0, None));
}

#[test]
fn fetch_brings_as_many_messages_of_the_size_asked_for() {
    for tuning in profiles() {
        let options = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        let observer = Observer::new().serve_from(|size| pattern(size as usize));
        let server = Running::start_with(&options, &tuning, observer);
        run(async {
            let client = connect(&server, &tuning).await;
            for (count, size) in [(0, 10), (3, 0), (1000, 64), (20, 1 << 20), (1, 64 << 20)] {
                let mut fetch = client.fetch(count, size).await.unwrap();
                let mut received = 0;
                while let Some(message) = fetch.next().await.unwrap() {
                    assert!(message == pattern(size as usize), "{size} B");
                    received += 1;
                }
                assert_eq!(received, count);
            }
        });
        assert_eq!(server.observer.fetched().messages, 1024);
    }
}

/// Each is done whatever the others do, and in whichever order they are read.
#[test]
fn fetches_share_a_connection() {
    for tuning in profiles() {
        let server = Running::start(&tuning);
        run(async {
            let client = connect(&server, &tuning).await;
            let mut one = client.fetch(300, 1 << 10).await.unwrap();
            let mut other = client.fetch(20, 100 << 10).await.unwrap();
            for _ in 0..20 {
                assert_eq!(other.next().await.unwrap().unwrap().len(), 100 << 10);
                assert_eq!(one.next().await.unwrap().unwrap().len(), 1 << 10);
            }
            assert!(other.next().await.unwrap().is_none());
            for _ in 20..300 {
                assert!(one.next().await.unwrap().is_some());
            }
            assert!(one.next().await.unwrap().is_none());
        });
    }
}

#[test]
fn an_exchange_counts_both_directions() {
    for tuning in profiles() {
        let options = ListenOptions::new("[::1]:0".parse().unwrap());
        let observer = Observer::new().serve_from(|size| pattern(size as usize));
        let server = Running::start_with(&options, &tuning, observer);
        for (size, count) in [(1, 3000), (300, 2000), (16 << 10, 200), (5 << 20, 2)] {
            // Some 2,000 small frames that wait are too many for the window of tonic's server as it comes.
            if tuning.profile() == Profile::Stock && size < 256 {
                continue;
            }
            let before = (server.observer.pushed(), server.observer.fetched());
            let exchanged = run(async {
                let client = connect(&server, &tuning).await;
                let mut exchange = client.exchange(move |message: &[u8]| message == pattern(size));
                for _ in 0..count {
                    exchange.send(pattern(size)).await.unwrap();
                }
                // Sent faster than the server got a processor, they would be all that passes.
                while server.observer.fetched().messages == before.1.messages {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                exchange.finish().await.unwrap()
            });
            assert_eq!(exchanged.sent.messages, count);
            assert_eq!(exchanged.sent.bytes, count * size as u64);
            let after = (server.observer.pushed(), server.observer.fetched());
            assert_eq!(after.0.messages - before.0.messages, count);
            assert_eq!(after.1.messages - before.1.messages, exchanged.received.messages);
            assert_eq!(after.1.bytes - before.1.bytes, exchanged.received.bytes);
            assert_eq!(exchanged.received.corrupt, Some(0), "{size} B");
            assert!(exchanged.received.messages > 0, "{size} B: a server that pushes nothing");
        }
    }
}

#[test]
fn an_exchange_of_nothing_is_confirmed() {
    let tuning = Tuning::tuned(0, 1).unwrap();
    let server = Running::start(&tuning);
    let exchanged = run(async {
        connect(&server, &tuning).await.exchange(|_: &[u8]| true).finish().await.unwrap()
    });
    assert_eq!((exchanged.sent.messages, exchanged.received.messages), (0, 0));
}

#[test]
fn what_the_server_pushes_is_checked() {
    let tuning = Tuning::tuned(1024, 1).unwrap();
    let server = Running::start(&tuning);
    let exchanged = run(async {
        let client = connect(&server, &tuning).await;
        let mut exchange = client.exchange(|message: &[u8]| message.iter().all(|&byte| byte == 7));
        // Until the server has answered with its zeroes.
        while server.observer.fetched().messages < 10 {
            exchange.send(Bytes::from_static(&[7; 100])).await.unwrap();
            tokio::task::yield_now().await;
        }
        exchange.finish().await.unwrap()
    });
    assert!(exchanged.received.messages >= 10, "{exchanged:?}");
    assert_eq!(exchanged.received.corrupt, Some(exchanged.received.messages));
}

#[test]
fn the_check_counts_what_it_refuses() {
    let tuning = Tuning::tuned(1024, 1).unwrap();
    let options = ListenOptions::new("127.0.0.1:0".parse().unwrap());
    let observer = Observer::new().check_with(|payload: &[u8]| payload.iter().all(|&b| b == 7));
    let server = Running::start_with(&options, &tuning, observer);
    let summary = run(async {
        let client = connect(&server, &tuning).await;
        client.echo(Bytes::from_static(&[7; 100])).await.unwrap();
        client.echo(Bytes::from_static(&[7, 8])).await.unwrap();
        let mut push = client.push();
        for last in [7, 7, 9, 10, 7] {
            push.send(Bytes::from(vec![7, 7, last])).await.unwrap();
        }
        push.finish().await.unwrap()
    });
    assert_eq!(summary.corrupt, Some(2));
    assert_eq!(server.observer.pushed().corrupt, Some(2));
    assert_eq!(server.observer.echoed().corrupt, Some(1));
}

#[test]
fn messages_over_the_limit_are_refused_before_they_are_sent() {
    let tuning = Tuning::tuned(100, 1).unwrap();
    let server = Running::start(&tuning);
    run(async {
        let client = connect(&server, &tuning).await;
        let too_large = Bytes::from_static(&[0; 101]);
        let error = client.echo(too_large.clone()).await.unwrap_err();
        assert!(matches!(error, Error::MessageTooLarge { size: 101, limit: 100 }), "{error}");
        let mut push = client.push();
        let error = push.send(too_large).await.unwrap_err();
        assert!(matches!(error, Error::MessageTooLarge { .. }), "{error}");
        // The stream itself is none the worse for it.
        assert_eq!(push.finish().await.unwrap().messages, 0);
        let error = client.fetch(1, 101).await.unwrap_err();
        assert!(matches!(error, Error::MessageTooLarge { .. }), "{error}");
    });
    assert_eq!(server.observer.echoed().messages, 0);
}

#[test]
fn a_server_with_a_smaller_limit_says_so() {
    let server = Running::start(&Tuning::tuned(100, 1).unwrap());
    run(async {
        let client = connect(&server, &Tuning::tuned(1 << 20, 1).unwrap()).await;
        let error = client.echo(Bytes::from_static(&[0; 101])).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains("101"), "{error}");
        let error = client.fetch(1, 101).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        let mut exchange = client.exchange(|_: &[u8]| true);
        exchange.send(Bytes::from_static(&[0; 101])).await.unwrap();
        let error = exchange.finish().await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
    });
}

#[test]
fn messages_that_grpc_cannot_carry_are_refused_when_planned() {
    for tuning in [Tuning::stock(1 << 32), Tuning::tuned(1 << 32, 1), Tuning::lean(1 << 32, 1)] {
        let error = tuning.unwrap_err();
        assert!(matches!(error, Error::OverGrpcLimit { size: 4_294_967_296 }), "{error}");
    }
}

/// A future is moved as a whole, several times before it begins.
#[test]
fn the_future_of_a_call_is_small() {
    for tuning in profiles() {
        let server = Running::start(&tuning);
        let call = run(async {
            std::mem::size_of_val(&connect(&server, &tuning).await.echo(Bytes::new()))
        });
        assert!(call <= 512, "{call} B");
    }
}

#[test]
fn many_calls_share_a_connection() {
    let tuning = Tuning::tuned(4096, 64).unwrap();
    let server = Running::start(&tuning);
    run(async {
        let client = connect(&server, &tuning).await;
        let calls: Vec<_> = (0..500).map(|n| tokio::spawn(client.echo(pattern(n)))).collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().unwrap(), pattern(n));
        }
    });
    assert_eq!(server.observer.accepted(), 1);
}

/// A server that is slower than what comes holds frames of one small message each, which HTTP/2's library
/// takes for an attack if there are many.
#[test]
fn small_messages_that_wait_in_frames_of_their_own_end_no_connection() {
    const MESSAGES: u64 = 20_000;
    for tuning in [Tuning::tuned(64, 1).unwrap(), Tuning::lean(64, 1).unwrap()] {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let observer = {
            let gate = gate.clone();
            Arc::new(Observer::new().check_with(move |_: &[u8]| {
                let open = gate.0.lock().unwrap();
                drop(gate.1.wait_while(open, |open| !*open).unwrap());
                true
            }))
        };
        let options = ListenOptions::new("127.0.0.1:0".parse().unwrap());
        let server = Server::bind(&options, &tuning).unwrap();
        let address = server.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        // A handler that stands still holds up one of its threads, and the connection goes on.
        let serving = thread::spawn(move || {
            let runtime =
                Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(server.serve(observer, async move { stopped.await.unwrap_or(()) }))
        });
        run(async {
            let client = Client::connect(&ConnectOptions::new(address), &tuning).await.unwrap();
            let mut push = client.push();
            for _ in 0..MESSAGES {
                push.send(pattern(64)).await.unwrap();
                // Else it is gathered with the next.
                yield_now().await;
            }
            sleep(Duration::from_millis(300)).await;
            *gate.0.lock().unwrap() = true;
            gate.1.notify_all();
            assert_eq!(push.finish().await.unwrap().messages, MESSAGES);
        });
        drop(stop);
        serving.join().unwrap().unwrap();
    }
}
