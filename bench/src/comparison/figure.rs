//! One figure of two cells: both values, their ratio with its interval, and what that shows.

use std::fmt;

use serde::Serialize;

use super::metric::Metric;
use crate::{
    report::{CellRecord, StoppedBy},
    stats::{
        Distribution, Estimate, Interval, Ratio, Reach, Scatter, Z_95, reach_of_largest,
        reach_of_smallest,
    },
};

/// What a ratio shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The new one is better, and the interval leaves 1 out.
    Faster,
    /// The new one is worse, and the interval leaves 1 out.
    Slower,
    /// The interval holds 1.
    NoDifferenceShown,
    /// There is no interval.
    NotTested,
}

/// What an interval is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// How rounds differ.
    Rounds,
    /// What samples leave open. It says nothing of rounds that differ.
    Samples,
    /// Both.
    RoundsAndSamples,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rounds => "rounds",
            Self::Samples => "samples alone",
            Self::RoundsAndSamples => "rounds and samples",
        })
    }
}

/// A figure of a cell in both files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Which.
    pub metric: Metric,
    /// The old one, in nanoseconds, bytes a second or messages a second.
    pub base: f64,
    /// The new one.
    pub new: f64,
    /// New by old.
    pub ratio: f64,
    /// The ratio's 95 % interval; `null` where nothing says how far it may be off.
    pub interval_95: Option<[f64; 2]>,
    /// What the interval is made from.
    pub basis: Option<Basis>,
    /// What it shows.
    pub finding: Finding,
}

impl Figure {
    fn new(metric: Metric, base: f64, new: f64, tested: Option<(Ratio, Basis)>) -> Self {
        let finding = match &tested {
            None => Finding::NotTested,
            Some((ratio, _)) if !ratio.shows_difference() => Finding::NoDifferenceShown,
            Some((ratio, _)) if (ratio.interval.low > 1.0) == metric.is_cost() => Finding::Slower,
            Some(_) => Finding::Faster,
        };
        Self {
            metric,
            base,
            new,
            ratio: new / base,
            interval_95: tested
                .as_ref()
                .map(|(ratio, _)| [ratio.interval.low, ratio.interval.high]),
            basis: tested.map(|(_, basis)| basis),
            finding,
        }
    }

    /// What it shows, in words, with by how much.
    #[must_use]
    pub fn words(&self) -> String {
        let percent = (self.ratio - 1.0).abs() * 100.0;
        let by = if percent < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") };
        let costs = self.metric == Metric::Cpu;
        match self.finding {
            Finding::Faster if costs => format!("{by} % less"),
            Finding::Slower if costs => format!("{by} % more"),
            Finding::Faster => format!("{by} % faster"),
            Finding::Slower => format!("{by} % slower"),
            Finding::NoDifferenceShown => "no difference shown".to_owned(),
            Finding::NotTested => "not tested".to_owned(),
        }
    }
}

/// The figures that `metrics` name and both cells have, and what went wrong with reading a distribution.
pub(super) fn figures(
    base: &CellRecord,
    new: &CellRecord,
    metrics: impl Iterator<Item = Metric>,
) -> (Vec<Figure>, Option<String>) {
    let sides = Sides { base: Side::new(base), new: Side::new(new) };
    let figures = metrics
        .filter_map(|metric| {
            let (of_base, of_new) = (metric.of(base)?, metric.of(new)?);
            // Figures that are no figures may have a ratio that is no number.
            let ratio = of_new / of_base;
            if !(ratio > 0.0 && ratio.is_finite()) {
                return None;
            }
            let tested = sides.test(metric, of_base, of_new);
            Some(Figure::new(metric, of_base, of_new, tested))
        })
        .collect();
    (figures, sides.base.unreadable().or_else(|| sides.new.unreadable()))
}

/// Both cells.
struct Sides<'a> {
    base: Side<'a>,
    new: Side<'a>,
}

impl Sides<'_> {
    fn test(&self, metric: Metric, base: f64, new: f64) -> Option<(Ratio, Basis)> {
        let scatter = |base: Vec<f64>, new: Vec<f64>| {
            let rounds = Scatter::of(&base, &new)?;
            let by_agreement = self.base.ended_by_agreement() || self.new.ended_by_agreement();
            Some(if by_agreement { rounds.ended_by_agreement() } else { rounds })
        };
        let by_time = || scatter(self.base.rates(), self.new.rates());
        let by_median = || scatter(self.base.medians(), self.new.medians());
        let (rounds, samples) = match metric {
            Metric::Bandwidth | Metric::Rate => (by_time(), None),
            // Processor time is told of all rounds together.
            Metric::Cpu => (by_time(), None),
            // In a closed loop the mean time is that of the round by its messages, but for a factor.
            Metric::Mean if self.base.is_closed() && self.new.is_closed() => {
                let inverse = by_time().map(|rounds| Scatter { shift: -rounds.shift, ..rounds });
                (inverse, self.reach(metric, base, new))
            }
            _ => (by_median(), self.reach(metric, base, new)),
        };
        let ratio = match metric {
            Metric::P50 | Metric::Bandwidth | Metric::Rate | Metric::Cpu => {
                Ratio::by_either(base, new, rounds, samples)
            }
            Metric::Mean if self.base.is_closed() && self.new.is_closed() => {
                Ratio::by_either(base, new, rounds, samples)
            }
            _ => Ratio::by_both(base, new, rounds, samples),
        }?;
        let basis = match (rounds, samples) {
            (Some(_), Some(_)) => Basis::RoundsAndSamples,
            (Some(_), None) => Basis::Rounds,
            (None, _) => Basis::Samples,
        };
        Some((ratio, basis))
    }

    fn reach(&self, metric: Metric, base: f64, new: f64) -> Option<Reach> {
        match metric {
            Metric::Max => reach_of_largest(self.base.samples()?, self.new.samples()?),
            Metric::Min => reach_of_smallest(self.base.samples()?, self.new.samples()?),
            _ => Reach::of(&self.base.estimate(metric, base)?, &self.new.estimate(metric, new)?),
        }
    }
}

/// One cell, and its distribution once that is asked for.
struct Side<'a> {
    cell: &'a CellRecord,
    samples: std::cell::OnceCell<Result<Distribution, String>>,
}

impl<'a> Side<'a> {
    fn new(cell: &'a CellRecord) -> Self {
        Self { cell, samples: std::cell::OnceCell::new() }
    }

    fn is_closed(&self) -> bool {
        self.cell.load.is_none()
    }

    /// Whether it was measured until its rounds agreed, and no longer.
    fn ended_by_agreement(&self) -> bool {
        self.cell.stopped.is_some_and(|stopped| stopped.by == StoppedBy::Precision)
    }

    /// All samples, where the file has them.
    fn samples(&self) -> Option<&Distribution> {
        let record = self.cell.latency.as_ref()?.histogram.as_ref()?;
        let read = || match record.unit.as_str() {
            "ns" => Distribution::parse(&record.data).map_err(|error| error.to_string()),
            unit => Err(format!("a histogram in `{unit}`, not in ns")),
        };
        self.samples.get_or_init(read).as_ref().ok()
    }

    fn unreadable(&self) -> Option<String> {
        self.samples.get()?.as_ref().err().cloned()
    }

    fn medians(&self) -> Vec<f64> {
        self.cell.rounds.iter().filter_map(|round| round.p50).collect()
    }

    /// Messages by nanosecond of each round: what all that is sent has in common.
    fn rates(&self) -> Vec<f64> {
        let rounds = self.cell.rounds.iter().filter(|round| round.elapsed_ns > 0);
        rounds.map(|round| round.messages as f64 / round.elapsed_ns as f64).collect()
    }

    /// `value`, the cell's figure, with what its samples leave open.
    fn estimate(&self, metric: Metric, value: f64) -> Option<Estimate> {
        let latency = self.cell.latency.as_ref()?;
        let interval = match (metric, metric.quantile()) {
            (Metric::P50, _) if latency.p50_interval_95.is_some() => {
                let [low, high] = latency.p50_interval_95?;
                Interval { low, high }
            }
            (_, Some(q)) => {
                // The distribution is of round trips, and the figure perhaps of half of them.
                let samples = self.samples()?;
                let around = samples.quantile(q).value()? as f64;
                let Interval { low, high } = samples.quantile_interval(q, Z_95)?;
                Interval { low: value * low as f64 / around, high: value * high as f64 / around }
            }
            (Metric::Mean, None) => {
                let error = Z_95 * latency.stddev? / (latency.samples as f64).sqrt() / value;
                Interval { low: value * (-error).exp(), high: value * error.exp() }
            }
            _ => return None,
        };
        Some(Estimate { value, interval })
    }
}

#[cfg(test)]
pub(super) mod tests;
