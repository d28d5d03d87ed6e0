//! What was found, as data.

use serde::{Deserialize, Serialize};

/// How much a finding matters, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something cannot be measured, or its figures say nothing of the hardware.
    Problem,
    /// Figures are lower, or differ more, than they need to.
    Advice,
    /// It could not be told here.
    Unknown,
    /// It was looked at, and is as it should be.
    Fine,
}

impl Severity {
    /// `problem`, `advice`, `unknown`, `fine`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Advice => "advice",
            Self::Unknown => "unknown",
            Self::Fine => "fine",
        }
    }
}

/// What is looked at. Its name in a document is that of the variant, as `pcie-link`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Whether there is an RDMA device, and it can be opened.
    Device,
    /// Whether programs can reach devices: `ib_uverbs`, `rdma_ucm`, `/dev/infiniband`.
    UserVerbs,
    /// The version of rdma-core.
    RdmaCore,
    /// Whether a port is active.
    PortState,
    /// Lanes and speed of a port.
    PortLink,
    /// The addresses of a RoCE port.
    Gid,
    /// The MTU of a port, and of the network interface behind it.
    Mtu,
    /// Width and speed of a device's PCIe link.
    PcieLink,
    /// Whether the IOMMU translates what a device reads and writes.
    Iommu,
    /// A device's NUMA node, and whether this process may use its processors.
    NumaNode,
    /// Automatic NUMA balancing.
    NumaBalancing,
    /// How processors choose their frequency.
    Governor,
    /// How deep idle processors sleep.
    IdleStates,
    /// What the kernel tells the time by.
    ClockSource,
    /// Whether this is a virtual or an emulated machine.
    Machine,
    /// Who moves interrupts about.
    Irqbalance,
    /// How much memory may be locked.
    LockedMemory,
    /// Huge pages.
    HugePages,
    /// The processors that a control group leaves.
    CpuLimit,
    /// The memory that a control group leaves.
    MemoryLimit,
    /// IP over InfiniBand: whether it is there, and what stands in an interface's way.
    Ipoib,
    /// What stands in the way of an Ethernet interface.
    Ethernet,
    /// How large TCP's windows may become.
    TcpWindow,
    /// Several interfaces on one subnet.
    SharedSubnet,
}

impl Check {
    /// Its name in a document.
    #[must_use]
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The check of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }
}

/// What was found at one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What was looked at.
    pub check: Check,
    /// Of what: a device, a port, an interface, or a part of the host.
    pub subject: String,
    /// What was seen; of what is unknown, why.
    pub seen: String,
    /// The file it was read from, or the call.
    pub source: String,
    /// What it does to figures; absent of what is fine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matters: Option<String>,
    /// What mends it: the command, where there is one; absent of what is fine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Finding {
    fn of(
        severity: Severity,
        check: Check,
        subject: impl Into<String>,
        seen: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            check,
            subject: subject.into(),
            seen: seen.into(),
            source: source.into(),
            matters: None,
            mend: None,
        }
    }

    /// Something that has to be mended; say what with [`because`](Self::because).
    pub(super) fn problem(
        check: Check,
        subject: impl Into<String>,
        seen: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self::of(Severity::Problem, check, subject, seen, source)
    }

    /// Something that could be better; say what with [`because`](Self::because).
    pub(super) fn advice(
        check: Check,
        subject: impl Into<String>,
        seen: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self::of(Severity::Advice, check, subject, seen, source)
    }

    /// What could not be told, and why.
    pub(super) fn unknown(
        check: Check,
        subject: impl Into<String>,
        why: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self::of(Severity::Unknown, check, subject, why, source)
    }

    /// What is as it should be.
    pub(super) fn fine(
        check: Check,
        subject: impl Into<String>,
        seen: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self::of(Severity::Fine, check, subject, seen, source)
    }

    /// Why it matters, and what mends it.
    pub(super) fn because(self, matters: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { matters: Some(matters.into()), mend: Some(mend.into()), ..self }
    }
}
