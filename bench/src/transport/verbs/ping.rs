//! Ping-pong on the side that is timed: by operations that arrive, and by those that the initiator
//! does alone.

use std::{collections::BTreeMap, time::Instant};

use fabricbench_verbs::Completion;

use super::{
    Pair, PeerRegions, REPEAT, VerbsInitiator, failed,
    pair::COUNT,
    pieces::{Assembly, Numbering, Whole},
    request::Carrier,
    sleep::Awaited,
    split::Splitter,
    stamp::{Polled, Stamped, stamp},
    word::Word,
};
use crate::transport::{
    Completed, Initiator, Operation, Patience, Received, Split, StopSignal, TransportError, Turn,
    Waiting, wait::go_on,
};

/// Ping-pong by messages that arrive at the far side; `POLLED` says that they arrive in memory that
/// is polled, and not in a receive, so that the loop has no branch for it.
#[derive(Debug)]
pub struct Ping<const POLLED: bool> {
    pair: Pair,
    carrier: Carrier,
    // Where messages are stamped.
    stamped: Option<Stamped>,
    polled: Polled,
    // Where they arrive in pieces.
    assembly: Option<Assembly>,
    sequence: u64,
    moderation: u64,
    token: u64,
    receives: u64,
    // Whether the receive that was used last is to be posted again.
    owed: bool,
    loss: Loss,
    // Of the first message: whether it is what was sent, if there is anything in it to tell.
    verified: Option<Option<bool>>,
    split: Option<Box<Splitter>>,
    stop: StopSignal,
}

impl<const POLLED: bool> VerbsInitiator for Ping<POLLED> {
    fn over(pair: Pair, remote: PeerRegions, stop: StopSignal) -> Result<Self, TransportError> {
        Ok(Self {
            carrier: Carrier::of(&pair, 0, &remote),
            stamped: pair.is_stamped().then(|| Stamped::of(&pair)).transpose()?,
            polled: Polled::of(&pair),
            assembly: Assembly::of(&pair),
            sequence: 0,
            moderation: u64::from(pair.moderation()),
            token: 0,
            receives: pair.next_receive(),
            owed: false,
            loss: Loss { possible: pair.plan.verbs.service.is_lossy(), lost: 0 },
            verified: None,
            // What is polled in memory has no completion here.
            split: if POLLED { None } else { pair.splitter()? },
            pair,
            stop,
        })
    }
}

impl<const POLLED: bool> Ping<POLLED> {
    /// Waits for the peer's write; `false` when patience ends.
    #[inline]
    fn await_write(&mut self, patience: Patience) -> Result<bool, TransportError> {
        let expected = stamp(self.sequence - 1);
        let Self { pair, carrier, polled, loss, sequence, verified, stop, .. } = self;
        let (mut waiting, mut silent) = (Waiting::new(stop, patience), None);
        while !polled.are(&pair.regions, expected)? {
            match waiting.turn()? {
                Turn::Spin => {}
                Turn::Look => loss.look(pair, carrier, *sequence - 1, stop, &mut silent)?,
                Turn::Expired => return Ok(false),
            }
        }
        if verified.is_none() {
            *verified = Some(pair.holds_message(pair.layout.target(0))?);
        }
        Ok(true)
    }

    /// Waits for a receive to complete; `false` when patience ends.
    #[inline]
    fn await_receive(&mut self, patience: Patience) -> Result<bool, TransportError> {
        let awaited = self.sequence - 1;
        let Self { pair, carrier, assembly, loss, verified, stop, split, receives, owed, .. } =
            self;
        let mut completion = [Completion::default()];
        let (mut waiting, mut silent) = (Waiting::new(stop, patience), None);
        if std::mem::take(owed) {
            // While the message is under way: there are others for its echo.
            pair.post_receive(0, *receives)?;
            *receives += 1;
        }
        loop {
            if let [completion] = pair.receive_queue.poll(&mut completion).map_err(failed)? {
                let number = completion.check().map_err(failed)?.id() & COUNT;
                // An answer that comes twice, since it was asked for again, answers nothing.
                let fresh = match assembly {
                    Some(assembly) => {
                        let whole = assembly.take(pair, completion, (0, 0), number)?;
                        whole.is_some_and(|whole| answers(pair, whole, awaited, verified))
                    }
                    None => {
                        let place = pair.arrived_at(0, number);
                        let fresh = !loss.possible || {
                            let last = place.plus(pair.message.size() - 1);
                            pair.regions.load_u8(last).map_err(failed)? == stamp(awaited)
                        };
                        if fresh && verified.is_none() {
                            *verified = Some(pair.holds_message(place)?);
                        }
                        fresh
                    }
                };
                if fresh && let Some(split) = split {
                    split.sample(pair.receive_queue.stamp());
                }
                if fresh {
                    *owed = true;
                    return Ok(true);
                }
                pair.post_receive(0, *receives)?;
                *receives += 1;
            }
            match pair.turn(&mut waiting, Awaited::Receives)? {
                Turn::Spin => {}
                Turn::Look => loss.look(pair, carrier, awaited, stop, &mut silent)?,
                Turn::Expired => return Ok(false),
            }
        }
    }
}

/// Whether a message whose pieces are here is the answer to the one with the number `awaited`.
fn answers(pair: &Pair, whole: Whole, awaited: u64, verified: &mut Option<Option<bool>>) -> bool {
    if verified.is_none() && whole.same.is_some() {
        *verified = Some(whole.same);
    }
    // What cannot be lost comes once, and has no number.
    !pair.plan.verbs.service.is_lossy()
        || whole.number == Numbering::of(&pair.message).carried(awaited)
}

/// Messages that may be lost carry a stamp, and are sent again after a silence.
#[derive(Debug)]
struct Loss {
    possible: bool,
    lost: u64,
}

impl Loss {
    /// Looks for failures, which show here and nowhere else; and where messages may be lost, sends
    /// the one with the number `sequence` again after a silence since `silent`.
    #[cold]
    fn look(
        &mut self,
        pair: &Pair,
        carrier: &Carrier,
        sequence: u64,
        stop: &StopSignal,
        silent: &mut Option<Instant>,
    ) -> Result<(), TransportError> {
        pair.reap_sends()?;
        if self.possible && silent.get_or_insert_with(Instant::now).elapsed() > REPEAT {
            self.lost += 1;
            carrier.post(pair, sequence, true, stop)?;
            *silent = None;
        }
        Ok(())
    }
}

impl<const POLLED: bool> Initiator for Ping<POLLED> {
    fn depth(&self) -> usize {
        1
    }

    #[inline]
    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        self.token = operation.token;
        if let Some(stamped) = &self.stamped {
            // The message before is not read from here any more: its echo proves that the peer has
            // executed it in full, and a retransmission is acknowledged without being executed.
            stamped.set(&self.pair.regions, stamp(self.sequence))?;
        }
        let signaled = self.sequence.is_multiple_of(self.moderation);
        if signaled {
            // The signalled send before this one was answered many messages ago, so that its
            // completion is most likely here; the queue has room for several.
            self.pair.reap_sends()?;
        }
        self.carrier.post(&self.pair, self.sequence, signaled, &self.stop)?;
        self.sequence += 1;
        Ok(())
    }

    #[inline]
    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        let arrived =
            if POLLED { self.await_write(patience)? } else { self.await_receive(patience)? };
        if arrived {
            done.push(self.token);
        }
        Ok(())
    }

    fn confirm(&mut self, _patience: Patience) -> Result<Received, TransportError> {
        // Each echo was a confirmation.
        let bytes = self.sequence.saturating_mul(self.pair.message.size() as u64);
        Ok(Received { messages: self.sequence, bytes, ..Received::default() })
    }

    fn is_lossy(&self) -> bool {
        self.loss.possible
    }

    #[inline]
    fn lost(&self) -> u64 {
        self.loss.lost
    }

    fn verified(&self) -> (u64, u64) {
        match self.verified.flatten() {
            Some(same) => (1, u64::from(!same)),
            None => (0, 0),
        }
    }

    fn split(&self) -> Option<Split> {
        self.split.as_ref()?.end()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.pair.describe()
    }
}

/// Full round trips of reads and atomics, in which the far side's processor takes no part.
#[derive(Debug)]
pub struct Ask {
    pair: Pair,
    carrier: Carrier,
    word: Option<Word>,
    token: u64,
    completed: u64,
    split: Option<Box<Splitter>>,
    stop: StopSignal,
}

impl VerbsInitiator for Ask {
    fn over(pair: Pair, remote: PeerRegions, stop: StopSignal) -> Result<Self, TransportError> {
        let carrier = Carrier::of(&pair, 0, &remote);
        let word = Word::of(pair.plan.verbs.operation);
        let split = pair.splitter()?;
        Ok(Self { pair, carrier, word, token: 0, completed: 0, split, stop })
    }
}

impl Initiator for Ask {
    fn depth(&self) -> usize {
        1
    }

    #[inline]
    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        self.token = operation.token;
        self.carrier.post(&self.pair, self.completed, true, &self.stop)
    }

    #[inline]
    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        let mut completion = [Completion::default()];
        let mut waiting = Waiting::new(&self.stop, patience);
        loop {
            if let [completion] = self.pair.send_queue.poll(&mut completion).map_err(failed)? {
                completion.check().map_err(failed)?;
                if let Some(split) = &mut self.split {
                    split.sample(self.pair.send_queue.stamp());
                }
                if let Some(word) = &mut self.word {
                    word.returned(&self.pair, 0, self.completed)?;
                }
                self.completed += 1;
                done.push(self.token);
                return Ok(());
            }
            if self.pair.turn(&mut waiting, Awaited::Sends)? == Turn::Expired {
                return Ok(());
            }
        }
    }

    fn confirm(&mut self, _patience: Patience) -> Result<Received, TransportError> {
        let bytes = self.completed.saturating_mul(self.pair.message.size() as u64);
        Ok(Received { messages: self.completed, bytes, ..Received::default() })
    }

    fn verified(&self) -> (u64, u64) {
        match &self.word {
            Some(word) => word.verified(),
            // The last read has overwritten all others with the same.
            None if self.completed > 0 => {
                (1, u64::from(!self.pair.holds_payload_at_target().unwrap_or(false)))
            }
            None => (0, 0),
        }
    }

    fn split(&self) -> Option<Split> {
        self.split.as_ref()?.end()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.pair.describe()
    }
}
