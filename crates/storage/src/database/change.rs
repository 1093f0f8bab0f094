//! Everything that changes tables, inside the active write transaction.
//!
//! ```text
//!   insert: heap.append ─► each index: entry in          update: entries whose values changed move
//!   delete: each index: entry out ─► heap.delete         each step an action with its own undo
//! ```
//!
//! 1. What is cached of a table is forgotten whenever the engine takes changes back.
//! 2. After an error in the middle of a row, what the row's earlier steps did is taken back.

use super::schema::{Column, IndexDefinition, TableDefinition, TableKind};
use super::tables::{OpenTable, Rows, Tables, encode, entry_key, no_table, row_of, unless_full};
use super::{Row, catalog, key};
use crate::btree::Tree;
use crate::engine::{Action, Savepoint, StructureKind};
use crate::sqlite::{FillFactor, HeapTable, RecordView, TableSchema, ValueRef, encode_record};
use crate::{Engine, FileId, Lsn, StorageError};

impl Tables {
    /// Makes a table.
    ///
    /// # Errors
    /// If there is one of that name, the definition makes no sense, it is of PAX pages, which are loaded
    /// and never changed, or there is no room.
    pub fn create_table(
        &mut self,
        name: &str,
        columns: Vec<Column>,
        kind: TableKind,
    ) -> Result<(), StorageError> {
        let catalog_key = catalog::key_of(name);
        if self.open.contains_key(&catalog_key) {
            return Err(StorageError::Exists { what: format!("table {name}") });
        }
        let indexes = Vec::new();
        let mut definition =
            TableDefinition { name: name.to_owned(), columns, kind, file: FileId(0), indexes };
        definition.check()?;
        if matches!(definition.kind, TableKind::Pax { .. }) {
            let what = format!("table {name} in PAX pages would stay empty; load it with its rows");
            return Err(StorageError::InvalidSetting { what });
        }
        let suffix = definition.kind.file_suffix();
        let file = self.create_file(&format!("{}.{suffix}", file_name(name)?))?;
        definition.file = file;
        match &definition.kind {
            TableKind::Clustered { .. } => {
                self.engine.act(|pages| Tree::create(pages, file).map(|_| ()))?;
            }
            TableKind::Heap => {
                let schema = TableSchema::parse(&definition.to_sql())?;
                let (fill, place) = (FillFactor::default(), format!("table {name}"));
                self.engine.act(|pages| {
                    HeapTable::create(pages, file, schema, fill, &place).map(|_| ())
                })?;
            }
            TableKind::Pax { .. } => unreachable!("it was refused"),
        }
        catalog::store(&mut self.engine, self.catalog, &definition)?;
        self.catalog_changed = true;
        let table = OpenTable::open(&self.engine, definition)?;
        self.open.insert(catalog_key, table);
        Ok(())
    }

    /// Drops a table with its indexes; the files go when the transaction commits.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn drop_table(&mut self, name: &str) -> Result<(), StorageError> {
        let catalog_key = catalog::key_of(name);
        let definition = &self.table(name)?.definition;
        let mut files = vec![definition.file];
        files.extend(definition.indexes.iter().map(|index| index.file));
        catalog::remove(&mut self.engine, self.catalog, name)?;
        self.catalog_changed = true;
        self.open.remove(&catalog_key);
        self.dropped_files.extend(files);
        Ok(())
    }

    /// Makes an index of a heap table, with an entry for each of its rows. An entry ends in the row's
    /// number; rows of a clustered table have none, so these take no index.
    ///
    /// # Errors
    /// If the table is clustered, there is an index of that name, no such table or column, or there is
    /// no room.
    pub fn create_index(
        &mut self,
        table: &str,
        index: &str,
        columns: &[&str],
    ) -> Result<(), StorageError> {
        let open = self.table(table)?;
        if let Rows::Pax(_) = open.rows {
            return Err(open.not_changed());
        }
        if open.heap().is_err() {
            let what = format!(
                "table {table} is clustered: its rows have no numbers, in which an index entry \
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
        let mut added =
            IndexDefinition { name: index.to_owned(), columns: columns?, file: FileId(0) };
        definition.indexes.push(added.clone());
        definition.check()?;
        let file =
            self.create_file(&format!("{}.{}.tree", file_name(table)?, file_name(index)?))?;
        added.file = file;
        definition.indexes.last_mut().expect("it was just added").file = file;
        self.whole_file(file, |tables| tables.build_index(table, &added))?;
        catalog::store(&mut self.engine, self.catalog, &definition)?;
        self.catalog_changed = true;
        let open = self.table_mut(table)?;
        open.definition = definition;
        Ok(())
    }

    /// Inserts a row. Gives its number; 0 in a clustered table.
    ///
    /// # Errors
    /// If a value does not fit its column, a clustered table has a row with this key, or there is no
    /// room.
    pub fn insert(&mut self, table: &str, row: &[ValueRef<'_>]) -> Result<i64, StorageError> {
        self.whole_row(|tables| tables.insert_row(table, row))
    }

    pub(super) fn insert_row(
        &mut self,
        table: &str,
        row: &[ValueRef<'_>],
    ) -> Result<i64, StorageError> {
        let Self { engine, open, scratch, .. } = self;
        let open = open.get_mut(&catalog::key_of(table)).ok_or_else(|| no_table(table))?;
        let mut row = row.to_vec();
        open.definition.conform(&mut row)?;
        encode_row(engine, table, &row, &mut scratch.record)?;
        let file = open.definition.file;
        match &mut open.rows {
            Rows::Heap(heap) => {
                let record = &scratch.record;
                let number = engine.act(|pages| {
                    logged(pages, StructureKind::Heap, file, |pages, undo| {
                        heap.append(pages, record, undo)
                    })
                })?;
                for index in &open.definition.indexes {
                    let record = RecordView::new(record).expect("it was just encoded");
                    insert_entry(engine, index.file, &entry_key(index, record, number))?;
                }
                Ok(number)
            }
            Rows::Clustered(tree) => {
                let tree = *tree;
                scratch.key.clear();
                encode_row_key(&open.definition, &row, &mut scratch.key);
                let (key, record) = (&scratch.key, &scratch.record);
                let is_new = engine.act(|pages| {
                    logged(pages, StructureKind::Tree, file, |pages, undo| {
                        tree.insert(pages, key, record, undo)
                    })
                })?;
                if is_new {
                    return Ok(0);
                }
                let what = format!("a row with this key in table {table}");
                Err(StorageError::Exists { what })
            }
            Rows::Pax(_) => Err(open.not_changed()),
        }
    }

    /// Replaces a row of a heap table by its number.
    ///
    /// # Errors
    /// If there is no such row, a value does not fit its column, or there is no room.
    pub fn update(
        &mut self,
        table: &str,
        number: i64,
        row: &[ValueRef<'_>],
    ) -> Result<(), StorageError> {
        self.whole_row(|tables| tables.update_row(table, number, row))
    }

    fn update_row(
        &mut self,
        table: &str,
        number: i64,
        row: &[ValueRef<'_>],
    ) -> Result<(), StorageError> {
        let old = self.old_entries(table, number)?;
        let Self { engine, open, scratch, .. } = self;
        let open = open.get_mut(&catalog::key_of(table)).ok_or_else(|| no_table(table))?;
        let mut row = row.to_vec();
        open.definition.conform(&mut row)?;
        encode_row(engine, table, &row, &mut scratch.record)?;
        let (file, record) = (open.definition.file, &scratch.record);
        if let Rows::Heap(heap) = &mut open.rows {
            engine.act(|pages| {
                logged(pages, StructureKind::Heap, file, |pages, undo| {
                    heap.update(pages, number, record, undo)
                })
            })?;
        }
        for (index, old) in open.definition.indexes.iter().zip(old) {
            let record = RecordView::new(record).expect("it was just encoded");
            let new = entry_key(index, record, number);
            if new != old {
                delete_entry(engine, index.file, &old)?;
                insert_entry(engine, index.file, &new)?;
            }
        }
        Ok(())
    }

    /// Removes a row of a heap table by its number.
    ///
    /// # Errors
    /// If there is no such row.
    pub fn delete(&mut self, table: &str, number: i64) -> Result<(), StorageError> {
        self.whole_row(|tables| {
            let old = tables.old_entries(table, number)?;
            let Self { engine, open, .. } = tables;
            let open = open.get_mut(&catalog::key_of(table)).ok_or_else(|| no_table(table))?;
            let file = open.definition.file;
            for (index, old) in open.definition.indexes.iter().zip(old) {
                delete_entry(engine, index.file, &old)?;
            }
            if let Rows::Heap(heap) = &mut open.rows {
                engine.act(|pages| {
                    logged(pages, StructureKind::Heap, file, |pages, undo| {
                        heap.delete(pages, number, undo)
                    })
                })?;
            }
            Ok(())
        })
    }

    /// Stores a row in a clustered table, in the place of one with the same key. True if there was
    /// one.
    ///
    /// # Errors
    /// If a value does not fit its column, the table is a heap, or there is no room.
    pub fn put(&mut self, table: &str, row: &[ValueRef<'_>]) -> Result<bool, StorageError> {
        let Self { engine, open, scratch, .. } = self;
        let open = open.get_mut(&catalog::key_of(table)).ok_or_else(|| no_table(table))?;
        let (tree, file) = (open.clustered()?, open.definition.file);
        let mut row = row.to_vec();
        open.definition.conform(&mut row)?;
        encode_row(engine, table, &row, &mut scratch.record)?;
        scratch.key.clear();
        encode_row_key(&open.definition, &row, &mut scratch.key);
        let (key, record) = (&scratch.key, &scratch.record);
        engine.act(|pages| {
            logged(pages, StructureKind::Tree, file, |pages, undo| {
                tree.upsert(pages, key, record, undo)
            })
        })
    }

    /// Removes the row of a clustered table that has these key values. False if there is none.
    ///
    /// # Errors
    /// If there is no such clustered table.
    pub fn delete_by_key(
        &mut self,
        table: &str,
        key_values: &[ValueRef<'_>],
    ) -> Result<bool, StorageError> {
        let open = self.table(table)?;
        let (tree, file) = (open.clustered()?, open.definition.file);
        let key = encode(key_values);
        self.engine.act(|pages| {
            logged(pages, StructureKind::Tree, file, |pages, undo| tree.delete(pages, &key, undo))
        })
    }

    /// A row of a heap table, with all its values.
    ///
    /// # Errors
    /// As [`Tables::get`].
    pub fn row(&self, table: &str, number: i64) -> Result<Option<Row>, StorageError> {
        self.get(table, number, row_of)
    }

    pub(super) fn commit(&mut self) -> Result<Option<Lsn>, StorageError> {
        let lsn = self.engine.commit()?;
        self.catalog_changed = false;
        self.created_files.clear();
        Ok(lsn)
    }

    pub(super) fn rollback(&mut self) -> Result<(), StorageError> {
        self.engine.rollback()?;
        self.refresh()?;
        self.catalog_changed = false;
        self.dropped_files.clear();
        for file in std::mem::take(&mut self.created_files) {
            unless_full(self.engine.remove_file(file))?;
        }
        Ok(())
    }

    pub(super) fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), StorageError> {
        self.engine.rollback_to(savepoint)?;
        self.refresh()?;
        self.forget_restored_drops();
        Ok(())
    }

    pub(super) fn has_dropped_files(&self) -> bool {
        !self.dropped_files.is_empty()
    }

    pub(super) fn remove_dropped_files(&mut self) -> Result<(), StorageError> {
        for file in std::mem::take(&mut self.dropped_files) {
            unless_full(self.engine.remove_file(file))?;
        }
        Ok(())
    }

    /// Tables whose drop was taken back keep their files.
    fn forget_restored_drops(&mut self) {
        let Self { open, dropped_files, .. } = self;
        dropped_files.retain(|dropped| {
            !open.values().any(|table| {
                let TableDefinition { file, indexes, .. } = &table.definition;
                file == dropped || indexes.iter().any(|index| index.file == *dropped)
            })
        });
    }

    /// Runs the steps of a row, or of some; all of them or none.
    pub(super) fn whole_row<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let savepoint = self.engine.savepoint();
        let result = change(self);
        if let Err(error) = &result {
            self.rollback_to(savepoint)?;
            return Err(error.clone());
        }
        result
    }

    /// Reads again what was cached of pages that were taken back: the catalogue, if the transaction
    /// changed it, and the heaps.
    fn refresh(&mut self) -> Result<(), StorageError> {
        if self.catalog_changed {
            return self.load_catalog();
        }
        let Self { engine, open, .. } = self;
        for table in open.values_mut().filter(|table| table.heap().is_ok()) {
            *table = OpenTable::open(engine, table.definition.clone())?;
        }
        Ok(())
    }

    /// The present entries of a row in the table's indexes.
    fn old_entries(&self, table: &str, number: i64) -> Result<Vec<Vec<u8>>, StorageError> {
        let open = self.table(table)?;
        let indexes = &open.definition.indexes;
        let entries = open.heap()?.get(&self.engine, number, |record| {
            indexes.iter().map(|index| entry_key(index, record, number)).collect()
        })?;
        entries.ok_or_else(|| StorageError::NotFound {
            what: format!("row {number} in table {table}"),
        })
    }

    fn table_mut(&mut self, name: &str) -> Result<&mut OpenTable, StorageError> {
        self.open.get_mut(&catalog::key_of(name)).ok_or_else(|| no_table(name))
    }

    /// A file for a new table. If one of a table that was dropped in this transaction has the name,
    /// another is found.
    pub(super) fn create_file(&mut self, name: &str) -> Result<FileId, StorageError> {
        let mut attempt = name.to_owned();
        for number in 2.. {
            match self.engine.create_file(&attempt) {
                Ok(file) => {
                    self.created_files.push(file);
                    return Ok(file);
                }
                Err(StorageError::Exists { .. }) if number < 100 => {
                    attempt = match name.rsplit_once('.') {
                        Some((stem, suffix)) => format!("{stem}-{number}.{suffix}"),
                        None => format!("{name}-{number}"),
                    };
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("the loop ends at the hundredth attempt")
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

/// The record of a row.
fn encode_row(
    engine: &Engine,
    table: &str,
    row: &[ValueRef<'_>],
    record: &mut Vec<u8>,
) -> Result<(), StorageError> {
    record.clear();
    encode_record(row.iter().copied(), record);
    check_row_bytes(engine, table, record)
}

/// Checks that the pool can hold what changing the row takes.
pub(super) fn check_row_bytes(
    engine: &Engine,
    table: &str,
    record: &[u8],
) -> Result<(), StorageError> {
    let (found_bytes, limit_bytes) = (record.len() as u64, engine.row_bytes_max());
    if found_bytes <= limit_bytes {
        return Ok(());
    }
    let what = format!("a row of table {table} (a quarter of the buffer pool has to hold it)");
    Err(StorageError::TooLarge { what, found_bytes, limit_bytes })
}

/// The key of a row in a clustered table.
pub(super) fn encode_row_key(
    definition: &TableDefinition,
    row: &[ValueRef<'_>],
    bytes: &mut Vec<u8>,
) {
    if let TableKind::Clustered { key: columns } = &definition.kind {
        for &column in columns {
            key::encode_key(row[column], bytes);
        }
    }
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
