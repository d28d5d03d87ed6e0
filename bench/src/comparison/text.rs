//! A comparison for a terminal.

use std::{borrow::Cow, fmt::Write as _};

use comfy_table::{CellAlignment, Table, presets};

use super::{
    Basis, CellComparison, CellName, Comparison, Figure, Finding, GateOutcome, GateVerdict,
    Outcome, Reaching, Source,
};
use crate::report::{number::figure as shown, plain};

/// How to read them.
pub(super) const INTERVALS: &str = "95 % intervals of new/base, from how rounds differ (Welch's t) and from order statistics \
     of the samples; \"no difference shown\": the interval holds 1";

/// The most warnings of each file that are shown.
const MOST_WARNINGS: usize = 3;

/// The most names in one line.
const MOST_NAMES: usize = 4;

/// What differs, the figures beside each other, what was not compared, and the gates.
#[must_use]
pub fn text(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (name, source) in [("base", &comparison.base), ("new", &comparison.new)] {
        let _ = writeln!(text, "{name}: {}", described(source));
    }
    for found in comparison.refusals() {
        let refused = if comparison.anyway { "compared anyway" } else { "not comparable" };
        let _ = writeln!(text, "{refused}: {}", reach(found));
    }
    for found in comparison.warnings() {
        let _ = writeln!(text, "differs: {}", reach(found));
    }
    if comparison.figures().next().is_some() {
        let _ = writeln!(text, "\n{}\n\n{INTERVALS}", table(comparison));
    }
    let _ = writeln!(text, "\n{}", summary(comparison));
    for line in notes(comparison) {
        let _ = writeln!(text, "{line}");
    }
    for gate in &comparison.gates {
        let _ = writeln!(text, "{}", gate_line(gate));
    }
    // File names, reasons and settings are what others wrote.
    let lines: Vec<Cow<'_, str>> = text.lines().map(plain).collect();
    lines.join("\n") + "\n"
}

/// A source in a line.
pub(super) fn described(source: &Source) -> String {
    let Source { file, fabricbench, hosts, rounds, complete, .. } = source;
    let mut hosts = hosts.clone();
    hosts.dedup();
    let cut = if *complete { "" } else { ", INCOMPLETE: what it has is compared" };
    format!("{file}: fabricbench {fabricbench}, {}, rounds: {rounds}{cut}", hosts.join(" and "))
}

/// A difference, and how many cells it is of.
pub(super) fn reach(found: &Reaching) -> String {
    match found.cells {
        None => found.difference.to_string(),
        Some(1) => format!("{} (1 cell)", found.difference),
        Some(cells) => format!("{} ({cells} cells)", found.difference),
    }
}

/// What a row of figures says, in the order of [`HEADER`].
pub(super) fn row(name: &CellName, figure: &Figure) -> [String; 7] {
    let scaled = |value: f64| shown(Some(value / figure.metric.scale()));
    [
        name.to_string(),
        format!("{}, {}", figure.metric, figure.metric.unit()),
        scaled(figure.base),
        scaled(figure.new),
        format!("{:.3}", figure.ratio),
        figure
            .interval_95
            .map_or_else(|| "-".to_owned(), |[low, high]| format!("{low:.3} to {high:.3}")),
        figure.words(),
    ]
}

/// The columns.
pub(super) const HEADER: [&str; 7] =
    ["cell", "figure", "base", "new", "new/base", "95 % interval", "shown"];

fn table(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(HEADER);
    for (name, figure) in comparison.figures() {
        table.add_row(row(name, figure));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if (2..6).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// How many figures show what.
pub(super) fn summary(comparison: &Comparison) -> String {
    let compared = comparison.figures().count();
    if compared == 0 {
        return "nothing was compared".to_owned();
    }
    let [slower, faster, none, untested] =
        [Finding::Slower, Finding::Faster, Finding::NoDifferenceShown, Finding::NotTested]
            .map(|finding| comparison.found(finding));
    let mut text = format!(
        "of {compared} figures: {slower} slower, {faster} faster, {none} with no difference shown"
    );
    if untested > 0 {
        let _ = write!(text, ", {untested} not tested (nothing says how far the ratio may be off)");
    }
    // An interval of 95 % leaves out the truth in one of twenty cases.
    let by_chance = (compared - untested) / 20;
    if by_chance > 0 {
        let _ = write!(text, "; about {by_chance} would differ by chance alone");
    }
    text
}

/// What the table does not say.
pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, source) in [("base", &comparison.base), ("new", &comparison.new)] {
        let told = source.warnings.iter().take(MOST_WARNINGS);
        notes.extend(told.map(|warning| format!("warning in {name}: {warning}")));
        let more = source.warnings.len().saturating_sub(MOST_WARNINGS);
        if more > 0 {
            notes.push(format!("warnings in {name}: {more} more"));
        }
    }
    let by_samples =
        comparison.figures().filter(|(_, figure)| figure.basis == Some(Basis::Samples)).count();
    if by_samples > 0 {
        notes.push(format!(
            "{by_samples} of the intervals are by samples alone, without two rounds: how much a figure changes \
             from run to run is not in them; measure with --rounds 3 or more"
        ));
    }
    for (outcome, name) in [
        (Outcome::Refused, "not comparable"),
        (Outcome::NotMeasured, "not measured"),
        (Outcome::OnlyBase, "only in base"),
        (Outcome::OnlyNew, "only in new"),
    ] {
        let cells: Vec<_> =
            comparison.cells.iter().filter(|cell| cell.outcome == outcome).collect();
        notes.extend(by_reason(&cells).into_iter().map(|(reason, cells)| {
            let names = names(cells.iter().map(|cell| &cell.name));
            match outcome {
                Outcome::OnlyBase | Outcome::OnlyNew => format!("{name}: {names}"),
                _ => format!("{name}: {names}: {reason}"),
            }
        }));
    }
    let compared = comparison.cells.iter().filter(|cell| cell.outcome == Outcome::Compared);
    let without: Vec<_> = compared.clone().filter(|cell| cell.figures.is_empty()).collect();
    if !without.is_empty() {
        let names = names(without.iter().map(|cell| &cell.name));
        notes.push(format!("no figure that both files have: {names}"));
    }
    let unreadable: Vec<_> = compared.filter(|cell| cell.reason.is_some()).collect();
    notes.extend(by_reason(&unreadable).into_iter().map(|(reason, cells)| {
        format!("{}: {reason}", names(cells.iter().map(|cell| &cell.name)))
    }));
    notes
}

/// Those with the same reason together, in the order in which they come.
fn by_reason<'a>(cells: &[&'a CellComparison]) -> Vec<(&'a str, Vec<&'a CellComparison>)> {
    let mut groups: Vec<(&str, Vec<&CellComparison>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for cell in cells {
        let reason = cell.reason.as_deref().unwrap_or("");
        let place = *places.entry(reason).or_insert_with(|| {
            groups.push((reason, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, group)) = groups.get_mut(place) {
            group.push(cell);
        }
    }
    groups
}

/// The first few names, and how many more there are.
pub(super) fn names<'a>(names: impl ExactSizeIterator<Item = &'a CellName>) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let first: Vec<_> = names.take(MOST_NAMES).map(ToString::to_string).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

/// What became of a gate, in a line.
pub(super) fn gate_line(outcome: &GateOutcome) -> String {
    let GateOutcome { gate, verdict, judged, uncertain, tripped_by, not_judged } = outcome;
    let unjudged = || {
        let reason = not_judged.first().map_or("", |(_, reason)| reason.as_str());
        format!("{}: {reason}", names(not_judged.iter().map(|(name, _)| name)))
    };
    match verdict {
        GateVerdict::Passed => match uncertain {
            0 => format!("gate passed: {gate} (figures: {judged})"),
            _ => format!(
                "gate passed: {gate} (figures: {judged}; {uncertain} of them too uncertain to show a change of that \
                 size: take more rounds)"
            ),
        },
        GateVerdict::Tripped => {
            let by = names(tripped_by.iter());
            let rest = if not_judged.is_empty() {
                String::new()
            } else {
                format!("; not judged: {}", unjudged())
            };
            format!("gate TRIPPED: {gate} by {} of {judged}: {by}{rest}", tripped_by.len())
        }
        GateVerdict::NotJudged => format!("gate not judged: {gate}: {}", unjudged()),
        GateVerdict::NamesNothing => {
            format!("gate names nothing: {gate}: no cell of either file has such a figure")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        comparison::Metric,
        plan::{Pattern, Variant},
    };

    fn name(size: u64) -> CellName {
        let (transport, variant) = ("verbs-write".parse().unwrap(), Variant::default());
        let pattern = Pattern::Latency;
        CellName { transport, pattern, size, reply: None, roles: None, payload: None, variant }
    }

    #[test]
    fn methodology_1_a_ratio_never_stands_without_the_figures_that_it_is_of() {
        for metric in Metric::ALL {
            let (base, new) = (2_000.0 * metric.scale(), 2_100.0 * metric.scale());
            let interval_95 = Some([1.02, 1.08]);
            let finding = if metric.is_cost() { Finding::Slower } else { Finding::Faster };
            let figure =
                Figure { metric, base, new, ratio: 1.05, interval_95, basis: None, finding };
            let [cell, figure, base, new, ratio, interval, shown] = row(&name(64), &figure);
            assert_eq!(
                (cell.as_str(), figure.contains(metric.unit())),
                ("verbs-write latency 64 B", true)
            );
            assert_eq!((base.as_str(), new.as_str()), ("2,000", "2,100"));
            assert_eq!((ratio.as_str(), interval.as_str()), ("1.050", "1.020 to 1.080"));
            assert!(shown.starts_with("5.0 % "), "{shown}");
        }
    }

    #[test]
    fn few_names_are_told_and_many_counted() {
        let cells: Vec<_> = (1..=6).map(name).collect();
        let told = names(cells.iter());
        assert!(
            told.contains("4 B") && !told.contains("5 B") && told.ends_with(" and 2 more"),
            "{told}"
        );
        assert!(!names(cells[..4].iter()).contains("more"));
    }
}
