//! A queue pair completes to queues that exist: one that was dropped cannot be given.

use fabricbench_verbs::{ProtectionDomain, QueuePair, QueuePairOptions, Result};

fn without(domain: &ProtectionDomain) -> Result<QueuePair> {
    let options = QueuePairOptions::default();
    let queue = domain.context().create_completion_queue(16)?;
    drop(queue);
    domain.create_queue_pair(&queue, &queue, &options)
}

fn main() {}
