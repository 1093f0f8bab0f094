//! Has a propagation do again what the trace of an engine tells: the changed bytes go into pages, and
//! pages to the device as that propagation places them.
//!
//! ```text
//!   record ─► page in memory, changed ─► Placement ─► a volume of its own ─► what the device was asked
//!                    ▲ compared with what is read
//! ```
//!
//! 1. A page that is read is what was written last: each read is compared with the page in memory.
//! 2. What the trace does not tell is the caller's: the pages as they were at first, and, of a trace
//!    without bytes, changed bytes that follow from a seed.
//! 3. Requests are made as fast as the device answers; when the trace had them does not matter.
//! 4. Memory is that of the pages that the trace touches. There is no double write.

use crate::FlashOutcome;
use crate::error::BenchError;
use nandu_base::{FixedHashMap, FixedHashSet, Nanos, Rng};
use nandu_device::{Counters, IoBuffer};
use nandu_storage::page::seal_page;
use nandu_storage::propagation::{
    ChangedRanges, FlashIo, Media, PageWrite, Placement, PropagationConfig,
};
use nandu_storage::volume::Io;
use nandu_storage::{FileId, PageAddress, StorageError, Volumes};
use nandu_trace::engine_trace::{EngineTraceHead, PageEvent, PageRecord};
use serde::Serialize;
use std::sync::Arc;

/// Pages that are written together before anything counts.
const FILL_BATCH_COUNT: usize = 64;
/// A file grows by so many pages at once where it needs room.
const GROWTH_PAGES: u64 = 256;
/// What is written in one call at most, as by a pool.
const CALL_BYTES_MAX: usize = 4 << 20;

/// Pages as they were before the trace, by their addresses in it; asked more than once, so that what it
/// answers follows from the address alone.
pub type FirstPages = Box<dyn Fn(PageAddress, &mut [u8]) + Send>;

/// A replay under way.
pub struct PageReplay {
    placement: Placement,
    io: Io,
    /// The raw flash that the propagation has.
    chips: Vec<FlashIo>,
    page_bytes: u32,
    alignment: usize,
    keeps_bytes: bool,
    first_pages: FirstPages,
    /// By the number in the trace: its number here, and how many of its first pages are there.
    files: FixedHashMap<u16, ReplayedFile>,
    /// By the address in the trace.
    held: FixedHashMap<u64, HeldPage>,
    batch: Vec<(PageAddress, PageWrite)>,
    /// The addresses of the batch, in the trace.
    in_batch: FixedHashSet<u64>,
    rng: Rng,
    counts: ReplayCounts,
    before: Counters,
    started_at: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct ReplayedFile {
    id: FileId,
    first_page_count: u32,
    room_pages: u64,
}

/// A page as the device has it, or will have after the batch.
struct HeldPage {
    bytes: Vec<u8>,
    /// What its next write has to cover beside what changes.
    changed: ChangedRanges,
}

/// What was replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayCounts {
    /// Pages that were read.
    pub page_read_count: u64,
    /// Pages that were written.
    pub page_write_count: u64,
    /// Bytes that changed on them.
    pub changed_bytes: u64,
    /// How often all that was written was made durable.
    pub sync_count: u64,
}

/// What the replay asked of the device.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReplayOutcome {
    /// What came out of the trace.
    #[serde(flatten)]
    pub counts: ReplayCounts,
    /// Requests that read.
    pub read_count: u64,
    /// Bytes that those reads asked for.
    pub read_bytes: u64,
    /// Requests that wrote.
    pub write_count: u64,
    /// Bytes that those writes carried.
    pub written_bytes: u64,
    /// Flushes of the device.
    pub flush_count: u64,
    /// What all that took, one call of the propagation after the other, in nanoseconds.
    pub elapsed_ns: u64,
    /// What was done to flash, where there is some to be seen.
    pub flash: Option<FlashOutcome>,
}

impl PageReplay {
    /// Makes the files of a trace on empty volumes, of which none is for a log, writes their pages as
    /// `first_pages` has them, and begins to count then. A page of zeros was never written. `goes_on` is
    /// asked now and then, with how many pages were written; `None` if it does not.
    ///
    /// # Errors
    /// If the propagation cannot be made, or the device has no room or fails.
    pub fn begin(
        head: &EngineTraceHead,
        propagation: &PropagationConfig,
        volumes: Volumes,
        (first_pages, seed): (FirstPages, u64),
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> Result<Option<Self>, BenchError> {
        let Volumes { data, others, .. } = volumes;
        let clock = Arc::default();
        let io = Io::new(data, Arc::clone(&clock));
        let mut files = FixedHashMap::default();
        // A page knows its file's number, so files have the numbers that they had.
        let last = head.files.last().map_or(0, |file| file.number);
        for number in 1..=last {
            let id = io.create(&file_name(number))?;
            let found = head.files.iter().find(|file| file.number == number);
            if let Some(file) = found {
                let first_page_count = file.page_count;
                files.insert(number, ReplayedFile { id, first_page_count, room_pages: 0 });
            }
        }
        let media = Media::with_clock(io.clone(), others, &clock);
        let chips = media.all_raw_flash().cloned().collect();
        let (placement, _) = propagation.build(head.page_bytes, media, None, false)?;
        let mut replay = Self {
            alignment: placement.buffer_alignment() as usize,
            placement,
            io: io.clone(),
            chips,
            page_bytes: head.page_bytes,
            keeps_bytes: head.keeps_bytes,
            first_pages,
            files,
            held: FixedHashMap::default(),
            batch: Vec::new(),
            in_batch: FixedHashSet::default(),
            rng: Rng::for_part(seed, "changed bytes"),
            counts: ReplayCounts::default(),
            before: Counters::default(),
            started_at: Nanos::ZERO,
        };
        if !replay.fill(head, &mut goes_on)? {
            return Ok(None);
        }
        replay.before = replay.counters();
        replay.started_at = io.present();
        Ok(Some(replay))
    }

    /// Does what a record tells. Writes of one call go to the device once the call has ended.
    ///
    /// # Errors
    /// If the device fails or has no room, or a page that is read is not what was written.
    pub fn apply(&mut self, record: &PageRecord) -> Result<(), BenchError> {
        let address = PageAddress::new(FileId(record.file), record.page);
        let is_full = self.batch.len() >= CALL_BYTES_MAX / self.page_bytes as usize;
        let is_twice = self.in_batch.contains(&address.to_word());
        if record.event != PageEvent::Write || !record.is_same_call || is_full || is_twice {
            self.write_batch()?;
        }
        match record.event {
            PageEvent::Read => self.read(address),
            PageEvent::Write => self.change(address, record),
            PageEvent::Sync => {
                self.counts.sync_count += 1;
                Ok(self.placement.sync()?)
            }
            PageEvent::Cut => self.cut(address),
        }
    }

    fn counters(&self) -> Counters {
        let mut counters = self.io.counters();
        self.chips.iter().for_each(|chips| chips.add_to(&mut counters));
        counters
    }

    /// Ends the last call, and forgets what was counted: what comes after it is told.
    ///
    /// # Errors
    /// If the device fails.
    pub fn forget(&mut self) -> Result<(), BenchError> {
        self.write_batch()?;
        self.counts = ReplayCounts::default();
        self.before = self.counters();
        self.started_at = self.io.present();
        Ok(())
    }

    /// Ends the last call, and tells what the device was asked.
    ///
    /// # Errors
    /// If the device fails.
    pub fn finish(&mut self) -> Result<ReplayOutcome, BenchError> {
        self.write_batch()?;
        let (before, after) = (&self.before, self.counters());
        let flash = match (&before.flash, &after.flash) {
            (Some(before), Some(after)) => {
                Some(FlashOutcome::of(&after.commands.since(&before.commands)))
            }
            _ => None,
        };
        Ok(ReplayOutcome {
            counts: self.counts,
            read_count: after.reads.request_count - before.reads.request_count,
            read_bytes: after.reads.byte_count - before.reads.byte_count,
            write_count: after.writes.request_count - before.writes.request_count,
            written_bytes: after.writes.byte_count - before.writes.byte_count,
            flush_count: after.flushes.request_count - before.flushes.request_count,
            elapsed_ns: self.io.present().saturating_sub(self.started_at).0,
            flash,
        })
    }

    /// Lends a page as the propagation has it, by its address in the trace, once a call has ended.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If a call has not ended.
    pub fn read_page<R>(
        &mut self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, BenchError> {
        assert!(self.batch.is_empty(), "a call has ended before pages are read");
        let here = self.here(address)?;
        let buffer = IoBuffer::with_alignment(self.page_bytes as usize, self.alignment);
        self.placement.start_read(here, buffer)?;
        let read = self.placement.next_read().expect("a page that was begun arrives");
        read.result?;
        if let Some(held) = self.held.get_mut(&address.to_word()) {
            held.changed = read.changed;
        }
        Ok(look(&read.buffer))
    }

    /// Asserts what must hold between records.
    ///
    /// # Panics
    /// If it does not.
    pub fn audit(&self) {
        self.placement.audit();
        let page_bytes = self.page_bytes as usize;
        let is_whole = |page: &HeldPage| page.bytes.len() == page_bytes;
        assert!(self.held.values().all(is_whole), "pages in memory are whole");
    }

    /// Writes the pages that there were at first.
    fn fill(
        &mut self,
        head: &EngineTraceHead,
        goes_on: &mut impl FnMut(u64) -> bool,
    ) -> Result<bool, BenchError> {
        let mut filled_count = 0;
        for file in &head.files {
            for first in (1..=file.page_count).step_by(FILL_BATCH_COUNT) {
                let pages = (first..=file.page_count).take(FILL_BATCH_COUNT);
                for page in pages.clone() {
                    let address = PageAddress::new(FileId(file.number), page);
                    let (bytes, changed) = (self.first_page(address), ChangedRanges::default());
                    if !is_blank(&bytes) {
                        self.put(address, &bytes, changed, true)?;
                    }
                }
                self.write_batch()?;
                filled_count += pages.count() as u64;
                if !goes_on(filled_count) {
                    return Ok(false);
                }
            }
        }
        self.placement.sync()?;
        Ok(true)
    }

    fn read(&mut self, address: PageAddress) -> Result<(), BenchError> {
        self.counts.page_read_count += 1;
        self.hold(address);
        let bytes = std::mem::take(&mut self.held_page(address).bytes);
        let is_same = self.read_page(address, |page| page == bytes);
        self.held_page(address).bytes = bytes;
        if is_same? {
            return Ok(());
        }
        let place = format!("page {} of file {} of the trace", address.page, address.file.0);
        let what = "it is not what was written last; the trace or the device is damaged".to_owned();
        Err(StorageError::Corrupt { place, what }.into())
    }

    fn change(&mut self, address: PageAddress, record: &PageRecord) -> Result<(), BenchError> {
        self.counts.page_write_count += 1;
        self.counts.changed_bytes += record.changed_bytes();
        self.hold(address);
        let Self { held, rng, keeps_bytes, .. } = self;
        let page = held.get_mut(&address.to_word()).expect("it is held");
        match *keeps_bytes {
            true => record.lay_over(&mut page.bytes),
            false => {
                if record.is_fresh {
                    page.bytes.fill(0);
                }
                for range in &record.ranges {
                    rng.fill(&mut page.bytes[range.start as usize..range.end as usize]);
                }
            }
        }
        let mut changed = std::mem::take(&mut page.changed);
        record.ranges.iter().for_each(|range| changed.add(range.clone()));
        if record.is_fresh {
            // There is nothing that changes could be laid over.
            changed.clear();
        }
        let bytes = std::mem::take(&mut page.bytes);
        let put = self.put(address, &bytes, changed, record.is_fresh);
        self.held_page(address).bytes = bytes;
        put
    }

    fn cut(&mut self, address: PageAddress) -> Result<(), BenchError> {
        let here = self.here(address)?;
        self.placement.truncate(here.file, here.page)?;
        let file = self.files.get_mut(&address.file.0).expect("it was found");
        file.first_page_count = file.first_page_count.min(address.page - 1);
        file.room_pages = file.room_pages.min(u64::from(address.page - 1));
        let end = PageAddress::new(address.file, u32::MAX).to_word();
        self.held.retain(|word, _| !(address.to_word()..=end).contains(word));
        Ok(())
    }

    /// Adds a page to the batch, and makes room for it where its file needs some.
    fn put(
        &mut self,
        address: PageAddress,
        bytes: &[u8],
        changed: ChangedRanges,
        is_new: bool,
    ) -> Result<(), BenchError> {
        let here = self.here(address)?;
        let needs_room = self.placement.get().needs_room_in_files();
        let file = self.files.get_mut(&address.file.0).expect("it was found");
        let needed = u64::from(address.page);
        if needs_room && file.room_pages < needed {
            let wanted =
                needed.max(u64::from(file.first_page_count)).max(file.room_pages + GROWTH_PAGES);
            self.io.set_byte_count(file.id, wanted * u64::from(self.page_bytes))?;
            file.room_pages = wanted;
        }
        let mut buffer = IoBuffer::with_alignment(bytes.len(), self.alignment);
        buffer.copy_from_slice(bytes);
        self.in_batch.insert(address.to_word());
        self.batch.push((address, PageWrite { address: here, buffer, changed, is_new }));
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), BenchError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.in_batch.clear();
        let (addresses, mut writes): (Vec<_>, Vec<_>) = self.batch.drain(..).unzip();
        self.placement.write(&mut writes)?;
        for (address, write) in addresses.into_iter().zip(writes) {
            // Those of the filling are held when they are touched.
            if let Some(page) = self.held.get_mut(&address.to_word()) {
                seal_page(&mut page.bytes, write.address);
                page.changed = write.changed;
            }
        }
        Ok(())
    }

    /// Sees to it that a page is in memory.
    fn hold(&mut self, address: PageAddress) {
        if self.held.contains_key(&address.to_word()) {
            return;
        }
        let mut bytes = self.first_page(address);
        if let Some(file) = self.files.get(&address.file.0)
            && !is_blank(&bytes)
        {
            seal_page(&mut bytes, PageAddress::new(file.id, address.page));
        }
        self.held.insert(address.to_word(), HeldPage { bytes, changed: ChangedRanges::default() });
    }

    fn held_page(&mut self, address: PageAddress) -> &mut HeldPage {
        self.held.get_mut(&address.to_word()).expect("it is held")
    }

    /// A page as it was at first; zeros where there was none.
    fn first_page(&self, address: PageAddress) -> Vec<u8> {
        let mut bytes = vec![0; self.page_bytes as usize];
        let first_page_count =
            self.files.get(&address.file.0).map_or(0, |file| file.first_page_count);
        if address.page <= first_page_count {
            (self.first_pages)(address, &mut bytes);
        }
        bytes
    }

    /// The address here; makes the file if it is new.
    fn here(&mut self, address: PageAddress) -> Result<PageAddress, BenchError> {
        let number = address.file.0;
        let id = match self.files.get(&number) {
            Some(file) => file.id,
            None => {
                let id = self.io.create(&file_name(number))?;
                self.files.insert(number, ReplayedFile { id, first_page_count: 0, room_pages: 0 });
                id
            }
        };
        Ok(PageAddress::new(id, address.page))
    }
}

fn is_blank(page: &[u8]) -> bool {
    page.iter().all(|&byte| byte == 0)
}

fn file_name(number: u16) -> String {
    format!("pages-{number}")
}
