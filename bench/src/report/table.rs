//! The table: transports side by side, a row a size, a block a pattern. Variants of a sweep stand side
//! by side as well where they fit, else in rows.

mod figures;
mod rows;

use std::fmt::Write as _;

use anstyle::Style;

use self::{
    figures::shown,
    rows::{Face, axes_width, rows_of_sizes, rows_of_variants},
};

use super::{
    CellRecord, Document,
    column::Columns,
    knees::knees,
    look::{ADVICE, Look, WARNING},
    notes::notes,
    phases::phases,
};
use crate::plan::{Pattern, display_bytes};

/// The table as text of that look, with what a reader must know about each column under it.
#[must_use]
pub fn table(document: &Document, look: Look) -> String {
    let mut text = tables(document, Face::Plain(look));
    text.push_str(&knees(document));
    text.push_str(&phases(document, look.line));
    for line in notes(document).lines() {
        let style = match line.split_once(": ") {
            Some(("warning", _)) => WARNING,
            Some(("advice", _)) => ADVICE,
            _ => Style::new(),
        };
        let _ = writeln!(text, "{}", look.paint(style, line));
    }
    text
}

/// The same as Markdown, as it is read on GitHub: for an issue or a summary of a job.
#[must_use]
pub fn markdown(document: &Document) -> String {
    let face = Face::Markdown;
    let mut text = tables(document, face);
    for (title, lines) in [
        ("latency against offered rate", knees(document)),
        ("phases", phases(document, face.line())),
        ("notes", notes(document)),
    ] {
        if !lines.is_empty() {
            // Fenced, since names and reasons in it may be anything.
            let _ = writeln!(
                text,
                "<details><summary>{title}</summary>\n\n````text\n{}\n````\n\n</details>\n",
                lines.trim_end().replace("````", "'```")
            );
        }
    }
    text
}

fn tables(document: &Document, face: Face) -> String {
    let mut text = String::new();
    for &pattern in &document.plan.patterns {
        // What was searched for has a table of its own.
        let is_searched = |cell: &CellRecord| document.knees.iter().any(|knee| knee.has(cell));
        let cells = document.cells.iter().filter(|cell| cell.pattern == pattern);
        let cells: Vec<_> = cells.filter(|cell| !is_searched(cell)).collect();
        let columns = Columns::of(document, &cells);
        let shown_widths = cells.iter().map(|cell| shown(cell).len()).max();
        let figure = widest(pattern).max(shown_widths.unwrap_or(0));
        let line = face.line();
        let side_by_side =
            beside(line, columns.iter(), SIZE, |column| column.title().len().max(figure));
        let is_swept = columns.iter().any(|column| !column.variant.is_empty());
        let tables: Vec<String> = if is_swept && side_by_side.len() > 1 {
            // As many lines as there are variants, rather than tables of a few columns each.
            let first = SIZE + axes_width(&cells);
            let blocks = beside(line, columns.transports(), first, |transport| {
                transport.to_string().len().max(figure)
            });
            blocks.iter().map(|transports| rows_of_variants(&cells, transports, face)).collect()
        } else {
            side_by_side.iter().map(|columns| rows_of_sizes(&cells, columns, face)).collect()
        };
        for table in tables {
            let gap = if face == Face::Markdown { "\n" } else { "" };
            let _ = writeln!(text, "{}\n{gap}{table}\n", title(document, pattern));
        }
    }
    text
}

fn title(document: &Document, pattern: Pattern) -> String {
    let mut replies = document.cells.iter().filter_map(|cell| cell.reply);
    let replies = match replies.next() {
        Some(reply) => format!("; replies of {}", display_bytes(reply)),
        None => String::new(),
    };
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
        Pattern::TensorPush | Pattern::TensorFetch => return tensors_title(document, pattern),
        Pattern::Ps => {
            let roles = document.cells.iter().find_map(|cell| cell.roles).unwrap_or_default();
            return format!(
                "ps: calls (RPC) a second of {} worker(s), each to all of {} parameter server(s) / time of \
                 such a step in us, median (p99){replies}",
                roles.workers, roles.servers
            );
        }
    };
    let open = match document.cells.iter().any(|cell| cell.load.is_some()) {
        true if !document.knees.is_empty() => "; the closed loops of --rate search",
        true => "; of rate=N from when it was to begin (!: the rate was not sustained)",
        false => "",
    };
    match pattern {
        Pattern::Calls => format!("{words}{replies}{open}"),
        _ => words.to_owned(),
    }
}

fn tensors_title(document: &Document, pattern: Pattern) -> String {
    let of = |cell: &&CellRecord| cell.pattern == pattern;
    let roles = document.cells.iter().find(of).and_then(|cell| cell.roles).unwrap_or_default();
    let assigns = document
        .cells
        .iter()
        .filter(of)
        .any(|cell| cell.tensors.as_ref().is_some_and(|tensors| tensors.assign.is_some()));
    let way = match pattern {
        Pattern::TensorPush => "to",
        _ => "from",
    };
    format!(
        "{pattern}: MB/s (10^6 bytes of tensors a second) of {} worker(s) {way} {} parameter server(s) / time \
         of a step, all tensors once, in ms, median (p99){}",
        roles.workers,
        roles.servers,
        if assigns { ", assignment (sum over servers)" } else { "" }
    )
}

/// Characters of the widest size.
const SIZE: usize = "1023 KiB".len();

/// Characters of the widest figure.
fn widest(pattern: Pattern) -> usize {
    match pattern {
        Pattern::Calls | Pattern::Ps => "123! / 12,345 (67,890)".len(),
        Pattern::TensorPush | Pattern::TensorFetch => "1,234 / 123 (-)".len(),
        _ => "RT 1,234 (5,678)".len(),
    }
}

/// As many columns side by side as fit `line` characters, then the next; `first` is the width of what stands before
/// them, `width` that of a column.
pub(super) fn beside<T>(
    line: usize,
    columns: impl Iterator<Item = T>,
    first: usize,
    width: impl Fn(&T) -> usize,
) -> Vec<Vec<T>> {
    let mut blocks: Vec<Vec<T>> = Vec::new();
    let mut taken = line;
    for column in columns {
        let needed = width(&column) + 2;
        taken += needed;
        if taken > line || blocks.is_empty() {
            taken = first + needed;
            blocks.push(Vec::new());
        }
        if let Some(block) = blocks.last_mut() {
            block.push(column);
        }
    }
    blocks
}

#[cfg(test)]
pub(super) mod tests;
