//! Pauses of a closed loop, between a reply and the next call.

use std::{fmt, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How long whoever has a reply waits before the next call: the think time of a terminal or a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Think {
    /// In the mean.
    pub mean: Duration,
    /// How pauses differ.
    pub spread: ThinkSpread,
}

/// How pauses differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkSpread {
    /// All take the same time.
    Constant,
    /// As those of people and programs that know nothing of one another.
    Exponential,
}

impl fmt::Display for ThinkSpread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Constant => "constant",
            Self::Exponential => "exponential",
        })
    }
}

/// A text that is no think time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no time to think; write 50us, 2ms or 0.1s, up to 1s, with :exponential behind it where pauses are \
     to differ, or no"
)]
pub struct ThinkError(String);

impl Think {
    /// The longest mean: nobody looks at the stop signal in a pause of a ping-pong.
    pub const LONGEST: Duration = Duration::from_secs(1);
}

impl FromStr for Think {
    type Err = ThinkError;

    fn from_str(text: &str) -> Result<Self, ThinkError> {
        let refused = || ThinkError(text.to_owned());
        let (time, spread) = match text.split_once(':') {
            None | Some((_, "constant")) => (text.split(':').next(), ThinkSpread::Constant),
            Some((time, "exponential")) => (Some(time), ThinkSpread::Exponential),
            Some(_) => return Err(refused()),
        };
        let time = time.unwrap_or_default();
        let digits = time.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, unit) = time.split_at(digits);
        let scale = match unit {
            "s" => 1e9,
            "ms" => 1e6,
            "us" => 1e3,
            "ns" => 1.0,
            _ => return Err(refused()),
        };
        let number: f64 = number.parse().map_err(|_| refused())?;
        // Saturates, and what is no number becomes 0.
        let mean = Duration::from_nanos((number * scale).round() as u64);
        let known = !mean.is_zero() && mean <= Self::LONGEST;
        known.then_some(Self { mean, spread }).ok_or_else(refused)
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.mean.as_nanos();
        match nanoseconds {
            whole if whole % 1_000_000 == 0 => write!(f, "{}ms", whole / 1_000_000)?,
            whole if whole % 1_000 == 0 => write!(f, "{}us", whole / 1_000)?,
            whole => write!(f, "{whole}ns")?,
        }
        match self.spread {
            ThinkSpread::Constant => Ok(()),
            ThinkSpread::Exponential => f.write_str(":exponential"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_are_read_as_they_are_written() {
        for text in ["50us", "2ms", "100ms:exponential", "1500us", "7ns"] {
            assert_eq!(text.parse::<Think>().unwrap().to_string(), text);
        }
        assert_eq!("0.1s".parse::<Think>().unwrap().to_string(), "100ms");
        assert_eq!("50us:constant".parse::<Think>().unwrap().to_string(), "50us");
        for text in ["", "0us", "5", "2s", "1.5s", "5us:uniform", "us", "-1us", "1e9us", "9us:"] {
            assert!(
                text.parse::<Think>().unwrap_err().to_string().contains(":exponential"),
                "{text}"
            );
        }
    }
}
