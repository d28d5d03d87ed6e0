use super::*;
use crate::stats::made::Random;

fn powers(count: i32) -> Vec<f64> {
    (1..=count).map(|power| 2f64.powi(power)).collect()
}

/// `times` at `sizes`, each off by `deviation`.
fn off(random: &mut Random, sizes: &[f64], deviation: f64, times: fn(f64) -> f64) -> Vec<f64> {
    sizes.iter().map(|&size| times(size) * (deviation * random.normal()).exp()).collect()
}

fn one(size: f64) -> f64 {
    1000.0 + 0.5 * size
}

/// From 4 KiB on another protocol, which jumps.
fn two(size: f64) -> f64 {
    if size < 4096.0 { 1000.0 + 0.5 * size } else { 5000.0 + 0.1 * size }
}

#[test]
fn what_was_planted_is_given_back() {
    let sizes = powers(23);
    let times: Vec<f64> = sizes.iter().map(|&size| two(size)).collect();
    let fit = pieces(&sizes, &times).unwrap();
    assert_eq!(
        fit.iter().map(|piece| (piece.first, piece.last)).collect::<Vec<_>>(),
        [(0, 10), (11, 22)]
    );
    for (piece, (start_up, per_byte)) in fit.iter().zip([(1000.0, 0.5), (5000.0, 0.1)]) {
        assert!((piece.cost.start_up / start_up - 1.0).abs() < 1e-6, "{piece:?}");
        assert!((piece.cost.per_byte / per_byte - 1.0).abs() < 1e-6, "{piece:?}");
    }
    assert!((fit[1].cost.half_size().unwrap() - 50_000.0).abs() < 1.0);
    assert_eq!(Cost { start_up: -1.0, per_byte: 1.0 }.half_size(), None);
    assert_eq!(Cost { start_up: 1.0, per_byte: 0.0 }.half_size(), None);
}

/// A plain least-squares fit would see the largest sizes alone: of what 2 B cost it would know nothing.
#[test]
fn small_sizes_weigh_as_much_as_large_ones() {
    let sizes = powers(23);
    let times = off(&mut Random(3), &sizes, 0.05, one);
    let fit = cost(&sizes, &times, &times).unwrap();
    assert!((fit.start_up / 1000.0 - 1.0).abs() < 0.05, "{fit:?}");
    assert!((fit.per_byte / 0.5 - 1.0).abs() < 0.1, "{fit:?}");
    let plain = cost(&sizes, &times, &vec![1.0; sizes.len()]).unwrap();
    assert!((plain.start_up / 1000.0 - 1.0).abs() > 1.0, "{plain:?}");
}

/// In 300 seeded trials each.
#[test]
fn pieces_are_as_many_as_were_planted() {
    let mut random = Random(7);
    let mut counted = |count, deviation, times| {
        let sizes = powers(count);
        let mut found = [0; MOST_PIECES];
        for _ in 0..300 {
            let times = off(&mut random, &sizes, deviation, times);
            found[pieces(&sizes, &times).unwrap().len() - 1] += 1;
        }
        println!("{count} sizes off by {deviation}: {found:?}");
        found
    };
    for count in [6, 12, 18, 23] {
        for deviation in [0.02, 0.08] {
            let found = counted(count, deviation, one);
            assert!(found[0] >= 285, "{count} sizes off by {deviation}: {found:?}");
        }
    }
    for (count, deviation) in [(18, 0.02), (23, 0.02), (23, 0.08)] {
        let found = counted(count, deviation, two);
        assert!(found[1] >= 285, "{count} sizes off by {deviation}: {found:?}");
    }
}

/// Where figures are known to 2 %, a piece ends where it was planted, in 1,000 trials.
#[test]
fn a_piece_ends_where_the_protocol_switches() {
    let mut random = Random(11);
    let sizes = powers(23);
    let right = (0..1000)
        .filter(|_| {
            let times = off(&mut random, &sizes, 0.02, two);
            let fit = pieces(&sizes, &times).unwrap();
            fit.len() == 2 && fit[0].last == 10
        })
        .count();
    println!("{right} of 1000");
    assert!(right >= 950, "{right}");
}

#[test]
fn what_cannot_be_fitted_is_not() {
    assert_eq!(pieces(&[1.0, 2.0], &[1.0, 2.0]), None);
    assert_eq!(pieces(&[1.0, 2.0, 2.0], &[1.0; 3]), None);
    assert_eq!(pieces(&[1.0, 2.0, 4.0], &[1.0, f64::NAN, 1.0]), None);
    assert_eq!(pieces(&[1.0, 2.0, 4.0], &[1.0, 0.0, 1.0]), None);
    assert_eq!(cost(&[4.0], &[1.0], &[1.0]), None);
    assert_eq!(pieces(&[1.0, 2.0, 4.0], &[1.0, 1.5, 2.5]).map(|fit| fit.len()), Some(1));
}

/// Thousands of sizes take no time to speak of, and no piece is cut too short.
#[test]
fn many_sizes_are_fitted_in_groups() {
    let sizes: Vec<f64> = (1..=2000).map(f64::from).collect();
    let times: Vec<f64> =
        sizes.iter().map(|&size| if size <= 1000.0 { 100.0 } else { 150.0 }).collect();
    let fit = pieces(&sizes, &times).unwrap();
    assert_eq!((fit[0].first, fit[fit.len() - 1].last), (0, 1999));
    assert!(fit.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
    assert!(fit.iter().any(|piece| piece.last.abs_diff(999) <= 32), "{fit:?}");
}
