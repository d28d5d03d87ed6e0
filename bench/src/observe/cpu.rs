//! Processor time of this process, and the time in which it was kept waiting for a processor.

use std::{collections::HashMap, fs};

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

/// How long the threads of this process were ready to run and had no processor: because others ran
/// there, or because their share of it was used up.
#[derive(Debug, Clone)]
pub struct RunDelay(Option<HashMap<u32, u64>>);

impl RunDelay {
    /// So far, of each thread that there is.
    #[must_use]
    pub fn now() -> Self {
        Self(delays())
    }

    /// Nanoseconds since then, of the threads that there are now; `None` where the kernel does not tell
    /// (it is built without `CONFIG_SCHED_INFO`).
    #[must_use]
    pub fn elapsed_ns(&self) -> Option<u64> {
        let (before, now) = (self.0.as_ref()?, delays()?);
        let since = |thread: &u32| before.get(thread).copied().unwrap_or(0);
        Some(now.iter().map(|(thread, delay)| delay.saturating_sub(since(thread))).sum())
    }
}

/// By thread, from the second figure of `schedstat`.
fn delays() -> Option<HashMap<u32, u64>> {
    let threads = fs::read_dir("/proc/self/task").ok()?.filter_map(Result::ok);
    let delay = |thread: fs::DirEntry| {
        let name = thread.file_name().to_str()?.parse().ok()?;
        let figures = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some((name, figures.split_whitespace().nth(1)?.parse().ok()?))
    };
    let delays: HashMap<_, _> = threads.filter_map(delay).collect();
    (!delays.is_empty()).then_some(delays)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads that are always ready share a processor: together they wait as long as they run.
    #[test]
    fn who_shares_a_processor_waits_for_it() {
        let delay = RunDelay::now();
        if delay.elapsed_ns().is_none() {
            return;
        }
        let one = first_processor();
        let spin = || {
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            let since = std::time::Instant::now();
            while since.elapsed() < std::time::Duration::from_millis(60) {
                std::hint::spin_loop();
            }
            delay.elapsed_ns().unwrap()
        };
        let waited = std::thread::scope(|scope| {
            let others = [scope.spawn(spin), scope.spawn(spin)];
            others.map(|other| other.join().unwrap())
        });
        assert!(waited.iter().any(|waited| *waited > 10_000_000), "{waited:?} ns");
    }

    fn first_processor() -> rustix::thread::CpuSet {
        use rustix::thread::{CpuSet, sched_getaffinity};
        let usable = sched_getaffinity(None).unwrap();
        let mut first = CpuSet::new();
        first.set((0..CpuSet::MAX_CPU).find(|&cpu| usable.is_set(cpu)).unwrap());
        first
    }

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
