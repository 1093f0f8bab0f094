//! In-page logging (Lee and Moon, SIGMOD 2007) over raw flash: what changes on a page goes to a log in
//! the same unit of erase blocks, and both are merged into another unit when the log is full.
//!
//! ```text
//!   write ─► log sector of the page, in memory ──────┐ full, or a sync, or too many
//!        └─► first time ──┐                          ▼
//!   unit     │ slot │ slot │ slot │ … │ log page: sector │ sector │ …      full: merged
//!   read  ◄─ data of the slot ◄ laid over ◄ its records ◄ what waits         │
//!   unit'    │ slot │ slot │ slot │ … blank                       ◄──────────┘ then unit is erased
//! ```
//!
//! A page has a slot in a unit, which is never programmed again. Its records are those of the log
//! sectors of that unit that name its slot, in the order of the log.
//!
//! 1. A page is the data of its slot with its complete records laid over it, and what waits in memory.
//! 2. What was programmed is durable, and nothing that counts is erased or, on paired chips, beside
//!    what is programmed after a sync. A cut leaves each page as it was at the last sync or in one of
//!    the writes since: a slot counts if all its flash pages do, a record if all its sectors do.
//! 3. A merged unit counts if all its slots do, and then instead of the one from which it was merged
//!    (`recovery`). That one is erased before anything else is changed.
//! 4. As long as a unit is free, another one can be merged, whatever it holds: `reserve_unit_count` are
//!    never taken for new pages, so a lack of room is told and stops nothing else.
//! 5. Nothing is under way between two calls but reads.

mod flash;
mod layout;
mod merge;
mod reads;
mod record;
mod recovery;
mod settings;
#[cfg(test)]
mod tests;
mod units;
mod writing;

pub use settings::InPageLoggingSettings;

use super::{ChangedRanges, Media, PagePlace, PageRead, PageWrite, Propagation};
use crate::volume::Io;
use crate::{FileId, PageAddress, StorageError};
use flash::Flash;
use layout::Layout;
use nandu_device::IoBuffer;
use reads::{BegunPage, Place, Reads};
use std::collections::{BTreeMap, BTreeSet};
use units::{UnitState, Units};
use writing::{Begun, Waiting};

/// The raw flash.
pub(super) const CHIPS: &str = "chips";
/// The file on the volume of the data, which says that the chips have pages of this database.
pub(super) const FILES: [&str; 1] = ["in-page-logs"];

/// What was done, in counts since the propagation was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InPageLoggingCounters {
    /// Pages that were handed in.
    pub page_write_count: u64,
    /// How many of them were written to a new slot.
    pub slot_write_count: u64,
    /// How many of them became records of changes.
    pub record_count: u64,
    /// Pages that were read to be compared, since nobody knew what changed on them.
    pub compared_count: u64,
    /// Log sectors that were written.
    pub sector_count: u64,
    /// Bytes of records in these sectors.
    pub sector_record_bytes: u64,
    /// Units that were merged.
    pub merge_count: u64,
    /// Pages that merges copied.
    pub merged_page_count: u64,
    /// Flash pages that merges read.
    pub merge_read_count: u64,
    /// Units that were erased.
    pub erased_unit_count: u64,
    /// Pages that were read, those to be compared among them.
    pub page_read_count: u64,
    /// Flash pages of data that were read for them.
    pub data_page_read_count: u64,
    /// Log pages that were read for them.
    pub log_page_read_count: u64,
}

/// Pages with logs of their changes beside them.
pub struct InPageLogging {
    data: Io,
    file: FileId,
    flash: Flash,
    layout: Layout,
    settings: InPageLoggingSettings,
    pages: BTreeMap<PageAddress, Place>,
    /// The in-memory log sectors.
    waiting: BTreeMap<PageAddress, Waiting>,
    units: Units,
    /// The unit that takes new pages.
    filling: Option<u32>,
    /// The last sequence that was given to a unit.
    clock: u64,
    /// Programs that were begun.
    begun: Vec<Begun>,
    /// Why what is in memory may be ahead of what is on flash.
    failure: Option<StorageError>,
    reads: Reads,
    counters: InPageLoggingCounters,
}

impl std::fmt::Debug for InPageLogging {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = self.units.used().count();
        write!(formatter, "InPageLogging({} pages in {units} units)", self.pages.len())
    }
}

impl InPageLogging {
    /// Erases whatever is on the chips, and makes the file that says whose they are. It is there when this
    /// returns, durably.
    ///
    /// # Errors
    /// If a setting makes no sense, the chips do not suit or have too few units, the file exists, or a
    /// medium fails.
    pub fn create(
        media: &Media,
        page_bytes: u32,
        settings: &InPageLoggingSettings,
    ) -> Result<Self, StorageError> {
        let mut created = Self::assemble(media, page_bytes, settings)?;
        created.erase_all()?;
        created.file = created.data.create(FILES[0])?;
        created.data.sync(created.file)?;
        Ok(created)
    }

    /// Whether there is one, or a part of one.
    #[must_use]
    pub fn is_on(data: &Io) -> bool {
        data.files().iter().any(|(_, name)| name == FILES[0])
    }

    /// What was done so far.
    #[must_use]
    pub const fn counters(&self) -> InPageLoggingCounters {
        self.counters
    }

    fn assemble(
        media: &Media,
        page_bytes: u32,
        settings: &InPageLoggingSettings,
    ) -> Result<Self, StorageError> {
        settings.check()?;
        let flash = Flash::new(media.raw_flash(CHIPS)?.clone());
        let layout = Layout::new(flash.info(), page_bytes, settings)?;
        let data = media.data().clone();
        let known = data.files().into_iter().find(|(_, name)| name == FILES[0]);
        Ok(Self {
            file: known.map_or(FileId(0), |(file, _)| file),
            data,
            flash,
            layout,
            settings: settings.clone(),
            pages: BTreeMap::new(),
            waiting: BTreeMap::new(),
            units: Units::default(),
            filling: None,
            clock: 0,
            begun: Vec::new(),
            failure: None,
            reads: Reads::default(),
            counters: InPageLoggingCounters::default(),
        })
    }

    /// Refuses to go on where a program failed, of which it is not known what it left.
    fn check_sound(&self) -> Result<(), StorageError> {
        let poisoned = |error: &StorageError| StorageError::Poisoned { cause: error.to_string() };
        self.failure.as_ref().map_or(Ok(()), |error| Err(poisoned(error)))
    }

    /// Pages of a file from `first` on.
    fn pages_from(&self, file: FileId, first: u32) -> impl Iterator<Item = (PageAddress, &Place)> {
        let range = PageAddress::new(file, first)..=PageAddress::new(file, u32::MAX);
        self.pages.range(range).map(|(address, place)| (*address, place))
    }

    fn begin_page(&mut self, address: PageAddress) -> Result<Option<BegunPage>, StorageError> {
        let Some(place) = self.pages.get(&address) else { return Ok(None) };
        let waiting = self.waiting.get(&address).map(Waiting::record);
        let counters = &mut self.counters;
        BegunPage::new(&self.flash, &self.layout, place, waiting, counters).map(Some)
    }

    /// Writes what waits, unit by unit: to the logs where they have room for it, else by a merge.
    fn write_waiting(&mut self) -> Result<(), StorageError> {
        let mut by_unit: BTreeMap<u32, Vec<PageAddress>> = BTreeMap::new();
        for address in self.waiting.keys() {
            by_unit.entry(self.pages[address].unit).or_default().push(*address);
        }
        for (unit, addresses) in by_unit {
            if addresses.len() > self.units.get(unit).sectors_left(&self.layout) {
                self.merge(unit, &merge::Change::None)?;
                continue;
            }
            for address in addresses {
                self.write_sector_of(address)?;
            }
        }
        self.finish()
    }
}

impl Propagation for InPageLogging {
    fn data(&self) -> &Io {
        &self.data
    }

    fn locate(&self, _address: PageAddress) -> Option<PagePlace> {
        None
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

    fn start_read(
        &mut self,
        address: PageAddress,
        mut buffer: IoBuffer,
    ) -> Result<(), StorageError> {
        let begun = self.begin_page(address)?;
        if begun.is_none() {
            buffer.fill(0);
        }
        self.reads.push(address, buffer, begun);
        Ok(())
    }

    fn next_read(&mut self) -> Option<PageRead> {
        let (address, mut buffer, begun) = self.reads.pop()?;
        let result = match begun {
            Some(page) => page.end(&self.flash, &self.layout, &mut buffer),
            None => Ok(()),
        };
        Some(PageRead { address, buffer, changed: ChangedRanges::default(), result })
    }

    fn write(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        self.check_sound()?;
        self.settle()?;
        let placed = pages.iter_mut().try_for_each(|page| self.place(page));
        let finished = self.finish();
        placed.and(finished)?;
        while self.waiting.len() > self.settings.waiting_sector_count_max as usize
            && let Some((&address, _)) = self.waiting.first_key_value()
        {
            self.write_sector_of(address)?;
        }
        self.finish()
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.check_sound()?;
        self.settle()?;
        let written = self.write_waiting();
        let finished = self.finish();
        self.units.align(&self.layout);
        written.and(finished)
    }

    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        self.check_sound()?;
        if first_page <= 1 {
            // That the file is gone is durable first.
            self.data.sync(self.file)?;
        }
        self.settle()?;
        let mut gone: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (_, place) in self.pages_from(file, first_page) {
            gone.entry(place.unit).or_default().insert(place.slot);
        }
        gone.into_iter().try_for_each(|(unit, slots)| self.cut(unit, &slots))
    }

    fn room_pages(&mut self, _wanted: u64) -> Result<u64, StorageError> {
        let (slot_count, free_count) =
            (u64::from(self.layout.slot_count()), self.units.free_count() as u64);
        if free_count == 0 {
            return Ok(0);
        }
        let in_use =
            self.units.used().map(|(_, unit)| slot_count.saturating_sub(unit.live.len() as u64));
        let spare = free_count.saturating_sub(self.settings.reserve_unit_count.into());
        Ok(in_use.sum::<u64>() + spare * slot_count)
    }

    fn stored_bytes(&self, file: FileId) -> Option<u64> {
        Some(self.pages_from(file, 0).count() as u64 * u64::from(self.layout.page_bytes))
    }

    fn stored_files(&self) -> Vec<FileId> {
        let mut files: Vec<FileId> = self.pages.keys().map(|page| page.file).collect();
        files.dedup();
        files
    }

    fn audit(&self) {
        self.units.audit(&self.layout);
        let live_count: usize = self.units.used().map(|(_, unit)| unit.live.len()).sum();
        assert_eq!(live_count, self.pages.len(), "invariant 1: a page has one slot");
        for (address, place) in &self.pages {
            let unit = self.units.get(place.unit);
            assert_eq!(unit.live.get(&place.slot), Some(address), "invariant 1: and it is its own");
            assert!(place.sectors.is_sorted(), "invariant 1: records are in the order of the log");
            let is_below = place.sectors.iter().all(|sector| sector.index < unit.next);
            assert!(is_below, "invariant 1: sectors are in what was programmed");
        }
        for (address, waiting) in &self.waiting {
            assert!(self.pages.contains_key(address), "invariant 1: what waits has a slot");
            assert!(waiting.record().len() <= self.layout.payload_bytes(), "a sector holds it");
        }
        assert!(self.begun.is_empty(), "invariant 5");
        let filling = self.filling.map(|unit| self.units.get(unit).state);
        assert!(
            filling.is_none_or(|state| state == UnitState::Used),
            "new pages go to a unit in use"
        );
    }
}
