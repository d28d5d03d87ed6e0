//! Command lines.

use std::ffi::OsString;

use clap::Parser as _;

use super::{Cli, Command, one_line, perftest, run};
use crate::control::parse_host;

/// Arguments, a line each, as far as they are without the files and hosts that they name.
pub(crate) fn command(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let words = text.lines().map(OsString::from);
    let words = perftest::respell(std::iter::once(OsString::from("fabricbench")).chain(words));
    match Cli::try_parse_from(&words) {
        Err(refused) => {
            let _ = perftest::instead(&refused, &words)
                .unwrap_or_else(|| one_line(&refused.to_string()));
        }
        Ok(Cli { command: Command::Run(arguments), .. }) => {
            run::fuzzing::planned(&arguments, &words)
        }
        Ok(_) => {}
    }
    if let Some(last) = text.lines().last() {
        let _ = parse_host(last, 1);
    }
}
