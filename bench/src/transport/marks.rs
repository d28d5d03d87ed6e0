//! Marks of calls: when one call in so many passes from stage to stage, on both sides of gRPC and TCP.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use fabricbench_grpc::marks::{CallMarks, Recorder, Sampling, Side, Ticks};

use crate::clock::{Clock, TscClock};

/// Marked calls kept of all connections of a slice together.
const MOST_KEPT: u64 = 1024;

/// Marked calls kept of a connection at the least, however many connections there are.
const LEAST_KEPT: u64 = 16;

/// How a side marks the calls of a slice.
#[derive(Clone)]
pub struct Marking {
    one_in: u32,
    sampling: Sampling,
    clock: Arc<dyn Ticks>,
}

impl Marking {
    /// One call in `one_in`, by `clock`, on each of `connections` in all. Both sides give the same `seed`,
    /// and so mark the same calls.
    #[must_use]
    pub fn new(
        one_in: u32,
        connections: u64,
        seed: u64,
        clock: &(impl Clock + Clone + Send + Sync + 'static),
    ) -> Self {
        let clock = clock.clone();
        let capacity = (MOST_KEPT / connections.max(1)).max(LEAST_KEPT) as usize;
        let sampling = Sampling { every: one_in, seed, capacity };
        Self { one_in, sampling, clock: Arc::new(move || clock.now()) }
    }

    /// Calls of which one is marked.
    pub(super) fn one_in(&self) -> u32 {
        self.one_in
    }

    /// Which calls.
    pub(super) fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// The clock.
    pub(super) fn clock(&self) -> Arc<dyn Ticks> {
        self.clock.clone()
    }

    /// For one connection.
    pub(super) fn recorder(&self, side: Side) -> Arc<Recorder> {
        Recorder::new(self.sampling, side, self.clock())
    }
}

impl fmt::Debug for Marking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marking").field("sampling", &self.sampling).finish_non_exhaustive()
    }
}

/// What was marked of a connection on one side, in ticks of that side's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedConnection {
    /// The client's address of it, which both sides know.
    pub client: SocketAddr,
    /// Calls that ended, in that order.
    pub calls: Vec<CallMarks>,
}

/// What the responders of a slice mark: the clock, and where they leave it.
#[derive(Debug, Clone)]
pub struct ServerMarks {
    connections: u64,
    // Made when it is needed: the first one of a process is calibrated.
    clock: Arc<OnceLock<TscClock>>,
    marked: Arc<Mutex<Vec<MarkedConnection>>>,
}

impl ServerMarks {
    /// Nothing yet, of `connections` in all.
    #[must_use]
    pub fn new(connections: u64) -> Self {
        Self { connections, clock: Arc::default(), marked: Arc::default() }
    }

    /// How a responder marks one call in `one_in`.
    #[must_use]
    pub fn marking(&self, one_in: u32, seed: u64) -> Marking {
        Marking::new(one_in, self.connections, seed, self.clock())
    }

    /// Whose ticks they are.
    #[must_use]
    pub fn clock(&self) -> &TscClock {
        self.clock.get_or_init(TscClock::new)
    }

    /// Keeps what was marked of some connections.
    pub(super) fn keep(&self, connections: impl IntoIterator<Item = MarkedConnection>) {
        // Nothing that holds the lock can panic half-way through.
        self.marked.lock().unwrap_or_else(PoisonError::into_inner).extend(connections);
    }

    /// All that was kept. It is forgotten here.
    #[must_use]
    pub fn take(&self) -> Vec<MarkedConnection> {
        std::mem::take(&mut self.marked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
