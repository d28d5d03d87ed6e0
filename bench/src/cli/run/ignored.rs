//! Options that would change nothing in a run: they are refused, and not ignored.

use std::ffi::OsString;

use clap::{CommandFactory as _, parser::ValueSource};

use crate::{
    cli::{Cli, Failure, memory::MEMORY_HEADING, options::VERBS_HEADING},
    plan::{Cell, Plan, TransportName},
};

/// Of verbs, and shown among the options of every transport.
const ELSEWHERE: [&str; 2] = ["tune", "service"];

/// Of verbs, and of no meaning in calls, where receives and signals follow from the depth.
const NOT_OF_CALLS: [&str; 3] = ["rx_depth", "cq_mod", "tune"];

/// Refuses options of verbs where nothing that is planned is, and where all that is are calls those that
/// calls do not have; `words` is the command line.
///
/// # Errors
/// The options that were typed, and what to do.
pub(super) fn refuse_ignored(words: &[OsString], plan: &Plan) -> Result<(), Failure> {
    let is_verbs = |cell: &&Cell| matches!(cell.transport, TransportName::Verbs(_));
    let mut verbs = plan.cells.iter().filter(is_verbs).peekable();
    if verbs.peek().is_none() {
        let typed = typed(words, is_of_verbs);
        if typed.is_empty() {
            return Ok(());
        }
        let transports: Vec<_> = plan.transports.iter().map(ToString::to_string).collect();
        return Err(Failure::Usage(format!(
            "{}: for verbs only, and {} is none; leave the option out, or name a transport of verbs as well",
            typed.join(", "),
            transports.join(", ")
        )));
    }
    if !verbs.all(|cell| cell.pattern.is_called()) {
        return Ok(());
    }
    let typed = typed(words, |option| NOT_OF_CALLS.contains(&option.get_id().as_str()));
    if typed.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{}: verbs do not have it in the patterns calls and ps; leave it out, or give --pattern bandwidth or \
         rate as well",
        typed.join(", ")
    )))
}

fn is_of_verbs(option: &clap::Arg) -> bool {
    // What is hidden is taken from who types it by habit, and means nothing in any run.
    let heading = option.get_help_heading().filter(|_| !option.is_hide_set());
    heading.is_some_and(|it| [VERBS_HEADING, MEMORY_HEADING].contains(&it))
        || ELSEWHERE.contains(&option.get_id().as_str())
}

/// The options of `run` that are `meant` and stand on the command line, by their names.
fn typed(words: &[OsString], meant: impl Fn(&clap::Arg) -> bool) -> Vec<String> {
    let command = Cli::command();
    let Ok(matches) = command.clone().try_get_matches_from(words) else { return Vec::new() };
    let (Some(run), Some(matches)) =
        (command.find_subcommand("run"), matches.subcommand_matches("run"))
    else {
        return Vec::new();
    };
    let is_typed = |option: &&clap::Arg| {
        matches.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let name = |option: &clap::Arg| match (option.get_short(), option.get_long()) {
        (Some(short), Some(long)) => format!("--{long} (-{short})"),
        (_, long) => format!("--{}", long.unwrap_or_default()),
    };
    run.get_arguments().filter(|option| meant(option)).filter(is_typed).map(name).collect()
}
