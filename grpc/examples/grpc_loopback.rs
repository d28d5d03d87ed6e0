//! Unary latency and push throughput on this host's loopback, stock beside tuned.
//!
//! Server and client have a current-thread runtime each, on a thread each, as the harness has.
//! Rounds are interleaved, so that a drifting machine does not decide the comparison; medians are
//! shown. Compare with `iperf3 -c 127.0.0.1` (one stream) in the same minute.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fabricbench_grpc::{Client, ConnectOptions, ListenOptions, Observer, Server, Tuning};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

// The allocator matters more than any setting for large messages: see the push at 1 MiB without.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: [usize; 3] = [64, 64 << 10, 1 << 20];
const ROUNDS: usize = 7;
const CALLS: usize = 1000;
const PUSH_TIME: Duration = Duration::from_millis(500);

type Failure = Box<dyn Error + Send + Sync>;

/// Figures of one cell, one of each per round.
#[derive(Default)]
struct Cell {
    one_block_on: Vec<f64>,
    block_on_each: Vec<f64>,
    push: Vec<f64>,
}

fn main() -> Result<(), Failure> {
    let mut cells: Vec<(Tuning, usize, Cell)> = Vec::new();
    for size in SIZES {
        cells.push((Tuning::stock(size as u64)?, size, Cell::default()));
        cells.push((Tuning::tuned(size as u64, 2)?, size, Cell::default()));
    }
    for _ in 0..ROUNDS {
        for (tuning, size, cell) in &mut cells {
            measure(tuning, *size, cell)?;
        }
    }
    println!(
        "round trip in us, one block_on for all calls | one block_on each; push in MB/s (10^6)"
    );
    for (tuning, size, cell) in &mut cells {
        println!(
            "{:>8} B  {}  {:>8.1} | {:>8.1}  {:>8.1}",
            size,
            tuning.profile(),
            median(&mut cell.one_block_on),
            median(&mut cell.block_on_each),
            median(&mut cell.push)
        );
    }
    Ok(())
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn measure(tuning: &Tuning, size: usize, cell: &mut Cell) -> Result<(), Failure> {
    let server = Server::bind(&ListenOptions::new("127.0.0.1:0".parse()?), tuning)?;
    let address = server.local_addr();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = std::thread::spawn(move || -> Result<(), Failure> {
        let shutdown = async { stopped.await.unwrap_or(()) };
        Ok(runtime()?.block_on(server.serve(Arc::new(Observer::new()), shutdown))?)
    });

    let runtime = runtime()?;
    let client = runtime.block_on(Client::connect(&ConnectOptions::new(address), tuning))?;
    let message = Bytes::from(vec![0; size]);
    // Small messages need more calls for the same time.
    let calls = if size > 64 << 10 { CALLS / 10 } else { CALLS };

    let start = Instant::now();
    runtime.block_on(async {
        for _ in 0..calls {
            client.echo(message.clone()).await?;
        }
        Ok::<_, fabricbench_grpc::Error>(())
    })?;
    cell.one_block_on.push(start.elapsed().as_secs_f64() * 1e6 / calls as f64);

    let start = Instant::now();
    for _ in 0..calls {
        runtime.block_on(client.echo(message.clone()))?;
    }
    cell.block_on_each.push(start.elapsed().as_secs_f64() * 1e6 / calls as f64);

    let start = Instant::now();
    let summary = runtime.block_on(async {
        let mut push = client.push();
        while start.elapsed() < PUSH_TIME {
            push.send(message.clone()).await?;
        }
        push.finish().await
    })?;
    cell.push.push(summary.bytes as f64 / 1e6 / start.elapsed().as_secs_f64());

    drop(client);
    drop(runtime);
    drop(stop);
    serving.join().map_err(|_| "the server panicked")?
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
