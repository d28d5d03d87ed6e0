//! What only sysfs knows of an interface: its driver, its RDMA device, its speed.
//!
//! `/sys/class/net` shows the network namespace in which it was mounted. After a bare
//! `setns`, as by `nsenter --net`, that is another than the thread's, and a name in it may
//! stand for another interface (`ip netns exec` mounts it anew). So a directory is used only if
//! it agrees with what netlink said of the link; without it, these attributes are absent.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::interface::RdmaPort;
use crate::link::Link;

/// One interface's directory.
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The directory of `link` below `root`, if there is one and it is of that link.
    pub(crate) fn of(root: &Path, link: &Link) -> Option<Self> {
        let directory = Self { path: root.join(&link.name) };
        let hardware_address: Vec<String> =
            link.hardware_address.iter().map(|byte| format!("{byte:02x}")).collect();
        let agrees = directory.text("ifindex")?.parse() == Ok(link.index)
            && directory.text("type")?.parse() == Ok(link.hardware)
            && directory.text("address").unwrap_or_default() == hardware_address.join(":");
        agrees.then_some(directory)
    }

    /// The driver of the device behind the interface.
    pub(crate) fn driver(&self) -> Option<String> {
        let target = fs::read_link(self.path.join("device/driver")).ok()?;
        target.file_name().and_then(OsStr::to_str).map(str::to_owned)
    }

    /// The RDMA device and port that an IPoIB interface is on.
    pub(crate) fn rdma_port(&self) -> Option<RdmaPort> {
        let mut devices = fs::read_dir(self.path.join("device/infiniband")).ok()?;
        let device = devices.next()?.ok()?.file_name().into_string().ok()?;
        if devices.next().is_some() {
            // Several on one PCI function: sysfs does not say which of them.
            return None;
        }
        // Counted from 0 here and from 1 by verbs. Before Linux 3.15 there was only dev_id.
        let from_zero = self.text("dev_port").and_then(|port| port.parse::<u32>().ok());
        let from_zero = from_zero.or_else(|| {
            let id = self.text("dev_id")?;
            u32::from_str_radix(id.trim_start_matches("0x"), 16).ok()
        })?;
        Some(RdmaPort { device, port: from_zero.checked_add(1)? })
    }

    /// Mb/s as the interface's driver states it; for IPoIB drivers that do not, the rate of
    /// the port.
    pub(crate) fn speed(&self, port: Option<&RdmaPort>) -> Option<u32> {
        // -1, as an unknown speed reads, is no u32; a read of a link that is down is an error.
        let stated = self.text("speed").and_then(|speed| speed.parse().ok());
        stated.filter(|speed| *speed > 0).or_else(|| {
            let RdmaPort { device, port } = port?;
            let rate = self.text(&format!("device/infiniband/{device}/ports/{port}/rate"))?;
            rate_in_mbps(&rate)
        })
    }

    /// An attribute of the PCI function: of the device behind the interface, or, where that is one of
    /// virtio's, of the one under it.
    pub(crate) fn of_function(&self, attribute: &str) -> Option<String> {
        ["device", "device/.."]
            .iter()
            .find_map(|device| self.text(&format!("{device}/{attribute}")))
    }

    /// What a directory of that function holds.
    pub(crate) fn entries_of_function(&self, name: &str) -> Vec<String> {
        let held = ["device", "device/.."].map(|device| self.entries(&format!("{device}/{name}")));
        held.into_iter().find(|entries| !entries.is_empty()).unwrap_or_default()
    }

    /// The names of what a directory holds; none if it is not there.
    pub(crate) fn entries(&self, name: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path.join(name)) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.collect()
    }

    pub(crate) fn text(&self, attribute: &str) -> Option<String> {
        let text = fs::read_to_string(self.path.join(attribute)).ok()?;
        Some(text.trim().to_owned())
    }
}

/// Reads a port's rate, such as "100 Gb/sec (4X EDR)" or "2.5 Gb/sec (1X SDR)".
fn rate_in_mbps(text: &str) -> Option<u32> {
    let (number, _) = text.split_once(" Gb/sec")?;
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let (whole, tenths): (u32, u32) = (whole.parse().ok()?, tenths.parse().ok()?);
    let rate = whole.checked_mul(1000)?.checked_add(tenths.checked_mul(100)?)?;
    (tenths < 10 && rate > 0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::rate_in_mbps;

    #[test]
    fn reads_the_rates_of_ports() {
        assert_eq!(rate_in_mbps("100 Gb/sec (4X EDR)"), Some(100_000));
        assert_eq!(rate_in_mbps("2.5 Gb/sec (1X SDR)"), Some(2_500));
        assert_eq!(rate_in_mbps("400 Gb/sec (4X NDR)"), Some(400_000));
        for text in ["", "fast", "0 Gb/sec", "-1 Gb/sec (4X)", "99999999999 Gb/sec", "1.25 Gb/sec"]
        {
            assert_eq!(rate_in_mbps(text), None, "{text}");
        }
    }
}
