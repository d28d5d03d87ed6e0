//! An interface address as users write it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::error::Error;

/// An IP address with the length of its subnet's prefix, written `10.77.3.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's own address.
    pub ip: IpAddr,
    /// Bits that the subnet's addresses have in common: at most 32 for IPv4, 128 for IPv6.
    pub prefix: u8,
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (ip, prefix) = text.split_once('/')?;
            let (ip, prefix): (IpAddr, u8) = (ip.parse().ok()?, prefix.parse().ok()?);
            let longest = if ip.is_ipv4() { 32 } else { 128 };
            (prefix <= longest).then_some(Self { ip, prefix })
        };
        parse().ok_or_else(|| Error::Address { text: text.to_owned() })
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

    #[test]
    fn reads_what_it_writes() {
        for text in ["10.77.3.1/24", "fd00::1/64", "0.0.0.0/0", "::1/128", "10.0.0.1/32"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_address_with_a_prefix() {
        for text in ["", "10.77.3.1", "10.77.3.1/", "10.77.3.1/33", "fd00::1/129", "x/24", "/24"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("prefix length"), "{error}");
        }
    }
}
