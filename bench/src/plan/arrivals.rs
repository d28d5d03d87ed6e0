//! How calls of an open loop follow one another.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most calls a second that may be offered: more are beyond what a thread can begin.
pub const MOST_CALLS_PER_SECOND: u64 = 100_000_000;

/// How the times at which calls begin are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Constant,
    /// As those of many clients that know nothing of one another: a Poisson process.
    Poisson,
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
        })
    }
}
