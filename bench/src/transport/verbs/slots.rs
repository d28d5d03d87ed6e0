//! Where the requests and replies of calls lie: what a side sends to one peer, and what it is written.
//!
//! Written, each call in flight has a slot at both ends, and its last byte is a stamp of the slot's
//! round; sent, a receive tells it, and all are sent from one place.

use super::{
    Pair, PairPlan, PeerRegions, failed,
    layout::{Layout, Place},
    pieces::Message,
    request::Carrier,
    stamp::{Word, stamp},
};
use crate::transport::{Pieces, StopSignal, TransportError};

/// Which slot is next, and for the how manieth time.
#[derive(Debug, Clone, Copy, Default)]
struct Turns {
    slot: usize,
    round: u64,
}

impl Turns {
    #[inline]
    fn next(&mut self, slots: usize) {
        self.slot += 1;
        if self.slot == slots {
            (self.slot, self.round) = (0, self.round + 1);
        }
    }
}

/// What a side sends to one peer.
#[derive(Debug)]
pub(super) struct Outbox {
    lane: usize,
    // Of each slot.
    carriers: Box<[Carrier]>,
    // The same, where memory is polled for the stamp.
    stamps: Box<[Word]>,
    turns: Turns,
    moderation: u64,
    sent: u64,
}

impl Outbox {
    /// For the peer of `lane`, to whom it is the lane `there` and who has this memory.
    pub(super) fn new(
        pair: &Pair,
        lane: usize,
        there: usize,
        remote: &PeerRegions,
    ) -> Result<Self, TransportError> {
        let theirs = pair.plan.peer_layout()?;
        let target = |slot| remote.at(theirs.target_in(there, slot));
        let slots = 0..pair.plan.slots() as usize;
        let stamps = slots.clone().map(|slot| Word::last(pair, (lane, slot)));
        Ok(Self {
            lane,
            carriers: slots
                .map(|slot| Carrier::from_slot(pair, (lane, slot), target(slot)))
                .collect(),
            stamps: match pair.plan.polls_for_calls() {
                true => stamps.collect::<Result<_, _>>()?,
                false => Box::default(),
            },
            turns: Turns::default(),
            moderation: u64::from(pair.moderation()),
            sent: 0,
        })
    }

    /// Messages sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Posts the next one; the call before in its slot is over.
    #[inline]
    pub(super) fn post(&mut self, pair: &Pair, stop: &StopSignal) -> Result<(), TransportError> {
        let Turns { slot, round } = self.turns;
        if let Some(word) = self.stamps.get(slot) {
            word.set(&pair.regions, stamp(round))?;
        }
        let Some(carrier) = self.carriers.get(slot) else { return Ok(()) };
        let signaled = self.sent.is_multiple_of(self.moderation);
        if signaled {
            pair.reap_sends()?;
        }
        pair.post(self.lane, (&carrier.only().signaled(signaled), carrier.more()), stop)?;
        self.turns.next(self.carriers.len());
        self.sent += 1;
        Ok(())
    }
}

/// What one peer writes where it is polled for.
#[derive(Debug)]
pub(super) struct Polled {
    // The last byte of each slot.
    lasts: Box<[Place]>,
    turns: Turns,
}

impl Polled {
    pub(super) fn of(pair: &Pair, lane: usize) -> Self {
        let end = pair.plan.incoming() as usize - 1;
        let last = |slot| pair.layout.target_in(lane, slot).plus(end);
        Self { lasts: (0..pair.plan.slots() as usize).map(last).collect(), turns: Turns::default() }
    }

    /// Whether the next one is here; asked again, it means the one after.
    #[inline]
    pub(super) fn took(&mut self, pair: &Pair) -> Result<bool, TransportError> {
        let Turns { slot, round } = self.turns;
        let Some(&last) = self.lasts.get(slot) else { return Ok(false) };
        if pair.regions.load_u8(last).map_err(failed)? != stamp(round) {
            return Ok(false);
        }
        self.turns.next(self.lasts.len());
        Ok(true)
    }
}

impl Pair {
    /// Whether the first that came from the peer of `lane`, into this receive or written, is what was
    /// sent, but for its stamp; `None` if it is nothing but this.
    ///
    /// # Errors
    /// The memory cannot be read.
    #[cold]
    pub(super) fn first_call_same(
        &self,
        lane: usize,
        receive: u64,
    ) -> Result<Option<bool>, TransportError> {
        let length = self.plan.incoming() as usize - usize::from(self.plan.polls_for_calls());
        let place = self.arrived_at(lane, receive);
        match length {
            0 => Ok(None),
            length => self.holds_payload(place, length).map(Some),
        }
    }
}

impl PairPlan {
    /// How the memory of the other side of calls is laid out.
    ///
    /// # Errors
    /// As [`Layout::new`].
    pub(super) fn peer_layout(&self) -> Result<Layout, TransportError> {
        let peer = Self { answers: !self.answers, ..self.clone() };
        let size = usize::try_from(peer.outgoing()).unwrap_or(usize::MAX);
        Layout::new(&peer.shape(&Message::new(size, u32::MAX), 0))
    }

    /// Whether memory is polled for requests and replies.
    pub(super) fn polls_for_calls(&self) -> bool {
        self.cell.pattern.is_called() && !self.verbs.operation.takes_receive()
    }

    /// Refuses what calls do not have.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] with the option.
    pub(super) fn admit_calls(&self) -> Result<(), TransportError> {
        if !self.cell.pattern.is_called() {
            return Ok(());
        }
        let settings = &self.settings;
        let refused = [
            (
                settings.queue_pairs > 1,
                "one queue pair to a server: leave -q out, or give --threads",
            ),
            (settings.post_list > 1, "no lists of posts: leave --post-list out"),
            (settings.shared_receives, "no shared receive queue: leave --use-srq out"),
            (settings.manager, "no connecting by rdma_cm yet: leave -R out"),
            (matches!(settings.pieces, Pieces::Of(_)), "no pieces: leave --split out"),
            (settings.timestamps, "no time stamps: leave --timestamps out"),
        ];
        match refused.into_iter().find(|(given, _)| *given) {
            Some((_, reason)) => Err(TransportError::Unsupported(format!(
                "verbs in the pattern {} have {reason}",
                self.cell.pattern
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{BufferSpec, Cell, Pattern, Payload, Roles, TransportName},
        transport::VerbsSettings,
    };

    fn plan(transport: &str, answers: bool) -> PairPlan {
        let transport: TransportName = transport.parse().unwrap();
        let TransportName::Verbs(verbs) = transport else { panic!("{transport}") };
        let cell = Cell {
            reply: Some(70_000),
            roles: Some(Roles { servers: 2, workers: 3 }),
            buffers: Some(BufferSpec::parse("5000+1").unwrap().buffers(5001, 1)),
            ..Cell::new(transport, Pattern::Ps, 5001)
        };
        let settings = VerbsSettings::default();
        PairPlan { cell, verbs, payload: Payload::new(1), depth: 4, settings, answers }
    }

    #[test]
    fn each_side_knows_how_the_other_is_laid_out() {
        for transport in ["verbs-write", "verbs-write-imm", "verbs-send", "verbs-send-imm"] {
            let (worker, server) = (plan(transport, false), plan(transport, true));
            assert_eq!((worker.outgoing(), worker.incoming()), (5001, 70_000));
            assert_eq!((server.outgoing(), server.incoming()), (70_000, 5001));
            assert_eq!((worker.lanes(), server.lanes()), (2, 3));
            assert_eq!((worker.segments(), server.segments()), (2, 1));
            for (own, other) in [(&worker, &server), (&server, &worker)] {
                let message = Message::new(own.outgoing() as usize, 1 << 30);
                let layout = Layout::new(&own.shape(&message, 0)).unwrap();
                assert_eq!(other.peer_layout().unwrap(), layout, "{transport}");
            }
            let slots = if transport.starts_with("verbs-write") { 4 } else { 1 };
            assert_eq!(worker.slots(), slots);
            assert_eq!(worker.polls_for_calls(), transport == "verbs-write");
        }
    }

    #[test]
    fn a_slot_has_another_stamp_each_time() {
        for slots in [1, 2, 255] {
            let (mut turns, mut last) = (Turns::default(), vec![0; slots]);
            for sequence in 0..2000 {
                assert_eq!(turns.slot, sequence % slots);
                let stamp = stamp(turns.round);
                assert_ne!(stamp, last[turns.slot]);
                last[turns.slot] = stamp;
                turns.next(slots);
            }
        }
    }

    #[test]
    fn what_calls_do_not_have_is_refused_by_its_option() {
        let usual = plan("verbs-send", false);
        assert_eq!(usual.admit_calls(), Ok(()));
        let with = |change: fn(&mut VerbsSettings)| {
            let mut plan = usual.clone();
            change(&mut plan.settings);
            plan.admit_calls().unwrap_err().to_string()
        };
        for (reason, option) in [
            (with(|settings| settings.queue_pairs = 2), "-q"),
            (with(|settings| settings.post_list = 2), "--post-list"),
            (with(|settings| settings.shared_receives = true), "--use-srq"),
            (with(|settings| settings.manager = true), "-R"),
            (with(|settings| settings.pieces = Pieces::Of(8)), "--split"),
            (with(|settings| settings.timestamps = true), "--timestamps"),
        ] {
            assert!(reason.contains(option) && reason.contains("pattern ps"), "{reason}");
        }
        let push = Cell::new(usual.cell.transport.clone(), Pattern::Rate, 8);
        let settings = VerbsSettings { queue_pairs: 4, ..VerbsSettings::default() };
        assert_eq!(PairPlan { cell: push, settings, ..usual }.admit_calls(), Ok(()));
    }
}
