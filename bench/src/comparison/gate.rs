//! Gates: what a build must not do to a figure.

use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;
use wildmatch::WildMatch;

use super::{
    cell::{CellComparison, CellName, Outcome},
    figure::{Figure, Finding},
    metric::Metric,
};
use crate::plan::parse_bytes;

/// What is wrong with the text of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GateError {
    /// It is not of the form.
    #[error(
        "`{0}` is not METRIC > RATIO or METRIC < RATIO, and then perhaps @ TRANSPORT, PATTERN and SIZE, as in \
         `latency.p50 > 1.10 @ verbs-* latency 64`"
    )]
    Form(String),
    /// There is no such figure.
    #[error("`{0}` is no figure; there are {list}", list = names())]
    Metric(String),
    /// No ratio to hold a figure to.
    #[error("`{0}` is no ratio of new to old above zero, such as 1.10")]
    Ratio(String),
    /// It would trip where nothing has changed.
    #[error(
        "`{0}` would trip without a difference: RATIO is new by old, 1 or more behind >, 1 or less behind <"
    )]
    WrongSide(String),
    /// No size.
    #[error("`{0}` is no size: bytes with or without K, M or G, or *")]
    Size(String),
}

fn names() -> String {
    Metric::ALL.map(Metric::name).join(", ")
}

/// A limit for the ratio of a figure in some cells: `latency.p50 > 1.10 @ verbs-*`.
#[derive(Debug, Clone)]
pub struct Gate {
    text: String,
    /// The figure.
    pub metric: Metric,
    // Whether more is too much; else less is too little.
    rises: bool,
    ratio: f64,
    transport: WildMatch,
    // Whether the transport is matched with its variant.
    with_variant: bool,
    pattern: WildMatch,
    size: Option<u64>,
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || GateError::Form(text.to_owned());
        let at = text.find(['<', '>']).ok_or_else(form)?;
        let (metric, rest) = text.split_at_checked(at).ok_or_else(form)?;
        let metric = metric.trim();
        let metric = Metric::parse(metric).ok_or_else(|| GateError::Metric(metric.to_owned()))?;
        let mut rest = rest.chars();
        let rises = rest.next() == Some('>');
        let rest = rest.as_str();
        let (limit, place) = rest.split_once('@').unwrap_or((rest, "*"));
        let limit = limit.trim();
        let ratio = limit.parse::<f64>().ok().filter(|ratio| *ratio > 0.0 && ratio.is_finite());
        let ratio = ratio.ok_or_else(|| GateError::Ratio(limit.to_owned()))?;
        if ratio != 1.0 && rises != (ratio > 1.0) {
            return Err(GateError::WrongSide(text.to_owned()));
        }
        let (transport, pattern, size) = match place.split_whitespace().collect::<Vec<_>>()[..] {
            [transport] => (transport, "*", "*"),
            [transport, pattern] => (transport, pattern, "*"),
            [transport, pattern, size] => (transport, pattern, size),
            _ => return Err(form()),
        };
        let size = match size {
            "*" => None,
            size => Some(parse_bytes(size).map_err(|_| GateError::Size(size.to_owned()))?),
        };
        Ok(Self {
            text: text.to_owned(),
            metric,
            rises,
            ratio,
            transport: WildMatch::new(transport),
            with_variant: transport.contains('['),
            pattern: WildMatch::new(pattern),
            size,
        })
    }
}

/// How a gate ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateVerdict {
    /// No figure is beyond the limit by more than chance explains.
    Passed,
    /// A figure is.
    Tripped,
    /// A figure that the old file has cannot be judged, or the new file alone has any.
    NotJudged,
    /// No cell of either file has such a figure: it would pass for ever.
    NamesNothing,
}

/// What became of a gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateOutcome {
    /// As it was given.
    pub gate: String,
    /// How it ended.
    pub verdict: GateVerdict,
    /// Figures that were held to it.
    pub judged: usize,
    /// Of these, those of which a change as large as the limit would not have been shown: their intervals are too
    /// wide.
    pub uncertain: usize,
    /// Cells whose figure is beyond it.
    pub tripped_by: Vec<CellName>,
    /// Cells for which it could not be judged, with the reason: those that the old file has a figure of, and where
    /// none is left those that the new file has alone.
    pub not_judged: Vec<(CellName, String)>,
}

impl Gate {
    /// Whether it is for the cell of that name.
    #[must_use]
    pub fn names(&self, cell: &CellName) -> bool {
        let transport = if self.with_variant { cell.label() } else { cell.transport.to_string() };
        self.transport.matches(&transport)
            && self.pattern.matches(cell.pattern.name())
            && self.size.is_none_or(|size| size == cell.size)
    }

    /// Whether `figure` differs by more than chance explains, and is beyond the limit.
    fn is_tripped_by(&self, figure: &Figure) -> bool {
        let differs = matches!(figure.finding, Finding::Faster | Finding::Slower);
        let beyond = if self.rises { figure.ratio > self.ratio } else { figure.ratio < self.ratio };
        differs && beyond
    }

    /// Whether `figure` is known so badly that it would pass at the limit as well. None is where any difference trips.
    fn is_lost_on(&self, figure: &Figure) -> bool {
        let Some([low, high]) = figure.interval_95.filter(|_| self.ratio != 1.0) else {
            return false;
        };
        // An interval is as wide about another ratio, as a factor.
        let moved = self.ratio / figure.ratio;
        if self.rises { moved * low <= 1.0 } else { moved * high >= 1.0 }
    }

    /// Holds all cells to it.
    pub(super) fn judge(&self, cells: &[CellComparison]) -> GateOutcome {
        let (mut judged, mut uncertain) = (0, 0);
        let (mut tripped_by, mut not_judged, mut young) = (Vec::new(), Vec::new(), Vec::new());
        for cell in cells.iter().filter(|cell| self.names(&cell.name)) {
            let figure = cell.figures.iter().find(|figure| figure.metric == self.metric);
            match (cell.outcome, figure) {
                (_, Some(figure)) if figure.finding == Finding::NotTested => {
                    not_judged
                        .push((cell.name.clone(), "nothing says how far it may be off".to_owned()));
                }
                (_, Some(figure)) => {
                    judged += 1;
                    uncertain += usize::from(self.is_lost_on(figure));
                    if self.is_tripped_by(figure) {
                        tripped_by.push(cell.name.clone());
                    }
                }
                (Outcome::OnlyNew, None) if cell.base_has.contains(&self.metric) => {
                    let reason = "it is in the new file only, with nothing to hold it to";
                    young.push((cell.name.clone(), reason.to_owned()));
                }
                (_, None) if cell.base_has.contains(&self.metric) => {
                    let reason = cell.reason.clone();
                    let reason =
                        reason.unwrap_or_else(|| "the new file has no such figure".to_owned());
                    not_judged.push((cell.name.clone(), reason));
                }
                (_, None) => {}
            }
        }
        if judged == 0 && not_judged.is_empty() {
            not_judged = young;
        }
        let verdict = match (tripped_by.is_empty(), not_judged.is_empty(), judged) {
            (false, _, _) => GateVerdict::Tripped,
            (true, false, _) => GateVerdict::NotJudged,
            (true, true, 0) => GateVerdict::NamesNothing,
            (true, true, _) => GateVerdict::Passed,
        };
        GateOutcome { gate: self.text.clone(), verdict, judged, uncertain, tripped_by, not_judged }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Axis, Pattern, Value, Variant};

    fn gate(text: &str) -> Gate {
        text.parse().unwrap()
    }

    fn name(transport: &str, pattern: Pattern, size: u64) -> CellName {
        let variant = Variant::default();
        let transport = transport.parse().unwrap();
        CellName { transport, pattern, size, reply: None, roles: None, payload: None, variant }
    }

    fn figure(metric: Metric, ratio: f64, finding: Finding) -> Figure {
        Figure { metric, base: 1.0, new: ratio, ratio, interval_95: None, basis: None, finding }
    }

    fn cell(name: CellName, figures: Vec<Figure>) -> CellComparison {
        let base_has = vec![Metric::P50];
        let outcome = Outcome::Compared;
        CellComparison { name, outcome, reason: None, differences: Vec::new(), figures, base_has }
    }

    #[test]
    fn names_cells_by_transport_pattern_and_size() {
        let write = name("verbs-write", Pattern::Latency, 64);
        let grpc = name("grpc@ipoib", Pattern::Bandwidth, 65_536);
        for (text, of_write, of_grpc) in [
            ("rate < 0.9", true, true),
            ("rate<0.9@verbs-*", true, false),
            ("rate < 0.9 @ grpc@ipoib", false, true),
            ("rate < 0.9 @ * latency", true, false),
            ("rate < 0.9 @ * * 64K", false, true),
            ("rate < 0.9 @ verbs-w?ite latency 64", true, false),
            ("rate < 0.9 @ verbs", false, false),
        ] {
            let gate = gate(text);
            assert_eq!((gate.names(&write), gate.names(&grpc)), (of_write, of_grpc), "{text}");
        }
        let mut swept = write.clone();
        swept.variant = swept.variant.with(Axis::Qp, Value::Number(4));
        assert!(gate("rate < 1 @ verbs-write").names(&swept), "all variants");
        assert!(gate("rate < 1 @ verbs-*[qp=4]").names(&swept));
        assert!(!gate("rate < 1 @ verbs-*[qp=2]").names(&swept));
    }

    #[test]
    fn trips_only_on_what_differs_and_is_beyond() {
        let judged = |text: &str, ratio, finding| {
            let cells = [cell(
                name("tcp@lo", Pattern::Latency, 1),
                vec![figure(Metric::P50, ratio, finding)],
            )];
            gate(text).judge(&cells).verdict
        };
        use Finding::{Faster, NoDifferenceShown, NotTested, Slower};
        use GateVerdict::{NamesNothing, NotJudged, Passed, Tripped};
        assert_eq!(judged("latency.p50 > 1.1", 1.2, Slower), Tripped);
        assert_eq!(judged("latency.p50 > 1.1", 1.2, NoDifferenceShown), Passed);
        assert_eq!(judged("latency.p50 > 1.1", 1.1, Slower), Passed, "not beyond");
        assert_eq!(judged("latency.p50 > 1.1", 0.5, Faster), Passed);
        assert_eq!(judged("latency.p50 < 0.8", 0.5, Faster), Tripped);
        assert_eq!(judged("latency.p50 > 1.1", 1.2, NotTested), NotJudged);
        assert_eq!(judged("latency.max > 1.1", 1.2, Slower), NamesNothing, "another figure");
    }

    #[test]
    fn figures_that_could_not_trip_it_are_counted() {
        let uncertain = |text: &str, ratio: f64, interval: [f64; 2]| {
            let of = figure(Metric::P50, ratio, Finding::NoDifferenceShown);
            let of = Figure { interval_95: Some(interval), ..of };
            let outcome = gate(text).judge(&[cell(name("tcp@lo", Pattern::Latency, 1), vec![of])]);
            (outcome.judged, outcome.uncertain)
        };
        // At 1.1 it would reach down to 0.99, or to 1.045.
        assert_eq!(uncertain("latency.p50 > 1.1", 1.0, [0.9, 1.1]), (1, 1));
        assert_eq!(uncertain("latency.p50 > 1.1", 1.0, [0.95, 1.05]), (1, 0));
        assert_eq!(uncertain("latency.p50 > 1.1", 2.0, [1.8, 2.2]), (1, 1));
        assert_eq!(uncertain("latency.p50 < 0.9", 1.0, [0.8, 1.2]), (1, 1));
        assert_eq!(uncertain("latency.p50 < 0.9", 1.0, [0.95, 1.05]), (1, 0));
        assert_eq!(uncertain("latency.p50 > 1", 1.0, [0.5, 2.0]), (1, 0), "any difference trips");
    }

    #[test]
    fn what_was_measured_and_is_not_now_is_not_judged() {
        let lost = cell(name("tcp@lo", Pattern::Latency, 1), Vec::new());
        let lost = CellComparison { outcome: Outcome::NotMeasured, ..lost };
        let good = figure(Metric::P50, 1.0, Finding::NoDifferenceShown);
        let good = cell(name("tcp@lo", Pattern::Latency, 2), vec![good]);
        let outcome = gate("latency.p50 > 1.1").judge(&[lost.clone(), good.clone()]);
        assert_eq!((outcome.verdict, outcome.judged), (GateVerdict::NotJudged, 1));
        let young = CellComparison { outcome: Outcome::OnlyNew, ..lost };
        let outcome = gate("latency.p50 > 1.1").judge(&[young.clone(), good]);
        assert_eq!(outcome.verdict, GateVerdict::Passed, "nothing was there before");
        let outcome = gate("latency.p50 > 1.1").judge(&[young]);
        assert_eq!(outcome.verdict, GateVerdict::NotJudged);
        assert!(outcome.not_judged[0].1.contains("new file only"), "{outcome:?}");
    }
}
