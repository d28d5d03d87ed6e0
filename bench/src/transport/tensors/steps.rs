//! The client's side of tensors: what a step asks for, and what comes back.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;

use super::{
    CallHeader, TensorSide, admit_tensors, assign, filled, in_place, nanoseconds, places, pushes,
    tensors, verify,
};
use crate::{
    plan::{CALL_REPLY, Cell, Payload, TensorCall, Tensors},
    stats::Histogram,
    transport::TransportError,
};

/// What the workers of a client have in common: the calls of a step, and what they push.
#[derive(Debug, Clone)]
pub struct Steps {
    pushes: bool,
    /// Of each server.
    calls: Arc<[Vec<TensorCall>]>,
    // Of each call, the tensors; none in a fetch.
    contents: Arc<[Vec<Vec<Bytes>>]>,
    payload: Payload,
    assigns: bool,
}

impl Steps {
    /// Those of `cell`.
    ///
    /// # Errors
    /// There is no memory for them, with `depth` calls in flight to each server.
    pub fn new(cell: &Cell, payload: Payload, depth: u32) -> Result<Self, TransportError> {
        admit_tensors(cell, depth, TensorSide::Client)?;
        let Tensors { assign, .. } = tensors(cell)?;
        let calls: Arc<[_]> = tensors(cell)?.calls(cell.servers()).into();
        let content = |call: &TensorCall| match pushes(cell) {
            true => filled(call, &payload),
            false => Ok(Vec::new()),
        };
        let contents: Result<Vec<Vec<_>>, TransportError> =
            calls.iter().map(|calls| calls.iter().map(content).collect()).collect();
        let (contents, pushes, assigns) = (contents?.into(), pushes(cell), *assign);
        Ok(Self { pushes, calls, contents, payload, assigns })
    }

    /// The calls of each server, by their number.
    pub(in crate::transport) fn calls_each(&self) -> Vec<usize> {
        self.calls.iter().map(Vec::len).collect()
    }

    /// The buffers of one call of `worker`.
    pub(in crate::transport) fn request(
        &self,
        server: usize,
        call: usize,
        worker: u32,
    ) -> Vec<Bytes> {
        let header = CallHeader { call: u32::try_from(call).unwrap_or(u32::MAX), worker };
        let header = Bytes::copy_from_slice(&header.to_bytes());
        let contents = self.contents.get(server).and_then(|calls| calls.get(call));
        std::iter::once(header).chain(contents.into_iter().flatten().cloned()).collect()
    }

    /// Bytes of the reply to one call.
    pub(in crate::transport) fn reply_size(&self, server: usize, call: usize) -> u64 {
        match self.call(server, call) {
            Some(call) if !self.pushes => call.bytes(),
            _ => CALL_REPLY,
        }
    }

    fn call(&self, server: usize, call: usize) -> Option<&TensorCall> {
        self.calls.get(server)?.get(call)
    }
}

/// What comes back to one worker, step by step.
#[derive(Debug)]
pub(in crate::transport) struct Replies {
    steps: Steps,
    // Of each call of each server, its place; none in a push.
    places: Vec<Vec<Vec<Vec<u8>>>>,
    steps_ended: u64,
    // Of the step under way, in nanoseconds.
    assigning: u64,
    assigned: Option<Histogram>,
    verified: (u64, u64),
}

impl Replies {
    /// # Errors
    /// There is no memory for what is to be assigned.
    pub(in crate::transport) fn new(steps: Steps) -> Result<Self, TransportError> {
        let mut all = Vec::new();
        if steps.assigns && !steps.pushes {
            for calls in &*steps.calls {
                all.push(calls.iter().map(places).collect::<Result<_, _>>()?);
            }
        }
        let assigned = steps.assigns.then(Histogram::new);
        Ok(Self { steps, places: all, steps_ended: 0, assigning: 0, assigned, verified: (0, 0) })
    }

    /// Takes the reply to one call. All tensors of the first step are compared: it is of the warm-up,
    /// where that disturbs nothing.
    ///
    /// # Errors
    /// It is no such reply.
    pub(in crate::transport) fn take(
        &mut self,
        server: usize,
        call: usize,
        reply: &[u8],
    ) -> Result<(), TransportError> {
        let expected = self.steps.reply_size(server, call);
        if reply.len() as u64 != expected {
            return Err(TransportError::Failed(format!(
                "the reply to a call of tensors has {} B where {expected} B were expected",
                reply.len()
            )));
        }
        if self.steps.pushes {
            let assigned = reply.first_chunk().copied().map_or(0, u64::from_be_bytes);
            self.assigning = self.assigning.saturating_add(assigned);
            return Ok(());
        }
        if self.steps_ended == 0
            && let Some(call) = self.steps.call(server, call)
        {
            let (compared, differ) = verify(call, &self.steps.payload, reply);
            self.verified.0 += compared;
            self.verified.1 += differ;
        }
        if let Some(places) = self.places.get_mut(server).and_then(|calls| calls.get_mut(call)) {
            let begun = Instant::now();
            assign(places.iter_mut().map(Vec::as_mut_slice), reply);
            self.assigning += nanoseconds(begun);
        }
        Ok(())
    }

    /// Every call of the step has been answered.
    pub(in crate::transport) fn end_step(&mut self) {
        self.steps_ended += 1;
        let assigning = std::mem::take(&mut self.assigning);
        if let Some(assigned) = &mut self.assigned {
            assigned.record(assigning);
        }
    }

    pub(in crate::transport) fn steps_ended(&self) -> u64 {
        self.steps_ended
    }

    /// Tensors compared, those in their places included, and of these different.
    pub(in crate::transport) fn verified(&self) -> (u64, u64) {
        let mut verified = self.verified;
        if self.steps_ended > 0 {
            for (places, calls) in self.places.iter().zip(&*self.steps.calls) {
                for (tensors, call) in places.iter().zip(calls) {
                    let (compared, differ) = in_place(call, &self.steps.payload, tensors.iter());
                    verified = (verified.0 + compared, verified.1 + differ);
                }
            }
        }
        verified
    }

    /// What the assignments of each step took together, in nanoseconds.
    pub(in crate::transport) fn assigned(&self) -> Option<&Histogram> {
        self.assigned.as_ref()
    }
}
