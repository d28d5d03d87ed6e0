//! Judgement of links and sysfs trees that are made up after the kernel's documentation
//! (Documentation/ABI/testing/sysfs-class-net, Documentation/infiniband/ipoib.rst): none is a
//! recording, as the machines of this project's authors have no InfiniBand.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::link::IpoibData;

/// A link of a device, up, as most tests need it.
fn link(name: &str, index: u32, hardware: u16) -> Link {
    Link {
        name: name.to_owned(),
        index,
        hardware,
        flags: libc::IFF_UP as u32,
        mtu: 1500,
        operational: IF_OPER_UP,
        carrier: true,
        ..Link::default()
    }
}

fn ethernet(name: &str, index: u32) -> Link {
    link(name, index, libc::ARPHRD_ETHER)
}

fn of_kind(kind: &str, link: Link) -> Link {
    Link { kind: Some(kind.to_owned()), ..link }
}

/// An IPoIB link as kernels from 4.19 on show it, with a hardware address whose first octet
/// is `flags`.
fn ib(name: &str, index: u32, flags: u8) -> Link {
    let mut hardware_address = vec![0x11; 20];
    hardware_address[0] = flags;
    let link = link(name, index, libc::ARPHRD_INFINIBAND);
    Link { hardware_address, ..of_kind("ipoib", link) }
}

/// A directory as `/sys/class/net`.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The directory of `link`, with the files by which it is known to be of that link.
    fn with(self, link: &Link) -> Self {
        let address: Vec<_> =
            link.hardware_address.iter().map(|byte| format!("{byte:02x}")).collect();
        self.file(&link.name, "ifindex", &link.index.to_string())
            .file(&link.name, "type", &link.hardware.to_string())
            .file(&link.name, "address", &address.join(":"))
    }

    fn file(self, interface: &str, attribute: &str, value: &str) -> Self {
        let path = self.0.path().join(interface).join(attribute);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
        self
    }

    fn driver(self, interface: &str, driver: &str) -> Self {
        let device = self.0.path().join(interface).join("device");
        fs::create_dir_all(&device).unwrap();
        symlink(format!("../../../bus/pci/drivers/{driver}"), device.join("driver")).unwrap();
        self
    }

    fn describe(&self, links: &[Link]) -> Vec<Interface> {
        describe(links, &[], self.0.path())
    }
}

fn one(interfaces: Vec<Interface>) -> Interface {
    assert_eq!(interfaces.len(), 1);
    interfaces.into_iter().next().unwrap()
}

fn backing_of(links: &[Link], name: &str) -> Backing {
    let interfaces = Tree::new().describe(links);
    interfaces.into_iter().find(|interface| interface.name == name).unwrap().backing
}

#[test]
fn an_ipoib_interface_with_all_that_the_kernel_tells() {
    let data = IpoibData { pkey: Some(0x8001), mode: Some(1), umcast: Some(1) };
    let ib0 = Link { ipoib: Some(data), ..ib("ib0", 7, 0x80) };
    let tree = Tree::new()
        .with(&ib0)
        .driver("ib0", "mlx4_core")
        .file("ib0", "device/infiniband/mlx4_0/ports/2/rate", "56 Gb/sec (4X FDR)")
        .file("ib0", "dev_port", "1")
        .file("ib0", "speed", "-1");
    let interface = one(tree.describe(&[ib0]));
    let Kind::Ipoib(ipoib) = &interface.kind else { panic!("{interface:?}") };
    assert_eq!(ipoib.mode, Some(Mode::Connected));
    assert_eq!(ipoib.connected_possible, Some(true));
    assert_eq!(ipoib.pkey, Some(0x8001));
    assert_eq!(ipoib.umcast, Some(true));
    assert_eq!(ipoib.parent, Some(RdmaPort { device: "mlx4_0".to_owned(), port: 2 }));
    assert_eq!(interface.backing, Backing::Physical { driver: Some("mlx4_core".to_owned()) });
    assert_eq!(interface.speed_mbps, Some(56_000), "the port's rate, as the speed is unknown");
    assert_eq!(interface.to_string(), "ib0 (IPoIB, connected mode, up)");
}

#[test]
fn a_kernel_before_4_19_tells_by_sysfs_only() {
    let ib0 = Link { kind: None, ..ib("ib0", 7, 0x80) };
    let tree = Tree::new()
        .with(&ib0)
        .file("ib0", "mode", "datagram")
        .file("ib0", "pkey", "0xffff")
        .file("ib0", "umcast", "0")
        .file("ib0", "device/infiniband/mlx4_0/node_type", "1: CA")
        .file("ib0", "dev_id", "0x0")
        .file("ib0", "speed", "40000");
    let interface = one(tree.describe(&[ib0]));
    let expected = Ipoib {
        mode: Some(Mode::Datagram),
        connected_possible: Some(true),
        pkey: Some(0xffff),
        umcast: Some(false),
        parent: Some(RdmaPort { device: "mlx4_0".to_owned(), port: 1 }),
    };
    assert_eq!(interface.kind, Kind::Ipoib(expected));
    assert!(!interface.is_emulated());
    assert_eq!(interface.speed_mbps, Some(40_000));
}

#[test]
fn a_tun_device_of_infinibands_type_is_emulated() {
    let ib0 = of_kind("tun", link("ib0", 2, libc::ARPHRD_INFINIBAND));
    let tree =
        Tree::new().with(&ib0).file("ib0", "tun_flags", "0x1001").file("ib0", "speed", "10000");
    let interface = one(tree.describe(&[ib0]));
    assert!(interface.is_emulated());
    assert_eq!(interface.kind, Kind::Ipoib(Ipoib::default()));
    assert_eq!(interface.speed_mbps, None, "tun states a speed that it does not have");
    assert_eq!(interface.to_string(), "ib0 (IPoIB, up, emulated by tun)");
}

#[test]
fn two_rdma_devices_behind_one_interface_are_not_guessed_between() {
    let ib0 = ib("ib0", 7, 0);
    let tree = Tree::new()
        .with(&ib0)
        .file("ib0", "dev_port", "0")
        .file("ib0", "device/infiniband/mlx5_0/node_type", "1: CA")
        .file("ib0", "device/infiniband/mlx5_1/node_type", "1: CA");
    let Kind::Ipoib(ipoib) = one(tree.describe(&[ib0])).kind else { panic!("no IPoIB") };
    assert_eq!(ipoib.parent, None);
}

#[test]
fn the_directory_of_another_namespaces_interface_is_not_read() {
    let ours = Link { hardware_address: vec![2, 0, 0, 0, 0, 1], ..ethernet("eth0", 4) };
    let others = [
        Link { index: 5, ..ours.clone() },
        Link { hardware_address: vec![2, 0, 0, 0, 0, 2], ..ours.clone() },
        Link { hardware: libc::ARPHRD_INFINIBAND, ..ours.clone() },
    ];
    let speed = |shown: &Link| {
        let tree = Tree::new().with(shown).file("eth0", "speed", "25000");
        one(tree.describe(std::slice::from_ref(&ours))).speed_mbps
    };
    assert_eq!(speed(&ours), Some(25_000));
    for other in &others {
        assert_eq!(speed(other), None, "{other:?}");
    }
}

#[test]
fn speeds_that_are_none_are_absent() {
    for speed in ["-1", "0", "", "4294967295000", "fast"] {
        let eth0 = ethernet("eth0", 2);
        let tree = Tree::new().with(&eth0).file("eth0", "speed", speed);
        assert_eq!(one(tree.describe(&[eth0])).speed_mbps, None, "{speed:?}");
    }
}

#[test]
fn what_is_stacked_on_a_device_is_physical() {
    let master = |index, link| Link { master: Some(index), ..link };
    let lower = |index, link| Link { lower: Some(index), ..link };
    let physical = |kind: &str| Backing::Physical { driver: Some(kind.to_owned()) };

    let bond = [
        master(9, ethernet("eth0", 2)),
        master(9, ethernet("eth1", 3)),
        of_kind("bond", ethernet("bond0", 9)),
        lower(9, of_kind("vlan", ethernet("bond0.100", 10))),
    ];
    assert_eq!(backing_of(&bond, "bond0"), physical("bond"));
    assert_eq!(backing_of(&bond, "bond0.100"), physical("vlan"));

    let ipoib =
        [master(9, ib("ib0", 2, 0x80)), of_kind("bond", link("bond0", 9, libc::ARPHRD_INFINIBAND))];
    assert_eq!(backing_of(&ipoib, "bond0"), physical("bond"), "a bond of IPoIB is no emulation");
}

#[test]
fn what_stands_on_software_alone_is_virtual() {
    let is_virtual = |kind: &str| Backing::Virtual { kind: kind.to_owned() };
    let docker = [
        ethernet("eth0", 2),
        of_kind("bridge", ethernet("docker0", 3)),
        Link { master: Some(3), ..of_kind("veth", ethernet("veth1", 4)) },
    ];
    assert_eq!(backing_of(&docker, "docker0"), is_virtual("bridge"));
    assert_eq!(backing_of(&docker, "veth1"), is_virtual("veth"));

    let pair = [
        Link { lower: Some(3), ..of_kind("veth", ethernet("v0", 2)) },
        Link { lower: Some(2), ..of_kind("veth", ethernet("v1", 3)) },
    ];
    assert_eq!(backing_of(&pair, "v0"), is_virtual("veth"), "a ring has an end");

    let vlan = [
        of_kind("dummy", ethernet("dummy0", 2)),
        Link { lower: Some(2), ..of_kind("vlan", ethernet("dummy0.1", 3)) },
    ];
    assert_eq!(backing_of(&vlan, "dummy0.1"), is_virtual("vlan"));
}

#[test]
fn loopback_and_others_are_told_by_their_hardware_type() {
    let kinds = [
        (libc::ARPHRD_LOOPBACK, Kind::Loopback),
        (libc::ARPHRD_ETHER, Kind::Ethernet),
        (libc::ARPHRD_NONE, Kind::Other(libc::ARPHRD_NONE)),
    ];
    for (hardware, kind) in kinds {
        // A name says nothing.
        assert_eq!(one(Tree::new().describe(&[link("ib0", 1, hardware)])).kind, kind);
    }
    let lo = one(Tree::new().describe(&[link("lo", 1, libc::ARPHRD_LOOPBACK)]));
    assert_eq!(lo.backing, Backing::Virtual { kind: "loopback".to_owned() });
}

#[test]
fn only_a_link_that_is_ready_is_up() {
    const DORMANT: u8 = 5;
    const OPER_DOWN: u8 = 2;
    let up = libc::IFF_UP as u32;
    let cases = [
        (up, IF_OPER_UP, true, State::Up),
        (up, IF_OPER_UNKNOWN, true, State::Up),
        (up, IF_OPER_UNKNOWN, false, State::NoCarrier),
        (up, OPER_DOWN, false, State::NoCarrier),
        (up, DORMANT, true, State::NoCarrier),
        (0, OPER_DOWN, false, State::Down),
        (0, IF_OPER_UP, true, State::Down),
    ];
    for (flags, operational, carrier, expected) in cases {
        let link = Link { flags, operational, carrier, ..ethernet("eth0", 2) };
        assert_eq!(state(&link), expected, "{link:?}");
    }
}

#[test]
fn addresses_are_given_to_their_interfaces_which_are_sorted() {
    let address = |ip: &str| Address {
        ip: ip.parse().unwrap(),
        prefix: 24,
        scope: crate::address::Scope::Global,
    };
    let (one, two, three) = (address("10.0.0.1"), address("10.0.1.1"), address("10.0.0.2"));
    let links = [ethernet("eth1", 3), ethernet("eth0", 2)];
    let tree = Tree::new();
    let interfaces = describe(&links, &[(2, one), (3, two), (2, three)], tree.0.path());
    assert_eq!(interfaces[0].addresses, [one, three]);
    assert_eq!(interfaces[1].addresses, [two]);
}
