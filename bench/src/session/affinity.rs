//! Which processor a side runs on.
//!
//! On two hosts the scheduler decides, as for every other program. Where both sides share a kernel
//! it decides badly: it tends to wake the answering side on the processor of the side that asked,
//! and two polling threads on one processor take turns of a scheduler tick, milliseconds, instead
//! of microseconds. So there each side gets a processor of its own.

use std::fmt;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::Host;

/// How the two sides are bound to processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Affinity {
    /// The client's processor; `None`: any.
    pub client: Option<u32>,
    /// The server's processor; `None`: any.
    pub server: Option<u32>,
}

impl Affinity {
    /// The rule for when nobody says otherwise: if both sides share a kernel, the first processor
    /// this process may use and the next one, on another core if there is one; else none. Those
    /// of `near`, the processors of the device's NUMA node, come first.
    ///
    /// # Errors
    /// Why neither is bound though they share a kernel, or may; in words.
    pub fn automatic(here: &Host, there: &Host, near: &[u32]) -> Result<Self, String> {
        if let (None, _) | (_, None) = (&here.boot, &there.boot) {
            return Err("whether both sides share a kernel is not known, since \
                        /proc/sys/kernel/random/boot_id is not to be read"
                .to_owned());
        }
        if !here.shares_kernel_with(there) {
            return Ok(Self::default());
        }
        let set = sched_getaffinity(None)
            .map_err(|error| format!("which processors may be used is not told: {error}"))?;
        // Not the other half of the client's core: two polling threads on one core slow each other.
        let chosen = Self::of_two(nearest_first(members(set).collect(), near), siblings);
        match chosen.client {
            Some(_) => Ok(chosen),
            None => Err("both sides have one processor between them".to_owned()),
        }
    }

    /// The first of `usable`, and the next on another core.
    fn of_two(usable: Vec<u32>, siblings: impl Fn(u32) -> Vec<u32>) -> Self {
        let mut others = usable.into_iter();
        let client = others.next();
        let siblings = client.map_or_else(Vec::new, siblings);
        let others: Vec<u32> = others.collect();
        let elsewhere = others.iter().find(|cpu| !siblings.contains(cpu));
        match (client, elsewhere.or(others.first()).copied()) {
            (Some(client), Some(server)) => Self { client: Some(client), server: Some(server) },
            _ => Self::default(),
        }
    }
}

fn nearest_first(mut usable: Vec<u32>, near: &[u32]) -> Vec<u32> {
    // A stable sort: within the node and without, the order stays.
    usable.sort_by_key(|cpu| !near.contains(cpu));
    usable
}

/// Keeps the calling thread on some processors; when dropped, lets it where it was before.
#[derive(Debug)]
pub struct Kept {
    before: CpuSet,
    processors: Vec<u32>,
}

impl Kept {
    /// On those of `near` that the calling thread may use; `None` if there are none, or it is on no
    /// others anyway.
    #[must_use]
    pub fn on(near: &[u32]) -> Option<Self> {
        let processors: Vec<u32> = usable().filter(|cpu| near.contains(cpu)).collect();
        if processors.is_empty() || usable().all(|cpu| near.contains(&cpu)) {
            return None;
        }
        let before = sched_getaffinity(None).ok()?;
        let mut set = CpuSet::new();
        for &cpu in &processors {
            set.set(cpu as usize);
        }
        sched_setaffinity(None, &set).ok()?;
        Some(Self { before, processors })
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processors: Vec<_> = self.processors.iter().map(u32::to_string).collect();
        write!(f, "{} (the NUMA node of the memory)", processors.join(","))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// The processors this thread may run on.
fn usable() -> impl Iterator<Item = u32> {
    members(sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new()))
}

fn members(set: CpuSet) -> impl Iterator<Item = u32> {
    (0..CpuSet::MAX_CPU)
        .filter(move |&cpu| set.is_set(cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
}

/// Refuses a processor that the calling thread may not run on.
///
/// # Errors
/// There is no such processor, or this process may not use it; in words.
pub(super) fn admit(cpu: u32) -> Result<(), String> {
    if usable().any(|usable| usable == cpu) {
        return Ok(());
    }
    let usable: Vec<_> = usable().map(|cpu| cpu.to_string()).collect();
    Err(format!("cannot run on processor {cpu}; usable are {}", usable.join(", ")))
}

/// The processors that share a core with `cpu`; none if the kernel does not say.
fn siblings(cpu: u32) -> Vec<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    std::fs::read_to_string(path).map_or_else(|_| Vec::new(), |list| parse_list(&list))
}

/// The kernel's lists: `0,32` or `0-1`.
fn parse_list(list: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Binds the calling thread to `cpu`.
///
/// # Errors
/// There is no such processor, or this process may not use it; in words.
pub fn bind_thread(cpu: u32) -> Result<(), String> {
    admit(cpu)?;
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(|error| format!("cannot run on processor {cpu}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(parse_list("0,32\n"), [0, 32]);
        assert_eq!(parse_list("0-1\n"), [0, 1]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn the_devices_processors_come_first_and_two_of_them_are_on_two_cores() {
        let all: Vec<u32> = (0..8).collect();
        let near = [4, 5, 6, 7];
        assert_eq!(nearest_first(all.clone(), &near), [4, 5, 6, 7, 0, 1, 2, 3]);
        assert_eq!(nearest_first(all.clone(), &[]), all);
        let pairs = |cpu: u32| vec![cpu & !1, cpu | 1];
        let chosen = |near: &[u32]| Affinity::of_two(nearest_first(all.clone(), near), pairs);
        assert_eq!(chosen(&near), Affinity { client: Some(4), server: Some(6) });
        assert_eq!(chosen(&[]), Affinity { client: Some(0), server: Some(2) });
        // One core of the node: the other side goes to another node rather than to the same core.
        assert_eq!(chosen(&[4, 5]), Affinity { client: Some(4), server: Some(0) });
    }

    #[test]
    fn a_thread_is_kept_on_some_processors_and_let_go() {
        std::thread::spawn(|| {
            let all: Vec<u32> = usable().collect();
            assert!(Kept::on(&[100_000]).is_none(), "none that it may use");
            assert!(Kept::on(&all).is_none(), "no others anyway");
            if let [first, _, ..] = all[..] {
                let kept = Kept::on(&[first]).unwrap();
                assert_eq!(usable().collect::<Vec<_>>(), [first]);
                assert_eq!(kept.to_string(), format!("{first} (the NUMA node of the memory)"));
                drop(kept);
            }
            assert_eq!(usable().collect::<Vec<_>>(), all);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_is_bound_and_a_wrong_processor_refused() {
        std::thread::spawn(|| {
            let first = usable().next().unwrap();
            bind_thread(first).unwrap();
            assert_eq!(usable().collect::<Vec<_>>(), [first]);
            let error = bind_thread(100_000).unwrap_err();
            assert!(
                error.contains("processor 100000; usable are ")
                    && error.ends_with(&first.to_string())
            );
            assert!(bind_thread(1023).is_err(), "no machine here has 1024 processors");
        })
        .join()
        .unwrap();
    }
}
