//! The other guest, and what is done in it.

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    document::Document,
    process::{PATIENCE, Running, Server, TOKEN},
};

/// Where the other guest takes scripts; not over the network under test (`ci/guest`).
const OUT_OF_BAND: &str = "10.77.9.2:5000";

/// The other guest on the network under test.
const ADDRESS: &str = "10.77.1.2";

/// Where the server's process number is kept there.
const PID: &str = "/run/fabricbench-server.pid";

/// How long either side lets the other be silent.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// Beside the time-out: two guests of two processors each share those of the host.
pub const MARGIN: Duration = Duration::from_secs(8);

/// What is under way when something happens.
pub const PATTERNS: [&str; 4] = [
    "--transport verbs-write --pattern latency -s 64",
    "--transport verbs-send --pattern latency -s 64",
    "--transport verbs-write --pattern bandwidth -s 4K",
    "--transport verbs-send --pattern bandwidth -s 4K",
];

static PAIR: Mutex<()> = Mutex::new(());

/// Leave to do things to both guests, or `None` where the test need not run.
pub fn pair() -> Option<MutexGuard<'static, ()>> {
    if std::env::var("FABRICBENCH_PAIR_TESTS").is_ok_and(|value| value == "1") {
        return Some(PAIR.lock().unwrap_or_else(PoisonError::into_inner));
    }
    eprintln!("skipped: FABRICBENCH_PAIR_TESTS=1 is not set (it needs two guests: ci/test-pair)");
    None
}

/// Runs `script` by the other guest's shell, and returns what it wrote to standard output.
#[track_caller]
pub fn there(script: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    let mut stream = loop {
        match TcpStream::connect(OUT_OF_BAND) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < deadline, "{OUT_OF_BAND}: {error}"),
        }
        thread::sleep(Duration::from_millis(50));
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "( {script}\n) 2>&1 && echo ok").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap_or_else(|error| panic!("{script}: {error}"));
    match said.strip_suffix("ok\n") {
        Some(said) => said.to_owned(),
        None => panic!("in the other guest, {script}: {said}"),
    }
}

/// Runs `script` by this guest's shell.
#[track_caller]
pub fn here(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until `holds`.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// `fabricbench serve` in the other guest; killed when dropped.
pub struct Far(pub Server);

impl Far {
    #[track_caller]
    pub fn start() -> Self {
        let timeout = TIMEOUT.as_secs();
        let serve = format!(
            "echo $$ >{PID}; FABRICBENCH_TOKEN={TOKEN} exec {} serve --port 0 --listen {ADDRESS} --timeout {timeout}s 2>&1",
            env!("CARGO_BIN_EXE_fabricbench")
        );
        // The first line is what the server writes to standard output; notices follow.
        let reach = format!(
            "printf %s \"$1\" | busybox nc {} | \
             {{ IFS= read -r line && printf '%s\\n' \"$line\" && exec cat >&2; }}",
            OUT_OF_BAND.replace(':', " ")
        );
        Self(Server::by(Command::new("sh").args(["-c", &reach, "sh", &serve])))
    }

    pub fn kill(&self) {
        there(&format!("kill -KILL $(cat {PID})"));
    }

    /// Starts a client whose test goes on for a minute, and waits until it is in the middle of it.
    #[track_caller]
    pub fn in_the_middle(&self, pattern: &str) -> Running {
        let before = packets();
        let timeout = TIMEOUT.as_secs();
        let options = format!("{pattern} -D 60s --timeout {timeout}s --format json");
        let client = Running::start(&mut self.0.client(&options));
        until("traffic flows", || packets() > before + 200);
        client
    }

    /// Asserts that the next client is served, over verbs.
    #[track_caller]
    pub fn serves(&self) {
        let options = "--transport verbs-write,verbs-send --pattern latency -s 8 -n 10 --rounds 1 \
                       --format json";
        let finished = self.0.run(&format!("{options} --timeout 10s"));
        Document::read(&finished.quietly(0).stdout).all_measured(
            &["verbs-write", "verbs-send"],
            &["latency"],
            &[8],
        );
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = std::panic::catch_unwind(|| there(&format!("kill -KILL $(cat {PID}) || true")));
    }
}

/// Packets that rxe0 has sent from here.
fn packets() -> u64 {
    let path = "/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts";
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// What both kernels hold for RDMA.
#[derive(Debug, PartialEq, Eq)]
pub struct Resources([String; 2]);

impl Resources {
    #[track_caller]
    pub fn now() -> Self {
        let show = "rdma resource show";
        Self([here(show), there(show)])
    }

    /// Waits until both hold no more than they did: a kernel cleans up after a process in its own
    /// time.
    #[track_caller]
    pub fn are_back(&self) {
        until(&format!("the kernels hold {self:?}"), || Self::now() == *self);
    }
}
