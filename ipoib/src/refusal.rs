//! The words for "there is no such path": what was found, why it does not do, what to do.

use std::net::IpAddr;

use crate::choice::{self, Obstacle, PathName};
use crate::interface::{Interface, Kind, State};
use crate::words::list_or;

/// Interfaces named in a message at most; a host of containers has hundreds.
const NAMED_AT_MOST: usize = 8;

/// Says why [`choice::choose`] found nothing.
pub(crate) fn text(
    local: &[Interface],
    remote: &[Interface],
    path: &PathName,
    hint: Option<IpAddr>,
) -> String {
    let fitting: Vec<_> = local.iter().filter(|interface| choice::is_of(path, interface)).collect();
    let partners: Vec<_> = remote
        .iter()
        .filter(|other| match path {
            PathName::Named(_) => fitting.iter().any(|mine| choice::are_alike(mine, other)),
            _ => choice::is_of(path, other),
        })
        .collect();
    let why = side("this host", path, &fitting, &fitting)
        .or_else(|| side("the peer", path, &partners, &fitting))
        .unwrap_or_else(|| blocked(local, remote, path, hint));
    format!(
        "no path by {path}: {why} (here: {}; peer: {}), or name an interface (as in grpc@IFACE)",
        found(local),
        found(remote)
    )
}

/// What one side lacks before pairs can be looked at.
fn side(
    whose: &str,
    path: &PathName,
    fitting: &[&Interface],
    wanted: &[&Interface],
) -> Option<String> {
    if fitting.is_empty() {
        let (what, cure) = match (path, wanted.first()) {
            (PathName::Ipoib, _) => (
                "IPoIB interface (ARPHRD 32)".to_owned(),
                "load ib_ipoib and give its interface an address",
            ),
            (PathName::Named(_), Some(mine)) => {
                (format!("{} interface as {} is", mine.kind, mine.name), "choose another")
            }
            _ => (format!("{path} interface"), "choose another path"),
        };
        return Some(format!("{whose} has no {what}: {cure}"));
    }
    if !fitting.iter().any(|interface| interface.is_up()) {
        let Interface { name, state, .. } = fitting[0];
        let cure = match (state, &fitting[0].kind) {
            (State::Down, _) => format!("ip link set {name} up"),
            (_, Kind::Ipoib(_)) => {
                "is the port ACTIVE (ibstat), and is a subnet manager running?".to_owned()
            }
            _ => "check the cable and the port at the other end".to_owned(),
        };
        return Some(format!("{name} of {whose} is not up ({state}): {cure}"));
    }
    if !fitting.iter().any(|interface| interface.is_up() && !interface.addresses.is_empty()) {
        let up = fitting.iter().find(|interface| interface.is_up())?;
        let name = &up.name;
        return Some(format!(
            "{name} of {whose} has no address: ip address add ADDRESS/PREFIX dev {name}"
        ));
    }
    None
}

/// What stands in the way of each pair, told once.
fn blocked(
    local: &[Interface],
    remote: &[Interface],
    path: &PathName,
    hint: Option<IpAddr>,
) -> String {
    let mut reasons = Vec::new();
    for pair in choice::pairs(local, remote, path) {
        let reason = match choice::obstacle(&pair, local, remote, hint) {
            // Two addresses of lo, or one of each family, are no news beside another reason.
            None | Some(Obstacle::Family | Obstacle::NotOneAddress) => continue,
            Some(Obstacle::AnotherHost(peer)) => {
                format!("the peer at {peer} is another host, which loopback does not reach")
            }
            Some(Obstacle::OwnAddress(ip)) => format!(
                "{ip} is an address of both sides, so traffic to it stays on its host (for this \
                 host alone, use loopback)"
            ),
            Some(Obstacle::LinkLocal(ip)) => format!(
                "{ip} is link-local: give other addresses, or reach the peer by {ip}%{}",
                pair.local.name
            ),
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.truncate(NAMED_AT_MOST);
    list_or(&reasons, "the two sides have no addresses of one family")
}

fn found(interfaces: &[Interface]) -> String {
    let mut named: Vec<String> =
        interfaces.iter().take(NAMED_AT_MOST).map(Interface::to_string).collect();
    if let Some(more) = interfaces.len().checked_sub(NAMED_AT_MOST).filter(|more| *more > 0) {
        named.push(format!("and {more} more"));
    }
    list_or(&named, "no interfaces")
}
