//! A frontier: where the log grows, and the records that wait there for their write.
//!
//! 1. Of each page at most one record that waits is alive, and one difference. Where a page waits that
//!    was written, no difference from the one before it does.
//! 2. Records that wait fit one partial segment where the frontier writes next.
//! 3. What waits is not in the map: a write that fails leaves it here.

use super::partial::{self, ENTRY_BYTES, Entry, EntryKind};
use super::record::{Location, UNIT_BYTES};
use crate::{FileId, PageAddress};
use nandu_base::{FixedHashMap, to_u32};

/// Where a frontier writes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The open segment.
    pub(super) segment: Option<u32>,
    /// Where its next partial segment starts.
    pub(super) offset: u32,
    /// The segment after it, named already.
    pub(super) next: Option<u32>,
}

/// A record that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) entry: Entry,
    /// Where the map says that the page lies, if this is a copy by cleaning. The copy counts only as
    /// long as that is so.
    pub(super) source: Option<Location>,
    is_alive: bool,
}

/// One of the places where the log grows.
#[derive(Debug)]
pub(super) struct Frontier {
    pub(super) position: Position,
    /// Room for the header, then records.
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
    alive_count: usize,
    by_page: FixedHashMap<Key, usize>,
}

/// A page, and whether it is about its difference.
type Key = (PageAddress, bool);

fn key_of(kind: EntryKind, address: PageAddress) -> Key {
    (address, kind == EntryKind::Difference)
}

impl Frontier {
    pub(super) fn new(position: Position) -> Self {
        Self {
            position,
            bytes: vec![0; partial::HEADER_BYTES],
            waiting: Vec::new(),
            alive_count: 0,
            by_page: FixedHashMap::default(),
        }
    }

    /// Whether nothing waits to be written.
    pub(super) const fn is_idle(&self) -> bool {
        self.alive_count == 0
    }

    /// Whether a record of so many bytes, at a multiple of `alignment`, still fits `room` with the
    /// table.
    pub(super) fn fits(
        &self,
        record_bytes: u32,
        alignment: u32,
        room: u32,
        sector_bytes: u32,
    ) -> bool {
        let start = self.bytes.len().next_multiple_of(alignment as usize);
        let end = (start + record_bytes as usize).next_multiple_of(UNIT_BYTES as usize);
        partial::sealed_bytes(end, self.waiting.len() + 1, sector_bytes) <= room as usize
    }

    /// Adds a record, which fits, and gives back its bytes to be filled. An older one of the same page
    /// gives way.
    pub(super) fn push(
        &mut self,
        kind: EntryKind,
        address: PageAddress,
        record_bytes: u32,
        alignment: u32,
        source: Option<Location>,
    ) -> &mut [u8] {
        if kind != EntryKind::Truncate {
            if let Some(known) = self.by_page.insert(key_of(kind, address), self.waiting.len()) {
                self.kill(known);
            }
            let is_written = kind != EntryKind::Difference && source.is_none();
            if is_written && let Some(known) = self.by_page.remove(&(address, true)) {
                self.kill(known);
            }
        }
        let start = self.bytes.len().next_multiple_of(alignment as usize);
        let end = start + record_bytes as usize;
        self.bytes.resize(end.next_multiple_of(UNIT_BYTES as usize), 0);
        let (is_moved, start_bytes) = (source.is_some(), to_u32(start as u64));
        let entry =
            Entry { kind, is_moved, address, start: start_bytes, stored_bytes: record_bytes };
        self.waiting.push(Waiting { entry, source, is_alive: true });
        self.alive_count += 1;
        &mut self.bytes[start..end]
    }

    /// Puts a record in the place of the one of the same page that waits, if there is one as long.
    pub(super) fn replace(
        &mut self,
        kind: EntryKind,
        address: PageAddress,
        record_bytes: u32,
    ) -> Option<&mut [u8]> {
        let &index = self.by_page.get(&key_of(kind, address))?;
        let waiting = &mut self.waiting[index];
        let allotted = waiting.entry.stored_bytes.next_multiple_of(UNIT_BYTES);
        // A page that cleaning copied keeps the difference that is stored beside it; a page that
        // was written anew has none. So one must not take the other's place.
        if waiting.entry.kind != kind || waiting.entry.is_moved || allotted < record_bytes {
            return None;
        }
        waiting.entry.stored_bytes = record_bytes;
        let start = waiting.entry.start as usize;
        let end = start + record_bytes as usize;
        self.bytes[end..start + allotted as usize].fill(0);
        Some(&mut self.bytes[start..end])
    }

    /// The record of a page that waits.
    pub(super) fn find(&self, address: PageAddress) -> Option<(EntryKind, &[u8])> {
        self.find_by_key((address, false))
    }

    /// Whether a page waits that was written as a whole, which ends its difference.
    pub(super) fn has_written(&self, address: PageAddress) -> bool {
        let index = self.by_page.get(&(address, false));
        index.is_some_and(|&index| !self.waiting[index].entry.is_moved)
    }

    /// The difference of a page that waits.
    pub(super) fn find_difference(&self, address: PageAddress) -> Option<&[u8]> {
        self.find_by_key((address, true)).map(|(_, record)| record)
    }

    fn find_by_key(&self, key: Key) -> Option<(EntryKind, &[u8])> {
        let waiting = &self.waiting[*self.by_page.get(&key)?];
        let start = waiting.entry.start as usize;
        let end = start + waiting.entry.stored_bytes as usize;
        Some((waiting.entry.kind, &self.bytes[start..end]))
    }

    /// Drops the records of a file from `first_page` on.
    pub(super) fn truncate(&mut self, file: FileId, first_page: u32) {
        let is_gone = |address: PageAddress| address.file == file && address.page >= first_page;
        self.retain(|waiting| {
            waiting.entry.kind == EntryKind::Truncate || !is_gone(waiting.entry.address)
        });
    }

    /// Drops the records that `keep` does not want.
    pub(super) fn retain(&mut self, keep: impl Fn(&Waiting) -> bool) {
        for index in 0..self.waiting.len() {
            let waiting = self.waiting[index];
            if waiting.is_alive && !keep(&waiting) {
                self.kill(index);
                let key = key_of(waiting.entry.kind, waiting.entry.address);
                if self.by_page.get(&key) == Some(&index) {
                    self.by_page.remove(&key);
                }
            }
        }
    }

    /// The records that wait, as the table will list them.
    pub(super) fn alive(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(|waiting| waiting.is_alive)
    }

    /// The records, with room for a header before them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what waits: it was written.
    pub(super) fn clear(&mut self) {
        self.bytes.truncate(partial::HEADER_BYTES);
        self.waiting.clear();
        self.by_page.clear();
        self.alive_count = 0;
    }

    fn kill(&mut self, index: usize) {
        let waiting = &mut self.waiting[index];
        if waiting.is_alive {
            waiting.is_alive = false;
            self.alive_count -= 1;
        }
    }

    /// # Panics
    /// If an invariant does not hold.
    pub(super) fn audit(&self, room: u32) {
        let alive = self.alive().count();
        assert_eq!(alive, self.alive_count, "records that wait are counted");
        let pages = self.alive().filter(|waiting| waiting.entry.kind != EntryKind::Truncate);
        for waiting in pages {
            let Entry { kind, address, .. } = waiting.entry;
            let index = self.by_page.get(&key_of(kind, address));
            let known = index.map(|&index| self.waiting[index].entry);
            assert_eq!(known, Some(waiting.entry), "invariant 1: one record of a page is alive");
            let is_written = kind != EntryKind::Difference && !waiting.entry.is_moved;
            assert!(!is_written || self.find_difference(address).is_none(), "invariant 1");
        }
        let bytes = self.bytes.len() + self.waiting.len() * ENTRY_BYTES;
        assert!(bytes <= room as usize, "invariant 2: {bytes} bytes wait for {room}");
    }
}
