//! The two memories of a side, and those of its peer.

use std::fmt;

use fabricbench_verbs::{
    Access, AccessError, MemoryRegion, ProtectionDomain, RegionId, RemoteAddr, RemoteRegion,
    Result as VerbsResult,
};

use super::{
    MemorySettings,
    layout::{Area, Layout, Place},
};
use crate::transport::{RegionEnd, TransportError};

/// The memories of one side.
#[derive(Debug)]
pub(super) struct Regions {
    host: MemoryRegion,
    messages: MemoryRegion,
}

impl Regions {
    /// Registers both; only that of the messages is ever on the device.
    pub(super) fn register(
        settings: MemorySettings,
        domain: &ProtectionDomain,
        layout: &Layout,
        access: Access,
    ) -> Result<Self, TransportError> {
        let in_host = MemorySettings { on_device: false, ..settings };
        // Nobody else writes to it but where it is waited for.
        let for_host = match layout.target(0).area {
            Area::Host => access,
            Area::Messages => Access::LOCAL_WRITE,
        };
        Ok(Self {
            messages: settings.register(domain, layout.length(Area::Messages), access)?,
            host: in_host.register(domain, layout.length(Area::Host), for_host)?,
        })
    }

    /// The one that holds `area`.
    #[inline]
    pub(super) fn of(&self, area: Area) -> &MemoryRegion {
        match area {
            Area::Host => &self.host,
            Area::Messages => &self.messages,
        }
    }

    /// Copies `bytes` to `place`.
    #[inline]
    pub(super) fn copy_in(&self, place: Place, bytes: &[u8]) -> Result<(), AccessError> {
        self.of(place.area).copy_in(place.offset, bytes)
    }

    /// Copies the bytes at `place` into `bytes`.
    #[inline]
    pub(super) fn copy_out(&self, place: Place, bytes: &mut [u8]) -> Result<(), AccessError> {
        self.of(place.area).copy_out(place.offset, bytes)
    }

    /// Sets `length` bytes at `place` to 0.
    pub(super) fn wipe(&self, place: Place, length: usize) -> Result<(), AccessError> {
        self.of(place.area).fill(place.offset, length, 0)
    }

    /// Loads the byte at `place`, and what was written before it.
    #[inline]
    pub(super) fn load_u8(&self, place: Place) -> Result<u8, AccessError> {
        self.of(place.area).load_u8(place.offset)
    }

    /// Stores a word at `place`, which is aligned to it.
    #[inline]
    pub(super) fn store_u32(&self, place: Place, word: u32) -> Result<(), AccessError> {
        self.of(place.area).store_u32(place.offset, word)
    }

    /// As the peer must know them.
    pub(super) fn ends(&self) -> [RegionEnd; 2] {
        [&self.host, &self.messages].map(|region| {
            let RemoteRegion { addr, len, rkey } = region.remote();
            RegionEnd { address: addr, length: len, remote_key: rkey }
        })
    }
}

/// What the memory of the messages is, and the host's where that is something else.
impl fmt::Display for Regions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, host) = (self.messages.backing(), self.host.backing());
        write!(f, "{messages}")?;
        if messages.on_device {
            write!(f, "; receives, and what is polled in memory, in {host}")?;
        }
        Ok(())
    }
}

/// The two memories as one queue knows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct RegionIds {
    host: RegionId,
    messages: RegionId,
}

impl RegionIds {
    /// Attaches both by `attach`, the queue's.
    pub(super) fn attach(
        regions: &Regions,
        mut attach: impl FnMut(&MemoryRegion) -> VerbsResult<RegionId>,
    ) -> VerbsResult<Self> {
        Ok(Self { host: attach(&regions.host)?, messages: attach(&regions.messages)? })
    }

    #[inline]
    pub(super) fn of(&self, area: Area) -> RegionId {
        match area {
            Area::Host => self.host,
            Area::Messages => self.messages,
        }
    }
}

/// The memories of the peer that it lets us use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerRegions {
    host: RemoteRegion,
    messages: RemoteRegion,
}

impl PeerRegions {
    pub(super) fn of(host: RegionEnd, messages: RegionEnd) -> Self {
        let region = |end: RegionEnd| RemoteRegion {
            addr: end.address,
            len: end.length,
            rkey: end.remote_key,
        };
        Self { host: region(host), messages: region(messages) }
    }

    /// A place of the peer's, which is laid out as this side is.
    pub(super) fn at(&self, place: Place) -> RemoteAddr {
        let region = match place.area {
            Area::Host => &self.host,
            Area::Messages => &self.messages,
        };
        region.at(place.offset as u64)
    }
}
