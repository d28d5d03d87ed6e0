//! What stands under the figures, whatever the face of the report: which way each column went and
//! whether that is proven, why figures are missing, what a search found, warnings and advice.

use std::{collections::HashMap, fmt::Write as _};

use super::{
    CellRecord, Counters, Document, ModelRecord, Path, PathKind, Status, StoppedBy, Wait, Waits,
    column::{Column, Columns},
    knees::verdicts,
    number::figure,
    plain::plain,
    scaling::{few_words, model, words},
};
use crate::plan::Pattern;

/// What a reader must know about the columns, whatever the face of the report: paths, reasons,
/// warnings and advice.
pub(crate) fn notes(document: &Document) -> String {
    notes_with(document, few_words)
}

/// The same with all that the figures of all sizes say together.
pub(super) fn long_notes(document: &Document) -> String {
    notes_with(document, words)
}

fn notes_with(document: &Document, words: fn(&ModelRecord) -> Vec<String>) -> String {
    let columns = all_columns(document);
    let mut text = String::new();
    for line in model(document).iter().flat_map(words) {
        let _ = writeln!(text, "{line}");
    }
    text.push_str(&ways_of(document, &columns));
    text.push_str(&processors(document));
    text.push_str(&waits(document, &columns));
    text.push_str(&absences(document, &columns));
    for line in verdicts(document).chain(tuned(document)).chain(precision(document)) {
        let _ = writeln!(text, "{line}");
    }
    for warning in &document.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    for advice in &document.advice {
        let _ = writeln!(text, "{advice}");
    }
    text
}

/// Which way each column went, and whether that was proven: a line for those that went one way.
pub(crate) fn ways(document: &Document) -> String {
    ways_of(document, &all_columns(document))
}

/// Which processors the measuring threads were bound to: a line for each way, empty if nothing was measured.
fn processors(document: &Document) -> String {
    let mut ways: Vec<(String, usize)> = Vec::new();
    let mut all = 0;
    for cell in &document.cells {
        let Some(settings) = &cell.settings else { continue };
        let bound = |side: &str| match settings.transport.get(&format!("{side} processor")) {
            Some(cpu) => format!("{side} bound to {cpu}"),
            None => format!("{side} not bound"),
        };
        let way = format!("{}, {}", bound("client"), bound("server"));
        all += 1;
        match ways.iter_mut().find(|(known, _)| *known == way) {
            Some((_, count)) => *count += 1,
            None => ways.push((way, 1)),
        }
    }
    let line = |(way, count): &(String, usize)| match *count {
        count if count == all => format!("processors: {way}\n"),
        count => format!("processors: {way} (in {count} of {all} cells)\n"),
    };
    ways.iter().map(line).collect()
}

/// How both sides wait and whether the client pauses, with the columns and patterns of which that is so.
type Waiting<'a> = ((Waits, bool), Vec<Column<'a>>, Vec<Pattern>);

/// Which sides poll and which sleep, since what processor time means depends on it; empty if nothing was
/// measured.
fn waits(document: &Document, columns: &Columns<'_>) -> String {
    let mut ways: Vec<Waiting<'_>> = Vec::new();
    for cell in &document.cells {
        let Some(waits) = cell.settings.as_ref().and_then(|settings| settings.waits) else {
            continue;
        };
        let (column, way) = (Column::of(cell), (waits, cell.think.is_some()));
        match ways.iter_mut().find(|(known, ..)| *known == way) {
            None => ways.push((way, vec![column], vec![cell.pattern])),
            Some((_, columns, patterns)) => {
                columns.push(column);
                if !patterns.contains(&cell.pattern) {
                    patterns.push(cell.pattern);
                }
            }
        }
    }
    // One that waits in several ways does so by pattern.
    let mixed = |columns: &[Column<'_>]| {
        let others = ways.iter().filter(|(_, of, _)| of.as_slice() != columns);
        others.flat_map(|(_, of, _)| of).any(|column| columns.contains(column))
    };
    let line = |((waits, pauses), of, patterns): &Waiting<'_>| {
        let within = match mixed(of) {
            true => {
                let names: Vec<_> = patterns.iter().map(Pattern::to_string).collect();
                format!(" ({})", names.join(", "))
            }
            false => String::new(),
        };
        let meaning = match [waits.client, waits.server].contains(&Wait::Polls) || *pauses {
            true => "; who polls keeps a processor, and its processor time is that of waiting too",
            false => "",
        };
        let Waits { client, server } = waits;
        let pauses = match (*pauses, client) {
            (true, Wait::Sleeps | Wait::PollsThenSleeps) => " (and polls in its pauses)",
            _ => "",
        };
        format!(
            "waiting: {}{within}: client {client}{pauses}, server {server}{meaning}\n",
            columns.named(of)
        )
    };
    ways.iter().map(line).collect()
}

/// Why cells have no figures: a line for each reason.
pub(crate) fn reasons(document: &Document) -> String {
    absences(document, &all_columns(document))
}

fn all_columns(document: &Document) -> Columns<'_> {
    Columns::of(document, &document.cells.iter().collect::<Vec<_>>())
}

fn ways_of(document: &Document, columns: &Columns<'_>) -> String {
    // Verbs transports go one way all: said once, it is read.
    let mut ways: Vec<(String, Vec<Column<'_>>)> = Vec::new();
    let mut measured: HashMap<Column<'_>, Vec<&CellRecord>> = HashMap::new();
    for cell in document.cells.iter().filter(|cell| cell.status == Status::Measured) {
        measured.entry(Column::of(cell)).or_default().push(cell);
    }
    for column in columns.iter() {
        let Some(cells) = measured.get(&column) else { continue };
        let Some(path) = cells.iter().find_map(|cell| cell.path.as_ref()) else { continue };
        let peer = cells.iter().find_map(|cell| cell.peer_path.as_ref());
        let proof = format!(
            "{}, {}",
            proven("client", cells.iter().map(|cell| cell.counters.as_ref())),
            proven("server", cells.iter().map(|cell| cell.peer_counters.as_ref()))
        );
        let peer = peer.map_or_else(String::new, |peer| format!(" -> {}", place(peer)));
        let way = format!("{}{peer}; {proof}", describe(path));
        match ways.iter_mut().find(|(known, _)| *known == way) {
            Some((_, columns)) => columns.push(column),
            None => ways.push((way, vec![column])),
        }
    }
    let line = |(way, of): &(String, Vec<Column<'_>>)| format!("{}: {way}\n", columns.named(of));
    ways.iter().map(line).collect()
}

/// What a search found, which is what to type for it.
pub(super) fn tuned(document: &Document) -> impl Iterator<Item = String> {
    document.cells.iter().filter_map(|cell| {
        let found = cell.settings.as_ref()?.transport.get("tuned")?;
        let size = cell.size_label();
        Some(format!("{} {} {size}: tuned: {found}", cell.label(), cell.pattern))
    })
}

/// How many cells are known as narrowly as was asked for.
fn precision(document: &Document) -> Option<String> {
    let asked = document.plan.precision? * 100.0;
    let stopped: Vec<_> = document.cells.iter().filter_map(|cell| cell.stopped).collect();
    let narrow = stopped.iter().filter(|stopped| stopped.by == StoppedBy::Precision).count();
    let spent = stopped.len() - narrow;
    let widths = stopped.iter().map(|stopped| stopped.half_width.unwrap_or(f64::INFINITY));
    let widest = match widths.fold(0.0_f64, f64::max) {
        widest if widest.is_finite() => format!("the widest to {} %", figure(Some(widest * 100.0))),
        _ => "some of them to an unknown width".to_owned(),
    };
    let others = match spent {
        0 => String::new(),
        spent => format!("; {spent} spent their time before ({widest})"),
    };
    Some(format!(
        "precision: {narrow} of {} cells are known to {} % (half of the 95 % interval){others}",
        stopped.len(),
        figure(Some(asked))
    ))
}

/// In how many rows the counters of one side prove the path.
fn proven<'a>(side: &str, cells: impl Iterator<Item = Option<&'a Counters>>) -> String {
    let (mut all, mut holding) = (0, 0);
    for counters in cells {
        all += 1;
        let proof = counters.and_then(|counters| counters.proof.as_ref());
        holding += usize::from(proof.and_then(|proof| proof.holds) == Some(true));
    }
    match holding {
        0 => format!("no counters on the {side}"),
        holding if holding == all => format!("proven by the {side}'s counters in every row"),
        holding => format!("proven by the {side}'s counters in {holding} of {all} rows"),
    }
}

fn describe(path: &Path) -> String {
    let kind = match path.kind {
        PathKind::Infiniband => "InfiniBand",
        PathKind::Roce => "RoCE",
        PathKind::SoftRoce => "soft-RoCE",
        PathKind::Iwarp => "iWARP",
        PathKind::Ipoib => "IPoIB",
        PathKind::Ethernet => "Ethernet",
        PathKind::Other => "other interface",
        PathKind::Loopback => "loopback",
    };
    let emulated = match (&path.backing, path.emulated) {
        (_, true) => " (EMULATED)".to_owned(),
        (Some(backing), false) if backing.starts_with("virtual") => format!(" ({backing})"),
        _ => String::new(),
    };
    let mtu = path.mtu.map_or_else(String::new, |mtu| format!(", MTU {mtu}"));
    format!("{kind}{emulated} {}{mtu}", place(path))
}

fn place(path: &Path) -> String {
    let device = path.device.as_ref().map(|device| match path.port {
        Some(port) => format!("{device} port {port}"),
        None => device.clone(),
    });
    let place = device.or_else(|| path.interface.clone()).unwrap_or_else(|| "?".to_owned());
    match &path.address {
        Some(address) => format!("{place} {address}"),
        None => place,
    }
}

/// Each reason once, with the cells it stands for.
fn absences(document: &Document, columns: &Columns<'_>) -> String {
    let mut reasons: Vec<(&str, Status, Vec<&CellRecord>)> = Vec::new();
    for cell in &document.cells {
        let Some(reason) = &cell.reason else { continue };
        match reasons
            .iter_mut()
            .find(|(known, status, _)| known == reason && *status == cell.status)
        {
            Some((_, _, cells)) => cells.push(cell),
            None => reasons.push((reason, cell.status, vec![cell])),
        }
    }
    let mut text = String::new();
    for (reason, status, cells) in reasons {
        let status = match status {
            Status::Unsupported => "unsupported",
            Status::Failed => "failed",
            Status::Skipped | Status::Measured => "skipped",
        };
        let of: Vec<_> = cells.iter().map(|cell| Column::of(cell)).collect();
        let which = match cells.as_slice() {
            [only] => format!("{} {}", only.pattern, only.size_label()),
            several => format!("{} cells", several.len()),
        };
        let _ = writeln!(text, "{}: {status} ({which}): {}", columns.named(&of), plain(reason));
    }
    text
}
