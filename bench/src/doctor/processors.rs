//! Processors: how fast they run, how deep they sleep, and who has them interrupted.

use std::collections::BTreeMap;

use super::{
    evidence::Evidence,
    finding::{Check, Finding},
    tree::Tree,
};

const PROCESSORS: &str = "/sys/devices/system/cpu";
const QUALITY_OF_SERVICE: &str = "/dev/cpu_dma_latency";

/// How long waking may take, in microseconds, that counts as being awake: what tuned's profile
/// latency-performance asks of processors, and network-latency after it
/// (`force_latency=cstate.id_no_zero:1|3`: their shallowest state, or 3 us).
const QUICK: u32 = 3;
/// More than a processor has idle states (`CPUIDLE_STATE_MAX`).
const MOST_STATES: usize = 10;

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    let tree = &evidence.tree;
    vec![governor(tree), idle(tree), irqbalance(evidence)].into_iter().flatten().collect()
}

/// Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst.
fn governor(tree: &Tree) -> Option<Finding> {
    let source = format!("{PROCESSORS}/cpu*/cpufreq/scaling_governor");
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    for number in tree.numbered(PROCESSORS, "cpu") {
        let path = format!("{PROCESSORS}/cpu{number}/cpufreq/scaling_governor");
        if let Some(governor) = tree.text(&path) {
            *governors.entry(governor).or_default() += 1;
        }
    }
    if governors.is_empty() {
        let why = "the kernel does not choose frequencies here";
        return Some(Finding::unknown(Check::Governor, "processors", why, source));
    }
    let driver = tree.text(&format!("{PROCESSORS}/cpu0/cpufreq/scaling_driver"));
    let by = driver.map_or_else(String::new, |driver| format!(" ({driver})"));
    let total: usize = governors.values().sum();
    let others: Vec<_> = governors.iter().filter(|(name, _)| *name != "performance").collect();
    Some(if others.is_empty() {
        Finding::fine(Check::Governor, "processors", format!("performance{by}"), source)
    } else {
        let names: Vec<_> = others
            .iter()
            .map(|(name, count)| format!("{name} on {count} of {total}{by}"))
            .collect();
        Finding::advice(Check::Governor, "processors", names.join(", "), source).because(
            "frequencies follow the load: short measurements see a processor that is still slow, and \
             rounds differ",
            "cpupower frequency-set -g performance",
        )
    })
}

/// Documentation/admin-guide/pm/cpuidle.rst: the states of a processor, by the time that waking from
/// each takes, and the bound that programs set on it.
fn idle(tree: &Tree) -> Option<Finding> {
    let states = format!("{PROCESSORS}/cpu0/cpuidle");
    let numbers = tree.numbered(&states, "state");
    if numbers.is_empty() {
        let driver = tree.text(&format!("{PROCESSORS}/cpuidle/current_driver"));
        let why = match driver.as_deref() {
            None | Some("none") => "the kernel has no idle states to choose from here",
            Some(_) => "idle states are not shown",
        };
        let source = format!("{PROCESSORS}/cpuidle/current_driver");
        return Some(Finding::unknown(Check::IdleStates, "processors", why, source));
    }
    // Who holds the file open, as tuned does, bounds all processors; without a bound it reads 2000 s.
    let bound = tree.bytes(QUALITY_OF_SERVICE).and_then(|bytes| bytes.try_into().ok());
    let bound = bound.map(i32::from_ne_bytes).and_then(|bound| u32::try_from(bound).ok());
    let deepest = numbers
        .into_iter()
        .take(MOST_STATES)
        .filter_map(|number| {
            let value = |name: &str| tree.text(&format!("{states}/state{number}/{name}"));
            let is_disabled = value("disable").is_some_and(|disabled| disabled != "0");
            let latency: u32 = value("latency")?.parse().ok()?;
            let is_allowed = bound.is_none_or(|bound| latency <= bound);
            let state = (latency, value("name").unwrap_or_else(|| format!("state{number}")));
            (!is_disabled && is_allowed).then_some(state)
        })
        .max()?;
    let (latency, name) = deepest;
    let seen = format!("deepest state {name}, {latency} us to wake from");
    let source = format!("{states}/state*, {QUALITY_OF_SERVICE}");
    Some(if latency <= QUICK {
        Finding::fine(Check::IdleStates, "processors", seen, source)
    } else {
        Finding::advice(Check::IdleStates, "processors", seen, source).because(
            "whoever sleeps for a message (gRPC, TCP, verbs with -e) may wait that long more; polling \
             does not",
            format!("tuned-adm profile network-latency, or cpupower idle-set -D {QUICK}"),
        )
    })
}

/// It moves interrupts every ten seconds, if it is there (irqbalance(1), `--interval`).
fn irqbalance(evidence: &Evidence) -> Option<Finding> {
    let tree = &evidence.tree;
    let real = |interface: &fabricbench_ipoib::Interface| {
        matches!(interface.backing, fabricbench_ipoib::Backing::Physical { .. })
    };
    let processes = tree.numbered("/proc", "");
    let runs = processes
        .iter()
        .map(|process| format!("/proc/{process}/comm"))
        .find(|path| tree.text(path).as_deref() == Some("irqbalance"))?;
    evidence.interfaces.iter().any(real).then(|| {
        Finding::advice(Check::Irqbalance, "host", "irqbalance runs", runs).because(
            "it may move a device's interrupts to other processors during a run, which those who sleep \
             for messages (gRPC, TCP, verbs with -e) see",
            "systemctl stop irqbalance while measuring, once interrupts are near their devices",
        )
    })
}
