//! Which interfaces a TCP or gRPC test uses, and how a report shows them.

use std::net::IpAddr;

use fabricbench_ipoib::{Backing, Interface, Kind, PathChoice, PathName, choose};

use crate::{
    report::{Path, PathKind},
    session::Host,
    transport::TransportError,
};

/// Chooses the interfaces on both hosts for `path`; `control` is the server's address on the
/// control connection.
///
/// # Errors
/// [`TransportError::Unsupported`] with what was found on both sides.
pub fn ip_path(
    here: &Host,
    there: &Host,
    path: &PathName,
    control: Option<IpAddr>,
) -> Result<PathChoice, TransportError> {
    let same_network = here.shares_network_with(there);
    let unsupported = |reason: String| TransportError::Unsupported(reason);
    let choice = choose(&here.interfaces, &there.interfaces, path, control)
        .map_err(|error| unsupported(error.to_string()))?;
    let is_loopback = find(&here.interfaces, &choice.local_interface)
        .is_some_and(|interface| interface.kind == Kind::Loopback);
    match (same_network, is_loopback) {
        (true, false) => Err(unsupported(format!(
            "client and server share one network namespace, and the kernel carries traffic \
             between its own addresses over lo, not over {}; run the server on another host, or \
             measure @loopback",
            choice.local_interface
        ))),
        (false, true) => Err(unsupported(
            "the server is on another host or in another network namespace: there is no loopback \
             to it"
                .to_owned(),
        )),
        _ => Ok(choice),
    }
}

/// One end of an IP path as a report shows it.
#[must_use]
pub(super) fn describe(
    interfaces: &[Interface],
    name: &str,
    address: IpAddr,
    chosen: Option<String>,
) -> Path {
    let interface = find(interfaces, name);
    let kind = interface.map(|interface| &interface.kind);
    let backing = interface.map(|interface| &interface.backing);
    Path {
        kind: match kind {
            Some(Kind::Ipoib(_)) => PathKind::Ipoib,
            Some(Kind::Loopback) => PathKind::Loopback,
            Some(Kind::Ethernet) => PathKind::Ethernet,
            Some(Kind::Other(_)) | None => PathKind::Other,
        },
        device: match kind {
            Some(Kind::Ipoib(ipoib)) => ipoib.parent.as_ref().map(|port| port.device.clone()),
            _ => None,
        },
        port: match kind {
            Some(Kind::Ipoib(ipoib)) => {
                ipoib.parent.as_ref().and_then(|port| u8::try_from(port.port).ok())
            }
            _ => None,
        },
        interface: Some(name.to_owned()),
        emulated: interface.is_some_and(Interface::is_emulated),
        backing: backing.map(|backing| match backing {
            Backing::Physical { driver } => {
                format!("physical: {}", driver.as_deref().unwrap_or("unknown driver"))
            }
            Backing::Virtual { kind } => format!("virtual: {kind}"),
            Backing::Emulated { kind } => format!("emulated: {kind}"),
        }),
        address: Some(address.to_string()),
        mtu: interface.map(|interface| interface.mtu),
        chosen,
    }
}

fn find<'a>(interfaces: &'a [Interface], name: &str) -> Option<&'a Interface> {
    interfaces.iter().find(|interface| interface.name == name)
}
