//! How interfaces are set up, as far as it bears on their speed: queues, offloads, and the
//! processors that take their interrupts; and how large TCP's windows may become.
//!
//! Sources: Documentation/ABI/testing/sysfs-class-net-queues, Documentation/networking/scaling.rst,
//! Documentation/core-api/irq/irq-affinity.rst, Documentation/networking/ip-sysctl.rst.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::interface::SYSFS_NET;
use crate::link;
use crate::netlink::Kernel;
use crate::offloads::{Offloads, offloads};
use crate::processors::Processors;
use crate::sysfs::Directory;

/// How an interface is set up. Absent is what the kernel did not say, or says of another network
/// namespace only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Setup {
    /// The interface's name.
    pub interface: String,
    /// Of an IPoIB interface with a partition key of its own: the main interface of its port.
    pub parent: Option<String>,
    /// Packets that may wait in a transmit queue (`tx_queue_len`).
    pub transmit_queue_length: Option<u32>,
    /// Its receive queues.
    pub receive_queues: Vec<Queue>,
    /// Its transmit queues.
    pub transmit_queues: Vec<Queue>,
    /// What its hardware, or the kernel in its place, does for many packets at once.
    pub offloads: Option<Offloads>,
    /// The interrupts of its device, some of which may serve other ports or interfaces of it.
    pub interrupts: Vec<Interrupt>,
    /// The NUMA node of its device.
    pub numa_node: Option<u32>,
    /// The processors of that node; without one all that are online.
    pub near: Processors,
}

/// A queue of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Queue {
    /// Of a receive queue: the processors that its packets are spread over by software (RPS), where
    /// none means the one that took the interrupt. Of a transmit queue: those that send by it (XPS).
    pub processors: Option<Processors>,
}

/// An interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// What its driver calls it.
    pub name: String,
    /// How often it came since the start of the system, on all processors.
    pub count: u64,
    /// The processors that may take it.
    pub allowed: Option<Processors>,
    /// Of these, the ones that do; absent before Linux 4.13.
    pub taken_by: Option<Processors>,
}

impl Interrupt {
    /// The processors that take it, as far as the kernel tells.
    pub fn processors(&self) -> Option<&Processors> {
        self.taken_by.as_ref().filter(|some| !some.is_empty()).or(self.allowed.as_ref())
    }
}

/// How much TCP may hold in the memory of one connection, in bytes. Absent is what the kernel did
/// not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TcpBuffers {
    /// For what arrives: the last figure of `tcp_rmem`.
    pub receive: Option<u64>,
    /// For what is sent and not yet acknowledged: the last figure of `tcp_wmem`.
    pub send: Option<u64>,
    /// The share of the receive buffer that is the kernel's own (`tcp_adv_win_scale`).
    pub window_scale: Option<i32>,
}

impl TcpBuffers {
    /// The largest window that a receiver offers: what `tcp_adv_win_scale` leaves of the buffer.
    /// Since Linux 6.6 the share depends on how full the packets are that arrive, and begins with the
    /// half that the default stands for.
    pub fn receive_window(&self) -> Option<u64> {
        let space = self.receive?;
        Some(match self.window_scale.unwrap_or(1) {
            scale @ 1..=31 => space - (space >> scale),
            scale @ -31..=0 => space >> -scale,
            _ => space,
        })
    }
}

/// The interfaces of the calling thread's network namespace, in the order of their indices.
///
/// # Errors
///
/// When the kernel does not answer.
pub fn setups() -> Result<Vec<Setup>, Error> {
    setups_below(Path::new("/"))
}

/// As [`setups`], with what is in `/sys` and `/proc` read below `root` instead.
///
/// # Errors
///
/// When the kernel does not answer. What cannot be read is absent.
pub fn setups_below(root: &Path) -> Result<Vec<Setup>, Error> {
    let failed =
        |source| Error::Kernel { what: "the list of network interfaces".to_owned(), source };
    let mut kernel = Kernel::open().map_err(failed)?;
    let mut links = link::links(&mut kernel).map_err(failed)?;
    links.sort_by_key(|link| link.index);
    // A kernel without it tells nothing of offloads, and everything else.
    let indices: Vec<_> = links.iter().map(|link| link.index).collect();
    let mut offloads = offloads(&indices).unwrap_or_default();
    let interrupts = counted_interrupts(root);
    let setup = |link: &link::Link| Setup {
        offloads: offloads.remove(&link.index),
        ..of_link(root, link, &interrupts)
    };
    Ok(links.iter().map(setup).collect())
}

/// How large the windows of TCP may become in the calling thread's network namespace, read below
/// `root` (`/`).
pub fn tcp_buffers(root: &Path) -> TcpBuffers {
    let text = |name: &str| fs::read_to_string(root.join("proc/sys/net/ipv4").join(name)).ok();
    // Three figures: the least, the first, the largest.
    let largest = |name| text(name)?.split_whitespace().nth(2)?.parse().ok();
    TcpBuffers {
        receive: largest("tcp_rmem"),
        send: largest("tcp_wmem"),
        window_scale: text("tcp_adv_win_scale").and_then(|scale| scale.trim().parse().ok()),
    }
}

/// All but the offloads.
pub(crate) fn of_link(
    root: &Path,
    link: &link::Link,
    interrupts: &BTreeMap<u32, (u64, String)>,
) -> Setup {
    let interface = link.name.clone();
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let online = || {
        let text = fs::read_to_string(below("/sys/devices/system/cpu/online")).ok()?;
        Processors::from_list(&text)
    };
    let Some(directory) = Directory::of(&below(SYSFS_NET), link) else {
        return Setup { interface, near: online().unwrap_or_default(), ..Setup::default() };
    };
    let numa_node = directory.of_function("numa_node").and_then(|node| node.parse().ok());
    let of_node = |node: u32| {
        let list = below(&format!("/sys/devices/system/node/node{node}/cpulist"));
        Processors::from_list(&fs::read_to_string(list).ok()?)
    };
    let near = numa_node.and_then(of_node).filter(|processors| !processors.is_empty());
    Setup {
        interface,
        parent: directory.text("parent").filter(|parent| !parent.is_empty()),
        transmit_queue_length: directory.text("tx_queue_len").and_then(|text| text.parse().ok()),
        receive_queues: queues(&directory, "rx-", "rps_cpus"),
        transmit_queues: queues(&directory, "tx-", "xps_cpus"),
        offloads: None,
        interrupts: of_device(root, &directory, interrupts),
        numa_node,
        near: near.or_else(online).unwrap_or_default(),
    }
}

fn queues(directory: &Directory, prefix: &str, processors: &str) -> Vec<Queue> {
    let names = directory.entries("queues");
    let mut numbers: Vec<u32> =
        names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    let queue = |number| {
        let mask = directory.text(&format!("queues/{prefix}{number}/{processors}"));
        Queue { processors: mask.and_then(|mask| Processors::from_mask(&mask)) }
    };
    numbers.into_iter().map(queue).collect()
}

/// The message-signalled interrupts of the PCI function under an interface.
fn of_device(
    root: &Path,
    directory: &Directory,
    counted: &BTreeMap<u32, (u64, String)>,
) -> Vec<Interrupt> {
    let mut numbers: Vec<u32> = directory
        .entries_of_function("msi_irqs")
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    numbers.sort_unstable();
    let interrupt = |number: u32| {
        let processors = |name: &str| {
            let path = root.join(format!("proc/irq/{number}/{name}"));
            Processors::from_list(&fs::read_to_string(path).ok()?)
        };
        let (count, name) = counted.get(&number)?.clone();
        Some(Interrupt {
            number,
            name,
            count,
            allowed: processors("smp_affinity_list"),
            taken_by: processors("effective_affinity_list"),
        })
    };
    numbers.into_iter().filter_map(interrupt).collect()
}

/// How often each interrupt came, and its name, from `/proc/interrupts`: a line of processors, then
/// one an interrupt with a count for each, its controller, and who asked for it.
pub(crate) fn counted_interrupts(root: &Path) -> BTreeMap<u32, (u64, String)> {
    let text = fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default();
    let processors = text.lines().next().map_or(0, |line| line.split_whitespace().count());
    let interrupt = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let counts = rest.split_whitespace().take(processors);
        let count = counts.filter_map(|count| count.parse::<u64>().ok()).sum();
        let name = rest.split_whitespace().skip(processors).last()?;
        Some((number, (count, name.to_owned())))
    };
    text.lines().skip(1).filter_map(interrupt).collect()
}
