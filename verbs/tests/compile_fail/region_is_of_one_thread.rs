//! Two threads copying to and from a region would race: it can move to another, not be shared.

use fabricbench_verbs::MemoryRegion;

fn shared(region: &MemoryRegion) {
    std::thread::scope(|scope| {
        scope.spawn(|| region.fill(0, 8, 1));
    });
}

fn main() {}
