//! Where the kernel describes RDMA devices in text, below a root that tests can replace.
//!
//! A process in another network namespace or a container may see a `/sys` without
//! `class/infiniband`: every reader treats an absent file as "not known".

use std::io;
use std::path::{Path, PathBuf};

/// The root of sysfs: `/sys`, or a directory tree that looks like it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysfs(PathBuf);

impl Default for Sysfs {
    fn default() -> Self {
        Self(PathBuf::from("/sys"))
    }
}

impl Sysfs {
    /// A tree other than `/sys`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    /// `class/infiniband/DEVICE`.
    #[must_use]
    pub fn device(&self, device: &str) -> PathBuf {
        self.0.join("class/infiniband").join(device)
    }

    /// `class/infiniband/DEVICE/ports/PORT`.
    #[must_use]
    pub fn port(&self, device: &str, port: u8) -> PathBuf {
        self.device(device).join("ports").join(port.to_string())
    }

    /// Which port of its adapter the network interface is over, from 0 (`dev_port`).
    pub(crate) fn interface_port(&self, interface: &str) -> Option<u32> {
        read(&self.0.join("class/net").join(interface).join("dev_port")).ok()?.parse().ok()
    }

    /// The names of all RDMA devices the kernel shows, sorted; none if the class is absent.
    #[must_use]
    pub fn device_names(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.0.join("class/infiniband")) else {
            return Vec::new();
        };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// The network interface the GID at `index` belongs to.
    pub(crate) fn gid_netdev(&self, device: &str, port: u8, index: u32) -> Option<String> {
        read(&self.port(device, port).join("gid_attrs/ndevs").join(index.to_string())).ok()
    }

    /// The type of the GID at `index` as the kernel words it: `IB/RoCE v1` or `RoCE v2`.
    pub(crate) fn gid_type(&self, device: &str, port: u8, index: u32) -> Option<String> {
        read(&self.port(device, port).join("gid_attrs/types").join(index.to_string())).ok()
    }
}

/// A one-line attribute without its line end; an empty one is an error.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    let text = text.trim();
    if text.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "empty attribute"));
    }
    Ok(text.to_owned())
}
