//! Where the ratio of two figures over size changes sides, and how surely.

use super::{Interval, Ratio};

/// What a ratio shows, beside its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Below 1.
    Below,
    /// Above 1.
    Above,
    /// No difference.
    Nothing,
}

/// A place at which the ratio passes 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossing {
    /// The size.
    pub at: f64,
    /// The sizes at which the ratio's 95 % interval holds 1, from the last one before to the first one behind.
    pub interval: Interval<f64>,
    /// Between which of the sizes it lies, as indices: the nearest at which a difference is shown.
    pub between: (usize, usize),
    /// Whether the ratio rises.
    pub rises: bool,
}

/// What the ratios at sizes that follow one another show. Of many 95 % intervals some leave 1 out by chance: so one
/// counts where a neighbour shows the same, or where it would leave 1 out if it were twice as wide.
#[must_use]
pub fn shown(ratios: &[Ratio]) -> Vec<Shown> {
    let side = |ratio: &Ratio, widened: f64| {
        let middle = ratio.value.ln();
        let low = middle - widened * (middle - ratio.interval.low.ln());
        let high = middle + widened * (ratio.interval.high.ln() - middle);
        match () {
            () if high < 0.0 => Shown::Below,
            () if low > 0.0 => Shown::Above,
            () => Shown::Nothing,
        }
    };
    let sides: Vec<Shown> = ratios.iter().map(|ratio| side(ratio, 1.0)).collect();
    let at = |index: usize| {
        let alone = sides.get(index).copied().unwrap_or(Shown::Nothing);
        let neighbours = [index.checked_sub(1), Some(index + 1)].into_iter().flatten();
        let backed = neighbours.filter_map(|at| sides.get(at)).any(|&side| side == alone);
        let strong = ratios.get(index).is_some_and(|ratio| side(ratio, 2.0) == alone);
        if backed || strong { alone } else { Shown::Nothing }
    };
    (0..sides.len()).map(at).collect()
}

/// The places at which `ratios`, of `sizes` that ascend, pass 1: between two sizes of which one shows a ratio below 1
/// and the other one above it, with none between that shows either. Ratios and the ends of their intervals are
/// taken for straight from size to size, all on logarithms. Nothing is said of what lies beyond the sizes.
///
/// Where the ratio passes 1 more than once between the two, `at` is in the middle of the first and the last.
#[must_use]
pub fn crossings(sizes: &[f64], ratios: &[Ratio]) -> Vec<Crossing> {
    let sides = shown(ratios);
    let mut found = Vec::new();
    let mut last: Option<(usize, Shown)> = None;
    for (index, &side) in sides.iter().enumerate().filter(|(_, side)| **side != Shown::Nothing) {
        if let Some((before, _)) = last.filter(|&(_, other)| other != side) {
            found.extend(crossing(sizes, ratios, (before, index), side == Shown::Above));
        }
        last = Some((index, side));
    }
    found
}

fn crossing(
    sizes: &[f64],
    ratios: &[Ratio],
    between: (usize, usize),
    rises: bool,
) -> Option<Crossing> {
    let (sizes, ratios) = (sizes.get(between.0..=between.1)?, ratios.get(between.0..=between.1)?);
    // Turned so that it rises.
    let ends = |ratio: &Ratio| {
        let (low, high) = (ratio.interval.low.ln(), ratio.interval.high.ln());
        if rises { (low, ratio.value.ln(), high) } else { (-high, -ratio.value.ln(), -low) }
    };
    let zeros = |of: fn((f64, f64, f64)) -> f64| {
        let points = sizes.iter().zip(ratios).map(|(size, ratio)| (size.ln(), of(ends(ratio))));
        zeros(&points.collect::<Vec<_>>())
    };
    let (first, last) = zeros(|(_, middle, _)| middle)?;
    let (low, _) = zeros(|(.., high)| high)?;
    let (_, high) = zeros(|(low, ..)| low)?;
    let interval = Interval { low: low.min(first).exp(), high: high.max(last).exp() };
    Some(Crossing { at: f64::midpoint(first, last).exp(), interval, between, rises })
}

/// Where a line through points first leaves what is below 0, and where it last does.
fn zeros(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let zero = |pair: &[(f64, f64)]| match *pair {
        [(from, low), (to, high)] if low < 0.0 && high >= 0.0 => {
            Some(from + (to - from) * (low / (low - high)))
        }
        _ => None,
    };
    let mut all = points.windows(2).filter_map(zero);
    let first = all.next()?;
    Some((first, all.next_back().unwrap_or(first)))
}

#[cfg(test)]
mod tests;
