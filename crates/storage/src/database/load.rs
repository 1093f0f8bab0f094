//! New tables with any number of rows: written past the log, durable before the catalogue knows them.
//!
//! ```text
//!   load_tables ─► files ─► push … push ─► indexes, from sorted entries ─► sync ─► catalogue entry ─► …
//!                 as the kind does it                                            (logged)      commit
//! ```
//!
//! 1. The log gets the catalogue's entry and nothing else, so its size does not bound the load.
//! 2. After an error, a rollback or a crash before the commit there is neither table nor file: what
//!    the catalogue does not know is removed.
//! 3. The same rows with the same options give the same bytes of the table's files.

use super::core::Core;
use super::kind::{RowLoad, TableKind};
use super::open_table::OpenTable;
use super::schema::{Column, IndexDefinition, TableDefinition};
use super::sorter::Sorter;
use super::tables::entry_key;
use super::turns::Turns;
use super::view::EngineView;
use super::{Shared, catalog, change, key};
use crate::btree::Tree;
use crate::sqlite::{FillFactor, HeapTable, ValueRef};
use crate::{FileId, StorageError};
use serde::Serialize;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Memory of the sort of an index that is made from a table's rows.
const INDEX_SORT_BYTES: u64 = 16 << 20;

/// A table that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTable {
    /// Name of the table.
    pub name: String,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// How its rows are stored.
    pub kind: TableKind,
    /// Secondary indexes, for a heap table: the name of each, and those of its columns, most
    /// significant first.
    pub indexes: Vec<(String, Vec<String>)>,
}

impl NewTable {
    /// A table of the same columns, kind and indexes as one that there is.
    #[must_use]
    pub fn like(definition: &TableDefinition) -> Self {
        let TableDefinition { name, columns, kind, indexes, .. } = definition;
        let names_of = |index: &IndexDefinition| {
            index.columns.iter().map(|&place| columns[place].name.clone()).collect()
        };
        Self {
            name: name.clone(),
            columns: columns.clone(),
            kind: kind.clone(),
            indexes: indexes.iter().map(|index| (index.name.clone(), names_of(index))).collect(),
        }
    }
}

/// In which order the rows of a clustered table come, and how they get to their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowOrder {
    /// By ascending keys: pages are filled one after the other.
    Ascending,
    /// Any. The rows are sorted first, in bounded memory, so the pages are as with ascending keys.
    #[default]
    Sort,
    /// Any. Each row is inserted when it comes, so leaves split and neighbours are scattered over the
    /// file, as in a tree that has lived (the B-tree data of S000 chapter 5). Wants a pool that holds
    /// the table.
    Insert,
}

/// How a table is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// How full pages are made. Trees, which have no jitter, take the mean, from 50 % on.
    pub fill: FillFactor,
    /// In which order the rows come; counts for clustered tables only.
    pub order: RowOrder,
    /// Memory for sorting, beside the pool; shared by the indexes of the table.
    pub sort_bytes: u64,
}

/// How much was loaded: rows, bytes, and entries of indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoadReport {
    /// Rows of the table.
    pub row_count: u64,
    /// Bytes of their records, without what pages and trees add.
    pub record_bytes: u64,
    /// Entries of all its indexes.
    pub index_entry_count: u64,
    /// Bytes of its files.
    pub file_bytes: u64,
}

/// A table that is being loaded.
pub struct TableLoad<'l> {
    shared: &'l Shared,
    turns: Turns<'l>,
    definition: &'l TableDefinition,
    rows: RowLoad<'l>,
    /// One for each index.
    entries: Vec<Sorter>,
    value: Vec<u8>,
    key: Vec<u8>,
    report: LoadReport,
}

/// A row that is being loaded.
pub(super) struct NewRow<'r> {
    /// The number that it is to get.
    pub(super) number: Option<i64>,
    /// What the caller gave; a column of doubles may have an integer.
    pub(super) values: &'r [ValueRef<'r>],
    /// What is stored of them.
    pub(super) value: &'r [u8],
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { fill: FillFactor::default(), order: RowOrder::default(), sort_bytes: 64 << 20 }
    }
}

impl LoadOptions {
    pub(super) fn tree_fill_percent(&self) -> usize {
        let FillFactor { low_permille, high_permille, .. } = self.fill;
        let mean = (low_permille.min(1000) + high_permille.min(1000)) / 20;
        (mean as usize).clamp(50, 100)
    }
}

/// See [`super::WriteTransaction::load_tables`]. The transaction excludes all others that change tables; who reads
/// and who writes to other tables goes on between two rows.
pub(super) fn load_tables<E: From<StorageError>>(
    shared: &Shared,
    transaction: u64,
    tables: &[(&NewTable, &LoadOptions)],
    rows: impl FnOnce(&mut [TableLoad<'_>]) -> Result<(), E>,
) -> Result<Vec<LoadReport>, E> {
    let (mut definitions, first_new) = {
        let core = shared.core.read();
        let mut definitions: Vec<TableDefinition> = Vec::with_capacity(tables.len());
        for &(table, _) in tables {
            let definition = core.define(table)?;
            let key = catalog::key_of(&definition.name);
            if definitions.iter().any(|other| catalog::key_of(&other.name) == key) {
                let what = format!("table {}", definition.name);
                return Err(StorageError::Exists { what }.into());
            }
            definitions.push(definition);
        }
        (definitions, core.changes().created_files.len())
    };
    let made = {
        let mut core = shared.core.write();
        definitions.iter_mut().try_for_each(|definition| core.make_files(definition))
    };
    let options = tables.iter().map(|&(_, options)| options);
    let loaded =
        made.map_err(E::from).and_then(|()| fill_tables(shared, &definitions, options, rows));
    let stored = loaded.and_then(|reports| {
        shared.core.write().store_filled(transaction, &definitions)?;
        Ok(reports)
    });
    if stored.is_err() {
        shared.core.write().remove_files_from(first_new);
    }
    stored
}

/// Makes an index of a heap table, durably; `transaction` alone uses the table meanwhile, but for who looks at a
/// moment before.
pub(super) fn create_index(
    shared: &Arc<Shared>,
    transaction: u64,
    table: &str,
    index: &str,
    columns: &[&str],
) -> Result<(), StorageError> {
    let first_new = shared.core.read().changes().created_files.len();
    let (open, definition) = shared.core.write().define_index(table, index, columns)?;
    let filled = build_index(shared, &open, definition.indexes.last().expect("it was added"));
    let definitions = std::slice::from_ref(&definition);
    let stored = filled.and_then(|()| shared.core.write().store_filled(transaction, definitions));
    if stored.is_err() {
        shared.core.write().remove_files_from(first_new);
    }
    stored
}

/// Fills the file of a new index from the table's rows.
fn build_index(
    shared: &Arc<Shared>,
    table: &OpenTable,
    index: &IndexDefinition,
) -> Result<(), StorageError> {
    // Nobody else writes to the table, so the present is what this transaction sees of it, and stays so.
    let pages = EngineView::present(shared)?;
    let turns = &mut Turns::new(shared);
    create_tree(turns, index.file)?;
    let mut sorter = Sorter::new(INDEX_SORT_BYTES);
    let mut scan = table.heap()?.tree_in(&pages).scan(i64::MIN..=i64::MAX);
    loop {
        // The view reads without the engine.
        turns.leave();
        let is_more = scan.next_leaf(&pages, |number, record| {
            sorter.push(&entry_key(index, record, number), &[]);
        })?;
        if !is_more {
            break;
        }
        if sorter.is_full() {
            spill(turns, &mut sorter)?;
        }
    }
    drop(pages);
    // As full as ascending inserts leave them: rows will come.
    let fill_percent = LoadOptions::default().tree_fill_percent();
    fill_tree(turns, index.file, sorter, fill_percent).map(drop)
}

fn create_tree(turns: &mut Turns<'_>, file: FileId) -> Result<(), StorageError> {
    turns.step(|core| Tree::create(&mut core.engine.unlogged_pages(file)?, file).map(drop))
}

pub(super) fn spill(turns: &mut Turns<'_>, sorter: &mut Sorter) -> Result<(), StorageError> {
    let run = turns.step(|core| core.create_file("sorted-run.tree"))?;
    sorter.spill(turns, run)
}

/// Loads a tree from sorted entries and makes it durable. Gives their number.
pub(super) fn fill_tree(
    turns: &mut Turns<'_>,
    file: FileId,
    mut sorter: Sorter,
    fill_percent: usize,
) -> Result<u64, StorageError> {
    if !sorter.runs().is_empty() {
        spill(turns, &mut sorter)?;
    }
    let runs = sorter.runs().to_vec();
    let mut loader = turns
        .step(|core| Tree::at(file).bulk_load(&core.engine.unlogged_pages(file)?, fill_percent))?;
    let mut entry_count = 0;
    sorter.drain(turns, |engine, key, value| {
        entry_count += 1;
        loader.push(&mut engine.unlogged_pages(file)?, key, value)
    })?;
    turns.step(|core| {
        loader.finish(&mut core.engine.unlogged_pages(file)?, &mut Vec::new())?;
        runs.iter().try_for_each(|&run| core.remove_created_file(run))?;
        core.engine.make_unlogged_durable(file)
    })?;
    Ok(entry_count)
}

fn fill_tables<'o, E: From<StorageError>>(
    shared: &Shared,
    definitions: &[TableDefinition],
    options: impl Iterator<Item = &'o LoadOptions> + Clone,
    rows: impl FnOnce(&mut [TableLoad<'_>]) -> Result<(), E>,
) -> Result<Vec<LoadReport>, E> {
    let mut heaps: Vec<Option<HeapTable>> = definitions.iter().map(|_| None).collect();
    let mut loads = Vec::with_capacity(definitions.len());
    for ((definition, options), heap) in definitions.iter().zip(options.clone()).zip(&mut heaps) {
        let row_load = {
            let mut core = shared.core.write();
            let mut pages = core.engine.unlogged_pages(definition.file)?;
            definition.begin_load(&mut pages, options, heap)?
        };
        let sort_bytes = options.sort_bytes / definition.indexes.len().max(1) as u64;
        loads.push(TableLoad {
            entries: definition.indexes.iter().map(|_| Sorter::new(sort_bytes)).collect(),
            shared,
            turns: Turns::new(shared),
            definition,
            rows: row_load,
            value: Vec::new(),
            key: Vec::new(),
            report: LoadReport::default(),
        });
    }
    rows(&mut loads)?;
    let finished = loads.into_iter().zip(options);
    let reports: Result<Vec<LoadReport>, StorageError> =
        finished.map(|(load, options)| load.finish(options.tree_fill_percent())).collect();
    Ok(reports?)
}

impl Core {
    fn define(&self, table: &NewTable) -> Result<TableDefinition, StorageError> {
        let NewTable { name, columns, kind, indexes } = table.clone();
        if self.changes().open.contains_key(&catalog::key_of(&name)) {
            return Err(StorageError::Exists { what: format!("table {name}") });
        }
        if !kind.takes_indexes() && !indexes.is_empty() {
            let what = format!("table {name} is no heap: only heap tables have indexes");
            return Err(StorageError::InvalidSetting { what });
        }
        let mut definition =
            TableDefinition { name, columns, kind, file: FileId(0), indexes: Vec::new() };
        for (name, columns) in indexes {
            let columns: Result<Vec<usize>, StorageError> =
                columns.iter().map(|column| definition.column(column)).collect();
            definition.indexes.push(IndexDefinition { name, columns: columns?, file: FileId(0) });
        }
        definition.check_new()?;
        Ok(definition)
    }

    fn make_files(&mut self, definition: &mut TableDefinition) -> Result<(), StorageError> {
        let table = change::file_name(&definition.name)?;
        let suffix = definition.kind.file_suffix();
        definition.file = self.create_file(&format!("{table}.{suffix}"))?;
        for index in &mut definition.indexes {
            let name = change::file_name(&index.name)?;
            index.file = self.create_file(&format!("{table}.{name}.tree"))?;
        }
        Ok(())
    }

    fn remove_created_file(&mut self, file: FileId) -> Result<(), StorageError> {
        self.engine.remove_unlogged_file(file)?;
        self.changes_mut().created_files.retain(|&created| created != file);
        Ok(())
    }

    /// Has the catalogue know tables whose new files are filled, all or none of them.
    fn store_filled(
        &mut self,
        transaction: u64,
        definitions: &[TableDefinition],
    ) -> Result<(), StorageError> {
        let store = |core: &mut Self| {
            definitions.iter().try_for_each(|definition| {
                catalog::store(&mut core.engine, core.catalog, definition)?;
                core.changes_mut().catalog_changed = true;
                core.add_open(definition.clone())
            })
        };
        self.serve(transaction, |core| core.whole_row(true, store)).0
    }

    /// Removes the files that were created last. One that cannot be removed now goes with the rollback
    /// or at the next opening.
    fn remove_files_from(&mut self, first: usize) {
        for file in self.changes_mut().created_files.split_off(first) {
            if self.engine.remove_unlogged_file(file).is_err() {
                self.changes_mut().created_files.push(file);
            }
        }
    }
}

impl TableLoad<'_> {
    /// The definition of the table that is loaded.
    #[must_use]
    pub const fn definition(&self) -> &TableDefinition {
        self.definition
    }

    /// How many rows were loaded so far.
    #[must_use]
    pub const fn row_count(&self) -> u64 {
        self.report.row_count
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If a value does not fit its column, the row is too large, a clustered table has one with this
    /// key (found in the end if rows are sorted), or the device has no room or fails.
    #[inline]
    pub fn push(&mut self, row: &[ValueRef<'_>]) -> Result<(), StorageError> {
        self.push_with(None, row)
    }

    /// Adds a row of a heap table with a number, above those of all rows before it; in other tables numbers
    /// say nothing.
    ///
    /// # Errors
    /// As [`Self::push`], and if the number is not above those before it, or not above 0.
    pub fn push_numbered(&mut self, number: i64, row: &[ValueRef<'_>]) -> Result<(), StorageError> {
        self.push_with(Some(number), row)
    }

    #[inline]
    fn push_with(&mut self, number: Option<i64>, row: &[ValueRef<'_>]) -> Result<(), StorageError> {
        let placed = self.place(number, row);
        // Where the next row comes from, and when, is the caller's, who may have to look into the database.
        self.turns.pause();
        placed
    }

    #[inline]
    fn place(&mut self, number: Option<i64>, row: &[ValueRef<'_>]) -> Result<(), StorageError> {
        self.encode(row)?;
        let Self { turns, definition, rows, entries, value, key, .. } = self;
        let number = rows.push(turns, definition, NewRow { number, values: row, value })?;
        for (index, sorter) in definition.indexes.iter().zip(entries) {
            key.clear();
            for &column in &index.columns {
                encode_column(definition, row, column, key);
            }
            key::encode_key(ValueRef::Integer(number), key);
            sorter.push(key, &[]);
            if sorter.is_full() {
                spill(turns, sorter)?;
            }
        }
        self.report.row_count += 1;
        self.report.record_bytes += self.value.len() as u64;
        Ok(())
    }

    /// Checks the row and puts what is stored of it into `self.value`.
    #[inline]
    fn encode(&mut self, row: &[ValueRef<'_>]) -> Result<(), StorageError> {
        let Self { shared, definition, value: bytes, .. } = self;
        definition.check_width(row)?;
        for (column, &value) in definition.columns.iter().zip(row) {
            definition.conform_value(column, value)?;
        }
        bytes.clear();
        definition.encode_value(stored_values(definition, row), bytes);
        change::check_row_bytes(shared.settings.row_bytes_max(), &definition.name, bytes)
    }

    fn finish(self, fill_percent: usize) -> Result<LoadReport, StorageError> {
        let Self { mut turns, definition, rows, entries, mut report, .. } = self;
        let (turns, file) = (&mut turns, definition.file);
        rows.finish(turns, definition, fill_percent)?;
        report.file_bytes = turns.step(|core| Ok(core.engine.file_bytes(file)))?;
        for (index, sorter) in definition.indexes.iter().zip(entries) {
            create_tree(turns, index.file)?;
            report.index_entry_count += fill_tree(turns, index.file, sorter, fill_percent)?;
            report.file_bytes += turns.step(|core| Ok(core.engine.file_bytes(index.file)))?;
        }
        Ok(report)
    }
}

/// A row's values as they are stored: no integer in a column of doubles.
pub(super) fn stored_values<'v>(
    definition: &'v TableDefinition,
    row: &'v [ValueRef<'v>],
) -> impl Iterator<Item = ValueRef<'v>> + Clone {
    row.iter().zip(&definition.columns).map(|(&value, column)| column.column_type.stored(value))
}

fn encode_column(
    definition: &TableDefinition,
    row: &[ValueRef<'_>],
    column: usize,
    bytes: &mut Vec<u8>,
) {
    key::encode_key(definition.columns[column].column_type.stored(row[column]), bytes);
}
