//! How fast processors run.

use std::{collections::BTreeSet, fs};

/// MHz of the processor `bound`; without one the highest of those that the threads of this process ran on last.
/// `None` where nothing tells.
#[must_use]
pub fn processor_mhz(bound: Option<u32>) -> Option<u32> {
    let processors = bound.map_or_else(ran_on, |bound| BTreeSet::from([bound]));
    let driven = processors.iter().filter_map(|&processor| by_driver(processor)).max();
    driven.or_else(|| stated(&fs::read_to_string("/proc/cpuinfo").ok()?, &processors))
}

/// As the frequency driver has it, in kHz.
fn by_driver(processor: u32) -> Option<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_cur_freq");
    let khz: u32 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(khz / 1000)
}

/// As the lines of `/proc/cpuinfo` have it: where there is no driver, as in virtual machines.
fn stated(cpuinfo: &str, processors: &BTreeSet<u32>) -> Option<u32> {
    let mut of = None;
    let mut highest = None;
    for line in cpuinfo.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.trim() {
            "processor" => of = value.trim().parse::<u32>().ok(),
            "cpu MHz" if of.is_some_and(|of| processors.contains(&of)) => {
                let mhz = value.trim().parse::<f64>().ok().map(|mhz| mhz.round() as u32);
                highest = highest.max(mhz.filter(|&mhz| mhz > 0));
            }
            _ => {}
        }
    }
    highest
}

/// The processors that the threads of this process ran on last.
fn ran_on() -> BTreeSet<u32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    let processor = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        // Field 39 (proc(5)), the 37th behind the name, which may hold anything.
        stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
    };
    threads.filter_map(processor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processors_in_question_count() {
        let text = "processor\t: 0\ncpu MHz\t\t: 1200.4\n\nprocessor\t: 3\ncpu MHz\t\t: 3500.6\n";
        assert_eq!(stated(text, &BTreeSet::from([0])), Some(1200));
        assert_eq!(stated(text, &BTreeSet::from([0, 3])), Some(3501));
        assert_eq!(stated(text, &BTreeSet::from([1])), None);
        assert_eq!(stated("processor: 0\ncpu MHz: nothing\n", &BTreeSet::from([0])), None);
    }

    #[test]
    fn this_thread_runs_on_a_processor_that_it_may_use() {
        let usable = rustix::thread::sched_getaffinity(None).unwrap();
        let ran_on = ran_on();
        assert!(!ran_on.is_empty());
        assert!(ran_on.iter().all(|&processor| usable.is_set(processor as usize)), "{ran_on:?}");
    }
}
