//! Findings on trees that are made up after the kernel's documentation. None is a recording: the
//! machines of this project's authors have no adapter.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use fabricbench_ipoib::{
    Address, Backing, Interface, Ipoib, Kind, Mode, RdmaPort, Scope, State, TcpBuffers,
};
use tempfile::TempDir;

use super::{Check, Evidence, Finding, SeenDevice, SeenPort, Severity, Tree, brief, examine, text};

mod devices;
mod host;
mod malformed;
mod networks;

/// A host with two adapters: `mlx5_0` on InfiniBand (HDR) with `ib0`, `mlx5_1` on Ethernet (100 Gb/s)
/// with `eth1`; two NUMA nodes of four processors, nothing to complain of.
struct Host {
    root: TempDir,
    evidence: Evidence,
}

const DEVICE: [&str; 2] = ["sys/class/infiniband/mlx5_0", "sys/class/infiniband/mlx5_1"];

fn interface(name: &str, kind: Kind, mtu: u32, ip: &str) -> Interface {
    Interface {
        name: name.to_owned(),
        index: 2,
        kind,
        backing: Backing::Physical { driver: Some("mlx5_core".to_owned()) },
        state: State::Up,
        mtu,
        speed_mbps: Some(100_000),
        addresses: vec![Address { ip: ip.parse().unwrap(), prefix: 24, scope: Scope::Global }],
    }
}

fn seen(name: &str, netdev: Option<&str>) -> SeenDevice {
    let port = SeenPort {
        number: 1,
        emulated: false,
        active_mtu: Some(4096),
        max_mtu: Some(4096),
        netdev: netdev.map(str::to_owned),
    };
    SeenDevice { name: name.to_owned(), ports: Ok(vec![port]) }
}

impl Host {
    fn healthy() -> Self {
        let root = tempfile::tempdir().unwrap();
        let ipoib = Kind::Ipoib(Ipoib {
            mode: Some(Mode::Connected),
            connected_possible: Some(true),
            parent: Some(RdmaPort { device: "mlx5_0".to_owned(), port: 1 }),
            ..Ipoib::default()
        });
        let evidence = Evidence {
            tree: Tree::at(root.path()),
            interfaces: vec![
                interface("ib0", ipoib, 65_520, "10.1.0.1"),
                interface("eth1", Kind::Ethernet, 9000, "10.2.0.1"),
            ],
            advice: Vec::new(),
            tcp_buffers: TcpBuffers {
                receive: Some(64 << 20),
                send: Some(64 << 20),
                window_scale: Some(1),
            },
            virtualization: None,
            verbs: Ok(vec![seen("mlx5_0", None), seen("mlx5_1", Some("eth1"))]),
        };
        let mut host = Self { root, evidence };
        for (number, device) in DEVICE.iter().enumerate() {
            host.adapter(device, number);
        }
        host.file(&format!("{}/ports/1/rate", DEVICE[0]), "200 Gb/sec (4X HDR)")
            .file(&format!("{}/ports/1/link_layer", DEVICE[0]), "InfiniBand")
            .file(
                &format!("{}/ports/1/gids/0", DEVICE[0]),
                "fe80:0000:0000:0000:0c42:a103:0065:d1c2",
            )
            .file(&format!("{}/ports/1/rate", DEVICE[1]), "100 Gb/sec (4X EDR)")
            .file(&format!("{}/ports/1/link_layer", DEVICE[1]), "Ethernet")
            .gid(0, "fe80:0000:0000:0000:0e42:a1ff:fe65:d1c3", "IB/RoCE v1")
            .gid(1, "fe80:0000:0000:0000:0e42:a1ff:fe65:d1c3", "RoCE v2")
            .gid(2, "0000:0000:0000:0000:0000:ffff:0a02:0001", "IB/RoCE v1")
            .gid(3, "0000:0000:0000:0000:0000:ffff:0a02:0001", "RoCE v2")
            .gid(4, "0000:0000:0000:0000:0000:0000:0000:0000", "")
            .file("dev/infiniband/rdma_cm", "")
            .file("sys/module/ib_ipoib/refcnt", "0")
            .file("proc/self/maps", "7f00-7f01 r-xp 0 08:01 7 /usr/lib64/libibverbs.so.1.14.44.0")
            .file(
                "proc/self/limits",
                "Max locked memory         unlimited            unlimited            bytes",
            )
            .file(
                "proc/self/status",
                "Name:\tx\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-7",
            )
            .file("proc/self/uid_map", "         0          0 4294967295")
            .file("proc/self/cgroup", "0::/slurm/job_1")
            .file("proc/1/comm", "systemd")
            .file("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu sse2")
            .file("sys/fs/cgroup/slurm/job_1/cpu.max", "max 100000")
            .file("sys/fs/cgroup/slurm/job_1/memory.max", "max")
            .file("proc/sys/kernel/numa_balancing", "0")
            .file("sys/devices/system/node/node0/cpulist", "0-3")
            .file("sys/devices/system/node/node1/cpulist", "4-7")
            .file("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc")
            .file("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate")
            .file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "512")
            .file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1024");
        for number in 0..8 {
            let path = format!("sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor");
            host.file(&path, "performance");
        }
        for (number, name, latency) in [(0, "POLL", "0"), (1, "C1", "2"), (2, "C6", "133")] {
            let state = format!("sys/devices/system/cpu/cpu0/cpuidle/state{number}");
            host.file(&format!("{state}/name"), name)
                .file(&format!("{state}/latency"), latency)
                .file(&format!("{state}/disable"), if name == "C6" { "1" } else { "0" });
        }
        host
    }

    fn adapter(&mut self, path: &str, number: usize) {
        let uverbs = format!("uverbs{number}");
        self.file(&format!("{path}/node_type"), "1: CA")
            .file(&format!("{path}/ports/1/state"), "4: ACTIVE")
            .file(&format!("{path}/device/numa_node"), "1")
            .file(&format!("{path}/device/iommu_group/type"), "identity")
            .file(&format!("{path}/device/current_link_width"), "16")
            .file(&format!("{path}/device/max_link_width"), "16")
            .file(&format!("{path}/device/current_link_speed"), "16.0 GT/s PCIe")
            .file(&format!("{path}/device/max_link_speed"), "16.0 GT/s PCIe")
            .file(
                &format!("sys/class/infiniband_verbs/{uverbs}/ibdev"),
                path.rsplit('/').next().unwrap(),
            )
            .file(&format!("dev/infiniband/{uverbs}"), "");
        let driver = self.path(&format!("{path}/device/driver"));
        symlink("../../../bus/pci/drivers/mlx5_core", driver).unwrap();
    }

    fn gid(&mut self, index: u32, gid: &str, kind: &str) -> &mut Self {
        let port = format!("{}/ports/1", DEVICE[1]);
        self.file(&format!("{port}/gids/{index}"), gid)
            .file(&format!("{port}/gid_attrs/types/{index}"), kind)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// Writes a file anew.
    fn file(&mut self, path: &str, content: &str) -> &mut Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
        self
    }

    /// Takes a file away, or a directory with all that is in it.
    fn without(&mut self, path: &str) -> &mut Self {
        let path = self.path(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        self
    }

    fn findings(&self) -> Vec<Finding> {
        examine(&self.evidence)
    }
}

/// For a closure that plants one fault.
fn done(_: &mut Host) {}

/// All problems, advice and unknown things of the healthy host after `plant`.
fn after(plant: impl FnOnce(&mut Host)) -> Vec<Finding> {
    let mut host = Host::healthy();
    plant(&mut host);
    let mut found = host.findings();
    found.retain(|finding| finding.severity != Severity::Fine);
    found
}

/// Asserts that `plant` is found, and nothing beside it: once, as `(severity, check, subject)`, in a
/// text of which each of `words` is a part.
#[track_caller]
fn found(
    plant: impl FnOnce(&mut Host),
    (severity, check, subject): (Severity, Check, &str),
    words: &[&str],
) {
    let found = after(plant);
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(
        (finding.severity, finding.check, finding.subject.as_str()),
        (severity, check, subject),
        "{finding:?}"
    );
    let shown = text(&found);
    for word in words {
        assert!(shown.contains(word), "no `{word}` in:\n{shown}");
    }
    let is_explained = finding.matters.is_some() && finding.mend.is_some();
    assert_eq!(is_explained, severity <= Severity::Advice, "{finding:?}");
    assert!(!finding.source.is_empty());
}

#[test]
fn a_healthy_host_has_nothing_to_mend() {
    assert_eq!(after(|_| {}), []);
    let host = Host::healthy();
    let shown = text(&host.findings());
    assert!(shown.starts_with("0 problems, 0 advice, 0 unknown, 28 fine\n"), "{shown}");
    for line in [
        "rdma-core       host: rdma-core 44.0",
        "port-link       mlx5_0 port 1: 200 Gb/sec (4X HDR)",
        "gid             mlx5_1 port 1: RoCE v2 at index 3 (10.2.0.1)",
        "mtu             mlx5_1 port 1: path MTU 4096, over eth1 with an MTU of 9000",
        "pcie-link       mlx5_0, mlx5_1: PCIe x16 at 16 GT/s",
        "numa-node       mlx5_0, mlx5_1: NUMA node 1 (processors 4-7)",
        "huge-pages      host: huge pages: 512 of 1024 free of 2048 KiB",
    ] {
        assert!(shown.contains(line), "no `{line}` in:\n{shown}");
    }
}

/// Somebody at a terminal reads three lines.
#[test]
fn the_first_lines_say_what_is_wrong() {
    let mut host = Host::healthy();
    host.file(&format!("{}/device/current_link_width", DEVICE[0]), "8");
    host.file("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave");
    let shown = text(&host.findings());
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("1 problem, 1 advice, 0 unknown, "), "{shown}");
    assert_eq!(lines[2], "PROBLEM  mlx5_0: PCIe x8 at 16 GT/s, of x16 at 16 GT/s [pcie-link]");
    assert!(lines[3].starts_with("         why      it carries 126 Gb/s"), "{shown}");
    assert!(lines[4].starts_with("         mend     reseat the adapter"), "{shown}");
    assert_eq!(lines[7], "advice   processors: powersave on 1 of 8 (intel_pstate) [governor]");
    let short = brief(&host.findings());
    assert!(shown.starts_with(&short) && !short.contains("\nfine"), "{short}");
}

/// A host of eight adapters has eight findings, and one thing to mend.
#[test]
fn what_is_the_same_of_several_things_is_told_once() {
    let mut host = Host::healthy();
    for device in DEVICE {
        host.file(&format!("{device}/device/iommu_group/type"), "DMA");
    }
    let found = host.findings();
    assert_eq!(found.iter().filter(|finding| finding.severity == Severity::Advice).count(), 2);
    let short = brief(&found);
    assert!(short.contains("\nadvice   mlx5_0, mlx5_1: the IOMMU's domain"), "{short}");
    assert_eq!(short.matches("iommu=pt").count(), 1, "{short}");
    assert!(text(&found).contains("device          mlx5_0, mlx5_1: opens\n"));
}

#[test]
fn names_of_checks_are_those_of_the_document() {
    for check in [Check::PcieLink, Check::Mtu, Check::CpuLimit] {
        assert_eq!(Check::named(&check.name()), Some(check));
    }
    assert_eq!(Check::PcieLink.name(), "pcie-link");
    assert_eq!(Check::named("pcie"), None);
}

/// What files hold goes to a terminal.
#[test]
fn a_terminal_obeys_nothing_that_a_file_says() {
    let found = after(|host| {
        host.file("sys/devices/system/clocksource/clocksource0/current_clocksource", "a\u{1b}[2Jb");
    });
    let shown = text(&found);
    assert!(shown.contains("a\\u{1b}[2Jb") && !shown.contains('\u{1b}'), "{shown:?}");
}
