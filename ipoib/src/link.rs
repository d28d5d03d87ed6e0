//! What the kernel says of its links and addresses, before any judgement.

use std::io;

use crate::address::{Address, Scope};
use crate::counters::Counters;
use crate::netlink::{Attributes, Kernel, Message};

/// `struct ifinfomsg`: family, padding, type (u16), index (i32), flags, change mask.
const LINK_HEADER: usize = 16;
/// `struct ifaddrmsg`: family, prefix length, flags, scope, index (u32).
const ADDRESS_HEADER: usize = 8;

// `enum` of <linux/if_link.h> for the data of a link of kind "ipoib".
const IFLA_IPOIB_PKEY: u16 = 1;
const IFLA_IPOIB_MODE: u16 = 2;
const IFLA_IPOIB_UMCAST: u16 = 3;

/// A link as RTM_GETLINK shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub name: String,
    pub index: u32,
    /// `ARPHRD_*`.
    pub hardware: u16,
    /// `IFF_*`.
    pub flags: u32,
    pub mtu: u32,
    /// RFC 2863's state, `IF_OPER_*`.
    pub operational: u8,
    pub carrier: bool,
    pub hardware_address: Vec<u8>,
    /// The kind of a link that software made (`veth`, `tun`, `bridge`), and `ipoib`. The
    /// drivers of other devices have none.
    pub kind: Option<String>,
    /// The link under this one, if it is in this namespace.
    pub lower: Option<u32>,
    /// The bond or bridge that this one is a part of.
    pub master: Option<u32>,
    pub ipoib: Option<IpoibData>,
}

/// What the kernel's IPoIB driver says of a link of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IpoibData {
    pub pkey: Option<u16>,
    /// 0 datagram, 1 connected.
    pub mode: Option<u16>,
    pub umcast: Option<u16>,
}

/// All links of the thread's namespace.
pub(crate) fn links(kernel: &mut Kernel) -> io::Result<Vec<Link>> {
    let question = Message::new(libc::RTM_GETLINK, &[0; LINK_HEADER]);
    let answers = kernel.list(&question)?;
    Ok(answers.iter().filter_map(|answer| Some(link(&link_parts(answer)?))).collect())
}

/// The counters of the link `name`, and its index; an error of ENODEV if there is none.
pub(crate) fn counters(kernel: &mut Kernel, name: &str) -> io::Result<Counters> {
    // What cannot be a name, the kernel answers with other errors, or by its beginning.
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let mut terminated = name.as_bytes().to_vec();
    terminated.push(0);
    let question =
        Message::new(libc::RTM_GETLINK, &[0; LINK_HEADER]).with(libc::IFLA_IFNAME, &terminated);
    let answer = kernel.get(question)?;
    link_parts(&answer)
        .and_then(|parts| statistics(&parts))
        .ok_or_else(|| io::Error::other("the kernel gave no statistics"))
}

/// All addresses of the thread's namespace that one can bind to, each with its link's index.
pub(crate) fn addresses(kernel: &mut Kernel) -> io::Result<Vec<(u32, Address)>> {
    let question = Message::new(libc::RTM_GETADDR, &[0; ADDRESS_HEADER]);
    let answers = kernel.list(&question)?;
    Ok(answers.iter().filter_map(address).collect())
}

pub(crate) struct LinkParts<'a> {
    header: &'a [u8; LINK_HEADER],
    attributes: Attributes<'a>,
}

impl LinkParts<'_> {
    fn index(&self) -> u32 {
        let [_, _, _, _, a, b, c, d, ..] = *self.header;
        u32::from_ne_bytes([a, b, c, d])
    }
}

pub(crate) fn link_parts(message: &Message) -> Option<LinkParts<'_>> {
    let (header, attributes) = message.header()?;
    (message.kind() == libc::RTM_NEWLINK).then_some(LinkParts { header, attributes })
}

pub(crate) fn link(parts: &LinkParts<'_>) -> Link {
    let [_, _, type_a, type_b, _, _, _, _, a, b, c, d, ..] = *parts.header;
    let attributes = parts.attributes;
    let info = attributes.nested(libc::IFLA_LINKINFO);
    let kind = info.and_then(|info| info.string(libc::IFLA_INFO_KIND));
    let ipoib = info
        .filter(|_| kind.as_deref() == Some("ipoib"))
        .and_then(|info| info.nested(libc::IFLA_INFO_DATA))
        .map(|data| IpoibData {
            pkey: data.u16(IFLA_IPOIB_PKEY),
            mode: data.u16(IFLA_IPOIB_MODE),
            umcast: data.u16(IFLA_IPOIB_UMCAST),
        });
    // An index in another namespace says nothing about the links of this one.
    let lower = attributes
        .u32(libc::IFLA_LINK)
        .filter(|_| attributes.bytes(libc::IFLA_LINK_NETNSID).is_none());
    Link {
        name: attributes.string(libc::IFLA_IFNAME).unwrap_or_default(),
        index: parts.index(),
        hardware: u16::from_ne_bytes([type_a, type_b]),
        flags: u32::from_ne_bytes([a, b, c, d]),
        mtu: attributes.u32(libc::IFLA_MTU).unwrap_or_default(),
        operational: attributes.u8(libc::IFLA_OPERSTATE).unwrap_or_default(),
        carrier: attributes.u8(libc::IFLA_CARRIER).unwrap_or_default() != 0,
        hardware_address: attributes.bytes(libc::IFLA_ADDRESS).unwrap_or_default().to_vec(),
        kind,
        lower,
        master: attributes.u32(libc::IFLA_MASTER),
        ipoib,
    }
}

/// The first eight members of `struct rtnl_link_stats64`, in its order.
pub(crate) fn statistics(parts: &LinkParts<'_>) -> Option<Counters> {
    let values = parts.attributes.bytes(libc::IFLA_STATS64)?;
    let mut values = values.chunks_exact(8).map_while(|chunk| {
        let bytes: [u8; 8] = chunk.try_into().ok()?;
        Some(u64::from_ne_bytes(bytes))
    });
    let mut next = || values.next();
    // Evaluated as written, which is the kernel's order.
    Some(Counters {
        index: parts.index(),
        rx_packets: next()?,
        tx_packets: next()?,
        rx_bytes: next()?,
        tx_bytes: next()?,
        rx_errors: next()?,
        tx_errors: next()?,
        rx_dropped: next()?,
        tx_dropped: next()?,
    })
}

pub(crate) fn address(message: &Message) -> Option<(u32, Address)> {
    let (&[_, prefix, short_flags, scope, a, b, c, d], attributes) =
        message.header::<ADDRESS_HEADER>()?;
    let flags = attributes.u32(libc::IFA_FLAGS).unwrap_or_else(|| u32::from(short_flags));
    let unsettled = flags & libc::IFA_F_TENTATIVE != 0 && flags & libc::IFA_F_OPTIMISTIC == 0;
    if unsettled || flags & libc::IFA_F_DADFAILED != 0 {
        return None;
    }
    // On a point-to-point link IFA_ADDRESS is the other end's. IPv6 has IFA_LOCAL only there.
    let ip = attributes.ip(libc::IFA_LOCAL).or_else(|| attributes.ip(libc::IFA_ADDRESS))?;
    let scope = match scope {
        libc::RT_SCOPE_LINK => Scope::Link,
        libc::RT_SCOPE_HOST => Scope::Host,
        _ => Scope::Global,
    };
    Some((u32::from_ne_bytes([a, b, c, d]), Address { ip, prefix, scope }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(message: &Message) -> Option<Link> {
        link_parts(message).map(|parts| link(&parts))
    }

    #[test]
    fn reads_a_link_of_the_ipoib_driver() {
        let mut header = [0; LINK_HEADER];
        header[2..4].copy_from_slice(&libc::ARPHRD_INFINIBAND.to_ne_bytes());
        header[4..8].copy_from_slice(&7u32.to_ne_bytes());
        header[8..12].copy_from_slice(&1u32.to_ne_bytes());
        let data = Message::new(0, &[])
            .with(IFLA_IPOIB_PKEY, &0x8001u16.to_ne_bytes())
            .with(IFLA_IPOIB_MODE, &1u16.to_ne_bytes());
        // The kernel marks some nested attributes as such (NLA_F_NESTED).
        let info = Message::new(0, &[])
            .with(libc::IFLA_INFO_KIND, b"ipoib\0")
            .with(libc::IFLA_INFO_DATA | 0x8000, data.body());
        let message = Message::new(libc::RTM_NEWLINK, &header)
            .with(libc::IFLA_IFNAME, b"ib0\0")
            .with(libc::IFLA_MTU, &65_520u32.to_ne_bytes())
            .with(libc::IFLA_OPERSTATE, &[6])
            .with(libc::IFLA_CARRIER, &[1])
            .with(libc::IFLA_LINKINFO, info.body());
        let expected = Link {
            name: "ib0".to_owned(),
            index: 7,
            hardware: 32,
            flags: 1,
            mtu: 65_520,
            operational: 6,
            carrier: true,
            kind: Some("ipoib".to_owned()),
            ipoib: Some(IpoibData { pkey: Some(0x8001), mode: Some(1), umcast: None }),
            ..Link::default()
        };
        assert_eq!(parsed(&message), Some(expected));
    }

    #[test]
    fn a_lower_link_in_another_namespace_is_none_of_ours() {
        let own = Message::new(libc::RTM_NEWLINK, &[0; LINK_HEADER])
            .with(libc::IFLA_LINK, &5u32.to_ne_bytes());
        assert_eq!(parsed(&own).unwrap().lower, Some(5));
        let foreign = own.with(libc::IFLA_LINK_NETNSID, &0u32.to_ne_bytes());
        assert_eq!(parsed(&foreign).unwrap().lower, None);
    }

    #[test]
    fn statistics_are_read_in_the_kernels_order() {
        let values: Vec<u8> = (1..=24u64).flat_map(u64::to_ne_bytes).collect();
        let message =
            Message::new(libc::RTM_NEWLINK, &[0; LINK_HEADER]).with(libc::IFLA_STATS64, &values);
        let expected = Counters {
            index: 0,
            rx_packets: 1,
            tx_packets: 2,
            rx_bytes: 3,
            tx_bytes: 4,
            rx_errors: 5,
            tx_errors: 6,
            rx_dropped: 7,
            tx_dropped: 8,
        };
        assert_eq!(statistics(&link_parts(&message).unwrap()), Some(expected));
    }

    #[test]
    fn addresses_that_cannot_be_bound_to_are_left_out() {
        let with_flags = |flags: u32| {
            let header = [libc::AF_INET6 as u8, 64, 0, 0, 3, 0, 0, 0];
            let message = Message::new(libc::RTM_NEWADDR, &header)
                .with(libc::IFA_ADDRESS, &[0xfd; 16])
                .with(libc::IFA_FLAGS, &flags.to_ne_bytes());
            address(&message)
        };
        assert!(with_flags(0).is_some());
        assert!(with_flags(libc::IFA_F_TENTATIVE).is_none());
        assert!(with_flags(libc::IFA_F_TENTATIVE | libc::IFA_F_OPTIMISTIC).is_some());
        assert!(with_flags(libc::IFA_F_DADFAILED).is_none());
    }

    proptest! {
        #[test]
        fn no_message_is_a_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let message = Message::new(libc::RTM_NEWLINK, &body);
            if let Some(parts) = link_parts(&message) {
                let _ = (link(&parts), statistics(&parts));
            }
            let _ = address(&message);
        }
    }
}
