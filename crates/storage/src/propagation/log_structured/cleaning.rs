//! Cleaning: what is still live in a victim is copied to a frontier; the victim is empty when the
//! copies are written, and free when they are durable.
//!
//! ```text
//!   replenish: while the supply is low ─► make the file longer, if it may be
//!                                      └► else clean the victim that the policy chooses
//! ```
//!
//! 1. A copy counts only if the page still lies where it was copied from when the copy is written, and one
//!    that waits in the pool's frontier, where readers look first, if that is so all the time.
//! 2. Segments that clients of the propagation fill leave [`KEPT_COUNT`] free, so that cleaning never
//!    lacks one to write to.
//! 3. On a full volume new pages find no room ([`LogStructured::find_room`]) once all pages, each as long as
//!    it may become, would leave less than a [`SPARE_PART`] of the segments beside those that cleaning and
//!    the frontiers hold: several times what makes a victim worth it. Nor are there new differences then.
//!    So pages that are there can be changed and taken away. The files of the map have room for all of
//!    them, with a difference each, before they are made.
//! 4. Where victims do not give what they promise, since records do not fill segments as closely as they
//!    might, the file gets longer than the share of what is live ([`Crowd`]).

use super::partial::{Entry, EntryKind, read_summary};
use super::record::Location;
use super::{CLEANED, HOST, LogStructured, transfer};
use crate::error::unless_full;
use crate::{PageAddress, StorageError};
use std::ops::Range;

/// Free segments that only cleaning may take.
pub(super) const KEPT_COUNT: u32 = 2;
/// A segment is not worth cleaning if less than this part of it is gained.
const GAIN_PART: u32 = 32;
/// So large a part of the segments is never filled with what is live, where there can be no more.
const SPARE_PART: u32 = GAIN_PART / 4;
/// And so many segments of them at least.
const SPARE_COUNT_MIN: u32 = 2;
/// Segments that the frontiers write to, and those that they have named.
const FRONTIER_SEGMENT_COUNT: u32 = 4;
/// Victims that promise so many times what is lacking have promised enough.
const PROMISE_FACTOR: u64 = 2;

/// Segments that cleaning could not do without, beyond the share that the file should have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crowd {
    segment_count: u32,
    /// What was live when the last of them came.
    live_bytes: u64,
}

impl Crowd {
    /// How many there may be. None are left once half of what was live is not any more.
    fn segment_count(self, live_bytes: u64) -> u32 {
        if live_bytes < self.live_bytes / 2 { 0 } else { self.segment_count }
    }

    fn grow(&mut self, live_bytes: u64, by: u32) {
        let segment_count = self.segment_count(live_bytes) + by;
        *self = Self { segment_count, live_bytes };
    }
}

/// A record of a victim that the map refers to.
struct LiveRecord {
    kind: EntryKind,
    address: PageAddress,
    /// Its first byte in the segment.
    at: usize,
    stored_bytes: u32,
    source: Location,
}

impl LogStructured {
    /// The most segments that the file may have for what is live.
    pub(super) fn segment_count_max(&self) -> u32 {
        let segment_bytes = u64::from(self.settings.segment_bytes);
        let live_bytes = self.segments.live_bytes();
        let in_per_cent =
            (live_bytes / 100 * u64::from(self.settings.file_percent_max)) / segment_bytes;
        let full_count =
            live_bytes.div_ceil(u64::from(self.settings.record_bytes_max(self.sector_bytes)));
        let at_least = full_count + u64::from(self.settings.spare_segment_count);
        let crowd = u64::from(self.crowd.segment_count(live_bytes));
        u32::try_from(in_per_cent.max(at_least) + crowd).unwrap_or(u32::MAX - 1)
    }

    /// How many pages that have no place yet can be written, `wanted` of them if that is so. The files of
    /// the map get the room that they need for them: who else writes to the volume may take what is left.
    ///
    /// # Errors
    /// If there is no room for the map, or the device fails.
    pub(super) fn find_room(&mut self, wanted: u64) -> Result<u64, StorageError> {
        if self.io.free_bytes().is_none() {
            return Ok(u64::MAX);
        }
        let in_map = self.widen_maps(wanted)?;
        // The file may be longer than the segments that are known: those since the last image are not.
        let own_bytes = self.io.byte_count(self.files.segments);
        let in_segments = self.room_in(own_bytes + self.io.free_bytes().unwrap_or(0));
        self.is_scarce = in_segments < wanted;
        Ok(in_map.min(in_segments))
    }

    /// As [`Self::find_room`], where the file of segments may have so many bytes.
    fn room_in(&self, file_bytes: u64) -> u64 {
        let count = file_bytes / u64::from(self.settings.segment_bytes);
        let spare = (count / u64::from(SPARE_PART)).max(u64::from(SPARE_COUNT_MIN));
        let held = spare + u64::from(KEPT_COUNT + FRONTIER_SEGMENT_COUNT);
        // A page may become as long as it is unpacked, and a difference as long as one is written.
        let dense_count = u64::from(self.settings.dense_page_count(self.sector_bytes));
        let difference_percent = u64::from(self.settings.difference_percent_max);
        let in_differences = (self.differences.page_count() * difference_percent).div_ceil(100);
        let page_count = count.saturating_sub(held) * dense_count;
        page_count.saturating_sub(in_differences + self.map.page_count())
    }

    /// Sees to it that segments are there to be written, and that the map is written when it is due.
    pub(super) fn replenish(&mut self) -> Result<(), StorageError> {
        if self.checkpoint_is_due() {
            self.checkpoint()?;
        }
        // Each victim frees a part of a segment at least, so this number of them frees all that can
        // be freed. The limit ends the loop should the accounts of live bytes ever be wrong.
        let mut victims_left = self.segments.count() * GAIN_PART / 8 + 16;
        let mut promised_bytes = 0;
        let lacking = self.settings.reserve_segment_count + 1;
        let lacking = u64::from(lacking.saturating_sub(self.segments.supply_count()));
        let enough_bytes = PROMISE_FACTOR
            * (lacking + u64::from(KEPT_COUNT))
            * u64::from(self.settings.record_bytes_max(self.sector_bytes));
        while self.segments.supply_count() <= self.settings.reserve_segment_count {
            let may_grow = self.segments.count() < self.segment_count_max();
            if may_grow && self.grow()? {
                continue;
            }
            if promised_bytes > enough_bytes {
                let missing = (self.segments.count() + 1).saturating_sub(self.segment_count_max());
                self.crowd.grow(self.segments.live_bytes(), missing);
                promised_bytes = 0;
                continue;
            }
            self.is_cleaning = true;
            let cleaned = if victims_left > 0 { self.clean_one() } else { Ok(None) };
            self.is_cleaning = false;
            match cleaned? {
                Some(bytes) => promised_bytes += u64::from(bytes),
                None if !self.grow()? => break,
                None => {}
            }
            victims_left = victims_left.saturating_sub(1);
        }
        Ok(())
    }

    /// Makes the file longer by a segment; false if there is no room on the volume.
    pub(super) fn grow(&mut self) -> Result<bool, StorageError> {
        let bytes = (u64::from(self.segments.count()) + 1) * u64::from(self.settings.segment_bytes);
        let own_bytes = self.io.byte_count(self.files.segments);
        if own_bytes < bytes {
            // To try is dear where there is no room: a file system may look at all of the file for it.
            if self.io.free_bytes().is_none_or(|free_bytes| free_bytes >= bytes - own_bytes) {
                unless_full(self.io.set_byte_count(self.files.segments, bytes))?;
            }
            if self.io.byte_count(self.files.segments) < bytes {
                self.is_scarce = true;
                return Ok(false);
            }
        }
        self.segments.grow();
        Ok(true)
    }

    /// Copies what is live in the next victim, and says how many bytes that should gain; `None` if there
    /// is no victim that is worth it.
    fn clean_one(&mut self) -> Result<Option<u32>, StorageError> {
        let segment_bytes = self.settings.segment_bytes;
        let record_bytes_max = self.settings.record_bytes_max(self.sector_bytes);
        let worth_it = record_bytes_max - record_bytes_max / GAIN_PART;
        let mut candidates = self.segments.candidates(worth_it);
        let victim = self.victims.choose(&mut candidates, segment_bytes, self.next_sequence);
        drop(candidates);
        let Some(victim) = victim else { return Ok(None) };
        let known = self.segments.get(victim);
        let (live_bytes, used_bytes) = (known.live_bytes, known.used_bytes as usize);
        let start = u64::from(victim) * u64::from(segment_bytes);
        let bytes = match transfer::read(&self.io, self.files.segments, start, used_bytes) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.segments.set_stuck(victim);
                return Err(error);
            }
        };
        self.counters.cleaned_segment_count += 1;
        self.counters.cleaning_read_bytes += bytes.len() as u64;
        let records = self.live_records(victim, &bytes);
        let found_bytes: u32 = records.iter().map(|record| record.source.stored_bytes()).sum();
        if found_bytes < live_bytes {
            // Its tables are damaged. What it holds is still read by the map; let it be.
            self.segments.set_stuck(victim);
            return Ok(Some(0));
        }
        for record in &records {
            self.copy_if_live(record, &bytes[record.range()])?;
        }
        self.segments.note_cleaned(victim);
        Ok(Some(record_bytes_max.saturating_sub(live_bytes)))
    }

    /// The records of a segment, which holds `bytes`, that the maps refer to.
    fn live_records(&self, victim: u32, bytes: &[u8]) -> Vec<LiveRecord> {
        let start = u64::from(victim) * u64::from(self.settings.segment_bytes);
        let (mut offset, mut records) = (0, Vec::new());
        while let Some(summary) = read_summary(&bytes[offset..]) {
            if summary.header.segment != victim {
                break;
            }
            let record_of = |entry: &Entry| {
                let Entry { kind, address, stored_bytes, .. } = *entry;
                let at = offset + entry.start as usize;
                let source =
                    Location::new(start + at as u64, stored_bytes, kind == EntryKind::Whole);
                LiveRecord { kind, address, at, stored_bytes, source }
            };
            let pages = summary.entries.iter().filter(|entry| entry.kind != EntryKind::Truncate);
            records.extend(pages.map(record_of).filter(|record| self.is_live(record)));
            offset += summary.header.byte_count as usize;
        }
        records
    }

    /// Whether the map still refers to it.
    fn is_live(&self, record: &LiveRecord) -> bool {
        let is_difference = record.kind == EntryKind::Difference;
        let map = if is_difference { &self.differences } else { &self.map };
        map.get(record.address) == record.source
    }

    /// Puts a copy of a record into a frontier, if the map still refers to it once there is room.
    fn copy_if_live(&mut self, record: &LiveRecord, bytes: &[u8]) -> Result<(), StorageError> {
        let LiveRecord { kind, address, stored_bytes, source, .. } = *record;
        // A difference must not come to stand behind a page that waits there, written as a whole.
        let has_own = self.settings.separate_cleaned || kind == EntryKind::Difference;
        let target = if has_own { CLEANED } else { HOST };
        let alignment = self.alignment_of(kind);
        while !self.fits(target, stored_bytes, alignment) {
            self.emit(target)?;
        }
        // Looked at only now: the page itself may have waited there, and is written.
        let is_superseded = target == HOST && self.frontiers[HOST].find(address).is_some();
        if self.is_live(record) && !is_superseded {
            let copy =
                self.frontiers[target].push(kind, address, stored_bytes, alignment, Some(source));
            copy.copy_from_slice(bytes);
            self.counters.copied_bytes += u64::from(source.stored_bytes());
            self.counters.copied_page_count += 1;
        }
        Ok(())
    }
}

impl LiveRecord {
    /// Where it lies in the bytes of its segment.
    const fn range(&self) -> Range<usize> {
        self.at..self.at + self.stored_bytes as usize
    }
}
