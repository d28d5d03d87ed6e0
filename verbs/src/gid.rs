//! GIDs: the addresses of a port, and which of them to use.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{Error, Result};
use crate::port::{Kind, Port};

/// A global identifier: 128 bits, written like an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The address with the same bits.
    #[must_use]
    pub fn to_ipv6(self) -> Ipv6Addr {
        Ipv6Addr::from(self.0)
    }

    /// The IPv4 address inside `::ffff:a.b.c.d`, the form RoCE uses for IPv4.
    #[must_use]
    pub fn ipv4(self) -> Option<Ipv4Addr> {
        self.to_ipv6().to_ipv4_mapped()
    }

    /// All bits zero, which marks an empty slot.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == [0; 16]
    }

    /// In `fe80::/10`: good on one link only.
    #[must_use]
    pub fn is_link_local(self) -> bool {
        let [first, second, ..] = self.0;
        first == 0xfe && second & 0xc0 == 0x80
    }
}

impl From<Ipv6Addr> for Gid {
    fn from(address: Ipv6Addr) -> Self {
        Self(address.octets())
    }
}

impl From<Ipv4Addr> for Gid {
    /// `::ffff:a.b.c.d`, the form RoCE uses for IPv4.
    fn from(address: Ipv4Addr) -> Self {
        Self::from(address.to_ipv6_mapped())
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::from(address),
            IpAddr::V6(address) => Self::from(address),
        }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ipv6().fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

/// `enum ibv_gid_type` as an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GidType(pub u32);

impl GidType {
    /// `IBV_GID_TYPE_IB`.
    pub const IB: Self = Self(0);
    /// `IBV_GID_TYPE_ROCE_V1`: Ethernet frames of their own, not routable.
    pub const ROCE_V1: Self = Self(1);
    /// `IBV_GID_TYPE_ROCE_V2`: over UDP port 4791.
    pub const ROCE_V2: Self = Self(2);
}

impl fmt::Display for GidType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IB => f.write_str("IB"),
            Self::ROCE_V1 => f.write_str("RoCE v1"),
            Self::ROCE_V2 => f.write_str("RoCE v2"),
            Self(other) => write!(f, "GID type {other}"),
        }
    }
}

/// One used slot of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GidEntry {
    /// The slot.
    pub index: u32,
    /// The address.
    pub gid: Gid,
    /// InfiniBand, RoCE v1 or v2.
    pub gid_type: GidType,
    /// The network interface it belongs to, where the kernel names it.
    pub netdev: Option<String>,
}

impl fmt::Display for GidEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.index, self.gid, self.gid_type)?;
        self.netdev.as_ref().map_or(Ok(()), |netdev| write!(f, " {netdev}"))
    }
}

/// The GID a queue pair will use, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GidChoice {
    /// The slot chosen.
    pub entry: GidEntry,
    /// Whether the caller named the index or the address.
    pub explicit: bool,
    /// The reason in words, for a report: `RoCE v2 with an IPv4 address`.
    pub reason: String,
}

/// A reason to take an entry, and the entries it holds for.
type Candidate = (&'static str, fn(&GidEntry) -> bool);

/// What makes a RoCE entry a candidate, best first.
const ROCE: [Candidate; 4] = [
    ("first RoCE v2 entry with an IPv4 address", |e| {
        e.gid_type == GidType::ROCE_V2 && e.gid.ipv4().is_some()
    }),
    ("first RoCE v2 entry with a global IPv6 address", |e| {
        e.gid_type == GidType::ROCE_V2 && !e.gid.is_link_local()
    }),
    ("RoCE v2 with a link-local address, none better", |e| e.gid_type == GidType::ROCE_V2),
    ("RoCE v1, no RoCE v2 entry", |e| e.gid_type == GidType::ROCE_V1),
];

/// Chooses the GID for `port` from its `table`: the `wanted` index if the slot is in use;
/// otherwise on Ethernet RoCE v2 with an IPv4 address, then with a global IPv6 address, then a
/// link-local one, then RoCE v1; on InfiniBand and iWARP index 0.
///
/// # Errors
///
/// [`Error::NoGid`] with the table in words when the wanted slot is empty or absent, or nothing
/// suits.
pub fn choose(port: &Port, table: &[GidEntry], wanted: Option<u32>) -> Result<GidChoice> {
    let refuse = |why| no_gid(port, table, why);
    if let Some(index) = wanted {
        return match table.iter().find(|entry| entry.index == index) {
            Some(entry) => Ok(GidChoice {
                entry: entry.clone(),
                explicit: true,
                reason: format!("GID index {index} was asked for"),
            }),
            None if index >= port.gid_slots => Err(refuse(format!(
                "GID index {index} does not exist (the table has {} slots)",
                port.gid_slots
            ))),
            None => Err(refuse(format!("GID index {index} is empty"))),
        };
    }
    let candidates: &[Candidate] = if port.kind == Kind::Iwarp {
        &[("iWARP has one, the port's hardware address, and connects by IP address", |e| {
            e.index == 0
        })]
    } else if port.is_ethernet() {
        &ROCE
    } else {
        &[("InfiniBand uses the port's GID 0", |e| e.index == 0)]
    };
    candidates
        .iter()
        .find_map(|(reason, suits)| Some((reason, table.iter().find(|entry| suits(entry))?)))
        .map(|(reason, entry)| GidChoice {
            entry: entry.clone(),
            explicit: false,
            reason: (*reason).to_owned(),
        })
        .ok_or_else(|| {
            refuse(if port.is_ethernet() {
                "no RoCE GID; give the interface an address (ip addr add) and bring it up".into()
            } else {
                "GID 0 is empty; is a subnet manager running?".into()
            })
        })
}

/// Chooses the GID for `port` that is `address`, from its `table`: where RoCE has the address
/// twice, version 2. On RoCE the addresses are those of the interface; those of an InfiniBand port
/// are written like IPv6, and the addresses of its IPoIB interface are not among them.
///
/// # Errors
///
/// [`Error::NoGid`] with the table in words when none is.
pub fn choose_address(port: &Port, table: &[GidEntry], address: IpAddr) -> Result<GidChoice> {
    let same = |entry: &&GidEntry| entry.gid == Gid::from(address);
    let best = |entry: &&GidEntry| entry.gid_type == GidType::ROCE_V2;
    let found = table.iter().filter(same).find(best).or_else(|| table.iter().find(same));
    let entry = found.ok_or_else(|| {
        let give = if port.is_ethernet() { " (ip addr add gives it to the interface)" } else { "" };
        no_gid(port, table, format!("no GID is the address {address}{give}"))
    })?;
    Ok(GidChoice {
        entry: entry.clone(),
        explicit: true,
        reason: format!("{} entry of the address {address}, which was asked for", entry.gid_type),
    })
}

fn no_gid(port: &Port, table: &[GidEntry], why: String) -> Error {
    Error::NoGid { device: port.device.clone(), port: port.number, why, table: describe(table) }
}

/// A table in one line.
fn describe(table: &[GidEntry]) -> String {
    if table.is_empty() {
        return "empty".to_owned();
    }
    let entries: Vec<String> = table.iter().map(ToString::to_string).collect();
    format!("use one of {}", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{LinkLayer, PortState};

    fn port(link_layer: LinkLayer) -> Port {
        Port {
            device: "dev0".into(),
            number: 1,
            kind: Kind::Other,
            emulated: false,
            link_layer,
            state: PortState::ACTIVE,
            active_mtu: None,
            max_mtu: None,
            max_message: 1 << 30,
            lid: 0,
            gid_slots: 8,
            gigabits: None,
            netdev: None,
        }
    }

    fn entry(index: u32, address: &str, gid_type: GidType) -> GidEntry {
        let gid = Gid::from(address.parse::<Ipv6Addr>().unwrap());
        GidEntry { index, gid, gid_type, netdev: Some("eth7".into()) }
    }

    fn roce_table() -> Vec<GidEntry> {
        vec![
            entry(0, "fe80::1", GidType::ROCE_V1),
            entry(1, "fe80::1", GidType::ROCE_V2),
            entry(2, "fd00::1", GidType::ROCE_V1),
            entry(3, "fd00::1", GidType::ROCE_V2),
            entry(4, "::ffff:10.0.0.1", GidType::ROCE_V1),
            entry(5, "::ffff:10.0.0.1", GidType::ROCE_V2),
        ]
    }

    fn chosen(port: &Port, table: &[GidEntry], wanted: Option<u32>) -> (u32, String) {
        let choice = choose(port, table, wanted).unwrap();
        (choice.entry.index, choice.reason)
    }

    #[test]
    fn roce_prefers_v2_ipv4_then_global_then_link_local_then_v1() {
        let roce = port(LinkLayer::ETHERNET);
        let mut table = roce_table();
        for (index, words) in [(5, "IPv4"), (3, "global IPv6"), (1, "link-local"), (0, "RoCE v1")] {
            let (got, reason) = chosen(&roce, &table, None);
            assert_eq!(got, index);
            assert!(reason.contains(words), "{reason}");
            table.retain(|entry| entry.index != index);
        }
    }

    #[test]
    fn infiniband_takes_index_zero() {
        let table = [entry(0, "fe80::2c9:3", GidType::IB), entry(1, "fd00::7", GidType::IB)];
        assert_eq!(chosen(&port(LinkLayer::INFINIBAND), &table, None).0, 0);
    }

    #[test]
    fn iwarp_takes_the_only_one() {
        let iwarp = Port { kind: Kind::Iwarp, ..port(LinkLayer::ETHERNET) };
        let (index, reason) = chosen(&iwarp, &[entry(0, "5254:12:3456::", GidType::IB)], None);
        assert!(index == 0 && reason.contains("hardware address"), "{reason}");
    }

    #[test]
    fn an_explicit_index_wins_and_says_so() {
        let choice = choose(&port(LinkLayer::ETHERNET), &roce_table(), Some(2)).unwrap();
        assert_eq!((choice.entry.index, choice.explicit), (2, true));
        assert!(choice.reason.contains("asked for"));
    }

    #[test]
    fn an_empty_or_absent_index_shows_which_would_work() {
        let roce = port(LinkLayer::ETHERNET);
        let empty = choose(&roce, &roce_table(), Some(7)).unwrap_err().to_string();
        assert!(empty.contains("index 7 is empty"), "{empty}");
        assert!(empty.contains("5: ::ffff:10.0.0.1 RoCE v2 eth7"), "{empty}");
        let absent = choose(&roce, &roce_table(), Some(8)).unwrap_err().to_string();
        assert!(absent.contains("index 8 does not exist (the table has 8 slots)"), "{absent}");
    }

    #[test]
    fn an_address_is_found_whatever_its_index_and_version_2_first() {
        let wanted: IpAddr = "10.1.2.3".parse().unwrap();
        let entry = |index, gid_type, address: &str| GidEntry {
            index,
            gid: Gid::from(address.parse::<IpAddr>().unwrap()),
            gid_type,
            netdev: None,
        };
        let table = [
            entry(0, GidType::ROCE_V2, "fe80::1"),
            entry(1, GidType::ROCE_V1, "10.1.2.3"),
            entry(2, GidType::ROCE_V2, "10.1.2.3"),
            entry(3, GidType::ROCE_V2, "10.1.2.4"),
        ];
        let port = port(LinkLayer::ETHERNET);
        let choice = choose_address(&port, &table, wanted).unwrap();
        assert_eq!((choice.entry.index, choice.explicit), (2, true));
        assert_eq!(choice.reason, "RoCE v2 entry of the address 10.1.2.3, which was asked for");
        assert_eq!(choose_address(&port, &table[..2], wanted).unwrap().entry.index, 1);
        let absent = choose_address(&port, &table, "fd00::7".parse().unwrap());
        let text = absent.unwrap_err().to_string();
        assert!(text.contains("no GID is the address fd00::7 (ip addr add"), "{text}");
        assert!(text.contains("3: ::ffff:10.1.2.4 RoCE v2"), "{text}");
    }

    #[test]
    fn no_gid_at_all_says_what_to_do() {
        let text = choose(&port(LinkLayer::ETHERNET), &[], None).unwrap_err().to_string();
        assert!(text.contains("ip addr add"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn gid_classes() {
        let gid = |text: &str| Gid::from(text.parse::<Ipv6Addr>().unwrap());
        assert_eq!(gid("::ffff:10.1.2.3").ipv4(), Some(Ipv4Addr::new(10, 1, 2, 3)));
        assert_eq!(gid("fd00::1").ipv4(), None);
        assert!(gid("fe80::1").is_link_local() && gid("febf::1").is_link_local());
        assert!(!gid("fec0::1").is_link_local());
        assert!(gid("::").is_zero());
    }
}
