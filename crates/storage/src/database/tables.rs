//! The tables of an open database, and everything that only reads.
//!
//! 1. `open` holds one entry for each table of the catalogue.
//! 2. The key of an index entry is its columns' values, then the row's number; it has no value.
//! 3. The record of a clustered table is its row; its key repeats the key columns.

use super::names::{name_files, with_names};
use super::schema::{IndexDefinition, Row, TableDefinition, TableKind};
use super::{catalog, key};
use crate::btree::{self, Direction, Tree};
use crate::pax::PaxTable;
use crate::sqlite::{FillFactor, HeapTable, RecordView, TableTree, Value, ValueRef};
use crate::{Engine, FileId, PageAddress, StorageError};
use nandu_base::words::did_you_mean;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

/// How many rows an index scan fetches at once in the order of their addresses.
const FETCH_BATCH_ROWS: usize = 4096;
/// How many rows an index scan fetches at once in the order of the keys.
const FETCH_AHEAD_ROWS: usize = 128;

/// The tables of a database.
#[derive(Debug)]
pub struct Tables {
    pub(super) engine: Engine,
    pub(super) catalog: FileId,
    pub(super) open: BTreeMap<Vec<u8>, OpenTable>,
    /// Whether the active transaction changed the catalogue.
    pub(super) catalog_changed: bool,
    /// Files that go when the active transaction commits.
    pub(super) dropped_files: Vec<FileId>,
    /// Files that the active transaction made.
    pub(super) created_files: Vec<FileId>,
    pub(super) scratch: Scratch,
}

/// A table at work.
#[derive(Debug)]
pub(super) struct OpenTable {
    pub(super) definition: TableDefinition,
    pub(super) rows: Rows,
}

/// Where its rows lie.
#[derive(Debug)]
pub(super) enum Rows {
    Heap(Box<HeapTable>),
    Clustered(Tree),
    Pax(PaxTable),
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
    /// `heap`, `clustered`, `pax` or `index`.
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

/// What came of removing a file to which nothing refers. Where there is no room to note that it goes,
/// it goes at a later opening.
pub(super) fn unless_full(removed: Result<(), StorageError>) -> Result<(), StorageError> {
    match removed {
        Err(StorageError::NoSpace { .. }) => Ok(()),
        answer => answer,
    }
}

/// What happens in a scan after a row.
pub type Flow = ControlFlow<()>;

impl Tables {
    pub(super) fn open(engine: Engine) -> Result<Self, StorageError> {
        let catalog = catalog::find(&engine).ok_or_else(|| StorageError::Corrupt {
            place: "the database".to_owned(),
            what: "it has no catalogue".to_owned(),
        })?;
        let mut tables = Self {
            engine,
            catalog,
            open: BTreeMap::new(),
            catalog_changed: false,
            dropped_files: Vec::new(),
            created_files: Vec::new(),
            scratch: Scratch::default(),
        };
        tables.load_catalog().map_err(tables.named())?;
        tables.check_lengths().map_err(tables.named())?;
        tables.remove_unknown_files()?;
        Ok(tables)
    }

    /// Whether all pages that the files count are there: what is read past the end of a file is zeros,
    /// as if nobody had ever written it.
    fn check_lengths(&self) -> Result<(), StorageError> {
        // Elsewhere there is nothing to compare, and counting the pages of a tree would read one.
        if !self.engine.settings().propagation.places_by_address() {
            return Ok(());
        }
        let check = |file: FileId, count: u32| {
            StorageError::check_length(
                PageAddress::new(file, count),
                pages_there(&self.engine, file),
            )
        };
        let check_tree = |file| check(file, Tree::at(file).page_count(&self.engine)?);
        check_tree(self.catalog)?;
        for OpenTable { definition, rows } in self.open.values() {
            match rows {
                Rows::Heap(heap) => check(definition.file, heap.page_counts().0)?,
                Rows::Clustered(_) => check_tree(definition.file)?,
                // The opening of a table in PAX pages compared its directory with the length of the
                // file already.
                Rows::Pax(_) => {}
            }
            definition.indexes.iter().try_for_each(|index| check_tree(index.file))?;
        }
        Ok(())
    }

    pub(super) fn load_catalog(&mut self) -> Result<(), StorageError> {
        self.open.clear();
        for definition in catalog::load(&self.engine, self.catalog)? {
            let table = OpenTable::open(&self.engine, definition)?;
            self.open.insert(catalog::key_of(&table.definition.name), table);
        }
        Ok(())
    }

    fn remove_unknown_files(&mut self) -> Result<(), StorageError> {
        let mut known: BTreeSet<FileId> = [self.catalog].into();
        for OpenTable { definition, .. } in self.open.values() {
            known.insert(definition.file);
            known.extend(definition.indexes.iter().map(|index| index.file));
        }
        for (file, _) in self.engine.files() {
            if !self.engine.is_read_only() && !known.contains(&file) {
                unless_full(self.engine.remove_unlogged_file(file))?;
            }
        }
        Ok(())
    }

    /// The engine, for its settings and counters.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) const fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    pub(super) fn into_engine(self) -> Engine {
        self.engine
    }

    /// All tables, by name.
    pub fn definitions(&self) -> impl Iterator<Item = &TableDefinition> {
        self.open.values().map(|table| &table.definition)
    }

    /// A table's definition.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn definition(&self, table: &str) -> Result<&TableDefinition, StorageError> {
        Ok(&self.table(table)?.definition)
    }

    pub(super) fn table(&self, name: &str) -> Result<&OpenTable, StorageError> {
        self.open.get(&catalog::key_of(name)).ok_or_else(|| self.no_table(name))
    }

    fn no_table(&self, name: &str) -> StorageError {
        let meant = did_you_mean(name, self.definitions().map(|table| table.name.as_str()));
        StorageError::NotFound { what: format!("table {name}{meant}") }
    }

    /// Lends a row of a heap table, or of one in PAX pages, to `look`, which must not read pages itself.
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
        if let Rows::Pax(pax) = &table.rows {
            return pax_row(&self.engine, pax, row_number, look).map_err(self.named());
        }
        table.heap()?.get(&self.engine, row_number, look).map_err(self.named())
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
        let tree = self.table(table)?.clustered()?;
        let key = encode(key_values);
        let found = tree.get(&self.engine, &key, |bytes| view_of(bytes).map(look));
        found.map_err(self.named())?.transpose()
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
        let tree = self.table(table)?.heap()?.tree();
        let looked =
            tree.get_batch(&self.engine, &rising, |index, record| look(order[index], record));
        looked.map_err(self.named())
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
        let tree = self.table(table)?.clustered()?;
        let keys = encode_keys(keys);
        let mut trouble = None;
        let looked = tree.get_batch(&self.engine, &keys, |index, bytes| {
            let Some(bytes) = bytes else { return };
            match view_of(bytes) {
                Ok(record) => look(index, record),
                Err(error) => trouble = Some(error),
            }
        });
        looked.map_err(self.named())?;
        trouble.map_or(Ok(()), Err)
    }

    /// Brings the pages where rows with these key values belong into memory, all at once, for a caller
    /// that is about to put or delete such rows one by one. A call is worth as many keys as a quarter
    /// of the pool has pages; more push each other out.
    ///
    /// # Errors
    /// As [`Self::get_batch_by_key`].
    pub fn fetch_by_key(&self, table: &str, keys: &[Row]) -> Result<(), StorageError> {
        let tree = self.table(table)?.clustered()?;
        tree.fetch_leaves(&self.engine, &encode_keys(keys)).map_err(self.named())
    }

    /// The tree of a heap table, for operators that read it in larger pieces.
    ///
    /// # Errors
    /// If there is no such heap table.
    pub fn heap_tree(&self, table: &str) -> Result<TableTree, StorageError> {
        Ok(*self.table(table)?.heap()?.tree())
    }

    /// A table in PAX pages.
    ///
    /// # Errors
    /// If there is no such table, or it is stored otherwise.
    pub fn pax_table(&self, table: &str) -> Result<&PaxTable, StorageError> {
        let open = self.table(table)?;
        match &open.rows {
            Rows::Pax(pax) => Ok(pax),
            _ => Err(open.wrong_kind("not in PAX pages")),
        }
    }

    /// The tree of a clustered table.
    ///
    /// # Errors
    /// If there is no such clustered table.
    pub fn clustered_tree(&self, table: &str) -> Result<Tree, StorageError> {
        self.table(table)?.clustered()
    }

    /// The tree of an index, whose keys are the indexed values and the row's number.
    ///
    /// # Errors
    /// If there is no such table or index.
    pub fn index_tree(&self, table: &str, index: &str) -> Result<Tree, StorageError> {
        Ok(Tree::at(self.table(table)?.index(index)?.file))
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
        match &self.table(table)?.rows {
            Rows::Heap(heap) => {
                let mut scan = heap.tree().scan(i64::MIN..=i64::MAX);
                let mut flow = Flow::Continue(());
                let mut has_more = true;
                while flow.is_continue() && has_more {
                    let next = scan.next_leaf(&self.engine, |number, record| {
                        if flow.is_continue() {
                            flow = look(number, record);
                        }
                    });
                    has_more = next.map_err(self.named())?;
                }
            }
            Rows::Clustered(tree) => {
                let everything = (Bound::Unbounded, Bound::Unbounded);
                let mut scan = tree.scan(everything, Direction::Forward);
                while let Some((_, value)) = scan.next(&self.engine).map_err(self.named())? {
                    if look(0, view_of(value)?).is_break() {
                        break;
                    }
                }
            }
            Rows::Pax(pax) => {
                let mut flow = Flow::Continue(());
                for pax_page in 0..pax.pax_pages().len() {
                    let looked = pax.look_at(&self.engine, pax_page, |number, record| {
                        flow = look(number, RecordView::new(record).expect("it was just encoded"));
                        flow.is_continue()
                    });
                    looked.map_err(self.named())?;
                    if flow.is_break() {
                        break;
                    }
                }
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
        (lower, upper): (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>),
        ahead_count: usize,
        mut look: impl FnMut(RecordView<'_>) -> Flow,
    ) -> Result<(), StorageError> {
        let tree = self.table(table)?.clustered()?;
        let (lower, upper) = (lower_bound(lower), upper_bound(upper));
        let Some((lower, upper)) = lower.zip(upper) else { return Ok(()) };
        let bounds = (as_bytes(&lower), as_bytes(&upper));
        let mut scan = tree.scan(bounds, Direction::Forward).with_ahead_count(ahead_count);
        while let Some((_, value)) = scan.next(&self.engine).map_err(self.named())? {
            if look(view_of(value)?).is_break() {
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
        (lower, upper): (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>),
        mut look: impl FnMut(i64) -> Flow,
    ) -> Result<(), StorageError> {
        let index = self.table(table)?.index(index)?;
        let (lower, upper) = (lower_bound(lower), upper_bound(upper));
        let Some((lower, upper)) = lower.zip(upper) else { return Ok(()) };
        let bounds = (as_bytes(&lower), as_bytes(&upper));
        let mut scan = Tree::at(index.file).scan(bounds, Direction::Forward);
        while let Some((entry, _)) = scan.next(&self.engine).map_err(self.named())? {
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
        let heap = self.table(table)?.heap()?;
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
            result = self.fetch(heap, &mut numbers, order, &mut look);
            if result.is_ok() { Flow::Continue(()) } else { Flow::Break(()) }
        })?;
        result?;
        self.fetch(heap, &mut numbers, order, &mut look)
    }

    fn fetch(
        &self,
        heap: &HeapTable,
        numbers: &mut Vec<i64>,
        order: FetchOrder,
        look: &mut impl FnMut(i64, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let missing = |number: i64| StorageError::Corrupt {
            place: "an index".to_owned(),
            what: format!("its entry for row {number} leads to no row"),
        };
        let wanted = numbers.len();
        let mut found = 0;
        match order {
            FetchOrder::Address => {
                numbers.sort_unstable();
                let looked = heap.tree().get_batch(&self.engine, numbers, |index, record| {
                    found += 1;
                    look(numbers[index], record);
                });
                looked.map_err(self.named())?;
            }
            FetchOrder::Key => {
                for &number in numbers.iter() {
                    let shown = heap.get(&self.engine, number, |record| look(number, record));
                    found += usize::from(shown.map_err(self.named())?.is_some());
                }
            }
        }
        if found != wanted {
            return Err(missing(numbers[0]));
        }
        numbers.clear();
        Ok(())
    }

    /// Sizes of all tables and indexes.
    ///
    /// # Errors
    /// If a page cannot be read or breaks a rule; [`Self::check`] says all about it.
    pub fn stat(&self) -> Result<Vec<TableStat>, StorageError> {
        let mut stats = Vec::new();
        for table in self.open.values() {
            let TableDefinition { name, file, indexes, .. } = &table.definition;
            stats.push(match &table.rows {
                Rows::Clustered(_) => self.tree_stat(name.clone(), "clustered", *file)?,
                Rows::Heap(heap) => self.heap_stat(name, heap, *file).map_err(self.named())?,
                Rows::Pax(pax) => TableStat {
                    name: name.clone(),
                    kind: "pax",
                    row_count: pax.row_count(),
                    page_count: u64::from(pax.page_count()),
                    level_count: 1,
                    file_bytes: self.engine.file_bytes(*file),
                },
            });
            for index in indexes {
                let name = format!("{name}.{}", index.name);
                stats.push(self.tree_stat(name, "index", index.file)?);
            }
        }
        Ok(stats)
    }

    fn tree_stat(
        &self,
        name: String,
        kind: &'static str,
        file: FileId,
    ) -> Result<TableStat, StorageError> {
        let report = btree::check(&self.engine, file);
        if let Some(failure) = report.failure {
            return Err(failure);
        }
        if let Some(finding) = report.findings.first() {
            let what = name_files(finding, &self.engine.files());
            return Err(StorageError::Corrupt { place: name, what });
        }
        Ok(TableStat {
            name,
            kind,
            row_count: report.entry_count,
            page_count: u64::from(report.page_count),
            level_count: nandu_base::to_u32(report.levels.len() as u64),
            file_bytes: self.engine.file_bytes(file),
        })
    }

    fn heap_stat(
        &self,
        name: &str,
        heap: &HeapTable,
        file: FileId,
    ) -> Result<TableStat, StorageError> {
        let level_count = heap.tree().interior_level_count(&self.engine)? as u64 + 1;
        Ok(TableStat {
            name: name.to_owned(),
            kind: "heap",
            row_count: heap.check(&self.engine)?.row_count,
            page_count: u64::from(heap.page_counts().0),
            level_count: nandu_base::to_u32(level_count),
            file_bytes: self.engine.file_bytes(file),
        })
    }

    /// For `map_err`: names files in place of their numbers.
    fn named(&self) -> impl Fn(StorageError) -> StorageError {
        move |error| with_names(&self.engine, error)
    }
}

impl OpenTable {
    pub(super) fn open(engine: &Engine, definition: TableDefinition) -> Result<Self, StorageError> {
        let file = definition.file;
        let rows = match definition.kind {
            TableKind::Clustered { .. } => Rows::Clustered(Tree::open(engine, file)?),
            TableKind::Heap => {
                let place = format!("table {} of file {}", definition.name, file.0);
                let fill = FillFactor::default();
                Rows::Heap(Box::new(HeapTable::open(engine, file, u64::MAX, fill, &place)?))
            }
            TableKind::Pax { .. } => {
                let types = definition.column_types();
                Rows::Pax(PaxTable::open(engine, file, pages_there(engine, file), types)?)
            }
        };
        Ok(Self { definition, rows })
    }

    pub(super) fn heap(&self) -> Result<&HeapTable, StorageError> {
        match &self.rows {
            Rows::Heap(heap) => Ok(heap),
            Rows::Clustered(_) => Err(self.wrong_kind("clustered: its rows are found by key")),
            Rows::Pax(_) => Err(self.not_changed()),
        }
    }

    pub(super) fn clustered(&self) -> Result<Tree, StorageError> {
        match &self.rows {
            Rows::Clustered(tree) => Ok(*tree),
            Rows::Heap(_) => Err(self.wrong_kind("a heap: its rows are found by number")),
            Rows::Pax(_) => Err(self.wrong_kind("in PAX pages: its rows are found by number")),
        }
    }

    /// The error that a table is not there to be changed.
    pub(super) fn not_changed(&self) -> StorageError {
        self.wrong_kind("in PAX pages, which are never changed; drop it and load it anew")
    }

    pub(super) fn index(&self, name: &str) -> Result<&IndexDefinition, StorageError> {
        let TableDefinition { indexes, name: table, .. } = &self.definition;
        let found = indexes.iter().find(|index| index.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| StorageError::NotFound { what: format!("index {name} of {table}") })
    }

    fn wrong_kind(&self, what: &str) -> StorageError {
        StorageError::InvalidSetting { what: format!("table {} is {what}", self.definition.name) }
    }
}

/// Lends one row of a table in PAX pages to `look`.
fn pax_row<R>(
    engine: &Engine,
    pax: &PaxTable,
    row_number: i64,
    look: impl FnOnce(RecordView<'_>) -> R,
) -> Result<Option<R>, StorageError> {
    let Some((pax_page, _)) = pax.place_of(row_number) else { return Ok(None) };
    let mut look = Some(look);
    let mut answer = None;
    pax.look_at(engine, pax_page, |number, record| {
        if number == row_number
            && let Some(look) = look.take()
        {
            answer = Some(look(RecordView::new(record).expect("it was just encoded")));
        }
        number < row_number
    })?;
    Ok(answer)
}

/// Pages that a file has on the device; `None` where pages lie elsewhere.
fn pages_there(engine: &Engine, file: FileId) -> Option<u64> {
    let page_bytes = u64::from(engine.settings().page_bytes);
    let places_by_address = engine.settings().propagation.places_by_address();
    places_by_address.then(|| engine.data_io().byte_count(file) / page_bytes)
}

pub(super) fn no_table(name: &str) -> StorageError {
    StorageError::NotFound { what: format!("table {name}") }
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

pub(super) fn encode(values: &[ValueRef<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &value in values {
        key::encode_key(value, &mut bytes);
    }
    bytes
}

fn encode_keys(keys: &[Row]) -> Vec<Vec<u8>> {
    let of_row = |row: &Row| encode(&row.iter().map(Value::as_ref).collect::<Vec<_>>());
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

/// `None` where no key can lie behind the bound.
fn lower_bound(bound: Bound<&[ValueRef<'_>]>) -> Option<Bound<Vec<u8>>> {
    Some(match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(values) => Bound::Included(encode(values)),
        Bound::Excluded(values) => Bound::Included(key::after_prefix(&encode(values))?),
    })
}

fn upper_bound(bound: Bound<&[ValueRef<'_>]>) -> Option<Bound<Vec<u8>>> {
    Some(match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(values) => {
            key::after_prefix(&encode(values)).map_or(Bound::Unbounded, Bound::Excluded)
        }
        Bound::Excluded(values) => Bound::Excluded(encode(values)),
    })
}

fn as_bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
