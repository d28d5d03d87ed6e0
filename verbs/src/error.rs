//! What can go wrong outside the hot path, in one line each: what failed, on what, what to do.

use std::io;

use crate::cm::CmError;
use crate::completion_queue::PollError;
use crate::event::Event;
use crate::mapping::Pages;
use crate::memory::AccessError;
use crate::refusal::PostError;
use crate::status::CompletionError;

/// The result of every call that is not on the hot path.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an RDMA object could not be had or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `libibverbs.so.1` is not installed where this process looks for it.
    #[error(
        "no RDMA: libibverbs.so.1 cannot be loaded; install libibverbs1 and ibverbs-providers \
         (Debian, Ubuntu) or libibverbs (RHEL, Fedora, SUSE)"
    )]
    LibraryAbsent,

    /// The library is there, but the kernel offers no verbs to user space.
    #[error(
        "no RDMA: the kernel has no user-space verbs ({errno}); as root `modprobe ib_uverbs` and the adapter's \
         driver, or run in a guest whose kernel has them"
    )]
    KernelSupportAbsent {
        /// What `ibv_get_device_list` reported.
        errno: io::Error,
    },

    /// Library and kernel are ready, but there is no device.
    #[error(
        "no RDMA device on this host: load the adapter's driver; soft-RoCE makes one of an Ethernet interface: as \
         root `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev NETDEV`"
    )]
    NoDevice,

    /// The kernel has devices, but their character devices are not visible: the usual state of
    /// a container started without them.
    #[error(
        "RDMA device {devices} exists but /dev/infiniband/uverbs* is not visible to this process; \
         pass it into the container (docker run --device=/dev/infiniband, in Kubernetes an RDMA \
         device plugin)"
    )]
    NodeAbsent {
        /// Names of the devices the kernel lists, comma separated.
        devices: String,
    },

    /// The character device exists, but may not be opened.
    #[error(
        "RDMA device {device}: permission denied on {node}; give this user access (chmod 0666, or \
         a udev rule or group) or allow the device in the container (--device=/dev/infiniband)"
    )]
    PermissionDenied {
        /// The device's name, for example `mlx5_0`.
        device: String,
        /// The path of its character device.
        node: String,
    },

    /// No device has the name asked for.
    #[error("no RDMA device named {name}; this host has {available}")]
    DeviceNotFound {
        /// The name asked for.
        name: String,
        /// The names there are, comma separated.
        available: String,
    },

    /// The device has no such port.
    #[error("{device} has no port {port}; its ports are 1 to {ports}")]
    PortNotFound {
        /// The device's name.
        device: String,
        /// The port asked for.
        port: u8,
        /// How many ports it has.
        ports: u8,
    },

    /// No port of the candidates is active.
    #[error("no active RDMA port: {states}; bring the link up (ip link set NETDEV up)")]
    NoActivePort {
        /// Every port looked at with its state.
        states: String,
    },

    /// The GID index asked for is empty, or none suits.
    #[error("{device} port {port}: {why}; GID table: {table}")]
    NoGid {
        /// The device's name.
        device: String,
        /// The port.
        port: u8,
        /// What was asked and why it cannot be.
        why: String,
        /// The indexes that are there, in words.
        table: String,
    },

    /// Registering would exceed, or did exceed, the limit on locked memory.
    #[error(
        "cannot register {need} bytes of memory with {object}: RLIMIT_MEMLOCK is {limit} bytes, \
         {pinned} of them in use; raise it (ulimit -l unlimited, LimitMEMLOCK=infinity in systemd, \
         docker run --ulimit memlock=-1) or give the process CAP_IPC_LOCK"
    )]
    LockedMemory {
        /// The device, or what else the memory was for.
        object: String,
        /// Bytes to be pinned, in whole pages.
        need: u64,
        /// The soft limit in bytes.
        limit: u64,
        /// Bytes already pinned by this process.
        pinned: u64,
    },

    /// There are not enough huge pages for a region.
    #[error("cannot map {length} bytes in {pages} pages: {why}")]
    HugePages {
        /// Their size.
        pages: Pages,
        /// Bytes asked for.
        length: usize,
        /// How many are needed and free, and how to get more.
        why: String,
    },

    /// The device is gone, or the kernel waits for this process to let go of it.
    #[error("{device} is being removed; drop everything made from it and open another device")]
    Removed {
        /// The device's name.
        device: String,
    },

    /// An event after which traffic cannot go on.
    #[error("{device}: {event}; traffic cannot go on, look at the link and the kernel log")]
    Fatal {
        /// The device's name.
        device: String,
        /// What happened to what.
        event: Event,
    },

    /// The device cannot do what was asked.
    #[error("not supported by {device}: {what}")]
    Unsupported {
        /// The device's name.
        device: String,
        /// What it does not do, and what it does instead.
        what: String,
    },

    /// Objects of different protection domains or devices were combined.
    #[error("{what} belongs to another {parent}; create both from the same one")]
    Foreign {
        /// The object that does not belong.
        what: &'static str,
        /// What it should have in common.
        parent: &'static str,
    },

    /// A completion queue without a channel was to make events.
    #[error(
        "the completion queue makes no events; create it on a channel \
         (create_completion_queue_on), or poll it"
    )]
    NoChannel,

    /// A verbs call failed for a reason that has no variant of its own.
    #[error("{call} on {object} failed: {errno}; {cure}")]
    Call {
        /// The C function.
        call: &'static str,
        /// The object it was called on.
        object: String,
        /// The error number it gave.
        errno: io::Error,
        /// What is likely to help.
        cure: String,
    },

    /// The connection manager could not make or keep a connection.
    #[error(transparent)]
    Cm(#[from] CmError),

    /// An access outside a memory region.
    #[error(transparent)]
    Access(#[from] AccessError),

    /// A work request that could not be posted.
    #[error(transparent)]
    Post(#[from] PostError),

    /// A work request that completed with an error.
    #[error(transparent)]
    Completion(#[from] CompletionError),

    /// A completion queue that cannot be polled any more.
    #[error(transparent)]
    Poll(#[from] PollError),
}

impl Error {
    /// Whether the cause is that this host offers no (visible) RDMA device, so that a program
    /// with other transports can go on without.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::LibraryAbsent
                | Self::KernelSupportAbsent { .. }
                | Self::NoDevice
                | Self::NodeAbsent { .. }
                | Self::PermissionDenied { .. }
        )
    }
}

/// `io::Error` from the value a verbs call returned: most return an error number, some -1 with
/// `errno` set, some the number negative.
pub(crate) fn errno_of(code: i32) -> io::Error {
    match code {
        0 | -1 => io::Error::last_os_error(),
        code => io::Error::from_raw_os_error(code.wrapping_abs()),
    }
}
