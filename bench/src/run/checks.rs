//! Checks of figures against what must hold of them, whatever was measured. Each is a function of figures alone.

use crate::{
    plan::{Pattern, Stop},
    report::{CellRecord, Path, PathKind, Status},
    session::{Host, Slice},
};

/// What a ping-pong's samples may miss or have too much of its time: they follow one another without a gap.
const PING_PONG: f64 = 0.01;

/// What calls in flight may be more than the depth by: nothing but rounding.
const ABOVE: f64 = 0.01;

/// What calls in flight may be fewer than the depth by. A slot is empty from when its reply is seen until the next
/// request is submitted; where replies come in bursts, that is while those of the others are. Up to 0.17 was seen.
const BELOW: f64 = 0.4;

/// What a rate may exceed that of its line by: clocks, and the rounding of a stated speed.
const OVER_LINE: f64 = 0.01;

/// What a closed loop came to, over all its rounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClosedLoop {
    /// Operations under way at the most, of all threads and connections.
    pub(super) depth: f64,
    /// Operations a second.
    pub(super) rate: f64,
    /// Mean and longest time of one, in seconds.
    pub(super) mean: f64,
    pub(super) longest: f64,
    /// Timed seconds.
    pub(super) elapsed: f64,
    pub(super) rounds: f64,
    /// Whether they follow one another without a gap.
    pub(super) is_ping_pong: bool,
}

/// Little's law (1961): what is under way in the mean is the rate times the mean time of each, and in a closed loop
/// that is its depth. Less are under way only while a round ends, for no longer than its longest operation, and
/// between a reply and the next request. A pause between the two (`--think`) counts as a part of the operation.
///
/// Returns what was under way in the mean where that cannot be.
pub(super) fn against_littles_law(of: ClosedLoop) -> Option<f64> {
    let ClosedLoop { depth, rate, mean, longest, elapsed, rounds, is_ping_pong } = of;
    let under_way = rate * mean;
    let (below, above) = if is_ping_pong { (PING_PONG, PING_PONG) } else { (BELOW, ABOVE) };
    let ending = if is_ping_pong { 0.0 } else { rounds * longest / elapsed };
    let possible = depth * (1.0 - below - ending)..=depth * (1.0 + above);
    (!possible.contains(&under_way)).then_some(under_way)
}

/// Whether a rate is more than its line carries, both in bytes a second.
pub(super) fn is_over_line(bytes_per_s: f64, line_bytes_per_s: f64) -> bool {
    bytes_per_s > line_bytes_per_s * (1.0 + OVER_LINE)
}

/// A line for each check that failed in a cell of which `depth` operations were under way in a closed loop.
pub(super) fn failed(cell: &CellRecord, depth: Option<u64>, line: Option<f64>) -> Vec<String> {
    if cell.status != Status::Measured {
        return Vec::new();
    }
    let law = depth.and_then(|depth| {
        let closed = closed_loop(cell, depth)?;
        let under_way = against_littles_law(closed)?;
        Some(format!(
            "Little's law: {:.0} a second of {:.3} us in the mean are {under_way:.2} under way, where the depth is \
             {depth}",
            closed.rate,
            closed.mean * 1e6
        ))
    });
    let over = line.and_then(|line| {
        let rate = cell.throughput.as_ref()?.bytes_per_s;
        // The sum of both directions, of which a line carries each.
        let line = if cell.pattern == Pattern::Bidirectional { 2.0 * line } else { line };
        is_over_line(rate, line).then(|| {
            format!(
                "line rate: {:.1} MB/s of payload are more than the {:.1} MB/s that the hardware states",
                rate / 1e6,
                line / 1e6
            )
        })
    });
    law.into_iter().chain(over).collect()
}

fn closed_loop(cell: &CellRecord, depth: u64) -> Option<ClosedLoop> {
    let latency = cell.latency.as_ref()?;
    let operations = cell.rounds.iter().map(|round| round.messages).fold(0, u64::saturating_add);
    let elapsed = cell.rounds.iter().map(|round| round.elapsed_ns as f64 / 1e9).sum::<f64>();
    // What was lost has no time of its own.
    let is_whole = latency.samples == operations && cell.loss.is_none_or(|loss| loss.lost == 0);
    if !is_whole || elapsed <= 0.0 {
        return None;
    }
    let whole = |time: f64| time / latency.kind.share() / 1e9;
    // A place that thinks is as good as one that waits for its reply.
    let (paused, longest_pause) =
        cell.think.as_ref().map_or((0.0, 0.0), |think| (think.mean / 1e9, think.longest / 1e9));
    Some(ClosedLoop {
        depth: depth as f64,
        rate: operations as f64 / elapsed,
        mean: whole(latency.mean) + paused,
        longest: whole(latency.max) + longest_pause,
        elapsed,
        rounds: cell.rounds.len() as f64,
        is_ping_pong: cell.pattern == Pattern::Latency && depth == 1,
    })
}

/// What the slower of both sides' hardware carries, in bytes a second; `None` where that states nothing, or the
/// bytes never leave the host.
pub(super) fn line(cell: &CellRecord, here: &Host, there: &Host) -> Option<f64> {
    if here.shares_kernel_with(there) {
        return None;
    }
    let speed = |host: &Host, path: Option<&Path>| {
        // The speed of an interface under RDMA is that of its port.
        let path = path.filter(|path| !path.emulated && path.kind != PathKind::Loopback)?;
        let name = path.interface.as_ref()?;
        let interface = host.interfaces.iter().find(|interface| interface.name == *name)?;
        interface.speed_mbps.map(|megabits| f64::from(megabits) * 1e6 / 8.0)
    };
    let near = speed(here, cell.path.as_ref())?;
    Some(near.min(speed(there, cell.peer_path.as_ref())?))
}

/// Operations under way at the most in a slice, of all its threads and connections, where it is a closed loop of
/// which each operation is timed.
pub(super) fn under_way(slice: &Slice) -> Option<u64> {
    let by_messages = matches!(slice.task.stop, Stop::Messages(_));
    // Threads that have had their share of the messages end one by one, however long that takes.
    if slice.offered.is_some() || (by_messages && slice.threads > 1) {
        return None;
    }
    let (depth, threads) = (u64::from(slice.depth), u64::from(slice.threads.max(1)));
    match slice.cell.pattern {
        Pattern::Calls => Some(depth * u64::from(slice.connections.max(1)) * threads),
        Pattern::Ps => Some(depth * threads),
        Pattern::Latency | Pattern::TensorPush | Pattern::TensorFetch => Some(threads),
        Pattern::Bandwidth | Pattern::Bidirectional | Pattern::Fetch | Pattern::Rate => None,
    }
}

/// A warning if checks failed.
pub(super) fn failures(cells: &[CellRecord]) -> Option<String> {
    let failed: Vec<_> = cells.iter().filter(|cell| !cell.failed_checks.is_empty()).collect();
    let first = failed.first()?;
    Some(format!(
        "{} of {} cells fail a check (`failed_checks` in the document), so that their figures are not to be believed; \
         {} {} {}: {}",
        failed.len(),
        cells.len(),
        first.label(),
        first.pattern,
        first.size_label(),
        first.failed_checks.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::Cell,
        report::{CellSettings, LatencyKind, RoundRecord, Throughput},
        run::{figures::latency, tally::unmeasured},
        stats::Histogram,
    };

    /// 10,000 calls a second of 1.5 ms each are 15 under way.
    const CALLS: ClosedLoop = ClosedLoop {
        depth: 16.0,
        rate: 10_000.0,
        mean: 1.5e-3,
        longest: 5e-3,
        elapsed: 1.0,
        rounds: 3.0,
        is_ping_pong: false,
    };

    #[test]
    fn methodology_8_littles_law_holds_or_is_told() {
        assert_eq!(against_littles_law(CALLS), None);
        let under_way = |of| against_littles_law(of).unwrap();
        assert!((under_way(ClosedLoop { depth: 8.0, ..CALLS }) - 15.0).abs() < 1e-9, "too many");
        assert!((under_way(ClosedLoop { depth: 32.0, ..CALLS }) - 15.0).abs() < 1e-9, "too few");
        // A call that hung while the round ended.
        assert_eq!(against_littles_law(ClosedLoop { depth: 32.0, longest: 0.1, ..CALLS }), None);
    }

    #[test]
    fn methodology_8_a_ping_pong_leaves_no_gap() {
        let ping_pong =
            ClosedLoop { depth: 1.0, rate: 1e5, mean: 1e-5, is_ping_pong: true, ..CALLS };
        assert_eq!(against_littles_law(ping_pong), None);
        for mean in [0.98e-5, 1.02e-5, 0.5e-5] {
            assert!(against_littles_law(ClosedLoop { mean, ..ping_pong }).is_some(), "{mean}");
        }
    }

    #[test]
    fn methodology_8_goodput_is_below_the_line_rate_or_told() {
        let line = 100e6 / 8.0;
        assert!(!is_over_line(0.94 * line, line) && !is_over_line(1.005 * line, line));
        assert!(is_over_line(1.02 * line, line));
        let mut cell = pushed(Pattern::Bandwidth, 1.5 * line);
        let told = failed(&cell, None, Some(line));
        assert!(told[0].starts_with("line rate: 18.8 MB/s") && told.len() == 1, "{told:?}");
        assert_eq!(failed(&cell, None, None), Vec::<String>::new());
        assert_eq!(failed(&pushed(Pattern::Bidirectional, 1.5 * line), None, Some(line)).len(), 0);
        assert_eq!(failures(std::slice::from_ref(&cell)), None);
        cell.failed_checks = told;
        let warning = failures(&[cell.clone(), cell]).unwrap();
        assert!(warning.starts_with("2 of 2 cells fail a check"), "{warning}");
    }

    /// A document may come from anywhere.
    #[test]
    fn rounds_as_large_as_a_number_can_be_add_up() {
        let mut cell = pushed(Pattern::Calls, 1e6);
        for round in &mut cell.rounds {
            (round.messages, round.elapsed_ns) = (u64::MAX, u64::MAX);
        }
        let mut times = Histogram::new();
        times.record(1000);
        cell.latency = latency(&times, LatencyKind::RoundTrip, &[]);
        cell.settings = Some(CellSettings {
            depth: Some(1),
            warm_up_messages: u64::MAX,
            messages: u64::MAX,
            waits: None,
            transport: std::collections::BTreeMap::new(),
        });
        assert_eq!(failed(&cell, Some(1), None), Vec::<String>::new());
        assert!(cell.a_second(1).is_some_and(f64::is_finite));
    }

    fn pushed(pattern: Pattern, bytes_per_s: f64) -> CellRecord {
        let cell = Cell::new("tcp@eth0".parse().unwrap(), pattern, 1000);
        let round = |round| RoundRecord { round, messages: 1, elapsed_ns: 1, p50: None };
        let throughput =
            Throughput { bytes_per_s, messages_per_s: bytes_per_s / 1e3, interval_95: None };
        CellRecord {
            status: Status::Measured,
            throughput: Some(throughput),
            rounds: (0..3).map(round).collect(),
            ..unmeasured(&cell, "not yet")
        }
    }
}
