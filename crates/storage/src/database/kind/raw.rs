//! Raw trees: bytes that are found by bytes, in the order of these. As rows they have two columns of blobs,
//! `key` and `value`; [`super::super::entries`] gives them as they are.
//!
//! ```text
//!   key: as it is, compared byte by byte ─► value: as it is
//! ```

use super::keyed::{self, KeyedLoad};
use super::{HeapReader, ReadAs, RowLoad, Rows, StoredScan, TableRows};
use crate::btree::{Cursor, Tree};
use crate::database::check::Check;
use crate::database::core::Core;
use crate::database::key_values::{KeyBounds, as_bytes};
use crate::database::load::LoadOptions;
use crate::database::open_table::OpenTable;
use crate::database::row_scan::RowRange;
use crate::database::schema::{Column, ColumnType, TableDefinition};
use crate::database::tables::{TableStat, Tables};
use crate::database::view::EngineView;
use crate::engine::UnloggedPages;
use crate::sqlite::{HeapTable, RecordView, ValueRef, encode_record};
use crate::{Engine, StorageError};
use std::ops::Bound;
use std::sync::Arc;

/// The places of the columns.
const KEY: usize = 0;
const VALUE: usize = 1;

/// An open raw tree.
#[derive(Debug)]
pub(in crate::database) struct RawRows(Tree);

/// The entries of a raw tree as rows, one after the other.
pub(in crate::database) struct RawScan {
    cursor: Box<Cursor>,
    record: Vec<u8>,
}

/// The columns of a raw tree.
pub(super) fn columns() -> Vec<Column> {
    ["key", "value"].map(|name| Column::new(name, ColumnType::Blob).not_null()).into()
}

impl TableRows for RawRows {
    const LABEL: &'static str = "raw";
    const FILE_SUFFIX: &'static str = "tree";
    const HAS_ORDER: bool = true;
    const READ_AS: Option<ReadAs> = None;

    fn own_columns() -> Option<Vec<Column>> {
        Some(columns())
    }

    fn key_columns(_kind: &super::TableKind) -> &[usize] {
        &[KEY]
    }

    fn check(definition: &TableDefinition) -> Result<(), StorageError> {
        if definition.columns == columns() {
            return Ok(());
        }
        let what = format!(
            "table {} is raw: its columns are key and value, blobs that are not null",
            definition.name
        );
        Err(StorageError::InvalidSetting { what })
    }

    fn create(engine: &mut Engine, definition: &TableDefinition) -> Result<(), StorageError> {
        keyed::create(engine, definition)
    }

    fn begin_load<'l>(
        pages: &mut UnloggedPages<'_>,
        definition: &TableDefinition,
        options: &LoadOptions,
        _heap: &'l mut Option<HeapTable>,
    ) -> Result<RowLoad<'l>, StorageError> {
        Ok(RowLoad::Keyed(KeyedLoad::begin(pages, definition, options)?))
    }

    fn open(
        engine: &Engine,
        definition: &TableDefinition,
        _known: Option<&Rows>,
    ) -> Result<(Rows, Option<HeapTable>), StorageError> {
        Ok((Rows::Raw(Self(Tree::open(engine, definition.file)?)), None))
    }

    fn heap(&self) -> Result<&Arc<HeapReader>, &'static str> {
        Err("raw: its rows are found by key")
    }

    #[inline]
    fn keyed(&self) -> Result<Tree, &'static str> {
        Ok(self.0)
    }

    #[inline]
    fn raw(&self) -> Option<Tree> {
        Some(self.0)
    }

    fn page_count(&self, engine: &Engine) -> Result<Option<u32>, StorageError> {
        self.0.page_count(engine).map(Some)
    }

    fn get<R>(
        &self,
        _tables: &Tables,
        table: &OpenTable,
        _row_number: i64,
        _look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>, StorageError> {
        table.heap().map(|_| None)
    }

    fn insert(
        &self,
        core: &mut Core,
        table: &OpenTable,
        row: &[ValueRef<'_>],
        value: &[u8],
    ) -> Result<i64, StorageError> {
        keyed::insert(core, self.0, table, row, value)
    }

    fn scan(&self, _view: &EngineView, range: &RowRange<'_>, bounds: &KeyBounds) -> StoredScan {
        let cursor = range.cursor(self.0, as_bytes(bounds));
        StoredScan::Raw(RawScan { cursor, record: Vec::new() })
    }

    fn check_rows(&self, check: &mut Check<'_>, table: &OpenTable) -> Result<(), StorageError> {
        let TableDefinition { name, file, .. } = &table.definition;
        // Whatever a whole tree has in it are entries.
        check.report.row_count += check.tree(&format!("table {name}"), *file)?.count;
        Ok(())
    }

    fn stat(
        &self,
        tables: &Tables,
        pages: &EngineView,
        definition: &TableDefinition,
    ) -> Result<TableStat, StorageError> {
        tables.tree_stat(pages, definition.name.clone(), Self::LABEL, definition.file)
    }

    fn encode_key(_definition: &TableDefinition, row: &[ValueRef<'_>], key: &mut Vec<u8>) {
        key.extend_from_slice(blob(row[KEY]));
    }

    fn encode_value<'v>(row: impl IntoIterator<Item = ValueRef<'v>> + Clone, value: &mut Vec<u8>) {
        value.extend(row.into_iter().nth(VALUE).map_or(&[][..], blob));
    }

    fn record_of<'r>(key: &[u8], value: &'r [u8], buffer: &'r mut Vec<u8>) -> &'r [u8] {
        encode_record([ValueRef::Blob(key), ValueRef::Blob(value)], buffer);
        buffer
    }

    fn key_of(
        definition: &TableDefinition,
        values: &[ValueRef<'_>],
    ) -> Result<Vec<u8>, StorageError> {
        match values {
            [value] => {
                Ok(blob(definition.conform_value(&definition.columns[KEY], *value)?).to_vec())
            }
            _ => Err(definition.wrong_key_width(&[KEY], values)),
        }
    }

    fn key_bounds(
        definition: &TableDefinition,
        (lower, upper): (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>),
    ) -> Result<Option<KeyBounds>, StorageError> {
        let key = |values: &[ValueRef<'_>]| match values {
            [] => Ok(None),
            values => Self::key_of(definition, values).map(Some),
        };
        // A bound of no value is one of all keys, since all begin so.
        let lower = match lower {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(values) => key(values)?.map_or(Bound::Unbounded, Bound::Included),
            Bound::Excluded(values) => match key(values)? {
                Some(key) => Bound::Excluded(key),
                None => return Ok(None),
            },
        };
        let upper = match upper {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(values) => key(values)?.map_or(Bound::Unbounded, Bound::Included),
            Bound::Excluded(values) => match key(values)? {
                Some(key) => Bound::Excluded(key),
                None => return Ok(None),
            },
        };
        Ok(Some((lower, upper)))
    }
}

impl RawScan {
    pub(super) fn advance(&mut self, pages: &EngineView) -> Result<bool, StorageError> {
        let Some((key, value)) = self.cursor.next(pages)? else { return Ok(false) };
        self.record.clear();
        encode_record([ValueRef::Blob(key), ValueRef::Blob(value)], &mut self.record);
        Ok(true)
    }

    pub(super) fn record(&self) -> &[u8] {
        &self.record
    }
}

/// The bytes of a value that fits its column.
fn blob(value: ValueRef<'_>) -> &[u8] {
    match value {
        ValueRef::Blob(bytes) => bytes,
        _ => unreachable!("the columns of a raw tree are blobs that are not null"),
    }
}
