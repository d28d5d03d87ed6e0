//! Processor time of this process.

use rustix::time::{ClockId, clock_gettime};

/// A point in this process's processor time.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime(u64);

impl CpuTime {
    /// Processor time used so far by all threads, user and system together.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(seconds * 1_000_000_000 + nanoseconds)
    }

    /// Nanoseconds of processor time since then.
    #[must_use]
    pub fn elapsed_ns(self) -> u64 {
        Self::now().0.saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_moves_it() {
        let before = CpuTime::now();
        let mut state = 1u64;
        while before.elapsed_ns() < 2_000_000 {
            state = std::hint::black_box(state.wrapping_mul(3));
        }
        assert!(before.elapsed_ns() >= 2_000_000);
    }
}
