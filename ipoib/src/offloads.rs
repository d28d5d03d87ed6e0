//! What an interface's hardware, or the kernel in its place, does for many packets at once: the
//! features that ethtool shows, asked of the kernel by generic netlink
//! (Documentation/networking/ethtool-netlink.rst; Linux 5.6 and later).

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::netlink::{Attributes, Kernel, Message};

/// `struct genlmsghdr`: command, version, two bytes reserved.
const GENERIC_HEADER: usize = 4;

// <linux/genetlink.h>: the controller, which knows the number of a family.
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// <linux/netlink.h>: the mark of nested attributes, on which generic netlink insists.
const NLA_F_NESTED: u16 = 0x8000;

// <linux/ethtool_netlink.h>.
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_HW: u16 = 2;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_BITSET_NOMASK: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;

/// Which offloads of an interface are on, and which could be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Offloads {
    /// Segments of TCP over IPv4 are cut by the hardware (TSO).
    pub segmentation: Switch,
    /// Large packets go through the stack whole, and are cut at its end (GSO).
    pub generic_segmentation: Switch,
    /// Packets that arrive are joined before they go through the stack (GRO).
    pub generic_receive: Switch,
    /// Checksums of what is sent are made by the hardware.
    pub transmit_checksum: Switch,
    /// Checksums of what arrives are verified by the hardware.
    pub receive_checksum: Switch,
}

/// A setting that is on or off, and that its driver may or may not let one change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Switch {
    /// It is on.
    On,
    /// It is off and can be turned on.
    Off,
    /// It is off, and the driver has no such thing.
    #[default]
    Absent,
}

/// Of the interfaces with `indices` in the thread's namespace. One that is gone meanwhile has none.
///
/// # Errors
///
/// The kernel's; `NotFound` if it has no ethtool by netlink.
pub(crate) fn offloads(indices: &[u32]) -> io::Result<BTreeMap<u32, Offloads>> {
    let mut kernel = Kernel::open_generic()?;
    let question = Message::new(GENL_ID_CTRL, &[CTRL_CMD_GETFAMILY, 1, 0, 0])
        .with(CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
    let answer = kernel.get(question)?;
    let family = answer
        .header::<GENERIC_HEADER>()
        .and_then(|(_, attributes)| attributes.u16(CTRL_ATTR_FAMILY_ID))
        .ok_or_else(|| io::Error::other("the kernel gave no number of the ethtool family"))?;
    // One by one: the kernel makes room for one answer as long as it is, and for each part of a list
    // less than the features of some interfaces take.
    let mut of = |index: &u32| {
        let device = Message::new(0, &[]).with(ETHTOOL_A_HEADER_DEV_INDEX, &index.to_ne_bytes());
        let question = Message::new(family, &[ETHTOOL_MSG_FEATURES_GET, 1, 0, 0])
            .with(ETHTOOL_A_FEATURES_HEADER | NLA_F_NESTED, device.body());
        features(&kernel.get(question).ok()?)
    };
    Ok(indices.iter().filter_map(&mut of).collect())
}

pub(crate) fn features(message: &Message) -> Option<(u32, Offloads)> {
    let (_, attributes) = message.header::<GENERIC_HEADER>()?;
    let index = attributes.nested(ETHTOOL_A_FEATURES_HEADER)?.u32(ETHTOOL_A_HEADER_DEV_INDEX)?;
    let active = set_bits(attributes.nested(ETHTOOL_A_FEATURES_ACTIVE)?);
    let changeable = attributes.nested(ETHTOOL_A_FEATURES_HW).map(set_bits).unwrap_or_default();
    // The names are those of `ethtool -k`; of several that serve one purpose, any will do.
    let switch = |names: &[&str]| {
        let any = |set: &BTreeSet<String>| names.iter().any(|name| set.contains(*name));
        match (any(&active), any(&changeable)) {
            (true, _) => Switch::On,
            (false, true) => Switch::Off,
            (false, false) => Switch::Absent,
        }
    };
    let checksums = ["tx-checksum-ipv4", "tx-checksum-ip-generic"];
    Some((
        index,
        Offloads {
            segmentation: switch(&["tx-tcp-segmentation"]),
            generic_segmentation: switch(&["tx-generic-segmentation"]),
            generic_receive: switch(&["rx-gro"]),
            transmit_checksum: switch(&checksums),
            receive_checksum: switch(&["rx-checksum"]),
        },
    ))
}

/// The names of the bits that are set. Without a mask all bits that are listed are.
fn set_bits(bitset: Attributes<'_>) -> BTreeSet<String> {
    let all = bitset.bytes(ETHTOOL_A_BITSET_NOMASK).is_some();
    let Some(bits) = bitset.nested(ETHTOOL_A_BITSET_BITS) else { return BTreeSet::new() };
    bits.each(ETHTOOL_A_BITSET_BITS_BIT)
        .filter(|bit| all || bit.bytes(ETHTOOL_A_BITSET_BIT_VALUE).is_some())
        .filter_map(|bit| bit.string(ETHTOOL_A_BITSET_BIT_NAME))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bit set with the names in `bits`, each with its value; no mask if `all` are meant.
    fn bitset(bits: &[(&str, bool)], all: bool) -> Vec<u8> {
        let mut list = Message::new(0, &[]);
        for (name, value) in bits {
            let mut bit = Message::new(0, &[])
                .with(ETHTOOL_A_BITSET_BIT_NAME, format!("{name}\0").as_bytes());
            if *value {
                bit = bit.with(ETHTOOL_A_BITSET_BIT_VALUE, &[]);
            }
            list = list.with(ETHTOOL_A_BITSET_BITS_BIT, bit.body());
        }
        let mut set = Message::new(0, &[]);
        if all {
            set = set.with(ETHTOOL_A_BITSET_NOMASK, &[]);
        }
        set = set.with(ETHTOOL_A_BITSET_BITS, list.body());
        set.body().to_vec()
    }

    #[test]
    fn features_are_told_apart_by_what_is_active_and_what_could_be() {
        let header = Message::new(0, &[]).with(ETHTOOL_A_HEADER_DEV_INDEX, &7u32.to_ne_bytes());
        let changeable =
            bitset(&[("rx-gro", true), ("tx-tcp-segmentation", true), ("rx-lro", false)], false);
        // As the kernel does, without a mask and so without values.
        let active = bitset(&[("rx-gro", false), ("tx-checksum-ip-generic", false)], true);
        let message = Message::new(0, &[ETHTOOL_MSG_FEATURES_GET, 1, 0, 0])
            .with(ETHTOOL_A_FEATURES_HEADER, header.body())
            .with(ETHTOOL_A_FEATURES_HW, &changeable)
            .with(ETHTOOL_A_FEATURES_ACTIVE, &active);
        let (index, offloads) = features(&message).unwrap();
        assert_eq!(index, 7);
        let expected = Offloads {
            segmentation: Switch::Off,
            generic_segmentation: Switch::Absent,
            generic_receive: Switch::On,
            transmit_checksum: Switch::On,
            receive_checksum: Switch::Absent,
        };
        assert_eq!(offloads, expected);
    }

    #[test]
    fn the_kernel_of_this_host_tells_of_loopback() {
        match offloads(&[1]) {
            Ok(all) => {
                let lo = all.get(&1).unwrap();
                assert_eq!(lo.generic_segmentation, Switch::On, "{all:?}");
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}"),
        }
    }
}
