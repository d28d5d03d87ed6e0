//! The cost of messages over their size, of each contender.

use super::{
    record::{FitRecord, PieceRecord},
    series::{Contest, Series, time, times_of_rounds},
};
use crate::stats::{Cost, LEAST_ROUNDS, Piece, cost, pieces, t_95};

/// Those of a contest that were measured at three sizes or more.
pub(super) fn fits(contest: &Contest<'_>) -> Vec<FitRecord> {
    contest.series.iter().filter_map(|series| fit(contest, series)).collect()
}

fn fit(contest: &Contest<'_>, series: &Series<'_>) -> Option<FitRecord> {
    let points: Vec<Point> = series
        .cells
        .iter()
        .filter_map(|(&bytes, cell)| {
            let rounds = times_of_rounds(cell).into_values().collect();
            Some(Point { bytes, size: bytes as f64, time: time(cell)?, rounds })
        })
        .collect();
    let sizes: Vec<f64> = points.iter().map(|point| point.size).collect();
    let times: Vec<f64> = points.iter().map(|point| point.time).collect();
    let pieces = pieces(&sizes, &times)?;
    let mut squares = 0.0;
    let mut largest = (0.0_f64, 0);
    for piece in &pieces {
        for point in points.get(piece.first..=piece.last)? {
            let residual = piece.cost.at(point.size) / point.time - 1.0;
            squares += residual * residual;
            if residual.abs() >= largest.0.abs() {
                largest = (residual, point.bytes);
            }
        }
    }
    Some(FitRecord {
        question: contest.question.clone(),
        of: series.of.clone(),
        pieces: pieces.iter().map(|piece| record(piece, &points)).collect::<Option<_>>()?,
        residual_rms: (squares / points.len() as f64).sqrt(),
        residual_largest: largest.0,
        residual_largest_at: largest.1,
    })
}

struct Point {
    bytes: u64,
    size: f64,
    time: f64,
    rounds: Vec<f64>,
}

fn record(piece: &Piece, points: &[Point]) -> Option<PieceRecord> {
    let points = points.get(piece.first..=piece.last)?;
    let Cost { start_up, per_byte } = piece.cost;
    let rounds = rounds(points);
    let start_up_interval = interval(start_up, rounds.iter().map(|cost| cost.start_up));
    let per_byte_interval = interval(per_byte, rounds.iter().map(|cost| cost.per_byte));
    let is_shown = |value: f64, interval: Option<[f64; 2]>| {
        value > 0.0 && interval.is_none_or(|[low, _]| low > 0.0)
    };
    let has_rate = is_shown(per_byte, per_byte_interval);
    let half = piece.cost.half_size().filter(|_| is_shown(start_up, start_up_interval));
    Some(PieceRecord {
        from: points.first()?.bytes,
        to: points.last()?.bytes,
        sizes: points.len() as u64,
        start_up_ns: start_up,
        start_up_interval_95: start_up_interval,
        per_byte_ns: per_byte,
        per_byte_interval_95: per_byte_interval,
        bytes_per_s: Some(1e9 / per_byte).filter(|rate| has_rate && rate.is_finite()),
        half_rate_bytes: half.filter(|_| has_rate),
    })
}

/// The same fit to each round that all sizes have, with the same weights.
fn rounds(points: &[Point]) -> Vec<Cost> {
    let least = points.iter().map(|point| point.rounds.len()).min().unwrap_or(0);
    let sizes: Vec<f64> = points.iter().map(|point| point.size).collect();
    let scale: Vec<f64> = points.iter().map(|point| point.time).collect();
    let of = |round: usize| {
        let times = points.iter().map(|point| point.rounds.get(round).copied());
        cost(&sizes, &times.collect::<Option<Vec<_>>>()?, &scale)
    };
    (0..least).filter_map(of).collect()
}

/// Student's t over rounds, about their mean; never without the figure of all rounds.
fn interval(figure: f64, rounds: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let rounds: Vec<f64> = rounds.collect();
    if rounds.len() < LEAST_ROUNDS {
        return None;
    }
    let count = rounds.len() as f64;
    let mean = rounds.iter().sum::<f64>() / count;
    let squares = rounds.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let reach = t_95(count - 1.0)? * (squares / (count - 1.0) / count).sqrt();
    let ends = [(mean - reach).min(figure), (mean + reach).max(figure)];
    ends.iter().all(|end| end.is_finite()).then_some(ends)
}
