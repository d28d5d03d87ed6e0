//! Where things lie in a pair's memory: the same on both sides, since both know the plan.

use super::TransportError;
use crate::plan::ATOMIC_BYTES;

/// No two things in one cache line.
const LINE: usize = 64;

/// Bytes of a control message at the most.
pub(super) const CONTROL_BYTES: usize = 32;

/// The most memory that the receives of a side are spread over, in bytes. More receives than fit
/// share slots: what is measured is the transfer, and the message that is verified is the first,
/// when no other has been received into its slot.
const RECEIVE_MEMORY: usize = 16 << 20;

/// For each lane its receive slots, the message it sends, the target of writes and reads, and the
/// word that atomics work on; then a place for control messages to be sent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    stride: usize,
    slots: usize,
    header: usize,
    lanes: usize,
}

impl Layout {
    /// For messages of `size` bytes, each behind `header` bytes when it is received.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`]: all of it together has no address.
    pub(super) fn new(
        size: u32,
        header: usize,
        receives: u32,
        lanes: u32,
    ) -> Result<Self, TransportError> {
        let content = (size as usize).max(CONTROL_BYTES);
        let stride = (content + header).next_multiple_of(LINE);
        let (receives, lanes) = (receives as usize, lanes as usize);
        let slots = receives.min(RECEIVE_MEMORY / lanes.max(1) / stride).max(1);
        let layout = Self { stride, slots, header, lanes };
        let too_much = || {
            TransportError::Unsupported(format!(
                "no memory for {lanes} queue pairs with messages of {size} B; take fewer or smaller"
            ))
        };
        stride
            .checked_mul(slots + 2)
            .and_then(|lane| lane.checked_mul(lanes))
            .ok_or_else(too_much)?;
        Ok(layout)
    }

    fn lane(&self, lane: usize) -> usize {
        lane * (self.stride * (self.slots + 2) + LINE)
    }

    /// Bytes of all of it.
    pub(super) fn length(&self) -> usize {
        self.lane(self.lanes) + LINE
    }

    /// Where the receive with this number is posted.
    #[inline]
    pub(super) fn receive(&self, lane: usize, number: u64) -> usize {
        self.lane(lane) + self.stride * (number % self.slots as u64) as usize
    }

    /// Bytes that a receive is posted with: a whole slot.
    pub(super) fn receive_bytes(&self) -> u32 {
        // A slot is little longer than a message, which has 32 bits.
        u32::try_from(self.stride).unwrap_or(u32::MAX)
    }

    /// Bytes that lie before the content of what was received.
    pub(super) fn header(&self) -> usize {
        self.header
    }

    /// Where the content of what was received into that receive begins.
    pub(super) fn received(&self, lane: usize, number: u64) -> usize {
        self.receive(lane, number) + self.header
    }

    /// Where a lane's writes and reads land.
    pub(super) fn target(&self, lane: usize) -> usize {
        self.message(lane) + self.stride
    }

    /// The message that a lane sends.
    pub(super) fn message(&self, lane: usize) -> usize {
        self.lane(lane) + self.stride * self.slots
    }

    /// The word that a lane's atomics work on.
    pub(super) fn word(&self, lane: usize) -> usize {
        self.target(lane) + self.stride
    }

    /// Where control messages are sent from.
    pub(super) fn control(&self) -> usize {
        self.lane(self.lanes)
    }
}

const _: () = assert!(CONTROL_BYTES <= LINE && ATOMIC_BYTES as usize <= LINE);

#[cfg(test)]
mod tests {
    use fabricbench_verbs::GRH_BYTES;

    use super::*;

    #[test]
    fn nothing_overlaps() {
        for (size, header, receives, lanes) in
            [(1, 0, 16, 1), (8, GRH_BYTES, 4, 3), (4096, GRH_BYTES, 512, 2), (1 << 23, 0, 512, 4)]
        {
            let layout = Layout::new(size, header, receives, lanes).unwrap();
            let mut places = Vec::new();
            for lane in 0..lanes as usize {
                for number in 0..layout.slots as u64 {
                    places.push((layout.receive(lane, number), layout.receive_bytes() as usize));
                    let content =
                        layout.received(lane, number) + (size as usize).max(CONTROL_BYTES);
                    assert!(content <= layout.receive(lane, number) + layout.stride);
                }
                places.push((layout.message(lane), size as usize));
                places.push((layout.target(lane), size as usize));
                places.push((layout.word(lane), 8));
                assert_eq!(layout.word(lane) % 8, 0);
            }
            places.push((layout.control(), CONTROL_BYTES));
            places.sort_unstable();
            for pair in places.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
            }
            let (last, length) = places.last().unwrap();
            assert!(last + length <= layout.length());
        }
    }

    #[test]
    fn receives_share_slots_where_memory_is_short() {
        let layout = Layout::new(1 << 23, 0, 512, 1).unwrap();
        assert_eq!(layout.slots, 2);
        assert_eq!(layout.receive(0, 0), layout.receive(0, 2));
        assert!(Layout::new(u32::MAX, 0, 1, u32::MAX).is_err() || usize::BITS > 32);
    }
}
