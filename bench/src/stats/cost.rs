//! Time over size as a start-up cost and a cost a byte, in as few pieces as the figures need.
//!
//! t(n) = a + b n is Hockney's model (R. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994),
//! in which 1 / b is the rate of very large messages and a / b the size at which half of it is reached (his r-infinity
//! and n-1/2). Where a protocol switches, as in LogGP with a rendezvous (Alexandrov and others, SPAA 1995), a and b
//! are others: then each piece has its own.
//!
//! Times span decades, so what is least is the sum of the squares of RELATIVE residuals: a least-squares fit with
//! weights 1 / t^2. The plain one would see the largest sizes alone.

/// Sizes that a piece has at the least: two numbers are fitted to them.
pub const LEAST_SIZES: usize = 3;

/// The most pieces of one fit.
pub const MOST_PIECES: usize = 4;

/// Relative residuals, root of the mean square, that no further piece is for: figures are not known better.
const FINE: f64 = 0.01;

/// Between how many groups of sizes a piece may end, where there are more sizes than that.
const MOST_PLACES: usize = 64;

/// a + b n.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Time of a message without a byte. Of a piece that begins at large sizes, where the line meets the axis and
    /// no more: it may be below 0.
    pub start_up: f64,
    /// Time of a byte.
    pub per_byte: f64,
}

impl Cost {
    /// Time of a message of `size` bytes.
    #[must_use]
    pub fn at(self, size: f64) -> f64 {
        self.start_up + self.per_byte * size
    }

    /// The size at which half of the rate of very large messages is reached; `None` where one of the two costs
    /// is none.
    #[must_use]
    pub fn half_size(self) -> Option<f64> {
        let size = self.start_up / self.per_byte;
        (self.start_up > 0.0 && self.per_byte > 0.0 && size.is_finite()).then_some(size)
    }
}

/// Sizes that follow one another and have one cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// The first of them, as an index.
    pub first: usize,
    /// The last of them.
    pub last: usize,
    /// Their cost.
    pub cost: Cost,
}

/// The cost of messages whose `times` are known at `sizes`: of least relative squares, with weights 1 / `scale`^2.
/// `None` where it is not determined: fewer than two sizes, or a number that is none.
#[must_use]
pub fn cost(sizes: &[f64], times: &[f64], scale: &[f64]) -> Option<Cost> {
    let points = || {
        let scaled = sizes.iter().zip(times).zip(scale);
        scaled.map(|((&size, &time), &scale)| (size, time, 1.0 / (scale * scale)))
    };
    // About the weighted means, so that sizes of nine digits lose none of theirs.
    let (all, of_sizes, of_times) = points().fold((0.0, 0.0, 0.0), |sums, (size, time, weight)| {
        (sums.0 + weight, sums.1 + weight * size, sums.2 + weight * time)
    });
    let (size_mean, time_mean) = (of_sizes / all, of_times / all);
    let (square, product) = points().fold((0.0, 0.0), |sums, (size, time, weight)| {
        let (across, up) = (size - size_mean, time - time_mean);
        (sums.0 + weight * across * across, sums.1 + weight * across * up)
    });
    let per_byte = product / square;
    let start_up = time_mean - per_byte * size_mean;
    (per_byte.is_finite() && start_up.is_finite()).then_some(Cost { start_up, per_byte })
}

/// The pieces of a fit to `times` at `sizes`, which ascend. How many there are, and where they end, is decided by
/// the Bayesian information criterion (Schwarz, Annals of Statistics 6, 1978), with the factor for few figures that
/// Hurvich and Tsai (Biometrika 76, 1989) have for Akaike's: a piece is two numbers, and where it ends a third. The
/// pieces themselves are found by dynamic programming, so that none are better. Neighbours need not meet: a protocol
/// that switches may jump.
///
/// `None` with fewer than [`LEAST_SIZES`], sizes that do not ascend, or a time that is not above zero.
///
/// ```
/// use fabricbench::stats::pieces;
/// let sizes = [64.0, 256.0, 1024.0, 4096.0];
/// let times = sizes.map(|size| 1000.0 + 0.5 * size);
/// let fit = pieces(&sizes, &times).unwrap();
/// assert_eq!(fit.len(), 1);
/// assert!((fit[0].cost.half_size().unwrap() - 2000.0).abs() < 1e-6);
/// ```
#[must_use]
pub fn pieces(sizes: &[f64], times: &[f64]) -> Option<Vec<Piece>> {
    let count = sizes.len();
    let positive = |value: &f64| *value > 0.0 && value.is_finite();
    let ascend = sizes.windows(2).all(|pair| matches!(pair, [one, other] if one < other));
    if count < LEAST_SIZES || times.len() != count || !ascend || !times.iter().all(positive) {
        return None;
    }
    let places = count.min(MOST_PLACES);
    let borders: Vec<usize> = (0..=places).map(|place| place * count / places).collect();
    let squares = squares(sizes, times, &borders);
    let most = MOST_PIECES.min(count / LEAST_SIZES);
    let mut chosen: Option<(f64, Vec<usize>)> = None;
    for (index, (sum, ends)) in best(&squares, most).into_iter().enumerate() {
        let Some(worth) = criterion(sum, count, index + 1) else { continue };
        if chosen.as_ref().is_none_or(|(least, _)| worth < *least) {
            chosen = Some((worth, ends));
        }
    }
    let mut first = 0;
    let (_, ends) = chosen?;
    ends.into_iter()
        .map(|end| {
            let end = *borders.get(end)?;
            let (sizes, times) = (sizes.get(first..end)?, times.get(first..end)?);
            let piece = Piece { first, last: end - 1, cost: cost(sizes, times, times)? };
            first = end;
            Some(piece)
        })
        .collect()
}

/// What is least, from the sum of the squares of relative residuals; `None` where figures are too few for it.
fn criterion(squares: f64, count: usize, pieces: usize) -> Option<f64> {
    let (count, numbers) = (count as f64, (3 * pieces - 1) as f64);
    let variance = (squares / count).max(FINE * FINE);
    let room = count - numbers - 2.0;
    if pieces == 1 && room <= 0.0 {
        return Some(0.0);
    }
    let worth = count * variance.ln() + numbers * count.ln() * count / room;
    (room > 0.0 && worth.is_finite()).then_some(worth)
}

/// By where pieces begin and end, among the borders, the sum of the squares of their relative residuals; infinite
/// of too few sizes.
fn squares(sizes: &[f64], times: &[f64], borders: &[usize]) -> Vec<Vec<f64>> {
    let of = |from: usize, to: usize| {
        let (sizes, times) = (sizes.get(from..to)?, times.get(from..to)?);
        let cost = (sizes.len() >= LEAST_SIZES).then(|| cost(sizes, times, times))??;
        let residuals = sizes.iter().zip(times).map(|(&size, time)| cost.at(size) / time - 1.0);
        Some(residuals.map(|residual| residual * residual).sum())
    };
    let row =
        |&from: &usize| borders.iter().map(|&to| of(from, to).unwrap_or(f64::INFINITY)).collect();
    borders.iter().map(row).collect()
}

/// For one piece, for two, and so on: the least sum of squares, and the borders at which pieces end.
fn best(squares: &[Vec<f64>], most: usize) -> Vec<(f64, Vec<usize>)> {
    let places = squares.len();
    let between = |from: usize, to: usize| {
        squares.get(from).and_then(|row| row.get(to)).copied().unwrap_or(f64::INFINITY)
    };
    // The best ways to cover all until each border.
    let mut ways: Vec<(f64, Vec<usize>)> =
        (0..places).map(|to| (between(0, to), vec![to])).collect();
    let mut found = Vec::new();
    for _ in 0..most {
        found.extend(ways.last().cloned());
        let longer = |to: usize| {
            let before = ways.iter().enumerate().take(to);
            let sums = before.map(|(from, (sum, _))| (sum + between(from, to), from));
            let (sum, from) = sums.min_by(|one, other| one.0.total_cmp(&other.0))?;
            let (_, ends) = ways.get(from)?;
            Some((sum, ends.iter().copied().chain([to]).collect()))
        };
        ways = (0..places).map(|to| longer(to).unwrap_or((f64::INFINITY, Vec::new()))).collect();
    }
    found
}

#[cfg(test)]
mod tests;
