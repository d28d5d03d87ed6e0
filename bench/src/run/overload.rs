//! Loads that were more than could be borne.

use crate::report::{CellRecord, LoadRecord};

/// A warning for each open loop that fell behind its schedule: its times grow with the run.
pub(super) fn overloads(cells: &[CellRecord]) -> Vec<String> {
    let overload = |cell: &CellRecord| {
        let load = cell.load.as_ref().filter(|load| !load.sustained)?;
        let LoadRecord { offered_per_s, achieved_per_s, held_back, given_up, bound, .. } = load;
        let achieved = achieved_per_s
            .map_or_else(|| "an unknown number".to_owned(), |achieved| format!("{achieved:.0}"));
        let (label, size) = (cell.label(), cell.size_label());
        Some(format!(
            "{label} {} {size}: not sustained: of {offered_per_s:.0} calls a second {achieved} were \
             answered, {held_back} began late behind {bound} under way and {given_up} never; times say how \
             far it fell behind and not how long a call takes",
            cell.pattern
        ))
    };
    cells.iter().filter_map(overload).collect()
}
