//! The columns of a report: transports, of a sweep each in its variants.

use std::collections::BTreeSet;

use super::{CellRecord, Document};
use crate::plan::{TransportName, Variant};

/// A transport in a variant, or in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Column<'a> {
    pub(super) transport: &'a TransportName,
    pub(super) variant: &'a Variant,
}

impl<'a> Column<'a> {
    /// That of a cell.
    pub(super) fn of(cell: &'a CellRecord) -> Self {
        Self { transport: &cell.transport, variant: &cell.variant }
    }

    /// Whether `cell` stands in it.
    pub(super) fn has(self, cell: &CellRecord) -> bool {
        (&cell.transport, &cell.variant) == (self.transport, self.variant)
    }

    /// What stands over it.
    pub(super) fn title(self) -> String {
        format!("{}{}", self.transport, self.variant)
    }
}

/// The most variants of one transport that are named in a line.
const MOST_NAMED: usize = 4;

/// The columns of some cells, by transport in the order of the plan.
#[derive(Debug)]
pub(super) struct Columns<'a>(Vec<(&'a TransportName, Vec<&'a Variant>)>);

impl<'a> Columns<'a> {
    pub(super) fn of(document: &'a Document, cells: &[&'a CellRecord]) -> Self {
        let variants = |transport: &TransportName| {
            let mut seen = BTreeSet::new();
            let of = cells.iter().filter(|cell| cell.transport == *transport);
            of.map(|cell| &cell.variant).filter(|variant| seen.insert(*variant)).collect()
        };
        let transports = document.plan.transports.iter();
        let columns = transports.map(|transport| (transport, variants(transport)));
        Self(columns.filter(|(_, variants): &(_, Vec<_>)| !variants.is_empty()).collect())
    }

    pub(super) fn transports(&self) -> impl Iterator<Item = &'a TransportName> {
        self.0.iter().map(|(transport, _)| *transport)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Column<'a>> {
        self.0.iter().flat_map(|(transport, variants)| {
            variants.iter().map(|variant| Column { transport, variant })
        })
    }

    /// Each of `some` once: by its transport alone where that is there in all its variants.
    pub(super) fn named(&self, some: &[Column<'_>]) -> String {
        let mut names = Vec::new();
        for (transport, all) in &self.0 {
            let of = some.iter().filter(|column| column.transport == *transport);
            let these: BTreeSet<_> = of.map(|column| column.variant).collect();
            match these.len() {
                0 => {}
                count if count == all.len() => names.push(transport.to_string()),
                count if count > MOST_NAMED => {
                    names.push(format!("{transport} in {count} of {} variants", all.len()));
                }
                _ => {
                    let named = all.iter().filter(|variant| these.contains(**variant));
                    names.extend(named.map(|variant| format!("{transport}{variant}")));
                }
            }
        }
        names.join(", ")
    }
}
