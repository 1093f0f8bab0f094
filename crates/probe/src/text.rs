//! Sizes, durations and TOML as people write them, with errors that name file, line and the nearest
//! valid key.

use crate::ProbeError;
use nandu_base::{ByteCount, Nanos, words};
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Reads `30s`, `500ms`, `20us`, `100ns`, `2min`, `1h`; a bare number counts nanoseconds. A fraction
/// is allowed: `0.5s`.
///
/// # Errors
/// Says what was wrong: no number, an unknown unit, a negative or too large duration.
pub fn parse_duration(text: &str) -> Result<Nanos, String> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(split);
    let factor: u64 = match unit.trim() {
        "" | "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        other => {
            return Err(format!("`{other}` in `{text}` is no unit; use ns, us, ms, s, min, h"));
        }
    };
    let wrong = || format!("`{text}` is not a duration; write for example 500ms, 30s or 2min");
    let too_long = || format!("`{text}` is longer than 580 years");
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let mut nanos = whole.checked_mul(factor).ok_or_else(too_long)?;
    let mut weight = factor;
    for digit in fraction.chars() {
        weight /= 10;
        let digit = u64::from(digit.to_digit(10).ok_or_else(wrong)?);
        nanos = nanos.checked_add(digit * weight).ok_or_else(too_long)?;
    }
    Ok(Nanos(nanos))
}

/// Parses TOML.
///
/// # Errors
/// [`ProbeError::Parse`] with the line; an unknown key is answered with the nearest valid one.
pub fn parse_toml<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, ProbeError> {
    toml::from_str(text).map_err(|error| toml_error(file, text, &error))
}

/// Turns an error of the toml crate into one that names file, line and the nearest valid key.
#[must_use]
pub fn toml_error(file: &str, text: &str, error: &toml::de::Error) -> ProbeError {
    let offset = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = 1 + text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count();
    let mut message = error.message().trim_end().replace('\n', "; ");
    if let Some(nearest) = words::nearest_expected(&message) {
        message = format!("{message}; did you mean `{nearest}`?");
    }
    ProbeError::Parse { file: file.into(), line, message }
}

/// A number, or a text that `parse` turns into one.
struct NumberOrText(fn(&str) -> Result<u64, String>);

impl Visitor<'_> for NumberOrText {
    type Value = u64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number or a text with a unit")
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::custom(format!("{value} is negative")))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
        (self.0)(text).map_err(E::custom)
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    ByteCount::parse(text).map(|size| size.0)
}

fn parse_nanos(text: &str) -> Result<u64, String> {
    parse_duration(text).map(|duration| duration.0)
}

/// For `#[serde(deserialize_with)]`: `4096` or `"4KiB"`.
///
/// # Errors
/// Where the value is neither.
pub fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteCount, D::Error> {
    deserializer.deserialize_any(NumberOrText(parse_size)).map(ByteCount)
}

/// For `#[serde(deserialize_with)]`: nanoseconds or `"30s"`.
///
/// # Errors
/// Where the value is neither.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    deserializer.deserialize_any(NumberOrText(parse_nanos)).map(Nanos)
}

/// For optional sizes; absent and `null` are `None`.
///
/// # Errors
/// Where the value is neither a number nor a size.
pub fn optional_size<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ByteCount>, D::Error> {
    Ok(Option::<Size>::deserialize(deserializer)?.map(|size| size.0))
}

/// For optional durations; absent and `null` are `None`.
///
/// # Errors
/// Where the value is neither a number nor a duration.
pub fn optional_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Nanos>, D::Error> {
    Ok(Option::<Duration>::deserialize(deserializer)?.map(|duration| duration.0))
}

/// For lists of sizes.
///
/// # Errors
/// Where an item is neither a number nor a size.
pub fn sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ByteCount>, D::Error> {
    Ok(Vec::<Size>::deserialize(deserializer)?.into_iter().map(|size| size.0).collect())
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Size(#[serde(deserialize_with = "size")] ByteCount);

#[derive(Deserialize)]
#[serde(transparent)]
struct Duration(#[serde(deserialize_with = "duration")] Nanos);

/// Parses JSON written by this crate.
///
/// # Errors
/// [`ProbeError::Parse`] with the line.
pub fn parse_json<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, ProbeError> {
    serde_json::from_str(text).map_err(|error| ProbeError::Parse {
        file: file.into(),
        line: error.line(),
        message: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, nanos) in [
            ("30s", 30_000_000_000),
            ("500ms", 500_000_000),
            ("20 us", 20_000),
            ("7", 7),
            ("0.5s", 500_000_000),
            ("1.25us", 1_250),
            ("2min", 120_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Nanos(nanos)), "{text}");
        }
        for text in ["", "s", "-3s", "3 weeks", "1.x s", "99999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
