//! What requests cost that are neither streaming nor scattered over the whole device: streams side by side, and
//! batches of scattered reads, within an area. Tables of measured points, with lines between them: over bytes
//! themselves, over counts and areas by their logarithms.
//!
//! 1. Areas, lengths of runs and counts ascend, and each of them has a curve.

use super::curve::{Curve, CurvePoint};
use crate::QueryError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One, of what a logarithm is made of.
const ONE: u64 = 1 << 16;

/// What was done side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Streams were read, one request at a time.
    Read,
    /// Streams were written, each request behind one that was read from another stream, as large.
    Write,
    /// Runs of requests were read one after the other, each from anywhere.
    Restart,
    /// Scattered requests were read, so many at once.
    Batch,
    /// Streams that had been written side by side were read, one after the other.
    Back,
    /// One stream was read.
    Scan,
}

/// A mixture of streams whose speed was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredStream {
    /// How the streams were read or written.
    pub kind: StreamKind,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Streams, or requests of a batch.
    pub count: u64,
    /// Of restarts and batches, how many requests were neighbours; else 1.
    pub run_length: u64,
    /// Bytes of the area that they shared.
    pub area_bytes: u64,
    /// Elapsed time over requests, in nanoseconds; of [`StreamKind::Write`] that of a read and a write, of
    /// [`StreamKind::Back`] over what was one when it was written.
    pub time_ns: u64,
}

/// Curves by count, of one length of runs, which is in [`RUN_PARTS`].
type RunRow = (u64, Vec<(u64, Curve)>);

/// Lengths of runs are told in parts.
const RUN_PARTS: u64 = 16;

/// Nanoseconds of a request by area, length of runs, count and bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamTimes {
    areas: Vec<(u64, Vec<RunRow>)>,
}

/// What a device was measured to take for streams and batches. Each part is absent where that was not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamCosts {
    /// A request of streams that are read, with the way of an arm.
    pub read: Option<StreamTimes>,
    /// A request of streams that are written while another one is read, with the way of an arm there and back, and
    /// until it is durable.
    pub write: Option<StreamTimes>,
    /// What a run of reads that begins anywhere takes longer, by its length.
    pub restart: Option<StreamTimes>,
    /// A run of neighbours of a batch, with the way of an arm, by its length.
    pub batch: Option<StreamTimes>,
    /// A request of streams that were written side by side, when they are read in long requests.
    #[serde(default)]
    pub back: Option<StreamTimes>,
    /// What it takes to make something small durable.
    pub sync_ns: u64,
}

impl StreamCosts {
    /// The tables of measured points; `read_ns` says what the read takes that comes with each write.
    ///
    /// # Errors
    /// [`QueryError::Invalid`] if a point was measured twice.
    pub(super) fn from_measured(
        points: &[MeasuredStream],
        read_ns: impl Fn(u64) -> u64,
        sync_ns: u64,
    ) -> Result<Self, QueryError> {
        let of = |kind: StreamKind| {
            let mut groups: BTreeMap<[u64; 3], Vec<CurvePoint>> = BTreeMap::new();
            for point in points.iter().filter(|point| point.kind == kind) {
                let later_ns = point.time_ns.saturating_sub(read_ns(point.request_bytes));
                let value = match kind {
                    StreamKind::Write => later_ns,
                    StreamKind::Restart => later_ns.saturating_mul(point.run_length),
                    StreamKind::Batch => point.time_ns.saturating_mul(point.run_length),
                    StreamKind::Read | StreamKind::Back | StreamKind::Scan => point.time_ns,
                };
                let at = point.request_bytes;
                let group = [point.area_bytes, point.run_length * RUN_PARTS, point.count];
                groups.entry(group).or_default().push(CurvePoint { at, value });
            }
            let mut areas: Vec<(u64, Vec<RunRow>)> = Vec::new();
            for ([area, run, count], mut points) in groups {
                points.sort_by_key(|point| point.at);
                let curves = row(row(&mut areas, area), run);
                curves.push((count, Curve::new(points)?));
            }
            Ok::<_, QueryError>((!areas.is_empty()).then_some(StreamTimes { areas }))
        };
        let [read, write] = [of(StreamKind::Read)?, of(StreamKind::Write)?];
        let [restart, batch] = [of(StreamKind::Restart)?, of(StreamKind::Batch)?];
        let back = of(StreamKind::Back)?;
        Ok(Self { read, write, restart, batch, back, sync_ns })
    }
}

impl StreamTimes {
    /// The time of one request. Beyond the measured areas and counts the outermost ones hold.
    #[must_use]
    pub fn time_ns(&self, bytes: u64, count: u64, area_bytes: u64) -> u64 {
        self.of_run_ns((1, 1), bytes, count, area_bytes)
    }

    /// The time of so many pages in so many runs of neighbours, of a batch of `count` requests. What a run takes is
    /// what it takes to begin one, if any but the first page is near, and so much for each page.
    #[must_use]
    pub fn runs_ns(
        &self,
        (page_count, run_count): (u64, u64),
        bytes: u64,
        count: u64,
        area_bytes: u64,
    ) -> u64 {
        self.of_run_ns((page_count, run_count), bytes, count, area_bytes).saturating_mul(run_count)
    }

    fn of_run_ns(
        &self,
        (page_count, run_count): (u64, u64),
        bytes: u64,
        count: u64,
        area_bytes: u64,
    ) -> u64 {
        let run = page_count.saturating_mul(RUN_PARTS) / run_count.max(1);
        between(&self.areas, area_bytes, |runs| {
            on_line(runs, run, |counts| between(counts, count, |curve| curve.value(bytes)))
        })
    }

    /// The time of a request of an area that is read from its beginning to its end and again; `None` of one
    /// larger than any that was measured.
    pub(super) fn again_ns(&self, bytes: u64, area_bytes: u64) -> Option<u64> {
        let largest = self.areas.last().map_or(0, |(area, _)| *area);
        (area_bytes <= largest).then(|| self.time_ns(bytes, 1, area_bytes))
    }

    /// What a run of so many reads takes longer. It does not grow beyond the longest requests.
    pub(super) fn of_restart_ns(&self, bytes: u64, run_length: u64, area_bytes: u64) -> u64 {
        let run = run_length.max(1).saturating_mul(RUN_PARTS);
        between(&self.areas, area_bytes, |runs| {
            between(runs, run, |counts| between(counts, 1, |curve| curve.value_within(bytes)))
        })
    }
}

/// The row at a place, which is the last one or a new one.
fn row<T>(rows: &mut Vec<(u64, Vec<T>)>, at: u64) -> &mut Vec<T> {
    if rows.last().is_none_or(|(place, _)| *place != at) {
        rows.push((at, Vec::new()));
    }
    &mut rows.last_mut().expect("one was pushed").1
}

/// The value at a place between rows, by the logarithm of the place.
fn between<T>(rows: &[(u64, T)], at: u64, value: impl Fn(&T) -> u64) -> u64 {
    let behind = rows.partition_point(|(place, _)| *place <= at);
    let (Some(left), right) = (rows.get(behind.saturating_sub(1)), rows.get(behind)) else {
        return 0;
    };
    let (Some(right), true) = (right, behind > 0) else { return value(&left.1) };
    let (low, high) = (logarithm(left.0), logarithm(right.0));
    let part = u128::from(logarithm(at) - low);
    let whole = u128::from(high - low).max(1);
    let sum = u128::from(value(&left.1)) * (whole - part) + u128::from(value(&right.1)) * part;
    u64::try_from(sum / whole).unwrap_or(u64::MAX)
}

/// The value at a place on the straight line between rows, and on the last line behind them.
fn on_line<T>(rows: &[(u64, T)], at: u64, value: impl Fn(&T) -> u64) -> u64 {
    let behind = rows.partition_point(|(place, _)| *place < at).clamp(1, rows.len().max(2) - 1);
    let (Some(left), Some(right)) = (rows.get(behind - 1), rows.get(behind)) else {
        return rows.first().map_or(0, |(_, row)| value(row));
    };
    let (low, high) = (i128::from(value(&left.1)), i128::from(value(&right.1)));
    let part = i128::from(at.max(left.0) - left.0);
    let sum = low + (high - low) * part / i128::from((right.0 - left.0).max(1));
    u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
}

/// The logarithm to the base of two in parts of [`ONE`], with straight lines between powers of two; that of zero
/// is zero. It rises strictly over whole numbers to [`ONE`].
fn logarithm(value: u64) -> u64 {
    let Some(power) = value.checked_ilog2() else { return 0 };
    let rest = u128::from(value - (1 << power)) * u128::from(ONE);
    u64::from(power) * ONE + u64::try_from(rest >> power).unwrap_or(ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(
        kind: StreamKind,
        request_bytes: u64,
        count: u64,
        area_bytes: u64,
        time_ns: u64,
    ) -> MeasuredStream {
        MeasuredStream { kind, request_bytes, count, run_length: 1, area_bytes, time_ns }
    }

    fn writes() -> StreamTimes {
        let mut points = Vec::new();
        for (area, more) in [(1 << 20, 0), (4 << 20, 8000)] {
            for (count, each) in [(1, 1000), (16, 5000)] {
                for bytes in [4096, 8192] {
                    points.push(point(StreamKind::Write, bytes, count, area, each + more + bytes));
                }
            }
        }
        StreamCosts::from_measured(&points, |bytes| bytes, 0).unwrap().write.unwrap()
    }

    #[test]
    fn values_lie_on_lines_between_measured_points() {
        let times = writes();
        assert_eq!(times.time_ns(4096, 1, 1 << 20), 1000);
        assert_eq!(times.time_ns(4096, 4, 1 << 20), 3000);
        assert_eq!(times.time_ns(4096, 4, 2 << 20), 7000);
        assert_eq!(times.time_ns(6000, 16, 4 << 20), 13_000);
    }

    #[test]
    fn beyond_the_measured_counts_and_areas_the_outermost_hold() {
        let times = writes();
        assert_eq!(times.time_ns(4096, 0, 0), 1000);
        assert_eq!(times.time_ns(4096, 4000, 1 << 40), 13_000);
    }

    #[test]
    fn runs_of_a_batch_lie_on_a_line_that_goes_on() {
        let of_run = |run_length: u64, time_ns: u64| MeasuredStream {
            kind: StreamKind::Batch,
            request_bytes: 4096,
            count: 64,
            run_length,
            area_bytes: 1 << 20,
            time_ns,
        };
        // A page alone takes 10 ns, a run 200 ns and 2 ns for each page.
        let points = [of_run(1, 10), of_run(2, 102), of_run(4, 52), of_run(8, 27)];
        let costs = StreamCosts::from_measured(&points, |_| 0, 0).unwrap();
        let runs_ns =
            |pages, runs| costs.batch.as_ref().unwrap().runs_ns((pages, runs), 4096, 64, 1 << 20);
        assert_eq!(runs_ns(7, 7), 70);
        assert_eq!(runs_ns(2, 1), 204);
        assert_eq!(runs_ns(10, 1), 220);
        assert_eq!(runs_ns(100, 2), 600);
        assert_eq!(runs_ns(0, 0), 0);
    }

    #[test]
    fn what_was_not_measured_is_absent_and_what_was_measured_twice_is_refused() {
        let read = point(StreamKind::Read, 4096, 1, 1 << 20, 7);
        let costs = StreamCosts::from_measured(&[read], |_| 0, 5).unwrap();
        assert!(costs.read.is_some() && costs.write.is_none() && costs.batch.is_none());
        assert!(StreamCosts::from_measured(&[read, read], |_| 0, 5).is_err());
    }
}
