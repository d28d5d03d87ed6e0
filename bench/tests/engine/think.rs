//! Closed loops with pauses, on a clock on which every figure is known.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::time::Duration;

use fabricbench::{
    clock::{Clock, VirtualClock},
    engine::{Pauses, measure_calls_thinking, measure_latency_thinking},
    plan::{Stop, Think},
    stats::Histogram,
    transport::fake::{FakeInitiator, FakeServer, Step},
};

use super::task;

/// Moves on by 100 ns with each reading, so that who polls it comes to an end.
struct Ticking(VirtualClock);

impl Clock for Ticking {
    fn now(&self) -> u64 {
        self.0.advance(100);
        self.0.now()
    }

    fn nanoseconds(&self, start: u64, end: u64) -> u64 {
        self.0.nanoseconds(start, end)
    }
}

fn think(text: &str) -> (Think, u64) {
    (text.parse().unwrap(), 5)
}

#[test]
fn a_ping_pong_pauses_and_no_sample_has_the_pause_in_it() {
    let clock = Ticking(VirtualClock::default());
    let mut initiator = FakeInitiator::new(&clock.0, 1, 64, vec![Step::Takes(10_000)]);
    let mut times = Histogram::new();
    let stop = task(Stop::Messages(100));
    let (record, pauses) =
        measure_latency_thinking(&mut initiator, &clock, &stop, think("50us"), &mut times, || {})
            .unwrap();
    assert_eq!((record.warm_up, record.timed, times.len()), (3, 100, 100));
    // A reading of the clock is within the sample.
    assert_eq!((times.min(), times.max()), (Some(10_100), Some(10_100)));
    assert_eq!(pauses.count, 100);
    assert!((50_000..50_200).contains(&(pauses.sum / 100)), "{pauses:?}");
    // They follow one another without a gap.
    assert!(record.elapsed.abs_diff(pauses.sum + 100 * 10_100) <= 200, "{record:?} {pauses:?}");
}

/// Little's law with think time: calls in flight and places that think are the depth.
fn against_littles_law(depth: usize, service: u64, text: &str) -> (f64, f64, Pauses) {
    let clock = VirtualClock::default();
    let server = &mut FakeServer::new(&clock, depth, service, 500);
    let mut times = Histogram::new();
    let stop = task(Stop::After(Duration::from_secs(1)));
    let (record, pauses) =
        measure_calls_thinking(server, &clock, &stop, think(text), &mut times, || {}).unwrap();
    assert_eq!(record.timed, times.len());
    let rate = record.timed as f64 * 1e9 / record.elapsed as f64;
    let pause = pauses.sum as f64 / pauses.count as f64;
    let under_way = rate * (times.mean().unwrap() + pause) / 1e9;
    assert!((under_way / depth as f64 - 1.0).abs() < 0.02, "{under_way} of {depth}");
    (rate, pause, pauses)
}

#[test]
fn calls_pause_in_each_place_and_add_up_to_the_depth() {
    // Four places, 1 ms of thought and 10 us of service: nobody waits for another, since they take turns.
    let (rate, pause, _) = against_littles_law(4, 10_000, "1ms");
    assert!((rate / (4.0 / 1.01e-3) - 1.0).abs() < 0.01, "{rate}");
    assert!((pause / 1e6 - 1.0).abs() < 0.01, "{pause}");
    // Twenty of 100 us of service and 1 ms: the server is full, and pauses change nothing of its rate.
    let (rate, ..) = against_littles_law(20, 100_000, "1ms");
    assert!((rate / 1e4 - 1.0).abs() < 0.02, "{rate}");
}

#[test]
fn exponential_pauses_have_the_mean_and_differ() {
    let (_, pause, pauses) = against_littles_law(8, 1_000, "200us:exponential");
    assert!((pause / 2e5 - 1.0).abs() < 0.03, "{pause}");
    // Of n of them the longest is ln n means, give or take.
    assert!(pauses.longest as f64 > 5.0 * pause, "{pauses:?}");
}
