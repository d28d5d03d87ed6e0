//! Faults of processors, clocks, limits and control groups.

use super::*;
use Severity::{Advice, Problem, Unknown};

const GOVERNOR: &str = "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor";
const C6: &str = "sys/devices/system/cpu/cpu0/cpuidle/state2/disable";

#[test]
fn a_governor_that_saves_power_is_told() {
    found(
        |host| done(host.file(GOVERNOR, "powersave")),
        (Advice, Check::Governor, "processors"),
        &["powersave on 1 of 8 (intel_pstate)", "cpupower frequency-set -g performance"],
    );
    found(
        |host| {
            for number in 0..8 {
                host.without(&format!("sys/devices/system/cpu/cpu{number}/cpufreq"));
            }
        },
        (Unknown, Check::Governor, "processors"),
        &["does not choose frequencies"],
    );
}

#[test]
fn deep_sleep_is_told_unless_a_program_bounds_it() {
    found(
        |host| done(host.file(C6, "0")),
        (Advice, Check::IdleStates, "processors"),
        &["deepest state C6, 133 us", "tuned-adm profile network-latency"],
    );
    // tuned holds the bound, in microseconds, and leaves the states as they are.
    for (bound, is_told) in [(3_i32, false), (133, true), (2_000_000_000, true)] {
        let found = after(|host| {
            host.file(C6, "0");
            fs::write(host.path("dev/cpu_dma_latency"), bound.to_ne_bytes()).unwrap();
        });
        assert_eq!(!found.is_empty(), is_told, "{bound}: {found:?}");
    }
    found(
        |host| {
            host.without("sys/devices/system/cpu/cpu0/cpuidle")
                .file("sys/devices/system/cpu/cpuidle/current_driver", "none");
        },
        (Unknown, Check::IdleStates, "processors"),
        &["no idle states to choose from"],
    );
}

#[test]
fn who_moves_interrupts_and_pages_is_told() {
    found(
        |host| done(host.file("proc/812/comm", "irqbalance")),
        (Advice, Check::Irqbalance, "host"),
        &["systemctl stop irqbalance", "/proc/812/comm"],
    );
    found(
        |host| done(host.file("proc/sys/kernel/numa_balancing", "1")),
        (Advice, Check::NumaBalancing, "host"),
        &["on, over 2 nodes", "sysctl -w kernel.numa_balancing=0"],
    );
    let one_node = after(|host| {
        host.file("proc/sys/kernel/numa_balancing", "1").without("sys/devices/system/node/node0");
    });
    assert_eq!(one_node, [], "of one node there is nothing to balance");
}

#[test]
fn a_clock_other_than_the_tsc_is_told() {
    const CLOCK: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    for (name, severity) in [("hpet", Problem), ("acpi_pm", Problem), ("xen", Advice)] {
        found(
            |host| done(host.file(CLOCK, name)),
            (severity, Check::ClockSource, "host"),
            &[name, "tsc=reliable"],
        );
    }
    assert_eq!(after(|host| done(host.file(CLOCK, "kvm-clock"))), []);
    found(|host| done(host.without(CLOCK)), (Unknown, Check::ClockSource, "host"), &[]);
}

#[test]
fn a_machine_that_is_none_is_told() {
    let runs_in = |name: &'static str| {
        move |host: &mut Host| host.evidence.virtualization = Some(name.to_owned())
    };
    let emulated = (Problem, Check::Machine, "host");
    found(runs_in("qemu-tcg"), emulated, &["emulated by QEMU", "nothing of any hardware"]);
    found(runs_in("Xen"), (Unknown, Check::Machine, "host"), &["Xen: what its host sets"]);
    assert_eq!(after(runs_in("container")), []);
}

#[test]
fn little_locked_memory_is_told_unless_privilege_passes_it() {
    let limited = |bytes: u64, capabilities: &'static str, users: &'static str| {
        move |host: &mut Host| {
            let line =
                format!("Max locked memory         {bytes}                {bytes}        bytes");
            host.file("proc/self/limits", &line)
                .file("proc/self/status", &format!("CapEff:\t{capabilities}"))
                .file("proc/self/uid_map", users);
        }
    };
    let (all, none) = ("000001ffffffffff", "0000000000000000");
    let (first, other) = ("0 0 4294967295", "0 100000 65536");
    let problem = (Problem, Check::LockedMemory, "this process");
    found(
        limited(65_536, none, first),
        problem,
        &["65536 B of locked memory, without CAP_IPC_LOCK", "ulimit -l unlimited", "LimitMEMLOCK"],
    );
    found(limited(8 << 20, none, first), problem, &["the 8 MiB messages of a run"]);
    let advice = (Advice, Check::LockedMemory, "this process");
    found(limited(1 << 30, none, first), advice, &["many threads"]);
    assert_eq!(after(limited(65_536, all, first)), []);
    found(
        limited(65_536, all, other),
        problem,
        &["CAP_IPC_LOCK of a user namespace does not pass"],
    );
    let without_device = after(|host| {
        host.without("sys/class/infiniband").without("sys/class/infiniband_verbs");
        host.evidence.verbs = Err("no RDMA device".to_owned());
        limited(65_536, none, first)(host);
    });
    let of_memory = without_device.iter().find(|finding| finding.check == Check::LockedMemory);
    let of_memory = of_memory.unwrap();
    assert_eq!(of_memory.severity, Advice);
    assert!(of_memory.matters.as_ref().unwrap().contains("once there is an RDMA device"));
    found(
        |host| done(host.file("proc/self/limits", "Limit")),
        (Unknown, Check::LockedMemory, "this process"),
        &["not shown"],
    );
}

#[test]
fn limits_of_control_groups_are_told() {
    const GROUP: &str = "sys/fs/cgroup/slurm/job_1";
    let (cpu, memory) = (format!("{GROUP}/cpu.max"), format!("{GROUP}/memory.max"));
    found(
        |host| done(host.file(&cpu, "150000 100000")),
        (Problem, Check::CpuLimit, "this process"),
        &["1.50 processors' time", "/sys/fs/cgroup/slurm/job_1/cpu.max", "limits.cpu"],
    );
    // The least of all groups above counts.
    found(
        |host| {
            done(
                host.file("sys/fs/cgroup/slurm/cpu.max", "400000 100000")
                    .file(&cpu, "800000 100000"),
            )
        },
        (Advice, Check::CpuLimit, "this process"),
        &["4.00 processors' time", "/sys/fs/cgroup/slurm/cpu.max"],
    );
    found(
        |host| done(host.file(&memory, "268435456")),
        (Advice, Check::MemoryLimit, "this process"),
        &["256 MiB of memory"],
    );
    assert_eq!(after(|host| done(host.file(&memory, "17179869184"))), []);
}

/// A host with version 1, and a container on one, which sees its own group as the root.
#[test]
fn control_groups_of_version_one_are_read() {
    let first = |host: &mut Host, place: &str| {
        host.without("sys/fs/cgroup")
            .file("proc/self/cgroup", "4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n0::/")
            .file(&format!("sys/fs/cgroup/cpu{place}/cpu.cfs_quota_us"), "50000")
            .file(&format!("sys/fs/cgroup/cpu{place}/cpu.cfs_period_us"), "100000")
            .file(
                &format!("sys/fs/cgroup/memory{place}/memory.limit_in_bytes"),
                "9223372036854771712",
            );
    };
    for place in ["/docker/ab", ""] {
        found(
            |host| first(host, place),
            (Problem, Check::CpuLimit, "this process"),
            &["0.50 processors' time", "cpu.cfs_quota_us"],
        );
    }
    let unlimited = after(|host| {
        first(host, "");
        host.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
    });
    assert_eq!(unlimited, []);
}
