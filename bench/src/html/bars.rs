//! Bars in groups, drawn: they lie, so that there is room for names.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::{
    figure::{Bar, Bars},
    frame::{Drawing, FONT, Face, place},
    scale::Scale,
    text_width::{fitted, text_width},
};

/// From one bar to the next, in pixels.
const STEP: f64 = 21.0;

/// Room for a name over its bar.
const ABOVE: f64 = 14.0;

/// How thick a bar is.
const THICK: f64 = 13.0;

/// Room for the name of a group.
const HEADING: f64 = 24.0;

/// Draws them.
pub(super) fn draw(bars: &Bars, face: Face) -> Drawing {
    const TOP: f64 = 22.0;
    let all = || bars.groups.iter().flat_map(|group| &group.bars);
    let has_headings = bars.groups.iter().any(|group| !group.name.is_empty());
    let heading = if has_headings { HEADING } else { 6.0 };
    let names = all().map(|bar| text_width(&bar.name, FONT)).fold(0.0, f64::max);
    // Where there is no room beside the bars, names stand over them.
    let over = face == Face::Narrow && names > face.width() * 0.36;
    let names = if over { 0.0 } else { names.min(face.width() * 0.45) };
    let step = if over { STEP + ABOVE } else { STEP };
    let words = all().map(|bar| text_width(&short(bar), FONT)).fold(0.0, f64::max);
    let left = if over { 2.0 } else { names + 10.0 };
    let right = (face.width() - words.min(face.width() * 0.35) - 12.0).max(left + 40.0);
    let ends =
        all().flat_map(|bar| bar.value.into_iter().chain(bar.interval.into_iter().flatten()));
    let x = Scale::covering(bars.x.kind, ends).over(left, right);
    let mut y = TOP;
    let mut content = Vec::new();
    for group in &bars.groups {
        if has_headings {
            content.push(html! {
                text class="strong" x="0" y=(place(y + 15.0)) { (fitted(&group.name, FONT, face.width())) }
            });
        }
        y += heading;
        for bar in &group.bars {
            if over {
                let name = fitted(&bar.name, FONT, face.width());
                content.push(html! { text x="0" y=(place(y + ABOVE - 2.0)) { (name) } });
            } else {
                let (x, y) = (place(left - 7.0), place(y + STEP / 2.0 + 4.0));
                content.push(
                    html! { text class="end" x=(x) y=(y) { (fitted(&bar.name, FONT, names)) } },
                );
            }
            y += step;
            content.push(drawn(bar, bars, &x, y - STEP, left, face));
        }
        y += 4.0;
    }
    let ticks = x.ticks(80.0);
    let mut grid = String::new();
    for tick in &ticks {
        let _ = write!(grid, "M{} {}V{}", place(tick.at), TOP, place(y));
    }
    let content = html! {
        text class="axis" x="0" y="12" { (bars.x.title) }
        path class="grid" d=(grid) {}
        @for part in content { (part) }
        @for tick in &ticks {
            text class="tick mid" x=(place(tick.at)) y=(place(y + 15.0)) { (tick.label) }
        }
    };
    Drawing { height: y + 24.0, content }
}

/// The figure without its interval, which is drawn.
fn short(bar: &Bar) -> String {
    let end = bar.text.find([' ', ';']).filter(|_| bar.value.is_some());
    bar.text.get(..end.unwrap_or(bar.text.len())).unwrap_or_default().to_owned()
}

fn drawn(bar: &Bar, bars: &Bars, x: &Scale, y: f64, left: f64, face: Face) -> Markup {
    let value = bar.value.filter(|&value| bars.x.kind.takes(value));
    let middle = y + STEP / 2.0;
    let base = middle + 4.0;
    let end = value.map_or(left, |value| x.at(value));
    let interval = bar.interval.filter(|ends| ends.iter().all(|&end| bars.x.kind.takes(end)));
    let interval =
        interval.map(|ends| ends.map(|end| x.at(end))).filter(|[low, high]| high - low >= 2.0);
    let after = interval.map_or(end, |[_, high]| high.max(end)) + 6.0;
    let class = if bar.hollow { "bar hollow" } else { "bar" };
    html! {
        path class="rule" d={ "M" (place(left)) " " (place(y)) "v" (STEP) } {}
        g class={ "s " (bar.style.class()) } {
            @if value.is_some() {
                rect class=(class) x=(place(left)) y=(place(middle - THICK / 2.0))
                    width=(place((end - left).max(0.5))) height=(THICK) {
                    title { (bar.name) "\n" (bar.text) " " (bars.x.unit) }
                }
            }
            @if let Some([low, high]) = interval {
                path class="whisker" d={
                    "M" (place(low)) " " (place(middle - 3.0)) "v6M" (place(low)) " " (place(middle))
                    "H" (place(high)) "M" (place(high)) " " (place(middle - 3.0)) "v6"
                } {}
            }
        }
        @if value.is_some() {
            text x=(place(after)) y=(place(base)) { (short(bar)) }
        } @else {
            text class="soft" x=(place(left + 6.0)) y=(place(base)) {
                (fitted(&bar.text, FONT, face.width() - left - 8.0))
            }
        }
    }
}
