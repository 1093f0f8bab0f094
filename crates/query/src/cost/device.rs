//! What a device says about itself as far as plans need it: the time of a request by its size, for reads
//! and writes, streaming and scattered; the seek; and what a queue of scattered reads gains.
//!
//! The scattered curves are without the way of an arm, which `seek_ns` says once for both. So the same
//! data describe a disk (scattered equals streaming, and a seek) and a flash drive (no seek).

use super::curve::{Curve, CurvePoint};
use super::streams::{MeasuredStream, StreamCosts, StreamKind};
use crate::QueryError;
use crate::allocation::RequestTimes;
use nandu_base::Nanos;
use serde::{Deserialize, Serialize};

/// The length of the request beside that of one page from which Dl and Dx are drawn.
const LONG_REQUEST_PAGES: u64 = 128;
/// Length of the requests that tell a line's slope.
const SLOPE_BYTES: u64 = 1 << 30;
/// What no arm goes faster than. What scattered reads of a drive without one take longer than streaming ones is
/// the latency of flash, which reading ahead hides; writes do not have it.
const SEEK_NS_MIN: u64 = 1_000_000;
/// A gain of one, in millionths.
const NO_GAIN_PPM: u64 = 1_000_000;

/// Where a request goes, seen from the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// On where an earlier one of the same stream ended.
    Sequential,
    /// Anywhere on the device.
    Random,
}

/// Nanoseconds of a request by its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessCurves {
    /// Times of a request that goes on where an earlier one of its stream ended.
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
    /// Times of reads by their bytes.
    pub read: AccessCurves,
    /// Times of writes by their bytes.
    pub write: AccessCurves,
    /// How many times faster scattered reads of a page become at a queue depth, in millionths.
    pub random_read_gain_ppm: Curve,
    /// Streams side by side and batches, where they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamCosts>,
}

/// A measured point: how long a request takes where so many are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredTime {
    /// Whether it writes.
    pub is_write: bool,
    /// Streaming or scattered.
    pub pattern: Pattern,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Requests in flight.
    pub queue_depth: u64,
    /// Elapsed time over requests, in nanoseconds.
    pub time_ns: u64,
}

impl DeviceCosts {
    /// The costs of a measured device. What scattered reads of every size take longer than streaming ones
    /// is the way of an arm, if it is a millisecond at least. The gain of a queue is that of the smallest scattered reads.
    ///
    /// # Errors
    /// [`QueryError::Invalid`] if one of the four curves has no point at queue depth 1.
    pub fn from_measured(points: &[MeasuredTime]) -> Result<Self, QueryError> {
        let curve = |is_write: bool, pattern: Pattern, less_ns: u64| {
            let own = points.iter().filter(|point| {
                (point.is_write, point.pattern, point.queue_depth) == (is_write, pattern, 1)
            });
            let mut curve: Vec<CurvePoint> = own
                .map(|point| CurvePoint {
                    at: point.request_bytes,
                    value: point.time_ns.saturating_sub(less_ns),
                })
                .collect();
            curve.sort_by_key(|point| point.at);
            curve.dedup_by_key(|point| point.at);
            Curve::new(curve).map_err(|_| {
                let way = if is_write { "writes" } else { "reads" };
                let order = match pattern {
                    Pattern::Random => "random",
                    Pattern::Sequential => "sequential",
                };
                let what = format!("no {order} {way} were measured at queue depth 1");
                QueryError::Invalid { what }
            })
        };
        let (streaming, scattered) =
            (curve(false, Pattern::Sequential, 0)?, curve(false, Pattern::Random, 0)?);
        let seek_ns = scattered
            .points()
            .iter()
            .map(|point| point.value.saturating_sub(streaming.value(point.at)))
            .min()
            .filter(|seek_ns| *seek_ns >= SEEK_NS_MIN)
            .unwrap_or(0);
        let gain = queue_gain(points, scattered.points()[0].at);
        Ok(Self {
            seek_ns,
            read: AccessCurves {
                sequential: streaming,
                random: curve(false, Pattern::Random, seek_ns)?,
            },
            write: AccessCurves {
                sequential: curve(true, Pattern::Sequential, 0)?,
                random: curve(true, Pattern::Random, seek_ns)?,
            },
            random_read_gain_ppm: gain,
            streams: None,
        })
    }

    /// With what streams side by side and batches were measured to take, and how long it takes to make something
    /// small durable. A scan that was measured in requests of many sizes takes the place of streaming reads.
    ///
    /// # Errors
    /// [`QueryError::Invalid`] if a point was measured twice.
    pub fn with_streams(
        mut self,
        points: &[MeasuredStream],
        sync_ns: u64,
    ) -> Result<Self, QueryError> {
        let scans = points.iter().filter(|point| point.kind == StreamKind::Scan);
        let mut scans: Vec<CurvePoint> =
            scans.map(|it| CurvePoint { at: it.request_bytes, value: it.time_ns }).collect();
        if !scans.is_empty() {
            scans.sort_by_key(|point| point.at);
            self.read.sequential = longer_too(scans, self.read.sequential.points())?;
        }
        let read_ns = |bytes: u64| self.read.sequential.value(bytes);
        let streams = StreamCosts::from_measured(points, read_ns, sync_ns)?;
        self.streams = Some(streams);
        Ok(self)
    }

    /// What a run of so many reads takes longer that does not begin where the last one ended, within an area.
    #[must_use]
    pub fn restart_ns(&self, request_bytes: u64, run_length: u64, area_bytes: u64) -> u64 {
        let Some(restart) = self.streams.as_ref().and_then(|streams| streams.restart.as_ref())
        else {
            return self.seek_ns;
        };
        restart.of_restart_ns(request_bytes, run_length, area_bytes)
    }

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
            streams: None,
        }
    }

    /// With a gain for scattered reads in a queue: depth and gain in millionths, ascending by depth.
    ///
    /// # Errors
    /// [`QueryError::Invalid`] if there is no point or they do not ascend.
    pub fn with_queue_gain(mut self, points: &[(u64, u64)]) -> Result<Self, QueryError> {
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

/// How many times faster scattered reads of a size become with the depth of a queue, in millionths.
fn queue_gain(points: &[MeasuredTime], request_bytes: u64) -> Curve {
    let mut of_size: Vec<&MeasuredTime> = points
        .iter()
        .filter(|point| {
            let what = (point.is_write, point.pattern, point.request_bytes);
            what == (false, Pattern::Random, request_bytes) && point.time_ns > 0
        })
        .collect();
    of_size.sort_by_key(|point| point.queue_depth);
    of_size.dedup_by_key(|point| point.queue_depth);
    let alone_ns = of_size.first().map_or(0, |point| u128::from(point.time_ns));
    let gain = of_size.iter().map(|point| {
        let ppm = alone_ns * u128::from(NO_GAIN_PPM) / u128::from(point.time_ns);
        CurvePoint { at: point.queue_depth, value: u64::try_from(ppm).unwrap_or(u64::MAX) }
    });
    Curve::new(gain.collect()).unwrap_or_else(|_| Curve::constant(NO_GAIN_PPM))
}

/// A scan with what was measured of longer requests. Where nothing was, the last two sizes are far too near each
/// other to tell what longer ones take: the last and the one of half the size do.
fn longer_too(mut scans: Vec<CurvePoint>, others: &[CurvePoint]) -> Result<Curve, QueryError> {
    let measured = Curve::new(scans.clone())?;
    let CurvePoint { at, value } = scans[scans.len() - 1];
    scans.extend(others.iter().filter(|point| point.at > at));
    if scans[scans.len() - 1].at == at {
        let later_ns = value.saturating_sub(measured.value(at / 2));
        let value = value.saturating_add(later_ns.saturating_mul(2));
        scans.push(CurvePoint { at: at.saturating_mul(2).max(at + 1), value });
    }
    Curve::new(scans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_disk_has_a_seek_and_a_measured_flash_drive_has_none() {
        let point = |is_write, pattern, request_bytes, queue_depth, time_ns| MeasuredTime {
            is_write,
            pattern,
            request_bytes,
            queue_depth,
            time_ns,
        };
        let mut points = Vec::new();
        for is_write in [false, true] {
            for (bytes, streaming_ns) in [(4096, 60_000), (1 << 20, 9_000_000)] {
                points.push(point(is_write, Pattern::Sequential, bytes, 1, streaming_ns));
                points.push(point(is_write, Pattern::Random, bytes, 1, streaming_ns + 8_000_000));
            }
        }
        let disk = DeviceCosts::from_measured(&points).unwrap();
        assert_eq!(disk.seek_ns, 8_000_000);
        assert_eq!(disk.read.time_ns(Pattern::Random, 4096), 60_000);
        // Streaming hides the latency of small requests of a flash drive, and nothing of large ones.
        for point in &mut points {
            if point.pattern == Pattern::Random {
                point.time_ns = if point.request_bytes == 4096 { 90_000 } else { 9_000_000 };
            }
        }
        points.push(point(false, Pattern::Random, 4096, 32, 9_000));
        let flash = DeviceCosts::from_measured(&points).unwrap();
        assert_eq!(flash.seek_ns, 0);
        assert_eq!(flash.read.time_ns(Pattern::Random, 4096), 90_000);
        assert_eq!(flash.queue_gain_ppm(32), 10_000_000);
        let told = DeviceCosts::from_measured(&points[..1]).unwrap_err().to_string();
        assert!(told.contains("random reads"), "{told}");
    }

    #[test]
    fn a_scan_says_what_long_requests_take_whatever_its_last_two_sizes_differ_by() {
        let mut drive = DeviceCosts::from_rates(0, 100_000, 0, 0);
        let streaming = [CurvePoint { at: 4096, value: 5 }, CurvePoint { at: 1 << 20, value: 7 }];
        drive.read.sequential = Curve::new(streaming.to_vec()).unwrap();
        let scan = |request_bytes, time_ns| MeasuredStream {
            kind: StreamKind::Scan,
            request_bytes,
            count: 1,
            run_length: 1,
            area_bytes: 64 << 20,
            time_ns,
        };
        // A millisecond for each MiB, but for noise just before the end.
        let points =
            [scan(1 << 20, 1_000_000), scan(2 << 20, 2_000_000), scan(3_932_160, 4_100_000)];
        let points = [&points[..], &[scan(4 << 20, 4_000_000)]].concat();
        let found = drive.with_streams(&points, 0).unwrap();
        let mib_ns = |mib: u64| found.read.time_ns(Pattern::Sequential, mib << 20);
        assert_eq!(mib_ns(4), 4_000_000);
        assert!((7_700_000..8_100_000).contains(&mib_ns(8)), "{}", mib_ns(8));
        assert!((245_000_000..260_000_000).contains(&mib_ns(256)), "{}", mib_ns(256));
        // Streams of longer requests, where there are some, go on behind it.
        let mut drive = found;
        let long =
            [CurvePoint { at: 1 << 20, value: 1 }, CurvePoint { at: 32 << 20, value: 16_000_000 }];
        drive.read.sequential = Curve::new(long.to_vec()).unwrap();
        let found = drive.with_streams(&points, 0).unwrap();
        assert_eq!(found.read.time_ns(Pattern::Sequential, 4 << 20), 4_000_000);
        assert_eq!(found.read.time_ns(Pattern::Sequential, 32 << 20), 16_000_000);
    }

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
