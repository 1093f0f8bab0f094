//! Tables at work: what of them is kept in memory while a database is open, for all who read and write.
//!
//! 1. What lies here holds at any moment of a view: roots of trees and definitions. What grows, the number
//!    of pages of a heap, is never less than any view needs.

use super::schema::{IndexDefinition, TableDefinition, TableKind};
use super::view::EngineView;
use crate::btree::Tree;
use crate::pax::PaxTable;
use crate::sqlite::{FillFactor, HeapTable, TableTree};
use crate::{Engine, FileId, ReadPages, StorageError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// All tables, by their keys in the catalogue.
pub(super) type OpenTables = BTreeMap<Vec<u8>, Arc<OpenTable>>;

/// A table at work.
#[derive(Debug)]
pub(super) struct OpenTable {
    pub(super) definition: TableDefinition,
    pub(super) rows: Rows,
}

/// Where its rows lie.
#[derive(Debug)]
pub(super) enum Rows {
    Heap(Arc<HeapReader>),
    Clustered(Tree),
    Pax(PaxTable),
}

/// A heap as readers need it.
#[derive(Debug)]
pub(super) struct HeapReader {
    tree: TableTree,
    /// The most pages that its file had; more than a view sees do no harm.
    page_count: AtomicU32,
    /// The highest number that was given to a row since the table was opened.
    highest: AtomicI64,
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
    pub(super) fn note(&self, heap: &HeapTable) {
        self.page_count.fetch_max(heap.tree().page_count(), Ordering::AcqRel);
    }

    pub(super) fn highest(&self) -> i64 {
        self.highest.load(Ordering::Acquire)
    }

    pub(super) fn note_highest(&self, number: i64) {
        self.highest.fetch_max(number, Ordering::AcqRel);
    }

    pub(super) fn page_count(&self) -> u32 {
        self.page_count.load(Ordering::Acquire)
    }

    pub(super) fn tree(&self) -> TableTree {
        self.tree.with_page_count(self.page_count())
    }

    /// The heap in a view that is there already, whose copies may have pages that the file has not.
    pub(super) fn tree_in(&self, view: &EngineView) -> TableTree {
        self.tree.with_page_count(self.page_count().saturating_add(view.copy_count()))
    }
}

impl OpenTable {
    /// Opens a table; a heap comes apart, since only who changes it needs all of it. `reader` is the one that
    /// others have of that heap, if there is one.
    pub(super) fn open(
        engine: &Engine,
        definition: TableDefinition,
        reader: Option<Arc<HeapReader>>,
    ) -> Result<(Self, Option<HeapTable>), StorageError> {
        let file = definition.file;
        let mut heap = None;
        let rows = match definition.kind {
            TableKind::Clustered { .. } => Rows::Clustered(Tree::open(engine, file)?),
            TableKind::Heap => {
                let opened = heap.insert(open_heap(engine, &definition.name, file)?);
                let reader = reader.unwrap_or_else(|| Arc::new(HeapReader::of(opened)));
                reader.note(opened);
                Rows::Heap(reader)
            }
            TableKind::Pax { .. } => {
                let types = definition.column_types();
                Rows::Pax(PaxTable::open(engine, file, pages_there(engine, file), types)?)
            }
        };
        Ok((Self { definition, rows }, heap))
    }

    pub(super) fn heap(&self) -> Result<&HeapReader, StorageError> {
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

    pub(super) fn wrong_kind(&self, what: &str) -> StorageError {
        StorageError::InvalidSetting { what: format!("table {} is {what}", self.definition.name) }
    }
}

/// A heap with all that is known of it.
pub(super) fn open_heap<P: ReadPages>(
    pages: &P,
    name: &str,
    file: FileId,
) -> Result<HeapTable, StorageError> {
    let place = format!("table {name} of file {}", file.0);
    HeapTable::open(pages, file, u64::MAX, FillFactor::default(), &place)
}

/// Pages that a file has on the device; `None` where pages lie elsewhere.
pub(super) fn pages_there(engine: &Engine, file: FileId) -> Option<u64> {
    let page_bytes = u64::from(engine.settings().page_bytes);
    let places_by_address = engine.settings().propagation.places_by_address();
    places_by_address.then(|| engine.data_io().byte_count(file) / page_bytes)
}
