//! Which way a cell went, and what proves it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kinds of path, told apart by detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// RDMA over an InfiniBand link.
    Infiniband,
    /// RDMA over an Ethernet link by an adapter.
    Roce,
    /// RDMA over an Ethernet link by the kernel (rdma_rxe).
    SoftRoce,
    /// RDMA over TCP.
    Iwarp,
    /// IP over InfiniBand: an interface of ARPHRD 32.
    Ipoib,
    /// IP over Ethernet.
    Ethernet,
    /// IP over another kind of interface, such as a tunnel.
    Other,
    /// Within the host.
    Loopback,
}

/// A path as one side sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// What it is.
    pub kind: PathKind,
    /// RDMA device, for verbs.
    pub device: Option<String>,
    /// Port of that device.
    pub port: Option<u8>,
    /// Network interface.
    pub interface: Option<String>,
    /// Whether it passes for hardware that it is not: soft-RoCE, a TUN device of InfiniBand's type.
    /// Interfaces that are made by software and hide nothing (veth) are told by `backing`.
    pub emulated: bool,
    /// What stands behind a network interface: its driver, or the kind of software.
    pub backing: Option<String>,
    /// Local address, or GID.
    pub address: Option<String>,
    /// Path MTU for verbs, interface MTU else, in bytes.
    pub mtu: Option<u32>,
    /// How and why this path was chosen, in words.
    pub chosen: Option<String>,
}

/// How far counters moved while the cell was measured, warm-up included.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Bytes the interface sent, headers and other traffic included.
    pub interface_tx_bytes: Option<u64>,
    /// Bytes the interface received.
    pub interface_rx_bytes: Option<u64>,
    /// RDMA counters that moved, by the kernel's names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub rdma: BTreeMap<String, u64>,
    /// What follows from them.
    pub proof: Option<Proof>,
}

/// Whether the payload went where the row says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// Whether counters moved by at least the payload; `null` where the device has no counter that
    /// could tell.
    pub holds: Option<bool>,
    /// Payload bytes sent through the path.
    pub payload_tx_bytes: u64,
    /// Payload bytes received through the path.
    pub payload_rx_bytes: u64,
    /// The finding in words.
    pub text: String,
}
