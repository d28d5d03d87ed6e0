//! The regions that a queue may use: what posting needs to know of them, side by side.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::refusal::{PostError, PostFailure};
use crate::registration::Registration;
use crate::sys;
use crate::work::{Local, RegionId};

struct Attached {
    address: u64,
    length: usize,
    lkey: u32,
    on_device: bool,
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

    fn add(&mut self, attached: Attached) -> Result<RegionId, PostError> {
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

    #[test]
    fn memory_on_the_device_is_told_from_the_hosts() {
        let mut attachments = Attachments::new();
        let attached = |on_device| Attached { address: 0, length: 64, lkey: 1, on_device };
        let host = attachments.add(attached(false)).unwrap();
        assert!(!attachments.is_on_device(host));
        let device = attachments.add(attached(true)).unwrap();
        assert!(attachments.is_on_device(device) && !attachments.is_on_device(host));
    }
}
