//! Message buffers whose size somebody else chose.

use super::TransportError;
use crate::{
    observe::available_memory,
    plan::{Buffers, Payload},
};

/// Zeroed memory for a message of `size` bytes, or a refusal instead of an abort.
///
/// Linux grants more than it has, and ends a process that uses it: so what is available is looked
/// at before, and a message may take half of it, since each side of a test has more than one copy.
///
/// # Errors
/// [`TransportError::Unsupported`] with the size and what is available.
pub(super) fn zeroed(size: u64) -> Result<Vec<u8>, TransportError> {
    admit(size).map_err(|available| no_memory(size, &available))?;
    zeroed_of_admitted(size)
}

/// The same of memory that was [admitted](admit), in one sum with other.
///
/// # Errors
/// There is none all the same.
pub(super) fn zeroed_of_admitted(size: u64) -> Result<Vec<u8>, TransportError> {
    let length = usize::try_from(size).map_err(|_| no_memory(size, ""))?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(length).map_err(|_| no_memory(size, ""))?;
    // Written to, so that the pages are there.
    buffer.resize(length, 0);
    Ok(buffer)
}

fn no_memory(size: u64, available: &str) -> TransportError {
    TransportError::Unsupported(format!(
        "no memory on {} for messages of {size} B{available}; take a smaller size",
        hostname()
    ))
}

/// What this host is called: reasons of both sides stand in one document.
pub(super) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether one side may take so many bytes of this host's memory: half of what is available.
///
/// # Errors
/// What is available, in words that go behind others.
pub(super) fn admit(bytes: u64) -> Result<(), String> {
    match available_memory() {
        Some(available) if bytes > available / 2 => {
            Err(format!(" ({available} B are available, and half of that is to be had)"))
        }
        _ => Ok(()),
    }
}

/// A message of `size` bytes with its payload, in these buffers or in one.
///
/// # Errors
/// As [`zeroed`]; buffers of another size together.
pub(super) fn filled(
    size: u64,
    payload: &Payload,
    buffers: Option<&Buffers>,
) -> Result<Vec<Vec<u8>>, TransportError> {
    let mut message = zeroed(size)?;
    payload.fill(&mut message);
    let Some(buffers) = buffers else { return Ok(vec![message]) };
    if let Some(reason) = buffers.impossible(size) {
        return Err(TransportError::Unsupported(reason));
    }
    let mut rest = message.as_slice();
    let cut = |&length: &u64| {
        // Together they are the message, which has an address here.
        let (buffer, after) = rest.split_at(rest.len().min(length as usize));
        rest = after;
        buffer.to_vec()
    };
    Ok(buffers.lengths.iter().map(cut).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_refused_in_words() {
        assert_eq!(zeroed(3).unwrap(), [0; 3]);
        for size in [available_memory().unwrap(), 1 << 45, u64::MAX] {
            let error = zeroed(size).unwrap_err();
            assert!(matches!(error, TransportError::Unsupported(_)));
            assert!(error.to_string().contains(&size.to_string()), "{error}");
        }
    }
}
