//! One cell in two files.

use std::fmt;

use serde::Serialize;

use super::{
    comparable::{Difference, Severity, of_cells},
    figure::{Figure, figures},
    metric::Metric,
};
use crate::{
    plan::{DEFAULT_REPLY, Pattern, Roles, TransportName, Variant, display_bytes},
    report::{CellRecord, Status},
};

/// What tells a cell from all others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellName {
    /// How the message travels.
    pub transport: TransportName,
    /// Who sends what.
    pub pattern: Pattern,
    /// Message size in bytes.
    pub size: u64,
    /// Size of a reply in bytes: of calls only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<u64>,
    /// Parameter servers and workers, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<Roles>,
    /// What a message is made of: buffers, or a model's tensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Settings of its own.
    #[serde(skip_serializing_if = "Variant::is_empty")]
    pub variant: Variant,
}

impl CellName {
    /// That of `cell`.
    #[must_use]
    pub fn of(cell: &CellRecord) -> Self {
        let tensors = cell.tensors.as_ref().map(|tensors| match tensors.coalesce.as_str() {
            "no" => format!("of {}", tensors.model),
            coalesce => format!("of {} coalesced {coalesce}", tensors.model),
        });
        Self {
            transport: cell.transport.clone(),
            pattern: cell.pattern,
            size: cell.size,
            reply: cell.reply,
            roles: cell.roles,
            payload: tensors
                .or_else(|| cell.buffers.as_ref().map(|buffers| format!("in {}", buffers.shape))),
            variant: cell.variant.clone(),
        }
    }

    /// Transport and variant.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}{}", self.transport, self.variant)
    }
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, pattern, size, variant, .. } = self;
        write!(f, "{transport}{variant} {pattern} {}", display_bytes(*size))?;
        if let Some(payload) = &self.payload {
            write!(f, " {payload}")?;
        }
        if let Some(reply) = self.reply.filter(|&reply| reply != DEFAULT_REPLY) {
            write!(f, " for {}", display_bytes(reply))?;
        }
        match self.roles {
            Some(Roles { servers, workers }) if (servers, workers) != (1, 1) => {
                write!(f, " {workers} to {servers}")
            }
            _ => Ok(()),
        }
    }
}

/// What became of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Its figures stand beside each other.
    Compared,
    /// They are of different things.
    Refused,
    /// A file has no figures of it.
    NotMeasured,
    /// The new file does not have it.
    OnlyBase,
    /// The old file does not have it.
    OnlyNew,
}

/// A cell of one file or of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellComparison {
    /// Which.
    #[serde(flatten)]
    pub name: CellName,
    /// What became of it.
    pub outcome: Outcome,
    /// Why there are no figures; what a reader should know if there are.
    pub reason: Option<String>,
    /// What differs beside the figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Figures that the old file has, or the one that has the cell alone.
    #[serde(skip)]
    pub(super) base_has: Vec<Metric>,
}

impl CellComparison {
    /// Of a cell that one file has alone.
    pub(super) fn alone(cell: &CellRecord, outcome: Outcome) -> Self {
        let file = if outcome == Outcome::OnlyNew { "old" } else { "new" };
        Self {
            name: CellName::of(cell),
            outcome,
            reason: Some(format!("the {file} file does not have it")),
            differences: Vec::new(),
            figures: Vec::new(),
            base_has: had(cell),
        }
    }

    /// Of a cell of both files: the figures that `metrics` names, if they can be compared, or in spite of
    /// that they cannot (`anyway`).
    pub(super) fn of(
        base: &CellRecord,
        new: &CellRecord,
        anyway: bool,
        metrics: impl FnOnce(&CellName) -> Vec<Metric>,
    ) -> Self {
        let name = CellName::of(base);
        let cell = Self {
            name,
            outcome: Outcome::Compared,
            reason: None,
            differences: Vec::new(),
            figures: Vec::new(),
            base_has: had(base),
        };
        let missing: Vec<_> = [("old", base), ("new", new)]
            .iter()
            .filter_map(|(file, cell)| missing(file, cell))
            .collect();
        if !missing.is_empty() {
            let reason = Some(missing.join("; "));
            return Self { outcome: Outcome::NotMeasured, reason, ..cell };
        }
        let differences = of_cells(base, new);
        let refused: Vec<_> = differences
            .iter()
            .filter(|difference| difference.severity == Severity::Refused)
            .map(ToString::to_string)
            .collect();
        if !refused.is_empty() && !anyway {
            let reason = Some(refused.join("; "));
            return Self { outcome: Outcome::Refused, reason, differences, ..cell };
        }
        let (figures, unreadable) = figures(base, new, metrics(&cell.name).into_iter());
        let failed = [("old", base), ("new", new)].into_iter().flat_map(|(file, cell)| {
            cell.failed_checks.iter().map(move |check| format!("in the {file} file, {check}"))
        });
        let told: Vec<_> = unreadable.into_iter().chain(failed).collect();
        let reason = (!told.is_empty()).then(|| told.join("; "));
        Self { reason, differences, figures, ..cell }
    }
}

fn had(cell: &CellRecord) -> Vec<Metric> {
    Metric::ALL.into_iter().filter(|metric| metric.of(cell).is_some()).collect()
}

/// Why there are no figures.
fn missing(file: &str, cell: &CellRecord) -> Option<String> {
    let status = match cell.status {
        Status::Measured => return None,
        Status::Unsupported => "unsupported",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
    };
    let reason = cell.reason.as_deref().unwrap_or("no reason told");
    Some(format!("{status} in the {file} file: {reason}"))
}
