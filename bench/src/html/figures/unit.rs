//! Units in which figures are drawn.

use crate::report::number::figure;

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    /// How many nanoseconds it is.
    pub(super) nanoseconds: f64,
}

impl Unit {
    /// One in which figures from `least` to `most` nanoseconds are read with few digits.
    pub(super) fn covering(nanoseconds: impl Iterator<Item = f64>) -> Self {
        let middle = |values: Vec<f64>| values.get(values.len() / 2).copied();
        let mut values: Vec<f64> = nanoseconds.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (name, nanoseconds) = match middle(values).unwrap_or(1e3) {
            typical if typical >= 3e9 => ("s", 1e9),
            typical if typical >= 3e6 => ("ms", 1e6),
            typical if typical >= 300.0 => ("µs", 1e3),
            _ => ("ns", 1.0),
        };
        Self { name, nanoseconds }
    }

    /// A time in it.
    pub(super) fn of(self, nanoseconds: f64) -> f64 {
        nanoseconds / self.nanoseconds
    }

    /// A figure with its interval, and beside it what is named.
    pub(super) fn words(self, value: f64, interval: Option<[f64; 2]>, p99: Option<f64>) -> String {
        let shown = |nanoseconds: f64| figure(Some(self.of(nanoseconds)));
        let mut words = shown(value);
        if let Some([low, high]) = interval {
            words.push_str(&format!(" [{}, {}]", shown(low), shown(high)));
        }
        if let Some(p99) = p99 {
            words.push_str(&format!("; p99 {}", shown(p99)));
        }
        words
    }
}
