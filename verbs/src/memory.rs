//! Memory regions: memory a device, and with permission a peer, reads and writes on its own.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::BitOr;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::domain::Domain;
use crate::error::{Error, Result};
use crate::locked::LockedMemory;
use crate::sys::{self, ibv_access_flags as flags};

/// What may be done to a region, as `ibv_access_flags`. Reading by the local device is always
/// allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// Only the local device reads: a buffer to send from.
    pub const LOCAL_READ: Self = Self(0);
    /// The local device writes: a receive buffer, or the target of a read.
    pub const LOCAL_WRITE: Self = Self(flags::IBV_ACCESS_LOCAL_WRITE.0);
    /// A peer writes, which needs the local device to write.
    pub const REMOTE_WRITE: Self =
        Self(flags::IBV_ACCESS_LOCAL_WRITE.0 | flags::IBV_ACCESS_REMOTE_WRITE.0);
    /// A peer reads.
    pub const REMOTE_READ: Self = Self(flags::IBV_ACCESS_REMOTE_READ.0);
    /// A peer does atomics, which needs the local device to write.
    pub const REMOTE_ATOMIC: Self =
        Self(flags::IBV_ACCESS_LOCAL_WRITE.0 | flags::IBV_ACCESS_REMOTE_ATOMIC.0);

    /// The bits of `ibv_access_flags`.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An access outside a region, or not on the boundary its width needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{length} bytes at offset {offset} do not fit a memory region of {region} bytes at their \
     natural alignment; choose a range inside the region"
)]
pub struct AccessError {
    /// Offset from the region's start.
    pub offset: usize,
    /// Bytes asked for.
    pub length: usize,
    /// Bytes of the region.
    pub region: usize,
}

/// Pages mapped for a region and for nothing else.
struct Pages {
    start: NonNull<u8>,
    /// Bytes mapped, a multiple of the page size.
    mapped: usize,
}

// SAFETY: the mapping is owned; it moves between threads like any allocation.
unsafe impl Send for Pages {}
// SAFETY: a shared `Pages` gives no access to the bytes.
unsafe impl Sync for Pages {}

impl Pages {
    /// Zeroed, private, page-aligned memory that a child process does not inherit: the kernel's
    /// copy-on-write after a fork would otherwise move this process away from the pages the
    /// device has pinned (Linux before 5.12).
    fn map(length: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let mapped =
            length.max(1).checked_next_multiple_of(page).ok_or(io::ErrorKind::OutOfMemory)?;
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), mapped, access, kind) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = Self { start, mapped };
        // SAFETY: the range is exactly the mapping made above.
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), mapped, Advice::LinuxDontFork) }?;
        Ok(pages)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped once with this length, unmapped once; no device holds it any more (see
        // `Registration::drop`). A failure would only leave it mapped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

/// A registration and the memory under it. Queue pairs hold it by count: it outlives every work
/// request that names it.
pub(crate) struct Registration {
    mr: NonNull<sys::ibv_mr>,
    /// Taken out of the way, so never unmapped, if the device will not let go of it.
    pages: Option<Pages>,
    start: NonNull<u8>,
    length: usize,
    lkey: u32,
    rkey: u32,
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
            std::mem::forget(self.pages.take());
        }
    }
}

impl Registration {
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }
}

/// Page-aligned memory registered with a device.
///
/// The device, and a peer that was given the key, change the bytes at any time, so there is no
/// way to have a reference to them: data is copied in and out, and single words are loaded and
/// stored atomically. The value can move to another thread but not be shared with one. A copy that
/// overlaps a transfer still in flight sees some mixture of old and new bytes, as the hardware
/// does; so does one that overlaps what the provider does on another thread (it copies inline
/// payload when it posts, and small payload when it polls). Compiler fences around each copy keep
/// the optimiser from assuming that the bytes stand still between two of them.
pub struct MemoryRegion {
    registration: Arc<Registration>,
    unshared: PhantomData<Cell<()>>,
}

impl fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRegion")
            .field("addr", &format_args!("{:#x}", self.addr()))
            .field("len", &self.len())
            .field("rkey", &self.rkey())
            .finish_non_exhaustive()
    }
}

/// A peer's region, in the form the two sides exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteRegion {
    /// Address of its first byte in the peer's process.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// The key that permits access.
    pub rkey: u32,
}

impl RemoteRegion {
    /// The address of the byte at `offset`. A wrong one is refused by the peer's device
    /// ("remote access error"), never undefined.
    #[inline]
    #[must_use]
    pub fn at(&self, offset: u64) -> RemoteAddr {
        RemoteAddr { addr: self.addr.wrapping_add(offset), rkey: self.rkey }
    }
}

/// A place in a peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddr {
    /// Address in the peer's process.
    pub addr: u64,
    /// The key of the region around it.
    pub rkey: u32,
}

macro_rules! word_access {
    ($load:ident, $store:ident, $word:ty, $atomic:ty) => {
        #[doc = concat!("Loads the `", stringify!($word), "` at `offset` with acquire ordering: \
            what a peer wrote before it is visible after. For polling a flag.")]
        ///
        /// # Errors
        ///
        /// [`AccessError`] outside the region or off the word's alignment.
        #[inline]
        pub fn $load(&self, offset: usize) -> Result<$word, AccessError> {
            let place = self.place(offset, size_of::<$word>(), align_of::<$word>())?;
            // SAFETY: `place` is inside the mapping, aligned, and never accessed but through
            // this value, which other threads cannot use meanwhile.
            let word = unsafe { <$atomic>::from_ptr(place.cast().as_ptr()) };
            Ok(word.load(Ordering::Acquire))
        }

        #[doc = concat!("Stores the `", stringify!($word), "` at `offset` with release ordering.")]
        ///
        /// # Errors
        ///
        /// [`AccessError`] outside the region or off the word's alignment.
        #[inline]
        pub fn $store(&self, offset: usize, value: $word) -> Result<(), AccessError> {
            let place = self.place(offset, size_of::<$word>(), align_of::<$word>())?;
            // SAFETY: as for the load.
            let word = unsafe { <$atomic>::from_ptr(place.cast().as_ptr()) };
            word.store(value, Ordering::Release);
            Ok(())
        }
    };
}

impl MemoryRegion {
    /// Maps and registers `length` bytes, all zero.
    pub(crate) fn register(domain: &Arc<Domain>, length: usize, access: Access) -> Result<Self> {
        let device = domain.context();
        let locked = LockedMemory::now();
        let page = rustix::param::page_size();
        let need = length.max(1).checked_next_multiple_of(page).unwrap_or(usize::MAX) as u64;
        locked.permit(need, device.name())?;
        let pages = Pages::map(length).map_err(|errno| {
            device.call_failed("mmap", errno, "choose a smaller buffer or free some memory")
        })?;
        let (start, length) = (pages.start, length.max(1));
        // SAFETY: the range is mapped and stays so until after the region is deregistered.
        let mr = unsafe {
            sys::ibv_reg_mr(
                domain.as_ptr(),
                start.as_ptr().cast(),
                length,
                access.bits().cast_signed(),
            )
        };
        let Some(mr) = NonNull::new(mr) else {
            let errno = io::Error::last_os_error();
            return Err(match errno.raw_os_error() {
                // The kernel's answer when the limit is passed, and when it is zero.
                Some(libc::ENOMEM | libc::EPERM) if locked.limit.is_some() => {
                    locked.refused(need, device.name())
                }
                Some(libc::EINVAL | libc::EOPNOTSUPP) => Error::Unsupported {
                    device: device.name().to_owned(),
                    what: format!("a {length}-byte region with access {:#x}", access.bits()),
                },
                _ => device.call_failed("ibv_reg_mr", errno, "choose fewer or smaller buffers"),
            });
        };
        // SAFETY: the structure is public and was just made.
        let keys = unsafe { mr.as_ref() };
        let (lkey, rkey) = (keys.lkey, keys.rkey);
        let registration = Registration {
            mr,
            pages: Some(pages),
            start,
            length,
            lkey,
            rkey,
            domain: Arc::clone(domain),
        };
        Ok(Self { registration: Arc::new(registration), unshared: PhantomData })
    }

    pub(crate) fn registration(&self) -> &Arc<Registration> {
        &self.registration
    }

    /// The address of the first byte, for peers and logs.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.registration.address()
    }

    /// Bytes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region has at least one byte")]
    pub fn len(&self) -> usize {
        self.registration.length
    }

    /// The key local work requests use.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.registration.lkey
    }

    /// The key that gives a peer access.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.registration.rkey
    }

    /// What to tell a peer so that it can reach this region.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        RemoteRegion { addr: self.addr(), len: self.len() as u64, rkey: self.rkey() }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when they do not fit.
    #[inline]
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        let place = self.place(offset, bytes.len(), 1)?;
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the range is inside the mapping, of which no reference exists that `bytes`
        // could be; only the device and the provider may touch it meanwhile.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
        compiler_fence(Ordering::SeqCst);
        Ok(())
    }

    /// Copies the bytes at `offset` into `bytes`.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when there are not that many.
    #[inline]
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) -> Result<(), AccessError> {
        let place = self.place(offset, bytes.len(), 1)?;
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as for `copy_in`; every byte pattern is a valid `u8`.
        unsafe { ptr::copy_nonoverlapping(place.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
        compiler_fence(Ordering::SeqCst);
        Ok(())
    }

    /// Sets `length` bytes at `offset` to `value`.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when they do not fit.
    pub fn fill(&self, offset: usize, length: usize, value: u8) -> Result<(), AccessError> {
        let place = self.place(offset, length, 1)?;
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as for `copy_in`.
        unsafe { ptr::write_bytes(place.as_ptr(), value, length) };
        compiler_fence(Ordering::SeqCst);
        Ok(())
    }

    word_access!(load_u8, store_u8, u8, AtomicU8);
    word_access!(load_u32, store_u32, u32, AtomicU32);
    word_access!(load_u64, store_u64, u64, AtomicU64);

    /// The start of a range of the region, checked. The region itself is page aligned.
    #[inline]
    fn place(
        &self,
        offset: usize,
        length: usize,
        align: usize,
    ) -> Result<NonNull<u8>, AccessError> {
        let region = self.registration.length;
        if offset > region || length > region - offset || !offset.is_multiple_of(align) {
            return Err(AccessError { offset, length, region });
        }
        // SAFETY: `offset` is at most the length of the mapping.
        Ok(unsafe { self.registration.start.add(offset) })
    }
}
