//! What a figure shows, before it is drawn.

use super::{palette::Style, scale::Kind};

/// One figure.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    /// Its name in links and file names: letters, digits and hyphens.
    pub(super) id: String,
    /// What it shows.
    pub(super) title: String,
    /// How to read it.
    pub(super) caption: String,
    /// What is drawn.
    pub(super) plot: Plot,
    /// Its numbers.
    pub(super) table: Table,
}

/// What is drawn.
#[derive(Debug, Clone)]
pub(super) enum Plot {
    /// Lines over an axis.
    Lines(Lines),
    /// Bars in groups.
    Bars(Bars),
}

/// Lines over an axis.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    /// What cannot be passed.
    pub(super) limits: Vec<Limit>,
}

/// An axis.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// What it is of, with the unit.
    pub(super) title: String,
    /// The unit.
    pub(super) unit: String,
    pub(super) kind: Kind,
}

/// A line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) style: Style,
    /// Marked points, ascending.
    pub(super) points: Vec<Point>,
    /// What joins the points, where that is not straight from one to the next.
    pub(super) curve: Option<Vec<(f64, f64)>>,
    /// A thin line without marks.
    pub(super) thin: Vec<(f64, f64)>,
}

/// A point of a line.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) x: f64,
    /// `None` where there is no figure, and the line is broken.
    pub(super) y: Option<f64>,
    /// An interval of `y`.
    pub(super) interval: Option<[f64; 2]>,
    /// Whether it is drawn hollow.
    pub(super) hollow: bool,
    /// Whether there is a ring around it.
    pub(super) ringed: bool,
    /// The place on the x axis in words.
    pub(super) label: String,
    /// The figure in words, without its unit.
    pub(super) text: String,
}

/// A horizontal line.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    pub(super) y: f64,
    pub(super) name: String,
}

/// Bars in groups.
#[derive(Debug, Clone)]
pub(super) struct Bars {
    pub(super) x: Axis,
    pub(super) groups: Vec<Group>,
}

/// Bars that stand together.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
}

/// A bar.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) style: Style,
    /// `None` where there is no figure.
    pub(super) value: Option<f64>,
    pub(super) interval: Option<[f64; 2]>,
    pub(super) hollow: bool,
    /// The figure in words, without its unit; or why there is none.
    pub(super) text: String,
}

/// Rows of words.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// What the figures are, with their unit; empty where the head says so.
    pub(super) values: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Lines {
    /// A row for each place on the x axis, a column for each line.
    pub(super) fn table(&self) -> Table {
        let mut places: Vec<(f64, &str)> = Vec::new();
        for point in self.lines.iter().flat_map(|line| &line.points) {
            let place = (point.x, point.label.as_str());
            if let Err(at) = places.binary_search_by(|(x, label)| {
                x.total_cmp(&place.0).then_with(|| (*label).cmp(place.1))
            }) {
                places.insert(at, place);
            }
        }
        let row = |&(x, label): &(f64, &str)| {
            let of = |line: &Line| {
                let mut points = line.points.iter();
                let point = points.find(|point| point.x == x && point.label == label);
                point.map_or_else(|| "-".to_owned(), |point| point.text.clone())
            };
            std::iter::once(label.to_owned()).chain(self.lines.iter().map(of)).collect()
        };
        let names = self.lines.iter().map(|line| line.name.clone());
        Table {
            values: self.y.title.clone(),
            head: std::iter::once(self.x.title.clone()).chain(names).collect(),
            rows: places.iter().map(row).collect(),
        }
    }
}

impl Bars {
    /// A row for each bar.
    pub(super) fn table(&self) -> Table {
        let rows = self.groups.iter().flat_map(|group| {
            group
                .bars
                .iter()
                .map(|bar| vec![group.name.clone(), bar.name.clone(), bar.text.clone()])
        });
        Table {
            values: String::new(),
            head: vec![String::new(), "series".to_owned(), self.x.title.clone()],
            rows: rows.collect(),
        }
    }
}
