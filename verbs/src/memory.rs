//! Memory regions: memory a device, and with permission a peer, reads and writes on its own.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::BitOr;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};

use crate::device_memory::{Aligned, DeviceMemory};
use crate::registration::{Backing, Registration, Storage};
use crate::sys::ibv_access_flags as flags;

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

/// Page-aligned memory registered with a device.
///
/// The device, and a peer that was given the key, change the bytes at any time, so there is no
/// way to have a reference to them: data is copied in and out, and single words are loaded and
/// stored atomically. The value can move to another thread but not be shared with one. A copy that
/// overlaps a transfer still in flight sees some mixture of old and new bytes, as the hardware
/// does; so does one that overlaps what the provider does on another thread (it copies inline
/// payload when it posts, and small payload when it polls). Compiler fences around each copy keep
/// the optimiser from assuming that the bytes stand still between two of them.
///
/// A region on the device itself is copied through the provider, in whole words: slowly, and the
/// words at the two ends of a copy are read and written back whole.
pub struct MemoryRegion {
    /// The first byte; `None` for memory on the device.
    start: Option<NonNull<u8>>,
    registration: Arc<Registration>,
    unshared: PhantomData<Cell<()>>,
}

// SAFETY: the pointer is into the mapping that `registration` owns; the value is the only way to the
// bytes and may be used by one thread at a time, whichever it is.
unsafe impl Send for MemoryRegion {}

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

    /// 20 bytes in network order, to send to the peer.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        let fields = self.addr.to_be_bytes().into_iter().chain(self.len.to_be_bytes());
        for (place, byte) in bytes.iter_mut().zip(fields.chain(self.rkey.to_be_bytes())) {
            *place = byte;
        }
        bytes
    }

    /// From the first 20 of `bytes`, as [`RemoteRegion::to_bytes`] wrote them; `None` if there
    /// are fewer.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (addr, rest) = bytes.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (rkey, _) = rest.split_first_chunk()?;
        Some(Self {
            addr: u64::from_be_bytes(*addr),
            len: u64::from_be_bytes(*len),
            rkey: u32::from_be_bytes(*rkey),
        })
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
            let Some(place) = self.place(offset, size_of::<$word>(), align_of::<$word>())? else {
                let mut word = Aligned([0; size_of::<$word>()]);
                self.read_device(offset, &mut word.0)?;
                return Ok(<$word>::from_ne_bytes(word.0));
            };
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
            let Some(place) = self.place(offset, size_of::<$word>(), align_of::<$word>())? else {
                return self.write_device(offset, &Aligned(value.to_ne_bytes()).0);
            };
            // SAFETY: as for the load.
            let word = unsafe { <$atomic>::from_ptr(place.cast().as_ptr()) };
            word.store(value, Ordering::Release);
            Ok(())
        }
    };
}

impl MemoryRegion {
    pub(crate) fn new(registration: Registration) -> Self {
        let start = match registration.storage() {
            Some(Storage::Host(mapping)) => Some(mapping.start()),
            Some(Storage::Device(_)) | None => None,
        };
        Self { start, registration: Arc::new(registration), unshared: PhantomData }
    }

    pub(crate) fn registration(&self) -> &Arc<Registration> {
        &self.registration
    }

    /// What the memory is, and where.
    #[must_use]
    pub fn backing(&self) -> Backing {
        self.registration.backing()
    }

    /// The address of the first byte, for peers and logs; 0 for memory on the device.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.registration.address()
    }

    /// Bytes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region has at least one byte")]
    pub fn len(&self) -> usize {
        self.registration.length()
    }

    /// The key local work requests use.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.registration.lkey()
    }

    /// The key that gives a peer access.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.registration.rkey()
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
        let Some(place) = self.place(offset, bytes.len(), 1)? else {
            return self.write_device(offset, bytes);
        };
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
        let Some(place) = self.place(offset, bytes.len(), 1)? else {
            return self.read_device(offset, bytes);
        };
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
        let Some(place) = self.place(offset, length, 1)? else {
            return self.write_device(offset, &vec![value; length]);
        };
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as for `copy_in`.
        unsafe { ptr::write_bytes(place.as_ptr(), value, length) };
        compiler_fence(Ordering::SeqCst);
        Ok(())
    }

    word_access!(load_u8, store_u8, u8, AtomicU8);
    word_access!(load_u32, store_u32, u32, AtomicU32);
    word_access!(load_u64, store_u64, u64, AtomicU64);

    /// The start of a range of the region, checked; `None` if it is on the device. The region
    /// itself is page aligned.
    #[inline]
    fn place(
        &self,
        offset: usize,
        length: usize,
        align: usize,
    ) -> Result<Option<NonNull<u8>>, AccessError> {
        let region = self.registration.length();
        if offset > region || length > region - offset || !offset.is_multiple_of(align) {
            return Err(AccessError { offset, length, region });
        }
        let Some(start) = self.start else { return Ok(None) };
        // SAFETY: `offset` is at most the length of the mapping.
        Ok(Some(unsafe { start.add(offset) }))
    }

    /// What copying is done through where there is no address.
    #[cold]
    fn on_device(&self, offset: usize, length: usize) -> Result<&DeviceMemory, AccessError> {
        match self.registration.storage() {
            Some(Storage::Device(memory)) => Ok(memory),
            _ => Err(AccessError { offset, length, region: self.len() }),
        }
    }

    #[cold]
    fn write_device(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        let (length, region) = (bytes.len(), self.len());
        let memory = self.on_device(offset, length)?;
        memory.write(offset, bytes).map_err(|_| AccessError { offset, length, region })
    }

    #[cold]
    fn read_device(&self, offset: usize, bytes: &mut [u8]) -> Result<(), AccessError> {
        let (length, region) = (bytes.len(), self.len());
        let memory = self.on_device(offset, length)?;
        memory.read(offset, bytes).map_err(|_| AccessError { offset, length, region })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_region_survives_the_wire() {
        let region = RemoteRegion { addr: 0x0102_0304_0506_0708, len: 9 << 40, rkey: 0xa0b0_c0d0 };
        let mut bytes = region.to_bytes().to_vec();
        assert_eq!(&bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(RemoteRegion::from_bytes(&bytes[..19]), None);
        bytes.extend([0; 36]);
        assert_eq!(RemoteRegion::from_bytes(&bytes), Some(region));
    }
}
