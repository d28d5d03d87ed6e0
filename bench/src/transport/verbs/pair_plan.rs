//! What a pair is made for, and what follows from that.

use fabricbench_verbs::Access;

use super::{layout::Shape, pieces::Message};
use crate::{
    plan::{Cell, Pattern, Payload, VerbsName, VerbsOperation},
    transport::{CompletionMode, VerbsSettings},
};

/// Receives kept posted where a side waits for one message at a time.
const FEW_RECEIVES: u32 = 16;

/// The same beside those of the pieces of messages, which may be long.
const SPARE_RECEIVES: u32 = 4;

/// Places in the send queue of a ping-pong: those of unsignalled sends come free only with the
/// next signalled one, one in 16.
const PING_DEPTH: u32 = 64;

/// Places in a send queue beside those of the messages: for flushes and control messages.
const SPARE_SENDS: u32 = 4;

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
    /// Whether it is the side that answers.
    pub answers: bool,
}

/// Whether a responder sleeps also where completions are to be polled for, since messages leave no trace.
#[must_use]
pub fn responder_sleeps(pattern: Pattern, operation: VerbsOperation) -> bool {
    let waits =
        !matches!(pattern, Pattern::Latency | Pattern::Bidirectional) && !pattern.is_called();
    operation == VerbsOperation::Write && waits
}

impl PairPlan {
    /// Receives to keep posted on each queue pair: where messages take them as many as are asked for,
    /// else a few for control messages. Pieces take one each, and none that is under way shall find
    /// none.
    pub(super) fn receives(&self, message: &Message) -> u32 {
        if self.receives_pieces(message) {
            let messages = match self.cell.pattern {
                // The one that is awaited, which may come twice.
                Pattern::Latency if self.verbs.service.is_lossy() => 2,
                Pattern::Latency => 1,
                _ => self.depth.max(1) + 1,
            };
            // Those of a shared queue are for all queue pairs together.
            let queues = if self.settings.shared_receives { self.lanes() } else { 1 };
            let pieces = message.pieces().saturating_mul(messages).saturating_mul(queues);
            return pieces.saturating_add(SPARE_RECEIVES);
        }
        match self.cell.pattern {
            Pattern::Latency => FEW_RECEIVES,
            // None that is under way shall find none.
            Pattern::Calls | Pattern::Ps if self.verbs.operation.takes_receive() => {
                self.depth.saturating_add(FEW_RECEIVES)
            }
            Pattern::Calls | Pattern::Ps => FEW_RECEIVES,
            _ if self.verbs.operation.takes_receive() => self.settings.receive_depth.max(2),
            _ => FEW_RECEIVES,
        }
    }

    /// Bytes of a message that this side sends: a reply, where it answers calls.
    pub(super) fn outgoing(&self) -> u64 {
        match self.cell.reply {
            Some(reply) if self.answers => reply,
            _ => self.cell.size,
        }
    }

    /// Bytes of a message that this side gets.
    pub(super) fn incoming(&self) -> u64 {
        match self.cell.reply {
            Some(reply) if !self.answers => reply,
            _ => self.cell.size,
        }
    }

    /// Places for messages that a lane has at each end: where calls are written one each, for those in
    /// flight.
    pub(super) fn slots(&self) -> u32 {
        let written = self.cell.pattern.is_called() && self.verbs.operation.is_write();
        if written { self.depth.max(1) } else { 1 }
    }

    /// Queue pairs; a ping-pong has one, and who makes or answers calls one to each of the others.
    pub(super) fn lanes(&self) -> u32 {
        match self.cell.pattern {
            Pattern::Latency | Pattern::Calls => 1,
            Pattern::Ps => {
                let roles = self.cell.roles.unwrap_or_default();
                if self.answers { roles.workers } else { roles.servers }
            }
            _ => self.settings.queue_pairs.max(1),
        }
    }

    /// Bytes of each buffer that a message is gathered from; empty where it is in one.
    pub(super) fn buffers(&self) -> &[u64] {
        match &self.cell.buffers {
            // A reply is in one.
            _ if self.cell.pattern.is_called() && self.answers => &[],
            Some(buffers) if buffers.lengths.len() > 1 => &buffers.lengths,
            _ => &[],
        }
    }

    /// Messages that are posted by one call.
    pub(super) fn list(&self) -> u32 {
        match self.cell.pattern {
            Pattern::Latency => 1,
            // Its operands differ from one to the next, and a list is made once.
            _ if self.verbs.operation == VerbsOperation::CompareSwap => 1,
            _ => self.settings.post_list.clamp(1, self.depth.max(1)),
        }
    }

    /// The operation that carries the messages: where memory would have to be polled for them and
    /// is not, a write tells its arrival by an immediate.
    pub(super) fn noticed(&self) -> VerbsOperation {
        let polled = self.settings.completions == CompletionMode::Poll;
        match (self.cell.pattern, self.verbs.operation) {
            (Pattern::Latency | Pattern::Calls | Pattern::Ps, VerbsOperation::Write) if !polled => {
                VerbsOperation::WriteImm
            }
            (_, operation) => operation,
        }
    }

    /// The plan of a responder. Where messages leave no trace, it has nothing to poll for but a
    /// request to confirm, once or twice a slice: it sleeps until then, and the processor is left
    /// to those who have work (in soft-RoCE, the receiver's half of the protocol).
    #[must_use]
    pub fn of_responder(mut self) -> Self {
        self.answers = true;
        if responder_sleeps(self.cell.pattern, self.verbs.operation) {
            self.settings.completions = CompletionMode::Events;
        }
        self
    }

    /// Where pieces of messages may be lost, each tells its number by an immediate.
    #[must_use]
    pub(super) fn numbered(&self, message: &Message) -> VerbsOperation {
        let lossy = self.verbs.service.is_lossy();
        match self.verbs.operation {
            VerbsOperation::Send if lossy && message.is_split() => VerbsOperation::SendImm,
            operation => operation,
        }
    }

    /// Whether the pieces of a message take a receive each; a message that is written reliably takes
    /// one at its end.
    pub(super) fn receives_pieces(&self, message: &Message) -> bool {
        let each = match self.verbs.operation {
            VerbsOperation::WriteImm => self.verbs.service.is_lossy(),
            operation => operation.takes_receive(),
        };
        each && message.is_split()
    }

    /// Places to have in the send queue of each queue pair.
    pub(super) fn sends(&self, message: &Message) -> u32 {
        let messages = match self.cell.pattern {
            Pattern::Latency if !message.is_split() => return PING_DEPTH,
            Pattern::Calls | Pattern::Ps => return self.depth.saturating_add(PING_DEPTH),
            // The one before may not have been taken note of.
            Pattern::Latency => 2,
            _ => self.depth.max(1),
        };
        message.pieces().saturating_mul(messages).saturating_add(SPARE_SENDS)
    }

    /// What memory it takes, for messages behind `header` bytes when they are received.
    pub(super) fn shape(&self, message: &Message, header: usize) -> Shape<'_> {
        let sent = matches!(self.verbs.operation, VerbsOperation::Send | VerbsOperation::SendImm);
        let called = self.cell.pattern.is_called();
        // No longer than a message can be, which has 31 bits.
        let incoming = u32::try_from(self.incoming()).unwrap_or(u32::MAX);
        Shape {
            size: message.size(),
            buffers: self.buffers(),
            target: match called {
                true if sent => 0,
                true => incoming as usize,
                false => message.size(),
            },
            slots: self.slots(),
            received: match sent {
                true if called => incoming,
                true => message.piece(),
                false => 0,
            },
            // A piece is compared where it was received.
            shared: !self.receives_pieces(message),
            header,
            receives: self.receives(message),
            lanes: self.lanes(),
            // An atomic's result is compared with what it should be each time.
            watched: self.is_stamped(message)
                || self.polls_for_calls()
                || self.verbs.operation.is_atomic(),
        }
    }

    /// Whether the last byte of a message is a stamp: where memory is polled for it, and where a
    /// message may come twice because its answer was lost and has no number.
    pub(super) fn is_stamped(&self, message: &Message) -> bool {
        self.cell.pattern == Pattern::Latency
            && (self.verbs.operation == VerbsOperation::Write
                || (self.verbs.service.is_lossy() && !message.is_split()))
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
