//! Requests built by function calls.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};

use crate::completion_queue::CompletionQueue;
use crate::datagram::{AddressHandle, PeerId};
use crate::domain::ProtectionDomain;
use crate::error::{Error, Result};
use crate::memory::MemoryRegion;
use crate::queue_pair::{QueuePair, QueuePairOptions, Queues};
use crate::refusal::{PostError, PostFailure};
use crate::shared_receive::SharedReceiveQueue;
use crate::sys::{self, ibv_qp_create_send_ops_flags as flag, ibv_wr_opcode as opcode};
use crate::transport::{OperationKind, Transport};
use crate::work::{RegionId, SendRequest};

/// A queue pair whose sends are built by function calls. In all else it is the queue pair that
/// [`ExtendedQueuePair::queue_pair`] gives: connect and receive with that.
pub struct ExtendedQueuePair {
    /// Keeps `raw`, which is the same object, alive: it must never be replaced.
    queue_pair: QueuePair,
    raw: NonNull<sys::ibv_qp_ex>,
}

// SAFETY: libibverbs objects may be used from any thread at once; the provider locks the queue from
// the start of a batch to its end.
unsafe impl Send for ExtendedQueuePair {}
// SAFETY: as above.
unsafe impl Sync for ExtendedQueuePair {}

impl fmt::Debug for ExtendedQueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtendedQueuePair").field(&self.queue_pair).finish()
    }
}

impl ProtectionDomain {
    /// Creates a queue pair whose sends are built by function calls; see
    /// [`ProtectionDomain::create_queue_pair`].
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] where the provider does not have it; what creating a queue pair
    /// gives.
    pub fn create_extended_queue_pair(
        &self,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        options: &QueuePairOptions,
    ) -> Result<ExtendedQueuePair> {
        let queues = Queues { send: send_cq, recv: recv_cq, shared: None };
        create(self, queues, options)
    }

    /// The same, with receives taken from `shared`; see [`ProtectionDomain::create_queue_pair_on`].
    ///
    /// # Errors
    ///
    /// The same, and what [`ProtectionDomain::create_queue_pair_on`] gives.
    pub fn create_extended_queue_pair_on(
        &self,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        shared: &SharedReceiveQueue,
        options: &QueuePairOptions,
    ) -> Result<ExtendedQueuePair> {
        create(self, Queues { send: send_cq, recv: recv_cq, shared: Some(shared) }, options)
    }
}

fn create(
    domain: &ProtectionDomain,
    queues: Queues<'_>,
    options: &QueuePairOptions,
) -> Result<ExtendedQueuePair> {
    let context = domain.context();
    let operations = operations(options.transport, context.limits().atomics);
    let unsupported = || Error::Unsupported {
        device: context.name().to_owned(),
        what: "queue pairs of the extended interface (ibv_wr_*); post plain requests".to_owned(),
    };
    let last = Cell::new(0);
    let make = |domain: *mut sys::ibv_pd, attr: &mut sys::ibv_qp_init_attr| {
        // SAFETY: as `QueuePair::create_by` promises: domain and queues are alive.
        let raw = unsafe { make(domain, attr, operations) };
        if raw.is_null() {
            last.set(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        raw
    };
    let queue_pair = QueuePair::create_by(domain, queues, options, make).map_err(|error| {
        // Providers that do not know the attribute call it invalid.
        match last.get() {
            libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL => unsupported(),
            _ => error,
        }
    })?;
    // SAFETY: the queue pair is alive; null for one that is not extended.
    let raw = unsafe { sys::ibv_qp_to_qp_ex(queue_pair.as_ptr()) };
    let raw = NonNull::new(raw).ok_or_else(unsupported)?;
    // SAFETY: the queue pair is alive.
    if !unsafe { complete(raw, operations) } {
        return Err(unsupported());
    }
    Ok(ExtendedQueuePair { queue_pair, raw })
}

/// The operations to ask for, each of which fills in a function: all that the transport has.
fn operations(transport: Transport, atomics: bool) -> u64 {
    let each = [
        (OperationKind::Send, flag::IBV_QP_EX_WITH_SEND),
        (OperationKind::SendImm, flag::IBV_QP_EX_WITH_SEND_WITH_IMM),
        (OperationKind::Write, flag::IBV_QP_EX_WITH_RDMA_WRITE),
        (OperationKind::WriteImm, flag::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM),
        (OperationKind::Read, flag::IBV_QP_EX_WITH_RDMA_READ),
        (OperationKind::CompareSwap, flag::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP),
        (OperationKind::FetchAdd, flag::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD),
    ];
    let atomic = [OperationKind::CompareSwap, OperationKind::FetchAdd];
    each.into_iter()
        .filter(|(kind, _)| transport.supports(*kind) && (atomics || !atomic.contains(kind)))
        .fold(0, |all, (_, bit)| all | u64::from(bit.0))
}

/// Creates a queue pair of the extended interface from the attributes of an ordinary one, which get
/// the capabilities back.
///
/// # Safety
///
/// The domain and the queues in `attr` are alive, of one device, and outlive the queue pair.
unsafe fn make(
    domain: *mut sys::ibv_pd,
    attr: &mut sys::ibv_qp_init_attr,
    operations: u64,
) -> *mut sys::ibv_qp {
    use sys::ibv_qp_init_attr_mask as mask;
    let mut extended = sys::ibv_qp_init_attr_ex {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
        comp_mask: (mask::IBV_QP_INIT_ATTR_PD | mask::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).0,
        pd: domain,
        xrcd: ptr::null_mut(),
        create_flags: 0,
        max_tso_header: 0,
        rwq_ind_tbl: ptr::null_mut(),
        rx_hash_conf: sys::ibv_rx_hash_conf {
            rx_hash_function: 0,
            rx_hash_key_len: 0,
            rx_hash_key: ptr::null_mut(),
            rx_hash_fields_mask: 0,
        },
        source_qpn: 0,
        send_ops_flags: operations,
    };
    // SAFETY: the caller promises a domain.
    let context = unsafe { (*domain).context };
    // SAFETY: as above; the attributes are filled.
    let raw = unsafe { sys::ibv_create_qp_ex(context, &raw mut extended) };
    attr.cap = extended.cap;
    raw
}

/// Whether the provider has filled in every function that posting will call.
///
/// # Safety
///
/// `raw` is a queue pair that is alive.
unsafe fn complete(raw: NonNull<sys::ibv_qp_ex>, operations: u64) -> bool {
    // SAFETY: the caller promises a queue pair; its structure is public.
    let qp = unsafe { raw.as_ref() };
    let wanted = |bit: flag| operations & u64::from(bit.0) != 0;
    let (read, write) = (flag::IBV_QP_EX_WITH_RDMA_READ, flag::IBV_QP_EX_WITH_RDMA_WRITE);
    let write_imm = flag::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    let swap = flag::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
    let add = flag::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    qp.wr_start.is_some()
        && qp.wr_complete.is_some()
        && qp.wr_abort.is_some()
        && qp.wr_set_sge.is_some()
        && qp.wr_set_inline_data.is_some()
        && (qp.wr_set_ud_addr.is_some() || wanted(write))
        && qp.wr_send.is_some()
        && qp.wr_send_imm.is_some()
        && (qp.wr_rdma_write.is_some() || !wanted(write))
        && (qp.wr_rdma_write_imm.is_some() || !wanted(write_imm))
        && (qp.wr_rdma_read.is_some() || !wanted(read))
        && (qp.wr_atomic_cmp_swp.is_some() || !wanted(swap))
        && (qp.wr_atomic_fetch_add.is_some() || !wanted(add))
}

impl ExtendedQueuePair {
    /// The queue pair as the rest of the crate knows it, to connect and to post receives.
    #[must_use]
    pub fn queue_pair(&self) -> &QueuePair {
        &self.queue_pair
    }

    /// As [`QueuePair::attach_peer`].
    ///
    /// # Errors
    ///
    /// As [`QueuePair::attach_peer`].
    pub fn attach_peer(&mut self, handle: &AddressHandle, qpn: u32, qkey: u32) -> Result<PeerId> {
        self.queue_pair.attach_peer(handle, qpn, qkey)
    }

    /// As [`QueuePair::attach`].
    ///
    /// # Errors
    ///
    /// As [`QueuePair::attach`].
    pub fn attach(&mut self, region: &MemoryRegion) -> Result<RegionId> {
        self.queue_pair.attach(region)
    }

    /// Posts send requests, all of them or none, in one batch: the device is told once.
    ///
    /// # Errors
    ///
    /// [`PostError`], after which none has been posted; [`PostError::is_queue_full`] tells the
    /// case that polling resolves.
    #[inline]
    pub fn post_send(&self, requests: &[SendRequest]) -> Result<(), PostError> {
        let datagram = self.queue_pair.transport() == Transport::UnreliableDatagram;
        let admit = |request: &SendRequest| {
            let segment = self.queue_pair.admit(request)?;
            let mut raw = request.to_raw();
            self.queue_pair.direct(request, request.local.length, &mut raw)?;
            Ok((raw, segment))
        };
        // SAFETY: the queue pair is alive, creating it has checked its functions, and `admit` lets
        // no operation pass that its transport does not have, nor memory that it does not hold.
        unsafe { post(self.raw.as_ptr(), requests, datagram, admit) }
    }
}

/// Builds and posts a batch of what `admit` makes of the requests, or nothing if it refuses one.
///
/// # Safety
///
/// `qp` is alive and [`complete`] held for it; what `admit` gives is good for [`build`].
#[inline]
unsafe fn post(
    qp: *mut sys::ibv_qp_ex,
    requests: &[SendRequest],
    datagram: bool,
    admit: impl Fn(&SendRequest) -> Result<(sys::ibv_send_wr, sys::ibv_sge), PostError>,
) -> Result<(), PostError> {
    // SAFETY: between start and end only this thread builds, since the provider locks the queue;
    // nothing in between panics, which would leave it locked.
    unsafe { sys::ibv_wr_start(qp) };
    for request in requests {
        let built = admit(request).and_then(|(raw, segment)| {
            // SAFETY: a batch is started; the rest is the caller's promise.
            unsafe { build(qp, &raw, &segment, datagram) }
        });
        if let Err(error) = built {
            // SAFETY: a batch was started, and is ended once.
            unsafe { sys::ibv_wr_abort(qp) };
            return Err(error);
        }
    }
    // SAFETY: as above.
    let code = unsafe { sys::ibv_wr_complete(qp) };
    if code == 0 { Ok(()) } else { Err(PostError::returned(code, 0)) }
}

/// Whether the provider has filled in the functions for atomics.
///
/// # Safety
///
/// `qp` is alive.
unsafe fn has_atomics(qp: *mut sys::ibv_qp_ex) -> bool {
    // Field by field: a reference to the whole would cover what other threads change, as by
    // acknowledging an event.
    // SAFETY: the caller promises a queue pair; its structure is public.
    let swap = unsafe { (*qp).wr_atomic_cmp_swp };
    // SAFETY: as above.
    let add = unsafe { (*qp).wr_atomic_fetch_add };
    swap.is_some() && add.is_some()
}

/// Calls the functions that build one request in a batch.
///
/// # Safety
///
/// `qp` is alive, a batch is started, and [`complete`] held for it; `segment` is memory that lives
/// until the request is done; a datagram's `raw` names an address handle that does too.
#[inline]
unsafe fn build(
    qp: *mut sys::ibv_qp_ex,
    raw: &sys::ibv_send_wr,
    segment: &sys::ibv_sge,
    datagram: bool,
) -> Result<(), PostError> {
    // The flag for inline data stays: some providers (rxe) go by it, others by the call below.
    // SAFETY: the field is the caller's to set in a batch, by the interface.
    unsafe { (*qp).wr_id = raw.wr_id };
    // SAFETY: as above.
    unsafe { (*qp).wr_flags = raw.send_flags };
    // SAFETY: every bit pattern is a valid integer in either member; the immediate is in network
    // order already.
    let immediate = unsafe { raw.imm_data_invalidated_rkey_union.imm_data };
    // SAFETY: as above; only read where the operation has set it.
    let rdma = unsafe { raw.wr.rdma };
    // SAFETY: as above.
    let atomic = unsafe { raw.wr.atomic };
    // The device may have no atomics, and so no functions for them.
    // SAFETY: the queue pair is alive.
    let atomics = || unsafe { has_atomics(qp) };
    match raw.opcode {
        // SAFETY: this function and those below are there, by the caller's promise.
        opcode::IBV_WR_SEND => unsafe { sys::ibv_wr_send(qp) },
        // SAFETY: as above.
        opcode::IBV_WR_SEND_WITH_IMM => unsafe { sys::ibv_wr_send_imm(qp, immediate) },
        opcode::IBV_WR_RDMA_WRITE => {
            // SAFETY: as above.
            unsafe { sys::ibv_wr_rdma_write(qp, rdma.rkey, rdma.remote_addr) }
        }
        opcode::IBV_WR_RDMA_WRITE_WITH_IMM => {
            // SAFETY: as above.
            unsafe { sys::ibv_wr_rdma_write_imm(qp, rdma.rkey, rdma.remote_addr, immediate) }
        }
        opcode::IBV_WR_RDMA_READ => {
            // SAFETY: as above.
            unsafe { sys::ibv_wr_rdma_read(qp, rdma.rkey, rdma.remote_addr) }
        }
        opcode::IBV_WR_ATOMIC_CMP_AND_SWP if atomics() => {
            let sys::atomic_t { remote_addr, compare_add, swap, rkey } = atomic;
            // SAFETY: as above.
            unsafe { sys::ibv_wr_atomic_cmp_swp(qp, rkey, remote_addr, compare_add, swap) }
        }
        opcode::IBV_WR_ATOMIC_FETCH_AND_ADD if atomics() => {
            let sys::atomic_t { remote_addr, compare_add, rkey, .. } = atomic;
            // SAFETY: as above.
            unsafe { sys::ibv_wr_atomic_fetch_add(qp, rkey, remote_addr, compare_add) }
        }
        _ => return Err(PostError::unposted(PostFailure::Refused(libc::EOPNOTSUPP))),
    }
    if datagram {
        // SAFETY: a datagram's request has this member set.
        let sys::ud_t { ah, remote_qpn, remote_qkey } = unsafe { raw.wr.ud };
        // SAFETY: as above; the handle is alive.
        unsafe { sys::ibv_wr_set_ud_addr(qp, ah, remote_qpn, remote_qkey) };
    }
    // A request without data needs the call too: providers take it as the end of the request.
    let &sys::ibv_sge { addr, length, lkey } = segment;
    if raw.send_flags & sys::ibv_send_flags::IBV_SEND_INLINE.0 != 0 {
        let data = ptr::with_exposed_provenance_mut(addr as usize);
        // SAFETY: as above; the bytes are copied before the call returns.
        unsafe { sys::ibv_wr_set_inline_data(qp, data, length as usize) };
    } else {
        // SAFETY: as above.
        unsafe { sys::ibv_wr_set_sge(qp, lkey, addr, length) };
    }
    Ok(())
}

#[cfg(test)]
mod tests;
