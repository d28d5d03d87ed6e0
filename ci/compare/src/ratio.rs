//! Ratios within rounds, and the bars they are held against.

use std::fmt;

use fabricbench::stats::{Interval, median_interval, median_of};

/// Normal quantile of a 95 % interval.
const Z: f64 = 1.96;

/// Fewer rounds have no interval: see [`fabricbench::stats::median_ranks`].
pub const LEAST_ROUNDS: u32 = 6;

/// What a ratio must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// Costs: latency.
    AtMost(f64),
    /// Yields: bandwidth.
    AtLeast(f64),
}

impl Bar {
    /// Whether `ratio` is what it must be.
    pub fn is_met_by(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) => ratio >= least,
        }
    }

    /// "met" or "missed".
    pub fn verdict(self, ratio: f64) -> &'static str {
        if self.is_met_by(ratio) { "met" } else { "missed" }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::AtLeast(least) => write!(f, "≥ {least}"),
        }
    }
}

/// The ratio of two contenders, round by round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Rounds in which both have a figure.
    pub rounds: usize,
    /// Median of the rounds' ratios.
    pub median: f64,
    /// Its 95 % interval from order statistics.
    pub interval: Option<Interval<f64>>,
}

impl Ratio {
    /// Of `ours` to `theirs`, both by round; `None` if no round has both.
    pub fn of(ours: &[Option<f64>], theirs: &[Option<f64>]) -> Option<Self> {
        let mut ratios: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?))
            .collect();
        let median = median_of(&mut ratios)?;
        Some(Self { rounds: ratios.len(), median, interval: median_interval(&mut ratios, Z) })
    }

    /// Whether the lower end of the interval misses `bar`.
    pub fn misses(&self, bar: Bar) -> bool {
        self.interval.is_some_and(|interval| !bar.is_met_by(interval.low))
    }
}

/// The median over the rounds that have a figure.
pub fn median(figures: &[Option<f64>]) -> Option<f64> {
    median_of(&mut figures.iter().copied().flatten().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn ratios_pair_by_round_so_that_drift_cancels() {
        // The machine becomes ten times slower; ours is 10 % slower throughout.
        let theirs = figures(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0]);
        let mut ours: Vec<_> = theirs.iter().map(|theirs| theirs.map(|t| 1.1 * t)).collect();
        let ratio = Ratio::of(&ours, &theirs).unwrap();
        assert_eq!(ratio.rounds, 9);
        assert!((ratio.median - 1.1).abs() < 1e-9);
        let interval = ratio.interval.unwrap();
        assert!(interval.high - interval.low < 1e-9, "{interval:?}");

        // A round that one of them lost is no pair.
        ours[4] = None;
        assert_eq!(Ratio::of(&ours, &theirs).unwrap().rounds, 8);
        assert_eq!(Ratio::of(&[None], &figures(&[1.0])), None);
    }

    #[test]
    fn the_interval_needs_the_least_rounds() {
        let least = figures(&[1.0; LEAST_ROUNDS as usize]);
        assert!(Ratio::of(&least, &least).unwrap().interval.is_some());
        assert!(Ratio::of(&least[1..], &least[1..]).unwrap().interval.is_none());
    }

    #[test]
    fn the_lower_end_decides() {
        let theirs = figures(&[1.0; 6]);
        let ratio = |low: f64, high: f64| {
            Ratio::of(&figures(&[low, low, low, high, high, high]), &theirs).unwrap()
        };
        assert!(!ratio(1.05, 1.2).misses(Bar::AtMost(1.05)));
        assert!(ratio(1.06, 1.2).misses(Bar::AtMost(1.05)));
        assert!(!ratio(0.95, 1.2).misses(Bar::AtLeast(0.95)));
        assert!(ratio(0.94, 1.2).misses(Bar::AtLeast(0.95)));
        assert_eq!(Bar::AtLeast(0.95).verdict(0.96), "met");
        assert_eq!(Bar::AtMost(1.05).verdict(1.06), "missed");
        assert_eq!(Bar::AtMost(1.05).to_string(), "≤ 1.05");
    }

    #[test]
    fn medians_skip_what_is_absent() {
        assert_eq!(median(&[Some(3.0), None, Some(1.0), Some(2.0)]), Some(2.0));
        assert_eq!(median(&[None]), None);
    }
}
