//! What two cells show, whose samples and rounds are known.

use serde_json::{Value, json};

use super::*;
use crate::{report::HistogramRecord, stats::Histogram};

/// A ping-pong of `rounds` rounds with 5,000 samples each from 10 to 12 us of a whole round trip, times
/// `factor`, and a push as fast.
pub(in crate::comparison) fn cell(factor: f64, rounds: &[f64]) -> Value {
    let mut all = Histogram::new();
    let mut records = Vec::new();
    for (round, differs) in rounds.iter().enumerate() {
        let times = (0..5000).map(|index| factor * differs * (10_000.0 + 0.4 * f64::from(index)));
        times.clone().for_each(|time| all.record(time as u64));
        let elapsed = times.sum::<f64>() as u64;
        let p50 = factor * differs * 11_000.0 / 2.0;
        records.push(json!({"round": round, "messages": 5000, "elapsed_ns": elapsed, "p50": p50}));
    }
    let half = |q: f64| all.quantile(q).value().map(|time| time as f64 / 2.0);
    let interval = all.median_interval(Z_95).unwrap();
    let messages = 5000 * rounds.len();
    let elapsed = records.iter().map(|round| round["elapsed_ns"].as_u64().unwrap()).sum::<u64>();
    let rate = messages as f64 * 1e9 / elapsed as f64;
    json!({
        "transport": "tcp@lo", "pattern": "latency", "size": 64, "status": "measured", "reason": null,
        "path": null, "peer_path": null,
        "latency": {"unit": "ns", "kind": "half-round-trip", "samples": messages,
                    "min": all.min().unwrap() as f64 / 2.0, "p50": half(0.5), "p99": half(0.99), "p999": half(0.999),
                    "max": all.max().unwrap() as f64 / 2.0, "mean": all.mean().unwrap() / 2.0,
                    "stddev": all.stddev().unwrap() / 2.0,
                    "p50_interval_95": [interval.low as f64 / 2.0, interval.high as f64 / 2.0],
                    "histogram": HistogramRecord::of(&all)},
        "throughput": {"bytes_per_s": 64.0 * rate, "messages_per_s": rate},
        "cpu": {"client_ns": elapsed, "server_ns": elapsed},
        "settings": {"depth": 1, "warm_up_messages": 0, "messages": messages},
        "rounds": records
    })
}

const STEADY: [f64; 3] = [0.999, 1.0, 1.001];

fn compared(base: Value, new: Value) -> (Vec<Figure>, Option<String>) {
    let [base, new] = [base, new].map(|cell| serde_json::from_value(cell).unwrap());
    figures(&base, &new, Metric::ALL.into_iter())
}

fn all(base: Value, new: Value) -> Vec<Figure> {
    compared(base, new).0
}

#[test]
fn what_is_slower_is_slower_in_every_figure_and_what_is_faster_faster() {
    for (factor, finding, latency) in
        [(1.5, Finding::Slower, "50 % slower"), (0.5, Finding::Faster, "50 % faster")]
    {
        let figures = all(cell(1.0, &STEADY), cell(factor, &STEADY));
        assert_eq!(figures.len(), Metric::ALL.len());
        for figure in &figures {
            assert_eq!(figure.finding, finding, "{figure:?}");
            let expected = if figure.metric.is_cost() { factor } else { 1.0 / factor };
            assert!((figure.ratio / expected - 1.0).abs() < 3e-3, "{figure:?}");
            let [low, high] = figure.interval_95.unwrap();
            assert!(low < figure.ratio && figure.ratio < high, "{figure:?}");
        }
        assert_eq!(figures[0].words(), latency);
        assert!(
            figures
                .iter()
                .any(|figure| figure.metric == Metric::Cpu && !figure.words().contains("er"))
        );
    }
}

#[test]
fn what_is_the_same_shows_no_difference_in_any_figure() {
    for figure in all(cell(1.0, &STEADY), cell(1.0, &STEADY)) {
        assert_eq!((figure.ratio, figure.finding), (1.0, Finding::NoDifferenceShown), "{figure:?}");
    }
}

#[test]
fn rounds_that_differ_hide_what_samples_would_show() {
    let unsteady = [0.9, 1.0, 1.1];
    for figure in all(cell(1.0, &unsteady), cell(1.05, &unsteady)) {
        assert_eq!(figure.finding, Finding::NoDifferenceShown, "{figure:?}");
    }
    // Of one round nobody knows how it differs from the next.
    let figures = all(cell(1.0, &[1.0]), cell(1.05, &[1.0]));
    for figure in &figures {
        match figure.metric {
            Metric::Bandwidth | Metric::Rate | Metric::Cpu => {
                assert_eq!((figure.finding, figure.interval_95), (Finding::NotTested, None));
            }
            _ => {
                assert_eq!((figure.finding, figure.basis), (Finding::Slower, Some(Basis::Samples)))
            }
        }
    }
}

#[test]
fn without_a_histogram_there_are_the_median_the_mean_and_the_rates() {
    let mut old = cell(1.0, &STEADY);
    old["latency"].as_object_mut().unwrap().remove("histogram");
    let figures = all(old, cell(1.5, &STEADY));
    let tested: Vec<_> = figures
        .iter()
        .filter(|figure| figure.finding == Finding::Slower)
        .map(|figure| figure.metric)
        .collect();
    assert_eq!(tested, [Metric::P50, Metric::Mean, Metric::Bandwidth, Metric::Rate, Metric::Cpu]);
}

#[test]
fn a_histogram_that_cannot_be_read_is_told() {
    for (field, value) in [("data", "no"), ("unit", "us")] {
        let mut broken = cell(1.0, &STEADY);
        broken["latency"]["histogram"][field] = value.into();
        let (figures, told) = compared(cell(1.0, &STEADY), broken);
        assert_eq!(figures.len(), Metric::ALL.len());
        assert!(told.unwrap().starts_with("a histogram "));
    }
}

#[test]
fn what_is_not_above_zero_or_not_there_is_left_out() {
    for (pointer, value) in
        [("/latency/p50", json!(0.0)), ("/latency/p50", json!(-3.0)), ("/latency/p50", json!(null))]
    {
        let mut odd = cell(1.0, &STEADY);
        *odd.pointer_mut(pointer).unwrap() = value;
        let figures = all(odd, cell(1.0, &STEADY));
        assert!(figures.iter().all(|figure| figure.metric != Metric::P50));
    }
    let mut none = cell(1.0, &STEADY);
    none["rounds"] = json!([{"round": 0, "messages": 0, "elapsed_ns": 0, "p50": 0.0}]);
    none["settings"]["messages"] = json!(0);
    let figures = all(none, cell(1.0, &STEADY));
    assert!(figures.iter().all(|figure| figure.ratio.is_finite()), "{figures:?}");
    assert!(figures.iter().all(|figure| figure.metric != Metric::Cpu));
}
