//! What scans, sorts and joins cost on a device: requests, pages, seeks, and the time of both
//! device and processor, counted as the operators here are built. As Haas and others do (S001 table
//! 1), seeks, requests and pages are kept apart: charging a flat price for each page hides what a
//! plan is made of.
//!
//! ```text
//!   statistics ──► Footprint ──► allocation ──► cost of one operator ──► Estimate
//!   device curves, processor costs ─────────────────┘
//! ```
//!
//! Results of a query are not written, so they cost the same everywhere and only their copy is counted.
//!
//! 1. Everything is computed in integers, or in floats by operations that IEEE 754 makes exact.
//! 2. Sums that leave the range stop at its end: such a plan is never the cheapest.

mod built;
mod calibrate;
mod curve;
mod device;
pub mod join;
mod pool_shape;
mod processor;
mod question;
mod relation;
#[cfg(test)]
mod runs;
pub mod scan;
pub mod sort;
mod streams;
#[cfg(test)]
mod tests;

pub use calibrate::measure_processor;
pub use curve::{Curve, CurvePoint};
pub use device::{AccessCurves, DeviceCosts, MeasuredTime, Pattern};
pub use pool_shape::PoolShape;
pub use processor::{CpuCosts, HashTables, LargeTable, RowCosts};
pub use question::{JoinQuestion, JoinSide};
pub use relation::{Footprint, IndexStats, LateStats, PageOrder, RelationStats};
pub use streams::{MeasuredStream, StreamCosts, StreamKind, StreamTimes};

use crate::relation::LEAVES_AHEAD;
use crate::work::Work;
use nandu_base::Nanos;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Mul};

/// What an operator is thought to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// How often the head moves, on a device that has one.
    pub seeks: u64,
    /// Requests that read.
    pub read_requests: u64,
    /// Requests that write.
    pub write_requests: u64,
    /// Database pages read.
    pub pages_read: u64,
    /// Database pages written.
    pub pages_written: u64,
    /// Time for which the device works, in nanoseconds.
    pub io_ns: u64,
    /// Time for which the processor works, in nanoseconds.
    pub cpu_ns: u64,
    /// Of both, for how long they work at the same time.
    #[serde(default)]
    pub overlap_ns: u64,
}

impl Estimate {
    /// Time of device and processor one after the other, as in S001, but for what they do at once.
    #[must_use]
    pub const fn time(&self) -> Nanos {
        Nanos(self.io_ns.saturating_add(self.cpu_ns).saturating_sub(self.overlap_ns))
    }

    /// Requests of both kinds.
    #[must_use]
    pub const fn request_count(&self) -> u64 {
        self.read_requests.saturating_add(self.write_requests)
    }

    /// The same `count` times, of which this is `of`: every figure to the nearest.
    fn share(self, count: u64, of: u64) -> Self {
        let part = |figure: u64| {
            let product = u128::from(figure) * u128::from(count) + u128::from(of / 2);
            u64::try_from(product / u128::from(of.max(1))).unwrap_or(u64::MAX)
        };
        Self {
            seeks: part(self.seeks),
            read_requests: part(self.read_requests),
            write_requests: part(self.write_requests),
            pages_read: part(self.pages_read),
            pages_written: part(self.pages_written),
            io_ns: part(self.io_ns),
            cpu_ns: part(self.cpu_ns),
            overlap_ns: part(self.overlap_ns),
        }
    }

    /// Pages read and written.
    #[must_use]
    pub const fn page_count(&self) -> u64 {
        self.pages_read.saturating_add(self.pages_written)
    }
}

impl Add for Estimate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            seeks: self.seeks.saturating_add(other.seeks),
            read_requests: self.read_requests.saturating_add(other.read_requests),
            write_requests: self.write_requests.saturating_add(other.write_requests),
            pages_read: self.pages_read.saturating_add(other.pages_read),
            pages_written: self.pages_written.saturating_add(other.pages_written),
            io_ns: self.io_ns.saturating_add(other.io_ns),
            cpu_ns: self.cpu_ns.saturating_add(other.cpu_ns),
            overlap_ns: self.overlap_ns.saturating_add(other.overlap_ns),
        }
    }
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Estimate {
    type Output = Self;

    fn mul(self, count: u64) -> Self {
        Self {
            seeks: self.seeks.saturating_mul(count),
            read_requests: self.read_requests.saturating_mul(count),
            write_requests: self.write_requests.saturating_mul(count),
            pages_read: self.pages_read.saturating_mul(count),
            pages_written: self.pages_written.saturating_mul(count),
            io_ns: self.io_ns.saturating_mul(count),
            cpu_ns: self.cpu_ns.saturating_mul(count),
            overlap_ns: self.overlap_ns.saturating_mul(count),
        }
    }
}

/// What every estimate is made with.
#[derive(Clone, Copy, Debug)]
pub struct CostModel<'a> {
    /// What the device's requests take.
    pub device: &'a DeviceCosts,
    /// What the processor takes for each kind of work.
    pub processor: &'a CpuCosts,
    /// Whether half of each buffer is under way while the other is worked on.
    pub reads_ahead: bool,
}

impl<'a> CostModel<'a> {
    /// The same with another processor.
    pub(crate) const fn on<'b>(&self, processor: &'b CpuCosts) -> CostModel<'b>
    where
        'a: 'b,
    {
        CostModel { device: self.device, processor, reads_ahead: self.reads_ahead }
    }

    /// Pages that a buffer of so many moves by one request: half of it where the other half is under way.
    #[must_use]
    pub const fn block_pages(&self, buffer_pages: u64) -> u64 {
        match buffer_pages {
            0 | 1 => 1,
            _ if self.reads_ahead => buffer_pages / 2,
            _ => buffer_pages,
        }
    }

    /// How long something takes: device and processor one after the other as in S001, or, where operators
    /// read ahead, in each phase the longer of both.
    #[must_use]
    pub const fn time(&self, estimate: &Estimate) -> Nanos {
        estimate.time()
    }
}

/// How often making the spill file makes something durable: what was written before it, and the list of files.
const SYNCS_OF_FILE: u64 = 2;

/// Streams that are read or written side by side.
#[derive(Clone, Copy, Debug)]
struct Streams {
    count: u64,
    /// Bytes of all.
    area_bytes: u64,
}

/// Reads that do not go on where others ended.
#[derive(Clone, Copy, Debug)]
struct Restart {
    request_pages: u64,
    /// How many of them go on after each that does not.
    run_length: u64,
    /// Where they may lie.
    area_bytes: u64,
}

impl Restart {
    /// Reads of a relation through a buffer of so many pages, so many in a row. What else is read or written lies about as far
    /// away as it is long, on both sides.
    const fn of(
        model: &CostModel<'_>,
        side: &Footprint,
        buffer_pages: u64,
        run_length: u64,
    ) -> Self {
        let pages = model.block_pages(buffer_pages);
        let request_pages = if pages < side.stored_pages { pages } else { side.stored_pages };
        let bytes = side.stored_pages.saturating_mul(side.page_bytes);
        Self { request_pages, run_length, area_bytes: bytes.saturating_mul(3) }
    }
}

/// An estimate that grows while an operator is walked through.
#[derive(Debug)]
struct Tally<'a> {
    model: &'a CostModel<'a>,
    page_bytes: u64,
    estimate: Estimate,
    /// Times of device and processor, and requests that read, when the phase at hand began.
    phase_begin: [u64; 3],
    /// What writes of the phase take. They keep reads waiting in bursts that are longer than one request which is
    /// read ahead can hide: nobody works meanwhile.
    written_ns: u64,
}

impl<'a> Tally<'a> {
    fn new(model: &'a CostModel<'a>, page_bytes: u64) -> Self {
        Self {
            model,
            page_bytes,
            estimate: Estimate::default(),
            phase_begin: [0; 3],
            written_ns: 0,
        }
    }

    /// Writes of the phase that were counted elsewhere.
    fn write_behind(&mut self, writes: Estimate) {
        self.estimate += writes;
        self.written_ns = self.written_ns.saturating_add(writes.io_ns);
    }

    /// From now on the device works while the processor does, if operators read ahead, until
    /// [`Self::end_phase`].
    const fn begin_phase(&mut self) {
        let Estimate { io_ns, cpu_ns, read_requests, .. } = self.estimate;
        self.phase_begin = [io_ns, cpu_ns, read_requests];
        self.written_ns = 0;
    }

    /// Ends what [`Self::begin_phase`] began, or the tally did. While the first request is under way there is
    /// nothing to work on, and while the last rows are worked on nothing is left to read.
    fn end_phase(&mut self) {
        let [io_ns, cpu_ns, reads] = self.phase_begin;
        if self.model.reads_ahead {
            let io_ns = (self.estimate.io_ns - io_ns).saturating_sub(self.written_ns);
            let shorter = io_ns.min(self.estimate.cpu_ns.saturating_sub(cpu_ns));
            let reads = self.estimate.read_requests.saturating_sub(reads);
            let shared = shorter - scale_up(shorter, 1, reads.max(1));
            self.estimate.overlap_ns = self.estimate.overlap_ns.saturating_add(shared);
        }
        self.begin_phase();
    }

    /// The head moves so often.
    fn seek(&mut self, count: u64) {
        self.estimate.seeks = self.estimate.seeks.saturating_add(count);
        self.add_io(count, self.model.device.seek_ns);
    }

    /// Reads pages in requests of one size, of which the last may be shorter. Answers how many.
    fn read(&mut self, pattern: Pattern, pages: u64, request_pages: u64) -> u64 {
        let request_pages = self.model.block_pages(request_pages);
        let (full, rest) = (pages / request_pages, pages % request_pages);
        self.read_requests(pattern, full, full * request_pages);
        self.read_requests(pattern, u64::from(rest > 0), rest);
        full + u64::from(rest > 0)
    }

    /// Reads pages in so many requests of about the same size.
    fn read_requests(&mut self, pattern: Pattern, request_count: u64, pages: u64) {
        let request_ns =
            self.model.device.read.time_ns(pattern, self.request_bytes(request_count, pages));
        self.add_reads(request_count, pages, request_ns);
    }

    /// Writes pages in so many requests of about the same size.
    fn write_requests(&mut self, pattern: Pattern, request_count: u64, pages: u64) {
        let request_ns =
            self.model.device.write.time_ns(pattern, self.request_bytes(request_count, pages));
        self.add_writes(request_count, pages, request_ns);
    }

    /// Reads so many streams side by side, in requests of about the same size, each in a place of its own.
    fn read_streams(&mut self, streams: &Streams, request_count: u64, pages: u64) {
        let device = self.model.device;
        let Some(times) = device.streams.as_ref().and_then(|streams| streams.read.as_ref()) else {
            self.read_requests(Pattern::Random, request_count, pages);
            self.seek(request_count);
            return;
        };
        let bytes = self.request_bytes(request_count, pages);
        let request_ns = times.time_ns(bytes, streams.count, streams.area_bytes);
        self.estimate.seeks = self.estimate.seeks.saturating_add(request_count);
        self.add_reads(request_count, pages, request_ns);
    }

    /// Reads one of so many streams that were written side by side through buffers of so many pages, from its
    /// beginning. What a drive wrote at the same time it finds on the same chips, and a part of a flash page takes
    /// as long as all of it; while they are busy, the beginning is under way.
    fn read_back(
        &mut self,
        streams: &Streams,
        (request_count, pages): (u64, u64),
        buffer_pages: u64,
        begin: &Restart,
    ) {
        let device = self.model.device;
        let bytes = self.request_bytes(request_count, pages);
        let before_ns = self.estimate.io_ns;
        let request_ns = device.read.time_ns(Pattern::Sequential, bytes);
        self.add_reads(request_count, pages, request_ns);
        self.restart(begin, u64::from(request_count > 0));
        if let Some(times) = device.streams.as_ref().and_then(|streams| streams.back.as_ref()) {
            let piece_bytes = self.model.block_pages(buffer_pages).saturating_mul(self.page_bytes);
            let piece_ns = times.time_ns(piece_bytes, streams.count, streams.area_bytes);
            let all_bytes = pages.saturating_mul(self.page_bytes);
            let busy_ns = scale_up(piece_ns, all_bytes, piece_bytes);
            self.estimate.io_ns = self.estimate.io_ns.max(before_ns.saturating_add(busy_ns));
        }
    }

    /// Writes so many streams side by side while another one is read, through buffers of so many pages. Without
    /// the seeks, which are [`Self::seek_in_turns`].
    fn write_streams(
        &mut self,
        streams: &Streams,
        (request_count, pages): (u64, u64),
        buffer_pages: u64,
    ) {
        let Some(times) = self.measured_writes() else {
            let pattern = if streams.count > 1 { Pattern::Random } else { Pattern::Sequential };
            self.write_requests(pattern, request_count, pages);
            return;
        };
        let bytes = self.request_bytes(request_count, pages);
        let mut request_ns = times.time_ns(bytes, streams.count, streams.area_bytes);
        if self.model.block_pages(buffer_pages) == buffer_pages {
            // Nobody writes behind from a single page: the scan waits.
            let alone_ns = self.model.device.write.time_ns(Pattern::Sequential, bytes);
            request_ns = request_ns.max(alone_ns);
        }
        self.add_writes(request_count, pages, request_ns);
    }

    /// Reads and [`Self::write_streams`] that take turns: each write moves the head, and each read that follows
    /// one. Measured times of writes have both.
    fn seek_in_turns(&mut self, reads: &Restart, read_count: u64, writes: u64) {
        let followers = scan::distinct_pages(read_count, writes);
        let begin = u64::from(read_count > 0);
        self.seek_of_writes(writes + followers);
        if self.measured_writes().is_some() {
            self.restart(reads, begin);
        } else {
            self.seek(begin);
        }
    }

    /// As many writes move the head.
    fn seek_of_writes(&mut self, count: u64) {
        if self.measured_writes().is_some() {
            self.estimate.seeks = self.estimate.seeks.saturating_add(count);
        } else {
            self.seek(count);
            let seeks_ns = count.saturating_mul(self.model.device.seek_ns);
            self.written_ns = self.written_ns.saturating_add(seeks_ns);
        }
    }

    /// Reads pages one by one, each in a place of its own, in such a time together.
    fn scattered(&mut self, pages: u64, all_ns: u64) {
        self.estimate.seeks = self.estimate.seeks.saturating_add(pages);
        self.add_reads(pages, pages, 0);
        self.add_io(1, all_ns);
    }

    /// So many reads do not go on where the one before them ended.
    fn restart(&mut self, reads: &Restart, count: u64) {
        self.estimate.seeks = self.estimate.seeks.saturating_add(count);
        let bytes = reads.request_pages.saturating_mul(self.page_bytes);
        self.add_io(count, self.model.device.restart_ns(bytes, reads.run_length, reads.area_bytes));
    }

    /// The file that is written is made, and the list of files made durable, if something is written.
    fn spill_file(&mut self) {
        let sync_ns = self.model.device.streams.as_ref().map_or(0, |streams| streams.sync_ns);
        if self.estimate.pages_written > 0 {
            self.add_io(SYNCS_OF_FILE, sync_ns);
        }
    }

    /// Reads a stored relation once; scattered pages come one by one and each moves the head. Answers the
    /// requests after which the head is where the next one begins, if nobody else moves it.
    fn scan(&mut self, relation: &Footprint, request_pages: u64) -> u64 {
        match relation.order {
            PageOrder::Contiguous => {
                self.read(Pattern::Sequential, relation.stored_pages, request_pages)
            }
            PageOrder::Scattered => {
                self.read_leaves(relation);
                0
            }
            PageOrder::Apart { request_count, run_count, column_count, is_whole, .. } => {
                let values = relation.stored_tuples.saturating_mul(u64::from(column_count));
                self.work(Work::Assemble, values);
                let slots = relation.slots(request_pages, self.model.reads_ahead);
                let depth = slots.saturating_mul(run_count);
                self.read_apart((request_count, relation.stored_pages), depth, is_whole);
                if is_whole { request_count } else { 0 }
            }
        }
    }

    /// Reads pieces of PAX pages, so many requests at once. They are one behind the other if that is all of them.
    fn read_apart(&mut self, (requests, pages): (u64, u64), depth: u64, is_whole: bool) {
        let device = self.model.device;
        let mut apart = Tally::new(self.model, self.page_bytes);
        if is_whole {
            apart.read_requests(Pattern::Sequential, requests, pages);
        } else {
            apart.read_requests(Pattern::Random, requests, pages);
            apart.seek(requests);
            let bytes = self.request_bytes(requests, pages);
            let area_bytes = pages.saturating_mul(self.page_bytes);
            let measured = device.streams.as_ref().and_then(|streams| streams.batch.as_ref());
            let gained_ns = match measured {
                Some(times) if depth > 1 => {
                    times.runs_ns((requests, requests), bytes, depth, area_bytes)
                }
                _ => scale_up(apart.estimate.io_ns, 1_000_000, device.queue_gain_ppm(depth)),
            };
            // However many at once: what has to be moved has to be moved.
            let page_ps = device.request_times(self.page_bytes).page_transfer_ps;
            let moved_ns = page_ps.saturating_mul(pages) / 1000;
            apart.estimate.io_ns = gained_ns.max(moved_ns.min(apart.estimate.io_ns));
        }
        self.estimate += apart.estimate;
    }

    /// Follows the leaves of a tree that was filled in any order. Who reads ahead asks for many at a time.
    fn read_leaves(&mut self, relation: &Footprint) {
        let (pages, device) = (relation.stored_pages, self.model.device);
        let mut leaves = Tally::new(self.model, self.page_bytes);
        leaves.read_requests(Pattern::Random, pages, pages);
        leaves.seek(pages);
        if self.model.reads_ahead {
            let measured = device.streams.as_ref().and_then(|streams| streams.batch.as_ref());
            let area_bytes = pages.saturating_mul(self.page_bytes);
            leaves.estimate.io_ns = match measured {
                Some(times) => {
                    times.runs_ns((pages, pages), self.page_bytes, LEAVES_AHEAD, area_bytes)
                }
                None => {
                    let gain_ppm = device.queue_gain_ppm(LEAVES_AHEAD);
                    scale_up(leaves.estimate.io_ns, 1_000_000, gain_ppm)
                }
            };
        }
        self.estimate += leaves.estimate;
    }

    /// Reads a relation once more that was read not long before. What a device keeps of it makes that faster.
    fn scan_again(&mut self, relation: &Footprint, request_pages: u64) {
        let mut scan = Tally::new(self.model, self.page_bytes);
        let reads = scan.scan(relation, request_pages);
        if reads > 0 {
            scan.restart(&Restart::of(self.model, relation, request_pages, reads), 1);
            let area_bytes = relation.stored_pages.saturating_mul(relation.page_bytes);
            let request_bytes = self.request_bytes(reads, relation.stored_pages);
            let streams = self.model.device.streams.as_ref();
            let kept = streams.and_then(|streams| streams.read.as_ref());
            if let Some(each_ns) = kept.and_then(|it| it.again_ns(request_bytes, area_bytes)) {
                let kept_ns = each_ns.saturating_mul(reads);
                scan.estimate.io_ns = scan.estimate.io_ns.min(kept_ns);
            }
        }
        self.estimate += scan.estimate;
    }

    /// The processor does something so often.
    fn work(&mut self, work: Work, count: u64) {
        let ns = self.model.processor.work_ns(work, count);
        self.estimate.cpu_ns = self.estimate.cpu_ns.saturating_add(ns);
    }

    /// Rows are taken from so many pages in the buffer pool.
    fn visit(&mut self, page_count: u64) {
        let ns = self.model.processor.visit_ns(page_count);
        self.estimate.cpu_ns = self.estimate.cpu_ns.saturating_add(ns);
    }

    /// Hash tables are filled.
    fn build(&mut self, tables: &HashTables) {
        let ns = self.model.processor.build_ns(tables);
        self.estimate.cpu_ns = self.estimate.cpu_ns.saturating_add(ns);
    }

    /// So many rows are found in hash tables and handed on.
    fn emit(&mut self, pair_count: u64, tables: &HashTables) {
        let ns = self.model.processor.emit_ns(pair_count, tables);
        self.estimate.cpu_ns = self.estimate.cpu_ns.saturating_add(ns);
    }

    /// Requests for pages that lie in equal parts, each with its own last request.
    fn requests_of_parts(&self, pages: u64, part_count: u64, request_pages: u64) -> u64 {
        if part_count == 0 {
            return 0;
        }
        let requests = pages.div_ceil(part_count).div_ceil(self.model.block_pages(request_pages));
        requests.saturating_mul(part_count).min(pages)
    }

    fn request_bytes(&self, request_count: u64, pages: u64) -> u64 {
        let bytes = u128::from(pages) * u128::from(self.page_bytes);
        let mean = bytes.checked_div(u128::from(request_count)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Times of writes behind a scan, if they were measured.
    fn measured_writes(&self) -> Option<&'a StreamTimes> {
        self.model.device.streams.as_ref()?.write.as_ref()
    }

    fn add_reads(&mut self, request_count: u64, pages: u64, request_ns: u64) {
        self.estimate.read_requests = self.estimate.read_requests.saturating_add(request_count);
        self.estimate.pages_read = self.estimate.pages_read.saturating_add(pages);
        self.add_requests(request_count, request_ns);
    }

    fn add_writes(&mut self, request_count: u64, pages: u64, request_ns: u64) {
        self.estimate.write_requests = self.estimate.write_requests.saturating_add(request_count);
        self.estimate.pages_written = self.estimate.pages_written.saturating_add(pages);
        self.written_ns = self.written_ns.saturating_add(request_count.saturating_mul(request_ns));
        self.add_requests(request_count, request_ns);
    }

    fn add_requests(&mut self, request_count: u64, request_ns: u64) {
        self.add_io(request_count, request_ns);
        let cpu_ns = self.model.processor.request_ns(request_count);
        self.estimate.cpu_ns = self.estimate.cpu_ns.saturating_add(cpu_ns);
    }

    fn add_io(&mut self, count: u64, each_ns: u64) {
        let ns = count.saturating_mul(each_ns);
        self.estimate.io_ns = self.estimate.io_ns.saturating_add(ns);
    }
}

/// `value * numerator / denominator`, rounded up; the whole value for a denominator of zero.
fn scale_up(value: u64, numerator: u64, denominator: u64) -> u64 {
    if denominator == 0 {
        return value;
    }
    let scaled = (u128::from(value) * u128::from(numerator)).div_ceil(u128::from(denominator));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Comparisons to place one among so many by a tree: ceil(log2), none for one.
const fn comparisons_among(count: u64) -> u64 {
    (u64::BITS - count.saturating_sub(1).leading_zeros()) as u64
}
