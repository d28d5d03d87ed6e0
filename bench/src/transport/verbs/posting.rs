//! Posting on a pair's queue pairs, and making room for it.

use fabricbench_verbs::{Completion, Local, RecvRequest, SendRequest};

use super::{
    Pair,
    extended::Poster,
    failed,
    pair::{LANE_SHIFT, Lane, Shared},
    regions::RegionIds,
};
use crate::transport::{Patience, StopSignal, TransportError, Turn, Waiting};

/// How long a place in the send queue is waited for.
const PLACE_PATIENCE: Patience = Patience(std::time::Duration::from_secs(5));

impl Pair {
    /// Posts the first receives on a queue pair that is in INIT; on the queue of all with the
    /// first.
    pub(super) fn post_receives(&self, lane: usize) -> Result<(), TransportError> {
        if self.shared.is_some() && lane > 0 {
            return Ok(());
        }
        (0..u64::from(self.receives)).try_for_each(|receive| self.post_receive(lane, receive))
    }

    /// Posts the receive with this number; its slot follows from the number.
    #[inline]
    pub(super) fn post_receive(&self, lane: usize, number: u64) -> Result<(), TransportError> {
        let Some(Lane { queue_pair, regions, .. }) = self.lanes.get(lane) else { return Ok(()) };
        let place = self.layout.receive(lane, number);
        let range = |regions: &RegionIds| {
            regions.of(place.area).range(place.offset, self.layout.receive_bytes())
        };
        // The lane travels along, so that a completion tells it without a search.
        let id = ((lane as u64) << LANE_SHIFT) | number;
        match &self.shared {
            None => queue_pair.post_recv(&RecvRequest::new(id, range(regions))),
            Some(Shared { queue, regions }) => {
                queue.post_recv(&RecvRequest::new(id, range(regions)))
            }
        }
        .map_err(failed)
    }

    /// Posts a send on `lane`, gathered as [`Poster::post_gathered`] does, where there is a place for it: for those who count completions, which
    /// waiting for a place would take from them.
    ///
    /// # Errors
    /// It cannot be posted, a full queue included.
    #[inline]
    pub(super) fn post_in_place(
        &self,
        lane: usize,
        request: &SendRequest,
        more: &[Local],
    ) -> Result<(), TransportError> {
        let Some(Lane { queue_pair, .. }) = self.lanes.get(lane) else { return Ok(()) };
        queue_pair.post_gathered(request, more).map_err(failed)
    }

    /// Posts a send on `lane`, gathered as [`Poster::post_gathered`] does; waits for a place where the queue is full, which it is only if
    /// completions lag far behind, and drops completions meanwhile.
    #[inline]
    pub(super) fn post(
        &self,
        lane: usize,
        (request, more): (&SendRequest, &[Local]),
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        let Some(Lane { queue_pair, .. }) = self.lanes.get(lane) else { return Ok(()) };
        match queue_pair.post_gathered(request, more) {
            Ok(()) => Ok(()),
            Err(error) if error.is_queue_full() => {
                self.post_when_free(queue_pair, (request, more), stop)
            }
            Err(error) => Err(failed(error)),
        }
    }

    #[cold]
    fn post_when_free(
        &self,
        queue_pair: &Poster,
        (request, more): (&SendRequest, &[Local]),
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        let mut waiting = Waiting::new(stop, PLACE_PATIENCE);
        loop {
            self.reap_sends()?;
            match queue_pair.post_gathered(request, more) {
                Err(full) if full.is_queue_full() && waiting.turn()? != Turn::Expired => {}
                posted => return posted.map_err(failed),
            }
        }
    }

    /// Takes what the send queue has done, so that a failure shows and its slots come free.
    #[inline]
    pub(super) fn reap_sends(&self) -> Result<usize, TransportError> {
        let mut completions = [Completion::default(); 8];
        let mut done = 0;
        for completion in self.send_queue.poll(&mut completions).map_err(failed)? {
            completion.check().map_err(failed)?;
            done += 1;
        }
        Ok(done)
    }
}
