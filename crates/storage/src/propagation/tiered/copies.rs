//! What lies in the slots of a tier, as it was written there, and what the last map says of them.
//!
//! ```text
//!   map    magic 8 │ CRC 4 │ slots 4 │ page bytes 4 │ next slot 4 │ sequence 8 │ zeros to 64 │ slot …
//!   slot   page 8 │ sum 4 │ flags 4         bit 0: it has a copy   bit 1: newer than the page's place
//! ```
//!
//! 1. A page has one copy at most; no page has the number 0.
//! 2. A bound slot is one that the last map calls dirty.

use crate::tier::TierCopy;
use crate::{FileId, PageAddress};
use nandu_base::{FixedHashMap, to_u32};
use std::collections::BTreeSet;

/// Bytes in front of the slots, and of each slot.
const HEAD_BYTES: usize = 64;
const SLOT_BYTES: usize = 16;
const MAGIC: [u8; 8] = *b"nanduTIE";
const SUM_AT: usize = 8;
const COVERED_FROM: usize = 12;
const HAS_COPY: u32 = 1;
const IS_DIRTY: u32 = 2;

/// The slots with their copies.
#[derive(Debug)]
pub(super) struct Copies {
    slots: Vec<Slot>,
    by_page: FixedHashMap<u64, u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// 0 if there is none that counts.
    page: u64,
    sum: u32,
    is_dirty: bool,
    is_bound: bool,
}

/// What a map says.
pub(super) struct Map {
    pub(super) copies: Copies,
    pub(super) next_slot: u32,
    pub(super) sequence: u64,
    pub(super) page_bytes: u32,
}

impl Copies {
    pub(super) fn new(slot_count: u32) -> Self {
        Self { slots: vec![Slot::default(); slot_count as usize], by_page: FixedHashMap::default() }
    }

    pub(super) fn slot_count(&self) -> u32 {
        to_u32(self.slots.len() as u64)
    }

    /// The copy of a page.
    pub(super) fn find(&self, page: u64) -> Option<TierCopy> {
        let slot = *self.by_page.get(&page)?;
        Some(TierCopy { page, slot, is_dirty: self.is_dirty(slot) })
    }

    /// All copies, by their slots.
    pub(super) fn all(&self) -> Vec<TierCopy> {
        let slots = (0..).zip(&self.slots).filter(|(_, held)| held.page > 0);
        let copy = |(slot, held): (u32, &Slot)| {
            let Slot { page, is_dirty, .. } = *held;
            TierCopy { page, slot, is_dirty }
        };
        slots.map(copy).collect()
    }

    /// The files that pages with dirty copies are of.
    pub(super) fn files(&self) -> BTreeSet<FileId> {
        let dirty = self.slots.iter().filter(|held| held.page > 0 && held.is_dirty);
        dirty.map(|held| PageAddress::from_word(held.page).file).collect()
    }

    pub(super) fn sum(&self, slot: u32) -> u32 {
        self.slots[slot as usize].sum
    }

    pub(super) fn is_dirty(&self, slot: u32) -> bool {
        self.slots[slot as usize].is_dirty
    }

    pub(super) fn is_bound(&self, slot: u32) -> bool {
        self.slots[slot as usize].is_bound
    }

    /// A copy was written. What the slot and the page had before counts no more.
    pub(super) fn put(&mut self, copy: TierCopy, sum: u32) {
        let TierCopy { page, slot, is_dirty } = copy;
        self.remove(page);
        let before = self.slots[slot as usize];
        if before.page > 0 {
            assert!(!before.is_dirty, "no dirty copy is written over");
            self.by_page.remove(&before.page);
        }
        let is_bound = before.is_bound;
        self.slots[slot as usize] = Slot { page, sum, is_dirty, is_bound };
        self.by_page.insert(page, slot);
    }

    /// The page's place is as new as the copy in a slot.
    pub(super) fn mark_clean(&mut self, slot: u32) {
        self.slots[slot as usize].is_dirty = false;
    }

    /// The copy of a page counts no more; true if there was one.
    pub(super) fn remove(&mut self, page: u64) -> bool {
        let Some(slot) = self.by_page.remove(&page) else { return false };
        let held = &mut self.slots[slot as usize];
        (held.page, held.is_dirty) = (0, false);
        true
    }

    /// The last map says what is here now.
    pub(super) fn bind_dirty(&mut self) {
        self.slots.iter_mut().for_each(|held| held.is_bound = held.is_dirty);
    }

    /// Bytes of a map of so many slots.
    pub(super) fn map_bytes(slot_count: u32) -> usize {
        HEAD_BYTES + slot_count as usize * SLOT_BYTES
    }

    /// The map of what is here, into the first bytes of `buffer`.
    pub(super) fn encode(
        &self,
        (page_bytes, next_slot): (u32, u32),
        sequence: u64,
        bytes: &mut [u8],
    ) {
        bytes.fill(0);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[12..16].copy_from_slice(&self.slot_count().to_be_bytes());
        bytes[16..20].copy_from_slice(&page_bytes.to_be_bytes());
        bytes[20..24].copy_from_slice(&next_slot.to_be_bytes());
        bytes[24..32].copy_from_slice(&sequence.to_be_bytes());
        let entries = bytes[HEAD_BYTES..].chunks_exact_mut(SLOT_BYTES);
        for (entry, held) in entries.zip(&self.slots).filter(|(_, held)| held.page > 0) {
            let flags = HAS_COPY | if held.is_dirty { IS_DIRTY } else { 0 };
            entry[..8].copy_from_slice(&held.page.to_be_bytes());
            entry[8..12].copy_from_slice(&held.sum.to_be_bytes());
            entry[12..].copy_from_slice(&flags.to_be_bytes());
        }
        let whole = &bytes[COVERED_FROM..Self::map_bytes(self.slot_count())];
        let sum = crc32c::crc32c(whole);
        bytes[SUM_AT..COVERED_FROM].copy_from_slice(&sum.to_be_bytes());
    }

    /// What the bytes of a map say, if they are one, and whole.
    pub(super) fn decode(bytes: &[u8]) -> Option<Map> {
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|it| u32::from_be_bytes(*it));
        let long = |at: usize| bytes.get(at..)?.first_chunk().map(|it| u64::from_be_bytes(*it));
        let (slot_count, page_bytes, next_slot) = (word(12)?, word(16)?, word(20)?);
        let sequence = long(24)?;
        let length = u64::from(slot_count) * SLOT_BYTES as u64 + HEAD_BYTES as u64;
        let covered = bytes.get(COVERED_FROM..usize::try_from(length).ok()?)?;
        if bytes[..8] != MAGIC || word(SUM_AT)? != crc32c::crc32c(covered) {
            return None;
        }
        let mut copies = Self::new(slot_count);
        for (slot, at) in (0..slot_count).zip((HEAD_BYTES..).step_by(SLOT_BYTES)) {
            let (page, sum, flags) = (long(at)?, word(at + 8)?, word(at + 12)?);
            if flags & HAS_COPY == 0 {
                continue;
            }
            let is_page = PageAddress::from_word(page).to_word() == page;
            if !is_page || PageAddress::from_word(page).page == 0 || copies.find(page).is_some() {
                return None;
            }
            let is_dirty = flags & IS_DIRTY != 0;
            copies.put(TierCopy { page, slot, is_dirty }, sum);
        }
        copies.bind_dirty();
        (next_slot < slot_count).then_some(Map { copies, next_slot, sequence, page_bytes })
    }

    pub(super) fn audit(&self) {
        let held = self.slots.iter().filter(|held| held.page > 0).count();
        assert_eq!(held, self.by_page.len(), "a page has one copy at most");
        for (&page, &slot) in &self.by_page {
            assert_eq!(self.slots[slot as usize].page, page, "a copy is found by its page");
        }
        let is_left = |held: &Slot| held.page == 0 && held.is_dirty;
        assert!(!self.slots.iter().any(is_left), "what is dirty counts");
    }
}
