//! The hot path: posting work requests.
#![allow(unsafe_code)]

use std::ptr;

use crate::attachment::Attachments;
use crate::list::{RecvList, SendList};
use crate::queue_pair::QueuePair;
use crate::refusal::{MAX_MESSAGE, PostError, PostFailure};
use crate::sys::{self, Zeroed};
use crate::transport::Transport;
use crate::work::{Local, RecvRequest, SendRequest};

impl QueuePair {
    /// Posts one send request.
    ///
    /// # Errors
    ///
    /// [`PostError`]; [`PostError::is_queue_full`] tells the case that polling resolves.
    #[inline]
    pub fn post_send(&self, request: &SendRequest) -> Result<(), PostError> {
        let mut segment = self.admit(request)?;
        let mut raw = request.to_raw();
        self.direct(request, request.local.length, &mut raw)?;
        raw.sg_list = &raw mut segment;
        let mut refused = ptr::null_mut();
        // SAFETY: the request and its segment live through the call; the segment lies in a
        // region this queue pair holds until it is destroyed.
        let code = unsafe { sys::ibv_post_send(self.as_ptr(), &raw mut raw, &raw mut refused) };
        if code == 0 { Ok(()) } else { Err(PostError::returned(code, 0)) }
    }

    /// Posts one receive request.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::post_send`].
    #[inline]
    pub fn post_recv(&self, request: &RecvRequest) -> Result<(), PostError> {
        self.own_receives()?;
        post_receive(self.attachments(), request, |first, refused| {
            // SAFETY: as for sends.
            unsafe { sys::ibv_post_recv(self.as_ptr(), first, refused) }
        })
    }

    /// An empty list of send requests for this queue pair.
    #[must_use]
    pub fn send_list<const N: usize>(&self) -> SendList<N> {
        SendList::empty(self.attachments().tag())
    }

    /// An empty list of receive requests for this queue pair.
    #[must_use]
    pub fn recv_list<const N: usize>(&self) -> RecvList<N> {
        RecvList::empty(self.attachments().tag())
    }

    /// Checks `request` and adds it to a list of this queue pair.
    ///
    /// # Errors
    ///
    /// [`PostError`] when the request is not valid or the list has no place.
    #[inline]
    pub fn push_send<const N: usize>(
        &self,
        list: &mut SendList<N>,
        request: &SendRequest,
    ) -> Result<(), PostError> {
        let segment = self.admit(request)?;
        let mut raw = request.to_raw();
        self.direct(request, request.local.length, &mut raw)?;
        let added = list.owner() == self.attachments().tag() && list.add(raw, segment);
        if added { Ok(()) } else { Err(PostError::unposted(PostFailure::ListMismatch)) }
    }

    /// Checks `request` and adds it to a list of this queue pair.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::push_send`].
    #[inline]
    pub fn push_recv<const N: usize>(
        &self,
        list: &mut RecvList<N>,
        request: &RecvRequest,
    ) -> Result<(), PostError> {
        push_receive(self.attachments(), list, request)
    }

    /// Posts the requests of `list` from index `from` on in one call. The list stays as it is,
    /// so that it can be posted again, or from where the queue was full.
    ///
    /// # Errors
    ///
    /// [`PostError`], whose `posted` counts the requests the queue did take.
    #[inline]
    pub fn post_send_list<const N: usize>(
        &self,
        list: &mut SendList<N>,
        from: usize,
    ) -> Result<(), PostError> {
        if list.owner() != self.attachments().tag() {
            return Err(PostError::unposted(PostFailure::ListMismatch));
        }
        let first = list.chain(from..N);
        if first.is_null() {
            return Ok(());
        }
        let mut refused = ptr::null_mut();
        // SAFETY: the chain lies in `list`, which lives through the call; its segments were
        // checked against regions that this queue pair, by its tag, holds.
        let code = unsafe { sys::ibv_post_send(self.as_ptr(), first, &raw mut refused) };
        if code == 0 {
            return Ok(());
        }
        Err(PostError::returned(code, list.index_of(refused).saturating_sub(from)))
    }

    /// Posts the receives of `list` from index `from` on in one call.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::post_send_list`].
    #[inline]
    pub fn post_recv_list<const N: usize>(
        &self,
        list: &mut RecvList<N>,
        from: usize,
    ) -> Result<(), PostError> {
        self.own_receives()?;
        post_receives(self.attachments(), list, from, |first, refused| {
            // SAFETY: as for sends.
            unsafe { sys::ibv_post_recv(self.as_ptr(), first, refused) }
        })
    }

    /// The range a send request names, checked, if this queue pair can do what is asked.
    #[inline]
    pub(crate) fn admit(&self, request: &SendRequest) -> Result<sys::ibv_sge, PostError> {
        self.admit_operation(request)?;
        let segment = self.attachments().segment(request.local)?;
        self.admit_inline(request, request.local)?;
        self.admit_length(request, request.local.length)?;
        Ok(segment)
    }

    /// Refuses what the transport does not have.
    #[inline]
    pub(crate) fn admit_operation(&self, request: &SendRequest) -> Result<(), PostError> {
        let transport = self.transport();
        // One comparison where everything is supported.
        if transport != Transport::ReliableConnection
            && !transport.supports(request.operation.kind())
        {
            let operation = request.operation.kind();
            return Err(PostError::unposted(PostFailure::Impossible { operation, transport }));
        }
        Ok(())
    }

    /// Refuses a range that is to go inline and cannot.
    #[inline]
    pub(crate) fn admit_inline(
        &self,
        request: &SendRequest,
        local: Local,
    ) -> Result<(), PostError> {
        if request.inline {
            if !request.operation.sends_local_bytes() {
                return Err(PostError::unposted(PostFailure::InlineOperation));
            }
            if self.attachments().is_on_device(local.region) {
                return Err(PostError::unposted(PostFailure::InlineFromDevice));
            }
        }
        Ok(())
    }

    /// Refuses a message of `length` bytes that are too many.
    #[inline]
    pub(crate) fn admit_length(&self, request: &SendRequest, length: u32) -> Result<(), PostError> {
        if request.inline {
            let max = self.capabilities().max_inline;
            if length > max {
                return Err(PostError::unposted(PostFailure::InlineTooLong { length, max }));
            }
        } else if length > MAX_MESSAGE {
            return Err(PostError::unposted(PostFailure::MessageTooLong { length }));
        }
        Ok(())
    }

    /// Refuses receives of a queue pair that takes them from a shared receive queue: a provider
    /// would write them to a queue that it has not made.
    #[inline]
    fn own_receives(&self) -> Result<(), PostError> {
        if self.shares_receives() {
            return Err(PostError::unposted(PostFailure::SharedReceives));
        }
        Ok(())
    }

    /// Puts the destination of a datagram of `length` bytes into the request.
    #[inline]
    pub(crate) fn direct(
        &self,
        request: &SendRequest,
        length: u32,
        raw: &mut sys::ibv_send_wr,
    ) -> Result<(), PostError> {
        if !self.transport().is_connected() {
            raw.wr = self.destination(request.peer, length)?;
        } else if request.peer.is_some() {
            return Err(PostError::unposted(PostFailure::Connected));
        }
        Ok(())
    }
}

/// Posts one receive into a region of `attachments`, by a function that is given the request and a
/// place for the one that was refused.
#[inline]
pub(crate) fn post_receive(
    attachments: &Attachments,
    request: &RecvRequest,
    post: impl FnOnce(*mut sys::ibv_recv_wr, *mut *mut sys::ibv_recv_wr) -> i32,
) -> Result<(), PostError> {
    let mut segment = attachments.receive_segment(request.local)?;
    let mut raw = sys::ibv_recv_wr {
        wr_id: request.id,
        next: ptr::null_mut(),
        sg_list: &raw mut segment,
        num_sge: i32::from(request.local.length != 0),
    };
    let mut refused = ptr::null_mut();
    let code = post(&raw mut raw, &raw mut refused);
    if code == 0 { Ok(()) } else { Err(PostError::returned(code, 0)) }
}

/// Checks a receive and adds it to a list of the queue that has these attachments.
#[inline]
pub(crate) fn push_receive<const N: usize>(
    attachments: &Attachments,
    list: &mut RecvList<N>,
    request: &RecvRequest,
) -> Result<(), PostError> {
    let segment = attachments.receive_segment(request.local)?;
    let mut raw = sys::ibv_recv_wr::zeroed();
    (raw.wr_id, raw.num_sge) = (request.id, i32::from(request.local.length != 0));
    let added = list.owner() == attachments.tag() && list.add(raw, segment);
    if added { Ok(()) } else { Err(PostError::unposted(PostFailure::ListMismatch)) }
}

/// Posts a list of receives from index `from` on, as [`post_receive`] does one.
#[inline]
pub(crate) fn post_receives<const N: usize>(
    attachments: &Attachments,
    list: &mut RecvList<N>,
    from: usize,
    post: impl FnOnce(*mut sys::ibv_recv_wr, *mut *mut sys::ibv_recv_wr) -> i32,
) -> Result<(), PostError> {
    if list.owner() != attachments.tag() {
        return Err(PostError::unposted(PostFailure::ListMismatch));
    }
    let first = list.chain(from..N);
    if first.is_null() {
        return Ok(());
    }
    let mut refused = ptr::null_mut();
    let code = post(first, &raw mut refused);
    if code == 0 {
        return Ok(());
    }
    Err(PostError::returned(code, list.index_of(refused).saturating_sub(from)))
}
