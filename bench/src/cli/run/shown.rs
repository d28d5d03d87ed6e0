//! What a run shows: of how it goes on standard error, and under the table.

use clap::Args;

use super::verbose::Verbose;
use crate::cli::{
    progress::{ProgressMode, Shown},
    terminal::When,
};

#[derive(Debug, Clone, Args)]
pub(super) struct ShownOptions {
    /// A chart of latency by size under the table: by itself on a terminal, where it fits
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    pub(super) chart: When,
    /// Progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    progress: ProgressMode,
    /// Nothing on standard error but errors
    #[arg(long, conflicts_with_all = ["verbose", "progress"])]
    quiet: bool,
    /// Say on standard error what is decided, which way each transport goes and why, and what each round
    /// found
    #[arg(short = 'v', long)]
    verbose: bool,
}

impl ShownOptions {
    /// How the run goes.
    pub(super) fn progress(&self) -> Shown {
        match self.quiet {
            true => Shown::Quiet,
            false => Shown::new(self.progress),
        }
    }

    /// What is decided and found, if that was asked for.
    pub(super) fn verbose(&self) -> Option<Verbose> {
        self.verbose.then(Verbose::default)
    }
}
