//! What can go wrong, each in one line that says what to do.

use std::io;

/// A link that could not be made, or that ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address is not `IP/PREFIX`.
    #[error(
        "{text:?} is not an address with its prefix length: write it like 10.77.3.1/24 or fd00::1/64"
    )]
    Address {
        /// What was given.
        text: String,
    },
    /// The kernel would not take this interface name as it stands.
    #[error(
        "{name:?} is not an interface name: use 1 to 15 printable characters without '/', ':' and '%'"
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// The network namespace is not there, or not ours to enter.
    #[error("cannot enter a network namespace {name}: {source}: {}", namespace_cure(source))]
    Namespace {
        /// What it is called.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// `/dev/net/tun` does not open.
    #[error("cannot open /dev/net/tun: {source}: {}", tun_cure(source))]
    OpenTun {
        /// The kernel's answer.
        source: io::Error,
    },
    /// An interface of that name exists already.
    #[error("cannot make {name}: the namespace has an interface of that name: choose another name")]
    NameTaken {
        /// The interface.
        name: String,
    },
    /// The caller may not make devices or change them.
    #[error("cannot {action} {name}: {source}: run as root (CAP_NET_ADMIN is needed)")]
    Permission {
        /// What was tried.
        action: &'static str,
        /// The interface.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused a step of the set-up.
    #[error("cannot {action} {name}: {source}")]
    Kernel {
        /// What was tried.
        action: String,
        /// The interface.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An interface was deleted while the link ran.
    #[error("{name} was deleted: the link is down")]
    Vanished {
        /// The interface.
        name: String,
    },
    /// A signal handler or a thread was refused.
    #[error("cannot start to carry packets: {source}")]
    Start {
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    /// The answer to making a device, sorted by what the user can do about it.
    pub(crate) fn create(name: &str, source: io::Error) -> Self {
        match source.raw_os_error() {
            // Exclusive creation gives EBUSY for any TUN of that name, EINVAL for a device that
            // is none.
            Some(libc::EBUSY | libc::EINVAL | libc::EEXIST) => {
                Self::NameTaken { name: name.to_owned() }
            }
            _ => Self::step("make", name, source),
        }
    }

    /// The answer to a step of the set-up of `name`.
    pub(crate) fn step(action: &'static str, name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM) => Self::Permission { action, name, source },
            _ => Self::Kernel { action: action.to_owned(), name, source },
        }
    }
}

fn namespace_cure(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "create it first (ip netns add NAME)",
        io::ErrorKind::PermissionDenied => "run as root (CAP_SYS_ADMIN is needed)",
        io::ErrorKind::InvalidInput => {
            "the file is not a network namespace; ip netns list names them"
        }
        _ => "see ip netns list",
    }
}

fn tun_cure(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "run as root",
        _ => "load the kernel module tun, or give the container the device (--device /dev/net/tun)",
    }
}
