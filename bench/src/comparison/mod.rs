//! Two results beside each other: which cells can be compared, what their ratios show, and whether a
//! build may pass. How the intervals are made is in `docs/methodology.md`.

mod cell;
mod comparable;
mod figure;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod gate;
mod input;
mod json;
mod markdown;
mod matching;
mod metric;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

pub use cell::{CellComparison, CellName, Outcome};
pub use comparable::{Difference, Severity};
pub use figure::{Basis, Figure, Finding};
pub use gate::{Gate, GateError, GateOutcome, GateVerdict};
pub use input::{Input, InputError, LARGEST_RESULT, content, read};
pub use json::{COMPARISON_SCHEMA, json};
pub use markdown::markdown;
pub use metric::Metric;
pub use text::text;

use crate::report::Document;

/// How results are to be compared.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Compare also what is not comparable.
    pub anyway: bool,
    /// Compare all figures, not only those that are shown of a pattern and those that gates name.
    pub all_figures: bool,
    /// What the ratios are held to.
    pub gates: Vec<Gate>,
}

/// One of the two files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Source {
    /// Its name.
    pub file: String,
    /// Version of fabricbench that wrote it.
    pub fabricbench: String,
    /// When its run began, seconds since 1970-01-01T00:00:00Z.
    pub started_unix_s: u64,
    /// Host of the client, and of the server if that was reached.
    pub hosts: Vec<String>,
    /// Rounds that were planned.
    pub rounds: u32,
    /// Whether its plan was carried out to the end.
    pub complete: bool,
    /// What it says itself that a reader must know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Source {
    fn of(file: &str, document: &Document) -> Self {
        let hosts = std::iter::once(&document.client).chain(&document.server);
        Self {
            file: file.to_owned(),
            fabricbench: document.fabricbench.clone(),
            started_unix_s: document.started_unix_s,
            hosts: hosts.map(|host| host.hostname.clone()).collect(),
            rounds: document.plan.rounds,
            complete: document.complete,
            warnings: document.warnings.clone(),
        }
    }
}

/// A difference, and how far it reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reaching {
    /// What differs.
    #[serde(flatten)]
    pub difference: Difference,
    /// Cells that it is of; `null`: all.
    pub cells: Option<usize>,
}

/// How a comparison ended, for who must decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No gate tripped.
    Passed,
    /// Something could not be compared, or not be held to its gate.
    NotComparable,
    /// A gate tripped.
    Tripped,
}

/// A new result beside an old one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The old one.
    pub base: Source,
    /// The new one.
    pub new: Source,
    /// How it ended.
    pub verdict: Verdict,
    /// Whether what is not comparable was compared in spite of that.
    pub anyway: bool,
    /// What differs beside the figures.
    pub differences: Vec<Reaching>,
    /// All cells of both files.
    pub cells: Vec<CellComparison>,
    /// What became of the gates.
    pub gates: Vec<GateOutcome>,
}

impl Comparison {
    /// Compares two results.
    #[must_use]
    pub fn of(base: &Input, new: &Input, request: &Request) -> Self {
        let of_runs = comparable::of_runs(&base.document, &new.document);
        let refused = of_runs.iter().any(|difference| difference.severity == Severity::Refused);
        let matches = matching::matches(&base.document.cells, &new.document.cells);
        let metrics = |name: &CellName| request.metrics(name);
        let mut cells: Vec<_> = matches
            .pairs
            .iter()
            .map(|(base, new)| CellComparison::of(base, new, request.anyway, metrics))
            .collect();
        let alone = |outcome| move |cell: &_| CellComparison::alone(cell, outcome);
        cells.extend(matches.only_base.into_iter().map(alone(Outcome::OnlyBase)));
        cells.extend(matches.only_new.into_iter().map(alone(Outcome::OnlyNew)));
        if refused && !request.anyway {
            for cell in cells.iter_mut().filter(|cell| cell.outcome == Outcome::Compared) {
                cell.outcome = Outcome::Refused;
                cell.figures.clear();
                cell.reason = Some("the runs are not comparable".to_owned());
            }
        }
        let gates: Vec<_> = request.gates.iter().map(|gate| gate.judge(&cells)).collect();
        Self {
            base: Source::of(&base.file, &base.document),
            new: Source::of(&new.file, &new.document),
            verdict: verdict(&cells, &gates),
            anyway: request.anyway,
            differences: reaching(of_runs, &cells),
            cells,
            gates,
        }
    }

    /// How many cells ended so.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.cells.iter().filter(|cell| cell.outcome == outcome).count()
    }

    /// All figures that are compared.
    pub fn figures(&self) -> impl Iterator<Item = (&CellName, &Figure)> {
        self.cells.iter().flat_map(|cell| cell.figures.iter().map(|figure| (&cell.name, figure)))
    }

    /// How many figures show that.
    #[must_use]
    pub fn found(&self, finding: Finding) -> usize {
        self.figures().filter(|(_, figure)| figure.finding == finding).count()
    }

    /// Differences that make it no comparison.
    pub fn refusals(&self) -> impl Iterator<Item = &Reaching> {
        self.differences.iter().filter(|found| found.difference.severity == Severity::Refused)
    }

    /// Differences that a reader has to know of.
    pub fn warnings(&self) -> impl Iterator<Item = &Reaching> {
        self.differences.iter().filter(|found| found.difference.severity == Severity::Warning)
    }
}

impl Request {
    fn metrics(&self, cell: &CellName) -> Vec<Metric> {
        let shown = Metric::shown(cell.pattern);
        let wanted = |metric: &Metric| {
            let held = |gate: &Gate| gate.metric == *metric && gate.names(cell);
            self.all_figures || shown.contains(metric) || self.gates.iter().any(held)
        };
        Metric::ALL.into_iter().filter(wanted).collect()
    }
}

fn verdict(cells: &[CellComparison], gates: &[GateOutcome]) -> Verdict {
    let judged = |verdict| gates.iter().any(|gate| gate.verdict == verdict);
    let is = |outcome| cells.iter().any(|cell| cell.outcome == outcome);
    if judged(GateVerdict::Tripped) {
        Verdict::Tripped
    } else if !is(Outcome::Compared)
        || is(Outcome::Refused)
        || judged(GateVerdict::NotJudged)
        || judged(GateVerdict::NamesNothing)
    {
        Verdict::NotComparable
    } else {
        Verdict::Passed
    }
}

/// Those of the runs, and those of cells, each once, with how many cells it is of; the worst first.
fn reaching(of_runs: Vec<Difference>, cells: &[CellComparison]) -> Vec<Reaching> {
    let mut counts: BTreeMap<&Difference, usize> = BTreeMap::new();
    for difference in cells.iter().flat_map(|cell| &cell.differences) {
        *counts.entry(difference).or_default() += 1;
    }
    let of_cells = counts
        .into_iter()
        .map(|(difference, count)| Reaching { difference: difference.clone(), cells: Some(count) });
    let of_runs = of_runs.into_iter().map(|difference| Reaching { difference, cells: None });
    let mut all: Vec<_> = of_runs.chain(of_cells).collect();
    all.sort_by_key(|found| found.difference.severity);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Where there is something in `value`, as pointers.
    fn places(value: &Value, here: &str, found: &mut Vec<String>) {
        let mut go = |name: &str, value| places(value, &format!("{here}/{name}"), found);
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| go(name, value)),
            Value::Array(values) => {
                values.iter().enumerate().for_each(|(index, value)| go(&index.to_string(), value));
            }
            _ => {}
        }
        found.push(here.to_owned());
    }

    /// A result that differs from a good one in any one place either is no result, or is compared, and what
    /// is said of it are numbers.
    #[test]
    fn nothing_in_a_file_is_too_odd() {
        let mut good = comparable::tests::document();
        good["cells"] = json!([figure::tests::cell(1.0, &[1.0, 1.01])]);
        let read = |value: &Value| input::parse("odd".to_owned(), value.to_string().as_bytes());
        let base = read(&good).unwrap();
        let gates = Metric::ALL.map(|metric| format!("{metric} > 1.0001").parse().unwrap());
        let request = Request { anyway: true, all_figures: true, gates: gates.to_vec() };
        let mut found = Vec::new();
        places(&good, "", &mut found);
        let (mut compared, mut refused) = (0, 0);
        for place in found {
            for odd in [
                json!(null),
                json!(0),
                json!(-1),
                json!(1e308),
                json!(5e-324),
                json!(u64::MAX),
                json!(""),
                json!([]),
                json!({}),
            ] {
                let mut changed = good.clone();
                *changed.pointer_mut(&place).unwrap() = odd;
                let Ok(new) = read(&changed) else {
                    refused += 1;
                    continue;
                };
                compared += 1;
                for comparison in
                    [Comparison::of(&base, &new, &request), Comparison::of(&new, &base, &request)]
                {
                    for (_, figure) in comparison.figures() {
                        let ends = figure.interval_95.unwrap_or([1.0, 1.0]);
                        let all = [figure.base, figure.new, figure.ratio, ends[0], ends[1]];
                        assert!(
                            all.iter().all(|x| x.is_finite() && *x > 0.0),
                            "{place}: {figure:?}"
                        );
                    }
                    let said =
                        [text(&comparison), markdown(&comparison), json(&[comparison]).unwrap()];
                    assert!(
                        said.iter().all(|said| !said.contains("NaN") && !said.contains("inf "))
                    );
                }
            }
        }
        assert!(compared > 100 && refused > 100, "{compared} and {refused}");
    }
}
