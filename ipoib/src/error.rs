//! What can go wrong, each in one line that says what to do.

use std::io;
use std::net::IpAddr;

/// Why an interface, a path or a count could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel did not answer a question about interfaces or addresses.
    #[error("cannot ask the kernel for {what}: {source}")]
    Kernel {
        /// What was asked for.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An interface that was named, or was there before, is not there.
    #[error(
        "there is no interface {name} in this network namespace; it has {}",
        crate::words::list_or(known, "none")
    )]
    NoInterface {
        /// The interface that is missed.
        name: String,
        /// The interfaces that are there.
        known: Vec<String>,
    },
    /// An interface was removed while it was measured.
    #[error("{name} was removed while it was measured: nothing can be said about its traffic")]
    Vanished {
        /// The interface.
        name: String,
    },
    /// The counters ran backwards: the interface was made anew, or its driver was reset.
    #[error(
        "the counters of {name} were reset while it was measured: measure again, and see the \
         kernel log if it recurs"
    )]
    CountersReset {
        /// The interface.
        name: String,
    },
    /// No pair of interfaces makes the path that was asked for.
    #[error("{0}")]
    NoPath(String),
    /// The kernel has no route, or refuses to use one.
    #[error(
        "the kernel has no route to {destination}{}: {source}: {cure}",
        from_words(source_address)
    )]
    NoRoute {
        /// Where the packet would go.
        destination: IpAddr,
        /// The source it would have, if one was given.
        source_address: Option<IpAddr>,
        /// The kernel's answer.
        source: io::Error,
        /// What to do.
        cure: &'static str,
    },
    /// The kernel would send by another interface than the one that is to be measured.
    #[error("{0}")]
    OtherRoute(String),
}

fn from_words(source: &Option<IpAddr>) -> String {
    source.map(|address| format!(" from {address}")).unwrap_or_default()
}
