//! What slices cost besides the time that they are given: learned as a run goes.

use std::{collections::HashMap, time::Duration};

use crate::plan::{Axis, Cell, Pattern, Stop, Think, TransportName, Value};

/// Seconds of connecting, warm-up and ending that a slice is taken to cost while nothing is known of its like:
/// over loopback, in a debug build on a busy machine, TCP's were 0.03 s and gRPC's 0.055 s in the mean.
const USUAL_OVERHEAD: f64 = 0.05;

/// How much the latest slice says of the next of its kind, the ones before it saying the rest.
const WEIGHT: f64 = 0.3;

/// What is known of each cell of a plan, in seconds.
#[derive(Debug)]
pub(super) struct Costs {
    cells: Vec<CellCosts>,
    kinds: Vec<KindCosts>,
}

#[derive(Debug, Clone, Copy)]
struct CellCosts {
    kind: usize,
    size: u64,
    overhead: Option<f64>,
    // Of one operation, in the mean.
    operation: Option<f64>,
    // Of one operation at the least, by what was asked for.
    planned: f64,
}

/// Seconds of an operation of `cell` at the least, by its rate or its pauses: of calls with pauses many are under
/// way, and nothing is known.
fn planned(cell: &Cell) -> f64 {
    if let Some(Value::Number(rate)) = cell.variant.get(Axis::Rate) {
        return 1.0 / (*rate).max(1) as f64;
    }
    match cell.variant.get(Axis::Think) {
        Some(Value::Word(think)) if cell.pattern == Pattern::Latency => {
            think.parse().map_or(0.0, |think: Think| think.mean.as_secs_f64())
        }
        _ => 0.0,
    }
}

/// Of all cells of one transport and pattern.
#[derive(Debug, Clone, Copy, Default)]
struct KindCosts {
    overhead: Option<f64>,
    // Bytes a second of the fastest.
    fastest: f64,
}

/// What a slice came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    /// All of it.
    pub(super) took: Duration,
    /// Of its timed part.
    pub(super) timed: Duration,
    /// Operations in its timed part.
    pub(super) operations: u64,
}

impl Costs {
    pub(super) fn new<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let mut known: HashMap<(&TransportName, Pattern), usize> = HashMap::new();
        let cells = cells.map(|cell| {
            let next = known.len();
            let kind = *known.entry((&cell.transport, cell.pattern)).or_insert(next);
            CellCosts {
                kind,
                size: cell.size,
                overhead: None,
                operation: None,
                planned: planned(cell),
            }
        });
        let cells = cells.collect();
        Self { cells, kinds: vec![KindCosts::default(); known.len()] }
    }

    /// Takes in what a slice of `cell` came to that was planned to end by `stop`.
    pub(super) fn learn(&mut self, cell: usize, stop: Stop, spent: Spent) {
        let Some(cell) = self.cells.get_mut(cell) else { return };
        let (took, timed) = (spent.took.as_secs_f64(), spent.timed.as_secs_f64());
        // The last operation begins within the time and ends after it: that is overhead too.
        let planned = match stop {
            Stop::After(time) if spent.operations > 0 => {
                let operation = timed / spent.operations as f64;
                if timed <= time.as_secs_f64() + 2.0 * operation {
                    time.as_secs_f64()
                } else {
                    timed
                }
            }
            _ => timed,
        };
        let overhead = (took - planned).max(0.0);
        let learned = |before: Option<f64>| {
            Some(before.map_or(overhead, |before| before + WEIGHT * (overhead - before)))
        };
        cell.overhead = learned(cell.overhead);
        if spent.operations > 0 {
            let operation = timed / spent.operations as f64;
            cell.operation = Some(operation);
            if let Some(kind) = self.kinds.get_mut(cell.kind) {
                kind.overhead = learned(kind.overhead);
                kind.fastest = kind.fastest.max(cell.size as f64 / operation.max(1e-12));
            }
        }
    }

    /// Seconds of a slice of `cell` besides its timed part.
    pub(super) fn overhead(&self, cell: usize) -> f64 {
        let Some(cell) = self.cells.get(cell) else { return 0.0 };
        let of_kind = || self.kinds.get(cell.kind).and_then(|kind| kind.overhead);
        cell.overhead.or_else(of_kind).unwrap_or(USUAL_OVERHEAD)
    }

    /// Seconds that so many operations of `cell` take; of a cell that was not measured yet, no less than the
    /// bytes take at the highest rate of its kind, or than was asked for.
    pub(super) fn operations(&self, cell: usize, count: u64) -> f64 {
        let Some(of) = self.cells.get(cell) else { return 0.0 };
        count as f64 * self.operation(of).unwrap_or(0.0).max(of.planned)
    }

    /// Whether anything is known of how long an operation of `cell` takes.
    pub(super) fn is_known(&self, cell: usize) -> bool {
        self.is_planned(cell) || self.cells.get(cell).is_some_and(|of| self.operation(of).is_some())
    }

    /// Whether a rate or pauses say how long an operation of `cell` takes at the least.
    pub(super) fn is_planned(&self, cell: usize) -> bool {
        self.cells.get(cell).is_some_and(|of| of.planned > 0.0)
    }

    fn operation(&self, of: &CellCosts) -> Option<f64> {
        let by_rate = || {
            let kind = self.kinds.get(of.kind)?;
            (kind.fastest > 0.0).then(|| of.size as f64 / kind.fastest)
        };
        of.operation.or_else(by_rate)
    }
}
