//! Quantities that must not mix: time, energy, sizes and the three kinds of flash address.
//!
//! 1. Every quantity is an unsigned integer; nothing here is a float, so sums do not depend on order.
//! 2. Arithmetic that leaves the range panics in every build: a wrapped clock is our own mistake.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        quantity!($(#[$doc])* $name of u64);
    };
    ($(#[$doc:meta])* $name:ident of $(#[$field:meta])* $whole:ty) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name($(#[$field])* pub $whole);

        impl $name {
            /// The quantity of nothing, 0.
            pub const ZERO: Self = Self(0);
            /// The largest value; as a time, "never".
            pub const MAX: Self = Self(<$whole>::MAX);

            /// The difference, or zero where `other` is larger.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// The sum, or [`Self::MAX`] where it leaves the range.
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0.checked_add(other.0).expect("quantity left its range"))
            }
        }

        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Sub for $name {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0.checked_sub(other.0).expect("quantity fell below zero"))
            }
        }

        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl Mul<u64> for $name {
            type Output = Self;
            #[inline]
            fn mul(self, count: u64) -> Self {
                Self(self.0.checked_mul(count.into()).expect("quantity left its range"))
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                values.fold(Self::ZERO, |total, value| total + value)
            }
        }
    };
}

quantity!(
    /// A point in time or a duration, in nanoseconds. Virtual unless a real drive made it.
    Nanos
);
quantity!(
    /// Energy in picojoules. 2^64 of them are 18 MJ, a year of half a watt, so there are more of them than
    /// of other quantities; what a file says of one command fits into 64 bits.
    Picojoules of #[serde(with = "short_picojoules")] u128
);

/// Picojoules in files, whose numbers have 64 bits.
mod short_picojoules {
    use serde::{Deserialize, Deserializer, Serializer, ser::Error};

    pub(super) fn serialize<S: Serializer>(value: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        let short = u64::try_from(*value);
        serializer.serialize_u64(short.map_err(|_| S::Error::custom("more than 2^64 picojoules"))?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u128, D::Error> {
        u64::deserialize(deserializer).map(u128::from)
    }
}
quantity!(
    /// A size in bytes.
    ByteCount
);
quantity!(
    /// The number of a device's sector, its smallest unit of addressing.
    SectorIndex
);
quantity!(
    /// Logical page number: what the host of a translation layer writes to.
    Lpn
);
quantity!(
    /// Physical page number: a flash page of a chip array, counted through all erase blocks.
    Ppn
);

impl Nanos {
    /// The latest time that simulators reach, 2^63 ns or 292 years. They end with an error there, so that
    /// no sum of a time and a duration passes 2^64.
    pub const HORIZON: Self = Self(1 << 63);

    /// A duration of `count` microseconds.
    #[must_use]
    pub const fn from_micros(count: u64) -> Self {
        Self(count * 1_000)
    }

    /// A duration of `count` milliseconds.
    #[must_use]
    pub const fn from_millis(count: u64) -> Self {
        Self(count * 1_000_000)
    }

    /// A duration of `count` seconds.
    #[must_use]
    pub const fn from_seconds(count: u64) -> Self {
        Self(count * 1_000_000_000)
    }

    /// In seconds; for reports only, since it rounds.
    #[must_use]
    pub fn as_seconds_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In microseconds; for reports only, since it rounds.
    #[must_use]
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The time to move `bytes` at `bytes_per_second`, rounded up. Zero speed means "takes no time",
    /// which is how presets say that a transfer is folded into another figure.
    #[inline]
    #[must_use]
    pub fn of_transfer(bytes: u64, bytes_per_second: u64) -> Self {
        if bytes_per_second == 0 {
            return Self::ZERO;
        }
        if let Some(scaled) = bytes.checked_mul(1_000_000_000) {
            return Self(scaled.div_ceil(bytes_per_second));
        }
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_second));
        Self(u64::try_from(nanos).expect("a transfer that outlasts five centuries"))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0 as f64;
        match self.0 {
            0..1_000 => write!(formatter, "{} ns", self.0),
            1_000..1_000_000 => write!(formatter, "{} us", three_digits(nanos / 1e3)),
            1_000_000..1_000_000_000 => write!(formatter, "{} ms", three_digits(nanos / 1e6)),
            _ => write!(formatter, "{} s", three_digits(nanos / 1e9)),
        }
    }
}

impl ByteCount {
    /// A size of `count` binary kilobytes.
    #[must_use]
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    /// A size of `count` binary megabytes.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// A size of `count` binary gigabytes.
    #[must_use]
    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }

    /// Reads `4096`, `4K`, `4KiB`, `1 MiB`, `20G`: binary units, as storage people write them.
    /// A decimal unit (`kB`, `MB`, `GB`, `TB`) is a power of ten.
    ///
    /// # Errors
    /// Says what was wrong with the text: no number, an unknown unit, or a size past 2^64.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (digits, unit) = trimmed.split_at(split);
        let number: u64 = digits
            .parse()
            .map_err(|_| format!("`{text}` is not a size; write for example 4096, 4KiB or 1GiB"))?;
        let factor: u64 = match unit.trim() {
            "" | "b" | "B" => 1,
            "k" | "K" | "KiB" => 1 << 10,
            "m" | "M" | "MiB" => 1 << 20,
            "g" | "G" | "GiB" => 1 << 30,
            "t" | "T" | "TiB" => 1 << 40,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            other => {
                return Err(format!("`{other}` in `{text}` is no unit; use B, KiB, MiB, GiB, TiB"));
            }
        };
        number.checked_mul(factor).map(Self).ok_or_else(|| format!("`{text}` is past 2^64 bytes"))
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut unit = 0;
        let mut value = self.0 as f64;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if value.fract() == 0.0 {
            write!(formatter, "{value:.0} {}", UNITS[unit])
        } else {
            write!(formatter, "{} {}", three_digits(value), UNITS[unit])
        }
    }
}

/// Three significant digits without an exponent: `1.23`, `12.3`, `123`, `1234`.
#[must_use]
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        x if x >= 99.95 => format!("{value:.0}"),
        x if x >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Three significant figures without an exponent, of small numbers, too: `0.00123`, `1234`.
#[must_use]
pub fn figures(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor();
    let places = (2.0 - magnitude).clamp(0.0, 12.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 12")]
    let places = places as usize;
    format!("{value:.places$}")
}

/// A 64-bit quantity as an index into memory.
///
/// # Panics
/// Where the machine cannot address that much.
#[inline]
#[must_use]
pub fn to_index(value: u64) -> usize {
    usize::try_from(value).expect("index past this machine's address space")
}

/// A count that is known to fit 32 bits.
///
/// # Panics
/// Where it does not.
#[inline]
#[must_use]
pub fn to_u32(value: u64) -> u32 {
    u32::try_from(value).expect("count past 32 bits")
}

/// The largest number that divides both; of 0 and another one the other.
#[must_use]
pub const fn greatest_common_divisor(mut left: u64, mut right: u64) -> u64 {
    while right > 0 {
        (left, right) = (right, left % right);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_storage_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            (" 1 MiB ", 1 << 20),
            ("2G", 2 << 30),
            ("3MB", 3_000_000),
            ("0", 0),
        ] {
            assert_eq!(ByteCount::parse(text), Ok(ByteCount(bytes)), "{text}");
        }
        for text in ["", "K", "-1", "4 pages", "99999999999T", "1.5G"] {
            assert!(ByteCount::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quantities_print_in_the_unit_that_fits() {
        assert_eq!(Nanos(466_875).to_string(), "467 us");
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos::from_millis(15_560).to_string(), "15.6 s");
        assert_eq!(ByteCount::kib(512).to_string(), "512 KiB");
        assert_eq!(ByteCount(1536).to_string(), "1.50 KiB");
    }

    #[test]
    fn transfers_round_up_and_survive_large_sizes() {
        assert_eq!(Nanos::of_transfer(4096, 100_000_000), Nanos(40_960));
        assert_eq!(Nanos::of_transfer(1, 3), Nanos(333_333_334));
        assert_eq!(Nanos::of_transfer(1 << 40, 1 << 30), Nanos::from_seconds(1024));
        assert_eq!(Nanos::of_transfer(77, 0), Nanos::ZERO);
    }

    #[test]
    fn a_clock_that_would_run_backwards_panics() {
        let result = std::panic::catch_unwind(|| Nanos(1) - Nanos(2));
        assert!(result.is_err());
    }
}
