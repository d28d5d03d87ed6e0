//! What could be set better on an IPoIB interface.

use crate::interface::{Interface, Ipoib, Kind, Mode};

/// The MTU of connected mode, in bytes (`IPOIB_CM_MTU` of the kernel's ipoib.h).
const CONNECTED_MTU: u32 = 65_520;
/// The MTU of datagram mode on a fabric of MTU 4096, in bytes: less the 4 of IPoIB's header
/// (RFC 4391).
const DATAGRAM_MTU: u32 = 4_092;

/// Says what stands in the way of the interface's full speed; `None` if nothing does that is
/// known here, as of an emulated interface, which has no mode.
pub fn advice(interface: &Interface) -> Option<String> {
    let Interface { name, mtu, .. } = interface;
    let Kind::Ipoib(Ipoib { mode, connected_possible, .. }) = &interface.kind else { return None };
    match (mode, connected_possible) {
        (Some(Mode::Connected), _) if *mtu < CONNECTED_MTU => Some(format!(
            "{name} is in connected mode with an MTU of {mtu}: ip link set {name} mtu \
             {CONNECTED_MTU} on both hosts lets it send fewer, larger packets"
        )),
        (Some(Mode::Datagram), Some(true)) => Some(format!(
            "{name} is in datagram mode with an MTU of {mtu}: connected mode is possible, and \
             often faster for large messages (echo connected > /sys/class/net/{name}/mode and ip \
             link set {name} mtu {CONNECTED_MTU}, on both hosts)"
        )),
        (Some(Mode::Datagram), Some(false)) if *mtu < DATAGRAM_MTU => Some(format!(
            "{name} has an MTU of {mtu} and its driver offers datagram mode only (enhanced \
             IPoIB): if the subnet manager gives the partition an MTU of 4096, {DATAGRAM_MTU} is \
             possible"
        )),
        _ => None,
    }
}
