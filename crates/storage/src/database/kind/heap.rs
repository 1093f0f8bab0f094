//! Heaps: rows in the order of arrival, found by their numbers, in a file that `sqlite3` opens. Their indexes
//! are trees of values and the row's number.
//!
//! ```text
//!   insert: heap.append ─► each index: entry in          update: entries whose values changed move
//!   delete: each index: entry out ─► heap.delete         each step an action with its own undo
//! ```
//!
//! 1. Who reads has a [`HeapReader`], which whoever changes the heap tells how far it has grown; all of what
//!    is known of the heap lies in [`Core::heaps`].

use super::{ReadAs, RowLoad, Rows, StoredScan, TableRows};
use crate::btree::Tree;
use crate::database::change::{entries_of, logged};
use crate::database::check::{Check, Counted, Findings, trouble_of};
use crate::database::copies::{RecordCopy, RowCopies, copied};
use crate::database::core::Core;
use crate::database::key_values::KeyBounds;
use crate::database::load::{LoadOptions, NewRow};
use crate::database::locks::key_of_number;
use crate::database::open_table::OpenTable;
use crate::database::row_scan::RowRange;
use crate::database::schema::TableDefinition;
use crate::database::step::Step;
use crate::database::tables::{TableStat, Tables, entry_key};
use crate::database::turns::Turns;
use crate::database::view::EngineView;
use crate::engine::{StructureKind, UnloggedPages};
use crate::sqlite::{
    self, BulkLoad, FillFactor, HeapTable, RecordView, TableSchema, TableTree, ValueRef,
};
use crate::{Engine, FileId, ReadPages, StorageError};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// The rows of an open heap.
#[derive(Debug)]
pub(in crate::database) struct HeapRows(Arc<HeapReader>);

/// A heap as readers need it.
#[derive(Debug)]
pub(in crate::database) struct HeapReader {
    tree: TableTree,
    /// The most pages that its file had; more than a view sees do no harm.
    page_count: AtomicU32,
    /// The highest number that was given to a row since the table was opened.
    highest: AtomicI64,
}

/// A heap that is being filled.
pub(in crate::database) struct HeapLoad<'l>(BulkLoad<'l>);

/// The rows of a heap, one after the other.
pub(in crate::database) struct HeapScan {
    scan: sqlite::Scan,
    rows: RowCopies,
}

impl TableRows for HeapRows {
    const LABEL: &'static str = "heap";
    const FILE_SUFFIX: &'static str = "sqlite";
    const TAKES_INDEXES: bool = true;
    const READ_AS: Option<ReadAs> = Some(ReadAs::Heap);

    fn check(_definition: &TableDefinition) -> Result<(), StorageError> {
        Ok(())
    }

    fn create(engine: &mut Engine, definition: &TableDefinition) -> Result<(), StorageError> {
        let file = definition.file;
        let schema = TableSchema::parse(&definition.to_sql())?;
        let (fill, place) = (FillFactor::default(), format!("table {}", definition.name));
        engine.act(|pages| HeapTable::create(pages, file, schema, fill, &place).map(|_| ()))
    }

    fn begin_load<'l>(
        pages: &mut UnloggedPages<'_>,
        definition: &TableDefinition,
        options: &LoadOptions,
        heap: &'l mut Option<HeapTable>,
    ) -> Result<RowLoad<'l>, StorageError> {
        let schema = TableSchema::parse(&definition.to_sql())?;
        let place = format!("table {}", definition.name);
        let made = HeapTable::create(pages, definition.file, schema, options.fill, &place)?;
        Ok(RowLoad::Heap(HeapLoad(heap.insert(made).bulk_load(pages)?)))
    }

    fn open(
        engine: &Engine,
        definition: &TableDefinition,
        known: Option<&Rows>,
    ) -> Result<(Rows, Option<HeapTable>), StorageError> {
        let heap = open_heap(engine, &definition.name, definition.file)?;
        let reader = match known.map(Rows::heap) {
            Some(Ok(reader)) => Arc::clone(reader),
            _ => Arc::new(HeapReader::of(&heap)),
        };
        reader.note(&heap);
        Ok((Rows::Heap(Self(reader)), Some(heap)))
    }

    fn heap(&self) -> Result<&Arc<HeapReader>, &'static str> {
        Ok(&self.0)
    }

    fn keyed(&self) -> Result<Tree, &'static str> {
        Err("a heap: its rows are found by number")
    }

    fn page_count(&self, _engine: &Engine) -> Result<Option<u32>, StorageError> {
        Ok(Some(self.0.page_count()))
    }

    fn get<R>(
        &self,
        tables: &Tables,
        table: &OpenTable,
        row_number: i64,
        look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>, StorageError> {
        tables.lock_number(table, row_number)?;
        let mut copy = RecordCopy::take();
        let pages = tables.statement()?;
        let tree = self.0.tree_in(&pages);
        let found = match pages.hold(table.definition.file) {
            Some(held) => tree.get(&held, row_number, |record| copy.set(record.bytes())),
            None => tree.get(&*pages, row_number, |record| copy.set(record.bytes())),
        };
        let found = found.map_err(tables.named())?;
        Ok(found.map(|()| look(copied(copy.bytes()))))
    }

    fn insert(
        &self,
        core: &mut Core,
        table: &OpenTable,
        _row: &[ValueRef<'_>],
        record: &[u8],
    ) -> Result<i64, StorageError> {
        let Self(reader) = self;
        let TableDefinition { file, name, .. } = &table.definition;
        let file = *file;
        // About the number that it gets: its neighbours' leaf is the same, mostly.
        let about = reader.highest().saturating_add(1);
        core.look_at_entries(entries_of(table, record, about))?;
        let Core { engine, heaps, changed_heap, .. } = core;
        *changed_heap = Some(file);
        let heap = heaps.get_mut(&file).expect("an open heap table has its heap");
        // A number whose row went is used again only if nobody may still see that row.
        let floor = if engine.has_company() { reader.highest() } else { 0 };
        let number = engine.act(|pages| {
            logged(pages, StructureKind::Heap, file, |pages, undo| {
                heap.append_after(pages, floor, record, undo)
            })
        })?;
        reader.note(heap);
        reader.note_highest(number);
        // Another transaction may have taken the row away that had this number, and not ended.
        core.lock(file, &key_of_number(number), || format!("row {number} of table {name}"))?;
        core.note(|| Step::InsertNumber(file, number, record.to_vec()));
        for (index, entry) in entries_of(table, record, number) {
            core.insert_entry(table, index.file, &entry)?;
        }
        Ok(number)
    }

    fn scan(&self, view: &EngineView, _range: &RowRange<'_>, _bounds: &KeyBounds) -> StoredScan {
        let scan = self.0.tree_in(view).scan(i64::MIN..=i64::MAX);
        StoredScan::Heap(HeapScan { scan, rows: RowCopies::default() })
    }

    fn check_rows(&self, check: &mut Check<'_>, table: &OpenTable) -> Result<(), StorageError> {
        let TableDefinition { name, file, indexes, .. } = &table.definition;
        let what = format!("table {name}");
        let heap = match open_heap(check.pages, name, *file) {
            Ok(heap) => heap,
            Err(error) if error.is_damage() => {
                let mut findings = Findings::of(&what);
                findings.tell(&error.to_string());
                check.keep(findings);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let rows = check_heap(check, &heap, &table.definition, &what)?;
        indexes.iter().try_for_each(|index| check.index(&heap, rows, name, index))
    }

    fn stat(
        &self,
        tables: &Tables,
        pages: &EngineView,
        definition: &TableDefinition,
    ) -> Result<TableStat, StorageError> {
        let TableDefinition { name, file, .. } = definition;
        let stat_of = || {
            let heap = open_heap(pages, name, *file)?;
            let level_count = heap.tree().interior_level_count(pages)? as u64 + 1;
            Ok(TableStat {
                name: name.clone(),
                kind: Self::LABEL,
                row_count: heap.check(pages)?.row_count,
                page_count: u64::from(heap.page_counts().0),
                level_count: nandu_base::to_u32(level_count),
                file_bytes: tables.view.file_bytes(*file),
            })
        };
        stat_of().map_err(tables.named())
    }
}

impl HeapReader {
    fn of(heap: &HeapTable) -> Self {
        Self {
            tree: *heap.tree(),
            page_count: AtomicU32::new(heap.tree().page_count()),
            highest: AtomicI64::new(0),
        }
    }

    /// The heap has grown.
    pub(in crate::database) fn note(&self, heap: &HeapTable) {
        self.page_count.fetch_max(heap.tree().page_count(), Ordering::AcqRel);
    }

    fn highest(&self) -> i64 {
        self.highest.load(Ordering::Acquire)
    }

    fn note_highest(&self, number: i64) {
        self.highest.fetch_max(number, Ordering::AcqRel);
    }

    fn page_count(&self) -> u32 {
        self.page_count.load(Ordering::Acquire)
    }

    pub(in crate::database) fn tree(&self) -> TableTree {
        self.tree.with_page_count(self.page_count())
    }

    /// The heap in a view that is there already, whose copies may have pages that the file has not.
    pub(in crate::database) fn tree_in(&self, view: &EngineView) -> TableTree {
        self.tree
            .with_page_count(self.page_count().saturating_add(view.copy_count(self.tree.file())))
    }

    /// Replaces a row, which is locked.
    pub(in crate::database) fn update(
        &self,
        core: &mut Core,
        table: &OpenTable,
        number: i64,
        record: &[u8],
        old: Vec<Vec<u8>>,
    ) -> Result<(), StorageError> {
        let TableDefinition { file, indexes, .. } = &table.definition;
        let file = *file;
        let new = entries_of(table, record, number);
        let changed = new.zip(&old).filter(|((_, new), old)| new != *old);
        core.look_at_entries(
            changed.flat_map(|((index, new), old)| [(index, old.clone()), (index, new)]),
        )?;
        let Core { engine, heaps, changed_heap, .. } = core;
        *changed_heap = Some(file);
        let heap = heaps.get_mut(&file).expect("an open heap table has its heap");
        engine.act(|pages| {
            logged(pages, StructureKind::Heap, file, |pages, undo| {
                heap.update(pages, number, record, undo)
            })
        })?;
        self.note(heap);
        core.note(|| Step::UpdateNumber(file, number, record.to_vec()));
        for (index, old) in indexes.iter().zip(old) {
            let record = RecordView::new(record).expect("it was just encoded");
            let new = entry_key(index, record, number);
            if new != old {
                core.delete_entry(table, index.file, &old)?;
                core.insert_entry(table, index.file, &new)?;
            }
        }
        Ok(())
    }

    /// Removes a row, which is locked.
    pub(in crate::database) fn delete(
        &self,
        core: &mut Core,
        table: &OpenTable,
        number: i64,
        old: Vec<Vec<u8>>,
    ) -> Result<(), StorageError> {
        let TableDefinition { file, indexes, .. } = &table.definition;
        let file = *file;
        core.look_at_entries(indexes.iter().zip(old.iter().cloned()))?;
        for (index, old) in indexes.iter().zip(old) {
            core.delete_entry(table, index.file, &old)?;
        }
        let Core { engine, heaps, changed_heap, .. } = core;
        *changed_heap = Some(file);
        let heap = heaps.get_mut(&file).expect("an open heap table has its heap");
        engine.act(|pages| {
            logged(pages, StructureKind::Heap, file, |pages, undo| heap.delete(pages, number, undo))
        })?;
        self.note(heap);
        core.note(|| Step::DeleteNumber(file, number));
        Ok(())
    }
}

impl HeapLoad<'_> {
    pub(super) fn push(
        &mut self,
        turns: &mut Turns<'_>,
        definition: &TableDefinition,
        row: &NewRow<'_>,
    ) -> Result<i64, StorageError> {
        let Self(bulk) = self;
        turns.step(|core| {
            let pages = &mut core.engine.unlogged_pages(definition.file)?;
            match row.number {
                Some(number) => bulk.push_at(pages, number, row.value).map(|()| number),
                None => bulk.push(pages, row.value),
            }
        })
    }

    pub(super) fn finish(
        self,
        turns: &mut Turns<'_>,
        definition: &TableDefinition,
    ) -> Result<(), StorageError> {
        let file = definition.file;
        turns.step(|core| {
            self.0.finish(&mut core.engine.unlogged_pages(file)?)?;
            core.engine.make_unlogged_durable(file)
        })
    }
}

impl HeapScan {
    pub(super) fn advance(
        &mut self,
        pages: &EngineView,
        row_number: &mut i64,
    ) -> Result<bool, StorageError> {
        let Self { scan, rows } = self;
        while !rows.show_next(row_number) {
            rows.clear();
            if !scan.next_leaf(pages, |number, record| rows.add(number, record.bytes()))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn record(&self) -> &[u8] {
        self.rows.shown()
    }
}

/// A heap with all that is known of it.
pub(in crate::database) fn open_heap<P: ReadPages>(
    pages: &P,
    name: &str,
    file: FileId,
) -> Result<HeapTable, StorageError> {
    let place = format!("table {name} of file {}", file.0);
    HeapTable::open(pages, file, u64::MAX, FillFactor::default(), &place)
}

/// The pages and rows of a heap.
fn check_heap(
    check: &mut Check<'_>,
    heap: &HeapTable,
    definition: &TableDefinition,
    what: &str,
) -> Result<Counted, StorageError> {
    let mut findings = Findings::of(what);
    let (stat, errors) = heap.examine(check.pages, |number, record| {
        if let Some(trouble) = trouble_of(definition, record) {
            findings.tell(&format!("row {number}: {trouble}"));
        }
    });
    let is_whole = errors.is_empty();
    for error in errors {
        if !error.is_damage() {
            return Err(error);
        }
        findings.tell(&error.to_string());
    }
    check.keep(findings);
    check.report.file_count += 1;
    check.report.page_count += u64::from(heap.page_counts().0);
    check.report.row_count += stat.row_count;
    Ok(Counted { count: stat.row_count, is_whole })
}
