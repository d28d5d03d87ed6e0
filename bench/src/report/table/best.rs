//! Which figures of a row are the best.

use std::collections::{HashMap, HashSet};

use super::rows::{Size, size};
use crate::{
    plan::Pattern,
    report::{CellRecord, LatencyKind, Status, column::Column},
};

/// A figure of which more is better, and its interval.
type Merit = (f64, [f64; 2]);

/// The interval of a figure of which none is known, as of too few rounds.
const UNKNOWN: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

/// The cells of one pattern that are the best of their size: the best figure, and those whose intervals reach its
/// own. None of a size where all do, where a figure has no interval, or where figures are of several kinds.
pub(super) fn best<'a>(cells: &[&'a CellRecord]) -> HashSet<(Size<'a>, Column<'a>)> {
    let mut sizes: HashMap<Size<'a>, Vec<(Column<'a>, Merit, Option<LatencyKind>)>> =
        HashMap::new();
    for &cell in cells {
        if let Some((merit, kind)) = merit(cell) {
            sizes.entry(size(cell)).or_default().push((Column::of(cell), merit, kind));
        }
    }
    let mut best = HashSet::new();
    for (size, figures) in sizes {
        let is_mixed =
            figures.windows(2).any(|two| matches!(two, [one, other] if one.2 != other.2));
        let is_open =
            figures.iter().any(|(_, (_, ends), _)| ends.iter().any(|end| end.is_infinite()));
        let merits = figures.iter().map(|(_, merit, _)| *merit);
        let Some((_, [low, _])) = merits.max_by(|(one, _), (other, _)| one.total_cmp(other)) else {
            continue;
        };
        let reach =
            |(_, (_, [_, high]), _): &&(Column<'a>, Merit, Option<LatencyKind>)| *high >= low;
        let of: Vec<_> = figures.iter().filter(reach).collect();
        if !is_mixed && !is_open && of.len() < figures.len() {
            best.extend(of.iter().map(|(column, ..)| (size, *column)));
        }
    }
    best
}

/// How good a figure is; `None` where there is none, where a check finds that it is not to be believed, or where a
/// schedule or pauses decide it.
fn merit(cell: &CellRecord) -> Option<(Merit, Option<LatencyKind>)> {
    let is_believed = cell.status == Status::Measured && cell.failed_checks.is_empty();
    if !is_believed || cell.load.is_some() || cell.think.is_some() {
        return None;
    }
    if let (Pattern::Latency, Some(latency)) = (cell.pattern, &cell.latency) {
        let p50 = latency.p50?;
        let intervals = [latency.p50_interval_95, latency.p50_rounds_interval_95];
        let hull = intervals
            .into_iter()
            .flatten()
            .reduce(|[low, high], [from, to]| [low.min(from), high.max(to)]);
        let hull = hull.map_or(UNKNOWN, |[low, high]| [-high, -low]);
        return Some(((-p50, hull), Some(latency.kind)));
    }
    let rate = cell.throughput.as_ref()?;
    Some(((rate.bytes_per_s, rate.interval_95.unwrap_or(UNKNOWN)), None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Throughput, table::tests::cell as made};

    fn cell(transport: &str, size: u64, rate: f64, half_width: f64) -> CellRecord {
        CellRecord {
            pattern: Pattern::Bandwidth,
            throughput: Some(Throughput {
                bytes_per_s: rate,
                messages_per_s: rate,
                interval_95: Some([rate - half_width, rate + half_width]),
            }),
            ..made(transport, size)
        }
    }

    #[test]
    fn the_best_is_what_no_other_reaches() {
        let names = |cells: &[CellRecord]| {
            let cells: Vec<_> = cells.iter().collect();
            let mut names: Vec<_> =
                best(&cells).into_iter().map(|(_, column)| column.title()).collect();
            names.sort();
            names
        };
        let (fast, slow) = ("verbs-write", "tcp@loopback");
        assert_eq!(names(&[cell(fast, 8, 9.0, 1.0), cell(slow, 8, 5.0, 1.0)]), [fast]);
        let alike = [cell(fast, 8, 9.0, 3.0), cell(slow, 8, 7.0, 3.0)];
        assert!(names(&alike).is_empty(), "no difference is shown");
        assert!(names(&[cell(fast, 8, 9.0, 1.0)]).is_empty(), "of one there is no best");
        assert!(names(&[cell(fast, 8, 9.0, 1.0), cell(slow, 16, 5.0, 1.0)]).is_empty());
        let mut few = cell(slow, 8, 5.0, 1.0);
        few.throughput.as_mut().unwrap().interval_95 = None;
        let unknown = [cell(fast, 8, 9.0, 1.0), few, cell("grpc@loopback", 8, 3.0, 1.0)];
        assert!(names(&unknown).is_empty(), "without an interval");
        let mut lost = cell(fast, 8, 99.0, 1.0);
        lost.failed_checks.push("more than the link carries".to_owned());
        let believed = [lost, cell(slow, 8, 5.0, 1.0), cell("grpc@loopback", 8, 8.0, 1.0)];
        assert_eq!(names(&believed), ["grpc@loopback"], "what fails a check is not the best");
        let three =
            [cell(fast, 8, 9.0, 1.0), cell(slow, 8, 5.0, 1.0), cell("grpc@loopback", 8, 8.0, 1.0)];
        assert_eq!(names(&three), ["grpc@loopback", fast]);
    }
}
