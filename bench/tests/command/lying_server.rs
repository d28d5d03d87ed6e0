//! A server that speaks the protocol and is wrong: whatever it says, no figure comes of it that one
//! side or the other has not seen to be true.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use fabricbench::{
    control::{PROTOCOL, read_frame, write_frame},
    transport::SliceKey,
};
use fabricbench_grpc::{Door, Key};
use serde_json::{Value, json};

use crate::{
    document::{Document, measured, without_figures},
    process::{NONCE, run},
};

const SIZE: usize = 64;

/// What becomes of the truth on its way.
#[derive(Default)]
struct Lies {
    /// Of what it says to have observed.
    observed: Option<fn(&mut Value)>,
    /// Of the bytes that it echoes.
    echoed: Option<fn(&mut Vec<u8>)>,
    /// Of the count of messages that it confirms.
    confirmed: Option<fn(u64) -> u64>,
    /// Of what its kernel says of its connections.
    connections: Option<fn() -> Value>,
    /// Of its answer to a plan.
    prepared: Option<fn() -> Value>,
}

/// Serves one client, of plain TCP on loopback and one slice a pattern.
fn server(lies: Lies) -> SocketAddr {
    let host: Value = serde_json::from_str(&run("probe --json").quietly(0).stdout).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(format!("fabricbench-control {PROTOCOL} 0\n").as_bytes()).unwrap();
        let mut greeting = [0];
        while greeting[0] != b'\n' {
            stream.read_exact(&mut greeting).unwrap();
        }
        let challenge = json!({ "nonce": NONCE, "token": false });
        write_frame(&mut stream, &challenge).unwrap();
        read_frame::<Value>(&mut stream).unwrap();
        write_frame(&mut stream, &json!({ "admitted": { "proof": null } })).unwrap();
        let says = Arc::new(Mutex::new(stream.try_clone().unwrap()));
        live(says.clone());
        converse(&mut stream, &says, &host, &lies);
    });
    address
}

/// Signs of life, as long as there is somebody to see them.
fn live(says: Arc<Mutex<TcpStream>>) {
    thread::spawn(move || {
        while write_frame(&mut *says.lock().unwrap(), &json!("alive")).is_ok() {
            thread::sleep(Duration::from_millis(500));
        }
    });
}

fn converse(hears: &mut TcpStream, says: &Mutex<TcpStream>, host: &Value, lies: &Lies) {
    let mut pattern = String::new();
    // Until the client has heard enough.
    while let Ok(message) = read_frame::<Value>(hears) {
        let said = &message["say"];
        let reply = if said["begin"].is_object() {
            json!({ "welcome": host })
        } else if said["prepare"].is_object() {
            said["prepare"]["cell"]["pattern"].as_str().unwrap().clone_into(&mut pattern);
            lies.prepared.map_or_else(|| prepared(&pattern, lies), |lie| lie())
        } else if said == "start" {
            json!("started")
        } else if said == "connections" {
            let told = || json!({ "Err": "asked in vain" });
            json!({ "connections": lies.connections.map_or_else(told, |lie| lie()) })
        } else if said["finish"].is_object() {
            let push = pattern == "bandwidth";
            let mut observation = observed(said["finish"]["messages"].as_u64().unwrap_or(0), push);
            if let Some(lie) = lies.observed {
                lie(&mut observation);
            }
            json!({ "finished": observation })
        } else {
            continue;
        };
        if write_frame(&mut *says.lock().unwrap(), &json!({ "say": reply })).is_err() {
            return;
        }
    }
}

/// The truth.
fn observed(messages: u64, push: bool) -> Value {
    let bytes = messages * SIZE as u64;
    json!({
        "received": { "messages": messages, "bytes": bytes, "verified": 1, "corrupt": 0 },
        "counters": {
            "interface_tx_bytes": bytes, "interface_rx_bytes": bytes,
            "proof": {
                "holds": true, "payload_rx_bytes": bytes,
                "payload_tx_bytes": if push { 0 } else { bytes }, "text": "seen",
            },
        },
        "cpu_ns": 1, "error": null,
    })
}

/// A data path of its own for the slice.
fn prepared(pattern: &str, lies: &Lies) -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (echoed, confirmed) = (lies.echoed, lies.confirmed);
    let (pattern, key) = (pattern.to_owned(), SliceKey::generate().unwrap());
    let told = json!(key);
    thread::spawn(move || {
        let mut data = let_in(&listener, key.0);
        data.set_nodelay(true).unwrap();
        match pattern.as_str() {
            "bandwidth" => sink(&mut data, confirmed),
            "fetch" => zeroes(&mut data),
            _ => echo(&mut data, echoed),
        }
    });
    json!({ "prepared": {
        "answers": [{ "tcp": { "port": port, "key": told } }],
        "path": { "kind": "loopback", "interface": "lo", "emulated": false },
    }})
}

/// The connection that shows `key`, which is the first.
fn let_in(listener: &TcpListener, key: Key) -> TcpStream {
    let (stream, peer) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut door = Door::new(key, 1);
    door.arrive(stream, peer, Instant::now());
    let cx = &mut Context::from_waker(Waker::noop());
    loop {
        if let Some((stream, _)) = door.poll_admit(cx, Instant::now()) {
            stream.set_nonblocking(false).unwrap();
            return stream;
        }
        assert_eq!(door.turned_away().told(), None);
        thread::sleep(Duration::from_millis(1));
    }
}

fn echo(data: &mut TcpStream, lie: Option<fn(&mut Vec<u8>)>) {
    let mut message = [0; SIZE];
    while data.read_exact(&mut message).is_ok() {
        let mut answer = message.to_vec();
        if let Some(lie) = lie {
            lie(&mut answer);
        }
        if data.write_all(&answer).is_err() || answer.is_empty() {
            return;
        }
    }
}

/// As many messages as are asked for, of the right size and without content.
fn zeroes(data: &mut TcpStream) {
    let mut request = [0; 8];
    while data.read_exact(&mut request).is_ok() {
        for _ in 0..u64::from_be_bytes(request) {
            if data.write_all(&[0; SIZE]).is_err() {
                return;
            }
        }
    }
}

/// A message has a 0 in front; a 1 asks for the counts, and stands in front of them.
fn sink(data: &mut TcpStream, lie: Option<fn(u64) -> u64>) {
    let (mut kind, mut message, mut messages) = ([0], [0; SIZE], 0);
    while data.read_exact(&mut kind).is_ok() {
        if kind[0] == 0 {
            data.read_exact(&mut message).unwrap();
            messages += 1;
            continue;
        }
        let count: u64 = lie.map_or(messages, |lie| lie(messages));
        let counts = [count.to_be_bytes(), (count * SIZE as u64).to_be_bytes()].concat();
        if data.write_all(&[vec![1], counts].concat()).is_err() {
            return;
        }
    }
}

fn client(address: SocketAddr, options: &str) -> String {
    format!(
        "run {address} --insecure --transport tcp@loopback -s {SIZE} -n 7 --rounds 1 --warm-up 2 \
         --format json {options}"
    )
}

/// Asserts that nothing is measured, and why.
#[track_caller]
fn exposed(lies: Lies, pattern: &str, words: &[&str]) {
    let finished = run(&client(server(lies), &format!("--pattern {pattern} --timeout 3s")));
    let document = Document::read(&finished.quietly(4).stdout);
    without_figures(&document.cells()[0], "failed", words);
}

#[test]
fn the_truth_is_believed() {
    let finished = run(&client(server(Lies::default()), "")).quietly(0);
    Document::read(&finished.stdout).cells().iter().for_each(measured);
}

#[test]
fn what_was_sent_and_what_was_received_must_agree() {
    let words = &["9 messages", "were sent", "received"];
    let fewer: fn(&mut Value) = |observed| observed["received"]["messages"] = 8.into();
    let more: fn(&mut Value) = |observed| observed["received"]["bytes"] = 577.into();
    for lie in [fewer, more] {
        exposed(Lies { observed: Some(lie), ..Lies::default() }, "latency", words);
        exposed(Lies { observed: Some(lie), ..Lies::default() }, "bandwidth", words);
        let words = &["9 messages", "were fetched", "served"];
        exposed(Lies { observed: Some(lie), ..Lies::default() }, "fetch", words);
    }
}

#[test]
fn a_push_that_is_not_confirmed_in_full_is_not_timed() {
    let fewer: fn(u64) -> u64 = |messages| messages - 1;
    let words = &["confirmed by the receiver"];
    exposed(Lies { confirmed: Some(fewer), ..Lies::default() }, "bandwidth", words);
}

#[test]
fn content_that_differs_on_either_side_is_seen() {
    let words = &["verified messages arrived with other content"];
    let there: fn(&mut Value) = |observed| observed["received"]["corrupt"] = 1.into();
    exposed(Lies { observed: Some(there), ..Lies::default() }, "latency", words);
    let here: fn(&mut Vec<u8>) = |echo| echo[SIZE - 1] ^= 1;
    exposed(Lies { echoed: Some(here), ..Lies::default() }, "latency", words);
    exposed(Lies::default(), "fetch", words);
}

#[test]
fn the_servers_proof_and_the_servers_errors_count() {
    let unproven: fn(&mut Value) = |observed| {
        observed["counters"]["proof"]["holds"] = false.into();
        observed["counters"]["proof"]["text"] = "it came by eth9".into();
    };
    let words = &["path not proven on the server", "it came by eth9"];
    exposed(Lies { observed: Some(unproven), ..Lies::default() }, "latency", words);
    let broken: fn(&mut Value) = |observed| observed["error"] = "out of luck".into();
    let words = &["the server says: out of luck"];
    exposed(Lies { observed: Some(broken), ..Lies::default() }, "bandwidth", words);
}

/// An echo is an honest server of calls whose replies are as large as the requests.
#[test]
fn replies_that_differ_or_that_nobody_asked_for_are_seen() {
    let calls = "calls --reply-size 64 -t 1";
    let finished = run(&client(server(Lies::default()), &format!("--pattern {calls}"))).quietly(0);
    Document::read(&finished.stdout).cells().iter().for_each(measured);
    let other: fn(&mut Vec<u8>) = |reply| reply[SIZE - 1] ^= 1;
    let words = &["verified messages arrived with other content"];
    exposed(Lies { echoed: Some(other), ..Lies::default() }, calls, words);
    let twice: fn(&mut Vec<u8>) = |reply| reply.extend_from_within(..);
    exposed(Lies { echoed: Some(twice), ..Lies::default() }, calls, &["more replies"]);
    let half: fn(&mut Vec<u8>) = |reply| reply.truncate(SIZE / 2);
    exposed(Lies { echoed: Some(half), ..Lies::default() }, calls, &["in warm-up", "3s"]);
    let none: fn(&mut Vec<u8>) = Vec::clear;
    exposed(Lies { echoed: Some(none), ..Lies::default() }, calls, &["closed"]);
}

/// What a kernel says of connections is shown as it was said, and adds up whatever it is.
#[test]
fn absurd_connections_harm_nothing() {
    let absurd: fn() -> Value = || {
        let spread = json!({ "least": 1e308, "mean": 1e308, "most": -1e308 });
        json!({ "Ok": {
            "connections": u64::MAX, "readings": u64::MAX, "retransmits": u64::MAX,
            "congestion_control": ["x".repeat(5000)], "segments_sent": 0, "busy_us": 0,
            "receive_window_limited_us": u64::MAX, "rtt_us": spread, "mss": spread,
        }})
    };
    for format in ["table", "long", "csv", "json"] {
        let lies = Lies { connections: Some(absurd), ..Lies::default() };
        let options = "--pattern latency --rounds 3 --timeout 3s";
        let command = client(server(lies), options).replace("--format json", "");
        run(&format!("{} --format {format}", command.replace("--rounds 1", ""))).quietly(0);
    }
}

/// So are costs and counters: their sums over rounds are as large as a number can be.
#[test]
fn absurd_costs_harm_nothing() {
    let absurd: fn(&mut Value) = |observed| {
        let usage = json!({ "user_ns": u64::MAX, "system_ns": u64::MAX,
                            "voluntary_switches": u64::MAX, "involuntary_switches": u64::MAX });
        for (name, most) in [("cpu_ns", json!(u64::MAX)), ("cpu_use", usage)] {
            observed[name] = most;
        }
        observed["waiting_ns"] = u64::MAX.into();
        observed["received"]["verified"] = u64::MAX.into();
        for name in ["interface_tx_bytes", "interface_rx_bytes"] {
            observed["counters"][name] = u64::MAX.into();
        }
        observed["counters"]["rdma"] = json!({ "rxe0/1/rcvd_pkts": u64::MAX });
        observed["counters"]["proof"]["payload_tx_bytes"] = u64::MAX.into();
    };
    let lies = Lies { observed: Some(absurd), ..Lies::default() };
    let options = "--pattern latency --rounds 3 --timeout 3s";
    let command = client(server(lies), options).replace("--rounds 1", "");
    // Nor is it a document whose figures agree.
    let document: Value = serde_json::from_str(&run(&command).quietly(0).stdout).unwrap();
    let cell = &document["cells"][0];
    assert_eq!(cell["cpu"]["server_ns"], u64::MAX, "{cell}");
    assert_eq!(cell["peer_counters"]["interface_tx_bytes"], u64::MAX, "{cell}");
}

#[test]
fn an_echo_that_stops_short_ends_in_time() {
    let half: fn(&mut Vec<u8>) = |echo| echo.truncate(SIZE / 2);
    exposed(Lies { echoed: Some(half), ..Lies::default() }, "latency", &["in warm-up", "3s"]);
    let none: fn(&mut Vec<u8>) = Vec::clear;
    exposed(Lies { echoed: Some(none), ..Lies::default() }, "latency", &["closed"]);
}

#[test]
fn an_answer_that_does_not_fit_the_plan_is_refused() {
    let queue_pair: fn() -> Value = || {
        let region = json!({ "address": 0, "length": 64, "remote_key": 0 });
        let endpoint = json!({
            "queue_pairs": [{ "number": 1, "packet_sequence": 1 }], "lid": 0,
            "gid": vec![0; 16], "path_mtu": 1024,
            "host": region, "messages": region, "responder_resources": 1,
        });
        json!({ "prepared": {
            "answers": [{ "verbs": endpoint }],
            "path": { "kind": "loopback", "interface": "lo", "emulated": false },
        }})
    };
    exposed(Lies { prepared: Some(queue_pair), ..Lies::default() }, "latency", &["queue pair"]);
    let refused: fn() -> Value =
        || json!({ "refused": { "status": "failed", "reason": "no time" } });
    let words = &["on the server: no time"];
    exposed(Lies { prepared: Some(refused), ..Lies::default() }, "latency", words);
}
