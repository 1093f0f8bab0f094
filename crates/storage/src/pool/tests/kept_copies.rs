//! A propagation for tests of the pool alone: in place, and pages that leave the pool unchanged go to a second
//! volume, too, from where they are read as long as nobody writes them, as from a cache of flash.
//!
//! ```text
//!   write ───────────► its place; what the tier has of the page is forgotten
//!   evicted_clean ───► the next slot of the tier, round and round
//!   read ────────────► the tier, if the page is there; else its place
//! ```
//!
//! 1. What the tier has of a page is what lies at its place.
//! 2. Nothing is known of the tier at an opening.

use crate::page::seal_page;
use crate::propagation::{
    ChangedRanges, InPlace, Media, PagePlace, PageRead, PageWrite, Propagation,
};
use crate::volume::{Io, IoOwner};
use crate::{FileId, PageAddress, StorageError};
use nandu_base::to_index;
use nandu_device::{IoBuffer, Operation};
use std::collections::BTreeMap;

const TIER_FILE: &str = "pages";

/// Pages in their places and in a tier.
pub(super) struct KeptCopies {
    in_place: InPlace,
    slot_count: u32,
    /// Whether pages are read from there. Else all lie in their places, always.
    is_read: bool,
    page_bytes: u32,
    tier: Io,
    file: FileId,
    slots: BTreeMap<PageAddress, u32>,
    next_slot: u32,
    reads: Vec<(u64, PageAddress)>,
}

impl KeptCopies {
    /// Over the data and so many slots of a volume that is empty.
    pub(super) fn new(
        data: Io,
        tier: Io,
        page_bytes: u32,
        slot_count: u32,
        is_read: bool,
    ) -> Result<Self, StorageError> {
        let file = tier.create(TIER_FILE)?;
        let in_place = InPlace::new(Media::of_data(data), page_bytes)?;
        let (slots, reads) = (BTreeMap::new(), Vec::new());
        Ok(Self {
            in_place,
            slot_count,
            is_read,
            page_bytes,
            tier,
            file,
            slots,
            next_slot: 0,
            reads,
        })
    }

    fn slot_bytes(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.page_bytes)
    }
}

impl Propagation for KeptCopies {
    fn data(&self) -> &Io {
        self.in_place.data()
    }

    fn locate(&self, address: PageAddress) -> Option<PagePlace> {
        let is_in_tier = self.is_read && self.slots.contains_key(&address);
        (!is_in_tier).then(|| self.in_place.locate(address))?
    }

    fn needs_room_in_files(&self) -> bool {
        true
    }

    fn counts_pages_by_length(&self) -> bool {
        true
    }

    fn lets_read_past_pool(&self) -> bool {
        true
    }

    fn places_by_address(&self) -> bool {
        !self.is_read
    }

    fn keeps_places(&self) -> bool {
        true
    }

    fn leaves_blank_what_was_never_written(&self) -> bool {
        true
    }

    fn uses_changes(&self) -> bool {
        false
    }

    fn start_read(&mut self, address: PageAddress, buffer: IoBuffer) -> Result<(), StorageError> {
        match self.slots.get(&address).filter(|_| self.is_read) {
            Some(&slot) => {
                let (owner, operation) = (IoOwner::PoolRead, Operation::Read);
                let offset = self.slot_bytes(slot);
                let ticket = self.tier.submit(owner, self.file, operation, offset, buffer)?;
                self.reads.push((ticket, address));
                Ok(())
            }
            None => self.in_place.start_read(address, buffer),
        }
    }

    fn next_read(&mut self) -> Option<PageRead> {
        let Some((ticket, address)) = self.reads.pop() else { return self.in_place.next_read() };
        let completion = self.tier.wait(ticket);
        let buffer = completion.buffer.unwrap_or_else(|| IoBuffer::with_alignment(0, 1));
        let what = format!("cannot read {address} from the tier");
        let result = completion.result.map_err(|error| StorageError::Device { what, error });
        Some(PageRead { address, buffer, changed: ChangedRanges::default(), result })
    }

    fn write(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        self.slots.retain(|address, _| pages.iter().all(|page| page.address != *address));
        self.in_place.write(pages)
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.in_place.sync()
    }

    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        self.slots.retain(|address, _| address.file != file || address.page < first_page);
        self.in_place.truncate(file, first_page)
    }

    fn hears_of_clean_evictions(&self) -> bool {
        true
    }

    fn evicted_clean(&mut self, address: PageAddress, page: &[u8]) {
        if self.slots.contains_key(&address) || !self.reads.is_empty() {
            return;
        }
        let slot = self.next_slot;
        self.next_slot = (slot + 1) % self.slot_count;
        self.slots.retain(|_, known| *known != slot);
        let alignment = to_index(u64::from(self.tier.buffer_alignment().max(1)));
        let mut buffer = IoBuffer::with_alignment(page.len(), alignment);
        buffer.copy_from_slice(page);
        seal_page(&mut buffer, address);
        let (owner, operation) = (IoOwner::PageWrite, Operation::Write);
        let offset = self.slot_bytes(slot);
        let begun = self.tier.submit(owner, self.file, operation, offset, buffer);
        let is_written = begun.is_ok_and(|ticket| self.tier.wait(ticket).result.is_ok());
        if is_written {
            self.slots.insert(address, slot);
        }
    }

    fn audit(&self) {
        self.in_place.audit();
        let slots: std::collections::BTreeSet<u32> = self.slots.values().copied().collect();
        assert_eq!(slots.len(), self.slots.len(), "a slot has one page");
        assert!(slots.iter().all(|slot| *slot < self.slot_count));
    }
}
