//! What has to be kept in mind beside pages: files that were cut off, and writes that never were.
//!
//! A cut tells pages that lie somewhere from those that are there; a page that is written afterwards is
//! newer. It is kept as long as a segment may have something older.
//!
//! 1. No cut is kept beside a later one of more of the file.

use crate::PageAddress;
use std::collections::BTreeMap;

/// Where a note lies, and of when it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) stamp: u64,
    pub(super) segment: u32,
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    /// By the first page that is gone.
    cuts: BTreeMap<PageAddress, Note>,
    /// By the first sequence; the stamp is the last.
    voids: BTreeMap<u64, Note>,
}

impl Notes {
    pub(super) fn cut(&self, first: PageAddress) -> Option<Note> {
        self.cuts.get(&first).copied()
    }

    pub(super) fn void(&self, from: u64) -> Option<Note> {
        self.voids.get(&from).copied()
    }

    /// Notes a cut, and says which segments have a note less.
    pub(super) fn add_cut(&mut self, first: PageAddress, note: Note) -> Vec<u32> {
        let is_covered = |known: &PageAddress, it: &Note| {
            known.file == first.file && known.page >= first.page && it.stamp <= note.stamp
        };
        let mut freed = Vec::new();
        self.cuts.retain(|known, it| {
            let is_kept = !is_covered(known, it);
            freed.extend((!is_kept).then_some(it.segment));
            is_kept
        });
        self.cuts.insert(first, note);
        freed
    }

    /// Notes a void, and says which segment has a note less.
    pub(super) fn add_void(&mut self, from: u64, note: Note) -> Option<u32> {
        self.voids.insert(from, note).map(|before| before.segment)
    }

    /// Whether a version of a page is gone.
    pub(super) fn is_gone(&self, page: PageAddress, stamp: u64) -> bool {
        let cuts = self.cuts.range(PageAddress::new(page.file, 0)..=page);
        cuts.into_iter().any(|(_, note)| note.stamp > stamp)
    }

    /// Drops what concerns nothing that was written at or after `sequence`, and says which segments have
    /// a note less.
    pub(super) fn prune(&mut self, sequence: u64) -> Vec<u32> {
        let mut freed = Vec::new();
        let mut keep = |note: &Note| {
            let is_kept = note.stamp >= sequence;
            freed.extend((!is_kept).then_some(note.segment));
            is_kept
        };
        self.cuts.retain(|_, note| keep(note));
        self.voids.retain(|_, note| keep(note));
        freed
    }

    pub(super) fn count(&self) -> usize {
        self.cuts.len() + self.voids.len()
    }

    /// The segments of all notes.
    pub(super) fn segments(&self) -> impl Iterator<Item = u32> {
        self.cuts.values().chain(self.voids.values()).map(|note| note.segment)
    }
}
