//! What cells are measured with: the settings of the run, and those of each variant.

use std::collections::BTreeMap;

use crate::{
    plan::{
        Arrivals, Axis, Cell, Pattern, Think, TransportName, Value, Variant, default_depth,
        open_bound,
    },
    transport::{
        VerbsSettings,
        grpc::{GrpcSettings, RuntimeKind},
    },
};

/// Everything that options set and a sweep may vary, on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Messages in flight in a push; `None`: [`default_depth`].
    pub depth: Option<u32>,
    /// Threads on each side, each with connections of its own.
    pub threads: u32,
    /// Connections of each thread, of TCP and gRPC.
    pub connections: u32,
    /// Calls of which one is marked, so that its phases can be told; `None`: none is.
    pub phases: Option<u32>,
    /// Calls a second that begin on a schedule; `None`: a closed loop.
    pub rate: Option<u64>,
    /// How those follow one another.
    pub arrivals: Arrivals,
    /// Pauses between a reply and the next call; `None`: a call follows at once.
    pub think: Option<Think>,
    /// Options of gRPC.
    pub grpc: GrpcSettings,
    /// Options of verbs for the client's side.
    pub verbs: VerbsSettings,
    /// Options of verbs for the server's side.
    pub peer_verbs: VerbsSettings,
}

impl Settings {
    /// Calls a second of `cell`, and how they follow one another, where it is an open loop.
    #[must_use]
    pub fn offered(&self, cell: &Cell) -> Option<(u64, Arrivals)> {
        let touched = Axis::Rate.touches(&cell.transport, cell.pattern);
        // One that was searched for is the cell's alone.
        let rate = match cell.variant.get(Axis::Rate) {
            Some(Value::Number(rate)) => Some(*rate),
            _ => self.rate,
        };
        rate.filter(|_| touched).map(|rate| (rate, self.arrivals))
    }

    /// Pauses in `cell`, where it has any.
    #[must_use]
    pub fn thinks(&self, cell: &Cell) -> Option<Think> {
        let touched = Axis::Think.touches(&cell.transport, cell.pattern);
        self.think.filter(|_| touched && self.offered(cell).is_none())
    }

    /// Messages in flight in `cell`.
    #[must_use]
    pub fn depth(&self, cell: &Cell) -> u32 {
        match cell.pattern {
            Pattern::Latency => 1,
            _ => self.depth.unwrap_or_else(|| match self.offered(cell) {
                Some(_) => open_bound(cell),
                None => default_depth(cell),
            }),
        }
    }

    /// Whether a side has several threads.
    #[must_use]
    pub fn is_multi_threaded(&self) -> bool {
        self.threads > 1 || self.grpc.is_multi_threaded()
    }

    /// Why `cell` cannot be measured with these, whatever the hosts; `None` if it can.
    #[must_use]
    pub fn impossible(&self, cell: &Cell) -> Option<String> {
        if let Some(reason) = cell.impossible() {
            return Some(reason);
        }
        if self.connections > 1 && !Axis::Connections.touches(&cell.transport, cell.pattern) {
            return Some(without_connections(cell));
        }
        if self.phases.is_some() && !Axis::Phases.touches(&cell.transport, cell.pattern) {
            let Cell { transport, pattern, .. } = cell;
            return Some(format!(
                "--phases: {transport} in the pattern {pattern} has no calls whose phases are seen, which gRPC \
                 and TCP have in the patterns latency, calls and ps, and gRPC in those of tensors; name those, \
                 or give --sweep phases=yes, \
                 which leaves others as they are"
            ));
        }
        if self.rate.is_some() && !Axis::Rate.touches(&cell.transport, cell.pattern) {
            return Some(format!(
                "--rate: the pattern {} has no calls that begin on a schedule: gRPC, TCP, and verbs' writes and \
                 sends have them with --pattern calls; name those, or give --sweep rate=N, which leaves others as \
                 they are",
                cell.pattern
            ));
        }
        if self.think.is_some() && !Axis::Think.touches(&cell.transport, cell.pattern) {
            return Some(format!(
                "--think: the pattern {} has no pauses, which latency and calls have; name those, or give --sweep \
                 think=TIME, which leaves others as they are",
                cell.pattern
            ));
        }
        let GrpcSettings { serialized, tls, assign, runtime, server_runtime } = self.grpc;
        let single = RuntimeKind::CurrentThread;
        for (axis, is_given, value) in [
            (Axis::Serialized, serialized, "yes"),
            (Axis::Tls, tls, "yes"),
            (Axis::Assign, assign, "yes"),
            (Axis::Runtime, runtime != single, "RUNTIME"),
            (Axis::ServerThreads, server_runtime != single, "N"),
        ] {
            if is_given && !axis.touches(&cell.transport, cell.pattern) {
                let Cell { transport, pattern, .. } = cell;
                return Some(format!(
                    "--{axis}: {transport} has no such thing in the pattern {pattern}, which grpc@PATH \
                     and grpc-stock@PATH have; \
                     leave one of them out, or give --sweep {axis}={value}, which leaves others as they \
                     are"
                ));
            }
        }
        let (list, depth) = (self.verbs.post_list, self.depth(cell));
        // Under the depth by size, a list that is the run's is cut where messages are large; one that
        // the cell bears in its name is not.
        let meant = self.depth.is_some() || cell.variant.get(Axis::PostList).is_some();
        let listed = Axis::PostList.touches(&cell.transport, cell.pattern);
        (listed && meant && list > depth).then(|| {
            format!(
                "--post-list {list} posts more at once than the {depth} in flight of --depth; give \
                 a shorter list or a larger depth"
            )
        })
    }
}

/// Why `cell` has one connection.
fn without_connections(cell: &Cell) -> String {
    let Cell { transport, pattern, .. } = cell;
    let why = match transport {
        TransportName::Verbs(_) => "it has queue pairs: give -q",
        _ if pattern.has_roles() => "its workers have one to each server: give --workers",
        _ => "one message in flight is on one connection: give --pattern calls",
    };
    format!(
        "--connections: {transport} in the pattern {pattern} has one connection, since {why}, or \
         --sweep connections=N, which leaves this as it is"
    )
}

/// The settings of the run, and of each variant that a sweep plans.
#[derive(Debug, Clone)]
pub struct Variants {
    run: Settings,
    own: BTreeMap<Variant, Settings>,
}

impl Variants {
    /// `run` for cells without a variant, `own` for those with one.
    #[must_use]
    pub fn new(run: Settings, own: BTreeMap<Variant, Settings>) -> Self {
        Self { run, own }
    }

    /// The settings of `variant`: where its rate was searched for, those of the same without a rate.
    #[must_use]
    pub fn of(&self, variant: &Variant) -> &Settings {
        let searched = || match variant.get(Axis::Rate) {
            Some(_) => self.own.get(&variant.clone().without(Axis::Rate)),
            None => None,
        };
        self.own.get(variant).or_else(searched).unwrap_or(&self.run)
    }

    /// All of them, those of the run first.
    pub fn iter(&self) -> impl Iterator<Item = &Settings> {
        std::iter::once(&self.run).chain(self.own.values())
    }

    /// All of them, to be changed alike.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Settings> {
        std::iter::once(&mut self.run).chain(self.own.values_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(depth: Option<u32>, post_list: u32) -> Settings {
        let verbs = VerbsSettings { post_list, ..VerbsSettings::default() };
        Settings {
            depth,
            threads: 1,
            connections: 1,
            phases: None,
            rate: None,
            arrivals: Arrivals::Constant,
            think: None,
            grpc: GrpcSettings::default(),
            peer_verbs: verbs.clone(),
            verbs,
        }
    }

    fn cell(transport: &str, pattern: Pattern, size: u64) -> Cell {
        Cell::new(transport.parse().unwrap(), pattern, size)
    }

    #[test]
    fn a_list_longer_than_the_depth_is_impossible_where_there_are_lists() {
        let push = cell("verbs-write", Pattern::Bandwidth, 8);
        let reason = settings(Some(16), 64).impossible(&push).unwrap();
        assert!(reason.contains("--post-list 64") && reason.contains("the 16 in flight"));
        assert_eq!(settings(Some(64), 64).impossible(&push), None);
        for other in [
            cell("verbs-write", Pattern::Latency, 8),
            cell("verbs-compare-swap", Pattern::Rate, 8),
            cell("tcp@lo", Pattern::Bandwidth, 8),
        ] {
            assert_eq!(settings(Some(16), 64).impossible(&other), None, "{other}");
        }
    }

    #[test]
    fn several_connections_are_impossible_where_there_is_one() {
        let several = Settings { connections: 2, ..settings(None, 1) };
        let reason = |transport, pattern| several.impossible(&cell(transport, pattern, 8));
        let refused = reason("grpc@lo", Pattern::Latency).unwrap();
        assert!(refused.contains("grpc@loopback in the pattern latency"), "{refused}");
        assert!(reason("verbs-send", Pattern::Bandwidth).unwrap().contains("give -q"));
        for pattern in [Pattern::Bandwidth, Pattern::Bidirectional, Pattern::Fetch, Pattern::Calls]
        {
            assert_eq!(reason("tcp@lo", pattern), None);
        }
    }

    #[test]
    fn what_only_grpc_has_is_impossible_for_others_and_named() {
        let tls = Settings {
            grpc: GrpcSettings { tls: true, ..GrpcSettings::default() },
            ..settings(None, 1)
        };
        let reason = |transport| tls.impossible(&cell(transport, Pattern::Latency, 8));
        assert!(reason("tcp@lo").unwrap().starts_with("--tls: tcp@loopback has no such thing"));
        assert!(reason("verbs-send").unwrap().contains("--sweep tls=yes"));
        assert_eq!((reason("grpc@lo"), reason("grpc-stock@lo")), (None, None));
    }

    /// 8 MiB in flight are eight messages of 1 MiB.
    #[test]
    fn under_the_depth_by_size_only_a_list_in_the_cells_name_is_impossible() {
        let large = cell("verbs-write", Pattern::Bandwidth, 1 << 20);
        assert_eq!(settings(None, 64).impossible(&large), None);
        let variant = Variant::default().with(Axis::PostList, Value::Number(64));
        let named = Cell { variant, ..large };
        assert!(settings(None, 64).impossible(&named).unwrap().contains("the 8 in flight"));
    }

    #[test]
    fn a_variant_without_settings_of_its_own_has_the_runs() {
        let variant = Variant::default().with(Axis::Depth, Value::Number(4));
        let own = BTreeMap::from([(variant.clone(), settings(Some(4), 1))]);
        let variants = Variants::new(settings(None, 1), own);
        assert_eq!(variants.of(&variant).depth, Some(4));
        assert_eq!(variants.of(&Variant::default()).depth, None);
        assert_eq!(variants.iter().count(), 2);
    }
}
