//! What of a plan's wishes is in force on a pair.

use std::collections::BTreeMap;

use super::{Pair, pair::INLINE};
use crate::{
    plan::{Pattern, TransportName},
    transport::{Pieces, TransportError},
};

/// Sends between two signalled ones in a ping-pong, where at most one is in flight.
const PINGS_PER_SIGNAL: u32 = 16;

/// The most sends between two signalled ones with `depth` in flight: at least four completions a
/// depth, so that the queue is refilled before it runs dry.
#[must_use]
pub fn largest_moderation(depth: u32) -> u32 {
    (depth / 4).max(1)
}

impl Pair {
    /// Whether messages go inline: as far as the queue pair allows (asked of it, not of a table; it
    /// may allow more than was asked for) and no further than was wished.
    #[must_use]
    pub fn inline(&self) -> bool {
        // Memory on the device has no address to copy from.
        !self.plan.settings.memory.on_device
            && !self.plan.verbs.operation.is_one_sided()
            && self.message.piece() <= self.inline_limit()
    }

    /// Bytes that one side may have sent of which it does not know yet that they arrived.
    pub(super) fn most_in_flight(&self) -> u64 {
        let messages = u64::from(self.plan.depth.max(1)) * self.lanes.len() as u64;
        messages.saturating_mul(self.message.size() as u64)
    }

    /// Refuses what was asked for with `-I` and is not had.
    pub(super) fn inline_as_asked(&self) -> Result<(), TransportError> {
        let could =
            !self.plan.settings.memory.on_device && !self.plan.verbs.operation.is_one_sided();
        match self.plan.settings.inline {
            Some(asked) if could && self.message.piece() <= asked && !self.inline() => {
                Err(TransportError::Unsupported(format!(
                    "a queue pair of {} takes {} B inline at most, and {asked} B were asked for \
                     (-I); ask for no more, or leave it out",
                    self.port.port.device,
                    self.inline_limit()
                )))
            }
            _ => Ok(()),
        }
    }

    fn inline_limit(&self) -> u32 {
        let wish = self.plan.settings.inline.unwrap_or(INLINE);
        let granted = self.lanes.iter().map(|lane| lane.queue_pair.capabilities().max_inline).min();
        wish.min(granted.unwrap_or(0))
    }

    /// Sends from one signalled one to the next.
    pub(super) fn moderation(&self) -> u32 {
        match self.plan.cell.pattern {
            // Its pieces take many places, which are to come free with each.
            Pattern::Latency if self.message.is_split() => 1,
            Pattern::Latency | Pattern::Calls | Pattern::Ps => PINGS_PER_SIGNAL,
            _ => {
                let most = largest_moderation(self.plan.depth);
                self.plan.settings.completion_moderation.clamp(1, most)
            }
        }
    }

    /// How messages are cut, for the other side to do the same.
    #[must_use]
    pub fn pieces(&self) -> Pieces {
        match self.message.is_split() {
            true => Pieces::Of(self.message.piece()),
            false => Pieces::Whole,
        }
    }

    /// Messages that are posted by one call.
    pub(super) fn list(&self) -> u32 {
        self.plan.list()
    }

    /// What is in force, by name, for a report.
    #[must_use]
    pub fn describe(&self) -> BTreeMap<String, String> {
        let settings = &self.plan.settings;
        let mut described = BTreeMap::from([
            ("inline limit, B".to_owned(), self.inline_limit().to_string()),
            ("inline".to_owned(), if self.inline() { "yes" } else { "no" }.to_owned()),
            ("receive depth".to_owned(), self.receives.to_string()),
            ("completion moderation".to_owned(), self.moderation().to_string()),
            ("interface".to_owned(), self.interface.to_string()),
            ("completions".to_owned(), settings.completions.to_string()),
            ("client memory".to_owned(), self.regions.to_string()),
            ("server memory".to_owned(), self.peer_memory.clone()),
            ("service".to_owned(), self.plan.verbs.service.to_string()),
            ("service level".to_owned(), settings.service_level.to_string()),
            ("timeout exponent".to_owned(), settings.timeout.to_string()),
        ]);
        if self.plan.cell.pattern != Pattern::Latency {
            described.insert("queue pairs".to_owned(), self.lanes.len().to_string());
            described.insert("post list".to_owned(), self.list().to_string());
        }
        if let TransportName::Verbs(asked) = &self.plan.cell.transport
            && asked.operation != self.plan.verbs.operation
        {
            described.insert("arrival".to_owned(), "told by an immediate".to_owned());
        }
        if self.message.is_split() {
            let (pieces, longest) = (self.message.pieces(), self.message.piece());
            described.insert("pieces".to_owned(), format!("{pieces}, of at most {longest} B"));
        }
        let buffers = self.plan.buffers().len();
        if buffers > 0 {
            let words = format!("gathered from {buffers} by the adapter");
            described.insert("buffers".to_owned(), words);
        }
        if self.shared.is_some() {
            described.insert("receive queue".to_owned(), "shared".to_owned());
        }
        described
    }
}
