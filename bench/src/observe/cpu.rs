//! Processor time of this process and its context switches, and the time in which it was kept waiting for
//! a processor.

use std::{collections::HashMap, fs};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike as _},
};
use rustix::time::{ClockId, clock_gettime};

use crate::report::CpuUse;

/// A point in this process's processor time.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime {
    ns: u64,
    spent: Option<CpuUse>,
}

impl CpuTime {
    /// Processor time used so far by all threads.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self { ns: seconds * 1_000_000_000 + nanoseconds, spent: spent() }
    }

    /// Nanoseconds of processor time since then, user and system together: the scheduler's own sum, which
    /// is precise.
    #[must_use]
    pub fn elapsed_ns(self) -> u64 {
        Self::now().ns.saturating_sub(self.ns)
    }

    /// Nanoseconds since then, and what they were spent on.
    #[must_use]
    pub fn elapsed(self) -> (u64, Option<CpuUse>) {
        let now = Self::now();
        let spent = now.spent.zip(self.spent).map(|(now, then)| CpuUse {
            user_ns: now.user_ns.saturating_sub(then.user_ns),
            system_ns: now.system_ns.saturating_sub(then.system_ns),
            voluntary_switches: now.voluntary_switches.saturating_sub(then.voluntary_switches),
            involuntary_switches: now
                .involuntary_switches
                .saturating_sub(then.involuntary_switches),
        });
        (now.ns.saturating_sub(self.ns), spent)
    }
}

/// So far. The kernel divides its precise sum as the ticks of user and system time are to one another
/// (`cputime_adjust`), so that there is no need to do so here.
fn spent() -> Option<CpuUse> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let ns = |time: TimeVal| u64::try_from(time.num_nanoseconds()).ok();
    let count = |count: i64| u64::try_from(count).ok();
    Some(CpuUse {
        user_ns: ns(usage.user_time())?,
        system_ns: ns(usage.system_time())?,
        voluntary_switches: count(usage.voluntary_context_switches())?,
        involuntary_switches: count(usage.involuntary_context_switches())?,
    })
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

    /// The program's own work, and calls of the kernel.
    #[test]
    fn methodology_12_user_and_system_time_are_told_apart() {
        let share = |work: fn()| {
            let before = CpuTime::now();
            while before.elapsed_ns() < 400_000_000 {
                (0..1000).for_each(|_| work());
            }
            let (all, spent) = before.elapsed();
            let spent = spent?;
            let sum = spent.user_ns + spent.system_ns;
            assert!(sum.abs_diff(all) < all / 20, "{spent:?} of {all}");
            spent.system_share()
        };
        let own = share(|| {
            // Opaque at each step, so that no compiler does it beforehand.
            let step = |state: u64, step: u64| std::hint::black_box(state.wrapping_mul(step | 3));
            (0..100).fold(1, step);
        });
        let kernel = share(|| drop(std::hint::black_box(fs::read("/proc/self/status"))));
        if let Some((own, kernel)) = own.zip(kernel) {
            assert!(own < 0.3 && kernel > 0.5, "{own} and {kernel} of the time in the kernel");
        }
    }

    /// Who sleeps gives its processor up each time, who works does not.
    #[test]
    fn methodology_12_sleeps_are_voluntary_switches() {
        let switches = |work: &dyn Fn()| {
            let before = CpuTime::now();
            work();
            before.elapsed().1.map(|spent| spent.voluntary_switches)
        };
        let slept = switches(&|| {
            (0..100).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(100)));
        });
        let worked = switches(&|| {
            let since = CpuTime::now();
            while since.elapsed_ns() < 20_000_000 {}
        });
        if let Some((slept, worked)) = slept.zip(worked) {
            assert!(slept >= 100 && worked < 20, "{slept} slept, {worked} worked");
        }
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
