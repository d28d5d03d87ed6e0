//! What this host is, as far as it explains figures.

use std::{fs, sync::OnceLock};

use crate::report::Environment;

/// What the program allocates by.
static ALLOCATOR: OnceLock<&str> = OnceLock::new();

/// Tells the name of the allocator, which the program chooses and a library cannot find out. The first
/// word counts.
pub fn allocates_by(name: &'static str) {
    let _ = ALLOCATOR.set(name);
}

/// Reads it. What cannot be read is `None`.
#[must_use]
pub fn environment() -> Environment {
    let uname = rustix::system::uname();
    let cpu = cpu_model();
    Environment {
        hostname: uname.nodename().to_string_lossy().into_owned(),
        fabricbench: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: Some(uname.release().to_string_lossy().into_owned()),
        cpus: std::thread::available_parallelism()
            .ok()
            .and_then(|count| u32::try_from(count.get()).ok()),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        frequency_mhz: None,
        virtualization: virtualization(cpu.as_deref()),
        congestion_control: line("/proc/sys/net/ipv4/tcp_congestion_control"),
        allocator: ALLOCATOR.get().copied().map(str::to_owned),
        build: Some(if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned()),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        cpu,
        memory_copy: None,
    }
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Under TCG the processor names itself; elsewhere the firmware's tables and the hypervisor bit
/// tell.
fn virtualization(cpu: Option<&str>) -> Option<String> {
    if cpu.is_some_and(|model| model.contains("TCG")) {
        return Some("qemu-tcg".to_owned());
    }
    let flags = fs::read_to_string("/proc/cpuinfo").ok()?;
    let virtual_processor = flags
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    let container = fs::exists("/.dockerenv").unwrap_or(false);
    match (virtual_processor, container) {
        (false, false) => None,
        (false, true) => Some("container".to_owned()),
        (true, _) => {
            let vendor = line("/sys/class/dmi/id/sys_vendor");
            let machine = vendor.unwrap_or_else(|| "virtual machine".to_owned());
            Some(if container { format!("container in {machine}") } else { machine })
        }
    }
}

/// Whether processor speed here says nothing about any real machine.
#[must_use]
pub fn is_emulated_machine(environment: &Environment) -> bool {
    environment.virtualization.as_deref() == Some("qemu-tcg")
}
