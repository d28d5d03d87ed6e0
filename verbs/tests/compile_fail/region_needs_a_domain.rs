//! A region is of a domain, which registers it: it cannot be made, nor copied, without.

use fabricbench_verbs::MemoryRegion;

fn made() -> MemoryRegion {
    MemoryRegion::default()
}

fn copied(region: &MemoryRegion) -> MemoryRegion {
    region.clone()
}

fn main() {}
