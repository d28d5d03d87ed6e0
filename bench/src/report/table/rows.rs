//! The rows of a table, and how it is drawn.

use std::collections::{BTreeSet, HashMap, HashSet};

use comfy_table::{CellAlignment, Row, Table, presets};

use super::figures::shown;
use crate::{
    plan::{Axis, Buffers, TransportName, Value, display_size},
    report::{CellRecord, column::Column},
};

/// How a table is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    /// Without lines.
    Plain,
    /// GitHub's.
    Markdown,
}

/// What tells a row from the others: size, and of several buffers which, or of which model.
type Size<'a> = (u64, Option<&'a Buffers>, Option<&'a str>);

/// Cells by size and column.
type Index<'a> = HashMap<(Size<'a>, Column<'a>), &'a CellRecord>;

fn size(cell: &CellRecord) -> Size<'_> {
    let model = cell.tensors.as_ref().map(|tensors| tensors.model.as_str());
    (cell.size, cell.buffers.as_ref(), model)
}

fn index<'a>(cells: &[&'a CellRecord]) -> Index<'a> {
    cells.iter().map(|&cell| ((size(cell), Column::of(cell)), cell)).collect()
}

/// The sizes of the rows, each once, ascending.
fn sizes<'a>(cells: &[&'a CellRecord]) -> Vec<Size<'a>> {
    let mut seen = HashSet::new();
    let each = cells.iter().map(|&cell| size(cell));
    let mut sizes: Vec<_> = each.filter(|&size| seen.insert(size)).collect();
    sizes.sort_by_key(|&(size, ..)| size);
    sizes
}

/// A row a size, with every transport in every variant beside the others.
pub(super) fn rows_of_sizes(cells: &[&CellRecord], columns: &[Column<'_>], face: Face) -> String {
    let index = index(cells);
    let header = columns.iter().map(|column| column.title());
    let mut rows = Rows::new(std::iter::once("size".to_owned()).chain(header));
    for size in sizes(cells) {
        let figures: Vec<_> = columns.iter().map(|&column| index.get(&(size, column))).collect();
        if figures.iter().any(Option::is_some) {
            let figures = figures
                .into_iter()
                .map(|cell| cell.map_or_else(|| "-".to_owned(), |cell| shown(cell)));
            rows.add(std::iter::once(display_size(size.0, size.1, size.2)).chain(figures));
        }
    }
    rows.shown(face)
}

/// A row a size and variant, with the transports beside each other. A transport that the settings
/// of a row do not touch has its figure in another row of that size.
pub(super) fn rows_of_variants(
    cells: &[&CellRecord],
    transports: &[&TransportName],
    face: Face,
) -> String {
    let index = index(cells);
    let mut seen = BTreeSet::new();
    let variants = cells.iter().map(|cell| &cell.variant);
    let mut variants: Vec<_> = variants.filter(|variant| seen.insert(*variant)).collect();
    variants.sort_by_key(|variant| variant.iter().count());
    let has = |axis: &Axis| variants.iter().any(|variant| variant.get(*axis).is_some());
    let axes: Vec<Axis> = Axis::all().filter(has).collect();
    let header = axes.iter().map(Axis::to_string).chain(transports.iter().map(ToString::to_string));
    let mut rows = Rows::new(std::iter::once("size".to_owned()).chain(header));
    for size in sizes(cells) {
        for &variant in &variants {
            let columns = transports.iter().map(|transport| Column { transport, variant });
            let figures: Vec<_> = columns.map(|column| index.get(&(size, column))).collect();
            if figures.iter().all(Option::is_none) {
                continue;
            }
            let values = axes
                .iter()
                .map(|&axis| variant.get(axis).map_or_else(String::new, Value::to_string));
            let figures =
                figures.into_iter().map(|cell| cell.map_or_else(String::new, |cell| shown(cell)));
            let label = display_size(size.0, size.1, size.2);
            rows.add(std::iter::once(label).chain(values).chain(figures));
        }
    }
    rows.shown(face)
}

/// A table of right-aligned columns.
struct Rows(Table);

impl Rows {
    fn new(header: impl Iterator<Item = String>) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(header);
        Self(table)
    }

    fn add(&mut self, row: impl Iterator<Item = String>) {
        self.0.add_row(row);
    }

    fn shown(mut self, face: Face) -> String {
        if face == Face::Markdown {
            return self.into_markdown();
        }
        for column in self.0.column_iter_mut() {
            column.set_padding((0, 2));
            column.set_cell_alignment(CellAlignment::Right);
        }
        self.0.trim_fmt()
    }

    fn into_markdown(self) -> String {
        let line = |row: &Row| {
            // A bar would end the cell.
            let cells = row.cell_iter().map(|cell| cell.content().replace('|', "\\|"));
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        let Some(header) = self.0.header() else { return String::new() };
        let rule = vec!["---:"; header.cell_count()].join(" | ");
        let rows = self.0.row_iter().map(line);
        [line(header), format!("| {rule} |")].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }
}
