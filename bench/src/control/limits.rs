//! What no client may exceed, whatever it plans.

use crate::{
    plan::{Cell, MOST_ROLES, Roles},
    transport::TransportError,
};

/// The largest depth a client may ask for: each place costs memory of the server's.
const LARGEST_DEPTH: u32 = 1 << 16;

/// Whether a cell may be served.
///
/// # Errors
/// [`TransportError`]: what contradicts itself, and what is over a limit.
pub(super) fn within_limits(cell: &Cell, depth: u32) -> Result<(), TransportError> {
    if cell.size == 0 || cell.reply == Some(0) {
        return Err(TransportError::Failed("a message of 0 B transfers nothing".to_owned()));
    }
    if cell.reply.is_some() != cell.pattern.is_called() {
        return Err(TransportError::Failed(format!(
            "a size of replies belongs to the patterns calls and ps, and is not of the pattern {}",
            cell.pattern
        )));
    }
    if cell.roles.is_some() != cell.pattern.has_roles() {
        return Err(TransportError::Failed(format!(
            "parameter servers and workers belong to the patterns ps and tensor, and are not of the \
             pattern {}",
            cell.pattern
        )));
    }
    if let Some(Roles { servers, workers }) = cell.roles
        && [servers, workers].iter().any(|count| !(1..=MOST_ROLES).contains(count))
    {
        return Err(TransportError::Unsupported(format!(
            "{servers} parameter servers and {workers} workers; from 1 to {MOST_ROLES} each can be served"
        )));
    }
    if cell.tensors.is_some() != cell.pattern.is_of_tensors() {
        return Err(TransportError::Failed(format!(
            "a model's tensors belong to the pattern tensor, and are not of the pattern {}",
            cell.pattern
        )));
    }
    if let Some(reason) = cell.impossible() {
        return Err(TransportError::Unsupported(reason));
    }
    if depth > LARGEST_DEPTH {
        return Err(TransportError::Unsupported(format!(
            "a depth of {depth} is over this server's limit of {LARGEST_DEPTH}"
        )));
    }
    Ok(())
}
