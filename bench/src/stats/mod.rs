//! Statistics of what was measured. Pure functions of their input: no clock, no input, no output.

mod cost;
mod crossing;
mod distribution;
mod extremes;
mod histogram;
mod interval;
#[cfg(test)]
pub(crate) mod made;
mod packed;
mod ratio;
mod rounds;
mod student;

pub use cost::{Cost, LEAST_SIZES, MOST_PIECES, Piece, cost, pieces};
pub use crossing::{Crossing, Shown, crossings, shown};
pub use distribution::{Distribution, DistributionError};
pub use extremes::{reach_of_largest, reach_of_smallest};
pub use histogram::{Histogram, Quantile};
pub use interval::{Interval, median_interval, median_of, median_ranks, quantile_ranks};
pub use packed::Packed;
pub use ratio::{Estimate, Ratio, Reach, Scatter, Z_95};
pub use rounds::{LEAST_ROUNDS, relative_half_width, rounds_interval_95};
pub use student::t_95;
