//! What a server's operator lets a client have of the host.

use std::time::Duration;

use crate::{
    observe::total_memory,
    plan::{Cell, Pattern, TransportName},
    transport::{Offer, TransportError},
};

/// How much a client may have, as the operator of the server gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of a message (`--limit-message`).
    pub message: u64,
    /// Bytes of memory for the messages of a slice (`--limit-memory`).
    pub memory: u64,
    /// From a client's turn to the end of its last slice (`--limit-time`); `None`: as long as it takes.
    pub time: Option<Duration>,
    /// TCP connections of a slice, of which each may have a thread (`--limit-connections`).
    pub connections: u64,
    /// Queue pairs of a slice (`--limit-queue-pairs`).
    pub queue_pairs: u64,
}

impl Default for Quota {
    /// 4 GiB, half of the memory, any time, 1,024 and 16,384.
    fn default() -> Self {
        Self {
            message: 4 << 30,
            memory: total_memory().map_or(u64::MAX, |all| all / 2),
            time: None,
            connections: 1024,
            queue_pairs: 16_384,
        }
    }
}

impl Quota {
    /// Refuses a slice that is over a limit by what it asks for.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] with the limit and the option that raises it.
    pub fn admit(&self, cell: &Cell, depth: u32, offers: &[Offer]) -> Result<(), TransportError> {
        within("a message of", cell.largest_message(), " B", self.message, "message")?;
        let connections = offers.iter().map(Offer::connections).fold(0, u64::saturating_add);
        within("all of", connections, " connections", self.connections, "connections")?;
        let queue_pairs = offers.iter().map(Offer::queue_pairs).fold(0, u64::saturating_add);
        within("all of", queue_pairs, " queue pairs", self.queue_pairs, "queue-pairs")?;
        self.admit_memory(over_sockets(cell, depth, connections))
    }

    /// Refuses a slice that takes so many bytes for its messages.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    pub fn admit_memory(&self, bytes: u64) -> Result<(), TransportError> {
        within("messages that take", bytes, " B of memory", self.memory, "memory")
    }
}

fn within(
    what: &str,
    asked: u64,
    of: &str,
    limit: u64,
    option: &str,
) -> Result<(), TransportError> {
    if asked <= limit {
        return Ok(());
    }
    Err(TransportError::Unsupported(format!(
        "{what} {asked}{of} is over this server's limit of {limit} (serve --limit-{option})"
    )))
}

/// Bytes of messages that a server of TCP or gRPC holds at once, at the most; 0 of verbs, whose memory
/// follows from its layout, and of tensors, whose memory is that of a model.
fn over_sockets(cell: &Cell, depth: u32, connections: u64) -> u64 {
    let (size, reply) = (cell.size, cell.reply_size());
    let each = match (&cell.transport, cell.pattern) {
        (TransportName::Verbs(_), _) | (_, Pattern::TensorPush | Pattern::TensorFetch) => 0,
        // Unary calls are held as a whole, with their replies.
        (TransportName::Grpc(..), Pattern::Calls | Pattern::Ps) => {
            size.saturating_add(reply).saturating_mul(depth.max(1).into())
        }
        (_, Pattern::Calls | Pattern::Ps) => size.saturating_add(reply),
        // One that comes, and one that goes.
        (_, Pattern::Bidirectional) => size.saturating_mul(2),
        _ => size,
    };
    each.saturating_mul(connections)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{RegionEnd, VerbsEndpoint, VerbsSettings};

    fn cell(transport: &str, pattern: Pattern, size: u64) -> Cell {
        let reply = pattern.is_called().then_some(24);
        Cell { reply, ..Cell::new(transport.parse().unwrap(), pattern, size) }
    }

    #[test]
    fn what_is_held_at_once_is_counted() {
        let held = |transport, pattern| over_sockets(&cell(transport, pattern, 1000), 8, 3);
        assert_eq!(held("tcp@lo", Pattern::Latency), 3000);
        assert_eq!(held("tcp@lo", Pattern::Bidirectional), 6000);
        assert_eq!(held("tcp@lo", Pattern::Calls), 3072);
        assert_eq!(held("grpc@lo", Pattern::Calls), 3 * 8 * 1024);
        assert_eq!(held("verbs-write", Pattern::Latency), 0);
        let most = cell("grpc@lo", Pattern::Calls, u64::MAX);
        assert_eq!(over_sockets(&most, 1, 2), u64::MAX);
    }

    #[test]
    fn queue_pairs_of_all_threads_are_counted() {
        let region = RegionEnd::default();
        let endpoint = VerbsEndpoint {
            queue_pairs: Vec::new(),
            lid: 0,
            gid: [0; 16],
            path_mtu: 1024,
            qkey: 0,
            host: region,
            messages: region,
            memory: String::new(),
            responder_resources: 1,
        };
        let settings = Box::new(VerbsSettings { queue_pairs: 3, ..VerbsSettings::default() });
        let workers = vec![endpoint.clone(); 2];
        let server = Offer::VerbsServer { server: 0, workers, settings: settings.clone() };
        let offers = [Offer::Verbs { endpoint, settings }, server];
        let admit = |queue_pairs| {
            let quota = Quota { queue_pairs, ..Quota::default() };
            let admitted = quota.admit(&cell("verbs-write", Pattern::Latency, 8), 1, &offers);
            admitted.map_err(|error| error.to_string())
        };
        assert_eq!(admit(5), Ok(()));
        let reason = admit(4).unwrap_err();
        assert!(reason.contains("5 queue pairs") && reason.contains("limit of 4"), "{reason}");
        assert!(reason.contains("serve --limit-queue-pairs"), "{reason}");
    }

    #[test]
    fn a_refusal_names_the_limit_and_its_option() {
        let quota = Quota { message: 1000, memory: 1999, ..Quota::default() };
        let refused = |size| {
            let over = quota.admit(&cell("tcp@lo", Pattern::Latency, size), 1, &[]);
            over.map_err(|error| error.to_string())
        };
        assert_eq!(refused(1000), Ok(()));
        let reason = refused(1001).unwrap_err();
        assert!(reason.contains("limit of 1000 (serve --limit-message)"), "{reason}");
        assert_eq!(quota.admit_memory(1999), Ok(()));
        let reason = quota.admit_memory(2000).unwrap_err().to_string();
        assert!(reason.contains("2000 B") && reason.contains("--limit-memory"), "{reason}");
    }
}
