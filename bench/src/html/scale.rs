//! From values to places on an axis, and what stands at its ticks.

use crate::{plan::display_bytes, report::number::figure};

/// What an axis is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Even, from 0.
    Linear,
    /// Powers of ten.
    Log,
    /// Bytes: powers of two.
    Bytes,
    /// 1 / (1 - q) of a quantile q, by powers of ten: each decade is a nine more.
    Nines,
    /// Shares from 0 to 1, as percent.
    Share,
}

impl Kind {
    /// Whether `value` has a place on such an axis.
    pub(super) fn takes(self, value: f64) -> bool {
        let reaches = match self {
            Self::Nines => value >= 1.0,
            Self::Log | Self::Bytes => value > 0.0,
            Self::Linear | Self::Share => value >= 0.0,
        };
        reaches && value.is_finite()
    }

    fn is_log(self) -> bool {
        matches!(self, Self::Log | Self::Bytes | Self::Nines)
    }
}

/// An axis with its range, and where on the paper that lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    kind: Kind,
    // On a log axis logarithms to base 10.
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

/// A place on an axis that is written at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

impl Scale {
    /// An axis that has room for all of `values`; those that it does not take count for nothing.
    pub(super) fn covering(kind: Kind, values: impl Iterator<Item = f64>) -> Self {
        let project = |value: f64| if kind.is_log() { value.log10() } else { value };
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|&value| kind.takes(value)).map(project) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let (low, high) = match kind {
            Kind::Linear => (0.0, if high > 0.0 { (high * 1.04).min(f64::MAX) } else { 1.0 }),
            Kind::Share => (0.0, 1.0),
            Kind::Nines => (0.0, high.max(1.0)),
            Kind::Bytes if high - low < 0.2 => (low - 0.3, high + 0.3),
            Kind::Bytes => (low - 0.02 * (high - low), high + 0.02 * (high - low)),
            Kind::Log if high - low < 0.2 => (low - 0.15, high + 0.15),
            Kind::Log => (low - 0.04 * (high - low), high + 0.06 * (high - low)),
        };
        Self { kind, low, high, from: 0.0, to: 1.0 }
    }

    /// The same, from `from` to `to` on the paper.
    pub(super) fn over(self, from: f64, to: f64) -> Self {
        Self { from, to, ..self }
    }

    /// Where `value` is on the paper; it has to be one that the axis takes.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.kind.is_log() { value.log10() } else { value };
        let share = (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
        self.from + share * (self.to - self.from)
    }

    /// Ticks, `room` apart from one another at the least.
    pub(super) fn ticks(&self, room: f64) -> Vec<Tick> {
        let most = ((self.to - self.from).abs() / room).floor().max(2.0);
        match self.kind {
            Kind::Linear => self.even(0.0, self.high, most),
            Kind::Share => {
                let shares = [0.0, 0.25, 0.5, 0.75, 1.0];
                self.named(shares.into_iter().map(|share| (share, format!("{} %", share * 100.0))))
            }
            Kind::Nines => self.nines(most),
            Kind::Bytes => self.bytes(most),
            Kind::Log => self.decades(most),
        }
    }

    /// Places of powers of two, of bytes: which have no labels where there is no room.
    pub(super) fn octaves(&self) -> Vec<f64> {
        if self.kind != Kind::Bytes {
            return Vec::new();
        }
        let two = std::f64::consts::LOG10_2;
        let (low, high) = ((self.low / two).ceil().max(0.0), (self.high / two).floor().min(63.0));
        let count = if high < low { 0 } else { (high - low) as u32 + 1 };
        (0..count).map(|index| self.at((low + f64::from(index)).exp2())).collect()
    }

    fn named(&self, labels: impl Iterator<Item = (f64, String)>) -> Vec<Tick> {
        let (least, most) = (self.from.min(self.to) - 0.5, self.from.max(self.to) + 0.5);
        let ticks = labels.map(|(value, label)| Tick { at: self.at(value), label });
        ticks.filter(|tick| (least..=most).contains(&tick.at)).collect()
    }

    /// Multiples of 1, 2 or 5 times a power of ten.
    fn even(&self, low: f64, high: f64, most: f64) -> Vec<Tick> {
        let least = (high / most - low / most).max(f64::MIN_POSITIVE);
        let power = 10f64.powf(least.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0];
        let factor = factors.into_iter().find(|factor| factor * power >= least).unwrap_or(10.0);
        let step = factor * power;
        let first = (low / step).ceil();
        let count = ((high / step).floor() - first).clamp(0.0, 100.0) as u32;
        let values = (0..=count).map(|index| (first + f64::from(index)) * step);
        self.named(values.map(|value| (value, number(value))))
    }

    fn nines(&self, most: f64) -> Vec<Tick> {
        let every = (self.high / most).ceil().max(1.0);
        let decades = (self.high / every).floor().min(100.0) as u32;
        let median = (most >= 6.0 && every < 2.0).then(|| (2.0, "50 %".to_owned()));
        let decade = |index: u32| {
            let nines = (f64::from(index) * every) as usize;
            let label = match nines {
                0 => "0 %".to_owned(),
                1 => "90 %".to_owned(),
                2 => "99 %".to_owned(),
                _ => format!("99.{} %", "9".repeat(nines - 2)),
            };
            (10f64.powf(f64::from(index) * every), label)
        };
        let mut labels: Vec<_> = (0..=decades).map(decade).chain(median).collect();
        labels.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        self.named(labels.into_iter())
    }

    fn bytes(&self, most: f64) -> Vec<Tick> {
        let two = std::f64::consts::LOG10_2;
        let (low, high) = ((self.low / two).ceil().max(0.0), (self.high / two).floor().min(63.0));
        if low > high {
            return Vec::new();
        }
        let mut step = 1.0;
        while (high - low) / step + 1.0 > most {
            step *= 2.0;
        }
        let first = (low / step).ceil() as u32;
        let last = (high / step).floor() as u32;
        let values = (first..=last).map(|index| 1u64 << (u64::from(index) * step as u64).min(63));
        self.named(values.map(|value| (value as f64, display_bytes(value).to_string())))
    }

    fn decades(&self, most: f64) -> Vec<Tick> {
        let (first, last) = (self.low.ceil(), self.high.floor());
        let whole = last - first + 1.0;
        for factors in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0]] {
            let powers = (0..=4).map(|index| 10f64.powf(self.low.floor() + f64::from(index)));
            let values: Vec<_> = powers
                .flat_map(|power| factors.iter().map(move |factor| factor * power))
                .filter(|value| (self.low..=self.high).contains(&value.log10()))
                .collect();
            if whole <= 4.0 && values.len() >= 3 && values.len() as f64 <= most {
                return self.named(values.into_iter().map(|value| (value, number(value))));
            }
        }
        if whole >= 2.0 {
            let every = (whole / most).ceil().max(1.0);
            let count = ((last - first) / every).floor().clamp(0.0, 100.0) as u32;
            let values = (0..=count).map(|index| 10f64.powf(first + f64::from(index) * every));
            return self.named(values.map(|value| (value, number(value))));
        }
        self.even(10f64.powf(self.low), 10f64.powf(self.high), most.min(5.0))
    }
}

/// A round number, with nothing behind the point that is not needed.
fn number(value: f64) -> String {
    let scaled = [(1e15, None), (1e9, Some("G")), (1e6, Some("M"))];
    match scaled.into_iter().find(|(least, _)| value.abs() >= *least) {
        Some((_, None)) => format!("{value:.0e}"),
        Some((unit, Some(letter))) => format!("{} {letter}", short(value / unit)),
        None if value != 0.0 && value.abs() < 1e-4 => format!("{value:.0e}"),
        None => short(value),
    }
}

fn short(value: f64) -> String {
    let text = figure(Some(value));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(kind: Kind, values: &[f64], room: f64) -> Vec<String> {
        let scale = Scale::covering(kind, values.iter().copied()).over(0.0, 500.0);
        scale.ticks(room).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(Kind::Linear, &[0.0, 940.0], 100.0), ["0", "200", "400", "600", "800"]);
        assert_eq!(labels(Kind::Log, &[3.0, 5000.0], 100.0), ["10", "100", "1,000"]);
        assert_eq!(labels(Kind::Log, &[28.0, 110.0], 100.0), ["40", "60", "80", "100"]);
        assert_eq!(labels(Kind::Log, &[28.0, 310.0], 100.0), ["50", "100", "200"]);
        assert_eq!(labels(Kind::Bytes, &[2.0, 4194304.0], 100.0), ["256 B", "64 KiB"]);
        assert_eq!(
            labels(Kind::Nines, &[1e4], 60.0),
            ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]
        );
        assert_eq!(labels(Kind::Share, &[], 60.0).len(), 5);
        assert_eq!(labels(Kind::Log, &[3e6, 2e9], 100.0), ["10 M", "100 M", "1 G"]);
    }

    #[test]
    fn what_has_no_place_is_not_taken() {
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(!Kind::Linear.takes(value) && !Kind::Log.takes(value), "{value}");
        }
        assert!(Kind::Linear.takes(0.0) && !Kind::Log.takes(0.0));
    }

    proptest! {
        #[test]
        fn every_value_is_on_the_paper(values in prop::collection::vec(any::<f64>(), 0..6), room in 20.0..200.0) {
            for kind in [Kind::Linear, Kind::Log, Kind::Bytes, Kind::Nines] {
                let scale = Scale::covering(kind, values.iter().copied()).over(300.0, 10.0);
                for value in values.iter().copied().filter(|&value| kind.takes(value)) {
                    let at = scale.at(value);
                    prop_assert!(at <= 300.5 && at.is_finite(), "{} at {} on {:?}", value, at, scale);
                    prop_assert!(kind == Kind::Nines || at >= 9.5, "{} at {} on {:?}", value, at, scale);
                }
                let ticks = scale.ticks(room);
                prop_assert!(ticks.len() <= 120);
                for tick in ticks {
                    prop_assert!((9.0..=301.0).contains(&tick.at), "{:?} on {:?}", tick, scale);
                }
            }
        }
    }
}
