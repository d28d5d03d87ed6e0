//! How fast this host copies in its memory: what bounds that which never leaves it.

use std::{
    fs,
    hint::black_box,
    time::{Duration, Instant},
};

use crate::report::{CopyRate, MemoryCopy};

/// Blocks that fit caches. The last block, behind these, is as large as the last level's cache.
const BLOCKS: [usize; 3] = [64 << 10, 1 << 20, 8 << 20];

/// The last block where the kernel tells no cache, and the most that it is.
const LAST: usize = 32 << 20;
const MOST: usize = 64 << 20;

/// How long each block is copied, and how often at the least.
const TIME: Duration = Duration::from_millis(8);
const LEAST: u32 = 3;

/// What is timed at once, so that the clock's own time does not count.
const TIMED: usize = 1 << 20;

/// Copies blocks by one thread, 8 ms each, up to the first that is not smaller than a message of `largest`
/// bytes: larger ones bound nothing, and their pages have to be made first. Of the memory that is available
/// it takes an eighth at the most, and leaves out blocks that are larger; `None` if there is no room for any.
#[must_use]
pub fn memory_copy(largest: u64) -> Option<MemoryCopy> {
    let room = super::available_memory()
        .map_or(usize::MAX, |bytes| usize::try_from(bytes / 8 / 2).unwrap_or(usize::MAX));
    let last = last_level_cache().unwrap_or(LAST).min(MOST);
    let larger = BLOCKS.into_iter().filter(|block| *block < last).chain([last]);
    let mut blocks: Vec<usize> = larger.filter(|block| *block <= room).collect();
    let enough = blocks.iter().take_while(|block| (**block as u64) < largest).count() + 1;
    blocks.truncate(enough);
    let longest = blocks.last().copied()?;
    let (source, mut target) = (written(longest, 1)?, written(longest, 2)?);
    let rate = |&block: &usize| {
        let bytes_per_s = fastest(source.get(..block)?, target.get_mut(..block)?)?;
        Some(CopyRate { block_bytes: block as u64, bytes_per_s })
    };
    Some(MemoryCopy {
        method: "memcpy by one thread, again and again between the same two blocks; bytes copied (not read and \
                 written) a second, of the fastest time"
            .to_owned(),
        blocks: blocks.iter().filter_map(rate).collect(),
    })
}

/// Written to, so that its pages are there: those nobody wrote to are one page of zeros. `None` where there is
/// no memory.
fn written(length: usize, value: u8) -> Option<Vec<u8>> {
    let mut block: Vec<u8> = Vec::new();
    block.try_reserve_exact(length).ok()?;
    block.resize(length, value);
    Some(block)
}

fn fastest(source: &[u8], target: &mut [u8]) -> Option<u64> {
    let times = (TIMED / source.len()).max(1);
    let began = Instant::now();
    let mut fastest = Duration::MAX;
    let mut round = 0;
    while round < LEAST || began.elapsed() < TIME {
        let start = Instant::now();
        for _ in 0..times {
            target.copy_from_slice(black_box(source));
            black_box(&mut *target);
        }
        fastest = fastest.min(start.elapsed());
        round += 1;
    }
    let rate = (times * source.len()) as f64 / fastest.as_secs_f64();
    (rate > 0.0 && rate.is_finite()).then_some(rate as u64)
}

/// The largest cache of processor 0, in bytes.
fn last_level_cache() -> Option<usize> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |cache: fs::DirEntry| {
        let text = fs::read_to_string(cache.path().join("size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok()?.checked_mul(1024)
    };
    caches.filter_map(|cache| size(cache.ok()?)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_ascend_and_have_rates() {
        let Some(copies) = memory_copy(u64::MAX) else { return };
        assert!(
            !copies.blocks.is_empty() && copies.blocks.iter().all(|block| block.bytes_per_s > 0)
        );
        let sizes: Vec<_> = copies.blocks.iter().map(|block| block.block_bytes).collect();
        assert!(
            sizes.is_sorted() && sizes.last().is_some_and(|last| *last <= MOST as u64),
            "{sizes:?}"
        );
    }

    #[test]
    fn no_block_is_larger_than_messages_need() {
        let blocks = |largest| {
            let copies = memory_copy(largest)?;
            Some(copies.blocks.iter().map(|block| block.block_bytes).collect::<Vec<_>>())
        };
        for (largest, expected) in [
            (1, vec![64 << 10]),
            (64 << 10, vec![64 << 10]),
            ((64 << 10) + 1, vec![64 << 10, 1 << 20]),
            (1 << 20, vec![64 << 10, 1 << 20]),
        ] {
            // Where there is no room for blocks, there are none.
            let Some(blocks) = blocks(largest) else { return };
            assert_eq!(blocks, expected, "{largest}");
        }
    }
}
