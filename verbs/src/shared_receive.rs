//! Shared receive queues: receives that many queue pairs take from.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use crate::attachment::Attachments;
use crate::domain::{Domain, ProtectionDomain};
use crate::error::{Error, Result, errno_of};
use crate::list::RecvList;
use crate::memory::MemoryRegion;
use crate::post::{post_receive, post_receives, push_receive};
use crate::refusal::PostError;
use crate::registration::Registration;
use crate::sys::{self, Zeroed};
use crate::work::{RecvRequest, RegionId};

/// The queue in the device and what it needs; queue pairs hold it by count.
pub(crate) struct Shared {
    raw: NonNull<sys::ibv_srq>,
    domain: Arc<Domain>,
    /// Regions of receives that the device may still write to: pushed to, never taken from.
    regions: Mutex<Vec<Arc<Registration>>>,
}

// SAFETY: libibverbs objects may be used from any thread at once; posting locks inside.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the queue pairs on it held it.
        let code = unsafe { sys::ibv_destroy_srq(self.raw.as_ptr()) };
        if code != 0 {
            // The device may still write to them: a leak is the only safe end.
            let regions = self.regions.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(regions));
        }
    }
}

impl Shared {
    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_srq {
        self.raw.as_ptr()
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }
}

/// A receive queue that several queue pairs, RC or UD, take their receives from, so that they
/// need together as many as arrive, and not each as many as could. Which queue pair took one is
/// in the completion ([`Completion::queue_pair`](crate::Completion::queue_pair)); it comes out of
/// the receive completion queue of that queue pair.
///
/// It lives as long as this value or a queue pair on it does, and the regions attached to it as
/// long as itself. Posting takes `&self`: libibverbs locks, so several threads may post.
pub struct SharedReceiveQueue {
    shared: Arc<Shared>,
    attachments: Attachments,
    depth: u32,
}

impl fmt::Debug for SharedReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReceiveQueue").field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl ProtectionDomain {
    /// Creates a shared receive queue for `depth` outstanding receives.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] when the device has none, or none so long; [`Error::Call`].
    pub fn create_shared_receive_queue(&self, depth: u32) -> Result<SharedReceiveQueue> {
        let context = self.0.context();
        let (queues, most) = {
            let limits = context.limits();
            (limits.shared_receive_queues, limits.shared_receive_requests)
        };
        let unsupported = |what| Error::Unsupported { device: context.name().to_owned(), what };
        if queues == 0 {
            return Err(unsupported("shared receive queues".to_owned()));
        }
        if depth > most {
            return Err(unsupported(format!(
                "a shared receive queue of {depth} work requests (at most {most})"
            )));
        }
        let mut attr = sys::ibv_srq_init_attr::zeroed();
        (attr.attr.max_wr, attr.attr.max_sge) = (depth.max(1), 1);
        // SAFETY: the domain is alive, and `attr` a complete description.
        let raw = unsafe { sys::ibv_create_srq(self.0.as_ptr(), &raw mut attr) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let cure = "choose a shorter one, or look for ones left over (rdma resource show)";
            context.call_failed("ibv_create_srq", io::Error::last_os_error(), cure)
        })?;
        let (domain, regions) = (Arc::clone(&self.0), Mutex::default());
        Ok(SharedReceiveQueue {
            shared: Arc::new(Shared { raw, domain, regions }),
            attachments: Attachments::new(),
            depth: attr.attr.max_wr,
        })
    }
}

impl SharedReceiveQueue {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The domain it was created in.
    #[must_use]
    pub fn protection_domain(&self) -> ProtectionDomain {
        ProtectionDomain(Arc::clone(&self.shared.domain))
    }

    /// Receives that can be outstanding: what was asked for, or more.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Lets receives of this queue use `region`, which from now on lives at least as long as the
    /// queue.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] for a region of another protection domain.
    pub fn attach(&mut self, region: &MemoryRegion) -> Result<RegionId> {
        let registration = region.registration();
        if !Arc::ptr_eq(registration.domain(), &self.shared.domain) {
            return Err(Error::Foreign { what: "the memory region", parent: "protection domain" });
        }
        let mut regions = self.shared.regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions.push(Arc::clone(registration));
        Ok(self.attachments.attach(registration)?)
    }

    /// Posts one receive request.
    ///
    /// # Errors
    ///
    /// [`PostError`]; [`PostError::is_queue_full`] tells the case that polling resolves.
    #[inline]
    pub fn post_recv(&self, request: &RecvRequest) -> Result<(), PostError> {
        post_receive(&self.attachments, request, |first, refused| {
            // SAFETY: the request and its segment live through the call; the segment lies in a
            // region that is held until the queue is destroyed.
            unsafe { sys::ibv_post_srq_recv(self.shared.as_ptr(), first, refused) }
        })
    }

    /// An empty list of receive requests for this queue.
    #[must_use]
    pub fn recv_list<const N: usize>(&self) -> RecvList<N> {
        RecvList::empty(self.attachments.tag())
    }

    /// Checks `request` and adds it to a list of this queue.
    ///
    /// # Errors
    ///
    /// [`PostError`] when the request is not valid or the list has no place.
    #[inline]
    pub fn push_recv<const N: usize>(
        &self,
        list: &mut RecvList<N>,
        request: &RecvRequest,
    ) -> Result<(), PostError> {
        push_receive(&self.attachments, list, request)
    }

    /// Posts the receives of `list` from index `from` on in one call.
    ///
    /// # Errors
    ///
    /// [`PostError`], whose `posted` counts the requests the queue did take.
    #[inline]
    pub fn post_recv_list<const N: usize>(
        &self,
        list: &mut RecvList<N>,
        from: usize,
    ) -> Result<(), PostError> {
        post_receives(&self.attachments, list, from, |first, refused| {
            // SAFETY: the chain lies in `list`, which lives through the call; its segments were
            // checked against regions that are held until the queue is destroyed.
            unsafe { sys::ibv_post_srq_recv(self.shared.as_ptr(), first, refused) }
        })
    }

    /// Asks for one asynchronous event
    /// ([`EventKind::SHARED_RECEIVE_LIMIT`](crate::EventKind::SHARED_RECEIVE_LIMIT)) when fewer
    /// than `limit` receives are left.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn arm_limit(&self, limit: u32) -> Result<()> {
        let mut attr = sys::ibv_srq_attr::zeroed();
        attr.srq_limit = limit;
        let fields = sys::ibv_srq_attr_mask::IBV_SRQ_LIMIT.0.cast_signed();
        // SAFETY: the queue is alive, and `attr` is filled where `fields` says.
        let code = unsafe { sys::ibv_modify_srq(self.shared.as_ptr(), &raw mut attr, fields) };
        if code == 0 {
            return Ok(());
        }
        let cure = format!("ask for at most its depth, {}", self.depth);
        Err(self.shared.domain.context().call_failed("ibv_modify_srq", errno_of(code), &cure))
    }
}
