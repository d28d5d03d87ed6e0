//! What the harness itself costs for each operation, with nothing under it: what it adds to every
//! figure.
//!
//! A clock reading with its conversion and its record is to stay under 50 ns: some percent of the
//! fastest round trip there is.

#![expect(clippy::expect_used, reason = "an initiator over nothing has nothing that can fail")]

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fabricbench::{
    clock::{Clock, TscClock},
    engine::{Task, WarmUp, measure_bandwidth, measure_latency},
    plan::Stop,
    stats::Histogram,
    transport::{Completed, Initiator, Operation, Patience, Received, TransportError},
};

/// Everything it is given is done when it is asked.
struct Null {
    depth: usize,
    submitted: u64,
    completed: u64,
}

impl Null {
    fn new(depth: usize) -> Self {
        Self { depth, submitted: 0, completed: 0 }
    }
}

impl Initiator for Null {
    fn depth(&self) -> usize {
        self.depth
    }

    #[inline]
    fn submit(&mut self, _: Operation) -> Result<(), TransportError> {
        self.submitted += 1;
        Ok(())
    }

    #[inline]
    fn complete(&mut self, _: Patience, done: &mut Completed) -> Result<(), TransportError> {
        // Or the compiler sees through it, and removes the loop.
        for token in black_box(self.completed..self.submitted) {
            done.push(token);
        }
        self.completed = self.submitted;
        Ok(())
    }

    fn confirm(&mut self, _: Patience) -> Result<Received, TransportError> {
        Ok(Received { messages: self.submitted, ..Received::default() })
    }
}

fn task(messages: u64) -> Task {
    Task {
        stop: Stop::Messages(messages),
        least_messages: messages,
        warm_up: WarmUp { messages: 1, ..WarmUp::default() },
        patience: Patience(Duration::from_secs(1)),
    }
}

fn recording(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recording");
    group.throughput(Throughput::Elements(1));
    let clock = TscClock::new();
    group.bench_function("clock reading", |bencher| bencher.iter(|| clock.now()));
    group.bench_function("record alone", |bencher| {
        // Four octaves in no order: another bucket nearly every time, as real latencies have it, and
        // nothing that a branch predictor could learn.
        let samples: Vec<u64> =
            (0..4096_u64).map(|i| 1_000 + i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 15_000).collect();
        let mut histogram = Histogram::new();
        let mut next = 0;
        bencher.iter(|| {
            histogram.record(samples[next & 4095]);
            next += 1;
        });
        black_box(histogram.max());
    });
    group.bench_function("clock reading, nanoseconds, record", |bencher| {
        let mut histogram = Histogram::new();
        let mut last = clock.now();
        bencher.iter(|| {
            let now = clock.now();
            histogram.record(clock.nanoseconds(last, now));
            last = now;
        });
        black_box(histogram.max());
    });
    group.finish();
}

/// The loops' own clock times them: from the first timed operation to the last.
fn loops(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("loop over nothing");
    group.throughput(Throughput::Elements(1));
    let clock = TscClock::new();
    group.bench_function("latency, a round trip", |bencher| {
        let mut histogram = Histogram::new();
        bencher.iter_custom(|round_trips| {
            let record = measure_latency(
                &mut Null::new(1),
                &clock,
                &task(round_trips),
                &mut histogram,
                || {},
            )
            .expect("nothing can fail");
            Duration::from_nanos(record.elapsed)
        });
    });
    group.bench_function("bandwidth at depth 128, a message", |bencher| {
        bencher.iter_custom(|messages| {
            let record = measure_bandwidth(&mut Null::new(128), &clock, &task(messages), || {})
                .expect("nothing can fail");
            Duration::from_nanos(record.elapsed)
        });
    });
    group.finish();
}

criterion_group!(harness, recording, loops);
criterion_main!(harness);
