//! The measuring loops on a virtual clock: every figure is known in advance.

#[path = "engine/open.rs"]
mod open;
#[path = "engine/think.rs"]
mod think;

use std::time::Duration;

use fabricbench::{
    clock::VirtualClock,
    engine::{EngineError, Phase, Task, WarmUp, measure_bandwidth, measure_calls, measure_latency},
    plan::Stop,
    stats::Histogram,
    transport::{
        Patience, StopReason, TransportError,
        fake::{FakeInitiator, Step},
    },
};

const PATIENCE: Patience = Patience(Duration::from_secs(5));

fn task(stop: Stop) -> Task {
    Task {
        stop,
        least_messages: stop.least_messages(1),
        warm_up: WarmUp { messages: 3, time: Duration::from_secs(1) },
        patience: PATIENCE,
    }
}

#[test]
fn methodology_4_a_ping_pong_records_each_round_trip_and_no_warm_up() {
    let clock = VirtualClock::default();
    // Three slow ones for the warm-up, then 20, 30, 20, 30, ...
    let mut script = vec![Step::Takes(9_000_000); 3];
    script.extend((0..100).map(|index| Step::Takes(if index % 2 == 0 { 20_000 } else { 30_000 })));
    let mut initiator = FakeInitiator::new(&clock, 1, 64, script);
    let mut histogram = Histogram::new();
    let record =
        measure_latency(&mut initiator, &clock, &task(Stop::Messages(100)), &mut histogram, || {})
            .unwrap();
    assert_eq!((record.warm_up, record.timed), (3, 100));
    assert_eq!(record.elapsed, 100 * 25_000);
    assert_eq!(histogram.len(), 100);
    assert_eq!((histogram.min(), histogram.max()), (Some(20_000), Some(30_000)));
    assert_eq!(histogram.mean(), Some(25_000.0));
    assert_eq!(initiator.most_outstanding, 1);
}

#[test]
fn a_slow_message_is_one_sample_of_its_full_length() {
    let clock = VirtualClock::default();
    let mut script = vec![Step::Takes(10_000); 1000];
    script[500] = Step::Takes(1_000_000_000);
    let mut initiator = FakeInitiator::new(&clock, 1, 64, script);
    let mut histogram = Histogram::new();
    measure_latency(&mut initiator, &clock, &task(Stop::Messages(990)), &mut histogram, || {})
        .unwrap();
    assert_eq!(histogram.max(), Some(1_000_000_000), "the true maximum, not dropped");
    assert_eq!(histogram.len(), 990);
}

#[test]
fn time_stops_a_loop_but_not_before_the_least_messages() {
    let clock = VirtualClock::default();
    let measure = |step: u64| {
        let mut initiator = FakeInitiator::new(&clock, 1, 64, vec![Step::Takes(step)]);
        let stop = Stop::After(Duration::from_millis(1));
        let mut histogram = Histogram::new();
        measure_latency(&mut initiator, &clock, &task(stop), &mut histogram, || {}).unwrap().timed
    };
    assert_eq!(measure(10_000), 100);
    assert_eq!(measure(10_000_000), 20, "20 samples make a median, however long they take");
}

#[test]
fn warm_up_ends_by_time_after_one_message() {
    let clock = VirtualClock::default();
    let mut initiator = FakeInitiator::new(&clock, 1, 64, vec![Step::Takes(2_000_000_000)]);
    let mut histogram = Histogram::new();
    let record =
        measure_latency(&mut initiator, &clock, &task(Stop::Messages(1)), &mut histogram, || {})
            .unwrap();
    assert_eq!(record.warm_up, 1);
}

#[test]
fn a_push_keeps_the_depth_full_and_counts_the_confirmation() {
    let clock = VirtualClock::default();
    let mut initiator = FakeInitiator::new(&clock, 16, 1 << 20, vec![Step::Takes(1_000)]);
    initiator.confirmation = 7_000;
    let record =
        measure_bandwidth(&mut initiator, &clock, &task(Stop::Messages(100)), || {}).unwrap();
    assert_eq!((record.warm_up, record.timed), (3, 100));
    assert_eq!(record.elapsed, 100 * 1_000 + 7_000, "the clock stops when the receiver has all");
    assert_eq!(initiator.most_outstanding, 16);
    assert_eq!(initiator.submitted, 103);
}

#[test]
fn a_push_drains_what_is_outstanding_when_the_time_is_up() {
    let clock = VirtualClock::default();
    let mut initiator = FakeInitiator::new(&clock, 8, 64, vec![Step::Takes(1_000)]);
    let stop = Stop::After(Duration::from_micros(100));
    let record = measure_bandwidth(&mut initiator, &clock, &task(stop), || {}).unwrap();
    // 100 had ended when the time was up, and up to a depth more were under way.
    assert!((100..=108).contains(&record.timed), "{}", record.timed);
    assert_eq!(record.elapsed, record.timed * 1_000, "all that was sent is in the figure");
}

/// One after the other is answered in its turn, 1 us each: with 16 in flight each waits for those
/// before it.
#[test]
fn calls_are_timed_from_their_submission_whatever_the_depth() {
    let clock = VirtualClock::default();
    let mut initiator = FakeInitiator::new(&clock, 16, 64, vec![Step::Takes(1_000)]);
    let mut histogram = Histogram::new();
    let record =
        measure_calls(&mut initiator, &clock, &task(Stop::Messages(100)), &mut histogram, || {})
            .unwrap();
    assert_eq!((record.warm_up, record.timed, record.elapsed), (3, 100, 100 * 1_000));
    assert_eq!(record.span.1 - record.span.0, record.elapsed);
    assert_eq!((initiator.most_outstanding, initiator.submitted), (16, 103));
    // The first 16 go at once, the k-th of them is answered after k us; the others after 16 us.
    assert_eq!(
        (histogram.len(), histogram.min(), histogram.max()),
        (100, Some(1_000), Some(16_000))
    );
    let sum = (1..=16).sum::<u64>() + 84 * 16;
    assert_eq!(histogram.mean(), Some(sum as f64 * 1_000.0 / 100.0));
}

#[test]
fn a_slow_call_delays_those_behind_it_and_all_of_them_say_so() {
    let clock = VirtualClock::default();
    let mut script = vec![Step::Takes(1_000); 1000];
    script[500] = Step::Takes(1_000_000_000);
    let mut initiator = FakeInitiator::new(&clock, 4, 64, script);
    let mut histogram = Histogram::new();
    measure_calls(&mut initiator, &clock, &task(Stop::Messages(990)), &mut histogram, || {})
        .unwrap();
    assert_eq!(histogram.max(), Some(1_000_003_000), "the true maximum, not dropped");
    let mean = histogram.mean().unwrap();
    // Three were behind it.
    assert!(mean > 4e9 / 990.0 && mean < 4.1e9 / 990.0, "{mean}");
}

#[test]
fn calls_end_by_time_and_all_that_were_begun_are_answered() {
    let clock = VirtualClock::default();
    let mut initiator = FakeInitiator::new(&clock, 8, 64, vec![Step::Takes(1_000)]);
    let stop = Stop::After(Duration::from_micros(100));
    let mut histogram = Histogram::new();
    let record = measure_calls(&mut initiator, &clock, &task(stop), &mut histogram, || {}).unwrap();
    assert!((100..=108).contains(&record.timed), "{}", record.timed);
    assert_eq!((record.elapsed, histogram.len()), (record.timed * 1_000, record.timed));
    assert_eq!(record.warm_up + record.timed, initiator.submitted);
}

#[test]
fn a_cut_data_path_is_an_error_with_phase_and_patience() {
    let clock = VirtualClock::default();
    let stalled = |phase| EngineError::Stalled { phase, patience: PATIENCE.0 };
    let mut script = vec![Step::Takes(1_000); 5];
    script.push(Step::Hangs);
    let mut initiator = FakeInitiator::new(&clock, 1, 64, script.clone());
    let mut histogram = Histogram::new();
    let error =
        measure_latency(&mut initiator, &clock, &task(Stop::Messages(50)), &mut histogram, || {})
            .unwrap_err();
    assert_eq!(error, stalled(Phase::Measuring));
    let mut initiator = FakeInitiator::new(&clock, 4, 64, script);
    let error =
        measure_bandwidth(&mut initiator, &clock, &task(Stop::Messages(50)), || {}).unwrap_err();
    assert_eq!(error, stalled(Phase::Measuring));
    let mut initiator = FakeInitiator::new(&clock, 4, 64, vec![Step::Takes(1_000), Step::Hangs]);
    let error =
        measure_calls(&mut initiator, &clock, &task(Stop::Messages(50)), &mut histogram, || {})
            .unwrap_err();
    assert_eq!(error, stalled(Phase::WarmUp));
    let mut initiator = FakeInitiator::new(&clock, 4, 64, vec![Step::Hangs]);
    let error =
        measure_bandwidth(&mut initiator, &clock, &task(Stop::Messages(50)), || {}).unwrap_err();
    assert_eq!(error, stalled(Phase::WarmUp));
}

#[test]
fn a_failure_keeps_its_reason() {
    let clock = VirtualClock::default();
    let lost = TransportError::Stopped(StopReason::PeerLost("node2 is gone".to_owned()));
    let mut initiator = FakeInitiator::new(&clock, 4, 64, vec![Step::Fails(lost.clone())]);
    let error =
        measure_bandwidth(&mut initiator, &clock, &task(Stop::Messages(5)), || {}).unwrap_err();
    assert_eq!(error, EngineError::Transport { phase: Phase::WarmUp, source: lost });
    assert!(error.to_string().contains("node2 is gone"));
}
