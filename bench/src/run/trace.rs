//! Marked calls as a trace that Perfetto and chrome://tracing load: the Trace Event Format in its form of an
//! object, with complete events ("X") and metadata ("M").
//!
//! Client and server are a process each, and each connection of a transport is a track in both. What is on
//! one track must lie one within the other or apart, so calls that are under way at once have tracks of their
//! own.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    plan::Cell,
    report::Document,
    session::{SampledCall, SlicePhases, Span},
};

/// Calls of a slice that are kept: enough to look at, and a trace of many cells still loads.
const MOST_CALLS: usize = 64;

/// The processes. The numbers stand for the sides, and are not those of the two processes.
const CLIENT: u32 = 1;
const SERVER: u32 = 2;

/// The calls that a trace will show.
#[derive(Debug, Default)]
pub struct Trace {
    slices: Vec<Slice>,
}

#[derive(Debug)]
struct Slice {
    cell: Cell,
    round: u32,
    calls: Vec<SampledCall>,
}

/// A track: transport and variant, connection, and lane.
type Track<'a> = (&'a str, usize, usize);

impl Trace {
    /// Keeps some of the marked calls of a slice, spread over it.
    pub fn add(&mut self, cell: &Cell, round: u32, phases: &SlicePhases) {
        let step = phases.calls.len().div_ceil(MOST_CALLS).max(1);
        let calls = phases.calls.iter().step_by(step).cloned().collect();
        self.slices.push(Slice { cell: cell.clone(), round, calls });
    }

    /// Whether it would show none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slices.iter().all(|slice| slice.calls.is_empty())
    }

    /// The trace, with what `document` says of both hosts.
    #[must_use]
    pub fn events(&self, document: &Document) -> Value {
        let labels: Vec<String> = self
            .slices
            .iter()
            .map(|Slice { cell, .. }| format!("{}{}", cell.transport, cell.variant))
            .collect();
        let begins = self.slices.iter().flat_map(|slice| &slice.calls).map(|call| extent(call).0);
        let origin = begins.min().unwrap_or(0);
        let mut tracks: BTreeMap<Track<'_>, (usize, i64)> = BTreeMap::new();
        let mut events = Vec::new();
        for (slice, label) in self.slices.iter().zip(&labels) {
            let mut calls: Vec<_> = slice.calls.iter().collect();
            calls.sort_by_key(|call| extent(call).0);
            for call in calls {
                let (from, to) = extent(call);
                let mut lane = 0;
                let id = loop {
                    let next = tracks.len() + 1;
                    let track = (label.as_str(), call.connection, lane);
                    let (id, end) = tracks.entry(track).or_insert((next, i64::MIN));
                    if *end <= from {
                        *end = to;
                        break *id;
                    }
                    lane += 1;
                };
                self::events(&mut events, slice, call, id, origin);
            }
        }
        let names = tracks.iter().map(|(track, (id, _))| (track, *id)).collect::<Vec<_>>();
        let mut all = metadata(document, &names);
        all.extend(events);
        json!({
            "displayTimeUnit": "ns",
            "otherData": {
                "fabricbench": document.fabricbench,
                "command": document.command,
                "clock": "the client's; of the server only durations are known",
            },
            "traceEvents": all,
        })
    }
}

/// From when to when a call is shown, on both sides, in nanoseconds of the client's clock.
fn extent(call: &SampledCall) -> (i64, i64) {
    let begin = i64::try_from(call.begin).unwrap_or(i64::MAX / 2);
    let time = |spans: &[Span]| spans.iter().map(|(_, time)| time).sum::<u64>() as i64;
    let (mut from, mut to) = (begin, begin + time(&call.client));
    if let (Some(server), Some((after, _))) = (&call.server, call.server_begin()) {
        from = from.min(begin + after);
        to = to.max(begin + after + time(&server.phases));
    }
    (from, to)
}

/// The names of processes and tracks.
fn metadata(document: &Document, tracks: &[(&Track<'_>, usize)]) -> Vec<Value> {
    let server = document.server.as_ref().map_or("?", |server| server.hostname.as_str());
    let sides = [(CLIENT, "client", document.client.hostname.as_str()), (SERVER, "server", server)];
    let mut events = Vec::new();
    for (pid, side, host) in sides {
        let mut name = |kind: &str, tid: usize, name: String| {
            events.push(json!({
                "ph": "M", "name": kind, "pid": pid, "tid": tid, "args": { "name": name },
            }));
        };
        name("process_name", 0, format!("{side} ({host})"));
        for ((label, connection, lane), id) in tracks {
            let lane = if *lane == 0 { String::new() } else { format!(", also under way {lane}") };
            name("thread_name", *id, format!("{label} connection {connection}{lane}"));
        }
    }
    events
}

/// The events of one call.
fn events(events: &mut Vec<Value>, slice: &Slice, call: &SampledCall, track: usize, origin: i64) {
    let Slice { cell, round, .. } = slice;
    let mut args = json!({
        "transport": cell.transport,
        "pattern": cell.pattern,
        "size": cell.size,
        "round": round,
        "connection": call.connection,
        "call": call.call,
    });
    if let (Some(fields), Some(reply)) = (args.as_object_mut(), cell.reply) {
        fields.insert("reply".to_owned(), reply.into());
    }
    let begin = i64::try_from(call.begin).unwrap_or(i64::MAX / 2) - origin;
    let mut side = |pid: u32, name: String, begin: i64, spans: &[Span], args: &Value| {
        let mut event = |name: String, from: i64, time: u64| {
            // Microseconds.
            let (ts, dur) = (from as f64 / 1e3, time as f64 / 1e3);
            events.push(json!({
                "ph": "X", "name": name, "cat": "call", "pid": pid, "tid": track, "ts": ts, "dur": dur,
                "args": args,
            }));
        };
        event(name, begin, spans.iter().map(|(_, time)| time).sum());
        let mut from = begin;
        for (phase, time) in spans {
            event(phase.to_string(), from, *time);
            from += *time as i64;
        }
    };
    side(CLIENT, cell.to_string(), begin, &call.client, &args);
    if let (Some(server), Some((after, phase))) = (&call.server, call.server_begin()) {
        let placed = format!(
            "durations are measured; the place is not: what the client waits for is in the middle of its \
             \"{phase}\", as if both ways took equally long, and the rest is before and after it"
        );
        if let Some(fields) = args.as_object_mut() {
            fields.insert("placed".to_owned(), placed.into());
        }
        side(SERVER, format!("serve {cell}"), begin + after, &server.phases, &args);
    }
}
