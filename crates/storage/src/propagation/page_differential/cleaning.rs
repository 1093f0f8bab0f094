//! Cleaning: of a victim the base pages that are live are copied, and its valid differentials join those
//! that wait, so that they fill differential pages with others (the paper's compaction); one that would
//! share its flash page with none is laid over its base page. The victim is free once that is durable.
//!
//! ```text
//!   replenish: while the supply is low ─► make what is empty free
//!                                      ├► make the file longer, if it may be
//!                                      └► clean the segment that has least live in it
//! ```
//!
//! 1. Whatever else is written leaves [`KEPT_COUNT`] segments free, so that cleaning never lacks one.
//! 2. Where differentials fill most of their share of the spare room, cleaning lays them over the base
//!    pages that it moves, which takes no more than to move these.
//! 3. A differential counts as much as it may take of flash pages that are filled one behind the other:
//!    a victim that seems to gain something does. One of more than half a flash page takes all of it to
//!    be moved, and no more to be laid over its base page, whose room is gained.
//! 4. A victim that cannot be read whole is cleaned if all that is live in it is found and has its
//!    checksum. Else it is let be.
//! 5. On a full volume new pages find no room once all base pages would leave less than a [`SPARE_PART`]
//!    of the segments, and there are no new differentials then. So pages that are there can be changed
//!    and taken away.

use super::PageDifferential;
use super::differential::{Found, Waiting, differentials_of, stored_bytes};
use super::map::Place;
use super::medium::unless_unreadable;
use super::notes::Note;
use super::summary::{Entry, EntryKind, read_summary};
use crate::page::page_is_sound;
use crate::propagation::ChangedRanges;
use crate::{PageAddress, StorageError};
use nandu_base::{to_index, to_u32};

/// Free segments that only cleaning may take.
pub(super) const KEPT_COUNT: u32 = 2;
/// A segment is not worth cleaning if less than this part of it is gained.
const GAIN_PART: u32 = 32;
/// So large a part of the segments is never filled with base pages, where there can be no more.
const SPARE_PART: u32 = 8;
/// The same where a write takes more than its sectors.
const SPARE_PART_OF_UNITS: u32 = 3;
/// And so many segments of them at least.
const SPARE_COUNT_MIN: u32 = 2;
/// The segment that is written, and one that is left before it is full.
const OPEN_SEGMENT_COUNT: u32 = 2;
/// More notes than this, and one for each segment, have the oldest segment cleaned, so that some can be
/// dropped.
const NOTE_COUNT_MAX: usize = 64;
/// How many segments may be too many before some are given back.
const EXTRA_COUNT_MAX: u32 = 4;

impl PageDifferential {
    /// Bytes of flash pages that a segment holds.
    fn dense_bytes(&self) -> u64 {
        let dense_count = self.settings.dense_slot_count(self.sector_bytes);
        u64::from(dense_count) * self.slot_bytes() as u64
    }

    /// What a differential may take of flash pages, whichever others it shares one with. Those that are
    /// filled one behind the other are left once the next differential does not fit: blank is less than
    /// the largest that may come.
    pub(super) fn room_of_difference(&self, record_bytes: usize) -> u32 {
        let (bytes, slot_bytes) = (stored_bytes(record_bytes), self.slot_bytes());
        if self.is_large(bytes) {
            return to_u32(slot_bytes as u64);
        }
        let largest = (self.settings.difference_bytes_max as usize).clamp(bytes, slot_bytes / 2);
        to_u32((bytes as u64 * slot_bytes as u64).div_ceil((slot_bytes - largest) as u64))
    }

    /// Whether a differential of so many bytes, as it is stored, has a flash page to itself.
    fn is_large(&self, stored_bytes: usize) -> bool {
        2 * stored_bytes > self.slot_bytes()
    }

    /// The most segments that the file may have for the pages that there are.
    pub(super) fn segment_count_max(&self) -> u32 {
        let wanted = self.segment_count_share().saturating_add(self.crowd_count);
        self.medium.fixed_segment_count().map_or(wanted, |count| wanted.min(count))
    }

    /// The same, but for those that came since cleaning gained nothing.
    fn segment_count_share(&self) -> u32 {
        let base_bytes = self.table.page_count() * self.slot_bytes() as u64;
        let filled = base_bytes.div_ceil(self.dense_bytes());
        let percent = 100 + u64::from(self.settings.spare_percent);
        let at_least = filled + u64::from(self.settings.spare_segment_count);
        let count = (filled * percent).div_ceil(100).max(at_least);
        u32::try_from(count).unwrap_or(u32::MAX - 1)
    }

    /// Whether differentials have all the room that they may have.
    pub(super) fn is_pressed(&self) -> bool {
        let waiting_bytes = 2 * self.buffer.used_bytes() as u64;
        let bytes = self.table.difference_room_bytes() + waiting_bytes;
        self.is_scarce || bytes >= self.difference_bytes_max
    }

    /// Whether they have most of it.
    fn is_nearly_pressed(&self) -> bool {
        self.is_scarce || self.table.difference_room_bytes() >= self.difference_bytes_max / 8 * 7
    }

    /// Half of what is to spare, where the file gets as long as it may.
    fn find_difference_bytes_max(&self) -> u64 {
        let can_be = self.medium.segment_count_max().unwrap_or(u64::MAX);
        let count = u64::from(self.segment_count_share()).min(can_be);
        let held = u64::from(self.settings.reserve_segment_count + OPEN_SEGMENT_COUNT);
        let base_bytes = self.table.page_count() * self.slot_bytes() as u64;
        let bytes = count.saturating_sub(held) * self.dense_bytes();
        bytes.saturating_sub(base_bytes) / 2
    }

    /// How many pages that have no place yet can be written.
    pub(super) fn find_room(&mut self, wanted: u64) -> u64 {
        let Some(count) = self.medium.segment_count_max() else { return u64::MAX };
        let room = self.room_of(count);
        self.is_scarce = room < wanted;
        room
    }

    /// The same, with what there may be now; where nobody knows that, with what there is.
    fn room_now(&self) -> u64 {
        let found_count = u64::from(self.medium.found_count());
        self.room_of(self.medium.segment_count_max().unwrap_or(found_count))
    }

    /// The same with so many segments.
    fn room_of(&self, count: u64) -> u64 {
        // Where writes take whole units, less of a segment is pages than at best.
        let has_units = self.medium.write_unit_bytes() > self.sector_bytes;
        let part = if has_units { SPARE_PART_OF_UNITS } else { SPARE_PART };
        let spare = (count / u64::from(part)).max(u64::from(SPARE_COUNT_MIN));
        let kept = self.settings.reserve_segment_count.max(KEPT_COUNT) + OPEN_SEGMENT_COUNT;
        let left = count.saturating_sub(spare + u64::from(kept)) * self.dense_bytes();
        let left =
            left.saturating_sub(self.table.difference_room_bytes()) / self.slot_bytes() as u64;
        left.saturating_sub(self.table.page_count())
    }

    /// Makes room for one more segment; false if there is none.
    pub(super) fn grow(&mut self) -> Result<bool, StorageError> {
        if !self.medium.grow_to(self.segments.count() + 1)? {
            self.is_scarce = self.room_now() == 0;
            return Ok(false);
        }
        self.segments.push((0, 0), 0);
        Ok(true)
    }

    /// Sees to it that segments are there to be written.
    pub(super) fn replenish(&mut self) -> Result<(), StorageError> {
        self.medium.set_is_cleaning(true);
        let answer = self.free_some();
        self.medium.set_is_cleaning(false);
        answer
    }

    fn free_some(&mut self) -> Result<(), StorageError> {
        self.difference_bytes_max = self.find_difference_bytes_max();
        // Pages may have gone since, or differentials: who only changes pages asks for no room.
        self.is_scarce = self.is_scarce && self.room_now() == 0;
        self.prune();
        self.give_back()?;
        if self.notes.count() > NOTE_COUNT_MAX + self.segments.count() as usize
            && let Some(oldest) = self.segments.oldest_closed()
        {
            self.clean(oldest)?;
            self.end_cleaning()?;
        }
        // Each victim frees a part of a segment at least, so this number of them frees all that can
        // be freed. The limit ends the loop should the accounts of live bytes ever be wrong.
        let mut victims_left = self.segments.count() * GAIN_PART / 8 + 16;
        // Victims of which the differentials may still wait: they fill flash pages together.
        let mut cleaned_count = 0;
        loop {
            let Self { segments, settings, .. } = self;
            let (free_count, supply_count) = (segments.free_count(), segments.supply_count());
            let reserve_count = settings.reserve_segment_count;
            let is_due = supply_count + cleaned_count > reserve_count || free_count < KEPT_COUNT;
            if cleaned_count > 0 && is_due {
                self.end_cleaning()?;
                cleaned_count = 0;
                continue;
            }
            // As late as can be, so that one flush frees several.
            let has_supply = supply_count > reserve_count;
            let least = if has_supply { KEPT_COUNT + 1 } else { KEPT_COUNT };
            if free_count < least {
                self.free_what_is_empty()?;
            }
            if has_supply && self.segments.free_count() > KEPT_COUNT {
                return Ok(());
            }
            if self.segments.count() < self.segment_count_max() && self.grow()? {
                continue;
            }
            match self.find_victim().filter(|_| victims_left > 0) {
                Some(victim) => {
                    self.clean(victim)?;
                    cleaned_count += 1;
                }
                None if cleaned_count > 0 => {
                    self.end_cleaning()?;
                    cleaned_count = 0;
                }
                None if self.grow()? => self.crowd_count += 1,
                None => return Ok(()),
            }
            victims_left = victims_left.saturating_sub(1);
        }
    }

    /// The segment where cleaning gains most, if that is worth it.
    fn find_victim(&self) -> Option<u32> {
        let dense_bytes = to_u32(self.dense_bytes());
        // What is moved may take another summary, and leave less than a page behind it.
        let least_gain = to_u32(self.slot_bytes() as u64) + self.sector_bytes;
        let gain_bytes = (dense_bytes / GAIN_PART).max(least_gain);
        self.segments.emptiest(dense_bytes - gain_bytes)
    }

    /// Drops notes of what no segment has any more.
    fn prune(&mut self) {
        if self.is_pruned || self.notes.count() == 0 {
            return;
        }
        self.is_pruned = true;
        let last = self.last_sequence;
        for segment in self.notes.prune(self.segments.oldest_sequence()) {
            self.segments.remove_note(segment, last);
        }
    }

    /// Cuts off free segments at the end that are too many by far.
    fn give_back(&mut self) -> Result<(), StorageError> {
        let count_max = self.segment_count_max();
        let is_fixed = self.medium.fixed_segment_count().is_some();
        if is_fixed || self.segments.count() <= count_max + EXTRA_COUNT_MAX {
            return Ok(());
        }
        let mut is_shorter = false;
        while self.segments.cut(count_max) {
            is_shorter = true;
        }
        if is_shorter {
            self.reads.settle(&*self.medium);
            self.medium.shrink_to(self.segments.count())?;
        }
        Ok(())
    }

    /// Has a durable write say that what emptied segments is durable: they are free then.
    fn free_what_is_empty(&mut self) -> Result<(), StorageError> {
        self.flush()?;
        let is_new = self.last_claim < self.durable_sequence;
        if is_new && self.segments.supply_count() > self.segments.free_count() {
            self.write_batch(0)?;
            self.flush()?;
        }
        Ok(())
    }

    fn clean(&mut self, victim: u32) -> Result<(), StorageError> {
        self.is_cleaning = true;
        let answer = self.move_live(victim);
        self.is_cleaning = false;
        if let Err(error) = &answer {
            // A read may have failed when something was gathered, which is neither in the buffer nor in the
            // table then.
            self.take_back();
            if matches!(error, StorageError::NoSpace { .. }) {
                self.segments.unpick(victim);
            }
        }
        answer
    }

    /// Writes the differentials of victims that wait still.
    pub(super) fn end_cleaning(&mut self) -> Result<(), StorageError> {
        self.is_cleaning = true;
        let answer = self.flush_buffer().and_then(|()| self.emit());
        self.is_cleaning = false;
        answer
    }

    fn move_live(&mut self, victim: u32) -> Result<(), StorageError> {
        self.segments.set_picked(victim);
        let start = u64::from(victim) * u64::from(self.settings.segment_bytes);
        let used_bytes = self.segments.get(victim).used_bytes as usize;
        let (bytes, gap) = self.medium.read_what_can_be(start, used_bytes)?;
        let mut entries = self.entries_of(victim, &bytes);
        if gap.is_some() {
            let sum = |entry: &Entry| crc32c::crc32c(self.flash_page(entry, &bytes));
            entries.retain(|entry| !entry.has_flash_page() || sum(entry) == entry.sum);
        }
        let live_bytes = entries.iter().map(|entry| self.live_bytes_of(entry, &bytes, start));
        if live_bytes.sum::<u32>() < self.segments.get(victim).live_bytes {
            // It is damaged, or cannot be read. What it holds is still read by the table; let it be.
            return Ok(());
        }
        self.counters.cleaned_segment_count += 1;
        // First, since a base page over which one of them is laid need not be moved.
        for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Differentials) {
            self.compact(entry, &bytes, start)?;
        }
        for entry in &entries {
            match entry.kind {
                EntryKind::Base => self.move_base(entry, &bytes, start)?,
                EntryKind::Differentials => {}
                EntryKind::Truncated | EntryKind::Void => self.move_note(entry, victim)?,
            }
        }
        self.emit()
    }

    /// What was written to a segment, which holds `bytes`; starts count from that of the segment.
    fn entries_of(&self, segment: u32, bytes: &[u8]) -> Vec<Entry> {
        let (mut offset, mut entries) = (0, Vec::new());
        while let Some(summary) = read_summary(&bytes[offset..]) {
            let header = summary.header;
            if header.segment != segment || bytes.len() - offset < header.byte_count as usize {
                break;
            }
            let start = to_u32(offset as u64);
            let moved = summary.entries.into_iter();
            entries.extend(moved.map(|entry| Entry { start: start + entry.start, ..entry }));
            offset += header.byte_count as usize;
        }
        entries
    }

    fn flash_page<'a>(&self, entry: &Entry, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[entry.start as usize..entry.start as usize + self.slot_bytes()]
    }

    /// The page of a base page, if it is live.
    fn live_base(&self, entry: &Entry, start: u64) -> Option<Place> {
        let place = *self.table.get(entry.page())?;
        (place.base.offset_bytes() == start + u64::from(entry.start)).then_some(place)
    }

    /// The page of a differential, if it is valid.
    fn valid(&self, found: &Found<'_>, flash_page: u64) -> Option<Place> {
        let place = *self.table.get(found.address)?;
        let difference = place.difference?;
        let is_there = difference.flash_page == flash_page
            && difference.at.offset_bytes() == flash_page + found.at as u64;
        is_there.then_some(place)
    }

    fn live_bytes_of(&self, entry: &Entry, bytes: &[u8], start: u64) -> u32 {
        match entry.kind {
            EntryKind::Base => {
                self.live_base(entry, start).map_or(0, |_| to_u32(self.slot_bytes() as u64))
            }
            EntryKind::Differentials => {
                let flash_page = start + u64::from(entry.start);
                let found = differentials_of(self.flash_page(entry, bytes));
                let valid = found.filter(|found| self.valid(found, flash_page).is_some());
                valid.map(|found| self.room_of_difference(found.record.len())).sum()
            }
            EntryKind::Truncated | EntryKind::Void => 0,
        }
    }

    fn move_base(&mut self, entry: &Entry, bytes: &[u8], start: u64) -> Result<(), StorageError> {
        self.make_room_in_batch()?;
        let Some(place) = self.live_base(entry, start) else { return Ok(()) };
        let address = entry.page();
        let can_be_large = self.is_large(self.settings.difference_bytes_max as usize);
        if can_be_large && self.batch.has_base_of(address) {
            return Ok(());
        }
        let page_bytes = self.settings.page_bytes as usize;
        let base = &self.flash_page(entry, bytes)[..page_bytes];
        // What is gathered is newer than what the table has.
        if self.is_nearly_pressed()
            && !self.batch.has_difference_of(address)
            && let Some(merged) = self.merge(address, &place, base)?
        {
            let stamp = self.next_stamp();
            self.push_base(address, stamp, &merged);
            self.counters.merged_count += 1;
            return Ok(());
        }
        let slot_bytes = self.slot_bytes();
        self.batch.push_base((address, entry.stamp), base, slot_bytes, None);
        self.counters.moved_base_count += 1;
        Ok(())
    }

    /// A base page with its differential laid over it, if it has one.
    fn merge(
        &self,
        address: PageAddress,
        place: &Place,
        base: &[u8],
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let mut page = base.to_vec();
        let waiting = self.buffer.get(address).filter(|it| it.base_stamp == place.base_stamp);
        let laid = match (waiting, place.difference) {
            (Some(waiting), _) => ChangedRanges::unpack(&waiting.record, &mut page),
            (None, Some(difference)) => {
                let sector_bytes = u64::from(self.sector_bytes);
                let from = difference.at.offset_bytes() / sector_bytes * sector_bytes;
                let end = difference.at.end().next_multiple_of(sector_bytes);
                let sectors = unless_unreadable(self.medium.read(from, to_index(end - from)))?;
                // Then the differential stays where it is, for whoever reads the page.
                let Ok(sectors) = sectors else { return Ok(None) };
                let skipped = to_index(difference.at.offset_bytes() - from);
                ChangedRanges::unpack(&sectors[skipped..], &mut page)
            }
            (None, None) => None,
        };
        Ok(laid.filter(|_| page_is_sound(&page, address)).map(|_| page))
    }

    /// Has the valid differentials of a flash page wait with the others, or lays them over their base pages.
    fn compact(&mut self, entry: &Entry, bytes: &[u8], start: u64) -> Result<(), StorageError> {
        let flash_page = start + u64::from(entry.start);
        for found in differentials_of(self.flash_page(entry, bytes)) {
            let Some(place) = self.newest(&found, flash_page) else { continue };
            let bytes = stored_bytes(found.record.len());
            if self.is_large(bytes)
                && let Some(merged) = self.lay_over_base(&found, &place)
            {
                self.make_room_in_batch()?;
                let stamp = self.next_stamp();
                self.push_base(found.address, stamp, &merged);
                self.counters.merged_count += 1;
                continue;
            }
            if self.buffer.used_bytes() + bytes > self.slot_bytes() {
                self.flush_buffer()?;
            }
            let (stamp, record) = (found.stamp, found.record.to_vec());
            let waiting = Waiting { stamp, base_stamp: place.base_stamp, record };
            self.buffer.insert(found.address, waiting);
        }
        Ok(())
    }

    /// The page of a differential that is valid, and newer than what waits or is gathered.
    fn newest(&self, found: &Found<'_>, flash_page: u64) -> Option<Place> {
        let waiting = self.buffer.get(found.address);
        let is_newest = waiting.is_none_or(|waiting| waiting.stamp < found.stamp)
            && !self.batch.has_difference_of(found.address);
        self.valid(found, flash_page).filter(|_| is_newest)
    }

    /// The page that a differential makes of its base page. Where that cannot be read there is none: whoever
    /// wants the page is told.
    fn lay_over_base(&self, found: &Found<'_>, place: &Place) -> Option<Vec<u8>> {
        let base = self.medium.read(place.base.offset_bytes(), self.slot_bytes()).ok()?;
        let mut page = base[..self.settings.page_bytes as usize].to_vec();
        ChangedRanges::unpack(found.record, &mut page)?;
        page_is_sound(&page, found.address).then_some(page)
    }

    fn move_note(&mut self, entry: &Entry, victim: u32) -> Result<(), StorageError> {
        self.make_room_in_batch()?;
        let here = Some(Note { stamp: entry.stamp, segment: victim });
        match entry.kind {
            EntryKind::Truncated if self.notes.cut(entry.page()) == here => {
                self.batch.push_cut(entry.page(), entry.stamp, true);
            }
            EntryKind::Void if self.notes.void(entry.address) == here => {
                self.batch.push_void(entry.address, entry.stamp);
            }
            _ => {}
        }
        Ok(())
    }
}
