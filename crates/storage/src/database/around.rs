//! Entries of raw trees around a place, locked as far as they are looked at and no further: for whoever keeps
//! something in entries that has an order of its own, as documents keep nodes.
//!
//! ```text
//!   entries       a        f             k    m        t          from f up to t, not included:
//!   asked for          │         g ── l          n                the last one at or before g,
//!   locked                 └───────────────────────┘              the first one at or behind n
//! ```
//!
//! 1. What is locked is found first, without locks, and again when it is locked: nobody can have put anything
//!    in or taken it out since.
//! 2. An entry at the end that is not asked for is not locked. That there is none before it is.

use super::entries::{EntryRange, EntryScan};
use super::locks::{Mode, Span};
use super::open_table::OpenTable;
use super::tables::Tables;
use super::transaction::{Isolation, WriteTransaction};
use crate::btree::{Direction, Tree};
use crate::{ReadPages, StorageError};
use std::ops::Bound;
use std::sync::Arc;

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Keys of a raw tree: from the last entry at, or before, the first of them to the first one at or behind their
/// end, that one not included.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    start: Bound<&'a [u8]>,
    end: &'a [u8],
    has_next: bool,
}

impl<'a> Around<'a> {
    /// From the last entry whose key is `start` or comes before it.
    #[must_use]
    pub const fn keys(start: &'a [u8], end: &'a [u8]) -> Self {
        Self { start: Bound::Included(start), end, has_next: false }
    }

    /// From the last entry before `place`: the entry after which one would be put there.
    #[must_use]
    pub const fn gap(place: &'a [u8]) -> Self {
        Self { start: Bound::Excluded(place), end: place, has_next: false }
    }

    /// The same, with the first entry at or behind the end.
    #[must_use]
    pub const fn with_next(mut self) -> Self {
        self.has_next = true;
        self
    }

    /// The bounds of these entries on some pages.
    fn bounds<P: ReadPages>(self, tree: Tree, pages: &P) -> Result<Bounds, StorageError> {
        let first = self.first(tree, pages)?;
        let behind = (Bound::Included(self.end), Bound::Unbounded);
        let mut behind = tree.scan(behind, Direction::Forward).with_ahead_count(0);
        let bound: fn(Vec<u8>) -> Bound<Vec<u8>> =
            if self.has_next { Bound::Included } else { Bound::Excluded };
        let next = behind.next(pages)?.map(|(key, _)| bound(key.to_vec()));
        Ok((first, next.unwrap_or(Bound::Unbounded)))
    }

    fn first<P: ReadPages>(self, tree: Tree, pages: &P) -> Result<Bound<Vec<u8>>, StorageError> {
        let before = (Bound::Unbounded, self.start);
        let mut before = tree.scan(before, Direction::Backward).with_ahead_count(0);
        let first = before.next(pages)?.map(|(key, _)| Bound::Included(key.to_vec()));
        Ok(first.unwrap_or(Bound::Unbounded))
    }
}

fn as_bytes((lower, upper): &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice))
}

impl Tables {
    /// Entries of a raw tree around keys. A serializable transaction locks these and the gaps around the keys,
    /// where [`Self::entries`] would lock all to the next bound that the caller knows.
    ///
    /// # Errors
    /// As [`Self::entries`].
    pub fn entries_around(
        &self,
        table: &str,
        around: Around<'_>,
    ) -> Result<EntryScan<'_>, StorageError> {
        let open = Arc::clone(self.table(table)?);
        let tree = open.raw()?;
        if self.locker.is_none() && !around.has_next {
            // Nobody asks how far the gap behind them goes.
            let first = around.first(tree, &self.view).map_err(self.named())?;
            let lower = first.as_ref().map(Vec::as_slice);
            let range = EntryRange::of(table).between((lower, Bound::Excluded(around.end)));
            return self.entries(range.with_ahead_count(0));
        }
        let mut bounds = around.bounds(tree, &*self.statement()?).map_err(self.named())?;
        while self.locker.is_some() {
            self.lock_range(tree.file(), as_bytes(&bounds), &open)?;
            let found = around.bounds(tree, &*self.statement()?).map_err(self.named())?;
            if found == bounds {
                break;
            }
            bounds = found;
        }
        let range = EntryRange::of(table).between(as_bytes(&bounds)).with_ahead_count(0);
        self.entries(range)
    }
}

impl WriteTransaction<'_> {
    /// Locks entries of a raw tree around keys, which are to be changed after they were read, with the gaps
    /// around the keys, and gives them: nobody else reads them for the same purpose meanwhile, changes them, or
    /// puts anything between. See [`Self::claim_by_key`].
    ///
    /// # Errors
    /// As [`Self::claim_value`].
    pub fn claim_entries_around(
        &mut self,
        table: &str,
        around: Around<'_>,
    ) -> Result<EntryScan<'_>, StorageError> {
        self.take_entries_around(table, around, Mode::Exclusive)
    }

    /// As [`Self::claim_entries_around`], for who decides by what is there what is changed elsewhere: others may
    /// look at it, too.
    ///
    /// # Errors
    /// As there.
    pub fn keep_entries_around(
        &self,
        table: &str,
        around: Around<'_>,
    ) -> Result<EntryScan<'_>, StorageError> {
        self.take_entries_around(table, around, Mode::Shared)
    }

    fn take_entries_around(
        &self,
        table: &str,
        around: Around<'_>,
        mode: Mode,
    ) -> Result<EntryScan<'_>, StorageError> {
        let open = self.rows_of(table)?;
        let tree = open.raw()?;
        let mut bounds = around.bounds(tree, &*self.statement()?).map_err(self.named())?;
        loop {
            let (lower, upper) = as_bytes(&bounds);
            self.claim_range(&open, (lower, upper), mode)?;
            let found = around.bounds(tree, &*self.statement()?).map_err(self.named())?;
            if found == bounds {
                break;
            }
            bounds = found;
        }
        let range = EntryRange::of(table).between(as_bytes(&bounds)).with_ahead_count(0);
        self.entries(range)
    }

    /// Keeps a range of entries of a raw tree as it is until the transaction ends, whatever its isolation:
    /// others may read it. Of isolation `snapshot` it has to be what it was when the transaction began.
    ///
    /// # Errors
    /// As [`Self::claim_value`].
    pub fn keep_entries(
        &self,
        table: &str,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<(), StorageError> {
        let open = self.rows_of(table)?;
        open.raw()?;
        self.claim_range(&open, bounds, Mode::Shared)
    }

    fn claim_range(
        &self,
        open: &OpenTable,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        mode: Mode,
    ) -> Result<(), StorageError> {
        let told = || format!("entries of {}", open.definition.name);
        let span = Span::Range(lower, upper);
        self.take_span(open.definition.file, (span, mode), told)?;
        if self.isolation() == Isolation::Serializable {
            return Ok(());
        }
        let (tree, now) = (open.raw()?, self.present()?);
        let scan = || tree.scan((lower, upper), Direction::Forward).with_ahead_count(0);
        let (mut cursor_now, mut cursor_then) = (scan(), scan());
        loop {
            let (now, then) = (cursor_now.next(&now)?, cursor_then.next(&*self.statement()?)?);
            self.check_same(open, now == then)?;
            if now.is_none() && then.is_none() {
                return Ok(());
            }
        }
    }
}
