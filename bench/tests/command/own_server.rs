//! A run without a host starts a server process of its own, which never outlives it.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    document::{Document, measured},
    process::{PATIENCE, Running, Server, fabricbench, run},
};

/// Parent and state of a process, from `/proc/PID/stat`: the fields after the name in parentheses.
fn stat(id: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn children(of: u32) -> Vec<u32> {
    let ids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|&id| stat(id).is_some_and(|(_, parent)| parent == of)).collect()
}

#[track_caller]
fn the_child(of: &Running) -> u32 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let [child] = children(of.id())[..] {
            return child;
        }
        assert!(Instant::now() < deadline, "no server process");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A zombie that nobody has waited for yet has ended as well.
#[track_caller]
fn ends(id: u32) {
    let deadline = Instant::now() + PATIENCE;
    while stat(id).is_some_and(|(state, _)| state != "Z") {
        assert!(Instant::now() < deadline, "the server process {id} is still there");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Without transports a run measures what there can be between the two sides, whether it started
/// the server itself or was told an address of this host.
#[test]
fn a_server_on_this_host_is_measured_over_loopback() {
    let server = Server::with("--listen 0.0.0.0");
    let port = server.address.port();
    let mut documents = vec![run("run -s 8 -n 1 --format json")];
    for host in ["127.0.0.1", "localhost"].map(str::to_owned).into_iter().chain(an_address()) {
        documents.push(run(&format!("run {host}:{port} -s 8 -n 1 --format json")));
    }
    for finished in documents {
        let document = Document::read(&finished.stdout);
        let names = serde_json::json!(["verbs-write", "verbs-send", "grpc@loopback"]);
        assert_eq!(document.0["plan"]["transports"], names);
        for pattern in ["latency", "bandwidth"] {
            measured(document.cell("grpc@loopback", pattern, 8));
        }
        assert_eq!(document.cells().len(), 6);
    }
}

/// An address of this host that is not loopback's, if it has one.
fn an_address() -> Option<String> {
    let mut interfaces = fabricbench_ipoib::interfaces().unwrap().into_iter();
    interfaces.find_map(|interface| {
        let mut addresses = interface.addresses.iter().map(|address| address.ip);
        addresses.find(|ip| ip.is_ipv4() && !ip.is_loopback()).map(|ip| ip.to_string())
    })
}

fn long_run() -> Running {
    Running::start(&mut fabricbench(
        "run --transport tcp@loopback -s 8 -D 60s --timeout 2s --format json",
    ))
}

#[test]
fn it_is_gone_after_the_run() {
    let client = Running::start(&mut fabricbench("run --transport tcp@loopback -s 8 -D 0.3s"));
    let server = the_child(&client);
    client.end().quietly(0);
    assert_eq!(stat(server), None);
}

#[test]
fn it_is_gone_after_the_client_was_killed() {
    let client = long_run();
    let server = the_child(&client);
    thread::sleep(Duration::from_millis(500));
    client.signal(Signal::KILL);
    assert_eq!(client.end().code, None);
    ends(server);
}

#[test]
fn its_loss_ends_the_run() {
    let client = long_run();
    let server = the_child(&client);
    thread::sleep(Duration::from_millis(700));
    kill_process(Pid::from_raw(server.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let finished = client.end_within(Duration::from_secs(10)).failed(4, &["lost the server"]);
    Document::read(&finished.stdout);
}

#[test]
fn its_hanging_ends_the_run_and_it() {
    let client = long_run();
    let server = the_child(&client);
    thread::sleep(Duration::from_millis(700));
    kill_process(Pid::from_raw(server.cast_signed()).unwrap(), Signal::STOP).unwrap();
    let finished = client.end_within(Duration::from_secs(10)).failed(4, &["silent for 2s"]);
    Document::read(&finished.stdout);
    assert_eq!(stat(server), None);
}

/// A terminal sends its interrupt to the whole process group.
#[test]
fn an_interrupt_of_both_is_an_interrupt() {
    use std::os::unix::process::CommandExt as _;
    for _ in 0..3 {
        let mut command = fabricbench("run --transport tcp@loopback -s 8 -D 60s --format json");
        let client = Running::start(command.process_group(0));
        let server = the_child(&client);
        thread::sleep(Duration::from_millis(700));
        let group = Pid::from_raw(client.id().cast_signed()).unwrap();
        rustix::process::kill_process_group(group, Signal::INT).unwrap();
        let finished = client.end_within(Duration::from_secs(10)).failed(130, &["interrupted"]);
        Document::read(&finished.stdout);
        ends(server);
    }
}

#[test]
fn several_runs_at_once_do_not_meet() {
    let options = "run --transport tcp@loopback,grpc@loopback -s 8 -n 20 --cpus none";
    let runs: Vec<_> = (0..4).map(|_| Running::start(&mut fabricbench(options))).collect();
    for run in runs {
        run.end().quietly(0);
    }
    run(options).quietly(0);
}

/// Each thread has a connection of its own, and their messages add up.
#[test]
fn threads_share_the_messages_over_tcp_and_grpc() {
    let finished =
        run("run --transport tcp@lo,grpc@lo -s 1K -n 100 --rounds 2 --threads 3 --format json");
    let document = Document::read(&finished.quietly(0).stdout);
    document.all_measured(&["tcp@loopback", "grpc@loopback"], &["latency", "bandwidth"], &[1024]);
    for cell in document.cells() {
        assert_eq!(cell["settings"]["messages"], 100);
        assert_eq!(cell["settings"]["transport"]["threads"], "3");
    }
}
