//! Loads that were more than could be borne.

use crate::report::{CellRecord, Document, LoadRecord};

/// A warning for each open loop that fell behind its schedule: its times grow with the run. Where rates were
/// searched for, some had to.
pub(super) fn overloads(document: &Document) -> Vec<String> {
    let is_searched = |cell: &CellRecord| document.knees.iter().any(|knee| knee.has(cell));
    let cells = document.cells.iter().filter(|cell| !is_searched(cell));
    cells.filter_map(overload).collect()
}

fn overload(cell: &CellRecord) -> Option<String> {
    let load = cell.load.as_ref().filter(|load| !load.sustained)?;
    let LoadRecord { offered_per_s, achieved_per_s, held_back, given_up, bound, .. } = load;
    let achieved = achieved_per_s
        .map_or_else(|| "an unknown number".to_owned(), |achieved| format!("{achieved:.0}"));
    let name = format!("{} {} {}", cell.label(), cell.pattern, cell.size_label());
    Some(if *held_back == 0 && *given_up == 0 {
        format!(
            "{name}: not sustained in every round: of {offered_per_s:.0} calls a second {achieved} were \
                 answered, and what was under way when the last one had begun took more than 5 % of its round \
                 to end: it had piled up, or something stood still just then, which a longer -D tells apart"
        )
    } else {
        format!(
            "{name}: not sustained: of {offered_per_s:.0} calls a second {achieved} were answered, \
                 {held_back} began late behind {bound} under way and {given_up} never; times say how far it \
                 fell behind and not how long a call takes"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Arrivals, Cell, Pattern},
        run::tally::unmeasured,
    };

    #[test]
    fn falling_behind_is_told_from_a_late_end() {
        let load = |held_back, given_up, sustained| LoadRecord {
            arrivals: Arrivals::Constant,
            offered_per_s: 200.0,
            achieved_per_s: Some(197.0),
            bound: 128,
            most_in_flight: 3,
            held_back,
            given_up,
            sustained,
            rounds_not_sustained: u64::from(!sustained),
        };
        let warnings = |load| {
            let cell = Cell::new("tcp@loopback".parse().unwrap(), Pattern::Calls, 64);
            let mut record = unmeasured(&cell, "not yet");
            record.load = Some(load);
            overload(&record)
        };
        assert_eq!(warnings(load(0, 0, true)), None);
        assert!(warnings(load(0, 0, false)).unwrap().contains("a longer -D tells apart"));
        assert!(warnings(load(7, 0, false)).unwrap().contains("7 began late behind 128 under way"));
        assert!(warnings(load(0, 2, false)).unwrap().contains("and 2 never; times say how far"));
    }
}
