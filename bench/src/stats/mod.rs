//! Statistics of what was measured. Pure functions of their input: no clock, no input, no output.

mod distribution;
mod histogram;
mod interval;
mod rounds;

pub use distribution::{Distribution, DistributionError};
pub use histogram::{Histogram, Quantile};
pub use interval::{Interval, median_interval, median_of, median_ranks};
pub use rounds::{LEAST_ROUNDS, relative_half_width, rounds_interval_95};
