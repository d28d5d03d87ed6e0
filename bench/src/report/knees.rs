//! What a search for rates found, in words and as a table of latency against offered rate.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{CellRecord, Document, KneeRecord, number::figure};
use crate::plan::display_size;

/// A table for each curve: what was offered, what of it was answered, and how long calls took; nothing where
/// no rates were searched for.
pub(super) fn knees(document: &Document) -> String {
    let mut text = String::new();
    for knee in &document.knees {
        let cells: Vec<_> = document.cells.iter().filter(|cell| knee.has(cell)).collect();
        if cells.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "{} {} {}: latency against offered rate; time of a call in us, from when it was to begin\n{}\n",
            knee.label(),
            knee.pattern,
            size(knee),
            rows(knee, &cells)
        );
    }
    text
}

fn size(knee: &KneeRecord) -> String {
    display_size(knee.size, knee.buffers.as_ref(), None)
}

fn rows(knee: &KneeRecord, cells: &[&CellRecord]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["offered/s", "answered/s", "median", "p99", "mean", "max", ""]);
    for cell in cells {
        let (latency, load) = (cell.latency.as_ref(), cell.load.as_ref());
        let us = |value: Option<f64>| figure(value.map(|nanoseconds| nanoseconds / 1e3));
        let offered = load.map(|load| load.offered_per_s);
        let mut words = Vec::new();
        if offered.is_some() && offered == knee.knee_per_s {
            words.push("<- the knee".to_owned());
        }
        if offered.is_some() && offered == knee.sustained_per_s {
            words.push("<- the highest sustained".to_owned());
        }
        match (load, cell.unborne()) {
            (Some(load), Some(_)) if !cell.is_borne() => {
                let (behind, rounds) = (load.rounds_not_sustained, cell.rounds.len());
                words.push(format!("! not sustained in {behind} of {rounds} rounds"));
            }
            (Some(_), unborne) => words.extend(unborne),
            (None, _) => words.push("no figures".to_owned()),
        }
        table.add_row([
            figure(offered),
            figure(load.and_then(|load| load.achieved_per_s)),
            us(latency.and_then(|latency| latency.p50)),
            us(latency.and_then(|latency| latency.p99)),
            us(latency.map(|latency| latency.mean)),
            us(latency.map(|latency| latency.max)),
            words.join(", "),
        ]);
    }
    let last = table.column_count().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index < last {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// A line for each curve: how much load is borne, and where the knee is.
pub(super) fn verdicts(document: &Document) -> impl Iterator<Item = String> {
    document.knees.iter().map(verdict)
}

fn verdict(knee: &KneeRecord) -> String {
    let name = format!("{} {} {}", knee.label(), knee.pattern, size(knee));
    let rate = |rate: f64| format!("{}/s", figure(Some(rate)));
    let us = |time: Option<f64>| figure(time.map(|nanoseconds| nanoseconds / 1e3));
    let borne = match (knee.sustained_per_s, knee.unsustained_per_s) {
        (Some(borne), Some(too_much)) => {
            format!("sustained up to {}, not {}", rate(borne), rate(too_much))
        }
        (Some(borne), None) => {
            format!(
                "sustained at every rate that was offered, up to {}: its limit was not found",
                rate(borne)
            )
        }
        (None, Some(too_much)) => {
            format!("not sustained from {} on, the least that was offered", rate(too_much))
        }
        (None, None) => "nothing is known of its load".to_owned(),
    };
    let closed = match (knee.capacity_per_s, knee.closed_depth) {
        (Some(capacity), Some(depth)) => {
            format!(" (in a closed loop of {depth} on a connection: {})", rate(capacity))
        }
        _ => String::new(),
    };
    let found = match (knee.knee_per_s, &knee.reason) {
        (Some(at), _) => {
            let beyond = match knee.beyond_per_s {
                Some(beyond) if knee.knee_per_s == knee.sustained_per_s => {
                    format!("; at {} it is not sustained", rate(beyond))
                }
                Some(beyond) => format!("; at {} it is longer", rate(beyond)),
                None => "; no more was offered".to_owned(),
            };
            format!(
                "knee at {}: {} {} us, at most {} times the least one, {} us{beyond}",
                rate(at),
                knee.figure,
                us(knee.knee_time),
                figure(Some(knee.times)),
                us(knee.least),
            )
        }
        (None, Some(reason)) => format!("no knee: {reason}"),
        (None, None) => "no knee".to_owned(),
    };
    let unsteady = match knee.unsustained_below {
        0 => String::new(),
        // That is the reason.
        _ if knee.knee_per_s.is_none() => String::new(),
        count => {
            format!("; {count} lower rate(s) were not sustained, so the machine was not steady")
        }
    };
    format!("{name}: {borne}{closed}; {found}{unsteady}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Arrivals, KneeFigure, Pattern, Variant},
        report::{LoadRecord, RoundRecord, table::tests::cell},
    };

    fn knee() -> KneeRecord {
        KneeRecord {
            transport: "tcp@loopback".parse().unwrap(),
            pattern: Pattern::Calls,
            size: 64,
            reply: Some(1),
            buffers: None,
            variant: Variant::default(),
            capacity_per_s: Some(10_000.0),
            closed_depth: Some(128),
            sustained_per_s: Some(9_000.0),
            unsustained_per_s: Some(9_500.0),
            unsustained_below: 0,
            saturated: true,
            figure: KneeFigure::P50,
            times: 2.0,
            unit: "ns".to_owned(),
            least: Some(12_000.0),
            knee_per_s: Some(8_000.0),
            knee_time: Some(23_000.0),
            beyond_per_s: Some(8_500.0),
            reason: None,
        }
    }

    #[test]
    fn a_rate_that_was_borne_in_most_rounds_is_not_marked_as_too_much() {
        let mut cell = cell("tcp@loopback", 64);
        let round = |round| RoundRecord { round, messages: 1, elapsed_ns: 1, p50: None };
        cell.rounds = (0..3).map(round).collect();
        let mut said = |sustained: bool, rounds_not_sustained: u64| {
            cell.load = Some(LoadRecord {
                arrivals: Arrivals::Constant,
                offered_per_s: 9_000.0,
                achieved_per_s: Some(8_990.0),
                bound: 128,
                most_in_flight: 3,
                held_back: 0,
                given_up: 0,
                sustained,
                rounds_not_sustained,
            });
            rows(&knee(), &[&cell]).lines().last().unwrap().trim_end().to_owned()
        };
        assert!(said(true, 0).ends_with("<- the highest sustained"));
        assert!(said(false, 1).ends_with("<- the highest sustained, sustained in 2 of 3 rounds"));
        assert!(said(false, 2).ends_with("! not sustained in 2 of 3 rounds"));
    }

    #[test]
    fn the_words_say_what_was_found_and_by_which_rule() {
        assert_eq!(
            verdict(&knee()),
            "tcp@loopback calls 64 B: sustained up to 9,000/s, not 9,500/s (in a closed loop of 128 on a \
             connection: 10,000/s); knee at 8,000/s: median 23.0 us, at most 2.00 times the least one, 12.0 us; \
             at 8,500/s it is longer"
        );
        let open = KneeRecord {
            unsustained_per_s: None,
            saturated: false,
            knee_per_s: Some(9_000.0),
            beyond_per_s: None,
            unsustained_below: 1,
            ..knee()
        };
        let words = verdict(&open);
        assert!(
            words.contains("every rate that was offered, up to 9,000/s: its limit was not found"),
            "{words}"
        );
        assert!(words.contains("no more was offered; 1 lower rate(s)"), "{words}");
        let none = KneeRecord {
            sustained_per_s: None,
            knee_per_s: None,
            reason: Some("no rate was sustained".to_owned()),
            ..knee()
        };
        let words = verdict(&none);
        assert!(
            words.contains("not sustained from 9,500/s on") && words.contains("no knee: no rate"),
            "{words}"
        );
    }
}
