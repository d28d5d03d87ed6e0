//! Network namespaces: those that `ip netns` named, and nameless ones for tests.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::panic;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::configure::Configuration;
use crate::error::Error;

/// Where `ip netns` keeps the namespaces that it names.
const NAMED: &str = "/run/netns";
/// The MTU, in bytes, that the kernel gives loopback: 64 KiB.
const LOOPBACK_MTU: u32 = 65_536;

/// A network namespace, kept alive.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    name: String,
}

impl Namespace {
    /// Makes a namespace without a name, with loopback up. It is gone when this is dropped and
    /// nothing in it runs any more, so a test that is killed leaves none behind.
    ///
    /// # Errors
    ///
    /// When the caller may not make one, or not bring its loopback up.
    pub fn new() -> Result<Self, Error> {
        let refused = |source| Error::Namespace { name: "of its own".to_owned(), source };
        on_a_thread_of_its_own(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| refused(errno.into()))?;
            Configuration::open("lo")
                .and_then(|mut loopback| loopback.bring_up(LOOPBACK_MTU))
                .map_err(|source| Error::step("bring up", "lo", source))?;
            let file = File::open("/proc/thread-self/ns/net").map_err(refused)?;
            Ok(Self { file, name: "without a name".to_owned() })
        })
    }

    /// The namespace that `ip netns add NAME` made.
    ///
    /// # Errors
    ///
    /// When there is none of that name.
    pub fn named(name: &str) -> Result<Self, Error> {
        let file = File::open(Path::new(NAMED).join(name))
            .map_err(|source| Error::Namespace { name: name.to_owned(), source })?;
        Ok(Self { file, name: name.to_owned() })
    }

    /// A file that stands for it, for other processes to enter it by (`nsenter --net=PATH`),
    /// for as long as this lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", process::id(), self.file.as_raw_fd()).into()
    }

    /// Runs `work` in the namespace, and so are the processes that it starts. On a thread of
    /// its own: a namespace is a thread's, and the caller's stays as it is.
    ///
    /// # Errors
    ///
    /// When the caller may not enter it.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        on_a_thread_of_its_own(|| {
            setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(|errno| Error::Namespace {
                name: self.name.clone(),
                source: io::Error::from(errno),
            })?;
            Ok(work())
        })
    }
}

fn on_a_thread_of_its_own<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}
