//! Attaching moves what posting reads: it needs the queue pair for itself.

use fabricbench_verbs::{MemoryRegion, QueuePair, Result, SendRequest};

fn beside(queue_pair: &mut QueuePair, region: &MemoryRegion, request: &SendRequest) -> Result<()> {
    std::thread::scope(|scope| {
        let post = scope.spawn(|| queue_pair.post_send(request));
        queue_pair.attach(region)?;
        post.join().unwrap()?;
        Ok(())
    })
}

fn main() {}
