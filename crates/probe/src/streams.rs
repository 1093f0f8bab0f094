//! Streams of requests side by side and batches of scattered reads, within areas of several sizes: what joins and
//! sorts ask of a device beside the four patterns of the standard series. After the micro-benchmarks
//! *partitioning*, *locality*, *mix* and *parallelism* of uFLIP (Bouganim, Jónsson, Bonnet, CIDR 2009).
//!
//! ```text
//!   read    │ 1→    │ 2→    │ 3→    │   k streams in an area, in turn: a merge of runs
//!   restart │    →→→ ‥‥ →→→ ‥‥ →→→  │   some requests in a row, then some elsewhere: a scan begins anew
//!   write   [scan →][ 1→ │ 2→ │ 3→ ]    one stream is read, k are written behind it: a hash cuts a table
//!   back    [      │ 1→ →→ │ 2   │ 3]    each of them is read alone, in long requests: a bucket comes back
//!   batch   ·····│××    ×× ××  │·····   n places of an area anywhere, at once, in order, in runs of neighbours
//!   scan    │ → → → → → → → → → → → │   one stream, in requests of many sizes: drives have steps between
//! ```
//!
//! 1. A stream reads or writes its own part of the area from the beginning; at its end it begins anew. Streams
//!    that are written take turns by about as many others each, as buckets of a hash do that fill.
//! 2. What is written ends when the drive takes it, as that of a join does, and begins with an empty cache: the
//!    more is written, the less of it a cache takes in.
//! 3. Before streams are written their area is trimmed, as a file is that was removed; nothing is written twice.
//!    Where there is no time to fill it, pieces of that way are measured: a drive that moves what lies beside a
//!    page does more of it the fuller the area is.
//!    What is only read was written in order before, where pages are mapped.
//! 4. A single stream is read that was read just before: what a drive keeps of an area is seen.
//! 5. Runs of a batch are not neighbours of each other.
//! 6. Of streams only what was written in turn is read back, and the way to the beginning of each does not count.

use crate::runner::Observer;
use crate::{ProbeError, figures};
use nandu_base::{Nanos, Permutation, Rng, to_index, to_u32};
use nandu_device::{Device, DeviceError, IoBuffer, Operation, Request};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Requests of a point at least.
const REQUEST_COUNT_MIN: u64 = 32;
/// Bytes that a point moves at least, unless time is up.
const BYTES_MIN: u64 = 4 << 20;
/// Requests that are enough for a point.
const REQUEST_COUNT_MAX: u64 = 512;
/// From one of two places that are written in turn to the other.
const SLOT_BYTES: u64 = 1 << 20;
/// Small writes, each made durable.
const SYNC_COUNT: u64 = 8;
const REQUEST_BYTES: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Of streams that are written: where a request fills a chunk, a stripe or a flash page, its time leaps.
const WRITE_REQUEST_BYTES: [u64; 9] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
const STREAM_COUNTS: [u32; 5] = [1, 2, 4, 16, 64];
/// Also more than the queue takes: then it stays full.
const BATCH_COUNTS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// Requests of a batch under way at most, whatever the queue takes: more than that is seldom of use, and a small
/// pool has no frames for it.
const BATCH_DEPTH_MAX: usize = 128;
/// How many requests of a batch are neighbours.
const RUN_LENGTHS: [u32; 7] = [1, 2, 4, 16, 64, 256, 1024];
/// How many requests follow each other before the next one goes elsewhere.
const RESTART_LENGTHS: [u32; 3] = [1, 4, 16];
/// After so many bytes in a row a device is at its pace.
const RESTART_BYTES_MAX: u64 = 1 << 20;
const AREA_BYTES: [u64; 5] = [256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// Pieces of the way to a full area, where it is not walked whole.
const LEVEL_COUNT: u64 = 4;
/// Whoever makes room for a stream does not know well how long it will be: so many fifths are written.
const FILLED_FIFTHS: u64 = 4;
/// From one turn of a stream that is written to the next, at least and at most.
const TURN_TIMES: [u64; 2] = [800, 1200];
/// Requests of the scan before those count that are written behind it, and their bytes.
const PRELUDE_COUNTS: [u64; 2] = [4, 32];
const PRELUDE_BYTES: u64 = 1 << 20;
/// From the scan to what is written.
const SCAN_GAP_BYTES: u64 = 1 << 20;
/// Requests that fill or read an area beforehand, in bytes at most.
const AHEAD_BYTES_MAX: u64 = 1 << 20;
/// Requests of batches are not longer than this: pages of a database.
const BATCH_REQUEST_BYTES_MAX: u64 = 16 << 10;
/// Sizes of a scan's requests, and how many there are from one to its double.
const SCAN_REQUEST_BYTES: [u64; 2] = [4 << 10, 4 << 20];
const SCAN_STEPS: u64 = 8;
/// Requests of a scan at least.
const SCAN_REQUESTS_MIN: u64 = 8;
/// Files do not begin where chunks or stripes of a drive do.
const WRITE_SHIFT_BYTES: u64 = 12 << 10;
/// Tells the scan's requests from those of streams.
const SCAN: u64 = 1 << 32;

/// What is done side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKind {
    /// Streams are read, one request at a time.
    Read,
    /// Streams are written, each request behind one that is read from another stream, as large.
    Write,
    /// Runs of requests are read one after the other, each from anywhere.
    Restart,
    /// Scattered requests are read, so many at once.
    Batch,
    /// Streams that were written side by side in such requests are read, one after the other and as fast as one
    /// at a time goes.
    Back,
    /// An area is read from its beginning to its end.
    Scan,
}

/// A measured point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamPoint {
    /// What was done.
    pub kind: StreamKind,
    /// Size of a request.
    #[serde(deserialize_with = "figures::request_bytes")]
    pub request_bytes: u64,
    /// Streams, or requests of a batch.
    #[serde(deserialize_with = "figures::count")]
    pub count: u32,
    /// Of restarts and batches, how many requests are neighbours; else 1.
    #[serde(deserialize_with = "figures::run_length")]
    pub run_length: u32,
    /// The area that streams or places share.
    #[serde(deserialize_with = "figures::area_bytes")]
    pub area_bytes: u64,
    /// Elapsed time over requests, in ns; of [`StreamKind::Write`] that of a read and a write, of
    /// [`StreamKind::Back`] over what was one when it was written.
    #[serde(deserialize_with = "figures::time_ns")]
    pub time_ns: u64,
}

/// All points, and what it takes that something is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamProfile {
    /// By kind, area, count and size.
    pub points: Vec<StreamPoint>,
    /// A small write and a flush, in ns; `None` where nothing was written.
    pub sync_ns: Option<u64>,
}

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// A point ends after so long, if it has 32 requests. A batch is done whole, and an area that is written is
    /// filled, at least in long requests.
    pub duration: Nanos,
    /// Whether to write; what the first 129 MiB hold is lost then.
    pub writes: bool,
    /// Seed of the order of streams and of places.
    pub seed: u64,
}

/// Measures a device of which at least the first 129 MiB were written. On a smaller device larger areas are left
/// out.
///
/// # Errors
/// Where a request fails or the observer cancels.
pub fn measure_streams(
    device: &mut dyn Device,
    options: &StreamOptions,
    observer: &mut dyn Observer,
) -> Result<StreamProfile, ProbeError> {
    let capacity = device.info().geometry.capacity().0;
    let areas: Vec<u64> =
        AREA_BYTES.into_iter().filter(|area| area * 2 + WRITE_SHIFT_BYTES <= capacity).collect();
    let Some(&end) = areas.last() else {
        return Ok(StreamProfile { points: Vec::new(), sync_ns: None });
    };
    let wanted = wanted_points(device, &areas, options.writes);
    let rng = Rng::new(options.seed);
    let (in_flight, spare) = (BTreeMap::new(), Vec::new());
    let mut bench = Bench { device, end, options, rng, in_flight, spare, is_loaded: false };
    let sync_ns = if options.writes { Some(bench.sync_ns()?) } else { None };
    let mut points = Vec::new();
    for (index, mut point) in wanted.iter().copied().enumerate() {
        if observer.is_cancelled() {
            return Err(ProbeError::Cancelled);
        }
        observer.progress(index as f64 / wanted.len() as f64, "streams side by side");
        bench.spare.clear();
        point.time_ns = match point.kind {
            StreamKind::Read => bench.read(&point)?,
            StreamKind::Write => {
                let (write_ns, back_ns) = bench.write(&point)?;
                let back = |time_ns| StreamPoint { kind: StreamKind::Back, time_ns, ..point };
                points.extend(back_ns.map(back));
                write_ns
            }
            StreamKind::Restart => bench.restarts(&point)?,
            StreamKind::Batch => bench.batches(&point)?,
            StreamKind::Scan => bench.scan(&point)?,
            StreamKind::Back => unreachable!("it comes with the writes"),
        };
        points.push(point);
    }
    points.sort_by_key(StreamPoint::key);
    Ok(StreamProfile { points, sync_ns })
}

/// What there is to measure, what reads before what writes.
fn wanted_points(device: &dyn Device, areas: &[u64], writes: bool) -> Vec<StreamPoint> {
    let info = device.info();
    let sector_bytes = u64::from(info.geometry.sector_bytes);
    let depth_max = info.queue_depth_max;
    let scan_sizes = scan_sizes();
    let largest = &areas[areas.len() - 1..];
    let mut points = Vec::new();
    for kind in [
        StreamKind::Scan,
        StreamKind::Read,
        StreamKind::Restart,
        StreamKind::Batch,
        StreamKind::Write,
    ] {
        let (areas, counts, runs, sizes) = match kind {
            StreamKind::Scan => (largest, &[1][..], &[1][..], &scan_sizes[..]),
            StreamKind::Restart => (areas, &[1][..], &RESTART_LENGTHS[..], &REQUEST_BYTES[..]),
            StreamKind::Batch => (areas, &BATCH_COUNTS[..], &RUN_LENGTHS[..], &REQUEST_BYTES[..]),
            StreamKind::Write => (areas, &STREAM_COUNTS[..], &[1][..], &WRITE_REQUEST_BYTES[..]),
            _ => (areas, &STREAM_COUNTS[..], &[1][..], &REQUEST_BYTES[..]),
        };
        for &area_bytes in areas {
            for (&count, &run_length) in
                counts.iter().flat_map(|it| runs.iter().map(move |run| (it, run)))
            {
                for &request_bytes in sizes {
                    let time_ns = 0;
                    let point =
                        StreamPoint { kind, request_bytes, count, run_length, area_bytes, time_ns };
                    if request_bytes.is_multiple_of(sector_bytes) && point.fits(depth_max, writes) {
                        points.push(point);
                    }
                }
            }
        }
    }
    points
}

/// Sizes of a scan's requests: [`SCAN_STEPS`] to each doubling, in whole pages of the smallest.
fn scan_sizes() -> Vec<u64> {
    let [least, most] = SCAN_REQUEST_BYTES;
    let doublings = std::iter::successors(Some(least), |bytes| Some(bytes * 2));
    doublings
        .take_while(|bytes| *bytes < most)
        .flat_map(|bytes| (0..SCAN_STEPS).map(move |step| bytes + bytes * step / SCAN_STEPS))
        .chain([most])
        .filter(|bytes| bytes.is_multiple_of(least))
        .collect()
}

impl StreamPoint {
    /// Whether it can be measured on a device with such a queue.
    fn fits(&self, depth_max: u32, writes: bool) -> bool {
        let bytes = self.request_bytes * u64::from(self.count);
        match self.kind {
            StreamKind::Read | StreamKind::Back => bytes <= self.area_bytes,
            StreamKind::Scan => bytes * 2 * SCAN_REQUESTS_MIN <= self.area_bytes,
            StreamKind::Restart => {
                let run_bytes = self.request_bytes * u64::from(self.run_length);
                let is_at_pace = self.run_length > 4 && run_bytes > RESTART_BYTES_MAX;
                run_bytes * 2 <= self.area_bytes && !is_at_pace
            }
            StreamKind::Write => {
                let is_filled_at_once = self.request_bytes * 4 > self.area_bytes;
                bytes <= self.area_bytes
                    && writes
                    && !is_filled_at_once
                    && self.count < depth_max.max(2)
            }
            StreamKind::Batch => {
                let run_count = u64::from(self.count / self.run_length);
                self.request_bytes <= BATCH_REQUEST_BYTES_MAX
                    && self.run_length <= self.count
                    && run_count * self.run_slot_bytes() <= self.area_bytes
            }
        }
    }

    fn key(&self) -> (StreamKind, u64, u32, u32, u64) {
        (self.kind, self.area_bytes, self.count, self.run_length, self.request_bytes)
    }

    /// A run of a batch, and a request that is none.
    fn run_slot_bytes(&self) -> u64 {
        self.request_bytes * u64::from(self.run_length + 1)
    }
}

/// Streams, each in its own part of an area.
struct Streams {
    start: u64,
    /// Requests that a part has room for.
    part_count: u64,
    request_bytes: u64,
    nexts: Vec<u64>,
    /// How much of each was written in turn, from its beginning on.
    in_turn: Vec<u64>,
    /// The order in which streams have their turn, and how many had one.
    order: Permutation,
    turn_count: u64,
    /// When each stream has its turn, if they are written.
    dues: Vec<u64>,
}

impl Streams {
    fn new(start: u64, point: &StreamPoint) -> Self {
        let places = point.area_bytes / point.request_bytes;
        Self {
            start,
            part_count: places / u64::from(point.count),
            request_bytes: point.request_bytes,
            nexts: vec![0; point.count as usize],
            in_turn: Vec::new(),
            order: Permutation::new(u64::from(point.count), u64::from(point.count)),
            turn_count: 0,
            dues: Vec::new(),
        }
    }

    fn stream_count(&self) -> u64 {
        self.nexts.len() as u64
    }

    /// Requests of a part that are written.
    const fn filled_part(&self) -> u64 {
        let filled = self.part_count * FILLED_FIFTHS / 5;
        if filled == 0 { 1 } else { filled }
    }

    /// The stream whose turn it is where each has one after about as long.
    fn next_due(&mut self, rng: &mut Rng) -> (u64, u64) {
        let [least, most] = TURN_TIMES;
        if self.dues.is_empty() {
            self.dues = self.nexts.iter().map(|_| rng.below(most)).collect();
        }
        let (stream, due) =
            self.dues.iter_mut().enumerate().min_by_key(|(_, due)| **due).expect("there is one");
        *due += least + rng.below(most - least + 1);
        (stream as u64, self.next(stream as u64))
    }

    /// The stream whose turn it is, and the address of its next request.
    fn next_in_turn(&mut self) -> (u64, u64) {
        let stream = self.order.apply(self.turn_count % self.stream_count());
        self.turn_count += 1;
        (stream, self.next(stream))
    }

    /// The address of the next request of a stream.
    fn next(&mut self, stream: u64) -> u64 {
        let next = &mut self.nexts[to_index(stream)];
        let place = stream * self.part_count + *next % self.part_count;
        *next += 1;
        self.start + place * self.request_bytes
    }
}

struct Bench<'a> {
    device: &'a mut dyn Device,
    /// Where the largest area that is read ends, and all begin that are written.
    end: u64,
    options: &'a StreamOptions,
    rng: Rng,
    /// Addresses of requests under way, by their ids.
    in_flight: BTreeMap<u64, u64>,
    /// Buffers of the point at hand that are not under way.
    spare: Vec<IoBuffer>,
    /// Whether the area that is only read was written.
    is_loaded: bool,
}

impl Bench<'_> {
    /// One request at a time, each of any stream.
    fn read(&mut self, point: &StreamPoint) -> Result<u64, ProbeError> {
        let start = self.area_of_reads(point.area_bytes)?;
        let mut streams = Streams::new(start, point);
        if point.count == 1 {
            self.read_ahead(start, point)?;
        }
        let begin = self.device.now();
        let mut done_count = 0;
        while !self.is_over(point, begin, done_count) {
            let (stream, address) = streams.next_in_turn();
            self.submit(Operation::Read, address, point.request_bytes, stream)?;
            self.wait()?;
            done_count += 1;
        }
        Ok((self.device.now() - begin).0 / done_count)
    }

    /// Reads an area once, in few long requests.
    fn read_ahead(&mut self, start: u64, point: &StreamPoint) -> Result<(), ProbeError> {
        let bytes = AHEAD_BYTES_MAX.min(point.area_bytes);
        for place in 0..point.area_bytes / bytes {
            self.spare.clear();
            self.submit(Operation::Read, start + place * bytes, bytes, place)?;
            self.wait()?;
        }
        self.spare.clear();
        Ok(())
    }

    /// One request at a time, some in a row, then some elsewhere.
    fn restarts(&mut self, point: &StreamPoint) -> Result<u64, ProbeError> {
        let (start, bytes) = (self.area_of_reads(point.area_bytes)?, point.request_bytes);
        let run_length = u64::from(point.run_length);
        let places = point.area_bytes / bytes - run_length + 1;
        let begin = self.device.now();
        let mut done_count = 0;
        while !self.is_over(point, begin, done_count) {
            let first = self.rng.below(places);
            for place in first..first + run_length {
                self.submit(Operation::Read, start + place * bytes, bytes, place)?;
                self.wait()?;
            }
            done_count += run_length;
        }
        Ok((self.device.now() - begin).0 / done_count)
    }

    /// Places of an area anywhere, in ascending order, as many at once as the queue takes.
    fn batches(&mut self, point: &StreamPoint) -> Result<u64, ProbeError> {
        let run_length = u64::from(point.run_length);
        let places = point.area_bytes / point.run_slot_bytes();
        let (first, bytes) = self.read_area()?;
        let bases = bytes / point.area_bytes;
        let depth = BATCH_DEPTH_MAX.min(self.device.info().queue_depth_max as usize);
        let begin = self.device.now();
        let mut done_count = 0;
        while !self.is_over(point, begin, done_count) {
            let start = first + self.rng.below(bases) * point.area_bytes;
            let mut batch = BTreeSet::new();
            while batch.len() as u64 * run_length < u64::from(point.count) {
                batch.insert(self.rng.below(places));
            }
            let of_run = |run: u64| {
                let first = run * (run_length + 1);
                first..first + run_length
            };
            for place in batch.into_iter().flat_map(of_run) {
                if self.in_flight.len() >= depth {
                    self.wait()?;
                }
                let address = start + place * point.request_bytes;
                self.submit(Operation::Read, address, point.request_bytes, place)?;
            }
            self.wait_for_all()?;
            done_count += u64::from(point.count);
        }
        Ok((self.device.now() - begin).0 / done_count)
    }

    /// A scan whose next request is read while a request of any stream is written; each stream has one under
    /// way at most.
    ///
    /// Answers the time of a read and a write, and that of what was written when it is read.
    fn write(&mut self, point: &StreamPoint) -> Result<(u64, Option<u64>), ProbeError> {
        let begin = self.device.now();
        let (mut all_ns, mut done_count) = (0, 0);
        let mut streams = Streams::new(self.end + WRITE_SHIFT_BYTES, point);
        while !self.is_over(point, begin, done_count) {
            streams = Streams::new(self.end + WRITE_SHIFT_BYTES, point);
            let (time_ns, count) = self.fill(point, &mut streams)?;
            all_ns += time_ns * count;
            done_count += count;
        }
        Ok((all_ns / done_count, self.read_back(point, &streams)?))
    }

    /// Reads each stream in long requests, as far as it was written in turn with the others.
    fn read_back(
        &mut self,
        point: &StreamPoint,
        streams: &Streams,
    ) -> Result<Option<u64>, ProbeError> {
        let bytes = point.request_bytes;
        let longest = (AHEAD_BYTES_MAX / bytes).max(1);
        let (mut all_ns, mut piece_count) = (0, 0);
        for (stream, &written) in streams.in_turn.iter().enumerate() {
            let first = streams.start + stream as u64 * streams.part_count * bytes;
            self.spare.clear();
            self.submit(Operation::Read, first, bytes, SCAN)?;
            self.wait()?;
            let begin = self.device.now();
            let mut place = 1;
            while place < written.min(streams.part_count) {
                let taken = longest.min(written.min(streams.part_count) - place);
                self.spare.clear();
                self.submit(Operation::Read, first + place * bytes, taken * bytes, SCAN)?;
                self.wait()?;
                place += taken;
            }
            all_ns += (self.device.now() - begin).0;
            piece_count += place - 1;
            if all_ns >= self.options.duration.0 && piece_count >= REQUEST_COUNT_MIN {
                break;
            }
        }
        self.spare.clear();
        Ok((piece_count > 0).then(|| all_ns / piece_count))
    }

    /// Where what is only read lies, and its bytes. A device that maps pages finds those of a table that was
    /// loaded where they were written one after the other, which other places of a used device are not; others
    /// keep them in place.
    fn read_area(&mut self) -> Result<(u64, u64), ProbeError> {
        let bytes = self.end;
        if !self.options.writes || !self.device.info().supports_trim {
            return Ok((0, bytes));
        }
        if !self.is_loaded {
            self.is_loaded = true;
            let longest = AHEAD_BYTES_MAX.min(bytes);
            for place in 0..bytes / longest {
                self.submit(Operation::Write, self.end + place * longest, longest, place)?;
                self.wait()?;
            }
            self.flush()?;
            self.spare.clear();
        }
        Ok((self.end, bytes))
    }

    /// Where so much of it begins: at its end.
    fn area_of_reads(&mut self, bytes: u64) -> Result<u64, ProbeError> {
        let (start, all) = self.read_area()?;
        Ok(start + all - bytes)
    }

    /// One request at a time, from the beginning of an area to its end.
    fn scan(&mut self, point: &StreamPoint) -> Result<u64, ProbeError> {
        let bytes = point.request_bytes;
        let mut stream = Streams::new(self.area_of_reads(point.area_bytes)?, point);
        let [least, most] = PRELUDE_COUNTS;
        let prelude_count = (PRELUDE_BYTES / bytes).clamp(least, most).min(stream.part_count / 2);
        let (mut begin, mut done_count) = (self.device.now(), 0);
        for index in 0..stream.part_count {
            if index == prelude_count {
                (begin, done_count) = (self.device.now(), 0);
            }
            self.submit(Operation::Read, stream.next(0), bytes, SCAN)?;
            self.wait()?;
            done_count += 1;
            let is_late = self.device.now() - begin >= self.options.duration;
            if is_late && index >= prelude_count && done_count >= SCAN_REQUESTS_MIN {
                break;
            }
        }
        Ok((self.device.now() - begin).0 / done_count)
    }

    /// Fills an area once. Answers the mean time over the whole way, and how many requests were measured.
    fn fill(
        &mut self,
        point: &StreamPoint,
        streams: &mut Streams,
    ) -> Result<(u64, u64), ProbeError> {
        self.trim(point.area_bytes)?;
        self.flush()?;
        let bytes = point.request_bytes;
        let part = streams.filled_part();
        let level_count = LEVEL_COUNT.min(part);
        let [least, most] = PRELUDE_COUNTS;
        let prelude_count = (PRELUDE_BYTES / bytes).clamp(least, most);
        // Near what is written behind it, but not so near that a drive reads that ahead; and not read twice.
        let end = self.end - SCAN_GAP_BYTES.min(self.end / 2);
        let scan_count = prelude_count + part * u64::from(point.count) + level_count;
        let scan_bytes = (scan_count * bytes).min(end);
        let scanned = StreamPoint { count: 1, area_bytes: scan_bytes, ..*point };
        let mut scan = Streams::new(end - scan_bytes, &scanned);
        for _ in 0..prelude_count {
            self.submit(Operation::Read, scan.next(0), bytes, SCAN)?;
            self.wait_for(SCAN)?;
        }
        let (mut way_ns, mut done_count) = (0, 0);
        for level in 0..level_count {
            let places = level * part / level_count..(level + 1) * part / level_count;
            let wanted = (places.end - places.start) * u64::from(point.count);
            let (time_ns, count) = self.write_in_turn(streams, &mut scan, (bytes, wanted))?;
            way_ns += time_ns * wanted / count;
            if done_count == level * part / level_count * u64::from(point.count) {
                streams.in_turn.clone_from(&streams.nexts);
            }
            done_count += count;
            if count < wanted && level + 1 < level_count {
                self.write_ahead(streams, point, places)?;
            }
        }
        Ok((way_ns / (part * u64::from(point.count)), done_count))
    }

    /// So many requests of streams in turn, each behind one of the scan; fewer where time is up for one piece of
    /// the way. Answers the time, and how many.
    fn write_in_turn(
        &mut self,
        streams: &mut Streams,
        scan: &mut Streams,
        (bytes, count): (u64, u64),
    ) -> Result<(u64, u64), ProbeError> {
        let begin = self.device.now();
        self.submit(Operation::Read, scan.next(0), bytes, SCAN)?;
        let mut done_count = 0;
        while done_count < count && !self.is_late(begin, done_count) {
            done_count += 1;
            self.wait_for(SCAN)?;
            self.submit(Operation::Read, scan.next(0), bytes, SCAN)?;
            let (stream, address) = streams.next_due(&mut self.rng);
            self.wait_for(stream)?;
            self.submit(Operation::Write, address, bytes, stream)?;
        }
        self.wait_for_all()?;
        Ok(((self.device.now() - begin).0, done_count))
    }

    /// Whether time is up for a piece of the way to a full area.
    fn is_late(&self, begin: Nanos, done_count: u64) -> bool {
        let is_late = (self.device.now() - begin).0 >= self.options.duration.0 / LEVEL_COUNT;
        is_late && done_count >= REQUEST_COUNT_MIN / LEVEL_COUNT
    }

    /// Fills each stream up to a place between two, in few long requests.
    fn write_ahead(
        &mut self,
        streams: &mut Streams,
        point: &StreamPoint,
        places: Range<u64>,
    ) -> Result<(), ProbeError> {
        let longest = (AHEAD_BYTES_MAX / point.request_bytes).max(1);
        for stream in 0..streams.stream_count() {
            let each = places.start + self.rng.below((places.end - places.start).max(1));
            while streams.nexts[to_index(stream)] < each {
                let taken = longest.min(each - streams.nexts[to_index(stream)]);
                let address = streams.next(stream);
                streams.nexts[to_index(stream)] += taken - 1;
                self.spare.clear();
                self.submit(Operation::Write, address, taken * point.request_bytes, stream)?;
                self.wait()?;
            }
        }
        self.spare.clear();
        Ok(())
    }

    /// A write of a page in one of two places of their own, in turn, and a flush, on average: who makes a table
    /// durable never writes over the last one.
    fn sync_ns(&mut self) -> Result<u64, ProbeError> {
        let bytes = u64::from(self.device.info().geometry.sector_bytes).max(REQUEST_BYTES[0]);
        self.trim(self.end)?;
        self.flush()?;
        let mut begin = self.device.now();
        for index in 0..2 + SYNC_COUNT {
            if index == 2 {
                begin = self.device.now();
            }
            let address = self.end + index % 2 * SLOT_BYTES.min(self.end / 2);
            self.submit(Operation::Write, address, bytes, 0)?;
            self.wait()?;
            self.flush()?;
        }
        Ok((self.device.now() - begin).0 / SYNC_COUNT)
    }

    fn flush(&mut self) -> Result<(), ProbeError> {
        self.submit_request(Request::flush(0), 0)?;
        self.wait()
    }

    fn is_over(&self, point: &StreamPoint, begin: Nanos, done_count: u64) -> bool {
        let enough = (BYTES_MIN / point.request_bytes).clamp(REQUEST_COUNT_MIN, REQUEST_COUNT_MAX);
        let is_late = self.device.now() - begin >= self.options.duration;
        done_count >= enough || (is_late && done_count >= REQUEST_COUNT_MIN)
    }

    /// Gives back so much of what is written, wherever it begins.
    fn trim(&mut self, bytes: u64) -> Result<(), ProbeError> {
        if !self.device.info().supports_trim {
            return Ok(());
        }
        let sector_bytes = u64::from(self.device.info().geometry.sector_bytes);
        let first = self.end / sector_bytes;
        let count = to_u32((bytes + WRITE_SHIFT_BYTES) / sector_bytes);
        self.submit_request(Request::trim(0, first, count), bytes)?;
        self.wait()
    }

    fn submit(
        &mut self,
        operation: Operation,
        address: u64,
        bytes: u64,
        id: u64,
    ) -> Result<(), ProbeError> {
        let info = self.device.info();
        let sector_bytes = u64::from(info.geometry.sector_bytes);
        let alignment = (info.buffer_alignment as usize).max(512);
        let needs_buffers = info.needs_buffers;
        let (first, count) = (address / sector_bytes, to_u32(bytes / sector_bytes));
        let mut fitting = || self.spare.pop().filter(|buffer| buffer.len() as u64 == bytes);
        let buffer = needs_buffers.then(&mut fitting).map(|spare| {
            spare.unwrap_or_else(|| IoBuffer::with_alignment(to_index(bytes), alignment))
        });
        let request = match operation {
            Operation::Write => Request::write(id, first, count, buffer),
            _ => Request::read(id, first, count, buffer),
        };
        self.submit_request(request, bytes)
    }

    fn submit_request(&mut self, request: Request, bytes: u64) -> Result<(), ProbeError> {
        let sector_bytes = u64::from(self.device.info().geometry.sector_bytes);
        let (id, operation) = (request.id, request.operation);
        let address = request.first_sector.0 * sector_bytes;
        while self.in_flight.len() >= self.device.info().queue_depth_max as usize {
            self.wait()?;
        }
        let now = self.device.now();
        self.device
            .submit(now, request)
            .map_err(|rejected| trouble(operation, (address, bytes), now, rejected.error))?;
        self.in_flight.insert(id, address);
        Ok(())
    }

    /// Waits until nothing with this id is under way.
    fn wait_for(&mut self, id: u64) -> Result<(), ProbeError> {
        while self.in_flight.contains_key(&id) {
            self.wait()?;
        }
        Ok(())
    }

    fn wait_for_all(&mut self) -> Result<(), ProbeError> {
        while !self.in_flight.is_empty() {
            self.wait()?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), ProbeError> {
        let done = self.device.next_completion(Nanos::MAX).expect("a request is under way");
        let address = self.in_flight.remove(&done.id).expect("it was noted when it was issued");
        let bytes = done.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64);
        self.spare.extend(done.buffer);
        done.result
            .map_err(|error| trouble(done.operation, (address, bytes), done.completed_at, error))
    }
}

fn trouble(
    operation: Operation,
    (address, byte_count): (u64, u64),
    at: Nanos,
    error: DeviceError,
) -> ProbeError {
    let label = "streams side by side".to_owned();
    ProbeError::Device { label, operation, address, byte_count, at, error }
}

#[cfg(test)]
mod tests;
