//! Either side lost in the middle of a test over RDMA: noticed in time, and nothing of it stays in
//! the kernel.

use std::{
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    document::{Document, without_figures},
    pair::{Resources, client, device, run, server, server_by},
    process::{PATIENCE, Server},
};

/// Beside the time-out: the guest is slow.
const MARGIN: Duration = Duration::from_secs(6);
const TIMEOUT: Duration = Duration::from_secs(2);

/// Time for a client that has been given its turn to be in the middle of a measurement.
const INTO_THE_TEST: Duration = Duration::from_millis(1000);

const PATTERNS: [&str; 4] = [
    "--transport verbs-write --pattern latency -s 64",
    "--transport verbs-send --pattern latency -s 64",
    "--transport verbs-write --pattern bandwidth -s 4K",
    "--transport verbs-send --pattern bandwidth -s 4K",
];

/// Starts a client of `server` whose test goes on for ever.
fn in_the_middle(server: &Server, pattern: &str) -> crate::process::Running {
    let client = client(server, &format!("{pattern},64K -D 60s --timeout 2s"));
    server.process.says_word("testing");
    thread::sleep(INTO_THE_TEST);
    client
}

fn lose_server(signal: Signal, word: &str) {
    let Some(_device) = device() else { return };
    let before = Resources::now();
    for pattern in PATTERNS {
        let server = server();
        let address = server.address.to_string();
        let client = in_the_middle(&server, pattern);
        server.process.signal(signal);
        let finished = client.end_within(TIMEOUT + MARGIN);
        let finished = finished.failed(4, &["lost the server", &address, word]);
        let document = Document::read(&finished.stdout);
        // Sizes are in random order.
        let [one, other] = [0, 1].map(|cell| &document.cells()[cell]);
        let (begun, other) = if one["status"] == "failed" { (one, other) } else { (other, one) };
        without_figures(begun, "failed", &[&address]);
        without_figures(other, "skipped", &["before its turn"]);
        drop(server);
        before.are_back();
    }
}

#[test]
fn a_killed_server_ends_the_run() {
    lose_server(Signal::KILL, "closed the control connection");
}

#[test]
fn a_stopped_server_ends_the_run_in_time() {
    lose_server(Signal::STOP, "silent for 2s");
}

#[test]
fn a_lost_client_leaves_the_server_to_the_next() {
    let Some(_device) = device() else { return };
    let before = Resources::now();
    let server = server_by(&[], "--timeout 2s");
    for (index, signal) in [Signal::KILL, Signal::STOP].into_iter().enumerate() {
        for (round, pattern) in PATTERNS.into_iter().enumerate() {
            let client = client(&server, &format!("{pattern} -D 60s"));
            // One notice for each of this and the next client of every round before.
            let begun = 2 * (4 * index + round) + 1;
            server.process.says(|text| (text.matches("testing").count() >= begun).then_some(()));
            thread::sleep(INTO_THE_TEST);
            client.signal(signal);
            let next = crate::pair::client(&server, "--transport verbs-write -s 8 -n 1");
            crate::pair::document(next.end_within(TIMEOUT + MARGIN), 0);
        }
    }
    drop(server);
    before.are_back();
}

#[test]
fn an_interrupt_ends_either_side() {
    let Some(_device) = device() else { return };
    let before = Resources::now();
    for pattern in PATTERNS {
        let server = server();
        let client = in_the_middle(&server, pattern);
        client.signal(Signal::INT);
        client.end_within(MARGIN).failed(130, &["interrupted"]);
        run(&server, "--transport verbs-send -s 8 -n 1", 0);
        drop(server);
    }
    for pattern in [PATTERNS[0], PATTERNS[3]] {
        let server = server();
        let client = in_the_middle(&server, pattern);
        server.process.signal(Signal::TERM);
        assert_eq!(server.process.end_within(MARGIN).code, Some(0));
        client.end_within(TIMEOUT + MARGIN).failed(4, &["lost the server"]);
    }
    before.are_back();
}

/// The deletion of rxe0, which lasts until nobody uses it; makes it again when dropped.
struct Deletion(Child);

impl Deletion {
    fn begin() -> Self {
        Self(Command::new("rdma").args(["link", "delete", "rxe0"]).spawn().unwrap())
    }

    #[track_caller]
    fn ends(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "somebody still uses rxe0");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let add = ["link", "add", "rxe0", "type", "rxe", "netdev", "v0"];
        let _ = Command::new("rdma").args(add).output();
    }
}

/// As when an adapter is pulled or its driver reset: the cells over it fail, the others do not.
#[test]
fn a_device_removed_under_load_fails_its_cells() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-write,tcp@v0 --pattern latency -s 64,128 --rounds 1 -D 3s \
                   --timeout 3s";
    let client = client(&server, options);
    server.process.says_word("testing");
    thread::sleep(INTO_THE_TEST);
    let mut deletion = Deletion::begin();
    let document = crate::pair::document(client.end(), 3);
    for size in [64, 128] {
        crate::document::measured(document.cell("tcp@v0", "latency", size));
        without_figures(
            document.cell("verbs-write", "latency", size),
            "failed",
            &["rxe0", "removed"],
        );
    }
    // The server has let go of it as well, and lives.
    deletion.ends();
    run(&server, "--transport tcp@v0 -s 8 -n 1", 0);
    drop(deletion);
    run(&server, "--transport verbs-write -s 8 -n 1", 0);
}
