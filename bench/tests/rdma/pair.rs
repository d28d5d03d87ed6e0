//! A server in the namespace `peer`, and clients here, over rxe0.

use std::{
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    document::Document,
    process::{Finished, PATIENCE, Running, Server},
};

/// The server's address on the veth pair that rxe0 is on.
const ADDRESS: &str = "10.77.1.2";

/// One test at a time has the device, also where they are threads of one process.
static DEVICE: Mutex<()> = Mutex::new(());

/// The device, or `None` where the test need not run.
pub fn device() -> Option<MutexGuard<'static, ()>> {
    if std::env::var("FABRICBENCH_DEVICE_TESTS").is_ok_and(|value| value == "1") {
        for path in ["/sys/class/infiniband/rxe0", "/run/netns/peer"] {
            let here = Path::new(path).exists();
            assert!(here, "FABRICBENCH_DEVICE_TESTS=1, but no {path}: run `ci/network up`");
        }
        return Some(DEVICE.lock().unwrap_or_else(PoisonError::into_inner));
    }
    eprintln!("skipped: FABRICBENCH_DEVICE_TESTS=1 is not set");
    None
}

/// A server in the namespace `peer`, as user and with limits that `wrapper` sets.
pub fn server_by(wrapper: &[&str], options: &str) -> Server {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", "peer"]).args(wrapper);
    command.arg(env!("CARGO_BIN_EXE_fabricbench"));
    command.args(["serve", "--port", "0", "--listen", ADDRESS]);
    Server::by(command.args(options.split_whitespace()))
}

pub fn server() -> Server {
    server_by(&[], "")
}

/// A server in this namespace, over the same device.
pub fn local_server() -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricbench"));
    Server::by(command.args(["serve", "--port", "0", "--listen", "127.0.0.1"]))
}

/// A document of a run that ended with `code` and without a complaint.
#[track_caller]
pub fn document(finished: Finished, code: i32) -> Document {
    Document::read(&finished.quietly(code).stdout)
}

/// Starts a client of `server`.
pub fn client(server: &Server, options: &str) -> Running {
    Running::start(&mut server.client(&format!("{options} --format json")))
}

/// Runs a client of `server` and reads its document.
#[track_caller]
pub fn run(server: &Server, options: &str, code: i32) -> Document {
    document(client(server, options).end(), code)
}

/// What the kernel holds for RDMA: queue pairs, regions and so on.
#[derive(Debug, PartialEq, Eq)]
pub struct Resources(String);

impl Resources {
    pub fn now() -> Self {
        let output = Command::new("rdma").args(["resource", "show"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(String::from_utf8(output.stdout).unwrap())
    }

    /// Waits until the kernel holds no more than it did: it cleans up after a process in its own
    /// time.
    #[track_caller]
    pub fn are_back(&self) {
        let deadline = Instant::now() + PATIENCE;
        while Self::now() != *self {
            assert!(Instant::now() < deadline, "{:?} instead of {self:?}", Self::now());
            thread::sleep(Duration::from_millis(50));
        }
    }
}
