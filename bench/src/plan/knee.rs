//! Where a curve of latency against load bends: the rule by which that is told.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The figure of a call's time that a knee is of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum KneeFigure {
    /// The median.
    P50,
    /// The 99th percentile, of which there is none of fewer than 1,000 calls.
    P99,
    /// The arithmetic mean, of which queueing theory speaks.
    Mean,
}

impl fmt::Display for KneeFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P50 => "median",
            Self::P99 => "99th percentile",
            Self::Mean => "mean",
        })
    }
}

/// The rule: the knee is the highest load at which the figure is at most so many times the least one of all
/// loads.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct KneeRule {
    /// The figure.
    pub figure: KneeFigure,
    /// How many times the least one it may be, in hundredths.
    pub times_hundredths: u32,
}

/// A text that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no rule for a knee; write p50:2, p99:3 or mean:1.5, with a number from 1.1 to 100"
)]
pub struct KneeRuleError(String);

impl Default for KneeRule {
    /// Twice the least median. Where arrivals and service are random (M/M/1), the load at which throughput
    /// by delay is greatest has twice the unloaded time (Kleinrock, "Power and deterministic rules of thumb
    /// for probabilistic problems in computer communications", ICC 1979).
    fn default() -> Self {
        Self { figure: KneeFigure::P50, times_hundredths: 200 }
    }
}

impl KneeRule {
    /// How many times the least figure the one at the knee may be.
    #[must_use]
    pub fn times(self) -> f64 {
        f64::from(self.times_hundredths) / 100.0
    }
}

impl FromStr for KneeRule {
    type Err = KneeRuleError;

    /// Reads `p50:2`, `p99:3` or `mean:1.5`; a figure alone stands for twice of it.
    fn from_str(text: &str) -> Result<Self, KneeRuleError> {
        let refused = || KneeRuleError(text.to_owned());
        let (name, times) = text.split_once(':').unwrap_or((text, "2"));
        let figure = match name {
            "p50" | "median" => KneeFigure::P50,
            "p99" => KneeFigure::P99,
            "mean" => KneeFigure::Mean,
            _ => return Err(refused()),
        };
        let times: f64 = times.parse().map_err(|_| refused())?;
        // Saturates, and what is no number becomes 0.
        let times_hundredths = (times * 100.0).round() as u32;
        let known = (110..=10_000).contains(&times_hundredths);
        known.then_some(Self { figure, times_hundredths }).ok_or_else(refused)
    }
}

impl fmt::Display for KneeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure, .. } = self;
        write!(f, "{figure} of at most {} times the least one", self.times())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_a_figure_and_how_many_times_the_least_of_it() {
        let read = |text: &str| text.parse::<KneeRule>().map(|rule| (rule.figure, rule.times()));
        assert_eq!(read("p50:2"), Ok((KneeFigure::P50, 2.0)));
        assert_eq!(read("p99"), Ok((KneeFigure::P99, 2.0)));
        assert_eq!(read("mean:1.25"), Ok((KneeFigure::Mean, 1.25)));
        for text in ["", "p50:", "p50:1", "p95:2", "2", "mean:NaN", "p99:101", "p99:-3", "p99:inf"]
        {
            assert!(read(text).unwrap_err().to_string().contains("p99:3"), "{text}");
        }
        assert_eq!(KneeRule::default().to_string(), "median of at most 2 times the least one");
    }
}
