//! The hosts, and which way each transport went.

use maud::{Markup, html};

use crate::{
    html::source::Source,
    report::{Document, Environment, ways},
};

type Row = (&'static str, fn(&Environment) -> Option<String>);

const ROWS: [Row; 12] = [
    ("host", |host| Some(host.hostname.clone())),
    ("fabricbench", |host| Some(host.fabricbench.clone())),
    ("build", |host| host.build.clone()),
    ("kernel", |host| host.kernel.clone()),
    ("processor", |host| host.cpu.clone()),
    ("logical processors", |host| host.cpus.map(|cpus| cpus.to_string())),
    ("frequency governor", |host| host.governor.clone()),
    ("MHz, first slice to last", |host| {
        host.frequency_mhz.map(|mhz| format!("{} to {}", mhz.first, mhz.last))
    }),
    ("virtualization", |host| host.virtualization.clone()),
    ("TCP congestion control", |host| host.congestion_control.clone()),
    ("clock source", |host| host.clock_source.clone()),
    ("allocator", |host| host.allocator.clone()),
];

pub(super) fn environment(sources: &[Source]) -> Markup {
    html! {
        section id="environment" {
            h2 { "Environment" }
            @for source in sources {
                @if sources.len() > 1 { h3 { (source.name) } }
                (hosts(&source.document))
                @let ways = ways(&source.document);
                @if !ways.is_empty() {
                    ul class="ways" { @for way in ways.lines() { li { (way) } } }
                }
            }
        }
    }
}

fn hosts(document: &Document) -> Markup {
    let word = |value: Option<String>| value.unwrap_or_else(|| "not known".to_owned());
    html! {
        div class="scroll" {
            table class="words" {
                thead { tr { td {} th scope="col" { "client" } th scope="col" { "server" } } }
                tbody {
                    @for (name, of) in ROWS {
                        @let client = word(of(&document.client));
                        @let server = document.server.as_ref().map(of).map(word);
                        tr {
                            th scope="row" { (name) }
                            td { (client) }
                            td { (server.unwrap_or_else(|| "not reached".to_owned())) }
                        }
                    }
                }
            }
        }
    }
}
