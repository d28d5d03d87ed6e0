//! Which calls are sampled.

/// One call in so many, by its place on the connection: in each block of `every` calls one at a
/// place that the seed decides, so that no rhythm of the calls hides behind that of the sampling.
///
/// Call 0 is never sampled: it opens the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Calls of which one is sampled; 0 is taken for 1.
    pub every: u32,
    /// Decides the places.
    pub seed: u64,
    /// Most calls kept of a connection. If there are more, every second one is left out again, as
    /// often as needed: what is kept is spread over all the calls, and never the first ones only.
    pub capacity: usize,
}

impl Sampling {
    /// The sampled call of a block.
    fn pick(&self, block: u64) -> u64 {
        let every = u64::from(self.every.max(1));
        block.saturating_mul(every).saturating_add(1 + mix(self.seed ^ block) % every)
    }

    /// The block that a call is in.
    fn block(&self, call: u64) -> u64 {
        call.saturating_sub(1) / u64::from(self.every.max(1))
    }

    /// The first sampled call after `call`, if only every `stride`-th block has one.
    pub(super) fn after(&self, call: u64, stride: u64) -> u64 {
        let block = self.block(call).next_multiple_of(stride);
        let picked = self.pick(block);
        if picked > call { picked } else { self.pick(block + stride) }
    }

    /// Whether a sampled call is kept where only every `stride`-th block has one.
    pub(super) fn keeps(&self, call: u64, stride: u64) -> bool {
        self.block(call).is_multiple_of(stride)
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(sampling: Sampling, stride: u64, below: u64) -> Vec<u64> {
        let calls = std::iter::successors(Some(sampling.after(0, stride)), |&call| {
            Some(sampling.after(call, stride))
        });
        calls.take_while(|&call| call < below).collect()
    }

    #[test]
    fn one_of_each_block_is_sampled_and_never_the_first_call() {
        for every in [1, 2, 10, 1000] {
            let sampling = Sampling { every, seed: 7, capacity: 1 };
            let calls = picked(sampling, 1, 1 + 40 * u64::from(every));
            assert_eq!(calls.len(), 40, "{every}: {calls:?}");
            for (block, call) in calls.iter().enumerate() {
                assert_eq!((call - 1) / u64::from(every), block as u64);
            }
        }
        let none = Sampling { every: 0, seed: 7, capacity: 1 };
        assert_eq!(picked(none, 1, 5), [1, 2, 3, 4]);
    }

    #[test]
    fn the_seed_decides_the_places() {
        let with = |seed| picked(Sampling { every: 100, seed, capacity: 1 }, 1, 5000);
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
        let places: Vec<_> = with(1).iter().map(|call| (call - 1) % 100).collect();
        assert!(places.iter().any(|place| *place != places[0]), "{places:?}");
    }

    #[test]
    fn a_wider_stride_keeps_some_of_a_narrower_one() {
        let sampling = Sampling { every: 10, seed: 3, capacity: 1 };
        let all = picked(sampling, 1, 4000);
        let kept: Vec<_> = all.iter().copied().filter(|&call| sampling.keeps(call, 4)).collect();
        assert_eq!(kept, picked(sampling, 4, 4000));
        assert_eq!(kept.len(), 100);
    }
}
