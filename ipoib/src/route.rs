//! Which way the kernel would send a packet, asked of the kernel: an address on ib0 can be
//! reached through eth0, and then a row that says ib0 would be false.

use std::io;
use std::net::IpAddr;

use crate::choice::PathChoice;
use crate::error::Error;
use crate::link;
use crate::netlink::{self, Kernel, Message};

/// `struct rtmsg`: family, two prefix lengths, tos, table, protocol, scope, type, flags (u32).
const ROUTE_HEADER: usize = 12;

/// The way of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Route {
    /// The interface it leaves by.
    pub interface: String,
    /// The source address it has, if none was asked for.
    pub source: Option<IpAddr>,
    /// The router it goes to first; absent if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Whether the destination is this host itself, reached by loopback.
    pub local: bool,
}

/// Asks the kernel for the way to `destination` from the address `source` (any, if absent), by
/// the interface `interface` if the socket will be bound to one.
///
/// # Errors
///
/// [`Error::NoRoute`] if the kernel knows no way, [`Error::NoInterface`] if there is no such
/// interface, [`Error::Kernel`] if it does not answer.
pub fn lookup(
    destination: IpAddr,
    source: Option<IpAddr>,
    interface: Option<&str>,
) -> Result<Route, Error> {
    let failed = |source| Error::Kernel { what: format!("the route to {destination}"), source };
    let mut kernel = Kernel::open().map_err(failed)?;
    let links = link::links(&mut kernel).map_err(failed)?;

    let mut question = question(destination, source);
    if let Some(name) = interface {
        let Some(link) = links.iter().find(|link| link.name == name) else {
            return Err(Error::NoInterface {
                name: name.to_owned(),
                known: links.into_iter().map(|link| link.name).collect(),
            });
        };
        question = question.with(libc::RTA_OIF, &link.index.to_ne_bytes());
    }
    let answer = kernel.get(question).map_err(|error| {
        // Kernels differ in the error they give for a source that is not theirs.
        let addresses = link::addresses(&mut kernel).unwrap_or_default();
        let is_foreign =
            source.is_some_and(|source| !addresses.iter().any(|(_, own)| own.ip == source));
        let cure = if is_foreign { "the source is no address of this host" } else { cure(&error) };
        Error::NoRoute { destination, source_address: source, cure, source: error }
    })?;
    let found = parse(&answer).ok_or_else(|| failed(io::Error::other("it has no interface")))?;
    let name = links.into_iter().find(|link| link.index == found.interface).map(|link| link.name);
    Ok(Route {
        interface: name.unwrap_or_else(|| format!("interface {}", found.interface)),
        source: found.source.or(source),
        gateway: found.gateway,
        local: found.local,
    })
}

/// Checks that the kernel would send from `choice.local_addr` to `choice.remote_addr` by
/// `choice.local_interface`, and returns the way. For sockets that are bound to the address;
/// one that is bound to the interface (SO_BINDTODEVICE) goes by it whatever this says.
///
/// # Errors
///
/// [`Error::OtherRoute`] if it would go another way, and those of [`lookup`].
pub fn check(choice: &PathChoice) -> Result<Route, Error> {
    // A link-local destination has a way only by a named interface.
    let interface = choice.remote_addr_needs_scope().then_some(choice.local_interface.as_str());
    let route = lookup(choice.remote_addr, Some(choice.local_addr), interface)?;
    if route.interface == choice.local_interface {
        return Ok(route);
    }
    Err(Error::OtherRoute(format!(
        "the kernel sends from {} on {} to {} by {}{}: {}",
        choice.local_addr,
        choice.local_interface,
        choice.remote_addr,
        route.interface,
        route.gateway.map(|gateway| format!(" through {gateway}")).unwrap_or_default(),
        if route.local {
            "the address is this host's own".to_owned()
        } else {
            format!(
                "give {} a route to it (ip route get {} from {} shows the way)",
                choice.local_interface, choice.remote_addr, choice.local_addr
            )
        }
    )))
}

fn question(destination: IpAddr, source: Option<IpAddr>) -> Message {
    let mut header = [0; ROUTE_HEADER];
    let (family, bits) = match destination {
        IpAddr::V4(_) => (libc::AF_INET, 32),
        IpAddr::V6(_) => (libc::AF_INET6, 128),
    };
    header[0] = family as u8;
    header[1] = bits;
    let message = |header: &[u8]| {
        Message::new(libc::RTM_GETROUTE, header).with(libc::RTA_DST, &octets(destination))
    };
    match source {
        Some(source) => {
            header[2] = bits;
            message(&header).with(libc::RTA_SRC, &octets(source))
        }
        None => message(&header),
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// A route as the kernel gives it, with the interface's index.
pub(crate) struct Found {
    interface: u32,
    source: Option<IpAddr>,
    gateway: Option<IpAddr>,
    local: bool,
}

pub(crate) fn parse(answer: &Message) -> Option<Found> {
    let (&[_, _, _, _, _, _, _, kind, ..], attributes) = answer.header::<ROUTE_HEADER>()?;
    // An IPv4 route through an IPv6 router has RTA_VIA: a family (u16) and an address.
    let via = || netlink::ip(attributes.bytes(libc::RTA_VIA)?.get(2..)?);
    Some(Found {
        interface: attributes.u32(libc::RTA_OIF)?,
        source: attributes.ip(libc::RTA_PREFSRC),
        gateway: attributes.ip(libc::RTA_GATEWAY).or_else(via),
        local: kind == libc::RTN_LOCAL,
    })
}

fn cure(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENODEV) => "the interface is gone",
        Some(libc::EACCES) => "a route of the type prohibit forbids it (ip route)",
        _ => "add one (ip route add), or use an address of a connected network",
    }
}
