//! Which processor a side runs on.
//!
//! On two hosts the scheduler decides, as for every other program. Where both sides share a kernel
//! it decides badly: it tends to wake the answering side on the processor of the side that asked,
//! and two polling threads on one processor take turns of a scheduler tick, milliseconds, instead
//! of microseconds. So there each side gets a processor of its own.

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
    /// this process may use and the next one, on another core if there is one; else none.
    #[must_use]
    pub fn automatic(here: &Host, there: &Host) -> Self {
        if !here.shares_kernel_with(there) {
            return Self::default();
        }
        let mut usable = usable();
        let client = usable.next();
        // Not the other half of the client's core: two polling threads on one core slow each other.
        let siblings = client.map_or_else(Vec::new, siblings);
        let others: Vec<u32> = usable.collect();
        let elsewhere = others.iter().find(|cpu| !siblings.contains(cpu));
        match (client, elsewhere.or(others.first()).copied()) {
            (Some(client), Some(server)) => Self { client: Some(client), server: Some(server) },
            _ => Self::default(),
        }
    }
}

/// The processors this thread may run on.
fn usable() -> impl Iterator<Item = u32> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
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
