//! The limit on locked memory, which decides whether a region can be registered.

use std::fs;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::error::{Error, Result};

/// How much memory this process may still pin.
///
/// The kernel holds registered memory against `RLIMIT_MEMLOCK`, for the whole process, unless
/// the process has `CAP_IPC_LOCK`. Look before a peer waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockedMemory {
    /// The soft limit in bytes; `None` is unlimited.
    pub limit: Option<u64>,
    /// Bytes pinned already (`VmPin` of `/proc/self/status`).
    pub pinned: u64,
    /// Whether the process has `CAP_IPC_LOCK`. In a user namespace it may seem so without the
    /// kernel honouring it; registering then fails with the same error.
    pub exempt: bool,
}

impl LockedMemory {
    /// The state of this process now.
    #[must_use]
    pub fn now() -> Self {
        Self {
            limit: getrlimit(Resource::Memlock).current,
            pinned: fs::read_to_string("/proc/self/status").map_or(0, |text| pinned(&text)),
            exempt: capabilities(None)
                .is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK)),
        }
    }

    /// Whether `need` more bytes, in whole pages, can be pinned for `object`.
    ///
    /// # Errors
    ///
    /// [`Error::LockedMemory`].
    pub fn permit(&self, need: u64, object: &str) -> Result<()> {
        match self.limit {
            Some(limit) if !self.exempt && self.pinned.saturating_add(need) > limit => {
                Err(self.refused(need, object))
            }
            _ => Ok(()),
        }
    }

    /// The error for a registration the kernel refused.
    pub(crate) fn refused(&self, need: u64, object: &str) -> Error {
        Error::LockedMemory {
            object: object.to_owned(),
            need,
            limit: self.limit.unwrap_or(u64::MAX),
            pinned: self.pinned,
        }
    }
}

/// The `VmPin` line of a `/proc/PID/status` text, in bytes.
fn pinned(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmPin:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITED: LockedMemory = LockedMemory { limit: Some(65_536), pinned: 8192, exempt: false };

    #[test]
    fn the_limit_counts_what_is_pinned_already() {
        assert!(LIMITED.permit(65_536 - 8192, "rxe0").is_ok());
        let text = LIMITED.permit(65_536, "rxe0").unwrap_err().to_string();
        for part in ["65536 bytes of memory with rxe0", "RLIMIT_MEMLOCK is 65536", "8192 of them"] {
            assert!(text.contains(part), "{part:?} not in {text}");
        }
        assert!(text.contains("ulimit -l unlimited"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn privilege_and_no_limit_permit_all() {
        assert!(LockedMemory { exempt: true, ..LIMITED }.permit(1 << 40, "rxe0").is_ok());
        assert!(LockedMemory { limit: None, ..LIMITED }.permit(1 << 40, "rxe0").is_ok());
        assert!(LIMITED.permit(u64::MAX, "rxe0").is_err());
    }

    #[test]
    fn pinned_memory_is_read_from_status() {
        assert_eq!(pinned("VmLck:\t       4 kB\nVmPin:\t      12 kB\n"), 12 * 1024);
        assert_eq!(pinned("Name:\tx\n"), 0);
    }

    #[test]
    fn this_process_has_a_state() {
        let now = LockedMemory::now();
        assert_eq!(now.limit, getrlimit(Resource::Memlock).current);
    }
}
