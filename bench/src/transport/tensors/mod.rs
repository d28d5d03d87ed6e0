//! The tensors of a step in memory, on both sides, whatever carries them.
//!
//! A call that pushes is a [header](CallHeader) and its tensors, answered by the time that their
//! assignment took; one that fetches is a header alone, answered by the tensors. A tensor's content is
//! its part of one payload, that of the whole model, so that one in the place of another is seen.

mod steps;
mod store;

use std::time::Instant;

use bytes::Bytes;

pub(super) use steps::Replies;
pub use steps::Steps;
pub(super) use store::Store;

use super::{
    TransportError,
    buffer::{admit, hostname, zeroed_of_admitted},
};
use crate::plan::{CALL_HEADER, Cell, Pattern, Payload, Placed, TensorCall, Tensors};

const HEADER: usize = CALL_HEADER as usize;

/// Which call of a server's step, and whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallHeader {
    pub(super) call: u32,
    pub(super) worker: u32,
}

impl CallHeader {
    /// Two numbers of 32 bits, big-endian.
    pub(super) fn to_bytes(self) -> [u8; HEADER] {
        (u64::from(self.call) << 32 | u64::from(self.worker)).to_be_bytes()
    }

    /// The header of a message that begins with these, if they hold one.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let both = u64::from_be_bytes(*message.first_chunk()?);
        Some(Self { call: (both >> 32) as u32, worker: both as u32 })
    }
}

/// Both sides' part of a cell of tensors.
///
/// # Errors
/// The cell is of another pattern.
fn tensors(cell: &Cell) -> Result<&Tensors, TransportError> {
    cell.tensors.as_ref().ok_or_else(|| TransportError::Failed("no tensors in the plan".to_owned()))
}

fn pushes(cell: &Cell) -> bool {
    cell.pattern == Pattern::TensorPush
}

/// A side of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorSide {
    /// Its workers, all of them.
    Client,
    /// Its parameter servers, all of them.
    Server,
}

/// Makes sure that one side has the memory for a step with `depth` calls in flight to each server: its
/// tensors, their places, and what is under way. Half of what is available may be taken, since the
/// other side may be on the same host.
///
/// # Errors
/// [`TransportError::Unsupported`] with what is needed and what there is.
pub fn admit_tensors(cell: &Cell, depth: u32, side: TensorSide) -> Result<(), TransportError> {
    let Some(tensors) = &cell.tensors else { return Ok(()) };
    let (needed, holds) = tensor_memory(cell, depth, side);
    admit(needed).map_err(|available| {
        TransportError::Unsupported(format!(
            "no memory on {} for a step of model {}{available}: it takes {needed} B, {holds} B for tensors and the others for calls in flight; take a smaller model, or \
             fewer --workers or calls in flight (-t)",
            hostname(),
            tensors.model
        ))
    })
}

/// Bytes that one side takes for a step, and those of them in which it holds tensors.
#[must_use]
pub fn tensor_memory(cell: &Cell, depth: u32, side: TensorSide) -> (u64, u64) {
    let Some(tensors) = &cell.tensors else { return (0, 0) };
    let workers = u64::from(cell.roles.unwrap_or_default().workers);
    let in_flight = |calls: &Vec<TensorCall>| {
        let mut sizes: Vec<_> = calls.iter().map(TensorCall::bytes).collect();
        sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
        sizes.iter().take(depth.max(1) as usize).sum::<u64>()
    };
    let under_way: u64 = tensors.calls(cell.servers()).iter().map(in_flight).sum();
    let holds = match (side, pushes(cell)) {
        // Workers push the same memory, and servers serve it.
        (TensorSide::Client, true) | (TensorSide::Server, false) => cell.size,
        (TensorSide::Server, true) if tensors.assign => cell.size,
        (TensorSide::Client, false) if tensors.assign => cell.size.saturating_mul(workers),
        _ => 0,
    };
    (under_way.saturating_mul(workers).saturating_add(holds), holds)
}

/// The tensors of one call with their content, each in memory of its own.
///
/// # Errors
/// There is no memory for them.
fn filled(call: &TensorCall, payload: &Payload) -> Result<Vec<Bytes>, TransportError> {
    let fill = |tensor: &Placed| {
        let mut memory = zeroed_of_admitted(tensor.bytes.end - tensor.bytes.start)?;
        payload.fill_from(tensor.bytes.start as usize, &mut memory);
        Ok(Bytes::from(memory))
    };
    call.tensors.iter().map(fill).collect()
}

/// Memory for the tensors of one call to be copied to.
///
/// # Errors
/// There is none.
fn places(call: &TensorCall) -> Result<Vec<Vec<u8>>, TransportError> {
    call.tensors
        .iter()
        .map(|tensor| zeroed_of_admitted(tensor.bytes.end - tensor.bytes.start))
        .collect()
}

/// Copies the tensors of a call, which follow one another in `message`, to their places.
fn assign<'a>(places: impl Iterator<Item = &'a mut [u8]>, mut message: &[u8]) {
    for place in places {
        let (tensor, rest) = message.split_at(place.len().min(message.len()));
        let (begin, _) = place.split_at_mut(tensor.len());
        begin.copy_from_slice(tensor);
        std::hint::black_box(place);
        message = rest;
    }
}

/// Compares the tensors of a call, which follow one another in `message`, with what they should be:
/// how many there are, and how many differ.
fn verify(call: &TensorCall, payload: &Payload, mut message: &[u8]) -> (u64, u64) {
    let mut differ = 0;
    for tensor in &call.tensors {
        let length = (tensor.bytes.end - tensor.bytes.start) as usize;
        let (content, rest) = message.split_at(length.min(message.len()));
        let same =
            content.len() == length && payload.matches_from(tensor.bytes.start as usize, content);
        differ += u64::from(!same);
        message = rest;
    }
    (call.tensors.len() as u64, differ)
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Compares the tensors of a call with what they should be where they were copied to.
fn in_place<'a>(
    call: &TensorCall,
    payload: &Payload,
    tensors: impl Iterator<Item = &'a Vec<u8>>,
) -> (u64, u64) {
    let differ = tensors
        .zip(&call.tensors)
        .filter(|(tensor, placed)| !payload.matches_from(placed.bytes.start as usize, tensor));
    (call.tensors.len() as u64, differ.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Coalesce, Roles},
        transport::Received,
    };

    const LENGTHS: [u64; 3] = [5, 16, 9];

    fn cell(pattern: Pattern, assign: bool) -> Cell {
        let (model, lengths) = ("own".to_owned(), LENGTHS.to_vec());
        Cell {
            roles: Some(Roles { servers: 2, workers: 2 }),
            tensors: Some(Tensors { model, lengths, coalesce: Coalesce::All, assign }),
            ..Cell::new("tcp@lo".parse().unwrap(), pattern, 30)
        }
    }

    fn payload() -> Payload {
        Payload::new(3)
    }

    fn joined(buffers: &[Bytes]) -> Vec<u8> {
        buffers.concat()
    }

    /// The steps of `cell`, and its two servers.
    fn sides(cell: &Cell) -> (Steps, [Store; 2]) {
        let stores = [0, 1].map(|server| Store::new(cell, server, payload()).unwrap());
        (Steps::new(cell, payload(), 4).unwrap(), stores)
    }

    #[test]
    fn what_is_pushed_is_counted_assigned_and_compared() {
        let cell = cell(Pattern::TensorPush, true);
        let (steps, stores) = sides(&cell);
        assert_eq!(steps.calls_each(), [1, 1]);
        let mut replies = Replies::new(steps.clone()).unwrap();
        for worker in [0, 1, 1] {
            for (server, store) in stores.iter().enumerate() {
                let request = joined(&steps.request(server, 0, worker));
                let reply = joined(&store.answer(&request).unwrap());
                replies.take(server, 0, &reply).unwrap();
            }
            replies.end_step();
        }
        // The largest is alone; each worker's first are compared, and those in their places.
        let received = stores.iter().map(Store::received).fold(Received::default(), |a, b| a + b);
        let expected = Received { messages: 9, bytes: 90, verified: 9, corrupt: 0, returned: 0 };
        assert_eq!(received, expected);
        assert_eq!(replies.assigned().unwrap().len(), 3);
        assert_eq!((replies.verified(), replies.steps_ended()), ((0, 0), 3));
    }

    #[test]
    fn another_tensor_in_the_place_of_one_is_corrupt() {
        let (steps, stores) = sides(&cell(Pattern::TensorPush, true));
        let mut request = joined(&steps.request(1, 0, 0));
        // Of the second server, 5 and 9 bytes of the payload: 0 to 5, and 21 to 30.
        request[HEADER..HEADER + 5].fill(7);
        stores[1].answer(&request).unwrap();
        let received = stores[1].received();
        assert_eq!((received.verified, received.corrupt), (4, 2), "one of two, twice");
    }

    #[test]
    fn what_is_fetched_is_copied_and_compared() {
        let (steps, stores) = sides(&cell(Pattern::TensorFetch, true));
        let mut replies = Replies::new(steps.clone()).unwrap();
        let fetched: Vec<_> = [0, 1]
            .map(|server| {
                joined(&stores[server].answer(&joined(&steps.request(server, 0, 1))).unwrap())
            })
            .into();
        replies.take(0, 0, &fetched[0]).unwrap();
        replies.take(1, 0, &fetched[1]).unwrap();
        replies.end_step();
        assert_eq!(replies.verified(), (6, 0));
        // What is wrong later is seen in its place.
        let mut wrong = fetched[0].clone();
        wrong[15] ^= 1;
        replies.take(0, 0, &wrong).unwrap();
        assert_eq!(replies.verified(), (6, 1));
        let short = replies.take(0, 0, &wrong[1..]).unwrap_err().to_string();
        assert!(short.contains("15 B where 16 B"), "{short}");
    }

    #[test]
    fn requests_that_are_none_are_refused() {
        let (steps, stores) = sides(&cell(Pattern::TensorPush, false));
        let request = joined(&steps.request(0, 0, 0));
        let refused = |request: &[u8]| stores[0].answer(request).unwrap_err().to_string();
        assert!(refused(&request[..20]).contains("another size"));
        assert!(refused(&[0; 7]).contains("another size"));
        let header = |call, worker| CallHeader { call, worker }.to_bytes();
        assert!(refused(&header(1, 0)).contains("call 1 of worker 0"));
        assert!(refused(&header(0, 2)).contains("2 workers"));
        assert_eq!(stores[0].received(), Received::default());
        let nobody = Store::new(&cell(Pattern::TensorPush, false), 2, payload()).unwrap_err();
        assert!(nobody.to_string().contains("number 2"), "{nobody}");
    }
}
