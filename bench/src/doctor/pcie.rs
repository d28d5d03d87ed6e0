//! What lies between a device and memory: its PCIe link, and the IOMMU
//! (Documentation/ABI/testing/sysfs-bus-pci, sysfs-kernel-iommu_groups).

use super::{
    device::Device,
    evidence::Evidence,
    finding::{Check, Finding},
    tree::Tree,
};

/// A link's speed and lanes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Link {
    /// GT/s, of a lane.
    speed: f64,
    lanes: u32,
}

impl Link {
    /// `current` or `max` of the function at `path`. A link that is not known reads as `Unknown` and
    /// 0 or 255 lanes, as those of virtual functions do.
    fn of(tree: &Tree, path: &str, which: &str) -> Option<Self> {
        let speed = tree.text(&format!("{path}/{which}_link_speed"))?;
        let (speed, _) = speed.split_once(" GT/s")?;
        let lanes = tree.value(&format!("{path}/{which}_link_width"))?;
        let speed = speed.parse().ok().filter(|speed: &f64| speed.is_finite() && *speed > 0.0)?;
        (1..=32).contains(&lanes).then_some(Self { speed, lanes })
    }

    /// What it carries each way, in Gb/s, its coding taken off and packets' headers not
    /// (`PCIE_SPEED2MBS_ENC` of the kernel's drivers/pci/pci.h).
    fn gigabits(self) -> f64 {
        let coding = if self.speed < 8.0 {
            8.0 / 10.0
        } else if self.speed < 64.0 {
            128.0 / 130.0
        } else {
            1.0
        };
        self.speed * coding * f64::from(self.lanes)
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "x{} at {} GT/s", self.lanes, self.speed)
    }
}

pub(super) fn check(evidence: &Evidence, devices: &[Device]) -> Vec<Finding> {
    let real = devices.iter().filter(|device| !device.emulated);
    real.flat_map(|device| {
        [link(&evidence.tree, device), iommu(evidence, device)].into_iter().flatten()
    })
    .collect()
}

fn link(tree: &Tree, device: &Device) -> Option<Finding> {
    // A virtual function has no link of its own.
    let physical = format!("{}/device/physfn", device.path);
    let function = if tree.has(&physical) { physical } else { format!("{}/device", device.path) };
    let name = device.name.as_str();
    let source = format!("{function}/current_link_speed, current_link_width");
    if !tree.has(&format!("{function}/current_link_width")) {
        // What is on another bus, or whose physical function a virtual machine does not have.
        let why = "its PCIe link is not shown";
        return tree
            .has(&format!("{}/device", device.path))
            .then(|| Finding::unknown(Check::PcieLink, name, why, source));
    }
    let Some(current) = Link::of(tree, &function, "current") else {
        let why = "the speed of its PCIe link is not known to the kernel";
        return Some(Finding::unknown(Check::PcieLink, name, why, source));
    };
    let ports: f64 = device
        .ports
        .iter()
        .filter(|port| port.is_active())
        .filter_map(|port| port.link())
        .map(|(gigabits, ..)| gigabits)
        .sum();
    let carries = current.gigabits();
    let seen = match Link::of(tree, &function, "max") {
        Some(max) if max != current => format!("PCIe {current}, of {max}"),
        _ => format!("PCIe {current}"),
    };
    let is_less = Link::of(tree, &function, "max")
        .is_some_and(|max| current.lanes < max.lanes || current.speed < max.speed);
    let mend = format!(
        "reseat the adapter, or give it a slot of full width and speed (BIOS: bifurcation, link \
         speed); lspci -vv -s {} | grep Lnk",
        tree.target_name(&format!("{}/device", device.path))
            .unwrap_or_else(|| "ADDRESS".to_owned())
    );
    Some(if ports > carries {
        Finding::problem(Check::PcieLink, name, seen, source).because(
            format!(
                "it carries {carries:.0} Gb/s before packet headers, the active ports {ports:.0} Gb/s: \
                 bandwidth ends at the slot"
            ),
            mend,
        )
    } else if is_less {
        Finding::advice(Check::PcieLink, name, seen, source).because(
            format!(
                "it carries {carries:.0} Gb/s, which is enough for the active ports' {ports:.0} Gb/s; \
                 each message crosses it more slowly"
            ),
            mend,
        )
    } else {
        Finding::fine(Check::PcieLink, name, seen, source)
    })
}

fn iommu(evidence: &Evidence, device: &Device) -> Option<Finding> {
    // The address translation of a virtual machine's host is not to be seen from here.
    let source = format!("{}/device/iommu_group/type", device.path);
    let kind = evidence.tree.text(&source)?;
    let name = device.name.as_str();
    let seen = format!("the IOMMU's domain of the device is {kind}");
    Some(match kind.as_str() {
        "identity" => Finding::fine(Check::Iommu, name, seen, source),
        "DMA" | "DMA-FQ" => Finding::advice(Check::Iommu, name, seen, source).because(
            "each address that the device reads or writes is translated, which costs where its cache \
             of translations is too small",
            "iommu=pt on the kernel's command line, where programs and virtual machines need no \
             protection from devices",
        ),
        _ => Finding::unknown(Check::Iommu, name, seen, source),
    })
}
