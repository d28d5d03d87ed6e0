//! The words for "there is no such path": what was found on both sides, what stands in the
//! way, and what to do.

use std::net::IpAddr;

use crate::choice::{self, Obstacle, PathName};
use crate::interface::{Interface, Kind, State};
use crate::words::list_or;

/// Interfaces and addresses named in a message at most; a host of containers has hundreds.
const NAMED_AT_MOST: usize = 6;

/// Says why [`choice::choose`] found nothing.
pub(crate) fn text(
    local: &[Interface],
    remote: &[Interface],
    path: &PathName,
    hint: Option<IpAddr>,
) -> String {
    let here: Vec<_> = local.iter().filter(|interface| choice::is_of(path, interface)).collect();
    let there: Vec<_> = remote
        .iter()
        .filter(|other| match path {
            PathName::Named(_) => here.iter().any(|mine| choice::are_alike(mine, other)),
            _ => choice::is_of(path, other),
        })
        .collect();
    let wanted = wanted(path, &here);
    let cure = lack("here", &here, path)
        .or_else(|| lack("on the peer", &there, path))
        .unwrap_or_else(|| blocked(local, remote, path, hint));
    format!(
        "no path by {path}: this host has {}; the peer has {}: {cure}",
        found(&here, local, &wanted),
        found(&there, remote, &wanted)
    )
}

fn wanted(path: &PathName, here: &[&Interface]) -> String {
    match (path, here.first()) {
        (PathName::Ipoib, _) => "IPoIB interface (ARPHRD 32)".to_owned(),
        (PathName::Named(_), Some(mine)) => format!("{} interface, as {} is", mine.kind, mine.name),
        _ => format!("{path} interface"),
    }
}

/// The interfaces of the right kind, or else that there are none, and what there is.
fn found(fitting: &[&Interface], all: &[Interface], wanted: &str) -> String {
    if !fitting.is_empty() {
        return some_of(fitting.iter().map(|interface| with_addresses(interface)).collect());
    }
    let mut others: Vec<_> = all.iter().collect();
    // What is up is what a user knows about.
    others.sort_by_key(|interface| !interface.is_up());
    let others: Vec<String> = others.into_iter().map(Interface::to_string).collect();
    if others.is_empty() {
        format!("no {wanted}")
    } else {
        format!("no {wanted}, only {}", some_of(others))
    }
}

fn with_addresses(interface: &Interface) -> String {
    let addresses = interface.addresses.iter().map(ToString::to_string).collect();
    match interface.addresses.is_empty() {
        true => format!("{interface} without an address"),
        false => format!("{interface} with {}", some_of(addresses)),
    }
}

fn some_of(mut items: Vec<String>) -> String {
    let more = items.len().saturating_sub(NAMED_AT_MOST);
    items.truncate(NAMED_AT_MOST);
    if more > 0 {
        items.push(format!("and {more} more"));
    }
    list_or(&items, "nothing")
}

/// What to do about a side of which no interface can be one end of a path.
fn lack(side: &str, fitting: &[&Interface], path: &PathName) -> Option<String> {
    let Some(first) = fitting.first() else {
        return Some(match path {
            PathName::Ipoib => format!(
                "load ib_ipoib {side} and give its interface an address, or name an interface as \
                 in grpc@IFACE"
            ),
            _ => "choose another path, or name an interface as in grpc@IFACE".to_owned(),
        });
    };
    if let Some(up) = fitting.iter().find(|interface| interface.is_up()) {
        let usable =
            fitting.iter().any(|interface| interface.is_up() && !interface.addresses.is_empty());
        return (!usable).then(|| format!("ip address add ADDRESS/PREFIX dev {} {side}", up.name));
    }
    Some(match (first.state, &first.kind) {
        (State::Down, _) => format!("ip link set {} up {side}", first.name),
        (_, Kind::Ipoib(_)) => format!(
            "see {side} whether the port of {} is ACTIVE (ibstat) and a subnet manager runs",
            first.name
        ),
        _ => format!("see {side} whether {} has its cable, and the other end is up", first.name),
    })
}

/// What stands in the way of the pairs, each reason once, with the first address it holds of.
fn blocked(
    local: &[Interface],
    remote: &[Interface],
    path: &PathName,
    hint: Option<IpAddr>,
) -> String {
    let mut obstacles: Vec<(Obstacle, &Interface)> = Vec::new();
    for pair in choice::pairs(local, remote, path) {
        let Some(obstacle) = choice::obstacle(&pair, local, remote, hint) else { continue };
        let is_of_its_kind = |(known, _): &(Obstacle, _)| {
            std::mem::discriminant(known) == std::mem::discriminant(&obstacle)
        };
        if !obstacles.iter().any(is_of_its_kind) {
            obstacles.push((obstacle, pair.local));
        }
    }
    let reasons: Vec<String> = obstacles
        .into_iter()
        .filter_map(|(obstacle, mine)| match obstacle {
            // Of two families, or two addresses of lo: no news beside another reason.
            Obstacle::Family | Obstacle::NotOneAddress => None,
            Obstacle::AnotherHost(peer) => {
                Some(format!("{peer} is another host, which loopback does not reach"))
            }
            Obstacle::OwnAddress(ip) => Some(format!(
                "both sides have the address {ip}, so what is sent to it stays on its host (if \
                 both are one host, choose loopback)"
            )),
            Obstacle::LinkLocal(ip) => Some(format!(
                "{ip} is link-local, which does not tell one link from another (add a global \
                 address, or reach the peer by {ip}%{})",
                mine.name
            )),
        })
        .collect();
    list_or(&reasons, "give both an address of one family and subnet")
}
