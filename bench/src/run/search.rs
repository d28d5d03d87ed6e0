//! Rates that are searched for: which are offered next, and what they showed.
//!
//! First the capacity of each cell of calls is measured, in a closed loop. Then shares of it are offered, and
//! then the places are looked at more closely between which the load is no longer borne, and the time of a
//! call leaves what the rule of the knee permits. Each of these steps is a plan of its own, in interleaved
//! rounds as any other.

use crate::{
    engine::LEAST_ANSWERED,
    plan::{
        Arrivals, Axis, Cell, KneeFigure, KneeRule, LEAST_MESSAGES, MOST_CALLS_PER_SECOND, Pattern,
        Plan, Value,
    },
    report::{CellRecord, KneeRecord, Latency, LoadRecord, Status},
};

/// Shares of the capacity that are offered first: so many, evenly apart, up to all of it.
const SHARES: u64 = 10;

/// Closer looks behind these, at the most.
const LOOKS: usize = 4;

/// Rates of one cell, at the most: in a closer look, one for the capacity and one for the knee.
pub(super) const MOST_RATES: usize = SHARES as usize + 2 * LOOKS;

/// Two rates that differ by less are the same: the rounds of a steady machine differ by as much.
const APART: f64 = 0.02;

/// By how much more is offered where all that was offered is borne.
const STEP_UP: f64 = 1.25;

/// What was found at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    /// Calls a second that were offered.
    pub(super) rate: u64,
    /// Whether they were borne in most rounds (what stood still once says nothing of the load), and answered at
    /// that rate.
    pub(super) sustained: bool,
    /// The figure that the rule is of, in nanoseconds, where there are calls enough for it.
    pub(super) time: Option<f64>,
}

/// What a curve says, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Reading {
    /// The highest rate that was borne, and the lowest above it that was not.
    pub(super) sustained: Option<u64>,
    pub(super) unsustained: Option<u64>,
    /// The least time at a rate that was borne.
    pub(super) least: Option<f64>,
    /// The highest rate that was borne in a time that the rule permits, and the lowest above it that was
    /// offered and was not.
    pub(super) knee: Option<u64>,
    pub(super) beyond: Option<u64>,
}

impl Reading {
    /// Reads what was `found`, in any order.
    pub(super) fn of(found: &[Found], rule: KneeRule) -> Self {
        let borne = || found.iter().filter(|found| found.sustained);
        let sustained = borne().map(|found| found.rate).max();
        let above =
            |rate: Option<u64>| move |found: &&Found| rate.is_none_or(|rate| found.rate > rate);
        let lowest = |rate| found.iter().filter(above(rate)).map(|found| found.rate).min();
        let least = borne().filter_map(|found| found.time).min_by(f64::total_cmp);
        let is_permitted = |found: &&Found| {
            found.time.zip(least).is_some_and(|(time, least)| time <= least * rule.times())
        };
        let knee = borne().filter(is_permitted).map(|found| found.rate).max();
        let unsustained = lowest(sustained);
        Self {
            sustained,
            unsustained,
            least,
            knee,
            beyond: knee.and_then(|knee| lowest(Some(knee))),
        }
    }

    /// The rates to offer for a closer look, without those that were offered already; none where enough is
    /// known.
    fn next(&self, found: &[Found]) -> Vec<u64> {
        let mut next = Vec::new();
        match (self.sustained, self.unsustained) {
            (Some(sustained), None) => next.push((sustained as f64 * STEP_UP).ceil() as u64),
            (None, Some(unsustained)) => next.push(unsustained / 2),
            (Some(low), Some(high)) => next.extend(between(low, high)),
            (None, None) => {}
        }
        next.extend(self.knee.zip(self.beyond).and_then(|(low, high)| between(low, high)));
        next.retain(|rate| {
            (1..=MOST_CALLS_PER_SECOND).contains(rate)
                && !found.iter().any(|found| found.rate == *rate)
        });
        next.dedup();
        next
    }
}

/// Whether a knee rests on no more rates that were borne than there are below it that were not.
fn is_unfounded(found: &[Found], knee: u64) -> bool {
    let (borne, unborne): (Vec<&Found>, Vec<_>) =
        found.iter().filter(|found| found.rate <= knee).partition(|found| found.sustained);
    !unborne.is_empty() && borne.len() <= unborne.len()
}

/// The middle of two rates that are far enough apart.
fn between(low: u64, high: u64) -> Option<u64> {
    let far = high - low > 1 && (high - low) as f64 > APART * high as f64;
    far.then_some(low + (high - low) / 2)
}

/// The shares of `capacity` that are offered first.
fn shares(capacity: f64) -> Vec<u64> {
    let most = (capacity.floor() as u64).clamp(1, MOST_CALLS_PER_SECOND);
    let mut rates: Vec<_> = (1..=SHARES).map(|share| (most * share / SHARES).max(1)).collect();
    rates.dedup();
    rates
}

/// The search of one run.
#[derive(Debug)]
pub(super) struct Search {
    rule: KneeRule,
    curves: Vec<Curve>,
    looks: usize,
}

/// The cells of one curve.
#[derive(Debug)]
struct Curve {
    cell: Cell,
    /// Places in the document: of the closed loop, and of the rates.
    capacity: usize,
    rates: Vec<usize>,
}

impl Search {
    /// What `plan` has to search for; `None` if it has not.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let rule = plan.search?;
        let curve = |(capacity, cell): (usize, &Cell)| Curve {
            cell: cell.clone(),
            capacity,
            rates: Vec::new(),
        };
        let searched = plan.cells.iter().enumerate().filter(|(_, cell)| is_searched(cell));
        Some(Self { rule, curves: searched.map(curve).collect(), looks: 0 })
    }

    /// The plan of what is offered next, by what `cells` of the document say, where its cells are to be put
    /// behind; `None` if there is nothing more.
    pub(super) fn next(&mut self, plan: &Plan, cells: &[CellRecord]) -> Option<Plan> {
        let looks = self.looks;
        self.looks += 1;
        if looks > LOOKS {
            return None;
        }
        let mut next = Vec::new();
        for curve in &mut self.curves {
            let rates = match looks {
                0 => curve.capacity(cells).map_or_else(Vec::new, shares),
                _ => {
                    let found = curve.found(cells, self.rule.figure);
                    Reading::of(&found, self.rule).next(&found)
                }
            };
            for rate in rates {
                let variant = curve.cell.variant.clone().with(Axis::Rate, Value::Number(rate));
                curve.rates.push(cells.len() + next.len());
                next.push(Cell { variant, ..curve.cell.clone() });
            }
        }
        (!next.is_empty()).then(|| Plan { cells: next, search: None, ..plan.clone() })
    }

    /// What each curve says.
    pub(super) fn knees(&self, cells: &[CellRecord]) -> Vec<KneeRecord> {
        self.curves.iter().map(|curve| curve.record(cells, self.rule)).collect()
    }

    /// Puts the rates of each curve behind its closed loop, ascending; places are of no use afterwards.
    pub(super) fn sort(self, cells: &mut Vec<CellRecord>) {
        let mut keys: Vec<(usize, u64)> = (0..cells.len()).map(|place| (place, 0)).collect();
        for curve in self.curves {
            for place in curve.rates {
                if let (Some(key), Some(cell)) = (keys.get_mut(place), cells.get(place)) {
                    *key = (curve.capacity, rate(cell).unwrap_or(0));
                }
            }
        }
        let mut sorted: Vec<_> = keys.into_iter().zip(std::mem::take(cells)).collect();
        sorted.sort_by_key(|(key, _)| *key);
        cells.extend(sorted.into_iter().map(|(_, cell)| cell));
    }
}

/// Whether rates are searched for in `cell`.
pub(super) fn is_searched(cell: &Cell) -> bool {
    cell.pattern == Pattern::Calls
        && Axis::Rate.touches(&cell.transport, cell.pattern)
        && cell.variant.get(Axis::Rate).is_none()
}

fn rate(cell: &CellRecord) -> Option<u64> {
    match cell.variant.get(Axis::Rate)? {
        Value::Number(rate) => Some(*rate),
        Value::Word(_) => None,
    }
}

impl Curve {
    fn capacity(&self, cells: &[CellRecord]) -> Option<f64> {
        let cell = cells.get(self.capacity).filter(|cell| cell.status == Status::Measured)?;
        Some(cell.throughput.as_ref()?.messages_per_s)
    }

    /// What its rates showed, but for those of which too few calls were made to tell.
    fn found(&self, cells: &[CellRecord], figure: KneeFigure) -> Vec<Found> {
        let of = |&place: &usize| {
            let cell = cells.get(place)?;
            let (load, latency) = (cell.load.as_ref()?, cell.latency.as_ref()?);
            let time = time(latency, figure);
            let sustained = cell.is_borne() && is_answered(load, latency.samples);
            let is_known = latency.samples >= LEAST_MESSAGES;
            is_known.then_some(Found { rate: rate(cell)?, sustained, time })
        };
        self.rates.iter().filter_map(of).collect()
    }

    fn record(&self, cells: &[CellRecord], rule: KneeRule) -> KneeRecord {
        let found = self.found(cells, rule.figure);
        let Reading { sustained, unsustained, least, knee, beyond } = Reading::of(&found, rule);
        let time_at = |rate: Option<u64>| {
            found.iter().find(|found| Some(found.rate) == rate).and_then(|found| found.time)
        };
        let capacity = self.capacity(cells);
        let Cell { transport, pattern, size, reply, buffers, variant, .. } = self.cell.clone();
        let lower = found.iter().filter(|found| !found.sustained && Some(found.rate) < sustained);
        let unsustained_below = lower.count() as u64;
        let unfounded = knee.filter(|&knee| is_unfounded(&found, knee));
        let (knee, beyond) = if unfounded.is_some() { (None, None) } else { (knee, beyond) };
        let reason = match (capacity, least) {
            _ if unfounded.is_some() => Some(format!(
                "no more rates were sustained than lower ones were not ({unsustained_below}), so that the machine was \
                 not steady; repeat on a quiet one, or give a longer -D"
            )),
            (None, _) => Some("its closed loop has no figures".to_owned()),
            (_, None) if found.is_empty() => Some(format!(
                "no rate was measured with {LEAST_MESSAGES} calls or more: give more of them with -n, or a longer -D"
            )),
            (_, None) if sustained.is_none() => Some("no rate was sustained".to_owned()),
            (_, None) => Some(format!(
                "too few calls for a {} at any rate: give a longer -D, or another figure with --knee",
                rule.figure
            )),
            _ => None,
        };
        KneeRecord {
            transport,
            pattern,
            size,
            reply,
            buffers,
            variant,
            capacity_per_s: capacity,
            closed_depth: cells.get(self.capacity).and_then(|cell| cell.settings.as_ref()?.depth),
            sustained_per_s: sustained.map(|rate| rate as f64),
            unsustained_per_s: unsustained.map(|rate| rate as f64),
            unsustained_below,
            saturated: unsustained.is_some(),
            figure: rule.figure,
            times: rule.times(),
            unit: "ns".to_owned(),
            least,
            knee_per_s: knee.map(|rate| rate as f64),
            knee_time: time_at(knee),
            beyond_per_s: beyond.map(|rate| rate as f64),
            reason,
        }
    }
}

/// Whether as many of `calls` were answered in their time as were offered, as far as chance allows.
fn is_answered(load: &LoadRecord, calls: u64) -> bool {
    // The number of random arrivals in a given time varies by its root.
    let chance = match load.arrivals {
        Arrivals::Constant => 0.0,
        Arrivals::Poisson => 3.0 / (calls as f64).sqrt(),
    };
    load.achieved_per_s
        .is_some_and(|achieved| achieved >= (LEAST_ANSWERED - chance) * load.offered_per_s)
}

fn time(latency: &Latency, figure: KneeFigure) -> Option<f64> {
    match figure {
        KneeFigure::P50 => latency.p50,
        KneeFigure::P99 => latency.p99,
        KneeFigure::Mean => Some(latency.mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{LatencyKind, RoundRecord},
        run::{figures::latency, tally::unmeasured},
        stats::Histogram,
    };

    const RULE: fn() -> KneeRule = KneeRule::default;

    fn found(rates: &[(u64, bool, f64)]) -> Vec<Found> {
        let one = |&(rate, sustained, time): &(u64, bool, f64)| Found {
            rate,
            sustained,
            time: Some(time),
        };
        rates.iter().map(one).collect()
    }

    #[test]
    fn the_knee_is_the_highest_rate_within_the_rule_and_below_it_is_what_is_borne() {
        let curve = found(&[
            (10, true, 5.0),
            (40, true, 4.0),
            (60, true, 8.0),
            (80, true, 9.0),
            (100, false, 90.0),
        ]);
        let reading = Reading::of(&curve, RULE());
        assert_eq!(
            reading,
            Reading {
                sustained: Some(80),
                unsustained: Some(100),
                least: Some(4.0),
                knee: Some(60),
                beyond: Some(80)
            }
        );
        assert_eq!(reading.next(&curve), [90, 70]);
        // What is fast because it was not borne is no figure.
        let curve = found(&[(10, true, 5.0), (20, false, 1.0)]);
        assert_eq!(Reading::of(&curve, RULE()).least, Some(5.0));
    }

    #[test]
    fn a_knee_among_rates_that_were_not_borne_is_none() {
        let curve = |borne: [bool; 4]| {
            let rates = [10, 20, 30, 40].into_iter().zip(borne);
            found(&rates.map(|(rate, borne)| (rate, borne, 5.0)).collect::<Vec<_>>())
        };
        assert!(is_unfounded(&curve([false, false, true, false]), 30));
        assert!(is_unfounded(&curve([true, false, false, true]), 40));
        assert!(!is_unfounded(&curve([true, false, true, false]), 30), "two of three");
        assert!(!is_unfounded(&curve([true, false, false, false]), 10), "those above are to be");
    }

    #[test]
    fn more_is_offered_where_all_is_borne_and_less_where_nothing_is() {
        let curve = found(&[(90, true, 5.0), (100, true, 5.0)]);
        let reading = Reading::of(&curve, RULE());
        assert_eq!((reading.unsustained, reading.beyond), (None, None));
        assert_eq!(reading.next(&curve), [125]);
        let curve = found(&[(10, false, 5.0), (20, false, 5.0)]);
        assert_eq!(Reading::of(&curve, RULE()).next(&curve), [5]);
        assert_eq!(Reading::of(&[], RULE()).next(&[]), [0; 0]);
    }

    #[test]
    fn a_rate_of_which_a_tenth_is_answered_is_not_sustained_and_a_handful_of_calls_says_nothing() {
        let cell = Cell::new("tcp@lo".parse().unwrap(), Pattern::Calls, 64);
        let curve = Curve { cell: cell.clone(), capacity: 0, rates: vec![1] };
        let found = |calls, achieved, arrivals| {
            let mut record = unmeasured(&cell, "not yet");
            record.variant = record.variant.with(Axis::Rate, Value::Number(1000));
            record.load = Some(LoadRecord {
                arrivals,
                offered_per_s: 1000.0,
                achieved_per_s: Some(achieved),
                bound: 8,
                most_in_flight: 1,
                held_back: 0,
                given_up: 0,
                sustained: true,
                rounds_not_sustained: 0,
            });
            let mut times = Histogram::new();
            (0..calls).for_each(|_| times.record(100));
            record.latency = latency(&times, LatencyKind::RoundTrip, &[]);
            let round = |round| RoundRecord { round, messages: 1, elapsed_ns: 1, p50: None };
            record.rounds = (0..3).map(round).collect();
            let found = curve.found(&[unmeasured(&cell, "not yet"), record], KneeFigure::Mean);
            found.first().map(|found| found.sustained)
        };
        let constant = Arrivals::Constant;
        assert_eq!(found(1000, 960.0, constant), Some(true));
        assert_eq!(found(1000, 100.0, constant), Some(false));
        assert_eq!(found(19, 1000.0, constant), None);
        assert_eq!(found(100, 700.0, constant), Some(false));
        assert_eq!(found(100, 700.0, Arrivals::Poisson), Some(true));
    }

    #[test]
    fn what_is_near_enough_is_not_looked_at_again() {
        let curve = found(&[(990, true, 5.0), (1000, false, 50.0)]);
        assert_eq!(Reading::of(&curve, RULE()).next(&curve), [0; 0]);
        assert_eq!(between(1, 2), None);
        assert_eq!(between(1, 3), Some(2));
        // The same place, for both reasons, once.
        let curve = found(&[(50, true, 5.0), (100, false, 50.0)]);
        assert_eq!(Reading::of(&curve, RULE()).next(&curve), [75]);
    }

    #[test]
    fn shares_are_of_the_capacity_and_each_is_offered_once() {
        assert_eq!(shares(1000.9), [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
        assert_eq!(shares(3.2), [1, 2, 3]);
        assert_eq!(shares(0.1), [1]);
        assert_eq!(shares(1e12).last(), Some(&MOST_CALLS_PER_SECOND));
    }
}
