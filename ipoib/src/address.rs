//! An interface's IP address and the subnet it is in.

use std::fmt;
use std::net::IpAddr;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Bits that the addresses of its subnet have in common.
    pub prefix: u8,
    /// How far it is valid.
    pub scope: Scope,
}

/// How far an address is valid: the kernel's `RT_SCOPE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Scope {
    /// Everywhere.
    Global,
    /// On its link only, as fe80::/10: one needs the interface to reach it.
    Link,
    /// On its host only, as 127.0.0.1.
    Host,
}

impl Address {
    /// Whether `other` is of the same family and in this address's subnet.
    pub fn subnet_contains(&self, other: IpAddr) -> bool {
        match (self.ip, other) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                let differing = (u32::from(mine) ^ u32::from(other)).leading_zeros();
                differing >= u32::from(self.prefix)
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => {
                let differing = (u128::from(mine) ^ u128::from(other)).leading_zeros();
                differing >= u32::from(self.prefix)
            }
            _ => false,
        }
    }

    /// Whether both are in one subnet, as each of them has it.
    pub fn shares_subnet(&self, other: &Self) -> bool {
        self.subnet_contains(other.ip) && other.subnet_contains(self.ip)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.ip, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(ip: &str, prefix: u8) -> Address {
        Address { ip: ip.parse().unwrap(), prefix, scope: Scope::Global }
    }

    #[test]
    fn a_subnet_ends_at_its_prefix() {
        let cases = [
            (address("10.77.3.1", 24), "10.77.3.2", true),
            (address("10.77.3.1", 24), "10.77.4.2", false),
            (address("10.77.3.1", 22), "10.77.0.2", true),
            (address("10.77.3.1", 32), "10.77.3.1", true),
            (address("10.77.3.1", 32), "10.77.3.0", false),
            (address("10.77.3.1", 0), "192.0.2.1", true),
            (address("fd00::1", 64), "fd00::ffff:1", true),
            (address("fd00::1", 64), "fd00:0:0:1::1", false),
            (address("fd00::1", 128), "fd00::1", true),
            (address("10.77.3.1", 0), "fd00::1", false),
            (address("fd00::1", 0), "10.77.3.1", false),
        ];
        for (mine, other, inside) in cases {
            assert_eq!(mine.subnet_contains(other.parse().unwrap()), inside, "{mine} {other}");
        }
    }

    #[test]
    fn both_sides_must_agree_on_the_subnet() {
        let (wide, narrow) = (address("10.77.3.1", 16), address("10.77.4.1", 24));
        assert!(wide.subnet_contains(narrow.ip));
        assert!(!wide.shares_subnet(&narrow));
        assert!(wide.shares_subnet(&address("10.77.4.1", 16)));
    }
}
