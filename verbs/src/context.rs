//! An opened device: its limits, ports and GID tables.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::device::Device;
use crate::error::{Error, Result, errno_of};
use crate::gid::{self, Gid, GidChoice, GidEntry, GidType};
use crate::port::{self, Kind, LinkLayer, Mtu, Port, PortState};
use crate::sys::{self, Zeroed};
use crate::sysfs::{self, Sysfs};

/// `RXE_VENDOR_ID`: what soft-RoCE reports since Linux 5.9, and no adapter does.
const SOFT_ROCE_VENDOR: u32 = 0x00ff_ffff;
/// `SIW_VENDOR_ID`: the kernel's software iWARP.
const SOFT_IWARP_VENDOR: u32 = 0x0062_6d74;
/// `IBV_TRANSPORT_IB` and `IBV_TRANSPORT_IWARP` of `enum ibv_transport_type`.
const TRANSPORT_IB: i32 = 0;
const TRANSPORT_IWARP: i32 = 1;

/// What the device can do at most, from `ibv_query_device`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Limits {
    /// Number of ports.
    pub ports: u8,
    /// Firmware version, empty for software devices.
    pub firmware: String,
    /// IEEE vendor id.
    pub vendor: u32,
    /// The vendor's part id.
    pub part: u32,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Outstanding work requests of one queue.
    pub work_requests: u32,
    /// Segments of one work request.
    pub segments: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Entries of one completion queue.
    pub completions: u32,
    /// Memory regions.
    pub regions: u32,
    /// Bytes of one memory region.
    pub region_bytes: u64,
    /// RDMA reads and atomics a queue pair can have in flight as initiator.
    pub initiator_depth: u8,
    /// RDMA reads and atomics a queue pair can serve at once as target.
    pub responder_resources: u8,
    /// Whether remote atomics are offered at all.
    pub atomics: bool,
    /// Shared receive queues.
    pub shared_receive_queues: u32,
    /// Outstanding work requests of one shared receive queue.
    pub shared_receive_requests: u32,
}

pub(crate) struct Opened {
    raw: NonNull<sys::ibv_context>,
    device: Device,
    limits: Limits,
}

// SAFETY: libibverbs is thread safe: calls on one context may be made from any thread at once.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; every object made from the context holds it by
        // count and so is gone already. A failure leaves nothing to be done.
        unsafe { sys::ibv_close_device(self.raw.as_ptr()) };
    }
}

impl Opened {
    /// Takes over a context just opened; it is closed when a query on it fails.
    pub(crate) fn new(raw: NonNull<sys::ibv_context>, device: Device) -> Result<Self> {
        let mut opened = Self { raw, device, limits: Limits::default() };
        opened.limits = opened.query_limits()?;
        crate::event::set_nonblocking(&opened, opened.as_fd())?;
        Ok(opened)
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_context {
        self.raw.as_ptr()
    }

    pub(crate) fn name(&self) -> &str {
        self.device.name()
    }

    pub(crate) fn node(&self) -> &str {
        self.device.node()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A [`Error::Call`] about this device.
    pub(crate) fn call_failed(&self, call: &'static str, errno: io::Error, cure: &str) -> Error {
        Error::Call { call, object: self.name().to_owned(), errno, cure: cure.to_owned() }
    }

    fn query_limits(&self) -> Result<Limits> {
        let mut attr = sys::ibv_device_attr::zeroed();
        // SAFETY: the context is open and `attr` is a valid place for the answer.
        let code = unsafe { sys::ibv_query_device(self.as_ptr(), &raw mut attr) };
        if code != 0 {
            return Err(self.call_failed("ibv_query_device", errno_of(code), REMOVED));
        }
        let firmware = attr.fw_ver.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        let depth = |value: i32| u8::try_from(value.clamp(0, 255)).unwrap_or(0);
        Ok(Limits {
            ports: attr.phys_port_cnt,
            firmware: String::from_utf8(firmware).unwrap_or_default(),
            vendor: attr.vendor_id,
            part: attr.vendor_part_id,
            queue_pairs: count(attr.max_qp),
            work_requests: count(attr.max_qp_wr),
            segments: count(attr.max_sge),
            completion_queues: count(attr.max_cq),
            completions: count(attr.max_cqe),
            regions: count(attr.max_mr),
            region_bytes: attr.max_mr_size,
            initiator_depth: depth(attr.max_qp_init_rd_atom),
            responder_resources: depth(attr.max_qp_rd_atom),
            atomics: attr.atomic_cap != 0,
            shared_receive_queues: count(attr.max_srq),
            shared_receive_requests: count(attr.max_srq_wr),
        })
    }
}

/// The usual cause when a query on an open device fails.
const REMOVED: &str = "has the device been removed?";

/// An opened device. Clones are handles to the same one; it is closed when the last handle and
/// the last object made from it are gone.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<Opened>);

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.0.name()).finish()
    }
}

impl Context {
    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// What the device can do at most, as it was when it was opened.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        self.0.limits()
    }

    /// The state of port `number` (from 1) now.
    ///
    /// # Errors
    ///
    /// [`Error::PortNotFound`], or [`Error::Call`] when the device is gone.
    pub fn port(&self, number: u8) -> Result<Port> {
        let attr = self.query_port(number)?;
        let sysfs = Sysfs::default();
        let table = self.gid_table(number)?;
        let link_layer = match (LinkLayer(attr.link_layer), self.0.device.transport()) {
            // Drivers older than the field mean InfiniBand.
            (LinkLayer::UNSPECIFIED, TRANSPORT_IB) => LinkLayer::INFINIBAND,
            (layer, _) => layer,
        };
        let kind = kind(link_layer, self.0.device.transport(), self.limits().vendor, || {
            // Soft-RoCE alone has this attribute: the interface it runs on.
            sysfs.device(self.name()).join("parent").exists()
        });
        let parent = || sysfs::read(&sysfs.device(self.name()).join("parent")).ok();
        Ok(Port {
            device: self.name().to_owned(),
            number,
            kind,
            emulated: kind == Kind::SoftRoce || self.limits().vendor == SOFT_IWARP_VENDOR,
            link_layer,
            state: PortState(attr.state),
            active_mtu: Mtu::from_code(attr.active_mtu),
            max_mtu: Mtu::from_code(attr.max_mtu),
            max_message: attr.max_msg_sz,
            lid: attr.lid,
            gid_slots: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
            gigabits: port::gigabits(&attr),
            netdev: table.into_iter().find_map(|entry| entry.netdev).or_else(parent),
        })
    }

    /// The used slots of the GID table of port `number`, by index.
    ///
    /// # Errors
    ///
    /// [`Error::PortNotFound`], or [`Error::Call`] when the device is gone.
    pub fn gid_table(&self, number: u8) -> Result<Vec<GidEntry>> {
        let attr = self.query_port(number)?;
        let slots = u32::try_from(attr.gid_tbl_len).unwrap_or(0);
        let ethernet = LinkLayer(attr.link_layer) == LinkLayer::ETHERNET;
        self.gid_entries(number, slots)
            .or_else(|| self.gid_slots(number, slots, ethernet))
            .ok_or_else(|| {
                self.0.call_failed("ibv_query_gid_table", io::Error::last_os_error(), REMOVED)
            })
    }

    /// Chooses the GID to use on port `number`; see [`gid::choose`].
    ///
    /// # Errors
    ///
    /// [`Error::NoGid`], and what [`Context::port`] gives.
    pub fn choose_gid(&self, number: u8, wanted: Option<u32>) -> Result<GidChoice> {
        gid::choose(&self.port(number)?, &self.gid_table(number)?, wanted)
    }

    /// Chooses the GID on port `number` that is `address`; see [`gid::choose_address`].
    ///
    /// # Errors
    ///
    /// [`Error::NoGid`], and what [`Context::port`] gives.
    pub fn choose_gid_by_address(&self, number: u8, address: IpAddr) -> Result<GidChoice> {
        gid::choose_address(&self.port(number)?, &self.gid_table(number)?, address)
    }

    fn query_port(&self, number: u8) -> Result<sys::ibv_port_attr> {
        let ports = self.limits().ports;
        if number == 0 || number > ports {
            return Err(Error::PortNotFound {
                device: self.name().to_owned(),
                port: number,
                ports,
            });
        }
        let mut attr = sys::ibv_port_attr::zeroed();
        // SAFETY: the context is open and `attr` is a valid place of the size the call is told.
        let code = unsafe { sys::ibv_query_port(self.0.as_ptr(), number, &raw mut attr) };
        if code != 0 {
            return Err(self.0.call_failed("ibv_query_port", errno_of(code), REMOVED));
        }
        Ok(attr)
    }

    /// The whole table in one call, as rdma-core 32 and newer can.
    fn gid_entries(&self, number: u8, slots: u32) -> Option<Vec<GidEntry>> {
        // The call gives the entries of all ports, whose tables may differ in length.
        let room = slots as usize * usize::from(self.limits().ports);
        if room == 0 {
            // The bindings look at the first place.
            return Some(Vec::new());
        }
        let mut raw: Vec<sys::ibv_gid_entry> =
            (0..room).map(|_| sys::ibv_gid_entry::zeroed()).collect();
        // SAFETY: `raw` has room for the number of entries the call is told.
        let count =
            unsafe { sys::ibv_query_gid_table(self.0.as_ptr(), raw.as_mut_ptr(), raw.len(), 0) };
        raw.truncate(usize::try_from(count).ok()?);
        let mut entries: Vec<GidEntry> = raw
            .iter()
            .filter(|entry| entry.port_num == u32::from(number))
            .map(|entry| {
                // SAFETY: every byte pattern is a valid array of bytes.
                let gid = Gid(unsafe { entry.gid.raw });
                self.gid_entry(number, entry.gid_index, gid, GidType(entry.gid_type))
            })
            .collect();
        entries.sort_unstable_by_key(|entry| entry.index);
        Some(entries)
    }

    /// The table slot by slot, for older libraries; the types then come from sysfs.
    fn gid_slots(&self, number: u8, slots: u32, ethernet: bool) -> Option<Vec<GidEntry>> {
        let sysfs = Sysfs::default();
        let mut entries = Vec::new();
        for index in 0..slots {
            let mut gid = sys::ibv_gid { raw: [0; 16] };
            let slot = i32::try_from(index).ok()?;
            // SAFETY: the context is open and `gid` is a valid place for the answer.
            let code = unsafe { sys::ibv_query_gid(self.0.as_ptr(), number, slot, &raw mut gid) };
            // SAFETY: every byte pattern is a valid array of bytes.
            let gid = Gid(unsafe { gid.raw });
            if code == 0 && !gid.is_zero() {
                let gid_type = match sysfs.gid_type(self.name(), number, index).as_deref() {
                    Some("RoCE v2") => GidType::ROCE_V2,
                    // The kernel has one word for both, and only the link tells them apart.
                    _ if ethernet => GidType::ROCE_V1,
                    _ => GidType::IB,
                };
                entries.push(self.gid_entry(number, index, gid, gid_type));
            }
        }
        Some(entries)
    }

    fn gid_entry(&self, port: u8, index: u32, gid: Gid, gid_type: GidType) -> GidEntry {
        let sysfs = Sysfs::default();
        GidEntry { index, gid, gid_type, netdev: sysfs.gid_netdev(self.name(), port, index) }
    }
}

/// What a port is, from its link layer, its device's transport and vendor, and whether the
/// kernel shows the interface a soft-RoCE device runs on.
fn kind(layer: LinkLayer, transport: i32, vendor: u32, on_interface: impl Fn() -> bool) -> Kind {
    match (transport, layer) {
        (TRANSPORT_IWARP, _) => Kind::Iwarp,
        (TRANSPORT_IB, LinkLayer::INFINIBAND) => Kind::InfiniBand,
        (TRANSPORT_IB, LinkLayer::ETHERNET) => {
            if vendor == SOFT_ROCE_VENDOR || on_interface() {
                Kind::SoftRoce
            } else {
                Kind::Roce
            }
        }
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_found_out_from_the_device() {
        let kind_of = |layer, transport, vendor| kind(layer, transport, vendor, || false);
        let mellanox = 0x02c9;
        assert_eq!(kind_of(LinkLayer::INFINIBAND, TRANSPORT_IB, mellanox), Kind::InfiniBand);
        assert_eq!(kind_of(LinkLayer::ETHERNET, TRANSPORT_IB, mellanox), Kind::Roce);
        assert_eq!(kind_of(LinkLayer::ETHERNET, TRANSPORT_IB, SOFT_ROCE_VENDOR), Kind::SoftRoce);
        assert_eq!(kind(LinkLayer::ETHERNET, TRANSPORT_IB, 0, || true), Kind::SoftRoce);
        assert_eq!(kind_of(LinkLayer::ETHERNET, TRANSPORT_IWARP, 0x1425), Kind::Iwarp);
        assert_eq!(kind_of(LinkLayer::UNSPECIFIED, 9, 0x1d0f), Kind::Other);
    }
}
