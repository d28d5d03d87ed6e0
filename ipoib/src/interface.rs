//! Network interfaces: what each is, what stands behind it, and whether it can carry traffic.

use std::fmt;
use std::path::Path;

use crate::address::Address;
use crate::error::Error;
use crate::link::{self, Link};
use crate::netlink::Kernel;
use crate::sysfs::Directory;

/// Where the kernel shows its interfaces' attributes.
pub const SYSFS_NET: &str = "/sys/class/net";

/// RFC 4755's flag, in the first octet of an IPoIB hardware address, of an interface that
/// takes reliable connections (`IPOIB_FLAGS_RC` of the kernel's ipoib.h).
const RELIABLE_CONNECTIONS: u8 = 0x80;

/// Floors searched below an interface: more than a VLAN on a bridge on a VLAN on a bond has.
const TALLEST_STACK: usize = 8;

// RFC 2863's operational states, as <linux/if.h> numbers them.
const IF_OPER_UNKNOWN: u8 = 0;
const IF_OPER_UP: u8 = 6;

/// A network interface of one network namespace at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Interface {
    /// Its name, such as `ib0`.
    pub name: String,
    /// The kernel's number for it in its namespace.
    pub index: u32,
    /// What kind of link it is.
    pub kind: Kind,
    /// What stands behind it.
    pub backing: Backing,
    /// Whether it can carry traffic.
    pub state: State,
    /// The largest IP packet it takes, in bytes.
    pub mtu: u32,
    /// Its speed in Mb/s (10^6 bits). Absent where no hardware states one: the drivers of
    /// veth and tun state 10,000 of a link that has no speed.
    pub speed_mbps: Option<u32>,
    /// The addresses that one can bind to, in the kernel's order.
    pub addresses: Vec<Address>,
}

/// The kind of a link, by its hardware type (`ARPHRD_*`), never by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Kind {
    /// IP over InfiniBand (ARPHRD_INFINIBAND, 32).
    Ipoib(Ipoib),
    /// Ethernet (ARPHRD_ETHER, 1), also as spoken by RDMA devices.
    Ethernet,
    /// The loopback interface (ARPHRD_LOOPBACK, 772).
    Loopback,
    /// Another, with its ARPHRD number.
    Other(u16),
}

/// What is particular to an IPoIB interface. Absent is what the kernel did not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ipoib {
    /// How it carries IP packets.
    pub mode: Option<Mode>,
    /// Whether it could be in connected mode: its hardware address says so. Drivers that
    /// accelerate IPoIB ("enhanced" IPoIB of mlx5, ConnectX-4 and later) offer datagram mode
    /// only.
    pub connected_possible: Option<bool>,
    /// Its partition key.
    pub pkey: Option<u16>,
    /// Whether it passes unicast packets in multicast frames on (`umcast`).
    pub umcast: Option<bool>,
    /// The RDMA device and port under it.
    pub parent: Option<RdmaPort>,
}

/// How an IPoIB interface carries IP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Mode {
    /// As unreliable datagrams: MTU of at most the fabric's, less 4 bytes.
    Datagram,
    /// Over reliable connections: MTU of up to 65,520 bytes.
    Connected,
}

/// A port of an RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RdmaPort {
    /// The device's name, such as `mlx5_0`.
    pub device: String,
    /// The port, counted from 1.
    pub port: u32,
}

/// What stands behind an interface, as far as its namespace shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Backing {
    /// A device, or something stacked on one: a bond, VLAN or bridge with a device under it.
    Physical {
        /// The device's driver, such as `mlx5_core`; for what is stacked, its kind.
        driver: Option<String>,
    },
    /// Software only, such as a bridge of containers, or one end of a veth pair. Where its
    /// packets go from there cannot be seen: a pod's veth may lead to a real network.
    Virtual {
        /// The kind that the kernel states: `veth`, `bridge`, `dummy`.
        kind: String,
    },
    /// Software that passes itself off as InfiniBand: of its hardware type, but neither of the
    /// kernel's IPoIB driver nor on anything that is.
    Emulated {
        /// The kind that the kernel states, such as `tun`.
        kind: String,
    },
}

/// Whether an interface can carry traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum State {
    /// It can.
    Up,
    /// It is set up, but has no carrier, or something under it is not ready.
    NoCarrier,
    /// It is set down.
    Down,
}

/// The interfaces of the calling thread's network namespace, in the order of their indices.
///
/// # Errors
///
/// When the kernel does not answer.
pub fn interfaces() -> Result<Vec<Interface>, Error> {
    interfaces_with(Path::new(SYSFS_NET))
}

/// As [`interfaces`], with the attributes that only sysfs has read below `sysfs` instead of
/// [`SYSFS_NET`].
///
/// # Errors
///
/// When the kernel does not answer. Attributes that cannot be read are absent.
pub fn interfaces_with(sysfs: &Path) -> Result<Vec<Interface>, Error> {
    let failed =
        |source| Error::Kernel { what: "the list of network interfaces".to_owned(), source };
    let mut kernel = Kernel::open().map_err(failed)?;
    let links = link::links(&mut kernel).map_err(failed)?;
    let addresses = link::addresses(&mut kernel).map_err(failed)?;
    Ok(describe(&links, &addresses, sysfs))
}

/// Judges what the kernel said.
pub(crate) fn describe(
    links: &[Link],
    addresses: &[(u32, Address)],
    sysfs: &Path,
) -> Vec<Interface> {
    let mut interfaces: Vec<_> = links
        .iter()
        .map(|link| {
            let directory = Directory::of(sysfs, link);
            let directory = directory.as_ref();
            let kind = kind(link, directory);
            let backing = backing(link, links, directory);
            let port = match &kind {
                Kind::Ipoib(ipoib) => ipoib.parent.as_ref(),
                _ => None,
            };
            let speed_mbps = match backing {
                Backing::Physical { .. } => directory.and_then(|directory| directory.speed(port)),
                Backing::Virtual { .. } | Backing::Emulated { .. } => None,
            };
            Interface {
                name: link.name.clone(),
                index: link.index,
                kind,
                backing,
                state: state(link),
                mtu: link.mtu,
                speed_mbps,
                addresses: addresses
                    .iter()
                    .filter(|(index, _)| *index == link.index)
                    .map(|(_, address)| *address)
                    .collect(),
            }
        })
        .collect();
    interfaces.sort_by_key(|interface| interface.index);
    interfaces
}

fn kind(link: &Link, directory: Option<&Directory>) -> Kind {
    match link.hardware {
        libc::ARPHRD_INFINIBAND => Kind::Ipoib(ipoib(link, directory)),
        libc::ARPHRD_ETHER => Kind::Ethernet,
        libc::ARPHRD_LOOPBACK => Kind::Loopback,
        other => Kind::Other(other),
    }
}

/// Netlink first; kernels before 4.19 tell it of child interfaces only, and sysfs of all.
fn ipoib(link: &Link, directory: Option<&Directory>) -> Ipoib {
    let told = link.ipoib.unwrap_or_default();
    let text = |attribute| directory.and_then(|directory| directory.text(attribute));
    let mode = match told.mode {
        Some(0) => Some(Mode::Datagram),
        Some(1) => Some(Mode::Connected),
        _ => match text("mode").as_deref() {
            Some("datagram") => Some(Mode::Datagram),
            Some("connected") => Some(Mode::Connected),
            _ => None,
        },
    };
    let pkey = told.pkey.or_else(|| {
        let text = text("pkey")?;
        u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    });
    let umcast = told.umcast.map(u32::from).or_else(|| text("umcast")?.parse().ok());
    let flags = link.hardware_address.first();
    Ipoib {
        mode,
        connected_possible: flags.map(|flags| flags & RELIABLE_CONNECTIONS != 0),
        pkey,
        umcast: umcast.map(|value| value != 0),
        parent: directory.and_then(Directory::rdma_port),
    }
}

/// The kernel states a kind for links that software made and for IPoIB; the driver of a device
/// states none.
fn backing(link: &Link, links: &[Link], directory: Option<&Directory>) -> Backing {
    let driver = directory.and_then(Directory::driver);
    match &link.kind {
        _ if link.hardware == libc::ARPHRD_LOOPBACK => {
            Backing::Virtual { kind: "loopback".to_owned() }
        }
        None => Backing::Physical { driver },
        Some(kind) if kind == "ipoib" => Backing::Physical { driver },
        Some(kind) if stands_on_a_device(link, links, TALLEST_STACK) => {
            Backing::Physical { driver: Some(kind.clone()) }
        }
        Some(kind) if link.hardware == libc::ARPHRD_INFINIBAND => {
            Backing::Emulated { kind: kind.clone() }
        }
        Some(kind) => Backing::Virtual { kind: kind.clone() },
    }
}

/// Whether anything under `link`, at most `depth` floors down, is a device. The bound is needed:
/// the ends of a veth pair name each other.
fn stands_on_a_device(link: &Link, links: &[Link], depth: usize) -> bool {
    let under = |lower: &&Link| {
        lower.index != link.index
            && (lower.master == Some(link.index) || link.lower == Some(lower.index))
    };
    let is_device = |lower: &Link| {
        lower.hardware != libc::ARPHRD_LOOPBACK
            && lower.kind.as_deref().is_none_or(|kind| kind == "ipoib")
    };
    depth > 0
        && links
            .iter()
            .filter(under)
            .any(|lower| is_device(lower) || stands_on_a_device(lower, links, depth - 1))
}

fn state(link: &Link) -> State {
    if link.flags & libc::IFF_UP as u32 == 0 {
        return State::Down;
    }
    match link.operational {
        IF_OPER_UP => State::Up,
        // Loopback and many virtual links never state more than their carrier.
        IF_OPER_UNKNOWN if link.carrier => State::Up,
        _ => State::NoCarrier,
    }
}

impl Interface {
    /// Whether it passes itself off as hardware that it is not. Figures taken over it say
    /// nothing about such hardware, and are to be labelled as emulated.
    pub fn is_emulated(&self) -> bool {
        matches!(self.backing, Backing::Emulated { .. })
    }

    /// Whether it can carry traffic.
    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }
}

/// In a few words: `ib0 (IPoIB, connected mode, up, emulated by tun)`.
impl fmt::Display for Interface {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}", self.name, self.kind)?;
        if let Kind::Ipoib(Ipoib { mode: Some(mode), .. }) = &self.kind {
            write!(formatter, ", {mode} mode")?;
        }
        write!(formatter, ", {}", self.state)?;
        match &self.backing {
            Backing::Physical { .. } => {}
            Backing::Virtual { .. } if self.kind == Kind::Loopback => {}
            Backing::Virtual { kind } => write!(formatter, ", virtual: {kind}")?,
            Backing::Emulated { kind } => write!(formatter, ", emulated by {kind}")?,
        }
        formatter.write_str(")")
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipoib(_) => formatter.write_str("IPoIB"),
            Self::Ethernet => formatter.write_str("Ethernet"),
            Self::Loopback => formatter.write_str("loopback"),
            Self::Other(arphrd) => write!(formatter, "ARPHRD {arphrd}"),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Datagram => "datagram",
            Self::Connected => "connected",
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Up => "up",
            Self::NoCarrier => "no carrier",
            Self::Down => "down",
        })
    }
}

#[cfg(test)]
mod tests;
