//! Addresses: those of a device's network interface, and the C form of one.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

use crate::cm::error::CmError;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::port::Port;
use crate::sysfs::Sysfs;

/// An address of an interface, with the bits that its network has in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    /// With port 0; a link-local address has its interface as scope.
    pub(crate) address: SocketAddr,
    pub(crate) prefix: u32,
}

impl InterfaceAddress {
    fn covers(&self, other: IpAddr) -> bool {
        let shared =
            |a: u128, b: u128, bits: u32| (a ^ b).leading_zeros() >= self.prefix + 128 - bits;
        match (self.address.ip(), other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => shared(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => shared(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

/// A `sockaddr` of either family.
pub(crate) enum RawAddress {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl RawAddress {
    pub(crate) fn new(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => Self::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => Self::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            }),
        }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        match self {
            Self::V4(v4) => ptr::from_mut(v4).cast(),
            Self::V6(v6) => ptr::from_mut(v6).cast(),
        }
    }
}

/// Reads a `sockaddr`; `None` for a family other than the two of the Internet.
///
/// # Safety
///
/// `raw` is null or points to an address of the length that its family has.
pub(crate) unsafe fn read(raw: *const libc::sockaddr) -> Option<SocketAddr> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: the caller promises an address, which begins with its family.
    let family = unsafe { (*raw).sa_family };
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: of this family, so of this length; it need not be aligned.
            let v4 = unsafe { raw.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: of this family, so of this length; it need not be aligned.
            let v6 = unsafe { raw.cast::<libc::sockaddr_in6>().read_unaligned() };
            let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
            let (flow, scope) = (v6.sin6_flowinfo, v6.sin6_scope_id);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
        }
        _ => None,
    }
}

/// The list `getifaddrs` gave.
struct Interfaces(*mut libc::ifaddrs);

impl Drop for Interfaces {
    fn drop(&mut self) {
        // SAFETY: the list came from getifaddrs and is freed once.
        unsafe { libc::freeifaddrs(self.0) };
    }
}

/// The addresses of the interface named `name`: IPv4, then global IPv6, then link-local ones.
fn of_interface(name: &str) -> io::Result<Vec<InterfaceAddress>> {
    let mut list = Interfaces(ptr::null_mut());
    // SAFETY: the place is valid.
    if unsafe { libc::getifaddrs(&raw mut list.0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list.0;
    // SAFETY: each element of the list, which lives to the end of this function, is null or valid.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: an entry's name is a string as long-lived as the list.
        let same = unsafe { CStr::from_ptr(entry.ifa_name) }.to_str() == Ok(name);
        // SAFETY: an entry's address is null or one of its family.
        let Some(address) = (unsafe { read(entry.ifa_addr) }).filter(|_| same) else { continue };
        // SAFETY: as above for the mask.
        let mask = unsafe { read(entry.ifa_netmask) };
        let prefix = match mask.map(|mask| mask.ip()) {
            Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
            Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones(),
            None => {
                if address.is_ipv4() {
                    32
                } else {
                    128
                }
            }
        };
        found.push(InterfaceAddress { address, prefix });
    }
    found.sort_by_key(|entry| (entry.address.is_ipv6(), is_link_local(entry.address.ip())));
    Ok(found)
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// The network interface that carries the connection manager's addresses for `port`: of RoCE the
/// one the port is on, of InfiniBand the IPoIB interface over it.
fn interface(sysfs: &Sysfs, port: &Port) -> Option<String> {
    if let Some(name) = &port.netdev {
        return Some(name.clone());
    }
    let directory = sysfs.device(&port.device).join("device/net");
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    // Which port of the adapter an interface is over, counted from 0.
    let index = u32::from(port.number.saturating_sub(1));
    let over = |name: &String| sysfs.interface_port(name) == Some(index);
    names.iter().find(|name| over(name)).or(names.first()).cloned()
}

impl Context {
    /// The addresses that the connection manager can bind to on `port`, with port number 0: IPv4
    /// first, then global IPv6, then link-local ones, which have their interface as scope.
    ///
    /// # Errors
    ///
    /// [`CmError::NoAddress`] when the port has no network interface, or that has no address.
    pub fn cm_addresses(&self, port: &Port) -> Result<Vec<SocketAddr>> {
        Ok(self.interface_addresses(port)?.into_iter().map(|entry| entry.address).collect())
    }

    fn interface_addresses(&self, port: &Port) -> Result<Vec<InterfaceAddress>> {
        let missing = |found: String| CmError::NoAddress {
            device: self.name().to_owned(),
            wanted: "IP",
            found,
        };
        let name = interface(&Sysfs::default(), port)
            .ok_or_else(|| missing(format!("port {} has no network interface", port.number)))?;
        let addresses = of_interface(&name).map_err(|errno| Error::Call {
            call: "getifaddrs",
            object: name.clone(),
            errno,
            cure: "this is not expected to happen".to_owned(),
        })?;
        if addresses.is_empty() {
            return Err(missing(format!("{name} has none")).into());
        }
        Ok(addresses)
    }

    /// The address of this device to connect to `remote` from.
    pub(crate) fn address_towards(&self, port: &Port, remote: IpAddr) -> Result<SocketAddr> {
        let addresses = self.interface_addresses(port)?;
        choose(&addresses, remote).ok_or_else(|| {
            let list: Vec<String> =
                addresses.iter().map(|entry| entry.address.ip().to_string()).collect();
            let wanted = match (remote, is_link_local(remote)) {
                (_, true) => "link-local",
                (IpAddr::V4(_), _) => "IPv4",
                (IpAddr::V6(_), _) => "global IPv6",
            };
            let found = format!("the peer is {remote}, it has {}", list.join(", "));
            CmError::NoAddress { device: self.name().to_owned(), wanted, found }.into()
        })
    }
}

/// The address in the remote one's network, else the first of the same family and scope.
fn choose(addresses: &[InterfaceAddress], remote: IpAddr) -> Option<SocketAddr> {
    let same_kind = |entry: &&InterfaceAddress| {
        let local = entry.address.ip();
        local.is_ipv4() == remote.is_ipv4() && is_link_local(local) == is_link_local(remote)
    };
    addresses
        .iter()
        .filter(same_kind)
        .find(|entry| entry.covers(remote))
        .or_else(|| addresses.iter().find(same_kind))
        .map(|entry| entry.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str, prefix: u32) -> InterfaceAddress {
        InterfaceAddress { address: SocketAddr::new(text.parse().unwrap(), 0), prefix }
    }

    #[test]
    fn an_address_survives_the_c_form() {
        for text in ["10.77.1.2:18515", "[fd77:1::2]:7", "[fe80::1%3]:80"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut raw = RawAddress::new(address);
            // SAFETY: a whole address of its family.
            assert_eq!(unsafe { read(raw.as_mut_ptr()) }, Some(address));
        }
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(ptr::null()) }, None);
        let unix = libc::sockaddr { sa_family: libc::AF_UNIX as u16, sa_data: [0; 14] };
        // SAFETY: a family that is not read further.
        assert_eq!(unsafe { read(&raw const unix) }, None);
    }

    #[test]
    fn the_way_to_a_peer_is_by_its_network_then_its_family() {
        let addresses = [
            address("10.0.0.1", 24),
            address("10.77.1.1", 24),
            address("fd77:1::1", 64),
            address("fe80::1", 64),
        ];
        let chosen =
            |text: &str| choose(&addresses, text.parse().unwrap()).map(|a| a.ip().to_string());
        assert_eq!(chosen("10.77.1.9").as_deref(), Some("10.77.1.1"));
        assert_eq!(chosen("192.0.2.1").as_deref(), Some("10.0.0.1"));
        assert_eq!(chosen("fd77:2::9").as_deref(), Some("fd77:1::1"));
        assert_eq!(chosen("fe80::9").as_deref(), Some("fe80::1"));
        assert_eq!(choose(&addresses[..2], "fd77:1::2".parse().unwrap()), None);
    }

    #[test]
    fn the_loopback_interface_has_its_addresses() {
        let found = of_interface("lo").unwrap();
        assert!(found.contains(&address("127.0.0.1", 8)), "{found:?}");
        assert!(of_interface("no-such-interface").unwrap().is_empty());
    }
}
