//! What the figures of all sizes say together: who is ahead where, and what a message costs.

use maud::{Markup, html};

use crate::{
    html::source::Source,
    report::{COST_HEAD, COST_NOTE, ModelRecord, cost_rows, model, model_words},
};

/// Who is ahead, in words; nothing where nobody was compared.
pub(super) fn ahead(sources: &[Source]) -> Markup {
    let told = told(sources, |model| !model_words(model).is_empty());
    html! {
        @if !told.is_empty() {
            section id="ahead" {
                h2 { "Who is ahead" }
                @for (source, model) in &told {
                    @if sources.len() > 1 { h3 { (source.name) } }
                    ul { @for words in model_words(model) { li { (words) } } }
                }
            }
        }
    }
}

/// The fits, a row a piece; nothing where there are none.
pub(super) fn costs(sources: &[Source]) -> Markup {
    let told = told(sources, |model| !model.fits.is_empty());
    html! {
        @if !told.is_empty() {
            section id="model" {
                h2 { "Start-up and cost of a byte" }
                p class="soft" { "Of medians and of rates over size: " (COST_NOTE) "." }
                @for (source, model) in &told {
                    @if sources.len() > 1 { h3 { (source.name) } }
                    div class="scroll" {
                        table {
                            thead { tr { @for name in COST_HEAD { th scope="col" { (name) } } } }
                            tbody {
                                @for row in cost_rows(model) {
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
        }
    }
}

fn told(sources: &[Source], has: fn(&ModelRecord) -> bool) -> Vec<(&Source, ModelRecord)> {
    let models = sources.iter().filter_map(|source| Some((source, model(&source.document)?)));
    models.filter(|(_, model)| has(model)).collect()
}
