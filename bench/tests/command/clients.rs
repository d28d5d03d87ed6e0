//! A server and its clients: one after the other, each whatever the one before did; and its end.

use std::{net::TcpStream, thread, time::Duration};

use rustix::process::Signal;

use crate::{
    document::Document,
    process::{Running, Server, fabricbench},
};

/// Time for a client that has been given its turn to be in the middle of a measurement.
const INTO_THE_TEST: Duration = Duration::from_millis(600);

const LONG: &str = "--pattern latency -s 8 -D 60s --transport";

#[test]
fn eight_clients_at_once_are_served_one_after_the_other() {
    let server = Server::start();
    let options =
        "--transport tcp@loopback,grpc@loopback -s 8 -n 50 --format json --progress lines";
    let clients: Vec<_> = (0..8).map(|_| Running::start(&mut server.client(options))).collect();
    for client in clients {
        let finished = client.end();
        assert_eq!(finished.code, Some(0), "{finished:?}");
        Document::read(&finished.stdout).all_measured(
            &["tcp@loopback", "grpc@loopback"],
            &["latency", "bandwidth"],
            &[8],
        );
    }
    server.process.says(|text| (text.matches(": done").count() == 8).then_some(()));
    server.process.signal(Signal::TERM);
    let log = server.process.end().stderr;
    assert!(log.contains("waits behind"), "none had to wait:\n{log}");
    let mut served = None;
    for line in log.lines() {
        let (client, what) = line.rsplit_once(": ").unwrap();
        match what {
            "testing" => assert_eq!(served.replace(client), None, "two at once:\n{log}"),
            "done" => assert_eq!(served.take(), Some(client), "{log}"),
            _ => assert!(what.starts_with("waits behind"), "{log}"),
        }
    }
}

#[test]
fn a_client_in_the_queue_is_told_its_place_and_may_leave() {
    let server = Server::start();
    let first = Running::start(&mut server.client(&format!("{LONG} tcp@loopback")));
    server.process.says_word("testing");
    let mut second = server.client("--progress lines --format json");
    let second = Running::start(&mut second);
    second.says_word("the server is busy: 1 before us");
    // Longer than a silent peer is waited for: the queue may be long.
    thread::sleep(Duration::from_secs(6));
    second.signal(Signal::INT);
    let finished = second.end_within(Duration::from_secs(5));
    assert_eq!(finished.code, Some(130), "{finished:?}");
    assert!(finished.stderr.ends_with("interrupted; what was measured before is kept\n"));
    Document::read(&finished.stdout);
    first.signal(Signal::INT);
    assert_eq!(first.end_within(Duration::from_secs(5)).code, Some(130));
    server.serves();
}

/// Who waits without a terminal and without progress must not wonder either.
#[test]
fn a_client_in_the_queue_is_told_once_whatever_it_asked_for() {
    let server = Server::start();
    let first = Running::start(&mut server.client(&format!("{LONG} tcp@loopback")));
    server.process.says_word("testing");
    for progress in ["", "--progress none"] {
        let options = format!("{progress} --transport tcp@loopback -s 8 -n 1");
        let second = Running::start(&mut server.client(&options));
        // The one before may not have left the queue yet.
        second.says_word("the server is busy: ");
        second.says_word(" before us\n");
        second.signal(Signal::INT);
        let finished = second.end_within(Duration::from_secs(5));
        assert_eq!(finished.stderr.matches("busy").count(), 1, "{finished:?}");
    }
    first.signal(Signal::INT);
    first.end_within(Duration::from_secs(5));
}

#[test]
fn a_lost_client_is_named_once_in_the_log() {
    let server = Server::start();
    let client = Running::start(&mut server.client(&format!("{LONG} tcp@loopback")));
    server.process.says_word("testing");
    client.signal(Signal::KILL);
    let line = server.process.says(|text| {
        text.lines().find(|line| line.contains("closed the control")).map(str::to_owned)
    });
    assert_eq!(line.matches("127.0.0.1:").count(), 1, "{line}");
    assert!(line.ends_with(": closed the control connection"), "{line}");
}

/// Ends a client in the middle of a test by `signal`, and asserts that the next one is served.
fn next_after(transport: &str, signal: Signal, server_options: &str, within: Duration) {
    let server = Server::with(&format!("--listen 127.0.0.1 {server_options}"));
    for pattern in ["latency -s 8", "bandwidth -s 64K"] {
        let options = format!("--transport {transport} --pattern {pattern} -D 60s");
        let client = Running::start(&mut server.client(&options));
        server.process.says_word("testing");
        thread::sleep(INTO_THE_TEST);
        client.signal(signal);
        server.serves_within(within);
    }
}

#[test]
fn a_killed_client_leaves_the_server_to_the_next_at_once() {
    for transport in ["tcp@loopback", "grpc@loopback", "grpc-stock@loopback", "grpc-lean@loopback"]
    {
        next_after(transport, Signal::KILL, "", Duration::from_secs(4));
    }
}

#[test]
fn a_stopped_client_on_tcp_is_given_up_in_time() {
    next_after("tcp@loopback", Signal::STOP, "--timeout 2s", Duration::from_secs(8));
}

#[test]
fn a_stopped_client_on_grpc_is_given_up_in_time() {
    next_after("grpc@loopback", Signal::STOP, "--timeout 2s", Duration::from_secs(8));
}

/// Ends the server by SIGTERM and asserts that it went promptly and well.
fn ends_promptly(server: Server) {
    server.process.signal(Signal::TERM);
    let finished = server.process.end_within(Duration::from_secs(3));
    assert_eq!(finished.code, Some(0), "{finished:?}");
}

#[test]
fn a_server_ends_promptly_when_asked() {
    ends_promptly(Server::start());
    let server = Server::start();
    server.process.signal(Signal::INT);
    assert_eq!(server.process.end_within(Duration::from_secs(3)).code, Some(0));
}

#[test]
fn a_server_in_the_middle_of_a_test_ends_promptly_and_the_client_says_so() {
    for transport in ["tcp@loopback", "grpc@loopback", "grpc-lean@loopback"] {
        let server = Server::start();
        let address = server.address.to_string();
        let client = Running::start(&mut server.client(&format!("{LONG} {transport}")));
        server.process.says_word("testing");
        thread::sleep(INTO_THE_TEST);
        ends_promptly(server);
        let finished = client.end_within(Duration::from_secs(5));
        finished.failed(4, &["lost the server", &address]);
    }
}

#[test]
fn a_server_with_silent_connections_ends_promptly() {
    let server = Server::start();
    let _silent: Vec<_> = (0..3).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    thread::sleep(Duration::from_millis(300));
    ends_promptly(server);
}

/// `fabricbench serve 2>&1 | head -1` is how scripts learn the port.
#[test]
fn a_server_whose_log_nobody_reads_serves() {
    let server = Server::unread(&mut fabricbench("serve --listen 127.0.0.1 --port 0"));
    server.serves();
    drop(TcpStream::connect(server.address).unwrap());
    server.serves();
    ends_promptly(server);
}

#[test]
fn a_server_that_another_program_started_ends_with_its_standard_input() {
    // Standard input is empty here: it ends at once.
    let server = Running::start(&mut fabricbench("serve --port 0 --until-stdin-ends"));
    assert_eq!(server.end_within(Duration::from_secs(3)).code, Some(0));
}
