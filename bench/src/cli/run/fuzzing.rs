//! What a command line plans.

use std::ffi::OsString;

use super::{
    RunArguments,
    ignored::refuse_ignored,
    plan::{plan, refuse_impossible},
    sweep::sweep,
    trace, variants,
};
use crate::cli::Failure;

pub(in crate::cli) fn planned(arguments: &RunArguments, words: &[OsString]) {
    // A model may be any file, and reading that is another target's.
    if arguments.model.is_empty()
        && let Err(failure) = made(arguments, words)
    {
        let _ = failure.to_string();
    }
}

fn made(arguments: &RunArguments, words: &[OsString]) -> Result<(), Failure> {
    let sweep = sweep(arguments, words)?;
    for local in [true, false] {
        let plan = plan(arguments, &sweep, local, 7)?;
        refuse_ignored(words, &plan)?;
        let variants = variants(arguments, words, &plan)?;
        refuse_impossible(&plan, &variants)?;
        trace::check(arguments, &plan, &variants)?;
    }
    Ok(())
}
