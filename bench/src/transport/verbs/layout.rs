//! Where things lie in a pair's memory: the same on both sides, since both know the plan.

use std::ops::Range;

use super::TransportError;
use crate::plan::ATOMIC_BYTES;

/// No two things in one cache line.
const LINE: usize = 64;

/// What is a page or longer begins on one, so that it touches no page more than it must: soft-RoCE
/// copies page by page, and adapters translate by pages.
const PAGE: usize = 4096;

/// Bytes of a control message at the most.
pub(super) const CONTROL_BYTES: usize = 32;

/// The most memory that the receives of a side are spread over, in bytes, for what stays in a
/// processor's cache and its address translations, as the one page does that perftest's go round.
/// More receives than fit share slots: all messages of a push are the same, and what is measured is
/// the transfer.
const RECEIVE_MEMORY: usize = 64 << 10;

/// The receives that share no slot where others do: one of them takes the first message, which is
/// compared, and which no control message that comes meanwhile may overwrite.
const APART: usize = 2;

/// Which of a side's two memories a place is in. Memory on the device itself (`--device-memory`) has
/// no address in this process, so that nothing can be received into it and the processor reaches
/// it by calls of the provider alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    /// The host's: receives, control messages, and what the processor reads while it measures.
    Host,
    /// That of the messages, which devices alone read and write while it is measured.
    Messages,
}

/// A place in a side's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) area: Area,
    /// Bytes from the start of that memory.
    pub(super) offset: usize,
}

impl Place {
    /// The place `bytes` further on.
    #[inline]
    #[must_use]
    pub(super) fn plus(self, bytes: usize) -> Self {
        Self { offset: self.offset + bytes, ..self }
    }
}

/// What a layout follows from: the same on both sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    /// Bytes of a message.
    pub(super) size: usize,
    /// Bytes of each of the buffers that it is sent from; empty: of one.
    pub(super) buffers: &'a [u64],
    /// Bytes that are written here, or come back: of a message, or of its answer.
    pub(super) target: usize,
    /// Messages of a lane that lie apart, with a target each.
    pub(super) slots: u32,
    /// Bytes of a message, or of a piece of it, that a receive takes: none where it is written.
    pub(super) received: u32,
    /// Bytes before them.
    pub(super) header: usize,
    /// Receives kept posted on each lane.
    pub(super) receives: u32,
    /// Whether they may share memory where it is short.
    pub(super) shared: bool,
    /// Queue pairs.
    pub(super) lanes: u32,
    /// Whether the processor reads what is written to the target, again and again.
    pub(super) watched: bool,
}

/// In the host's memory for each lane its receive slots, and then a place for control messages to be
/// sent from; in that of the messages for each lane the message it sends and the word that atomics
/// work on. The target of writes, reads and atomics is in the one or the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    align: usize,
    slot: usize,
    // Those of the first receives, which share none, and those that all others go round.
    apart: usize,
    ring: usize,
    header: usize,
    // Of the message that a lane sends.
    buffers: Box<[Buffer]>,
    source: usize,
    target: usize,
    slots: usize,
    lanes: usize,
    watched: bool,
}

/// A part of a message that lies by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Buffer {
    // Where it begins, in what holds the message.
    offset: usize,
    // The same in the message.
    begin: usize,
    length: usize,
}

impl Layout {
    /// # Errors
    /// [`TransportError::Unsupported`]: all of it together has no address.
    pub(super) fn new(shape: &Shape<'_>) -> Result<Self, TransportError> {
        let Shape { size, header, watched, .. } = *shape;
        let (receives, lanes) = (shape.receives as usize, shape.lanes as usize);
        let slots = shape.slots.max(1) as usize;
        let received = shape.received as usize;
        let slot = received.max(CONTROL_BYTES) + header;
        let align = alignment(size.max(shape.target).max(received));
        let Some(slot) = slot.checked_next_multiple_of(align) else {
            return Err(no_memory(lanes, size));
        };
        let room = (RECEIVE_MEMORY / lanes.max(1) / slot).max(1);
        let (apart, ring) = match shape.shared && receives > room {
            true => (APART, room),
            false => (0, receives.max(1)),
        };
        let buffers = buffers(size, shape.buffers);
        let end = buffers.as_deref().and_then(<[_]>::last).map(|last| last.offset + last.length);
        let whole = |bytes: usize| bytes.max(1).checked_next_multiple_of(align);
        // A result of an atomic is no longer than a line.
        let (source, target) = (end.and_then(whole), whole(shape.target));
        let length = source.zip(target).and_then(|(source, target)| {
            let slots = source.checked_add(target)?.checked_mul(slots)?;
            let others = slots.checked_add(2 * align)?;
            let lane = slot.checked_mul(apart + ring)?.checked_add(others)?;
            lane.checked_mul(lanes)?.checked_add(LINE)
        });
        let (Some(buffers), Some(source), Some(target), Some(_)) =
            (buffers, source, target, length)
        else {
            return Err(no_memory(lanes, size));
        };
        Ok(Self {
            align,
            slot,
            apart,
            ring,
            header,
            buffers,
            source,
            target,
            slots,
            lanes,
            watched,
        })
    }

    /// Bytes of a lane's receives.
    fn receives(&self) -> usize {
        (self.slot * (self.apart + self.ring)).next_multiple_of(self.align)
    }

    /// Where a lane's part of a memory begins.
    fn lane(&self, area: Area, lane: usize) -> Place {
        let (host, messages) = (self.receives(), self.source * self.slots + self.align);
        let targets = self.target * self.slots;
        let bytes = match (area, self.watched) {
            (Area::Host, true) => host + targets,
            (Area::Host, false) => host,
            (Area::Messages, true) => messages,
            (Area::Messages, false) => messages + targets,
        };
        Place { area, offset: lane * bytes }
    }

    /// Bytes of a memory.
    pub(super) fn length(&self, area: Area) -> usize {
        match area {
            Area::Host => self.control().offset + LINE,
            Area::Messages => self.lane(area, self.lanes).offset,
        }
    }

    /// Where the receive with this number is posted.
    #[inline]
    pub(super) fn receive(&self, lane: usize, number: u64) -> Place {
        let apart = self.apart as u64;
        let slot = match number.checked_sub(apart) {
            None => number,
            Some(after) => apart + after % self.ring as u64,
        };
        let slot = usize::try_from(slot).unwrap_or(0);
        self.lane(Area::Host, lane).plus(self.slot * slot)
    }

    /// Bytes that a receive is posted with: a whole slot.
    pub(super) fn receive_bytes(&self) -> u32 {
        // A slot is little longer than a message or a piece, which has 32 bits.
        u32::try_from(self.slot).unwrap_or(u32::MAX)
    }

    /// Bytes that lie before the content of what was received.
    pub(super) fn header(&self) -> usize {
        self.header
    }

    /// Where the content of what was received into that receive begins.
    #[inline]
    pub(super) fn received(&self, lane: usize, number: u64) -> Place {
        self.receive(lane, number).plus(self.header)
    }

    /// Where a lane's writes, reads and results of atomics land.
    pub(super) fn target(&self, lane: usize) -> Place {
        self.target_in(lane, 0)
    }

    /// The same of the message in a slot.
    pub(super) fn target_in(&self, lane: usize, slot: usize) -> Place {
        let first = if self.watched {
            self.lane(Area::Host, lane).plus(self.receives())
        } else {
            self.word(lane).plus(self.align)
        };
        first.plus(slot * self.target)
    }

    /// The message that a lane sends: its beginning, where it is in several buffers.
    pub(super) fn message(&self, lane: usize) -> Place {
        self.message_in(lane, 0)
    }

    /// The same of the message in a slot.
    fn message_in(&self, lane: usize, slot: usize) -> Place {
        self.lane(Area::Messages, lane).plus(slot * self.source)
    }

    /// The buffers of the message that a lane sends from a slot: where each lies, and which bytes of it
    /// are there.
    pub(super) fn buffers(
        &self,
        (lane, slot): (usize, usize),
    ) -> impl Iterator<Item = (Place, Range<usize>)> {
        let message = self.message_in(lane, slot);
        let buffer = move |buffer: &Buffer| {
            (message.plus(buffer.offset), buffer.begin..buffer.begin + buffer.length)
        };
        self.buffers.iter().map(buffer)
    }

    /// Where the byte at `offset` of the message that a lane sends from a slot lies.
    pub(super) fn message_byte(&self, (lane, slot): (usize, usize), offset: usize) -> Place {
        let after = self.buffers.partition_point(|buffer| buffer.begin <= offset);
        let buffer = self.buffers.get(after.saturating_sub(1));
        let gap = buffer.map_or(0, |buffer| buffer.offset - buffer.begin);
        self.message_in(lane, slot).plus(gap + offset)
    }

    /// The word that a lane's atomics work on.
    pub(super) fn word(&self, lane: usize) -> Place {
        self.message(lane).plus(self.source * self.slots)
    }

    /// Where control messages are sent from.
    pub(super) fn control(&self) -> Place {
        self.lane(Area::Host, self.lanes)
    }
}

/// Where the buffers of a message of `size` bytes lie: each begins as a message would, with a gap
/// before it, so that what is read on from the one before is not what was sent. `None`: they have no
/// address.
fn buffers(size: usize, lengths: &[u64]) -> Option<Box<[Buffer]>> {
    if lengths.is_empty() {
        return Some([Buffer { offset: 0, begin: 0, length: size }].into());
    }
    let (mut begin, mut end) = (0usize, 0usize);
    let place = |&length: &u64| {
        let length = usize::try_from(length).ok()?;
        let free = if begin == 0 { 0 } else { end.checked_add(1)? };
        let offset = free.checked_next_multiple_of(alignment(length))?;
        let buffer = Buffer { offset, begin, length };
        (begin, end) = (begin.checked_add(length)?, offset.checked_add(length)?);
        Some(buffer)
    };
    lengths.iter().map(place).collect()
}

/// What the beginning of so many bytes is aligned to.
fn alignment(bytes: usize) -> usize {
    if bytes < PAGE { LINE } else { PAGE }
}

#[cold]
fn no_memory(lanes: usize, size: usize) -> TransportError {
    TransportError::Unsupported(format!(
        "no memory for {lanes} queue pairs with messages of {size} B; take fewer or smaller"
    ))
}

const _: () = assert!(CONTROL_BYTES <= LINE && ATOMIC_BYTES as usize <= LINE);

#[cfg(test)]
mod tests {
    use fabricbench_verbs::GRH_BYTES;

    use super::*;

    const SHAPE: Shape<'_> = Shape {
        size: 1,
        buffers: &[],
        target: 1,
        slots: 1,
        received: 1,
        shared: true,
        header: 0,
        receives: 16,
        lanes: 1,
        watched: false,
    };

    /// Every place of `layout`, with its length.
    fn places(layout: &Layout, shape: &Shape<'_>) -> Vec<(Place, usize)> {
        let mut places = vec![(layout.control(), CONTROL_BYTES)];
        for lane in 0..shape.lanes as usize {
            for number in 0..(layout.apart + layout.ring) as u64 {
                let (slot, bytes) = (layout.receive(lane, number), layout.receive_bytes() as usize);
                let content = (shape.received as usize).max(CONTROL_BYTES);
                let end = layout.received(lane, number).offset + content;
                assert!(end <= slot.offset + bytes);
                places.push((slot, bytes));
            }
            for slot in 0..shape.slots as usize {
                let buffers = layout.buffers((lane, slot));
                places.extend(buffers.map(|(place, bytes)| (place, bytes.len())));
                places.push((layout.target_in(lane, slot), shape.target));
            }
            places.push((layout.word(lane), 8));
            assert_eq!(layout.word(lane).offset % 8, 0);
            assert_eq!(layout.target(lane).offset % 8, 0);
        }
        places
    }

    #[test]
    fn nothing_overlaps() {
        for shape in [
            SHAPE,
            Shape { size: 8, received: 8, header: GRH_BYTES, lanes: 3, watched: true, ..SHAPE },
            Shape { size: 4096, received: 4096, header: GRH_BYTES, receives: 512, ..SHAPE },
            Shape { size: 1 << 23, receives: 512, lanes: 4, watched: true, ..SHAPE },
            Shape { size: 1 << 23, received: 1 << 23, receives: 512, lanes: 2, ..SHAPE },
            Shape { size: 1 << 25, received: 1 << 23, shared: false, receives: 8, ..SHAPE },
            Shape { size: 5005, buffers: &[1, 4096, 8, 900], lanes: 3, watched: true, ..SHAPE },
            Shape { size: 128, buffers: &[64, 64], lanes: 2, ..SHAPE },
            Shape { size: 5005, buffers: &[5000, 5], lanes: 3, slots: 4, watched: true, ..SHAPE },
            Shape { size: 7, lanes: 2, slots: 3, ..SHAPE },
        ] {
            let answered = Shape { target: 5000, ..shape };
            for shape in [Shape { target: shape.size, ..shape }, answered] {
                apart(&shape);
            }
        }
    }

    #[track_caller]
    fn apart(shape: &Shape<'_>) {
        let layout = Layout::new(shape).unwrap();
        for area in [Area::Host, Area::Messages] {
            let mut places = places(&layout, shape);
            places.retain(|(place, _)| place.area == area);
            places.sort_unstable_by_key(|(place, _)| place.offset);
            for pair in places.windows(2) {
                assert!(pair[0].0.offset + pair[0].1 <= pair[1].0.offset, "{pair:?}");
            }
            let (last, length) = places.last().unwrap();
            assert!(last.offset + length <= layout.length(area));
        }
    }

    #[test]
    fn what_is_a_page_or_longer_begins_on_one() {
        for size in [PAGE, PAGE + 1, 1 << 20] {
            for watched in [false, true] {
                let shape = Shape { size, target: size, receives: 3, lanes: 2, watched, ..SHAPE };
                let received = u32::try_from(size).unwrap();
                for shape in [shape, Shape { received, ..shape }] {
                    let layout = Layout::new(&shape).unwrap();
                    let mut places = vec![layout.message(1), layout.target(0), layout.target(1)];
                    if shape.received > 1 {
                        places.extend([layout.received(0, 2), layout.received(1, 1)]);
                    }
                    for place in places {
                        assert_eq!(place.offset % PAGE, 0, "{shape:?}: {place:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_reply_of_a_page_begins_on_one_whatever_its_request() {
        let sent = Shape { size: 8, target: 0, received: 5000, lanes: 2, ..SHAPE };
        let layout = Layout::new(&sent).unwrap();
        for (lane, number) in [(0, 0), (0, 1), (1, 2)] {
            assert_eq!(layout.received(lane, number).offset % PAGE, 0, "{layout:?}");
        }
    }

    #[test]
    fn buffers_lie_apart_and_each_byte_of_the_message_is_in_one() {
        let lengths = [64, 1, 4096, 4096, 63];
        let size = 8320;
        let layout = Layout::new(&Shape { size, buffers: &lengths, lanes: 2, ..SHAPE }).unwrap();
        for lane in [0, 1] {
            let buffers: Vec<_> = layout.buffers((lane, 0)).collect();
            let mut begin = 0;
            for ((place, bytes), length) in buffers.iter().zip(lengths) {
                assert_eq!((bytes.start, bytes.len() as u64), (begin, length));
                assert_eq!(place.offset % alignment(bytes.len()), 0);
                for offset in bytes.clone() {
                    assert_eq!(layout.message_byte((lane, 0), offset), place.plus(offset - begin));
                }
                begin = bytes.end;
            }
            assert_eq!(begin, size);
            for pair in buffers.windows(2) {
                assert!(pair[0].0.offset + pair[0].1.len() < pair[1].0.offset, "{pair:?}");
            }
        }
        let one = Layout::new(&Shape { size, lanes: 2, ..SHAPE }).unwrap();
        assert_eq!(one.buffers((1, 0)).collect::<Vec<_>>(), [(one.message(1), 0..size)]);
    }

    #[test]
    fn what_the_processor_reads_is_never_where_only_devices_reach() {
        let shape = Shape { size: 64, received: 64, ..SHAPE };
        for watched in [false, true] {
            let layout = Layout::new(&Shape { watched, ..shape }).unwrap();
            for place in [layout.receive(0, 7), layout.received(0, 7), layout.control()] {
                assert_eq!(place.area, Area::Host);
            }
            for place in [layout.message(0), layout.word(0)] {
                assert_eq!(place.area, Area::Messages);
            }
            let target = if watched { Area::Host } else { Area::Messages };
            assert_eq!(layout.target(0).area, target);
        }
    }

    #[test]
    fn receives_share_slots_where_memory_is_short() {
        let shape = Shape { size: 1 << 15, received: 1 << 15, receives: 512, ..SHAPE };
        let layout = Layout::new(&shape).unwrap();
        assert_eq!((layout.apart, layout.ring), (2, 2));
        assert_eq!(layout.receive(0, 2), layout.receive(0, 4));
        let large = Shape { size: 1 << 23, received: 1 << 23, ..shape };
        let large = Layout::new(&large).unwrap();
        assert_eq!(large.ring, 1);
        for layout in [layout, large] {
            for first in [0, 1] {
                let others = (0..600).filter(|&number| number != first);
                for number in others {
                    assert_ne!(layout.receive(0, number), layout.receive(0, first), "{number}");
                }
            }
        }
        let apart = Layout::new(&Shape { receives: 5, shared: false, ..shape }).unwrap();
        assert_eq!((apart.apart, apart.ring), (0, 5));
    }

    #[test]
    fn what_has_no_address_is_refused() {
        for size in [usize::MAX, usize::MAX - LINE, usize::MAX / 2, usize::MAX / 8] {
            let shape = Shape { size, lanes: 9, ..SHAPE };
            let error = Layout::new(&shape).unwrap_err();
            assert!(error.to_string().contains(&size.to_string()), "{error}");
        }
    }
}
