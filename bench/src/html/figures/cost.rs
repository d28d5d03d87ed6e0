//! Processor time of both sides.

use super::{
    by_size::{Quantity, Value, by_size},
    unit::Unit,
};
use crate::{
    html::{
        figure::Figure,
        series::{Looks, Subject},
    },
    plan::Pattern,
    report::{CellRecord, CpuUse, Per, Side, number::figure},
};

/// Nanoseconds of processor time of one side for each message or byte, warm-up taken to cost what the rest does.
pub(in crate::html) fn cost(cell: &CellRecord, side: Side, per: Per) -> Option<f64> {
    cell.shared_out(cell.cost(side)?.0, per)
}

/// The part of it that the kernel has, in words; nothing where ticks do not tell.
fn in_kernel(cell: &CellRecord, side: Side) -> String {
    let usage = cell.cost(side).and_then(|(_, usage)| usage);
    match usage.and_then(CpuUse::system_share) {
        Some(share) => format!(" ({} % of it in the kernel)", figure(Some(share * 100.0))),
        None => String::new(),
    }
}

/// A figure for each side: a message where messages are what counts, else a byte.
pub(super) fn costs(subject: &Subject<'_>, looks: &mut Looks<'_>) -> Vec<Figure> {
    let per = match subject.pattern {
        Pattern::Bandwidth | Pattern::Bidirectional | Pattern::Fetch => Per::Byte,
        Pattern::TensorPush | Pattern::TensorFetch => Per::Byte,
        Pattern::Latency | Pattern::Rate | Pattern::Calls | Pattern::Ps => Per::Message,
    };
    let sides = [Side::Client, Side::Server];
    sides.into_iter().flat_map(|side| of_side(subject, looks, side, per)).collect()
}

fn of_side(subject: &Subject<'_>, looks: &mut Looks<'_>, side: Side, per: Per) -> Vec<Figure> {
    let all = subject.cells.iter().filter_map(|measured| cost(measured.cell, side, per));
    let unit = Unit::covering(all);
    let value = |cell: &CellRecord| {
        let cost = unit.of(cost(cell, side, per)?);
        let text = format!("{}{}", figure(Some(cost)), in_kernel(cell, side));
        Some(Value { value: cost, interval: None, thin: None, text })
    };
    let (of, unit_of) = match (per, subject.pattern) {
        (Per::Byte, _) => ("a byte", format!("{}/B", unit.name)),
        (Per::Message, Pattern::Latency) => ("a round trip", unit.name.to_owned()),
        (Per::Message, Pattern::Calls | Pattern::Ps) => ("a call", unit.name.to_owned()),
        (Per::Message, _) => ("an operation", unit.name.to_owned()),
    };
    let quantity = Quantity {
        id: format!("cpu-{side}-{}", subject.slug()),
        title: format!("Processor time of the {side}, {of} ({})", subject.pattern),
        caption: format!(
            "User and system time of the {side}'s process in the pattern {}, warm-up included. Polling takes a \
             processor whole, whether or not there is something to do.{}",
            subject.pattern,
            match side {
                Side::Client => "",
                Side::Server => " The server's time has its set-up and its wait for the end in it.",
            }
        ),
        axis: format!("processor time {of}, {unit_of}"),
        unit: unit_of,
        limits: Vec::new(),
        of: &value,
    };
    by_size(subject, looks, &quantity)
}
