//! Memory of this process.

use std::fs;

/// The most memory of this process that was resident at once since a point.
#[derive(Debug, Clone, Copy)]
pub struct PeakMemory(bool);

impl PeakMemory {
    /// From now on. What is resident now counts.
    #[must_use]
    pub fn begin() -> Self {
        // Sets the peak to what is resident (proc_pid_clear_refs(5)).
        Self(fs::write("/proc/self/clear_refs", "5").is_ok())
    }

    /// Bytes; `None` where the kernel does not let the peak begin anew (it is built without
    /// `CONFIG_PROC_PAGE_MONITOR`): it would be that of something before.
    #[must_use]
    pub fn bytes(self) -> Option<u64> {
        if !self.0 {
            return None;
        }
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        peak.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    }
}

/// Bytes that programs could have without swapping (`MemAvailable`); `None` where the kernel does not say.
#[must_use]
pub fn available_memory() -> Option<u64> {
    of_host("MemAvailable:")
}

/// Bytes that this host has in all (`MemTotal`); `None` where the kernel does not say.
#[must_use]
pub fn total_memory() -> Option<u64> {
    of_host("MemTotal:")
}

fn of_host(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_counts_until_the_next_beginning() {
        const BYTES: usize = 64 << 20;
        let before = PeakMemory::begin();
        let Some(least) = before.bytes() else { return };
        drop(std::hint::black_box(vec![1u8; BYTES]));
        let most = before.bytes().unwrap();
        assert!(most >= least + BYTES as u64 / 2, "{most} after {least}");
        let anew = PeakMemory::begin().bytes().unwrap();
        assert!(anew <= most - BYTES as u64 / 2, "{anew} after {most}");
    }
}
