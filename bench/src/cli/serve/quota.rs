//! How much of the host a client may have.

use std::time::Duration;

use clap::Args;

use super::super::options::{parse_duration, parse_reply};
use crate::session::Quota;

/// What no client exceeds.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits of a client")]
pub(super) struct QuotaOptions {
    /// Largest message [default: 4G]
    #[arg(long, value_name = "SIZE", value_parser = parse_reply)]
    limit_message: Option<u64>,
    /// Memory for the messages of a test [default: half of this host's]
    #[arg(long, value_name = "SIZE", value_parser = parse_reply)]
    limit_memory: Option<u64>,
    /// Time from its turn to its end [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    limit_time: Option<Duration>,
    /// Connections of a test over TCP or gRPC [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit_connections: Option<u64>,
    /// Queue pairs of a test over verbs [default: 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit_queue_pairs: Option<u64>,
}

impl QuotaOptions {
    pub(super) fn quota(&self) -> Quota {
        let usual = Quota::default();
        Quota {
            message: self.limit_message.unwrap_or(usual.message),
            memory: self.limit_memory.unwrap_or(usual.memory),
            time: self.limit_time.or(usual.time),
            connections: self.limit_connections.unwrap_or(usual.connections),
            queue_pairs: self.limit_queue_pairs.unwrap_or(usual.queue_pairs),
        }
    }
}
