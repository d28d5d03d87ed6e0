//! How a side waits for completions: polling, sleeping until an event, or the one and then the other.

use std::time::Duration;

use fabricbench_verbs::{CompletionChannel, CompletionQueue, Context};

use super::failed;
use crate::transport::{CompletionMode, TransportError, Turn, Waiting};

/// The longest sleep: how late the stop signal may be seen.
const NAP: Duration = Duration::from_millis(20);

/// Which completions a side is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// Of receives; of a queue pair that fails, these are flushed as well.
    Receives,
    /// Of sends.
    Sends,
    /// Of either.
    Both,
}

/// The channel of both completion queues of a pair, for those who do not only poll.
#[derive(Debug)]
pub(super) struct Sleep {
    channel: CompletionChannel,
    // Polls before the first sleep.
    spins: u32,
}

impl Sleep {
    /// `None` for those who only poll.
    pub(super) fn by(
        mode: CompletionMode,
        context: &Context,
    ) -> Result<Option<Self>, TransportError> {
        let spins = match mode {
            CompletionMode::Poll => return Ok(None),
            CompletionMode::Events => 0,
            CompletionMode::Hybrid { spins } => spins,
        };
        let channel = context.create_completion_channel().map_err(failed)?;
        Ok(Some(Self { channel, spins }))
    }

    pub(super) fn channel(&self) -> &CompletionChannel {
        &self.channel
    }

    /// One fruitless turn. The caller polls after it: first that makes sure that nothing came
    /// before the queue was armed, and then the sleep begins.
    #[cold]
    pub(super) fn turn<'a>(
        &self,
        waiting: &mut Waiting<'_>,
        queues: impl IntoIterator<Item = &'a CompletionQueue>,
    ) -> Result<Turn, TransportError> {
        if waiting.spun() < self.spins {
            return waiting.turn();
        }
        if !waiting.is_armed() {
            for queue in queues {
                queue.arm(false).map_err(failed)?;
            }
            waiting.arm();
            return Ok(Turn::Spin);
        }
        if self.channel.wait(NAP).map_err(failed)? {
            waiting.disarm();
        }
        waiting.look()
    }
}
