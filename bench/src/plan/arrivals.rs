//! How calls of an open loop follow one another.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
