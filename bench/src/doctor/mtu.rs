//! MTUs of ports, and of the interfaces behind them.

use fabricbench_ipoib::{Kind, Mode, shell::word};

use super::{
    device::{Device, Port},
    evidence::{Evidence, SeenPort},
    finding::{Check, Finding},
};

/// What RoCE's headers take of the interface's MTU, in bytes: the kernel's `iboe_get_mtu`
/// (include/rdma/ib_addr.h) leaves room for GRH 40, UDP 8, BTH 12, XRC 4, atomics 28, ICRC 4.
const ROCE_HEADERS: u32 = 96;
/// The largest path MTU of InfiniBand, in bytes.
const LARGEST: u32 = 4096;
/// A network interface's MTU, in bytes, at which RoCE's is the largest, as administrators round it.
const ENOUGH: u32 = 4200;
/// What IPoIB's header takes of InfiniBand's MTU in datagram mode, in bytes (RFC 4391).
const IPOIB_HEADER: u32 = 4;

const SOURCE: &str = "ibv_query_port";

pub(super) fn check(evidence: &Evidence, devices: &[Device]) -> Vec<Finding> {
    let adapters = devices.iter().filter(|device| device.channel_adapter);
    let ports = adapters.flat_map(|device| &device.ports).filter(|port| port.is_active());
    let mut found = Vec::new();
    for port in ports {
        let seen = evidence.seen_port(&port.device, port.number);
        let Some((seen, active)) = seen.and_then(|seen| Some((seen, seen.active_mtu?))) else {
            let why = "libibverbs does not tell the MTU";
            found.push(Finding::unknown(Check::Mtu, port.subject(), why, SOURCE));
            continue;
        };
        match port.infiniband {
            Some(false) => found.push(roce(evidence, port, seen, active)),
            _ => {
                found.push(infiniband(port, seen, active));
                found.extend(datagram(evidence, port, active));
            }
        }
    }
    found
}

fn roce(evidence: &Evidence, port: &Port, seen: &SeenPort, active: u32) -> Finding {
    let subject = port.subject();
    let Some(netdev) = seen.netdev.as_deref().and_then(|name| evidence.interface(name)) else {
        let why = format!("path MTU {active}; the interface behind it is not known");
        return Finding::unknown(Check::Mtu, subject, why, SOURCE);
    };
    let seen = format!("path MTU {active}, over {} with an MTU of {}", netdev.name, netdev.mtu);
    let source = format!("{SOURCE}, /sys/class/net/{}/mtu", netdev.name);
    let mend = format!(
        "ip link set {} mtu {ENOUGH} (or 9000), on both hosts and the switch between them",
        word(&netdev.name)
    );
    if netdev.mtu < active {
        Finding::problem(Check::Mtu, subject, seen, source)
            .because("packets of the path MTU do not fit the interface, and are lost", mend)
    } else if active >= LARGEST {
        Finding::fine(Check::Mtu, subject, seen, source)
    } else if netdev.mtu >= LARGEST + ROCE_HEADERS {
        Finding::advice(Check::Mtu, subject, seen, source).because(
            "a path MTU of 4096 would fit the interface, and take fewer packets",
            format!(
                "ip link set {0} down && ip link set {0} up, which has the driver look again",
                word(&netdev.name)
            ),
        )
    } else {
        Finding::advice(Check::Mtu, subject, seen, source).because(
            format!(
                "a path MTU of 4096 would take {} times fewer packets",
                LARGEST / active.max(1)
            ),
            mend,
        )
    }
}

fn infiniband(port: &Port, seen: &SeenPort, active: u32) -> Finding {
    match seen.max_mtu {
        Some(max) if active < max => Finding::advice(
            Check::Mtu,
            port.subject(),
            format!("path MTU {active} of {max}"),
            SOURCE,
        )
        .because(
            "messages take more packets than they need to",
            "look for the port on the way that has the smaller one: ibv_devinfo on the hosts, \
             smpquery portinfo LID PORT of the switches (NeighborMTU)",
        ),
        _ => Finding::fine(Check::Mtu, port.subject(), format!("path MTU {active}"), SOURCE),
    }
}

/// Interfaces of IPoIB on the port whose packets could be larger.
fn datagram(evidence: &Evidence, port: &Port, active: u32) -> Vec<Finding> {
    let largest = active.saturating_sub(IPOIB_HEADER);
    let on_port = evidence.interfaces.iter().filter(|interface| match &interface.kind {
        Kind::Ipoib(ipoib) => {
            ipoib.mode == Some(Mode::Datagram)
                // Where connected mode is possible, that is what is told.
                && ipoib.connected_possible == Some(false)
                && ipoib.parent.as_ref().is_some_and(|parent| {
                    parent.device == port.device && parent.port == port.number
                })
        }
        _ => false,
    });
    on_port
        .filter(|interface| interface.mtu < largest)
        // What could not be more on a fabric of 4096 is told with the advice on interfaces.
        .filter(|_| active < LARGEST)
        .map(|interface| {
            Finding::advice(
                Check::Mtu,
                &interface.name,
                format!(
                    "MTU {} in datagram mode, on a port with a path MTU of {active}",
                    interface.mtu
                ),
                format!("/sys/class/net/{}/mtu, {SOURCE}", interface.name),
            )
            .because(
                "IP packets are smaller than the fabric carries",
                format!("ip link set {} mtu {largest}, on both hosts", word(&interface.name)),
            )
        })
        .collect()
}
