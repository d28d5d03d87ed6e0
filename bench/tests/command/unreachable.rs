//! Servers that are not to be had: named, with what to do, in bounded time.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use rustix::process::Signal;
use socket2::{Domain, Socket, Type};

use crate::{
    document::{Document, without_figures},
    process::{Running, Server, fabricbench, run},
};

/// A listener whose queue is full: the kernel drops what comes further, as a firewall would.
pub struct BlackHole {
    pub address: SocketAddr,
    _listener: Socket,
    _queued: Vec<Socket>,
}

impl BlackHole {
    pub fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let queued = (0..4)
            .map(|_| {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                socket.set_nonblocking(true).unwrap();
                let _ = socket.connect(&address.into());
                socket
            })
            .collect();
        let tried = TcpStream::connect_timeout(&address, Duration::from_millis(300));
        assert_eq!(tried.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        Self { address, _listener: listener, _queued: queued }
    }
}

#[test]
fn a_name_without_an_address() {
    // A label may have 63 characters (RFC 1035): no name server is asked for this one.
    let name = "a".repeat(64);
    run(&format!("run {name}")).failed(1, &[&name, "resolve", "address"]);
}

#[test]
fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let words = &["127.0.0.1", &address.port().to_string(), "refused", "fabricbench serve"];
    run(&format!("run {address}")).failed(1, words);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let mut command = fabricbench(&format!("run {address} --format json -s 8,16 -o"));
    let finished = Running::start(command.arg(&path)).end().failed(1, words);
    let document = Document::read(&finished.stdout);
    assert_eq!(document.0["complete"], false);
    // Four transports, two patterns, two sizes: none was measured, and each says why.
    assert_eq!(document.cells().len(), 16);
    for cell in document.cells() {
        without_figures(cell, "skipped", &["did not begin", "127.0.0.1", "refused"]);
    }
    assert_eq!(Document::read(&std::fs::read_to_string(path).unwrap()).0, document.0);
}

#[test]
fn a_run_that_does_not_begin_leaves_the_result_of_an_earlier_one() {
    let hole = BlackHole::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.json");
    let kept = "yesterday's, and hard to come by";
    std::fs::write(&path, kept).unwrap();
    let begin = |options: &str| {
        let mut command = fabricbench(&format!("run {options} --transport tcp@lo -s 8 -n 2 -o"));
        Running::start(command.arg(&path))
    };
    begin("127.0.0.1:1").end().failed(1, &["127.0.0.1:1", "refused"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), kept);
    begin("--cpus 1023").end().failed(2, &["1023"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), kept);
    // Neither by one that is interrupted, or killed, before it has a server.
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let client = begin(&format!("{} --timeout 1m", hole.address));
        std::thread::sleep(Duration::from_millis(500));
        client.signal(signal);
        assert_eq!(client.end_within(Duration::from_secs(5)).code, code);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), kept);
    }
    begin("").end().quietly(0);
    Document::read(&std::fs::read_to_string(&path).unwrap());
    // What is empty loses nothing.
    std::fs::write(&path, "").unwrap();
    begin("127.0.0.1:1").end().failed(1, &["refused"]);
    Document::read(&std::fs::read_to_string(&path).unwrap());
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for_if_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let plan = "--wait 30s --transport tcp@loopback --pattern latency -s 8 -n 30";
    let client = Running::start(&mut fabricbench(&format!("run {address} {plan}")));
    std::thread::sleep(Duration::from_millis(700));
    let serve = format!("serve --listen 127.0.0.1 --port {}", address.port());
    let _server = Server::by(&mut fabricbench(&serve));
    client.end().quietly(0);
    let finished = run("run 127.0.0.1:1 --wait 500ms --transport tcp@loopback");
    assert!(finished.took >= Duration::from_millis(500), "{:?}", finished.took);
    finished.failed(1, &["127.0.0.1:1", "refused"]);
}

#[test]
fn an_address_that_is_not_this_hosts_is_answered_with_those_that_are() {
    // TEST-NET-1 (RFC 5737): nobody has it.
    run("serve --listen 192.0.2.1 --port 0")
        .failed(1, &["192.0.2.1", "no such address", "127.0.0.1 (lo)"]);
}

#[test]
fn nobody_answers() {
    let hole = BlackHole::new();
    let finished = run(&format!("run {} --timeout 2s", hole.address));
    assert!(finished.took < Duration::from_secs(6), "{:?}", finished.took);
    finished.failed(1, &[&hole.address.to_string(), "did not answer within 2"]);
}

#[test]
fn an_interrupt_ends_the_wait_for_an_answer() {
    let hole = BlackHole::new();
    let client = Running::start(&mut fabricbench(&format!(
        "run {} --timeout 1m --format json",
        hole.address
    )));
    std::thread::sleep(Duration::from_millis(500));
    client.signal(Signal::INT);
    let finished = client.end_within(Duration::from_secs(5)).failed(130, &["interrupted"]);
    Document::read(&finished.stdout);
}

#[test]
fn a_port_that_is_taken_is_named_with_the_way_out() {
    let server = Server::start();
    let port = server.address.port();
    let again = run(&format!("serve --listen 127.0.0.1 --port {port}"));
    again.failed(1, &[&port.to_string(), "in use", "--port"]);
    let again = run(&format!("serve --port {port}"));
    again.failed(1, &[&port.to_string(), "in use", "--port"]);
    server.serves();
}

#[test]
fn an_address_that_is_not_of_this_host_is_named() {
    // TEST-NET-1 of RFC 5737, which no host has.
    run("serve --listen 192.0.2.1 --port 0").failed(1, &["192.0.2.1"]);
}

#[test]
fn a_server_that_is_stopped_does_not_greet() {
    let server = Server::start();
    server.process.signal(Signal::STOP);
    let finished = server.run("--timeout 2s");
    assert!(finished.took < Duration::from_secs(10), "{:?}", finished.took);
    finished.failed(1, &[&server.address.to_string(), "did not greet within 2s"]);
    server.process.signal(Signal::CONT);
    server.serves();
}
