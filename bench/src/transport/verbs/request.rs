//! What is asked of a queue pair so that a message travels, and where it lies.

use fabricbench_verbs::{Local, Operation, SendRequest};

use super::{Pair, layout::Place, pair::DATA, regions::PeerRegions};
use crate::plan::VerbsOperation;

impl Pair {
    /// The request that carries a message on `lane`. An atomic's values are the caller's business.
    pub(super) fn message_request(&self, lane: usize, remote: &PeerRegions) -> SendRequest {
        let at = |place| remote.at(place);
        let message = self.layout.message(lane);
        let target = self.layout.target(lane);
        let (operation, local) = match self.plan.verbs.operation {
            VerbsOperation::Write => (Operation::Write(at(target)), message),
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
        let local = self.local(lane, local, self.size);
        self.request(lane, operation, local).inline(self.inline())
    }

    /// A request on `lane`, addressed to its peer.
    pub(super) fn request(&self, lane: usize, operation: Operation, local: Local) -> SendRequest {
        let request = SendRequest::new(0, operation, local);
        match self.lanes.get(lane).and_then(|lane| lane.peer) {
            Some(peer) => request.to(peer),
            None => request,
        }
    }

    /// Whether the last byte of a message is a stamp: where memory is polled for it, and where a
    /// message may come twice because its answer was lost.
    pub(super) fn is_stamped(&self) -> bool {
        self.plan.is_stamped()
    }

    /// Where what came into the receive with this number lies: or, of a write, where it was
    /// written to.
    #[inline]
    pub(super) fn arrived_at(&self, lane: usize, number: u64) -> Place {
        match self.plan.verbs.operation {
            VerbsOperation::Write | VerbsOperation::WriteImm => self.layout.target(lane),
            _ => self.layout.received(lane, number),
        }
    }

    /// A range of this side's memory as a request on `lane` names it.
    #[inline]
    pub(super) fn local(&self, lane: usize, place: Place, length: u32) -> Local {
        // Every caller's lane is one of ours.
        let regions = self.lanes.get(lane).or(self.lanes.first()).map(|lane| lane.regions);
        match regions {
            Some(regions) => regions.of(place.area).range(place.offset, length),
            None => unreachable!("a pair has a lane"),
        }
    }
}
