//! Who sends what, and how many take part.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who sends what, and what is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Ping-pong: one message out, the same message back, one in flight.
    Latency,
    /// Push: messages one way, as many in flight as the depth allows, the last one confirmed by
    /// the receiver before the clock stops.
    Bandwidth,
    /// Push in both directions at once; figures are the sum of both.
    Bidirectional,
    /// The initiator takes data from the far side, as many requests in flight as the depth allows.
    Fetch,
    /// Operations a second, as many in flight as the depth allows.
    Rate,
    /// Request and reply: as many calls in flight as the depth allows, each of them timed.
    Calls,
    /// Workers, each of which calls every parameter server at once: a step, which is timed until all
    /// have replied.
    Ps,
    /// Workers, each of which sends all tensors of a model to the parameter servers that have them: a
    /// step.
    TensorPush,
    /// Workers, each of which asks the parameter servers for all tensors of a model: a step.
    TensorFetch,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Latency,
        Self::Bandwidth,
        Self::Bidirectional,
        Self::Fetch,
        Self::Rate,
        Self::Calls,
        Self::Ps,
        Self::TensorPush,
        Self::TensorFetch,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Bidirectional => "bidirectional",
            Self::Fetch => "fetch",
            Self::Rate => "rate",
            Self::Calls => "calls",
            Self::Ps => "ps",
            Self::TensorPush => "tensor-push",
            Self::TensorFetch => "tensor-fetch",
        }
    }
}

impl Pattern {
    /// Whether its messages are requests, each of which is answered by a reply.
    #[must_use]
    pub fn is_called(self) -> bool {
        matches!(self, Self::Calls | Self::Ps)
    }

    /// Whether its steps move the tensors of a model.
    #[must_use]
    pub fn is_of_tensors(self) -> bool {
        matches!(self, Self::TensorPush | Self::TensorFetch)
    }

    /// Whether its workers have connections to all parameter servers.
    #[must_use]
    pub fn has_roles(self) -> bool {
        self == Self::Ps || self.is_of_tensors()
    }

    /// Whether it is told in bytes a second.
    #[must_use]
    pub fn is_of_bytes(self) -> bool {
        matches!(self, Self::Bandwidth | Self::Bidirectional | Self::Fetch) || self.is_of_tensors()
    }

    /// Whether each of its operations is timed.
    #[must_use]
    pub fn is_timed(self) -> bool {
        self == Self::Latency || self.is_called() || self.is_of_tensors()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The most parameter servers, and the most workers: each server may have a thread for each worker.
pub const MOST_ROLES: u32 = 64;

/// How many take part in a pattern of parameter servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Roles {
    /// Parameter servers.
    pub servers: u32,
    /// Workers, each with a connection to every server.
    pub workers: u32,
}

impl Default for Roles {
    fn default() -> Self {
        Self { servers: 1, workers: 1 }
    }
}
