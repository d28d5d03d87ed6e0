//! Memory on the device itself, which its peers reach without crossing the host's bus.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use crate::context::Opened;
use crate::error::{Error, Result, errno_of};
use crate::sys;

/// Bytes that device memory is copied in multiples of.
const WORD: usize = 4;

/// A piece of the device's memory. It is reached through the provider's copying functions only.
pub(crate) struct DeviceMemory {
    raw: NonNull<sys::ibv_dm>,
}

// SAFETY: libibverbs objects may be used from any thread at once.
unsafe impl Send for DeviceMemory {}
// SAFETY: as above.
unsafe impl Sync for DeviceMemory {}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; the region on it is deregistered already.
        unsafe { sys::ibv_free_dm(self.raw.as_ptr()) };
    }
}

impl DeviceMemory {
    /// Allocates `length` bytes, of the `most` that the device says it has.
    pub(crate) fn allocate(context: &Opened, length: usize, most: u64) -> Result<Self> {
        if length as u64 > most {
            let what = match most {
                0 => "memory on the device; register host memory".to_owned(),
                most => format!("{length} bytes of memory on the device (at most {most})"),
            };
            return Err(Error::Unsupported { device: context.name().to_owned(), what });
        }
        let whole = length.next_multiple_of(WORD);
        let mut attr = sys::ibv_alloc_dm_attr { length: whole, log_align_req: 0, comp_mask: 0 };
        // SAFETY: the context is open and `attr` is filled.
        let raw = unsafe { sys::ibv_alloc_dm(context.as_ptr(), &raw mut attr) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let cure = format!("{length} bytes of {most}: others may use the rest");
            context.call_failed("ibv_alloc_dm", io::Error::last_os_error(), &cure)
        })?;
        Ok(Self { raw })
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_dm {
        self.raw.as_ptr()
    }

    /// Copies `bytes` to `offset`, which the caller has checked to be inside.
    ///
    /// Adapters take whole words only (mlx5: 4 bytes). What is written beside `bytes` in the first
    /// and last word is what was there: a peer's write to those at the same time may be lost.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let (start, end) = words(offset, bytes.len());
        let whole = (start, end) == (offset, offset + bytes.len());
        if whole && is_aligned(bytes) {
            return self.write_words(offset, bytes);
        }
        let mut around = Words::new(end - start);
        if !whole {
            self.read_words(start, around.as_bytes())?;
        }
        let place = around.as_bytes().get_mut(offset - start..);
        if let Some(place) = place.and_then(|place| place.get_mut(..bytes.len())) {
            place.copy_from_slice(bytes);
        }
        self.write_words(start, around.as_bytes())
    }

    /// Copies the bytes at `offset`, which the caller has checked to be inside, into `bytes`.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
        let (start, end) = words(offset, bytes.len());
        if (start, end) == (offset, offset + bytes.len()) && is_aligned(bytes) {
            return self.read_words(offset, bytes);
        }
        let mut around = Words::new(end - start);
        self.read_words(start, around.as_bytes())?;
        let place = around.as_bytes().get(offset - start..);
        if let Some(place) = place.and_then(|place| place.get(..bytes.len())) {
            bytes.copy_from_slice(place);
        }
        Ok(())
    }

    fn write_words(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let (from, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the memory is alive, the range inside it, and `bytes`, aligned for whole words,
        // has that length.
        let code = unsafe { sys::ibv_memcpy_to_dm(self.as_ptr(), offset as u64, from, length) };
        if code == 0 { Ok(()) } else { Err(errno_of(code)) }
    }

    fn read_words(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
        let (to, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the memory is alive, the range inside it, and `bytes`, aligned for whole words,
        // has room for it.
        let code = unsafe { sys::ibv_memcpy_from_dm(to, self.as_ptr(), offset as u64, length) };
        if code == 0 { Ok(()) } else { Err(errno_of(code)) }
    }
}

/// Whether a provider that copies word by word (mlx5) can do so at the host's end.
fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(WORD)
}

/// Bytes that a provider can copy from and to as they are, if they are whole words.
#[repr(align(4))]
pub(crate) struct Aligned<const N: usize>(pub(crate) [u8; N]);

const _: () = assert!(align_of::<Aligned<1>>() == WORD);

/// Bytes in whole words, for what is not aligned to them.
struct Words(Vec<u32>);

impl Words {
    /// All zero, with place for `length` bytes, which is a multiple of a word.
    fn new(length: usize) -> Self {
        Self(vec![0; length / WORD])
    }

    fn as_bytes(&mut self) -> &mut [u8] {
        let length = size_of_val(self.0.as_slice());
        // SAFETY: the same bytes, borrowed as long; they need no alignment and any value is valid
        // as either type.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), length) }
    }
}

/// The whole words around a range; the memory is allocated in whole words.
fn words(offset: usize, length: usize) -> (usize, usize) {
    (offset & !(WORD - 1), (offset + length).next_multiple_of(WORD))
}

/// The provider's end of device memory, for tests: 64 bytes behind a structure whose functions copy.
#[cfg(test)]
pub(crate) mod stub {
    use super::*;
    use std::ffi::{c_int, c_void};
    use std::mem::ManuallyDrop;

    #[repr(C)]
    pub(crate) struct Stub {
        dm: sys::ibv_dm,
        bytes: [u8; 64],
        reads: u32,
    }

    unsafe extern "C" fn to(
        dm: *mut sys::ibv_dm,
        offset: u64,
        from: *const c_void,
        length: usize,
    ) -> c_int {
        if length == 32 {
            return libc::EIO;
        }
        if !length.is_multiple_of(4) || !offset.is_multiple_of(4) || !from.addr().is_multiple_of(4)
        {
            return libc::EINVAL;
        }
        // SAFETY: `dm` is the first field of a stub, which is alive during the test.
        let bytes = unsafe { &mut (*dm.cast::<Stub>()).bytes };
        // SAFETY: the caller has `length` bytes there.
        let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) };
        bytes[offset as usize..offset as usize + length].copy_from_slice(from);
        0
    }

    unsafe extern "C" fn from(
        to: *mut c_void,
        dm: *mut sys::ibv_dm,
        offset: u64,
        length: usize,
    ) -> c_int {
        if !length.is_multiple_of(4) || !offset.is_multiple_of(4) || !to.addr().is_multiple_of(4) {
            return libc::EINVAL;
        }
        // SAFETY: as above.
        let stub = unsafe { &mut *dm.cast::<Stub>() };
        stub.reads += 1;
        let bytes = &stub.bytes;
        // SAFETY: the caller has room for `length` bytes there.
        let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), length) };
        to.copy_from_slice(&bytes[offset as usize..offset as usize + length]);
        0
    }

    /// Device memory that is never freed by the provider, since it is none of its.
    pub(crate) fn memory(stub: &mut Box<Stub>) -> ManuallyDrop<DeviceMemory> {
        let raw = NonNull::from(stub.as_mut()).cast();
        ManuallyDrop::new(DeviceMemory { raw })
    }

    /// How often the provider was asked for what is there.
    pub(crate) fn reads(memory: &DeviceMemory) -> u32 {
        // SAFETY: it is of a stub, which is alive during the test.
        unsafe { (*memory.as_ptr().cast::<Stub>()).reads }
    }

    pub(crate) fn new() -> Box<Stub> {
        Box::new(Stub {
            dm: sys::ibv_dm {
                context: std::ptr::null_mut(),
                memcpy_to_dm: Some(to),
                memcpy_from_dm: Some(from),
                comp_mask: 0,
                handle: 0,
            },
            bytes: [0; 64],
            reads: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_to_their_offset_and_back_in_whole_words() {
        let mut stub = stub::new();
        let memory = stub::memory(&mut stub);
        memory.write(0, &[7; 16]).unwrap();
        memory.write(5, b"device").unwrap();
        let mut out = [0; 8];
        memory.read(4, &mut out).unwrap();
        assert_eq!(&out, b"\x07device\x07");
        let mut one = [0];
        memory.read(10, &mut one).unwrap();
        assert_eq!(&one, b"e");
        memory.read(64, &mut []).unwrap();
    }

    #[test]
    fn the_provider_gets_aligned_words_whatever_the_callers_are() {
        let mut stub = stub::new();
        let memory = stub::memory(&mut stub);
        let mut buffer = Words::new(24);
        for shift in 0..WORD {
            let bytes = &mut buffer.as_bytes()[shift..shift + 16];
            bytes.fill(shift as u8 + 1);
            memory.write(8, bytes).unwrap();
            bytes.fill(0);
            memory.read(8, bytes).unwrap();
            assert!(bytes.iter().all(|&byte| byte == shift as u8 + 1), "{shift}: {bytes:?}");
        }
    }

    /// A read crosses the bus and back; a word that is polled or stamped is to cost one way.
    #[test]
    fn a_word_is_written_without_reading_what_is_beside_it() {
        let mut stub = stub::new();
        let memory = stub::memory(&mut stub);
        memory.write(8, &Aligned(7_u32.to_ne_bytes()).0).unwrap();
        memory.write(16, &Aligned(9_u64.to_ne_bytes()).0).unwrap();
        assert_eq!(stub::reads(&memory), 0);
        memory.write(4, &[1]).unwrap();
        assert_eq!(stub::reads(&memory), 1, "a byte alone is written with its word");
        let mut out = Aligned([0; 4]);
        memory.read(8, &mut out.0).unwrap();
        assert_eq!(u32::from_ne_bytes(out.0), 7);
    }

    #[test]
    fn the_providers_refusal_is_an_error() {
        let mut stub = stub::new();
        let memory = stub::memory(&mut stub);
        assert_eq!(memory.write(0, &[0; 32]).unwrap_err().raw_os_error(), Some(libc::EIO));
    }
}
