//! What to measure, as data: transports, patterns, sizes, payload and stop rule, expanded to an
//! ordered list of cells. Knows nothing of how any of it is done.

mod arrivals;
mod buffers;
mod cell;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod knee;
mod model;
mod pattern;
mod payload;
mod precision;
mod size;
mod stop;
mod tensors;
mod think;
mod transport;
mod variant;
mod verbs;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use arrivals::{Arrivals, MOST_CALLS_PER_SECOND};
pub use buffers::{BufferError, BufferSpec, Buffers, Category, MOST_BUFFERS, Scheme};
pub use cell::{Cell, DEFAULT_REPLY, display_size};
pub use knee::{KneeFigure, KneeRule, KneeRuleError};
pub use model::{LARGEST_MODEL_FILE, MOST_TENSORS, Model, ModelError, Tensor};
pub use pattern::{MOST_ROLES, Pattern, Roles};
pub use payload::Payload;
pub use precision::{Precision, PrecisionError};
pub use size::{MOST_SIZES, SizeError, Sizes, display_bytes, parse_bytes};
pub use stop::{LEAST_MESSAGES, Stop};
pub use tensors::{CALL_HEADER, CALL_REPLY, Coalesce, Placed, TensorCall, Tensors};
pub use think::{Think, ThinkError, ThinkSpread};
pub use transport::{GrpcTuning, TransportName, UnknownTransport};
pub use variant::{Axis, MOST_VARIANTS, Sweep, Value, Variant};
pub use verbs::{ATOMIC_BYTES, Service, VerbsName, VerbsOperation};

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
    /// When a cell has been measured enough; with a budget, of no meaning.
    pub stop: Stop,
    /// In how many interleaved slices each cell is measured; with a precision, the least.
    pub rounds: u32,
    /// Orders patterns and sizes, and the transports and variants of each, anew for each round.
    pub seed: u64,
    /// How narrowly figures are to be known: what is, is done before `stop` says so.
    pub precision: Option<Precision>,
    /// Time for all of it, set-up and warm-up included; it is shared out among the cells.
    pub budget: Option<Duration>,
    /// Whether rates are searched for in the cells of calls that have none, and by which rule their knee is
    /// told.
    pub search: Option<KneeRule>,
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
        let order: &[Pattern] = if patterns.is_empty() { &Pattern::ALL } else { patterns };
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
        let (precision, budget, search) = (None, None, None);
        let rounds = rounds.max(1);
        Self { cells, transports, sweep, stop, rounds, seed, precision, budget, search }
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
