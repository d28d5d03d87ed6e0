//! Options that would change nothing in a run: they are refused, and not ignored.

use std::ffi::OsString;

use clap::{CommandFactory as _, parser::ValueSource};

use crate::{
    cli::{Cli, Failure, memory::MEMORY_HEADING, options::VERBS_HEADING},
    plan::{Plan, TransportName},
};

/// Of verbs, and shown among the options of every transport.
const ELSEWHERE: [&str; 2] = ["tune", "service"];

/// Refuses options of verbs where nothing that is planned is; `words` is the command line.
///
/// # Errors
/// The options that were typed, and what to do.
pub(super) fn refuse_ignored(words: &[OsString], plan: &Plan) -> Result<(), Failure> {
    if plan.transports.iter().any(|transport| matches!(transport, TransportName::Verbs(_))) {
        return Ok(());
    }
    let command = Cli::command();
    let Ok(matches) = command.clone().try_get_matches_from(words) else { return Ok(()) };
    let (Some(run), Some(matches)) =
        (command.find_subcommand("run"), matches.subcommand_matches("run"))
    else {
        return Ok(());
    };
    // What is hidden is taken from who types it by habit, and means nothing in any run.
    let is_of_verbs = |option: &&clap::Arg| {
        let heading = option.get_help_heading().filter(|_| !option.is_hide_set());
        heading.is_some_and(|it| [VERBS_HEADING, MEMORY_HEADING].contains(&it))
            || ELSEWHERE.contains(&option.get_id().as_str())
    };
    let typed = |option: &&clap::Arg| {
        matches.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let name = |option: &clap::Arg| match (option.get_short(), option.get_long()) {
        (Some(short), Some(long)) => format!("--{long} (-{short})"),
        (_, long) => format!("--{}", long.unwrap_or_default()),
    };
    let typed: Vec<_> = run.get_arguments().filter(is_of_verbs).filter(typed).map(name).collect();
    if typed.is_empty() {
        return Ok(());
    }
    let transports: Vec<_> = plan.transports.iter().map(ToString::to_string).collect();
    Err(Failure::Usage(format!(
        "{}: for verbs only, and {} is none; leave the option out, or name a transport of verbs as well",
        typed.join(", "),
        transports.join(", ")
    )))
}
