//! What findings are drawn from: files, what the kernel says of interfaces, and what libibverbs says
//! of ports.

use fabricbench_ipoib::{Advice, Interface, TcpBuffers};
use fabricbench_verbs::Device;

use super::tree::Tree;
use crate::session::Host;

/// All of it, of one host at one moment.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// `/sys`, `/proc` and `/dev`.
    pub tree: Tree,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// What the crate for interfaces found of them.
    pub advice: Vec<Advice>,
    /// How large TCP's windows may become.
    pub tcp_buffers: TcpBuffers,
    /// What this machine runs in, if not on hardware.
    pub virtualization: Option<String>,
    /// What libibverbs sees, or why it sees nothing.
    pub verbs: Result<Vec<SeenDevice>, String>,
}

/// An RDMA device as libibverbs shows it.
#[derive(Debug, Clone)]
pub struct SeenDevice {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Its ports, or why it does not open.
    pub ports: Result<Vec<SeenPort>, String>,
}

/// A port as libibverbs shows it: what sysfs does not say.
#[derive(Debug, Clone)]
pub struct SeenPort {
    /// From 1.
    pub number: u32,
    /// Whether the kernel emulates the device.
    pub emulated: bool,
    /// The path MTU in force, in bytes.
    pub active_mtu: Option<u32>,
    /// The largest path MTU that the port could have, in bytes.
    pub max_mtu: Option<u32>,
    /// The network interface behind it.
    pub netdev: Option<String>,
}

impl Evidence {
    /// Of this host, as this process sees it.
    #[must_use]
    pub fn here(host: &Host) -> Self {
        Self {
            tree: Tree::default(),
            interfaces: host.interfaces.clone(),
            advice: host.interfaces.iter().flat_map(|interface| host.advice(interface)).collect(),
            tcp_buffers: host.tcp_buffers,
            virtualization: host.environment.virtualization.clone(),
            verbs: fabricbench_verbs::devices()
                .map(|devices| devices.iter().map(SeenDevice::of).collect())
                .map_err(|error| error.to_string()),
        }
    }

    /// What libibverbs says of a port.
    pub(super) fn seen_port(&self, device: &str, number: u32) -> Option<&SeenPort> {
        let seen = self.verbs.as_ref().ok()?.iter().find(|seen| seen.name == device)?;
        seen.ports.as_ref().ok()?.iter().find(|port| port.number == number)
    }

    /// Whether a device is known to be the kernel's emulation.
    pub(super) fn is_emulated(&self, device: &str) -> bool {
        let seen = self.verbs.iter().flatten().find(|seen| seen.name == device);
        let ports = seen.and_then(|seen| seen.ports.as_ref().ok());
        ports.is_some_and(|ports| ports.iter().any(|port| port.emulated))
    }

    /// The interface of a name.
    pub(super) fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }
}

impl SeenDevice {
    fn of(device: &Device) -> Self {
        let ports = device.open().map_err(|error| error.to_string()).map(|context| {
            let numbers = 1..=context.limits().ports;
            let ports = numbers.filter_map(|number| context.port(number).ok());
            ports
                .map(|port| SeenPort {
                    number: port.number.into(),
                    emulated: port.emulated,
                    active_mtu: port.active_mtu.map(|mtu| mtu.bytes()),
                    max_mtu: port.max_mtu.map(|mtu| mtu.bytes()),
                    netdev: port.netdev,
                })
                .collect()
        });
        Self { name: device.name().to_owned(), ports }
    }
}
