//! Judgement of trees that are made up after the kernel's documentation: sysfs-class-net,
//! sysfs-class-net-queues, sysfs-bus-pci, ipoib.rst, irq-affinity.rst. None is a recording: the
//! machines of this project's authors have no InfiniBand.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::interface::describe;
use crate::link::{IpoibData, Link};
use crate::processors::Processors;
use crate::setup::{counted_interrupts, of_link, tcp_buffers};

/// A host's `/sys` and `/proc`, with two NUMA nodes of four processors each.
struct Host {
    root: TempDir,
    link: Link,
    offloads: Offloads,
}

const ALL_ON: Offloads = Offloads {
    segmentation: Switch::On,
    generic_segmentation: Switch::On,
    generic_receive: Switch::On,
    transmit_checksum: Switch::On,
    receive_checksum: Switch::On,
};

impl Host {
    /// With the interface `link` of `driver` on node 1, whose interrupts 41 to 43 are on it.
    fn with(link: Link, driver: &str, queues: u32) -> Self {
        let host = Self { root: tempfile::tempdir().unwrap(), link, offloads: ALL_ON };
        let address: Vec<_> =
            host.link.hardware_address.iter().map(|byte| format!("{byte:02x}")).collect();
        let host = host
            .file("sys/devices/system/cpu/online", "0-7")
            .file("sys/devices/system/node/node0/cpulist", "0-3")
            .file("sys/devices/system/node/node1/cpulist", "4-7")
            .attribute("ifindex", "7")
            .attribute("type", "32")
            .attribute("address", &address.join(":"))
            .attribute("tx_queue_len", "256")
            .attribute("device/numa_node", "1")
            .attribute("device/msi_irqs/41", "msix")
            .attribute("device/msi_irqs/42", "msix")
            .attribute("device/msi_irqs/43", "msix")
            .file(
                "proc/interrupts",
                "            CPU0  CPU1  CPU2  CPU3  CPU4  CPU5  CPU6  CPU7\n  \
                 41:     0     0     0     0     0     0     0     0  PCI-MSI 1-edge dev-async\n  \
                 42:     0     0     0     0    10    20     0     0  PCI-MSI 2-edge dev-comp0\n  \
                 43:     5     0     0     0     0     0     0     0  PCI-MSI 3-edge dev-comp1\n \
                 NMI:     1     1     1     1     1     1     1     1  Non-maskable interrupts",
            )
            .interrupts([("42", "4"), ("43", "5")]);
        let device = host.interface_path("device");
        symlink(format!("../../../bus/pci/drivers/{driver}"), device.join("driver")).unwrap();
        (0..queues).fold(host, |host, queue| {
            host.attribute(&format!("queues/rx-{queue}/rps_cpus"), "00")
                .attribute(&format!("queues/tx-{queue}/xps_cpus"), "00")
        })
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
        self
    }

    fn interface_path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join("sys/class/net").join(&self.link.name).join(path)
    }

    fn attribute(self, name: &str, text: &str) -> Self {
        let path = format!("sys/class/net/{}/{name}", self.link.name);
        self.file(&path, text)
    }

    /// Interrupts that any processor may take, and those that do.
    fn interrupts<const N: usize>(self, taken: [(&str, &str); N]) -> Self {
        taken.into_iter().fold(self, |host, (number, by)| {
            host.file(&format!("proc/irq/{number}/smp_affinity_list"), "0-7")
                .file(&format!("proc/irq/{number}/effective_affinity_list"), by)
        })
    }

    fn root(&self) -> &Path {
        self.root.path()
    }

    fn setup(&self) -> Setup {
        let read = of_link(self.root(), &self.link, &counted_interrupts(self.root()));
        Setup { offloads: Some(self.offloads), ..read }
    }

    fn advice(&self) -> Vec<Advice> {
        let links = std::slice::from_ref(&self.link);
        let interface = describe(links, &[], &self.root().join("sys/class/net")).remove(0);
        advice(&interface, Some(&self.setup()))
    }

    fn causes(&self) -> Vec<Cause> {
        self.advice().iter().map(|advice| advice.cause).collect()
    }
}

/// An IPoIB link with a hardware address whose first octet is `flags`.
fn ib(name: &str, flags: u8, mode: u16, mtu: u32) -> Link {
    let mut hardware_address = vec![0x11; 20];
    hardware_address[0] = flags;
    Link {
        name: name.to_owned(),
        index: 7,
        hardware: libc::ARPHRD_INFINIBAND,
        flags: libc::IFF_UP as u32,
        mtu,
        operational: 6,
        carrier: true,
        hardware_address,
        kind: Some("ipoib".to_owned()),
        ipoib: Some(IpoibData { mode: Some(mode), pkey: Some(0xffff), umcast: Some(0) }),
        ..Link::default()
    }
}

/// In connected mode as it should be, so that what is said is of what a test changes.
fn tidy() -> Host {
    Host::with(ib("ib0", 0x80, 1, 65_520), "mlx4_core", 2)
}

fn only(host: &Host) -> Advice {
    let mut all = host.advice();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn a_host_that_is_set_up_well_is_given_no_advice() {
    let host = tidy();
    assert_eq!(host.advice(), []);
    let setup = host.setup();
    assert_eq!((setup.numa_node, setup.near.to_string()), (Some(1), "4-7".to_owned()));
    assert_eq!((setup.receive_queues.len(), setup.transmit_queues.len()), (2, 2));
    assert_eq!(setup.transmit_queue_length, Some(256));
    let of = |at: usize| (setup.interrupts[at].number, setup.interrupts[at].count);
    assert_eq!([of(0), of(1), of(2)], [(41, 0), (42, 30), (43, 5)]);
    assert_eq!(setup.interrupts[1].name, "dev-comp0");
    assert_eq!(setup.interrupts[1].processors(), Processors::from_list("4").as_ref());
}

#[test]
fn datagram_mode_where_connected_is_possible() {
    let advice = only(&Host::with(ib("ib0", 0x80, 0, 2044), "mlx4_core", 2));
    assert_eq!(advice.cause, Cause::DatagramMode);
    assert_eq!(
        advice.to_string(),
        "ib0: datagram mode with an MTU of 2044; connected mode is possible, and often faster for \
         large messages: echo connected > /sys/class/net/ib0/mode && ip link set ib0 mtu 65520, on \
         both hosts"
    );
}

#[test]
fn enhanced_ipoib_has_datagram_mode_only() {
    let advice = only(&Host::with(ib("ib0", 0, 0, 2044), "mlx5_core", 2));
    assert_eq!(advice.cause, Cause::DatagramMtu);
    assert!(advice.found.contains("enhanced") && advice.mend.contains("mtu 4092"), "{advice}");
    assert_eq!(Host::with(ib("ib0", 0, 0, 4092), "mlx5_core", 2).advice(), []);
}

#[test]
fn a_small_mtu_in_connected_mode() {
    let advice = only(&Host::with(ib("ib0", 0x80, 1, 2044), "mlx4_core", 2));
    assert_eq!(advice.cause, Cause::ConnectedMtu);
    assert!(advice.mend.starts_with("ip link set ib0 mtu 65520"), "{advice}");
}

#[test]
fn a_child_with_the_key_of_a_limited_member() {
    let key = IpoibData { mode: Some(1), pkey: Some(0x0001), umcast: Some(0) };
    let link = Link { ipoib: Some(key), ..ib("ib0.0001", 0x80, 1, 65_520) };
    let host = Host::with(link, "mlx4_core", 2).attribute("parent", "ib0");
    assert_eq!(host.setup().parent.as_deref(), Some("ib0"));
    let advice = only(&host);
    assert_eq!(advice.cause, Cause::LimitedMember);
    assert!(advice.found.ends_with("0x0001 of a limited member, on the port of ib0"), "{advice}");
    assert!(advice.mend.contains("0x8001"), "{advice}");
    let full = IpoibData { pkey: Some(0x8001), ..key };
    let link = Link { ipoib: Some(full), ..ib("ib0.8001", 0x80, 1, 65_520) };
    assert_eq!(Host::with(link, "mlx4_core", 2).attribute("parent", "ib0").advice(), []);
}

#[test]
fn one_receive_queue_is_to_be_spread_over_the_devices_node() {
    let host = Host::with(ib("ib0", 0x80, 1, 65_520), "mlx4_core", 1);
    let advice = only(&host);
    assert_eq!(advice.cause, Cause::OneReceiveQueue);
    assert_eq!(advice.mend, "echo f0 > /sys/class/net/ib0/queues/rx-0/rps_cpus (processors 4-7)");
    let spread = host.attribute("queues/rx-0/rps_cpus", "f0");
    assert_eq!(spread.advice(), []);
    assert_eq!(spread.setup().receive_queues[0].processors, Processors::from_list("4-7"));
}

#[test]
fn interrupts_far_from_the_devices_node() {
    let host = tidy().interrupts([("43", "0")]);
    let advice = only(&host);
    assert_eq!(advice.cause, Cause::InterruptsFar);
    assert!(advice.found.starts_with("1 of its device's 2 interrupts in use"), "{advice}");
    assert!(advice.found.ends_with("the device's, 1: 43 on 0"), "{advice}");
    assert!(
        advice.mend.starts_with("for irq in 43; do echo 4-7 > /proc/irq/$irq/smp_affinity_list"),
        "{advice}"
    );
    // 41 never came: where it would go does not count. A node that is not known is no node.
    assert_eq!(tidy().interrupts([("41", "0")]).advice(), []);
    assert_eq!(tidy().attribute("device/numa_node", "-1").interrupts([("43", "0")]).advice(), []);
}

/// Before Linux 4.13 the kernel does not tell which of those that may take an interrupt does.
#[test]
fn interrupts_that_may_be_taken_on_the_devices_node_are_not_far() {
    let allowed = |list| {
        let host = tidy();
        let effective = host.root().join("proc/irq/43/effective_affinity_list");
        fs::remove_file(effective).unwrap();
        host.file("proc/irq/43/smp_affinity_list", list)
    };
    assert_eq!(allowed("0-7").causes(), []);
    assert_eq!(allowed("0-3").causes(), [Cause::InterruptsFar]);
}

#[test]
fn interrupts_of_several_queues_on_one_processor() {
    let advice = only(&tidy().interrupts([("43", "4")]));
    assert_eq!(advice.cause, Cause::InterruptsTogether);
    assert!(advice.found.starts_with("processor 4 takes all 2 interrupts"), "{advice}");
    assert!(advice.mend.contains("give each of 42, 43 a processor of 4-7"), "{advice}");
}

#[test]
fn offloads_that_are_off_and_could_be_on() {
    let off = Offloads {
        segmentation: Switch::Off,
        generic_receive: Switch::Off,
        receive_checksum: Switch::Absent,
        ..ALL_ON
    };
    let datagram = Host { offloads: off, ..Host::with(ib("ib0", 0, 0, 4092), "mlx5_core", 2) };
    let mends: Vec<_> = datagram.advice().into_iter().map(|advice| advice.mend).collect();
    assert_eq!(mends, ["ethtool -K ib0 tso on", "ethtool -K ib0 gro on"]);
    // The hardware's are of datagram mode only.
    let connected = only(&Host { offloads: off, ..tidy() });
    assert_eq!(
        (connected.cause, connected.mend.as_str()),
        (Cause::Offload, "ethtool -K ib0 gro on")
    );
}

#[test]
fn ethernet_counts_from_10_gigabits_on() {
    let with = |speed: &str| {
        let link = Link {
            hardware: libc::ARPHRD_ETHER,
            kind: None,
            ipoib: None,
            ..ib("eth0", 2, 0, 1500)
        };
        Host::with(link, "mlx5_core", 1).attribute("type", "1").attribute("speed", speed)
    };
    assert_eq!(with("10000").causes(), [Cause::OneReceiveQueue]);
    assert_eq!(with("1000").causes(), []);
    assert_eq!(with("-1").causes(), []);
}

#[test]
fn what_software_made_is_given_no_advice() {
    let link = Link { kind: Some("tun".to_owned()), ipoib: None, ..ib("ib0", 0x80, 0, 2044) };
    assert_eq!(Host::with(link, "none", 1).advice(), []);
}

/// After a bare `setns`, `/sys` shows another namespace's interface of that name.
#[test]
fn the_setup_of_another_namespaces_interface_is_not_read() {
    let host = tidy().attribute("ifindex", "8");
    let setup = host.setup();
    assert!(setup.receive_queues.is_empty() && setup.interrupts.is_empty(), "{setup:?}");
    assert_eq!(setup.near.to_string(), "0-7");
}

#[test]
fn the_windows_of_tcp_are_read() {
    let host = tidy()
        .file("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456")
        .file("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304")
        .file("proc/sys/net/ipv4/tcp_adv_win_scale", "2");
    let buffers = tcp_buffers(host.root());
    assert_eq!((buffers.receive, buffers.send), (Some(6 << 20), Some(4 << 20)));
    assert_eq!(buffers.receive_window(), Some((6 << 20) / 4 * 3));
    assert_eq!(tcp_buffers(Path::new("/no/such/root")), Default::default());
}
