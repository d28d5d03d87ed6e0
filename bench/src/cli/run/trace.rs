//! `--trace`: the file, which is made before anything is measured for it, and what goes into it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{RunArguments, lines::Lines};
use crate::{
    cli::{Failure, progress::Shown},
    plan::{Cell, Plan},
    report::{CellRecord, Document},
    run::{Beginning, Progress, Trace},
    session::{SlicePhases, Variants},
};

/// Where a trace goes, and the calls that it will show.
#[derive(Debug)]
pub(super) struct TraceFile {
    path: PathBuf,
    file: File,
    // Whether there was none before.
    is_new: bool,
    trace: Trace,
}

impl TraceFile {
    /// The one that was asked for, if any.
    ///
    /// # Errors
    /// No call of the run is marked, it is the result's file, or it cannot be written.
    pub(super) fn create(
        arguments: &RunArguments,
        plan: &Plan,
        variants: &Variants,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = &arguments.trace else { return Ok(None) };
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
        let path = path.clone();
        let (opened, is_new) = match File::create_new(&path) {
            // What it holds stays there until there is something to put in its place.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (OpenOptions::new().write(true).create(true).truncate(false).open(&path), false)
            }
            created => (created, true),
        };
        let file = opened.map_err(|error| failed(&path, &error))?;
        Ok(Some(Self { path, file, is_new, trace: Trace::default() }))
    }

    /// Leaves the place as it was: nothing was measured.
    pub(super) fn discard(self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(mut self, document: &Document) -> Result<(), Failure> {
        let text = serde_json::to_string(&self.trace.events(document)).map_err(Failure::error)?;
        // Refused by devices and pipes, which have no length.
        let _ = self.file.set_len(0);
        let written =
            self.file.write_all(text.as_bytes()).and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|error| failed(&self.path, &error))
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

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::error(format!(
        "cannot write the trace to {}: {error}; choose another place with --trace",
        path.display()
    ))
}

/// Shows how the run goes, and keeps the calls of which a trace is made.
#[derive(Debug)]
pub(super) struct Watched<'a> {
    pub(super) shown: &'a mut Shown,
    pub(super) trace: Option<&'a mut TraceFile>,
    pub(super) lines: Option<&'a mut Lines>,
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

    fn marked(&mut self, cell: &Cell, round: u32, phases: &SlicePhases) {
        if let Some(file) = &mut self.trace {
            file.trace.add(cell, round, phases);
        }
    }
}
