//! Which run this is, in words.

use std::collections::BTreeSet;

use maud::{Markup, html};
use time::{OffsetDateTime, macros::format_description};

use crate::{
    html::source::Source,
    plan::{Pattern, display_bytes},
    report::{Document, Status},
};

/// The hosts, or that several runs are compared.
pub(super) fn title(sources: &[Source]) -> String {
    match sources {
        [source] => format!("fabricbench: {}", hosts(&source.document)),
        several => format!("fabricbench: {} runs", several.len()),
    }
}

fn hosts(document: &Document) -> String {
    let client = &document.client.hostname;
    match &document.server {
        Some(server) if server.hostname == *client => format!("both sides on {client}"),
        Some(server) => format!("{client} to {}", server.hostname),
        None => format!("{client}, no server reached"),
    }
}

/// Title, runs in a sentence each, and commands.
pub(super) fn headline(sources: &[Source], title: &str) -> Markup {
    html! {
        h1 { (title) }
        @match sources {
            [source] => {
                p class="lead" { (sentence(&source.document)) }
                (command(&source.document))
            }
            several => {
                ol class="runs" {
                    @for source in several {
                        li {
                            p {
                                strong { (source.name) } " (" (hosts(&source.document)) "): "
                                (sentence(&source.document))
                            }
                            (command(&source.document))
                        }
                    }
                }
            }
        }
    }
}

fn command(document: &Document) -> Markup {
    // A word is not broken at its hyphens.
    html! {
        @if !document.command.is_empty() {
            pre class="command" {
                code { @for word in &document.command { span { (quoted(word)) } " " } }
            }
        }
    }
}

/// As a shell would take it for one word.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn sentence(document: &Document) -> String {
    let cells = &document.cells;
    let transports: BTreeSet<_> = cells.iter().map(|cell| cell.transport.to_string()).collect();
    let mut patterns: Vec<Pattern> = Vec::new();
    for cell in cells {
        if !patterns.contains(&cell.pattern) {
            patterns.push(cell.pattern);
        }
    }
    let patterns: Vec<_> = patterns.into_iter().map(Pattern::name).collect();
    let patterns = match patterns.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        others => others.concat(),
    };
    let sizes: BTreeSet<_> = cells.iter().map(|cell| cell.size).collect();
    let over = match (sizes.first(), sizes.last()) {
        (Some(one), Some(other)) if one == other => format!("of {}", display_bytes(*one)),
        (Some(first), Some(last)) => {
            let (first, last) = (display_bytes(*first), display_bytes(*last));
            format!("of {} sizes from {first} to {last}", sizes.len())
        }
        _ => "of no size".to_owned(),
    };
    let measured = cells.iter().filter(|cell| cell.status == Status::Measured).count();
    format!(
        "{}: {} {over} over {} transport{}, in {} interleaved round{}, by fabricbench {}. {measured} of {} cells have \
         figures.",
        date(document.started_unix_s),
        patterns,
        transports.len(),
        plural(transports.len()),
        document.plan.rounds,
        plural(document.plan.rounds as usize),
        document.fabricbench,
        cells.len(),
    )
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A time in UTC, to the minute.
fn date(unix_s: u64) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    let seconds = i64::try_from(unix_s).ok();
    let time = seconds.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let text = time.and_then(|time| time.format(format).ok());
    text.unwrap_or_else(|| format!("second {unix_s} since 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_impossible_ones_are_told() {
        assert_eq!(date(1_796_044_252), "2026-11-30 13:10 UTC");
        assert_eq!(date(u64::MAX), format!("second {} since 1970", u64::MAX));
    }

    #[test]
    fn words_of_a_command_are_those_of_a_shell() {
        assert_eq!(quoted("--sizes=2:8M:x4"), "--sizes=2:8M:x4");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
