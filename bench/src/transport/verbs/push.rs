//! Messages in a pipeline, on the side that is timed: pushes one way or both, reads, atomics.

use std::{collections::BTreeMap, time::Instant};

use super::{
    Pair, PeerRegions, REPEAT, VerbsInitiator, control::Control, failed, inbox::Inbox,
    sender::Sender, sleep::Awaited,
};
use crate::{
    plan::{Pattern, VerbsOperation},
    transport::{
        Completed, Initiator, Operation, Patience, Received, StopSignal, TransportError, Turn,
        Waiting, wait::go_on,
    },
};

/// A pipeline; `BOTH` says that the far side pushes as well.
#[derive(Debug)]
pub struct Push<const BOTH: bool> {
    pair: Pair,
    sender: Sender,
    inbox: Inbox,
    // Whether the far side has been told to push, since it last confirmed.
    begun: bool,
    nonce: u64,
    stop: StopSignal,
}

impl<const BOTH: bool> VerbsInitiator for Push<BOTH> {
    fn over(pair: Pair, remote: PeerRegions, stop: StopSignal) -> Result<Self, TransportError> {
        if BOTH != (pair.plan.cell.pattern == Pattern::Bidirectional) {
            return Err(failed("a pair of another pattern"));
        }
        let sender = Sender::new(&pair, &remote)?;
        let inbox = Inbox::new(&pair);
        Ok(Self { pair, sender, inbox, begun: false, nonce: 0, stop })
    }
}

impl<const BOTH: bool> Push<BOTH> {
    fn operation(&self) -> VerbsOperation {
        self.pair.plan.verbs.operation
    }

    /// What the initiator does alone is done when it completes: nobody need confirm it.
    fn confirm_alone(&mut self) -> Result<Received, TransportError> {
        self.sender.check_words(&self.pair)?;
        let messages = self.sender.submitted();
        let bytes = messages.saturating_mul(self.pair.message.size() as u64);
        Ok(Received { messages, bytes, ..Received::default() })
    }

    fn ask(&mut self) -> Result<(), TransportError> {
        let messages = self.sender.submitted();
        let (nonce, confirm) = (self.nonce, |nonce| Control::Confirm { nonce, messages });
        self.sender.say(&self.pair, confirm(nonce))
    }
}

impl<const BOTH: bool> Initiator for Push<BOTH> {
    fn depth(&self) -> usize {
        self.sender.depth()
    }

    #[inline]
    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        if BOTH && !self.begun {
            self.begun = true;
            self.sender.say(&self.pair, Control::Begin)?;
        }
        self.sender.submit(&self.pair, operation.token)
    }

    #[inline]
    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        let mut waiting = Waiting::new(&self.stop, patience);
        let awaited = if BOTH { Awaited::Both } else { Awaited::Sends };
        loop {
            self.sender.reap(&self.pair, done)?;
            if BOTH {
                self.inbox.take(&self.pair)?;
            }
            if !done.tokens().is_empty() {
                return Ok(());
            }
            if self.sender.needs_flush() {
                self.sender.flush(&self.pair)?;
            }
            if self.pair.turn(&mut waiting, awaited)? == Turn::Expired {
                return Ok(());
            }
        }
    }

    fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
        if self.operation().is_one_sided() {
            return self.confirm_alone();
        }
        self.begun = false;
        self.nonce += 1;
        self.ask()?;
        let mut asked = Instant::now();
        let mut none = Completed::new();
        let stop = self.stop.clone();
        let mut waiting = Waiting::new(&stop, patience);
        let (received, sent) = loop {
            let (arrived, said) = self.inbox.take(&self.pair)?;
            if let Some(Control::Confirmed { nonce, messages, bytes, sent }) = said
                && nonce == self.nonce
            {
                break (Received { messages, bytes, ..Received::default() }, sent);
            }
            if arrived {
                continue;
            }
            match self.pair.turn(&mut waiting, Awaited::Receives)? {
                Turn::Spin => {}
                Turn::Look => {
                    self.sender.reap(&self.pair, &mut none)?;
                    if self.is_lossy() && asked.elapsed() > REPEAT {
                        self.ask()?;
                        asked = Instant::now();
                    }
                }
                Turn::Expired => {
                    return Err(failed(format!(
                        "the receiver did not confirm within {:?}: the data path may be cut, or \
                         {} bytes on the way are too many for it; try a longer --timeout, or fewer \
                         with -t or -q",
                        patience.0,
                        self.pair.most_in_flight()
                    )));
                }
            }
        };
        // Its own messages left before its answer.
        self.inbox.claimed(&self.pair, sent)?;
        Ok(Received { returned: self.inbox.received().messages, ..received })
    }

    fn is_lossy(&self) -> bool {
        self.pair.plan.verbs.service.is_lossy()
    }

    fn verified(&self) -> (u64, u64) {
        let received = self.inbox.received();
        let (compared, different) = self.sender.words_verified();
        let (mut compared, mut different) =
            (compared + received.verified, different + received.corrupt);
        if self.operation() == VerbsOperation::Read && self.sender.submitted() > 0 {
            compared += 1;
            different += u64::from(!self.pair.holds_payload_at_target().unwrap_or(false));
        }
        (compared, different)
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.pair.describe()
    }
}
