//! The order in which the slices of a plan are measured.

use std::ops::Range;

use crate::plan::Plan;

/// One slice: a cell in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Index into the plan's cells.
    pub cell: usize,
    /// Which round, from 0.
    pub round: u32,
}

/// All slices of `plan`: round after round, and within a round the plan's order of patterns and
/// sizes with the transports and variants of one size in a seeded random order. What is compared
/// stands beside each other in time, so that a machine that drifts does not decide between them.
pub fn slices(plan: &Plan) -> impl Iterator<Item = Slice> + use<> {
    let mut random = SplitMix(plan.seed);
    let groups = groups(plan);
    let mut order = Vec::with_capacity(plan.cells.len() * plan.rounds as usize);
    for round in 0..plan.rounds {
        for group in &groups {
            let mut cells: Vec<usize> = group.clone().collect();
            random.shuffle(&mut cells);
            order.extend(cells.into_iter().map(|cell| Slice { cell, round }));
        }
    }
    order.into_iter()
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
    fn shuffle(&mut self, items: &mut [usize]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Axis, Pattern, Sizes, Stop, Sweep, Value};

    fn plan(rounds: u32, seed: u64) -> Plan {
        let transports: Vec<_> = ["verbs-write", "verbs-send", "grpc@ipoib", "tcp@lo"]
            .iter()
            .map(|name| name.parse().unwrap())
            .collect();
        let sizes = Sizes::parse("1,2,4").unwrap();
        Plan::new(&transports, &[Pattern::Latency], &sizes, Stop::default(), rounds, seed)
    }

    #[test]
    fn every_cell_once_a_round_and_sizes_in_order() {
        let plan = plan(3, 1);
        let slices: Vec<_> = slices(&plan).collect();
        assert_eq!(slices.len(), 36);
        for (round, slices) in slices.chunks(12).enumerate() {
            let mut cells: Vec<_> = slices.iter().map(|slice| slice.cell).collect();
            assert!(slices.iter().all(|slice| slice.round as usize == round));
            assert!(cells.windows(2).all(|pair| pair[0] / 4 <= pair[1] / 4), "sizes in order");
            cells.sort_unstable();
            assert_eq!(cells, (0..12).collect::<Vec<_>>());
        }
    }

    #[test]
    fn variants_are_interleaved_as_transports_are() {
        let mut sweep = Sweep::default();
        sweep.add(Axis::Threads, (1..=8).map(Value::Number).collect());
        let plan = plan(1, 3).swept(sweep);
        let slices: Vec<_> = slices(&plan).map(|slice| slice.cell).collect();
        assert_eq!(slices.len(), 3 * 4 * 8);
        for (size, slices) in slices.chunks(32).enumerate() {
            let mut cells = slices.to_vec();
            cells.sort_unstable();
            assert_eq!(cells, (size * 32..(size + 1) * 32).collect::<Vec<_>>(), "sizes in order");
            assert_ne!(cells, slices, "variants are shuffled");
        }
    }

    #[test]
    fn the_seed_decides_the_order() {
        let order = |seed| slices(&plan(4, seed)).map(|slice| slice.cell).collect::<Vec<_>>();
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let first_of_each_size: Vec<_> = order(1).iter().step_by(4).map(|cell| cell % 4).collect();
        assert!(
            first_of_each_size.iter().any(|cell| *cell != first_of_each_size[0]),
            "rounds differ"
        );
    }
}
