//! What a reader must know before believing a figure.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::{
    html::source::Source,
    report::{CellRecord, Document, Path, PathKind, Status},
};

/// The box of doubts. It is there even if it is empty: that there are none is said, and not left out.
pub(super) fn care(sources: &[Source]) -> Markup {
    html! {
        section id="care" class="care" {
            h2 { "Read with care" }
            @for source in sources {
                @let points = points(&source.document);
                @if sources.len() > 1 { h3 { (source.name) } }
                ul {
                    @for point in &points { li { (point) } }
                    @if points.is_empty() {
                        li {
                            "Nothing was called out: every cell has a figure, counters prove every path, and no link or host \
                             is known to be emulated."
                        }
                    }
                }
            }
        }
    }
}

fn points(document: &Document) -> Vec<Markup> {
    let mut points = what_it_ran_on(document);
    points.extend(what_is_missing(document));
    let warnings = document.warnings.iter();
    points.extend(warnings.map(|warning| html! { strong { "Warning: " } (warning) }));
    points.extend(document.advice.iter().map(|advice| {
        let text = advice.to_string();
        let text = text.strip_prefix("advice: ").unwrap_or(&text);
        html! { strong { "Advice: " } (text) }
    }));
    points
}

fn what_it_ran_on(document: &Document) -> Vec<Markup> {
    let mut points = Vec::new();
    let over = |is: fn(&Path) -> bool| {
        transports(document, |cell| [&cell.path, &cell.peer_path].into_iter().flatten().any(is))
    };
    let emulated = over(|path| path.emulated);
    if !emulated.is_empty() {
        points.push(html! {
            strong { "Emulated: " } (emulated) ". Their times say nothing of an adapter or a link of that kind."
        });
    }
    let looped = over(|path| path.kind == PathKind::Loopback);
    if !looped.is_empty() {
        points.push(html! {
            strong { "Loopback: " } (looped) ". No network was crossed: processors and memory were measured."
        });
    }
    let made = over(|path| {
        let backing = path.backing.as_deref().unwrap_or_default();
        path.kind != PathKind::Loopback && !path.emulated && backing.starts_with("virtual")
    });
    if !made.is_empty() {
        points
            .push(html! { strong { "Virtual links: " } (made) ". Software made the interfaces." });
    }
    let hosts = std::iter::once(&document.client).chain(&document.server);
    let virtualized =
        hosts.filter_map(|host| Some((&host.hostname, host.virtualization.as_ref()?)));
    for (host, what) in virtualized.collect::<BTreeSet<_>>() {
        points.push(html! { strong { "Not bare metal: " } (host) " runs in " (what) "." });
    }
    points
}

fn what_is_missing(document: &Document) -> Vec<Markup> {
    let mut points = Vec::new();
    if !document.complete {
        points.push(html! { strong { "Cut off: " } "the plan was not carried out to its end." });
    }
    let all = document.cells.len();
    let without = document.cells.iter().filter(|cell| cell.status != Status::Measured).count();
    if without > 0 || all == 0 {
        points.push(html! {
            strong { "No figure: " } (without) " of " (all) " cells; the reasons stand under "
            a href="#figures" { "all figures" } "."
        });
    }
    let unproven = transports(document, |cell| {
        let sides = [&cell.counters, &cell.peer_counters];
        !sides.into_iter().all(|counters| {
            let proof = counters.as_ref().and_then(|counters| counters.proof.as_ref());
            proof.and_then(|proof| proof.holds) == Some(true)
        })
    });
    if !unproven.is_empty() {
        points.push(html! {
            strong { "Path not proven " } "by counters of both sides: in cells of " (unproven) "."
        });
    }
    let overloaded = |cell: &&CellRecord| cell.load.as_ref().is_some_and(|load| !load.sustained);
    // Where rates were searched for, some had to be too much.
    let is_searched = |cell: &CellRecord| document.knees.iter().any(|knee| knee.has(cell));
    let given = document.cells.iter().filter(|cell| !is_searched(cell));
    let overloaded = given.filter(overloaded).count();
    if overloaded > 0 {
        points.push(html! {
            strong { "Overload: " } "in " (overloaded) " cells the load that was offered was not sustained."
        });
    }
    points
}

/// The transports of those measured cells that `is` is true of.
fn transports(document: &Document, is: impl Fn(&CellRecord) -> bool) -> String {
    let cells = document.cells.iter().filter(|cell| cell.status == Status::Measured && is(cell));
    let mut names: Vec<String> = Vec::new();
    for cell in cells {
        let name = cell.transport.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}
