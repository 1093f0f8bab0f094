//! Values to which several transactions add at the same time, such as counts: what each adds is put in when it
//! commits, so that nobody waits for another one's end (the commuting operations of O'Neil, "The Escrow
//! Transactional Method", TODS 11(4), 1986, without its bounds).
//!
//! ```text
//!   merge_value(count, + 3) ─┐                        ┌─ commit: value ─► value + 3, then the commit's record
//!   merge_value(count, + 1) ─┴─ kept in memory ───────┤  with the engine held, so nothing comes between
//!                                                     └─ rollback: forgotten
//! ```
//!
//! 1. Between the first value that a commit merges and its record in the log nobody else acts, so a merged value
//!    that is not committed is seen by nobody and taken back before anybody merges another.
//! 2. Who has said that it merges a value keeps others from reading it serializably, and from changing it.

use super::core::Core;
use super::locks::{Mode, Span};
use super::open_table::OpenTable;
use super::transaction::{WriteTransaction, unless_changed};
use crate::StorageError;
use std::sync::Arc;

type Merging = dyn FnOnce(Option<&[u8]>) -> Result<Vec<u8>, StorageError> + Send + Sync;

/// What a transaction adds to a value when it commits.
pub(super) struct Merge {
    table: Arc<OpenTable>,
    key: Vec<u8>,
    merging: Box<Merging>,
}

impl WriteTransaction<'_> {
    /// Changes the value that a raw tree has for a key when the transaction commits, to what `merging` makes of
    /// the one that is there then. Others may do so at the same time, whatever their isolation, and what all of
    /// them do has to come to the same in any order. The transaction itself reads the value without it.
    ///
    /// # Errors
    /// As [`Self::put_value`]. What `merging` returns fails the commit.
    pub fn merge_value(
        &mut self,
        table: &str,
        key: &[u8],
        merging: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, StorageError> + Send + Sync + 'static,
    ) -> Result<(), StorageError> {
        let table = self.table_to_merge(table, key)?;
        self.merges.push(Merge { table, key: key.to_vec(), merging: Box::new(merging) });
        Ok(())
    }

    /// Keeps others from changing or serializably reading a value to which something will be added.
    ///
    /// # Errors
    /// As [`Self::merge_value`].
    pub fn announce_merge(&mut self, table: &str, key: &[u8]) -> Result<(), StorageError> {
        self.table_to_merge(table, key).map(drop)
    }

    fn table_to_merge(&self, table: &str, key: &[u8]) -> Result<Arc<OpenTable>, StorageError> {
        let open = self.rows_of(table)?;
        open.raw()?;
        let told = || format!("a count of table {table}");
        self.take_span(open.definition.file, (Span::Key(key), Mode::Merging), told)?;
        Ok(open)
    }

    /// Brings the pages of values that are to be merged into memory, so that others need not wait for them.
    pub(super) fn fetch_merged(&self) -> Result<(), StorageError> {
        if self.merges.is_empty() || !self.has_company() {
            return Ok(());
        }
        let present = self.present()?;
        self.merges.iter().try_for_each(|Merge { table, key, .. }| {
            unless_changed(table.keyed()?.get(&present, key, |_| ()).map(drop))
        })
    }
}

impl Core {
    /// Merges a value, in the transaction that is about to commit.
    pub(super) fn merge(&mut self, merge: Merge) -> Result<(), StorageError> {
        let Merge { table, key, merging } = merge;
        let old = table.keyed()?.get(&self.engine, &key, <[u8]>::to_vec)?;
        let new = merging(old.as_deref())?;
        if old.as_ref() != Some(&new) {
            self.put_value(&table, &key, &new)?;
        }
        Ok(())
    }
}
