//! What the rounds of one cell say of the next one: rounds differ by more than the samples within one.

use super::{Interval, t_95};

/// Rounds without which there is no interval over them: of two, Student's t is 12.7 standard errors.
pub const LEAST_ROUNDS: usize = 3;

/// The 95 % confidence interval of what rounds have in common, from each round's figure (its median, or its
/// rate): Student's t on their logarithms, so that a slow round weighs as much as a fast one and no end is
/// negative.
///
/// Takes rounds for independent and their logarithms for normal, which a mean of many samples nearly is.
/// `None` with fewer than [`LEAST_ROUNDS`], or a figure that is not positive and finite.
///
/// ```
/// use fabricbench::stats::rounds_interval_95;
/// let interval = rounds_interval_95(&[99.0, 100.0, 101.0]).unwrap();
/// assert!(interval.low < 98.0 && interval.high > 102.0);
/// assert_eq!(rounds_interval_95(&[99.0, 101.0]), None);
/// ```
#[must_use]
pub fn rounds_interval_95(figures: &[f64]) -> Option<Interval<f64>> {
    let n = figures.len();
    if n < LEAST_ROUNDS || figures.iter().any(|figure| !figure.is_finite() || *figure <= 0.0) {
        return None;
    }
    let logarithms = || figures.iter().map(|figure| figure.ln());
    let mean = logarithms().sum::<f64>() / n as f64;
    let square = logarithms().map(|value| (value - mean).powi(2)).sum::<f64>();
    let error = (square / (n - 1) as f64 / n as f64).sqrt();
    let reach = t_95((n - 1) as f64)? * error;
    Some(Interval { low: (mean - reach).exp(), high: (mean + reach).exp() })
}

/// Half of an interval's width, relative to the figure that it is of.
#[must_use]
pub fn relative_half_width(interval: Interval<f64>, figure: f64) -> Option<f64> {
    let half = (interval.high - interval.low) / 2.0 / figure;
    (half.is_finite() && half >= 0.0).then_some(half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::made::Random;

    #[test]
    fn rounds_that_agree_have_a_narrow_interval_and_too_few_have_none() {
        assert_eq!(rounds_interval_95(&[100.0; 2]), None);
        assert_eq!(rounds_interval_95(&[100.0, 0.0, 100.0]), None);
        assert_eq!(rounds_interval_95(&[100.0, f64::NAN, 100.0]), None);
        let same = rounds_interval_95(&[100.0; 3]).unwrap();
        assert!((same.low - 100.0).abs() < 1e-9 && (same.high - 100.0).abs() < 1e-9);
        // Standard deviation of 1 %: 4.303 / sqrt 3 of it each way.
        let three = [0.99f64, 1.0, 1.01].map(|share| 100.0 * share);
        let interval = rounds_interval_95(&three).unwrap();
        let half = relative_half_width(interval, 100.0).unwrap();
        assert!((half - 0.0248).abs() < 1e-3, "{half}");
    }

    /// Issue 5: between 93 % and 97 % over 2,000 seeded trials.
    #[test]
    fn methodology_2_the_interval_over_rounds_covers_as_often_as_it_says() {
        let mut random = Random(11);
        for rounds in [3, 5, 12] {
            let trials = 2000;
            let hits = (0..trials)
                .filter(|_| {
                    let figures: Vec<f64> =
                        (0..rounds).map(|_| 50.0 * (0.05 * random.normal()).exp()).collect();
                    let interval = rounds_interval_95(&figures).unwrap();
                    interval.low <= 50.0 && 50.0 <= interval.high
                })
                .count();
            let coverage = hits as f64 / f64::from(trials);
            assert!((0.93..=0.97).contains(&coverage), "{rounds} rounds: {coverage}");
        }
    }
}
