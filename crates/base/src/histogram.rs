//! Latency distributions: HdrHistogram (Tene) with three significant digits, from 1 ns to 2^42 ns
//! (73 minutes), in fixed memory and without allocation while recording.
//!
//! 1. Count, sum, sum of squares, minimum and maximum are exact; percentiles err by at most 0.1 %.

use crate::Nanos;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

const HIGHEST_NANOS: u64 = 1 << 42;
const SIGNIFICANT_DIGITS: u8 = 3;

/// A distribution of durations.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    buckets: Histogram<u64>,
    sum_ns: u128,
    square_sum: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty distribution, without any duration.
    #[must_use]
    pub fn new() -> Self {
        let buckets = Histogram::new_with_bounds(1, HIGHEST_NANOS, SIGNIFICANT_DIGITS)
            .expect("constant bounds are valid");
        Self { buckets, sum_ns: 0, square_sum: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Adds one duration to the distribution.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        let nanos = latency.0;
        self.buckets.saturating_record(nanos);
        self.sum_ns += u128::from(nanos);
        self.square_sum += u128::from(nanos) * u128::from(nanos);
        self.min_ns = self.min_ns.min(nanos);
        self.max_ns = self.max_ns.max(nanos);
    }

    /// Adds the same duration `count` times.
    #[inline]
    pub fn record_many(&mut self, latency: Nanos, count: u64) {
        if count == 0 {
            return;
        }
        let (nanos, times) = (u128::from(latency.0), u128::from(count));
        self.buckets.saturating_record_n(latency.0, count);
        self.sum_ns += nanos * times;
        self.square_sum += nanos * nanos * times;
        self.min_ns = self.min_ns.min(latency.0);
        self.max_ns = self.max_ns.max(latency.0);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.add(&other.buckets).expect("all histograms share their bounds");
        self.sum_ns += other.sum_ns;
        self.square_sum += other.square_sum;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets all durations that were recorded.
    pub fn clear(&mut self) {
        self.buckets.reset();
        (self.sum_ns, self.square_sum, self.min_ns, self.max_ns) = (0, 0, u64::MAX, 0);
    }

    /// How many durations were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// The sum of all durations.
    #[must_use]
    pub const fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The duration that `percent` of all do not exceed, zero where nothing was recorded.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Nanos {
        if self.count() == 0 {
            return Nanos::ZERO;
        }
        let bucket = self.buckets.value_at_percentile(percent);
        Nanos(bucket.clamp(self.min_ns, self.max_ns))
    }

    /// The figures that a report shows.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let count = self.count();
        if count == 0 {
            return LatencySummary::default();
        }
        let mean = self.sum_ns as f64 / count as f64;
        let variance = self.square_sum as f64 / count as f64 - mean * mean;
        LatencySummary {
            count,
            min: self.min_ns,
            mean,
            stddev: variance.max(0.0).sqrt(),
            p50: self.percentile(50.0).0,
            p95: self.percentile(95.0).0,
            p99: self.percentile(99.0).0,
            p999: self.percentile(99.9).0,
            max: self.max_ns,
        }
    }
}

/// A distribution in a few numbers, all in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many durations.
    pub count: u64,
    /// The shortest, exact.
    pub min: u64,
    /// The mean of all durations, exact.
    pub mean: f64,
    /// The standard deviation of the population.
    pub stddev: f64,
    /// The median: half of them take no longer.
    pub p50: u64,
    /// 95 % take no longer.
    pub p95: u64,
    /// 99 % take no longer.
    pub p99: u64,
    /// 99.9 % take no longer.
    pub p999: u64,
    /// The longest, exact.
    pub max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_one_to_a_thousand_micros() {
        let mut histogram = LatencyHistogram::new();
        for micros in 1..=1000 {
            histogram.record(Nanos::from_micros(micros));
        }
        let summary = histogram.summary();
        assert_eq!((summary.count, summary.min, summary.max), (1000, 1000, 1_000_000));
        assert!((summary.mean - 500_500.0).abs() < 1e-6);
        assert!((summary.stddev - 288_675.0).abs() < 1.0);
        assert!(summary.p50.abs_diff(500_000) <= 500, "{}", summary.p50);
        assert!(summary.p999.abs_diff(999_000) <= 1000, "{}", summary.p999);
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut left, mut right, mut both) =
            (LatencyHistogram::new(), LatencyHistogram::new(), LatencyHistogram::new());
        for value in 1..500 {
            let half = if value % 2 == 0 { &mut left } else { &mut right };
            half.record(Nanos(value * value));
            both.record(Nanos(value * value));
        }
        left.merge(&right);
        assert_eq!(left.summary(), both.summary());
    }

    #[test]
    fn an_outlier_past_the_range_keeps_its_exact_maximum() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Nanos::from_seconds(1_000_000));
        assert_eq!(histogram.summary().max, 1_000_000_000_000_000);
        assert_eq!(LatencyHistogram::new().summary(), LatencySummary::default());
    }
}
