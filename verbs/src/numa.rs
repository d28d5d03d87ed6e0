//! NUMA: which node a device is on, and memory on that node.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_ulong};
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};

use crate::sysfs::{self, Sysfs};

/// Nodes a mask names: the most that Linux can be built for (`CONFIG_NODES_SHIFT` up to 10).
const MAX_NODES: usize = 1 << 10;
/// Processors of a machine: the most that Linux can be built for (`CONFIG_NR_CPUS`).
const MAX_PROCESSORS: u32 = 8192;
const WORD: usize = c_ulong::BITS as usize;

/// `MPOL_PREFERRED` of `linux/mempolicy.h`: from this node while it has memory, then from others.
/// To insist (`MPOL_BIND`) would kill the process where the node has none.
const PREFERRED: c_int = 1;
/// `MPOL_F_NODE | MPOL_F_ADDR`: the node of the page at an address.
const NODE_OF_ADDRESS: c_ulong = 0b11;

/// Where the memory of a region shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NodeChoice {
    /// Where the kernel puts it: the node of the thread that registers.
    #[default]
    Any,
    /// On the device's node, if it is known.
    Device,
    /// On this node.
    Node(u32),
}

/// Where the memory of a region is, as far as it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// No node was asked for.
    Unasked,
    /// The kernel does not say which node the device is on, as for virtual devices and on
    /// machines with one node.
    UnknownNode,
    /// On the node asked for: its first, middle and last page are.
    On(u32),
    /// The node asked for had no memory left, so that at least one page is on another.
    Elsewhere {
        /// The node asked for.
        wanted: u32,
        /// The node of the first page found elsewhere.
        found: u32,
    },
    /// The kernel did not take the wish, with this error number: containers often forbid the
    /// call (`EPERM`), and there may be no such node (`EINVAL`).
    Refused {
        /// The node asked for.
        wanted: u32,
        /// The error number.
        errno: i32,
    },
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unasked => f.write_str("on any NUMA node"),
            Self::UnknownNode => f.write_str("on any NUMA node (the device's is not known)"),
            Self::On(node) => write!(f, "on NUMA node {node}"),
            Self::Elsewhere { wanted, found } => {
                write!(f, "partly on NUMA node {found}: node {wanted} has no memory left")
            }
            Self::Refused { wanted, errno } => {
                let errno = io::Error::from_raw_os_error(errno);
                write!(f, "on any NUMA node (node {wanted} refused: {errno})")
            }
        }
    }
}

impl Sysfs {
    /// The NUMA node `device` is attached to. A soft-RoCE device is where its network interface
    /// is. `None` if the kernel does not say (it writes -1).
    #[must_use]
    pub fn numa_node(&self, device: &str) -> Option<u32> {
        let device = self.device(device);
        sysfs::read(&device.join("device/numa_node"))
            .or_else(|_| {
                let interface = sysfs::read(&device.join("parent"))?;
                let interface = self.root().join("class/net").join(interface);
                sysfs::read(&interface.join("device/numa_node"))
            })
            .ok()?
            .parse()
            .ok()
    }
}

impl Sysfs {
    /// The processors of a NUMA node, by number; `None` if there is no such node.
    #[must_use]
    pub fn node_processors(&self, node: u32) -> Option<Vec<u32>> {
        let file = self.root().join(format!("devices/system/node/node{node}/cpulist"));
        processors(&sysfs::read(&file).ok()?)
    }
}

/// A list as the kernel writes it, `0-3,8`, in numbers.
fn processors(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        // No machine has more, and a wrong text must not fill the memory.
        if last >= MAX_PROCESSORS {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// The node `choice` means for `device`, or what to report instead.
pub(crate) fn resolve(
    sysfs: &Sysfs,
    device: &str,
    choice: NodeChoice,
) -> std::result::Result<u32, Placement> {
    match choice {
        NodeChoice::Any => Err(Placement::Unasked),
        NodeChoice::Device => sysfs.numa_node(device).ok_or(Placement::UnknownNode),
        NodeChoice::Node(node) => Ok(node),
    }
}

/// Asks for the pages of a mapping, none of which may have been touched, to come from `node`.
pub(crate) fn prefer(start: NonNull<u8>, length: usize, node: u32) -> io::Result<()> {
    let mut mask = [0 as c_ulong; MAX_NODES / WORD];
    let bit = node as usize;
    let word =
        mask.get_mut(bit / WORD).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    *word |= 1 << (bit % WORD);
    // The kernel takes one bit less than it is told.
    let bits = MAX_NODES as c_ulong + 1;
    // SAFETY: the range is a mapping of the caller's, and the call changes only where pages of it
    // come from; the mask has as many bits as the call is told.
    let code = unsafe {
        libc::syscall(libc::SYS_mbind, start.as_ptr(), length, PREFERRED, mask.as_ptr(), bits, 0)
    };
    result(code)
}

/// The node of the page at `address`, which is brought in if it is not there yet.
fn node_of(address: NonNull<u8>) -> io::Result<u32> {
    let mut node: c_int = -1;
    let no_mask = ptr::null_mut::<c_ulong>();
    // SAFETY: with these flags the call writes one integer, and looks at the page table only.
    let code = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut node,
            no_mask,
            0,
            address.as_ptr(),
            NODE_OF_ADDRESS,
        )
    };
    result(code)?;
    u32::try_from(node).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn result(code: c_long) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Where the first, middle and last page of a range are that was wanted on a node.
pub(crate) fn found(start: NonNull<u8>, length: usize, wanted: u32) -> Placement {
    for offset in [0, length / 2, length.saturating_sub(1)] {
        // SAFETY: the offset is inside the range, which is one mapping.
        let address = unsafe { start.add(offset) };
        match node_of(address) {
            Ok(node) if node == wanted => {}
            Ok(found) => return Placement::Elsewhere { wanted, found },
            Err(errno) => return refused(wanted, &errno),
        }
    }
    Placement::On(wanted)
}

pub(crate) fn refused(wanted: u32, errno: &io::Error) -> Placement {
    Placement::Refused { wanted, errno: errno.raw_os_error().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Mapping, Pages};

    #[test]
    fn the_node_is_the_devices_or_its_interfaces() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(root.path());
        let device = sysfs.device("mlx5_0").join("device");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("numa_node"), "1\n").unwrap();
        assert_eq!(sysfs.numa_node("mlx5_0"), Some(1));
        std::fs::write(device.join("numa_node"), "-1\n").unwrap();
        assert_eq!(sysfs.numa_node("mlx5_0"), None);

        std::fs::create_dir_all(sysfs.device("rxe0")).unwrap();
        std::fs::write(sysfs.device("rxe0").join("parent"), "eth7\n").unwrap();
        assert_eq!(sysfs.numa_node("rxe0"), None);
        let interface = root.path().join("class/net/eth7/device");
        std::fs::create_dir_all(&interface).unwrap();
        std::fs::write(interface.join("numa_node"), "3\n").unwrap();
        assert_eq!(sysfs.numa_node("rxe0"), Some(3));
    }

    #[test]
    fn the_processors_of_a_node_are_read_from_its_list() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(root.path());
        let node = root.path().join("devices/system/node/node1");
        std::fs::create_dir_all(&node).unwrap();
        std::fs::write(node.join("cpulist"), "4-6,12\n").unwrap();
        assert_eq!(sysfs.node_processors(1), Some(vec![4, 5, 6, 12]));
        assert_eq!(sysfs.node_processors(0), None);
        assert_eq!(processors("0-4294967295"), None);
        assert_eq!(processors("a-b"), None);
    }

    #[test]
    fn a_choice_is_a_node_or_a_reason() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(root.path());
        assert_eq!(resolve(&sysfs, "d", NodeChoice::Any), Err(Placement::Unasked));
        assert_eq!(resolve(&sysfs, "d", NodeChoice::Device), Err(Placement::UnknownNode));
        assert_eq!(resolve(&sysfs, "d", NodeChoice::Node(5)), Ok(5));
    }

    #[test]
    fn a_node_that_is_not_there_is_refused_with_the_reason() {
        let mapping = Mapping::new(1 << 16, Pages::Normal, false).unwrap();
        for node in [MAX_NODES as u32 - 1, MAX_NODES as u32, u32::MAX] {
            assert!(prefer(mapping.start(), mapping.mapped(), node).is_err(), "{node}");
        }
        let text = refused(9, &io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(text.contains("node 9 refused: Operation not permitted"), "{text}");
    }

    #[test]
    fn pages_are_on_the_node_asked_for_or_it_says_where() {
        let mapping = Mapping::new(1 << 16, Pages::Normal, false).unwrap();
        // A sandbox may forbid the calls; the answer then is the reason.
        match prefer(mapping.start(), mapping.mapped(), 0) {
            Ok(()) => {
                let place = found(mapping.start(), mapping.mapped(), 0);
                assert!(matches!(place, Placement::On(0) | Placement::Refused { .. }), "{place}");
            }
            Err(errno) => assert!(errno.raw_os_error().is_some(), "{errno}"),
        }
    }
}
