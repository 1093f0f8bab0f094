//! How a trace is read.

use crate::{AddressMap, TraceError, TraceFormat};
use nandu_base::greatest_common_divisor;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a trace is read; the default reads any format as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceOptions {
    /// The format; absent means that it is found by content.
    pub format: Option<TraceFormat>,
    /// Columns of a table that is none of the formats, as in `time=us,op,offset=sector,size`.
    pub columns: Option<String>,
    /// Whether a numeric type means the opposite of what its format says (some SSDSim forks).
    pub invert_types: bool,
    /// Whether bad lines are left out and counted, instead of ending the trace with an error.
    pub skip_bad: bool,
    /// By how much time runs faster than it was recorded.
    pub speed_up: SpeedUp,
    /// How addresses of the trace become addresses of the drive.
    pub address_map: AddressMap,
    /// Size of the drive; absent means without bounds.
    pub capacity_bytes: Option<u64>,
    /// The one device, volume or file that is replayed, as the trace names it; absent means all.
    pub device: Option<String>,
}

/// A factor on time, kept as a fraction so that times stay integers. As text `2`, `0.5` or `3/2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpeedUp {
    numerator: u64,
    denominator: u64,
}

impl Default for SpeedUp {
    fn default() -> Self {
        Self { numerator: 1, denominator: 1 }
    }
}

impl SpeedUp {
    /// Reads `2`, `0.5` or `3/2`.
    ///
    /// # Errors
    /// If it is no positive number, or has more than nine digits after the point.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let wrong = || TraceError::Option {
            message: format!("speed-up is `{text}`, must be a positive number such as 2, 0.5, 3/2"),
        };
        let (numerator, denominator) = match text.split_once('/') {
            Some((left, right)) => (
                left.trim().parse().map_err(|_| wrong())?,
                right.trim().parse().map_err(|_| wrong())?,
            ),
            None => {
                const UNIT: u64 = 1_000_000_000;
                let number =
                    crate::field::decimal(text.trim().as_bytes(), UNIT, "").map_err(|_| wrong())?;
                (number, UNIT)
            }
        };
        if numerator == 0 || denominator == 0 {
            return Err(wrong());
        }
        let divisor = greatest_common_divisor(numerator, denominator);
        Ok(Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// A time since the start of the trace as it is replayed; `None` past 2^64 ns.
    #[inline]
    pub(crate) fn apply(self, since_start_ns: u64) -> Option<u64> {
        if self.numerator == 1 && self.denominator == 1 {
            return Some(since_start_ns);
        }
        let product = u128::from(since_start_ns) * u128::from(self.denominator);
        u64::try_from(product / u128::from(self.numerator)).ok()
    }
}

impl fmt::Display for SpeedUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(formatter, "{}", self.numerator),
            _ => write!(formatter, "{}/{}", self.numerator, self.denominator),
        }
    }
}

impl TryFrom<String> for SpeedUp {
    type Error = TraceError;

    fn try_from(text: String) -> Result<Self, TraceError> {
        Self::parse(&text)
    }
}

impl From<SpeedUp> for String {
    fn from(speed_up: SpeedUp) -> Self {
        speed_up.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_scaled_exactly() {
        for (text, shown, result) in [
            ("1", "1", 1_000_001),
            ("2", "2", 500_000),
            ("0.1", "1/10", 10_000_010),
            ("3/2", "3/2", 666_667),
            ("1.5", "3/2", 666_667),
        ] {
            let speed_up = SpeedUp::parse(text).unwrap();
            assert_eq!(speed_up.to_string(), shown);
            assert_eq!(speed_up.apply(1_000_001), Some(result), "{text}");
        }
        assert_eq!(SpeedUp::parse("1/9").unwrap().apply(u64::MAX), None);
        for text in ["0", "", "-1", "1/0", "0/3", "fast", "1e3"] {
            assert!(SpeedUp::parse(text).is_err(), "{text}");
        }
    }
}
