//! What must be true of every figure before it is one.

use super::{Observation, Slice, SliceError};
use crate::{
    plan::Pattern,
    report::{Counters, PayloadCheck},
};

/// Refuses a slice whose two ends do not agree, whose payload is not what was sent, or whose path
/// is not proven. `sent` and `returned` are messages that this end counted.
pub(super) fn check(
    slice: &Slice,
    (sent, returned): (u64, u64),
    observation: &Observation,
    payload: PayloadCheck,
    counters: &Counters,
) -> Result<(), SliceError> {
    let failed = |reason: String| Err(SliceError::Failed(reason));
    if let Some(error) = &observation.error {
        return failed(format!("the server says: {error}"));
    }
    let received = observation.received;
    let (moved, bytes) = slice.cell.arrivals(sent);
    let arrived = (received.messages, received.bytes) == (moved, bytes);
    // Of a read the far side knows nothing; of what may be lost, the loss is in the record.
    if !(arrived || slice.cell.is_read() || slice.cell.is_lossy()) {
        let what = if slice.cell.pattern.is_of_tensors() { "tensors" } else { "messages" };
        let (ours, theirs) = match slice.cell.pattern {
            Pattern::Fetch | Pattern::TensorFetch => ("fetched", "served"),
            _ => ("sent", "received"),
        };
        return failed(format!(
            "{moved} {what} of together {bytes} B were {ours}, and {} of together {} B {theirs}",
            received.messages, received.bytes
        ));
    }
    if received.returned != returned && !slice.cell.is_lossy() {
        return failed(format!(
            "the server pushed {} messages, and {returned} arrived here",
            received.returned
        ));
    }
    if payload.corrupt_messages > 0 {
        return failed(format!(
            "{} of {} verified messages arrived with other content than was sent",
            payload.corrupt_messages, payload.verified_messages
        ));
    }
    for (side, counters) in [("client", counters), ("server", &observation.counters)] {
        if let Some(proof) = &counters.proof
            && proof.holds == Some(false)
        {
            return failed(format!("path not proven on the {side}: {}", proof.text));
        }
    }
    Ok(())
}
