//! Clustered tables: a B+-tree of rows in the order of their key columns.
//!
//! ```text
//!   key: the key columns' values, in their order ─► value: the row's record, key columns included
//! ```

use super::keyed::{self, KeyedLoad};
use super::{HeapReader, ReadAs, RowLoad, Rows, StoredScan, TableKind, TableRows};
use crate::btree::{Cursor, Direction, Tree};
use crate::database::check::{Check, Counted, Findings, shown, trouble_of};
use crate::database::core::Core;
use crate::database::key;
use crate::database::key_values::{KeyBounds, as_bytes};
use crate::database::load::LoadOptions;
use crate::database::open_table::OpenTable;
use crate::database::row_scan::RowRange;
use crate::database::schema::TableDefinition;
use crate::database::tables::{TableStat, Tables, view_of};
use crate::database::view::EngineView;
use crate::engine::UnloggedPages;
use crate::sqlite::{HeapTable, RecordView, ValueRef};
use crate::{Engine, StorageError};
use std::ops::Bound;
use std::sync::Arc;

/// The rows of an open clustered table.
#[derive(Debug)]
pub(in crate::database) struct ClusteredRows(Tree);

/// The rows of a clustered table, one after the other.
pub(in crate::database) struct ClusteredScan(Box<Cursor>);

impl TableRows for ClusteredRows {
    const LABEL: &'static str = "clustered";
    const FILE_SUFFIX: &'static str = "tree";
    const HAS_ORDER: bool = true;
    const READ_AS: Option<ReadAs> = Some(ReadAs::Clustered);

    fn key_columns(kind: &TableKind) -> &[usize] {
        match kind {
            TableKind::Clustered { key } => key,
            _ => &[],
        }
    }

    fn check(definition: &TableDefinition) -> Result<(), StorageError> {
        definition.check_key(definition.key_columns())
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
        Ok((Rows::Clustered(Self(Tree::open(engine, definition.file)?)), None))
    }

    fn heap(&self) -> Result<&Arc<HeapReader>, &'static str> {
        Err("clustered: its rows are found by key")
    }

    #[inline]
    fn keyed(&self) -> Result<Tree, &'static str> {
        Ok(self.0)
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
        record: &[u8],
    ) -> Result<i64, StorageError> {
        keyed::insert(core, self.0, table, row, record)
    }

    fn scan(&self, _view: &EngineView, range: &RowRange<'_>, bounds: &KeyBounds) -> StoredScan {
        StoredScan::Clustered(ClusteredScan(range.cursor(self.0, as_bytes(bounds))))
    }

    fn check_rows(&self, check: &mut Check<'_>, table: &OpenTable) -> Result<(), StorageError> {
        let TableDefinition { name, file, .. } = &table.definition;
        let what = format!("table {name}");
        let rows = check.tree(&what, *file)?;
        check.report.row_count += rows.count;
        check_records(check, self.0, rows, &table.definition, &what)
    }

    fn stat(
        &self,
        tables: &Tables,
        pages: &EngineView,
        definition: &TableDefinition,
    ) -> Result<TableStat, StorageError> {
        tables.tree_stat(pages, definition.name.clone(), Self::LABEL, definition.file)
    }

    #[inline]
    fn encode_key(definition: &TableDefinition, row: &[ValueRef<'_>], bytes: &mut Vec<u8>) {
        for &column in definition.key_columns() {
            key::encode_key(definition.columns[column].column_type.stored(row[column]), bytes);
        }
    }
}

impl ClusteredScan {
    #[inline]
    pub(super) fn advance(&mut self, pages: &EngineView) -> Result<bool, StorageError> {
        Ok(self.0.next(pages)?.is_some())
    }

    #[inline]
    pub(super) fn record(&self) -> &[u8] {
        self.0.current().1
    }
}

/// Each row has values of its columns, and those of its key.
fn check_records(
    check: &mut Check<'_>,
    tree: Tree,
    rows: Counted,
    definition: &TableDefinition,
    what: &str,
) -> Result<(), StorageError> {
    let mut findings = Findings::of(what);
    let mut scan = tree.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward);
    let mut expected = Vec::new();
    // Leaves of a damaged tree may follow each other in a circle.
    for _ in 0..rows.count {
        let next = findings.unless_damaged(scan.next(check.pages), rows)?;
        let Some((key, value)) = next else { break };
        let record = match view_of(value) {
            Ok(record) => record,
            Err(error) => {
                findings.tell(&format!("the row with key {}: {error}", shown(key)));
                continue;
            }
        };
        let mut trouble = trouble_of(definition, record);
        if trouble.is_none() {
            expected.clear();
            for &column in definition.key_columns() {
                key::encode_key(record.get(column), &mut expected);
            }
            if expected != key {
                trouble = Some(format!("its columns say {}", shown(&expected)));
            }
        }
        if let Some(trouble) = trouble {
            findings.tell(&format!("the row with key {}: {trouble}", shown(key)));
        }
    }
    check.keep(findings);
    Ok(())
}
