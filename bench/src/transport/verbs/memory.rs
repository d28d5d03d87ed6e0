//! Which memory messages are in, and which processors are near it.

use std::fmt;

use fabricbench_verbs::{
    Access, Error, MemoryOptions, MemoryRegion, NodeChoice, Pages, Placement, ProtectionDomain,
    Sysfs,
};
use serde::{Deserialize, Serialize};

use super::{VerbsPort, refused};
use crate::transport::TransportError;

/// Which memory to register, as the two sides tell one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct MemorySettings {
    /// Size of the pages.
    pub pages: PageSize,
    /// Whether normal pages do where huge ones are missing.
    pub fallback: bool,
    /// NUMA node of the memory, and of threads that are bound to no processor.
    pub node: Node,
    /// Whether threads that are bound to no processor may run on any.
    pub threads_anywhere: bool,
    /// Whether pages are pinned only when the device touches them (ODP).
    pub on_demand: bool,
    /// Whether the memory is the device's own.
    pub on_device: bool,
}

/// The pages under the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PageSize {
    /// The kernel's own size.
    #[default]
    #[serde(rename = "normal")]
    Normal,
    /// 2 MiB.
    #[serde(rename = "2M")]
    Huge2M,
    /// 1 GiB.
    #[serde(rename = "1G")]
    Huge1G,
}

/// A NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Node {
    /// The one the device is attached to, where the kernel tells it.
    #[default]
    Device,
    /// Whichever the kernel takes.
    Any,
    /// This one.
    Number(u32),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => f.write_str("device"),
            Self::Any => f.write_str("any"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl MemorySettings {
    fn options(self) -> MemoryOptions {
        MemoryOptions {
            pages: match self.pages {
                PageSize::Normal => Pages::Normal,
                PageSize::Huge2M => Pages::Huge2M,
                PageSize::Huge1G => Pages::Huge1G,
            },
            fallback: self.fallback,
            node: match self.node {
                Node::Any => NodeChoice::Any,
                Node::Device => NodeChoice::Device,
                Node::Number(number) => NodeChoice::Node(number),
            },
            on_demand: self.on_demand,
        }
    }

    /// Registers `length` bytes as asked for.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`]: the device or this host lacks what was asked for;
    /// [`TransportError::Failed`]: the kernel refused.
    pub(super) fn register(
        self,
        domain: &ProtectionDomain,
        length: usize,
        access: Access,
    ) -> Result<MemoryRegion, TransportError> {
        let region = if self.on_device {
            domain.register_device_memory(length, access)
        } else {
            domain.register_with(length, access, &self.options())
        }
        .map_err(missing)?;
        if self.on_device {
            // Nobody has cleared it, and a stamp or a count of a test before may be there.
            region.fill(0, length, 0).map_err(super::failed)?;
        }
        // The device's node is a rule of ours; a number is the user's word.
        if let (Node::Number(node), false) = (self.node, self.on_device) {
            granted(node, region.backing().placement)?;
        }
        Ok(region)
    }
}

fn missing(error: Error) -> TransportError {
    match error {
        Error::HugePages { .. } => {
            TransportError::Unsupported(format!("{error} (--pages-fallback)"))
        }
        error => refused(error),
    }
}

fn granted(node: u32, placement: Placement) -> Result<(), TransportError> {
    match placement {
        Placement::On(_) => Ok(()),
        elsewhere => Err(TransportError::Unsupported(format!(
            "memory on NUMA node {node} (--numa): it came to be {elsewhere}; name another node, or \
             `any`"
        ))),
    }
}

impl VerbsPort {
    /// The processors of the node that `memory` asks for; `None` where none is asked for or the
    /// kernel does not tell it.
    #[must_use]
    pub fn processors(&self, memory: &MemorySettings) -> Option<Vec<u32>> {
        processors(&Sysfs::default(), &self.port.device, memory)
    }
}

fn processors(sysfs: &Sysfs, device: &str, memory: &MemorySettings) -> Option<Vec<u32>> {
    if memory.threads_anywhere {
        return None;
    }
    let node = match memory.node {
        Node::Any => None,
        Node::Device => sysfs.numa_node(device),
        Node::Number(number) => Some(number),
    };
    sysfs.node_processors(node?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_those_of_the_node_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("class/infiniband/mlx5_0/device/numa_node", "1\n");
        write("class/infiniband/rxe0/device/numa_node", "-1\n");
        write("devices/system/node/node0/cpulist", "0-1\n");
        write("devices/system/node/node1/cpulist", "2,3\n");
        let sysfs = Sysfs::at(root.path());
        let of = |device: &str, node| {
            processors(&sysfs, device, &MemorySettings { node, ..MemorySettings::default() })
        };
        assert_eq!(of("mlx5_0", Node::Device), Some(vec![2, 3]));
        assert_eq!(of("mlx5_0", Node::Number(0)), Some(vec![0, 1]));
        assert_eq!(of("mlx5_0", Node::Any), None);
        assert_eq!(of("rxe0", Node::Device), None, "the kernel does not tell its node");
        assert_eq!(of("mlx5_0", Node::Number(7)), None);
        let anywhere = MemorySettings { threads_anywhere: true, ..MemorySettings::default() };
        assert_eq!(processors(&sysfs, "mlx5_0", &anywhere), None);
    }

    #[test]
    fn a_node_that_was_asked_for_and_not_given_is_refused() {
        granted(1, Placement::On(1)).unwrap();
        for placement in [
            Placement::Elsewhere { wanted: 1, found: 0 },
            Placement::Refused { wanted: 1, errno: rustix::io::Errno::INVAL.raw_os_error() },
        ] {
            let error = granted(1, placement).unwrap_err();
            assert!(error.to_string().contains("NUMA node 1 (--numa)"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_unsupported_and_a_refusal_a_failure() {
        let absent = Error::Unsupported { device: "rxe0".into(), what: "that".into() };
        assert!(matches!(missing(absent), TransportError::Unsupported(_)));
        assert!(matches!(missing(Error::NoDevice), TransportError::Failed(_)));
    }
}
