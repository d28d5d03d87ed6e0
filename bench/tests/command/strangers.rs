//! Those who speak something else: servers that are no fabricbench, and clients that are none.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use fabricbench::control::{LARGEST_FRAME, PROTOCOL, write_frame};
use serde_json::{Value, json};

use crate::{
    process::{NONCE, Server, run},
    rogue::{Rogue, knock, on_loopback, over_connections},
};

/// A server that answers every connection with `answer` and keeps it open until the peer closes.
fn stranger(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(answer);
            thread::spawn(move || stream.read_to_end(&mut Vec::new()));
        }
    });
    address
}

#[test]
fn a_server_of_another_protocol_is_no_fabricbench() {
    for (answer, words) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..],
            &["no fabricbench", "H"][..],
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", &["no fabricbench", "S"]),
        (b"\x15\x03\x03\x00\x02\x02\x28", &["no fabricbench", "\\x15"]),
        (b"fabricbench-control one\n", &["no fabricbench"]),
        (&[0xff; 2000], &["no fabricbench", "\\xff"]),
        (
            b"fabricbench-control 999 7.3.0\n",
            &["7.3.0", "999", env!("CARGO_PKG_VERSION"), "same version on both hosts"],
        ),
        (b"", &["did not greet"]),
    ] {
        let address = stranger(answer);
        let finished = run(&format!("run {address}"));
        assert!(finished.took < Duration::from_secs(10), "{:?}", finished.took);
        let finished = finished.failed(1, words);
        assert!(finished.stderr.contains(&address.to_string()), "{}", finished.stderr);
        assert!(finished.stderr.is_ascii());
    }
}

#[test]
fn a_server_that_closes_at_once_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(drop));
    run(&format!("run {address}")).failed(1, &[&address.to_string(), "closed"]);
}

/// Greets as a server of our version does, then sends `bytes`.
fn liar(bytes: Vec<u8>) -> SocketAddr {
    let mut answer = format!("fabricbench-control {PROTOCOL} 0\n").into_bytes();
    answer.extend(bytes);
    stranger(answer.leak())
}

/// What a server says that lets everybody in.
fn welcoming(bytes: Vec<u8>) -> Vec<u8> {
    let challenge = frame(&json!({ "nonce": NONCE, "token": false }));
    [challenge, frame(&json!({ "admitted": { "proof": null } })), bytes].concat()
}

fn frame(document: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, document).unwrap();
    bytes
}

#[test]
fn a_server_that_greets_well_and_goes_on_badly_is_given_up() {
    for (bytes, words) in [
        (b"\0\0\0\x03{]}".to_vec(), &["unreadable"][..]),
        (u32::MAX.to_be_bytes().to_vec(), &["over the limit"]),
        (frame(&json!({ "say": "started" })), &["out of turn"]),
        (frame(&json!({ "say": { "welcome": 3 } })), &["unreadable"]),
        (Vec::new(), &["silent for 2s"]),
    ] {
        let address = liar(welcoming(bytes));
        let finished = run(&format!("run {address} --timeout 2s --insecure"));
        assert!(finished.took < Duration::from_secs(10), "{:?}", finished.took);
        finished.failed(1, words).one_line(&[&address.to_string()]);
    }
}

#[test]
fn a_server_that_only_greets_is_given_up() {
    let address = liar(Vec::new());
    let finished = run(&format!("run {address} --timeout 2s"));
    assert!(finished.took < Duration::from_secs(10), "{:?}", finished.took);
    finished.failed(1, &[&address.to_string(), "greeted, and said no more within 2s"]);
}

const HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x5b\x0a\x00\xff";

#[test]
fn a_client_of_another_protocol_is_refused_in_a_line() {
    let server = Server::open();
    for (index, (sent, word)) in [
        (&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], "\"G\""),
        (HELLO, "\\x16"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\"P\""),
        (b"fabricbench-control 999 7.3.0\n", "7.3.0"),
        (&[0; 5000], "\\x00"),
        (b"\n", "no fabricbench"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut stream = knock(&server, sent);
        let port = stream.local_addr().unwrap().port();
        let mut answer = Vec::new();
        // A reset is an end as well: the server closes with bytes unread.
        let _ = stream.read_to_end(&mut answer);
        if !answer.is_empty() {
            let own = format!("fabricbench-control {PROTOCOL} ");
            assert!(answer.starts_with(own.as_bytes()), "{answer:?}");
        }
        let lines: Vec<String> = server.process.says(|text| {
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            (lines.len() > index && text.ends_with('\n')).then_some(lines)
        });
        assert_eq!(lines.len(), index + 1, "{lines:?}");
        let line = &lines[index];
        assert!(line.contains(&port.to_string()) && line.contains(word), "{line}");
        assert!(line.starts_with("refused: ") && line.is_ascii() && line.len() < 300, "{line}");
    }
    server.serves();
}

#[test]
fn a_client_that_is_half_there_keeps_nobody_waiting() {
    let server = Server::open();
    let greeting = format!("fabricbench-control {PROTOCOL} 0\n");
    let half_open = knock(&server, b"");
    let half_line = knock(&server, b"fabricbench-cont");
    let no_begin = knock(&server, greeting.as_bytes());
    let half_frame = knock(&server, format!("{greeting}\0\0").as_bytes());
    let half_closed = knock(&server, greeting.as_bytes());
    half_closed.shutdown(Shutdown::Write).unwrap();
    drop(knock(&server, b""));
    drop(knock(&server, greeting.as_bytes()));
    server.serves_within(Duration::from_secs(5));
    // In the end all of them are let go.
    for mut stream in [half_open, half_line, no_begin, half_frame, half_closed] {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    server.serves();
}

/// Connections that only take up places take them from one another.
#[test]
fn a_thousand_connections_keep_no_client_out() {
    let server = Server::open();
    let (mut stays, mut connections) = (knock(&server, b""), Vec::new());
    for index in 0..1000 {
        connections.push(TcpStream::connect(server.address).unwrap());
        // Some of them in the middle of an attack that goes on.
        if index % 250 == 249 {
            server.serves();
        }
    }
    // Each of those that wait has a thread, and nobody else.
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.process.id())).unwrap().count();
    assert!(threads < 200, "{threads} threads");
    server.process.says_word("64 wait to be let in, and another came");
    assert_eq!(stays.read(&mut [0]).unwrap_or(0), 0, "the oldest of them is gone");
    server.serves();
    drop(connections);
    server.serves();
}

#[test]
fn a_client_over_the_limit_is_told_the_limit() {
    let server = Server::open();
    // Who has been let in is kept until it says what it wants, or for 5 s.
    let all: Vec<_> = (0..64).map(|_| Rogue::meet(&server)).collect();
    for _ in 0..3 {
        server
            .run("--transport tcp@loopback -s 8 -n 1")
            .failed(1, &[&server.address.to_string(), "too many clients", "limit is 64"]);
    }
    server.process.says_word("too many clients, the limit is 64");
    drop(all);
    server.serves();
}

#[test]
fn a_client_out_of_turn_is_cut_off() {
    let server = Server::open();
    for request in [json!("start"), json!("end"), json!({ "finish": { "messages": 1 } })] {
        let mut rogue = Rogue::meet(&server);
        rogue.say(&request);
        assert_eq!(rogue.hear(), None, "{request}");
    }
    for request in [json!("start"), json!({ "finish": { "messages": 1 } }), json!("nonsense")] {
        let mut rogue = Rogue::welcome(&server);
        rogue.say(&request);
        assert_eq!(rogue.hear(), None, "{request}");
    }
    for bytes in [&b"\0\0\0\x03{]}"[..], &(LARGEST_FRAME + 1).to_be_bytes()] {
        let mut rogue = Rogue::welcome(&server);
        rogue.0.write_all(bytes).unwrap();
        assert_eq!(rogue.hear(), None);
    }
    server.serves();
}

/// The client's plan is the plan, within the server's own limits.
#[test]
fn a_plan_beyond_the_servers_limits_is_refused_and_the_conversation_goes_on() {
    let server = Server::open();
    let mut rogue = Rogue::welcome(&server);
    let mut nowhere = on_loopback();
    nowhere["tcp"]["interface"] = json!("nowhere0");
    nowhere["tcp"]["address"] = json!("192.0.2.1");
    for (transport, size, depth, offer, word) in [
        ("tcp@loopback", 0, 1, on_loopback(), "0 B"),
        ("tcp@loopback", 8, 1 << 20, on_loopback(), "limit of 65536"),
        ("grpc@loopback", 1 << 40, 1, on_loopback(), "limit of 4294967296"),
        ("tcp@loopback", u64::MAX, 1, on_loopback(), "18446744073709551615 B"),
        ("tcp@loopback", 8, 1, nowhere.clone(), "nowhere0"),
        ("grpc@loopback", 8, 1, nowhere, "nowhere0"),
        ("verbs-write", 8, 1, on_loopback(), "does not fit"),
        ("tcp@loopback", 8, 1, over_connections(257), "257 connections"),
    ] {
        let refused = rogue.prepare(transport, size, depth, &offer);
        let reason = refused["refused"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(word), "no `{word}` in {refused}");
    }
    // Prepared twice, finished without a start, and left in the middle.
    for _ in 0..2 {
        assert!(rogue.prepare("grpc@loopback", 8, 0, &on_loopback())["prepared"].is_object());
    }
    rogue.say(&json!({ "finish": { "messages": 7 } }));
    assert!(rogue.hear().unwrap()["finished"].is_object());
    assert!(rogue.prepare("tcp@loopback", 8, 1, &on_loopback())["prepared"].is_object());
    drop(rogue);
    server.serves();
}

/// A plan of tensors that would have the server compute or hold more than a test can be.
#[test]
fn a_plan_of_tensors_beyond_the_servers_limits_is_refused() {
    let server = Server::open();
    let mut rogue = Rogue::welcome(&server);
    let tensors = |lengths: Value| json!({ "model": "own", "lengths": lengths, "coalesce": "no", "assign": true });
    for (pattern, size, (servers, workers), tensors, word) in [
        ("tensor-push", 3, (u32::MAX, 1), tensors(json!([1, 2])), "from 1 to 64"),
        ("tensor-push", 3, (1, u32::MAX), tensors(json!([1, 2])), "from 1 to 64"),
        ("tensor-push", 3, (0, 1), tensors(json!([1, 2])), "from 1 to 64"),
        ("tensor-push", 3, (3, 1), tensors(json!([1, 2])), "--servers 2"),
        ("tensor-push", 3, (1, 1), tensors(json!([1, 1])), "do not make up 3 B"),
        ("tensor-push", u64::MAX, (1, 1), tensors(json!([u64::MAX, 1])), "do not make up"),
        ("tensor-fetch", 1 << 40, (1, 1), tensors(json!([1u64 << 40])), "limit of 4294967296"),
        ("tensor-fetch", 3, (1, 1), tensors(json!([0, 3])), "none empty"),
        ("tensor-fetch", 3, (1, 1), Value::Null, "belong to the pattern tensor"),
        ("ps", 3, (1, 1), tensors(json!([1, 2])), "belong to the pattern tensor"),
    ] {
        let mut cell = json!({
            "transport": "tcp@loopback", "pattern": pattern, "size": size, "tensors": tensors,
            "roles": { "servers": servers, "workers": workers },
        });
        if pattern == "ps" {
            cell["reply"] = json!(1);
        }
        rogue.say(&json!({ "prepare": {
            "cell": cell, "depth": 1, "seed": 1, "cpu": null, "offers": [on_loopback()],
        }}));
        let refused = rogue.hear().unwrap();
        let reason = refused["refused"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(word), "no `{word}` in {refused}");
    }
    drop(rogue);
    server.serves();
}

/// A size that the server has no memory for is the client's misfortune, not the server's end.
#[test]
fn a_plan_beyond_the_servers_memory_does_not_end_it() {
    let mut limited = std::process::Command::new("prlimit");
    limited.arg("--as=2000000000").arg(env!("CARGO_BIN_EXE_fabricbench"));
    limited.args(["serve", "--listen", "127.0.0.1", "--port", "0", "--insecure"]);
    let server = Server::open_by(&mut limited);
    let mut rogue = Rogue::welcome(&server);
    let answer = rogue.prepare("tcp@loopback", 4_000_000_000, 1, &on_loopback());
    if let Some(port) = answer["prepared"]["answers"][0]["tcp"]["port"].as_u64() {
        let data = TcpStream::connect(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
        rogue.say(&json!("start"));
        assert_eq!(rogue.hear(), Some(json!("started")));
        drop(data);
        rogue.say(&json!({ "finish": { "messages": null } }));
        let finished = rogue.hear().expect("the server lives");
        let error = finished["finished"]["error"].as_str().unwrap();
        assert!(error.contains("memory"), "{error}");
    } else {
        assert!(answer["refused"]["reason"].as_str().unwrap().contains("memory"), "{answer}");
    }
    drop(rogue);
    server.serves();
}
