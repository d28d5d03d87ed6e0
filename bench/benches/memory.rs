//! The memory that a run holds beside message buffers, after 10^8 samples: it does not grow with them.
//!
//! Over a scripted transport on a virtual clock. Exits with 1 if it was 64 MiB or more.

#![expect(clippy::unwrap_used, reason = "a script has nothing that can fail")]

use std::{process::ExitCode, time::Instant};

#[path = "../tests/pacing/scripted.rs"]
mod scripted;

use fabricbench::{
    observe::PeakMemory,
    plan::{Pattern, Stop},
};
use scripted::{Scripted, Times, plan, run};

const SAMPLES: u64 = 100_000_000;
const MOST: u64 = 64 << 20;

fn main() -> ExitCode {
    // Four transports of one size.
    let plan = plan(Pattern::Latency, "64", Stop::Messages(SAMPLES / 4), 3, 1);
    let mut measuring = Scripted::new(1, |_, _, random| Times {
        set_up: 1,
        operation: 20e3 * (1.0 + random.uniform()),
    });
    measuring.spread = 1000;
    let peak = PeakMemory::begin();
    let began = Instant::now();
    let (document, _) = run(&plan, &mut measuring);
    let took = began.elapsed();
    let samples: u64 =
        document.cells.iter().map(|cell| cell.latency.as_ref().unwrap().samples).sum();
    let Some(most) = peak.bytes() else {
        println!("this kernel does not tell a process's peak of memory");
        return ExitCode::SUCCESS;
    };
    println!(
        "{samples} samples in {took:.1?}: {:.1} MiB at most",
        most as f64 / f64::from(1 << 20)
    );
    ExitCode::from(u8::from(samples != SAMPLES || most >= MOST))
}
