//! The far side: echoes, or counts and confirms.

use fabricbench_verbs::{Completion, Operation as Verb, RemoteRegion, SendRequest};

use super::{Pair, failed, pair::CONFIRMATION, stamp};
use crate::{
    plan::{Pattern, VerbsOperation},
    transport::{
        Patience, Received, Responder, StopSignal, TransportError, Turn, VerbsEndpoint, Waiting,
        wait::go_on,
    },
};

/// A responder waits as long as its control connection lives.
const FOREVER: Patience = Patience(std::time::Duration::MAX);

/// Bytes of a written message that are looked at before it is confirmed; the rest is compared when
/// the slice is over, where it is not timed.
const LOOKED_AT: usize = 64;

/// The server's side of a pair.
#[derive(Debug)]
pub struct VerbsResponder {
    pair: Pair,
    remote: RemoteRegion,
}

impl VerbsResponder {
    /// Connects `pair` to the client's.
    ///
    /// # Errors
    /// As [`Pair::connect`].
    pub fn connect(pair: Pair, client: &VerbsEndpoint) -> Result<Self, TransportError> {
        let remote = pair.connect(client)?;
        Ok(Self { pair, remote })
    }
}

impl Responder for VerbsResponder {
    fn serve(self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError> {
        let mut received = Received::default();
        let served = match (self.pair.plan.cell.pattern, self.pair.plan.operation) {
            (Pattern::Latency, VerbsOperation::Write) => self.echo_writes(stop, &mut received),
            (Pattern::Latency, VerbsOperation::Send) => self.echo_sends(stop, &mut received),
            (Pattern::Bandwidth, VerbsOperation::Write) => self.confirm_writes(stop, &mut received),
            (Pattern::Bandwidth, VerbsOperation::Send) => self.sink_sends(stop, &mut received),
        };
        match served {
            Ok(()) | Err(TransportError::Stopped(_)) => Ok(received),
            Err(error) => Err(error),
        }
    }
}

impl VerbsResponder {
    fn echo_writes(
        &self,
        stop: &StopSignal,
        received: &mut Received,
    ) -> Result<(), TransportError> {
        let pair = &self.pair;
        let last = pair.size as usize - 1;
        let request = pair.message_request(Verb::Write(self.remote.at(0)));
        loop {
            go_on(stop)?;
            let expected = stamp(received.messages);
            let mut waiting = Waiting::new(stop, FOREVER);
            while pair.region.load_u8(last).map_err(failed)? != expected {
                if waiting.turn()? == Turn::Look {
                    pair.reap_sends()?;
                }
            }
            // Of a message of one byte, the stamp is all there is.
            if received.messages == 0 && last > 0 {
                verified(received, pair.holds_payload(0, last)?);
            }
            // The answer before is not read from here any more: this message proves that it arrived.
            pair.region.store_u8(pair.message_at() + last, expected).map_err(failed)?;
            self.pong(&request, received, stop)?;
        }
    }

    fn echo_sends(&self, stop: &StopSignal, received: &mut Received) -> Result<(), TransportError> {
        let pair = &self.pair;
        let request = pair.message_request(Verb::Send);
        let mut next = pair.next_receive();
        let mut completion = [Completion::default()];
        loop {
            go_on(stop)?;
            let mut waiting = Waiting::new(stop, FOREVER);
            let number = loop {
                if let [completion] = pair.receive_queue.poll(&mut completion).map_err(failed)? {
                    break completion.check().map_err(failed)?.id();
                }
                if waiting.turn()? == Turn::Look {
                    pair.reap_sends()?;
                }
            };
            if received.messages == 0 {
                verified(received, pair.holds_payload(pair.slot_at(number), pair.size as usize)?);
            }
            self.pong(&request, received, stop)?;
            pair.post_receive(next)?;
            next += 1;
        }
    }

    #[inline]
    fn pong(
        &self,
        request: &SendRequest,
        received: &mut Received,
        stop: &StopSignal,
    ) -> Result<(), TransportError> {
        let signaled = received.messages.is_multiple_of(u64::from(self.pair.moderation()));
        if signaled {
            self.pair.reap_sends()?;
        }
        self.pair.post(&request.signaled(signaled), stop)?;
        received.messages += 1;
        received.bytes += u64::from(self.pair.size);
        Ok(())
    }

    /// Writes arrive without a trace; only requests to confirm complete a receive.
    fn confirm_writes(
        &self,
        stop: &StopSignal,
        received: &mut Received,
    ) -> Result<(), TransportError> {
        let served = self.push_loop(stop, received, |pair, received, arrived| {
            let Arrived::RequestToConfirm { messages } = arrived else { return Ok(()) };
            received.messages = messages;
            received.bytes = messages.saturating_mul(u64::from(pair.size));
            let length = (pair.size as usize).min(LOOKED_AT);
            verified(received, pair.holds_payload(0, length)?);
            // So that the next look sees messages that came after this one.
            pair.region.fill(0, length, 0).map_err(failed)
        });
        // All of the last message but what was looked at (and wiped) above.
        let (size, looked) = (self.pair.size as usize, (self.pair.size as usize).min(LOOKED_AT));
        if received.messages > 0 && size > looked {
            let mut wanted = vec![0; size];
            self.pair.plan.payload.fill(&mut wanted);
            let mut copy = vec![0; size - looked];
            self.pair.region.copy_out(looked, &mut copy).map_err(failed)?;
            verified(received, copy == wanted[looked..]);
        }
        served
    }

    fn sink_sends(&self, stop: &StopSignal, received: &mut Received) -> Result<(), TransportError> {
        self.push_loop(stop, received, |pair, received, arrived| {
            let Arrived::Message { receive, length } = arrived else { return Ok(()) };
            if received.messages == 0 {
                let slot = pair.slot_at(receive);
                verified(received, pair.holds_payload(slot, pair.size as usize)?);
            }
            received.messages += 1;
            received.bytes += u64::from(length);
            Ok(())
        })
    }

    /// Takes receives as they complete, posts new ones, and answers requests to confirm.
    fn push_loop(
        &self,
        stop: &StopSignal,
        received: &mut Received,
        mut on: impl FnMut(&Pair, &mut Received, Arrived) -> Result<(), TransportError>,
    ) -> Result<(), TransportError> {
        let pair = &self.pair;
        let mut next = pair.next_receive();
        let mut words = CountWords::default();
        let mut completions = [Completion::default(); 32];
        loop {
            go_on(stop)?;
            let mut waiting = Waiting::new(stop, FOREVER);
            let arrived = loop {
                let arrived = pair.receive_queue.poll(&mut completions).map_err(failed)?;
                if !arrived.is_empty() {
                    break arrived.len();
                }
                if waiting.turn()? == Turn::Look {
                    pair.reap_sends()?;
                }
            };
            for completion in &completions[..arrived] {
                completion.check().map_err(failed)?;
                let arrived = match completion.immediate() {
                    None => Some(Arrived::Message {
                        receive: completion.id(),
                        length: completion.byte_len(),
                    }),
                    Some(word) => words.add(word),
                };
                if let Some(arrived) = arrived {
                    on(pair, received, arrived)?;
                }
                pair.post_receive(next)?;
                next += 1;
                if let Some(Arrived::RequestToConfirm { .. }) = arrived {
                    self.confirm(received)?;
                }
            }
        }
    }

    fn confirm(&self, received: &Received) -> Result<(), TransportError> {
        let pair = &self.pair;
        let mut counts = [0; CONFIRMATION];
        counts[..8].copy_from_slice(&received.messages.to_be_bytes());
        counts[8..].copy_from_slice(&received.bytes.to_be_bytes());
        pair.region.copy_in(pair.confirmation_at(), &counts).map_err(failed)?;
        pair.reap_sends()?;
        let request = SendRequest::new(0, Verb::Send, pair.confirmation());
        pair.queue_pair.post_send(&request).map_err(failed)
    }
}

fn verified(received: &mut Received, same: bool) {
    received.verified += 1;
    received.corrupt += u64::from(!same);
}

/// What a completed receive says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrived {
    /// A message, in the receive with this number.
    Message { receive: u64, length: u32 },
    /// The initiator has sent so many messages, and wants to know that they are here.
    RequestToConfirm { messages: u64 },
}

/// A request to confirm comes as two immediates: the high word of the count, then the low one.
#[derive(Debug, Default)]
struct CountWords {
    high: Option<u32>,
}

impl CountWords {
    fn add(&mut self, word: u32) -> Option<Arrived> {
        match self.high.take() {
            None => {
                self.high = Some(word);
                None
            }
            Some(high) => {
                let messages = u64::from(high) << 32 | u64::from(word);
                Some(Arrived::RequestToConfirm { messages })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_64_bits() {
        let mut words = CountWords::default();
        for messages in [7, (1 << 32) + 3, u64::MAX] {
            assert_eq!(words.add((messages >> 32) as u32), None);
            assert_eq!(words.add(messages as u32), Some(Arrived::RequestToConfirm { messages }));
        }
    }
}
