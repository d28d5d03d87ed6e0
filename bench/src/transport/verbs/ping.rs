//! Ping-pong on the side that is timed: by operations that arrive, and by those that the initiator
//! does alone.

use std::{collections::BTreeMap, time::Instant};

use fabricbench_verbs::{Completion, RemoteRegion, SendRequest};

use super::{
    Pair, REPEAT, VerbsInitiator, failed,
    pair::COUNT,
    sleep::Awaited,
    split::Splitter,
    stamp,
    word::{Word, atomic},
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
    request: SendRequest,
    sequence: u64,
    moderation: u64,
    token: u64,
    receives: u64,
    // Messages carry a stamp, and are sent again after a silence.
    lossy: bool,
    lost: u64,
    verified: Option<bool>,
    split: Option<Box<Splitter>>,
    stop: StopSignal,
}

impl<const POLLED: bool> VerbsInitiator for Ping<POLLED> {
    fn over(pair: Pair, remote: RemoteRegion, stop: StopSignal) -> Result<Self, TransportError> {
        Ok(Self {
            request: pair.message_request(0, &remote),
            sequence: 0,
            moderation: u64::from(pair.moderation()),
            token: 0,
            receives: pair.next_receive(),
            lossy: pair.plan.verbs.service.is_lossy(),
            lost: 0,
            verified: None,
            // What is polled in memory has no completion here.
            split: if POLLED { None } else { pair.splitter()? },
            pair,
            stop,
        })
    }
}

impl<const POLLED: bool> Ping<POLLED> {
    /// Offset of the byte that is polled, and that is stamped.
    fn last_byte(&self) -> usize {
        self.pair.size as usize - 1
    }

    #[cold]
    fn verify(&mut self, offset: usize) -> Result<(), TransportError> {
        // The stamp is no part of the pattern.
        let length = self.pair.size as usize - usize::from(self.pair.is_stamped());
        self.verified = Some(self.pair.holds_payload(offset, length)?);
        Ok(())
    }

    /// Looks for failures, which show here and nowhere else; and where messages may be lost, sends
    /// the last one again after a silence since `silent`.
    #[cold]
    fn look(&mut self, silent: &mut Option<Instant>) -> Result<(), TransportError> {
        self.pair.reap_sends()?;
        if self.lossy && silent.get_or_insert_with(Instant::now).elapsed() > REPEAT {
            self.lost += 1;
            self.pair.post(0, &self.request, &self.stop)?;
            *silent = None;
        }
        Ok(())
    }

    /// Waits for the peer's write; `false` when patience ends.
    #[inline]
    fn await_write(&mut self, patience: Patience) -> Result<bool, TransportError> {
        let at = self.pair.layout.target(0) + self.last_byte();
        let expected = stamp(self.sequence - 1);
        let (stop, mut silent) = (self.stop.clone(), None);
        let mut waiting = Waiting::new(&stop, patience);
        while self.pair.region.load_u8(at).map_err(failed)? != expected {
            match waiting.turn()? {
                Turn::Spin => {}
                Turn::Look => self.look(&mut silent)?,
                Turn::Expired => return Ok(false),
            }
        }
        if self.verified.is_none() {
            self.verify(self.pair.layout.target(0))?;
        }
        Ok(true)
    }

    /// Waits for a receive to complete; `false` when patience ends.
    #[inline]
    fn await_receive(&mut self, patience: Patience) -> Result<bool, TransportError> {
        let mut completion = [Completion::default()];
        let (stop, mut silent) = (self.stop.clone(), None);
        let mut waiting = Waiting::new(&stop, patience);
        loop {
            if let [completion] = self.pair.receive_queue.poll(&mut completion).map_err(failed)? {
                let number = completion.check().map_err(failed)?.id() & COUNT;
                if let Some(split) = &mut self.split {
                    split.sample(self.pair.receive_queue.stamp());
                }
                let offset = self.pair.arrived_at(0, number);
                // An answer that comes twice, since it was asked for again, answers nothing.
                let fresh = !self.lossy
                    || self.pair.region.load_u8(offset + self.last_byte()).map_err(failed)?
                        == stamp(self.sequence - 1);
                if fresh && self.verified.is_none() {
                    self.verify(offset)?;
                }
                self.pair.post_receive(0, self.receives)?;
                self.receives += 1;
                if fresh {
                    return Ok(true);
                }
            }
            match self.pair.turn(&mut waiting, Awaited::Receives)? {
                Turn::Spin => {}
                Turn::Look => self.look(&mut silent)?,
                Turn::Expired => return Ok(false),
            }
        }
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
        if POLLED || self.lossy {
            // The message before is not read from here any more: its echo proves that the peer has
            // executed it in full, and a retransmission is acknowledged without being executed.
            let at = self.pair.layout.message(0) + self.last_byte();
            self.pair.region.store_u8(at, stamp(self.sequence)).map_err(failed)?;
        }
        let signaled = self.sequence.is_multiple_of(self.moderation);
        if signaled {
            // The signalled send before this one was answered many messages ago, so that its
            // completion is most likely here; the queue has room for several.
            self.pair.reap_sends()?;
        }
        self.pair.post(0, &self.request.signaled(signaled), &self.stop)?;
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
        let bytes = self.sequence * u64::from(self.pair.size);
        Ok(Received { messages: self.sequence, bytes, ..Received::default() })
    }

    fn is_lossy(&self) -> bool {
        self.lossy
    }

    #[inline]
    fn lost(&self) -> u64 {
        self.lost
    }

    fn verified(&self) -> (u64, u64) {
        // Of a stamped message of one byte, the stamp is all there is.
        match self.verified {
            Some(same) if !self.pair.is_stamped() || self.pair.size > 1 => (1, u64::from(!same)),
            _ => (0, 0),
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
    request: SendRequest,
    word: Option<Word>,
    token: u64,
    completed: u64,
    split: Option<Box<Splitter>>,
    stop: StopSignal,
}

impl VerbsInitiator for Ask {
    fn over(pair: Pair, remote: RemoteRegion, stop: StopSignal) -> Result<Self, TransportError> {
        let request = pair.message_request(0, &remote);
        let word = Word::of(pair.plan.verbs.operation);
        let split = pair.splitter()?;
        Ok(Self { pair, request, word, token: 0, completed: 0, split, stop })
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
        let request = atomic(self.request, self.completed);
        self.pair.post(0, &request, &self.stop)
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
        let bytes = self.completed * u64::from(self.pair.size);
        Ok(Received { messages: self.completed, bytes, ..Received::default() })
    }

    fn verified(&self) -> (u64, u64) {
        match &self.word {
            Some(word) => word.verified(),
            // The last read has overwritten all others with the same.
            None if self.completed > 0 => {
                let (target, size) = (self.pair.layout.target(0), self.pair.size as usize);
                (1, u64::from(!self.pair.holds_payload(target, size).unwrap_or(false)))
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
