//! What a pair is made for, and what follows from that.

use fabricbench_verbs::Access;

use super::layout::Shape;
use crate::{
    plan::{Cell, Pattern, Payload, VerbsName, VerbsOperation},
    transport::{CompletionMode, VerbsSettings},
};

/// Receives kept posted where a side waits for one message at a time.
const FEW_RECEIVES: u32 = 16;

/// What a pair is made for.
#[derive(Debug, Clone)]
pub struct PairPlan {
    /// Pattern and size.
    pub cell: Cell,
    /// Service and operation.
    pub verbs: VerbsName,
    /// What the messages are filled with.
    pub payload: Payload,
    /// Messages in flight at the most, on each queue pair.
    pub depth: u32,
    /// Options.
    pub settings: VerbsSettings,
}

impl PairPlan {
    /// Receives to keep posted on each queue pair: where messages take them one a message, else a
    /// few for control messages.
    pub(super) fn receives(&self) -> u32 {
        match self.cell.pattern {
            Pattern::Latency => FEW_RECEIVES,
            _ if self.verbs.operation.takes_receive() => self.settings.receive_depth.max(2),
            _ => FEW_RECEIVES,
        }
    }

    /// Queue pairs; a ping-pong has one.
    pub(super) fn lanes(&self) -> u32 {
        match self.cell.pattern {
            Pattern::Latency => 1,
            _ => self.settings.queue_pairs.max(1),
        }
    }

    /// The operation that carries the messages: where memory would have to be polled for them and
    /// is not, a write tells its arrival by an immediate.
    pub(super) fn noticed(&self) -> VerbsOperation {
        let polled = self.settings.completions == CompletionMode::Poll;
        match (self.cell.pattern, self.verbs.operation) {
            (Pattern::Latency, VerbsOperation::Write) if !polled => VerbsOperation::WriteImm,
            (_, operation) => operation,
        }
    }

    /// The plan of a responder. Where messages leave no trace, it has nothing to poll for but a
    /// request to confirm, once or twice a slice: it sleeps until then, and the processor is left
    /// to those who have work (in soft-RoCE, the receiver's half of the protocol).
    #[must_use]
    pub fn of_responder(mut self) -> Self {
        let traceless = self.verbs.operation == VerbsOperation::Write;
        if traceless && !matches!(self.cell.pattern, Pattern::Latency | Pattern::Bidirectional) {
            self.settings.completions = CompletionMode::Events;
        }
        self
    }

    /// What memory it takes, for messages of `size` bytes behind `header` bytes when they are
    /// received.
    pub(super) fn shape(&self, size: u32, header: usize) -> Shape {
        let sent = matches!(self.verbs.operation, VerbsOperation::Send | VerbsOperation::SendImm);
        Shape {
            size,
            received: if sent { size } else { 0 },
            header,
            receives: self.receives(),
            lanes: self.lanes(),
            // An atomic's result is compared with what it should be each time.
            watched: self.is_stamped() || self.verbs.operation.is_atomic(),
        }
    }

    /// Whether the last byte of a message is a stamp: where memory is polled for it, and where a
    /// message may come twice because its answer was lost.
    pub(super) fn is_stamped(&self) -> bool {
        self.cell.pattern == Pattern::Latency
            && (self.verbs.service.is_lossy() || self.verbs.operation == VerbsOperation::Write)
    }

    /// The least that the peer must be allowed.
    pub(super) fn access(&self) -> Access {
        match self.verbs.operation {
            VerbsOperation::Write | VerbsOperation::WriteImm => {
                Access::LOCAL_WRITE | Access::REMOTE_WRITE
            }
            VerbsOperation::Send | VerbsOperation::SendImm => Access::LOCAL_WRITE,
            VerbsOperation::Read => Access::LOCAL_WRITE | Access::REMOTE_READ,
            VerbsOperation::FetchAdd | VerbsOperation::CompareSwap => {
                Access::LOCAL_WRITE | Access::REMOTE_ATOMIC
            }
        }
    }
}
