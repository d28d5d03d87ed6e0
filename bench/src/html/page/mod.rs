//! The page.

mod care;
mod data;
mod environment;
mod headline;
mod method;
mod model;
mod table;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    figure::{Figure, Table},
    figures::Section,
    frame::{Face, has_thin, inline, key, keys},
    palette,
    source::Source,
};

const SCRIPT: &str = include_str!("../script.js");

/// The whole page, its figures numbered.
pub(super) fn page(sources: &[Source], sections: &[Section]) -> Markup {
    let title = headline::title(sources);
    let style = style();
    let mut numbers = 1..;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(&style));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "fabricbench " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(&style)) }
            }
            body {
                svg class="definitions" width="0" height="0" aria-hidden="true" { (palette::definitions()) }
                header {
                    (headline::headline(sources, &title))
                    (model::ahead(sources))
                    (care::care(sources))
                }
                main {
                    (environment::environment(sources))
                    @for section in sections {
                        section id=(section.id) {
                            h2 { (section.title) }
                            @for figure in &section.figures { (shown(figure, numbers.next())) }
                            @for missing in &section.missing { p class="soft" { (missing) } }
                        }
                    }
                    (model::costs(sources))
                    (table::all(sources))
                    (method::method(sources))
                    (data::data(sources))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// A figure with its caption, its legend, both drawings and its numbers.
fn shown(figure: &Figure, number: Option<u32>) -> Markup {
    let number = number.unwrap_or_default();
    let keys = keys(figure);
    html! {
        figure id=(figure.id) {
            figcaption {
                h3 { span class="number" { "Figure " (number) ". " } (figure.title) }
                p id={ (figure.id) "-text" } { (figure.caption) }
            }
            @if !keys.is_empty() {
                ul class="legend" {
                    @for (index, (name, style)) in keys.iter().enumerate() {
                        li data-s=(index) {
                            svg class="chart key" width="30" height="12" viewBox="0 0 30 12" aria-hidden="true" {
                                (key(*style))
                            }
                            (name)
                        }
                    }
                    @if has_thin(figure) {
                        li class="thin-key" {
                            svg class="chart key" width="30" height="12" viewBox="0 0 30 12" aria-hidden="true" {
                                path class="thin" d="M1 6h28" {}
                            }
                            "99th percentile"
                        }
                    }
                }
            }
            (inline(figure, Face::Wide))
            (inline(figure, Face::Narrow))
            details {
                summary { "Figure " (number) " in numbers" }
                (numbers(&figure.table))
            }
        }
    }
}

fn numbers(table: &Table) -> Markup {
    html! {
        div class="scroll" {
            table {
                @if !table.values.is_empty() { caption { (table.values) } }
                thead { tr { @for name in &table.head { th scope="col" { (name) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (index, cell) in row.iter().enumerate() {
                                @if index == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn style() -> String {
    let light = palette::variables(|colour| colour.light);
    let dark = palette::variables(|colour| colour.dark);
    format!(
        ":root{{color-scheme:light;{light}}}\
         @media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\
         @media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}{}{}{}",
        palette::rules(),
        include_str!("../style/chart.css"),
        include_str!("../style/page.css"),
    )
}

/// Nothing is loaded from anywhere, and no script but ours runs, whatever a document holds.
fn policy(style: &str) -> String {
    let hash = data::sha256;
    format!("default-src 'none'; style-src '{}'; script-src '{}'", hash(style), hash(SCRIPT))
}
