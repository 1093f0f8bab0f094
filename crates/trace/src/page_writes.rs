//! How the page writes in the trace of an engine are spread over pages and time, and how much of each
//! page they change: what S003 draws of TPC-C (skew, intervals, table 2), of any such trace.
//!
//! ```text
//!   first reading   pages, writes of each ─► the database's size, the hottest tenth
//!   second reading  behind the warm-up: page writes since the same page was written before
//! ```
//!
//! 1. An interval counts page writes, whichever pages they are of: so many slots of a log that is written
//!    in order lie between two versions of a page.
//! 2. A log of L slots absorbs a write if its page is written again within L writes. *By interval* that is
//!    asked of each write; *by mean interval* of each page, all of whose writes count or none. A published
//!    share may mean either.
//! 3. A write is absorbed by the next one of its page, which is the one that is looked at here: so what
//!    the end of a trace cuts off is missing from neither reading.
//! 4. Memory is some words for each page that is touched.

use crate::TraceError;
use crate::engine_trace::{EngineTraceReader, PageEvent, PageRecord, TracedFile};
use nandu_base::{FixedHashMap, to_index};
use serde::Serialize;

/// The part of the written pages that is called hot, as one in so many.
const HOT_DIVISOR: usize = 10;
/// Parts of the written pages, in percent, of which the share of writes is told.
const HOTTEST_PERCENT: [u32; 6] = [1, 2, 5, 10, 20, 50];
/// How often whoever waits is asked, in records.
const LOOK_EVERY: u64 = 1 << 16;

/// What is asked of a trace.
#[derive(Clone, Debug)]
pub struct PageWriteOptions {
    /// The part of the page writes that does not count for intervals, from the first on, in percent below
    /// 100.
    pub warm_up_percent: u32,
    /// Log spaces, in percent of the pages of the database.
    pub log_percents: Vec<u32>,
}

impl Default for PageWriteOptions {
    /// The log spaces of S003 table 2, behind a third of the writes.
    fn default() -> Self {
        Self { warm_up_percent: 33, log_percents: vec![10, 20, 30] }
    }
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageWriteStatistics {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages that the files had at first, or that were touched in them, whichever is more.
    pub database_page_count: u64,
    /// Different pages that were read.
    pub read_page_count: u64,
    /// Different pages that were written.
    pub written_page_count: u64,
    /// From the first record to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Page reads of all files.
    pub read_count: u64,
    /// Page writes of all files.
    pub write_count: u64,
    /// Calls in which they were written.
    pub write_call_count: u64,
    /// Those of pages that were new.
    pub fresh_write_count: u64,
    /// Those of the page behind the one that was written before.
    pub sequential_write_count: u64,
    /// How often all that was written was made durable.
    pub sync_count: u64,
    /// How often files were cut.
    pub cut_count: u64,
    /// What writes of pages changed that were not new.
    pub changed: ChangedStatistics,
    /// How many of the page writes came before the others count.
    pub warm_up_write_count: u64,
    /// Of the others, how many were the first of their page in the whole trace.
    pub first_write_count: u64,
    /// Intervals of the others.
    pub intervals: Vec<IntervalCount>,
    /// Which part of them a log space absorbs.
    pub absorbed: Vec<LogSpace>,
    /// Which part of all page writes the hottest pages have.
    pub hottest: Vec<HottestShare>,
    /// The same by file.
    pub files: Vec<FileStatistics>,
}

/// How much of a page its writes changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChangedStatistics {
    /// Mean bytes of a write.
    pub mean_bytes: f64,
    /// Half of the writes changed no more bytes.
    pub p50_bytes: u64,
    /// Nine of ten changed no more.
    pub p90_bytes: u64,
    /// Of a hundred 99.
    pub p99_bytes: u64,
    /// The most that one write changed.
    pub max_bytes: u64,
    /// Mean number of ranges.
    pub mean_range_count: f64,
    /// Counts of writes by their bytes.
    pub counts: Vec<ChangedCount>,
}

/// Writes that changed no more bytes, but more than the entry before says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedCount {
    /// The most bytes: a power of two, or 0.
    pub up_to_bytes: u64,
    /// How many writes.
    pub write_count: u64,
}

/// Writes whose page was written so many page writes before, but more than the entry before says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IntervalCount {
    /// The longest interval, in page writes: a power of two.
    pub up_to_writes: u64,
    /// How many of the hottest tenth of the written pages.
    pub hot_count: u64,
    /// How many of the others.
    pub cold_count: u64,
}

/// What a log absorbs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LogSpace {
    /// Its size, in percent of the pages of the database.
    pub percent: u32,
    /// Its size in page writes.
    pub log_pages: u64,
    /// Share of the page writes whose page is written again within as many.
    pub by_interval_share: f64,
    /// Share of the page writes that are of pages whose mean interval is no longer.
    pub by_mean_interval_share: f64,
}

/// What the hottest pages have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HottestShare {
    /// Percent of the written pages, those with the most writes first.
    pub page_percent: u32,
    /// Their share of the page writes.
    pub write_share: f64,
}

/// What happened to one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FileStatistics {
    /// Its number in the trace.
    pub number: u16,
    /// Its name, if it was there at first.
    pub name: Option<String>,
    /// Pages that it had at first, or that were touched.
    pub page_count: u64,
    /// Page reads of this file.
    pub read_count: u64,
    /// Page writes of this file.
    pub write_count: u64,
    /// Mean bytes that a write of a page that was not new changed.
    pub mean_changed_bytes: f64,
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct PageState {
    was_read: bool,
    is_hot: bool,
    write_count: u64,
    /// The last write, counted from 1 over all pages; 0 if none.
    last: u64,
    /// The first of those that count, likewise.
    first_counted: u64,
    counted: u64,
}

#[derive(Clone, Debug, Default)]
struct FileState {
    statistics: FileStatistics,
    changed_bytes: u64,
    changed_count: u64,
}

/// Log space by both readings.
struct Survey {
    pages: FixedHashMap<(u16, u32), PageState>,
    files: FixedHashMap<u16, FileState>,
    statistics: PageWriteStatistics,
    /// Writes by the bytes that they changed, and all their ranges.
    by_changed_bytes: Vec<u64>,
    range_count: u64,
    times: Option<(u64, u64)>,
    last_written: (u16, u32),
    /// By the power of two of the interval: hot and cold.
    by_interval: Vec<(u64, u64)>,
    absorbed_counts: Vec<u64>,
}

/// Reads a trace twice, by readers that `open` gives, and sums up its page writes; `None` if `goes_on`,
/// which is asked now and then with the part that is done, says no.
///
/// # Errors
/// If the trace cannot be read.
pub fn page_writes(
    open: &mut dyn FnMut() -> Result<EngineTraceReader, TraceError>,
    options: &PageWriteOptions,
    goes_on: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<PageWriteStatistics>, TraceError> {
    let mut reader = open()?;
    let mut survey = Survey::of(&reader);
    let mut record_count = 0_u64;
    while let Some(record) = reader.next_record()? {
        survey.meet(record);
        record_count += 1;
        if record_count.is_multiple_of(LOOK_EVERY) && !goes_on(0.0) {
            return Ok(None);
        }
    }
    survey.choose_hot();
    survey.begin_intervals(options);
    let mut reader = open()?;
    let mut write_number = 0;
    let mut seen_count = 0_u64;
    while let Some(record) = reader.next_record()? {
        if record.event == PageEvent::Write {
            write_number += 1;
            survey.note_interval((record.file, record.page), write_number);
        }
        seen_count += 1;
        let done = seen_count as f64 / record_count.max(1) as f64;
        if seen_count.is_multiple_of(LOOK_EVERY) && !goes_on(done) {
            return Ok(None);
        }
    }
    Ok(Some(survey.told()))
}

impl Survey {
    fn of(reader: &EngineTraceReader) -> Self {
        let head = reader.head();
        let file = |file: &TracedFile| {
            let statistics = FileStatistics {
                number: file.number,
                name: Some(file.name.clone()),
                page_count: u64::from(file.page_count),
                ..FileStatistics::default()
            };
            (file.number, FileState { statistics, ..FileState::default() })
        };
        Self {
            pages: FixedHashMap::default(),
            files: head.files.iter().map(file).collect(),
            statistics: PageWriteStatistics::of_pages(head.page_bytes),
            by_changed_bytes: vec![0; head.page_bytes as usize + 1],
            range_count: 0,
            times: None,
            last_written: (0, 0),
            by_interval: Vec::new(),
            absorbed_counts: Vec::new(),
        }
    }

    /// The first reading of a record.
    fn meet(&mut self, record: &PageRecord) {
        let (first, _) = self.times.unwrap_or((record.at.0, 0));
        self.times = Some((first, record.at.0));
        let statistics = &mut self.statistics;
        match record.event {
            PageEvent::Sync => statistics.sync_count += 1,
            PageEvent::Cut => statistics.cut_count += 1,
            PageEvent::Read => {
                statistics.read_count += 1;
                let (page, file) = self.touch(record);
                page.was_read = true;
                file.statistics.read_count += 1;
            }
            PageEvent::Write => {
                statistics.write_count += 1;
                statistics.write_call_count += u64::from(!record.is_same_call);
                statistics.fresh_write_count += u64::from(record.is_fresh);
                let (file, page) = self.last_written;
                let follows = file == record.file && page.checked_add(1) == Some(record.page);
                statistics.sequential_write_count += u64::from(follows);
                self.last_written = (record.file, record.page);
                let changed_bytes = record.changed_bytes();
                let (page, file) = self.touch(record);
                page.write_count += 1;
                file.statistics.write_count += 1;
                if !record.is_fresh {
                    file.changed_bytes += changed_bytes;
                    file.changed_count += 1;
                    self.by_changed_bytes[to_index(changed_bytes)] += 1;
                    self.range_count += record.ranges.len() as u64;
                }
            }
        }
    }

    fn touch(&mut self, record: &PageRecord) -> (&mut PageState, &mut FileState) {
        let page = self.pages.entry((record.file, record.page)).or_default();
        let file = self.files.entry(record.file).or_default();
        file.statistics.number = record.file;
        file.statistics.page_count = file.statistics.page_count.max(u64::from(record.page));
        (page, file)
    }

    /// Tells the hottest pages, and calls a part of them hot.
    fn choose_hot(&mut self) {
        let written = self.pages.iter().filter(|(_, page)| page.write_count > 0);
        let mut counts: Vec<_> = written
            .map(|(&address, page)| (std::cmp::Reverse(page.write_count), address))
            .collect();
        counts.sort_unstable();
        for &(_, address) in &counts[..counts.len().div_ceil(HOT_DIVISOR)] {
            self.pages.get_mut(&address).expect("it was found").is_hot = true;
        }
        let all = self.statistics.write_count.max(1) as f64;
        let share = |page_percent: u32| {
            let count = (counts.len() * page_percent as usize).div_ceil(100);
            let writes: u64 = counts[..count].iter().map(|(writes, _)| writes.0).sum();
            HottestShare { page_percent, write_share: writes as f64 / all }
        };
        self.statistics.hottest = HOTTEST_PERCENT.map(share).to_vec();
        self.statistics.written_page_count = counts.len() as u64;
    }

    fn begin_intervals(&mut self, options: &PageWriteOptions) {
        let pages: u64 = self.files.values().map(|file| file.statistics.page_count).sum();
        let statistics = &mut self.statistics;
        statistics.database_page_count = pages;
        statistics.warm_up_write_count =
            statistics.write_count * u64::from(options.warm_up_percent.min(99)) / 100;
        let space = |&percent: &u32| LogSpace {
            percent,
            log_pages: pages.saturating_mul(u64::from(percent)) / 100,
            by_interval_share: 0.0,
            by_mean_interval_share: 0.0,
        };
        statistics.absorbed = options.log_percents.iter().map(space).collect();
        self.absorbed_counts = vec![0; statistics.absorbed.len()];
    }

    /// The second reading of a write, the `number`th of all.
    fn note_interval(&mut self, address: (u16, u32), number: u64) {
        let page = self.pages.get_mut(&address).expect("it was met before");
        let before = std::mem::replace(&mut page.last, number);
        if number <= self.statistics.warm_up_write_count {
            return;
        }
        if page.counted == 0 {
            page.first_counted = number;
        }
        page.counted += 1;
        if before == 0 {
            self.statistics.first_write_count += 1;
            return;
        }
        let interval = number - before;
        let power = to_index(u64::from(interval.next_power_of_two().ilog2()));
        if self.by_interval.len() <= power {
            self.by_interval.resize(power + 1, (0, 0));
        }
        let (hot, cold) = &mut self.by_interval[power];
        *(if page.is_hot { hot } else { cold }) += 1;
        for (space, count) in self.statistics.absorbed.iter().zip(&mut self.absorbed_counts) {
            *count += u64::from(interval <= space.log_pages);
        }
    }

    fn told(mut self) -> PageWriteStatistics {
        let counted = self.statistics.write_count - self.statistics.warm_up_write_count;
        let share = |count: u64| count as f64 / counted.max(1) as f64;
        for (space, &count) in self.statistics.absorbed.iter_mut().zip(&self.absorbed_counts) {
            space.by_interval_share = share(count);
            // A mean of whole intervals is compared without dividing.
            let is_short = |page: &&PageState| {
                let span = page.last - page.first_counted;
                page.counted > 1 && span <= space.log_pages.saturating_mul(page.counted - 1)
            };
            let short: u64 = self.pages.values().filter(is_short).map(|page| page.counted).sum();
            space.by_mean_interval_share = share(short);
        }
        let powers = (0_u32..).zip(&self.by_interval);
        let count = |(power, &(hot_count, cold_count)): (u32, &(u64, u64))| IntervalCount {
            up_to_writes: 1 << power,
            hot_count,
            cold_count,
        };
        self.statistics.intervals = powers.map(count).collect();
        self.statistics.changed = self.changed();
        self.statistics.duration_ns = self.times.map_or(0, |(first, last)| last - first);
        let was_read = |page: &&PageState| page.was_read;
        self.statistics.read_page_count = self.pages.values().filter(was_read).count() as u64;
        let told = |mut file: FileState| {
            file.statistics.mean_changed_bytes = mean(file.changed_bytes, file.changed_count);
            file.statistics
        };
        self.statistics.files = self.files.into_values().map(told).collect();
        self.statistics.files.sort_unstable_by_key(|file| file.number);
        self.statistics
    }

    fn changed(&self) -> ChangedStatistics {
        let all: u64 = self.by_changed_bytes.iter().sum();
        let bytes_and_counts = || (0_u64..).zip(self.by_changed_bytes.iter().copied());
        let at_most = |percent: u64| {
            let wanted = (all * percent).div_ceil(100);
            let mut passed = 0;
            let mut reached = bytes_and_counts().skip_while(|&(_, count)| {
                passed += count;
                passed < wanted
            });
            reached.next().map_or(0, |(bytes, _)| bytes)
        };
        let mut counts: Vec<ChangedCount> = Vec::new();
        for (bytes, write_count) in bytes_and_counts() {
            let up_to_bytes = if bytes == 0 { 0 } else { bytes.next_power_of_two() };
            match counts.last_mut() {
                Some(last) if last.up_to_bytes == up_to_bytes => last.write_count += write_count,
                _ => counts.push(ChangedCount { up_to_bytes, write_count }),
            }
        }
        ChangedStatistics {
            mean_bytes: mean(bytes_and_counts().map(|(bytes, count)| bytes * count).sum(), all),
            p50_bytes: at_most(50),
            p90_bytes: at_most(90),
            p99_bytes: at_most(99),
            max_bytes: at_most(100),
            mean_range_count: mean(self.range_count, all),
            counts,
        }
    }
}

impl PageWriteStatistics {
    fn of_pages(page_bytes: u32) -> Self {
        Self {
            page_bytes,
            database_page_count: 0,
            read_page_count: 0,
            written_page_count: 0,
            duration_ns: 0,
            read_count: 0,
            write_count: 0,
            write_call_count: 0,
            fresh_write_count: 0,
            sequential_write_count: 0,
            sync_count: 0,
            cut_count: 0,
            changed: ChangedStatistics::default(),
            warm_up_write_count: 0,
            first_write_count: 0,
            intervals: Vec::new(),
            absorbed: Vec::new(),
            hottest: Vec::new(),
            files: Vec::new(),
        }
    }
}

fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}
