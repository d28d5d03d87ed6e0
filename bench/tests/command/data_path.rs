//! Who connects to the sockets of a slice and is not its client: gets nothing, and keeps nobody out.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use fabricbench::{
    control::{read_frame, write_frame},
    transport::SliceKey,
};
use fabricbench_grpc::{Client, ConnectOptions, Error, Key, Tuning, socket::connect_blocking};
use serde_json::{Value, json};

use crate::{
    process::{Running, Server, fabricbench},
    rogue::{Rogue, over_connections},
};

/// What goes over sockets, by the options of a client.
const WAYS: [&str; 5] = [
    "--transport tcp@loopback",
    "--transport grpc@loopback",
    "--transport grpc-stock@loopback",
    "--transport grpc-lean@loopback",
    "--transport grpc@loopback --tls",
];

/// Bytes of a head, and of the answer to it.
const HEAD: usize = 48;
const ANSWER: usize = 32;

fn address(port: &Value) -> SocketAddr {
    ([127, 0, 0, 1], u16::try_from(port.as_u64().unwrap()).unwrap()).into()
}

fn connect(port: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(port).unwrap();
    stream.set_read_timeout(Some(crate::process::PATIENCE)).unwrap();
    stream
}

/// What comes until the end, of which a reset is one.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all
}

/// Stands between one client and `server`, and has `between` know of the server's data ports before the
/// client does.
fn in_between(
    server: SocketAddr,
    between: impl Fn(&[SocketAddr]) + Send + 'static,
) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let passing = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(server).unwrap();
        let mut there = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let there = thread::spawn(move || {
            let _ = std::io::copy(&mut there.0, &mut there.1);
            let _ = there.1.shutdown(Shutdown::Write);
        });
        let mut byte = [0];
        while byte[0] != b'\n' {
            server.read_exact(&mut byte).unwrap();
            client.write_all(&byte).unwrap();
        }
        while let Ok(said) = read_frame::<Value>(&mut server) {
            if let Some(answers) = said["say"]["prepared"]["answers"].as_array() {
                let ports = answers.iter().map(|answer| address(&answer["tcp"]["port"]));
                between(&ports.collect::<Vec<_>>());
            }
            if write_frame(&mut client, &said).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        there.join().unwrap();
    });
    (at, passing)
}

/// Strangers of all kinds are there first, more than may wait, and go on coming: silent ones, and such as say
/// something else.
#[test]
fn strangers_that_come_first_and_go_on_coming_keep_nobody_out() {
    let server = Server::start();
    for way in WAYS {
        let over = Arc::new(AtomicBool::new(false));
        let (at, passing) = in_between(server.address, {
            let over = over.clone();
            move |ports| {
                for &port in ports {
                    let stranger = move |index: usize| {
                        let mut stream = TcpStream::connect(port).ok()?;
                        let says: &[u8] = match index % 4 {
                            0 => b"",
                            1 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                            2 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                            _ => &[7; HEAD],
                        };
                        stream.write_all(says).ok()?;
                        Some(stream)
                    };
                    let first: Vec<_> = (0..100).map(stranger).collect();
                    let over = over.clone();
                    thread::spawn(move || {
                        let mut all: VecDeque<_> = first.into();
                        let mut next = all.len();
                        while !over.load(Ordering::Relaxed) {
                            // The test has file descriptors for so many.
                            all.pop_front();
                            all.push_back(stranger(next));
                            next += 1;
                            thread::sleep(Duration::from_millis(1));
                        }
                    });
                }
            }
        });
        let run = format!("run {at} {way} --pattern latency,bandwidth -s 8 -n 20 --rounds 1");
        Running::start(&mut fabricbench(&run)).end().quietly(0);
        over.store(true, Ordering::Relaxed);
        passing.join().unwrap();
    }
    for words in ["data connections, the first from 127.0.0.1:", "does not show the key"] {
        server.process.says_word(words);
    }
}

/// A slice of two connections that nobody has used yet: where it listens, and its key.
fn slice(rogue: &mut Rogue, way: &str) -> (SocketAddr, Key) {
    let mut words = way.split(' ').skip(1);
    let transport = words.next().unwrap();
    let mut offer = over_connections(2);
    let runtime = "current-thread";
    offer["tcp"]["grpc"] = json!({
        "serialized": false, "tls": words.next().is_some(), "runtime": runtime, "server_runtime": runtime,
    });
    let prepared = rogue.prepare(transport, 8, 1, &offer);
    let answer = &prepared["prepared"]["answers"][0]["tcp"];
    let SliceKey(key) = serde_json::from_value(answer["key"].clone()).unwrap();
    (address(&answer["port"]), key)
}

/// Shows the key by way of a listener that keeps what went by: the head and the answer to it.
fn overheard(port: SocketAddr, key: &Key) -> ([u8; HEAD], [u8; ANSWER]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let between = listener.local_addr().unwrap();
    let passing = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = connect(port);
        let (mut head, mut answer) = ([0; HEAD], [0; ANSWER]);
        client.read_exact(&mut head).unwrap();
        server.write_all(&head).unwrap();
        server.read_exact(&mut answer).unwrap();
        client.write_all(&answer).unwrap();
        (head, answer)
    });
    connect_blocking(&ConnectOptions::new(between).key(key.clone())).unwrap();
    passing.join().unwrap()
}

#[test]
fn another_key_is_refused_and_what_was_shown_is_worth_nothing_again() {
    let server = Server::open();
    let mut rogue = Rogue::welcome(&server);
    let mut before: Option<Key> = None;
    for way in WAYS {
        let (port, key) = slice(&mut rogue, way);
        let show = |key: &Key| connect_blocking(&ConnectOptions::new(port).key(key.clone()));
        // Nobody's, and that of another slice of the same client.
        for other in std::iter::once(Key::generate().unwrap()).chain(before.replace(key.clone())) {
            assert_ne!(other, key);
            let refused = show(&other).map(drop).unwrap_err();
            assert!(matches!(refused, Error::OtherKey { .. }), "{way}: {refused}");
        }
        let (head, answer) = overheard(port, &key);
        assert!(!head.windows(16).any(|part| part == key.reveal()), "the key itself");
        // One of two places is left; not for this one, nor for who answers with the answer.
        for says in [head.to_vec(), [&head[..16], &answer[..]].concat()] {
            let mut stream = connect(port);
            stream.write_all(&says).unwrap();
            assert_eq!(rest(stream), b"fabricbench: unknown connection\n", "{way}");
        }
        // The last place is the client's still, and then nobody listens.
        let (_last, _) = show(&key).unwrap();
        let gone = show(&key).map(drop).unwrap_err();
        assert!(matches!(gone, Error::Connect { .. }), "{way}: {gone}");
        rogue.say(&json!({ "finish": { "messages": null } }));
        assert!(rogue.hear().unwrap()["finished"].is_object());
        let (next, _) = slice(&mut rogue, way);
        let mut stream = connect(next);
        stream.write_all(&head).unwrap();
        assert_eq!(rest(stream), b"fabricbench: unknown connection\n", "{way}");
        rogue.say(&json!({ "finish": { "messages": null } }));
        assert!(rogue.hear().unwrap()["finished"].is_object());
    }
    drop(rogue);
    server.process.says_word("refused: 4 data connections, the first from 127.0.0.1:");
    server.process.says_word("refused: a data connection from 127.0.0.1:");
    server.serves();
}

/// Ordinary gRPC, which shows nothing, does not get to a method.
#[test]
fn a_grpc_client_without_the_key_reaches_no_method() {
    let server = Server::open();
    let mut rogue = Rogue::welcome(&server);
    let tuning = Tuning::tuned(8, 1).unwrap();
    let (port, key) = slice(&mut rogue, WAYS[1]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let without = ConnectOptions::new(port).timeout(Duration::from_millis(300));
    runtime.block_on(Client::connect(&without, &tuning)).unwrap_err();
    let with = ConnectOptions::new(port).key(key);
    let client = runtime.block_on(Client::connect(&with, &tuning)).unwrap();
    let message = bytes::Bytes::from_static(b"unharmed");
    assert_eq!(runtime.block_on(client.echo(message.clone())).unwrap(), message);
}
