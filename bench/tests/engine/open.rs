//! The open loop on a virtual clock, against a server that answers one call after the other.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::time::Duration;

use fabricbench::{
    clock::VirtualClock,
    engine::{EngineError, Offered, OpenRecord, measure_calls, measure_open},
    plan::{Arrivals, Stop},
    stats::Histogram,
    transport::fake::FakeServer,
};

use super::task;

/// Nanoseconds of a look at the server.
const LOOK: u64 = 1_000;

fn one_by_one(clock: &VirtualClock, depth: usize, service: u64, stall: (u64, u64)) -> FakeServer {
    let mut server = FakeServer::new(clock, depth, service, LOOK);
    server.stall = stall;
    server
}

fn offered(rate: f64, arrivals: Arrivals) -> Offered {
    Offered { rate, arrivals, phase: 0.0, seed: 1 }
}

fn open(mut server: FakeServer, rate: f64, stop: Stop) -> (OpenRecord, Histogram) {
    let (clock, mut histogram) = (server.clock().clone(), Histogram::new());
    let constant = offered(rate, Arrivals::Constant);
    let record =
        measure_open(&mut server, &clock, &task(stop), constant, &mut histogram, || {}).unwrap();
    (record, histogram)
}

const SECOND: u64 = 1_000_000_000;

/// How many of the samples are above 50 ms.
fn late(histogram: &Histogram) -> u64 {
    let above = (1..1000).find(|share| {
        let quantile = f64::from(*share) / 1000.0;
        histogram.quantile(quantile).value().is_some_and(|value| value > 50_000_000)
    });
    above.map_or(0, |share| histogram.len() * u64::from(1000_u32.saturating_sub(share)) / 1000)
}

#[test]
fn methodology_5_a_server_that_stands_still_for_a_second_is_seen_by_all_calls_of_that_second() {
    // Of 8 s at 1,000 a second: 1 s without an answer, and what piled up is soon worked off.
    let stop = Stop::Messages(8000);
    let stall = (2 * SECOND, 3 * SECOND);
    let clock = VirtualClock::default();
    let (record, histogram) = open(one_by_one(&clock, 4096, 100_000, stall), 1000.0, stop);
    assert_eq!((record.timed, histogram.len(), record.borne.held_back), (8000, 8000, 0));
    // The last 50 ms of that second waited less, and those made while the rest was worked off longer.
    let late_open = late(&histogram);
    assert!((950..=1150).contains(&late_open), "{late_open}");
    assert!(histogram.max().unwrap() >= SECOND - 1_000_000 && !record.borne.overloaded);

    let clock = VirtualClock::default();
    let mut closed = one_by_one(&clock, 1, 1_000_000, stall);
    let mut histogram = Histogram::new();
    measure_calls(&mut closed, &clock, &task(stop), &mut histogram, || {}).unwrap();
    assert_eq!(late(&histogram), 0, "one of 8,000 is less than a thousandth");
    assert!(histogram.max().unwrap() >= SECOND - 2_000_000);
}

/// Few calls at a low rate: the time is that of all of them, not of those but one.
#[test]
fn no_rate_is_above_the_one_that_is_offered() {
    for (calls, rate) in [(1, 1.0), (5, 10.0), (100, 1000.0)] {
        for stop in [
            Stop::Messages(calls),
            Stop::After(Duration::from_secs_f64(0.95 * calls as f64 / rate)),
        ] {
            let clock = VirtualClock::default();
            let (record, _) = open(one_by_one(&clock, 16, 100_000, (0, 0)), rate, stop);
            let achieved = record.timed as f64 * 1e9 / record.elapsed as f64;
            assert!(
                record.timed > 0 && achieved <= rate && achieved > 0.999 * rate,
                "{achieved} of {rate}"
            );
        }
    }
    let clock = VirtualClock::default();
    let mut server = one_by_one(&clock, 16, 100_000, (0, 0));
    let third = Offered { phase: 0.75, ..offered(10.0, Arrivals::Constant) };
    let mut histogram = Histogram::new();
    let task = task(Stop::Messages(5));
    let record = measure_open(&mut server, &clock, &task, third, &mut histogram, || {}).unwrap();
    assert!((500_000_000..501_000_000).contains(&record.elapsed), "{record:?}");
}

/// Few may be under way: the others wait here, and are timed from when they were to begin all the same.
#[test]
fn the_bound_hides_no_waiting() {
    let stall = (2 * SECOND, 3 * SECOND);
    let clock = VirtualClock::default();
    let server = one_by_one(&clock, 16, 100_000, stall);
    let (record, histogram) = open(server, 1000.0, Stop::Messages(8000));
    assert_eq!((record.borne.bound, record.borne.most_in_flight), (16, 16));
    assert!((950..=1150).contains(&late(&histogram)), "{}", late(&histogram));
    assert!((900..=1150).contains(&record.borne.held_back), "{:?}", record.borne);
    assert!(!record.borne.overloaded, "it was worked off: {:?}", record.borne);
}

#[test]
fn a_load_that_is_too_much_is_given_up_and_said_so() {
    let clock = VirtualClock::default();
    // 10,000 a second can be served.
    let stop = Stop::After(Duration::from_secs(1));
    let server = one_by_one(&clock, 64, 100_000, (0, 0));
    let (record, _) = open(server, 30_000.0, stop);
    assert!(record.borne.overloaded && record.borne.given_up > 5_000, "{:?}", record.borne);
    assert!(record.elapsed < 2 * SECOND + 100 * 100_000, "{record:?}");
    assert_eq!(record.timed + record.borne.given_up, 30_000);

    // The same without a bound that holds it back: what piled up shows at the end.
    let clock = VirtualClock::default();
    let server = one_by_one(&clock, 60_000, 100_000, (0, 0));
    let (record, _) = open(server, 12_000.0, stop);
    assert_eq!((record.borne.held_back, record.borne.given_up), (0, 0));
    assert!(record.borne.overloaded, "{record:?}");
}

/// Nothing is answered while calls are offered, and then all of them at once: the quickest is as late as the
/// last, and yet a fifth of the rate was answered.
#[test]
fn a_rate_that_is_not_achieved_is_not_borne_however_evenly_late_its_calls_are() {
    for (calls, rate, stall) in [(1000, 5_000.0, SECOND), (5, 50_000.0, 500_000)] {
        let clock = VirtualClock::default();
        // From the end of the warm-up.
        let mut server = one_by_one(&clock, 4096, 1_000, (SECOND, SECOND + stall));
        let (task, load) = (task(Stop::Messages(calls)), offered(rate, Arrivals::Constant));
        let warm = || clock.advance(SECOND);
        let mut times = Histogram::new();
        let record = measure_open(&mut server, &clock, &task, load, &mut times, warm).unwrap();
        let achieved = record.timed as f64 * 1e9 / record.elapsed as f64;
        assert!(achieved < 0.25 * rate && record.borne.held_back == 0, "{record:?}");
        assert!(record.borne.overloaded, "{record:?}");
    }
}

#[test]
fn a_load_that_is_borne_takes_its_time_and_its_number() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let clock = VirtualClock::default();
        let mut server = one_by_one(&clock, 1024, 100_000, (0, 0));
        let mut histogram = Histogram::new();
        let stop = Stop::After(Duration::from_secs(20));
        let load = offered(1000.0, arrivals);
        let record =
            measure_open(&mut server, &clock, &task(stop), load, &mut histogram, || {}).unwrap();
        assert!(!record.borne.overloaded && record.borne.held_back == 0, "{record:?}");
        // Of a Poisson process the number varies by its root.
        let expected =
            if arrivals == Arrivals::Constant { 20_000..=20_000 } else { 19_500..=20_500 };
        assert!(expected.contains(&record.timed), "{record:?}");
        // M/D/1 at a load of 0.1: the mean wait is 0.1 / (2 * 0.9) of a service of 100 us.
        let mean = histogram.mean().unwrap();
        let wait = if arrivals == Arrivals::Constant { 0.0 } else { 5_556.0 };
        let look = LOOK as f64;
        assert!((mean - 100_000.0 - wait).abs() < 2.0 * look + 1_000.0, "{arrivals}: {mean}");
    }
}

#[test]
fn an_answer_that_never_comes_ends_the_loop() {
    let clock = VirtualClock::default();
    let mut server = one_by_one(&clock, 8, 100_000, (SECOND, u64::MAX / 2));
    let stop = Stop::Messages(5000);
    let load = offered(1000.0, Arrivals::Constant);
    let ended = measure_open(&mut server, &clock, &task(stop), load, &mut Histogram::new(), || {})
        .unwrap_err();
    assert!(matches!(ended, EngineError::Stalled { .. }), "{ended}");
}
