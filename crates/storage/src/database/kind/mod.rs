//! Kinds of tables: how rows are stored. A sibling file each; what is asked of them is [`TableRows`].
//!
//! ```text
//!                what the catalogue says   open      being filled   a scan under way
//!   heap         TableKind                 Rows      RowLoad        StoredScan
//!   clustered       ·                        ·         ·               ·
//!   pax             ·                        ·         ·               ·
//!   raw             ·                        ·         ·               ·
//! ```
//!
//! 1. No other file of `database` knows which kinds there are. It asks what a table can do: whether its rows
//!    have numbers ([`OpenTable::heap`]) or are found by a key ([`OpenTable::keyed`]).
//! 2. A key of a row is bytes, and bytes stand for it: what a kind makes of a row comes back from it as the
//!    same row ([`TableDefinition::encode_key`], [`TableDefinition::record_of`]).

mod clustered;
mod heap;
mod keyed;
mod pax;
mod raw;
#[cfg(test)]
mod tests;

pub(super) use heap::{HeapReader, open_heap};

use self::clustered::{ClusteredRows, ClusteredScan};
use self::heap::{HeapLoad, HeapRows, HeapScan};
use self::keyed::KeyedLoad;
use self::pax::{PaxLoad, PaxRows, PaxScan};
use self::raw::{RawRows, RawScan};
use super::check::Check;
use super::core::Core;
use super::key_values::KeyBounds;
use super::load::{LoadOptions, NewRow};
use super::open_table::OpenTable;
use super::row_scan::RowRange;
use super::schema::{Column, TableDefinition};
use super::tables::{TableStat, Tables};
use super::turns::Turns;
use super::view::EngineView;
use crate::btree::Tree;
use crate::engine::UnloggedPages;
use crate::pax::PaxTable;
use crate::sqlite::{HeapTable, RecordView, ValueRef, encode_record};
use crate::{Engine, StorageError};
use serde::{Deserialize, Serialize};
use std::ops::Bound;
use std::sync::Arc;

/// How the rows of a table are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// A file that `sqlite3` opens, rows in the order of arrival.
    Heap,
    /// A B+-tree, rows in the order of these columns, which identify a row.
    Clustered {
        /// The columns of the key, by index, most significant first.
        key: Vec<usize>,
    },
    /// PAX pages, rows in the order of arrival: loaded as a whole, never changed.
    Pax {
        /// Database pages that a PAX page spans.
        span_pages: u32,
    },
    /// A B+-tree of bytes that are found by bytes, in the order of these: rows of two columns, `key` and
    /// `value`, blobs that are not null.
    Raw,
}

/// As what operators read a table in larger pieces than rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAs {
    /// Leaves of [`Tables::heap_tree`].
    Heap,
    /// Leaves of [`Tables::clustered_tree`], whose values are rows.
    Clustered,
    /// Minipages of [`Tables::pax_table`].
    Pax,
}

/// Where the rows of an open table lie.
#[derive(Debug)]
pub(super) enum Rows {
    Heap(HeapRows),
    Clustered(ClusteredRows),
    Pax(PaxRows),
    Raw(RawRows),
}

/// A table that is being filled.
pub(super) enum RowLoad<'l> {
    Heap(HeapLoad<'l>),
    Keyed(KeyedLoad),
    Pax(PaxLoad),
}

/// Rows of a table one after the other, as they are stored.
pub(super) enum StoredScan {
    Heap(HeapScan),
    Clustered(ClusteredScan),
    Pax(PaxScan),
    Raw(RawScan),
}

/// What is asked of a kind of table. What is said here fits rows that are stored as records.
pub(super) trait TableRows {
    /// Its name, as [`TableStat::kind`] has it.
    const LABEL: &'static str;
    /// What the name of a table's file ends in.
    const FILE_SUFFIX: &'static str;
    /// Whether tables take indexes, whose entries end in a row's number.
    const TAKES_INDEXES: bool = false;
    /// Whether rows are changed once they are there.
    const TAKES_CHANGES: bool = true;
    /// Whether rows lie in the order of their keys, so that ranges of them may be asked for, backwards too.
    const HAS_ORDER: bool = false;
    /// As what operators read it, if they do.
    const READ_AS: Option<ReadAs>;

    /// The columns of all tables of the kind, where nobody chooses them.
    fn own_columns() -> Option<Vec<Column>> {
        None
    }

    /// The columns by which a row is found, by index; none where rows have numbers.
    fn key_columns(_kind: &TableKind) -> &[usize] {
        &[]
    }

    /// What a definition has to keep beside the rules of all tables.
    ///
    /// # Errors
    /// The first rule that it breaks.
    fn check(definition: &TableDefinition) -> Result<(), StorageError>;

    /// Makes an empty table in its file, which is there.
    ///
    /// # Errors
    /// If pages cannot be made.
    ///
    /// # Panics
    /// If no table of the kind begins empty: those that are not changed.
    fn create(engine: &mut Engine, definition: &TableDefinition) -> Result<(), StorageError>;

    /// Begins to fill a table in its file, past the log. A heap that the load needs goes into `heap`.
    ///
    /// # Errors
    /// If the options make no sense, or pages cannot be made.
    fn begin_load<'l>(
        pages: &mut UnloggedPages<'_>,
        definition: &TableDefinition,
        options: &LoadOptions,
        heap: &'l mut Option<HeapTable>,
    ) -> Result<RowLoad<'l>, StorageError>;

    /// Opens a table; a heap comes apart, since only who changes it needs all of it. `known` are the rows
    /// that others have of it, if somebody does.
    ///
    /// # Errors
    /// If its file does not hold such a table.
    fn open(
        engine: &Engine,
        definition: &TableDefinition,
        known: Option<&Rows>,
    ) -> Result<(Rows, Option<HeapTable>), StorageError>;

    /// Rows with numbers that may be changed, or what the table is instead.
    fn heap(&self) -> Result<&Arc<HeapReader>, &'static str>;

    /// The tree of rows that are found by a key, or what the table is instead.
    fn keyed(&self) -> Result<Tree, &'static str>;

    /// The table in PAX pages, if it is one.
    fn pax(&self) -> Option<&PaxTable> {
        None
    }

    /// The raw tree, if it is one.
    fn raw(&self) -> Option<Tree> {
        None
    }

    /// Pages that its file counts; `None` where the opening looked for them already.
    ///
    /// # Errors
    /// If the page that says so cannot be read.
    fn page_count(&self, engine: &Engine) -> Result<Option<u32>, StorageError>;

    /// Lends the row with a number to `look`.
    ///
    /// # Errors
    /// If rows have no numbers, or a page cannot be read.
    fn get<R>(
        &self,
        tables: &Tables,
        table: &OpenTable,
        row_number: i64,
        look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>, StorageError>;

    /// Stores a row that is not there, its values as its columns have them, and `value` made of them. Gives
    /// its number, 0 where rows have none.
    ///
    /// # Errors
    /// If there is one with its key, no room, or another transaction in the way.
    fn insert(
        &self,
        core: &mut Core,
        table: &OpenTable,
        row: &[ValueRef<'_>],
        value: &[u8],
    ) -> Result<i64, StorageError>;

    /// Begins to read rows; all of them where they have no order.
    fn scan(&self, view: &EngineView, range: &RowRange<'_>, bounds: &KeyBounds) -> StoredScan;

    /// Looks for what is wrong with pages, rows and indexes.
    ///
    /// # Errors
    /// If the device does not answer.
    fn check_rows(&self, check: &mut Check<'_>, table: &OpenTable) -> Result<(), StorageError>;

    /// Sizes of the table, without its indexes.
    ///
    /// # Errors
    /// If a page cannot be read or breaks a rule.
    fn stat(
        &self,
        tables: &Tables,
        pages: &EngineView,
        definition: &TableDefinition,
    ) -> Result<TableStat, StorageError>;

    /// Appends the bytes that a row is found by.
    fn encode_key(_definition: &TableDefinition, _row: &[ValueRef<'_>], _key: &mut Vec<u8>) {}

    /// Appends the bytes that are stored of a row, of values that are as their columns have them.
    fn encode_value<'v>(row: impl IntoIterator<Item = ValueRef<'v>> + Clone, value: &mut Vec<u8>) {
        encode_record(row, value);
    }

    /// The record of a row with this key and value.
    fn record_of<'r>(_key: &[u8], value: &'r [u8], _buffer: &'r mut Vec<u8>) -> &'r [u8] {
        value
    }

    /// The bytes of a whole key.
    ///
    /// # Errors
    /// If there are more or fewer values than columns of the key, or one does not fit its column.
    fn key_of(
        definition: &TableDefinition,
        values: &[ValueRef<'_>],
    ) -> Result<Vec<u8>, StorageError> {
        definition.key_of_columns(definition.key_columns(), values)
    }

    /// Bounds of keys; `None` where no key can lie between them.
    ///
    /// # Errors
    /// If there are more values than columns of the key, or one does not fit its column.
    fn key_bounds(
        definition: &TableDefinition,
        bounds: (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>),
    ) -> Result<Option<KeyBounds>, StorageError> {
        definition.bounds_of_columns(definition.key_columns(), bounds)
    }
}

/// The type that stands for a kind.
macro_rules! of_kind {
    ($kind:expr, $rows:ident => $answer:expr) => {
        match $kind {
            TableKind::Heap => {
                type $rows = HeapRows;
                $answer
            }
            TableKind::Clustered { .. } => {
                type $rows = ClusteredRows;
                $answer
            }
            TableKind::Pax { .. } => {
                type $rows = PaxRows;
                $answer
            }
            TableKind::Raw => {
                type $rows = RawRows;
                $answer
            }
        }
    };
}

/// The rows of an open table, whatever their kind.
macro_rules! of_rows {
    ($open:expr, $rows:ident => $answer:expr) => {
        match $open {
            Rows::Heap($rows) => $answer,
            Rows::Clustered($rows) => $answer,
            Rows::Pax($rows) => $answer,
            Rows::Raw($rows) => $answer,
        }
    };
}

impl TableKind {
    /// Its name: `heap`, `clustered`, `pax` or `raw`.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        of_kind!(self, Kind => Kind::LABEL)
    }

    /// What the name of a table's file ends in.
    pub(super) const fn file_suffix(&self) -> &'static str {
        of_kind!(self, Kind => Kind::FILE_SUFFIX)
    }

    /// Whether tables take indexes.
    #[must_use]
    pub const fn takes_indexes(&self) -> bool {
        of_kind!(self, Kind => Kind::TAKES_INDEXES)
    }

    /// Whether rows come, change and go one by one; else a table is loaded as a whole.
    #[must_use]
    pub const fn takes_changes(&self) -> bool {
        of_kind!(self, Kind => Kind::TAKES_CHANGES)
    }

    /// The columns of all tables of the kind, where nobody chooses them.
    #[must_use]
    pub fn own_columns(&self) -> Option<Vec<Column>> {
        of_kind!(self, Kind => Kind::own_columns())
    }

    /// The columns by which a row is found, by index, most significant first; none where rows have numbers.
    #[must_use]
    pub fn key_columns(&self) -> &[usize] {
        of_kind!(self, Kind => Kind::key_columns(self))
    }

    /// Database pages that a PAX page spans, of tables that lie in such pages.
    #[must_use]
    pub const fn span_pages(&self) -> Option<u32> {
        match self {
            Self::Pax { span_pages } => Some(*span_pages),
            _ => None,
        }
    }

    /// As what operators read such tables in larger pieces than rows; `None` if they do not.
    #[must_use]
    pub const fn read_as(&self) -> Option<ReadAs> {
        of_kind!(self, Kind => Kind::READ_AS)
    }

    pub(super) const fn has_order(&self) -> bool {
        of_kind!(self, Kind => Kind::HAS_ORDER)
    }
}

impl TableDefinition {
    /// The columns by which a row is found, by index; none where rows have numbers.
    #[must_use]
    pub fn key_columns(&self) -> &[usize] {
        self.kind.key_columns()
    }

    /// Does what [`TableRows::check`] says.
    pub(super) fn check_kind(&self) -> Result<(), StorageError> {
        of_kind!(&self.kind, Kind => Kind::check(self))
    }

    /// Does what [`TableRows::create`] says.
    pub(super) fn create(&self, engine: &mut Engine) -> Result<(), StorageError> {
        of_kind!(&self.kind, Kind => Kind::create(engine, self))
    }

    /// Does what [`TableRows::begin_load`] says.
    pub(super) fn begin_load<'l>(
        &self,
        pages: &mut UnloggedPages<'_>,
        options: &LoadOptions,
        heap: &'l mut Option<HeapTable>,
    ) -> Result<RowLoad<'l>, StorageError> {
        of_kind!(&self.kind, Kind => Kind::begin_load(pages, self, options, heap))
    }

    /// Does what [`TableRows::encode_key`] says.
    #[inline]
    pub(super) fn encode_key(&self, row: &[ValueRef<'_>], key: &mut Vec<u8>) {
        of_kind!(&self.kind, Kind => Kind::encode_key(self, row, key));
    }

    /// Does what [`TableRows::encode_value`] says.
    #[inline]
    pub(super) fn encode_value<'v>(
        &self,
        row: impl IntoIterator<Item = ValueRef<'v>> + Clone,
        value: &mut Vec<u8>,
    ) {
        of_kind!(&self.kind, Kind => Kind::encode_value(row, value));
    }

    /// Does what [`TableRows::record_of`] says.
    #[inline]
    pub(super) fn record_of<'r>(
        &self,
        key: &[u8],
        value: &'r [u8],
        buffer: &'r mut Vec<u8>,
    ) -> &'r [u8] {
        of_kind!(&self.kind, Kind => Kind::record_of(key, value, buffer))
    }

    /// Does what [`TableRows::key_of`] says.
    #[inline]
    pub(super) fn key_of(&self, values: &[ValueRef<'_>]) -> Result<Vec<u8>, StorageError> {
        of_kind!(&self.kind, Kind => Kind::key_of(self, values))
    }

    /// Does what [`TableRows::key_bounds`] says.
    pub(super) fn key_bounds(
        &self,
        bounds: (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>),
    ) -> Result<Option<KeyBounds>, StorageError> {
        of_kind!(&self.kind, Kind => Kind::key_bounds(self, bounds))
    }
}

impl Rows {
    /// Does what [`TableRows::open`] says.
    pub(super) fn open(
        engine: &Engine,
        definition: &TableDefinition,
        known: Option<&Self>,
    ) -> Result<(Self, Option<HeapTable>), StorageError> {
        of_kind!(&definition.kind, Kind => Kind::open(engine, definition, known))
    }

    /// Does what [`TableRows::heap`] says.
    #[inline]
    pub(super) fn heap(&self) -> Result<&Arc<HeapReader>, &'static str> {
        of_rows!(self, rows => rows.heap())
    }

    /// Does what [`TableRows::keyed`] says.
    #[inline]
    pub(super) fn keyed(&self) -> Result<Tree, &'static str> {
        of_rows!(self, rows => rows.keyed())
    }

    /// Does what [`TableRows::pax`] says.
    pub(super) fn pax(&self) -> Option<&PaxTable> {
        of_rows!(self, rows => rows.pax())
    }

    /// Does what [`TableRows::raw`] says.
    #[inline]
    pub(super) fn raw(&self) -> Option<Tree> {
        of_rows!(self, rows => rows.raw())
    }

    /// Does what [`TableRows::page_count`] says.
    pub(super) fn page_count(&self, engine: &Engine) -> Result<Option<u32>, StorageError> {
        of_rows!(self, rows => rows.page_count(engine))
    }

    /// Does what [`TableRows::get`] says.
    #[inline]
    pub(super) fn get<R>(
        &self,
        tables: &Tables,
        table: &OpenTable,
        row_number: i64,
        look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>, StorageError> {
        of_rows!(self, rows => rows.get(tables, table, row_number, look))
    }

    /// Does what [`TableRows::insert`] says.
    pub(super) fn insert(
        &self,
        core: &mut Core,
        table: &OpenTable,
        row: &[ValueRef<'_>],
        value: &[u8],
    ) -> Result<i64, StorageError> {
        of_rows!(self, rows => rows.insert(core, table, row, value))
    }

    /// Does what [`TableRows::scan`] says.
    pub(super) fn scan(
        &self,
        view: &EngineView,
        range: &RowRange<'_>,
        bounds: &KeyBounds,
    ) -> StoredScan {
        of_rows!(self, rows => rows.scan(view, range, bounds))
    }

    /// Does what [`TableRows::check_rows`] says.
    pub(super) fn check(
        &self,
        check: &mut Check<'_>,
        table: &OpenTable,
    ) -> Result<(), StorageError> {
        of_rows!(self, rows => rows.check_rows(check, table))
    }

    /// Does what [`TableRows::stat`] says.
    pub(super) fn stat(
        &self,
        tables: &Tables,
        pages: &EngineView,
        definition: &TableDefinition,
    ) -> Result<TableStat, StorageError> {
        of_rows!(self, rows => rows.stat(tables, pages, definition))
    }
}

impl RowLoad<'_> {
    /// Adds a row. Gives its number, 0 where rows have none.
    #[inline]
    pub(super) fn push(
        &mut self,
        turns: &mut Turns<'_>,
        definition: &TableDefinition,
        row: NewRow<'_>,
    ) -> Result<i64, StorageError> {
        match self {
            Self::Heap(load) => load.push(turns, definition, &row),
            Self::Keyed(load) => load.push(turns, definition, &row),
            Self::Pax(load) => load.push(turns, definition, &row),
        }
    }

    /// Writes what is left, and makes all of it durable.
    pub(super) fn finish(
        self,
        turns: &mut Turns<'_>,
        definition: &TableDefinition,
        fill_percent: usize,
    ) -> Result<(), StorageError> {
        match self {
            Self::Heap(load) => load.finish(turns, definition),
            Self::Keyed(load) => load.finish(turns, definition, fill_percent),
            Self::Pax(load) => load.finish(turns, definition),
        }
    }
}

impl StoredScan {
    /// Goes to the next row and notes its number, if it has one; false if there is none.
    #[inline]
    pub(super) fn advance(
        &mut self,
        pages: &EngineView,
        row_number: &mut i64,
    ) -> Result<bool, StorageError> {
        match self {
            Self::Heap(scan) => scan.advance(pages, row_number),
            Self::Clustered(scan) => scan.advance(pages),
            Self::Pax(scan) => scan.advance(pages, row_number),
            Self::Raw(scan) => scan.advance(pages),
        }
    }

    /// The record of the row that came last.
    #[inline]
    pub(super) fn record(&self) -> &[u8] {
        match self {
            Self::Heap(scan) => scan.record(),
            Self::Clustered(scan) => scan.record(),
            Self::Pax(scan) => scan.record(),
            Self::Raw(scan) => scan.record(),
        }
    }

    /// What is told of it when a scan is printed.
    pub(super) const fn label(&self) -> &'static str {
        match self {
            Self::Heap(_) => HeapRows::LABEL,
            Self::Clustered(_) => ClusteredRows::LABEL,
            Self::Pax(_) => PaxRows::LABEL,
            Self::Raw(_) => RawRows::LABEL,
        }
    }
}
