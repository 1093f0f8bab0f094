//! A unit becomes another one, whose log is empty.
//!
//! ```text
//!   unit    data, records, what waits, page by page ─► slots of a free unit ─► all there: it counts
//!                                                                              then unit is erased
//! ```
//!
//! 1. Nothing in memory changes before all slots are programmed; a merge that fails leaves the unit.
//! 2. What waits for pages of the unit is merged, too, and waits no more.

use super::InPageLogging;
use super::reads::{self, BegunLog, LogPages, Place};
use super::writing::Waiting;
use crate::{PageAddress, StorageError};
use nandu_base::Cause;
use std::collections::BTreeSet;

/// Pages that are read at once.
const READ_AT_ONCE: usize = 32;

/// What else a merge does.
pub(super) enum Change<'a> {
    None,
    /// This page is written, so.
    Page(PageAddress, &'a [u8]),
    /// Pages in these slots are left out; others are left.
    Gone(&'a BTreeSet<u32>),
}

impl Change<'_> {
    fn new_bytes(&self, address: PageAddress) -> Option<&[u8]> {
        match self {
            Self::Page(changed, bytes) if *changed == address => Some(bytes),
            _ => None,
        }
    }

    fn keeps(&self, slot: u32) -> bool {
        !matches!(self, Self::Gone(slots) if slots.contains(&slot))
    }
}

impl InPageLogging {
    /// Merges a unit, and gives back the one that is in its place.
    pub(super) fn merge(&mut self, unit: u32, change: &Change<'_>) -> Result<u32, StorageError> {
        self.finish()?;
        let merged = self.units.get(unit);
        let sequence = merged.sequence;
        let kept = merged.live.iter().filter(|(slot, _)| change.keeps(**slot));
        let pages: Vec<(u32, PageAddress)> = kept.map(|(slot, page)| (*slot, *page)).collect();
        if pages.is_empty() {
            self.retire(unit);
            self.settle()?;
            return self.take_unit((0, 0));
        }
        let count = u16::try_from(pages.len()).expect("a unit has few pages");
        let target = self.take_unit((sequence, count))?;
        let copied = self.copy_pages(unit, target, &pages, change);
        if let Err(error) = copied.and_then(|()| self.finish()) {
            // Without all its slots it is none.
            let _ = self.finish();
            self.units.retire(target);
            return Err(error);
        }
        if let Change::Gone(slots) = change {
            self.forget(unit, slots);
        }
        let mut slot = 0;
        for (_, address) in pages {
            self.waiting.remove(&address);
            self.pages.insert(address, Place { unit: target, slot, sectors: Vec::new() });
            self.units.get_mut(target).live.insert(slot, address);
            slot += self.layout.slot_pages;
        }
        self.units.get_mut(target).next = self.layout.aligned(slot);
        if self.filling == Some(unit) {
            self.filling = Some(target);
        }
        self.counters.merge_count += 1;
        self.counters.merged_page_count += u64::from(count);
        self.retire(unit);
        self.settle()?;
        Ok(target)
    }

    fn copy_pages(
        &mut self,
        unit: u32,
        target: u32,
        pages: &[(u32, PageAddress)],
        change: &Change<'_>,
    ) -> Result<(), StorageError> {
        let layout = self.layout;
        let is_read = |address: PageAddress| change.new_bytes(address).is_none();
        let read = pages.iter().filter(|(_, address)| is_read(*address));
        let sectors = read.flat_map(|(_, address)| &self.pages[address].sectors);
        let log = BegunLog::new(&self.flash, &layout, Cause::MergeFull, unit, sectors)?;
        self.counters.merge_read_count += log.flash_page_count() as u64;
        let log = log.end(&self.flash)?;
        for part in pages.chunks(READ_AT_ONCE) {
            let mut begun = Vec::new();
            for &(slot, address) in part {
                let data = match is_read(address) {
                    true => {
                        let place = (unit, slot);
                        reads::begin_data(&self.flash, &layout, Cause::MergeFull, place)?
                    }
                    false => Vec::new(),
                };
                self.counters.merge_read_count += data.len() as u64;
                begun.push(data);
            }
            for (&(_, address), data) in part.iter().zip(begun) {
                let page = match change.new_bytes(address) {
                    Some(bytes) => bytes.to_vec(),
                    None => self.put_together(address, data, &log)?,
                };
                self.program_slot(Cause::MergeFull, target, address, &page)?;
            }
        }
        Ok(())
    }

    /// A page as it is now.
    fn put_together(
        &self,
        address: PageAddress,
        data: Vec<u64>,
        log: &LogPages,
    ) -> Result<Vec<u8>, StorageError> {
        let (flash, layout) = (&self.flash, &self.layout);
        let mut page = vec![0; layout.page_bytes as usize];
        reads::end_data(flash, layout, data, &mut page)?;
        log.lay_over(flash, layout, &self.pages[&address].sectors, &mut page)?;
        if let Some(record) = self.waiting.get(&address).map(Waiting::record) {
            reads::lay(flash, record, &mut page)?;
        }
        Ok(page)
    }
}
