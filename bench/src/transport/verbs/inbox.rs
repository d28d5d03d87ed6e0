//! What arrives on one side of a push: counted, compared with the payload, its receives posted anew.

use fabricbench_verbs::Completion;

use super::{
    Pair,
    control::Control,
    failed,
    pair::{COUNT, DATA, LANE_SHIFT},
    pieces::{Assembly, is_piece},
};
use crate::{
    plan::VerbsOperation,
    transport::{Received, TransportError},
};

/// Bytes of a written message that are looked at before it is confirmed; the rest is compared when
/// the slice is over, where it is not timed.
const LOOKED_AT: usize = 64;

/// Completions taken at once.
const BATCH: usize = 32;

/// The receiving half of one side.
#[derive(Debug)]
pub(super) struct Inbox {
    // Number of the next receive to post, by lane.
    next: Vec<u64>,
    completions: [Completion; BATCH],
    // Of each lane, where messages arrive in pieces; else none.
    assemblies: Box<[Assembly]>,
    received: Received,
    operation: VerbsOperation,
}

impl Inbox {
    pub(super) fn new(pair: &Pair) -> Self {
        Self {
            next: vec![pair.next_receive(); pair.lanes.len()],
            completions: [Completion::default(); BATCH],
            assemblies: pair.lanes.iter().filter_map(|_| Assembly::of(pair)).collect(),
            received: Received::default(),
            operation: pair.plan.verbs.operation,
        }
    }

    /// What has arrived so far.
    pub(super) fn received(&self) -> Received {
        self.received
    }

    /// Takes what has arrived and posts its receives anew; returns whether anything had, and the
    /// last control message among it.
    #[inline]
    pub(super) fn take(&mut self, pair: &Pair) -> Result<(bool, Option<Control>), TransportError> {
        let mut said = None;
        let Self { next, completions, received, assemblies, .. } = self;
        let arrived = pair.receive_queue.poll(completions).map_err(failed)?;
        for completion in arrived {
            let id = completion.check().map_err(failed)?.id();
            let (posted, number) = ((id >> LANE_SHIFT) as usize, id & COUNT);
            let immediate = completion.immediate();
            if immediate.is_none_or(|value| value == DATA || is_piece(value)) {
                if assemblies.is_empty() {
                    if received.messages == 0 {
                        let lane = pair.lane_of(completion, posted);
                        look_at_first(pair, received, (lane, posted), number)?;
                    }
                    received.messages += 1;
                    received.bytes += pair.arrived_bytes(completion);
                } else {
                    let lane = pair.lane_of(completion, posted);
                    let whole = match assemblies.get_mut(lane) {
                        Some(assembly) => {
                            assembly.take(pair, completion, (lane, posted), number)?
                        }
                        None => None,
                    };
                    if let Some(whole) = whole {
                        received.messages += 1;
                        received.bytes += pair.message.size() as u64;
                        // The first of each lane.
                        if let Some(same) = whole.same {
                            verified(received, same);
                        }
                    }
                }
            } else if let Some(immediate) = immediate {
                match Control::read(pair, posted, number, immediate)? {
                    None | Some(Control::Flush) => {}
                    control => said = control,
                }
            }
            if let Some(next) = next.get_mut(posted) {
                pair.post_receive(posted, *next)?;
                *next += 1;
            }
        }
        Ok((!arrived.is_empty(), said))
    }

    /// The sender says that it has sent `messages`, and what it sent before is here: for what
    /// arrives without a trace, that is the count. Looks at the memory, and wipes what it looked
    /// at, so that the next look sees messages that came after this one.
    #[cold]
    pub(super) fn claimed(&mut self, pair: &Pair, messages: u64) -> Result<(), TransportError> {
        if self.operation != VerbsOperation::Write || messages == 0 {
            return Ok(());
        }
        let fresh = messages > self.received.messages;
        self.received.messages = messages;
        let size = pair.message.size();
        self.received.bytes = messages.saturating_mul(size as u64);
        let length = size.min(LOOKED_AT);
        // Of a datagram-like service the last message may be lost, and one that was asked for again
        // has been wiped.
        if fresh && !pair.plan.verbs.service.is_lossy() {
            let same = pair.holds_payload(pair.layout.target(0), length)?;
            verified(&mut self.received, same);
            pair.regions.wipe(pair.layout.target(0), length).map_err(failed)?;
        }
        Ok(())
    }

    /// At the end of a slice, where it is not timed: all of the last written message but what was
    /// looked at (and wiped) before.
    #[cold]
    pub(super) fn finish(&mut self, pair: &Pair) -> Result<(), TransportError> {
        let size = pair.message.size();
        if self.operation != VerbsOperation::Write || self.received.messages == 0 {
            return Ok(());
        }
        let looked = if pair.plan.verbs.service.is_lossy() { 0 } else { size.min(LOOKED_AT) };
        if size > looked {
            let rest = pair.layout.target(0).plus(looked);
            let same = pair.holds_payload_from(looked, rest, size - looked)?;
            verified(&mut self.received, same);
        }
        Ok(())
    }
}

#[cold]
fn look_at_first(
    pair: &Pair,
    received: &mut Received,
    (lane, posted): (usize, usize),
    number: u64,
) -> Result<(), TransportError> {
    // A write lies in its own lane's target, a send where the receive was posted.
    let lane = if pair.operation().is_write() { lane } else { posted };
    let same = pair.holds_payload(pair.arrived_at(lane, number), pair.message.size())?;
    verified(received, same);
    Ok(())
}

pub(super) fn verified(received: &mut Received, same: bool) {
    received.verified += 1;
    received.corrupt += u64::from(!same);
}
