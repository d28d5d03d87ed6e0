//! One thing to measure, and why it may be that there is no such thing.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Buffers, Pattern, Roles, Tensors, TransportName, Variant, VerbsName, VerbsOperation,
    display_bytes,
};

/// The longest message of gRPC in bytes: its length has 32 bits.
const GRPC_LIMIT: u64 = u32::MAX as u64;

/// One thing to measure: the coordinates of a figure in the result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// How the message travels.
    pub transport: TransportName,
    /// Who sends what.
    pub pattern: Pattern,
    /// Message size in bytes; of calls that of a request, of tensors that of all of them.
    pub size: u64,
    /// Size of a reply in bytes: of calls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<u64>,
    /// Parameter servers and workers: of the patterns `ps`, `tensor-push` and `tensor-fetch` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Roles>,
    /// The buffers that a message, or a request, is made of; `None`: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers: Option<Buffers>,
    /// What a step moves: of the patterns `tensor-push` and `tensor-fetch` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensors: Option<Tensors>,
    /// What it has of its own of the settings. Not told to the server, to which the settings
    /// themselves are.
    #[serde(skip)]
    pub variant: Variant,
}

/// The reply to a call when nobody says otherwise, in bytes: an acknowledgement.
pub const DEFAULT_REPLY: u64 = 1;

impl Cell {
    /// A cell with the defaults of all that the coordinates do not say.
    #[must_use]
    pub fn new(transport: TransportName, pattern: Pattern, size: u64) -> Self {
        let reply = pattern.is_called().then_some(DEFAULT_REPLY);
        let roles = pattern.has_roles().then(Roles::default);
        let variant = Variant::default();
        Self { transport, pattern, size, reply, roles, buffers: None, tensors: None, variant }
    }

    /// Size of a reply in bytes; 0 where there is none.
    #[must_use]
    pub fn reply_size(&self) -> u64 {
        self.reply.unwrap_or(0)
    }

    /// Messages of one operation: a step of the pattern `ps` calls every server.
    #[must_use]
    pub fn messages_each(&self) -> u64 {
        match (self.pattern, self.roles) {
            (Pattern::Ps, Some(roles)) => roles.servers.into(),
            _ => 1,
        }
    }

    /// Parameter servers; 1 where there is but the one server.
    #[must_use]
    pub fn servers(&self) -> u32 {
        self.roles.map_or(1, |roles| roles.servers)
    }

    /// What the far side counts of so many messages: messages, of tensors each of them, and bytes.
    #[must_use]
    pub fn arrivals(&self, messages: u64) -> (u64, u64) {
        let each = self.tensors.as_ref().map_or(1, |tensors| tensors.lengths.len() as u64);
        (messages.saturating_mul(each), messages.saturating_mul(self.size))
    }

    /// The larger of message and reply, in bytes; of tensors the largest call.
    #[must_use]
    pub fn largest_message(&self) -> u64 {
        match &self.tensors {
            Some(tensors) => tensors.largest_call(self.servers()),
            None => self.size.max(self.reply_size()),
        }
    }

    /// Whether its latency is that of a full round trip: no half of it is the same as the other.
    #[must_use]
    pub fn is_full_round_trip(&self) -> bool {
        self.pattern.is_called()
            || self.pattern.is_of_tensors()
            || matches!(&self.transport, TransportName::Verbs(verbs) if verbs.operation.is_one_sided())
    }

    /// Whether the far side's processor does not notice its messages.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(&self.transport, TransportName::Verbs(VerbsName { operation, .. })
            if *operation == VerbsOperation::Read)
    }

    /// Whether messages may be lost without an error.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        matches!(&self.transport, TransportName::Verbs(verbs) if verbs.service.is_lossy())
    }

    /// Why there is no such cell, whatever the hosts; `None` if there is.
    #[must_use]
    pub fn impossible(&self) -> Option<String> {
        let possible = self.transport.patterns();
        if !possible.contains(&self.pattern) {
            let names: Vec<_> = possible.iter().map(|pattern| pattern.name()).collect();
            return Some(format!(
                "{} is not measured in the pattern {}, but in {}",
                self.transport,
                self.pattern,
                names.join(", ")
            ));
        }
        if let Some(tensors) = &self.tensors {
            return tensors
                .impossible(self.size, self.servers())
                .or_else(|| self.over_grpc_limit());
        }
        let buffers = self.buffers.as_ref()?;
        self.impossible_in_buffers().or_else(|| buffers.impossible(self.size))
    }

    /// Why gRPC does not carry the largest call of a step.
    fn over_grpc_limit(&self) -> Option<String> {
        let TransportName::Grpc(..) = &self.transport else { return None };
        let Tensors { model, coalesce, .. } = self.tensors.as_ref()?;
        let largest = self.largest_message();
        (largest > GRPC_LIMIT).then(|| {
            format!(
                "model {model} with --coalesce {coalesce} has a call of {largest} B, and {GRPC_LIMIT} B is the \
                 longest message of gRPC; give --coalesce 25M, or more --servers"
            )
        })
    }

    /// Why no message of its transport and pattern is made of several buffers.
    fn impossible_in_buffers(&self) -> Option<String> {
        let Self { transport, pattern, .. } = self;
        match transport {
            TransportName::Verbs(verbs) if verbs.operation.is_one_sided() => Some(format!(
                "{transport} has its message in one buffer; in several (--buffers) are those of verbs' \
                 writes and sends, of gRPC and of TCP"
            )),
            TransportName::Tcp(_) if *pattern == Pattern::Bidirectional => Some(format!(
                "{transport} has its message in one buffer in the pattern {pattern}; in several (--buffers) it \
                 has them in the other patterns"
            )),
            _ => None,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, pattern, size, buffers, tensors, variant, .. } = self;
        let model = tensors.as_ref().map(|tensors| tensors.model.as_str());
        let size = display_size(*size, buffers.as_ref(), model);
        write!(f, "{transport}{variant} {pattern} {size}")
    }
}

/// A size as people write it, and of several buffers which, or of which model: `1 MiB in 10`, `5 B in
/// 2+3`, `102228128 B of resnet-50`.
#[must_use]
pub fn display_size(size: u64, buffers: Option<&Buffers>, model: Option<&str>) -> String {
    let size = display_bytes(size);
    match (buffers, model) {
        (_, Some(model)) => format!("{size} of {model}"),
        (Some(Buffers { shape, .. }), None) => format!("{size} in {shape}"),
        (None, None) => size.to_string(),
    }
}
