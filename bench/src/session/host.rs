//! What the two hosts tell one another of themselves and of a slice.

use std::{fs, path::Path};

use fabricbench_ipoib::{Advice, Interface, Setup, TcpBuffers};
use serde::{Deserialize, Serialize};

use super::ServedConnection;
use crate::{
    observe,
    report::{Counters, CpuUse, Environment},
    transport::Received,
};

/// What one side tells the other of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// What the host is.
    pub environment: Environment,
    /// Its network interfaces, as its process sees them.
    pub interfaces: Vec<Interface>,
    /// How they are set up.
    #[serde(default)]
    pub setups: Vec<Setup>,
    /// How large TCP's windows may become.
    #[serde(default)]
    pub tcp_buffers: TcpBuffers,
    /// Names this boot of this kernel: equal on both sides means that they share processors.
    pub boot: Option<String>,
    /// Names the network namespace within the boot: both equal means that traffic between the two
    /// sides never leaves the host.
    pub network_namespace: Option<String>,
    /// RDMA devices, or why there are none.
    pub rdma: Result<Vec<RdmaDevice>, String>,
}

/// An RDMA device as the other side needs to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaDevice {
    /// Name, as in `rdma link`.
    pub name: String,
    /// Ports that are active.
    pub active_ports: Vec<u8>,
}

/// What the server saw of a slice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// What arrived.
    pub received: Received,
    /// How its counters moved.
    pub counters: Counters,
    /// Processor time of the server process, in nanoseconds.
    pub cpu_ns: u64,
    /// What that was spent on.
    #[serde(default)]
    pub cpu_use: Option<CpuUse>,
    /// How fast its processors ran, in MHz.
    #[serde(default)]
    pub mhz: Option<u32>,
    /// Time in which its threads were ready to run and had no processor, in nanoseconds.
    #[serde(default)]
    pub waiting_ns: Option<u64>,
    /// The most memory that the server process had resident at once, in bytes.
    #[serde(default)]
    pub peak_memory_bytes: Option<u64>,
    /// The marks of the slice's calls, where calls are marked.
    #[serde(default)]
    pub marked: Vec<ServedConnection>,
    /// What went wrong on its side.
    pub error: Option<String>,
}

impl Host {
    /// This host now, as this process sees it.
    ///
    /// # Errors
    /// The kernel does not tell its interfaces, in words.
    pub fn here() -> Result<Self, String> {
        Ok(Self {
            environment: observe::environment(),
            interfaces: fabricbench_ipoib::interfaces().map_err(|error| error.to_string())?,
            setups: fabricbench_ipoib::setups().map_err(|error| error.to_string())?,
            tcp_buffers: fabricbench_ipoib::tcp_buffers(Path::new("/")),
            boot: boot(),
            network_namespace: network_namespace(),
            rdma: rdma_devices(),
        })
    }

    /// How an interface is set up.
    #[must_use]
    pub fn setup(&self, interface: &Interface) -> Option<&Setup> {
        self.setups.iter().find(|setup| setup.interface == interface.name)
    }

    /// What could be set better on an interface.
    #[must_use]
    pub fn advice(&self, interface: &Interface) -> Vec<Advice> {
        fabricbench_ipoib::advice(interface, self.setup(interface))
    }

    /// Whether both sides run on one kernel.
    #[must_use]
    pub fn shares_kernel_with(&self, other: &Self) -> bool {
        self.boot.is_some() && self.boot == other.boot
    }

    /// Whether both sides run in one network namespace of one kernel.
    #[must_use]
    pub fn shares_network_with(&self, other: &Self) -> bool {
        self.shares_kernel_with(other)
            && self.network_namespace.is_some()
            && self.network_namespace == other.network_namespace
    }
}

fn rdma_devices() -> Result<Vec<RdmaDevice>, String> {
    let devices = fabricbench_verbs::devices().map_err(|error| error.to_string())?;
    let active_ports = |device: &fabricbench_verbs::Device| -> Vec<u8> {
        let Ok(context) = device.open() else { return Vec::new() };
        (1..=context.limits().ports)
            .filter(|&port| context.port(port).is_ok_and(|port| port.is_active()))
            .collect()
    };
    Ok(devices
        .iter()
        .map(|device| RdmaDevice {
            name: device.name().to_owned(),
            active_ports: active_ports(device),
        })
        .collect())
}

fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

fn network_namespace() -> Option<String> {
    Some(fs::read_link("/proc/self/ns/net").ok()?.display().to_string())
}
