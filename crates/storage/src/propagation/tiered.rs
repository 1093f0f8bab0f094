//! A propagation of the tests: in place, and pages that leave the pool unchanged go to a second volume,
//! too, from where they are read as long as nobody writes them, as from a cache of flash.
//!
//! ```text
//!   write ───────────► its place; what the tier has of the page is forgotten
//!   evicted_clean ───► the next slot of the tier, round and round
//!   read ────────────► the tier, if the page is there; else its place
//! ```
//!
//! 1. What the tier has of a page is what lies at its place.
//! 2. Nothing is known of the tier at an opening.

use super::{InPlace, Media, PagePlace, PageRead, PageWrite, Propagation};
use crate::page::seal_page;
use crate::propagation::ChangedRanges;
use crate::volume::{Io, IoOwner};
use crate::{FileId, PageAddress, StorageError};
use nandu_base::to_index;
use nandu_device::{IoBuffer, Operation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The volume of the tier.
pub(super) const TIER: &str = "tier";
/// The file on the volume of the data, which says that there is a tier.
pub(super) const FILES: [&str; 1] = ["tiered"];
const TIER_FILE: &str = "pages";

/// The settings of the tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TieredSettings {
    /// Slots of the tier.
    pub slot_count: u32,
    /// Whether pages are read from there. Else all lie in their places, always.
    pub is_read: bool,
}

impl Default for TieredSettings {
    fn default() -> Self {
        Self { slot_count: 16, is_read: true }
    }
}

impl TieredSettings {
    /// Checks that there is a slot for a page.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        match self.slot_count {
            0 => {
                Err(StorageError::InvalidSetting { what: "slot_count is 0; choose 16, say".into() })
            }
            _ => Ok(()),
        }
    }
}

/// Pages in their places and in a tier.
pub struct Tiered {
    in_place: InPlace,
    settings: TieredSettings,
    page_bytes: u32,
    tier: Io,
    file: FileId,
    slots: BTreeMap<PageAddress, u32>,
    next_slot: u32,
    reads: Vec<(u64, PageAddress)>,
}

impl Tiered {
    /// Over the data and [`TIER`].
    ///
    /// # Errors
    /// If a medium is missing, or a device fails.
    pub fn new(
        media: Media,
        page_bytes: u32,
        settings: &TieredSettings,
    ) -> Result<Self, StorageError> {
        let tier = media.volume(TIER)?.clone();
        match media.data().create(FILES[0]) {
            Ok(file) => media.data().sync(file)?,
            Err(StorageError::Exists { .. }) => {}
            Err(error) => return Err(error),
        }
        let known = tier.files().into_iter().find(|(_, name)| name == TIER_FILE);
        let file = known.map_or_else(|| tier.create(TIER_FILE), |(file, _)| Ok(file))?;
        let in_place = InPlace::new(media, page_bytes)?;
        let (slots, reads) = (BTreeMap::new(), Vec::new());
        let settings = settings.clone();
        Ok(Self { in_place, settings, page_bytes, tier, file, slots, next_slot: 0, reads })
    }

    fn slot_bytes(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.page_bytes)
    }
}

impl Propagation for Tiered {
    fn data(&self) -> &Io {
        self.in_place.data()
    }

    fn locate(&self, address: PageAddress) -> Option<PagePlace> {
        let is_in_tier = self.settings.is_read && self.slots.contains_key(&address);
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
        !self.settings.is_read
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
        match self.slots.get(&address).filter(|_| self.settings.is_read) {
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
        self.next_slot = (slot + 1) % self.settings.slot_count;
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
        assert!(slots.iter().all(|slot| *slot < self.settings.slot_count));
    }
}
