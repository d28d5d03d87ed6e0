//! Regions and peers are named by what attaching them gave: a request cannot name others.

use fabricbench_verbs::{PeerId, RegionId};

fn region() -> RegionId {
    RegionId { owner: 1, index: 0 }
}

fn peer() -> PeerId {
    PeerId { owner: 1, number: std::num::NonZeroU32::MIN }
}

fn main() {}
