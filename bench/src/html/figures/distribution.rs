//! Latency distributions of one size: percentiles, and the cumulated share.

use super::{latency, unit::Unit};
use crate::{
    html::{
        figure::{Axis, Figure, Line, Lines, Plot, Point},
        scale::Kind,
        series::{Looks, Subject},
    },
    report::{CellRecord, LatencyKind, number::figure},
    stats::Distribution,
};

/// The most vertices of a line: more would not be seen.
const MOST_VERTICES: usize = 120;

/// Quantiles that are marked, and stand in the table.
const MARKED: [(f64, &str); 6] = [
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
];

/// A distribution with what it is of.
struct Of {
    line: Line,
    cumulated: Line,
}

/// Two figures of the cells of `subject` that are of the size called `size`, as far as they have histograms.
pub(super) fn distributions(
    subject: &Subject<'_>,
    looks: &mut Looks<'_>,
    index: usize,
    size: &str,
) -> Vec<Figure> {
    let medians = subject.cells.iter().filter_map(|measured| measured.cell.latency.as_ref()?.p50);
    let unit = Unit::covering(medians);
    let mut lines = Vec::new();
    let mut cumulated = Vec::new();
    for series in subject.series(CellRecord::label) {
        for cell in &series.cells {
            let Some((distribution, kind)) = read(cell) else { continue };
            let (name, style) = looks.of(&series.label, series.run);
            let line = Line { name, style, points: Vec::new(), curve: None, thin: Vec::new() };
            let of = drawn(&distribution, kind, unit, line);
            lines.push(of.line);
            cumulated.push(of.cumulated);
        }
    }
    if lines.is_empty() {
        return Vec::new();
    }
    let (title, of) = latency::words(subject);
    let time = Axis {
        title: format!("{}, {}", latency::axis(subject), unit.name),
        unit: unit.name.to_owned(),
        kind: Kind::Log,
    };
    let percentiles = Lines {
        x: Axis {
            title: format!("{SHARE} (on a 1/(1 - q) axis)"),
            unit: String::new(),
            kind: Kind::Nines,
        },
        y: time.clone(),
        lines,
        limits: Vec::new(),
    };
    // Of both figures: a table is on no axis.
    const SHARE: &str = "share of samples that are no larger";
    let mut table = percentiles.table();
    if let Some(share) = table.head.first_mut() {
        SHARE.clone_into(share);
    }
    let share = Axis { title: SHARE.to_owned(), unit: String::new(), kind: Kind::Share };
    let cumulated = Lines { x: time, y: share, lines: cumulated, limits: Vec::new() };
    let id = format!("{}-{}", subject.slug(), index + 1);
    vec![
        Figure {
            id: format!("percentiles-{id}"),
            title: format!("{title}: percentiles at {size}"),
            caption: format!(
                "{of}. Each line ends at the last quantile behind which 10 / (1 - q) samples stand."
            ),
            plot: Plot::Lines(percentiles),
            table: table.clone(),
        },
        Figure {
            id: format!("cdf-{id}"),
            title: format!("{title}: cumulative distribution at {size}"),
            caption: format!("{of}. The same samples, up to the same quantile."),
            plot: Plot::Lines(cumulated),
            table,
        },
    ]
}

/// The histogram of a cell, if it has one that can be read.
pub(super) fn read(cell: &CellRecord) -> Option<(Distribution, LatencyKind)> {
    let latency = cell.latency.as_ref()?;
    let record = latency.histogram.as_ref()?;
    let distribution = Distribution::parse(&record.data).ok()?;
    (!distribution.is_empty()).then_some((distribution, latency.kind))
}

fn drawn(distribution: &Distribution, kind: LatencyKind, unit: Unit, line: Line) -> Of {
    let all = distribution.len() as f64;
    // Beyond it, fewer than ten samples are larger: no percentile.
    let last = 1.0 - 10.0 / all;
    let steps: Vec<(f64, f64)> = distribution
        .cumulated()
        .map(|(value, seen)| (unit.of(kind.of(value)), seen as f64 / all))
        .collect();
    let mut nines = Vec::new();
    let mut shares = Vec::new();
    let mut before = 0.0;
    for &(value, share) in steps.iter() {
        if before > last {
            break;
        }
        let end = share.min(last.max(0.0));
        // A step: this value from the share before it to its own.
        nines.push((1.0 / (1.0 - before), value));
        nines.push((1.0 / (1.0 - end), value));
        shares.push((value, before));
        shares.push((value, end));
        before = share;
    }
    let marks = MARKED.into_iter().filter_map(|(q, name)| {
        let value = unit.of(kind.of(distribution.quantile(q).value()?));
        Some((q, name, value))
    });
    let marks: Vec<_> = marks.collect();
    let of_nines = marks
        .iter()
        .map(|&(q, name, value)| mark(1.0 / (1.0 - q), value, name, figure(Some(value))));
    let of_shares = marks.iter().map(|&(q, name, value)| {
        let text = name.to_owned();
        mark(value, q, &format!("{} {}", figure(Some(value)), unit.name), text)
    });
    Of {
        cumulated: Line {
            points: of_shares.take(3).collect(),
            curve: Some(thinned(&shares, |&(_, share)| share)),
            ..line.clone()
        },
        line: Line {
            points: of_nines.collect(),
            curve: Some(thinned(&nines, |&(nines, _)| nines.log10())),
            ..line
        },
    }
}

fn mark(x: f64, y: f64, label: &str, text: String) -> Point {
    Point {
        x,
        y: Some(y),
        interval: None,
        hollow: false,
        ringed: false,
        label: label.to_owned(),
        text,
    }
}

/// No more vertices than are seen, evenly by `along`; the first and the last stay.
fn thinned(points: &[(f64, f64)], along: impl Fn(&(f64, f64)) -> f64) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= MOST_VERTICES {
        return points.to_vec();
    }
    let step = (along(last) - along(first)) / MOST_VERTICES as f64;
    let mut kept = vec![*first];
    let mut reached = along(first);
    for point in points {
        if along(point) - reached >= step {
            reached = along(point);
            kept.push(*point);
        }
    }
    kept.push(*last);
    kept
}
