//! What is on the chips after a power cut, from spare areas and logs alone; and the making.
//!
//! ```text
//!   unit    first flash page ─► no data: free
//!                            └► spare areas of all ─► slots ─► one of the merge's is missing: free
//!                                                └► log pages ─► records and cuts, by slot
//!   units   that of which a merged one is the source: stale, as is one in which nothing counts
//! ```
//!
//! 1. Nothing is written: what is stale is erased before the first change.
//! 2. Of the slots of a page in a unit the last one that is whole counts, unless a cut names it.
//! 3. Behind the last flash page that is not blank everything is, and it is programmed next; but sectors
//!    of the last log page, if none of it is torn.

use super::record::{Assembly, FlashPageKind, Found, Sector, SectorKind, Spare};
use super::units::{SectorPlace, Unit, UnitState};
use super::{InPageLogging, InPageLoggingSettings, Place};
use crate::propagation::Media;
use crate::{PageAddress, StorageError};
use nandu_base::{Cause, to_u32};
use std::collections::{BTreeMap, BTreeSet};

/// Requests that are begun at once.
const AT_ONCE: usize = 256;

/// A unit as it was found, and where its pages are.
struct Scanned {
    unit: Unit,
    /// Nobody knows how often it was erased.
    is_worn_unknown: bool,
    pages: Vec<(PageAddress, Place)>,
}

/// What the log of a unit says.
#[derive(Default)]
struct Log {
    records: BTreeMap<u32, Vec<SectorPlace>>,
    cuts: BTreeSet<u32>,
    open: Option<SectorPlace>,
}

/// Sectors of a log page, and the first one that is blank, if it can be programmed.
type LogPage = (Vec<(SectorPlace, Vec<u8>)>, Option<SectorPlace>);

impl Scanned {
    fn without_pages(unit: Unit, is_worn_unknown: bool) -> Self {
        Self { unit, is_worn_unknown, pages: Vec::new() }
    }
}

impl InPageLogging {
    /// What is on the chips, where [`Self::create`] was before.
    ///
    /// # Errors
    /// If a setting or the chips do not suit, or a medium fails.
    pub fn open(
        media: &Media,
        page_bytes: u32,
        settings: &InPageLoggingSettings,
    ) -> Result<Self, StorageError> {
        let mut opened = Self::assemble(media, page_bytes, settings)?;
        opened.recover()?;
        Ok(opened)
    }

    /// Erases all units.
    pub(super) fn erase_all(&mut self) -> Result<(), StorageError> {
        let good = |unit: &u32| !self.flash.is_bad(&self.layout, *unit);
        let units: BTreeSet<u32> = (0..self.layout.unit_count).filter(good).collect();
        self.check_room(units.len())?;
        let blocks: Vec<u32> =
            units.iter().flat_map(|unit| self.layout.erase_blocks(*unit)).collect();
        let mut bad = BTreeSet::new();
        for blocks in blocks.chunks(AT_ONCE) {
            let erased = self.flash.erase_blocks(blocks)?;
            let failed = blocks.iter().zip(erased).filter(|(_, erased)| !erased);
            bad.extend(failed.map(|(block, _)| block / self.layout.blocks_per_unit));
        }
        for unit in 0..self.layout.unit_count {
            let is_good = units.contains(&unit) && !bad.contains(&unit);
            let state = if is_good { UnitState::Free { is_blank: true } } else { UnitState::Bad };
            self.units.push(Unit::new(state, u32::from(is_good)));
        }
        Ok(())
    }

    /// Refuses chips that have no room for a page.
    fn check_room(&self, good_count: usize) -> Result<(), StorageError> {
        let reserve_count = self.settings.reserve_unit_count;
        if good_count > reserve_count as usize {
            return Ok(());
        }
        let what = format!(
            "{} has {good_count} units of {} erase blocks that can be used, and {reserve_count} are in \
             reserve; take larger chips, or fewer erase_blocks_per_unit",
            self.flash.info().name,
            self.layout.blocks_per_unit
        );
        Err(StorageError::InvalidSetting { what })
    }

    fn recover(&mut self) -> Result<(), StorageError> {
        let mut found = Vec::new();
        for unit in 0..self.layout.unit_count {
            found.push(self.scan(unit)?);
        }
        let known =
            found.iter().filter(|it| it.unit.state != UnitState::Bad && !it.is_worn_unknown);
        let counts: Vec<u64> = known.map(|it| it.unit.erase_count.into()).collect();
        let mean = counts.iter().sum::<u64>().checked_div(counts.len() as u64).unwrap_or(0);
        self.clock = found.iter().map(|it| it.unit.sequence).max().unwrap_or(0);
        let in_use = found.iter().filter(|it| it.unit.state == UnitState::Used);
        let sources: BTreeSet<u64> = in_use.map(|it| it.unit.source).collect();
        let mut pages = Vec::new();
        for Scanned { mut unit, is_worn_unknown, pages: of_unit } in found {
            if is_worn_unknown {
                unit.erase_count = to_u32(mean);
            }
            let is_source = sources.contains(&unit.sequence);
            if unit.state == UnitState::Used && (is_source || unit.live.is_empty()) {
                unit = Unit::new(UnitState::Stale, unit.erase_count);
            } else {
                pages.push((unit.sequence, of_unit));
            }
            self.units.push(unit);
        }
        pages.sort_unstable_by_key(|(sequence, _)| *sequence);
        for (address, place) in pages.into_iter().flat_map(|(_, pages)| pages) {
            if let Some(before) = self.pages.insert(address, place) {
                self.units.get_mut(before.unit).live.remove(&before.slot);
            }
        }
        Ok(())
    }

    /// Looks what a unit holds.
    fn scan(&self, unit: u32) -> Result<Scanned, StorageError> {
        if self.flash.is_bad(&self.layout, unit) {
            return Ok(Scanned::without_pages(Unit::new(UnitState::Bad, 0), true));
        }
        let free = UnitState::Free { is_blank: false };
        let ticket = self.flash.begin_spare_read(self.layout.flash_page(unit, 0))?;
        let first = match self.flash.end_spare_read(ticket)? {
            Found::Whole(spare) if spare.kind == FlashPageKind::Data && spare.part == 0 => spare,
            Found::Whole(_) | Found::Blank | Found::Damaged => {
                return Ok(Scanned::without_pages(Unit::new(free, 0), true));
            }
        };
        let mut spares = vec![Found::Whole(first)];
        spares.extend(self.spares_behind(unit)?);
        let slots = self.slots_among(&spares, first.sequence);
        let count = u32::from(first.merged_count);
        let is_whole = (0..count).all(|slot| slots.contains_key(&(slot * self.layout.slot_pages)));
        let sequence = first.sequence;
        if !is_whole {
            let free = Unit { sequence, ..Unit::new(free, first.erase_count) };
            return Ok(Scanned::without_pages(free, false));
        }
        let is_log = |found: &Found<Spare>| {
            let Found::Whole(spare) = found else { return false };
            spare.kind == FlashPageKind::Log && spare.sequence == sequence
        };
        let logs = (0..).zip(&spares).filter(|(_, it)| is_log(it)).map(|(index, _)| index);
        let logs: Vec<u32> = logs.collect();
        let mut log = self.read_log(unit, &logs)?;
        let slot_of: BTreeMap<PageAddress, u32> =
            slots.into_iter().map(|(slot, address)| (address, slot)).collect();
        let pages = slot_of.into_iter().filter(|(_, slot)| !log.cuts.contains(slot));
        let place = |(address, slot): (PageAddress, u32)| {
            let sectors = log.records.remove(&slot).unwrap_or_default();
            (address, Place { unit, slot, sectors })
        };
        let pages: Vec<(PageAddress, Place)> = pages.map(place).collect();
        let used = spares.iter().rposition(|it| *it != Found::Blank).map_or(0, |last| last + 1);
        let unit = Unit {
            source: first.source,
            merged_count: first.merged_count,
            sequence,
            next: self.layout.aligned(to_u32(used as u64)),
            log_page_count: to_u32(logs.len() as u64),
            open_log: log.open,
            live: pages.iter().map(|(address, place)| (place.slot, *address)).collect(),
            ..Unit::new(UnitState::Used, first.erase_count)
        };
        Ok(Scanned { unit, is_worn_unknown: false, pages })
    }

    /// The spare areas of a unit but for the first.
    fn spares_behind(&self, unit: u32) -> Result<Vec<Found<Spare>>, StorageError> {
        let indexes: Vec<u32> = (1..self.layout.flash_page_count).collect();
        let mut spares = Vec::new();
        for part in indexes.chunks(AT_ONCE) {
            let begin =
                |index: &u32| self.flash.begin_spare_read(self.layout.flash_page(unit, *index));
            let tickets = part.iter().map(begin).collect::<Result<Vec<u64>, _>>()?;
            let ends: Vec<_> =
                tickets.into_iter().map(|it| self.flash.end_spare_read(it)).collect();
            spares.extend(ends.into_iter().collect::<Result<Vec<_>, _>>()?);
        }
        Ok(spares)
    }

    /// Slots of which all flash pages are there, with their pages.
    fn slots_among(&self, spares: &[Found<Spare>], sequence: u64) -> BTreeMap<u32, PageAddress> {
        let data = |index: usize, part: u32| match spares.get(index) {
            Some(Found::Whole(spare)) => {
                let is_it = spare.kind == FlashPageKind::Data && u32::from(spare.part) == part;
                (is_it && spare.sequence == sequence).then_some(spare.address)
            }
            _ => None,
        };
        let mut slots = BTreeMap::new();
        for index in 0..spares.len() {
            let Some(address) = data(index, 0) else { continue };
            let is_there = |part: u32| data(index + part as usize, part) == Some(address);
            if (1..self.layout.slot_pages).all(is_there) {
                slots.insert(to_u32(index as u64), address);
            }
        }
        slots
    }

    fn read_log(&self, unit: u32, logs: &[u32]) -> Result<Log, StorageError> {
        let (mut log, mut assembly) = (Log::default(), Assembly::default());
        let mut places = Vec::new();
        for &index in logs {
            let (sectors, open) = self.read_log_page(unit, index)?;
            log.open = open;
            for (place, bytes) in sectors {
                let Found::Whole(sector) = Sector::decode(&bytes) else { continue };
                if sector.part == 0 {
                    places.clear();
                }
                places.push(place);
                let Some(record) = assembly.take(&sector) else { continue };
                match sector.kind {
                    SectorKind::Changes => {
                        log.records.entry(sector.slot).or_default().append(&mut places);
                    }
                    SectorKind::Cut => {
                        let slots = record.chunks_exact(4);
                        let slots = slots.filter_map(|slot| slot.first_chunk::<4>().copied());
                        log.cuts.extend(slots.map(u32::from_be_bytes));
                    }
                }
            }
        }
        Ok(log)
    }

    /// The sectors of a log page up to the first that is blank, torn or damaged.
    fn read_log_page(&self, unit: u32, index: u32) -> Result<LogPage, StorageError> {
        let sector_bytes = self.layout.sector_bytes as usize;
        let flash_page = self.layout.flash_page(unit, index);
        let bytes = sector_bytes * self.layout.sectors_per_page as usize;
        let ticket = self.flash.begin_read(Cause::Recovery, flash_page, (0, bytes))?;
        let all = self.flash.end_read(ticket)?;
        let mut sectors = Vec::new();
        for sector in 0..self.layout.sectors_per_page {
            let place = SectorPlace { index, sector };
            let first = sector as usize * sector_bytes;
            let bytes = match &all {
                Some(all) => all[first..first + sector_bytes].to_vec(),
                None => {
                    let extent = (to_u32(first as u64), sector_bytes);
                    let ticket = self.flash.begin_read(Cause::Recovery, flash_page, extent)?;
                    let Some(bytes) = self.flash.end_read(ticket)? else { break };
                    bytes.to_vec()
                }
            };
            match Sector::decode(&bytes) {
                Found::Whole(_) => sectors.push((place, bytes)),
                Found::Blank => return Ok((sectors, all.is_some().then_some(place))),
                Found::Damaged => break,
            }
        }
        Ok((sectors, None))
    }
}
