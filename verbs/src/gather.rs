//! Sends whose bytes the device gathers from several ranges.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

use crate::attachment::Attachments;
use crate::queue_pair::QueuePair;
use crate::refusal::{PostError, PostFailure};
use crate::sys;
use crate::work::{Local, SendRequest};

/// The most ranges that a send is gathered from, whatever the device takes: posting has a place for
/// each on its stack.
pub const MOST_SEGMENTS: u32 = 64;

impl QueuePair {
    /// Posts one send request of several ranges: its own, and behind it those of `more`, in order
    /// and each of any attached region. They are one message, which the device gathers; of a read,
    /// what comes back is spread over them. Empty ranges are left out.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::post_send`], for the ranges together where it is about a message's length;
    /// [`PostFailure::TooManySegments`] over [`Capabilities::max_segments`](crate::Capabilities).
    #[inline]
    pub fn post_send_gathered(
        &self,
        request: &SendRequest,
        more: &[Local],
    ) -> Result<(), PostError> {
        self.admit_operation(request)?;
        let mut segments = Segments::none();
        for local in std::iter::once(&request.local).chain(more) {
            self.admit_inline(request, *local)?;
            segments.add(self.attachments(), *local)?;
        }
        let length = segments.length(self.capabilities().max_segments)?;
        self.admit_length(request, length)?;
        let mut raw = request.to_raw();
        self.direct(request, length, &mut raw)?;
        (raw.sg_list, raw.num_sge) = segments.as_raw();
        let mut refused = ptr::null_mut();
        // SAFETY: the request and its segments live through the call, and so many of these as it
        // says were written; each lies in a region this queue pair holds until it is destroyed.
        let code = unsafe { sys::ibv_post_send(self.as_ptr(), &raw mut raw, &raw mut refused) };
        if code == 0 { Ok(()) } else { Err(PostError::returned(code, 0)) }
    }
}

/// Ranges as the device wants them.
struct Segments {
    /// Of these the first are written, as many as `count` says or as there are.
    places: [MaybeUninit<sys::ibv_sge>; MOST_SEGMENTS as usize],
    count: usize,
    length: u64,
}

impl Segments {
    #[inline]
    fn none() -> Self {
        let places = [const { MaybeUninit::uninit() }; MOST_SEGMENTS as usize];
        Self { places, count: 0, length: 0 }
    }

    /// Adds a range, checked; counts those that have no place.
    #[inline]
    fn add(&mut self, attachments: &Attachments, local: Local) -> Result<(), PostError> {
        let segment = attachments.segment(local)?;
        // Providers take a length of 0 for none, or for 2^31.
        if local.length != 0 {
            if let Some(place) = self.places.get_mut(self.count) {
                place.write(segment);
            }
            self.count += 1;
            self.length += u64::from(local.length);
        }
        Ok(())
    }

    /// Bytes of all together, where there are at most `max` ranges.
    #[inline]
    fn length(&self, max: u32) -> Result<u32, PostError> {
        let max = max.min(MOST_SEGMENTS);
        if self.count > max as usize {
            let segments = self.count;
            return Err(PostError::unposted(PostFailure::TooManySegments { segments, max }));
        }
        let too_long = |_| PostError::unposted(PostFailure::MessageTooLong { length: u32::MAX });
        u32::try_from(self.length).map_err(too_long)
    }

    /// The first of them, and how many there are.
    #[inline]
    fn as_raw(&mut self) -> (*mut sys::ibv_sge, i32) {
        let count = self.count.min(self.places.len());
        (self.places.as_mut_ptr().cast(), count as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::Attached;

    /// Two regions of 64 bytes, at 0x1000 with the key 7 and at 0x9000 with the key 8.
    fn attachments() -> (Attachments, [crate::RegionId; 2]) {
        let mut attachments = Attachments::new();
        let ids = [(0x1000, 7), (0x9000, 8)].map(|(address, lkey)| {
            let attached = Attached { address, length: 64, lkey, on_device: false };
            attachments.add(attached).unwrap()
        });
        (attachments, ids)
    }

    fn seen(segments: &mut Segments) -> Vec<(u64, u32, u32)> {
        let (first, count) = segments.as_raw();
        let written = |index| {
            // SAFETY: so many were written.
            let segment = unsafe { &*first.wrapping_add(index as usize) };
            (segment.addr, segment.length, segment.lkey)
        };
        (0..count).map(written).collect()
    }

    #[test]
    fn ranges_of_several_regions_stand_in_order_and_empty_ones_are_left_out() {
        let (attachments, [one, other]) = attachments();
        let mut segments = Segments::none();
        for local in [one.range(1, 10), other.range(0, 0), other.range(60, 4), one.range(0, 1)] {
            segments.add(&attachments, local).unwrap();
        }
        assert_eq!(segments.length(3), Ok(15));
        assert_eq!(seen(&mut segments), [(0x1001, 10, 7), (0x903c, 4, 8), (0x1000, 1, 7)]);
        assert_eq!(Segments::none().length(1), Ok(0));
    }

    #[test]
    fn more_ranges_than_are_taken_are_refused_with_both_numbers() {
        let (attachments, [one, _]) = attachments();
        let mut segments = Segments::none();
        for _ in 0..=MOST_SEGMENTS {
            segments.add(&attachments, one.range(0, 1)).unwrap();
        }
        for (allowed, max) in [(2, 2), (u32::MAX, MOST_SEGMENTS)] {
            let refused = segments.length(allowed).unwrap_err();
            assert_eq!(refused.reason, PostFailure::TooManySegments { segments: 65, max });
            assert!(
                refused
                    .to_string()
                    .contains(&format!("65 ranges, and this queue pair takes {max}"))
            );
        }
        assert_eq!(seen(&mut segments).len(), MOST_SEGMENTS as usize, "nothing beyond the places");
    }

    #[test]
    fn each_range_must_lie_in_its_region_and_together_they_must_be_a_message() {
        let (mut attachments, [one, _]) = attachments();
        let mut segments = Segments::none();
        let outside = segments.add(&attachments, one.range(60, 5)).unwrap_err();
        assert!(matches!(outside.reason, PostFailure::OutOfRange { .. }));
        let large = Attached { address: 0, length: u32::MAX as usize, lkey: 9, on_device: false };
        let large = attachments.add(large).unwrap();
        for _ in 0..2 {
            segments.add(&attachments, large.range(0, u32::MAX)).unwrap();
        }
        let refused = segments.length(8).unwrap_err();
        assert!(matches!(refused.reason, PostFailure::MessageTooLong { .. }));
    }
}
