//! Which interface of this host and which of the peer make the path that a user names.

use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use crate::address::{Address, Scope};
use crate::error::Error;
use crate::interface::{Backing, Interface, Kind};
use crate::refusal;

/// What users write behind the `@`, as in `grpc@ipoib`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum PathName {
    /// `ipoib`: between interfaces of InfiniBand's hardware type.
    Ipoib,
    /// `ethernet`: between Ethernet interfaces.
    Ethernet,
    /// `loopback`: from this host to itself.
    Loopback,
    /// The name of a local interface.
    Named(String),
}

impl FromStr for PathName {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "ipoib" => Self::Ipoib,
            "ethernet" => Self::Ethernet,
            "loopback" => Self::Loopback,
            name => Self::Named(name.to_owned()),
        })
    }
}

impl fmt::Display for PathName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ipoib => "ipoib",
            Self::Ethernet => "ethernet",
            Self::Loopback => "loopback",
            Self::Named(name) => name,
        })
    }
}

/// A path: the two interfaces, and the address of each to bind and to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PathChoice {
    /// The interface here.
    pub local_interface: String,
    /// Its index, which is the scope of a link-local `remote_addr`.
    pub local_index: u32,
    /// Its address to connect from.
    pub local_addr: IpAddr,
    /// The interface there.
    pub remote_interface: String,
    /// Its address to connect to.
    pub remote_addr: IpAddr,
    /// Whether both addresses are in one subnet. If not, a route between them is hoped for:
    /// [`crate::route`] knows.
    pub on_link: bool,
    /// Whether an interface of either side is an emulated one.
    pub emulated: bool,
    /// Why this pair, in words.
    pub reason: String,
}

impl PathChoice {
    /// Whether the remote address says nothing without the interface to reach it by, as
    /// fe80::1 does: a socket address then needs `local_index` as its scope.
    pub fn remote_addr_needs_scope(&self) -> bool {
        match self.remote_addr {
            IpAddr::V4(_) => false,
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        }
    }

    /// The remote address with `port`, to connect to, and with its scope where it needs one.
    pub fn remote_socket_addr(&self, port: u16) -> SocketAddr {
        self.socket_addr(self.remote_addr, port)
    }

    /// The local address with `port` (0 for any), to bind to.
    pub fn local_socket_addr(&self, port: u16) -> SocketAddr {
        self.socket_addr(self.local_addr, port)
    }

    fn socket_addr(&self, ip: IpAddr, port: u16) -> SocketAddr {
        match ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, port, 0, self.local_index).into()
            }
            ip => SocketAddr::new(ip, port),
        }
    }
}

/// One pair of addresses on interfaces of one kind.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub local: &'a Interface,
    pub local_address: &'a Address,
    pub remote: &'a Interface,
    pub remote_address: &'a Address,
}

/// Why one pair is better than another. Compared from the first field to the last, the greater
/// the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Merit {
    /// In one subnet.
    on_link: bool,
    /// The control connection reaches the peer by the interface.
    carries_control: bool,
    /// The lesser backing of the two: 2 a device, 1 virtual, 0 emulated.
    backing: u8,
    /// The lower speed of the two, in Mb/s; 0 if one is unknown.
    speed: u32,
    order: Reverse<(u32, u32)>,
    /// The control connection reaches the peer by this very address, or one of its family.
    control_address: u8,
}

/// Chooses the pair of interfaces of the kind that `path` names, up on both sides, with
/// addresses of one family: in one subnet rather than routed; among those the one by which the
/// control connection reaches the peer (`hint`: the peer's address of it), then devices rather
/// than virtual rather than emulated links, then the faster, then the lowest index.
///
/// # Errors
///
/// [`Error::NoPath`], which says what was found on both sides and why it does not do, and
/// [`Error::NoInterface`] if a named interface does not exist here.
pub fn choose(
    local: &[Interface],
    remote: &[Interface],
    path: &PathName,
    hint: Option<IpAddr>,
) -> Result<PathChoice, Error> {
    if let PathName::Named(name) = path
        && !local.iter().any(|interface| interface.name == *name)
    {
        return Err(Error::NoInterface {
            name: name.clone(),
            known: local.iter().map(|interface| interface.name.clone()).collect(),
        });
    }

    let mut pairs: Vec<(Merit, Pair<'_>)> = pairs(local, remote, path)
        .filter(|pair| obstacle(pair, local, remote, hint).is_none())
        .map(|pair| (pair.merit(hint), pair))
        .collect();
    // Stable: among equals the kernel's order of addresses decides.
    pairs.sort_by_key(|(merit, _)| Reverse(*merit));

    let Some((merit, best)) = pairs.first() else {
        return Err(Error::NoPath(refusal::text(local, remote, path, hint)));
    };
    let next = pairs.iter().find(|(_, pair)| {
        pair.local.index != best.local.index || pair.remote.index != best.remote.index
    });
    Ok(PathChoice {
        local_interface: best.local.name.clone(),
        local_index: best.local.index,
        local_addr: best.local_address.ip,
        remote_interface: best.remote.name.clone(),
        remote_addr: best.remote_address.ip,
        on_link: merit.on_link,
        emulated: best.local.is_emulated() || best.remote.is_emulated(),
        reason: reason(*merit, best, next),
    })
}

/// All pairs of addresses on interfaces of the right kind that are up.
pub(crate) fn pairs<'a>(
    local: &'a [Interface],
    remote: &'a [Interface],
    path: &'a PathName,
) -> impl Iterator<Item = Pair<'a>> {
    let here = local.iter().filter(move |interface| interface.is_up() && is_of(path, interface));
    here.flat_map(move |local| {
        let there = remote.iter().filter(move |remote| remote.is_up() && are_alike(local, remote));
        there.flat_map(move |remote| {
            local.addresses.iter().flat_map(move |local_address| {
                remote.addresses.iter().map(move |remote_address| Pair {
                    local,
                    local_address,
                    remote,
                    remote_address,
                })
            })
        })
    })
}

/// Whether a local interface is what the path names.
pub(crate) fn is_of(path: &PathName, interface: &Interface) -> bool {
    match path {
        PathName::Ipoib => matches!(interface.kind, Kind::Ipoib(_)),
        PathName::Ethernet => interface.kind == Kind::Ethernet,
        PathName::Loopback => interface.kind == Kind::Loopback,
        PathName::Named(name) => interface.name == *name,
    }
}

/// Whether both are of one kind: a path is of InfiniBand only if both its ends are.
pub(crate) fn are_alike(one: &Interface, other: &Interface) -> bool {
    match (&one.kind, &other.kind) {
        (Kind::Ipoib(_), Kind::Ipoib(_)) => true,
        (one, other) => one == other,
    }
}

/// What keeps a pair from being a path.
pub(crate) fn obstacle(
    pair: &Pair<'_>,
    local: &[Interface],
    remote: &[Interface],
    hint: Option<IpAddr>,
) -> Option<Obstacle> {
    let (here, there) = (pair.local_address, pair.remote_address);
    if here.ip.is_ipv4() != there.ip.is_ipv4() {
        return Some(Obstacle::Family);
    }
    if pair.local.kind == Kind::Loopback {
        let another = hint.filter(|hint| !hint.is_loopback() && !owns(local, *hint));
        return match another {
            Some(hint) => Some(Obstacle::AnotherHost(hint)),
            None if here.ip != there.ip => Some(Obstacle::NotOneAddress),
            None => None,
        };
    }
    // The kernel delivers what goes to an address of its own by loopback. Docker's bridges
    // have one address on every host.
    if owns(local, there.ip) {
        return Some(Obstacle::OwnAddress(there.ip));
    }
    if owns(remote, here.ip) {
        return Some(Obstacle::OwnAddress(here.ip));
    }
    // All link-local subnets have one name, so only the user can know that it is one link.
    let link_local = here.scope != Scope::Global || there.scope != Scope::Global;
    if link_local && !(hint == Some(there.ip) && here.shares_subnet(there)) {
        return Some(Obstacle::LinkLocal(there.ip));
    }
    None
}

/// Why a pair is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    Family,
    AnotherHost(IpAddr),
    NotOneAddress,
    OwnAddress(IpAddr),
    LinkLocal(IpAddr),
}

fn owns(interfaces: &[Interface], ip: IpAddr) -> bool {
    interfaces.iter().any(|interface| interface.addresses.iter().any(|address| address.ip == ip))
}

impl Pair<'_> {
    fn merit(&self, hint: Option<IpAddr>) -> Merit {
        let remote = self.remote_address.ip;
        Merit {
            on_link: self.local_address.shares_subnet(self.remote_address),
            carries_control: hint
                .is_some_and(|hint| self.remote.addresses.iter().any(|address| address.ip == hint)),
            backing: backing(self.local).min(backing(self.remote)),
            speed: self.local.speed_mbps.min(self.remote.speed_mbps).unwrap_or_default(),
            order: Reverse((self.local.index, self.remote.index)),
            control_address: hint.map_or(0, |hint| {
                u8::from(hint.is_ipv4() == remote.is_ipv4()) + u8::from(hint == remote)
            }),
        }
    }
}

fn backing(interface: &Interface) -> u8 {
    match interface.backing {
        Backing::Physical { .. } => 2,
        Backing::Virtual { .. } => 1,
        Backing::Emulated { .. } => 0,
    }
}

/// Says what the best pair is, and what put it before the next.
fn reason(merit: Merit, best: &Pair<'_>, next: Option<&(Merit, Pair<'_>)>) -> String {
    let Pair { local, local_address, remote, remote_address } = best;
    let link = if local.kind == Kind::Loopback {
        "this host to itself".to_owned()
    } else if merit.on_link {
        format!("{local_address} and {remote_address} are in one subnet")
    } else {
        format!("{local_address} and {remote_address} are in no common subnet, but may be routed")
    };
    let ahead = match next {
        None => "no other pair would do".to_owned(),
        Some((lesser, pair)) => {
            let why = if merit.on_link != lesser.on_link {
                "which has no common subnet".to_owned()
            } else if merit.carries_control != lesser.carries_control {
                "which the control connection does not use".to_owned()
            } else if merit.backing != lesser.backing {
                "which has no hardware on both sides".to_owned()
            } else if merit.speed != lesser.speed {
                format!("at {} against {}", speed(merit.speed), speed(lesser.speed))
            } else {
                "as the one of lower index".to_owned()
            };
            format!("before {} to {}, {why}", pair.local.name, pair.remote.name)
        }
    };
    format!("{} to {}: {link}; {ahead}", local.name, remote.name)
}

fn speed(mbps: u32) -> String {
    if mbps == 0 { "unknown speed".to_owned() } else { format!("{mbps} Mb/s") }
}

#[cfg(test)]
mod tests;
