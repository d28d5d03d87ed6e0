//! Protection domains: which objects may be used together.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::completion_queue::CompletionQueue;
use crate::context::{Context, Opened};
use crate::error::Result;
use crate::memory::{Access, MemoryRegion};
use crate::queue_pair::{QueuePair, QueuePairOptions, Queues};
use crate::registration::{MemoryOptions, Registration};
use crate::shared_receive::SharedReceiveQueue;
use crate::sys;

pub(crate) struct Domain {
    raw: NonNull<sys::ibv_pd>,
    context: Arc<Opened>,
}

// SAFETY: libibverbs objects may be used from any thread at once.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: allocated once, deallocated once; all that was made in it held it by count.
        unsafe { sys::ibv_dealloc_pd(self.raw.as_ptr()) };
    }
}

impl Domain {
    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_pd {
        self.raw.as_ptr()
    }

    pub(crate) fn context(&self) -> &Arc<Opened> {
        &self.context
    }
}

/// A protection domain: a queue pair reaches only memory of its own domain. Clones are handles
/// to the same one.
#[derive(Clone)]
pub struct ProtectionDomain(pub(crate) Arc<Domain>);

impl fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProtectionDomain").field(&self.0.context.name()).finish()
    }
}

impl Context {
    /// Allocates a protection domain.
    ///
    /// # Errors
    ///
    /// [`Error::Call`](crate::Error::Call).
    pub fn alloc_pd(&self) -> Result<ProtectionDomain> {
        // SAFETY: the context is open.
        let raw = unsafe { sys::ibv_alloc_pd(self.0.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let cure = "the device may have no protection domain left (rdma resource show)";
            self.0.call_failed("ibv_alloc_pd", io::Error::last_os_error(), cure)
        })?;
        Ok(ProtectionDomain(Arc::new(Domain { raw, context: Arc::clone(&self.0) })))
    }
}

impl ProtectionDomain {
    /// The device this domain is of.
    #[must_use]
    pub fn context(&self) -> Context {
        Context(Arc::clone(&self.0.context))
    }

    /// Maps `length` bytes of zeroed memory (at least one) and registers them.
    ///
    /// # Errors
    ///
    /// [`Error::LockedMemory`](crate::Error::LockedMemory) when the limit on locked memory does
    /// not allow it, [`Error::Unsupported`](crate::Error::Unsupported) when the device does not
    /// take the size or the access, [`Error::Call`](crate::Error::Call).
    pub fn register(&self, length: usize, access: Access) -> Result<MemoryRegion> {
        self.register_with(length, access, &MemoryOptions::default())
    }

    /// Maps `length` bytes of zeroed memory (at least one) as `options` say, and registers them.
    /// What it became is in [`MemoryRegion::backing`].
    ///
    /// # Errors
    ///
    /// As [`ProtectionDomain::register`]; [`Error::HugePages`](crate::Error::HugePages) when
    /// there are not enough huge pages and no others are allowed,
    /// [`Error::Unsupported`](crate::Error::Unsupported) for registration on demand where the
    /// device has none.
    pub fn register_with(
        &self,
        length: usize,
        access: Access,
        options: &MemoryOptions,
    ) -> Result<MemoryRegion> {
        Registration::host(&self.0, length, access, options).map(MemoryRegion::new)
    }

    /// Allocates `length` bytes (at least one) of the device's own memory, whose content is not
    /// defined, and registers them. Peers reach it, and reads and atomics can bring data into it;
    /// it cannot be received into, nor go inline.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) when the device has not so much,
    /// [`Error::Call`](crate::Error::Call).
    pub fn register_device_memory(&self, length: usize, access: Access) -> Result<MemoryRegion> {
        Registration::device(&self.0, length, access).map(MemoryRegion::new)
    }

    /// Creates a queue pair that completes its sends to `send_cq` and its receives to
    /// `recv_cq`, which may be the same.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) when the device's limits are passed,
    /// [`Error::Foreign`](crate::Error::Foreign) for a completion queue of another device,
    /// [`Error::Call`](crate::Error::Call).
    pub fn create_queue_pair(
        &self,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        options: &QueuePairOptions,
    ) -> Result<QueuePair> {
        QueuePair::create(self, Queues { send: send_cq, recv: recv_cq, shared: None }, options)
    }

    /// The same, with receives taken from `shared`, whose messages complete to `recv_cq`. The
    /// receive depth of `options` does not matter.
    ///
    /// # Errors
    ///
    /// The same, [`Error::Foreign`](crate::Error::Foreign) for a shared receive queue of another
    /// domain, and [`Error::Unsupported`](crate::Error::Unsupported) for UC, which has none.
    pub fn create_queue_pair_on(
        &self,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        shared: &SharedReceiveQueue,
        options: &QueuePairOptions,
    ) -> Result<QueuePair> {
        let shared = Some(shared);
        QueuePair::create(self, Queues { send: send_cq, recv: recv_cq, shared }, options)
    }
}
