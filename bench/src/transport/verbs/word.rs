//! The word that atomics work on, and what they must give back.

use fabricbench_verbs::{Operation as Verb, SendRequest};

use super::{Pair, failed, layout::Place};
use crate::{
    plan::{ATOMIC_BYTES, VerbsOperation},
    transport::TransportError,
};

/// `request` as the atomic number `sequence` (from 0) on its word; any other request as it is.
///
/// The word counts the atomics: each finds in it the number of those before it and leaves one more.
#[inline]
pub(super) fn atomic(request: SendRequest, sequence: u64) -> SendRequest {
    match request.operation {
        Verb::CompareSwap { remote, .. } => {
            let operation = Verb::CompareSwap { remote, compare: sequence, swap: sequence + 1 };
            SendRequest { operation, ..request }
        }
        _ => request,
    }
}

/// Checks of the values that atomics give back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Word {
    compared: u64,
    different: u64,
}

impl Word {
    /// For an atomic; `None` for what has no word.
    pub(super) fn of(operation: VerbsOperation) -> Option<Self> {
        operation.is_atomic().then(Self::default)
    }

    /// The atomic number `sequence` of `lane` is done and no other after it has been started: it
    /// must have found `sequence`.
    #[inline]
    pub(super) fn returned(
        &mut self,
        pair: &Pair,
        lane: usize,
        sequence: u64,
    ) -> Result<(), TransportError> {
        let found = read(pair, pair.layout.target(lane))?;
        self.compared += 1;
        self.different += u64::from(found != sequence);
        Ok(())
    }

    /// Values compared, and of these different.
    pub(super) fn verified(&self) -> (u64, u64) {
        (self.compared, self.different)
    }
}

/// A word of this side's memory, in the byte order of the host, which is that of atomics.
#[inline]
pub(super) fn read(pair: &Pair, place: Place) -> Result<u64, TransportError> {
    let mut word = [0; ATOMIC_BYTES as usize];
    pair.regions.copy_out(place, &mut word).map_err(failed)?;
    Ok(u64::from_ne_bytes(word))
}
