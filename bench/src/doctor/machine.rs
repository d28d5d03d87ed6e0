//! The machine as a whole: whether its time and its hardware are what they seem.

use super::{
    evidence::Evidence,
    finding::{Check, Finding},
    tree::Tree,
};

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Those that a program reads without a call of the kernel (their `vdso_clock_mode`): the TSC, and what
/// hypervisors make of it; then the counters of other processors.
const QUICK: [&str; 7] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "timebase",
    "tod",
    "riscv_clocksource",
];
/// Those that are read from a device, or count ticks only.
const SLOW: [&str; 5] = ["hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"];

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    vec![clock(&evidence.tree), machine(evidence)]
}

fn clock(tree: &Tree) -> Finding {
    let Some(name) = tree.text(CLOCK_SOURCE) else {
        let why = "the kernel does not show it";
        return Finding::unknown(Check::ClockSource, "host", why, CLOCK_SOURCE);
    };
    let mend = "dmesg | grep -i -e tsc -e clocksource says why not; where the firmware is at fault and \
                the TSC is known to be good, tsc=reliable on the kernel's command line";
    if QUICK.contains(&name.as_str()) {
        Finding::fine(Check::ClockSource, "host", name, CLOCK_SOURCE)
    } else if SLOW.contains(&name.as_str()) {
        Finding::problem(Check::ClockSource, "host", name, CLOCK_SOURCE).because(
            "the kernel does not trust the TSC, and each look at the clock, by gRPC's runtime as by the \
             kernel's TCP, is slow or coarse",
            mend,
        )
    } else {
        Finding::advice(Check::ClockSource, "host", name, CLOCK_SOURCE)
            .because("each look at the clock is a call of the kernel", mend)
    }
}

/// What runs a machine without hardware says so itself (`observe::environment`).
fn machine(evidence: &Evidence) -> Finding {
    const SOURCE: &str = "/proc/cpuinfo, /sys/class/dmi/id/sys_vendor";
    match evidence.virtualization.as_deref() {
        Some("qemu-tcg") => {
            Finding::problem(Check::Machine, "host", "processors emulated by QEMU", SOURCE).because(
                "times say nothing of any hardware; ratios within one run do",
                "measure on the hardware",
            )
        }
        Some("container") => Finding::fine(Check::Machine, "host", "a container", SOURCE),
        Some(machine) => Finding::unknown(
            Check::Machine,
            "host",
            format!("{machine}: what its host sets of all this is not to be seen from here"),
            SOURCE,
        ),
        None if shows_flags(&evidence.tree) => {
            Finding::fine(Check::Machine, "host", "no virtual machine", SOURCE)
        }
        None => {
            let why = "nothing tells whether this is a virtual machine";
            Finding::unknown(Check::Machine, "host", why, SOURCE)
        }
    }
}

/// Whether processors tell of a hypervisor, if there is one: those of x86 do.
fn shows_flags(tree: &Tree) -> bool {
    let processors = tree.text("/proc/cpuinfo");
    processors.is_some_and(|text| text.lines().any(|line| line.starts_with("flags")))
}
