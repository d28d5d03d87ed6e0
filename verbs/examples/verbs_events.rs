//! Two threads that send a message back and forth, each asleep until the other's arrives.
//!
//! ```text
//! cargo run -p fabricbench-verbs --example verbs_events [DEVICE]
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fabricbench_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, MemoryRegion, Opcode, Operation,
    QueuePair, QueuePairOptions, RecvRequest, RegionId, SendRequest, open, random_psn,
};

const ROUNDS: u64 = 500;
/// How long to wait for the other side.
const PATIENCE: Duration = Duration::from_secs(10);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// One of the two ends, whose completions wake who waits for them.
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
    let pd = context.alloc_pd()?;
    let end = || -> Result<End> {
        let channel = context.create_completion_channel()?;
        let cq = context.create_completion_queue_on(&channel, 16)?;
        let options =
            QueuePairOptions { send_depth: 4, recv_depth: 4, ..QueuePairOptions::default() };
        let mut qp = pd.create_queue_pair(&cq, &cq, &options)?;
        let region = pd.register(64, Access::LOCAL_WRITE)?;
        let id = qp.attach(&region)?;
        Ok(End { qp, cq, region, id })
    };
    let (a, b) = (end()?, end()?);
    let from_a = a.qp.endpoint(&port, &gid, random_psn());
    let from_b = b.qp.endpoint(&port, &gid, random_psn());
    a.qp.connect(&port, &gid, &from_a, &from_b, &ConnectOptions::default())?;
    b.qp.connect(&port, &gid, &from_b, &from_a, &ConnectOptions::default())?;
    // A receive is there before the message it is for.
    receive(&a)?;
    receive(&b)?;

    let start = Instant::now();
    let sleeps = std::thread::scope(|scope| -> Result<u64> {
        let echo = scope.spawn(move || -> Result<End> {
            for round in 0..ROUNDS {
                await_message(&b, round)?;
                send(&b, round)?;
            }
            // Not before its last message has left.
            Ok(b)
        });
        let mut sleeps = 0;
        for round in 0..ROUNDS {
            send(&a, round)?;
            sleeps += await_message(&a, round)?;
        }
        echo.join().unwrap_or_else(|_| Err("the other thread panicked".into()))?;
        Ok(sleeps)
    })?;
    println!("{ROUNDS} round trips, {:?} each, {sleeps} sleeps", start.elapsed() / ROUNDS as u32);
    Ok(())
}

fn receive(end: &End) -> Result<()> {
    Ok(end.qp.post_recv(&RecvRequest::new(0, end.id.range(8, 8)))?)
}

fn send(end: &End, round: u64) -> Result<()> {
    end.region.store_u64(0, round)?;
    Ok(end.qp.post_send(&SendRequest::new(0, Operation::Send, end.id.range(0, 8)))?)
}

/// Takes completions until the message of this round is among them, and posts the next receive.
/// Returns how often there was nothing to take, so that it slept.
fn await_message(end: &End, round: u64) -> Result<u64> {
    let mut sleeps = 0;
    let mut completions = [Completion::default(); 4];
    loop {
        // What `poll_or_wait` does in one call: an event is only of what comes after arming, so
        // look again between arming and sleeping.
        let mut polled = end.cq.poll(&mut completions)?.len();
        if polled == 0 {
            end.cq.arm(false)?;
            polled = end.cq.poll(&mut completions)?.len();
        }
        if polled == 0 {
            sleeps += 1;
            if !end.cq.wait(PATIENCE)? {
                end.qp.context().check()?;
                return Err(format!("no message within {PATIENCE:?}").into());
            }
        }
        for completion in &completions[..polled] {
            if completion.check()?.opcode() == Opcode::RECV {
                assert_eq!(end.region.load_u64(8)?, round);
                receive(end)?;
                return Ok(sleeps);
            }
        }
    }
}
