//! What tells series apart: colour, marker and dash, so that no one of them has to be seen.

use maud::{Markup, html};

/// A colour on paper and on a dark screen, as CSS writes it.
pub(super) struct Colour {
    pub(super) light: &'static str,
    pub(super) dark: &'static str,
}

/// The colours of Okabe and Ito, "Color Universal Design" (2008), without black and yellow; those that are
/// too light for a line on white are darkened to a contrast of 3 (WCAG 2.1, 1.4.11), in the same hue.
pub(super) const COLOURS: [Colour; 6] = [
    Colour { light: "#0072b2", dark: "#3d9ad8" },
    Colour { light: "#d55e00", dark: "#e8741a" },
    Colour { light: "#008561", dark: "#12b886" },
    Colour { light: "#b8659a", dark: "#d98fbd" },
    Colour { light: "#b37c00", dark: "#e69f00" },
    Colour { light: "#3a8fc4", dark: "#7cc7f0" },
];

/// Names of the other colours and their values, for [`COLOURS`] to stand on.
pub(super) const INKS: [(&str, Colour); 6] = [
    ("paper", Colour { light: "#ffffff", dark: "#14171a" }),
    ("ink", Colour { light: "#16191d", dark: "#e6e8ea" }),
    ("soft", Colour { light: "#5a626b", dark: "#a2abb5" }),
    ("rule", Colour { light: "#d9dde1", dark: "#353b42" }),
    ("grid", Colour { light: "#eceef0", dark: "#262b30" }),
    ("care", Colour { light: "#fff7e0", dark: "#2b2410" }),
];

/// Outlines of the markers around 0, 0; each has about the same area.
const MARKERS: [&str; 6] = [
    "M-3.8 0a3.8 3.8 0 1 0 7.6 0a3.8 3.8 0 1 0-7.6 0z",
    "M-3.4-3.4h6.8v6.8h-6.8z",
    "M0-4.9L4.6 3.3H-4.6z",
    "M0-5.2L4.4 0L0 5.2L-4.4 0z",
    "M0 4.9L4.6-3.3H-4.6z",
    "M-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z",
];

/// Dashes of lines, by run.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// What a series looks like: indices into what there is of colours, markers and dashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    colour: usize,
    marker: usize,
    dash: usize,
}

impl Style {
    /// That of series `index` of run `run`. No two of the first 30 of a run are alike.
    pub(super) fn of(index: usize, run: usize) -> Self {
        // Each time the colours begin again, markers are one further on.
        let turn = index / COLOURS.len();
        Self {
            colour: index % COLOURS.len(),
            marker: (index + turn) % MARKERS.len(),
            dash: run % DASHES.len(),
        }
    }

    /// How many runs look different.
    pub(super) fn runs() -> usize {
        DASHES.len()
    }

    /// Its classes.
    pub(super) fn class(self) -> String {
        match self.dash {
            0 => format!("c{}", self.colour),
            dash => format!("c{} d{dash}", self.colour),
        }
    }

    /// What a `use` of its marker refers to.
    pub(super) fn marker(self) -> String {
        format!("#m{}", self.marker)
    }
}

/// Rules for the classes of [`Style::class`].
pub(super) fn rules() -> String {
    let colours = (0..COLOURS.len()).map(|colour| format!(".c{colour}{{color:var(--c{colour})}}"));
    let dashes = DASHES.iter().enumerate().skip(1);
    let dashes = dashes.map(|(index, dash)| format!(".d{index} .line{{stroke-dasharray:{dash}}}"));
    colours.chain(dashes).collect()
}

/// Declarations of all colours, of one theme.
pub(super) fn variables(of: fn(&Colour) -> &'static str) -> String {
    let inks = INKS.iter().map(|(name, colour)| format!("--{name}:{};", of(colour)));
    let colours = COLOURS.iter().enumerate();
    let colours = colours.map(|(index, colour)| format!("--c{index}:{};", of(colour)));
    inks.chain(colours).collect()
}

/// The markers, for the `use` elements of the same page or file.
pub(super) fn definitions() -> Markup {
    html! {
        defs {
            @for (index, outline) in MARKERS.iter().enumerate() {
                path id={ "m" (index) } d=(outline) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.1) of `#rrggbb`.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn lines_and_words_stand_out_from_the_paper() {
        let [(_, paper), inks @ ..] = &INKS;
        for colour in &COLOURS {
            assert!(contrast(colour.light, paper.light) >= 3.0, "{}", colour.light);
            assert!(contrast(colour.dark, paper.dark) >= 3.0, "{}", colour.dark);
        }
        let care = &inks.iter().find(|(name, _)| *name == "care").unwrap().1;
        for (name, ink) in inks.iter().filter(|(name, _)| ["ink", "soft"].contains(name)) {
            for under in [paper, care] {
                assert!(contrast(ink.light, under.light) >= 4.5, "{name}");
                assert!(contrast(ink.dark, under.dark) >= 4.5, "{name}");
            }
        }
    }

    #[test]
    fn thirty_series_look_different_in_each_run() {
        let styles: Vec<_> = (0..30).map(|index| Style::of(index, 0)).collect();
        for (index, style) in styles.iter().enumerate() {
            assert!(!styles[..index].contains(style), "{index}");
            assert_ne!(*style, Style::of(index, 1));
        }
    }
}
