//! Log-structured propagation (Rosenblum and Ousterhout 1992; S000 chapter 6 measures it on flash): the
//! pages of all files are appended to segments of one volume file, and a map says where each lies last.
//!
//! ```text
//!   write ─► frontier of the pool ──────┐ a partial segment at a time,
//!   victim ─► frontier of what is moved ┴► │ segment │ segment │ … │     file "segments"
//!                                          map image, another one        files "page-map-0", "-1"
//! ```
//!
//! A page is stored without its longest run of zeros ([`PagePacking::Packed`]), which for a tree that
//! is two thirds full saves a third of what is written. It then lies across sectors and cannot be read
//! in place by others ([`Propagation::locate`]); [`PagePacking::Whole`] is the other choice.
//!
//! Of a page that changed little since it was written as a whole only the difference is written
//! ([`LogStructuredSettings::difference_percent_max`]; the idea is that of the delta records of LLAMA,
//! Levandoski, Lomet and Sengupta, PVLDB 2013, and of page-differential logging, Kim, Whang and Song
//! 2010, with one difference a page). It is read beside the page and laid over it.
//!
//! 1. A page is where the map says, with the difference that a second map names laid over it, unless
//!    newer records of it wait in the pool's frontier.
//! 2. What is durable is never overwritten: no page is torn. A power cut leaves each page as it was at
//!    the last sync or in one of the writes since; all of them at the same point of their order.
//! 3. A segment is written again only when neither the durable map nor the chain of writes since then
//!    needs it (`segments`).
//! 4. A write that fails changes nothing: its records wait, and go to another segment after a
//!    checkpoint.
//! 5. A difference covers all that changed since the record that the map names. It counts until the page
//!    is written as a whole or truncated; cleaning moves both, each by itself.

mod checkpoint;
mod cleaning;
mod frontier;
mod map;
mod partial;
pub(super) mod reads;
pub(super) mod record;
mod recovery;
mod segments;
pub(super) mod settings;
pub(super) mod stored;
#[cfg(test)]
mod tests;
pub(super) mod transfer;
mod victim;

pub use settings::{LogStructuredSettings, PagePacking};
pub use stored::StoredPage;
pub use victim::SegmentVictimKind;

use super::{Media, PagePlace, PageRead, PageWrite, Propagation};
use crate::volume::Io;
use crate::{FileId, PageAddress, StorageError};
use checkpoint::FRONTIER_COUNT;
use cleaning::{Crowd, KEPT_COUNT};
use frontier::{Frontier, Position};
use map::PageMap;
use nandu_base::to_u32;
use nandu_device::IoBuffer;
use partial::{Entry, EntryKind, Header};
use reads::Reads;
use record::{Location, UNIT_BYTES};
use segments::SegmentTable;
use std::ops::Range;
use victim::VictimPolicy;

/// The frontier of pages that are written.
const HOST: usize = 0;
/// The frontier of pages that cleaning moves.
const CLEANED: usize = 1;
const SEGMENTS_FILE: &str = "segments";
/// All files that it makes on a volume.
pub(super) const FILES: [&str; 3] = [SEGMENTS_FILE, MAP_FILES[0], MAP_FILES[1]];
const MAP_FILES: [&str; 2] = ["page-map-0", "page-map-1"];

/// What was done, in bytes and counts since the propagation was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStructuredCounters {
    /// Pages that were handed in.
    pub page_write_count: u64,
    /// Bytes of their records.
    pub record_bytes: u64,
    /// How many of them went as differences.
    pub difference_count: u64,
    /// Records that cleaning moved.
    pub copied_page_count: u64,
    /// Bytes of their records.
    pub copied_bytes: u64,
    /// Bytes of partial segments: records, summaries and padding.
    pub segment_bytes_written: u64,
    /// Partial segments that were written.
    pub write_count: u64,
    /// Segments that were cleaned.
    pub cleaned_segment_count: u64,
    /// Bytes that cleaning read.
    pub cleaning_read_bytes: u64,
    /// Images of the page map that were written.
    pub checkpoint_count: u64,
    /// Bytes of these images.
    pub checkpoint_bytes: u64,
    /// Flushes of the segments.
    pub flush_count: u64,
    /// Partial segments that opening found behind the map image.
    pub recovered_write_count: u64,
}

/// The files of the segments and of the two maps.
#[derive(Clone, Copy, Debug)]
struct Files {
    segments: FileId,
    maps: [FileId; 2],
}

/// What is written of a page.
struct Form {
    kind: EntryKind,
    bytes: u32,
    /// Of a packed page.
    hole: Range<usize>,
}

impl Form {
    /// Makes the record of `page`; one that is whole ends what its differences have to cover.
    fn store(&self, page: &mut PageWrite, record: &mut [u8]) {
        match self.kind {
            EntryKind::Difference => return page.changed.pack(&page.buffer, record),
            EntryKind::Whole => record.copy_from_slice(&page.buffer),
            EntryKind::Packed | EntryKind::Truncate => {
                record::pack(&page.buffer, &self.hole, record);
            }
        }
        page.changed.clear();
    }
}

/// Pages in a log of segments.
pub struct LogStructured {
    io: Io,
    settings: LogStructuredSettings,
    sector_bytes: u32,
    files: Files,
    map: PageMap,
    /// Where the differences lie of pages that have one.
    differences: PageMap,
    segments: SegmentTable,
    frontiers: [Frontier; FRONTIER_COUNT],
    victims: Box<dyn VictimPolicy>,
    /// Which of the map files holds the durable image.
    durable_map: usize,
    /// The number of that image.
    generation: u64,
    /// The first write after that image.
    checkpoint_sequence: u64,
    /// The write that comes next.
    next_sequence: u64,
    /// All writes up to this one are durable.
    durable_sequence: u64,
    /// No write before the next checkpoint: the chain is broken, or an attempt failed.
    needs_checkpoint: bool,
    /// Bytes of partial segments since the last checkpoint.
    chain_bytes: u64,
    /// A victim is being copied: it may take the segments that are kept for that.
    is_cleaning: bool,
    /// What the file has beyond its share of what is live.
    crowd: Crowd,
    /// There is little room on the volume: no difference is written beside its page.
    is_scarce: bool,
    reads: Reads,
    counters: LogStructuredCounters,
}

impl std::fmt::Debug for LogStructured {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (pages, segments) = (self.map.page_count(), self.segments.count());
        write!(formatter, "LogStructured({pages} pages in {segments} segments)")
    }
}

impl Files {
    fn find(io: &Io) -> Result<Self, StorageError> {
        let files = io.files();
        let find = |wanted: &str| {
            let known = files.iter().find(|(_, name)| name == wanted);
            let what = || format!("file {wanted} of a log-structured database");
            known.map(|&(file, _)| file).ok_or_else(|| StorageError::NotFound { what: what() })
        };
        let maps = [find(MAP_FILES[0])?, find(MAP_FILES[1])?];
        Ok(Self { segments: find(SEGMENTS_FILE)?, maps })
    }
}

impl LogStructured {
    /// Makes the files of an empty propagation. It is there when this returns, durably.
    ///
    /// # Errors
    /// If a setting makes no sense, the files exist, or the device has no room or fails.
    pub fn create(media: Media, settings: LogStructuredSettings) -> Result<Self, StorageError> {
        let io = media.data();
        settings.check(io.sector_bytes())?;
        let segments = io.create(SEGMENTS_FILE)?;
        let maps = [io.create(MAP_FILES[0])?, io.create(MAP_FILES[1])?];
        for file in [segments, maps[0], maps[1]] {
            io.sync(file)?;
        }
        let mut created = Self::assemble(media, settings, Files { segments, maps });
        created.checkpoint()?;
        Ok(created)
    }

    /// Whether there is one on the volume, or a part of one.
    #[must_use]
    pub fn is_on(io: &Io) -> bool {
        let is_ours = |name: &str| name == SEGMENTS_FILE || MAP_FILES.contains(&name);
        io.files().iter().any(|(_, name)| is_ours(name))
    }

    /// What was done so far.
    #[must_use]
    pub const fn counters(&self) -> LogStructuredCounters {
        self.counters
    }

    /// Bytes of the records that are live, and of the file that holds them.
    #[must_use]
    pub fn live_and_file_bytes(&self) -> (u64, u64) {
        let segment_bytes = u64::from(self.settings.segment_bytes);
        (self.segments.live_bytes(), u64::from(self.segments.count()) * segment_bytes)
    }

    fn assemble(media: Media, settings: LogStructuredSettings, files: Files) -> Self {
        let io = media.into_data();
        Self {
            sector_bytes: io.sector_bytes(),
            files,
            map: PageMap::default(),
            differences: PageMap::default(),
            segments: SegmentTable::new(settings.segment_bytes),
            frontiers: [(); FRONTIER_COUNT].map(|()| Frontier::new(Position::default())),
            victims: settings.victim.build(),
            durable_map: 0,
            generation: 0,
            checkpoint_sequence: 1,
            next_sequence: 1,
            durable_sequence: 0,
            needs_checkpoint: true,
            chain_bytes: 0,
            is_cleaning: false,
            crowd: Crowd::default(),
            is_scarce: false,
            reads: Reads::default(),
            counters: LogStructuredCounters::default(),
            io,
            settings,
        }
    }

    /// Records of this kind start at multiples of this.
    const fn alignment_of(&self, kind: EntryKind) -> u32 {
        match kind {
            EntryKind::Whole => self.sector_bytes,
            EntryKind::Packed | EntryKind::Truncate | EntryKind::Difference => UNIT_BYTES,
        }
    }

    /// Bytes of the partial segment that a frontier gathers, at most.
    fn room(&self, which: usize) -> u32 {
        let Position { segment, offset, .. } = self.frontiers[which].position;
        let left = segment.map_or(u32::MAX, |_| self.settings.segment_bytes - offset);
        left.min(self.settings.write_bytes)
    }

    fn fits(&self, which: usize, record_bytes: u32, alignment: u32) -> bool {
        let room = self.room(which);
        self.frontiers[which].fits(record_bytes, alignment, room, self.sector_bytes)
    }

    /// What of a sealed page is to be written: its difference, or all of it.
    fn form_of(&self, page: &PageWrite) -> Form {
        let bytes = page.changed.record_bytes();
        let bytes_max =
            self.settings.page_bytes as usize / 100 * self.settings.difference_percent_max as usize;
        let has_base = || {
            !self.map.get(page.address).is_none()
                && self.frontiers[HOST].find(page.address).is_none()
        };
        let is_known = !self.is_scarce && !page.is_new && !page.changed.as_slice().is_empty();
        if is_known && bytes <= bytes_max && has_base() {
            return Form { kind: EntryKind::Difference, bytes: to_u32(bytes as u64), hole: 0..0 };
        }
        if self.settings.is_whole(self.sector_bytes) {
            return Form { kind: EntryKind::Whole, bytes: self.settings.page_bytes, hole: 0..0 };
        }
        let hole = record::hole_of(&page.buffer);
        let bytes = record::packed_bytes(&page.buffer, &hole);
        Form { kind: EntryKind::Packed, bytes, hole }
    }

    /// Puts the record of a sealed page into the pool's frontier.
    fn append(&mut self, page: &mut PageWrite) -> Result<(), StorageError> {
        let form = self.form_of(page);
        let Form { kind, bytes, .. } = form;
        let (address, alignment) = (page.address, self.alignment_of(kind));
        self.counters.page_write_count += 1;
        self.counters.record_bytes += u64::from(bytes.next_multiple_of(UNIT_BYTES));
        self.counters.difference_count += u64::from(kind == EntryKind::Difference);
        if let Some(record) = self.frontiers[HOST].replace(kind, address, bytes) {
            form.store(page, record);
            return Ok(());
        }
        if !self.fits(HOST, bytes, alignment) {
            self.emit(HOST)?;
            self.replenish()?;
            // Cleaning, which `replenish` may have done, may have put copies of its own into this
            // frontier: write them out until the record fits.
            while !self.fits(HOST, bytes, alignment) {
                self.emit(HOST)?;
            }
        }
        form.store(page, self.frontiers[HOST].push(kind, address, bytes, alignment, None));
        Ok(())
    }

    /// Notes that the pages of a file from `first` on are gone, and writes that.
    fn append_truncate(&mut self, first: PageAddress) -> Result<(), StorageError> {
        let alignment = self.alignment_of(EntryKind::Truncate);
        if !self.fits(HOST, 0, alignment) {
            self.emit(HOST)?;
        }
        // Only now: had that been written without the records of these pages, a power cut would show
        // the file as it was, without its last writes, beside later ones of others (invariant 2).
        self.frontiers[HOST].truncate(first.file, first.page);
        self.frontiers[HOST].push(EntryKind::Truncate, first, 0, alignment, None);
        self.emit(HOST)
    }

    /// Writes what waits in a frontier as a partial segment.
    fn emit(&mut self, which: usize) -> Result<(), StorageError> {
        self.drop_stale_copies(which);
        if self.frontiers[which].is_idle() {
            self.frontiers[which].clear();
            return Ok(());
        }
        self.prepare(which)?;
        let frontier = &self.frontiers[which];
        let Position { segment, offset, next } = frontier.position;
        let segment = segment.expect("a segment was opened");
        let entries: Vec<Entry> = frontier.alive().map(|waiting| waiting.entry).collect();
        let records_end = frontier.bytes().len();
        let length = partial::sealed_bytes(records_end, entries.len(), self.sector_bytes);
        let mut buffer = transfer::buffer(&self.io, length);
        buffer[..records_end].copy_from_slice(frontier.bytes());
        let header = Header {
            generation: self.generation,
            sequence: self.next_sequence,
            durable_sequence: self.durable_sequence,
            segment,
            next_segment: next,
            frontier: to_u32(which as u64).to_be_bytes()[3],
            byte_count: to_u32(length as u64),
        };
        partial::seal(&mut buffer, records_end, &header, &entries);
        let start = u64::from(segment) * u64::from(self.settings.segment_bytes);
        let file = self.files.segments;
        if let Err(error) = transfer::write(&self.io, file, start + u64::from(offset), buffer) {
            // The sectors there may be bad: the records stay in memory, and go to another segment.
            self.leave_segment(which);
            self.needs_checkpoint = true;
            return Err(error);
        }
        self.apply(&header, offset, &entries);
        self.frontiers[which].clear();
        self.frontiers[which].position.offset = offset + header.byte_count;
        self.close_if_full(which);
        self.chain_bytes += length as u64;
        self.counters.segment_bytes_written += length as u64;
        self.counters.write_count += 1;
        Ok(())
    }

    /// Copies of pages that were written or truncated since are not worth writing.
    fn drop_stale_copies(&mut self, which: usize) {
        let Self { map, differences, frontiers, .. } = self;
        let present = |entry: &Entry| match entry.kind {
            EntryKind::Difference => differences.get(entry.address),
            EntryKind::Packed | EntryKind::Whole | EntryKind::Truncate => map.get(entry.address),
        };
        frontiers[which].retain(|waiting| {
            waiting.source.is_none_or(|source| present(&waiting.entry) == source)
        });
    }

    /// Sees to it that a frontier has an open segment with room for what waits, and that recovery will
    /// find it.
    fn prepare(&mut self, which: usize) -> Result<(), StorageError> {
        let frontier = &self.frontiers[which];
        let waiting_bytes = partial::sealed_bytes(
            frontier.bytes().len(),
            frontier.alive().count(),
            self.sector_bytes,
        );
        if waiting_bytes > self.room(which) as usize {
            self.leave_segment(which);
        }
        if self.frontiers[which].position.segment.is_none() {
            let segment = match self.frontiers[which].position.next.take() {
                Some(named) => named,
                None => {
                    let segment = self.take_segment(which)?;
                    // A segment is found after a restart because the one before it names it. This
                    // one was not named, so only a checkpoint can lead to it.
                    self.needs_checkpoint = true;
                    segment
                }
            };
            self.reads.settle(&self.io);
            self.segments.open(segment);
            // Copies out of it are out of date, and must not seem to be of what is written there now.
            for frontier in &mut self.frontiers {
                let segments = &self.segments;
                let is_from = |source| segments.of(source) == segment;
                frontier.retain(|waiting| !waiting.source.is_some_and(is_from));
            }
            let next = self.segments.name(self.kept_count(which));
            self.frontiers[which].position = Position { segment: Some(segment), offset: 0, next };
        }
        if self.needs_checkpoint {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Names a free segment, with flush, checkpoint or a longer file where none is free.
    fn take_segment(&mut self, which: usize) -> Result<u32, StorageError> {
        let kept = self.kept_count(which);
        if let Some(segment) = self.segments.name(kept) {
            return Ok(segment);
        }
        if which == HOST {
            self.emit(CLEANED)?;
        }
        if self.segments.empty_count() > 0 {
            self.make_durable()?;
            if let Some(segment) = self.segments.name(kept) {
                return Ok(segment);
            }
        }
        if self.segments.empty_count() > 0 {
            self.checkpoint()?;
            if let Some(segment) = self.segments.name(kept) {
                return Ok(segment);
            }
        }
        while self.grow()? {
            if let Some(segment) = self.segments.name(kept) {
                return Ok(segment);
            }
        }
        let what = "no segment of the log-structured database can be freed; make room on the \
                    device, or drop a table"
            .to_owned();
        Err(StorageError::NoSpace { what })
    }

    /// How many free segments a frontier leaves to cleaning.
    const fn kept_count(&self, which: usize) -> u32 {
        if which == HOST && !self.is_cleaning { KEPT_COUNT } else { 0 }
    }

    fn leave_segment(&mut self, which: usize) {
        let position = &mut self.frontiers[which].position;
        position.offset = 0;
        if let Some(segment) = position.segment.take() {
            self.segments.close(segment);
        }
    }

    /// Leaves a segment that has no room for the largest record.
    fn close_if_full(&mut self, which: usize) {
        let page_bytes = self.settings.page_bytes;
        let start = partial::HEADER_BYTES.next_multiple_of(self.sector_bytes as usize);
        let end = start + record::packed_bytes_max(page_bytes) as usize;
        if (self.room(which) as usize) < partial::sealed_bytes(end, 1, self.sector_bytes) {
            self.leave_segment(which);
        }
    }

    /// Takes a partial segment at `offset` of its segment into the map.
    fn apply(&mut self, header: &Header, offset: u32, entries: &[Entry]) {
        let Header { sequence, segment, byte_count, .. } = *header;
        let start = u64::from(segment) * u64::from(self.settings.segment_bytes) + u64::from(offset);
        let Self { map, differences, segments, .. } = self;
        segments.note_write(segment, offset + byte_count, sequence);
        for entry in entries {
            let Entry { kind, address, .. } = *entry;
            let mut forget = |location: Location| {
                if !location.is_none() {
                    segments.remove_live(location, sequence);
                }
            };
            if kind == EntryKind::Truncate {
                map.truncate(address.file, address.page, &mut forget);
                differences.truncate(address.file, address.page, &mut forget);
                continue;
            }
            let is_difference = kind == EntryKind::Difference;
            if !is_difference && !entry.is_moved {
                forget(differences.remove(address));
            }
            let offset = start + u64::from(entry.start);
            let location = Location::new(offset, entry.stored_bytes, kind == EntryKind::Whole);
            let before =
                if is_difference { &mut *differences } else { &mut *map }.set(address, location);
            forget(before);
            segments.add_live(location);
        }
        self.next_sequence = sequence + 1;
    }

    /// Flushes the segments, and frees those that are not needed any more.
    fn make_durable(&mut self) -> Result<(), StorageError> {
        let last = self.next_sequence - 1;
        if self.durable_sequence < last || self.needs_checkpoint {
            self.io.sync(self.files.segments)?;
            self.counters.flush_count += 1;
            self.durable_sequence = last;
        }
        self.release();
        Ok(())
    }

    fn release(&mut self) {
        if !self.needs_checkpoint {
            self.segments.release(self.durable_sequence, self.checkpoint_sequence);
        }
    }
}

impl Propagation for LogStructured {
    fn data(&self) -> &Io {
        &self.io
    }

    fn locate(&self, address: PageAddress) -> Option<PagePlace> {
        self.place_on_device(address)
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
        true
    }

    fn start_read(&mut self, address: PageAddress, buffer: IoBuffer) -> Result<(), StorageError> {
        let place = self.place_of(address);
        self.reads.begin(&self.io, address, place, buffer)
    }

    fn next_read(&mut self) -> Option<PageRead> {
        self.reads.next(&self.io)
    }

    fn write(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        self.replenish()?;
        pages.iter_mut().try_for_each(|page| self.append(page))
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.emit(HOST)?;
        self.make_durable()
    }

    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        let is_whole = first_page <= 1;
        if is_whole {
            self.io.sync(self.files.segments)?;
            self.counters.flush_count += 1;
        }
        match self.append_truncate(PageAddress::new(file, first_page.max(1))) {
            Err(StorageError::NoSpace { .. }) => {}
            Ok(()) if is_whole => return self.make_durable(),
            answer => return answer,
        }
        // Without room for a record of the truncation it becomes durable with the next checkpoint
        // of the map.
        self.frontiers[HOST].truncate(file, first_page);
        // It is no write of its own: the segments that become empty are free with that checkpoint.
        let last = self.next_sequence - 1;
        let Self { map, differences, segments, .. } = self;
        for map in [map, differences] {
            map.truncate(file, first_page, |location| segments.remove_live(location, last));
        }
        self.checkpoint()
    }

    fn room_pages(&mut self, wanted: u64) -> Result<u64, StorageError> {
        self.find_room(wanted)
    }

    fn last_write(&self) -> u64 {
        self.next_sequence - 1
    }

    fn stored_bytes(&self, file: FileId) -> Option<u64> {
        Some(self.map.stored_bytes(file) + self.differences.stored_bytes(file))
    }

    fn stored_files(&self) -> Vec<FileId> {
        self.map.files()
    }

    fn audit(&self) {
        self.map.audit();
        self.differences.audit();
        for (page, _) in self.differences.iter() {
            assert!(!self.map.get(page).is_none(), "invariant 5: {page} has what it differs from");
        }
        let records = self.map.iter().chain(self.differences.iter());
        let locations = records.map(|(_, location)| location);
        self.segments.audit(locations, self.checkpoint_sequence);
        for waiting in self.frontiers[HOST].alive() {
            let page = waiting.entry.address;
            let is_current = waiting.source.is_none_or(|source| self.map.get(page) == source);
            assert!(is_current, "a copy of {page} hides what was written since");
        }
        for source in self.frontiers.iter().flat_map(Frontier::alive).filter_map(|it| it.source) {
            let known = self.segments.get(self.segments.of(source));
            let is_old = known.state != segments::SegmentState::Open;
            assert!(is_old, "what a copy came from is written again, and may look like it");
        }
        for (which, frontier) in self.frontiers.iter().enumerate() {
            frontier.audit(self.room(which));
            let Position { segment, next, .. } = frontier.position;
            let state = |segment: u32| self.segments.get(segment).state;
            assert!(segment.is_none_or(|segment| state(segment) == segments::SegmentState::Open));
            assert!(next.is_none_or(|segment| state(segment) == segments::SegmentState::Named));
        }
        assert!(self.durable_sequence < self.next_sequence, "what is durable was written");
        assert!(self.checkpoint_sequence <= self.next_sequence, "the image is not of the future");
        self.reads.audit();
    }
}
