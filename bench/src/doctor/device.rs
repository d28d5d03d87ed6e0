//! RDMA devices and their ports, as `/sys/class/infiniband` shows them
//! (Documentation/ABI/stable/sysfs-class-infiniband), and whether programs can reach them.

use super::{
    evidence::Evidence,
    finding::{Check, Finding},
    tree::Tree,
};

pub(super) const CLASS: &str = "/sys/class/infiniband";
const NODES: &str = "/dev/infiniband";
const USER_VERBS: &str = "/sys/class/infiniband_verbs";
const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// "InfiniBand controller" of the PCI Code and ID Assignment Specification, 1.3, as `class` shows it
/// without the last two digits.
const INFINIBAND_CONTROLLER: &str = "0x0207";

/// An RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    pub name: String,
    /// `/sys/class/infiniband/NAME`.
    pub path: String,
    /// Such as `mlx5_core`; absent of one that no bus has.
    pub driver: Option<String>,
    /// Whether the kernel does what an adapter would.
    pub emulated: bool,
    /// Whether it speaks InfiniBand or RoCE (`node_type` 1: a channel adapter), and not iWARP or what
    /// a vendor has of its own.
    pub channel_adapter: bool,
    pub ports: Vec<Port>,
}

/// A port of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    pub device: String,
    pub number: u32,
    /// `/sys/class/infiniband/NAME/ports/NUMBER`.
    pub path: String,
    /// Whether it is of InfiniBand and not Ethernet; absent if the kernel does not say.
    pub infiniband: Option<bool>,
    /// The first number of `state`: 1 down, 2 initializing, 3 armed, 4 active, 5 active with its
    /// changes deferred.
    pub state: Option<u32>,
    /// The rate as it is written, such as `100 Gb/sec (4X EDR)`.
    pub rate: Option<String>,
}

impl Port {
    pub fn subject(&self) -> String {
        format!("{} port {}", self.device, self.number)
    }

    pub fn is_active(&self) -> bool {
        matches!(self.state, Some(4 | 5))
    }

    /// Gb/s, lanes, and the name of the speed, from `100 Gb/sec (4X EDR)`.
    pub fn link(&self) -> Option<(f64, u32, &str)> {
        let (gigabits, rest) = self.rate.as_deref()?.split_once(" Gb/sec (")?;
        let (lanes, speed) = rest.strip_suffix(')')?.split_once("X ")?;
        let gigabits =
            gigabits.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)?;
        Some((gigabits, lanes.parse().ok()?, speed))
    }
}

/// All devices of sysfs, in the order of their names.
pub(super) fn devices(evidence: &Evidence) -> Vec<Device> {
    let tree = &evidence.tree;
    let device = |name: String| {
        let path = format!("{CLASS}/{name}");
        let numbers = tree.numbered(&format!("{path}/ports"), "");
        Device {
            driver: tree.target_name(&format!("{path}/device/driver")),
            emulated: evidence.is_emulated(&name),
            channel_adapter: tree
                .text(&format!("{path}/node_type"))
                .is_none_or(|kind| kind.starts_with("1:")),
            ports: numbers.into_iter().map(|number| port(tree, &name, number)).collect(),
            path,
            name,
        }
    };
    tree.names(CLASS).into_iter().map(device).collect()
}

fn port(tree: &Tree, device: &str, number: u32) -> Port {
    let path = format!("{CLASS}/{device}/ports/{number}");
    let text = |name: &str| tree.text(&format!("{path}/{name}"));
    let infiniband = text("link_layer").and_then(|layer| match layer.as_str() {
        "InfiniBand" => Some(true),
        "Ethernet" => Some(false),
        _ => None,
    });
    let state = text("state").and_then(|state| state.split(':').next()?.trim().parse().ok());
    Port { device: device.to_owned(), number, infiniband, state, rate: text("rate"), path }
}

/// Whether there are devices, and programs can use them.
pub(super) fn check(evidence: &Evidence, devices: &[Device]) -> Vec<Finding> {
    let tree = &evidence.tree;
    let mut found = vec![rdma_core(tree)];
    // In another network namespace sysfs hides devices that libibverbs has all the same.
    let seen_somewhere = evidence.verbs.as_ref().is_ok_and(|seen| !seen.is_empty());
    if devices.is_empty() && !seen_somewhere {
        found.push(no_device(tree));
        return found;
    }
    let seen_in_sysfs = devices.iter().map(|device| device.name.as_str());
    let mut names: Vec<_> =
        evidence.verbs.iter().flatten().map(|seen| seen.name.as_str()).collect();
    names.extend(seen_in_sysfs);
    names.sort_unstable();
    names.dedup();
    found.extend(names.iter().map(|name| reachable(evidence, name)));
    found.push(connection_manager(tree));
    found
}

/// The kernel's and libibverbs's version numbers say little; that of rdma-core is the last but one
/// part of the library's file name (`libibverbs.so.1.14.44.0`: rdma-core's CMakeLists.txt makes it
/// `1.14.${PACKAGE_VERSION}`).
fn rdma_core(tree: &Tree) -> Finding {
    const SOURCE: &str = "/proc/self/maps";
    let Some(maps) = tree.text(SOURCE) else {
        let why = "the kernel does not show which libraries are loaded";
        return Finding::unknown(Check::RdmaCore, "host", why, SOURCE);
    };
    let file =
        maps.lines().find_map(|line| line.split_once("/libibverbs.so.1")).map(|(_, end)| end);
    match file {
        None => Finding::problem(Check::RdmaCore, "host", "libibverbs is not here", SOURCE)
            .because(
                "without it there are no verbs",
                "install rdma-core: apt-get install libibverbs1 ibverbs-providers, or dnf install \
             libibverbs",
            ),
        Some(version) => {
            let parts: Vec<_> = version.trim_start_matches('.').splitn(2, '.').collect();
            match parts.as_slice() {
                [_, version] if !version.is_empty() => {
                    Finding::fine(Check::RdmaCore, "host", format!("rdma-core {version}"), SOURCE)
                }
                _ => Finding::unknown(
                    Check::RdmaCore,
                    "host",
                    "the name of libibverbs's file has no version",
                    SOURCE,
                ),
            }
        }
    }
}

fn no_device(tree: &Tree) -> Finding {
    if tree.names("/sys").is_empty() {
        return Finding::unknown(Check::Device, "host", "sysfs is not mounted here", CLASS);
    }
    let controller = tree.names(PCI_DEVICES).into_iter().find(|address| {
        let class = tree.text(&format!("{PCI_DEVICES}/{address}/class"));
        class.is_some_and(|class| class.starts_with(INFINIBAND_CONTROLLER))
    });
    match controller {
        Some(address) => Finding::problem(
            Check::Device,
            "host",
            format!(
                "an InfiniBand adapter ({address}) and no RDMA device: its driver is not loaded"
            ),
            format!("{PCI_DEVICES}/{address}/class"),
        )
        .because(
            "nothing can be measured over verbs",
            format!(
                "modprobe mlx5_ib (ConnectX-4 and later); lspci -k -s {address} names the driver"
            ),
        ),
        None => {
            // Loaded with a driver, where modules are not left out of an image.
            let verbs = match tree.names(USER_VERBS).is_empty() {
                true => "modprobe ib_uverbs, and load",
                false => "load",
            };
            Finding::problem(Check::Device, "host", "no RDMA device", CLASS).because(
                "nothing can be measured over verbs",
                format!(
                    "{verbs} the adapter's driver (modprobe mlx5_ib, irdma, bnxt_re, ...); without an adapter: \
                     modprobe rdma_rxe && rdma link add rxe0 type rxe netdev NETDEV"
                ),
            )
        }
    }
}

/// Whether this process can open a device.
fn reachable(evidence: &Evidence, name: &str) -> Finding {
    let tree = &evidence.tree;
    let node = tree.numbered(USER_VERBS, "uverbs").into_iter().find(|number| {
        tree.text(&format!("{USER_VERBS}/uverbs{number}/ibdev")).is_some_and(|of| of == name)
    });
    let seen = evidence.verbs.iter().flatten().find(|seen| seen.name == name);
    if let Some(Err(error)) = seen.map(|seen| &seen.ports) {
        return Finding::problem(Check::Device, name, error.clone(), "ibv_open_device")
            .because("nothing can be measured over it", "what the error says");
    }
    if seen.is_some() {
        let emulated = if evidence.is_emulated(name) { ", emulated by the kernel" } else { "" };
        return Finding::fine(Check::Device, name, format!("opens{emulated}"), "ibv_open_device");
    }
    let Some(number) = node else {
        return Finding::problem(
            Check::UserVerbs,
            name,
            "the kernel offers it to no program",
            USER_VERBS,
        )
        .because("nothing can be measured over it", "modprobe ib_uverbs");
    };
    let node = format!("{NODES}/uverbs{number}");
    if !tree.has(&node) {
        return Finding::problem(
            Check::UserVerbs,
            name,
            format!("{node} is not here"),
            node.clone(),
        )
        .because(
            "nothing can be measured over it",
            "in a container: --device=/dev/infiniband (Kubernetes: a device plugin); on a host: \
                 udevadm trigger",
        );
    }
    let why = evidence.verbs.as_ref().err().map_or("libibverbs does not list it", String::as_str);
    Finding::problem(Check::Device, name, why, "ibv_get_device_list").because(
        "nothing can be measured over it",
        "install the library of its driver: apt-get install ibverbs-providers, or dnf install \
         libibverbs",
    )
}

fn connection_manager(tree: &Tree) -> Finding {
    let node = format!("{NODES}/rdma_cm");
    if tree.has(&node) {
        return Finding::fine(Check::UserVerbs, "host", "rdma_cm is there", node);
    }
    Finding::advice(Check::UserVerbs, "host", format!("{node} is not here"), node).because(
        "queue pairs cannot be connected by rdma_cm (-R)",
        "modprobe rdma_ucm; in a container: --device=/dev/infiniband",
    )
}
