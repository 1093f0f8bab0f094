//! Page-differential logging (Kim, Whang and Song, SIGMOD 2010), over segments of a file or of raw flash:
//! a page is a base page and at most one differential, which tells where the page differs from it now.
//!
//! ```text
//!   write ─► differs little from its base page ─► differential write buffer, one flash page
//!        └─► differs more, or has none ──┐                       │ full, or a sync
//!                                        ▼                       ▼
//!            │ summary │ base page │ base page │ differential page │     segments (`medium`)
//!   read  ◄─ base page ◄ laid over ◄ its differential
//! ```
//!
//! What the paper has in the spare area of a flash page is in a summary in front of those that are
//! written at a time. The difference is found by reading the base page again and comparing, so that
//! nobody has to keep track of changes. A segment is the paper's erase block.
//!
//! 1. A page is its base page, as the table says (`map`), with its differential laid over it: the one
//!    that waits, or else the one that lies where the table says. To read it are two reads at most, of a
//!    flash page each.
//! 2. What is durable is never overwritten: no page is torn. A power cut leaves each page as it was at
//!    the last sync or in one of the writes since.
//! 3. A differential counts only with the base page from which it was made, by that one's stamp.
//! 4. A segment is written again only when recovery needs nothing of it (`segments`).
//! 5. Differentials fill half of what is to spare at most, with what stays blank beside them. Where they
//!    would fill more, pages are written as base pages, and cleaning lays differentials over base pages
//!    that it moves: space that they take is never what keeps cleaning from gaining some.
//! 6. A write that fails changes nothing: differentials wait again.

mod batch;
mod chips;
mod cleaning;
mod differential;
mod map;
mod medium;
mod notes;
mod recovery;
mod segments;
mod settings;
mod summary;
#[cfg(test)]
mod tests;

pub use chips::PageDifferentialChipsSettings;
pub(super) use chips::{CHIPS, FILES_ON_CHIPS};
pub use settings::PageDifferentialSettings;

use super::log_structured::reads::Reads;
use super::log_structured::record::Location;
use super::log_structured::stored::{Record, StoredPage};
use super::{ChangedRanges, Media, PagePlace, PageRead, PageWrite, Propagation};
use crate::error::unless_full;
use crate::page::page_is_sound;
use crate::volume::Io;
use crate::{FileId, PageAddress, StorageError};
use batch::{Batch, Change};
use differential::{Waiting, WriteBuffer};
use map::{Difference, Freed, PageTable};
use medium::{SegmentMedium, VolumeSegments};
use nandu_base::to_u32;
use nandu_device::IoBuffer;
use notes::{Note, Notes};
use segments::Segments;
use summary::Header;

const SEGMENTS_FILE: &str = "page-differentials";
/// All files that it makes on a volume.
pub(super) const FILES: [&str; 1] = [SEGMENTS_FILE];
/// Base pages that are read at once, to be compared.
const COMPARED_AT_ONCE: usize = 32;

/// What was done, in bytes and counts since the propagation was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageDifferentialCounters {
    /// Pages that were handed in.
    pub page_write_count: u64,
    /// How many of them were written as base pages.
    pub base_page_count: u64,
    /// How many became differentials; the others had not changed.
    pub difference_count: u64,
    /// Bytes of these differentials.
    pub difference_bytes: u64,
    /// Base pages that were read to be compared.
    pub compared_count: u64,
    /// Differential pages that were written.
    pub differential_page_count: u64,
    /// How many of them were not full, since a sync wanted them.
    pub forced_flush_count: u64,
    /// Writes to the segments.
    pub write_count: u64,
    /// Bytes of these writes.
    pub segment_bytes_written: u64,
    /// Segments that were cleaned.
    pub cleaned_segment_count: u64,
    /// Base pages that cleaning moved.
    pub moved_base_count: u64,
    /// Base pages with which cleaning made one of a differential.
    pub merged_count: u64,
    /// Flushes of the segments.
    pub flush_count: u64,
    /// Writes that opening found.
    pub recovered_write_count: u64,
}

/// Where the next write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    segment: u32,
    offset: u32,
}

/// Pages as base pages and differentials.
pub struct PageDifferential {
    /// The volume of the data, and the file there that says that there is one.
    io: Io,
    file: FileId,
    /// Where the segments lie.
    medium: Box<dyn SegmentMedium>,
    settings: PageDifferentialSettings,
    sector_bytes: u32,
    table: PageTable,
    notes: Notes,
    segments: Segments,
    position: Option<Position>,
    buffer: WriteBuffer,
    batch: Batch,
    /// Counts the openings.
    era: u64,
    /// This opening is not noted durably yet: that comes before everything else.
    needs_era: bool,
    /// The last sequence or stamp that was given.
    clock: u64,
    last_sequence: u64,
    /// The last write that somebody else is told of: that of an opening is none.
    told_sequence: u64,
    durable_sequence: u64,
    /// What the last write says to be durable.
    last_claim: u64,
    /// The same of the last write that is durable itself.
    claimed_sequence: u64,
    /// Writes from the first to the last never were, which is to be noted; none among them counts.
    void: Option<(u64, u64)>,
    /// The segments were looked through for notes to drop since one was opened.
    is_pruned: bool,
    /// Segments beyond those that there may be, since cleaning gained nothing.
    crowd_count: u32,
    /// There is little room on the volume.
    is_scarce: bool,
    /// Bytes of differentials from which on pages are written as base pages.
    difference_bytes_max: u64,
    is_cleaning: bool,
    reads: Reads,
    counters: PageDifferentialCounters,
}

impl std::fmt::Debug for PageDifferential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (pages, segments) = (self.table.page_count(), self.segments.count());
        write!(formatter, "PageDifferential({pages} pages in {segments} segments)")
    }
}

impl PageDifferential {
    /// Makes the file of an empty propagation. It is there when this returns, durably.
    ///
    /// # Errors
    /// If a setting makes no sense, the file exists, or the device has no room or fails.
    pub fn create(media: Media, settings: PageDifferentialSettings) -> Result<Self, StorageError> {
        let io = media.into_data();
        settings.check(io.sector_bytes())?;
        let file = io.create(SEGMENTS_FILE)?;
        io.sync(file)?;
        let medium = Box::new(VolumeSegments::new(io.clone(), file, settings.segment_bytes));
        let mut created = Self::assemble((io, file), settings, medium);
        created.begin_era()?;
        Ok(created)
    }

    /// Whether there is one on the volume, or a part of one.
    #[must_use]
    pub fn is_on(io: &Io) -> bool {
        io.files().iter().any(|(_, name)| name == SEGMENTS_FILE)
    }

    /// What was done so far.
    #[must_use]
    pub const fn counters(&self) -> PageDifferentialCounters {
        self.counters
    }

    fn assemble(
        (io, file): (Io, FileId),
        settings: PageDifferentialSettings,
        medium: Box<dyn SegmentMedium>,
    ) -> Self {
        Self {
            sector_bytes: medium.sector_bytes(),
            file,
            medium,
            table: PageTable::default(),
            notes: Notes::default(),
            segments: Segments::new(settings.segment_bytes),
            position: None,
            buffer: WriteBuffer::default(),
            batch: Batch::default(),
            era: 1,
            needs_era: true,
            clock: 0,
            last_sequence: 0,
            told_sequence: 0,
            durable_sequence: 0,
            last_claim: 0,
            claimed_sequence: 0,
            void: None,
            is_pruned: false,
            crowd_count: 0,
            is_scarce: false,
            difference_bytes_max: 0,
            is_cleaning: false,
            reads: Reads::default(),
            counters: PageDifferentialCounters::default(),
            io,
            settings,
        }
    }

    fn slot_bytes(&self) -> usize {
        self.settings.slot_bytes(self.sector_bytes) as usize
    }

    const fn next_stamp(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Writes that this is an opening, durably: what follows cannot be taken for what an earlier one
    /// left behind.
    fn begin_era(&mut self) -> Result<(), StorageError> {
        self.needs_era = false;
        let told = self.told_sequence;
        let answer = self.write_batch(0).and_then(|()| self.flush());
        self.needs_era = answer.is_err();
        self.told_sequence = told;
        answer
    }

    /// The base pages of some pages, as they can be read, each with its stamp.
    fn read_bases(&mut self, pages: &[PageWrite]) -> Vec<Option<(IoBuffer, u64)>> {
        let begin = |page: &PageWrite| {
            let place = self.table.get(page.address).filter(|_| !page.is_new)?;
            let buffer = self.medium.piece_buffer(self.slot_bytes());
            let ticket = self.medium.begin_read(place.base.offset_bytes(), buffer).ok()?;
            Some((ticket, place.base_stamp))
        };
        let begun: Vec<Option<(u64, u64)>> = pages.iter().map(begin).collect();
        self.counters.compared_count += begun.iter().flatten().count() as u64;
        let end = |(begun, page): (Option<(u64, u64)>, &PageWrite)| {
            let (ticket, stamp) = begun?;
            let buffer = self.medium.end_read(ticket)?;
            let is_sound = page_is_sound(&buffer[..page.buffer.len()], page.address);
            is_sound.then_some((buffer, stamp))
        };
        begun.into_iter().zip(pages).map(end).collect()
    }

    /// Takes a page in: as a differential from its base page, or as a new one.
    fn place(
        &mut self,
        page: &mut PageWrite,
        base: Option<(IoBuffer, u64)>,
    ) -> Result<(), StorageError> {
        self.counters.page_write_count += 1;
        page.changed.clear();
        let address = page.address;
        if let Some((base, base_stamp)) = base
            && let Some(record) = self.difference_of(page, &base)
        {
            let bytes = differential::stored_bytes(record.len());
            if self.buffer.used_bytes_without(address) + bytes > self.slot_bytes() {
                self.flush_buffer()?;
            }
            // Only now: what was written meanwhile, or cleaning, may have made another base page.
            let known = self.table.get(address).filter(|known| known.base_stamp == base_stamp);
            if let Some(&known) = known.filter(|_| !self.batch.has_base_of(address)) {
                let has_none = known.difference.is_none()
                    && self.buffer.get(address).is_none()
                    && self.batch.is_empty();
                if has_none && ChangedRanges::is_empty_record(&record) {
                    return Ok(());
                }
                self.counters.difference_count += 1;
                self.counters.difference_bytes += bytes as u64;
                let stamp = self.next_stamp();
                self.buffer.insert(address, Waiting { stamp, base_stamp, record });
                return Ok(());
            }
        }
        self.counters.base_page_count += 1;
        self.make_room_in_batch()?;
        let stamp = self.next_stamp();
        self.push_base(address, stamp, &page.buffer);
        Ok(())
    }

    /// The record of where a page differs from its base page, if it may be written as that.
    fn difference_of(&self, page: &PageWrite, base: &[u8]) -> Option<Vec<u8>> {
        if self.is_pressed() {
            return None;
        }
        let changed = ChangedRanges::between(&base[..page.buffer.len()], &page.buffer);
        let record_bytes = changed.record_bytes();
        let bytes_max = self.settings.difference_bytes_max as usize;
        let is_small = differential::stored_bytes(record_bytes) <= bytes_max;
        is_small.then(|| {
            let mut record = vec![0; record_bytes];
            changed.pack(&page.buffer, &mut record);
            record
        })
    }

    fn push_base(&mut self, address: PageAddress, stamp: u64, bytes: &[u8]) {
        let replaced = self.buffer.get(address).cloned();
        self.buffer.remove(address);
        let slot_bytes = self.slot_bytes();
        self.batch.push_base((address, stamp), bytes, slot_bytes, replaced);
    }

    /// Has the differentials that wait written with the next write.
    fn flush_buffer(&mut self) -> Result<(), StorageError> {
        while !self.buffer.is_empty() {
            self.make_room_in_batch()?;
            // Cleaning, which that may have done, flushes it, too.
            if self.buffer.is_empty() {
                break;
            }
            let (slot_bytes, buffer) = (self.slot_bytes(), &mut self.buffer);
            self.batch.push_differentials(slot_bytes, |flash_page| buffer.pack(flash_page));
            self.counters.differential_page_count += 1;
        }
        Ok(())
    }

    /// Sees to it that one more flash page goes with what was gathered.
    fn make_room_in_batch(&mut self) -> Result<(), StorageError> {
        let void_count = usize::from(self.void.is_some());
        let bytes = self.batch.sealed_bytes(self.slot_bytes(), 1 + void_count, self.sector_bytes);
        let bytes = self.in_whole_units(bytes);
        // What is gathered and does not fit behind the last write begins another segment, and fills what
        // a write may have there.
        let gathered_bytes = self.batch.sealed_bytes(0, void_count, self.sector_bytes);
        let gathered_bytes = self.in_whole_units(gathered_bytes);
        let room = self.position.map(|it| self.room_behind(it));
        let room = room.filter(|&room| gathered_bytes <= room).unwrap_or(u64::MAX);
        let room = room.min(u64::from(self.settings.write_bytes));
        if bytes <= room || self.batch.is_empty() {
            return Ok(());
        }
        self.emit()?;
        if self.is_cleaning { Ok(()) } else { self.replenish() }
    }

    fn room_behind(&self, position: Position) -> u64 {
        u64::from(self.settings.segment_bytes - position.offset)
    }

    /// Bytes that a write of so many takes of its segment.
    fn in_whole_units(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(u64::from(self.medium.write_unit_bytes()))
    }

    /// Writes what was gathered, if anything was.
    fn emit(&mut self) -> Result<(), StorageError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let kept_count = if self.is_cleaning { 0 } else { cleaning::KEPT_COUNT };
        self.write_batch(kept_count)
    }

    /// Writes what was gathered, or that nothing was.
    fn write_batch(&mut self, kept_count: u32) -> Result<(), StorageError> {
        let answer = self.try_to_write(kept_count);
        if answer.is_err() {
            self.take_back();
        }
        answer
    }

    fn try_to_write(&mut self, kept_count: u32) -> Result<(), StorageError> {
        if self.needs_era {
            let gathered = std::mem::take(&mut self.batch);
            let answer = self.begin_era();
            self.batch = gathered;
            answer?;
        }
        if let Some((from, to)) = self.void {
            self.batch.push_void(from, to);
        }
        let bytes_to_write = self.batch.sealed_bytes(0, 0, self.sector_bytes);
        let length = self.in_whole_units(bytes_to_write);
        let position = self.find_position(length, kept_count)?;
        let sequence = self.next_stamp();
        let header = self.header_at(position, sequence, length);
        let front = summary::front_bytes(self.batch.entries.len(), self.sector_bytes);
        let mut bytes = self.medium.piece_buffer(nandu_base::to_index(bytes_to_write));
        bytes[nandu_base::to_index(front)..].copy_from_slice(&self.batch.bytes);
        for entry in self.batch.entries.iter_mut().filter(|entry| entry.has_flash_page()) {
            entry.start += to_u32(front);
        }
        summary::seal(&mut bytes, &header, &self.batch.entries);
        let start = u64::from(position.segment) * u64::from(self.settings.segment_bytes)
            + u64::from(position.offset);
        if let Err(error) = self.medium.write(start, bytes) {
            // It may be there or not: the next write says that it never was.
            self.segments.spoil(position.segment, sequence);
            self.position = None;
            // None was written since the first of those that failed.
            let first = self.void.map_or(sequence, |(first, _)| first);
            self.void = Some((first, sequence));
            return Err(error);
        }
        let end = position.offset + to_u32(length);
        self.segments.note_write(position.segment, end, sequence);
        self.is_pruned &= position.offset > 0;
        self.position = Some(Position { offset: end, ..position });
        self.last_sequence = sequence;
        self.told_sequence = sequence;
        self.last_claim = header.durable_sequence;
        self.void = None;
        self.counters.write_count += 1;
        self.counters.segment_bytes_written += length;
        let changes = std::mem::take(&mut self.batch).changes;
        self.apply(&changes, start + front, position.segment, sequence);
        Ok(())
    }

    fn header_at(&self, position: Position, sequence: u64, length: u64) -> Header {
        let opened_at = self.segments.get(position.segment).opened_at;
        Header {
            page_bytes: self.settings.page_bytes,
            segment_bytes: self.settings.segment_bytes,
            era: self.era,
            sequence,
            previous: self.last_sequence,
            durable_sequence: self.durable_sequence,
            opened_at: if position.offset == 0 { sequence } else { opened_at },
            state: self.batch.state_after(&self.table),
            segment: position.segment,
            byte_count: to_u32(length),
        }
    }

    /// Where a write of so many bytes goes: into the open segment, or another one.
    fn find_position(&mut self, length: u64, kept_count: u32) -> Result<Position, StorageError> {
        if let Some(position) = self.position {
            if length <= self.room_behind(position) {
                return Ok(position);
            }
            self.segments.close(position.segment);
            self.position = None;
        }
        assert!(length <= u64::from(self.settings.segment_bytes), "a segment holds a write");
        loop {
            let mut opened = self.segments.open(kept_count);
            while opened.is_none() && self.grow()? {
                opened = self.segments.open(kept_count);
            }
            let Some(segment) = opened else {
                let what = "no segment of page-differential logging can be freed; make room on the \
                            device, or drop a table";
                return Err(StorageError::NoSpace { what: what.to_owned() });
            };
            self.reads.settle(&*self.medium);
            let begun = self.medium.begin_segment(segment);
            if begun == Ok(true) {
                let position = Position { segment, offset: 0 };
                self.position = Some(position);
                return Ok(position);
            }
            self.segments.lose(segment);
            begun?;
        }
    }

    /// A write failed: differentials wait again.
    fn take_back(&mut self) {
        for change in std::mem::take(&mut self.batch).changes {
            let (address, waiting) = match change {
                Change::Base { address, replaced: Some(replaced), .. } => (address, replaced),
                Change::Difference { address, waiting, .. } => (address, waiting),
                _ => continue,
            };
            let version = self.table.version(address);
            let is_newer = self.buffer.get(address).is_none_or(|it| it.stamp < waiting.stamp)
                && map::Version::with_difference(version, waiting.base_stamp, waiting.stamp)
                    .is_some();
            if is_newer {
                self.buffer.insert(address, waiting);
            }
        }
    }

    /// Takes what was written into the table; `records` is where the first flash page lies.
    fn apply(&mut self, changes: &[Change], records: u64, segment: u32, sequence: u64) {
        let note = |stamp| Note { stamp, segment };
        for change in changes {
            match change {
                Change::Base { address, stamp, start, .. } => {
                    let offset = records + u64::from(*start);
                    self.apply_base(*address, *stamp, offset, sequence);
                }
                Change::Difference { address, waiting, flash_page, at } => {
                    let flash_page = records + u64::from(*flash_page);
                    let record_bytes = to_u32(waiting.record.len() as u64);
                    let at = Location::new(flash_page + u64::from(*at), record_bytes, false);
                    let room_bytes = self.room_of_difference(waiting.record.len());
                    let stamp = waiting.stamp;
                    let difference = Difference { at, flash_page, stamp, room_bytes };
                    self.apply_difference(*address, waiting.base_stamp, difference, sequence);
                }
                Change::Cut { first, stamp, is_moved } => {
                    if !is_moved {
                        self.apply_cut(*first, sequence);
                    }
                    let freed = self.notes.add_cut(*first, note(*stamp));
                    self.segments.add_note(segment);
                    freed.into_iter().for_each(|freed| self.segments.remove_note(freed, sequence));
                }
                Change::Void { from, to } => {
                    let freed = self.notes.add_void(*from, note(*to));
                    self.segments.add_note(segment);
                    freed.into_iter().for_each(|freed| self.segments.remove_note(freed, sequence));
                }
            }
        }
    }

    fn apply_base(&mut self, address: PageAddress, stamp: u64, offset: u64, sequence: u64) {
        let base = Location::new(offset, self.settings.page_bytes, true);
        if let Some(freed) = self.table.set_base(address, stamp, base) {
            self.segments.add_live(offset, to_u32(self.slot_bytes() as u64));
            self.forget(freed, sequence);
        }
    }

    fn apply_difference(
        &mut self,
        address: PageAddress,
        base_stamp: u64,
        difference: Difference,
        sequence: u64,
    ) {
        if let Some(freed) = self.table.set_difference(address, base_stamp, difference) {
            self.segments.add_live(difference.flash_page, difference.room_bytes);
            self.forget(freed, sequence);
        }
    }

    fn apply_cut(&mut self, first: PageAddress, sequence: u64) {
        let gone = self.table.pages_from(first.file, first.page);
        let gone: Vec<PageAddress> = gone.map(|(address, _)| address).collect();
        for address in gone {
            let freed = self.table.remove(address);
            self.forget(freed, sequence);
        }
    }

    fn forget(&mut self, freed: Freed, sequence: u64) {
        if let Some(base) = freed.base {
            let bytes = to_u32(self.slot_bytes() as u64);
            self.segments.remove_live(base.offset_bytes(), bytes, sequence);
        }
        if let Some(difference) = freed.difference {
            let bytes = difference.room_bytes;
            self.segments.remove_live(difference.flash_page, bytes, sequence);
        }
    }

    /// Makes what was written durable.
    fn flush(&mut self) -> Result<(), StorageError> {
        if self.durable_sequence < self.last_sequence {
            self.medium.sync()?;
            self.counters.flush_count += 1;
            self.durable_sequence = self.last_sequence;
            self.claimed_sequence = self.last_claim;
        }
        self.segments.release(self.claimed_sequence);
        Ok(())
    }

    /// Where a page lies, or of what it is made; `None` if it was never written.
    fn place_of(&self, address: PageAddress) -> Option<PagePlace> {
        let place = self.table.get(address)?;
        let waits = |waiting: &&Waiting| waiting.base_stamp == place.base_stamp;
        let difference = match self.buffer.get(address).filter(waits) {
            Some(waiting) => Some(Record::waiting_difference(waiting.record.clone())),
            None => place.difference.map(|difference| Record::Stored(difference.at)),
        };
        let offset_bytes = place.base.offset_bytes();
        if difference.is_none() && self.settings.page_bytes.is_multiple_of(self.sector_bytes) {
            return Some(PagePlace::Whole { file: self.file, offset_bytes });
        }
        let file = (self.file, SEGMENTS_FILE);
        let stored = StoredPage::of_two(address, file, self.sector_bytes, place.base, difference);
        Some(PagePlace::Records(stored))
    }
}

impl Propagation for PageDifferential {
    fn data(&self) -> &Io {
        &self.io
    }

    fn locate(&self, address: PageAddress) -> Option<PagePlace> {
        self.place_of(address).filter(|_| self.medium.is_on_data())
    }

    fn needs_room_in_files(&self) -> bool {
        false
    }

    fn counts_pages_by_length(&self) -> bool {
        false
    }

    fn lets_read_past_pool(&self) -> bool {
        false
    }

    fn places_by_address(&self) -> bool {
        false
    }

    fn keeps_places(&self) -> bool {
        false
    }

    fn leaves_blank_what_was_never_written(&self) -> bool {
        false
    }

    fn uses_changes(&self) -> bool {
        false
    }

    fn start_read(&mut self, address: PageAddress, buffer: IoBuffer) -> Result<(), StorageError> {
        let place = self.place_of(address);
        if let Some(PagePlace::Records(stored)) = &place {
            let slot_bytes = self.slot_bytes() as u64;
            let pieces: Vec<u64> = stored.pieces().map(|it| it.end - it.start).collect();
            assert!(pieces.len() <= 2, "invariant 1: a page is two reads at most");
            assert!(pieces.iter().all(|&bytes| bytes <= slot_bytes), "of a flash page each");
        }
        self.reads.begin(&*self.medium, address, place, buffer)
    }

    fn next_read(&mut self) -> Option<PageRead> {
        self.reads.next(&*self.medium)
    }

    fn write(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        self.replenish()?;
        for part in pages.chunks_mut(COMPARED_AT_ONCE) {
            let bases = self.read_bases(part);
            for (page, base) in part.iter_mut().zip(bases) {
                self.place(page, base)?;
            }
        }
        self.emit()
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.counters.forced_flush_count += u64::from(!self.buffer.is_empty());
        // What is kept for cleaning is there for that, too: a sync needs no room of its own.
        self.end_cleaning()?;
        self.flush()
    }

    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        let first = PageAddress::new(file, first_page.max(1));
        if first.page == 1 {
            self.io.sync(self.file)?;
            self.counters.flush_count += 1;
        }
        unless_full(self.replenish())?;
        let stamp = self.next_stamp();
        self.batch.push_cut(first, stamp, false);
        self.write_batch(0)?;
        // Only now: where that failed, nothing is cut off, and what waits is the newest that there is.
        self.buffer.truncate(file, first.page);
        if first.page == 1 { self.flush() } else { Ok(()) }
    }

    fn room_pages(&mut self, wanted: u64) -> Result<u64, StorageError> {
        Ok(self.find_room(wanted))
    }

    fn last_write(&self) -> u64 {
        self.told_sequence
    }

    fn stored_bytes(&self, file: FileId) -> Option<u64> {
        let bytes = |(_, place): (PageAddress, &map::Place)| {
            let difference = place.difference.map_or(0, Difference::stored_bytes);
            u64::from(self.settings.page_bytes) + u64::from(difference)
        };
        Some(self.table.pages_from(file, 0).map(bytes).sum())
    }

    fn stored_files(&self) -> Vec<FileId> {
        self.table.files()
    }

    fn audit(&self) {
        self.table.audit();
        self.buffer.audit();
        self.reads.audit();
        let slot_bytes = to_u32(self.slot_bytes() as u64);
        let bases = self.table.iter().map(|(_, place)| (place.base.offset_bytes(), slot_bytes));
        let differences = self.table.iter().filter_map(|(_, place)| place.difference);
        let differences = differences.map(|it| (it.flash_page, it.room_bytes));
        self.segments.audit(bases.chain(differences), self.notes.segments());
        assert!(self.batch.is_empty(), "nothing is gathered between two calls");
        assert!(self.durable_sequence <= self.last_sequence, "what is durable was written");
        assert!(self.claimed_sequence <= self.durable_sequence, "what is said to be durable is");
    }
}
