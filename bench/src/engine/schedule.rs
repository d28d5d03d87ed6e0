//! The order in which the slices of a plan are measured.

use std::ops::Range;

use crate::plan::Plan;

/// The order of a plan's cells, anew for each round.
///
/// Patterns and sizes follow one another in a seeded random order, so that a machine that drifts within a
/// round does not always do so to the same ones. The transports and variants of one pattern and size, which
/// are compared with one another, stay beside each other in time, in a seeded random order too.
#[derive(Debug, Clone)]
pub struct Order {
    groups: Vec<Range<usize>>,
    random: SplitMix,
}

impl Order {
    /// The order that the seed of `plan` decides.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self { groups: groups(plan), random: SplitMix(plan.seed) }
    }

    /// The cells of the next round, each once, by their index in the plan.
    pub fn next_round(&mut self) -> Vec<usize> {
        self.random.shuffle(&mut self.groups);
        let mut order = Vec::new();
        for group in &self.groups {
            let mut cells: Vec<usize> = group.clone().collect();
            self.random.shuffle(&mut cells);
            order.append(&mut cells);
        }
        order
    }
}

/// Runs of cells that differ in their transport and variant only.
fn groups(plan: &Plan) -> Vec<Range<usize>> {
    let key = |index: usize| plan.cells.get(index).map(|cell| (cell.pattern, cell.size));
    let mut groups = Vec::new();
    let mut start = 0;
    for index in 1..=plan.cells.len() {
        if key(index) != key(start) {
            groups.push(start..index);
            start = index;
        }
    }
    groups
}

/// SplitMix64 (Steele, Lea, Flood 2014): a few lines, and the same order on every platform and
/// with every version of every crate, so that a seed in a result stays good.
#[derive(Debug, Clone)]
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// At least 0 and less than 1, in steps of 2^-53.
    pub(super) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fisher-Yates; the bias of the remainder is below 2^-50 for any real number of transports.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Axis, Pattern, Sizes, Stop, Sweep, Value};

    fn plan(sizes: &str, seed: u64) -> Plan {
        let transports: Vec<_> = ["verbs-write", "verbs-send", "grpc@ipoib", "tcp@lo"]
            .iter()
            .map(|name| name.parse().unwrap())
            .collect();
        let sizes = Sizes::parse(sizes).unwrap();
        Plan::new(&transports, &[Pattern::Latency], &sizes, Stop::default(), 3, seed)
    }

    /// The sizes of a round's cells, each once, if those of one size stand side by side.
    fn sizes_in_turn(round: &[usize], each: usize) -> Vec<usize> {
        let mut turns: Vec<usize> = round.iter().map(|cell| cell / each).collect();
        turns.dedup();
        turns
    }

    #[test]
    fn every_cell_once_a_round_and_what_is_compared_side_by_side() {
        let mut order = Order::new(&plan("1,2,4", 1));
        for _ in 0..20 {
            let round = order.next_round();
            assert_eq!(sizes_in_turn(&round, 4).len(), 3, "{round:?}");
            let mut cells = round;
            cells.sort_unstable();
            assert_eq!(cells, (0..12).collect::<Vec<_>>());
        }
    }

    #[test]
    fn methodology_7_no_size_has_a_place_of_its_own_in_a_round() {
        let mut order = Order::new(&plan("1,2,4", 1));
        let mut last = [0; 3];
        for _ in 0..300 {
            let turns = sizes_in_turn(&order.next_round(), 4);
            last[turns[2]] += 1;
        }
        // A hundred each, and eight are a standard deviation.
        assert!(last.iter().all(|count| (65..=135).contains(count)), "{last:?}");
    }

    #[test]
    fn variants_are_interleaved_as_transports_are() {
        let mut sweep = Sweep::default();
        sweep.add(Axis::Threads, (1..=8).map(Value::Number).collect());
        let round = Order::new(&plan("1,2,4", 3).swept(sweep)).next_round();
        assert_eq!(round.len(), 3 * 4 * 8);
        for slices in round.chunks(32) {
            let mut cells = slices.to_vec();
            cells.sort_unstable();
            let first = cells[0];
            assert_eq!(cells, (first..first + 32).collect::<Vec<_>>(), "sizes stay together");
            assert_ne!(cells, slices, "variants are shuffled");
        }
    }

    #[test]
    fn the_seed_decides_the_order() {
        let order = |seed| {
            let mut order = Order::new(&plan("1,2,4", seed));
            (0..4).map(|_| order.next_round()).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert!(order(1).iter().any(|round| *round != order(1)[0]), "rounds differ");
    }
}
