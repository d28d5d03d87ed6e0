//! A comparison as Markdown for a pull request: the verdict first, then what differs, and all else folded.

use std::fmt::Write as _;

use super::{
    CellName, Comparison, Figure, Finding, GateVerdict, Verdict,
    text::{HEADER, INTERVALS, described, gate_line, notes, reach, row, summary},
};
use crate::report::plain;

/// The most rows of a table: a comment has room for 65,536 characters.
const MOST_ROWS: usize = 150;

/// Verdict, what differs, and the rest in `<details>`.
#[must_use]
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = format!("**{}**\n\n", said(&verdict(comparison)));
    let _ = writeln!(
        text,
        "base: {}  \nnew: {}\n",
        said(&described(&comparison.base)),
        said(&described(&comparison.new))
    );
    for found in comparison.refusals() {
        let refused = if comparison.anyway { "compared anyway" } else { "not comparable" };
        let _ = writeln!(text, "- {refused}: {}", said(&reach(found)));
    }
    for found in comparison.warnings() {
        let _ = writeln!(text, "- differs: {}", said(&reach(found)));
    }
    for gate in comparison.gates.iter().filter(|gate| gate.verdict != GateVerdict::Passed) {
        let _ = writeln!(text, "- {}", said(&gate_line(gate)));
    }
    let differs = |figure: &Figure| matches!(figure.finding, Finding::Slower | Finding::Faster);
    let changed: Vec<_> = comparison.figures().filter(|(_, figure)| differs(figure)).collect();
    if !changed.is_empty() {
        let _ = write!(text, "\n{}", table(&changed));
    }
    let all: Vec<_> = comparison.figures().collect();
    let _ = write!(text, "\n<details><summary>{}</summary>\n\n", said(&summary(comparison)));
    if !all.is_empty() {
        let _ = writeln!(text, "{}\n{INTERVALS}\n", table(&all));
    }
    for line in notes(comparison) {
        let _ = writeln!(text, "- {}", said(&line));
    }
    for gate in comparison.gates.iter().filter(|gate| gate.verdict == GateVerdict::Passed) {
        let _ = writeln!(text, "- {}", said(&gate_line(gate)));
    }
    text.push_str("\n</details>\n");
    text
}

fn verdict(comparison: &Comparison) -> String {
    let tripped: usize = comparison.gates.iter().map(|gate| gate.tripped_by.len()).sum();
    let summary = summary(comparison);
    match comparison.verdict {
        Verdict::Tripped => format!("Gate tripped by {tripped} figures; {summary}"),
        Verdict::NotComparable => format!("Not (wholly) comparable; {summary}"),
        Verdict::Passed if comparison.gates.is_empty() => format!("Compared; {summary}"),
        Verdict::Passed => format!("Gates passed; {summary}"),
    }
}

fn table(rows: &[(&CellName, &Figure)]) -> String {
    let mut text =
        format!("| {} |\n| --- | --- | ---: | ---: | ---: | ---: | --- |\n", HEADER.join(" | "));
    for (name, figure) in rows.iter().take(MOST_ROWS) {
        let _ = writeln!(text, "| {} |", row(name, figure).map(|part| said(&part)).join(" | "));
    }
    if rows.len() > MOST_ROWS {
        let _ = writeln!(
            text,
            "\nand {} rows more: `--format table` has them all",
            rows.len() - MOST_ROWS
        );
    }
    text
}

/// `text` as Markdown shows it literally, in one line.
fn said(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in plain(text).chars() {
        match character {
            // Entities, since a name such as `@name` or `#1` is a mention or a link whatever is before it.
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '@' => escaped.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '|' | '[' | ']' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_chose_is_shown_and_does_nothing() {
        let shown = said("<b>|@all #1 [x](y) `a`\n_b_ *c* & \u{1b}[2J");
        assert_eq!(
            shown,
            "&lt;b&gt;\\|&#64;all \\#1 \\[x\\](y) \\`a\\`\\\\n\\_b\\_ \\*c\\* &amp; \\\\u{1b}\\[2J"
        );
    }
}
