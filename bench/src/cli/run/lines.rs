//! The result as it comes: a JSON document a line, for programs that do not wait for the end.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::{Failure, print};
use crate::report::{CellRecord, Document};

/// What was printed so far.
#[derive(Debug, Default)]
pub(in crate::cli) struct Lines {
    cells: HashSet<String>,
}

impl Lines {
    /// Everything but the cells: what is to be measured, where, and what is known beforehand.
    ///
    /// # Errors
    /// Standard output takes no more.
    pub(super) fn begin(&self, document: &Document) -> Result<(), Failure> {
        let mut head = serde_json::to_value(document).map_err(Failure::error)?;
        if let Some(head) = head.as_object_mut() {
            for of_the_end in ["cells", "complete", "warnings", "advice", "drift", "model", "knees"]
            {
                head.remove(of_the_end);
            }
        }
        line("run", &head)
    }

    /// A cell that has all its rounds.
    ///
    /// # Errors
    /// Standard output takes no more.
    pub(super) fn cell(&mut self, cell: &CellRecord) -> Result<(), Failure> {
        if !self.cells.insert(name(cell)) {
            return Ok(());
        }
        line("cell", &serde_json::to_value(cell).map_err(Failure::error)?)
    }

    /// The cells that were not printed, and how it ended.
    ///
    /// # Errors
    /// Standard output takes no more.
    pub(super) fn end(&mut self, document: &Document) -> Result<(), Failure> {
        document.cells.iter().try_for_each(|cell| self.cell(cell))?;
        let end = json!({
            "complete": document.complete,
            "warnings": document.warnings,
            "advice": document.advice,
            "drift": document.drift,
            "model": document.model,
            "knees": document.knees,
        });
        line("end", &end)
    }
}

/// What tells a cell from the others.
fn name(cell: &CellRecord) -> String {
    format!(
        "{} {} {} {:?} {:?}",
        cell.label(),
        cell.pattern,
        cell.size_label(),
        cell.reply,
        cell.roles
    )
}

/// `record`, with the kind of line in front.
fn line(kind: &str, record: &Value) -> Result<(), Failure> {
    let mut line = json!({ "kind": kind });
    if let (Some(line), Some(record)) = (line.as_object_mut(), record.as_object()) {
        line.extend(record.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    print(&format!("{line}\n"))
}
