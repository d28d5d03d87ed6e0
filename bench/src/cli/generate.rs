//! `fabricbench completions` and `fabricbench man`: what packages install, from the one definition of the options.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Exit, Failure, print};

/// Arguments of `fabricbench completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// Shell to complete in
    shell: Shell,
}

/// Arguments of `fabricbench man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Write the pages of all commands into this folder, which exists [default: print the first page]
    folder: Option<PathBuf>,
}

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output takes no more.
pub(super) fn completions(arguments: &CompletionsArguments) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "fabricbench", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Complete)
}

/// Prints the manual page, or writes those of all commands.
///
/// # Errors
/// They cannot be written.
pub(super) fn man(arguments: &ManArguments) -> Result<Exit, Failure> {
    match &arguments.folder {
        Some(folder) => clap_mangen::generate_to(Cli::command(), folder).map_err(|error| {
            Failure::error(format!(
                "cannot write manual pages to {}: {error}; give a folder that exists",
                folder.display()
            ))
        })?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Failure::error)?;
            print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(Exit::Complete)
}
