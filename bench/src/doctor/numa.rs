//! Where a device is among the nodes of a machine, and whether this process may run there.

use fabricbench_ipoib::Processors;

use super::{
    device::Device,
    evidence::Evidence,
    finding::{Check, Finding},
    tree::Tree,
};

const NODES: &str = "/sys/devices/system/node";
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
pub(super) const STATUS: &str = "/proc/self/status";

pub(super) fn check(evidence: &Evidence, devices: &[Device]) -> Vec<Finding> {
    let tree = &evidence.tree;
    let nodes = tree.numbered(NODES, "node").len();
    let real = devices.iter().filter(|device| !device.emulated);
    let mut found: Vec<_> = real.filter_map(|device| node(tree, device, nodes)).collect();
    if nodes > 1 {
        found.extend(balancing(tree, nodes));
    }
    found
}

fn node(tree: &Tree, device: &Device, nodes: usize) -> Option<Finding> {
    let source = format!("{}/device/numa_node", device.path);
    let node: i64 = tree.value(&source)?;
    let name = device.name.as_str();
    if node < 0 {
        if nodes < 2 {
            return None;
        }
        let why = format!("the firmware does not say on which of {nodes} NUMA nodes it is");
        return Some(Finding::unknown(Check::NumaNode, name, why, source));
    }
    let list = |path: &str| Processors::from_list(&tree.text(path)?);
    let near = list(&format!("{NODES}/node{node}/cpulist")).filter(|near| !near.is_empty());
    let allowed = status_line(tree, "Cpus_allowed_list:");
    let allowed = allowed.and_then(|allowed| Processors::from_list(&allowed));
    Some(match (near, allowed) {
        (Some(near), Some(allowed)) if allowed.are_apart_from(&near) => Finding::problem(
            Check::NumaNode,
            name,
            format!(
                "it is on NUMA node {node} (processors {near}), and this process may run on {allowed} \
                 only"
            ),
            format!("{source}, {STATUS}"),
        )
        .because(
            "each access to the device and its memory crosses between nodes",
            format!(
                "numactl --cpunodebind={node}; of a container or a job, ask for processors of that node \
                 (Slurm: --cpu-bind, Kubernetes: the topology manager)"
            ),
        ),
        (near, _) => {
            let near = near.map_or_else(String::new, |near| format!(" (processors {near})"));
            Finding::fine(Check::NumaNode, name, format!("NUMA node {node}{near}"), source)
        }
    })
}

/// A line of this process's status, less its name.
pub(super) fn status_line(tree: &Tree, name: &str) -> Option<String> {
    let status = tree.text(STATUS)?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}

/// Documentation/admin-guide/sysctl/kernel.rst, "numa_balancing": pages are unmapped to see who
/// touches them. tuned's profile network-latency switches it off.
fn balancing(tree: &Tree, nodes: usize) -> Option<Finding> {
    let mode: u32 = tree.value(BALANCING)?;
    Some(if mode == 0 {
        Finding::fine(Check::NumaBalancing, "host", "off", BALANCING)
    } else {
        Finding::advice(Check::NumaBalancing, "host", format!("on, over {nodes} nodes"), BALANCING)
            .because(
                "the kernel takes pages away for a moment to see who uses them: some messages wait for \
                 a page fault",
                "sysctl -w kernel.numa_balancing=0",
            )
    })
}
