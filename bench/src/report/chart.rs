//! A small chart of latency against size for a terminal: both axes logarithmic, a letter a transport.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::{
    CellRecord, Document, Status,
    column::{Column, Columns},
    look::Look,
    number::figure,
};
use crate::plan::{Pattern, display_bytes};

/// Lines of the plot itself.
const HEIGHT: usize = 12;

/// Characters of the widest plot, and of the narrowest.
const WIDTHS: std::ops::RangeInclusive<usize> = 24..=72;

/// Characters before the plot: a figure and the axis.
const MARGIN: usize = 9;

/// More lines than these cannot be told apart.
const MOST_SERIES: usize = 8;

const STYLES: [Style; 6] = [
    AnsiColor::Green.on_default(),
    AnsiColor::Yellow.on_default(),
    AnsiColor::Cyan.on_default(),
    AnsiColor::Magenta.on_default(),
    AnsiColor::Blue.on_default(),
    AnsiColor::Red.on_default(),
];

/// What one letter stands for: a name, and medians in microseconds by size.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

/// The chart, with its legend; `None` where there are no three sizes, more than 8 transports and variants, or
/// no room.
#[must_use]
pub fn latency_chart(document: &Document, look: Look) -> Option<String> {
    let series = series(document);
    let points = || series.iter().flat_map(|series| series.points.iter().copied());
    let mut sizes: Vec<f64> = points().map(|(size, _)| size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let width = look.line.checked_sub(MARGIN + 1)?.min(*WIDTHS.end());
    if sizes.len() < 3 || series.len() > MOST_SERIES || !WIDTHS.contains(&width) {
        return None;
    }
    let times = points().map(|(_, time)| time);
    let (low, high) =
        times.fold((f64::INFINITY, 0.0_f64), |(low, high), time| (low.min(time), high.max(time)));
    let across = Axis::of(*sizes.first()?, *sizes.last()?);
    let up = Axis::of(low, high);
    let mut canvas = Canvas::new(width, look.unicode);
    for (index, series) in series.iter().enumerate() {
        canvas
            .line(index, series.points.iter().map(|&(size, time)| (across.at(size), up.at(time))));
    }
    let mut text = String::from("latency, median in us, by message size (both logarithmic)\n");
    for row in 0..HEIGHT {
        let label = match row {
            0 => figure(Some(high)),
            row if row == HEIGHT / 2 => {
                figure(Some(up.value(1.0 - row as f64 / (HEIGHT - 1) as f64)))
            }
            row if row == HEIGHT - 1 => figure(Some(low)),
            _ => String::new(),
        };
        let bar = if look.unicode { '\u{2502}' } else { '|' };
        let _ = writeln!(text, "{label:>7} {bar}{}", canvas.row(row, look));
    }
    let (corner, dash) = if look.unicode { ('\u{2514}', "\u{2500}") } else { ('+', "-") };
    let _ = writeln!(text, "{:>8}{corner}{}", "", dash.repeat(width));
    let [first, last] =
        [sizes.first()?, sizes.last()?].map(|&size| display_bytes(size as u64).to_string());
    let gap = width.saturating_sub(first.len() + last.len());
    let _ = writeln!(text, "{:>9}{first}{:gap$}{last}", "", "");
    let mut taken = 0;
    for (index, series) in series.iter().enumerate() {
        let entry = format!("{} {}", letter(index), series.name);
        taken += entry.len() + 2;
        let before = match (index, taken > look.line) {
            (0, _) => "",
            (_, true) => {
                taken = entry.len() + 2;
                "\n"
            }
            _ => "  ",
        };
        let _ = write!(text, "{before}{}", look.paint(style(index), &entry));
    }
    text.push('\n');
    Some(text)
}

fn series(document: &Document) -> Vec<Series> {
    // What was searched for has a table of its own.
    let is_searched = |cell: &CellRecord| document.knees.iter().any(|knee| knee.has(cell));
    let of = |cell: &&CellRecord| {
        cell.pattern == Pattern::Latency && cell.status == Status::Measured && !is_searched(cell)
    };
    let cells: Vec<_> = document.cells.iter().filter(of).collect();
    let points = |column: Column<'_>| {
        let mut points: Vec<_> = cells
            .iter()
            .filter(|cell| column.has(cell) && cell.size > 0)
            .filter_map(|cell| Some((cell.size as f64, cell.latency.as_ref()?.p50? / 1e3)))
            .filter(|(_, time)| *time > 0.0)
            .collect();
        points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        points
    };
    let columns = Columns::of(document, &cells);
    let all = columns.iter().map(|column| Series { name: column.title(), points: points(column) });
    all.filter(|series| !series.points.is_empty()).collect()
}

fn letter(index: usize) -> char {
    char::from(b'a' + u8::try_from(index).unwrap_or(25).min(25))
}

fn style(index: usize) -> Style {
    let [first, ..] = STYLES;
    STYLES.into_iter().cycle().nth(index % STYLES.len()).unwrap_or(first)
}

/// A logarithmic axis.
#[derive(Debug, Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(low: f64, high: f64) -> Self {
        Self { low: low.ln(), high: high.ln() }
    }

    /// Where `value` stands, from 0 to 1.
    fn at(self, value: f64) -> f64 {
        let span = self.high - self.low;
        if span > 0.0 { ((value.ln() - self.low) / span).clamp(0.0, 1.0) } else { 0.5 }
    }

    /// What stands at `place`.
    fn value(self, place: f64) -> f64 {
        (self.low + place * (self.high - self.low)).exp()
    }
}

/// Dots of a character of Braille across and up and down; of ASCII there is one.
const BRAILLE: (usize, usize) = (2, 4);

/// The bits of the dots of a character of Braille by column and row (Unicode, U+2800).
const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// A plot of dots, a few to a character.
struct Canvas {
    width: usize,
    dots: (usize, usize),
    // Of each character its dots, its letter if it has one, and whose it is.
    cells: Vec<(u8, Option<char>, usize)>,
}

impl Canvas {
    fn new(width: usize, unicode: bool) -> Self {
        let dots = if unicode { BRAILLE } else { (1, 1) };
        Self { width, dots, cells: vec![(0, None, 0); width * HEIGHT] }
    }

    /// Draws a series through `points`, each from 0 to 1 across and up, with its letter at each.
    fn line(&mut self, series: usize, points: impl Iterator<Item = (f64, f64)>) {
        let (columns, rows) = (self.width * self.dots.0 - 1, HEIGHT * self.dots.1 - 1);
        let place = |(x, y): (f64, f64)| (x * columns as f64, (1.0 - y) * rows as f64);
        let points: Vec<_> = points.map(place).collect();
        for (&(x, y), &(to_x, to_y)) in points.iter().zip(points.iter().skip(1)) {
            let steps = (to_x - x).abs().max((to_y - y).abs()).ceil().max(1.0) as usize;
            for step in 0..=steps {
                let share = step as f64 / steps as f64;
                self.dot(series, x + share * (to_x - x), y + share * (to_y - y));
            }
        }
        for (x, y) in points {
            let (column, row) =
                (x.round() as usize / self.dots.0, y.round() as usize / self.dots.1);
            if let Some(cell) = self.cells.get_mut(row * self.width + column) {
                // Of several in one place, the first has it.
                if cell.1.is_none() {
                    *cell = (0, Some(letter(series)), series);
                }
            }
        }
    }

    fn dot(&mut self, series: usize, x: f64, y: f64) {
        let (x, y) = (x.round() as usize, y.round() as usize);
        let (column, row) = (x / self.dots.0, y / self.dots.1);
        let bits = BITS.get(x % self.dots.0).and_then(|bits| bits.get(y % self.dots.1));
        if let Some((dots, None, of)) = self.cells.get_mut(row * self.width + column) {
            (*dots, *of) = (*dots | bits.copied().unwrap_or(0), series);
        }
    }

    fn row(&self, row: usize, look: Look) -> String {
        let cells = self.cells.iter().skip(row * self.width).take(self.width);
        let mut text = String::new();
        for &(dots, letter, series) in cells {
            let shown = match (letter, dots) {
                (Some(letter), _) => letter,
                (None, 0) => ' ',
                (None, dots) if look.unicode => {
                    char::from_u32(0x2800 + u32::from(dots)).unwrap_or('.')
                }
                (None, _) => '.',
            };
            if shown == ' ' {
                text.push(' ');
            } else {
                text.push_str(&look.paint(style(series), shown.encode_utf8(&mut [0; 4])));
            }
        }
        text.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::tests::{document, latency_cell};

    fn chart(look: Look, sizes: &[u64]) -> Option<String> {
        let mut cells = Vec::new();
        for &size in sizes {
            cells.push(latency_cell("verbs-write", size, 1e3 * size as f64));
            cells.push(latency_cell("tcp@loopback", size, 100e3));
        }
        latency_chart(&document(&["verbs-write", "tcp@loopback"], cells), look)
    }

    #[test]
    fn a_line_of_slope_one_is_the_diagonal_and_a_constant_is_level() {
        let look = Look { line: 60, ..Look::PLAIN };
        let text = chart(look, &[1, 10, 100, 1000]).unwrap();
        let plot: Vec<Vec<char>> = text
            .lines()
            .skip(1)
            .take(HEIGHT)
            .map(|line| line.chars().skip(MARGIN).collect())
            .collect();
        let width = 60 - MARGIN - 1;
        assert_eq!(plot[HEIGHT - 1][0], 'a', "{text}");
        assert_eq!(plot[0].len(), width, "{text}");
        assert_eq!(plot[0][width - 1], 'a', "{text}");
        let level = plot.iter().position(|row| row.first() == Some(&'b')).unwrap();
        assert_eq!(plot[level].len(), width, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.is_ascii() && text.contains("a verbs-write  b tcp@loopback\n"), "{text}");
        assert!(text.contains("1 B") && text.contains("1000 B") && text.contains("  1,000 |"));
    }

    #[test]
    fn it_is_braille_where_that_is_shown_and_coloured_where_that_is() {
        let look = Look { line: 80, styled: false, unicode: true };
        let text = chart(look, &[1, 10, 100]).unwrap();
        let is_braille = |character: char| ('\u{2801}'..='\u{28ff}').contains(&character);
        assert!(text.chars().any(is_braille) && !text.contains('\u{1b}'), "{text}");
        let styled = chart(Look { styled: true, ..look }, &[1, 10, 100]).unwrap();
        assert!(styled.contains("\u{1b}[32ma verbs-write\u{1b}[0m"), "{styled:?}");
    }

    #[test]
    fn there_is_none_without_three_sizes_or_room() {
        assert_eq!(chart(Look::PLAIN, &[1, 10]), None);
        assert_eq!(chart(Look { line: 30, ..Look::PLAIN }, &[1, 10, 100]), None);
        assert_eq!(chart(Look { line: 3, ..Look::PLAIN }, &[1, 10, 100]), None);
    }
}
