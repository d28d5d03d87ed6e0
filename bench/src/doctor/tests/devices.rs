//! Faults of devices, ports and what is between them and memory.

use super::*;
use Severity::{Advice, Problem, Unknown};

fn on(device: usize, name: &str) -> String {
    format!("{}/{name}", DEVICE[device])
}

/// What libibverbs sees of the RoCE port.
fn roce_port(host: &mut Host) -> &mut SeenPort {
    let devices = host.evidence.verbs.as_mut().unwrap();
    &mut devices[1].ports.as_mut().unwrap()[0]
}

#[test]
fn a_port_that_is_down_matters_if_no_other_is_up() {
    found(
        |host| done(host.file(&on(1, "ports/1/state"), "1: DOWN")),
        (Advice, Check::PortState, "mlx5_1 port 1"),
        &["down", "another port is active", "ip link set eth1 up"],
    );
    let both = after(|host| {
        host.file(&on(0, "ports/1/state"), "1: DOWN").file(&on(1, "ports/1/state"), "1: DOWN");
    });
    let problem =
        |finding: &&Finding| finding.severity == Problem && finding.check == Check::PortState;
    assert_eq!(both.iter().filter(problem).count(), 2, "{both:?}");
}

#[test]
fn a_port_without_a_subnet_manager_is_a_problem() {
    found(
        |host| done(host.file(&on(0, "ports/1/state"), "2: INIT")),
        (Problem, Check::PortState, "mlx5_0 port 1"),
        &["2: INIT", "no subnet manager", "systemctl start opensm"],
    );
}

#[test]
fn one_lane_of_four_is_a_problem() {
    found(
        |host| done(host.file(&on(0, "ports/1/rate"), "50 Gb/sec (1X HDR)")),
        (Problem, Check::PortLink, "mlx5_0 port 1"),
        &["one lane of four is up: 50 Gb/sec (1X HDR)", "replace the cable"],
    );
    // A port split in two, and one of Ethernet, have fewer by intention.
    assert_eq!(after(|host| done(host.file(&on(0, "ports/1/rate"), "100 Gb/sec (2X HDR)"))), []);
    assert_eq!(after(|host| done(host.file(&on(1, "ports/1/rate"), "25 Gb/sec (1X EDR)"))), []);
}

#[test]
fn a_link_slower_than_any_of_its_driver_is_told() {
    found(
        |host| done(host.file(&on(0, "ports/1/rate"), "10 Gb/sec (4X SDR)")),
        (Advice, Check::PortLink, "mlx5_0 port 1"),
        &["FDR at the least", "10 Gb/sec (4X SDR)"],
    );
    found(
        |host| done(host.file(&on(0, "ports/1/rate"), "fast")),
        (Unknown, Check::PortLink, "mlx5_0 port 1"),
        &["not shown as it is elsewhere"],
    );
}

#[test]
fn gids_of_version_one_or_of_the_link_only_are_told() {
    found(
        |host| {
            for index in 0..4 {
                host.file(&on(1, &format!("ports/1/gid_attrs/types/{index}")), "IB/RoCE v1");
            }
        },
        (Advice, Check::Gid, "mlx5_1 port 1"),
        &["GIDs of RoCE v1 only"],
    );
    found(
        |host| done(host.without(&on(1, "ports/1/gids/3"))),
        (Advice, Check::Gid, "mlx5_1 port 1"),
        &["link-local GIDs only", "ip address add ADDRESS/PREFIX dev eth1"],
    );
    found(
        |host| done(host.without(&on(1, "ports/1/gids"))),
        (Problem, Check::Gid, "mlx5_1 port 1"),
        &["no GID", "ip link set eth1 up"],
    );
    // iWARP has neither version.
    let iwarp = after(|host| {
        host.without(&on(1, "ports/1/gids")).file(&on(1, "node_type"), "4: RNIC");
    });
    assert_eq!(iwarp, []);
}

#[test]
fn mtus_that_do_not_fit_are_told() {
    let with = |active, netdev| {
        move |host: &mut Host| {
            roce_port(host).active_mtu = Some(active);
            host.evidence.interfaces[1].mtu = netdev;
        }
    };
    let roce = (Advice, Check::Mtu, "mlx5_1 port 1");
    found(with(1024, 1500), roce, &["4 times fewer packets", "ip link set eth1 mtu 4200"]);
    found(with(1024, 9000), roce, &["would fit the interface", "which has the driver look again"]);
    let lost = (Problem, Check::Mtu, "mlx5_1 port 1");
    found(with(4096, 1500), lost, &["do not fit the interface, and are lost"]);
    // 96 bytes of headers beside 4096.
    assert_eq!(after(with(4096, 4192)), []);
    let infiniband = (Advice, Check::Mtu, "mlx5_0 port 1");
    found(
        |host| {
            let devices = host.evidence.verbs.as_mut().unwrap();
            devices[0].ports.as_mut().unwrap()[0].active_mtu = Some(2048);
        },
        infiniband,
        &["path MTU 2048 of 4096"],
    );
    found(|host| roce_port(host).active_mtu = None, (Unknown, Check::Mtu, "mlx5_1 port 1"), &[]);
}

#[test]
fn a_narrow_slot_is_a_problem_where_it_carries_less_than_the_ports() {
    found(
        |host| done(host.file(&on(0, "device/current_link_width"), "8")),
        (Problem, Check::PcieLink, "mlx5_0"),
        &["x8 at 16 GT/s, of x16 at 16 GT/s", "it carries 126 Gb/s", "ports 200 Gb/s"],
    );
    found(
        |host| done(host.file(&on(1, "device/current_link_width"), "8")),
        (Advice, Check::PcieLink, "mlx5_1"),
        &["126 Gb/s, which is enough for the active ports' 100 Gb/s"],
    );
    found(
        |host| done(host.file(&on(0, "device/current_link_speed"), "8.0 GT/s PCIe")),
        (Problem, Check::PcieLink, "mlx5_0"),
        &["x16 at 8 GT/s, of x16 at 16 GT/s"],
    );
    // An adapter of generation 3 at its best, and still too little for the port.
    found(
        |host| {
            host.file(&on(0, "device/current_link_speed"), "8.0 GT/s PCIe")
                .file(&on(0, "device/max_link_speed"), "8.0 GT/s PCIe");
        },
        (Problem, Check::PcieLink, "mlx5_0"),
        &["mlx5_0: PCIe x16 at 8 GT/s [pcie-link]"],
    );
    found(
        |host| done(host.file(&on(0, "device/current_link_speed"), "Unknown")),
        (Unknown, Check::PcieLink, "mlx5_0"),
        &["not known to the kernel"],
    );
}

#[test]
fn the_link_of_a_virtual_function_is_that_of_the_physical_one() {
    found(
        |host| {
            for (name, value) in [("speed", "16.0 GT/s PCIe"), ("width", "8")] {
                host.file(&on(0, &format!("device/current_link_{name}")), "Unknown")
                    .file(&on(0, &format!("device/max_link_{name}")), "Unknown")
                    .file(&on(0, &format!("device/physfn/current_link_{name}")), value)
                    .file(&on(0, &format!("device/physfn/max_link_{name}")), value);
            }
        },
        (Problem, Check::PcieLink, "mlx5_0"),
        &["PCIe x8 at 16 GT/s", "device/physfn/current_link_speed"],
    );
}

#[test]
fn translation_by_the_iommu_is_told() {
    for kind in ["DMA", "DMA-FQ"] {
        found(
            |host| done(host.file(&on(0, "device/iommu_group/type"), kind)),
            (Advice, Check::Iommu, "mlx5_0"),
            &[kind, "iommu=pt"],
        );
    }
}

#[test]
fn a_process_that_may_not_run_near_its_device_is_a_problem() {
    let found = after(|host| {
        host.file("proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-3");
    });
    assert_eq!(found.len(), 2, "{found:?}");
    for (finding, device) in found.iter().zip(["mlx5_0", "mlx5_1"]) {
        assert_eq!((finding.severity, finding.check), (Problem, Check::NumaNode));
        assert_eq!(finding.subject, device);
    }
    assert!(text(&found).contains("numactl --cpunodebind=1"));
    let unknown = after(|host| done(host.file(&on(0, "device/numa_node"), "-1")));
    assert_eq!((unknown.len(), unknown[0].severity), (1, Unknown), "{unknown:?}");
}

/// As on a machine without an adapter, one whose adapter has no driver, and in a container.
#[test]
fn devices_that_programs_cannot_reach_are_problems() {
    let no_device = |host: &mut Host| {
        host.without("sys/class/infiniband").without("sys/class/infiniband_verbs");
        host.evidence.verbs = Err("no RDMA device".to_owned());
    };
    found(
        no_device,
        (Problem, Check::Device, "host"),
        &["no RDMA device", "modprobe ib_uverbs, and load", "modprobe rdma_rxe"],
    );
    found(
        |host| {
            no_device(host);
            host.file("sys/bus/pci/devices/0000:3b:00.0/class", "0x020700");
        },
        (Problem, Check::Device, "host"),
        &["an InfiniBand adapter (0000:3b:00.0)", "modprobe mlx5_ib"],
    );
    let hidden = |host: &mut Host| {
        let devices = host.evidence.verbs.as_mut().unwrap();
        devices.remove(1);
        host.file(&on(1, "node_type"), "4: RNIC");
    };
    found(
        |host| {
            hidden(host);
            host.without("dev/infiniband/uverbs1");
        },
        (Problem, Check::UserVerbs, "mlx5_1"),
        &["/dev/infiniband/uverbs1 is not here", "--device=/dev/infiniband"],
    );
    found(
        |host| {
            hidden(host);
            host.without("sys/class/infiniband_verbs");
        },
        (Problem, Check::UserVerbs, "mlx5_1"),
        &["modprobe ib_uverbs"],
    );
    found(hidden, (Problem, Check::Device, "mlx5_1"), &["ibverbs-providers"]);
    found(
        |host| {
            let devices = host.evidence.verbs.as_mut().unwrap();
            devices[1].ports = Err("permission denied on /dev/infiniband/uverbs1".to_owned());
            host.file(&on(1, "node_type"), "4: RNIC");
        },
        (Problem, Check::Device, "mlx5_1"),
        &["permission denied on /dev/infiniband/uverbs1"],
    );
    found(
        |host| done(host.without("dev/infiniband/rdma_cm")),
        (Advice, Check::UserVerbs, "host"),
        &["modprobe rdma_ucm"],
    );
    found(
        |host| done(host.file("proc/self/maps", "7f00-7f01 r-xp 0 08:01 7 /usr/bin/fabricbench")),
        (Problem, Check::RdmaCore, "host"),
        &["libibverbs is not here", "apt-get install libibverbs1"],
    );
}

/// What software makes has neither slot nor lanes.
#[test]
fn nothing_is_asked_of_the_hardware_of_an_emulated_device() {
    let emulated = after(|host| {
        roce_port(host).emulated = true;
        host.file(&on(1, "device/current_link_width"), "1")
            .file(&on(1, "device/iommu_group/type"), "DMA")
            .file(&on(1, "device/numa_node"), "-1");
    });
    assert_eq!(emulated, []);
}
