//! The page cache of a kernel before a drive, as Linux 2.6 of 2006 had one between a database and ext2.
//!
//! ```text
//!   request ──► pages held ── hit ──► done at once, or when the read-ahead that brings it is
//!                  │ miss ──► [indirect block] ──► run of pages ──► drive, one request at a time
//!                  └ write ──► dirty ── limit, flush or eviction ──► runs by address ──► drive
//!
//!   stream   page after page: 4 pages, then twice as many each time up to the window; the next
//!            window is fetched when the reader enters the last one
//!   lists    a page is new on the inactive list; used twice it moves to the active one (TwoLists)
//! ```
//!
//! An indirect block maps `indirect_mapped_bytes` of the device as of a file that begins at its first
//! sector, a double indirect one as many indirect blocks as a page has pointers of four bytes. ext2 lays
//! a block of pointers right before what it maps, so fetching one costs what the first page of that does.
//!
//! 1. No more pages are held than there is memory for, blocks of pointers among them.
//! 2. Each page held is on one list, once, under its age.
//! 3. Dirty pages are held, and after a request no more of them than the limit says.
//! 4. After a flush no page is dirty; the drive was flushed, too, if `flushes_drive` says so. Without,
//!    rule 6 of the contract holds as far as the drive's own cache goes: that kernel sent no flush.
//! 5. The drive has nothing in flight between two calls: requests wait for each other, as on drives
//!    without a queue. A write that failed is told by the next flush.
//!
//! Left out: write-back by age, files (a stream goes on behind a file's end), the writes of pointers.

use crate::queue::InFlight;
use crate::{
    Completion, CompletionQueue, Counters, Device, DeviceError, DeviceInfo, EnergyParts, IoBuffer,
    Operation, Rejected, Request, TimeSource,
};
use nandu_base::{FixedHashMap, Nanos, VirtualClock, to_index, to_u32};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Pages of one request to the drive at most: 128 KiB of pages of 4 KiB, as the kernel's.
const RUN_PAGES_MAX: u64 = 32;
/// Pages of the first window of a stream.
const FIRST_WINDOW_PAGES: u64 = 4;
/// Streams that are told apart.
const STREAM_COUNT_MAX: usize = 16;
/// Bytes of a pointer in an indirect block.
const POINTER_BYTES: u64 = 4;
/// Fewest pages of memory.
const PAGE_COUNT_MIN: u64 = 4 * RUN_PAGES_MAX;
/// Keys of blocks of pointers begin here, those of double indirect ones there.
const INDIRECT: u64 = 1 << 62;
const DOUBLE_INDIRECT: u64 = 1 << 63;

/// Which page goes when memory is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The one that was used longest ago.
    #[default]
    Lru,
    /// The one that has been longest among those that were used once; pages used again have a list of
    /// their own, of at most half the memory, as in Linux 2.6.
    TwoLists,
}

/// What a [`PageCache`] does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCacheConfig {
    /// Memory for pages.
    pub byte_count: u64,
    /// Bytes of a page: a power of two, no less than a sector.
    pub page_bytes: u32,
    /// Longest window of a stream; 0 reads nothing ahead.
    pub read_ahead_bytes: u64,
    /// What a miss that continues no stream brings along, its surroundings included, as a fault in a
    /// mapped file does; 0 brings what was asked for.
    pub read_around_bytes: u64,
    /// Dirty bytes above which all are written back, while the writer waits.
    pub dirty_bytes_max: u64,
    /// Bytes of a file that an indirect block maps; 0 has no such blocks.
    pub indirect_mapped_bytes: u64,
    /// Whether a flush goes on to the drive.
    pub flushes_drive: bool,
    /// Which page goes when memory is short.
    pub replacement: Replacement,
    /// Whether contents are kept; else times alone count, and reads return nothing.
    pub keeps_data: bool,
}

/// A page in memory.
#[derive(Debug)]
struct CachedPage {
    /// When the request that brings it is done.
    ready_at: Nanos,
    /// Its place on its list.
    age: u64,
    is_active: bool,
    /// Whether anybody used it since it was brought.
    is_used: bool,
    /// Empty where contents are not kept, and in blocks of pointers.
    bytes: Vec<u8>,
}

/// A reader that goes page after page.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Past the last page that was asked for.
    next: u64,
    /// Past the last page that was fetched for it.
    fetched_end: u64,
    /// Pages of the last window; 0 before the second request.
    window: u64,
}

/// A drive behind a page cache.
#[derive(Debug)]
pub struct PageCache<D> {
    drive: D,
    config: PageCacheConfig,
    info: DeviceInfo,
    clock: VirtualClock,
    pages: FixedHashMap<u64, CachedPage>,
    /// By age: the pages used once (or all), and those used again.
    inactive: BTreeMap<u64, u64>,
    active: BTreeMap<u64, u64>,
    dirty: BTreeSet<u64>,
    next_age: u64,
    /// The latest last.
    streams: Vec<Stream>,
    completions: CompletionQueue,
    counters: Counters,
    lost_write: Option<DeviceError>,
}

impl PageCacheConfig {
    /// Checks what makes no sense before whatever drive.
    ///
    /// # Errors
    /// In words, with what would do.
    pub fn check(&self) -> Result<(), String> {
        let (page_bytes, byte_count) = (u64::from(self.page_bytes), self.byte_count);
        if !self.page_bytes.is_power_of_two() {
            return Err(format!("a page of {page_bytes} bytes is no power of two of sectors"));
        }
        let least = PAGE_COUNT_MIN * page_bytes;
        if byte_count < least {
            return Err(format!(
                "a page cache of {byte_count} bytes is too small; give it {least} bytes or more, or leave \
                 it out"
            ));
        }
        let largest = self.read_ahead_bytes.max(self.read_around_bytes).max(self.dirty_bytes_max);
        if largest > byte_count / 2 {
            return Err(format!(
                "windows and dirty pages take {largest} bytes, and half of the {byte_count} of a page cache \
                 at most; give it more, or them less"
            ));
        }
        let mapped_bytes = self.indirect_mapped_bytes;
        if !mapped_bytes.is_multiple_of(page_bytes) {
            return Err(format!(
                "an indirect block maps whole pages of {page_bytes} bytes, not {mapped_bytes}"
            ));
        }
        Ok(())
    }
}

impl<D: Device> PageCache<D> {
    /// An empty cache before `drive`.
    ///
    /// # Errors
    /// If the drive's time is the machine's, whose kernel has a cache of its own, or a size makes no
    /// sense.
    pub fn new(drive: D, config: PageCacheConfig) -> Result<Self, DeviceError> {
        let invalid = |what: String| Err(DeviceError::InvalidGeometry { what });
        let info = DeviceInfo {
            buffer_alignment: 1,
            needs_buffers: false,
            volatile_cache: true,
            ..drive.info().clone()
        };
        if info.time_source == TimeSource::Wall {
            return invalid("a page cache is simulated on simulated drives only".into());
        }
        config.check().map_err(|what| DeviceError::InvalidGeometry { what })?;
        let (page_bytes, sector_bytes) = (config.page_bytes, info.geometry.sector_bytes);
        if page_bytes < sector_bytes {
            return invalid(format!(
                "a page of {page_bytes} bytes has no sector of {sector_bytes}"
            ));
        }
        Ok(Self {
            drive,
            config,
            info,
            clock: VirtualClock::new(),
            pages: FixedHashMap::default(),
            inactive: BTreeMap::new(),
            active: BTreeMap::new(),
            dirty: BTreeSet::new(),
            next_age: 0,
            streams: Vec::new(),
            completions: CompletionQueue::default(),
            counters: Counters::default(),
            lost_write: None,
        })
    }

    /// Writes back what is dirty and forgets all pages.
    pub fn drop_pages(&mut self) {
        self.write_back_all(self.clock.now());
        self.pages.clear();
        self.inactive.clear();
        self.active.clear();
        self.streams.clear();
    }

    /// The drive below, whose counters say what reached it.
    pub const fn drive(&self) -> &D {
        &self.drive
    }

    /// Asserts the numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        let held = self.pages.len() as u64;
        assert!(held <= self.page_count_max(), "invariant 1: {held} pages");
        let listed = self.inactive.len() + self.active.len();
        assert_eq!(self.pages.len(), listed, "invariant 2: as many as are listed");
        for (&key, page) in &self.pages {
            let list = if page.is_active { &self.active } else { &self.inactive };
            assert_eq!(list.get(&page.age), Some(&key), "invariant 2: page {key}");
        }
        for key in &self.dirty {
            assert!(self.pages.contains_key(key), "invariant 3: dirty page {key} is held");
        }
        let dirty_bytes = self.dirty.len() as u64 * u64::from(self.config.page_bytes);
        assert!(dirty_bytes <= self.config.dirty_bytes_max, "invariant 3: {dirty_bytes} bytes");
        assert_eq!(self.drive.in_flight(), 0, "invariant 5");
    }

    const fn page_count_max(&self) -> u64 {
        self.config.byte_count / self.config.page_bytes as u64
    }

    fn sectors_per_page(&self) -> u64 {
        u64::from(self.config.page_bytes / self.info.geometry.sector_bytes)
    }

    /// The sectors of a page; the last page of the drive may be short.
    fn sectors_of(&self, page: u64) -> Range<u64> {
        let first = page * self.sectors_per_page();
        first..(first + self.sectors_per_page()).min(self.info.geometry.sector_count)
    }

    fn pages_of(&self, request: &Request) -> Range<u64> {
        let per_page = self.sectors_per_page();
        request.first_sector.0 / per_page..request.end_sector().div_ceil(per_page)
    }

    fn page_end(&self) -> u64 {
        self.info.geometry.sector_count.div_ceil(self.sectors_per_page())
    }

    /// Where the sectors that `page` and `request` share lie in the page's bytes and in the buffer.
    fn shared_bytes(&self, page: u64, request: &Request) -> (Range<usize>, Range<usize>) {
        let sectors = self.sectors_of(page);
        let first = sectors.start.max(request.first_sector.0);
        let end = sectors.end.min(request.end_sector());
        let bytes = |sector: u64| to_index(sector * u64::from(self.info.geometry.sector_bytes));
        let in_page = bytes(first - sectors.start)..bytes(end - sectors.start);
        let in_buffer = bytes(first - request.first_sector.0)..bytes(end - request.first_sector.0);
        (in_page, in_buffer)
    }

    // What the drive is asked for.

    fn ask(
        &mut self,
        now: Nanos,
        request: Request,
    ) -> Result<(Nanos, Option<IoBuffer>), DeviceError> {
        let start = now.max(self.drive.now());
        self.drive.submit(start, request).map_err(|rejected| rejected.error)?;
        let done = self.drive.next_completion(Nanos::MAX).expect("a request completes");
        done.result.map(|()| (done.completed_at, done.buffer))
    }

    fn request_for(&self, operation: Operation, pages: &Range<u64>) -> Request {
        let first = self.sectors_of(pages.start).start;
        let end = self.sectors_of(pages.end - 1).end;
        let sector_count = to_u32(end - first);
        let bytes = to_index(self.info.geometry.bytes_of(sector_count));
        let buffer = self.config.keeps_data.then(|| {
            let alignment = self.drive.info().buffer_alignment.max(1) as usize;
            let mut buffer = IoBuffer::with_alignment(bytes, alignment);
            if operation == Operation::Write {
                let step = self.config.page_bytes as usize;
                for (page, part) in pages.clone().zip(buffer.chunks_mut(step)) {
                    part.copy_from_slice(&self.pages[&page].bytes);
                }
            }
            buffer
        });
        match operation {
            Operation::Write => Request::write(0, first, sector_count, buffer),
            _ => Request::read(0, first, sector_count, buffer),
        }
    }

    /// Brings those of `wanted` that are not held, with the blocks that say where they lie.
    fn fetch(&mut self, now: Nanos, wanted: Range<u64>) -> Result<(), DeviceError> {
        let mut page = wanted.start;
        while page < wanted.end {
            if self.pages.contains_key(&page) {
                page += 1;
                continue;
            }
            let limit = wanted.end.min(page + RUN_PAGES_MAX);
            let end = (page..limit).find(|page| self.pages.contains_key(page)).unwrap_or(limit);
            let now = self.find_blocks(now, page)?;
            let request = self.request_for(Operation::Read, &(page..end));
            let (ready_at, buffer) = self.ask(now, request)?;
            let step = self.config.page_bytes as usize;
            for (index, page) in (page..end).enumerate() {
                let bytes = buffer.as_ref().map_or_else(Vec::new, |buffer| {
                    buffer[index * step..buffer.len().min((index + 1) * step)].to_vec()
                });
                self.insert(page, ready_at, bytes);
            }
            page = end;
        }
        Ok(())
    }

    /// When it is known where `page` lies. Pages of a run share an indirect block but for its ends.
    fn find_blocks(&mut self, now: Nanos, page: u64) -> Result<Nanos, DeviceError> {
        let mapped = self.config.indirect_mapped_bytes / u64::from(self.config.page_bytes);
        if mapped == 0 {
            return Ok(now);
        }
        let indirect = page / mapped;
        let pointers = u64::from(self.config.page_bytes) / POINTER_BYTES;
        let double = indirect / pointers;
        let now = self.find_block(now, DOUBLE_INDIRECT + double, double * pointers * mapped)?;
        self.find_block(now, INDIRECT + indirect, indirect * mapped)
    }

    fn find_block(&mut self, now: Nanos, key: u64, place: u64) -> Result<Nanos, DeviceError> {
        if let Some(page) = self.pages.get(&key) {
            let ready_at = page.ready_at;
            self.touch(key);
            return Ok(now.max(ready_at));
        }
        let request = self.request_for(Operation::Read, &(place..place + 1));
        let (ready_at, _) = self.ask(now, request)?;
        self.insert(key, ready_at, Vec::new());
        Ok(ready_at)
    }

    fn write_back_all(&mut self, now: Nanos) -> Nanos {
        let mut done = now;
        while let Some(&first) = self.dirty.first() {
            done = done.max(self.write_back(now, first));
        }
        done
    }

    /// Writes the run of dirty pages from `first` on.
    fn write_back(&mut self, now: Nanos, first: u64) -> Nanos {
        let limit = first + RUN_PAGES_MAX;
        let end = (first..limit).find(|page| !self.dirty.contains(page)).unwrap_or(limit);
        let ready_at = (first..end).map(|page| self.pages[&page].ready_at).max();
        let request = self.request_for(Operation::Write, &(first..end));
        let written = self.ask(now.max(ready_at.expect("a run has a page")), request);
        for page in first..end {
            self.dirty.remove(&page);
        }
        match written {
            Ok((done, _)) => done,
            Err(error) => {
                self.lost_write.get_or_insert(error);
                self.drive.now()
            }
        }
    }

    // What is held.

    fn insert(&mut self, key: u64, ready_at: Nanos, bytes: Vec<u8>) {
        while self.pages.len() as u64 >= self.page_count_max() {
            self.evict(ready_at);
        }
        self.next_age += 1;
        let page =
            CachedPage { ready_at, age: self.next_age, is_active: false, is_used: false, bytes };
        let former = self.pages.insert(key, page);
        assert!(former.is_none(), "only what is missing is brought");
        self.inactive.insert(self.next_age, key);
    }

    fn evict(&mut self, now: Nanos) {
        let oldest = self.inactive.first_key_value().or_else(|| self.active.first_key_value());
        let (_, &key) = oldest.expect("a full cache has pages");
        if self.dirty.contains(&key) {
            self.write_back(now, key);
        }
        self.remove(key);
    }

    fn remove(&mut self, key: u64) {
        if let Some(page) = self.pages.remove(&key) {
            let list = if page.is_active { &mut self.active } else { &mut self.inactive };
            list.remove(&page.age);
            self.dirty.remove(&key);
        }
    }

    fn touch(&mut self, key: u64) {
        let has_two_lists = self.config.replacement == Replacement::TwoLists;
        let Some(page) = self.pages.get_mut(&key) else { return };
        if has_two_lists && !std::mem::replace(&mut page.is_used, true) {
            return;
        }
        let list = if page.is_active { &mut self.active } else { &mut self.inactive };
        list.remove(&page.age);
        self.next_age += 1;
        page.age = self.next_age;
        page.is_active = has_two_lists;
        let list = if page.is_active { &mut self.active } else { &mut self.inactive };
        list.insert(page.age, key);
        if self.active.len() as u64 > self.page_count_max() / 2 {
            let (_, key) = self.active.pop_first().expect("it is long");
            let page = self.pages.get_mut(&key).expect("invariant 2");
            self.next_age += 1;
            (page.age, page.is_active, page.is_used) = (self.next_age, false, false);
            self.inactive.insert(self.next_age, key);
        }
    }

    // Streams.

    /// What is to be fetched now for a read of `asked`, and what ahead of the reader.
    fn plan(&mut self, asked: &Range<u64>) -> (Range<u64>, Range<u64>) {
        let longest = self.config.read_ahead_bytes / u64::from(self.config.page_bytes);
        let nothing = asked.end..asked.end;
        let goes_on =
            |stream: &Stream| stream.next == asked.start || stream.next == asked.start + 1;
        let Some(index) = self.streams.iter().position(goes_on) else {
            self.remember(Stream { next: asked.end, fetched_end: asked.end, window: 0 });
            return (self.surroundings(asked), nothing);
        };
        let mut stream = self.streams.remove(index);
        let is_same_page = asked.end == stream.next;
        stream.next = asked.end;
        let (mut now, mut ahead) = (asked.clone(), nothing);
        if longest > 0 && !is_same_page {
            if stream.window == 0 || stream.fetched_end < asked.end {
                let window = (2 * stream.window).max(FIRST_WINDOW_PAGES);
                stream.window = window.max(asked.end - asked.start).min(longest);
                now.end = asked.end.max(asked.start + stream.window).min(self.page_end());
                stream.fetched_end = now.end;
            }
            if asked.end + stream.window > stream.fetched_end {
                let window = (2 * stream.window).min(longest);
                let end = (stream.fetched_end + window).min(self.page_end());
                ahead = stream.fetched_end..end;
                (stream.window, stream.fetched_end) = (window, end);
            }
        }
        self.remember(stream);
        (now, ahead)
    }

    fn remember(&mut self, stream: Stream) {
        if self.streams.len() == STREAM_COUNT_MAX {
            self.streams.remove(0);
        }
        self.streams.push(stream);
    }

    fn surroundings(&self, asked: &Range<u64>) -> Range<u64> {
        let around = self.config.read_around_bytes / u64::from(self.config.page_bytes);
        let length = asked.end - asked.start;
        if around <= length {
            return asked.clone();
        }
        let start = asked.start.saturating_sub((around - length) / 2);
        start..(start + around).max(asked.end).min(self.page_end())
    }

    // Requests.

    fn read(&mut self, now: Nanos, request: &mut Request) -> Result<Nanos, DeviceError> {
        let asked = self.pages_of(request);
        let (at_once, ahead) = self.plan(&asked);
        let mut done = now;
        let mut buffer = request.buffer.take();
        let mut page = asked.start;
        while page < asked.end {
            let end = asked.end.min(page + RUN_PAGES_MAX);
            let mut wanted = page..end;
            if (page..end).any(|page| !self.pages.contains_key(&page)) {
                if page == asked.start {
                    wanted.start = at_once.start;
                }
                if end == asked.end {
                    wanted.end = at_once.end;
                }
            }
            if let Err(error) = self.fetch(now, wanted) {
                request.buffer = buffer;
                return Err(error);
            }
            for page in page..end {
                // Reading a page in may have evicted another page of this request that was in
                // memory a moment ago, so each is asked for again.
                if let Err(error) = self.fetch(now, page..page + 1) {
                    request.buffer = buffer;
                    return Err(error);
                }
                done = done.max(self.pages[&page].ready_at);
                let (in_page, in_buffer) = self.shared_bytes(page, request);
                if let (Some(buffer), true) = (&mut buffer, self.config.keeps_data) {
                    buffer[in_buffer].copy_from_slice(&self.pages[&page].bytes[in_page]);
                }
                self.touch(page);
            }
            page = end;
        }
        request.buffer = buffer;
        // An error of reading ahead is not told: if the pages are asked for later, they are read
        // again and fail then.
        let _ = self.fetch(now, ahead);
        Ok(done)
    }

    fn write(&mut self, now: Nanos, request: &Request) -> Result<Nanos, DeviceError> {
        let mut done = now;
        for page in self.pages_of(request) {
            let (in_page, in_buffer) = self.shared_bytes(page, request);
            let sectors = self.sectors_of(page);
            let is_whole =
                request.first_sector.0 <= sectors.start && request.end_sector() >= sectors.end;
            if !self.pages.contains_key(&page) {
                if is_whole {
                    done = done.max(self.find_blocks(now, page)?);
                    let bytes = self.info.geometry.bytes_of(to_u32(sectors.end - sectors.start));
                    let bytes = if self.config.keeps_data { to_index(bytes) } else { 0 };
                    self.insert(page, now, vec![0; bytes]);
                } else {
                    self.fetch(now, page..page + 1)?;
                }
            }
            self.touch(page);
            let held = self.pages.get_mut(&page).expect("it was just brought");
            done = done.max(held.ready_at);
            if self.config.keeps_data {
                match &request.buffer {
                    Some(buffer) => held.bytes[in_page].copy_from_slice(&buffer[in_buffer]),
                    None => held.bytes[in_page].fill(0),
                }
            }
            self.dirty.insert(page);
            let dirty_bytes = self.dirty.len() as u64 * u64::from(self.config.page_bytes);
            if dirty_bytes > self.config.dirty_bytes_max {
                done = done.max(self.write_back_all(now));
            }
        }
        Ok(done)
    }

    fn trim(&mut self, now: Nanos, request: &Request) -> Result<Nanos, DeviceError> {
        for page in self.pages_of(request) {
            let (in_page, _) = self.shared_bytes(page, request);
            let sectors = self.sectors_of(page);
            let has = |sector| (request.first_sector.0..request.end_sector()).contains(&sector);
            if has(sectors.start) && has(sectors.end - 1) {
                self.remove(page);
            } else if let Some(held) = self.pages.get_mut(&page)
                && self.config.keeps_data
            {
                held.bytes[in_page].fill(0);
            }
        }
        let below = Request::trim(0, request.first_sector.0, request.sector_count);
        self.ask(now, below).map(|(done, _)| done)
    }

    fn flush(&mut self, now: Nanos) -> Result<Nanos, DeviceError> {
        let done = self.write_back_all(now);
        if let Some(error) = self.lost_write.take() {
            return Err(error);
        }
        if !self.config.flushes_drive {
            return Ok(done);
        }
        self.ask(done, Request::flush(0)).map(|(done, _)| done)
    }
}

impl<D: Device> Device for PageCache<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn submit(&mut self, now: Nanos, mut request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info.check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        let now = self.clock.advance_to(now);
        let found = match request.operation {
            Operation::Read => self.read(now, &mut request),
            Operation::Write => self.write(now, &request),
            Operation::Trim => self.trim(now, &request),
            Operation::Flush => self.flush(now),
        };
        let (done, result) = match found {
            Ok(done) => (done, Ok(())),
            Err(error) => (now.max(self.drive.now()), Err(error)),
        };
        let bytes = self.info.geometry.bytes_of(request.sector_count);
        self.counters.count(request.operation, bytes, result.is_ok());
        self.completions.push(InFlight::of(request, now).complete(done, result));
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let completion = self.completions.pop(until)?;
        self.clock.advance_to(completion.completed_at);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.completions.len()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert!(self.completions.is_empty(), "nothing may be in flight while idle");
        let below = self.drive.idle_until(time.max(self.drive.now()));
        self.clock.advance_to(time.max(below))
    }

    fn empty_cache(&mut self) -> Result<bool, DeviceError> {
        self.drop_pages();
        self.clock.advance_to(self.drive.now());
        self.lost_write.take().map_or(Ok(true), Err)
    }

    /// Requests are those of the cache; what the drive was busy with is the drive's.
    fn counters(&self) -> Counters {
        let Counters { busy, flash, lines, .. } = self.drive.counters();
        let energy = self.energy_by(self.clock.now());
        Counters { busy, energy, flash, lines, ..self.counters }
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.drive.energy_by(time)
    }
}

#[cfg(test)]
mod tests;
