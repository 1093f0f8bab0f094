//! Dates and times of Parquet's columns as ISO 8601 writes them, by the crate's own calendar.
//!
//! ```text
//!   date           2024-10-04
//!   time           12:30:00.000001            as many digits as the unit has: 3, 6 or 9
//!   timestamp      2024-10-04 12:30:00.000           where the file says that it is local, or says nothing
//!                  2024-10-04 12:30:00.000 +00:00    where it says that it is of UTC
//! ```
//!
//! 1. What a column is, its logical type says; where there is none, its converted type, whose timestamps are
//!    of UTC. Timestamps of 96 bits say nothing, and are shown to the millisecond.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::record::Field;
use parquet::schema::types::Type;

const DAY_SECONDS: i64 = 86_400;
/// Years up to 262,000 before and after 1970, in days: what the calendar has.
const DAYS_MAX: i64 = 95_000_000;
/// What the crate puts behind every timestamp.
const UTC: &str = " +00:00";

/// What kind of date or time a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Days since 1970.
    Date,
    /// A time of day, counted since midnight.
    TimeOfDay(Unit),
    /// A point in time, counted since 1970; in a zone of its own unless `is_utc`.
    Timestamp { unit: Unit, is_utc: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl Unit {
    const fn of(unit: TimeUnit) -> Self {
        match unit {
            TimeUnit::MILLIS => Self::Millisecond,
            TimeUnit::MICROS => Self::Microsecond,
            TimeUnit::NANOS => Self::Nanosecond,
        }
    }

    const fn per_second(self) -> i64 {
        match self {
            Self::Millisecond => 1000,
            Self::Microsecond => 1_000_000,
            Self::Nanosecond => 1_000_000_000,
        }
    }
}

impl Moment {
    /// What a column has; none where that is no date or time, or is stored as none is.
    pub(super) fn of(field: &Type) -> Option<Self> {
        use Unit::{Microsecond, Millisecond};
        let info = field.get_basic_info();
        let moment = match (info.logical_type_ref(), info.converted_type()) {
            (Some(LogicalType::Date), _) => Self::Date,
            (Some(LogicalType::Time(time)), _) => Self::TimeOfDay(Unit::of(time.unit)),
            (Some(LogicalType::Timestamp(stamp)), _) => {
                let (unit, is_utc) = (Unit::of(stamp.unit), stamp.is_adjusted_to_u_t_c);
                Self::Timestamp { unit, is_utc }
            }
            (Some(_), _) => return None,
            (None, ConvertedType::DATE) => Self::Date,
            (None, ConvertedType::TIME_MILLIS) => Self::TimeOfDay(Millisecond),
            (None, ConvertedType::TIME_MICROS) => Self::TimeOfDay(Microsecond),
            (None, ConvertedType::TIMESTAMP_MILLIS) => {
                Self::Timestamp { unit: Millisecond, is_utc: true }
            }
            (None, ConvertedType::TIMESTAMP_MICROS) => {
                Self::Timestamp { unit: Microsecond, is_utc: true }
            }
            (None, _) if field.get_physical_type() == Physical::INT96 => {
                return Some(Self::Timestamp { unit: Millisecond, is_utc: false });
            }
            (None, _) => return None,
        };
        let stored = match moment {
            Self::Date | Self::TimeOfDay(Millisecond) => Physical::INT32,
            Self::TimeOfDay(_) | Self::Timestamp { .. } => Physical::INT64,
        };
        (field.get_physical_type() == stored).then_some(moment)
    }

    /// How a value is written; none if it is no date or time of the calendar.
    pub(super) fn text_of(self, field: &Field) -> Option<String> {
        let number = number_of(field)?;
        match self {
            Self::Date => {
                let is_known = (-DAYS_MAX..=DAYS_MAX).contains(&number);
                is_known.then(|| Field::Date(i32::try_from(number).unwrap_or_default()).to_string())
            }
            Self::TimeOfDay(unit) => {
                let is_known = (0..DAY_SECONDS * unit.per_second()).contains(&number);
                is_known.then(|| match unit {
                    Unit::Millisecond => {
                        Field::TimeMillis(i32::try_from(number).unwrap_or_default()).to_string()
                    }
                    Unit::Microsecond => Field::TimeMicros(number).to_string(),
                    Unit::Nanosecond => {
                        format!("{}{:03}", Field::TimeMicros(number / 1000), number % 1000)
                    }
                })
            }
            Self::Timestamp { unit, is_utc } => {
                let most = DAYS_MAX.saturating_mul(DAY_SECONDS * unit.per_second());
                if !(-most..=most).contains(&number) {
                    return None;
                }
                let (stamp, digits) = match unit {
                    Unit::Millisecond => (Field::TimestampMillis(number), String::new()),
                    Unit::Microsecond => (Field::TimestampMicros(number), String::new()),
                    Unit::Nanosecond => (
                        Field::TimestampMicros(number.div_euclid(1000)),
                        format!("{:03}", number.rem_euclid(1000)),
                    ),
                };
                let stamp = stamp.to_string();
                let stamp = stamp.strip_suffix(UTC).unwrap_or(&stamp);
                Some(format!("{stamp}{digits}{}", if is_utc { UTC } else { "" }))
            }
        }
    }
}

/// A date or time as the file counts it, under whichever name the crate gives it.
fn number_of(field: &Field) -> Option<i64> {
    Some(match field {
        Field::Date(number) | Field::TimeMillis(number) | Field::Int(number) => i64::from(*number),
        Field::TimeMicros(number)
        | Field::TimestampMillis(number)
        | Field::TimestampMicros(number)
        | Field::Long(number) => *number,
        _ => return None,
    })
}
