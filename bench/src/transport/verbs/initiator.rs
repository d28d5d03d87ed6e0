//! The side that is timed.

use std::{collections::BTreeMap, marker::PhantomData};

use fabricbench_verbs::{Completion, Operation as Verb, RemoteRegion, SendRequest};

use super::{Pair, failed, pair::CONFIRMATION, stamp};
use crate::{
    plan::VerbsOperation,
    transport::{
        Answer, Completed, Initiator, Offer, Opening, Operation, Patience, Received, StopSignal,
        TransportError, Turn, VerbsSettings, Waiting, wait::go_on,
    },
};

/// What an opened pair becomes when it is connected.
pub trait VerbsInitiator: Initiator + Sized {
    /// Takes over the pair.
    ///
    /// # Errors
    /// The pair does not fit the pattern.
    fn over(pair: Pair, remote: RemoteRegion, stop: StopSignal) -> Result<Self, TransportError>;
}

/// The client's side before it is connected.
#[derive(Debug)]
pub struct VerbsOpening<I> {
    pair: Pair,
    // What the server is to use: its device need not have the name of ours.
    peer: VerbsSettings,
    stop: StopSignal,
    becomes: PhantomData<fn() -> I>,
}

impl<I> VerbsOpening<I> {
    /// A pair that is to become an `I`, and what the server is to use on its side.
    #[must_use]
    pub fn new(pair: Pair, peer: VerbsSettings, stop: StopSignal) -> Self {
        Self { pair, peer, stop, becomes: PhantomData }
    }
}

impl<I: VerbsInitiator> Opening for VerbsOpening<I> {
    type Initiator = I;

    fn offer(&self) -> Offer {
        Offer::Verbs { endpoint: self.pair.endpoint(), settings: self.peer.clone() }
    }

    fn connect(self, answer: &Answer) -> Result<I, TransportError> {
        let Answer::Verbs(peer) = answer else {
            return Err(failed(
                "the server answered with a listener where a queue pair was offered",
            ));
        };
        let remote = self.pair.connect(peer)?;
        I::over(self.pair, remote, self.stop)
    }
}

/// Ping-pong by write or by send; `WRITE` says which, so that the loop has no branch for it.
#[derive(Debug)]
pub struct Ping<const WRITE: bool> {
    pair: Pair,
    request: SendRequest,
    sequence: u64,
    moderation: u64,
    token: u64,
    receives: u64,
    verified: Option<bool>,
    stop: StopSignal,
}

impl<const WRITE: bool> VerbsInitiator for Ping<WRITE> {
    fn over(pair: Pair, remote: RemoteRegion, stop: StopSignal) -> Result<Self, TransportError> {
        let verb = if WRITE { Verb::Write(remote.at(0)) } else { Verb::Send };
        let request = pair.message_request(verb);
        let (receives, moderation) = (pair.next_receive(), u64::from(pair.moderation()));
        let verified = None;
        Ok(Self { pair, request, sequence: 0, moderation, token: 0, receives, verified, stop })
    }
}

impl<const WRITE: bool> Ping<WRITE> {
    /// Offset of the byte that is polled, and that is stamped.
    fn last_byte(&self) -> usize {
        self.pair.size as usize - 1
    }

    #[cold]
    fn verify(&mut self, offset: usize) -> Result<(), TransportError> {
        // The stamp is no part of the pattern.
        let length = self.pair.size as usize - usize::from(WRITE);
        self.verified = Some(self.pair.holds_payload(offset, length)?);
        Ok(())
    }

    /// Waits for the peer's write; `false` when patience ends.
    #[inline]
    fn await_write(&mut self, patience: Patience) -> Result<bool, TransportError> {
        let (at, expected) = (self.last_byte(), stamp(self.sequence - 1));
        let mut waiting = Waiting::new(&self.stop, patience);
        while self.pair.region.load_u8(at).map_err(failed)? != expected {
            match waiting.turn()? {
                Turn::Spin => {}
                // A failed write shows here and nowhere else.
                Turn::Look => drop(self.pair.reap_sends()?),
                Turn::Expired => return Ok(false),
            }
        }
        if self.verified.is_none() {
            self.verify(0)?;
        }
        Ok(true)
    }

    /// Waits for the peer's send; `false` when patience ends.
    #[inline]
    fn await_receive(&mut self, patience: Patience) -> Result<bool, TransportError> {
        let mut completion = [Completion::default()];
        let mut waiting = Waiting::new(&self.stop, patience);
        loop {
            if let [completion] = self.pair.receive_queue.poll(&mut completion).map_err(failed)? {
                let number = completion.check().map_err(failed)?.id();
                if self.verified.is_none() {
                    self.verify(self.pair.slot_at(number))?;
                }
                self.pair.post_receive(self.receives)?;
                self.receives += 1;
                return Ok(true);
            }
            match waiting.turn()? {
                Turn::Spin => {}
                Turn::Look => drop(self.pair.reap_sends()?),
                Turn::Expired => return Ok(false),
            }
        }
    }
}

impl<const WRITE: bool> Initiator for Ping<WRITE> {
    fn depth(&self) -> usize {
        1
    }

    #[inline]
    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        self.token = operation.token;
        if WRITE {
            // The message before is not read from here any more: its echo proves that the peer has
            // executed it in full, and a retransmission is acknowledged without being executed.
            let at = self.pair.message_at() + self.last_byte();
            self.pair.region.store_u8(at, stamp(self.sequence)).map_err(failed)?;
        }
        let signaled = self.sequence.is_multiple_of(self.moderation);
        if signaled {
            // The signalled send before this one was answered many messages ago, so that its
            // completion is most likely here; the queue has room for several.
            self.pair.reap_sends()?;
        }
        self.pair.post(&self.request.signaled(signaled), &self.stop)?;
        self.sequence += 1;
        Ok(())
    }

    #[inline]
    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        let arrived =
            if WRITE { self.await_write(patience)? } else { self.await_receive(patience)? };
        if arrived {
            done.push(self.token);
        }
        Ok(())
    }

    fn confirm(&mut self, _patience: Patience) -> Result<Received, TransportError> {
        // Each echo was a confirmation.
        let bytes = self.sequence * u64::from(self.pair.size);
        Ok(Received { messages: self.sequence, bytes, ..Received::default() })
    }

    fn verified(&self) -> (u64, u64) {
        // Of a written message of one byte, the stamp is all there is.
        match self.verified {
            Some(same) if !WRITE || self.pair.size > 1 => (1, u64::from(!same)),
            _ => (0, 0),
        }
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.pair.describe()
    }
}

/// Push by write or by send.
#[derive(Debug)]
pub struct Push {
    pair: Pair,
    request: SendRequest,
    flush: SendRequest,
    depth: usize,
    moderation: u64,
    // Tokens of what is outstanding, a ring of `depth` places: posted and done count its two ends.
    tokens: Vec<u64>,
    posted: u64,
    done: u64,
    // What is known to be done, of which `done` has been handed over.
    reached: u64,
    // `posted` after the last signalled request: what lies above has no completion coming.
    signaled: u64,
    receives: u64,
    stop: StopSignal,
}

impl VerbsInitiator for Push {
    fn over(pair: Pair, remote: RemoteRegion, stop: StopSignal) -> Result<Self, TransportError> {
        let verb = match pair.plan.operation {
            VerbsOperation::Write => Verb::Write(remote.at(0)),
            VerbsOperation::Send => Verb::Send,
        };
        let depth = pair.plan.depth.max(1);
        Ok(Self {
            request: pair.message_request(verb),
            // Writes nothing, and completes when all before it is done.
            flush: pair.empty_request(Verb::Write(remote.at(0))),
            depth: depth as usize,
            moderation: u64::from(pair.moderation()),
            tokens: vec![0; depth as usize],
            posted: 0,
            done: 0,
            reached: 0,
            signaled: 0,
            receives: pair.next_receive(),
            pair,
            stop,
        })
    }
}

impl Push {
    #[cold]
    fn post_flush(&mut self) -> Result<(), TransportError> {
        let flush = SendRequest { id: self.posted, ..self.flush };
        self.pair.queue_pair.post_send(&flush).map_err(failed)?;
        self.signaled = self.posted;
        Ok(())
    }
}

/// Everything up to `reached` is done: hands its tokens over, as far as there is room.
#[inline]
fn advance(tokens: &[u64], done: &mut u64, reached: u64, completed: &mut Completed) {
    while *done < reached && completed.room() > 0 {
        completed.push(tokens[(*done % tokens.len() as u64) as usize]);
        *done += 1;
    }
}

impl Initiator for Push {
    fn depth(&self) -> usize {
        self.depth
    }

    #[inline]
    fn submit(&mut self, operation: Operation) -> Result<(), TransportError> {
        go_on(&self.stop)?;
        self.tokens[(self.posted % self.depth as u64) as usize] = operation.token;
        let posted = self.posted + 1;
        let signaled = posted.is_multiple_of(self.moderation);
        let request = SendRequest { id: posted, ..self.request }.signaled(signaled);
        self.pair.queue_pair.post_send(&request).map_err(failed)?;
        self.posted = posted;
        if signaled {
            self.signaled = posted;
        }
        Ok(())
    }

    #[inline]
    fn complete(&mut self, patience: Patience, done: &mut Completed) -> Result<(), TransportError> {
        if self.signaled == self.reached && self.posted > self.reached {
            self.post_flush()?;
        }
        let mut completions = [Completion::default(); 4];
        let mut waiting = Waiting::new(&self.stop, patience);
        loop {
            advance(&self.tokens, &mut self.done, self.reached, done);
            if !done.tokens().is_empty() {
                return Ok(());
            }
            for completion in self.pair.send_queue.poll(&mut completions).map_err(failed)? {
                // A request to confirm carries the number of the message before it.
                self.reached = completion.check().map_err(failed)?.id();
            }
            if self.reached == self.done && waiting.turn()? == Turn::Expired {
                return Ok(());
            }
        }
    }

    fn confirm(&mut self, patience: Patience) -> Result<Received, TransportError> {
        // Two immediates of 32 bits: the high and the low word of the count.
        for word in [(self.posted >> 32) as u32, self.posted as u32] {
            let request =
                SendRequest { id: self.posted, ..self.pair.empty_request(Verb::SendImm(word)) };
            self.pair.queue_pair.post_send(&request).map_err(failed)?;
        }
        let mut completion = [Completion::default()];
        let mut waiting = Waiting::new(&self.stop, patience);
        let number = loop {
            if let [completion] = self.pair.receive_queue.poll(&mut completion).map_err(failed)? {
                break completion.check().map_err(failed)?.id();
            }
            match waiting.turn()? {
                Turn::Spin => {}
                Turn::Look => drop(self.pair.reap_sends()?),
                Turn::Expired => {
                    return Err(failed(format!(
                        "the receiver did not confirm within {:?}",
                        patience.0
                    )));
                }
            }
        };
        let mut counts = [0; CONFIRMATION];
        self.pair.region.copy_out(self.pair.slot_at(number), &mut counts).map_err(failed)?;
        self.pair.post_receive(self.receives)?;
        self.receives += 1;
        let (messages, bytes) = counts.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).unwrap_or(0);
        Ok(Received { messages: word(messages), bytes: word(bytes), ..Received::default() })
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.pair.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_tokens_than_fit_at_once_are_handed_over_in_turns() {
        let tokens: Vec<u64> = (0..1000).map(|place| 10 * place).collect();
        let (mut done, mut completed) = (600, Completed::new());
        advance(&tokens, &mut done, 1100, &mut completed);
        assert_eq!(completed.tokens().len(), Completed::CAPACITY);
        assert_eq!(done, 600 + Completed::CAPACITY as u64);
        completed.clear();
        advance(&tokens, &mut done, 1100, &mut completed);
        assert_eq!(done, 1100);
        assert_eq!(completed.tokens().last(), Some(&990), "place 1099 of a ring of 1000");
    }
}
