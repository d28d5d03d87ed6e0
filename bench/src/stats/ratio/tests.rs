//! What the intervals hold, on made data whose truth is known.

use super::*;
use crate::stats::{Histogram, median_of};

/// Seeded: xorshift64* (Vigna, 2016), and normal deviates by Box and Muller.
struct Random(u64);

impl Random {
    /// More than 0 and at most 1.
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        (bits as f64 + 1.0) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A latency in nanoseconds as they are: a floor, a skewed bulk, and one in a hundred far out.
    fn latency(&mut self) -> f64 {
        let bulk = 8_000.0 + 2_000.0 * (0.5 * self.normal()).exp();
        if self.uniform() < 0.01 { bulk + 30_000.0 * -self.uniform().ln() } else { bulk }
    }
}

/// A cell as a run has it.
struct Run {
    medians: Vec<f64>,
    all: Histogram,
}

/// Of a round.
const SAMPLES: usize = 500;

/// `rounds` rounds that differ by 1 %, of latencies that are `slower` times as long.
fn run(random: &mut Random, rounds: usize, slower: f64) -> Run {
    let mut all = Histogram::new();
    let medians = (0..rounds)
        .map(|_| {
            let round = slower * (0.01 * random.normal()).exp();
            let mut samples: Vec<f64> = (0..SAMPLES).map(|_| round * random.latency()).collect();
            samples.iter().for_each(|&sample| all.record(sample as u64));
            median_of(&mut samples).unwrap()
        })
        .collect();
    Run { medians, all }
}

fn ratio(base: &Run, new: &Run) -> Ratio {
    let estimate = |run: &Run| {
        let Interval { low, high } = run.all.median_interval(Z_95).unwrap();
        let value = run.all.quantile(0.5).value().unwrap() as f64;
        Estimate { value, interval: Interval { low: low as f64, high: high as f64 } }
    };
    let (of_base, of_new) = (estimate(base), estimate(new));
    let rounds = Scatter::of(&base.medians, &new.medians);
    Ratio::by_either(of_base.value, of_new.value, rounds, Reach::of(&of_base, &of_new)).unwrap()
}

/// How many of `trials` show a difference.
fn found(trials: usize, rounds: usize, slower: f64, seed: u64) -> usize {
    let mut random = Random(seed);
    (0..trials)
        .filter(|_| {
            let (base, new) = (run(&mut random, rounds, 1.0), run(&mut random, rounds, slower));
            ratio(&base, &new).shows_difference()
        })
        .count()
}

#[test]
fn methodology_11_a_planted_nothing_is_not_found_in_three_rounds() {
    let found = found(500, 3, 1.0, 11);
    assert!(found <= 25, "{found} false alarms in 500");
}

#[test]
fn methodology_11_a_planted_nothing_is_not_found_in_five_rounds() {
    let found = found(500, 5, 1.0, 12);
    assert!(found <= 25, "{found} false alarms in 500");
}

#[test]
fn methodology_11_a_planted_slowdown_of_five_percent_is_found_in_three_rounds() {
    let found = found(500, 3, 1.05, 13);
    assert!(found >= 425, "{found} of 500 found");
}

#[test]
fn methodology_11_a_planted_slowdown_of_five_percent_is_found_in_five_rounds() {
    let found = found(500, 5, 1.05, 14);
    assert!(found >= 495, "{found} of 500 found");
}

#[test]
fn welch_has_the_interval_of_the_textbook() {
    // Rounds of means 0 and ln 2 on logarithms, variances 1e-4 and 4e-4 of three each: the error is
    // the root of 5e-4 / 3, the degrees (5/3)^2 / ((1/3)^2 / 2 + (4/3)^2 / 2) = 50/17.
    let side = |middle: f64, deviation: f64| -> Vec<f64> {
        [-deviation, 0.0, deviation].iter().map(|off| middle * off.exp()).collect()
    };
    let scatter = Scatter::of(&side(1.0, 0.01), &side(2.0, 0.02)).unwrap();
    assert!((scatter.shift - 2f64.ln()).abs() < 1e-12, "{scatter:?}");
    let half = t_95(50.0 / 17.0).unwrap() * (5e-4 / 3.0_f64).sqrt();
    assert!((scatter.half - half).abs() < 1e-12, "{scatter:?}, not {half}");
}

#[test]
fn one_round_is_taken_to_scatter_as_the_other_side_does() {
    let scatter = Scatter::of(&[99.0, 100.0, 101.0], &[105.0]).unwrap();
    assert!((scatter.half - t_95(2.0).unwrap() * 0.01 * (4.0 / 3.0_f64).sqrt()).abs() < 1e-4);
    assert_eq!(Scatter::of(&[100.0], &[105.0]), None);
    assert_eq!(Scatter::of(&[], &[105.0, 106.0]), None);
    assert_eq!(
        Scatter::of(&[0.0, f64::NAN, 7.0], &[f64::INFINITY, 1.0]),
        None,
        "one of each is left"
    );
}

#[test]
fn rounds_that_agree_leave_what_samples_leave_open() {
    let same = Scatter::of(&[100.0; 3], &[110.0; 3]).unwrap();
    assert_eq!(same.half, 0.0);
    let estimate =
        |value: f64| Estimate { value, interval: Interval { low: value * 0.9, high: value / 0.9 } };
    let reach = Reach::of(&estimate(100.0), &estimate(110.0));
    let ratio = Ratio::by_either(100.0, 110.0, Some(same), reach).unwrap();
    assert!(!ratio.shows_difference(), "{ratio:?}: each side may be off by a tenth");
    let sure = Ratio::by_either(100.0, 110.0, Some(same), None).unwrap();
    assert!(sure.shows_difference(), "{sure:?}");
}

/// A ratio is far off upwards where the new figure may be larger, or the old one smaller.
#[test]
fn each_side_of_an_interval_goes_where_it_belongs() {
    let estimate = |low, high| Estimate { value: 100.0, interval: Interval { low, high } };
    let reach = Reach::of(&estimate(50.0, 100.0), &estimate(100.0, 300.0)).unwrap();
    assert!((reach.up - 3f64.ln().hypot(2f64.ln())).abs() < 3e-3, "{reach:?}");
    assert!(reach.down < 3e-3, "{reach:?}");
    let ratio = Ratio::by_both(100.0, 100.0, None, Some(reach)).unwrap();
    assert!(ratio.interval.low > 0.99 && ratio.interval.high > 3.5, "{ratio:?}");
}

/// A bucket of the histogram is no difference, however many samples agree.
#[test]
fn what_buckets_leave_open_is_no_difference() {
    let exact = |value: f64| Estimate { value, interval: Interval { low: value, high: value } };
    let shows = |new: f64| {
        let reach = Reach::of(&exact(1000.0), &exact(new));
        Ratio::by_either(1000.0, new, None, reach).unwrap().shows_difference()
    };
    assert!(!shows(1001.0) && shows(1002.0));
}

#[test]
fn what_is_not_above_zero_has_no_ratio() {
    let scatter = Scatter::of(&[1.0, 1.1], &[1.0, 1.1]);
    for (base, new) in [(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (1.0, f64::INFINITY), (-1.0, -1.0)]
    {
        assert_eq!(Ratio::by_either(base, new, scatter, None), None);
        let open = Estimate { value: base, interval: Interval { low: base, high: new } };
        assert_eq!(Reach::of(&open, &open), None);
    }
    assert_eq!(Ratio::by_either(f64::MIN_POSITIVE, f64::MAX, scatter, None), None, "no number");
    assert_eq!(
        Ratio::by_both(1.0, 1.0, scatter, None),
        None,
        "rounds of another figure are not enough"
    );
    assert_eq!(Ratio::by_either(1.0, 1.0, None, None), None);
    let endless = Scatter::of(&[1e-300, 1e300], &[1.0, 1.0]);
    assert_eq!(Ratio::by_either(1.0, 1.0, endless, None), None, "an end that is no number");
}

/// How many of 500 trials show a difference of the 99th percentile where there is none: rounds differ by
/// 1 %, and of each side 1,200 samples are known.
#[test]
fn methodology_11_a_planted_nothing_is_not_found_in_a_tail() {
    let mut random = Random(15);
    let mut side = || {
        let mut all = Vec::new();
        let medians: Vec<f64> = (0..3)
            .map(|_| {
                let round = (0.01 * random.normal()).exp();
                let mut samples: Vec<f64> = (0..400).map(|_| round * random.latency()).collect();
                all.extend(&samples);
                median_of(&mut samples).unwrap()
            })
            .collect();
        all.sort_unstable_by(f64::total_cmp);
        let (low, high) = crate::stats::quantile_ranks(1200, 0.99, Z_95).unwrap();
        let at = |rank: u64| all[rank as usize - 1];
        (medians, Estimate { value: at(1188), interval: Interval { low: at(low), high: at(high) } })
    };
    let found = (0..500)
        .filter(|_| {
            let ((old, base), (young, new)) = (side(), side());
            let rounds = Scatter::of(&old, &young);
            let ratio = Ratio::by_both(base.value, new.value, rounds, Reach::of(&base, &new));
            ratio.unwrap().shows_difference()
        })
        .count();
    assert!(found <= 25, "{found} false alarms in 500");
}
