//! Registering memory: what was asked for, what it became, and what holds it.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::context::Context;
use crate::device_memory::DeviceMemory;
use crate::domain::Domain;
use crate::error::{Error, Result};
use crate::limits;
use crate::locked::LockedMemory;
use crate::mapping::{Mapping, Pages};
use crate::memory::Access;
use crate::numa::{self, NodeChoice, Placement};
use crate::sys::{self, ibv_access_flags as flags};
use crate::sysfs::Sysfs;

/// What to ask for when memory is registered. The default is what
/// [`ProtectionDomain::register`](crate::ProtectionDomain::register) does: normal pages, wherever
/// the kernel puts them, pinned at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryOptions {
    /// The pages under the region.
    pub pages: Pages,
    /// Whether normal pages do when there are not enough huge ones. Without it that is an error.
    pub fallback: bool,
    /// The NUMA node of the memory. A wish: what became of it is in [`Backing::placement`].
    pub node: NodeChoice,
    /// Whether pages are pinned only when the device touches them (ODP).
    pub on_demand: bool,
}

/// What the memory of a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backing {
    /// The pages it got.
    pub pages: Pages,
    /// Where it is.
    pub placement: Placement,
    /// Whether it is registered on demand.
    pub on_demand: bool,
    /// Whether it is memory on the device.
    pub on_device: bool,
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.on_device {
            return f.write_str("memory on the device");
        }
        write!(f, "{} pages {}", self.pages, self.placement)?;
        f.write_str(if self.on_demand { ", registered on demand" } else { "" })
    }
}

/// What is under a registration.
pub(crate) enum Storage {
    Host(Mapping),
    Device(DeviceMemory),
}

/// A registration and the memory under it. Queue pairs hold it by count: it outlives every work
/// request that names it.
pub(crate) struct Registration {
    mr: NonNull<sys::ibv_mr>,
    /// Taken out of the way, so never unmapped, if the device will not let go of it.
    storage: Option<Storage>,
    /// Where work requests and peers say it is.
    address: u64,
    length: usize,
    lkey: u32,
    rkey: u32,
    backing: Backing,
    domain: Arc<Domain>,
}

// SAFETY: libibverbs objects may be used from any thread; the bytes are not reachable from here.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered once, deregistered once; the domain is still held.
        let code = unsafe { sys::ibv_dereg_mr(self.mr.as_ptr()) };
        if code != 0 {
            // The device may still write to it: a leak is the only safe end.
            std::mem::forget(self.storage.take());
        }
    }
}

impl Registration {
    /// Maps and registers `length` bytes of host memory, all zero.
    pub(crate) fn host(
        domain: &Arc<Domain>,
        length: usize,
        access: Access,
        options: &MemoryOptions,
    ) -> Result<Self> {
        let device = domain.context();
        let length = length.max(1);
        let mut bits = access.bits();
        let locked = LockedMemory::now();
        let page = rustix::param::page_size();
        let need = length.checked_next_multiple_of(page).unwrap_or(usize::MAX) as u64;
        if options.on_demand {
            if !Context(Arc::clone(device)).extended_limits()?.on_demand.supported {
                return Err(limits::on_demand_unsupported(device.name()));
            }
            bits |= flags::IBV_ACCESS_ON_DEMAND.0;
        } else {
            locked.permit(need, device.name())?;
        }
        let mapping = Mapping::new(length, options.pages, options.fallback)?;
        let node = numa::resolve(&Sysfs::default(), device.name(), options.node).and_then(|node| {
            numa::prefer(mapping.start(), mapping.mapped(), node)
                .map(|()| node)
                .map_err(|errno| numa::refused(node, &errno))
        });
        let start = mapping.start().as_ptr();
        // SAFETY: the range is mapped and stays so until after the region is deregistered.
        let mr =
            unsafe { sys::ibv_reg_mr(domain.as_ptr(), start.cast(), length, bits.cast_signed()) };
        let Some(mr) = NonNull::new(mr) else {
            let errno = io::Error::last_os_error();
            return Err(match errno.raw_os_error() {
                // The kernel's answer when the limit is passed, and when it is zero.
                Some(libc::ENOMEM | libc::EPERM) if locked.limit.is_some() => {
                    locked.refused(need, device.name())
                }
                Some(libc::EINVAL | libc::EOPNOTSUPP) => Error::Unsupported {
                    device: device.name().to_owned(),
                    what: format!("a {length}-byte region with access {bits:#x}"),
                },
                _ => device.call_failed("ibv_reg_mr", errno, "choose fewer or smaller buffers"),
            });
        };
        let backing = Backing {
            pages: mapping.pages(),
            // Registering has brought the pages in, unless it is on demand; then looking does.
            placement: node.map_or_else(
                |placement| placement,
                |node| numa::found(mapping.start(), length, node),
            ),
            on_demand: options.on_demand,
            on_device: false,
        };
        // Exposed, since providers make a pointer of it again where they copy on the processor.
        let address = start.expose_provenance() as u64;
        Ok(Self::made(mr, Storage::Host(mapping), address, length, backing, domain))
    }

    /// Allocates and registers `length` bytes on the device.
    pub(crate) fn device(domain: &Arc<Domain>, length: usize, access: Access) -> Result<Self> {
        let device = domain.context();
        let length = length.max(1);
        let most = Context(Arc::clone(device)).extended_limits()?.device_memory;
        let memory = DeviceMemory::allocate(device, length, most)?;
        // Addresses in it are offsets: it has none in this process.
        let bits = access.bits() | flags::IBV_ACCESS_ZERO_BASED.0;
        // SAFETY: the memory lives until after the region is deregistered.
        let mr = unsafe { sys::ibv_reg_dm_mr(domain.as_ptr(), memory.as_ptr(), 0, length, bits) };
        let mr = NonNull::new(mr).ok_or_else(|| {
            let cure = "the device may not allow this access to its own memory";
            device.call_failed("ibv_reg_dm_mr", io::Error::last_os_error(), cure)
        })?;
        let backing = Backing {
            pages: Pages::Normal,
            placement: Placement::Unasked,
            on_demand: false,
            on_device: true,
        };
        Ok(Self::made(mr, Storage::Device(memory), 0, length, backing, domain))
    }

    fn made(
        mr: NonNull<sys::ibv_mr>,
        storage: Storage,
        address: u64,
        length: usize,
        backing: Backing,
        domain: &Arc<Domain>,
    ) -> Self {
        // SAFETY: the structure is public and was just made.
        let keys = unsafe { mr.as_ref() };
        let (lkey, rkey) = (keys.lkey, keys.rkey);
        let (storage, domain) = (Some(storage), Arc::clone(domain));
        Self { mr, storage, address, length, lkey, rkey, backing, domain }
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }

    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }

    pub(crate) fn backing(&self) -> Backing {
        self.backing
    }

    pub(crate) fn storage(&self) -> Option<&Storage> {
        self.storage.as_ref()
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_is_told_in_words() {
        let mut backing = Backing {
            pages: Pages::Huge2M,
            placement: Placement::On(1),
            on_demand: false,
            on_device: false,
        };
        assert_eq!(backing.to_string(), "2 MiB pages on NUMA node 1");
        (backing.pages, backing.on_demand) = (Pages::Normal, true);
        backing.placement = Placement::Elsewhere { wanted: 1, found: 0 };
        let text = "normal pages partly on NUMA node 0: node 1 has no memory left, registered on \
                    demand";
        assert_eq!(backing.to_string(), text);
        backing.on_device = true;
        assert_eq!(backing.to_string(), "memory on the device");
    }
}
