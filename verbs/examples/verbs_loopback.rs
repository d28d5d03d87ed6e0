//! Two queue pairs of one device write to each other: the shortest complete program.
//!
//! ```text
//! cargo run -p fabricbench-verbs --example verbs_loopback [DEVICE]
//! ```

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fabricbench_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, MemoryRegion, Operation, QueuePair,
    QueuePairOptions, RegionId, Result, SendRequest, open, random_psn,
};

const ROUNDS: u32 = 10_000;

/// One of the two ends.
struct End {
    qp: QueuePair,
    cq: CompletionQueue,
    region: MemoryRegion,
    id: RegionId,
}

fn main() -> ExitCode {
    match run(std::env::args().nth(1).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(device: Option<&str>) -> Result<()> {
    let (context, port) = open(device, None)?;
    let gid = context.choose_gid(port.number, None)?;
    println!("{} port {}: {}, {}", port.device, port.number, port.kind, port.state);
    println!("GID {} ({})", gid.entry, gid.reason);

    let pd = context.alloc_pd()?;
    let options = QueuePairOptions { max_inline: 64, ..QueuePairOptions::default() };
    let end = || -> Result<End> {
        let cq = context.create_completion_queue(options.send_depth)?;
        let mut qp = pd.create_queue_pair(&cq, &cq, &options)?;
        let region = pd.register(4096, Access::REMOTE_WRITE)?;
        let id = qp.attach(&region)?;
        Ok(End { qp, cq, region, id })
    };
    let (a, b) = (end()?, end()?);
    let from_a = a.qp.endpoint(&port, &gid, random_psn());
    let from_b = b.qp.endpoint(&port, &gid, random_psn());
    a.qp.connect(&port, &gid, &from_a, &from_b, &ConnectOptions::default())?;
    b.qp.connect(&port, &gid, &from_b, &from_a, &ConnectOptions::default())?;
    println!("inline {} bytes", a.qp.capabilities().max_inline);

    let start = Instant::now();
    for round in 0..ROUNDS {
        let flag = round as u8;
        push(&a, &b, flag)?;
        push(&b, &a, flag)?;
    }
    let half = start.elapsed() / (2 * ROUNDS);
    println!("{ROUNDS} round trips of 8-byte writes, {half:?} a half on average");
    Ok(())
}

/// Writes a flag to the other end, waits until it is seen there and the request is complete.
fn push(from: &End, to: &End, flag: u8) -> Result<()> {
    from.region.store_u8(0, flag)?;
    to.region.store_u8(64, !flag)?;
    let write = Operation::Write(to.region.remote().at(64));
    from.qp.post_send(&SendRequest::new(0, write, from.id.range(0, 8)).inline(true))?;
    let mut completions = [Completion::default(); 4];
    let (mut done, mut next_look) = (false, Instant::now() + Duration::from_millis(100));
    while !done || to.region.load_u8(64)? != flag {
        for completion in from.cq.poll(&mut completions)? {
            completion.check()?;
            done = true;
        }
        if Instant::now() >= next_look {
            from.qp.context().check()?;
            next_look += Duration::from_millis(100);
        }
    }
    Ok(())
}
