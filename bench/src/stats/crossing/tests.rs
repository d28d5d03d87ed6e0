use super::*;
use crate::stats::{Scatter, made::Random};

fn ratio(value: f64, factor: f64) -> Ratio {
    Ratio { value, interval: Interval { low: value / factor, high: value * factor } }
}

#[test]
fn a_ratio_that_passes_1_does_so_at_a_size_between() {
    let sizes = [1.0, 100.0];
    let found = crossings(&sizes, &[ratio(0.5, 1.1), ratio(2.0, 1.1)]);
    assert_eq!(found.len(), 1);
    assert!((found[0].at - 10.0).abs() < 1e-9 && found[0].rises, "{found:?}");
    assert!(found[0].interval.low < 10.0 && found[0].interval.high > 10.0);
    assert!(found[0].interval.low > 1.0 && found[0].interval.high < 100.0);
    let back = crossings(&sizes, &[ratio(2.0, 1.1), ratio(0.5, 1.1)]);
    assert!((back[0].at - 10.0).abs() < 1e-9 && !back[0].rises);
    assert!((back[0].interval.low - found[0].interval.low).abs() < 1e-9);
}

#[test]
fn what_is_not_shown_between_is_in_the_interval() {
    let sizes = [1.0, 10.0, 100.0, 1000.0, 10_000.0];
    let ratios = [0.5, 0.99, 1.01, 0.98, 2.0].map(|value| ratio(value, 1.2));
    let found = crossings(&sizes, &ratios);
    assert_eq!(found.len(), 1, "{found:?}");
    let Crossing { at, interval, between, .. } = found[0];
    assert_eq!(between, (0, 4));
    assert!(interval.low > 1.0 && interval.low < 10.0 && interval.high > 1000.0, "{interval:?}");
    assert!(at > interval.low && at < interval.high);
}

#[test]
fn nothing_is_shown_where_intervals_overlap_or_one_alone_is_weak() {
    let sizes = [1.0, 2.0, 4.0, 8.0];
    let overlap = [0.9, 1.1, 0.9, 1.1].map(|value| ratio(value, 1.2));
    assert_eq!(crossings(&sizes, &overlap), []);
    // Each leaves 1 out, but not if it were twice as wide, and no neighbour says the same.
    let weak = [ratio(0.9, 1.08), ratio(1.0, 1.08), ratio(1.1, 1.08), ratio(1.0, 1.08)];
    assert_eq!(shown(&weak), [Shown::Nothing; 4]);
    assert_eq!(crossings(&sizes, &weak), []);
    assert_eq!(crossings(&[], &[]), []);
    assert_eq!(crossings(&[1.0], &[ratio(2.0, 1.1)]), []);
}

/// Ratios of two transports of which each round's time at each size is off by `deviation`.
fn measured(
    random: &mut Random,
    sizes: &[f64],
    rounds: usize,
    deviation: f64,
    times: fn(f64) -> (f64, f64),
) -> Vec<Ratio> {
    let at = |&size: &f64| {
        let (one, other) = times(size);
        let pairs: Vec<_> = (0..rounds)
            .map(|_| {
                let mut off = |time: f64| time * (deviation * random.normal()).exp();
                (off(other), off(one))
            })
            .collect();
        let scatter = Scatter::paired(&pairs).unwrap();
        let value = scatter.shift.exp();
        Ratio::by_either(1.0, value, Some(scatter), None).unwrap()
    };
    sizes.iter().map(at).collect()
}

fn sizes() -> Vec<f64> {
    (1..=12).map(|power| 4f64.powi(power)).collect()
}

/// In 1,000 seeded trials, rounds that differ by 5 %. The interval is of single sizes, made one of a place
/// between them.
#[test]
fn a_planted_crossing_is_given_back_and_its_interval_holds_it() {
    // 10,000 + n and 30,000 + n / 2 meet at 40,000.
    let times = |size| (1e4 + size, 3e4 + size / 2.0);
    let mut random = Random(5);
    for rounds in [3, 5, 10] {
        let (mut single, mut held, mut near) = (0, 0, 0);
        for _ in 0..1000 {
            let ratios = measured(&mut random, &sizes(), rounds, 0.05, times);
            if let [found] = crossings(&sizes(), &ratios)[..] {
                single += 1;
                held += usize::from((found.interval.low..=found.interval.high).contains(&4e4));
                near += usize::from((2e4..8e4).contains(&found.at) && found.rises);
            }
        }
        println!("{rounds} rounds: {single} found, {held} held, {near} near");
        assert!(single >= 980, "{rounds} rounds: {single}");
        assert!(held * 100 >= single * 93, "{rounds} rounds: {held} of {single}");
        assert!(near * 100 >= single * 97, "{rounds} rounds: {near} of {single}");
    }
}

#[test]
fn without_a_difference_there_is_none() {
    let mut random = Random(9);
    for rounds in [3, 5, 10] {
        let trials = 1000;
        let found = (0..trials)
            .filter(|_| {
                let ratios =
                    measured(&mut random, &sizes(), rounds, 0.05, |size| (1e4 + size, 1e4 + size));
                !crossings(&sizes(), &ratios).is_empty()
            })
            .count();
        println!("{rounds} rounds: {found} of {trials}");
        assert!(found <= trials / 100, "{rounds} rounds: {found}");
    }
}
