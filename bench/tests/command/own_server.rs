//! A run without a host starts a server process of its own, which never outlives it.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    document::Document,
    process::{PATIENCE, Running, fabricbench, run},
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
