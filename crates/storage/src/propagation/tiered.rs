//! A tier of flash between the pool and pages in their places: which pages have a copy there is a policy's
//! affair ([`tier`](crate::tier)), that copies are the newest, and that nothing is lost, is decided here.
//! The tier is part of the database, as in FaCE (Kang, Lee and Moon, PVLDB 5(11), 2012): a sync makes
//! changed pages durable there.
//!
//! ```text
//!   written, left unchanged ─► policy ─► steps ─┬─► slots of the flash ─┐ sync ─► map of the slots
//!                                               └─► places on the disk ─┘
//!   read ─► the slot that the policy names; else the page's place
//! ```
//!
//! 1. What was written into a slot is known at once; where the newest version of a page lies after a cut
//!    is what the last map says, and the disk for pages of which that says nothing.
//! 2. A map is written when all that it says is so durably: slots have what it names, places what it calls
//!    clean, and files reach to the end of pages that are in the tier alone. There are two maps, written in
//!    turn, with sums.
//! 3. A slot that the last map calls dirty is *bound*: nothing is written over it before another map is
//!    durable. So that map never points at what is not there, and a dirty copy whose sum fails is damage.
//! 4. A copy is written to its place only while it is bound, and clean when the place is durable: a place
//!    that a cut tore is hidden by the copy.
//! 5. A clean copy whose sum fails counts for nothing: its slot was used again since the map was written.
//! 6. A page is written to its place past the tier only while no map names it, so that what a map calls
//!    clean is what lies in the place. A tier that writes through has no such maps: after a cut it is empty.
//! 7. A file that was removed or cut is so durably before a map forgets its pages: else a cut of the power
//!    brings it back without those that were in the tier alone.
//! 8. After a failure that leaves it open where a page lies nothing is read or written any more, and no file
//!    comes or goes: one that came could have the number of another whose pages the last map names. Opening
//!    the database again goes by that map.

mod copies;
mod flash;

use super::{ChangedRanges, InPlace, Media, PagePlace, PageRead, PageWrite, Propagation};
use crate::page::{page_is_blank, seal_page};
use crate::tier::{
    Access, Arrival, Sequences, Step, TierConfig, TierCopy, TierPolicy, TierPolicyKind,
};
use crate::volume::Io;
use crate::{FileId, PageAddress, StorageError};
use copies::Copies;
use flash::Flash;
use nandu_base::FixedHashSet;
use nandu_device::IoBuffer;
use std::collections::{BTreeMap, VecDeque};

/// The volume of the tier.
pub(super) const TIER: &str = "tier";
/// The file on the volume of the data, which says that there is a tier.
pub(super) const FILES: [&str; 1] = ["tiered"];
/// Of so many pages it is known at most that they were read sequentially.
const SEQUENTIAL_COUNT_MAX: usize = 1 << 16;

/// Pages in their places and in a tier.
pub struct Tiered {
    in_place: InPlace,
    /// The file on the data that says that there is a tier.
    marker: FileId,
    config: TierConfig,
    page_bytes: u32,
    policy: Box<dyn TierPolicy>,
    copies: Copies,
    flash: Flash,
    /// Behind the slot that was written last.
    next_slot: u32,
    /// Whether the last map says what the slots have.
    is_mapped: bool,
    /// How long files were when they were made durable last: their pages may be in the tier alone.
    lengths: BTreeMap<FileId, u64>,
    sequences: Sequences,
    /// Pages in the pool that were read sequentially.
    sequential: FixedHashSet<u64>,
    /// Reads of slots that were begun: ticket, page, slot.
    reads: Vec<(u64, PageAddress, u32)>,
    /// Pages that came before somebody asked for them.
    arrived: VecDeque<PageRead>,
    steps: Vec<Step>,
    /// What went wrong, so that nothing goes on.
    trouble: Option<StorageError>,
}

/// What tests have the tier do wrong.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// A sync leaves the map as it is, so that copies win that are older.
    StaleCopyWins,
    /// A dirty copy that leaves is not written to its place.
    DirtyCopyDropped,
    /// The map is written before what it names is durable.
    MapAheadOfData,
    /// Slots are written over whatever the last map says of them.
    BoundSlotReused,
    /// A copy is written to its place while the map knows nothing of it.
    WrittenUnbound,
}

#[cfg(test)]
thread_local! {
    pub(super) static BUG: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

macro_rules! has_bug {
    ($bug:ident) => {{
        #[cfg(test)]
        let is_there = BUG.get() == Some(Bug::$bug);
        #[cfg(not(test))]
        let is_there = false;
        is_there
    }};
}

impl Tiered {
    /// Over the data and the volume [`TIER`], with the copies that lie there, whether or not the database
    /// `was_closed` in order.
    ///
    /// # Errors
    /// If the medium is missing, too small, or not what these settings made, a dirty copy is damaged, or a
    /// device fails.
    pub fn open(
        media: Media,
        page_bytes: u32,
        config: &TierConfig,
        was_closed: bool,
    ) -> Result<Self, StorageError> {
        config.check()?;
        let buffer_alignment = media.buffer_alignment();
        let tier = media.volume(TIER)?.clone();
        let in_place = InPlace::new(media, page_bytes)?;
        let data = in_place.data();
        let made = data.files().into_iter().find(|(_, name)| name == FILES[0]);
        let room = (page_bytes, config.slot_count);
        let (flash, map) = Flash::open(tier, room, buffer_alignment, made.is_some())?;
        let marker = match made {
            Some((marker, _)) => marker,
            None => {
                let marker = data.create(FILES[0])?;
                data.sync(marker)?;
                marker
            }
        };
        let mut tiered = Self {
            in_place,
            marker,
            config: *config,
            page_bytes,
            policy: config.build(),
            copies: Copies::new(config.slot_count),
            flash,
            next_slot: 0,
            is_mapped: true,
            lengths: BTreeMap::new(),
            sequences: Sequences::default(),
            sequential: FixedHashSet::default(),
            reads: Vec::new(),
            arrived: VecDeque::new(),
            steps: Vec::new(),
            trouble: None,
        };
        if let Some(map) = map {
            tiered.next_slot = map.next_slot;
            tiered.copies = map.copies;
            tiered.restore(was_closed)?;
        }
        Ok(tiered)
    }

    /// Has the policy know the copies that are there, less those that are none any more.
    fn restore(&mut self, was_closed: bool) -> Result<(), StorageError> {
        let has_clean = was_closed || !self.writes_through();
        let data = self.in_place.data().clone();
        let files = data.files();
        let (mut kept, mut has_cut) = (Vec::new(), false);
        for copy in self.copies.all() {
            let TierCopy { page, slot, is_dirty } = copy;
            let address = PageAddress::from_word(page);
            // It was cut off, and the cut is durable, but what the map says of it was not yet.
            let is_cut = files.iter().all(|(file, _)| *file != address.file)
                || data.byte_count(address.file) <= address.offset_bytes(self.page_bytes);
            has_cut |= is_cut;
            let may_be_whole = !is_cut && (is_dirty || has_clean);
            let is_whole = may_be_whole
                && match self.flash.is_whole(slot, page, self.copies.sum(slot)) {
                    // What cannot be read here lies in its place, too.
                    Err(_) if !is_dirty => false,
                    answer => answer?,
                };
            match is_whole {
                true => kept.push(copy),
                false if is_cut || !is_dirty => self.forget(page),
                false => return Err(self.flash.damaged(slot, address)),
            }
        }
        self.policy.restore(&kept, self.next_slot);
        for copy in kept {
            if self.policy.copies().copy_of(copy.page) == Some(copy) {
                continue;
            }
            if copy.is_dirty {
                return Err(self.flash.damaged(copy.slot, PageAddress::from_word(copy.page)));
            }
            self.forget(copy.page);
        }
        // Another file may have the number next.
        match has_cut && !self.flash.is_read_only() {
            true => self.write_map(),
            false => Ok(()),
        }
    }

    /// Has a page no copy any more.
    fn forget(&mut self, page: u64) {
        self.policy.forget(page);
        self.is_mapped &= !self.copies.remove(page);
    }

    /// Whether every changed page goes to its place at once.
    fn writes_through(&self) -> bool {
        self.config.writes_through || self.config.policy == TierPolicyKind::Tac
    }

    fn check(&self) -> Result<(), StorageError> {
        self.trouble.clone().map_or(Ok(()), Err)
    }

    /// Takes note of what went wrong, and leaves the data alone from then on.
    fn noted<T>(&mut self, result: Result<T, StorageError>) -> Result<T, StorageError> {
        if let Err(error) = &result {
            self.in_place.data().stop(error.to_string());
            self.trouble.get_or_insert_with(|| error.clone());
        }
        result
    }

    /// How the pages of the pool were read.
    fn access_of(&mut self, page: u64) -> Access {
        match self.sequential.remove(&page) {
            true => Access::Sequential,
            false => Access::Random,
        }
    }

    /// Has the policy meet a page that leaves the pool or was changed, and does what it says. True if the
    /// page belongs to its place, too.
    fn meet(&mut self, page: u64, is_changed: bool, bytes: &[u8]) -> Result<bool, StorageError> {
        let access = self.access_of(page);
        let mut steps = std::mem::take(&mut self.steps);
        steps.clear();
        self.policy.arrive(Arrival { page, is_changed, access }, &mut steps);
        let done = self.take(&steps, page, bytes);
        self.steps = steps;
        done
    }

    fn take(&mut self, steps: &[Step], page: u64, bytes: &[u8]) -> Result<bool, StorageError> {
        // Nothing is done yet, so a map that is written now is one of a moment between two steps.
        let mut targets = steps.iter().filter_map(|step| match *step {
            Step::Fill { slot } | Step::Move { to: slot, .. } => Some(slot),
            Step::WriteBack { .. } | Step::Write => None,
        });
        if targets.any(|slot| self.copies.is_bound(slot)) && !has_bug!(BoundSlotReused) {
            self.write_map()?;
        }
        let is_fill = |step: &Step| matches!(step, Step::Fill { .. });
        let fill_at = steps.iter().position(is_fill).unwrap_or(steps.len());
        let (before, from_fill) = steps.split_at(fill_at);
        self.write_back(before)?;
        for step in before {
            if let Step::Move { page, from, to } = *step {
                self.move_copy(page, from, to)?;
            }
        }
        if let Some(Step::Fill { slot }) = from_fill.first() {
            let is_dirty = self.policy.copies().copy_of(page).is_some_and(|copy| copy.is_dirty)
                || from_fill.contains(&Step::WriteBack { page, slot: *slot });
            self.fill(*slot, page, is_dirty, bytes)?;
            self.write_back(&from_fill[1..])?;
        }
        Ok(steps.contains(&Step::Write))
    }

    fn fill(
        &mut self,
        slot: u32,
        page: u64,
        is_dirty: bool,
        bytes: &[u8],
    ) -> Result<(), StorageError> {
        let sum = flash::sum_of(page, bytes);
        self.flash.write(slot, bytes)?;
        self.note_copy(TierCopy { page, slot, is_dirty }, sum);
        Ok(())
    }

    fn move_copy(&mut self, page: u64, from: u32, to: u32) -> Result<(), StorageError> {
        let sum = self.copies.sum(from);
        let bytes = self.flash.read(from)?;
        if flash::sum_of(page, &bytes) != sum {
            return Err(self.flash.damaged(from, PageAddress::from_word(page)));
        }
        self.flash.write(to, &bytes)?;
        let is_dirty = self.copies.is_dirty(from);
        self.note_copy(TierCopy { page, slot: to, is_dirty }, sum);
        Ok(())
    }

    fn note_copy(&mut self, copy: TierCopy, sum: u32) {
        self.next_slot = (copy.slot + 1) % self.config.slot_count;
        self.copies.put(copy, sum);
        self.is_mapped = false;
    }

    /// Writes copies to the places of their pages, durably.
    fn write_back(&mut self, steps: &[Step]) -> Result<(), StorageError> {
        let copies: Vec<(u64, u32)> = steps
            .iter()
            .filter_map(|step| match *step {
                Step::WriteBack { page, slot } => Some((page, slot)),
                _ => None,
            })
            .collect();
        if copies.is_empty() {
            return Ok(());
        }
        if copies.iter().any(|&(_, slot)| !self.copies.is_bound(slot)) && !has_bug!(WrittenUnbound)
        {
            self.write_map()?;
        }
        let mut writes = Vec::with_capacity(copies.len());
        for &(page, slot) in &copies {
            let (address, buffer) = (PageAddress::from_word(page), self.flash.read(slot)?);
            if flash::sum_of(page, &buffer) != self.copies.sum(slot) {
                return Err(self.flash.damaged(slot, address));
            }
            let changed = ChangedRanges::default();
            writes.push(PageWrite { address, buffer, changed, is_new: false });
        }
        // Neighbours go in one request.
        writes.sort_by_key(|write| write.address);
        if !has_bug!(DirtyCopyDropped) {
            self.in_place.write(&mut writes)?;
        }
        self.in_place.sync()?;
        copies.iter().for_each(|&(_, slot)| self.copies.mark_clean(slot));
        self.is_mapped = false;
        Ok(())
    }

    /// Makes durable what a map says, and then the map.
    fn write_map(&mut self) -> Result<(), StorageError> {
        // What went past the tier may have come back as a clean copy since.
        self.in_place.sync()?;
        self.sync_lengths()?;
        if !has_bug!(MapAheadOfData) {
            self.flash.sync_slots()?;
        }
        self.flash.write_map(&self.copies, self.next_slot)?;
        self.copies.bind_dirty();
        self.is_mapped = true;
        Ok(())
    }

    /// Brings the pages in from slots that were asked for, before slots are written again.
    fn land(&mut self) {
        while let Some(read) = self.next_of_slots() {
            self.arrived.push_back(read);
        }
    }

    /// The next page that was read from a slot; one that turned out to be no copy is asked for anew.
    fn next_of_slots(&mut self) -> Option<PageRead> {
        while let Some((ticket, address, slot)) = self.reads.pop() {
            let (page, changed) = (address.to_word(), ChangedRanges::default());
            let read = self.flash.finish_read(ticket, slot);
            let is_whole = |buffer: &IoBuffer| flash::sum_of(page, buffer) == self.copies.sum(slot);
            let result = match read {
                Ok(buffer) if is_whole(&buffer) => {
                    return Some(PageRead { address, buffer, changed, result: Ok(()) });
                }
                Ok(_) => Err(self.flash.damaged(slot, address)),
                Err(error) => Err(error),
            };
            let result = match self.copies.is_dirty(slot) {
                true => result,
                false => {
                    self.forget(page);
                    self.in_place.start_read(address, self.flash.buffer())
                }
            };
            if result.is_err() {
                let buffer = IoBuffer::with_alignment(0, 1);
                return Some(PageRead { address, buffer, changed, result });
            }
        }
        None
    }

    /// Makes files durable that grew: their pages may lie in the tier.
    fn sync_lengths(&mut self) -> Result<(), StorageError> {
        let io = self.in_place.data().clone();
        let there = io.files();
        let is_there = |file: &FileId| there.iter().any(|(known, _)| known == file);
        for file in self.copies.files().into_iter().filter(is_there) {
            let length = io.byte_count(file);
            if self.lengths.get(&file) != Some(&length) {
                io.sync(file)?;
                self.lengths.insert(file, length);
            }
        }
        Ok(())
    }

    /// Has files reach to the end of their pages, as writing those in place would: redo writes pages past what
    /// a crash left of a file.
    fn make_room(&self, pages: &[PageWrite]) -> Result<(), StorageError> {
        let data = self.in_place.data();
        for PageWrite { address, .. } in pages {
            let end = address.offset_bytes(self.page_bytes) + u64::from(self.page_bytes);
            if data.byte_count(address.file) < end {
                data.set_byte_count(address.file, end)?;
            }
        }
        Ok(())
    }

    fn write_all(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        self.land();
        if self.writes_through() {
            self.in_place.write(pages)?;
        }
        let mut past_tier = Vec::new();
        for (index, write) in pages.iter_mut().enumerate() {
            let page = write.address.to_word();
            write.changed.clear();
            let belongs_in_place = self.meet(page, true, &write.buffer)?;
            let has_copy = self.policy.copies().copy_of(page).is_some();
            if belongs_in_place && !has_copy {
                self.is_mapped &= !self.copies.remove(page);
            }
            if belongs_in_place && !self.writes_through() {
                past_tier.push(index);
            }
        }
        // No map names them any more before they are written.
        if !past_tier.is_empty() && !self.is_mapped {
            self.write_map()?;
        }
        past_tier.iter().try_for_each(|&index| self.in_place.write(&mut pages[index..=index]))
    }

    fn make_durable(&mut self) -> Result<(), StorageError> {
        match self.is_mapped || has_bug!(StaleCopyWins) {
            true => self.in_place.sync(),
            false => self.write_map(),
        }
    }

    fn cut(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        self.land();
        let first = PageAddress::new(file, first_page).to_word();
        let last = PageAddress::new(file, u32::MAX).to_word();
        let copies = self.copies.all().into_iter();
        let cut: Vec<u64> =
            copies.map(|copy| copy.page).filter(|page| (first..=last).contains(page)).collect();
        cut.iter().for_each(|&page| self.forget(page));
        self.sequential.retain(|page| !(first..=last).contains(page));
        self.lengths.remove(&file);
        self.in_place.truncate(file, first_page)?;
        if self.is_mapped {
            return Ok(());
        }
        // A removal is durable with any sync of the volume.
        let data = self.in_place.data();
        let is_there = data.files().iter().any(|(known, _)| *known == file);
        data.sync(if is_there { file } else { self.marker })?;
        self.write_map()
    }
}

impl Propagation for Tiered {
    fn data(&self) -> &Io {
        self.in_place.data()
    }

    /// Nowhere: every read is told to the policy.
    fn locate(&self, _address: PageAddress) -> Option<PagePlace> {
        None
    }

    fn needs_room_in_files(&self) -> bool {
        true
    }

    fn counts_pages_by_length(&self) -> bool {
        true
    }

    fn lets_read_past_pool(&self) -> bool {
        self.writes_through()
    }

    fn places_by_address(&self) -> bool {
        false
    }

    fn keeps_places(&self) -> bool {
        true
    }

    fn leaves_blank_what_was_never_written(&self) -> bool {
        self.writes_through()
    }

    fn uses_changes(&self) -> bool {
        false
    }

    fn start_read(&mut self, address: PageAddress, buffer: IoBuffer) -> Result<(), StorageError> {
        self.check()?;
        let page = address.to_word();
        let access = self.sequences.read(page);
        if self.sequential.len() >= SEQUENTIAL_COUNT_MAX {
            self.sequential.clear();
        }
        match access {
            Access::Sequential => self.sequential.insert(page),
            Access::Random => self.sequential.remove(&page),
        };
        match self.policy.read(page, access) {
            Some(slot) => {
                let ticket = self.flash.start_read(slot, buffer)?;
                self.reads.push((ticket, address, slot));
                Ok(())
            }
            None => self.in_place.start_read(address, buffer),
        }
    }

    fn next_read(&mut self) -> Option<PageRead> {
        let read = self.arrived.pop_front().or_else(|| self.next_of_slots());
        read.or_else(|| self.in_place.next_read())
    }

    fn write(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        self.check()?;
        // Where there is none nothing has happened yet.
        self.make_room(pages)?;
        let written = self.write_all(pages);
        self.noted(written)
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.check()?;
        self.land();
        let synced = self.make_durable();
        self.noted(synced)
    }

    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        self.check()?;
        let cut = self.cut(file, first_page);
        self.noted(cut)
    }

    fn hears_of_clean_evictions(&self) -> bool {
        true
    }

    fn evicted_clean(&mut self, address: PageAddress, page: &[u8]) {
        let word = address.to_word();
        let can_be_written = self.trouble.is_none() && !self.flash.is_read_only();
        // A page that was never written is zeros, and stays so without a seal.
        let is_of_use = self.policy.copies().copy_of(word).is_none() && !page_is_blank(page);
        if !can_be_written || !is_of_use {
            return;
        }
        self.land();
        let mut buffer = self.flash.buffer();
        buffer.copy_from_slice(page);
        seal_page(&mut buffer, address);
        // Whoever calls can do nothing about it: the next call tells.
        let met = self.meet(word, false, &buffer);
        _ = self.noted(met);
    }

    fn audit(&self) {
        self.in_place.audit();
        self.copies.audit();
        if self.trouble.is_some() {
            return;
        }
        self.policy.audit();
        self.policy.copies().for_each(&mut |copy| {
            assert_eq!(self.copies.find(copy.page), Some(copy), "what counts lies in its slot");
        });
        let dirty = self.copies.all().into_iter().filter(|copy| copy.is_dirty).count();
        assert_eq!(
            dirty,
            self.policy.copies().dirty_count() as usize,
            "no dirty copy is left over"
        );
    }
}
