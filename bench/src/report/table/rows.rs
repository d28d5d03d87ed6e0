//! The rows of a table, and how it is drawn.

use std::collections::{BTreeSet, HashMap, HashSet};

use anstyle::Style;
use comfy_table::{CellAlignment, Row, Table, presets};

use super::figures::shown;
use crate::{
    plan::{Axis, Buffers, TransportName, Value, display_size},
    report::{
        CellRecord, Status,
        column::Column,
        look::{BEST, HEADING, Look, MISSING},
        scaling::leaders,
    },
};

/// How a table is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    /// Without lines.
    Plain(Look),
    /// GitHub's.
    Markdown,
}

impl Face {
    /// Characters of a line.
    pub(super) fn line(self) -> usize {
        match self {
            Self::Plain(look) => look.line,
            Self::Markdown => Look::PLAIN.line,
        }
    }
}

/// What tells a row from the others: size, and of several buffers which, or of which model.
pub(super) type Size<'a> = (u64, Option<&'a Buffers>, Option<&'a str>);

/// Cells by size and column.
type Index<'a> = HashMap<(Size<'a>, Column<'a>), &'a CellRecord>;

pub(super) fn size(cell: &CellRecord) -> Size<'_> {
    let model = cell.tensors.as_ref().map(|tensors| tensors.model.as_str());
    (cell.size, cell.buffers.as_ref(), model)
}

fn index<'a>(cells: &[&'a CellRecord]) -> Index<'a> {
    cells.iter().map(|&cell| ((size(cell), Column::of(cell)), cell)).collect()
}

/// Where the figures stand that are shown to be ahead of all others of their size.
fn best<'a>(cells: &[&'a CellRecord]) -> HashSet<(Size<'a>, Column<'a>)> {
    leaders(cells).into_iter().map(|cell| (size(cell), Column::of(cell))).collect()
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
    let (index, best) = (index(cells), best(cells));
    let header = columns.iter().map(|column| column.title());
    let mut rows = Rows::new(std::iter::once("size".to_owned()).chain(header));
    for size in sizes(cells) {
        let figures: Vec<_> = columns.iter().map(|&column| index.get(&(size, column))).collect();
        if figures.iter().any(Option::is_some) {
            let figures = figures.into_iter().map(|cell| match cell {
                Some(cell) => styled(cell, &best),
                None => ("-".to_owned(), Style::new()),
            });
            let label = (display_size(size.0, size.1, size.2), Style::new());
            rows.add(std::iter::once(label).chain(figures));
        }
    }
    rows.shown(face)
}

/// What some variant of the cells has a value of.
fn axes(cells: &[&CellRecord]) -> impl Iterator<Item = Axis> {
    Axis::all().filter(|&axis| cells.iter().any(|cell| cell.variant.get(axis).is_some()))
}

/// Characters of the columns that tell variants apart.
pub(super) fn axes_width(cells: &[&CellRecord]) -> usize {
    let width = |axis: Axis| {
        let values = cells.iter().filter_map(|cell| cell.variant.get(axis));
        let widest = values.map(|value| value.to_string().len()).max().unwrap_or(0);
        widest.max(axis.to_string().len()) + 2
    };
    axes(cells).map(width).sum()
}

/// A row a size and variant, with the transports beside each other. A transport that the settings
/// of a row do not touch has its figure in another row of that size.
pub(super) fn rows_of_variants(
    cells: &[&CellRecord],
    transports: &[&TransportName],
    face: Face,
) -> String {
    let (index, best) = (index(cells), best(cells));
    let mut seen = BTreeSet::new();
    let variants = cells.iter().map(|cell| &cell.variant);
    let mut variants: Vec<_> = variants.filter(|variant| seen.insert(*variant)).collect();
    variants.sort_by_key(|variant| variant.iter().count());
    let axes: Vec<Axis> = axes(cells).collect();
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
            let figures = figures.into_iter().map(|cell| match cell {
                Some(cell) => styled(cell, &best),
                None => (String::new(), Style::new()),
            });
            let label = display_size(size.0, size.1, size.2);
            let words = std::iter::once(label).chain(values).map(|word| (word, Style::new()));
            rows.add(words.chain(figures));
        }
    }
    rows.shown(face)
}

/// What stands in a cell of the table, and its style.
fn styled(cell: &CellRecord, best: &HashSet<(Size<'_>, Column<'_>)>) -> (String, Style) {
    let style = match cell.status {
        Status::Unsupported | Status::Failed => MISSING,
        _ if best.contains(&(size(cell), Column::of(cell))) => BEST,
        _ => Style::new(),
    };
    (shown(cell), style)
}

/// A table of right-aligned columns, and the styles of its lines.
struct Rows(Table, Vec<Vec<Style>>);

impl Rows {
    fn new(header: impl Iterator<Item = String>) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let header: Vec<_> = header.collect();
        let styles = vec![HEADING; header.len()];
        table.set_header(header);
        Self(table, vec![styles])
    }

    fn add(&mut self, row: impl Iterator<Item = (String, Style)>) {
        let (words, styles): (Vec<_>, _) = row.unzip();
        self.0.add_row(words);
        self.1.push(styles);
    }

    fn shown(mut self, face: Face) -> String {
        let look = match face {
            Face::Plain(look) => look,
            Face::Markdown => return self.into_markdown(),
        };
        for column in self.0.column_iter_mut() {
            column.set_padding((0, 2));
            column.set_cell_alignment(CellAlignment::Right);
        }
        let text = self.0.trim_fmt();
        if !look.styled {
            return text;
        }
        let rows = self.0.header().into_iter().chain(self.0.row_iter());
        let rows: Vec<Vec<String>> =
            rows.map(|row| row.cell_iter().map(|cell| cell.content()).collect()).collect();
        let width = |column: usize| {
            let words = rows.iter().filter_map(|row| row.get(column));
            words.map(|word| word.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.1.first().map_or(0, Vec::len)).map(width).collect();
        let lines = text.lines().zip(&rows).zip(&self.1);
        let painted = lines.map(|((line, words), styles)| {
            paint(line, (words, &widths), styles, look).unwrap_or_else(|| line.to_owned())
        });
        painted.collect::<Vec<_>>().join("\n")
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

/// A line of right-aligned `words` with their styles; `None` if they do not stand where columns of such widths, two
/// apart, have them.
fn paint(
    line: &str,
    (words, widths): (&[String], &[usize]),
    styles: &[Style],
    look: Look,
) -> Option<String> {
    let mut text = String::new();
    let mut rest = line;
    let mut gap = 0;
    for ((word, width), style) in words.iter().zip(widths).zip(styles) {
        gap += width.checked_sub(word.chars().count())?;
        if !word.is_empty() {
            let (before, after) = rest.split_at_checked(gap)?;
            rest = after.strip_prefix(word.as_str())?;
            text.push_str(before);
            text.push_str(&look.paint(*style, word));
            gap = 0;
        }
        gap += 2;
    }
    rest.is_empty().then_some(text)
}
