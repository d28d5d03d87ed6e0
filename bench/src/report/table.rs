//! The table: transports side by side, a row a size, a block a pattern.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{CellRecord, Counters, Document, LatencyKind, Path, PathKind, Status, number::figure};
use crate::plan::{Pattern, TransportName, display_bytes};

/// The table as text, with what a reader must know about each column under it.
#[must_use]
pub fn table(document: &Document) -> String {
    let mut text = String::new();
    for &pattern in &document.plan.patterns {
        let has = |transport: &&TransportName| {
            let mut cells = document.cells.iter();
            cells.any(|cell| cell.pattern == pattern && cell.transport == **transport)
        };
        let columns: Vec<_> = document.plan.transports.iter().filter(has).collect();
        for columns in beside(&columns, pattern) {
            let title = title(document, pattern);
            let _ = writeln!(text, "{title}\n{}\n", block(document, pattern, &columns));
        }
    }
    text.push_str(&notes(document));
    text
}

/// What a reader must know about the columns, whatever the face of the report: paths, reasons and
/// warnings.
pub(super) fn notes(document: &Document) -> String {
    let mut text = columns(document);
    text.push_str(&absences(document));
    for line in tuned(document) {
        let _ = writeln!(text, "{line}");
    }
    for warning in &document.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

fn title(document: &Document, pattern: Pattern) -> String {
    let words = match pattern {
        Pattern::Latency => {
            "latency: half of the round trip in us, median (p99); one message in flight; \
             RT: the whole round trip"
        }
        Pattern::Bandwidth => {
            "bandwidth: MB/s (10^6 bytes of payload a second), confirmed by the receiver"
        }
        Pattern::Bidirectional => {
            "bidirectional: MB/s (10^6 bytes of payload a second), the sum of both directions, \
             confirmed by the receivers"
        }
        Pattern::Fetch => "fetch: MB/s (10^6 bytes of payload a second) that have arrived here",
        Pattern::Rate => "rate: thousands of operations a second",
        Pattern::Calls => {
            "calls: thousands a second / the whole round trip of each in us, median (p99)"
        }
    };
    let mut replies = document.cells.iter().filter_map(|cell| cell.reply);
    match replies.next().filter(|_| pattern == Pattern::Calls) {
        Some(reply) => format!("{words}; replies of {}", display_bytes(reply)),
        None => words.to_owned(),
    }
}

/// Characters of a line: more would wrap in many a terminal.
const LINE: usize = 100;

/// Characters of the widest figure.
fn widest(pattern: Pattern) -> usize {
    match pattern {
        Pattern::Calls => "123 / 12,345 (67,890)".len(),
        _ => "RT 1,234 (5,678)".len(),
    }
}

/// As many transports side by side as fit a line, then the next.
fn beside<'a>(transports: &[&'a TransportName], pattern: Pattern) -> Vec<Vec<&'a TransportName>> {
    let mut blocks: Vec<Vec<&TransportName>> = Vec::new();
    let mut width = LINE;
    for &transport in transports {
        let column = transport.to_string().len().max(widest(pattern)) + 2;
        width += column;
        if width > LINE {
            width = "1023 KiB".len() + column;
            blocks.push(Vec::new());
        }
        if let Some(block) = blocks.last_mut() {
            block.push(transport);
        }
    }
    blocks
}

fn block(document: &Document, pattern: Pattern, transports: &[&TransportName]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let names = transports.iter().map(|transport| transport.to_string());
    table.set_header(std::iter::once("size".to_owned()).chain(names));
    for &size in &document.plan.sizes {
        let cell = |transport: &TransportName| {
            document.cells.iter().find(|cell| {
                cell.pattern == pattern && cell.size == size && cell.transport == *transport
            })
        };
        let cells: Vec<_> = transports.iter().map(|transport| cell(transport)).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let figures = cells.into_iter().map(|cell| cell.map_or_else(|| "-".to_owned(), shown));
        let first = display_bytes(size).to_string();
        table.add_row(std::iter::once(first).chain(figures));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn shown(cell: &CellRecord) -> String {
    match cell.status {
        Status::Measured => {}
        Status::Unsupported => return "unsupported".to_owned(),
        Status::Failed => return "failed".to_owned(),
        Status::Skipped => return "-".to_owned(),
    }
    let microseconds = |nanoseconds: Option<f64>| nanoseconds.map(|value| value / 1000.0);
    match (cell.pattern, &cell.latency, &cell.throughput) {
        (Pattern::Latency, Some(latency), _) => {
            let kind = match latency.kind {
                LatencyKind::HalfRoundTrip => "",
                LatencyKind::RoundTrip => "RT ",
            };
            let (p50, p99) = (microseconds(latency.p50), microseconds(latency.p99));
            format!("{kind}{} ({})", figure(p50), figure(p99))
        }
        (Pattern::Calls, Some(latency), Some(throughput)) => {
            let calls = figure(Some(throughput.messages_per_s / 1e3));
            let (p50, p99) = (microseconds(latency.p50), microseconds(latency.p99));
            format!("{calls} / {} ({})", figure(p50), figure(p99))
        }
        (Pattern::Rate, _, Some(throughput)) => figure(Some(throughput.messages_per_s / 1e3)),
        (Pattern::Bandwidth | Pattern::Bidirectional | Pattern::Fetch, _, Some(throughput)) => {
            let lost = match cell.loss {
                Some(loss) if loss.lost > 0 => {
                    format!(" (-{}%)", figure(Some(loss.lost as f64 * 100.0 / loss.sent as f64)))
                }
                _ => String::new(),
            };
            format!("{}{lost}", figure(Some(throughput.bytes_per_s / 1e6)))
        }
        _ => "-".to_owned(),
    }
}

/// Which way each column went, and whether that was proven.
fn columns(document: &Document) -> String {
    // Verbs transports go one way all: said once, it is read.
    let mut ways: Vec<(String, Vec<String>)> = Vec::new();
    for transport in &document.plan.transports {
        let measured =
            |cell: &&CellRecord| cell.transport == *transport && cell.status == Status::Measured;
        let cells: Vec<_> = document.cells.iter().filter(measured).collect();
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
            Some((_, transports)) => transports.push(transport.to_string()),
            None => ways.push((way, vec![transport.to_string()])),
        }
    }
    let line =
        |(way, transports): &(String, Vec<String>)| format!("{}: {way}\n", transports.join(", "));
    ways.iter().map(line).collect()
}

/// What a search found, which is what to type for it.
pub(super) fn tuned(document: &Document) -> impl Iterator<Item = String> {
    document.cells.iter().filter_map(|cell| {
        let found = cell.settings.as_ref()?.transport.get("tuned")?;
        let size = display_bytes(cell.size);
        Some(format!("{} {} {size}: tuned: {found}", cell.transport, cell.pattern))
    })
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
fn absences(document: &Document) -> String {
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
        let mut transports: Vec<String> = Vec::new();
        for cell in &cells {
            let transport = cell.transport.to_string();
            if !transports.contains(&transport) {
                transports.push(transport);
            }
        }
        let status = match status {
            Status::Unsupported => "unsupported",
            Status::Failed => "failed",
            Status::Skipped | Status::Measured => "skipped",
        };
        let which = match cells.as_slice() {
            [only] => format!("{} {}", only.pattern, display_bytes(only.size)),
            several => format!("{} cells", several.len()),
        };
        let _ = writeln!(text, "{}: {status} ({which}): {reason}", transports.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CellSettings, Environment, PlanRecord, SCHEMA, Throughput};

    fn cell(transport: &str, size: u64) -> CellRecord {
        CellRecord {
            transport: transport.parse().unwrap(),
            pattern: Pattern::Rate,
            size,
            reply: None,
            status: Status::Measured,
            reason: None,
            path: Some(Path {
                kind: PathKind::SoftRoce,
                device: Some("rxe0".to_owned()),
                port: Some(1),
                interface: None,
                emulated: true,
                backing: None,
                address: None,
                mtu: None,
                chosen: None,
            }),
            peer_path: None,
            latency: None,
            throughput: Some(Throughput { bytes_per_s: 8e3, messages_per_s: 1e3 }),
            counters: None,
            peer_counters: None,
            tcp: None,
            cpu: None,
            payload: None,
            loss: None,
            settings: Some(CellSettings {
                depth: None,
                warm_up_messages: 1,
                messages: 1,
                transport: std::collections::BTreeMap::new(),
            }),
            rounds: Vec::new(),
        }
    }

    fn document(transports: &[&str], cells: Vec<CellRecord>) -> Document {
        Document {
            schema: SCHEMA.to_owned(),
            fabricbench: "0".to_owned(),
            complete: true,
            started_unix_s: 0,
            command: Vec::new(),
            plan: PlanRecord {
                transports: transports.iter().map(|name| name.parse().unwrap()).collect(),
                patterns: vec![Pattern::Rate],
                sizes: vec![8, 16],
                stop: String::new(),
                warm_up: String::new(),
                rounds: 1,
                seed: 0,
                loop_kind: "closed".to_owned(),
            },
            client: Environment::default(),
            server: None,
            warnings: Vec::new(),
            cells,
        }
    }

    #[test]
    fn what_holds_for_several_transports_is_said_once() {
        let mut too_large = cell("verbs-ud-send", 16);
        too_large.status = Status::Unsupported;
        too_large.reason = Some("too large".to_owned());
        let mut also = cell("verbs-ud-send-imm", 16);
        also.status = Status::Unsupported;
        also.reason = Some("too large".to_owned());
        let cells = vec![cell("verbs-ud-send", 8), cell("verbs-ud-send-imm", 8), too_large, also];
        let text = table(&document(&["verbs-ud-send", "verbs-ud-send-imm"], cells));
        let both = "verbs-ud-send, verbs-ud-send-imm: ";
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(both)).collect();
        assert_eq!(
            lines,
            [
                "soft-RoCE (EMULATED) rxe0 port 1; no counters on the client, no counters on the server",
                "unsupported (2 cells): too large"
            ]
        );
    }

    #[test]
    fn a_search_says_what_it_found() {
        let mut found = cell("verbs-send", 8);
        let settings = found.settings.as_mut().unwrap();
        settings.transport.insert("tuned".to_owned(), "-l 16: the best".to_owned());
        let text = table(&document(&["verbs-send"], vec![found, cell("verbs-send", 16)]));
        assert!(text.ends_with("verbs-send rate 8 B: tuned: -l 16: the best\n"), "{text}");
    }

    #[test]
    fn a_table_fits_a_line() {
        let names: Vec<String> =
            crate::plan::VerbsName::all().map(|name| name.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let cells = names.iter().map(|name| cell(name, 8)).collect();
        let text = table(&document(&names, cells));
        let rows = text.lines().filter(|line| line.trim_start().starts_with("size"));
        let columns: Vec<_> = rows.map(|row| (row.len(), row.split_whitespace().count())).collect();
        assert_eq!(columns.iter().map(|(_, count)| count - 1).sum::<usize>(), 13, "{text}");
        assert!(columns.iter().all(|(width, _)| *width <= LINE), "{columns:?}");
    }
}
