//! Calls over queue pairs, on the side that makes them.
//!
//! A request travels as messages do: it is sent into a receive of the server's, or written to a slot
//! of its memory, whose last byte the server polls as in a ping-pong. The reply comes the same way.
//! There are as many slots as calls may be in flight, and a slot is written again when the call before
//! in it is answered, which proves that its request was read. A reliable connection keeps the order, so
//! that replies are those of the calls in theirs.

use std::collections::{BTreeMap, VecDeque};

use fabricbench_verbs::Completion;

use super::{
    Pair, failed,
    pair::{COUNT, LANE_SHIFT},
    sleep::Awaited,
    slots::{Outbox, Polled},
};
use crate::transport::{
    Answer, Completed, Initiator, Offer, Opening, Operation, Patience, Received, StopSignal,
    TransportError, Turn, VerbsEndpoint, VerbsSettings, Waiting, wait::go_on,
};

/// Completions taken at once.
const BATCH: usize = 16;

/// Fruitless looks for replies between two looks for requests that failed: some 10 us of polling.
const LOOKS: u32 = 512;

/// A caller of one server before it is connected.
#[derive(Debug)]
pub struct VerbsCallsOpening {
    pair: Pair,
    peer: VerbsSettings,
    stop: StopSignal,
}

impl VerbsCallsOpening {
    /// Calls over `pair`, and what the server is to use on its side.
    #[must_use]
    pub fn new(pair: Pair, peer: VerbsSettings, stop: StopSignal) -> Self {
        Self { pair, peer, stop }
    }
}

impl Opening for VerbsCallsOpening {
    type Initiator = VerbsCalls;

    fn offer(&self) -> Offer {
        VerbsCalls::offer(std::slice::from_ref(&self.pair), 0, &self.peer)
    }

    fn connect(self, answer: &Answer) -> Result<VerbsCalls, TransportError> {
        VerbsCalls::to_all(self.pair, std::slice::from_ref(answer), 0, self.stop)
    }
}

/// The client's side of calls: of one server, or of several at once, where a call is done when all have
/// replied.
#[derive(Debug)]
pub struct VerbsCalls {
    callers: Callers,
    stop: StopSignal,
}

#[derive(Debug)]
struct Callers {
    pair: Pair,
    // Of each server.
    lanes: Vec<Caller>,
    // Tokens of calls that are not done, in their order.
    in_flight: VecDeque<u64>,
    done: u64,
    // Looks without a reply since the last look for requests that failed.
    fruitless: u32,
    completions: [Completion; BATCH],
}

#[derive(Debug)]
struct Caller {
    requests: Outbox,
    // Where replies are polled for in memory.
    polled: Option<Polled>,
    replies: u64,
    next_receive: u64,
    // Of the first reply: whether it is what it should be, if there is anything in it to tell.
    verified: Option<bool>,
}

impl VerbsCalls {
    /// What the server with the number `server` must know of all who call it.
    #[must_use]
    pub fn offer(workers: &[Pair], server: u32, settings: &VerbsSettings) -> Offer {
        let worker = |pair: &Pair| {
            let endpoint = pair.endpoint();
            let queue_pair = endpoint.queue_pairs.get(server as usize).copied();
            VerbsEndpoint { queue_pairs: queue_pair.into_iter().collect(), ..endpoint }
        };
        let workers = workers.iter().map(worker).collect();
        Offer::VerbsServer { server, workers, settings: Box::new(settings.clone()) }
    }

    /// The worker with the number `worker`, whose calls go to all the servers that gave `answers`.
    ///
    /// # Errors
    /// A server answered with something else, or the kernel refused to connect.
    pub fn to_all(
        mut pair: Pair,
        answers: &[Answer],
        worker: usize,
        stop: StopSignal,
    ) -> Result<Self, TransportError> {
        let servers = answers.iter().map(|answer| match answer {
            Answer::Verbs(server) => Ok(server),
            _ => Err(failed("the server answered without queue pairs where these were offered")),
        });
        let servers: Vec<_> = servers.collect::<Result<_, _>>()?;
        let remotes = pair.connect_called(&servers, worker)?;
        let lanes = remotes.iter().enumerate().map(|(index, remote)| {
            Ok(Caller {
                requests: Outbox::new(&pair, index, worker, remote)?,
                polled: pair.plan.polls_for_calls().then(|| Polled::of(&pair, index)),
                replies: 0,
                next_receive: pair.next_receive(),
                verified: None,
            })
        });
        let lanes = lanes.collect::<Result<_, TransportError>>()?;
        let in_flight = VecDeque::with_capacity(pair.plan.depth.max(1) as usize);
        let completions = [Completion::default(); BATCH];
        let callers = Callers { pair, lanes, in_flight, done: 0, fruitless: 0, completions };
        Ok(Self { callers, stop })
    }
}

impl Callers {
    /// Takes the replies that are here.
    #[inline]
    fn take(&mut self) -> Result<(), TransportError> {
        let Self { pair, lanes, completions, .. } = self;
        if pair.plan.polls_for_calls() {
            for (index, lane) in lanes.iter_mut().enumerate() {
                lane.take_written(pair, index)?;
            }
            return Ok(());
        }
        for completion in pair.receive_queue.poll(completions).map_err(failed)? {
            let id = completion.check().map_err(failed)?.id();
            let index = (id >> LANE_SHIFT) as usize;
            let Some(lane) = lanes.get_mut(index) else { continue };
            lane.replied(pair, index, id & COUNT)?;
            pair.post_receive(index, lane.next_receive)?;
            lane.next_receive += 1;
        }
        Ok(())
    }

    /// Hands over what the slowest server has answered.
    #[inline]
    fn hand_over(&mut self, done: &mut Completed) {
        let answered = self.lanes.iter().map(|lane| lane.replies).min().unwrap_or(0);
        while self.done < answered
            && done.room() > 0
            && let Some(token) = self.in_flight.pop_front()
        {
            done.push(token);
            self.done += 1;
        }
    }
}

impl Caller {
    #[inline]
    fn take_written(&mut self, pair: &Pair, lane: usize) -> Result<(), TransportError> {
        while self.replies < self.requests.sent()
            && let Some(polled) = &mut self.polled
            && polled.took(pair)?
        {
            self.replied(pair, lane, 0)?;
        }
        Ok(())
    }

    /// Takes note of a reply, which came into this receive, or was written.
    #[inline]
    fn replied(&mut self, pair: &Pair, lane: usize, receive: u64) -> Result<(), TransportError> {
        if self.replies == self.requests.sent() {
            return Err(failed(format!(
                "the server sent more replies than the {} that were asked for",
                self.replies
            )));
        }
        if self.replies == 0 {
            self.verified = pair.first_call_same(lane, receive)?;
        }
        self.replies += 1;
        Ok(())
    }
}

impl Initiator for VerbsCalls {
    fn depth(&self) -> usize {
        self.callers.pair.plan.depth.max(1) as usize
    }

    #[inline]
    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        let Callers { pair, lanes, in_flight, .. } = &mut self.callers;
        in_flight.push_back(operation.token);
        for lane in lanes {
            lane.requests.post(pair, &self.stop)?;
        }
        Ok(())
    }

    #[inline]
    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        let Self { callers, stop } = self;
        let mut waiting = Waiting::new(stop, patience);
        loop {
            callers.take()?;
            callers.hand_over(done);
            if !done.tokens().is_empty() {
                return Ok(());
            }
            match callers.pair.turn(&mut waiting, Awaited::Receives)? {
                Turn::Spin => {}
                // A request that failed shows here and nowhere else.
                Turn::Look => {
                    callers.pair.reap_sends()?;
                }
                Turn::Expired => return Ok(()),
            }
        }
    }

    /// Polls once, whatever the mode of completions: who asks has the time of the next call to poll for.
    #[inline]
    fn reap(&mut self, done: &mut Completed) -> Result<(), TransportError> {
        let Self { callers, stop } = self;
        callers.take()?;
        callers.hand_over(done);
        if !done.tokens().is_empty() {
            callers.fruitless = 0;
            return Ok(());
        }
        callers.fruitless += 1;
        if callers.fruitless >= LOOKS {
            callers.fruitless = 0;
            go_on(stop)?;
            // A request that failed shows here and nowhere else.
            callers.pair.reap_sends()?;
        }
        Ok(())
    }

    fn confirm(&mut self, _: Patience) -> Result<Received, TransportError> {
        // Every reply is a confirmation.
        let messages = self.callers.lanes.iter().map(|lane| lane.replies).sum();
        Ok(Received { messages, ..Received::default() })
    }

    fn verified(&self) -> (u64, u64) {
        let checks = self.callers.lanes.iter().filter_map(|lane| lane.verified);
        checks.fold((0, 0), |(all, bad), same| (all + 1, bad + u64::from(!same)))
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.callers.pair.describe()
    }
}
