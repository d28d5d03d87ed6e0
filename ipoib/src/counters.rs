//! What an interface has carried since it exists, as its driver counts.
//!
//! Read by RTM_GETLINK (IFLA_STATS64) and not from `/sys/class/net/*/statistics`: the numbers
//! are the same, but netlink's are of the calling thread's network namespace, those of sysfs
//! of the namespace in which it was mounted. After a bare `setns` the latter would prove the
//! traffic of another interface of the same name.

use crate::error::Error;
use crate::link;
use crate::netlink::Kernel;

/// The counters of one interface at one moment, or the difference of two moments.
///
/// Bytes are those of packets with their IP and link headers, before segmentation where the
/// device does that: always at least the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// The index of the interface they are of: another one under the same name has another.
    pub index: u32,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Bad packets received.
    pub rx_errors: u64,
    /// Packets dropped on the way out.
    pub tx_dropped: u64,
    /// Packets dropped on the way in.
    pub rx_dropped: u64,
}

impl Counters {
    /// Reads the counters of `interface` in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// [`Error::NoInterface`] if there is none of that name, [`Error::Kernel`] if the kernel
    /// does not answer.
    pub fn read(interface: &str) -> Result<Self, Error> {
        let failed =
            |source| Error::Kernel { what: format!("the counters of {interface}"), source };
        let mut kernel = Kernel::open().map_err(failed)?;
        match link::counters(&mut kernel, interface) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                let known = link::links(&mut kernel).unwrap_or_default();
                Err(Error::NoInterface {
                    name: interface.to_owned(),
                    known: known.into_iter().map(|link| link.name).collect(),
                })
            }
            answer => answer.map_err(failed),
        }
    }

    /// What was counted from `earlier` until `self`, both of `interface`.
    ///
    /// # Errors
    ///
    /// [`Error::Vanished`] if the interface is another than it was, [`Error::CountersReset`] if
    /// a counter ran backwards by more than 64-bit overflow explains.
    pub fn since(&self, earlier: &Self, interface: &str) -> Result<Self, Error> {
        if self.index != earlier.index {
            return Err(Error::Vanished { name: interface.to_owned() });
        }
        let grown = |later, earlier| {
            difference(later, earlier)
                .ok_or_else(|| Error::CountersReset { name: interface.to_owned() })
        };
        Ok(Self {
            index: self.index,
            tx_bytes: grown(self.tx_bytes, earlier.tx_bytes)?,
            rx_bytes: grown(self.rx_bytes, earlier.rx_bytes)?,
            tx_packets: grown(self.tx_packets, earlier.tx_packets)?,
            rx_packets: grown(self.rx_packets, earlier.rx_packets)?,
            tx_errors: grown(self.tx_errors, earlier.tx_errors)?,
            rx_errors: grown(self.rx_errors, earlier.rx_errors)?,
            tx_dropped: grown(self.tx_dropped, earlier.tx_dropped)?,
            rx_dropped: grown(self.rx_dropped, earlier.rx_dropped)?,
        })
    }
}

/// How much a 64-bit counter grew. No counter grows by half its range between two readings,
/// so what looks like it is a reset. A 32-bit counter that overflows looks like a reset too:
/// the two cannot be told apart, and a false proof is worse than none.
fn difference(later: u64, earlier: u64) -> Option<u64> {
    let grown = later.wrapping_sub(earlier);
    (grown <= u64::MAX / 2).then_some(grown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_survive_overflow_but_not_a_reset() {
        assert_eq!(difference(10, 3), Some(7));
        assert_eq!(difference(3, 3), Some(0));
        assert_eq!(difference(2, u64::MAX), Some(3));
        assert_eq!(difference(3, 10), None);
        assert_eq!(difference(0, 5_000_000_000), None);
    }

    #[test]
    fn another_interface_of_the_same_name_proves_nothing() {
        let before = Counters { index: 3, tx_bytes: 100, ..Counters::default() };
        let after = Counters { index: 4, tx_bytes: 900, ..Counters::default() };
        let error = after.since(&before, "ib0").unwrap_err().to_string();
        assert!(error.contains("ib0 was removed"), "{error}");
    }

    #[test]
    fn a_reset_is_told() {
        let before = Counters { rx_bytes: 100, ..Counters::default() };
        let error = Counters::default().since(&before, "ib0").unwrap_err().to_string();
        assert!(error.contains("ib0 were reset"), "{error}");
    }
}
