//! How a page comes to flash: as changes, which wait in memory for more, or whole to a new slot.
//!
//! ```text
//!   changes fit into a sector with those that wait ─► wait
//!   they do not ─► what waits is written, then the new ones wait or, larger than a sector, are written
//!   larger than a slot, and the unit has one left ─► another slot of the unit
//!   the log has no room ─► the unit is merged, with what was to be written
//! ```
//!
//! 1. Records of a page that are under way at the same time go to one erase block, which acts in order.

use super::merge::Change;
use super::record::{self, FlashPageKind, Sector, SectorKind, Spare};
use super::units::{SectorPlace, Unit, UnitState};
use super::{InPageLogging, Place};
use crate::propagation::{ChangedRanges, PageWrite};
use crate::{PageAddress, StorageError};
use nandu_base::{Cause, to_u32};
use std::collections::BTreeSet;

/// Most programs that are under way.
const BEGUN_COUNT_MAX: usize = 64;

/// A program that was begun.
#[derive(Debug)]
pub(super) struct Begun {
    ticket: u64,
    unit: u32,
    erase_block: u32,
}

/// The in-memory log sector of a page.
#[derive(Debug)]
pub(super) struct Waiting {
    changed: ChangedRanges,
    record: Vec<u8>,
}

impl Waiting {
    fn new(changed: ChangedRanges, page: &[u8]) -> Self {
        let record = record_of(&changed, page);
        Self { changed, record }
    }

    pub(super) fn record(&self) -> &[u8] {
        &self.record
    }
}

fn record_of(changed: &ChangedRanges, page: &[u8]) -> Vec<u8> {
    let mut record = vec![0; changed.record_bytes()];
    changed.pack(page, &mut record);
    record
}

fn whole(page: &[u8]) -> ChangedRanges {
    let mut all = ChangedRanges::default();
    all.add(0..to_u32(page.len() as u64));
    all
}

impl InPageLogging {
    /// Takes a page in.
    pub(super) fn place(&mut self, page: &mut PageWrite) -> Result<(), StorageError> {
        self.counters.page_write_count += 1;
        if self.pages.contains_key(&page.address) {
            match self.changes_of(page)? {
                Some(changed) if changed.as_slice().is_empty() => {}
                Some(changed) => self.log(page.address, &page.buffer, &changed)?,
                None => self.write_changes(page.address, &page.buffer, &whole(&page.buffer))?,
            }
        } else {
            let unit = self.unit_for_new()?;
            self.write_slot(unit, page.address, &page.buffer)?;
        }
        page.changed.clear();
        Ok(())
    }

    /// Where a page changed since it was written last, if that can be known.
    fn changes_of(&mut self, page: &PageWrite) -> Result<Option<ChangedRanges>, StorageError> {
        if !page.is_new && !page.changed.as_slice().is_empty() {
            return Ok(Some(page.changed.clone()));
        }
        self.counters.compared_count += 1;
        let mut before = vec![0; page.buffer.len()];
        let Some(begun) = self.begin_page(page.address)? else { return Ok(None) };
        let read = begun.end(&self.flash, &self.layout, &mut before);
        Ok(read.ok().map(|()| ChangedRanges::between(&before, &page.buffer)))
    }

    /// Puts changes into the page's log sector.
    fn log(
        &mut self,
        address: PageAddress,
        page: &[u8],
        changed: &ChangedRanges,
    ) -> Result<(), StorageError> {
        let mut all = changed.clone();
        if let Some(waiting) = self.waiting.get(&address) {
            waiting.changed.as_slice().iter().for_each(|range| all.add(range.clone()));
        }
        let payload_bytes = self.layout.payload_bytes();
        if all.record_bytes() <= payload_bytes {
            self.counters.record_count += 1;
            self.waiting.insert(address, Waiting::new(all, page));
            return Ok(());
        }
        if changed.record_bytes() > payload_bytes {
            return self.write_changes(address, page, &all);
        }
        self.write_sector_of(address)?;
        self.counters.record_count += 1;
        self.waiting.insert(address, Waiting::new(changed.clone(), page));
        Ok(())
    }

    /// Writes changes of which nothing may wait: those that wait are among them.
    fn write_changes(
        &mut self,
        address: PageAddress,
        page: &[u8],
        changed: &ChangedRanges,
    ) -> Result<(), StorageError> {
        let Place { unit, slot, .. } = self.pages[&address];
        let count = record::sector_count(changed.record_bytes(), &self.layout);
        let state = self.units.get(unit);
        if count > self.layout.slot_pages as usize && state.has_slot(&self.layout) {
            return self.write_slot(unit, address, page);
        }
        if count <= state.sectors_left(&self.layout).min(record::PART_COUNT_MAX) {
            self.counters.record_count += 1;
            let record = record_of(changed, page);
            self.write_record((unit, slot), SectorKind::Changes, &record, Some(address))?;
            self.waiting.remove(&address);
            return Ok(());
        }
        self.counters.slot_write_count += 1;
        self.merge(unit, &Change::Page(address, page)).map(drop)
    }

    /// Writes the log sector of a page, as full as it is, or merges its unit.
    pub(super) fn write_sector_of(&mut self, address: PageAddress) -> Result<(), StorageError> {
        let Some(waiting) = self.waiting.get(&address) else { return Ok(()) };
        let Place { unit, slot, .. } = self.pages[&address];
        if self.units.get(unit).sectors_left(&self.layout) == 0 {
            return self.merge(unit, &Change::None).map(drop);
        }
        let record = waiting.record.clone();
        self.write_record((unit, slot), SectorKind::Changes, &record, Some(address))?;
        self.waiting.remove(&address);
        Ok(())
    }

    /// Begins to write a record to the log of a unit, which has room for it.
    fn write_record(
        &mut self,
        (unit, slot): (u32, u32),
        kind: SectorKind,
        record: &[u8],
        of_page: Option<PageAddress>,
    ) -> Result<(), StorageError> {
        let layout = self.layout;
        let parts: Vec<&[u8]> = record.chunks(layout.payload_bytes()).collect();
        let part_count = u8::try_from(parts.len()).expect("a record has few parts");
        let mut places: Vec<SectorPlace> = Vec::new();
        for (part, record) in (0..part_count).zip(parts) {
            let place = self.units.get_mut(unit).take_sector(&layout);
            places.push(place);
            let group = places[0].index * layout.sectors_per_page + places[0].sector;
            let sector = Sector { kind, part, part_count, slot, group, record };
            let spare = self.spare_of(unit, FlashPageKind::Log, PageAddress::default());
            let first = place.sector * layout.sector_bytes;
            let bytes = sector.encode(layout.sector_bytes);
            let spare = (place.sector == 0).then_some(&spare);
            self.program(Cause::Log, (unit, place.index), (first, &bytes), spare)?;
            self.counters.sector_count += 1;
            self.counters.sector_record_bytes += record.len() as u64;
        }
        let place = of_page.and_then(|address| self.pages.get_mut(&address));
        if let Some(place) = place {
            place.sectors.extend(places);
        }
        Ok(())
    }

    /// Puts a page into the next slot of a unit, which has one. It has no records then.
    fn write_slot(
        &mut self,
        unit: u32,
        address: PageAddress,
        page: &[u8],
    ) -> Result<(), StorageError> {
        self.counters.slot_write_count += 1;
        let slot = self.program_slot(Cause::Host, unit, address, page)?;
        let place = Place { unit, slot, sectors: Vec::new() };
        if let Some(before) = self.pages.insert(address, place) {
            self.units.get_mut(before.unit).live.remove(&before.slot);
        }
        self.units.get_mut(unit).live.insert(slot, address);
        self.waiting.remove(&address);
        Ok(())
    }

    /// Begins to program the next slot of a unit.
    pub(super) fn program_slot(
        &mut self,
        cause: Cause,
        unit: u32,
        address: PageAddress,
        page: &[u8],
    ) -> Result<u32, StorageError> {
        let layout = self.layout;
        let slot = self.units.get_mut(unit).take_slot(&layout);
        let whole = self.spare_of(unit, FlashPageKind::Data, address);
        for (index, bytes) in (slot..).zip(page.chunks(layout.part_bytes())) {
            let part = u8::try_from(index - slot).expect("a page has few parts");
            self.program(cause, (unit, index), (0, bytes), Some(&Spare { part, ..whole }))?;
        }
        Ok(slot)
    }

    fn spare_of(&self, unit: u32, kind: FlashPageKind, address: PageAddress) -> Spare {
        let &Unit { merged_count, erase_count, sequence, source, .. } = self.units.get(unit);
        Spare { kind, part: 0, merged_count, erase_count, sequence, source, address }
    }

    /// Begins a program. Others of the unit that go to another erase block are waited for.
    fn program(
        &mut self,
        cause: Cause,
        (unit, index): (u32, u32),
        bytes: (u32, &[u8]),
        spare: Option<&Spare>,
    ) -> Result<(), StorageError> {
        let erase_block = self.layout.erase_block(unit, index);
        let is_elsewhere = |begun: &Begun| begun.unit == unit && begun.erase_block != erase_block;
        if self.begun.len() >= BEGUN_COUNT_MAX || self.begun.iter().any(is_elsewhere) {
            self.finish()?;
        }
        let flash_page = self.layout.flash_page(unit, index);
        let ticket = self.flash.begin_program(cause, flash_page, bytes, spare)?;
        self.begun.push(Begun { ticket, unit, erase_block });
        Ok(())
    }

    /// Waits for all programs that were begun. If one failed, nothing more is changed.
    pub(super) fn finish(&mut self) -> Result<(), StorageError> {
        let begun = std::mem::take(&mut self.begun);
        let ends: Vec<_> = begun.iter().map(|it| self.flash.end_program(it.ticket)).collect();
        let answer: Result<(), StorageError> = ends.into_iter().collect();
        if let Err(error) = &answer {
            self.failure.get_or_insert_with(|| error.clone());
        }
        answer
    }

    /// Forgets the pages in these slots of a unit, durably.
    pub(super) fn cut(&mut self, unit: u32, slots: &BTreeSet<u32>) -> Result<(), StorageError> {
        if slots.len() == self.units.get(unit).live.len() {
            self.forget(unit, slots);
            self.retire(unit);
            return self.settle();
        }
        let record: Vec<u8> = slots.iter().flat_map(|slot| slot.to_be_bytes()).collect();
        let count = record::sector_count(record.len(), &self.layout);
        let left = self.units.get(unit).sectors_left(&self.layout);
        if count > left.min(record::PART_COUNT_MAX) {
            return self.merge(unit, &Change::Gone(slots)).map(drop);
        }
        self.write_record((unit, 0), SectorKind::Cut, &record, None)?;
        self.finish()?;
        self.forget(unit, slots);
        Ok(())
    }

    /// Forgets the pages in these slots of a unit, in memory.
    pub(super) fn forget(&mut self, unit: u32, slots: &BTreeSet<u32>) {
        for slot in slots {
            if let Some(address) = self.units.get_mut(unit).live.remove(slot) {
                self.pages.remove(&address);
                self.waiting.remove(&address);
            }
        }
    }

    /// A unit in which nothing counts any more is erased with the next [`Self::settle`].
    pub(super) fn retire(&mut self, unit: u32) {
        self.filling = self.filling.filter(|&filling| filling != unit);
        self.units.retire(unit);
    }

    /// Erases what is stale.
    pub(super) fn settle(&mut self) -> Result<(), StorageError> {
        while let Some(unit) = self.units.stale() {
            self.erase_unit(Cause::MergeFull, unit, false)?;
        }
        Ok(())
    }

    /// Erases a unit, which is free then unless it was taken for a use; false if it is bad now.
    fn erase_unit(
        &mut self,
        cause: Cause,
        unit: u32,
        is_taken: bool,
    ) -> Result<bool, StorageError> {
        let succeeded = self.flash.erase(cause, &self.layout, unit)?;
        self.counters.erased_unit_count += u64::from(succeeded);
        self.units.note_erase(unit, succeeded, is_taken);
        Ok(succeeded)
    }

    /// A unit that has a slot for a new page: the one that is being filled, another one, a free one
    /// beyond those in reserve, or one that a merge can make shorter.
    fn unit_for_new(&mut self) -> Result<u32, StorageError> {
        let has_slot = |unit: &Unit| unit.has_slot(&self.layout);
        let filling = self.filling.filter(|&unit| has_slot(self.units.get(unit)));
        let another = || self.units.used().find(|(_, unit)| has_slot(unit)).map(|(it, _)| it);
        if let Some(unit) = filling.or_else(another) {
            self.filling = Some(unit);
            return Ok(unit);
        }
        let slot_count = self.layout.slot_count() as usize;
        let unit = if self.units.free_count() > self.settings.reserve_unit_count as usize {
            self.take_unit((0, 0))?
        } else {
            let emptiest = self.units.used().min_by_key(|(_, unit)| unit.live.len());
            let shrinks = emptiest.filter(|(_, unit)| unit.live.len() < slot_count);
            let Some((unit, _)) = shrinks else { return Err(self.full()) };
            self.merge(unit, &Change::None)?
        };
        self.filling = Some(unit);
        Ok(unit)
    }

    /// A free unit, erased, in use from now on.
    pub(super) fn take_unit(&mut self, merged: (u64, u16)) -> Result<u32, StorageError> {
        while let Some(unit) = self.units.take_free() {
            let is_blank = self.units.get(unit).state == UnitState::Free { is_blank: true };
            if !is_blank {
                let erased = self.erase_unit(Cause::Host, unit, true);
                if !erased.inspect_err(|_| self.units.retire(unit))? {
                    continue;
                }
            }
            self.clock += 1;
            self.units.begin(unit, self.clock, merged);
            return Ok(unit);
        }
        Err(self.full())
    }

    fn full(&self) -> StorageError {
        let what = format!(
            "no unit of {} has room for a page, and none is free but the {} in reserve; drop a table, or \
             take larger chips",
            self.flash.info().name,
            self.settings.reserve_unit_count
        );
        StorageError::NoSpace { what }
    }
}
