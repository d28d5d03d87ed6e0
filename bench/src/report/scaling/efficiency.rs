//! Rates beside what bounds them: the link, or within a host its memory.

use super::{
    super::{CellRecord, Document, Status},
    record::{Bound, EfficiencyRecord, ShareRecord},
    series::Contest,
};
use crate::plan::Pattern;

/// What bounds the rate of a cell, and how much of that was reached. `None` where nothing is known that does, or
/// it has no rate in bytes.
pub(in crate::report) fn share(
    document: &Document,
    cell: &CellRecord,
) -> Option<(Bound, ShareRecord)> {
    if !cell.pattern.is_of_bytes() || cell.status != Status::Measured {
        return None;
    }
    let bytes_per_s = cell.throughput.as_ref()?.bytes_per_s;
    let both_ways = if cell.pattern == Pattern::Bidirectional { 2.0 } else { 1.0 };
    let (bound, of) = match cell.line_bytes_per_s {
        Some(line) => (Bound::Line, line * both_ways),
        None => {
            let copies = document.client.memory_copy.as_ref()?;
            (Bound::MemoryCopy, copies.rate_of(cell.size)? as f64)
        }
    };
    let share = bytes_per_s / of;
    (share > 0.0 && share.is_finite()).then_some((
        bound,
        ShareRecord { size: cell.size, bytes_per_s, bound_bytes_per_s: of, share },
    ))
}

/// Of each contender in a contest.
pub(super) fn efficiencies(document: &Document, contest: &Contest<'_>) -> Vec<EfficiencyRecord> {
    let of = |series: &super::series::Series<'_>| {
        let shares: Vec<_> =
            series.cells.values().filter_map(|cell| share(document, cell)).collect();
        let &(bound, _) = shares.first()?;
        Some(EfficiencyRecord {
            question: contest.question.clone(),
            of: series.of.clone(),
            bound,
            sizes: shares
                .into_iter()
                .filter(|(other, _)| *other == bound)
                .map(|(_, share)| share)
                .collect(),
        })
    };
    contest.series.iter().filter_map(of).collect()
}
