//! One figure of each cell over the size of messages: lines where sizes are points on an axis, else bars.

use crate::{
    html::{
        figure::{Axis, Bar, Bars, Figure, Group, Limit, Line, Lines, Plot, Point},
        scale::Kind,
        series::{Looks, Series, Subject},
    },
    plan::display_bytes,
    report::{CellRecord, Status},
};

/// More lines than this nobody tells apart: then there are several figures.
const MOST_LINES: usize = 12;

/// More bars than this fill more than a page.
const MOST_BARS: usize = 48;

/// What a figure over sizes is of.
pub(super) struct Quantity<'a> {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) caption: String,
    /// What the figures are, with their unit.
    pub(super) axis: String,
    pub(super) unit: String,
    pub(super) limits: Vec<Limit>,
    /// The figure of a cell.
    pub(super) of: &'a dyn Fn(&CellRecord) -> Option<Value>,
}

/// The figure of a cell.
pub(super) struct Value {
    pub(super) value: f64,
    pub(super) interval: Option<[f64; 2]>,
    /// A second figure, drawn as a thin line.
    pub(super) thin: Option<f64>,
    /// All of it in words, without the unit.
    pub(super) text: String,
}

/// The figures of `quantity`: more than one where one would hold too much.
pub(super) fn by_size(
    subject: &Subject<'_>,
    looks: &mut Looks<'_>,
    quantity: &Quantity<'_>,
) -> Vec<Figure> {
    let mut series = subject.series(CellRecord::label);
    series.retain(|series| series.cells.iter().any(|cell| (quantity.of)(cell).is_some()));
    let plots: Vec<Plot> = if subject.is_of_sizes() {
        series.chunks(MOST_LINES).map(|series| lines(series, looks, quantity)).collect()
    } else {
        bars(&series, looks, quantity)
    };
    numbered(plots, quantity)
}

fn numbered(plots: Vec<Plot>, quantity: &Quantity<'_>) -> Vec<Figure> {
    let all = plots.len();
    let figure = |(index, plot): (usize, Plot)| {
        let (id, title) = match all {
            1 => (quantity.id.clone(), quantity.title.clone()),
            _ => (
                format!("{}-{}", quantity.id, index + 1),
                format!("{} ({} of {all})", quantity.title, index + 1),
            ),
        };
        let doubtful = match &plot {
            Plot::Lines(plot) => {
                plot.lines.iter().flat_map(|line| &line.points).any(|point| point.hollow)
            }
            Plot::Bars(plot) => {
                plot.groups.iter().flat_map(|group| &group.bars).any(|bar| bar.hollow)
            }
        };
        let caption = match doubtful {
            true => format!(
                "{} Hollow: a figure that fails a check, and is not to be believed.",
                quantity.caption
            ),
            false => quantity.caption.clone(),
        };
        let table = match &plot {
            Plot::Lines(lines) => lines.table(),
            Plot::Bars(bars) => bars.table(),
        };
        Figure { id, title, caption, plot, table }
    };
    plots.into_iter().enumerate().map(figure).collect()
}

fn lines(series: &[Series<'_>], looks: &mut Looks<'_>, quantity: &Quantity<'_>) -> Plot {
    let lines = series.iter().map(|series| {
        let (name, style) = looks.of(&series.label, series.run);
        let mut cells = series.cells.clone();
        cells.sort_by_key(|cell| cell.size);
        let values = cells.iter().map(|cell| (cell, (quantity.of)(cell)));
        let mut points = Vec::new();
        let mut thin = Vec::new();
        for (cell, value) in values {
            let x = cell.size as f64;
            thin.extend(value.as_ref().and_then(|value| value.thin).map(|thin| (x, thin)));
            points.push(Point {
                x,
                y: value.as_ref().map(|value| value.value),
                interval: value.as_ref().and_then(|value| value.interval),
                hollow: doubtful(cell),
                ringed: false,
                label: display_bytes(cell.size).to_string(),
                text: value.map_or_else(|| status(cell), |value| words(cell, value.text)),
            });
        }
        Line { name, style, points, curve: None, thin }
    });
    let x = Axis { title: "message size".to_owned(), unit: "B".to_owned(), kind: Kind::Bytes };
    let y = Axis { title: quantity.axis.clone(), unit: quantity.unit.clone(), kind: Kind::Log };
    Plot::Lines(Lines { x, y, lines: lines.collect(), limits: quantity.limits.clone() })
}

fn bars(series: &[Series<'_>], looks: &mut Looks<'_>, quantity: &Quantity<'_>) -> Vec<Plot> {
    let mut groups: Vec<Group> = Vec::new();
    for series in series {
        let (name, style) = looks.of(&series.label, series.run);
        for cell in &series.cells {
            let label = cell.size_label();
            let value = (quantity.of)(cell);
            let bar = Bar {
                name: name.clone(),
                style,
                value: value.as_ref().map(|value| value.value),
                interval: value.as_ref().and_then(|value| value.interval),
                hollow: doubtful(cell),
                text: value.map_or_else(|| status(cell), |value| words(cell, value.text)),
            };
            match groups.iter_mut().find(|group| group.name == label) {
                Some(group) => group.bars.push(bar),
                None => groups.push(Group { name: label, bars: vec![bar] }),
            }
        }
    }
    paged(groups)
        .into_iter()
        .map(|groups| {
            let x = Axis {
                title: quantity.axis.clone(),
                unit: quantity.unit.clone(),
                kind: Kind::Linear,
            };
            Plot::Bars(Bars { x, groups })
        })
        .collect()
}

/// Whether a figure contradicts itself.
fn doubtful(cell: &CellRecord) -> bool {
    !cell.failed_checks.is_empty()
}

fn words(cell: &CellRecord, text: String) -> String {
    if doubtful(cell) { format!("{text}; not to be believed, it fails a check") } else { text }
}

/// Groups that together have no more bars than fit on a page.
pub(super) fn paged(groups: Vec<Group>) -> Vec<Vec<Group>> {
    let mut pages: Vec<Vec<Group>> = Vec::new();
    let mut room = 0;
    for mut group in groups {
        while !group.bars.is_empty() {
            if room == 0 || group.bars.len() > room && room < MOST_BARS {
                pages.push(Vec::new());
                room = MOST_BARS;
            }
            let rest = group.bars.split_off(group.bars.len().min(room));
            room -= group.bars.len();
            let part =
                Group { name: group.name.clone(), bars: std::mem::replace(&mut group.bars, rest) };
            if let Some(page) = pages.last_mut() {
                page.push(part);
            }
        }
    }
    pages
}

/// Why there is no figure, in a word.
pub(super) fn status(cell: &CellRecord) -> String {
    match cell.status {
        Status::Measured => "-",
        Status::Unsupported => "unsupported",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
    }
    .to_owned()
}
