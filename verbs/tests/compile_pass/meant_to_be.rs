//! The objects of the cases that do not compile, used as they are meant to be.

use fabricbench_verbs::{
    Completion, CompletionQueue, MemoryRegion, Operation, ProtectionDomain, QueuePair,
    QueuePairOptions, RegionId, Result, SendRequest,
};

fn made(domain: &ProtectionDomain) -> Result<(QueuePair, CompletionQueue, MemoryRegion)> {
    let queue = domain.context().create_completion_queue(16)?;
    let queue_pair = domain.create_queue_pair(&queue, &queue, &QueuePairOptions::default())?;
    let region = domain.register(64, fabricbench_verbs::Access::LOCAL_READ)?;
    Ok((queue_pair, queue, region))
}

fn attached(queue_pair: &mut QueuePair, region: &MemoryRegion) -> Result<RegionId> {
    queue_pair.attach(region)
}

fn posted_by_two_threads(queue_pair: &QueuePair, id: RegionId) {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let request = SendRequest::new(0, Operation::Send, id.range(0, 8));
            scope.spawn(move || queue_pair.post_send(&request));
        }
    });
}

fn moved(region: MemoryRegion) {
    std::thread::spawn(move || region.fill(0, 8, 1));
}

fn polled(queue: &CompletionQueue) -> Result<u64> {
    let mut buffer = [Completion::default(); 4];
    let first = queue.poll(&mut buffer)?.first().map_or(0, Completion::id);
    queue.poll(&mut buffer)?;
    Ok(first)
}

fn main() {
    let _ = (made, attached, posted_by_two_threads, moved, polled);
}
