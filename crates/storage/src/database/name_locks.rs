//! Names that lie in each other, which transactions lock as finely as they want: see `locks::names`. The file
//! of a table has a space of them, whose meaning is the caller's; what entries there are of what they stand
//! for is locked as well, where it is read and changed.

use super::locks::{NameMode, PathTaking, Wanted};
use super::open_table::OpenTable;
use super::tables::Tables;
use super::transaction::WriteTransaction;
use crate::StorageError;
use std::sync::Arc;

/// What a transaction is about to do with what a name stands for, and all below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameAccess {
    /// Something below it will be read.
    ReadBelow,
    /// Something below it will be changed.
    ChangeBelow,
    /// It will be read.
    Read,
    /// It will be changed.
    Change,
}

impl NameAccess {
    const fn mode(self) -> NameMode {
        match self {
            Self::ReadBelow => NameMode::IntendRead,
            Self::ChangeBelow => NameMode::IntendChange,
            Self::Read => NameMode::Read,
            Self::Change => NameMode::Change,
        }
    }
}

impl Tables {
    /// Locks the last name of a path to read what it stands for, those above it on the way. Where reading takes
    /// no locks nothing is done.
    ///
    /// # Errors
    /// If there is no such table, or other transactions are in the way.
    pub fn lock_path_to_read(&self, table: &str, path: &[&[u8]]) -> Result<(), StorageError> {
        match self.locker {
            Some(transaction) => {
                self.lock_path(transaction, self.table(table)?, path, NameMode::Read)
            }
            None => Ok(()),
        }
    }

    /// How many names a transaction that locks what it reads has locked in a table; 0 for others.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn read_name_count(&self, table: &str) -> Result<usize, StorageError> {
        let file = self.table(table)?.definition.file;
        let count = |transaction| self.view.shared().locks.name_count(transaction, file);
        Ok(self.locker.map_or(0, count))
    }

    /// As [`WriteTransaction::try_widen`], of a transaction that locks what it reads; false for others.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn try_widen_read(&self, table: &str, name: &[u8]) -> Result<bool, StorageError> {
        let file = self.table(table)?.definition.file;
        let widen = |transaction| self.view.shared().locks.try_widen(transaction, file, name);
        Ok(self.locker.is_some_and(widen))
    }

    fn lock_path(
        &self,
        transaction: u64,
        table: &OpenTable,
        path: &[&[u8]],
        mode: NameMode,
    ) -> Result<(), StorageError> {
        let shared = self.view.shared();
        let (file, name) = (table.definition.file, &table.definition.name);
        loop {
            match shared.locks.try_path(transaction, file, path, mode) {
                PathTaking::Taken => return Ok(()),
                PathTaking::Excluded(place, mode) => {
                    let wanted = Wanted::name(file, path[place], mode);
                    shared.wait_for_lock(transaction, &wanted, || format!("a part of {name}"))?;
                }
            }
        }
    }
}

impl WriteTransaction<'_> {
    /// Locks the last name of a path, and those above it as far as that needs. Names need no entries.
    ///
    /// # Errors
    /// As [`Tables::lock_path_to_read`].
    pub fn lock_path(
        &self,
        table: &str,
        path: &[&[u8]],
        access: NameAccess,
    ) -> Result<(), StorageError> {
        let open = self.rows_of(table)?;
        (**self).lock_path(self.id, &open, path, access.mode())
    }

    /// How many names the transaction has locked in a table.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn name_count(&self, table: &str) -> Result<usize, StorageError> {
        let open: Arc<OpenTable> = self.rows_of(table)?;
        Ok(self.tables.view.shared().locks.name_count(self.id, open.definition.file))
    }

    /// Locks a name that all others which the transaction has locked in a table lie below, in their place: to
    /// change it, if one of them was. Waits for nobody; false if others are in the way.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn try_widen(&self, table: &str, name: &[u8]) -> Result<bool, StorageError> {
        let open: Arc<OpenTable> = self.rows_of(table)?;
        Ok(self.tables.view.shared().locks.try_widen(self.id, open.definition.file, name))
    }
}
