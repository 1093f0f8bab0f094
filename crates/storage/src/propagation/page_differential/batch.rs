//! What is gathered for one write: flash pages and notes, and what they change.
//!
//! 1. Nothing of it is in the table of pages before it is written.

use super::differential::Waiting;
use super::map::{PageTable, Version};
use super::summary::{self, Entry, EntryKind};
use crate::PageAddress;
use nandu_base::to_u32;
use std::collections::{BTreeMap, BTreeSet};

/// What a write changes.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Base {
        address: PageAddress,
        stamp: u64,
        /// Where the flash page starts in the records.
        start: u32,
        /// The differential that waited, and is not needed with this.
        replaced: Option<Waiting>,
    },
    Difference {
        address: PageAddress,
        waiting: Waiting,
        /// Where the flash page starts in the records.
        flash_page: u32,
        /// Where the record is in the flash page.
        at: u32,
    },
    Cut {
        first: PageAddress,
        stamp: u64,
        is_moved: bool,
    },
    Void {
        from: u64,
        to: u64,
    },
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Flash pages, one behind the other.
    pub(super) bytes: Vec<u8>,
    /// Their starts count from the first of them.
    pub(super) entries: Vec<Entry>,
    pub(super) changes: Vec<Change>,
    /// Pages of which a differential is among them.
    differences: BTreeSet<PageAddress>,
}

impl Batch {
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a base page of that page is among it.
    pub(super) fn has_base_of(&self, address: PageAddress) -> bool {
        let word = address.to_word();
        self.entries.iter().any(|it| it.kind == EntryKind::Base && it.address == word)
    }

    /// Whether a differential of that page is among it: the newest that there is.
    pub(super) fn has_difference_of(&self, address: PageAddress) -> bool {
        self.differences.contains(&address)
    }

    /// Bytes of the write with so many flash pages and entries more.
    pub(super) fn sealed_bytes(
        &self,
        more_bytes: usize,
        more_count: usize,
        sector_bytes: u32,
    ) -> u64 {
        let front = summary::front_bytes(self.entries.len() + more_count, sector_bytes);
        front + (self.bytes.len() + more_bytes) as u64
    }

    /// Adds a flash page of `slot_bytes` that begins with `bytes`.
    pub(super) fn push_base(
        &mut self,
        (address, stamp): (PageAddress, u64),
        bytes: &[u8],
        slot_bytes: usize,
        replaced: Option<Waiting>,
    ) {
        let start = self.push_flash_page(EntryKind::Base, address.to_word(), stamp, slot_bytes);
        let slot = &mut self.bytes[start as usize..];
        slot[..bytes.len()].copy_from_slice(bytes);
        self.sum_last();
        self.changes.push(Change::Base { address, stamp, start, replaced });
    }

    /// Adds a flash page that `pack` fills with differentials.
    pub(super) fn push_differentials(
        &mut self,
        slot_bytes: usize,
        pack: impl FnOnce(&mut [u8]) -> Vec<(PageAddress, Waiting, u32)>,
    ) {
        let start = self.push_flash_page(EntryKind::Differentials, 0, 0, slot_bytes);
        let packed = pack(&mut self.bytes[start as usize..]);
        self.sum_last();
        self.differences.extend(packed.iter().map(|(address, ..)| *address));
        let change =
            |(address, waiting, at)| Change::Difference { address, waiting, flash_page: start, at };
        self.changes.extend(packed.into_iter().map(change));
    }

    pub(super) fn push_cut(&mut self, first: PageAddress, stamp: u64, is_moved: bool) {
        self.push_note(EntryKind::Truncated, first.to_word(), stamp);
        self.changes.push(Change::Cut { first, stamp, is_moved });
    }

    pub(super) fn push_void(&mut self, from: u64, to: u64) {
        self.push_note(EntryKind::Void, from, to);
        self.changes.push(Change::Void { from, to });
    }

    fn push_flash_page(
        &mut self,
        kind: EntryKind,
        address: u64,
        stamp: u64,
        slot_bytes: usize,
    ) -> u32 {
        let start = to_u32(self.bytes.len() as u64);
        self.bytes.resize(self.bytes.len() + slot_bytes, 0);
        self.entries.push(Entry { kind, sum: 0, address, stamp, start });
        start
    }

    fn push_note(&mut self, kind: EntryKind, address: u64, stamp: u64) {
        self.entries.push(Entry { kind, sum: 0, address, stamp, start: 0 });
    }

    fn sum_last(&mut self) {
        let entry = self.entries.last_mut().expect("it was pushed");
        entry.sum = crc32c::crc32c(&self.bytes[entry.start as usize..]);
    }

    /// The state of the table once this is in it.
    pub(super) fn state_after(&self, table: &PageTable) -> u64 {
        let mut versions: BTreeMap<PageAddress, Option<Version>> = BTreeMap::new();
        for change in &self.changes {
            let before = |address: &PageAddress| {
                versions.get(address).copied().unwrap_or_else(|| table.version(*address))
            };
            let (address, after) = match change {
                Change::Base { address, stamp, .. } => {
                    (address, Version::with_base(before(address), *stamp))
                }
                Change::Difference { address, waiting, .. } => {
                    let Waiting { base_stamp, stamp, .. } = *waiting;
                    (address, Version::with_difference(before(address), base_stamp, stamp))
                }
                Change::Cut { first, is_moved: false, .. } => {
                    let gone = table.pages_from(first.file, first.page);
                    versions.extend(gone.map(|(address, _)| (address, None)));
                    continue;
                }
                Change::Cut { .. } | Change::Void { .. } => continue,
            };
            if after.is_some() {
                versions.insert(*address, after);
            }
        }
        let mark = |address, version: Option<Version>| version.map_or(0, |it| it.mark(address));
        versions.into_iter().fold(table.state(), |state, (address, after)| {
            let before = mark(address, table.version(address));
            state.wrapping_sub(before).wrapping_add(mark(address, after))
        })
    }
}
