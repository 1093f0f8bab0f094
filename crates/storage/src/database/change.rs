//! Everything that changes tables, inside the write transaction that is served.
//!
//! What a kind of table does to its rows is in `kind`. Locks are those of `locks`: rows that a caller names are locked before the engine is held alone, the
//! number of a new row and entries of indexes here. Tables come as their transaction sees them, with their
//! names locked.
//!
//! 1. What is cached of a table is forgotten whenever the engine takes changes back.
//! 2. After an error in the middle of a row, what the row's earlier steps did is taken back.

use super::catalog;
use super::core::{Core, Obstacle};
use super::kind::TableKind;
use super::open_table::OpenTable;
use super::schema::{Column, IndexDefinition, TableDefinition};
use super::step::Step;
use super::tables::entry_key;
use crate::btree::Tree;
use crate::engine::{Action, Savepoint, StructureKind};
use crate::error::unless_full;
use crate::log::RecordBuffer;
use crate::sqlite::{HeapTable, RecordView, ValueRef};
use crate::{Engine, FileId, Lsn, StorageError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Core {
    /// What [`super::WriteTransaction::create_table`] does once nobody else changes tables.
    pub(super) fn create_table(
        &mut self,
        name: &str,
        columns: Vec<Column>,
        kind: TableKind,
    ) -> Result<(), StorageError> {
        let catalog_key = catalog::key_of(name);
        if self.changes().open.contains_key(&catalog_key) {
            return Err(StorageError::Exists { what: format!("table {name}") });
        }
        let indexes = Vec::new();
        let mut definition =
            TableDefinition { name: name.to_owned(), columns, kind, file: FileId(0), indexes };
        definition.check_new()?;
        if !definition.kind.takes_changes() {
            let what = format!("table {name} in PAX pages would stay empty; load it with its rows");
            return Err(StorageError::InvalidSetting { what });
        }
        let suffix = definition.kind.file_suffix();
        let file = self.create_file(&format!("{}.{suffix}", file_name(name)?))?;
        definition.file = file;
        definition.create(&mut self.engine)?;
        catalog::store(&mut self.engine, self.catalog, &definition)?;
        self.changes_mut().catalog_changed = true;
        self.add_open(definition)
    }

    /// What [`super::WriteTransaction::drop_table`] does once nobody else uses it.
    pub(super) fn drop_table(&mut self, name: &str) -> Result<(), StorageError> {
        let catalog_key = catalog::key_of(name);
        let definition = &self.table(name)?.definition;
        let files: Vec<FileId> = definition.files().collect();
        catalog::remove(&mut self.engine, self.catalog, name)?;
        let changing = self.changes_mut();
        changing.catalog_changed = true;
        Arc::make_mut(&mut changing.open).remove(&catalog_key);
        changing.dropped_files.extend(files);
        Ok(())
    }

    /// The definition of a table with a new index, whose file is there and empty.
    pub(super) fn define_index(
        &mut self,
        table: &str,
        index: &str,
        columns: &[&str],
    ) -> Result<(Arc<OpenTable>, TableDefinition), StorageError> {
        let open = Arc::clone(self.table(table)?);
        open.check_changes()?;
        if open.heap().is_err() {
            let kind = open.definition.kind.label();
            let what = format!(
                "table {table} is {kind}: its rows have no numbers, in which an index entry \
                 would have to end; make a second table, clustered by the indexed columns and the \
                 key, or store the rows in a heap"
            );
            return Err(StorageError::InvalidSetting { what });
        }
        if open.index(index).is_ok() {
            return Err(StorageError::Exists { what: format!("index {index} of {table}") });
        }
        let columns: Result<Vec<usize>, StorageError> =
            columns.iter().map(|column| open.definition.column(column)).collect();
        let mut definition = open.definition.clone();
        let added = IndexDefinition { name: index.to_owned(), columns: columns?, file: FileId(0) };
        definition.indexes.push(added);
        definition.check()?;
        let file =
            self.create_file(&format!("{}.{}.tree", file_name(table)?, file_name(index)?))?;
        definition.indexes.last_mut().expect("it was just added").file = file;
        Ok((open, definition))
    }

    /// See [`super::WriteTransaction::insert`]. The key of a clustered table is locked.
    pub(super) fn insert_row(
        &mut self,
        open: &OpenTable,
        row: &[ValueRef<'_>],
    ) -> Result<i64, StorageError> {
        let mut row = row.to_vec();
        open.definition.conform(&mut row)?;
        let mut record = std::mem::take(&mut self.scratch.record);
        let answer = encode_row(&self.engine, open, &row, &mut record)
            .and_then(|()| open.rows.insert(self, open, &row, &record));
        self.scratch.record = record;
        answer
    }

    /// See [`super::WriteTransaction::update`]. The row is locked.
    pub(super) fn update_row(
        &mut self,
        open: &OpenTable,
        number: i64,
        row: &[ValueRef<'_>],
    ) -> Result<(), StorageError> {
        let old = self.old_entries(open, number)?;
        let mut row = row.to_vec();
        open.definition.conform(&mut row)?;
        let mut record = Vec::new();
        encode_row(&self.engine, open, &row, &mut record)?;
        open.heap()?.update(self, open, number, &record, old)
    }

    /// See [`super::WriteTransaction::delete`]. The row is locked.
    pub(super) fn delete_row(&mut self, open: &OpenTable, number: i64) -> Result<(), StorageError> {
        let old = self.old_entries(open, number)?;
        open.heap()?.delete(self, open, number, old)
    }

    /// Where pages that are missing are refused, looks at the leaves of entries before anything is changed: what
    /// was done before a miss is taken back.
    pub(super) fn look_at_entries<'i>(
        &self,
        entries: impl IntoIterator<Item = (&'i IndexDefinition, Vec<u8>)>,
    ) -> Result<(), StorageError> {
        if self.engine.refuses_misses() {
            for (index, entry) in entries {
                Tree::at(index.file).get(&self.engine, &entry, |_| ())?;
            }
        }
        Ok(())
    }

    pub(super) fn insert_entry(
        &mut self,
        open: &OpenTable,
        file: FileId,
        entry: &[u8],
    ) -> Result<(), StorageError> {
        self.lock_entry(open, file, entry)?;
        insert_entry(&mut self.engine, file, entry)?;
        self.note(|| Step::Put(file, entry.to_vec(), Vec::new()));
        Ok(())
    }

    pub(super) fn delete_entry(
        &mut self,
        open: &OpenTable,
        file: FileId,
        entry: &[u8],
    ) -> Result<(), StorageError> {
        self.lock_entry(open, file, entry)?;
        delete_entry(&mut self.engine, file, entry)?;
        self.note(|| Step::Delete(file, entry.to_vec()));
        Ok(())
    }

    fn lock_entry(
        &mut self,
        open: &OpenTable,
        file: FileId,
        entry: &[u8],
    ) -> Result<(), StorageError> {
        self.lock(file, entry, || format!("an entry of an index of table {}", open.definition.name))
    }

    pub(super) fn commit(&mut self) -> Result<Option<Lsn>, StorageError> {
        let transaction = self.engine.active_transaction();
        let lsn = self.engine.commit()?;
        let Some(mut changing) = self.end_changes(transaction) else { return Ok(lsn) };
        changing.drop_unused_files();
        self.heaps.retain(|file, _| !changing.dropped_files.contains(file));
        if !Arc::ptr_eq(&self.committed, &changing.open) {
            self.committed = changing.open;
            self.version.fetch_add(1, Ordering::Release);
        }
        self.dropped_files.extend(changing.dropped_files);
        Ok(lsn)
    }

    /// Takes back a part of what the transaction did: see [`Engine::undo_part`].
    pub(super) fn undo_part(
        &mut self,
        savepoint: Option<Savepoint>,
        record_count_max: u32,
        buffer: &mut RecordBuffer,
    ) -> Result<bool, StorageError> {
        // Others may change the heaps between two parts.
        self.heaps.values_mut().for_each(HeapTable::invalidate);
        self.engine.undo_part(savepoint, record_count_max, buffer)
    }

    pub(super) fn rollback(&mut self) -> Result<(), StorageError> {
        let transaction = self.engine.active_transaction();
        let has_changed = self.engine.has_changed();
        self.engine.rollback()?;
        let changing = self.end_changes(transaction);
        if has_changed {
            self.refresh_or_stop(transaction)?;
        }
        for file in changing.into_iter().flat_map(|changing| changing.created_files) {
            self.heaps.remove(&file);
            unless_full(self.engine.remove_file(file))?;
        }
        Ok(())
    }

    /// What is cached must not stay as it was before a rollback: heaps and the catalogue would be changed
    /// by what is not there any more.
    fn refresh_or_stop(&mut self, transaction: u64) -> Result<(), StorageError> {
        self.refresh(transaction).or_else(|error| self.engine.poison(error))
    }

    pub(super) fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), StorageError> {
        let transaction = self.engine.active_transaction();
        self.engine.rollback_to(savepoint)?;
        self.refresh_or_stop(transaction)?;
        self.forget_restored_drops(transaction);
        Ok(())
    }

    pub(super) fn has_dropped_files(&self) -> bool {
        !self.dropped_files.is_empty()
    }

    /// The files of dropped tables go as soon as no view from before now is left.
    pub(super) fn doom_dropped_files(&mut self) {
        let now = self.engine.log().next_lsn();
        self.doomed_files.extend(self.dropped_files.drain(..).map(|file| (now, file)));
    }

    /// Runs the steps of a row, or of some; all of them or none. Where they may not read pages that could be read
    /// without the engine, they are such that change one table; they fail where a page is missing, and it is
    /// noted which.
    pub(super) fn whole_row<T>(
        &mut self,
        may_read: bool,
        change: impl FnOnce(&mut Self) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let savepoint = self.engine.savepoint();
        self.changed_heap = None;
        if !may_read {
            self.engine.refuse_misses();
        }
        let result = change(self);
        // Before anything is taken back, which may have to be read.
        let missed = self.engine.take_missed();
        if result.is_err() {
            self.obstacle = missed.map(Obstacle::Page).or_else(|| self.obstacle.take());
            if may_read {
                self.rollback_to(savepoint)?;
            } else {
                self.engine.rollback_to(savepoint)?;
                // Read again by whoever changes it next, who may be told that a page is missing.
                let changed = self.changed_heap.and_then(|file| self.heaps.get_mut(&file));
                changed.into_iter().for_each(HeapTable::invalidate);
            }
        }
        result
    }

    /// The present entries of a row in the table's indexes.
    fn old_entries(&self, open: &OpenTable, number: i64) -> Result<Vec<Vec<u8>>, StorageError> {
        let indexes = &open.definition.indexes;
        let entries = open.heap()?.tree().get(&self.engine, number, |record| {
            indexes.iter().map(|index| entry_key(index, record, number)).collect()
        })?;
        entries.ok_or_else(|| StorageError::NotFound {
            what: format!("row {number} in table {}", open.definition.name),
        })
    }
}

/// Runs a structure's change with room for its undo.
pub(super) fn logged<T>(
    pages: &mut Action<'_>,
    kind: StructureKind,
    file: FileId,
    change: impl FnOnce(&mut Action<'_>, &mut Vec<u8>) -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    let mut undo = pages.begin_undo(kind, file);
    let value = change(pages, &mut undo)?;
    pages.set_undo(undo);
    Ok(value)
}

pub(super) fn insert_entry(
    engine: &mut Engine,
    file: FileId,
    entry: &[u8],
) -> Result<(), StorageError> {
    engine.act(|pages| {
        logged(pages, StructureKind::Tree, file, |pages, undo| {
            Tree::at(file).insert(pages, entry, &[], undo).map(|_| ())
        })
    })
}

pub(super) fn delete_entry(
    engine: &mut Engine,
    file: FileId,
    entry: &[u8],
) -> Result<(), StorageError> {
    engine.act(|pages| {
        logged(pages, StructureKind::Tree, file, |pages, undo| {
            Tree::at(file).delete(pages, entry, undo).map(|_| ())
        })
    })
}

/// The bytes that are stored of a row.
pub(super) fn encode_row(
    engine: &Engine,
    open: &OpenTable,
    row: &[ValueRef<'_>],
    record: &mut Vec<u8>,
) -> Result<(), StorageError> {
    record.clear();
    open.definition.encode_value(row.iter().copied(), record);
    check_row_bytes(engine.settings().row_bytes_max(), &open.definition.name, record)
}

/// Checks that the pool can hold what changing the row takes.
pub(super) fn check_row_bytes(
    limit_bytes: u64,
    table: &str,
    record: &[u8],
) -> Result<(), StorageError> {
    let found_bytes = record.len() as u64;
    if found_bytes <= limit_bytes {
        return Ok(());
    }
    let what = format!("a row of table {table} (a quarter of the buffer pool has to hold it)");
    Err(StorageError::TooLarge { what, found_bytes, limit_bytes })
}

/// Whether a table or an index can have this name.
///
/// # Errors
/// If it has other signs than letters, digits, `_` and `-`, none, or more than 64 bytes.
pub fn check_name(name: &str) -> Result<(), StorageError> {
    file_name(name).map(|_| ())
}

/// A table's name as part of a file's.
pub(super) fn file_name(name: &str) -> Result<String, StorageError> {
    let is_plain = |byte: char| byte.is_alphanumeric() || byte == '_' || byte == '-';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain) {
        return Ok(name.to_lowercase());
    }
    let what = format!("`{name}` is no name: letters, digits, _ and -, at most 64 bytes");
    Err(StorageError::InvalidSetting { what })
}

/// The entries of a row in the table's indexes.
pub(super) fn entries_of<'t>(
    open: &'t OpenTable,
    record: &'t [u8],
    number: i64,
) -> impl Iterator<Item = (&'t IndexDefinition, Vec<u8>)> {
    open.definition.indexes.iter().map(move |index| {
        let record = RecordView::new(record).expect("it was just encoded");
        (index, entry_key(index, record, number))
    })
}
