//! A server that a service manager keeps: its socket, its log, its end, and those who watch it.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixDatagram,
    process::Command,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;

use crate::process::{PATIENCE, Running, Server, fabricbench};

/// Lasts until it is ended.
const LONG: &str = "--transport tcp@loopback -s 8 -D 60s --format json";

const SHORT: &str = "--transport tcp@loopback -s 8 -n 1";

/// What the server says over HTTP, its head included.
fn get(status: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(status).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn status_of(server: &Server) -> SocketAddr {
    let line = server.process.prints(|text| text.lines().nth(1).map(str::to_owned));
    let address =
        line.strip_prefix("status on http://").and_then(|rest| rest.strip_suffix("/metrics"));
    address.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

#[test]
fn a_server_that_is_told_to_stop_lets_a_test_end_and_takes_no_other() {
    let server = Server::with("--listen 127.0.0.1 --grace 60s --status 127.0.0.1:0");
    let status = status_of(&server);
    assert!(get(status, "/health").starts_with("HTTP/1.1 200 "));
    // Its end is this test's to choose: a signal ends a run with what it has.
    let running = Running::start(&mut server.client(LONG));
    server.process.says_word("testing");
    let waiting = Running::start(&mut server.client(SHORT));
    server.process.says_word("waits behind 1");
    server.process.signal(Signal::TERM);
    server.process.says_word("no more clients");
    let why = "the server is stopping";
    let waited = waiting.end();
    assert!(waited.code == Some(1) && waited.stderr.contains(why), "{waited:?}");
    server.run(SHORT).failed(1, &[why]);
    assert!(get(status, "/health").starts_with("HTTP/1.1 503 "));
    running.signal(Signal::INT);
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let served = server.process.end();
    assert_eq!(served.code, Some(0), "{served:?}");
}

#[test]
fn a_grace_ends_and_a_second_signal_needs_none() {
    let server = Server::with("--listen 127.0.0.1 --grace 100ms");
    let running = Running::start(&mut server.client(LONG));
    server.process.says_word("testing");
    server.process.signal(Signal::TERM);
    let server = server.process.end();
    assert_eq!(server.code, Some(0), "{server:?}");
    running.end().failed(4, &["closed the control connection"]);

    let server = Server::with("--listen 127.0.0.1 --grace 60s");
    let _running = Running::start(&mut server.client(LONG));
    server.process.says_word("testing");
    server.process.signal(Signal::TERM);
    server.process.says_word("no more clients");
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.end().code, Some(130));
}

#[test]
fn those_who_watch_see_what_it_does() {
    let server = Server::with("--listen 127.0.0.1 --status 127.0.0.1:0");
    let status = status_of(&server);
    let metrics = || get(status, "/metrics");
    assert!(metrics().contains("fabricbench_server_tests_total{outcome=\"done\"} 0\n"));
    server.serves();
    let running = Running::start(&mut server.client(LONG));
    server.process.says(|text| text.contains("done").then_some(()));
    server.process.says(|text| (text.matches("testing").count() == 2).then_some(()));
    let text = metrics();
    for word in [
        "HTTP/1.1 200 OK",
        "application/openmetrics-text; version=1.0.0",
        "fabricbench_server_tests_total{outcome=\"done\"} 1\n",
        "fabricbench_server_clients{state=\"testing\"} 1\n",
        "fabricbench_server_clients{state=\"waiting\"} 0\n",
    ] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
    running.signal(Signal::KILL);
    server.process.says_word("closed the control connection");
    assert!(metrics().contains("fabricbench_server_tests_total{outcome=\"broken\"} 1\n"));
    assert!(get(status, "/elsewhere").starts_with("HTTP/1.1 404 "));
    // Its port is no way to keep the server from anything.
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(status).unwrap()).collect();
    server.serves();
    for mut stream in idle {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it is let go");
    }
    assert!(metrics().starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_log_for_programs_is_an_object_a_line() {
    let mut serve = fabricbench("serve --port 0 --listen 127.0.0.1 --log json");
    let server = Running::start(&mut serve);
    let line = |index: usize| -> Value {
        let line = server.says(|text| {
            let mut whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            whole.nth(index).map(str::to_owned)
        });
        serde_json::from_str(&line).unwrap()
    };
    let listening = line(0);
    assert_eq!(listening["event"], "listening");
    assert!(listening["time"].as_str().unwrap().ends_with('Z'), "{listening}");
    let address: SocketAddr = listening["address"].as_str().unwrap().parse().unwrap();
    let client = format!("run {address} {SHORT}");
    Running::start(&mut fabricbench(&client)).end().quietly(0);
    let (testing, ended) = (line(1), line(2));
    assert_eq!(testing["event"], "testing");
    assert_eq!((&ended["event"], &ended["outcome"]), (&"ended".into(), &"done".into()));
    assert_eq!(testing["client"], ended["client"]);
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"\x1b[2J\"\r\n").unwrap();
    let refused = line(3);
    assert_eq!(refused["event"], "refused");
    assert!(refused["reason"].as_str().unwrap().contains("no fabricbench"), "{refused}");
    server.signal(Signal::TERM);
    let ended = server.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));

    // Where it would have to tell a token that it made, it does not begin.
    let mut serve = fabricbench("serve --port 0 --log json");
    Running::start(serve.env("FABRICBENCH_TOKEN", "")).end().failed(1, &["--token-file", "log"]);
}

/// systemd's own tool opens the socket, and starts the server for its first client.
#[test]
fn a_server_takes_the_socket_that_it_was_started_with() {
    let folder = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new("systemd-socket-activate");
    command
        .args(["--listen", &free.to_string(), "--setenv", "FABRICBENCH_TOKEN"])
        .arg(format!("--setenv=NOTIFY_SOCKET={}", folder.path().join("notify").display()))
        .args([env!("CARGO_BIN_EXE_fabricbench"), "serve", "--grace", "1s"]);
    let server = Running::start(&mut command);
    server.says(|text| text.contains("Listening on").then_some(()));
    for _ in 0..2 {
        Running::start(&mut fabricbench(&format!("run {free} {SHORT}"))).end().quietly(0);
    }
    let told = || {
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert!(told().contains("READY=1"));
    server.signal(Signal::TERM);
    assert!(told().contains("STOPPING=1"));
    assert_eq!(server.end_within(Duration::from_secs(20)).code, Some(0));
}

#[test]
fn the_units_are_what_systemd_takes() {
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../docker/systemd");
    let folder = tempfile::tempdir().unwrap();
    let service = std::fs::read_to_string(format!("{units}/fabricbench.service")).unwrap();
    // It wants the program to be there.
    let here = service.replace("/usr/bin/fabricbench", env!("CARGO_BIN_EXE_fabricbench"));
    assert_ne!(here, service);
    let path = folder.path().join("fabricbench.service");
    std::fs::write(&path, here).unwrap();
    std::fs::copy(format!("{units}/fabricbench.socket"), folder.path().join("fabricbench.socket"))
        .unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(arguments).arg(&path).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    // What is wrong with other units of this host is not ours.
    let (succeeded, text) = run(&["verify", "--recursive-errors=no", "--man=no"]);
    assert!(succeeded && !text.contains("fabricbench"), "{text}");
    // Of 100, as `systemd-analyze security` counts: 100 is a service with all privileges.
    let (succeeded, text) = run(&["security", "--offline=true", "--threshold=25", "--no-pager"]);
    assert!(succeeded, "{text}");
}
