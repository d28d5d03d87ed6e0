//! What a device offers beyond the first version of the interface, from `ibv_query_device_ex`.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr;

use crate::context::Context;
use crate::error::{Error, Result, errno_of};
use crate::sys::{
    self, Zeroed, ibv_odp_general_caps as general, ibv_odp_transport_cap_bits as per,
};

/// Registration on demand (ODP): pages that are pinned when the device touches them and not when
/// the region is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OnDemand {
    /// Whether the device does it at all.
    pub supported: bool,
    /// Whether one region can be the whole address space.
    pub implicit: bool,
    /// What reliable connections do on such regions.
    pub reliable_connection: OnDemandOperations,
    /// What unreliable connections do on such regions.
    pub unreliable_connection: OnDemandOperations,
    /// What datagrams do on such regions.
    pub datagram: OnDemandOperations,
}

/// Operations on memory registered on demand, `enum ibv_odp_transport_cap_bits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OnDemandOperations(pub u32);

impl OnDemandOperations {
    fn has(self, bit: per) -> bool {
        self.0 & bit.0 != 0
    }

    /// Sends from it.
    #[must_use]
    pub fn send(self) -> bool {
        self.has(per::IBV_ODP_SUPPORT_SEND)
    }

    /// Receives into it.
    #[must_use]
    pub fn receive(self) -> bool {
        self.has(per::IBV_ODP_SUPPORT_RECV)
    }

    /// RDMA writes from and to it.
    #[must_use]
    pub fn write(self) -> bool {
        self.has(per::IBV_ODP_SUPPORT_WRITE)
    }

    /// RDMA reads from and into it.
    #[must_use]
    pub fn read(self) -> bool {
        self.has(per::IBV_ODP_SUPPORT_READ)
    }

    /// Atomics on it.
    #[must_use]
    pub fn atomic(self) -> bool {
        self.has(per::IBV_ODP_SUPPORT_ATOMIC)
    }
}

impl fmt::Display for OnDemandOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            ("send", self.send()),
            ("receive", self.receive()),
            ("write", self.write()),
            ("read", self.read()),
            ("atomic", self.atomic()),
        ];
        let names: Vec<&str> =
            names.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
        f.write_str(if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }.as_str())
    }
}

/// What the device offers beyond [`Limits`](crate::Limits). Zero and false mean that it does not,
/// or that its driver is older than the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExtendedLimits {
    /// Registration on demand.
    pub on_demand: OnDemand,
    /// Bits of a completion's time stamp that count; 0 without time stamps.
    pub completion_timestamp_mask: u64,
    /// Ticks per millisecond of the clock of the time stamps, which is kHz; 0 if not known.
    pub core_clock_khz: u64,
    /// Bytes of memory on the device itself that can be allocated; 0 for none.
    pub device_memory: u64,
    /// Device capabilities as `ibv_device_attr_ex.device_cap_flags_ex`.
    pub capabilities: u64,
    /// What raw Ethernet packets can do, `enum ibv_raw_packet_caps`; 0 for none.
    pub raw_packet: u32,
    /// Bytes of the largest message the device segments itself; 0 for none.
    pub segmentation_offload: u32,
    /// Completions that can be moderated into one event at most; 0 without moderation.
    pub moderation_count: u16,
    /// Microseconds that an event can be held back at most; 0 without moderation.
    pub moderation_period: u16,
}

impl From<&sys::ibv_device_attr_ex> for ExtendedLimits {
    fn from(attr: &sys::ibv_device_attr_ex) -> Self {
        let odp = &attr.odp_caps;
        let has = |bit: general| odp.general_caps & u64::from(bit.0) != 0;
        Self {
            on_demand: OnDemand {
                supported: has(general::IBV_ODP_SUPPORT),
                implicit: has(general::IBV_ODP_SUPPORT_IMPLICIT),
                reliable_connection: OnDemandOperations(odp.per_transport_caps.rc_odp_caps),
                unreliable_connection: OnDemandOperations(odp.per_transport_caps.uc_odp_caps),
                datagram: OnDemandOperations(odp.per_transport_caps.ud_odp_caps),
            },
            completion_timestamp_mask: attr.completion_timestamp_mask,
            core_clock_khz: attr.hca_core_clock,
            device_memory: attr.max_dm_size,
            capabilities: attr.device_cap_flags_ex,
            raw_packet: attr.raw_packet_caps,
            segmentation_offload: attr.tso_caps.max_tso,
            moderation_count: attr.cq_mod_caps.max_cq_count,
            moderation_period: attr.cq_mod_caps.max_cq_period,
        }
    }
}

impl Context {
    /// What the device offers beyond [`Context::limits`]. A system call.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] when the device is gone.
    pub fn extended_limits(&self) -> Result<ExtendedLimits> {
        // All zero first: an old driver fills in only what it knows of.
        let mut attr = sys::ibv_device_attr_ex::zeroed();
        // SAFETY: the context is open, no input is allowed, and `attr` is a valid place of the
        // size that the call is told.
        let code = unsafe { sys::ibv_query_device_ex(self.0.as_ptr(), ptr::null(), &raw mut attr) };
        if code != 0 {
            let cure = "has the device been removed?";
            return Err(self.0.call_failed("ibv_query_device_ex", errno_of(code), cure));
        }
        Ok(ExtendedLimits::from(&attr))
    }
}

/// The error for memory on demand where the device has none.
pub(crate) fn on_demand_unsupported(device: &str) -> Error {
    Error::Unsupported {
        device: device.to_owned(),
        what: "registration on demand (ODP); register without it, which pins the memory".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_offers_nothing_is_all_zero() {
        let limits = ExtendedLimits::from(&sys::ibv_device_attr_ex::zeroed());
        assert_eq!(limits, ExtendedLimits::default());
        assert_eq!(limits.on_demand.reliable_connection.to_string(), "nothing");
    }

    #[test]
    fn capabilities_are_read_from_their_own_fields() {
        let mut attr = sys::ibv_device_attr_ex::zeroed();
        attr.odp_caps.general_caps = 1;
        attr.odp_caps.per_transport_caps.rc_odp_caps = 0b1101;
        attr.odp_caps.per_transport_caps.ud_odp_caps = 0b1;
        attr.completion_timestamp_mask = u64::MAX >> 1;
        attr.hca_core_clock = 1_000_000;
        attr.max_dm_size = 128 << 10;
        let limits = ExtendedLimits::from(&attr);
        assert!(limits.on_demand.supported && !limits.on_demand.implicit);
        assert_eq!(limits.on_demand.reliable_connection.to_string(), "send, write, read");
        assert_eq!(limits.on_demand.unreliable_connection.to_string(), "nothing");
        assert!(limits.on_demand.datagram.send());
        assert_eq!(limits.completion_timestamp_mask, u64::MAX >> 1);
        assert_eq!((limits.core_clock_khz, limits.device_memory), (1_000_000, 131_072));
    }
}
