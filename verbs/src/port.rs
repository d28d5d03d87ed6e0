//! Ports: link layer, state, MTU, speed. Every value the C header calls an enum is kept as the
//! integer it is, since drivers are newer than headers.

use std::fmt;

use crate::sys;

/// What a device's port is, found out from the device and never from an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An InfiniBand port of an adapter.
    InfiniBand,
    /// An Ethernet port of an adapter that speaks RoCE.
    Roce,
    /// RoCE done by the kernel (the `rdma_rxe` driver), without an adapter.
    SoftRoce,
    /// iWARP, by an adapter or by the kernel (`siw`).
    Iwarp,
    /// Something else, such as a vendor's own transport.
    Other,
}

impl Kind {
    /// The name used in reports: `infiniband`, `roce`, `soft-roce`, `iwarp`, `other`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InfiniBand => "infiniband",
            Self::Roce => "roce",
            Self::SoftRoce => "soft-roce",
            Self::Iwarp => "iwarp",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `ibv_port_attr.link_layer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkLayer(pub u8);

impl LinkLayer {
    /// Old drivers leave the field 0, which means InfiniBand for an InfiniBand transport.
    pub const UNSPECIFIED: Self = Self(0);
    /// `IBV_LINK_LAYER_INFINIBAND`.
    pub const INFINIBAND: Self = Self(1);
    /// `IBV_LINK_LAYER_ETHERNET`.
    pub const ETHERNET: Self = Self(2);
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UNSPECIFIED => f.write_str("unspecified"),
            Self::INFINIBAND => f.write_str("InfiniBand"),
            Self::ETHERNET => f.write_str("Ethernet"),
            Self(other) => write!(f, "link layer {other}"),
        }
    }
}

/// `ibv_port_attr.state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortState(pub u32);

impl PortState {
    /// `IBV_PORT_ACTIVE`: traffic can flow.
    pub const ACTIVE: Self = Self(4);
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "no state change",
            1 => "down",
            2 => "initializing",
            3 => "armed",
            4 => "active",
            5 => "active (deferred)",
            other => return write!(f, "state {other}"),
        })
    }
}

/// A path MTU, ordered by size: the code of `enum ibv_mtu`, where code 1 is 256 bytes and each
/// next one doubles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mtu(u8);

impl Mtu {
    /// 1024 bytes, the largest that fits a 1500-byte Ethernet frame.
    pub const B1024: Self = Self(3);
    /// 4096 bytes, the largest InfiniBand defines.
    pub const B4096: Self = Self(5);

    /// From the code of `enum ibv_mtu`; a code beyond a 64 KiB packet is none.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        u8::try_from(code).ok().filter(|code| (1..=9).contains(code)).map(Self)
    }

    /// From bytes: one of 256, 512, 1024, 2048, 4096.
    #[must_use]
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        (1..=5).map(Self).find(|mtu| mtu.bytes() == bytes)
    }

    /// Payload bytes of one packet.
    #[must_use]
    pub fn bytes(self) -> u32 {
        128 << self.0
    }

    /// The code of `enum ibv_mtu`.
    #[must_use]
    pub fn code(self) -> u32 {
        u32::from(self.0)
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

/// One port as it was when it was queried.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Port {
    /// The device's name.
    pub device: String,
    /// The port's number, from 1.
    pub number: u8,
    /// What it is.
    pub kind: Kind,
    /// Whether the kernel emulates the device over an ordinary interface.
    pub emulated: bool,
    /// InfiniBand or Ethernet.
    pub link_layer: LinkLayer,
    /// Down, active, ...
    pub state: PortState,
    /// The path MTU in force on the link, if the driver gives a known code.
    pub active_mtu: Option<Mtu>,
    /// The largest path MTU the port can be set to.
    pub max_mtu: Option<Mtu>,
    /// Largest message in bytes.
    pub max_message: u32,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Slots of the GID table.
    pub gid_slots: u32,
    /// Signalling rate in Gb/s (10^9 bits), lanes times speed; `None` if the driver gives a
    /// width or speed this crate does not know. For soft-RoCE it says little about the wire.
    pub gigabits: Option<f64>,
    /// The network interface behind the port, if there is one and sysfs or the GID table
    /// names it.
    pub netdev: Option<String>,
}

impl Port {
    /// Whether traffic can flow.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == PortState::ACTIVE
    }

    /// Whether the port runs on Ethernet, and so addresses peers by GID alone.
    #[must_use]
    pub fn is_ethernet(&self) -> bool {
        self.link_layer == LinkLayer::ETHERNET
    }
}

/// Gb/s of a link: `ibv_port_attr.active_width` and the speed, which newer libraries give in
/// `active_speed_ex` when it does not fit eight bits. Speeds as the kernel's `rate` attribute
/// counts them.
pub(crate) fn gigabits(attr: &sys::ibv_port_attr) -> Option<f64> {
    let lanes = match attr.active_width {
        1 => 1.0,
        2 => 4.0,
        4 => 8.0,
        8 => 12.0,
        16 => 2.0,
        _ => return None,
    };
    let speed =
        if attr.active_speed_ex != 0 { attr.active_speed_ex } else { attr.active_speed.into() };
    let lane = match speed {
        1 => 2.5,
        2 => 5.0,
        4 | 8 => 10.0,
        16 => 14.0,
        32 => 25.0,
        64 => 50.0,
        128 => 100.0,
        256 => 200.0,
        _ => return None,
    };
    Some(lanes * lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Zeroed;

    #[test]
    fn mtu_codes_are_powers_of_two_from_256() {
        let bytes: Vec<u32> = (1..=5).filter_map(Mtu::from_code).map(Mtu::bytes).collect();
        assert_eq!(bytes, [256, 512, 1024, 2048, 4096]);
        assert_eq!(Mtu::from_bytes(1024), Some(Mtu::B1024));
        assert_eq!(Mtu::from_bytes(1500), None);
        assert_eq!(Mtu::from_code(0), None);
        assert_eq!(Mtu::from_code(77), None);
        assert!(Mtu::B1024 < Mtu::B4096);
    }

    #[test]
    fn rate_is_lanes_times_speed_and_absent_when_unknown() {
        let mut attr = sys::ibv_port_attr::zeroed();
        assert_eq!(gigabits(&attr), None);
        (attr.active_width, attr.active_speed) = (2, 32);
        assert_eq!(gigabits(&attr), Some(100.0));
        (attr.active_width, attr.active_speed) = (2, 128);
        assert_eq!(gigabits(&attr), Some(400.0));
        (attr.active_speed, attr.active_speed_ex) = (0, 256);
        assert_eq!(gigabits(&attr), Some(800.0));
        attr.active_speed_ex = 3;
        assert_eq!(gigabits(&attr), None);
    }

    #[test]
    fn values_newer_than_the_header_have_a_name() {
        assert_eq!(PortState(99).to_string(), "state 99");
        assert_eq!(LinkLayer(7).to_string(), "link layer 7");
    }
}
