//! File descriptors: each connection takes one on both sides, and a process may have so many.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{plan::TransportName, transport::TransportError};

/// What a thread of a slice takes beside its connections: its listener, and what its runtime waits
/// by (epoll, and an event to wake it, each of them twice).
const A_THREAD: u64 = 5;

/// Lets this process have as many as it may without privilege: the limit in force is often 1,024
/// where the one above it is a million, for programs that use select(2), which this is not.
pub fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // What is refused is told when it is needed.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// What a connection takes on the server: of gRPC a second handle, by which it is closed before its time.
pub(super) fn served_connection(transport: &TransportName) -> u64 {
    match transport {
        TransportName::Grpc(..) => 2,
        TransportName::Tcp(_) | TransportName::Verbs(_) => 1,
    }
}

/// Whether `threads` may have `connections` more, all together, of which each takes `each`.
///
/// # Errors
/// [`TransportError::Unsupported`] with what is left and the way to more.
pub(super) fn admit_connections(
    connections: u64,
    each: u64,
    threads: u64,
) -> Result<(), TransportError> {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    // The one that lists them is among them, and then gone.
    let Ok(open) = fs::read_dir("/proc/self/fd").map(|entries| entries.count() as u64 - 1) else {
        return Ok(());
    };
    let needed = connections.saturating_mul(each).saturating_add(threads.saturating_mul(A_THREAD));
    let left = limit.saturating_sub(open);
    if needed <= left {
        return Ok(());
    }
    Err(TransportError::Unsupported(format!(
        "{connections} connections take {needed} file descriptors, and of the {limit} that this process \
         may have {left} are left: raise the limit (ulimit -n, LimitNOFILE of a unit), or give fewer \
         --connections or --threads"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_are_left_are_refused_with_the_way_to_more() {
        admit_connections(1, 2, 1).unwrap();
        let refused = admit_connections(u64::MAX >> 1, 1, 1);
        let Err(TransportError::Unsupported(reason)) = refused else {
            assert_eq!(getrlimit(Resource::Nofile).current, None, "{refused:?}");
            return;
        };
        assert!(reason.contains("file descriptors") && reason.contains("ulimit -n"), "{reason}");
    }
}
