//! Lists of work requests that are posted in one call.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::Range;

use crate::sys::{self, Zeroed};

/// Up to `N` send requests that are posted in one call, kept in place: building and posting
/// allocates nothing, and a list can be posted again and again.
pub struct SendList<const N: usize> {
    owner: u64,
    len: usize,
    requests: [sys::ibv_send_wr; N],
    segments: [sys::ibv_sge; N],
}

/// Up to `N` receive requests that are posted in one call; see [`SendList`].
pub struct RecvList<const N: usize> {
    owner: u64,
    len: usize,
    requests: [sys::ibv_recv_wr; N],
    segments: [sys::ibv_sge; N],
}

macro_rules! list {
    ($list:ident, $raw:ty) => {
        // SAFETY: the pointers in the requests are set anew by every `chain`, so that none is
        // used after the list has moved.
        unsafe impl<const N: usize> Send for $list<N> {}
        // SAFETY: a shared list gives no access to the pointers.
        unsafe impl<const N: usize> Sync for $list<N> {}

        impl<const N: usize> fmt::Debug for $list<N> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($list)).field("len", &self.len).finish_non_exhaustive()
            }
        }

        impl<const N: usize> $list<N> {
            /// An empty list for the queue pair with this tag.
            pub(crate) fn empty(owner: u64) -> Self {
                Self {
                    owner,
                    len: 0,
                    requests: std::array::from_fn(|_| <$raw>::zeroed()),
                    segments: std::array::from_fn(|_| sys::ibv_sge::zeroed()),
                }
            }

            pub(crate) fn owner(&self) -> u64 {
                self.owner
            }

            /// Adds a request whose range is checked; gives false when there is no place.
            #[inline]
            pub(crate) fn add(&mut self, request: $raw, segment: sys::ibv_sge) -> bool {
                let places = self.requests.get_mut(self.len).zip(self.segments.get_mut(self.len));
                let Some((request_place, segment_place)) = places else { return false };
                (*request_place, *segment_place) = (request, segment);
                self.len += 1;
                true
            }

            /// Links the requests of `range` to one another and to their segments, and gives
            /// the first: null when the range is empty.
            #[inline]
            pub(crate) fn chain(&mut self, range: Range<usize>) -> *mut $raw {
                let end = range.end.min(self.len);
                let (requests, segments) = (self.requests.as_mut_ptr(), self.segments.as_mut_ptr());
                if range.start >= end {
                    return std::ptr::null_mut();
                }
                for index in range.start..end {
                    // SAFETY: `index` is below `len`, which is at most `N`.
                    let request = unsafe { &mut *requests.add(index) };
                    request.sg_list = segments.wrapping_add(index);
                    request.next = if index + 1 < end {
                        requests.wrapping_add(index + 1)
                    } else {
                        std::ptr::null_mut()
                    };
                }
                requests.wrapping_add(range.start)
            }

            /// The index of a request of this list that a provider pointed at.
            pub(crate) fn index_of(&self, request: *const $raw) -> usize {
                let bytes = request.addr().saturating_sub(self.requests.as_ptr().addr());
                (bytes / size_of::<$raw>()).min(self.len)
            }

            /// Requests in the list.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether there are none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Takes all requests out.
            pub fn clear(&mut self) {
                self.len = 0;
            }

            /// Gives the request at `index` another id, for posting a list again.
            pub fn set_id(&mut self, index: usize, id: u64) {
                if let Some(request) = self.requests.get_mut(index) {
                    request.wr_id = id;
                }
            }
        }
    };
}

list!(SendList, sys::ibv_send_wr);
list!(RecvList, sys::ibv_recv_wr);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{Local, Operation, RegionId, SendRequest};

    const LOCAL: Local = Local { region: RegionId { owner: 1, index: 0 }, offset: 0, length: 8 };

    #[test]
    fn a_chain_links_what_is_in_range_even_after_a_move() {
        let mut list = SendList::<4>::empty(1);
        for id in 0..3 {
            let raw = SendRequest::new(id, Operation::Send, LOCAL).to_raw();
            assert!(list.add(raw, sys::ibv_sge { addr: id, length: 8, lkey: 0 }));
        }
        list.chain(0..4);
        let mut list = Box::new(list);
        let mut ids = Vec::new();
        let mut next = list.chain(0..4);
        while !next.is_null() {
            // SAFETY: the chain points into `list`, which does not move here.
            let request = unsafe { &*next };
            // SAFETY: as above, each request has one segment.
            let segment = unsafe { &*request.sg_list };
            assert_eq!(segment.addr, request.wr_id);
            assert_eq!(list.index_of(next), request.wr_id as usize);
            ids.push(request.wr_id);
            next = request.next;
        }
        assert_eq!(ids, [0, 1, 2]);
        assert!(list.chain(3..4).is_null());
        list.clear();
        assert!(list.chain(0..4).is_null());
    }

    #[test]
    fn a_full_list_takes_no_more() {
        let mut list = RecvList::<1>::empty(1);
        let segment = || sys::ibv_sge::zeroed();
        assert!(list.add(sys::ibv_recv_wr::zeroed(), segment()));
        assert!(!list.add(sys::ibv_recv_wr::zeroed(), segment()));
        assert_eq!(list.len(), 1);
    }
}
