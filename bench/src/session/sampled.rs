//! Marked calls of a slice, from the marks of both sides: durations only, since the clocks of two hosts are
//! not compared.

use std::{fmt, net::SocketAddr};

use fabricbench_grpc::marks::{CallMarks, Mark};
use serde::{Deserialize, Serialize};

use crate::{
    clock::Clock,
    plan::{Cell, Pattern, TransportName},
    transport::MarkedConnection,
};

/// A border between stages: a mark, and the stage that ends with it.
type Border = (Mark, &'static str);

/// The client's side of a call of gRPC.
const CLIENT: [Border; 10] = [
    (Mark::Begin, ""),
    (Mark::EncodeBegin, "start"),
    (Mark::EncodeEnd, "encode"),
    (Mark::WriteBegin, "queue"),
    (Mark::WriteEnd, "write"),
    (Mark::ReadBegin, WIRE_AND_PEER),
    (Mark::ReadEnd, "read"),
    (Mark::DecodeBegin, "deliver"),
    (Mark::DecodeEnd, "decode"),
    (Mark::End, "finish"),
];

/// The server's side of it.
const SERVER: [Border; 10] = [
    (Mark::ReadBegin, ""),
    (Mark::ReadEnd, "read"),
    (Mark::DecodeBegin, "deliver"),
    (Mark::DecodeEnd, "decode"),
    (Mark::HandlerBegin, "dispatch"),
    (Mark::HandlerEnd, "handler"),
    (Mark::EncodeBegin, "return"),
    (Mark::EncodeEnd, "encode"),
    (Mark::WriteBegin, "queue"),
    (Mark::WriteEnd, "write"),
];

/// The same of a call whose tensors are assigned on the server, which is all that its handler does.
const ASSIGNING_SERVER: [Border; 10] = {
    let mut borders = SERVER;
    borders[5] = (Mark::HandlerEnd, "assign");
    borders
};

/// The client's side of a call over TCP.
const TCP_CLIENT: [Border; 6] = [
    (Mark::Begin, ""),
    (Mark::WriteBegin, "queue"),
    (Mark::WriteEnd, "write"),
    (Mark::ReadBegin, WIRE_AND_PEER),
    (Mark::ReadEnd, "read"),
    (Mark::End, "finish"),
];

/// The server's side of it.
const TCP_SERVER: [Border; 4] = [
    (Mark::ReadBegin, ""),
    (Mark::ReadEnd, "read"),
    (Mark::WriteBegin, "handler"),
    (Mark::WriteEnd, "write"),
];

/// The stage that a client only sees the ends of.
const WIRE_AND_PEER: &str = "wire + peer";

/// A stage of a call, or several between which there is no mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase(&'static [Border]);

impl Phase {
    /// Whether it is the time between the last byte of the request and the first of the reply, and nothing
    /// more.
    #[must_use]
    pub fn is_wire_and_peer(self) -> bool {
        matches!(self.0, [(_, WIRE_AND_PEER)])
    }

    /// Whether that time is in it, perhaps with other stages.
    fn has_wire_and_peer(self) -> bool {
        self.0.iter().any(|(_, name)| *name == WIRE_AND_PEER)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (_, name)) in self.0.iter().enumerate() {
            write!(f, "{}{name}", if index > 0 { " + " } else { "" })?;
        }
        Ok(())
    }
}

/// A phase and how long it took, in nanoseconds.
pub type Span = (Phase, u64);

/// A marked call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledCall {
    /// Its connection, a number among those of the slice, from 0.
    pub connection: usize,
    /// Its number on the connection.
    pub call: u64,
    /// When it was handed over, in nanoseconds of the client's clock.
    pub begin: u64,
    /// The client's phases, one after the other without a gap.
    pub client: Vec<Span>,
    /// The server's part, if it is known; it took no longer than the time between the begin of the call and
    /// the end of its slice.
    pub server: Option<Served>,
}

impl SampledCall {
    /// From its begin to its end, in nanoseconds: the sum of the client's phases.
    #[must_use]
    pub fn whole(&self) -> u64 {
        self.client.iter().map(|(_, time)| time).sum()
    }

    /// The time between the last byte of the request and the first of the reply, in nanoseconds; `None` where
    /// that cannot be told from other phases.
    #[must_use]
    pub fn wire_and_peer(&self) -> Option<u64> {
        let span = self.client.iter().find(|(phase, _)| phase.is_wire_and_peer())?;
        Some(span.1)
    }

    /// When the server's phases began if both ways took equally long, in nanoseconds after the begin of the
    /// call, and in the middle of which phase of the client's they are then: a picture, and no measurement.
    #[must_use]
    pub fn server_begin(&self) -> Option<(i64, Phase)> {
        let server = self.server.as_ref()?;
        let place = self.client.iter().position(|(phase, _)| phase.has_wire_and_peer())?;
        let (phase, time) = *self.client.get(place)?;
        let before: u64 = self.client.iter().take(place).map(|(_, time)| time).sum();
        let all = Serial { after: 0, time: server.whole() };
        let Serial { after, time: stretch } =
            server.serial.filter(|_| phase.is_wire_and_peer()).unwrap_or(all);
        let [before, time, stretch, after] =
            [before, time, stretch, after].map(|time| i64::try_from(time).unwrap_or(i64::MAX / 8));
        Some((before + (time - stretch) / 2 - after, phase))
    }
}

/// The server's part of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Its phases, one after the other without a gap.
    pub phases: Vec<Span>,
    /// The stretch of them that the client waits for.
    pub serial: Option<Serial>,
}

impl Served {
    /// From the begin of its first phase to the end of its last, in nanoseconds.
    #[must_use]
    pub fn whole(&self) -> u64 {
        self.phases.iter().map(|(_, time)| time).sum()
    }
}

/// From the read that brought the last byte of a request to the end of the first write of its reply.
/// Before and after it, both sides work at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serial {
    /// Nanoseconds from the begin of the server's phases to its begin.
    pub after: u64,
    /// Nanoseconds.
    pub time: u64,
}

/// The marks that a server took of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedConnection {
    /// The client's address of it.
    pub client: SocketAddr,
    /// Calls that ended.
    pub calls: Vec<ServedCall>,
}

/// The marks that a server took of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedCall {
    /// Its number on the connection.
    pub call: u64,
    /// For each of [`Mark::ALL`], nanoseconds since the first that was taken; `None` where none was.
    pub marks: Vec<Option<u64>>,
}

impl ServedCall {
    /// What was marked, by `clock`.
    fn of(marks: &CallMarks, clock: &impl Clock) -> Self {
        let first = Mark::ALL.into_iter().filter_map(|mark| marks.get(mark)).min();
        let since = |at| clock.nanoseconds(first.unwrap_or(at), at);
        let times = Mark::ALL.into_iter().map(|mark| marks.get(mark).map(since));
        Self { call: marks.call, marks: times.collect() }
    }

    fn get(&self, mark: Mark) -> Option<u64> {
        *self.marks.get(mark as usize)?
    }

    fn phases(&self, borders: &'static [Border]) -> Option<Served> {
        let phases = phases(borders, |mark| self.get(mark))?;
        let from = borders.iter().find_map(|(mark, _)| self.get(*mark))?;
        let serial = || {
            let begin = self.get(Mark::LastReadBegin)?;
            let time = self.get(Mark::FirstWriteEnd)?.checked_sub(begin)?;
            Some(Serial { after: begin.checked_sub(from)?, time })
        };
        Some(Served { serial: serial(), phases })
    }
}

/// What a server tells of what it marked.
pub(super) fn told(
    connections: Vec<MarkedConnection>,
    clock: &impl Clock,
) -> Vec<ServedConnection> {
    let connection = |MarkedConnection { client, calls }| ServedConnection {
        client,
        calls: calls.iter().map(|marks| ServedCall::of(marks, clock)).collect(),
    };
    connections.into_iter().map(connection).collect()
}

/// The times between those borders that have a mark, each under the names of all stages in it. `None` if
/// the marks contradict one another, or there are fewer than two.
fn phases(borders: &'static [Border], at: impl Fn(Mark) -> Option<u64>) -> Option<Vec<Span>> {
    let mut spans = Vec::with_capacity(borders.len());
    let mut last = None;
    for (index, (mark, _)) in borders.iter().enumerate() {
        let Some(now) = at(*mark) else { continue };
        if let Some((begun, before)) = last {
            spans.push((Phase(borders.get(begun + 1..=index)?), now.checked_sub(before)?));
        }
        last = Some((index, now));
    }
    (!spans.is_empty()).then_some(spans)
}

/// The marked calls of a slice of `cell`, and how many of the client's marks contradict one another:
/// those are left out. `here` are the client's marks by `clock`, `there` the server's.
pub(super) fn sampled(
    cell: &Cell,
    here: &[MarkedConnection],
    there: &[ServedConnection],
    clock: &impl Clock,
) -> (Vec<SampledCall>, u64) {
    let assigns = cell.pattern == Pattern::TensorPush
        && cell.tensors.as_ref().is_some_and(|tensors| tensors.assign);
    let (client, server): (&'static [Border], &'static [Border]) = match &cell.transport {
        TransportName::Tcp(_) => (&TCP_CLIENT, &TCP_SERVER),
        _ if assigns => (&CLIENT, &ASSIGNING_SERVER),
        TransportName::Grpc(..) | TransportName::Verbs(_) => (&CLIENT, &SERVER),
    };
    let now = clock.now();
    let (mut calls, mut contradictory) = (Vec::new(), 0);
    for (connection, MarkedConnection { client: address, calls: marked }) in here.iter().enumerate()
    {
        let mut same = there.iter().filter(|there| there.client == *address);
        // Two of one address would be told apart by nothing.
        let served = same.next().filter(|_| same.next().is_none());
        for marks in marked {
            let Some(begin) = marks.get(Mark::Begin) else { continue };
            let at = |mark| marks.get(mark).map(|at| signed(clock, begin, at));
            let Some(phases) = whole(client, at) else {
                contradictory += 1;
                continue;
            };
            let served = served.and_then(|served| {
                let call = served.calls.iter().find(|call| call.call == marks.call)?;
                // What it tells may be anything. It ended before it was told.
                let most = clock.nanoseconds(begin, now);
                call.phases(server).filter(|served| served.whole() <= most)
            });
            let begin = clock.nanoseconds(0, begin);
            calls.push(SampledCall {
                connection,
                call: marks.call,
                begin,
                client: phases,
                server: served,
            });
        }
    }
    (calls, contradictory)
}

/// Nanoseconds after `begin`; of what is before it, so many that no later mark can follow.
fn signed(clock: &impl Clock, begin: u64, at: u64) -> u64 {
    if at < begin { u64::MAX } else { clock.nanoseconds(begin, at) }
}

/// The phases from the first border to the last, which must both be marked.
fn whole(borders: &'static [Border], at: impl Fn(Mark) -> Option<u64>) -> Option<Vec<Span>> {
    let ends = [borders.first()?.0, borders.last()?.0];
    ends.iter().all(|&end| at(end).is_some()).then(|| phases(borders, at))?
}

/// A call over gRPC of which the first phases took so long, for tests of what is made of it.
#[cfg(test)]
pub(crate) fn made_call(times: &[u64]) -> SampledCall {
    let phase = |index: usize| Phase(&CLIENT[index + 1..=index + 1]);
    let client = times.iter().enumerate().map(|(index, &time)| (phase(index), time)).collect();
    SampledCall { connection: 0, call: 1, begin: 0, client, server: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;

    /// When the marks are looked at, in nanoseconds.
    const NOW: u64 = 1_000_000;

    fn marks(call: u64, borders: &[Border], from: u64, leave_out: &[Mark]) -> CallMarks {
        let mut marks = CallMarks::new(call);
        for (index, (mark, _)) in borders.iter().enumerate() {
            if !leave_out.contains(mark) {
                // 1, 2, 3 ... ns a stage.
                let index = index as u64;
                marks.set(*mark, from + index * (index + 1) / 2);
            }
        }
        marks
    }

    fn connection(port: u16, calls: Vec<CallMarks>) -> MarkedConnection {
        MarkedConnection { client: SocketAddr::from(([127, 0, 0, 1], port)), calls }
    }

    fn names(spans: &[Span]) -> Vec<String> {
        spans.iter().map(|(phase, _)| phase.to_string()).collect()
    }

    fn cell(transport: &str) -> Cell {
        Cell::new(transport.parse().unwrap(), Pattern::Calls, 8)
    }

    fn of(
        transport: &str,
        here: &[MarkedConnection],
        there: Vec<MarkedConnection>,
    ) -> (Vec<SampledCall>, u64) {
        let clock = VirtualClock::default();
        clock.advance(NOW);
        sampled(&cell(transport), here, &told(there, &clock), &clock)
    }

    #[test]
    fn phases_add_up_to_the_whole() {
        for (transport, client, server) in [
            ("grpc@lo", &CLIENT[..], &SERVER[..]),
            ("grpc-lean@lo", &CLIENT[..], &SERVER[..]),
            ("tcp@lo", &TCP_CLIENT[..], &TCP_SERVER[..]),
        ] {
            let here = [connection(1, vec![marks(7, client, 1000, &[])])];
            let there = vec![connection(1, vec![marks(7, server, 50_000, &[])])];
            let (calls, contradictory) = of(transport, &here, there);
            let [call] = &calls[..] else { panic!("one call") };
            let last = client.len() as u64 - 1;
            assert_eq!((call.whole(), contradictory), (last * (last + 1) / 2, 0));
            assert_eq!((call.begin, call.call, call.connection), (1000, 7, 0));
            let stages: Vec<_> = client[1..].iter().map(|(_, name)| (*name).to_owned()).collect();
            assert_eq!(names(&call.client), stages);
            let wire = stages.iter().position(|name| name == WIRE_AND_PEER).unwrap();
            assert_eq!(call.wire_and_peer(), Some(wire as u64 + 1));
            let served = call.server.as_ref().unwrap();
            assert_eq!(served.phases.len(), server.len() - 1);
            assert_eq!(served.serial, None, "these two marks are no borders");
        }
    }

    /// What is not seen is not told apart: its time stands under all names.
    #[test]
    fn stages_without_a_border_are_joined() {
        let lean = [connection(1, vec![marks(1, &CLIENT, 0, &[Mark::DecodeBegin])])];
        let (calls, _) = of("grpc-lean@lo", &lean, Vec::new());
        let all = names(&calls[0].client);
        assert_eq!(all[6..], ["deliver + decode", "finish"]);
        assert_eq!((calls[0].whole(), &calls[0].server), (45, &None));
        let sealed = [Mark::WriteBegin, Mark::WriteEnd, Mark::ReadBegin, Mark::ReadEnd];
        let tls = [connection(1, vec![marks(1, &CLIENT, 0, &sealed)])];
        let served = vec![connection(1, vec![marks(1, &SERVER, 0, &sealed)])];
        let (calls, _) = of("grpc@lo", &tls, served);
        let call = &calls[0];
        assert_eq!(
            names(&call.client),
            ["start", "encode", "queue + write + wire + peer + read + deliver", "decode", "finish"]
        );
        assert_eq!((call.whole(), call.wire_and_peer()), (45, None));
        let server = names(&call.server.as_ref().unwrap().phases);
        assert_eq!(server, ["decode", "dispatch", "handler", "return", "encode"]);
    }

    #[test]
    fn marks_that_contradict_one_another_are_left_out_and_counted() {
        let mut late = marks(1, &CLIENT, 100, &[]);
        late.set(Mark::EncodeEnd, 10_000);
        let mut early = marks(2, &CLIENT, 100, &[]);
        early.set(Mark::EncodeBegin, 99);
        let here = [connection(1, vec![late, early, marks(3, &CLIENT, 100, &[])])];
        let (calls, contradictory) = of("grpc@lo", &here, Vec::new());
        assert_eq!((calls.len(), calls[0].call, contradictory), (1, 3, 2));
    }

    #[test]
    fn calls_are_paired_by_connection_and_number() {
        let client = |port, calls: &[u64]| {
            connection(port, calls.iter().map(|&call| marks(call, &CLIENT, 0, &[])).collect())
        };
        let server = |port, calls: &[u64]| {
            connection(port, calls.iter().map(|&call| marks(call, &SERVER, 0, &[])).collect())
        };
        let here = [client(1, &[1, 2]), client(2, &[2]), client(3, &[2])];
        let there = vec![server(2, &[1, 2]), server(1, &[2]), server(3, &[2]), server(3, &[2])];
        let (calls, _) = of("grpc@lo", &here, there);
        let paired: Vec<_> = calls.iter().map(|call| call.server.is_some()).collect();
        // The last two connections of the server cannot be told apart.
        assert_eq!(paired, [false, true, true, false]);
    }

    /// A server may tell anything, and its part is added to the client's times.
    #[test]
    fn what_a_server_cannot_have_taken_is_left_out() {
        let clock = VirtualClock::default();
        clock.advance(NOW);
        let known = |time| {
            let mut served = ServedCall { call: 1, marks: vec![None; Mark::ALL.len()] };
            served.marks[Mark::ReadBegin as usize] = Some(0);
            served.marks[Mark::WriteEnd as usize] = Some(time);
            let client = SocketAddr::from(([127, 0, 0, 1], 1));
            let there = [ServedConnection { client, calls: vec![served] }];
            let here = [connection(1, vec![marks(1, &CLIENT, 1000, &[])])];
            let (calls, _) = sampled(&cell("grpc@lo"), &here, &there, &clock);
            assert_eq!(calls.len(), 1);
            calls[0].server.as_ref().map(Served::whole)
        };
        // The call itself took 45 ns, but a server's write may return after the client's read.
        assert_eq!([known(46), known(NOW - 1000)], [Some(46), Some(NOW - 1000)]);
        assert_eq!([known(NOW - 999), known(1 << 63), known(u64::MAX)], [None; 3]);
    }

    /// The client waits from the server's last read to its first write.
    #[test]
    fn the_serial_stretch_of_a_server_is_placed_in_its_phases() {
        let mut served = marks(1, &SERVER, 500, &[]);
        served.set(Mark::LastReadBegin, 501);
        served.set(Mark::FirstWriteEnd, 540);
        let here = [connection(1, vec![marks(1, &CLIENT, 0, &[])])];
        let (calls, _) = of("grpc@lo", &here, vec![connection(1, vec![served])]);
        let served = calls[0].server.clone().unwrap();
        assert_eq!(served.serial, Some(Serial { after: 1, time: 39 }));
        // 1 + 2 + 3 + 4 ns are before the client's 5 ns, in whose middle the 39 are, after 1 more.
        let (begin, phase) = calls[0].server_begin().unwrap();
        assert_eq!((begin, phase.to_string().as_str()), (10 - 17 - 1, WIRE_AND_PEER));
    }
}
