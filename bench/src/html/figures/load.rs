//! Latency against load, of calls that begin on a schedule.

use super::{
    latency::{interval, intervals},
    unit::Unit,
};
use crate::{
    html::{
        figure::{Axis, Figure, Line, Lines, Plot, Point},
        scale::Kind,
        series::{Looks, Measured, Subject, label_without_rate},
        source::Source,
    },
    plan::display_bytes,
    report::{CellRecord, KneeRecord, number::figure},
};

/// A figure for each size of `subject`, all of whose cells have a load.
pub(super) fn load(
    subject: &Subject<'_>,
    looks: &mut Looks<'_>,
    sources: &[Source],
) -> Vec<Figure> {
    let mut sizes: Vec<(u64, String)> = Vec::new();
    for Measured { cell, .. } in &subject.cells {
        let size = (cell.size, cell.size_label());
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    sizes.sort();
    let of = |(index, (size, label)): (usize, &(u64, String))| {
        let cells = subject.cells.iter().copied();
        let cells = cells
            .filter(|measured| measured.cell.size == *size && measured.cell.size_label() == *label);
        let part = Subject { cells: cells.collect(), ..Subject::like(subject) };
        one(&part, looks, sources, (index, label))
    };
    sizes.iter().enumerate().map(of).collect()
}

fn one(
    subject: &Subject<'_>,
    looks: &mut Looks<'_>,
    sources: &[Source],
    (index, size): (usize, &str),
) -> Figure {
    let medians = subject.cells.iter().filter_map(|measured| measured.cell.latency.as_ref()?.p50);
    let unit = Unit::covering(medians);
    let lines = subject.series(label_without_rate).into_iter().map(|series| {
        let (name, style) = looks.of(&series.label, series.run);
        let knees = sources.get(series.run).map_or(&[][..], |source| &source.document.knees);
        let mut points: Vec<_> =
            series.cells.iter().filter_map(|cell| point(cell, unit, knees)).collect();
        points.sort_by(|(one, _), (other, _)| one.x.total_cmp(&other.x));
        let thin = points.iter().filter_map(|(point, p99)| Some((point.x, (*p99)?))).collect();
        Line {
            name,
            style,
            curve: None,
            thin,
            points: points.into_iter().map(|(point, _)| point).collect(),
        }
    });
    let rule = subject.cells.iter().find_map(|measured| {
        let knees = &sources.get(measured.run)?.document.knees;
        knees.iter().find(|knee| knee.has(measured.cell))
    });
    let rule = rule.map_or_else(String::new, |knee| {
        format!(
            " Rings: the knee, the highest rate that was sustained with a {} of at most {} times the least one.",
            knee.figure,
            figure(Some(knee.times))
        )
    });
    let replies = subject
        .reply
        .map_or_else(String::new, |reply| format!(", replies of {}", display_bytes(reply)));
    let lines = Lines {
        x: Axis {
            title: "offered load, calls a second".to_owned(),
            unit: "/s".to_owned(),
            kind: Kind::Log,
        },
        y: Axis {
            title: format!("time of a call, {}", unit.name),
            unit: unit.name.to_owned(),
            kind: Kind::Log,
        },
        lines: lines.collect(),
        limits: Vec::new(),
    };
    Figure {
        id: format!("load-{}-{}", subject.slug(), index + 1),
        title: format!("Time of a call against load, {size}"),
        caption: format!(
            "Open loop: calls begin on a schedule, and each is timed from when it was to begin{replies}. \
             Marks: the median, with {}. Thin lines: the 99th percentile. Hollow \
             marks: the load was not sustained in most rounds, and the time says how far the server fell behind, not how \
             long a call takes.{rule}",
            intervals(subject),
        ),
        table: lines.table(),
        plot: Plot::Lines(lines),
    }
}

/// A point of the line, and its 99th percentile.
fn point(cell: &CellRecord, unit: Unit, knees: &[KneeRecord]) -> Option<(Point, Option<f64>)> {
    let (latency, load) = (cell.latency.as_ref()?, cell.load.as_ref()?);
    let median = latency.p50?;
    let interval = interval(latency);
    let mut text = unit.words(median, interval, latency.p99);
    if let Some(unborne) = cell.unborne() {
        let achieved = figure(load.achieved_per_s);
        text.push_str(&format!("; {unborne}: {achieved}/s answered"));
    }
    let is_knee = |knee: &KneeRecord| knee.knee_per_s == Some(load.offered_per_s) && knee.has(cell);
    let ringed = knees.iter().any(is_knee);
    if ringed {
        text.push_str("; the knee");
    }
    let point = Point {
        x: load.offered_per_s,
        y: Some(unit.of(median)),
        interval: interval.map(|ends| ends.map(|end| unit.of(end))),
        hollow: !cell.is_borne(),
        ringed,
        label: format!("{}/s", figure(Some(load.offered_per_s))),
        text,
    };
    Some((point, latency.p99.map(|p99| unit.of(p99))))
}
