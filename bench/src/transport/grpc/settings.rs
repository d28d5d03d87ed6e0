//! Options of a gRPC test, and the runtimes that they ask for.

use std::{fmt, sync::Mutex, thread};

use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use crate::transport::TransportError;

/// Options of a gRPC test, given once, on the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GrpcSettings {
    /// Whether a message is the field of a protobuf message, encoded and decoded.
    pub serialized: bool,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// Whether the server copies every message that it receives in a push to one place, as an
    /// assignment to a tensor does.
    #[serde(default)]
    pub assign: bool,
    /// The client's runtime.
    pub runtime: RuntimeKind,
    /// The server's.
    pub server_runtime: RuntimeKind,
}

impl GrpcSettings {
    /// Whether either side has threads beside the one that measures or serves.
    #[must_use]
    pub fn is_multi_threaded(&self) -> bool {
        [self.runtime, self.server_runtime].iter().any(|kind| *kind != RuntimeKind::CurrentThread)
    }
}

/// What runs the tasks of one thread's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeKind {
    /// The thread itself, which has the lowest latency.
    #[default]
    CurrentThread,
    /// Threads of its own.
    MultiThread {
        /// How many, at least 1; `None`: one for each processor.
        threads: Option<u32>,
    },
}

/// The most threads of a runtime: a slip of the finger is not to fill a machine with them.
pub const MOST_RUNTIME_THREADS: u32 = 256;

impl RuntimeKind {
    /// Reads `current-thread`, `multi-thread` or `multi-thread:N`.
    ///
    /// # Errors
    /// It is none of these, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let threads = |number: &str| match number.parse() {
            Ok(threads @ 1..=MOST_RUNTIME_THREADS) => Some(threads),
            _ => None,
        };
        match text.split_once(':') {
            None if text == "current-thread" => Ok(Self::CurrentThread),
            None if text == "multi-thread" => Ok(Self::MultiThread { threads: None }),
            Some(("multi-thread", number)) if threads(number).is_some() => {
                Ok(Self::MultiThread { threads: threads(number) })
            }
            _ => Err(format!(
                "`{text}` is no runtime; write current-thread, multi-thread, or multi-thread:N with N \
                 from 1 to {MOST_RUNTIME_THREADS}"
            )),
        }
    }

    /// Threads of its own.
    pub(in crate::transport) fn threads(self) -> u64 {
        match self {
            Self::CurrentThread => 0,
            Self::MultiThread { threads: Some(threads) } => threads.into(),
            Self::MultiThread { threads: None } => {
                thread::available_parallelism().map_or(1, |threads| threads.get() as u64)
            }
        }
    }

    /// Makes sure that its threads can be had, by having them for a moment: tokio panics where the
    /// system refuses one.
    ///
    /// # Errors
    /// They cannot.
    pub(super) fn admit(self) -> Result<(), TransportError> {
        let threads = self.threads();
        let hold = Mutex::new(());
        thread::scope(|scope| {
            // Until the last one is there.
            let _held = hold.lock();
            for _ in 0..threads {
                let wait = || drop(hold.lock());
                thread::Builder::new().spawn_scoped(scope, wait).map_err(|error| {
                    TransportError::Unsupported(format!(
                        "cannot start {threads} threads for gRPC: {error}; give fewer (--runtime, \
                         --server-threads), or raise the limit (ulimit -u, or TasksMax of a unit)"
                    ))
                })?;
            }
            Ok(())
        })
    }

    /// A runtime of this kind.
    ///
    /// # Errors
    /// There are no threads or descriptors for it, or more threads are asked for than anybody may.
    pub(super) fn build(self) -> Result<Runtime, TransportError> {
        let mut builder = match self {
            Self::CurrentThread => Builder::new_current_thread(),
            Self::MultiThread { threads } => {
                let mut builder = Builder::new_multi_thread();
                match threads {
                    None => {}
                    Some(threads @ 1..=MOST_RUNTIME_THREADS) => {
                        builder.worker_threads(threads as usize);
                    }
                    Some(threads) => {
                        return Err(TransportError::Unsupported(format!(
                            "a runtime of {threads} threads; from 1 to {MOST_RUNTIME_THREADS} are possible"
                        )));
                    }
                }
                builder
            }
        };
        self.admit()?;
        builder
            .enable_all()
            .build()
            .map_err(|error| TransportError::Failed(format!("no runtime for gRPC: {error}")))
    }
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CurrentThread => f.write_str("current-thread"),
            Self::MultiThread { threads: None } => f.write_str("multi-thread"),
            Self::MultiThread { threads: Some(threads) } => write!(f, "multi-thread:{threads}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_read_as_they_are_shown() {
        for text in ["current-thread", "multi-thread", "multi-thread:3"] {
            assert_eq!(RuntimeKind::parse(text).unwrap().to_string(), text);
        }
        for text in
            ["", "multi-thread:0", "multi-thread:x", "multi-thread:1025", "current-thread:2"]
        {
            assert!(RuntimeKind::parse(text).unwrap_err().contains("multi-thread:N"), "{text}");
        }
    }

    #[test]
    fn a_runtime_beyond_the_limit_is_refused() {
        for threads in [0, MOST_RUNTIME_THREADS + 1] {
            let kind = RuntimeKind::MultiThread { threads: Some(threads) };
            assert!(matches!(kind.build(), Err(TransportError::Unsupported(_))));
        }
    }
}
