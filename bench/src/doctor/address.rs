//! GIDs of RoCE ports, which are the addresses of the interface behind them
//! (Documentation/ABI/stable/sysfs-class-infiniband: `gids`, `gid_attrs/types`).

use std::net::Ipv6Addr;

use fabricbench_ipoib::shell::word;

use super::{
    device::{Device, Port},
    evidence::Evidence,
    finding::{Check, Finding},
};

/// A slot of a table that is in use.
struct Entry {
    index: u32,
    gid: Ipv6Addr,
    second_version: bool,
}

pub(super) fn check(evidence: &Evidence, devices: &[Device]) -> Vec<Finding> {
    let adapters = devices.iter().filter(|device| device.channel_adapter);
    let ports = adapters.flat_map(|device| &device.ports);
    let on_ethernet = ports.filter(|port| port.is_active() && port.infiniband == Some(false));
    on_ethernet.map(|port| of_port(evidence, port)).collect()
}

fn entries(evidence: &Evidence, port: &Port) -> Vec<Entry> {
    let tree = &evidence.tree;
    let entry = |index: u32| {
        let gid: Ipv6Addr = tree.value(&format!("{}/gids/{index}", port.path))?;
        let kind = tree.text(&format!("{}/gid_attrs/types/{index}", port.path)).unwrap_or_default();
        let second_version = kind.eq_ignore_ascii_case("RoCE v2");
        (!gid.is_unspecified()).then_some(Entry { index, gid, second_version })
    };
    let indices = tree.numbered(&format!("{}/gids", port.path), "");
    indices.into_iter().filter_map(entry).collect()
}

fn of_port(evidence: &Evidence, port: &Port) -> Finding {
    let source = format!("{}/gids", port.path);
    let seen = evidence.seen_port(&port.device, port.number);
    let netdev =
        seen.and_then(|seen| seen.netdev.as_deref()).map_or_else(|| "NETDEV".to_owned(), word);
    let entries = entries(evidence, port);
    let second: Vec<_> = entries.iter().filter(|entry| entry.second_version).collect();
    let routable = |entry: &&&Entry| !entry.gid.is_unicast_link_local();
    let subject = port.subject();
    let source_of_types = format!("{}/gid_attrs/types", port.path);
    if entries.is_empty() {
        Finding::problem(Check::Gid, subject, "no GID", source).because(
            "no queue pair can be connected",
            format!("ip link set {netdev} up && ip address add ADDRESS/PREFIX dev {netdev}"),
        )
    } else if second.is_empty() {
        Finding::advice(Check::Gid, subject, "GIDs of RoCE v1 only", source_of_types).because(
            "routers do not pass it on: both hosts have to be on one Ethernet segment",
            "use an adapter, driver and firmware that have RoCE v2",
        )
    } else if let Some(entry) = second.iter().find(routable) {
        let seen = format!("RoCE v2 at index {} ({})", entry.index, shown(entry.gid));
        Finding::fine(Check::Gid, subject, seen, source_of_types)
    } else {
        Finding::advice(Check::Gid, subject, "link-local GIDs only", source).because(
            "only hosts on the same Ethernet segment are reached",
            format!("ip address add ADDRESS/PREFIX dev {netdev}"),
        )
    }
}

/// As people write it: `::ffff:10.1.2.3` is RoCE's form of an IPv4 address.
fn shown(gid: Ipv6Addr) -> String {
    gid.to_ipv4_mapped().map_or_else(|| gid.to_string(), |address| address.to_string())
}
