//! What could be set better on an interface: what was found, why it matters, and what mends it.
//!
//! Of IPoIB always; of Ethernet only where the link is so fast that it counts. Nothing is said of
//! interfaces that software makes, emulated ones included: what they lack, no setting gives them.

use std::fmt;

use crate::interface::{Backing, Interface, Ipoib, Kind, Mode};
use crate::offloads::{Offloads, Switch};
use crate::setup::{Interrupt, Setup};
use crate::shell::word;

mod window;

pub use window::{Window, window};

/// The MTU of connected mode, in bytes (`IPOIB_CM_MTU` of the kernel's ipoib.h).
const CONNECTED_MTU: u32 = 65_520;
/// The MTU of datagram mode on a fabric of MTU 4096, in bytes: less the 4 of IPoIB's header
/// (RFC 4391).
const DATAGRAM_MTU: u32 = 4_092;
/// Of a partition key: its holder speaks to all of the partition, not to full members only
/// (InfiniBand Architecture Specification, volume 1, 10.9, "Partitioning").
const FULL_MEMBER: u16 = 0x8000;
/// The speed of an Ethernet link, in Mb/s, from which a processor that takes each packet by itself
/// is the limit: at 10 Gb/s one of 1,538 B on the wire comes every 1.2 us.
const FAST_ETHERNET: u32 = 10_000;

/// One thing that stands in the way of an interface's full speed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
pub struct Advice {
    /// The interface.
    pub interface: String,
    /// Which of the things that are known here.
    pub cause: Cause,
    /// What was found, in words.
    pub found: String,
    /// Why it matters, in words.
    pub matters: String,
    /// What mends it: the command, where there is one.
    pub mend: String,
}

/// What can stand in an interface's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Cause {
    /// Datagram mode where connected mode is possible.
    DatagramMode,
    /// A small MTU in connected mode.
    ConnectedMtu,
    /// A small MTU where datagram mode is all there is.
    DatagramMtu,
    /// A partition key of limited membership.
    LimitedMember,
    /// An offload that is off.
    Offload,
    /// One receive queue, whose packets one processor takes.
    OneReceiveQueue,
    /// Interrupts of several queues that one processor takes.
    InterruptsTogether,
    /// Interrupts on another NUMA node than the device's.
    InterruptsFar,
    /// TCP's windows are too small for the rate and the round trip.
    TcpWindow,
}

/// `ib0: MTU 2044 in datagram mode; connected mode is possible ...: echo connected > ...`.
impl fmt::Display for Advice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, found, matters, mend, .. } = self;
        write!(formatter, "{interface}: {found}; {matters}: {mend}")
    }
}

/// Says what stands in the way of the interface's full speed; nothing if nothing does that is known
/// here. `setup` is the interface's, if it could be read.
pub fn advice(interface: &Interface, setup: Option<&Setup>) -> Vec<Advice> {
    let Backing::Physical { .. } = interface.backing else { return Vec::new() };
    let mut found = Vec::new();
    if let Kind::Ipoib(ipoib) = &interface.kind {
        found.extend(mode_and_mtu(interface, ipoib));
        found.extend(membership(interface, ipoib, setup));
    }
    let counts = match interface.kind {
        Kind::Ipoib(_) => true,
        Kind::Ethernet => interface.speed_mbps.is_some_and(|speed| speed >= FAST_ETHERNET),
        Kind::Loopback | Kind::Other(_) => false,
    };
    if let Some(setup) = setup.filter(|_| counts) {
        found.extend(setup.offloads.iter().flat_map(|offloads| off(interface, offloads)));
        found.extend(one_queue(interface, setup));
        found.extend(interrupts(interface, setup));
    }
    found
}

fn of(
    interface: &Interface,
    cause: Cause,
    found: String,
    matters: impl Into<String>,
    mend: String,
) -> Advice {
    Advice { interface: interface.name.clone(), cause, found, matters: matters.into(), mend }
}

/// Documentation/infiniband/ipoib.rst, "Datagram vs Connected modes".
fn mode_and_mtu(interface: &Interface, ipoib: &Ipoib) -> Option<Advice> {
    let Interface { name, mtu, .. } = interface;
    let file = word(&format!("/sys/class/net/{name}/mode"));
    let name = word(name);
    match (ipoib.mode, ipoib.connected_possible) {
        (Some(Mode::Connected), _) if *mtu < CONNECTED_MTU => Some(of(
            interface,
            Cause::ConnectedMtu,
            format!("connected mode with an MTU of {mtu}"),
            "it can send fewer, larger packets",
            format!("ip link set {name} mtu {CONNECTED_MTU}, on both hosts"),
        )),
        (Some(Mode::Datagram), Some(true)) => Some(of(
            interface,
            Cause::DatagramMode,
            format!("datagram mode with an MTU of {mtu}"),
            "connected mode is possible, and often faster for large messages",
            format!(
                "echo connected > {file} && ip link set {name} mtu \
                 {CONNECTED_MTU}, on both hosts"
            ),
        )),
        (Some(Mode::Datagram), Some(false)) if *mtu < DATAGRAM_MTU => Some(of(
            interface,
            Cause::DatagramMtu,
            format!(
                "an MTU of {mtu}, and a driver that offers datagram mode only (enhanced IPoIB)"
            ),
            format!("an MTU of {DATAGRAM_MTU} halves the packets"),
            format!(
                "give the partition an MTU of 4096 in the subnet manager (OpenSM's \
                 partitions.conf: mtu=5), then ip link set {name} mtu {DATAGRAM_MTU}, on both hosts"
            ),
        )),
        _ => None,
    }
}

fn membership(interface: &Interface, ipoib: &Ipoib, setup: Option<&Setup>) -> Option<Advice> {
    let key = ipoib.pkey.filter(|key| key & FULL_MEMBER == 0)?;
    let child = setup.and_then(|setup| setup.parent.as_ref());
    let of_port = child.map_or_else(String::new, |parent| format!(", on the port of {parent}"));
    Some(of(
        interface,
        Cause::LimitedMember,
        format!("the partition key 0x{key:04x} of a limited member{of_port}"),
        "two limited members of a partition cannot reach one another",
        format!(
            "make this port a full member of the partition 0x{:04x} in the subnet manager \
             (OpenSM's partitions.conf: =full)",
            key | FULL_MEMBER
        ),
    ))
}

/// Documentation/infiniband/ipoib.rst, "Stateless offloads": of datagram mode only, but for what the
/// kernel does by itself.
fn off(interface: &Interface, offloads: &Offloads) -> Vec<Advice> {
    let is_connected =
        matches!(interface.kind, Kind::Ipoib(Ipoib { mode: Some(Mode::Connected), .. }));
    let Offloads {
        segmentation,
        generic_segmentation,
        generic_receive,
        transmit_checksum,
        receive_checksum,
    } = *offloads;
    let each_packet = "each packet then goes through the stack by itself";
    let each_byte = "a processor then reads every byte once more";
    [
        (segmentation, "tso", "segmentation by the hardware (TSO)", each_packet, false),
        (generic_segmentation, "gso", "generic segmentation (GSO)", each_packet, true),
        (generic_receive, "gro", "joining of what arrives (GRO)", each_packet, true),
        (transmit_checksum, "tx", "checksums by the hardware of what is sent", each_byte, false),
        (receive_checksum, "rx", "checksums by the hardware of what arrives", each_byte, false),
    ]
    .into_iter()
    .filter(|(switch, .., software)| *switch == Switch::Off && (*software || !is_connected))
    .map(|(_, option, name, why, _)| {
        let name = format!("{name} is off");
        let mend = format!("ethtool -K {} {option} on", word(&interface.name));
        of(interface, Cause::Offload, name, why, mend)
    })
    .collect()
}

/// Documentation/networking/scaling.rst, "RPS: Receive Packet Steering": for a device with one queue,
/// to the processors of its own node.
fn one_queue(interface: &Interface, setup: &Setup) -> Option<Advice> {
    // What has no interrupts of its own (a bond, a VLAN) has its packets from what has.
    if setup.interrupts.is_empty() || setup.near.count() < 2 {
        return None;
    }
    let [queue] = setup.receive_queues.as_slice() else { return None };
    queue.processors.as_ref().filter(|processors| processors.is_empty())?;
    Some(of(
        interface,
        Cause::OneReceiveQueue,
        "one receive queue, whose packets are not spread over processors (RPS is off)".to_owned(),
        "one processor takes what arrives on all connections",
        format!(
            "echo {} > {} (processors {})",
            setup.near.mask(),
            word(&format!("/sys/class/net/{}/queues/rx-0/rps_cpus", interface.name)),
            setup.near
        ),
    ))
}

/// Documentation/networking/scaling.rst, "RSS: Receive Side Scaling", and
/// Documentation/core-api/irq/irq-affinity.rst.
fn interrupts(interface: &Interface, setup: &Setup) -> Vec<Advice> {
    let busy: Vec<_> = setup.interrupts.iter().filter(|interrupt| interrupt.count > 0).collect();
    let mend = |which: &[&Interrupt]| {
        let numbers: Vec<_> = which.iter().map(|interrupt| interrupt.number.to_string()).collect();
        format!(
            "for irq in {}; do echo {} > /proc/irq/$irq/smp_affinity_list; done, and keep \
             irqbalance from undoing it",
            numbers.join(" "),
            setup.near
        )
    };
    let mut found = Vec::new();
    let far: Vec<_> = busy
        .iter()
        .copied()
        .filter(|interrupt| interrupt.processors().is_some_and(|by| by.are_apart_from(&setup.near)))
        .collect();
    if let Some(node) = setup.numa_node
        && let Some(first) = far.first()
        && let Some(taken_by) = first.processors()
    {
        found.push(of(
            interface,
            Cause::InterruptsFar,
            format!(
                "{} of its device's {} interrupts in use are on processors of another NUMA node \
                 than the device's, {node}: {} on {taken_by}",
                far.len(),
                busy.len(),
                first.number
            ),
            "what arrives crosses between nodes before it is looked at",
            mend(&far),
        ));
    }
    let mut together = busy.iter().filter_map(|interrupt| interrupt.processors());
    if let Some(first) = together.next()
        && setup.receive_queues.len() > 1
        && busy.len() > 1
        && first.count() == 1
        && setup.near.count() > 1
        && together.all(|other| other == first)
    {
        found.push(of(
            interface,
            Cause::InterruptsTogether,
            format!("processor {first} takes all {} interrupts of its device", busy.len()),
            format!(
                "its {} receive queues are there to share the work",
                setup.receive_queues.len()
            ),
            format!(
                "give each of {} a processor of {} by /proc/irq/N/smp_affinity_list, or run \
                 irqbalance",
                busy.iter().map(|one| one.number.to_string()).collect::<Vec<_>>().join(", "),
                setup.near
            ),
        ));
    }
    found
}

#[cfg(test)]
mod tests;
