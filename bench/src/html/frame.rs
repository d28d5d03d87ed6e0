//! The paper that a figure is drawn on, and what every drawing has.

use maud::{Markup, PreEscaped, html};

use super::{
    bars,
    figure::{Figure, Plot},
    lines,
    palette::{self, Style},
    text_width::text_width,
};

/// Font size of labels, in pixels.
pub(super) const FONT: f64 = 12.0;

/// For which place a figure is drawn. Sizes are in CSS pixels; words keep their size, so that what fits is
/// decided here and not by shrinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    /// A page as wide as a sheet of paper.
    Wide,
    /// A telephone.
    Narrow,
    /// A file of its own, with title and legend.
    File,
}

impl Face {
    /// Its width.
    pub(super) fn width(self) -> f64 {
        match self {
            Self::Wide | Self::File => 760.0,
            Self::Narrow => 340.0,
        }
    }

    /// The height of the plot of lines.
    pub(super) fn plot_height(self) -> f64 {
        match self {
            Self::Wide | Self::File => 330.0,
            Self::Narrow => 250.0,
        }
    }
}

/// A drawing, and how high it came out.
pub(super) struct Drawing {
    pub(super) height: f64,
    pub(super) content: Markup,
}

/// `figure` as an element of a page, for `face`.
pub(super) fn inline(figure: &Figure, face: Face) -> Markup {
    let drawing = draw(figure, face);
    let class = if face == Face::Narrow { "chart narrow" } else { "chart wide" };
    html! {
        svg class=(class) viewBox={ "0 0 " (face.width()) " " (place(drawing.height)) }
            width=(face.width()) height=(place(drawing.height))
            role="img" aria-label=(figure.title) aria-describedby={ (figure.id) "-text" } {
            (drawing.content)
        }
    }
}

/// `figure` as a file of its own: light, on paper.
pub(super) fn file(figure: &Figure) -> String {
    const MARGIN: f64 = 16.0;
    let style = format!(
        "svg{{{}}}{}{}",
        palette::variables(|colour| colour.light),
        palette::rules(),
        include_str!("style/chart.css")
    );
    let width = Face::File.width();
    let caption = wrapped(&figure.caption, width);
    let legend = legend(figure, width);
    let head = 22.0 + 16.0 * caption.len() as f64 + 8.0;
    let drawing = draw(figure, Face::File);
    let height = head + legend.height + drawing.height;
    let [outer_width, outer_height] = [width, height].map(|side| place(side + 2.0 * MARGIN));
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" width=(outer_width) height=(outer_height)
            viewBox={ "0 0 " (outer_width) " " (outer_height) } role="img" aria-labelledby="title text" {
            title id="title" { (figure.title) }
            desc id="text" { (figure.caption) }
            style { (PreEscaped(style)) }
            (palette::definitions())
            rect class="paper" width="100%" height="100%" {}
            g transform={ "translate(" (MARGIN) " " (MARGIN) ")" } {
                text class="title" y="14" { (figure.title) }
                @for (index, line) in caption.iter().enumerate() {
                    text class="soft" y=(place(34.0 + 16.0 * index as f64)) { (line) }
                }
                g transform={ "translate(0 " (place(head)) ")" } { (legend.content) }
                g transform={ "translate(0 " (place(head + legend.height)) ")" } { (drawing.content) }
            }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", svg.into_string())
}

fn draw(figure: &Figure, face: Face) -> Drawing {
    match &figure.plot {
        Plot::Lines(plot) => lines::draw(plot, face),
        Plot::Bars(plot) => bars::draw(plot, face),
    }
}

/// Names and looks of the lines, each once; of bars, which have their names beside them, none.
pub(super) fn keys(figure: &Figure) -> Vec<(&str, Style)> {
    match &figure.plot {
        Plot::Lines(plot) => {
            plot.lines.iter().map(|line| (line.name.as_str(), line.style)).collect()
        }
        Plot::Bars(_) => Vec::new(),
    }
}

/// Whether there are thin lines, which all are of 99th percentiles.
pub(super) fn has_thin(figure: &Figure) -> bool {
    match &figure.plot {
        Plot::Lines(plot) => plot.lines.iter().any(|line| !line.thin.is_empty()),
        Plot::Bars(_) => false,
    }
}

/// A piece of line with its marker, 30 pixels wide and 12 high.
pub(super) fn key(style: Style) -> Markup {
    html! {
        g class=(style.class()) {
            path class="line" d="M1 6h28" {}
            (marker(style, 15.0, 6.0, false))
        }
    }
}

/// A marker.
pub(super) fn marker(style: Style, x: f64, y: f64, hollow: bool) -> Markup {
    html! {
        use class=[hollow.then_some("hollow")] href=(style.marker()) x=(place(x)) y=(place(y)) {}
    }
}

/// The legend of a file, in as many rows as it takes.
fn legend(figure: &Figure, width: f64) -> Drawing {
    const KEY: f64 = 36.0;
    const ROW: f64 = 20.0;
    let (mut x, mut y) = (0.0, 0.0);
    let mut placed = Vec::new();
    for (name, style) in keys(figure) {
        let room = KEY + text_width(name, FONT) + 18.0;
        if x > 0.0 && x + room > width {
            (x, y) = (0.0, y + ROW);
        }
        placed.push((x, y, name, style));
        x += room;
    }
    let thin = has_thin(figure).then_some((x, y));
    let height = if placed.is_empty() { 0.0 } else { y + ROW + 8.0 };
    let content = html! {
        @for (x, y, name, style) in placed {
            g transform={ "translate(" (place(x)) " " (place(y)) ")" } {
                (key(style))
                text x=(KEY) y="10" { (name) }
            }
        }
        @if let Some((x, y)) = thin {
            g transform={ "translate(" (place(x)) " " (place(y)) ")" } {
                path class="thin" d="M1 6h28" {}
                text class="soft" x=(KEY) y="10" { "99th percentile" }
            }
        }
    };
    Drawing { height, content }
}

/// `text` in lines of `width` pixels.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, FONT) + text_width(word, FONT) + 4.0 <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A place on the paper, to a tenth of a pixel.
pub(super) fn place(at: f64) -> f64 {
    (at * 10.0).round() / 10.0
}
