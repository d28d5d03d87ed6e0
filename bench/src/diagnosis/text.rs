//! A diagnosis as text: the steps as a table, and the verdict under it.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{Diagnosis, LineFrom, Load};
use crate::report::{Path, Status, number::figure};

/// Steps, verdict and warnings.
#[must_use]
pub fn text(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    if let Some(way) = way(diagnosis) {
        let _ = writeln!(text, "{way}");
    }
    let _ = writeln!(text, "{}\n\n{}\n", line(diagnosis), table(diagnosis));
    text.push_str(
        "MB = 10^6 bytes of payload, confirmed by the receiver; interface: bytes that the client's \
         interface sent a second, headers included; retrans: segments that TCP sent again; client, \
         server: processors used + waited for\n\n",
    );
    for step in &diagnosis.steps {
        if let Some(reason) = &step.reason {
            let _ = writeln!(text, "{}: {reason}", step.name);
        }
    }
    match diagnosis.verdict.split_first() {
        None => text.push_str("verdict: none, since TCP was not measured\n"),
        Some((first, others)) => {
            let from = rests_on(diagnosis);
            let _ = writeln!(text, "verdict: {from}{}: {}", first.cause.words(), first.text);
            for other in others {
                let _ = writeln!(text, "also: {}: {}", other.cause.words(), other.text);
            }
        }
    }
    for warning in &diagnosis.document.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    for advice in &diagnosis.document.advice {
        let _ = writeln!(text, "{advice}");
    }
    text
}

/// That a verdict rests on less than it should.
fn rests_on(diagnosis: &Diagnosis) -> String {
    let all = diagnosis.steps.len();
    let measured = diagnosis.steps.iter().filter(|step| step.status == Status::Measured).count();
    match diagnosis.document.complete {
        true if measured == all => String::new(),
        true => format!("from {measured} of {all} steps: "),
        false => format!("from {measured} of {all} steps of a run that was cut short: "),
    }
}

/// Which way the bytes went.
fn way(diagnosis: &Diagnosis) -> Option<String> {
    let mut cells = diagnosis.document.cells.iter();
    let (here, there) =
        cells.find_map(|cell| Some((cell.path.as_ref()?, cell.peer_path.as_ref()?)))?;
    let place = |path: &Path| {
        let interface = path.interface.as_deref().unwrap_or("?");
        format!("{interface} {}", path.address.as_deref().unwrap_or("?"))
    };
    let emulated = if here.emulated { " (EMULATED)" } else { "" };
    let backing = here.backing.as_ref().map_or_else(String::new, |backing| format!(" ({backing})"));
    Some(format!("path: {}{emulated}{backing} -> {}", place(here), place(there)))
}

fn line(diagnosis: &Diagnosis) -> String {
    let Some(line) = diagnosis.line_bytes_per_s else { return "line: not known".to_owned() };
    let from = match diagnosis.line_from {
        LineFrom::Option => "as --line-rate says",
        LineFrom::Kernel => "as the kernel states it",
        LineFrom::FastestTcp => {
            "the fastest TCP step, since the kernel states no rate of this link"
        }
    };
    format!("line: {} MB/s ({} Gb/s): {from}", figure(Some(line / 1e6)), figure(Some(line * 8e-9)))
}

fn table(diagnosis: &Diagnosis) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let of = match diagnosis.line_from {
        LineFrom::FastestTcp => "of TCP",
        LineFrom::Option | LineFrom::Kernel => "of line",
    };
    let header = ["step", "MB/s", of, "interface", "retrans", "rtt us", "client", "server"];
    table.set_header(header);
    for step in &diagnosis.steps {
        let megabytes = |rate: Option<f64>| figure(rate.map(|rate| rate / 1e6));
        let rate = match step.status {
            Status::Measured => megabytes(step.bytes_per_s),
            Status::Unsupported => "unsupported".to_owned(),
            Status::Failed => "failed".to_owned(),
            Status::Skipped => "-".to_owned(),
        };
        table.add_row([
            step.name.clone(),
            rate,
            step.share_of_line
                .map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            megabytes(step.interface_bytes_per_s),
            step.retransmits.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            figure(step.rtt_us),
            load(step.client),
            load(step.server),
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn load(load: Option<Load>) -> String {
    match load {
        None => "-".to_owned(),
        Some(Load { running, waiting: None }) => format!("{running:.2}"),
        Some(Load { running, waiting: Some(waiting) }) => format!("{running:.2}+{waiting:.2}"),
    }
}
