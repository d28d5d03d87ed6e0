//! Whether the threads of a slice keep their processor while they wait.

use super::{Settings, Slice};
use crate::{
    plan::TransportName,
    report::{Wait, Waits},
    transport::{CompletionMode, verbs::responder_sleeps},
};

/// Of both sides. TCP sleeps in `recv` or `poll`, gRPC in tokio's `epoll`; of either, a client whose calls begin on a
/// schedule polls for the time of the next.
pub(super) fn waits(slice: &Slice, settings: &Settings) -> Waits {
    let TransportName::Verbs(verbs) = &slice.cell.transport else {
        let client = if slice.offered.is_some() { Wait::Polls } else { Wait::Sleeps };
        return Waits { client, server: Wait::Sleeps };
    };
    let side = |mode| match mode {
        CompletionMode::Poll => Wait::Polls,
        CompletionMode::Events => Wait::Sleeps,
        CompletionMode::Hybrid { .. } => Wait::PollsThenSleeps,
    };
    let server = match responder_sleeps(slice.cell.pattern, verbs.operation) {
        true => Wait::Sleeps,
        false => side(settings.peer_verbs.completions),
    };
    Waits { client: side(settings.verbs.completions), server }
}
