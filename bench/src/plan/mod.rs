//! What to measure, as data: transports, patterns, sizes, payload and stop rule, expanded to an
//! ordered list of cells. Knows nothing of how any of it is done.

mod arrivals;
mod buffers;
mod model;
mod pattern;
mod payload;
mod size;
mod stop;
mod tensors;
mod transport;
mod variant;
mod verbs;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use arrivals::Arrivals;
pub use buffers::{BufferError, BufferSpec, Buffers, Category, MOST_BUFFERS, Scheme};
pub use model::{LARGEST_MODEL_FILE, MOST_TENSORS, Model, ModelError, Tensor};
pub use pattern::{MOST_ROLES, Pattern, Roles};
pub use payload::Payload;
pub use size::{MOST_SIZES, SizeError, Sizes, display_bytes, parse_bytes};
pub use stop::{LEAST_MESSAGES, Stop};
pub use tensors::{CALL_HEADER, CALL_REPLY, Coalesce, Placed, TensorCall, Tensors};
pub use transport::{GrpcTuning, TransportName, UnknownTransport};
pub use variant::{Axis, MOST_VARIANTS, Sweep, Value, Variant};
pub use verbs::{ATOMIC_BYTES, Service, VerbsName, VerbsOperation};

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

/// Everything that is measured in one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The cells in the order in which a report shows them: by pattern, then size, then transport,
    /// then variant.
    pub cells: Vec<Cell>,
    /// The transports in the order in which they were named.
    pub transports: Vec<TransportName>,
    /// What is varied.
    pub sweep: Sweep,
    /// When a cell has been measured enough.
    pub stop: Stop,
    /// In how many interleaved slices each cell is measured.
    pub rounds: u32,
    /// Orders the transports and variants within a size, anew for each round.
    pub seed: u64,
}

impl Plan {
    /// Every pattern at every size over every transport; atomics at their own size only. A pattern of
    /// tensors has one cell a transport, without a size, until it is told the [models](Self::modelled).
    ///
    /// Without patterns: for each transport its latency and what comes nearest to bandwidth.
    #[must_use]
    pub fn new(
        transports: &[TransportName],
        patterns: &[Pattern],
        sizes: &Sizes,
        stop: Stop,
        rounds: u32,
        seed: u64,
    ) -> Self {
        let mut all_sizes = sizes.as_slice().to_vec();
        if transports.iter().any(TransportName::is_atomic) {
            all_sizes.push(ATOMIC_BYTES);
            all_sizes.sort_unstable();
            all_sizes.dedup();
        }
        let wanted = |transport: &TransportName, pattern: Pattern| {
            if patterns.is_empty() {
                transport.usual_patterns().any(|usual| usual == pattern)
            } else {
                patterns.contains(&pattern)
            }
        };
        let sized = |transport: &TransportName, size: u64| {
            if transport.is_atomic() {
                size == ATOMIC_BYTES
            } else {
                sizes.as_slice().contains(&size)
            }
        };
        let order = if patterns.is_empty() { &Pattern::ALL[..] } else { patterns };
        let mut cells = Vec::new();
        for &pattern in order {
            if pattern.is_of_tensors() {
                let wanted = transports.iter().filter(|transport| wanted(transport, pattern));
                cells.extend(wanted.map(|transport| Cell::new(transport.clone(), pattern, 0)));
                continue;
            }
            for &size in &all_sizes {
                for transport in transports {
                    if wanted(transport, pattern) && sized(transport, size) {
                        cells.push(Cell::new(transport.clone(), pattern, size));
                    }
                }
            }
        }
        let (transports, sweep) = (transports.to_vec(), Sweep::default());
        Self { cells, transports, sweep, stop, rounds: rounds.max(1), seed }
    }

    /// The same with each cell in all variants of `sweep`, side by side.
    #[must_use]
    pub fn swept(self, sweep: Sweep) -> Self {
        let variants = |cell: Cell| {
            let variants = sweep.variants(&cell.transport, cell.pattern);
            variants.into_iter().map(move |variant| Cell { variant, ..cell.clone() })
        };
        let cells = self.cells.into_iter().flat_map(variants).collect();
        Self { cells, sweep, ..self }
    }

    /// The same with each message made of buffers, in each of `specs` that fits its size.
    #[must_use]
    pub fn buffered(self, specs: &[BufferSpec], shared_sizes: &Sizes) -> Self {
        let seed = self.seed;
        let fitting = |cell: &Cell| -> Vec<Option<Buffers>> {
            if cell.pattern.is_of_tensors() {
                return vec![None];
            }
            if cell.transport.is_atomic() || specs.is_empty() {
                return vec![specs.first().map(|spec| spec.buffers(cell.size, seed))];
            }
            let of = |spec: &BufferSpec| {
                let buffers = spec.buffers(cell.size, seed);
                let fits = match spec.has_own_size() {
                    true => buffers.total() == Some(cell.size),
                    false => shared_sizes.as_slice().contains(&cell.size),
                };
                fits.then_some(Some(buffers))
            };
            specs.iter().filter_map(of).collect()
        };
        let each = |cell: Cell| {
            fitting(&cell).into_iter().map(move |buffers| Cell { buffers, ..cell.clone() })
        };
        let cells = self.cells.into_iter().flat_map(each).collect();
        Self { cells, ..self }
    }

    /// The same with each cell of a pattern of tensors for each of `models`.
    #[must_use]
    pub fn modelled(self, models: &[Model]) -> Self {
        let of_one_pattern = self.cells.chunk_by(|one, next| one.pattern == next.pattern);
        let mut cells = Vec::new();
        for of in of_one_pattern {
            if !of.iter().any(|cell| cell.pattern.is_of_tensors()) {
                cells.extend_from_slice(of);
                continue;
            }
            for model in models {
                let tensors = Some(Tensors::of(model));
                let with = |cell: &Cell| Cell {
                    size: model.bytes(),
                    tensors: tensors.clone(),
                    ..cell.clone()
                };
                cells.extend(of.iter().map(with));
            }
        }
        Self { cells, ..self }
    }

    /// The same with so many parameter servers and workers.
    #[must_use]
    pub fn with_roles(mut self, roles: Roles) -> Self {
        for cell in &mut self.cells {
            cell.roles = cell.roles.map(|_| roles);
        }
        self
    }

    /// The same with replies of `size` bytes to all calls.
    #[must_use]
    pub fn with_reply(mut self, size: u64) -> Self {
        for cell in &mut self.cells {
            cell.reply = cell.reply.map(|_| size);
        }
        self
    }
}

/// The longest message of gRPC in bytes: its length has 32 bits.
const GRPC_LIMIT: u64 = u32::MAX as u64;

/// Calls of a step in flight on the connection to each server when nobody says otherwise.
const TENSOR_CALLS: u32 = 16;

/// How many messages of `cell` may be in flight when nobody says otherwise.
///
/// perftest's transmit depth is 128 whatever the size, which at 8 MiB would hold a GiB in flight;
/// 8 MiB in flight cover the bandwidth-delay product of 400 Gb/s at 160 us. What streams bring in a
/// fetch is more where messages are small: half of it is asked for at once, and a gRPC call costs as
/// much as some hundred small messages.
#[must_use]
pub fn default_depth(cell: &Cell) -> u32 {
    const BYTES_IN_FLIGHT: u64 = 8 << 20;
    let most = match (&cell.transport, cell.pattern) {
        // A worker waits for the replies of one step before the next.
        (_, Pattern::Latency | Pattern::Ps) => return 1,
        (_, Pattern::TensorPush | Pattern::TensorFetch) => return TENSOR_CALLS,
        (TransportName::Grpc(..) | TransportName::Tcp(_), Pattern::Fetch) => 8192,
        _ => 128,
    };
    // At least two, so that the wire does not idle while a completion is handled.
    u32::try_from((BYTES_IN_FLIGHT / cell.largest_message().max(1)).clamp(2, most)).unwrap_or(2)
}

/// Calls that may be under way on a connection of an open loop when nobody says otherwise: 1,024, and at
/// most 64 MiB of them. A server that stands still for a second is to be seen by those that would have
/// been made meanwhile, and memory is not to be the end of it.
#[must_use]
pub fn open_bound(cell: &Cell) -> u32 {
    const BYTES_IN_FLIGHT: u64 = 64 << 20;
    u32::try_from((BYTES_IN_FLIGHT / cell.largest_message().max(1)).clamp(2, 1024)).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_every_combination_in_reading_order() {
        let transports = ["verbs-write".parse().unwrap(), "tcp@lo".parse().unwrap()];
        let plan = Plan::new(
            &transports,
            &[Pattern::Latency, Pattern::Bandwidth],
            &Sizes::parse("1,8").unwrap(),
            Stop::default(),
            3,
            7,
        );
        let shown: Vec<_> = plan.cells.iter().map(Cell::to_string).collect();
        assert_eq!(
            shown,
            [
                "verbs-write latency 1 B",
                "tcp@loopback latency 1 B",
                "verbs-write latency 8 B",
                "tcp@loopback latency 8 B",
                "verbs-write bandwidth 1 B",
                "tcp@loopback bandwidth 1 B",
                "verbs-write bandwidth 8 B",
                "tcp@loopback bandwidth 8 B",
            ]
        );
    }

    #[test]
    fn what_a_transport_cannot_do_is_told_and_atomics_have_one_size() {
        let name = |text: &str| text.parse::<TransportName>().unwrap();
        let plan = Plan::new(
            &[name("verbs-read"), name("verbs-fetch-add"), name("verbs-send")],
            &[],
            &Sizes::parse("64,128").unwrap(),
            Stop::default(),
            1,
            7,
        );
        let shown: Vec<_> = plan.cells.iter().map(Cell::to_string).collect();
        assert_eq!(
            shown,
            [
                "verbs-fetch-add latency 8 B",
                "verbs-read latency 64 B",
                "verbs-send latency 64 B",
                "verbs-read latency 128 B",
                "verbs-send latency 128 B",
                "verbs-send bandwidth 64 B",
                "verbs-send bandwidth 128 B",
                "verbs-read fetch 64 B",
                "verbs-read fetch 128 B",
                "verbs-fetch-add rate 8 B",
            ]
        );
        assert!(plan.cells.iter().all(|cell| cell.impossible().is_none()));
        let cell = Cell::new(name("verbs-read"), Pattern::Bandwidth, 8);
        let reason = cell.impossible().unwrap();
        assert!(reason.ends_with("but in latency, fetch, rate"), "{reason}");
    }

    #[test]
    fn a_sweep_stands_side_by_side_and_multiplies_only_what_it_touches() {
        let names = ["verbs-write", "grpc@ipoib"].map(|name| name.parse().unwrap());
        let sizes = Sizes::parse("8,64").unwrap();
        let mut sweep = Sweep::default();
        sweep.add(Axis::Qp, vec![Value::Number(1), Value::Number(4)]);
        let plan = Plan::new(&names, &[], &sizes, Stop::default(), 1, 7).swept(sweep);
        let shown: Vec<_> = plan.cells.iter().map(Cell::to_string).collect();
        assert_eq!(
            shown,
            [
                "verbs-write latency 8 B",
                "grpc@ipoib latency 8 B",
                "verbs-write latency 64 B",
                "grpc@ipoib latency 64 B",
                "verbs-write[qp=1] bandwidth 8 B",
                "verbs-write[qp=4] bandwidth 8 B",
                "grpc@ipoib bandwidth 8 B",
                "verbs-write[qp=1] bandwidth 64 B",
                "verbs-write[qp=4] bandwidth 64 B",
                "grpc@ipoib bandwidth 64 B",
            ]
        );
        let told = serde_json::to_value(&plan.cells[4]).unwrap();
        assert_eq!(told, serde_json::to_value(&plan.cells[5]).unwrap(), "the server need not know");
    }

    #[test]
    fn depth_is_bounded_in_messages_and_in_bytes() {
        let depth = |transport: &str, pattern, size| {
            let transport = transport.parse().unwrap();
            default_depth(&Cell::new(transport, pattern, size))
        };
        let pushed = |size| depth("verbs-write", Pattern::Bandwidth, size);
        assert_eq!(pushed(1), 128);
        assert_eq!(pushed(64 << 10), 128);
        assert_eq!(pushed(1 << 20), 8);
        assert_eq!(pushed(1 << 30), 2);
        assert_eq!(pushed(u64::MAX), 2);
        assert_eq!(depth("grpc@lo", Pattern::Latency, 64), 1);
        assert_eq!(depth("grpc@lo", Pattern::Fetch, 64), 8192);
        assert_eq!(depth("grpc@lo", Pattern::Fetch, 64 << 10), 128);
        assert_eq!(depth("verbs-read", Pattern::Fetch, 64), 128);
        let calls = Cell::new("tcp@lo".parse().unwrap(), Pattern::Calls, 64);
        assert_eq!(default_depth(&Cell { reply: Some(1 << 20), ..calls }), 8);
    }
}
