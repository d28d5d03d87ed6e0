//! What is asked of a queue pair so that a message travels, and where it lies.

use std::ops::Range;

use fabricbench_verbs::{Completion, Local, Operation, RemoteAddr, SendRequest};

use super::{
    Pair, layout::Place, pair::DATA, pieces::Numbering, regions::PeerRegions, word::atomic,
};
use crate::{
    plan::VerbsOperation,
    transport::{StopSignal, TransportError},
};

/// The requests that carry a message on a lane: one, or one a piece.
#[derive(Debug)]
pub(super) struct Carrier {
    // All but the last, unsignalled.
    before: Box<[SendRequest]>,
    last: SendRequest,
    // What is gathered behind the range of the only request, of a message in several buffers.
    more: Box<[Local]>,
    numbering: Option<Numbering>,
}

impl Carrier {
    /// The requests for the message of `lane`.
    pub(super) fn of(pair: &Pair, lane: usize, remote: &PeerRegions) -> Self {
        let last = pair.message.pieces() - 1;
        let numbered = pair.message.is_split() && pair.plan.verbs.service.is_lossy();
        Self {
            before: (0..last)
                .map(|index| pair.piece_request(lane, remote, index).signaled(false))
                .collect(),
            last: pair.piece_request(lane, remote, last),
            more: pair.more((lane, 0)),
            numbering: numbered.then(|| Numbering::of(&pair.message)),
        }
    }

    /// That for what `lane` sends from `slot`, in one piece: written, it goes to `target`.
    pub(super) fn from_slot(pair: &Pair, (lane, slot): (usize, usize), target: RemoteAddr) -> Self {
        let operation = match pair.plan.verbs.operation {
            VerbsOperation::Write => Operation::Write(target),
            VerbsOperation::WriteImm => Operation::WriteImm(target, DATA),
            VerbsOperation::SendImm => Operation::SendImm(DATA),
            _ => Operation::Send,
        };
        let mut buffers = pair.layout.buffers((lane, slot));
        let first =
            buffers.next().map(|(place, part)| pair.local(lane, place, bytes(part.len() as u64)));
        let none = pair.local(lane, pair.layout.message(lane), 0);
        let last = pair.request(lane, operation, first.unwrap_or(none)).inline(pair.inline());
        Self { before: Box::default(), last, more: pair.more((lane, slot)), numbering: None }
    }

    /// The request that is the same for every message; an atomic's values are the caller's business.
    pub(super) fn only(&self) -> SendRequest {
        self.last
    }

    /// What is gathered behind the range of the last request.
    #[inline]
    pub(super) fn more(&self) -> &[Local] {
        &self.more
    }

    /// Those of all pieces but the last, of the message with this number.
    #[inline]
    pub(super) fn before(&self, sequence: u64) -> impl Iterator<Item = SendRequest> {
        let numbered = move |(request, index)| self.numbered(request, sequence, index);
        self.before.iter().copied().zip(0..).map(numbered)
    }

    /// That of the last piece, of the message with this number.
    #[inline]
    pub(super) fn last(&self, sequence: u64) -> SendRequest {
        if self.numbering.is_none() {
            return atomic(self.last, sequence);
        }
        self.numbered(self.last, sequence, u32::try_from(self.before.len()).unwrap_or(0))
    }

    #[inline]
    fn numbered(&self, request: SendRequest, sequence: u64, index: u32) -> SendRequest {
        let Some(numbering) = self.numbering else { return request };
        let immediate = numbering.immediate(sequence, index);
        let operation = match request.operation {
            Operation::SendImm(_) => Operation::SendImm(immediate),
            Operation::WriteImm(at, _) => Operation::WriteImm(at, immediate),
            other => other,
        };
        SendRequest { operation, ..request }
    }

    /// Posts the message with this number on the first lane, waiting for places where there are
    /// none.
    ///
    /// # Errors
    /// As [`Pair::post`].
    #[inline]
    pub(super) fn post(
        &self,
        pair: &Pair,
        sequence: u64,
        signaled: bool,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        for request in self.before(sequence) {
            pair.post(0, (&request, &[]), stop)?;
        }
        pair.post(0, (&self.last(sequence).signaled(signaled), &self.more), stop)
    }
}

/// The length of a buffer of a message, which has 32 bits.
fn bytes(length: u64) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl Pair {
    /// The request that carries a piece of the message on `lane`.
    fn piece_request(&self, lane: usize, remote: &PeerRegions, index: u32) -> SendRequest {
        let (begin, length) = self.message.part(index);
        let at = |place: Place| remote.at(place.plus(begin));
        let (message, target) = (self.layout.message(lane), self.layout.target(lane));
        let last = index + 1 == self.message.pieces();
        let (operation, local) = match self.plan.verbs.operation {
            VerbsOperation::Write => (Operation::Write(at(target)), message),
            // One that is written reliably need tell only its end.
            VerbsOperation::WriteImm if !last && !self.plan.verbs.service.is_lossy() => {
                (Operation::Write(at(target)), message)
            }
            VerbsOperation::WriteImm => (Operation::WriteImm(at(target), DATA), message),
            VerbsOperation::Send => (Operation::Send, message),
            VerbsOperation::SendImm => (Operation::SendImm(DATA), message),
            VerbsOperation::Read => (Operation::Read(at(message)), target),
            VerbsOperation::FetchAdd => {
                (Operation::FetchAdd { remote: at(self.layout.word(lane)), add: 1 }, target)
            }
            VerbsOperation::CompareSwap => {
                let remote = at(self.layout.word(lane));
                (Operation::CompareSwap { remote, compare: 0, swap: 1 }, target)
            }
        };
        // Of a message in several buffers, which has one piece, the first of them.
        let length = self.plan.buffers().first().map_or(length, |&first| bytes(first));
        let local = self.local(lane, local.plus(begin), length);
        self.request(lane, operation, local).inline(self.inline())
    }

    /// The buffers behind the first of the message that a lane sends from a slot.
    fn more(&self, (lane, slot): (usize, usize)) -> Box<[Local]> {
        let range = |(place, part): (Place, Range<usize>)| {
            self.local(lane, place, bytes(part.len() as u64))
        };
        self.layout.buffers((lane, slot)).skip(1).map(range).collect()
    }

    /// A request on `lane`, addressed to its peer.
    pub(super) fn request(&self, lane: usize, operation: Operation, local: Local) -> SendRequest {
        let request = SendRequest::new(0, operation, local);
        match self.lanes.get(lane).and_then(|lane| lane.peer) {
            Some(peer) => request.to(peer),
            None => request,
        }
    }

    /// Bytes of the message that completed a receive.
    #[inline]
    pub(super) fn arrived_bytes(&self, completion: &Completion) -> u64 {
        if self.message.is_split() {
            // It tells the end of the pieces before, and has the bytes of the last.
            return self.message.size() as u64;
        }
        u64::from(completion.byte_len()).saturating_sub(self.layout.header() as u64)
    }

    /// Where what came into the receive with this number lies: or, of a write, where it was
    /// written to.
    #[inline]
    pub(super) fn arrived_at(&self, lane: usize, number: u64) -> Place {
        if self.plan.verbs.operation.is_write() {
            self.layout.target(lane)
        } else {
            self.layout.received(lane, number)
        }
    }

    /// Where a piece of a message of `lane` lies whose receive was posted as `posted`'s.
    pub(super) fn piece_at(
        &self,
        (lane, posted): (usize, usize),
        number: u64,
        index: u32,
    ) -> Place {
        if self.plan.verbs.operation.is_write() {
            self.layout.target(lane).plus(self.message.part(index).0)
        } else {
            self.layout.received(posted, number)
        }
    }

    /// A range of this side's memory as a request on `lane` names it.
    #[inline]
    #[cfg_attr(
        not(test),
        expect(
            clippy::unreachable,
            reason = "`PairPlan::lanes` is 1 at least: of queue pairs by `max`, of roles since a plan of 0 of them is \
                      refused by `cli` and by `within_limits`"
        )
    )]
    pub(super) fn local(&self, lane: usize, place: Place, length: u32) -> Local {
        // Every caller's lane is one of ours.
        let regions = self.lanes.get(lane).or(self.lanes.first()).map(|lane| lane.regions);
        match regions {
            Some(regions) => regions.of(place.area).range(place.offset, length),
            None => unreachable!("a pair has a lane"),
        }
    }
}
