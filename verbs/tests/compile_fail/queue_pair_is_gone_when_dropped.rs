//! What was dropped cannot be used, and a queue pair cannot be had twice.

use fabricbench_verbs::{QueuePair, SendRequest};

fn post_after_drop(queue_pair: QueuePair, request: &SendRequest) {
    drop(queue_pair);
    let _ = queue_pair.post_send(request);
}

fn twice(queue_pair: &QueuePair) -> QueuePair {
    queue_pair.clone()
}

fn main() {}
