//! A drive as `nandu probe` measured it from outside, and nothing else: requests alone, and streams side
//! by side. What moves the arm of a disk, or misses what a drive reads ahead, is in how long it takes to go
//! on with one of several streams; what a drive takes in while it reads is in a write behind a scan.
//!
//! | a request | takes |
//! | --- | --- |
//! | reads on where one of k streams ended | one of k streams that are read in turn |
//! | reads anywhere else | a random read, of as many at a time as are said to be on their way |
//! | writes on where one of k streams ended, behind a read or k > 1 | a read and a write of k streams, less a scan's read |
//! | writes on where the only stream ended, behind a write | a sequential write |
//! | writes anywhere else | a random write |
//!
//! 1. Of d requests at a time each takes what it took at the most that were measured and are no more than d:
//!    what a queue gains in between is not known.
//!
//! A merge is taken to read ahead as many blocks as are in flight; one in parts reads some more. One of
//! its streams lies between a sequential and a random read, and gains by a queue what these do.
//!
//! 2. Volumes are drives like this one and work at once: the one that is asked for most counts.
//! 3. Nothing is known of what an algorithm took.

use super::general::time_of;
use super::tally::Like;
use super::{CostModel, CostUnit, Requests as _, Tally, Trace, invalid};
use crate::ExternalError;
use nandu_base::Nanos;
use nandu_device::Operation;
use nandu_probe::pattern::Access as Pattern;
use nandu_probe::{DeviceProfile, StreamKind, StreamPoint};
use std::collections::BTreeMap;

/// What a drive was measured to take.
#[derive(Clone, Debug)]
pub struct Probed {
    device: String,
    /// Bytes and times of requests that go on, and of requests anywhere, of reads and of writes.
    going_on: [Curve; 2],
    anywhere: [Curve; 2],
    streams: Vec<StreamPoint>,
    in_flight: u32,
}

/// Times by bytes, ascending, for each number of requests at a time that was measured, one first.
#[derive(Clone, Debug, Default)]
struct Curve {
    depths: Vec<(u32, Vec<(u32, Nanos)>)>,
}

impl Probed {
    /// A drive whose streams have so many requests in flight as those of a store with this setting.
    ///
    /// # Errors
    /// If the profile has no times of reads or of writes, one after the other and anywhere, one at a
    /// time; or has them for more at a time than these streams have, and for none that is near.
    pub fn new(profile: &DeviceProfile, in_flight: u32) -> Result<Self, ExternalError> {
        let curves =
            |access| [Operation::Read, Operation::Write].map(|it| curve(profile, it, access));
        let (going_on, anywhere) = (curves(Pattern::Sequential), curves(Pattern::Random));
        let depth = in_flight.saturating_add(1);
        for (access, [read, write]) in [("sequential", &going_on), ("random", &anywhere)] {
            for (operation, curve) in [("read", read), ("write", write)] {
                curve.check((operation, access), depth)?;
            }
        }
        let streams = profile.streams.as_ref().map_or(Vec::new(), |streams| streams.points.clone());
        let device = profile.device.clone();
        Ok(Self { device, going_on, anywhere, streams, in_flight })
    }

    /// A count of requests, none yet, that tells how long they take.
    #[must_use]
    pub fn tally(&self) -> Tally<'_> {
        Tally::new(self)
    }

    /// The name of the drive that was measured.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Whether more than one request at a time was measured, or none has company. Without that a queue
    /// is taken to gain nothing.
    #[must_use]
    pub fn knows_queues(&self) -> bool {
        self.in_flight == 0 || self.going_on[0].depths.len() > 1
    }

    /// Whether streams side by side were measured; without them a request that goes on with one of several
    /// is taken for one anywhere.
    #[must_use]
    pub const fn has_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    /// How long a request takes that is like these, in such an area.
    pub(super) fn time_ns(&self, like: &Like, area_bytes: u64) -> u64 {
        let (direction, bytes) = (usize::from(like.is_write), like.byte_count);
        let Some(count) = like.stream_count else { return self.anywhere_ns(like, area_bytes) };
        // The block that is filled is not in flight; one that was looked at is asked for again at once.
        let depth = (self.in_flight + u32::from(!like.is_write)).max(1);
        let alone_ns = self.going_on[direction].time_ns(bytes, depth);
        if like.is_write {
            let pair = || self.streams_ns(StreamKind::Write, (count, bytes, area_bytes));
            // A write that goes on with another stream than the last one did is not like one in order.
            let takes_turns = like.is_behind_read || count > 1;
            let Some(pair_ns) = takes_turns.then(pair).flatten() else { return alone_ns };
            let scan_ns = self.streams_ns(StreamKind::Scan, (1, bytes, area_bytes));
            return pair_ns.saturating_sub(scan_ns.unwrap_or(self.going_on[0].time_ns(bytes, 1)));
        }
        if count == 1 {
            return alone_ns;
        }
        let Some(each_ns) = self.streams_ns(StreamKind::Read, (count, bytes, area_bytes)) else {
            return self.anywhere[0].time_ns(bytes, 1);
        };
        self.merged_ns(each_ns, bytes, depth.max(2) - 1)
    }

    /// The same of one that goes on with nothing.
    fn anywhere_ns(&self, like: &Like, area_bytes: u64) -> u64 {
        let (curve, bytes) = (&self.anywhere[usize::from(like.is_write)], like.byte_count);
        let of_one = curve.time_ns(bytes, 1);
        // An arm moves less far in a smaller area.
        let of_area = self.streams_ns(StreamKind::Restart, (1, bytes, area_bytes));
        let alone_ns = of_area.filter(|_| !like.is_write).unwrap_or(of_one);
        part_of(alone_ns, curve.time_ns(bytes, like.at_once), of_one)
    }

    /// A read that takes `each_ns` alone, of so many at a time.
    fn merged_ns(&self, each_ns: u64, bytes: u32, depth: u32) -> u64 {
        if depth <= 1 {
            return each_ns;
        }
        let [of_one, of_depth] = [1, depth].map(|depth| self.going_on[0].time_ns(bytes, depth));
        let [any_of_one, any_of_depth] =
            [1, depth].map(|depth| self.anywhere[0].time_ns(bytes, depth));
        if any_of_one <= of_one || each_ns <= of_one {
            return part_of(each_ns, of_depth, of_one);
        }
        if each_ns >= any_of_one {
            return part_of(each_ns, any_of_depth, any_of_one);
        }
        let (beyond, between) = (each_ns - of_one, any_of_one - of_one);
        part_of(of_depth, between - beyond, between) + part_of(any_of_depth, beyond, between)
    }

    /// What one of so many streams takes, on lines between the counts that were measured, where areas were
    /// most like this one.
    fn streams_ns(&self, kind: StreamKind, (count, bytes, area): (u64, u32, u64)) -> Option<u64> {
        let of_kind =
            || self.streams.iter().filter(move |point| point.kind == kind && point.run_length == 1);
        let mut counts: Vec<u64> = of_kind().map(|point| u64::from(point.count)).collect();
        counts.sort_unstable();
        counts.dedup();
        let row = |count: u64| {
            let unlikeness =
                |point: &StreamPoint| logarithm(point.area_bytes).abs_diff(logarithm(area));
            let mut points: Vec<&StreamPoint> =
                of_kind().filter(|point| u64::from(point.count) == count).collect();
            points.sort_by_key(|point| (point.request_bytes, unlikeness(point)));
            points.dedup_by_key(|point| point.request_bytes);
            let points = points.iter().filter_map(|point| {
                Some((u32::try_from(point.request_bytes).ok()?, Nanos(point.time_ns)))
            });
            let points: Vec<(u32, Nanos)> = points.collect();
            (!points.is_empty()).then(|| time_of(&points, bytes))
        };
        let above = counts.partition_point(|&measured| measured < count);
        match (above.checked_sub(1).map(|below| counts[below]), counts.get(above).copied()) {
            (_, Some(more)) if more == count => row(more),
            (Some(fewer), Some(more)) => {
                let (low, high) = (row(fewer)?, row(more)?);
                let part = u128::from(logarithm(count) - logarithm(fewer));
                let whole = u128::from(logarithm(more) - logarithm(fewer)).max(1);
                let step = |amount: u64| {
                    u64::try_from(u128::from(amount) * part / whole).unwrap_or(u64::MAX)
                };
                Some(low + step(high.saturating_sub(low)) - step(low.saturating_sub(high)))
            }
            (Some(most), None) => row(most),
            (None, Some(least)) => row(least),
            (None, None) => None,
        }
    }
}

impl Curve {
    /// That one request at a time was measured; and where more were, about as many as `wanted`.
    fn check(&self, (operation, access): (&str, &str), wanted: u32) -> Result<(), ExternalError> {
        let has_depth = |depth: u32| self.depths.iter().any(|(measured, _)| *measured == depth);
        let which = format!("with `operation` {operation}, `access` {access} and `queue_depth`");
        if !has_depth(1) {
            return invalid(&format!(
                "`points` has none {which} 1; probe the drive with writes and --queue-depth 1,{wanted}"
            ));
        }
        let near = |depth: u32| depth <= wanted && depth > wanted / 2;
        let is_deeper = self.depths.iter().any(|(measured, _)| *measured > wanted);
        if is_deeper && !self.depths.iter().any(|(measured, _)| near(*measured)) {
            return invalid(&format!(
                "`points` has none {which} {wanted}, nor any near, which so many in flight need; probe \
                 the drive with --queue-depth 1,{wanted}, or have fewer in flight"
            ));
        }
        Ok(())
    }

    /// What a request takes of which there are so many at a time.
    fn time_ns(&self, bytes: u32, depth: u32) -> u64 {
        let above = self.depths.partition_point(|(measured, _)| *measured <= depth.max(1));
        time_of(&self.depths[above - 1].1, bytes)
    }
}

/// Times of an operation, as the profile has them.
fn curve(profile: &DeviceProfile, operation: Operation, access: Pattern) -> Curve {
    let mut depths: BTreeMap<u32, Vec<(u32, Nanos)>> = BTreeMap::new();
    for point in &profile.points {
        let is_of_it = (point.operation, point.access) == (operation, access);
        if let Ok(bytes @ 1..) = u32::try_from(point.request_bytes)
            && is_of_it
            && point.time_per_request_ns >= 1.0
        {
            let time_ns = whole(point.time_per_request_ns);
            depths.entry(point.queue_depth).or_default().push((bytes, time_ns));
        }
    }
    // A file that somebody changed may have them in any order, and some twice.
    for points in depths.values_mut() {
        points.sort_unstable();
        points.dedup_by_key(|point| point.0);
    }
    Curve { depths: depths.into_iter().collect() }
}

/// So large a part of a time.
fn part_of(time: u64, part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(time) * u128::from(part) / u128::from(whole.max(1)))
        .unwrap_or(u64::MAX)
}

/// Nanoseconds without their fraction.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time is positive and far below the end of the range"
)]
const fn whole(nanos: f64) -> Nanos {
    Nanos(nanos as u64)
}

/// The logarithm to the base 2 of a number, 1 at least, in 256ths on lines between powers.
fn logarithm(value: u64) -> u64 {
    let value = value.max(1);
    let power = value.ilog2();
    let above = u128::from(value) * 256 / (1_u128 << power) - 256;
    u64::from(power) * 256 + u64::try_from(above).expect("it is below 256")
}

impl CostModel for Probed {
    fn unit(&self) -> CostUnit {
        CostUnit::Nanoseconds
    }

    fn cost(&self, trace: &Trace) -> Result<u64, ExternalError> {
        let mut tally = self.tally();
        trace.accesses().iter().for_each(|access| tally.note(access));
        Ok(tally.time_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Processor, Work};
    use super::*;
    use nandu_probe::StreamProfile;
    use nandu_probe::profile::{PROFILE_VERSION, ProfilePoint};

    const BYTES: u32 = 4096;

    fn point(
        operation: Operation,
        access: Pattern,
        queue_depth: u32,
        time_ns: f64,
    ) -> ProfilePoint {
        ProfilePoint {
            operation,
            access,
            request_bytes: BYTES.into(),
            queue_depth,
            bytes_per_second: 1.0,
            iops: 1.0,
            time_per_request_ns: time_ns,
            latency_mean_ns: 0.0,
            latency_p50_ns: 0.0,
            latency_p99_ns: 0.0,
        }
    }

    fn profile() -> DeviceProfile {
        use Operation::{Read, Write};
        use Pattern::{Random, Sequential};
        let stream = |kind, count, area_bytes, time_ns| {
            let (request_bytes, run_length) = (BYTES.into(), 1);
            StreamPoint { kind, request_bytes, count, run_length, area_bytes, time_ns }
        };
        let points = vec![
            stream(StreamKind::Read, 1, 1 << 20, 1000),
            stream(StreamKind::Read, 2, 1 << 20, 3000),
            stream(StreamKind::Read, 4, 1 << 20, 5000),
            stream(StreamKind::Scan, 1, 1 << 20, 900),
            stream(StreamKind::Write, 1, 1 << 20, 2900),
            stream(StreamKind::Restart, 1, 1 << 20, 7000),
            stream(StreamKind::Restart, 1, 64 << 20, 9000),
        ];
        DeviceProfile {
            version: PROFILE_VERSION,
            device: "some drive".to_owned(),
            capacity_bytes: 1 << 30,
            sector_bytes: 512,
            volatile_cache: false,
            points: vec![
                point(Read, Sequential, 1, 1000.0),
                point(Read, Sequential, 8, 600.0),
                point(Read, Random, 1, 9500.0),
                point(Write, Sequential, 1, 1800.0),
                point(Write, Random, 1, 20_000.0),
            ],
            models: Vec::new(),
            penalties: Vec::new(),
            best_read_bytes: None,
            best_write_bytes: None,
            misalignment: Vec::new(),
            alignment_unit_bytes: None,
            history: Vec::new(),
            streams: Some(StreamProfile { points, sync_ns: None }),
        }
    }

    /// What requests of a volume cost, each as whether it writes and its block.
    fn cost(probed: &Probed, blocks: &[(bool, u64)]) -> u64 {
        let each = |&(is_write, block): &(bool, u64)| Access {
            is_write,
            volume: 0,
            offset_bytes: block * u64::from(BYTES),
            byte_count: BYTES,
        };
        probed.cost(&Trace::new(blocks.iter().map(each).collect())).unwrap()
    }

    #[test]
    fn a_request_takes_what_one_like_it_was_measured_to_take() {
        let probed = Probed::new(&profile(), 0).unwrap();
        let (read, write) = (|block| (false, block), |block| (true, block));
        assert_eq!(cost(&probed, &[read(5)]), 7000, "anywhere in an area like this");
        assert_eq!(cost(&probed, &[read(5), read(6)]), 7000 + 1000);
        assert_eq!(cost(&probed, &[read(9000)]), 9000, "in a larger one");
        let two = [read(0), read(50), read(1), read(51), read(2)];
        assert_eq!(cost(&probed, &two), 2 * 7000 + 3 * 3000);
        let three = [read(0), read(50), read(90), read(1)];
        assert_eq!(cost(&probed, &three), 3 * 7000 + 4000, "between two and four");
        assert_eq!(cost(&probed, &[write(0), write(1)]), 20_000 + 1800);
        let behind_a_scan = [read(0), write(50), read(1), write(51)];
        assert_eq!(cost(&probed, &behind_a_scan), 7000 + 20_000 + 1000 + (2900 - 900));
        let in_turn = [write(0), write(50), write(1), write(51)];
        assert_eq!(cost(&probed, &in_turn), 2 * 20_000 + 2 * (2900 - 900));
    }

    #[test]
    fn requests_in_flight_take_what_was_measured_of_no_more() {
        let blocks = [(false, 0), (false, 1)];
        let cost_with = |in_flight| cost(&Probed::new(&profile(), in_flight).unwrap(), &blocks);
        assert_eq!([0, 7, 9, 14].map(cost_with), [8000, 7600, 7600, 7600]);
        let knows = |in_flight| Probed::new(&profile(), in_flight).unwrap().knows_queues();
        assert!(knows(0) && knows(7));
        let mut of_one = profile();
        of_one.points.retain(|point| point.queue_depth == 1);
        assert!(!Probed::new(&of_one, 4).unwrap().knows_queues());
    }

    #[test]
    fn depths_of_which_none_is_near_are_refused_by_their_key() {
        // One and eight were measured.
        for in_flight in [1, 4, 6] {
            let said = Probed::new(&profile(), in_flight).unwrap_err().to_string();
            let depth = in_flight + 1;
            let told =
                format!("with `operation` read, `access` sequential and `queue_depth` {depth}");
            assert!(said.contains(&told), "{said}");
            assert!(said.contains(&format!("--queue-depth 1,{depth}")), "{said}");
        }
        let mut deep = profile();
        deep.points.iter_mut().for_each(|point| point.queue_depth = 4);
        let said = Probed::new(&deep, 3).unwrap_err().to_string();
        assert!(said.contains("`queue_depth` 1;"), "{said}");
    }

    #[test]
    fn a_read_with_others_on_their_way_gains_what_random_ones_gain() {
        let mut profile = profile();
        profile.points.insert(3, point(Operation::Read, Pattern::Random, 8, 950.0));
        let probed = Probed::new(&profile, 0).unwrap();
        let read = |block: u64| Access {
            is_write: false,
            volume: 0,
            offset_bytes: block * u64::from(BYTES),
            byte_count: BYTES,
        };
        let time_of = |at_once| {
            let mut tally = probed.tally();
            tally.note_of(&read(5), at_once);
            tally.time_ns()
        };
        // In an area like that one alone takes 7000.
        assert_eq!([1, 7, 8, 99].map(time_of), [7000, 7000, 700, 700]);
        // What passes over little is one stream, though not one that goes on.
        let mut tally = probed.tally();
        for block in [0, 2, 3, 9, 10] {
            tally.note_of(&read(block), 8);
        }
        assert_eq!((tally.request_count(), tally.time_ns()), (5, 3 * 700 + 2 * 1000));
    }

    #[test]
    fn a_phase_takes_as_long_as_the_slower_of_drive_and_processor() {
        let probed = Probed::new(&profile(), 0).unwrap();
        let processor = Processor { put_in_ps: 1_000_000.0, ..Processor::default() };
        let access = |block: u64| Access {
            is_write: false,
            volume: 0,
            offset_bytes: block * u64::from(BYTES),
            byte_count: BYTES,
        };
        let put_in = |put_in_count| Work { put_in_count, ..Work::default() };
        let mut tally = probed.tally();
        // 7000 beside 5000, then 1000 beside 9000, nothing beside 2000, and 1000 in no phase.
        tally.note(&access(0));
        tally.end_phase(put_in(5));
        tally.note(&access(1));
        tally.end_phase(put_in(9));
        tally.end_phase(put_in(2));
        tally.note(&access(2));
        assert_eq!((tally.request_count(), tally.time_ns()), (3, 7000 + 1000 + 1000));
        assert_eq!(tally.work_ns(&processor), 16_000);
        assert_eq!(tally.time_beside_ns(&processor), 7000 + 9000 + 2000 + 1000);
        assert_eq!(tally.time_beside_ns(&Processor::default()), tally.time_ns());
    }

    #[test]
    fn a_stream_of_several_gains_by_a_queue_what_its_likes_gain() {
        let mut profile = profile();
        profile.points.insert(3, point(Operation::Read, Pattern::Random, 8, 950.0));
        let probed = Probed::new(&profile, 7).unwrap();
        // As sequential ones, as random ones, and half of each.
        let times = [500, 1000, 9500, 19_000, 5250].map(|each| probed.merged_ns(each, BYTES, 8));
        assert_eq!(times, [300, 600, 950, 1900, 300 + 475]);
    }

    #[test]
    fn volumes_work_at_once() {
        let access = |volume, block: u64| Access {
            is_write: false,
            volume,
            offset_bytes: block * u64::from(BYTES),
            byte_count: BYTES,
        };
        let trace = Trace::new(vec![access(0, 0), access(1, 0), access(0, 1)]);
        assert_eq!(Probed::new(&profile(), 0).unwrap().cost(&trace), Ok(7000 + 1000));
    }

    #[test]
    fn a_profile_without_streams_takes_each_of_several_for_one_anywhere() {
        let probed = Probed::new(&DeviceProfile { streams: None, ..profile() }, 0).unwrap();
        assert!(!probed.has_streams());
        let two = [(false, 0), (false, 50), (false, 1), (false, 51)];
        assert_eq!(cost(&probed, &two), 4 * 9500);
        assert_eq!(cost(&probed, &[(false, 0), (true, 9), (true, 10)]), 9500 + 20_000 + 1800);
    }

    #[test]
    fn a_profile_of_reads_alone_is_refused() {
        let mut reads = profile();
        reads.points.retain(|point| point.operation == Operation::Read);
        let error = Probed::new(&reads, 0).unwrap_err().to_string();
        assert!(error.contains("probe the drive with writes"), "{error}");
    }
}
