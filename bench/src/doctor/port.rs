//! Ports: whether they are active, and whether all lanes carry at full speed.

use super::{
    device::{Device, Port},
    evidence::Evidence,
    finding::{Check, Finding},
};

/// Per lane less than FDR's 14 Gb/s (`rate` of Documentation/ABI/stable/sysfs-class-infiniband).
const BEFORE_FDR: [&str; 4] = ["SDR", "DDR", "QDR", "FDR10"];

pub(super) fn check(evidence: &Evidence, devices: &[Device]) -> Vec<Finding> {
    let ports = || devices.iter().flat_map(|device| &device.ports);
    let any_active = ports().any(Port::is_active);
    let mut found: Vec<_> = ports().map(|port| state(evidence, port, any_active)).collect();
    for device in devices.iter().filter(|device| !device.emulated) {
        found.extend(device.ports.iter().filter_map(|port| link(device, port)));
    }
    found
}

fn state(evidence: &Evidence, port: &Port, any_active: bool) -> Finding {
    let source = format!("{}/state", port.path);
    let text = evidence.tree.text(&source).unwrap_or_default();
    let on_ethernet = port.infiniband == Some(false);
    match port.state {
        Some(4 | 5) => {
            let rate = port.rate.as_deref().unwrap_or("rate unknown");
            Finding::fine(Check::PortState, port.subject(), format!("active, {rate}"), source)
        }
        // Without a subnet manager a port of InfiniBand stays there, its link up (InfiniBand
        // Architecture Specification, volume 1, 14.3.5, "PortState").
        Some(2 | 3) if !on_ethernet => Finding::problem(
            Check::PortState,
            port.subject(),
            format!("{text}: its link is up, and no subnet manager has configured it"),
            source,
        )
        .because(
            "nothing passes through it",
            "start a subnet manager on one host (systemctl start opensm) or on the switch; sminfo \
             shows whether one answers",
        ),
        Some(state @ 1..=3) => {
            let netdev = evidence.seen_port(&port.device, port.number);
            let netdev = netdev.and_then(|seen| seen.netdev.as_deref()).unwrap_or("NETDEV");
            let mend = if on_ethernet {
                format!(
                    "ip link set {netdev} up; then ethtool {netdev}: `Link detected: no` is a cable"
                )
            } else {
                "check the cable and the switch's port: ibstat shows the physical state".to_owned()
            };
            let seen = if state == 1 { "down".to_owned() } else { text };
            if any_active {
                Finding::advice(Check::PortState, port.subject(), seen, source).because(
                    "nothing passes through it; another port is active",
                    format!("if it should be in use: {mend}"),
                )
            } else {
                Finding::problem(Check::PortState, port.subject(), seen, source)
                    .because("no port is active: nothing can be measured over verbs", mend)
            }
        }
        _ => Finding::unknown(Check::PortState, port.subject(), "the state is not shown", source),
    }
}

/// A port of Ethernet has the lanes of its speed; what InfiniBand is made for is known.
fn link(device: &Device, port: &Port) -> Option<Finding> {
    if !port.is_active() || port.infiniband != Some(true) {
        return None;
    }
    let source = format!("{}/rate", port.path);
    let Some((_, lanes, speed)) = port.link() else {
        let why = "the rate is not shown as it is elsewhere";
        return Some(Finding::unknown(Check::PortLink, port.subject(), why, source));
    };
    let seen = port.rate.clone().unwrap_or_default();
    let replace = "reseat or replace the cable, then look at the switch's port (iblinkinfo shows both \
                   ends; mlxlink -d DEVICE the reason)";
    // Ports are 1X, 2X, 4X, 8X or 12X wide (InfiniBand Architecture Specification, volume 2), those
    // of QSFP and OSFP cages 4X. A port split in two (HDR100, NDR200) is 2X by intention.
    Some(if lanes == 1 {
        Finding::problem(
            Check::PortLink,
            port.subject(),
            format!("one lane of four is up: {seen}"),
            source,
        )
        .because("a quarter of the bandwidth, or less", replace)
    } else if device.driver.as_deref() == Some("mlx5_core") && BEFORE_FDR.contains(&speed) {
        Finding::advice(
            Check::PortLink,
            port.subject(),
            format!("slower than any adapter of its driver is made for (FDR at the least): {seen}"),
            source,
        )
        .because("the link is the limit, and not the adapter", replace)
    } else {
        Finding::fine(Check::PortLink, port.subject(), seen, source)
    })
}
