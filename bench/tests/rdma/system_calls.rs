//! What a measurement asks of the kernel: nothing but what the provider's own posting does. (On rxe
//! each post is a system call; an adapter's provider makes none.)

use std::{collections::HashMap, fs, path::Path, process::Command};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    pair::{device, document, server_by},
    process::{Running, Server},
};

/// The calls of one thread in turn, as strace wrote them.
type Calls = Vec<String>;

/// Reads what `strace -f -y` wrote: lines of `NUMBER NAME(...`; the second half of a call that
/// another thread's interrupted (`NUMBER <... NAME resumed>`) and signals are none.
fn calls(log: &Path) -> Vec<Calls> {
    let mut threads = HashMap::<String, Calls>::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        let (thread, call) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        let call = call.trim_start();
        if call.starts_with(|first: char| first.is_ascii_alphabetic()) {
            threads.entry(thread.to_owned()).or_default().push(call.to_owned());
        }
    }
    threads.into_values().collect()
}

/// The most posts that one thread made with no other call between.
fn posts_in_a_row(log: &Path) -> usize {
    let is_post = |call: &String| call.starts_with("write(") && call.contains("/uverbs");
    let most = |calls: Calls| calls.split(|call| !is_post(call)).map(<[String]>::len).max();
    calls(log).into_iter().filter_map(most).max().unwrap_or(0)
}

/// Posts in a row of client and server in a run of `messages`, after one to warm up.
#[track_caller]
fn posts(options: &str, messages: usize) -> (usize, usize) {
    let directory = TempDir::new().unwrap();
    let path = |side: &str| directory.path().join(side).to_str().unwrap().to_owned();
    let (here, there) = (path("client"), path("server"));
    let strace = ["strace", "-f", "-y", "-s", "0", "-o"];
    // Traced, both are slow to give a sign of life.
    let server = server_by(&[&strace[..], &[&there]].concat(), "--timeout 30s");
    let mut command = Command::new(strace[0]);
    command.args(&strace[1..]).arg(&here).arg(env!("CARGO_BIN_EXE_fabricbench"));
    command.args(["run", &server.address.to_string()]).args(options.split_whitespace());
    let rest = format!("-n {messages} --warm-up 1 --rounds 1 --timeout 30s --format json");
    command.args(rest.split_whitespace());
    document(Running::start(&mut command).end(), 0);
    end_traced(server);
    (posts_in_a_row(here.as_ref()), posts_in_a_row(there.as_ref()))
}

/// Ends the server under its tracer, which then writes out its log and ends too.
fn end_traced(server: Server) {
    let tracer = server.process.id();
    let children = fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children")).unwrap();
    let traced = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    kill_process(traced, Signal::TERM).unwrap();
    assert_eq!(server.process.end().code, Some(0));
}

#[test]
fn a_ping_pong_makes_no_system_call_but_its_posts() {
    let Some(_device) = device() else { return };
    for transport in ["verbs-write", "verbs-send"] {
        for messages in [100, 200] {
            let options = format!("--transport {transport} --pattern latency -s 64");
            let posts = posts(&options, messages);
            // Each message is posted once on either side, that of the warm-up included.
            let once = messages + 1;
            assert_eq!(posts, (once, once), "{transport}, {messages} messages");
        }
    }
}

#[test]
fn a_push_makes_no_system_call_but_its_posts() {
    let Some(_device) = device() else { return };
    for transport in ["verbs-write", "verbs-send"] {
        let options = format!("--transport {transport} --pattern bandwidth -s 64");
        let [few, many] = [128, 256].map(|messages| posts(&options, messages).0);
        // Requests to confirm come on top, the same number whatever the messages.
        assert!((128..140).contains(&few), "{transport}: {few}");
        assert_eq!(many - few, 128, "{transport}");
    }
}
