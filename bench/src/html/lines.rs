//! Lines over an axis, drawn.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::{
    figure::{Line, Lines, Point},
    frame::{Drawing, FONT, Face, marker, place},
    scale::{Scale, Tick},
    text_width::{fitted, text_width},
};

/// More lines than this have no room for their names beside them.
const MOST_NAMED: usize = 12;

/// Room between two names, in pixels.
const LINE_OF_TEXT: f64 = 15.0;

/// Names that would be further away than this from where their lines end are left to the legend.
const FARTHEST: f64 = 44.0;

/// Half of the caps of an interval, in pixels.
const CAP: f64 = 2.5;

/// Where things are on the paper.
struct Plot {
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Draws them.
pub(super) fn draw(lines: &Lines, face: Face) -> Drawing {
    const TOP: f64 = 28.0;
    let bottom = TOP + face.plot_height();
    let y = Scale::covering(lines.y.kind, heights(lines)).over(bottom, TOP);
    let y_ticks = y.ticks(34.0);
    let widest = y_ticks.iter().map(|tick| text_width(&tick.label, FONT)).fold(0.0, f64::max);
    let left = widest + 10.0;
    let x = Scale::covering(lines.x.kind, places(lines));
    let plot = |room: f64| {
        let right = face.width() - 14.0 - room;
        Plot { x: x.over(left, right), y, left, right, top: TOP, bottom }
    };
    let with_names = plot(names_width(lines) + 10.0);
    let names = if face == Face::Narrow { None } else { names(lines, &with_names) };
    let plot = if names.is_some() { with_names } else { plot(0.0) };
    let room = if face == Face::Narrow { 52.0 } else { 62.0 };
    let x_ticks = spaced(plot.x.ticks(room), face.width());
    let content = html! {
        (axes(lines, &plot, &x_ticks, &y_ticks))
        (limits(lines, &plot))
        @for (index, line) in lines.lines.iter().enumerate() {
            g class={ "s " (line.style.class()) } data-s=(index) {
                (drawn(line, lines, &plot, face != Face::Narrow))
            }
        }
        @for name in names.iter().flatten() { (beside(name, lines, &plot)) }
    };
    Drawing { height: bottom + 46.0, content }
}

/// How far beyond all lines the paper reaches for their intervals, as a factor: one that is wider by far would leave
/// no room for the lines.
const BEYOND: f64 = 2.5;

/// All that has to have a place on the y axis.
fn heights(lines: &Lines) -> impl Iterator<Item = f64> {
    let of = |line: &Line| -> Vec<f64> {
        let marked = line.points.iter().filter_map(|point| point.y);
        let curve = line.curve.iter().flatten().map(|&(_, y)| y);
        marked.chain(curve).chain(line.thin.iter().map(|&(_, y)| y)).collect()
    };
    let limits = lines.limits.iter().map(|limit| limit.y);
    let heights: Vec<f64> = lines.lines.iter().flat_map(of).chain(limits).collect();
    let taken = || heights.iter().copied().filter(|&height| lines.y.kind.takes(height));
    let (low, high) = (taken().fold(f64::INFINITY, f64::min), taken().fold(0.0, f64::max));
    let near = low / BEYOND..=high * BEYOND;
    let points = lines.lines.iter().flat_map(|line| &line.points);
    let ends = points.filter_map(|point| point.interval).flatten();
    let ends = ends.map(|end| end.max(*near.start()).min(*near.end())).collect::<Vec<_>>();
    heights.into_iter().chain(ends)
}

fn places(lines: &Lines) -> impl Iterator<Item = f64> {
    let curves = |line: &Line| -> Vec<f64> {
        let curve = line.curve.iter().flatten().chain(&line.thin).map(|&(x, _)| x);
        line.points.iter().map(|point| point.x).chain(curve).collect()
    };
    lines.lines.iter().flat_map(curves)
}

/// Those whose labels do not touch the one before.
fn spaced(ticks: Vec<Tick>, width: f64) -> Vec<Tick> {
    let mut free = f64::NEG_INFINITY;
    let has_room = |tick: &Tick| {
        let half = text_width(&tick.label, FONT) / 2.0;
        let fits = tick.at - half >= free && tick.at + half <= width + 2.0;
        if fits {
            free = tick.at + half + 8.0;
        }
        fits
    };
    ticks.into_iter().filter(has_room).collect()
}

fn axes(lines: &Lines, plot: &Plot, x_ticks: &[Tick], y_ticks: &[Tick]) -> Markup {
    let [left, right, top, bottom] = [plot.left, plot.right, plot.top, plot.bottom].map(place);
    let mut grid = String::new();
    for tick in y_ticks {
        let _ = write!(grid, "M{left} {}H{right}", place(tick.at));
    }
    let mut marks = format!("M{left} {bottom}H{right}");
    for tick in x_ticks {
        let _ = write!(marks, "M{} {bottom}v6", place(tick.at));
    }
    for at in plot.x.octaves() {
        let _ = write!(marks, "M{} {bottom}v3", place(at));
    }
    html! {
        text class="axis" x="0" y="12" { (lines.y.title) }
        path class="grid" d=(grid) {}
        path class="rule" d=(marks) {}
        @for tick in y_ticks {
            text class="tick end" x=(place(left - 7.0)) y=(place(tick.at + 4.0)) { (tick.label) }
        }
        @for tick in x_ticks {
            text class="tick mid" x=(place(tick.at)) y=(place(bottom + 19.0)) { (tick.label) }
        }
        text class="axis end" x=(right) y=(place(bottom + 38.0)) { (lines.x.title) }
        @if lines.lines.is_empty() {
            text class="soft mid" x=(place((left + right) / 2.0)) y=(place((top + bottom) / 2.0)) { "no figures" }
        }
    }
}

fn limits(lines: &Lines, plot: &Plot) -> Markup {
    let [left, right] = [plot.left, plot.right].map(place);
    html! {
        @for limit in lines.limits.iter().filter(|limit| lines.y.kind.takes(limit.y)) {
            @let y = place(plot.y.at(limit.y));
            path class="limit" d={ "M" (left) " " (y) "H" (right) } {}
            text class="soft" x=(place(left + 4.0)) y=(place(y - 5.0)) { (limit.name) }
        }
    }
}

/// The points of a line that have a place, by their indices.
fn visible<'a>(
    line: &'a Line,
    lines: &'a Lines,
    plot: &'a Plot,
) -> impl Iterator<Item = (f64, Option<f64>, &'a Point)> {
    let points = line.points.iter().filter(|point| lines.x.kind.takes(point.x));
    points.map(|point| {
        let y = point.y.filter(|&y| lines.y.kind.takes(y)).map(|y| plot.y.at(y));
        (plot.x.at(point.x), y, point)
    })
}

fn drawn(line: &Line, lines: &Lines, plot: &Plot, with_words: bool) -> Markup {
    let through = |points: &[(f64, f64)]| {
        let takes = |&&(x, y): &&(f64, f64)| lines.x.kind.takes(x) && lines.y.kind.takes(y);
        let points = points.iter().filter(takes);
        path(points.map(|&(x, y)| (plot.x.at(x), Some(plot.y.at(y)))))
    };
    let joined = match &line.curve {
        Some(curve) => through(curve),
        None => path(visible(line, lines, plot).map(|(x, y, _)| (x, y))),
    };
    let thin = through(&line.thin);
    let intervals = intervals(line, lines, plot);
    html! {
        @if !thin.is_empty() { path class="thin" d=(thin) {} }
        path class="line" d=(joined) {}
        @if !intervals.is_empty() { path class="interval" d=(intervals) {} }
        @for (x, y, point) in visible(line, lines, plot) {
            @if let Some(y) = y { (marked(line, lines, point, x, y, with_words)) }
        }
    }
}

fn marked(line: &Line, lines: &Lines, point: &Point, x: f64, y: f64, with_words: bool) -> Markup {
    let ring = html! {
        @if point.ringed { circle class="ring" cx=(place(x)) cy=(place(y)) r="9" {} }
    };
    if !with_words {
        // The same words stand in the other drawing of the figure, in the same order.
        return html! { (marker(line.style, x, y, point.hollow)) (ring) };
    }
    html! {
        use class=[point.hollow.then_some("hollow")] href=(line.style.marker()) x=(place(x)) y=(place(y)) {
            title { (line.name) "\n" (point.label) ": " (point.text) " " (lines.y.unit) }
        }
        (ring)
    }
}

/// A line through places; where one is missing, it begins again. Written by what is between places, which is shorter.
fn path(places: impl Iterator<Item = (f64, Option<f64>)>) -> String {
    let mut path = String::new();
    // In tenths of pixels, as whole numbers, so that rounding does not add up.
    let tenths = |at: f64| (at * 10.0).round();
    let mut last: Option<(f64, f64)> = None;
    for (x, y) in places {
        let next = y.map(|y| (tenths(x), tenths(y)));
        if let Some((x, y)) = next {
            let _ = match last.map(|last| (x - last.0, y - last.1)) {
                None => write!(path, "M{} {}", x / 10.0, y / 10.0),
                Some((0.0, 0.0)) => Ok(()),
                Some((across, 0.0)) => write!(path, "h{}", across / 10.0),
                Some((0.0, down)) => write!(path, "v{}", down / 10.0),
                Some((across, down)) => {
                    // A sign tells numbers apart as well as a space does.
                    let between = if down < 0.0 { "" } else { " " };
                    write!(path, "l{}{between}{}", across / 10.0, down / 10.0)
                }
            };
        }
        last = next;
    }
    path
}

/// Bars of intervals; what hides behind its marker is left out.
fn intervals(line: &Line, lines: &Lines, plot: &Plot) -> String {
    let mut path = String::new();
    for (x, _, point) in visible(line, lines, plot) {
        let Some([low, high]) = point.interval else { continue };
        if !lines.y.kind.takes(low) || !lines.y.kind.takes(high) {
            continue;
        }
        let (low, high) = (plot.y.at(low), plot.y.at(high));
        if low - high < 2.0 {
            continue;
        }
        let (left, cap) = (place(x - CAP), 2.0 * CAP);
        let (from, to) = (low.min(plot.bottom), high.max(plot.top));
        let _ = write!(path, "M{} {}V{}", place(x), place(from), place(to));
        // An end that is beyond the paper has no cap.
        for end in [low, high].into_iter().filter(|end| (plot.top..=plot.bottom).contains(end)) {
            let _ = write!(path, "M{left} {}h{cap}", place(end));
        }
    }
    path
}

/// Room for the longest name, in pixels.
fn names_width(lines: &Lines) -> f64 {
    let names = lines.lines.iter().map(|line| text_width(&line.name, FONT));
    names.fold(0.0, f64::max).min(190.0)
}

/// The name of a line, to be written where the line ends.
struct Name<'a> {
    index: usize,
    line: &'a Line,
    /// Where the line ends.
    end: (f64, f64),
    /// How high the name is.
    at: f64,
}

/// The names of all lines, apart from one another; `None` if one of them would be far from its line.
fn names<'a>(lines: &'a Lines, plot: &Plot) -> Option<Vec<Name<'a>>> {
    let named = |(index, line): (usize, &'a Line)| {
        end(line, lines, plot).map(|end| Name { index, line, end, at: end.1 })
    };
    let mut names: Vec<_> = lines.lines.iter().enumerate().filter_map(named).collect();
    names.sort_by(|one, other| one.end.1.total_cmp(&other.end.1));
    let wished: Vec<f64> = names.iter().map(|name| name.at).collect();
    for (name, at) in names.iter_mut().zip(apart(&wished, plot.top + 4.0, plot.bottom)) {
        name.at = at;
    }
    let near = |name: &Name<'_>| {
        (name.at - name.end.1).abs() <= FARTHEST && plot.right - name.end.0 <= 2.0 * FARTHEST
    };
    (names.len() <= MOST_NAMED && names.iter().all(near)).then_some(names)
}

fn beside(name: &Name<'_>, lines: &Lines, plot: &Plot) -> Markup {
    let from = plot.right + 18.0;
    let (x, y) = name.end;
    let words = fitted(&name.line.name, FONT, names_width(lines) + 2.0);
    html! {
        g class={ "s " (name.line.style.class()) } data-s=(name.index) {
            path class="leader" d={
                "M" (place(x + 5.0)) " " (place(y)) "L" (place(from - 4.0)) " " (place(name.at))
            } {}
            text x=(place(from)) y=(place(name.at + 4.0)) { (words) }
        }
    }
}

/// Where a line ends.
fn end(line: &Line, lines: &Lines, plot: &Plot) -> Option<(f64, f64)> {
    let curve = line.curve.as_ref().and_then(|curve| curve.last());
    let curve = curve.filter(|(x, y)| lines.x.kind.takes(*x) && lines.y.kind.takes(*y));
    let points = || visible(line, lines, plot).filter_map(|(x, y, _)| Some((x, y?)));
    curve.map(|&(x, y)| (plot.x.at(x), plot.y.at(y))).or_else(|| points().last())
}

/// Ascending places, a line of text apart, whose squared distances from those that are `wished` are least: what
/// touches is moved together, to where it is wished for in the mean (pool adjacent violators).
fn apart(wished: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    // Sums and counts of what touches, less the lines above each.
    let mut heaps: Vec<(f64, usize)> = Vec::new();
    let mean = |(sum, count): (f64, usize)| sum / count as f64;
    for (index, wish) in wished.iter().enumerate() {
        let mut heap = (wish - index as f64 * LINE_OF_TEXT, 1);
        while let Some(above) = heaps.pop_if(|above| mean(*above) > mean(heap)) {
            heap = (heap.0 + above.0, heap.1 + above.1);
        }
        heaps.push(heap);
    }
    let last = bottom - wished.len().saturating_sub(1) as f64 * LINE_OF_TEXT;
    let of = |heap: (f64, usize)| std::iter::repeat_n(mean(heap).min(last).max(top), heap.1);
    let places = heaps.into_iter().flat_map(of).enumerate();
    places.map(|(index, place)| place + index as f64 * LINE_OF_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_touch_and_stay_on_the_paper() {
        let places = apart(&[50.0, 51.0, 52.0, 300.0, 301.0], 30.0, 300.0);
        assert_eq!(places[..3], [36.0, 51.0, 66.0]);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LINE_OF_TEXT), "{places:?}");
        assert!(places.iter().all(|place| (30.0..=300.0).contains(place)), "{places:?}");
        assert_eq!(apart(&[40.0, 100.0], 30.0, 300.0), [40.0, 100.0]);
    }

    #[test]
    fn a_line_is_broken_where_there_is_no_figure() {
        let places = [(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0)), (3.0, Some(4.06))];
        assert_eq!(path(places.into_iter()), "M0 1M2 3l1 1.1");
        let places = [(0.0, 4.0), (1.0, 4.0), (1.01, 4.01), (1.0, 2.0), (2.5, 1.0)];
        assert_eq!(path(places.map(|(x, y)| (x, Some(y))).into_iter()), "M0 4h1v-2l1.5-1");
    }
}
