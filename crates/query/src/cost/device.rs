//! What a device says about itself as far as plans need it: the time of a request by its size, for reads
//! and writes, streaming and scattered; the seek; and what a queue of scattered reads gains.
//!
//! The scattered curves are without the way of an arm, which `seek_ns` says once for both. So the same
//! data describe a disk (scattered equals streaming, and a seek) and a flash drive (no seek).

use super::curve::{Curve, CurvePoint};
use crate::allocation::RequestTimes;
use nandu_base::Nanos;
use serde::{Deserialize, Serialize};

/// The length of the request beside that of one page from which Dl and Dx are drawn.
const LONG_REQUEST_PAGES: u64 = 128;
/// Length of the requests that tell a line's slope.
const SLOPE_BYTES: u64 = 1 << 30;
/// A gain of one, in millionths.
const NO_GAIN_PPM: u64 = 1_000_000;

/// Where a request goes, seen from the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// On where an earlier one of the same stream ended.
    Sequential,
    /// Anywhere.
    Random,
}

/// Nanoseconds of a request by its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessCurves {
    /// One of a stream.
    pub sequential: Curve,
    /// One of scattered requests, without the way of an arm.
    pub random: Curve,
}

impl AccessCurves {
    /// The time of one request.
    #[must_use]
    pub fn time_ns(&self, pattern: Pattern, bytes: u64) -> u64 {
        match pattern {
            Pattern::Sequential => self.sequential.value(bytes),
            Pattern::Random => self.random.value(bytes),
        }
    }
}

/// The times of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCosts {
    /// What a request costs besides, when the arm has to move; 0 without one.
    pub seek_ns: u64,
    /// Reads.
    pub read: AccessCurves,
    /// Writes.
    pub write: AccessCurves,
    /// How many times faster scattered reads of a page become at a queue depth, in millionths.
    pub random_read_gain_ppm: Curve,
}

impl DeviceCosts {
    /// The device of Haas and others: the same latency for all requests, a rate for reads and one for
    /// writes. A rate of zero means that transfer takes no time. A queue gains nothing.
    #[must_use]
    pub fn from_rates(
        seek_ns: u64,
        latency_ns: u64,
        read_bytes_per_second: u64,
        write_bytes_per_second: u64,
    ) -> Self {
        let curves = |rate: u64| {
            let end = Nanos(latency_ns).saturating_add(Nanos::of_transfer(SLOPE_BYTES, rate));
            let line = Curve::line(latency_ns, SLOPE_BYTES, end.0);
            AccessCurves { sequential: line.clone(), random: line }
        };
        Self {
            seek_ns,
            read: curves(read_bytes_per_second),
            write: curves(write_bytes_per_second),
            random_read_gain_ppm: Curve::constant(NO_GAIN_PPM),
        }
    }

    /// With a gain for scattered reads in a queue: depth and gain in millionths, ascending by depth.
    ///
    /// # Errors
    /// [`crate::QueryError::Invalid`] if there is no point or they do not ascend.
    pub fn with_queue_gain(mut self, points: &[(u64, u64)]) -> Result<Self, crate::QueryError> {
        let points = points.iter().map(|(at, value)| CurvePoint { at: *at, value: *value });
        self.random_read_gain_ppm = Curve::new(points.collect())?;
        Ok(self)
    }

    /// Ds, Dl and Dx of reads: the line through a request of one page and one of 128.
    #[must_use]
    pub fn request_times(&self, page_bytes: u64) -> RequestTimes {
        let short_ns = self.read.sequential.value(page_bytes);
        let long_ns = self.read.sequential.value(page_bytes.saturating_mul(LONG_REQUEST_PAGES));
        let page_transfer_ps =
            long_ns.saturating_sub(short_ns).saturating_mul(1_000) / (LONG_REQUEST_PAGES - 1);
        RequestTimes {
            seek_ps: self.seek_ns.saturating_mul(1_000),
            latency_ps: short_ns.saturating_mul(1_000).saturating_sub(page_transfer_ps),
            page_transfer_ps,
        }
    }

    /// The gain of scattered reads at a queue depth, in millionths, never a loss.
    #[must_use]
    pub fn queue_gain_ppm(&self, depth: u64) -> u64 {
        self.random_read_gain_ppm.value_within(depth).max(NO_GAIN_PPM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_haas_takes_latency_and_transfer() {
        let disk = DeviceCosts::from_rates(12_000_000, 5_560_000, 34 << 20, 0);
        assert_eq!(disk.read.time_ns(Pattern::Random, 8192), 5_560_000 + 229_779);
        assert_eq!(disk.read.time_ns(Pattern::Sequential, 34 << 20), 1_005_560_000);
        assert_eq!(disk.write.time_ns(Pattern::Sequential, 34 << 20), 5_560_000);
    }

    #[test]
    fn the_parts_of_a_request_are_found_again() {
        let disk = DeviceCosts::from_rates(12_000_000, 5_560_000, 34 << 20, 34 << 20);
        let found = disk.request_times(8192);
        let expected = RequestTimes::from_rate(12_000_000, 5_560_000, 8192, 34 << 20);
        assert_eq!(found.seek_ps, expected.seek_ps);
        // Times are whole nanoseconds.
        assert!(found.page_transfer_ps.abs_diff(expected.page_transfer_ps) < 20);
        assert!(found.latency_ps.abs_diff(expected.latency_ps) < 1_000);
    }

    #[test]
    fn a_deeper_queue_than_was_measured_gains_no_more() {
        let drive = DeviceCosts::from_rates(0, 100_000, 0, 0)
            .with_queue_gain(&[(1, 1_000_000), (8, 6_000_000), (32, 12_000_000)])
            .unwrap();
        assert_eq!(drive.queue_gain_ppm(0), 1_000_000);
        assert_eq!(drive.queue_gain_ppm(20), 9_000_000);
        assert_eq!(drive.queue_gain_ppm(64), 12_000_000);
        assert!(DeviceCosts::from_rates(0, 0, 0, 0).with_queue_gain(&[]).is_err());
    }
}
