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

/// Sends between two signalled ones; as the initiator's.
const PONGS_PER_SIGNAL: u64 = 16;

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
            if received.messages == 0 {
                verified(received, pair.holds_payload(0, last)?);
            }
            pair.region.store_u8(pair.message_at() + last, expected).map_err(failed)?;
            self.pong(&request, received)?;
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
            self.pong(&request, received)?;
            pair.post_receive(next)?;
            next += 1;
        }
    }

    #[inline]
    fn pong(&self, request: &SendRequest, received: &mut Received) -> Result<(), TransportError> {
        let signaled = received.messages.is_multiple_of(PONGS_PER_SIGNAL);
        if signaled {
            self.pair.reap_sends()?;
        }
        self.pair.queue_pair.post_send(&request.signaled(signaled)).map_err(failed)?;
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
        let served = self.push_loop(stop, received, |pair, received, completion| {
            let Some(count) = completion.immediate() else { return Ok(()) };
            count_up_to(received, count, pair.size);
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
        self.push_loop(stop, received, |pair, received, completion| {
            if completion.immediate().is_some() {
                return Ok(());
            }
            if received.messages == 0 {
                let slot = pair.slot_at(completion.id());
                verified(received, pair.holds_payload(slot, pair.size as usize)?);
            }
            received.messages += 1;
            received.bytes += u64::from(completion.byte_len());
            Ok(())
        })
    }

    /// Takes receives as they complete, posts new ones, and answers requests to confirm.
    fn push_loop(
        &self,
        stop: &StopSignal,
        received: &mut Received,
        mut on: impl FnMut(&Pair, &mut Received, &Completion) -> Result<(), TransportError>,
    ) -> Result<(), TransportError> {
        let pair = &self.pair;
        let mut next = pair.next_receive();
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
                on(pair, received, completion)?;
                pair.post_receive(next)?;
                next += 1;
                if completion.immediate().is_some() {
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

/// Takes over a count of which 32 bits are known: less than 2^32 messages lie between two
/// confirmations.
fn count_up_to(received: &mut Received, low: u32, size: u32) {
    let more = low.wrapping_sub(received.messages as u32);
    received.messages += u64::from(more);
    received.bytes = received.messages * u64::from(size);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_beyond_32_bits() {
        let mut received = Received { messages: u64::from(u32::MAX) - 1, ..Received::default() };
        count_up_to(&mut received, 3, 10);
        assert_eq!(received.messages, (1 << 32) + 3);
        assert_eq!(received.bytes, 10 * ((1 << 32) + 3));
    }
}
