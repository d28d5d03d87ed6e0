//! Settings that a sweep varies: which there are, which cells each of them touches, and the
//! combinations of their values.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GrpcTuning, Pattern, TransportName, VerbsOperation, display_bytes};

/// The most combinations of one sweep: a slip such as `depth=1:65536:+1` is not to plan for days.
pub const MOST_VARIANTS: usize = 1024;

/// A setting that a sweep can vary. Its name is that of the option that gives it one value.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Messages in flight.
    Depth,
    /// Threads on each side.
    Threads,
    /// Connections of each thread.
    Connections,
    /// Messages as protobuf, or raw.
    Serialized,
    /// Connections encrypted, or not.
    Tls,
    /// Messages copied to their place by the server, or not; of tensors by who receives them.
    Assign,
    /// Tensors each by a call of its own, or together.
    Coalesce,
    /// Calls marked, or not, or one in so many.
    Phases,
    /// What runs the client's side of gRPC, and the server's.
    Runtime,
    /// Threads of the server's side of gRPC.
    ServerThreads,
    /// Queue pairs.
    Qp,
    /// Messages posted by one call.
    PostList,
    /// Sends between two signalled ones.
    CqMod,
    /// Largest message sent inline.
    InlineSize,
    /// Receives kept posted.
    RxDepth,
    /// One receive queue for all queue pairs.
    Srq,
    /// How completions are waited for.
    Completions,
    /// Path MTU.
    Mtu,
    /// Which interface posts and polls.
    Post,
    /// Calls a second of an open loop.
    Rate,
    /// How the calls of an open loop follow one another.
    Arrivals,
    /// Pauses of a closed loop.
    Think,
}

type Row = (Axis, &'static str, fn(&TransportName, Pattern) -> bool);

/// Axis, its name, and whether it means anything to a transport in a pattern.
const TABLE: [Row; 22] = [
    (Axis::Depth, "depth", has_depth),
    (Axis::Threads, "threads", |_, pattern| !pattern.has_roles()),
    (Axis::Connections, "connections", has_connections),
    (Axis::Serialized, "serialized", is_tonic),
    (Axis::Tls, "tls", is_tonic),
    (Axis::Assign, "assign", |transport, pattern| {
        pattern.is_of_tensors() || is_tonic(transport, pattern) && pattern == Pattern::Bandwidth
    }),
    (Axis::Coalesce, "coalesce", |_, pattern| pattern.is_of_tensors()),
    (Axis::Phases, "phases", has_phases),
    (Axis::Runtime, "runtime", is_tonic),
    (Axis::ServerThreads, "server-threads", is_tonic),
    (Axis::Qp, "qp", is_pipelined),
    (Axis::PostList, "post-list", is_listed),
    (Axis::CqMod, "cq-mod", is_pipelined),
    (Axis::InlineSize, "inline-size", is_sent),
    (Axis::RxDepth, "rx-depth", |transport, pattern| {
        is_pipelined(transport, pattern) && is_received(transport)
    }),
    (Axis::Srq, "srq", |transport, pattern| is_received(transport) && !pattern.is_called()),
    (Axis::Completions, "completions", is_verbs),
    (Axis::Mtu, "mtu", is_verbs),
    (Axis::Post, "post", is_verbs),
    (Axis::Rate, "rate", is_scheduled),
    (Axis::Arrivals, "arrivals", is_scheduled),
    (Axis::Think, "think", |_, pattern| matches!(pattern, Pattern::Latency | Pattern::Calls)),
];

fn operation(transport: &TransportName) -> Option<VerbsOperation> {
    match transport {
        TransportName::Verbs(verbs) => Some(verbs.operation),
        TransportName::Grpc(..) | TransportName::Tcp(_) => None,
    }
}

fn is_verbs(transport: &TransportName, _: Pattern) -> bool {
    operation(transport).is_some()
}

/// gRPC by the library that has all its options.
fn is_tonic(transport: &TransportName, _: Pattern) -> bool {
    matches!(transport, TransportName::Grpc(GrpcTuning::Tuned | GrpcTuning::Stock, _))
}

/// Its calls can begin at times that are settled beforehand.
fn is_scheduled(_: &TransportName, pattern: Pattern) -> bool {
    pattern == Pattern::Calls
}

/// More than one of its sockets can be busy at once.
fn has_connections(transport: &TransportName, pattern: Pattern) -> bool {
    operation(transport).is_none() && pattern != Pattern::Latency && !pattern.has_roles()
}

/// Each of its messages has an answer of its own, and both sides are seen at work.
fn has_phases(transport: &TransportName, pattern: Pattern) -> bool {
    match pattern {
        Pattern::Latency | Pattern::Calls | Pattern::Ps => operation(transport).is_none(),
        // Over TCP a place in the stream tells a call, which is of one size then.
        Pattern::TensorPush | Pattern::TensorFetch => matches!(transport, TransportName::Grpc(..)),
        _ => false,
    }
}

/// It decides how many messages are under way.
fn has_depth(transport: &TransportName, pattern: Pattern) -> bool {
    match pattern {
        Pattern::Latency => false,
        Pattern::Fetch | Pattern::Calls | Pattern::Ps => true,
        Pattern::TensorPush | Pattern::TensorFetch => true,
        _ => transport.is_fitted_to_depth(),
    }
}

fn is_pipelined(transport: &TransportName, pattern: Pattern) -> bool {
    is_verbs(transport, pattern) && pattern != Pattern::Latency && !pattern.is_called()
}

fn is_listed(transport: &TransportName, pattern: Pattern) -> bool {
    // The operands of one compare-and-swap follow from the one before.
    is_pipelined(transport, pattern) && operation(transport) != Some(VerbsOperation::CompareSwap)
}

/// The message lies on the initiator's side.
fn is_sent(transport: &TransportName, _: Pattern) -> bool {
    operation(transport).is_some_and(|operation| !operation.is_one_sided())
}

fn is_received(transport: &TransportName) -> bool {
    operation(transport).is_some_and(VerbsOperation::takes_receive)
}

impl Axis {
    /// All of them, in the order in which a variant shows them.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static Row {
        // Every axis has its row: a test holds that.
        let [first, ..] = &TABLE;
        TABLE.iter().find(|row| row.0 == self).unwrap_or(first)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The axis of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Whether it makes a difference to `transport` in `pattern`.
    #[must_use]
    pub fn touches(self, transport: &TransportName, pattern: Pattern) -> bool {
        (self.row().2)(transport, pattern)
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A value on an axis, as its option takes it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Number(u64),
    /// Anything else.
    Word(String),
}

impl Value {
    /// Whether it turns a switch on.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Word(word) if matches!(word.as_str(), "on" | "yes"))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => f.pad(word),
        }
    }
}

/// What a cell has of its own, apart from the settings of the run: a value for each axis that
/// touches it. Shown as `[qp=4,post-list=16]`, and as nothing where nothing is swept.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Variant(BTreeMap<Axis, Value>);

impl Variant {
    /// Whether the cell has the settings of the run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value on one axis, if that touches the cell.
    #[must_use]
    pub fn get(&self, axis: Axis) -> Option<&Value> {
        self.0.get(&axis)
    }

    /// Axes and values, in the order of [`Axis::all`].
    pub fn iter(&self) -> impl Iterator<Item = (Axis, &Value)> {
        self.0.iter().map(|(&axis, value)| (axis, value))
    }

    /// The same without a value on `axis`.
    #[must_use]
    pub fn without(mut self, axis: Axis) -> Self {
        self.0.remove(&axis);
        self
    }

    /// The same with a value on one axis more.
    #[must_use]
    pub fn with(mut self, axis: Axis, value: Value) -> Self {
        self.0.insert(axis, value);
        self
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "[";
        for (axis, value) in &self.0 {
            match value {
                // As it is typed: without a space.
                Value::Number(size) if *axis == Axis::Coalesce => {
                    let size = display_bytes(*size).to_string().replace(' ', "");
                    write!(f, "{before}{axis}={size}")?;
                }
                value => write!(f, "{before}{axis}={value}")?,
            }
            before = ",";
        }
        if self.is_empty() { Ok(()) } else { f.write_str("]") }
    }
}

/// The values to try on each axis.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Sweep(BTreeMap<Axis, Vec<Value>>);

impl Sweep {
    /// Whether nothing is varied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The axes that are varied, each with its values.
    pub fn axes(&self) -> impl Iterator<Item = (Axis, &[Value])> {
        self.0.iter().map(|(&axis, values)| (axis, values.as_slice()))
    }

    /// Varies one axis more; `false` if it is varied already.
    pub fn add(&mut self, axis: Axis, values: Vec<Value>) -> bool {
        match self.0.entry(axis) {
            Entry::Vacant(place) => {
                place.insert(values);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Combinations of all values.
    #[must_use]
    pub fn combinations(&self) -> usize {
        self.0.values().fold(1, |all, values| all.saturating_mul(values.len()))
    }

    /// The combinations of the values on those axes that touch `transport` in `pattern`, the last
    /// axis turning fastest: one, with nothing of its own, where none does.
    #[must_use]
    pub fn variants(&self, transport: &TransportName, pattern: Pattern) -> Vec<Variant> {
        let touching = self.0.iter().filter(|(axis, _)| axis.touches(transport, pattern));
        touching.fold(vec![Variant::default()], |variants, (&axis, values)| {
            let with = |variant: &Variant, value: &Value| variant.clone().with(axis, value.clone());
            let each = |variant| values.iter().map(move |value| with(variant, value));
            variants.iter().flat_map(each).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> TransportName {
        text.parse().unwrap()
    }

    #[test]
    fn a_size_is_shown_as_sizes_are() {
        let of = |size| Variant::default().with(Axis::Coalesce, Value::Number(size)).to_string();
        assert_eq!((of(25 << 20), of(100)), ("[coalesce=25MiB]".into(), "[coalesce=100B]".into()));
        let depth = Variant::default().with(Axis::Depth, Value::Number(1024));
        assert_eq!(depth.to_string(), "[depth=1024]");
    }

    #[test]
    fn every_axis_has_its_row_and_is_written_by_its_name() {
        for axis in Axis::all() {
            assert_eq!(Axis::parse(axis.name()), Some(axis));
            assert_eq!(serde_json::to_value(axis).unwrap(), axis.name());
        }
        assert_eq!(Axis::parse("colour"), None);
    }

    #[test]
    fn an_axis_touches_what_it_makes_a_difference_to() {
        let touching = |transport: &str, pattern| -> Vec<_> {
            let transport = name(transport);
            Axis::all().filter(|axis| axis.touches(&transport, pattern)).map(Axis::name).collect()
        };
        let of_verbs = ["completions", "mtu", "post"];
        assert_eq!(
            touching("verbs-send", Pattern::Bandwidth),
            [
                &["depth", "threads", "qp", "post-list", "cq-mod", "inline-size"][..],
                &["rx-depth", "srq"],
                &of_verbs
            ]
            .concat()
        );
        assert_eq!(
            touching("verbs-write", Pattern::Latency),
            [&["threads", "inline-size"][..], &of_verbs, &["think"]].concat()
        );
        assert_eq!(
            touching("verbs-compare-swap", Pattern::Rate),
            [&["depth", "threads", "qp", "cq-mod"][..], &of_verbs].concat()
        );
        let streams = ["threads", "connections"];
        let fitted = [&["depth"][..], &streams].concat();
        let of_grpc = ["serialized", "tls", "runtime", "server-threads"];
        let called = [&of_grpc[..2], &["phases"], &of_grpc[2..]].concat();
        let grpc = [&fitted[..], &called].concat();
        let scheduled = ["rate", "arrivals", "think"];
        assert_eq!(touching("grpc@ipoib", Pattern::Calls), [&grpc[..], &scheduled].concat());
        let push = [&fitted[..], &["serialized", "tls", "assign"], &of_grpc[2..]].concat();
        assert_eq!(touching("grpc@ipoib", Pattern::Bandwidth), push);
        assert_eq!(
            touching("grpc@ipoib", Pattern::Latency),
            [&["threads"][..], &called, &["think"]].concat()
        );
        assert_eq!(touching("tcp@ipoib", Pattern::Bandwidth), streams);
        assert_eq!(touching("tcp@ipoib", Pattern::Fetch), fitted);
        let calls = [&fitted[..], &["phases"], &scheduled].concat();
        assert_eq!(touching("tcp@ipoib", Pattern::Calls), calls);
        assert_eq!(
            touching("verbs-send", Pattern::Calls),
            [&["depth", "threads", "inline-size"][..], &of_verbs, &scheduled].concat()
        );
        assert_eq!(touching("grpc-lean@ipoib", Pattern::Latency), ["threads", "phases", "think"]);
    }

    #[test]
    fn variants_are_the_product_of_what_touches() {
        let mut sweep = Sweep::default();
        assert_eq!(sweep.variants(&name("tcp@lo"), Pattern::Latency), [Variant::default()]);
        let numbers = |values: &[u64]| values.iter().copied().map(Value::Number).collect();
        assert!(sweep.add(Axis::PostList, numbers(&[1, 16])));
        assert!(sweep.add(Axis::Qp, numbers(&[1, 4])));
        assert!(!sweep.add(Axis::Qp, numbers(&[8])), "twice");
        assert_eq!(sweep.combinations(), 4);
        let shown = |transport: &str, pattern| -> Vec<_> {
            sweep.variants(&name(transport), pattern).iter().map(Variant::to_string).collect()
        };
        assert_eq!(
            shown("verbs-write", Pattern::Bandwidth),
            [
                "[qp=1,post-list=1]",
                "[qp=1,post-list=16]",
                "[qp=4,post-list=1]",
                "[qp=4,post-list=16]"
            ]
        );
        assert_eq!(shown("verbs-write", Pattern::Latency), [""]);
        assert_eq!(shown("grpc@ipoib", Pattern::Bandwidth), [""]);
        assert_eq!(shown("verbs-compare-swap", Pattern::Rate), ["[qp=1]", "[qp=4]"]);
    }

    #[test]
    fn a_variant_is_an_object_by_name() {
        let variant = Variant::default()
            .with(Axis::Completions, Value::Word("events".to_owned()))
            .with(Axis::Qp, Value::Number(4));
        let text = serde_json::to_string(&variant).unwrap();
        assert_eq!(text, r#"{"qp":4,"completions":"events"}"#);
        assert_eq!(serde_json::from_str::<Variant>(&text).unwrap(), variant);
    }
}
