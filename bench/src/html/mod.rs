//! `fabricbench report`: results as one page that needs nothing beside it, and figures as files.
//!
//! A document becomes figures, each of which is data until it is drawn; the same code draws for the page
//! and for files. Whatever comes from a document goes through maud, which escapes it.

mod bars;
mod figure;
mod figures;
mod frame;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod lines;
mod page;
mod palette;
mod scale;
mod series;
mod source;
mod text_width;

pub use source::{Source, SourceError, tell_apart};

/// What is drawn beside what the documents say.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Sizes whose distributions are drawn, in bytes; none: the smallest, one in the middle and the largest.
    pub sizes: Vec<u64>,
    /// What the link carries, in bytes a second, where it is known.
    pub line_rate: Option<f64>,
}

/// Results as a page and as figures.
#[derive(Debug)]
pub struct Report {
    /// The page.
    pub page: String,
    /// Each figure as an SVG file: its name without an ending, and its content.
    pub figures: Vec<(String, String)>,
}

/// The report of `sources`, whose names differ.
#[must_use]
pub fn report(sources: &[Source], options: &Options) -> Report {
    let sections = figures::sections(sources, options);
    let page = legible(page::page(sources, &sections).into_string());
    let files = sections.iter().flat_map(|section| &section.figures);
    let files = files.map(|figure| (figure.id.clone(), legible(frame::file(figure))));
    Report { page, figures: files.collect() }
}

/// `text` without what XML forbids, terminals obey, or readers are misled by: control characters, and those that
/// turn the direction of writing, are shown by their numbers.
fn legible(text: String) -> String {
    let bad = |letter: char| {
        letter.is_control() && letter != '\n'
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
    };
    if !text.contains(bad) {
        return text;
    }
    let mut legible = String::with_capacity(text.len() + 64);
    for letter in text.chars() {
        match bad(letter) {
            true => legible.extend(letter.escape_unicode()),
            false => legible.push(letter),
        }
    }
    legible
}
