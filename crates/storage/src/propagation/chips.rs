//! A propagation of the tests: whole pages on raw flash, each version on the next blank flash page.
//!
//! ```text
//!   flash page   data: the page      spare area: │ address 8 │ sequence 8 │ kind 1 │ !kind 1 │
//!   erase block  0 1 2 … ► the next  the one with the fewest live flash pages is emptied and erased
//! ```
//!
//! 1. Of the flash pages of an address the one with the highest sequence counts, if no truncation has a
//!    higher one. A copy keeps the sequence.
//! 2. What was programmed is durable, so an erase block is erased only after its live pages were copied.

use super::{ChangedRanges, FlashIo, Media, PagePlace, PageRead, PageWrite, Propagation};
use crate::volume::Io;
use crate::{FileId, PageAddress, StorageError};
use nandu_base::{Cause, Ppn};
use nandu_device::IoBuffer;
use nandu_device::raw_flash::{FlashCommand, FlashCompletion, FlashError, FlashPart};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The raw flash.
pub(super) const CHIPS: &str = "chips";
/// The file on the volume of the data, which says that the chips have pages of this database.
pub(super) const FILES: [&str; 1] = ["pages-on-chips"];
const SPARE_BYTES: u32 = 18;
const PAGE: u8 = 1;
const TRUNCATION: u8 = 2;

/// The settings of pages on raw flash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChipsSettings {
    /// Erase blocks that are kept blank, so that one can be emptied; 2 at least.
    pub reserve_count: u32,
}

impl Default for ChipsSettings {
    fn default() -> Self {
        Self { reserve_count: 2 }
    }
}

/// What a flash page holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    sequence: u64,
    kind: u8,
    address: PageAddress,
}

/// Pages on raw flash.
pub struct Chips {
    data: Io,
    file: FileId,
    chips: FlashIo,
    settings: ChipsSettings,
    page_bytes: u32,
    /// Where each page lies, and the sequence of its write.
    map: BTreeMap<PageAddress, (Ppn, u64)>,
    /// Where truncations are noted.
    truncations: BTreeMap<u64, Ppn>,
    /// Erase blocks with nothing that counts; each is erased before it is used.
    free: Vec<u32>,
    /// The next flash page, and how many follow in its erase block.
    open: Option<(Ppn, u32)>,
    sequence: u64,
    reads: Vec<(PageAddress, Pending)>,
}

enum Pending {
    Ticket(u64),
    /// Never written.
    Blank(IoBuffer),
}

impl Chips {
    /// Over [`CHIPS`], with whatever pages are there.
    ///
    /// # Errors
    /// If the flash is missing or too small, or its pages are.
    pub fn open(
        media: &Media,
        page_bytes: u32,
        settings: &ChipsSettings,
    ) -> Result<Self, StorageError> {
        let (data, chips) = (media.data().clone(), media.raw_flash(CHIPS)?.clone());
        let geometry = chips.info().geometry;
        let is_small = geometry.flash_page_bytes < page_bytes
            || geometry.spare_bytes < SPARE_BYTES
            || geometry.erase_block_count < 2 * settings.reserve_count.max(2);
        if is_small {
            let what =
                format!("{} is too small for pages of {page_bytes} bytes", chips.info().name);
            return Err(StorageError::InvalidSetting { what });
        }
        let known = data.files().into_iter().find(|(_, name)| name == FILES[0]);
        let mut opened = Self {
            data,
            file: known.as_ref().map_or(FileId(0), |(file, _)| *file),
            chips,
            settings: settings.clone(),
            page_bytes,
            map: BTreeMap::new(),
            truncations: BTreeMap::new(),
            free: Vec::new(),
            open: None,
            sequence: 0,
            reads: Vec::new(),
        };
        if known.is_none() {
            opened.begin()?;
        }
        let mut found = Vec::new();
        for number in 0..geometry.flash_page_count() {
            found.extend(opened.record_of(Ppn(number)).map(|record| (record, Ppn(number))));
        }
        found.sort_unstable();
        found.into_iter().for_each(|(record, place)| opened.note(record, place));
        let is_free =
            |block: &u32| !opened.chips.is_bad(*block) && opened.live_of(*block).is_empty();
        opened.free = (0..geometry.erase_block_count).rev().filter(is_free).collect();
        Ok(opened)
    }

    /// Erases whatever somebody else left on the chips, and says that they have pages from now on.
    fn begin(&mut self) -> Result<(), StorageError> {
        for erase_block in 0..self.chips.info().geometry.erase_block_count {
            if !self.chips.is_bad(erase_block) {
                let erased = self.run(FlashCommand::Erase { erase_block });
                erased.map_err(|error| self.told("erase", &error))?;
            }
        }
        self.file = self.data.create(FILES[0])?;
        self.data.sync(self.file)
    }

    fn note(&mut self, record: Record, place: Ppn) {
        let Record { sequence, kind, address } = record;
        self.sequence = self.sequence.max(sequence);
        if kind == TRUNCATION {
            self.map.retain(|page, _| page.file != address.file || page.page < address.page);
            self.truncations.insert(sequence, place);
        } else {
            self.map.insert(address, (place, sequence));
        }
    }

    /// What a flash page holds, if it is whole.
    fn record_of(&self, place: Ppn) -> Option<Record> {
        let spare = Some(FlashPart::room(0, SPARE_BYTES));
        let data = Some(FlashPart::room(0, self.page_bytes));
        let done = self.run(FlashCommand::Read { flash_page: place, data, spare }).ok()?;
        let FlashCommand::Read { spare, .. } = done.command else { return None };
        let spare = spare?.buffer;
        let word =
            |at: usize| u64::from_be_bytes(spare[at..at + 8].try_into().expect("eight bytes"));
        let kind = spare[16];
        let is_record = spare[17] == !kind && (kind == PAGE || kind == TRUNCATION);
        let address = PageAddress::from_word(word(0));
        is_record.then_some(Record { sequence: word(8), kind, address })
    }

    fn run(&self, command: FlashCommand) -> Result<FlashCompletion, FlashError> {
        let ticket = self.chips.submit(Cause::Host, command).map_err(|rejected| rejected.error)?;
        let done = self.chips.wait(ticket);
        done.result.clone().map(|()| done)
    }

    /// Flash pages of an erase block that count.
    fn live_of(&self, block: u32) -> Vec<Ppn> {
        let geometry = self.chips.info().geometry;
        let pages = self.map.values().map(|&(place, _)| place);
        let all = pages.chain(self.truncations.values().copied());
        all.filter(|place| geometry.locate(*place).0 == block).collect()
    }

    fn program(&mut self, record: Record, page: &[u8]) -> Result<Ppn, StorageError> {
        let place = self.take_place()?;
        let mut spare = [0; SPARE_BYTES as usize];
        spare[..8].copy_from_slice(&record.address.to_word().to_be_bytes());
        spare[8..16].copy_from_slice(&record.sequence.to_be_bytes());
        (spare[16], spare[17]) = (record.kind, !record.kind);
        let data = Some(FlashPart::copy_of(0, page));
        let spare = Some(FlashPart::copy_of(0, &spare));
        let done = self.run(FlashCommand::Program { flash_page: place, data, spare });
        done.map_err(|error| self.told("program", &error))?;
        Ok(place)
    }

    /// A blank flash page.
    fn take_place(&mut self) -> Result<Ppn, StorageError> {
        if let Some((place, left_count)) = self.open.take() {
            self.open = left_count.checked_sub(1).map(|left| (Ppn(place.0 + 1), left));
            return Ok(place);
        }
        let block = self.free.pop().ok_or_else(|| StorageError::NoSpace {
            what: format!("no erase block of {} is free", self.chips.info().name),
        })?;
        let erased = self.run(FlashCommand::Erase { erase_block: block });
        erased.map_err(|error| self.told("erase", &error))?;
        let geometry = self.chips.info().geometry;
        let per_block = geometry.flash_pages_per_erase_block;
        self.open =
            per_block.checked_sub(2).map(|left| (Ppn(geometry.flash_page(block, 1).0), left));
        Ok(geometry.flash_page(block, 0))
    }

    /// Empties erase blocks until enough are free.
    fn clean(&mut self) -> Result<(), StorageError> {
        let geometry = self.chips.info().geometry;
        while self.free.len() < self.settings.reserve_count.max(2) as usize {
            let open = self.open.map(|(place, _)| geometry.locate(place).0);
            let may_go = |block: &u32| {
                Some(*block) != open && !self.free.contains(block) && !self.chips.is_bad(*block)
            };
            let victims = (0..geometry.erase_block_count).filter(may_go);
            let victim = victims.min_by_key(|block| self.live_of(*block).len());
            let victim = victim.expect("there are more than are in reserve");
            for place in self.live_of(victim) {
                let Some(record) = self.record_of(place) else { continue };
                let page = self.read_now(place)?;
                let place = self.program(record, &page)?;
                match record.kind {
                    TRUNCATION => _ = self.truncations.insert(record.sequence, place),
                    _ => _ = self.map.insert(record.address, (place, record.sequence)),
                }
            }
            self.free.insert(0, victim);
        }
        Ok(())
    }

    fn read_now(&self, place: Ppn) -> Result<IoBuffer, StorageError> {
        let data = Some(FlashPart::room(0, self.page_bytes));
        let done = self.run(FlashCommand::Read { flash_page: place, data, spare: None });
        let done = done.map_err(|error| self.told("read", &error))?;
        Ok(page_of(done))
    }

    fn told(&self, verb: &str, error: &FlashError) -> StorageError {
        let place = self.chips.info().name.clone();
        StorageError::Corrupt { place, what: format!("cannot {verb}: {error}") }
    }

    fn page_count_max(&self) -> u64 {
        let geometry = self.chips.info().geometry;
        let good = (0..geometry.erase_block_count).filter(|&block| !self.chips.is_bad(block));
        let good_count = nandu_base::to_u32(good.count() as u64);
        let blocks = good_count.saturating_sub(self.settings.reserve_count.max(2) + 2);
        u64::from(blocks) * u64::from(geometry.flash_pages_per_erase_block - 1)
    }
}

fn page_of(done: FlashCompletion) -> IoBuffer {
    let FlashCommand::Read { data, .. } = done.command else { unreachable!("it was a read") };
    data.expect("it had room for data").buffer
}

impl Propagation for Chips {
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
        false
    }

    fn start_read(
        &mut self,
        address: PageAddress,
        mut buffer: IoBuffer,
    ) -> Result<(), StorageError> {
        let pending = match self.map.get(&address) {
            None => {
                buffer.fill(0);
                Pending::Blank(buffer)
            }
            Some(&(place, _)) => {
                let data = Some(FlashPart::new(0, buffer));
                let read = FlashCommand::Read { flash_page: place, data, spare: None };
                let begun = self.chips.submit(Cause::Host, read);
                Pending::Ticket(begun.map_err(|rejected| self.told("read", &rejected.error))?)
            }
        };
        self.reads.push((address, pending));
        Ok(())
    }

    fn next_read(&mut self) -> Option<PageRead> {
        let (address, pending) = self.reads.pop()?;
        let changed = ChangedRanges::default();
        let (buffer, result) = match pending {
            Pending::Blank(buffer) => (buffer, Ok(())),
            Pending::Ticket(ticket) => {
                let done = self.chips.wait(ticket);
                let result = done.result.clone().map_err(|error| self.told("read", &error));
                (page_of(done), result)
            }
        };
        Some(PageRead { address, buffer, changed, result })
    }

    fn write(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        for page in pages {
            self.clean()?;
            self.sequence += 1;
            let record = Record { sequence: self.sequence, kind: PAGE, address: page.address };
            let place = self.program(record, &page.buffer)?;
            self.note(record, place);
            page.changed.clear();
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        if first_page == 1 {
            // That the file is gone is durable first.
            self.data.sync(self.file)?;
        }
        self.clean()?;
        self.sequence += 1;
        let address = PageAddress::new(file, first_page);
        let record = Record { sequence: self.sequence, kind: TRUNCATION, address };
        let nothing = vec![0; self.page_bytes as usize];
        let place = self.program(record, &nothing)?;
        self.note(record, place);
        Ok(())
    }

    fn room_pages(&mut self, _wanted: u64) -> Result<u64, StorageError> {
        Ok(self.page_count_max().saturating_sub(self.map.len() as u64))
    }

    fn last_write(&self) -> u64 {
        self.sequence
    }

    fn stored_bytes(&self, file: FileId) -> Option<u64> {
        let count = self.map.keys().filter(|page| page.file == file).count() as u64;
        Some(count * u64::from(self.page_bytes))
    }

    fn stored_files(&self) -> Vec<FileId> {
        let mut files: Vec<FileId> = self.map.keys().map(|page| page.file).collect();
        files.dedup();
        files
    }

    fn audit(&self) {
        let places: std::collections::BTreeSet<Ppn> =
            self.map.values().map(|&(place, _)| place).collect();
        assert_eq!(places.len(), self.map.len(), "a flash page has one page");
    }
}
