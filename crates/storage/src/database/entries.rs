//! Raw trees as what they are: keys and values of bytes. Everywhere else they are tables with the columns
//! `key` and `value`; here nobody makes rows of their entries.
//!
//! ```text
//!   create_raw_table ─► put_value, insert_value, delete_value ─► value, values, entries
//!   load_table(NewTable::raw) ─► push_entry …
//! ```
//!
//! 1. Keys are compared as bytes, a key before all that begin with it.
//! 2. A scan sees one moment, as in `row_scan`; of a serializable transaction its range is locked.

use super::copies::{BatchCopy, RecordCopy};
use super::key::after_prefix;
use super::kind::TableKind;
use super::load::{NewTable, TableLoad};
use super::names::with_names_of;
use super::open_table::OpenTable;
use super::tables::Tables;
use super::transaction::{Snapshot, WriteTransaction};
use super::view::EngineView;
use crate::StorageError;
use crate::btree::{Cursor, Direction, Entry, Tree};
use crate::sqlite::ValueRef;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Which entries of a raw tree, and in which order.
///
/// ```
/// use nandu_storage::database::EntryRange;
///
/// // The name of a table is all its entries.
/// let all = EntryRange::from("nodes");
/// // Those whose keys begin with `doc/7/`, the last ones first.
/// let some = EntryRange::of("nodes").with_prefix(b"doc/7/").backward();
/// # let _ = (all, some);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EntryRange<'r> {
    table: &'r str,
    lower: Bound<&'r [u8]>,
    upper: Bound<&'r [u8]>,
    prefix: &'r [u8],
    direction: Direction,
    ahead_count: Option<usize>,
}

/// Entries of a raw tree one after the other: an iterator of copies, or looked at in place by
/// [`Self::next_entry`]. After an error it is at its end.
pub struct EntryScan<'t> {
    /// Of a transaction, which is lent: it changes nothing meanwhile.
    tables: PhantomData<&'t Tables>,
    table: Arc<OpenTable>,
    pages: EngineView,
    cursor: Cursor,
    is_over: bool,
}

impl<'r> EntryRange<'r> {
    /// All entries of a table.
    #[must_use]
    pub const fn of(table: &'r str) -> Self {
        let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
        let direction = Direction::Forward;
        Self { table, lower, upper, prefix: &[], direction, ahead_count: None }
    }

    /// Keys between bounds.
    #[must_use]
    pub const fn between(mut self, (lower, upper): (Bound<&'r [u8]>, Bound<&'r [u8]>)) -> Self {
        (self.lower, self.upper) = (lower, upper);
        self
    }

    /// Keys from `key` on.
    #[must_use]
    pub const fn at_least(mut self, key: &'r [u8]) -> Self {
        self.lower = Bound::Included(key);
        self
    }

    /// Keys before `key`.
    #[must_use]
    pub const fn less_than(mut self, key: &'r [u8]) -> Self {
        self.upper = Bound::Excluded(key);
        self
    }

    /// Of these, keys that begin with `prefix`.
    #[must_use]
    pub const fn with_prefix(mut self, prefix: &'r [u8]) -> Self {
        self.prefix = prefix;
        self
    }

    /// From the largest key to the smallest.
    #[must_use]
    pub const fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// How many leaves are asked for ahead, 32 without it; 0 suits who stops within a leaf.
    #[must_use]
    pub const fn with_ahead_count(mut self, count: usize) -> Self {
        self.ahead_count = Some(count);
        self
    }

    /// The bounds of all that is asked for; `behind` is the first key behind those with the prefix.
    fn bounds<'b>(&self, behind: Option<&'b [u8]>) -> (Bound<&'b [u8]>, Bound<&'b [u8]>)
    where
        'r: 'b,
    {
        let starts_before = match self.lower {
            Bound::Unbounded => true,
            Bound::Included(key) | Bound::Excluded(key) => key < self.prefix,
        };
        let lower = if starts_before { Bound::Included(self.prefix) } else { self.lower };
        let upper = match (behind, self.upper) {
            (Some(behind), Bound::Unbounded) => Bound::Excluded(behind),
            (Some(behind), Bound::Included(key) | Bound::Excluded(key)) if behind <= key => {
                Bound::Excluded(behind)
            }
            (_, upper) => upper,
        };
        (lower, upper)
    }
}

impl<'r> From<&'r str> for EntryRange<'r> {
    fn from(table: &'r str) -> Self {
        Self::of(table)
    }
}

impl Tables {
    /// Lends the value that a raw tree has for a key to `look`.
    ///
    /// # Errors
    /// If there is no such raw tree, or a page cannot be read.
    pub fn value<R>(
        &self,
        table: &str,
        key: &[u8],
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StorageError> {
        let table = self.table(table)?;
        let tree = table.raw()?;
        self.lock_key(table, key)?;
        let mut copy = RecordCopy::take();
        let pages = self.statement_about(table.definition.file, |other| other == key)?;
        let found = match pages.hold(table.definition.file) {
            Some(held) => tree.get(&held, key, |value| copy.set(value)),
            None => tree.get(&*pages, key, |value| copy.set(value)),
        };
        Ok(found.map_err(self.named())?.map(|()| look(copy.bytes())))
    }

    /// Lends the values that a raw tree has for these keys to `look`, each with the place of its key in
    /// `keys`, in no particular order. All are on their way at once, so the device's queue is full. Keys
    /// that are not there are passed over.
    ///
    /// # Errors
    /// If there is no such raw tree, or a page cannot be read.
    pub fn values<K: AsRef<[u8]>>(
        &self,
        table: &str,
        keys: &[K],
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<(), StorageError> {
        let table = self.table(table)?;
        let tree = table.raw()?;
        keys.iter().try_for_each(|key| self.lock_key(table, key.as_ref()))?;
        let pages = &*self.statement_about_keys(table.definition.file, keys)?;
        let mut copies = BatchCopy::take();
        let looked = tree.get_batch(pages, keys, |index, value| {
            value.into_iter().for_each(|value| copies.add(index, value));
        });
        looked.map_err(self.named())?;
        let read = |index: usize, copy: &mut RecordCopy| {
            let found = tree.get(pages, keys[index].as_ref(), |value| copy.set(value));
            Ok(found.map_err(self.named())?.is_some())
        };
        copies.lend(read, |index, value| {
            look(index, value);
            Ok(())
        })
    }

    /// Entries of a raw tree, or of a range of them. Of a write transaction these cannot be changed
    /// meanwhile.
    ///
    /// # Errors
    /// If there is no such raw tree, or of a serializable transaction others are in the way.
    pub fn entries<'r>(
        &self,
        range: impl Into<EntryRange<'r>>,
    ) -> Result<EntryScan<'_>, StorageError> {
        EntryScan::begin(self, &range.into())
    }
}

impl Snapshot {
    /// Entries of a raw tree, or of a range of them, at the moment of the snapshot. They may go to another
    /// thread and outlive the snapshot; the database cannot be closed before they are dropped.
    ///
    /// # Errors
    /// If there is no such raw tree.
    pub fn entries<'r>(
        &self,
        range: impl Into<EntryRange<'r>>,
    ) -> Result<EntryScan<'static>, StorageError> {
        EntryScan::begin(self, &range.into())
    }
}

impl EntryScan<'_> {
    fn begin(tables: &Tables, range: &EntryRange<'_>) -> Result<Self, StorageError> {
        let table = Arc::clone(tables.table(range.table)?);
        let tree = table.raw()?;
        let behind = after_prefix(range.prefix);
        let bounds = range.bounds(behind.as_deref());
        tables.lock_range(tree.file(), bounds, &table)?;
        let is_wanted = |key: &[u8]| RangeBounds::<[u8]>::contains(&bounds, key);
        let pages = tables.statement_about(tree.file(), is_wanted)?.into_view();
        let cursor = tree.scan(bounds, range.direction);
        let cursor = match range.ahead_count {
            Some(count) => cursor.with_ahead_count(count),
            None => cursor,
        };
        Ok(Self { tables: PhantomData, table, pages, cursor, is_over: false })
    }

    /// The next entry in place, until the next call; `None` after the last one.
    ///
    /// # Errors
    /// If a page cannot be read or breaks a rule. The scan is at its end then.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, StorageError> {
        let Self { pages, cursor, is_over, .. } = self;
        if *is_over {
            return Ok(None);
        }
        let next = cursor.next(pages).map_err(|error| with_names_of(|| pages.files(), error));
        *is_over = !matches!(next, Ok(Some(_)));
        next
    }
}

impl Iterator for EntryScan<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_entry();
        next.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec()))).transpose()
    }
}

impl FusedIterator for EntryScan<'_> {}

impl std::fmt::Debug for EntryScan<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "EntryScan({})", self.table.definition.name)
    }
}

impl WriteTransaction<'_> {
    /// Makes an empty raw tree.
    ///
    /// # Errors
    /// As [`Self::create_table`].
    pub fn create_raw_table(&mut self, name: &str) -> Result<(), StorageError> {
        let NewTable { columns, kind, .. } = NewTable::raw(name);
        self.create_table(name, columns, kind)
    }

    /// Stores a value for a key of a raw tree, in the place of the one that it has. True if it had one.
    ///
    /// # Errors
    /// If there is no such raw tree, the key or the value is too long, there is no room, or other
    /// transactions are in the way.
    pub fn put_value(
        &mut self,
        table: &str,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, StorageError> {
        let open = self.raw_to_change(table, key)?;
        self.step(|core| core.put_value(&open, key, value))
    }

    /// Stores a value for a key of a raw tree that has none.
    ///
    /// # Errors
    /// As [`Self::put_value`], and if the key has a value.
    pub fn insert_value(
        &mut self,
        table: &str,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StorageError> {
        let open = self.raw_to_change(table, key)?;
        let row = [ValueRef::Blob(key), ValueRef::Blob(value)];
        self.step(|core| core.insert_row(&open, &row)).map(drop)
    }

    /// Removes a key of a raw tree and its value. False if it is not there.
    ///
    /// # Errors
    /// If there is no such raw tree, or other transactions are in the way.
    pub fn delete_value(&mut self, table: &str, key: &[u8]) -> Result<bool, StorageError> {
        let open = self.raw_to_change(table, key)?;
        self.step(|core| core.delete_key(&open, key))
    }

    /// Locks a key of a raw tree that is to be changed after its value was read: see
    /// [`Self::claim_by_key`].
    ///
    /// # Errors
    /// As [`Self::delete_value`].
    pub fn claim_value(&mut self, table: &str, key: &[u8]) -> Result<(), StorageError> {
        self.raw_to_change(table, key).map(drop)
    }

    /// A raw tree, with a key of it locked.
    fn raw_to_change(&self, table: &str, key: &[u8]) -> Result<Arc<OpenTable>, StorageError> {
        let open = self.rows_of(table)?;
        open.raw()?;
        self.claim_key(&open, key)?;
        Ok(open)
    }
}

impl NewTable {
    /// A raw tree.
    #[must_use]
    pub fn raw(name: &str) -> Self {
        let kind = TableKind::Raw;
        let columns = kind.own_columns().expect("a raw tree has columns of its own");
        Self { name: name.to_owned(), columns, kind, indexes: Vec::new() }
    }
}

impl TableLoad<'_> {
    /// Adds an entry to a raw tree: as [`Self::push`], of a row of two blobs.
    ///
    /// # Errors
    /// As there.
    pub fn push_entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        self.push(&[ValueRef::Blob(key), ValueRef::Blob(value)])
    }
}

impl OpenTable {
    pub(super) fn raw(&self) -> Result<Tree, StorageError> {
        self.rows.raw().ok_or_else(|| self.wrong_kind("no raw tree: it has rows of columns"))
    }
}
