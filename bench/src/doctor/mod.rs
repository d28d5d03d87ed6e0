//! What stands in the way of good figures on this host: findings, each with what was seen and where,
//! why it matters, and what mends it.
//!
//! Each check is a function of [`Evidence`], whose files are below a root that tests replace. A
//! threshold has its source beside it; what cannot be told is said to be unknown, never guessed.

mod address;
mod control_group;
mod device;
mod evidence;
mod finding;
mod limits;
mod machine;
mod mtu;
mod network;
mod numa;
mod pcie;
mod port;
mod processors;
mod text;
mod tree;

pub use evidence::{Evidence, SeenDevice, SeenPort};
pub use finding::{Check, Finding, Severity};
pub use text::{brief, text};
pub use tree::Tree;

/// All that is found, the worst first, and within that from the device to the host.
#[must_use]
pub fn examine(evidence: &Evidence) -> Vec<Finding> {
    let devices = device::devices(evidence);
    let mut found = device::check(evidence, &devices);
    found.extend(port::check(evidence, &devices));
    found.extend(address::check(evidence, &devices));
    found.extend(mtu::check(evidence, &devices));
    found.extend(pcie::check(evidence, &devices));
    found.extend(numa::check(evidence, &devices));
    found.extend(limits::check(evidence, &devices));
    found.extend(control_group::check(evidence));
    found.extend(network::check(evidence, &devices));
    found.extend(processors::check(evidence));
    found.extend(machine::check(evidence));
    found.sort_by_key(|finding| finding.severity);
    found
}

#[cfg(test)]
mod tests;
