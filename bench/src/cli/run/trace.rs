//! `--trace`: the file, which is made before anything is measured for it, and what goes into it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{RunArguments, lines::Lines, verbose::Verbose};
use crate::{
    cli::{Failure, complain, progress::Shown},
    plan::{Cell, Plan},
    report::{CellRecord, Content, Document, ResultFile},
    run::{Beginning, Progress, Trace},
    session::{SlicePhases, Variants},
    transport::StopSignal,
};

/// Where a trace goes, and the calls that it will show.
#[derive(Debug)]
pub(super) struct TraceFile {
    file: ResultFile,
    trace: Trace,
}

/// Refuses a trace that cannot be.
///
/// # Errors
/// No call of the run is marked, or it is the result's file.
pub(super) fn check(
    arguments: &RunArguments,
    plan: &Plan,
    variants: &Variants,
) -> Result<(), Failure> {
    let Some(path) = &arguments.trace else { return Ok(()) };
    if !plan.cells.iter().any(|cell| variants.of(&cell.variant).phases.is_some()) {
        return Err(Failure::Usage(
            "--trace shows marked calls, and none are marked; give --phases as well".to_owned(),
        ));
    }
    if arguments.output.as_deref().is_some_and(|output| place(output) == place(path)) {
        return Err(Failure::Usage(
            "--trace and --output name one file; give each its own".to_owned(),
        ));
    }
    Ok(())
}

impl TraceFile {
    /// The one that was asked for, if any. What its place holds stays there until there is something to
    /// put in its stead.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn create(
        arguments: &RunArguments,
        stop: &StopSignal,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = &arguments.trace else { return Ok(None) };
        let file = ResultFile::create(path, Content::Trace, stop).map_err(Failure::error)?;
        Ok(Some(Self { file, trace: Trace::default() }))
    }

    /// Writes it. If there is no call in it, its place is left as it was.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(self, document: &Document) -> Result<(), Failure> {
        if self.trace.is_empty() {
            // Of a run that did not begin, its failure says enough.
            if document.complete {
                complain("--trace: no call was marked; the file is left as it was");
            }
            return Ok(());
        }
        let mut text = serde_json::to_vec(&self.trace.events(document)).map_err(Failure::error)?;
        text.push(b'\n');
        self.file.finish_as(&text).map_err(Failure::error)
    }
}

/// The file that a path names, whichever of several ways it does so.
fn place(path: &Path) -> PathBuf {
    if let Ok(file) = fs::canonicalize(path) {
        return file;
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = fs::canonicalize(directory.unwrap_or(Path::new(".")));
    match (directory, path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

/// Shows how the run goes, and keeps the calls of which a trace is made.
#[derive(Debug)]
pub(super) struct Watched<'a> {
    pub(super) shown: &'a mut Shown,
    pub(super) trace: &'a mut Option<TraceFile>,
    pub(super) lines: Option<&'a mut Lines>,
    pub(super) verbose: Option<Verbose>,
    // Why a line could not be printed.
    pub(super) unprinted: Option<Failure>,
}

impl Progress for Watched<'_> {
    fn begin(&mut self, beginning: &Beginning<'_>) {
        self.shown.begin(beginning);
    }

    fn warn(&mut self, text: &str) {
        self.shown.warn(text);
    }

    fn cell_done(&mut self, cell: &CellRecord) {
        self.shown.cell_done(cell);
        if let Some(lines) = &mut self.lines
            && let Err(failure) = lines.cell(cell)
        {
            self.unprinted.get_or_insert(failure);
        }
    }

    fn round_done(&mut self, round: u32, cell: &CellRecord) {
        if let Some(verbose) = &mut self.verbose {
            verbose.round(self.shown, round, cell);
        }
    }

    fn marked(&mut self, cell: &Cell, round: u32, phases: &SlicePhases) {
        if let Some(file) = self.trace {
            file.trace.add(cell, round, phases);
        }
    }
}
