//! What the transaction that changes tables did so far. There is one at a time; others write meanwhile, to
//! other tables.
//!
//! ```text
//!   begin: the committed tables ─► make, drop, index ─┬─ commit: its tables are the committed ones
//!                                                     └─ rollback: they are forgotten, its files go
//! ```
//!
//! 1. Nobody else sees its tables. The committed ones stay what they are until it commits, also in memory.
//! 2. A table that it did not change is the same thing in memory in both.
//! 3. Whatever is changed about a heap's definition, its reader stays the same: who looks at the file through
//!    the committed table knows how far it has grown.

use super::catalog;
use super::core::Core;
use super::open_table::{OpenTable, OpenTables};
use super::schema::TableDefinition;
use crate::{FileId, StorageError};
use std::sync::Arc;

/// So many tables of one name may have been dropped of which somebody still sees the rows.
const NAME_COUNT_MAX: u32 = 10_000;

/// The tables as the transaction that changes them sees them, and what is to be done at its end.
#[derive(Debug)]
pub(super) struct Changing {
    transaction: u64,
    pub(super) open: Arc<OpenTables>,
    /// Whether it changed the catalogue.
    pub(super) catalog_changed: bool,
    /// Files that go when it commits.
    pub(super) dropped_files: Vec<FileId>,
    /// Files that it made.
    pub(super) created_files: Vec<FileId>,
}

impl Changing {
    /// Files that it made for what it took back go when it commits, too.
    pub(super) fn drop_unused_files(&mut self) {
        let Self { open, created_files, dropped_files, .. } = self;
        let is_used =
            |file| open.values().any(|table| table.definition.files().any(|it| it == file));
        let unused = std::mem::take(created_files).into_iter();
        for file in unused.filter(|&file| !is_used(file)) {
            if !dropped_files.contains(&file) {
                dropped_files.push(file);
            }
        }
    }
}

impl Core {
    /// The transaction changes tables from now on. It has the lock that one has at a time.
    ///
    /// # Errors
    /// If the engine has stopped: what another one did may still be there then.
    pub(super) fn begin_changes(&mut self, transaction: u64) -> Result<(), StorageError> {
        self.engine.check_usable()?;
        let Self { changing, committed, .. } = self;
        let changing = changing.get_or_insert_with(|| Changing {
            transaction,
            open: Arc::clone(committed),
            catalog_changed: false,
            dropped_files: Vec::new(),
            created_files: Vec::new(),
        });
        assert_eq!(changing.transaction, transaction, "one transaction changes tables at a time");
        Ok(())
    }

    /// What the transaction did, if it changes tables; it does no more.
    pub(super) fn end_changes(&mut self, transaction: u64) -> Option<Changing> {
        self.changing.take_if(|changing| changing.transaction == transaction)
    }

    /// The tables as the transaction sees them, if it changes tables.
    pub(super) fn tables_of(&self, transaction: u64) -> Option<&Arc<OpenTables>> {
        let changing = self.changing.as_ref();
        changing.filter(|it| it.transaction == transaction).map(|changing| &changing.open)
    }

    /// What the transaction that changes tables did.
    pub(super) fn changes(&self) -> &Changing {
        self.changing.as_ref().expect("who makes and drops has said that it changes tables")
    }

    /// The same, to be changed.
    pub(super) fn changes_mut(&mut self) -> &mut Changing {
        self.changing.as_mut().expect("who makes and drops has said that it changes tables")
    }

    /// Opens a table that the catalogue has, for who changes tables.
    pub(super) fn add_open(&mut self, definition: TableDefinition) -> Result<(), StorageError> {
        let key = catalog::key_of(&definition.name);
        let table = self.open_table(&key, definition)?;
        Arc::make_mut(&mut self.changes_mut().open).insert(key, table);
        Ok(())
    }

    fn open_table(
        &mut self,
        key: &[u8],
        definition: TableDefinition,
    ) -> Result<Arc<OpenTable>, StorageError> {
        let file = definition.file;
        // Invariant 3.
        let known = self.known(key).find(|known| known.definition.file == file);
        let (table, heap) =
            OpenTable::open(&self.engine, definition, known.map(|known| &known.rows))?;
        if let Some(heap) = heap {
            self.heaps.insert(file, heap);
        }
        Ok(Arc::new(table))
    }

    /// What is open under a name: the committed table, that of who changes tables.
    fn known(&self, key: &[u8]) -> impl Iterator<Item = &Arc<OpenTable>> {
        [&self.committed, &self.changes().open].into_iter().filter_map(move |open| open.get(key))
    }

    /// Reads the catalogue again, of which the transaction that changes tables took something back.
    pub(super) fn reload(&mut self) -> Result<(), StorageError> {
        let mut open = OpenTables::new();
        for definition in catalog::load(&self.engine, self.catalog)? {
            let key = catalog::key_of(&definition.name);
            // Invariant 2.
            let known = self.known(&key).find(|known| known.definition == definition);
            let table = match known {
                Some(known) => Arc::clone(known),
                None => self.open_table(&key, definition)?,
            };
            open.insert(key, table);
        }
        self.changes_mut().open = Arc::new(open);
        Ok(())
    }

    /// Tables whose drop was taken back keep their files.
    pub(super) fn forget_restored_drops(&mut self, transaction: u64) {
        let changing = self.changing.as_mut().filter(|it| it.transaction == transaction);
        let Some(Changing { open, dropped_files, .. }) = changing else { return };
        let is_used =
            |file| open.values().any(|table| table.definition.files().any(|it| it == file));
        dropped_files.retain(|&dropped| !is_used(dropped));
    }

    /// A file for a new table. If one of a table that was dropped in this transaction has the name,
    /// another is found.
    pub(super) fn create_file(&mut self, name: &str) -> Result<FileId, StorageError> {
        let mut attempt = name.to_owned();
        for number in 2.. {
            match self.engine.create_file(&attempt) {
                Ok(file) => {
                    self.changes_mut().created_files.push(file);
                    return Ok(file);
                }
                Err(StorageError::Exists { .. }) if number < NAME_COUNT_MAX => {
                    attempt = match name.rsplit_once('.') {
                        Some((stem, suffix)) => format!("{stem}-{number}.{suffix}"),
                        None => format!("{name}-{number}"),
                    };
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("the loop ends at the last attempt")
    }
}
