//! How narrowly a figure is to be known.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Half of the width of a figure's 95 % interval, relative to the figure, at which it is known well enough.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Precision {
    millionths: u32,
}

/// A text that is no precision.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no precision; write 1%, 0.5% or 5%: from 0.01% to 50%")]
pub struct PrecisionError(String);

impl Precision {
    const LEAST: u32 = 100;
    const MOST: u32 = 500_000;

    /// As a share: 0.01 of 1 %.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.millionths) / 1e6
    }
}

impl FromStr for Precision {
    type Err = PrecisionError;

    /// Reads `1%` or `0.5 %`; a number alone is refused, since it could be either.
    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        let refused = || PrecisionError(text.to_owned());
        let number = text.strip_suffix('%').ok_or_else(refused)?.trim();
        let percent: f64 = number.parse().map_err(|_| refused())?;
        // Saturates, and what is no number becomes 0.
        let millionths = (percent * 1e4).round() as u32;
        let known = (Self::LEAST..=Self::MOST).contains(&millionths);
        known.then_some(Self { millionths }).ok_or_else(refused)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", f64::from(self.millionths) / 1e4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_as_people_write_them() {
        for (text, share, shown) in [
            ("1%", 0.01, "1 %"),
            ("0.5 %", 0.005, "0.5 %"),
            ("50%", 0.5, "50 %"),
            ("0.01%", 1e-4, "0.01 %"),
        ] {
            let precision: Precision = text.parse().unwrap();
            assert_eq!((precision.share(), precision.to_string().as_str()), (share, shown));
        }
        for text in ["", "1", "%", "0%", "-1%", "51%", "0.001%", "nan%", "inf%", "1%%", "a%"] {
            assert!(text.parse::<Precision>().is_err(), "{text}");
        }
    }
}
