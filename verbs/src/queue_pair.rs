//! Queue pairs: what they are asked for and get, and which memory they hold.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::attachment::Attachments;
use crate::completion_queue::CompletionQueue;
use crate::context::{Context, Opened};
use crate::datagram::{AddressHandle, Destination};
use crate::domain::ProtectionDomain;
use crate::error::{Error, Result};
use crate::gather::MOST_SEGMENTS;
use crate::memory::MemoryRegion;
use crate::registration::Registration;
use crate::shared_receive::{Shared, SharedReceiveQueue};
use crate::sys::{self, Zeroed};
use crate::transport::Transport;
use crate::work::RegionId;

/// What to ask for in a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// The transport service.
    pub transport: Transport,
    /// Send requests that can be outstanding, signaled or not.
    pub send_depth: u32,
    /// Receive requests that can be outstanding.
    pub recv_depth: u32,
    /// Bytes wanted inline. A wish: where the device does not take so many, the queue pair gets the
    /// most it takes, and providers round up, see [`Capabilities::max_inline`].
    pub max_inline: u32,
    /// Ranges that a send can be gathered from, see [`QueuePair::post_send_gathered`]: at most the
    /// device's [`Limits::segments`](crate::Limits::segments) and [`MOST_SEGMENTS`].
    pub max_segments: u32,
}

impl Default for QueuePairOptions {
    /// Reliable connection, 128 sends, 512 receives (perftest's bandwidth defaults), no inline, sends
    /// of one range.
    fn default() -> Self {
        Self {
            transport: Transport::ReliableConnection,
            send_depth: 128,
            recv_depth: 512,
            max_inline: 0,
            max_segments: 1,
        }
    }
}

/// What a queue pair got: at least what was asked for, but for `max_inline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Outstanding send requests.
    pub send_depth: u32,
    /// Outstanding receive requests of its own: none beside a shared receive queue.
    pub recv_depth: u32,
    /// Bytes a request can carry inline.
    pub max_inline: u32,
    /// Ranges a send can be gathered from; at most [`MOST_SEGMENTS`].
    pub max_segments: u32,
}

/// The queues that a queue pair is to use.
#[derive(Clone, Copy)]
pub(crate) struct Queues<'a> {
    pub(crate) send: &'a CompletionQueue,
    pub(crate) recv: &'a CompletionQueue,
    /// Where receives come from, if not from a queue of its own.
    pub(crate) shared: Option<&'a SharedReceiveQueue>,
}

/// What must outlive the queue pair in the device.
struct Held {
    domain: ProtectionDomain,
    _send_cq: CompletionQueue,
    _recv_cq: CompletionQueue,
    regions: Vec<Arc<Registration>>,
    handles: Vec<AddressHandle>,
    _shared: Option<Arc<Shared>>,
}

/// A queue pair. It holds its completion queues, its domain and every region and peer attached to
/// it until it is destroyed. Posting takes `&self`: libibverbs locks, so several threads may post.
pub struct QueuePair {
    raw: NonNull<sys::ibv_qp>,
    transport: Transport,
    capabilities: Capabilities,
    shares_receives: bool,
    attachments: Attachments,
    destinations: Vec<Destination>,
    held: ManuallyDrop<Held>,
}

// SAFETY: libibverbs objects may be used from any thread at once; posting locks inside.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("device", &self.opened().name())
            .field("transport", &self.transport)
            .field("number", &self.number())
            .finish_non_exhaustive()
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; what it uses is still held.
        let code = unsafe { sys::ibv_destroy_qp(self.raw.as_ptr()) };
        if code == 0 {
            // SAFETY: dropped once, here. Had the device kept the queue pair, it could still
            // write to the regions, and leaking them would be the only safe end.
            unsafe { ManuallyDrop::drop(&mut self.held) };
        }
    }
}

impl QueuePair {
    pub(crate) fn create(
        domain: &ProtectionDomain,
        queues: Queues<'_>,
        options: &QueuePairOptions,
    ) -> Result<Self> {
        Self::create_by(domain, queues, options, |domain, attr| {
            // SAFETY: `create_by` gives a domain and queues that are alive.
            unsafe { sys::ibv_create_qp(domain, attr) }
        })
    }

    /// Creates a queue pair by `make`, which gets the domain, attributes with queues that are alive
    /// and of its device, and puts the capabilities back; all of them outlive the queue pair.
    pub(crate) fn create_by(
        domain: &ProtectionDomain,
        queues: Queues<'_>,
        options: &QueuePairOptions,
        make: impl Fn(*mut sys::ibv_pd, &mut sys::ibv_qp_init_attr) -> *mut sys::ibv_qp,
    ) -> Result<Self> {
        let (context, shared) = (domain.0.context(), queues.shared);
        if [queues.send, queues.recv].iter().any(|queue| !Arc::ptr_eq(queue.context(), context)) {
            return Err(Error::Foreign { what: "the completion queue", parent: "device" });
        }
        if shared.is_some_and(|queue| !Arc::ptr_eq(queue.shared().domain(), &domain.0)) {
            let what = "the shared receive queue";
            return Err(Error::Foreign { what, parent: "protection domain" });
        }
        if shared.is_some() && options.transport == Transport::UnreliableConnection {
            return Err(Error::Unsupported {
                device: context.name().to_owned(),
                what: "shared receive queues of UC queue pairs (RC and UD have them)".to_owned(),
            });
        }
        let recv_depth = if shared.is_some() { 0 } else { options.recv_depth.max(1) };
        let options = &QueuePairOptions { recv_depth, ..*options };
        check_limits(context, options)?;
        let create = |max_inline| create_raw(domain, queues, options, max_inline, &make);
        let (raw, cap) = match create(options.max_inline) {
            Ok(made) => made,
            Err(_) if options.max_inline > 0 => largest_inline(options.max_inline, create)
                .map_err(|errno| create_failed(context, options, errno))?,
            Err(errno) => return Err(create_failed(context, options, errno)),
        };
        Ok(Self {
            raw: raw.release(),
            transport: options.transport,
            capabilities: Capabilities {
                send_depth: cap.max_send_wr,
                recv_depth: if shared.is_some() { 0 } else { cap.max_recv_wr },
                max_inline: cap.max_inline_data,
                max_segments: cap.max_send_sge.clamp(1, MOST_SEGMENTS),
            },
            shares_receives: shared.is_some(),
            attachments: Attachments::new(),
            destinations: Vec::new(),
            held: ManuallyDrop::new(Held {
                domain: domain.clone(),
                _send_cq: queues.send.clone(),
                _recv_cq: queues.recv.clone(),
                regions: Vec::new(),
                handles: Vec::new(),
                _shared: shared.map(|queue| Arc::clone(queue.shared())),
            }),
        })
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_qp {
        self.raw.as_ptr()
    }

    pub(crate) fn opened(&self) -> &Arc<Opened> {
        self.held.domain.0.context()
    }

    /// The device it is of.
    #[must_use]
    pub fn context(&self) -> Context {
        Context(Arc::clone(self.opened()))
    }

    /// The queue pair's number (QPN), by which a peer addresses it.
    #[must_use]
    pub fn number(&self) -> u32 {
        // SAFETY: the structure is public and alive, and its number never changes.
        unsafe { (*self.as_ptr()).qp_num }
    }

    /// The domain it was created in, whose regions it can attach.
    #[must_use]
    pub fn protection_domain(&self) -> ProtectionDomain {
        self.held.domain.clone()
    }

    /// The transport it was created with.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// What it got when it was created.
    #[inline]
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Lets work requests of this queue pair use `region`, which from now on lives at least as
    /// long as the queue pair.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] for a region of another protection domain.
    pub fn attach(&mut self, region: &MemoryRegion) -> Result<RegionId> {
        let registration = region.registration();
        if !Arc::ptr_eq(registration.domain(), &self.held.domain.0) {
            return Err(Error::Foreign { what: "the memory region", parent: "protection domain" });
        }
        self.held.regions.push(Arc::clone(registration));
        Ok(self.attachments.attach(registration)?)
    }

    #[inline]
    pub(crate) fn attachments(&self) -> &Attachments {
        &self.attachments
    }

    /// Whether its receives are those of a shared receive queue.
    #[inline]
    #[must_use]
    pub fn shares_receives(&self) -> bool {
        self.shares_receives
    }

    #[inline]
    pub(crate) fn destinations(&self) -> &[Destination] {
        &self.destinations
    }

    /// Adds a destination, whose handle from now on lives at least as long as the queue pair.
    pub(crate) fn hold(&mut self, handle: &AddressHandle, destination: Destination) {
        self.held.handles.push(handle.clone());
        self.destinations.push(destination);
    }
}

/// A queue pair that is not a [`QueuePair`] yet, destroyed unless it becomes one.
struct Made(NonNull<sys::ibv_qp>);

impl Made {
    fn release(self) -> NonNull<sys::ibv_qp> {
        ManuallyDrop::new(self).0
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: just created, never used; on failure the kernel destroys it with the context.
        unsafe { sys::ibv_destroy_qp(self.0.as_ptr()) };
    }
}

fn create_raw(
    domain: &ProtectionDomain,
    queues: Queues<'_>,
    options: &QueuePairOptions,
    max_inline: u32,
    make: impl Fn(*mut sys::ibv_pd, &mut sys::ibv_qp_init_attr) -> *mut sys::ibv_qp,
) -> io::Result<(Made, sys::ibv_qp_cap)> {
    let mut attr = sys::ibv_qp_init_attr::zeroed();
    (attr.send_cq, attr.recv_cq) = (queues.send.as_ptr(), queues.recv.as_ptr());
    attr.srq = queues.shared.map_or(std::ptr::null_mut(), |queue| queue.shared().as_ptr());
    attr.qp_type = options.transport.code();
    // `sq_sig_all` stays 0, also for safety: with it mlx5 may get what short reads and atomics
    // bring inside their completions and copy it on the processor, to an address that memory on
    // the device does not have.
    attr.cap = sys::ibv_qp_cap {
        max_send_wr: options.send_depth.max(1),
        max_recv_wr: options.recv_depth,
        max_send_sge: options.max_segments.max(1),
        max_recv_sge: u32::from(queues.shared.is_none()),
        max_inline_data: max_inline,
    };
    let raw =
        NonNull::new(make(domain.0.as_ptr(), &mut attr)).ok_or_else(io::Error::last_os_error)?;
    Ok((Made(raw), attr.cap))
}

/// The queue pair with the most inline bytes below `refused` that the device takes, by
/// bisection: no table of devices knows it better than the device.
fn largest_inline<T>(refused: u32, create: impl Fn(u32) -> io::Result<T>) -> io::Result<T> {
    let mut best = create(0)?;
    let (mut taken, mut refused) = (0, refused);
    while refused - taken > 1 {
        let middle = taken + (refused - taken) / 2;
        match create(middle) {
            Ok(made) => (best, taken) = (made, middle),
            Err(_) => refused = middle,
        }
    }
    Ok(best)
}

fn check_limits(context: &Opened, options: &QueuePairOptions) -> Result<()> {
    let limits = context.limits();
    let (most, segments) = (limits.work_requests, limits.segments.min(MOST_SEGMENTS));
    let QueuePairOptions { send_depth, recv_depth, max_segments, .. } = options;
    let what = if *send_depth > most {
        format!("a send queue of {send_depth} work requests (at most {most})")
    } else if *recv_depth > most {
        format!("a receive queue of {recv_depth} work requests (at most {most})")
    } else if *max_segments > segments {
        format!("sends gathered from {max_segments} ranges (at most {segments}: max_sge)")
    } else {
        return Ok(());
    };
    Err(Error::Unsupported { device: context.name().to_owned(), what })
}

fn create_failed(context: &Opened, options: &QueuePairOptions, errno: io::Error) -> Error {
    let QueuePairOptions { transport, send_depth, recv_depth, max_segments, .. } = options;
    let cure = match errno.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => {
            return Error::Unsupported {
                device: context.name().to_owned(),
                what: format!("{transport} queue pairs"),
            };
        }
        Some(libc::ENOMEM) => "fewer queue pairs or shorter queues, or raise RLIMIT_MEMLOCK",
        _ if *transport == Transport::ReliableConnection => "try shorter queues",
        _ => "try shorter queues, or RC, which every device has",
    };
    let segments = match max_segments {
        0 | 1 => String::new(),
        several => format!(" of {several} ranges"),
    };
    let cure = format!(
        "{cure} (asked for {transport}, {send_depth} sends{segments} and {recv_depth} receives)"
    );
    context.call_failed("ibv_create_qp", errno, &cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisection_finds_the_most_the_device_takes() {
        for most in [0, 1, 188, 511] {
            let create = |ask| if ask <= most { Ok(ask) } else { Err(io::ErrorKind::Other.into()) };
            assert_eq!(largest_inline(512, create).unwrap(), most);
        }
        let dead = |_| -> io::Result<u32> { Err(io::ErrorKind::Other.into()) };
        assert!(largest_inline(512, dead).is_err());
    }
}
