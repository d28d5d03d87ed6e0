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
}

/// The regions attached to one queue. That they live long enough is up to the owner.
pub(crate) struct Attachments {
    tag: u64,
    regions: Vec<Attached>,
}

impl Attachments {
    pub(crate) fn new() -> Self {
        static TAGS: AtomicU64 = AtomicU64::new(1);
        Self { tag: TAGS.fetch_add(1, Ordering::Relaxed), regions: Vec::new() }
    }

    /// What lists, regions and peers of this queue are marked with; unique in the process.
    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }

    /// Adds a region, which the caller holds until the queue is destroyed.
    pub(crate) fn attach(&mut self, registration: &Registration) -> Result<RegionId, PostError> {
        let index = u32::try_from(self.regions.len())
            .map_err(|_| PostError::unposted(PostFailure::UnknownRegion))?;
        self.regions.push(Attached {
            address: registration.address(),
            length: registration.length(),
            lkey: registration.lkey(),
        });
        Ok(RegionId { owner: self.tag, index })
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
