//! The client's side before it is connected.

use std::marker::PhantomData;

use super::{Pair, PeerRegions, failed};
use crate::transport::{
    Answer, Initiator, Offer, Opening, StopSignal, TransportError, VerbsSettings,
};

/// What an opened pair becomes when it is connected.
pub trait VerbsInitiator: Initiator + Sized {
    /// Takes over the pair.
    ///
    /// # Errors
    /// The pair does not fit the pattern.
    fn over(pair: Pair, remote: PeerRegions, stop: StopSignal) -> Result<Self, TransportError>;
}

/// A pair with an offer to make.
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
        Offer::Verbs { endpoint: self.pair.endpoint(), settings: Box::new(self.peer.clone()) }
    }

    fn connect(mut self, answer: &Answer) -> Result<I, TransportError> {
        let remote = match answer {
            Answer::Verbs(peer) => self.pair.connect(peer)?,
            Answer::Managed { endpoint, key, address } => {
                self.pair.connect_by_manager(endpoint, key, *address, &self.stop)?
            }
            Answer::Tcp { .. } => {
                return Err(failed(
                    "the server answered with a listener where a queue pair was offered",
                ));
            }
        };
        I::over(self.pair, remote, self.stop)
    }
}
