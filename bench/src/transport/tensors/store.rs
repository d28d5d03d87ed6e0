//! The server's side of tensors: what a parameter server has of them.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use bytes::Bytes;

use super::{
    CallHeader, HEADER, assign, filled, in_place, nanoseconds, places, pushes, tensors, verify,
};
use crate::{
    plan::{CALL_HEADER, Cell, Payload, TensorCall},
    transport::{Received, TransportError},
};

/// What one parameter server has: its tensors, or where they are assigned. Calls may come from several
/// threads.
#[derive(Debug)]
pub(in crate::transport) struct Store {
    calls: Vec<StoredCall>,
    workers: u32,
    pushes: bool,
    payload: Payload,
    messages: AtomicU64,
    bytes: AtomicU64,
    verified: AtomicU64,
    corrupt: AtomicU64,
}

#[derive(Debug)]
struct StoredCall {
    call: TensorCall,
    // In a fetch.
    content: Vec<Bytes>,
    // In a push that assigns.
    places: Vec<Mutex<Vec<u8>>>,
    // Of each worker, whether its first such call was here.
    seen: Vec<AtomicBool>,
}

impl Store {
    /// That of the parameter server number `server`.
    ///
    /// # Errors
    /// There is no memory for it, or no such server in the plan.
    pub(in crate::transport) fn new(
        cell: &Cell,
        server: usize,
        payload: Payload,
    ) -> Result<Self, TransportError> {
        let plan = tensors(cell)?;
        let mut shares = plan.calls(cell.servers());
        if server >= shares.len() {
            return Err(TransportError::Failed(format!(
                "{} parameter servers in the plan, and number {server} asked for",
                shares.len()
            )));
        }
        let workers = cell.roles.unwrap_or_default().workers;
        let pushes = pushes(cell);
        let mut calls = Vec::new();
        for call in shares.swap_remove(server) {
            let content = if pushes { Vec::new() } else { filled(&call, &payload)? };
            let places = if pushes && plan.assign { places(&call)? } else { Vec::new() };
            let seen = (0..workers).map(|_| AtomicBool::new(false)).collect();
            let places = places.into_iter().map(Mutex::new).collect();
            calls.push(StoredCall { call, content, places, seen });
        }
        let count = AtomicU64::default;
        Ok(Self {
            calls,
            workers,
            pushes,
            payload,
            messages: count(),
            bytes: count(),
            verified: count(),
            corrupt: count(),
        })
    }

    /// Bytes of the whole request that begins with these; `None` if they do not hold its header.
    ///
    /// # Errors
    /// There is no such call.
    pub(in crate::transport) fn request_size(
        &self,
        message: &[u8],
    ) -> Result<Option<usize>, TransportError> {
        let Some(header) = CallHeader::read(message) else { return Ok(None) };
        let stored = self.stored(header)?;
        let tensors = if self.pushes { stored.call.bytes() } else { 0 };
        Ok(Some(HEADER + tensors as usize))
    }

    /// Bytes of the largest request.
    pub(in crate::transport) fn largest_request(&self) -> u64 {
        let largest = self.calls.iter().map(|stored| stored.call.bytes()).max();
        CALL_HEADER + if self.pushes { largest.unwrap_or(0) } else { 0 }
    }

    fn stored(&self, header: CallHeader) -> Result<&StoredCall, TransportError> {
        let stored = self.calls.get(header.call as usize);
        stored.filter(|_| header.worker < self.workers).ok_or_else(|| {
            TransportError::Failed(format!(
                "call {} of worker {} where a step has {} calls, and {} workers make them",
                header.call,
                header.worker,
                self.calls.len(),
                self.workers
            ))
        })
    }

    /// Does what a request asks for; returns the buffers of the reply. All tensors of a worker's first
    /// step are compared: it is of the warm-up, where that disturbs nothing.
    ///
    /// # Errors
    /// It is no such request.
    pub(in crate::transport) fn answer(
        &self,
        request: &[u8],
    ) -> Result<Vec<Bytes>, TransportError> {
        let wrong = || TransportError::Failed("a request of another size than planned".to_owned());
        let header = CallHeader::read(request).ok_or_else(wrong)?;
        if self.request_size(request)? != Some(request.len()) {
            return Err(wrong());
        }
        let stored = self.stored(header)?;
        let tensors = request.get(HEADER..).ok_or_else(wrong)?;
        self.messages.fetch_add(stored.call.tensors.len() as u64, Relaxed);
        self.bytes.fetch_add(stored.call.bytes(), Relaxed);
        if !self.pushes {
            return Ok(stored.content.clone());
        }
        if let Some(seen) = stored.seen.get(header.worker as usize)
            && !seen.swap(true, Relaxed)
        {
            self.count(verify(&stored.call, &self.payload, tensors));
        }
        let (mut assigning, mut rest) = (0, tensors);
        for place in &stored.places {
            let mut place = lock(place);
            // Waiting for another worker's copy is no part of this one.
            let begun = Instant::now();
            let (tensor, after) = rest.split_at(place.len().min(rest.len()));
            assign(std::iter::once(place.as_mut_slice()), tensor);
            rest = after;
            assigning += nanoseconds(begun);
        }
        Ok(vec![Bytes::copy_from_slice(&assigning.to_be_bytes())])
    }

    fn count(&self, (compared, differ): (u64, u64)) {
        self.verified.fetch_add(compared, Relaxed);
        self.corrupt.fetch_add(differ, Relaxed);
    }

    /// What was moved: tensors and their bytes. Those in their places are compared here.
    pub(in crate::transport) fn received(&self) -> Received {
        for StoredCall { call, places, seen, .. } in &self.calls {
            if !places.is_empty() && seen.iter().any(|seen| seen.load(Relaxed)) {
                let tensors: Vec<_> = places.iter().map(lock).collect();
                self.count(in_place(call, &self.payload, tensors.iter().map(|guard| &**guard)));
            }
        }
        Received {
            messages: self.messages.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            verified: self.verified.load(Relaxed),
            corrupt: self.corrupt.load(Relaxed),
            returned: 0,
        }
    }
}

fn lock(place: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    // Nothing that holds the lock can panic half-way through.
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
