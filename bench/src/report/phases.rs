//! Where the time of a call goes: the record of its phases, and the table of them.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CellRecord, Document, number::figure, table::beside};
use crate::plan::Pattern;

/// The phases of marked calls of a cell, over all its rounds, in nanoseconds. A call of parameter servers is
/// the call of one server, and not the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhasesRecord {
    /// Calls of which one was marked.
    pub one_in: u32,
    /// Always "ns".
    pub unit: String,
    /// Marked calls that stand behind it: timed ones only, at most 1,024 a round (and 16 of each
    /// connection), spread over all of it.
    pub samples: u64,
    /// Further marked calls, whose marks contradict one another.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub contradictory: u64,
    /// From the call to its reply: the whole of which the shares are.
    pub whole: PhaseTimes,
    /// The client's phases, one after the other: they add up to the whole.
    pub client: Vec<PhaseRecord>,
    /// What the server did meanwhile; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<ServerPhases>,
    /// Why something is not known.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How long something took, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseTimes {
    /// Median; `null` of fewer than 20 calls.
    pub p50: Option<f64>,
    /// 99th percentile; `null` of fewer than 1,000 calls.
    pub p99: Option<f64>,
    /// Arithmetic mean.
    pub mean: f64,
}

/// One phase, or several between which nothing is seen: then its name has them all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseRecord {
    /// Its name.
    pub name: String,
    /// Calls that have it.
    pub samples: u64,
    /// How long it took in them.
    #[serde(flatten)]
    pub times: PhaseTimes,
    /// Its share of the time of all calls that are counted here, in percent.
    pub share_percent: f64,
}

/// What the server did, for those marked calls of which both sides have kept the marks. Shares are of the
/// whole of these calls on the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerPhases {
    /// So many calls.
    pub samples: u64,
    /// The server's phases, one after the other. With a large message both sides work at once, so that they
    /// are no part of any one phase of the client.
    pub phases: Vec<PhaseRecord>,
    /// The two parts of the client's "wire + peer"; absent where that is not seen by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wire_and_peer: Option<WireAndPeer>,
}

/// The client's "wire + peer" in two, by durations alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireAndPeer {
    /// The peer: from before the read that brought the last byte of the request until after the first write
    /// of the reply.
    pub peer: PhaseRecord,
    /// The wire: the rest, both ways, with the waking of both sides.
    pub wire: PhaseRecord,
    /// Calls in which the peer took longer than the whole stretch, since it began while the client's write
    /// had not returned: their wire counts as 0.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub overlapping: u64,
}

/// The phase that the server's part divides.
const WIRE_AND_PEER: &str = "wire + peer";

/// The order of the client's rows, by the first stage in each: that of a call.
const CLIENT_ORDER: [&str; 9] =
    ["start", "encode", "queue", "write", WIRE_AND_PEER, "read", "deliver", "decode", "finish"];

/// The order of the server's.
const SERVER_ORDER: [&str; 9] =
    ["read", "deliver", "decode", "dispatch", "handler", "return", "encode", "queue", "write"];

/// Characters of the longest usual name, and of the widest figure.
const NAME: usize = "server: deliver + decode".len();
const FIGURE: usize = "12,345 (67,890) 100 %".len();

/// The tables of phases, one for each pattern and size, as wide as `line` characters at the most; nothing where
/// nothing was marked.
pub(super) fn phases(document: &Document, line: usize) -> String {
    let mut text = String::new();
    let mut shown: Vec<(Pattern, String)> = Vec::new();
    for cell in document.cells.iter().filter(|cell| cell.phases.is_some()) {
        let of = (cell.pattern, cell.size_label());
        if shown.contains(&of) {
            continue;
        }
        let same = |other: &&CellRecord| (other.pattern, other.size_label()) == of;
        let cells: Vec<_> = document.cells.iter().filter(same).collect();
        let columns: Vec<_> =
            cells.iter().filter_map(|cell| Some((cell.label(), cell.phases.as_ref()?))).collect();
        let title = format!(
            "phases of {} {}: where a marked call's time goes, in us: median (p99), share of all their time\n\
             (the client's shares add up to 100 %, medians need not; the server's rows are beside the client's \
             and not among them;\n of a slice at most 1,024 marked calls are kept, spread over it)",
            of.0, of.1
        );
        let _ = writeln!(text, "{title}");
        let width = |(label, _): &(String, &PhasesRecord)| label.len().max(FIGURE);
        for columns in beside(line, columns.clone().into_iter(), NAME, width) {
            let _ = writeln!(text, "{}", rows(&columns));
        }
        for (label, record) in &columns {
            for note in &record.notes {
                let _ = writeln!(text, "{label}: {note}");
            }
        }
        text.push('\n');
        shown.push(of);
    }
    text
}

fn rows(columns: &[(String, &PhasesRecord)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(
        std::iter::once("phase".to_owned()).chain(columns.iter().map(|(label, _)| label.clone())),
    );
    let mut add = |name: &str, of: &dyn Fn(&PhasesRecord) -> Option<String>| {
        let figures: Vec<_> = columns.iter().map(|(_, record)| of(record)).collect();
        if figures.iter().any(Option::is_some) {
            let figures = figures.into_iter().map(Option::unwrap_or_default);
            table.add_row(std::iter::once(name.to_owned()).chain(figures));
        }
    };
    add("marked calls", &|record| Some(format!("{}, 1 in {}", record.samples, record.one_in)));
    add("whole", &|record| Some(shown(&record.whole)));
    let client = |record: &PhasesRecord| record.client.clone();
    for name in names(columns, client, &CLIENT_ORDER) {
        add(&name, &|record| named(&record.client, &name));
        if name == WIRE_AND_PEER {
            let parts = |record: &PhasesRecord| record.server.as_ref()?.wire_and_peer.clone();
            add("  of it wire", &|record| parts(record).map(|parts| with_share(&parts.wire)));
            add("  of it peer", &|record| parts(record).map(|parts| with_share(&parts.peer)));
        }
    }
    let server = |record: &PhasesRecord| {
        record.server.as_ref().map_or_else(Vec::new, |side| side.phases.clone())
    };
    for name in names(columns, server, &SERVER_ORDER) {
        add(&format!("server: {name}"), &|record| named(&server(record), &name));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// The phases that any column has, by the first stage in each.
fn names(
    columns: &[(String, &PhasesRecord)],
    of: impl Fn(&PhasesRecord) -> Vec<PhaseRecord>,
    order: &[&str],
) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for phase in columns.iter().flat_map(|(_, record)| of(record)) {
        if !names.contains(&phase.name) {
            names.push(phase.name);
        }
    }
    let place = |name: &String| {
        let begins = |stage: &&str| name.starts_with(*stage);
        order.iter().position(begins).unwrap_or(order.len())
    };
    names.sort_by_key(place);
    names
}

fn named(phases: &[PhaseRecord], name: &str) -> Option<String> {
    phases.iter().find(|phase| phase.name == name).map(with_share)
}

fn with_share(phase: &PhaseRecord) -> String {
    format!("{} {:>3.0} %", shown(&phase.times), phase.share_percent)
}

fn shown(times: &PhaseTimes) -> String {
    let us = |value: Option<f64>| figure(value.map(|nanoseconds| nanoseconds / 1e3));
    format!("{} ({})", us(times.p50), us(times.p99))
}
