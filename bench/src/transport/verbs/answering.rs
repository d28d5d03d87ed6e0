//! Calls over queue pairs, on the side that answers them: one thread for all who call.

use fabricbench_verbs::Completion;

use super::{
    Pair, failed,
    inbox::verified,
    pair::{COUNT, LANE_SHIFT},
    sleep::Awaited,
    slots::{Outbox, Polled},
};
use crate::transport::{
    Patience, Received, Responder, StopSignal, TransportError, Turn, VerbsEndpoint, Waiting,
    wait::go_on,
};

/// A server waits as long as its control connection lives.
const FOREVER: Patience = Patience(std::time::Duration::MAX);

/// Completions taken at once.
const BATCH: usize = 16;

/// A server of calls, with a queue pair to each who calls.
#[derive(Debug)]
pub struct VerbsServer {
    pair: Pair,
    // Of each who calls.
    lanes: Vec<Called>,
    received: Received,
    completions: [Completion; BATCH],
}

#[derive(Debug)]
struct Called {
    replies: Outbox,
    // Where requests are polled for in memory.
    polled: Option<Polled>,
    next_receive: u64,
}

impl VerbsServer {
    /// Connects `pair` to each of `workers`, to which it is the server with the number `server`.
    ///
    /// # Errors
    /// There are more or fewer than was planned, or the kernel refused to connect.
    pub fn connect(
        mut pair: Pair,
        server: u32,
        workers: &[VerbsEndpoint],
    ) -> Result<Self, TransportError> {
        let workers: Vec<_> = workers.iter().collect();
        // Each has told of the queue pair that is for this server only.
        let remotes = pair.connect_called(&workers, 0)?;
        let lanes = remotes.iter().enumerate().map(|(index, remote)| {
            Ok(Called {
                replies: Outbox::new(&pair, index, server as usize, remote)?,
                polled: pair.plan.polls_for_calls().then(|| Polled::of(&pair, index)),
                next_receive: pair.next_receive(),
            })
        });
        let lanes = lanes.collect::<Result<_, TransportError>>()?;
        let completions = [Completion::default(); BATCH];
        Ok(Self { pair, lanes, received: Received::default(), completions })
    }

    /// Answers requests that are here, polled in memory one of each who calls: nobody waits for all that
    /// another one has in flight, and the stop signal is looked at between. Whether there were any.
    #[inline]
    fn answer(&mut self, stop: &StopSignal) -> Result<bool, TransportError> {
        let Self { pair, lanes, received, completions } = self;
        if pair.plan.polls_for_calls() {
            let before = received.messages;
            for (index, lane) in lanes.iter_mut().enumerate() {
                if let Some(polled) = &mut lane.polled
                    && polled.took(pair)?
                {
                    lane.answer(pair, (index, 0), received, stop)?;
                    received.bytes += pair.plan.incoming();
                }
            }
            return Ok(received.messages > before);
        }
        let arrived = pair.receive_queue.poll(completions).map_err(failed)?;
        for completion in arrived {
            let id = completion.check().map_err(failed)?.id();
            let index = (id >> LANE_SHIFT) as usize;
            let Some(lane) = lanes.get_mut(index) else { continue };
            lane.answer(pair, (index, id & COUNT), received, stop)?;
            received.bytes += u64::from(completion.byte_len());
            // While the reply is under way: there are others for the next request.
            pair.post_receive(index, lane.next_receive)?;
            lane.next_receive += 1;
        }
        Ok(!arrived.is_empty())
    }
}

impl Called {
    /// Answers a request, which came on a lane into this receive, or was written.
    #[inline]
    fn answer(
        &mut self,
        pair: &Pair,
        (lane, receive): (usize, u64),
        received: &mut Received,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        if self.replies.sent() == 0
            && let Some(same) = pair.first_call_same(lane, receive)?
        {
            verified(received, same);
        }
        self.replies.post(pair, stop)?;
        received.messages += 1;
        Ok(())
    }
}

impl Responder for VerbsServer {
    fn serve(mut self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError> {
        let served = self.serve_until(stop);
        match served {
            Ok(()) | Err(TransportError::Stopped(_)) => Ok(self.received),
            Err(error) => Err(error),
        }
    }
}

impl VerbsServer {
    fn serve_until(&mut self, stop: &StopSignal) -> Result<(), TransportError> {
        loop {
            go_on(stop)?;
            let mut waiting = Waiting::new(stop, FOREVER);
            while !self.answer(stop)? {
                if self.pair.turn(&mut waiting, Awaited::Receives)? == Turn::Look {
                    self.pair.reap_sends()?;
                }
            }
        }
    }
}
