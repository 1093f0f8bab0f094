//! Pages put together: the data of a slot, then its records in the order of the log, then what waits.
//!
//! 1. What a read finds is settled when it begins: requests to one erase block act in order, and the
//!    record that waits is copied.
//! 2. Of log pages those are read that have records of the page, each once.

use super::flash::Flash;
use super::record::{Assembly, Found, Sector, SectorKind};
use super::units::SectorPlace;
use super::{InPageLoggingCounters, Layout};
use crate::propagation::ChangedRanges;
use crate::{PageAddress, StorageError};
use nandu_base::Cause;
use nandu_device::IoBuffer;
use std::collections::BTreeMap;

/// Where a page lies, and its log sectors in order.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) unit: u32,
    pub(super) slot: u32,
    pub(super) sectors: Vec<SectorPlace>,
}

/// Log pages of a unit that are being read: ticket, and the first sector.
#[derive(Debug, Default)]
pub(super) struct BegunLog {
    pages: BTreeMap<u32, (u64, u32)>,
}

/// Log pages as they were read: the first sector, and the bytes from there on.
#[derive(Debug, Default)]
pub(super) struct LogPages {
    pages: BTreeMap<u32, (u32, IoBuffer)>,
}

/// A page that is being read.
#[derive(Debug)]
pub(super) struct BegunPage {
    data: Vec<u64>,
    log: BegunLog,
    sectors: Vec<SectorPlace>,
    waiting: Option<Vec<u8>>,
}

/// Begins to read the data of a slot.
pub(super) fn begin_data(
    flash: &Flash,
    layout: &Layout,
    cause: Cause,
    (unit, slot): (u32, u32),
) -> Result<Vec<u64>, StorageError> {
    let (page_bytes, part_bytes) = (layout.page_bytes as usize, layout.part_bytes());
    let begin = |part: u32| {
        let count = part_bytes.min(page_bytes - part as usize * part_bytes);
        flash.begin_read(cause, layout.flash_page(unit, slot + part), (0, count))
    };
    (0..layout.slot_pages).map(begin).collect()
}

/// Waits for the data of a slot; all of it is waited for, also with an error.
pub(super) fn end_data(
    flash: &Flash,
    layout: &Layout,
    tickets: Vec<u64>,
    page: &mut [u8],
) -> Result<(), StorageError> {
    let mut answer = Ok(());
    for (ticket, place) in tickets.into_iter().zip(page.chunks_mut(layout.part_bytes())) {
        match flash.end_read(ticket) {
            Ok(Some(bytes)) => place.copy_from_slice(&bytes),
            Ok(None) => answer = Err(flash.corrupt("the data of a page are torn".to_owned())),
            Err(error) => answer = Err(error),
        }
    }
    answer
}

impl BegunLog {
    /// Begins to read the log pages that have any of `sectors`.
    pub(super) fn new<'a>(
        flash: &Flash,
        layout: &Layout,
        cause: Cause,
        unit: u32,
        sectors: impl Iterator<Item = &'a SectorPlace>,
    ) -> Result<Self, StorageError> {
        let mut wanted: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for place in sectors {
            let range = wanted.entry(place.index).or_insert((place.sector, place.sector));
            *range = (range.0.min(place.sector), range.1.max(place.sector));
        }
        let mut begun = Self::default();
        for (index, (first, last)) in wanted {
            let count = (last - first + 1) * layout.sector_bytes;
            let extent = (first * layout.sector_bytes, count as usize);
            let ticket = flash.begin_read(cause, layout.flash_page(unit, index), extent)?;
            begun.pages.insert(index, (ticket, first));
        }
        Ok(begun)
    }

    pub(super) fn flash_page_count(&self) -> usize {
        self.pages.len()
    }

    /// Waits for them; for all, also with an error.
    pub(super) fn end(self, flash: &Flash) -> Result<LogPages, StorageError> {
        let (mut read, mut answer) = (LogPages::default(), Ok(()));
        for (index, (ticket, first)) in self.pages {
            match flash.end_read(ticket) {
                Ok(Some(bytes)) => _ = read.pages.insert(index, (first, bytes)),
                Ok(None) => answer = Err(flash.corrupt("log sectors are torn".to_owned())),
                Err(error) => answer = Err(error),
            }
        }
        answer.map(|()| read)
    }
}

impl LogPages {
    /// Lays the records in `sectors` over a page, in their order.
    pub(super) fn lay_over(
        &self,
        flash: &Flash,
        layout: &Layout,
        sectors: &[SectorPlace],
        page: &mut [u8],
    ) -> Result<(), StorageError> {
        let mut assembly = Assembly::default();
        for place in sectors {
            let sector = self.sector(layout, *place).filter(|it| it.kind == SectorKind::Changes);
            let Some(sector) = sector else {
                return Err(flash.corrupt("a log sector is not what was written".to_owned()));
            };
            if let Some(record) = assembly.take(&sector) {
                lay(flash, record, page)?;
            }
        }
        Ok(())
    }

    fn sector(&self, layout: &Layout, place: SectorPlace) -> Option<Sector<'_>> {
        let (first, bytes) = self.pages.get(&place.index)?;
        let begin = ((place.sector - first) * layout.sector_bytes) as usize;
        match Sector::decode(bytes.get(begin..begin + layout.sector_bytes as usize)?) {
            Found::Whole(sector) => Some(sector),
            Found::Blank | Found::Damaged => None,
        }
    }
}

/// Lays a record of changes over a page.
pub(super) fn lay(flash: &Flash, record: &[u8], page: &mut [u8]) -> Result<(), StorageError> {
    let laid = ChangedRanges::unpack(record, page);
    laid.map(drop).ok_or_else(|| flash.corrupt("a record of changes makes no sense".to_owned()))
}

impl BegunPage {
    pub(super) fn new(
        flash: &Flash,
        layout: &Layout,
        place: &Place,
        waiting: Option<&[u8]>,
        counters: &mut InPageLoggingCounters,
    ) -> Result<Self, StorageError> {
        let (unit, slot) = (place.unit, place.slot);
        let data = begin_data(flash, layout, Cause::Host, (unit, slot))?;
        let sectors = place.sectors.iter();
        let log = BegunLog::new(flash, layout, Cause::Host, unit, sectors)?;
        counters.page_read_count += 1;
        counters.data_page_read_count += data.len() as u64;
        counters.log_page_read_count += log.flash_page_count() as u64;
        let (sectors, waiting) = (place.sectors.clone(), waiting.map(<[u8]>::to_vec));
        Ok(Self { data, log, sectors, waiting })
    }

    /// Waits, and puts the page together.
    pub(super) fn end(
        self,
        flash: &Flash,
        layout: &Layout,
        page: &mut [u8],
    ) -> Result<(), StorageError> {
        let data = end_data(flash, layout, self.data, page);
        let log = self.log.end(flash);
        data?;
        log?.lay_over(flash, layout, &self.sectors, page)?;
        self.waiting.map_or(Ok(()), |record| lay(flash, &record, page))
    }
}

/// Reads that were begun, in their order.
#[derive(Debug, Default)]
pub(super) struct Reads {
    begun: std::collections::VecDeque<(PageAddress, IoBuffer, Option<BegunPage>)>,
}

impl Reads {
    /// Without a page that was begun it is one that was never written.
    pub(super) fn push(&mut self, address: PageAddress, buffer: IoBuffer, page: Option<BegunPage>) {
        self.begun.push_back((address, buffer, page));
    }

    pub(super) fn pop(&mut self) -> Option<(PageAddress, IoBuffer, Option<BegunPage>)> {
        self.begun.pop_front()
    }
}
