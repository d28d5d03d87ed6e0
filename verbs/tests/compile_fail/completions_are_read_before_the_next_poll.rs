//! Completions lie in the caller's buffer: polling into it again ends the use of the earlier ones.

use fabricbench_verbs::{Completion, CompletionQueue, Result};

fn twice(queue: &CompletionQueue) -> Result<u64> {
    let mut buffer = [Completion::default(); 4];
    let first = queue.poll(&mut buffer)?;
    queue.poll(&mut buffer)?;
    Ok(first[0].id())
}

fn main() {}
