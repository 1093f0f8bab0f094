//! Figures of profiles as they are read: what nobody can have measured is refused with its key, and by
//! whoever parses with the file and the line.
//!
//! 1. A count or a size is 1 at least, and what a request moves fits into memory.
//! 2. A time is longer than nothing and no longer than a day; a rate is above 0 and finite.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;

/// Bytes of a request at most.
const REQUEST_BYTES_MAX: u64 = 1 << 40;
/// Nanoseconds of a request at most: a day.
const TIME_NS_MAX: u64 = 86_400_000_000_000;
/// What to do.
const REMEDY: &str = "measure the device again with `nandu probe --profile`";

/// A whole number from 1 to `most`.
fn counted<'de, D: Deserializer<'de>>(
    deserializer: D,
    key: &str,
    most: u64,
) -> Result<u64, D::Error> {
    let value = u64::deserialize(deserializer).map_err(|error| of_key::<D>(key, &error))?;
    match (1..=most).contains(&value) {
        true => Ok(value),
        false => Err(D::Error::custom(format!("`{key}` is {value}, and is 1 to {most}; {REMEDY}"))),
    }
}

/// A number above 0, `most` at most.
fn rated<'de, D: Deserializer<'de>>(
    deserializer: D,
    key: &str,
    most: f64,
) -> Result<f64, D::Error> {
    let value = f64::deserialize(deserializer).map_err(|error| of_key::<D>(key, &error))?;
    match value > 0.0 && value <= most {
        true => Ok(value),
        false => Err(D::Error::custom(format!(
            "`{key}` is {value}, and is above 0 and {most} at most; {REMEDY}"
        ))),
    }
}

fn of_key<'de, D: Deserializer<'de>>(key: &str, error: &impl Display) -> D::Error {
    // The parser says the line itself, behind its message.
    let said = error.to_string();
    let what = said.split(" at line ").next().unwrap_or_default();
    D::Error::custom(format!("`{key}`: {what}; {REMEDY}"))
}

fn narrow<E: Error>(value: u64) -> Result<u32, E> {
    u32::try_from(value).map_err(E::custom)
}

pub(crate) fn request_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    counted(deserializer, "request_bytes", REQUEST_BYTES_MAX)
}

pub(crate) fn area_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    counted(deserializer, "area_bytes", u64::MAX)
}

pub(crate) fn queue_depth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    narrow(counted(deserializer, "queue_depth", u32::MAX.into())?)
}

pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    narrow(counted(deserializer, "count", u32::MAX.into())?)
}

pub(crate) fn run_length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    narrow(counted(deserializer, "run_length", u32::MAX.into())?)
}

pub(crate) fn time_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    counted(deserializer, "time_ns", TIME_NS_MAX)
}

pub(crate) fn time_per_request_ns<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<f64, D::Error> {
    rated(deserializer, "time_per_request_ns", TIME_NS_MAX as f64)
}

pub(crate) fn bytes_per_second<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<f64, D::Error> {
    rated(deserializer, "bytes_per_second", f64::MAX)
}

pub(crate) fn iops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    rated(deserializer, "iops", f64::MAX)
}
