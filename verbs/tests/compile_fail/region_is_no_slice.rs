//! A device writes to a region on its own: there is no way to a reference to its bytes.

use fabricbench_verbs::MemoryRegion;

fn bytes(region: &MemoryRegion) -> &[u8] {
    &region[..]
}

fn view(region: &MemoryRegion) -> &[u8] {
    region.as_ref()
}

fn main() {}
