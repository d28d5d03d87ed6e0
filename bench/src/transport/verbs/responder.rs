//! The far side: echoes; or counts, confirms, and pushes back.

use std::time::Instant;

use fabricbench_verbs::Completion;

use super::{
    Pair, PeerRegions, REPEAT,
    control::Control,
    failed,
    inbox::{Inbox, verified},
    pair::COUNT,
    pieces::{Assembly, Numbering},
    request::Carrier,
    sender::Sender,
    sleep::Awaited,
    stamp::{Polled, Stamped, stamp},
    word::read,
};
use crate::{
    plan::{ATOMIC_BYTES, Pattern, VerbsOperation},
    transport::{
        Completed, Patience, Received, Responder, StopSignal, TransportError, Turn, VerbsEndpoint,
        Waiting, wait::go_on,
    },
};

/// A responder waits as long as its control connection lives.
const FOREVER: Patience = Patience(std::time::Duration::MAX);

/// The server's side of a pair.
#[derive(Debug)]
pub struct VerbsResponder {
    pair: Pair,
    remote: PeerRegions,
}

impl VerbsResponder {
    /// Connects `pair` to the client's.
    ///
    /// # Errors
    /// As [`Pair::connect`].
    pub fn connect(mut pair: Pair, client: &VerbsEndpoint) -> Result<Self, TransportError> {
        let remote = pair.connect(client)?;
        Ok(Self::over(pair, remote))
    }

    /// Takes over a pair that is connected.
    pub(super) fn over(pair: Pair, remote: PeerRegions) -> Self {
        Self { pair, remote }
    }
}

impl Responder for VerbsResponder {
    fn serve(self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError> {
        let mut received = Received::default();
        let served = match (self.pair.plan.cell.pattern, self.pair.plan.verbs.operation) {
            (_, operation) if operation.is_one_sided() => self.stand_by(stop, &mut received),
            (Pattern::Latency, VerbsOperation::Write) => self.echo_writes(stop, &mut received),
            (Pattern::Latency, _) => self.echo_receives(stop, &mut received),
            _ => self.push(stop, &mut received),
        };
        match served {
            Ok(()) | Err(TransportError::Stopped(_)) => Ok(received),
            Err(error) => Err(error),
        }
    }
}

impl VerbsResponder {
    /// The initiator does all alone; of atomics, the words count them.
    fn stand_by(&self, stop: &StopSignal, received: &mut Received) -> Result<(), TransportError> {
        stop.wait();
        if self.pair.plan.verbs.operation.is_atomic() {
            for lane in 0..self.pair.lanes.len() {
                received.messages += read(&self.pair, self.pair.layout.word(lane))?;
            }
            received.bytes = received.messages * ATOMIC_BYTES;
        }
        Ok(())
    }

    fn echo_writes(
        &self,
        stop: &StopSignal,
        received: &mut Received,
    ) -> Result<(), TransportError> {
        let pair = &self.pair;
        let (stamped, polled) = (Stamped::of(pair)?, Polled::of(pair));
        let carrier = Carrier::of(pair, 0, &self.remote);
        loop {
            go_on(stop)?;
            let expected = stamp(received.messages);
            let (mut waiting, mut silent) = (Waiting::new(stop, FOREVER), Instant::now());
            while !polled.are(&pair.regions, expected)? {
                if waiting.turn()? == Turn::Look {
                    pair.reap_sends()?;
                    // If the answer was lost, the question that comes again changes nothing here.
                    if self.is_lossy() && received.messages > 0 && silent.elapsed() > REPEAT {
                        carrier.post(pair, received.messages - 1, true, stop)?;
                        silent = Instant::now();
                    }
                }
            }
            if received.messages == 0
                && let Some(same) = pair.holds_message(pair.layout.target(0))?
            {
                verified(received, same);
            }
            // The answer before is not read from here any more: this message proves that it arrived.
            stamped.set(&pair.regions, expected)?;
            self.pong(&carrier, received, stop)?;
        }
    }

    fn echo_receives(
        &self,
        stop: &StopSignal,
        received: &mut Received,
    ) -> Result<(), TransportError> {
        let pair = &self.pair;
        let carrier = Carrier::of(pair, 0, &self.remote);
        let mut echo = Echo::of(pair)?;
        let mut next = pair.next_receive();
        let mut completion = [Completion::default()];
        loop {
            go_on(stop)?;
            let mut waiting = Waiting::new(stop, FOREVER);
            let completion = loop {
                if let [completion] = pair.receive_queue.poll(&mut completion).map_err(failed)? {
                    break completion.check().map_err(failed)?;
                }
                if pair.turn(&mut waiting, Awaited::Receives)? == Turn::Look {
                    pair.reap_sends()?;
                }
            };
            match echo.arrived(pair, completion, received)? {
                Arrival::Part => {}
                Arrival::Fresh => self.pong(&carrier, received, stop)?,
                // Since the answer was lost, it is given once more.
                Arrival::Again => {
                    carrier.post(pair, received.messages.saturating_sub(1), true, stop)?;
                }
            }
            pair.post_receive(0, next)?;
            next += 1;
        }
    }

    fn is_lossy(&self) -> bool {
        self.pair.plan.verbs.service.is_lossy()
    }

    #[inline]
    fn pong(
        &self,
        carrier: &Carrier,
        received: &mut Received,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        let signaled = received.messages.is_multiple_of(u64::from(self.pair.moderation()));
        if signaled {
            self.pair.reap_sends()?;
        }
        carrier.post(&self.pair, received.messages, signaled, stop)?;
        received.messages += 1;
        received.bytes += self.pair.message.size() as u64;
        Ok(())
    }

    /// Takes what arrives, answers requests to confirm, and between them pushes back if asked to.
    fn push(&self, stop: &StopSignal, received: &mut Received) -> Result<(), TransportError> {
        let mut inbox = Inbox::new(&self.pair);
        let mut sender = Sender::new(&self.pair, &self.remote)?;
        let served = self.push_with(stop, &mut inbox, &mut sender);
        inbox.finish(&self.pair)?;
        *received = inbox.received();
        received.returned = sender.submitted();
        served
    }

    fn push_with(
        &self,
        stop: &StopSignal,
        inbox: &mut Inbox,
        sender: &mut Sender,
    ) -> Result<(), TransportError> {
        let pair = &self.pair;
        let mut done = Completed::new();
        let mut pushing = false;
        // A request to confirm is answered when what was pushed back is done.
        let mut asked = None;
        loop {
            go_on(stop)?;
            let mut waiting = Waiting::new(stop, FOREVER);
            loop {
                let (mut busy, said) = inbox.take(pair)?;
                match said {
                    Some(Control::Begin) => pushing = true,
                    Some(Control::Confirm { nonce, messages }) => {
                        (pushing, asked) = (false, Some((nonce, messages)));
                    }
                    _ => {}
                }
                if pushing || asked.is_some() {
                    busy |= self.keep_pushing(sender, pushing, &mut done)?;
                }
                if let Some((nonce, messages)) = asked
                    && sender.is_idle()
                {
                    asked = None;
                    inbox.claimed(pair, messages)?;
                    let received = inbox.received();
                    let answer = Control::Confirmed {
                        nonce,
                        messages: received.messages,
                        bytes: received.bytes,
                        sent: sender.submitted(),
                    };
                    sender.say(pair, answer)?;
                    busy = true;
                }
                if busy {
                    break;
                }
                if pair.turn(&mut waiting, awaited(pushing || asked.is_some()))? == Turn::Look {
                    done.clear();
                    sender.reap(pair, &mut done)?;
                }
            }
        }
    }

    /// Fills the depth, or lets it run empty; returns whether anything moved.
    fn keep_pushing(
        &self,
        sender: &mut Sender,
        pushing: bool,
        done: &mut Completed,
    ) -> Result<bool, TransportError> {
        let mut busy = false;
        while pushing && sender.has_room() {
            sender.submit(&self.pair, 0)?;
            busy = true;
        }
        done.clear();
        sender.reap(&self.pair, done)?;
        busy |= !done.tokens().is_empty();
        if !busy && sender.needs_flush() {
            sender.flush(&self.pair)?;
        }
        Ok(busy)
    }
}

/// What a receive brought in a ping-pong.
enum Arrival {
    /// A piece of a message that is not whole yet.
    Part,
    /// The next message.
    Fresh,
    /// The one before.
    Again,
}

/// How a ping-pong by receives tells one message from the next.
struct Echo {
    assembly: Option<Assembly>,
    stamped: Option<Stamped>,
}

impl Echo {
    fn of(pair: &Pair) -> Result<Self, TransportError> {
        let stamped = pair.is_stamped().then(|| Stamped::of(pair)).transpose()?;
        Ok(Self { assembly: Assembly::of(pair), stamped })
    }

    /// Takes what arrived after `received`, and compares it if it is the first.
    #[inline]
    fn arrived(
        &mut self,
        pair: &Pair,
        completion: &Completion,
        received: &mut Received,
    ) -> Result<Arrival, TransportError> {
        let number = completion.id() & COUNT;
        let (fresh, same) = if let Some(assembly) = &mut self.assembly {
            let Some(whole) = assembly.take(pair, completion, (0, 0), number)? else {
                return Ok(Arrival::Part);
            };
            let next = Numbering::of(&pair.message).carried(received.messages);
            (!pair.plan.verbs.service.is_lossy() || whole.number == next, whole.same)
        } else {
            let (at, mut fresh) = (pair.arrived_at(0, number), true);
            if let Some(stamped) = &self.stamped {
                let last = at.plus(pair.message.size() - 1);
                let came = pair.regions.load_u8(last).map_err(failed)?;
                fresh = came == stamp(received.messages);
                stamped.set(&pair.regions, came)?;
            }
            let first = fresh && received.messages == 0;
            (fresh, if first { pair.holds_message(at)? } else { None })
        };
        if let Some(same) = same {
            verified(received, same);
        }
        Ok(if fresh { Arrival::Fresh } else { Arrival::Again })
    }
}

/// What a responder that pushes back or does not is waiting for.
fn awaited(sending: bool) -> Awaited {
    if sending { Awaited::Both } else { Awaited::Receives }
}
