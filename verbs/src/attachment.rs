//! The regions that a queue may use: what posting needs to know of them, side by side.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::refusal::{PostError, PostFailure};
use crate::registration::Registration;
use crate::sys;
use crate::work::{Local, RegionId};

/// An attached region.
pub(crate) struct Attached {
    pub(crate) address: u64,
    pub(crate) length: usize,
    pub(crate) lkey: u32,
    pub(crate) on_device: bool,
}

/// The regions attached to one queue. That they live long enough is up to the owner.
pub(crate) struct Attachments {
    tag: u64,
    regions: Vec<Attached>,
    /// Whether any of them is memory on the device.
    any_on_device: bool,
}

impl Attachments {
    pub(crate) fn new() -> Self {
        static TAGS: AtomicU64 = AtomicU64::new(1);
        Self {
            tag: TAGS.fetch_add(1, Ordering::Relaxed),
            regions: Vec::new(),
            any_on_device: false,
        }
    }

    /// What lists, regions and peers of this queue are marked with; unique in the process.
    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }

    /// Adds a region, which the caller holds until the queue is destroyed.
    pub(crate) fn attach(&mut self, registration: &Registration) -> Result<RegionId, PostError> {
        self.add(Attached {
            address: registration.address(),
            length: registration.length(),
            lkey: registration.lkey(),
            on_device: registration.backing().on_device,
        })
    }

    pub(crate) fn add(&mut self, attached: Attached) -> Result<RegionId, PostError> {
        let index = u32::try_from(self.regions.len())
            .map_err(|_| PostError::unposted(PostFailure::UnknownRegion))?;
        self.any_on_device |= attached.on_device;
        self.regions.push(attached);
        Ok(RegionId { owner: self.tag, index })
    }

    /// Whether a region is memory on the device, which has no address in this process: the
    /// provider cannot copy from it.
    #[inline]
    pub(crate) fn is_on_device(&self, region: RegionId) -> bool {
        // One load where there is none, as almost always.
        self.any_on_device
            && self.regions.get(region.index as usize).is_some_and(|attached| attached.on_device)
    }

    /// A range to receive into, as [`Attachments::segment`] gives it; not in memory on the device.
    ///
    /// A provider may get a short message inside its completion and copy it to the receive's
    /// address on the processor (mlx5 does, up to 64 bytes), and memory on the device has none:
    /// the copy would go to wherever in this process the offset points.
    #[inline]
    pub(crate) fn receive_segment(&self, local: Local) -> Result<sys::ibv_sge, PostError> {
        let segment = self.segment(local)?;
        if local.length != 0 && self.is_on_device(local.region) {
            return Err(PostError::unposted(PostFailure::ReceiveOnDevice));
        }
        Ok(segment)
    }

    /// A range as the device wants it, checked to lie in a region of this queue.
    #[inline]
    pub(crate) fn segment(&self, local: Local) -> Result<sys::ibv_sge, PostError> {
        let Local { region, offset, length } = local;
        let known = (region.owner == self.tag).then(|| self.regions.get(region.index as usize));
        let Some(attached) = known.flatten() else {
            return Err(PostError::unposted(PostFailure::UnknownRegion));
        };
        if offset > attached.length || length as usize > attached.length - offset {
            let region = attached.length;
            return Err(PostError::unposted(PostFailure::OutOfRange { offset, length, region }));
        }
        Ok(sys::ibv_sge { addr: attached.address + offset as u64, length, lkey: attached.lkey })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::RecvList;
    use crate::post::{post_receive, push_receive};
    use crate::work::RecvRequest;

    #[test]
    fn memory_on_the_device_is_told_from_the_hosts() {
        let mut attachments = Attachments::new();
        let attached = |on_device| Attached { address: 0, length: 64, lkey: 1, on_device };
        let host = attachments.add(attached(false)).unwrap();
        assert!(!attachments.is_on_device(host));
        let device = attachments.add(attached(true)).unwrap();
        assert!(attachments.is_on_device(device) && !attachments.is_on_device(host));
    }

    #[test]
    fn nothing_is_received_into_memory_on_the_device() {
        let mut attachments = Attachments::new();
        let attached = |on_device| Attached { address: 0, length: 64, lkey: 1, on_device };
        let host = attachments.add(attached(false)).unwrap();
        let device = attachments.add(attached(true)).unwrap();
        let reason = |local| attachments.receive_segment(local).map_err(|error| error.reason);
        assert!(reason(host.range(0, 64)).is_ok());
        assert_eq!(reason(device.range(0, 64)).err(), Some(PostFailure::ReceiveOnDevice));
        assert_eq!(reason(device.range(63, 1)).err(), Some(PostFailure::ReceiveOnDevice));
        // Without data there is nothing to copy: the receive of a write with immediate.
        assert!(reason(device.range(64, 0)).is_ok());
        assert!(matches!(reason(device.range(64, 1)), Err(PostFailure::OutOfRange { .. })));
        // Sending from it is the device's own business.
        assert!(attachments.segment(device.range(0, 64)).is_ok());
    }

    #[test]
    fn receives_alone_and_in_lists_are_refused_before_the_provider_sees_them() {
        let mut attachments = Attachments::new();
        let device = Attached { address: 0, length: 64, lkey: 1, on_device: true };
        let request = RecvRequest::new(1, attachments.add(device).unwrap().range(0, 8));
        let alone = post_receive(&attachments, &request, |_, _| unreachable!("posted"));
        assert_eq!(alone.unwrap_err().reason, PostFailure::ReceiveOnDevice);
        let mut list = RecvList::<2>::empty(attachments.tag());
        let pushed = push_receive(&attachments, &mut list, &request);
        assert_eq!(pushed.unwrap_err().reason, PostFailure::ReceiveOnDevice);
        assert!(list.is_empty());
    }
}
