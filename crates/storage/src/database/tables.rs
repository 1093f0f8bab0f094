//! The tables of an open database, and everything that only reads.
//!
//! 1. `open` holds one entry for each table of the catalogue, as it is at the moment of a snapshot. Who writes
//!    has what it knows of them in `used`.
//! 2. The key of an index entry is its columns' values, then the row's number; it has no value.
//! 3. The record of a clustered table is its row; its key repeats the key columns.

use super::copies::{BatchCopy, RecordCopy, copied};
use super::key_values::as_bytes;
use super::kind::ReadAs;
use super::locks::{self, Mode, Span, Taking, Wanted};
use super::names::{name_files, with_names_of};
use super::open_table::{OpenTable, OpenTables};
use super::row_scan::RowRange;
use super::schema::{IndexDefinition, Row, TableDefinition};
use super::transaction::Snapshot;
use super::used::UsedTables;
use super::view::EngineView;
use super::{catalog, key};
use crate::btree::{self, Direction, Tree};
use crate::pax::PaxTable;
use crate::plant::{EngineBug, is_planted};
use crate::sqlite::{RecordView, TableTree, Value, ValueRef};
use crate::{FileId, StorageError};
use nandu_base::words::did_you_mean;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::ops::{Bound, ControlFlow, Deref, RangeBounds};
use std::sync::Arc;

/// How many rows an index scan fetches at once in the order of their addresses.
const FETCH_BATCH_ROWS: usize = 4096;
/// How many rows an index scan fetches at once in the order of the keys.
const FETCH_AHEAD_ROWS: usize = 128;

/// The tables of a database as one reader or transaction sees them.
#[derive(Clone, Debug)]
pub struct Tables {
    pub(super) view: EngineView,
    pub(super) catalog: FileId,
    pub(super) open: Arc<OpenTables>,
    /// Of a transaction that locks what it reads, its number.
    pub(super) locker: Option<u64>,
    /// Of a transaction that writes, the tables that it uses.
    pub(super) used: Option<UsedTables>,
}

/// The view of one statement: that of a reader, or one for itself, of a transaction that locks what it reads or
/// of what is about some keys.
pub(super) enum Statement<'t> {
    Whole(&'t EngineView),
    Own(EngineView),
}

impl Statement<'_> {
    /// The view, for whoever reads by it after the statement.
    pub(super) fn into_view(self) -> EngineView {
        match self {
            Self::Whole(view) => view.clone(),
            Self::Own(view) => view,
        }
    }
}

impl Deref for Statement<'_> {
    type Target = EngineView;
    fn deref(&self) -> &EngineView {
        match self {
            Self::Whole(view) => view,
            Self::Own(view) => view,
        }
    }
}

/// Buffers that are used again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) record: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// In which order an index scan fetches rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FetchOrder {
    /// As the index has them.
    #[default]
    Key,
    /// As they lie in the table, some thousands at a time: fewer and shorter ways for the device.
    Address,
}

/// Sizes of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableStat {
    /// The table's name.
    pub name: String,
    /// The kind of the table, or `index`.
    pub kind: &'static str,
    /// Rows or entries.
    pub row_count: u64,
    /// Pages, free ones included.
    pub page_count: u64,
    /// Levels from the root to the leaves.
    pub level_count: u32,
    /// Bytes of its file.
    pub file_bytes: u64,
}

/// What happens in a scan after a row.
pub type Flow = ControlFlow<()>;

impl Tables {
    /// What operators read pages by. That of a write transaction sees its changes up to now, and must not
    /// be asked for again while something reads by it.
    #[must_use]
    pub fn engine(&self) -> &EngineView {
        if self.locker.is_some() {
            // Where the engine has stopped, the commit says so.
            let _ = self.view.refresh();
        }
        &self.view
    }

    /// Whether what is read is locked: of a serializable transaction.
    #[must_use]
    pub const fn is_locking(&self) -> bool {
        self.locker.is_some()
    }

    /// Whether these are the tables of a transaction that may change them.
    #[must_use]
    pub const fn is_writing(&self) -> bool {
        self.used.is_some()
    }

    /// What is committed now, for who is content with that: a look at it locks nothing.
    #[must_use]
    pub fn committed(&self) -> Snapshot {
        Snapshot::new(self.view.shared())
    }

    /// By what one statement reads.
    ///
    /// # Errors
    /// Of a transaction that locks what it reads, if the engine has stopped: it may have stopped in the
    /// middle of taking back what another had locked.
    pub(super) fn statement(&self) -> Result<Statement<'_>, StorageError> {
        Ok(match self.locker {
            None => Statement::Whole(&self.view),
            Some(_) => Statement::Own(EngineView::present(self.view.shared())?),
        })
    }

    /// As [`Self::statement`], for one that looks at keys of a file's tree alone of which `is_wanted` is true.
    pub(super) fn statement_about(
        &self,
        file: FileId,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Statement<'_>, StorageError> {
        let about = match self.locker {
            None => self.view.about(file, is_wanted),
            Some(_) => None,
        };
        about.map_or_else(|| self.statement(), |view| Ok(Statement::Own(view)))
    }

    /// The same for one that looks at these keys.
    pub(super) fn statement_about_keys<K: AsRef<[u8]>>(
        &self,
        file: FileId,
        keys: &[K],
    ) -> Result<Statement<'_>, StorageError> {
        let sorted = OnceCell::new();
        self.statement_about(file, |key| {
            let sorted = sorted.get_or_init(|| {
                let mut sorted: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
                sorted.sort_unstable();
                sorted
            });
            sorted.binary_search(&key).is_ok()
        })
    }

    /// Locks what a transaction is about to read; a snapshot needs no locks.
    fn lock(
        &self,
        file: FileId,
        span: Span<'_>,
        told: impl Fn() -> String,
    ) -> Result<(), StorageError> {
        let Some(transaction) = self.locker else { return Ok(()) };
        let is_forgotten = match span {
            Span::Key(_) => is_planted(EngineBug::ReadsUnlocked),
            Span::Range(..) => is_planted(EngineBug::RangesUnlocked),
        };
        if is_forgotten {
            return Ok(());
        }
        let shared = self.view.shared();
        if shared.locks.try_lock(transaction, file, span, Mode::Shared) != Taking::Excluded {
            return Ok(());
        }
        shared.wait_for_lock(transaction, &Wanted::new(file, span, Mode::Shared), told)
    }

    pub(super) fn lock_number(&self, table: &OpenTable, number: i64) -> Result<(), StorageError> {
        if self.locker.is_none() {
            return Ok(());
        }
        let TableDefinition { file, name, .. } = &table.definition;
        let told = || format!("row {number} of table {name}");
        self.lock(*file, Span::Key(&locks::key_of_number(number)), told)
    }

    pub(super) fn lock_key(&self, table: &OpenTable, key: &[u8]) -> Result<(), StorageError> {
        let TableDefinition { file, name, .. } = &table.definition;
        self.lock(*file, Span::Key(key), || format!("a row of table {name}"))
    }

    pub(super) fn lock_range(
        &self,
        file: FileId,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        table: &OpenTable,
    ) -> Result<(), StorageError> {
        let name = &table.definition.name;
        self.lock(file, Span::Range(lower, upper), || format!("rows of table {name}"))
    }

    fn lock_file(&self, file: FileId, table: &OpenTable) -> Result<(), StorageError> {
        self.lock_range(file, (Bound::Unbounded, Bound::Unbounded), table)
    }

    /// All tables, by name. A serializable transaction keeps others from making and dropping any until it
    /// ends.
    ///
    /// # Errors
    /// Of a serializable transaction, if one that changes tables is in the way.
    pub fn definitions(&self) -> Result<impl Iterator<Item = &TableDefinition>, StorageError> {
        Ok(self.all_tables()?.values().map(|table| &table.definition))
    }

    /// A table's definition.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn definition(&self, table: &str) -> Result<&TableDefinition, StorageError> {
        Ok(&self.table(table)?.definition)
    }

    pub(super) fn table(&self, name: &str) -> Result<&Arc<OpenTable>, StorageError> {
        let found = match self.locker {
            Some(_) => self.used_table(name)?,
            None => self.open.get(&catalog::key_of(name)),
        };
        found.ok_or_else(|| no_table(name, &self.open))
    }

    /// Lends a row of a heap table, or of one in PAX pages, to `look`.
    ///
    /// # Errors
    /// If there is no such heap table, or a page cannot be read.
    pub fn get<R>(
        &self,
        table: &str,
        row_number: i64,
        look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>, StorageError> {
        let table = self.table(table)?;
        table.rows.get(self, table, row_number, look)
    }

    /// Lends the row of a clustered table that has these key values to `look`.
    ///
    /// # Errors
    /// If there is no such clustered table, or a page cannot be read.
    pub fn get_by_key<R>(
        &self,
        table: &str,
        key_values: &[ValueRef<'_>],
        look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>, StorageError> {
        let table = self.table(table)?;
        let (tree, definition) = (table.keyed()?, &table.definition);
        let key = definition.key_of(key_values)?;
        self.lock_key(table, &key)?;
        let mut copy = RecordCopy::take();
        let pages = self.statement_about(definition.file, |other| *other == key)?;
        let set = |value: &[u8]| copy.set(definition.record_of(&key, value, &mut Vec::new()));
        let found = match pages.hold(definition.file) {
            Some(held) => tree.get(&held, &key, set),
            None => tree.get(&*pages, &key, set),
        };
        let found = found.map_err(self.named())?;
        found.map(|()| view_of(copy.bytes()).map(look)).transpose()
    }

    /// Lends the rows of a heap table that have these numbers to `look`, each with the place of its
    /// number in `row_numbers`, in no particular order. All are on their way at once, so the device's
    /// queue is full. Numbers without a row are passed over.
    ///
    /// # Errors
    /// If there is no such heap table, or a page cannot be read.
    pub fn get_batch(
        &self,
        table: &str,
        row_numbers: &[i64],
        mut look: impl FnMut(usize, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let mut order: Vec<usize> = (0..row_numbers.len()).collect();
        order.sort_unstable_by_key(|&place| row_numbers[place]);
        let rising: Vec<i64> = order.iter().map(|&place| row_numbers[place]).collect();
        let table = self.table(table)?;
        let heap = table.heap()?;
        rising.iter().try_for_each(|&number| self.lock_number(table, number))?;
        let pages = &*self.statement()?;
        let tree = heap.tree_in(pages);
        self.lend_batch(&tree, pages, &rising, |index, record| look(order[index], record))
    }

    /// Lends rows of a heap whose numbers rise, out of their pages, so that `look` may use the
    /// database.
    fn lend_batch(
        &self,
        tree: &TableTree,
        pages: &EngineView,
        rising: &[i64],
        mut look: impl FnMut(usize, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let mut copies = BatchCopy::take();
        let looked =
            tree.get_batch(pages, rising, |index, record| copies.add(index, record.bytes()));
        looked.map_err(self.named())?;
        let read = |index: usize, copy: &mut RecordCopy| {
            let found = tree.get(pages, rising[index], |record| copy.set(record.bytes()));
            Ok(found.map_err(self.named())?.is_some())
        };
        copies.lend(read, |index, bytes| {
            look(index, copied(bytes));
            Ok(())
        })
    }

    /// As [`Self::get_batch`], for the rows of a clustered table that have these key values.
    ///
    /// # Errors
    /// If there is no such clustered table, or a page cannot be read.
    pub fn get_batch_by_key(
        &self,
        table: &str,
        keys: &[Row],
        mut look: impl FnMut(usize, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let table = self.table(table)?;
        let (tree, definition) = (table.keyed()?, &table.definition);
        let keys = keys_of(definition, keys)?;
        keys.iter().try_for_each(|key| self.lock_key(table, key))?;
        let pages = &*self.statement_about_keys(definition.file, &keys)?;
        let mut copies = BatchCopy::take();
        let looked = tree.get_batch(pages, &keys, |index, bytes| {
            if let Some(value) = bytes {
                copies.add(index, definition.record_of(&keys[index], value, &mut Vec::new()));
            }
        });
        looked.map_err(self.named())?;
        let read = |index: usize, copy: &mut RecordCopy| {
            let key = &keys[index];
            let found = tree.get(pages, key, |value| {
                copy.set(definition.record_of(key, value, &mut Vec::new()));
            });
            Ok(found.map_err(self.named())?.is_some())
        };
        copies.lend(read, |index, bytes| {
            look(index, view_of(bytes)?);
            Ok(())
        })
    }

    /// Brings the pages where rows with these key values belong into memory, all at once, for a caller
    /// that is about to put or delete such rows one by one. A call is worth as many keys as a quarter
    /// of the pool has pages; more push each other out.
    ///
    /// # Errors
    /// As [`Self::get_batch_by_key`].
    pub fn fetch_by_key(&self, table: &str, keys: &[Row]) -> Result<(), StorageError> {
        let table = self.table(table)?;
        let (tree, keys) = (table.keyed()?, keys_of(&table.definition, keys)?);
        tree.fetch_leaves(&*self.statement()?, &keys).map_err(self.named())
    }

    /// The tree of a heap table, for operators that read it in larger pieces.
    ///
    /// # Errors
    /// If there is no such heap table.
    pub fn heap_tree(&self, table: &str) -> Result<TableTree, StorageError> {
        let table = self.table(table)?;
        let heap = table.heap()?;
        self.lock_file(table.definition.file, table)?;
        Ok(heap.tree_in(&self.view))
    }

    /// A table in PAX pages.
    ///
    /// # Errors
    /// If there is no such table, or it is stored otherwise.
    pub fn pax_table(&self, table: &str) -> Result<&PaxTable, StorageError> {
        let open = self.table(table)?;
        open.rows.pax().ok_or_else(|| open.wrong_kind("not in PAX pages"))
    }

    /// The tree of a clustered table.
    ///
    /// # Errors
    /// If there is no such clustered table.
    pub fn clustered_tree(&self, table: &str) -> Result<Tree, StorageError> {
        let table = self.table(table)?;
        let tree = table.keyed()?;
        if table.definition.kind.read_as() != Some(ReadAs::Clustered) {
            return Err(table.wrong_kind("not clustered: its entries are no rows"));
        }
        self.lock_file(table.definition.file, table)?;
        Ok(tree)
    }

    /// The tree of an index, whose keys are the indexed values and the row's number.
    ///
    /// # Errors
    /// If there is no such table or index.
    pub fn index_tree(&self, table: &str, index: &str) -> Result<Tree, StorageError> {
        let table = self.table(table)?;
        let file = table.index(index)?.file;
        self.lock_file(file, table)?;
        Ok(Tree::at(file))
    }

    /// All rows in the order in which they are stored, each with its number (0 in a clustered table).
    ///
    /// # Errors
    /// If there is no such table, or a page cannot be read.
    pub fn scan(
        &self,
        table: &str,
        mut look: impl FnMut(i64, RecordView<'_>) -> Flow,
    ) -> Result<(), StorageError> {
        let mut rows = self.rows(table)?;
        while let Some((number, record)) = rows.next_row()? {
            if look(number, record).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The rows of a clustered table whose keys lie between the bounds, in the order of the key. A bound
    /// may name the first columns of the key only. `ahead_count` leaves are asked for ahead; 0 suits
    /// who stops within a leaf.
    ///
    /// # Errors
    /// If there is no such clustered table, or a page cannot be read.
    pub fn scan_by_key(
        &self,
        table: &str,
        bounds: (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>),
        ahead_count: usize,
        mut look: impl FnMut(RecordView<'_>) -> Flow,
    ) -> Result<(), StorageError> {
        self.table(table)?.keyed()?;
        let range = RowRange::of(table).between(bounds).with_ahead_count(ahead_count);
        let mut rows = self.rows(range)?;
        while let Some((_, record)) = rows.next_row()? {
            if look(record).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Numbers of the rows whose indexed values lie between the bounds, in the order of the index. A
    /// bound may name the first columns only.
    ///
    /// # Errors
    /// If there is no such table or index, or a page cannot be read.
    pub fn index_scan(
        &self,
        table: &str,
        index: &str,
        bounds: (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>),
        mut look: impl FnMut(i64) -> Flow,
    ) -> Result<(), StorageError> {
        let table = self.table(table)?;
        let index = table.index(index)?;
        let bounds = table.definition.bounds_of_columns(&index.columns, bounds)?;
        let Some(bounds) = bounds else { return Ok(()) };
        let bounds = as_bytes(&bounds);
        self.lock_range(index.file, bounds, table)?;
        let pages = &*self
            .statement_about(index.file, |key| RangeBounds::<[u8]>::contains(&bounds, key))?;
        let mut scan = Tree::at(index.file).scan(bounds, Direction::Forward);
        while let Some((entry, _)) = scan.next(pages).map_err(self.named())? {
            if look(key::split_row_number(entry)?.1).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The rows that [`Self::index_scan`] names. In the order of addresses they come batch by batch.
    ///
    /// # Errors
    /// As there, and if an entry leads to no row.
    pub fn index_rows(
        &self,
        table: &str,
        index: &str,
        bounds: (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>),
        order: FetchOrder,
        mut look: impl FnMut(i64, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let open = self.table(table)?;
        open.heap()?;
        let mut numbers = Vec::new();
        let batch_rows = match order {
            FetchOrder::Key => FETCH_AHEAD_ROWS,
            FetchOrder::Address => FETCH_BATCH_ROWS,
        };
        let mut result = Ok(());
        self.index_scan(table, index, bounds, |number| {
            numbers.push(number);
            if numbers.len() < batch_rows {
                return Flow::Continue(());
            }
            result = self.fetch(open, &mut numbers, order, &mut look);
            if result.is_ok() { Flow::Continue(()) } else { Flow::Break(()) }
        })?;
        result?;
        self.fetch(open, &mut numbers, order, &mut look)
    }

    fn fetch(
        &self,
        table: &OpenTable,
        numbers: &mut Vec<i64>,
        order: FetchOrder,
        look: &mut impl FnMut(i64, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let wanted = numbers.len();
        let mut found = 0;
        let heap = table.heap()?;
        numbers.iter().try_for_each(|&number| self.lock_number(table, number))?;
        let pages = &*self.statement()?;
        let tree = heap.tree_in(pages);
        match order {
            FetchOrder::Address => {
                numbers.sort_unstable();
                self.lend_batch(&tree, pages, numbers, |index, record| {
                    found += 1;
                    look(numbers[index], record);
                })?;
            }
            FetchOrder::Key => {
                let mut copy = RecordCopy::take();
                for &number in numbers.iter() {
                    let shown = tree.get(pages, number, |record| copy.set(record.bytes()));
                    if shown.map_err(self.named())?.is_some() {
                        found += 1;
                        look(number, copied(copy.bytes()));
                    }
                }
            }
        }
        if found != wanted {
            return Err(leads_nowhere(numbers[0]));
        }
        numbers.clear();
        Ok(())
    }

    /// A row of a heap table, with all its values.
    ///
    /// # Errors
    /// As [`Tables::get`].
    pub fn row(&self, table: &str, number: i64) -> Result<Option<Row>, StorageError> {
        self.get(table, number, row_of)
    }

    /// Sizes of all tables and indexes. A serializable transaction locks all of them.
    ///
    /// # Errors
    /// If a page cannot be read or breaks a rule; [`Self::check`] says all about it.
    pub fn stat(&self) -> Result<Vec<TableStat>, StorageError> {
        let mut stats = Vec::new();
        let open = self.all_tables()?;
        for table in open.values() {
            table.definition.files().try_for_each(|file| self.lock_file(file, table))?;
        }
        let pages = &*self.statement()?;
        for table in open.values() {
            let TableDefinition { name, indexes, .. } = &table.definition;
            stats.push(table.rows.stat(self, pages, &table.definition)?);
            for index in indexes {
                let name = format!("{name}.{}", index.name);
                stats.push(self.tree_stat(pages, name, "index", index.file)?);
            }
        }
        Ok(stats)
    }

    pub(super) fn tree_stat(
        &self,
        pages: &EngineView,
        name: String,
        kind: &'static str,
        file: FileId,
    ) -> Result<TableStat, StorageError> {
        let report = btree::check(pages, file);
        if let Some(failure) = report.failure {
            return Err(failure);
        }
        if let Some(finding) = report.findings.first() {
            let what = name_files(finding, &self.view.files());
            return Err(StorageError::Corrupt { place: name, what });
        }
        Ok(TableStat {
            name,
            kind,
            row_count: report.entry_count,
            page_count: u64::from(report.page_count),
            level_count: nandu_base::to_u32(report.levels.len() as u64),
            file_bytes: self.view.file_bytes(file),
        })
    }

    /// For `map_err`: names files in place of their numbers.
    pub(super) fn named(&self) -> impl Fn(StorageError) -> StorageError {
        move |error| with_names_of(|| self.view.files(), error)
    }
}

/// What is told of an entry of an index that has outlived its row.
pub(super) fn leads_nowhere(number: i64) -> StorageError {
    StorageError::Corrupt {
        place: "an index".to_owned(),
        what: format!("its entry for row {number} leads to no row"),
    }
}

/// What is told of a name that none of the tables has: with the one that is most like it.
pub(super) fn no_table(name: &str, open: &OpenTables) -> StorageError {
    let meant = did_you_mean(name, open.values().map(|table| table.definition.name.as_str()));
    StorageError::NotFound { what: format!("table {name}{meant}") }
}

/// The row in a record.
pub(super) fn row_of(record: RecordView<'_>) -> Row {
    record.columns().map(ValueRef::to_value).collect()
}

pub(super) fn view_of(bytes: &[u8]) -> Result<RecordView<'_>, StorageError> {
    RecordView::new(bytes).map_err(|what| StorageError::Corrupt {
        place: "a row of a clustered table".to_owned(),
        what: what.to_owned(),
    })
}

fn keys_of(definition: &TableDefinition, keys: &[Row]) -> Result<Vec<Vec<u8>>, StorageError> {
    let of_row = |row: &Row| definition.key_of(&row.iter().map(Value::as_ref).collect::<Vec<_>>());
    keys.iter().map(of_row).collect()
}

/// The entry of a row in an index.
pub(super) fn entry_key(index: &IndexDefinition, record: RecordView<'_>, number: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &column in &index.columns {
        key::encode_key(record.get(column), &mut bytes);
    }
    key::encode_key(ValueRef::Integer(number), &mut bytes);
    bytes
}
