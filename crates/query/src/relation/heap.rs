//! A heap table read past the buffer pool: its leaves in large requests, in the order of the rows.
//!
//! What lies in the pool only is written first; where pages have no fixed place (log-structured
//! propagation), blocks are gathered through the pool instead.
//!
//! 1. The relation is the table at its view's moment: pages that change meanwhile are put right after they
//!    are read.
//! 2. Every page is checked: its checksum, then every cell before it is handed on.

use super::block_reader::copy_pages;
use super::{BlockReader, Position, Relation, RelationSize, Span, TupleStream};
use crate::execution::Memory;
use crate::tuple::{Area, Tuple, TupleBatch};
use crate::work::Work;
use crate::{Execution, QueryError};
use nandu_storage::database::{ColumnType, EngineView, Tables};
use nandu_storage::page::page_is_sound;
use nandu_storage::sqlite::tree_page::TreePageKind;
use nandu_storage::sqlite::{TableTree, TreePage};
use nandu_storage::volume::Io;
use nandu_storage::{FileId, PageAddress, ReadPages, StorageError};
use std::ops::Range;
use std::sync::Arc;

/// Leaves that are looked at to estimate how many rows there are.
pub(crate) const SAMPLE_COUNT: usize = 16;

/// A table whose rows lie in a heap file.
#[derive(Debug)]
pub struct HeapRelation<'t> {
    name: String,
    engine: &'t EngineView,
    io: Io,
    tree: TableTree,
    runs: Arc<[Range<u32>]>,
    size: RelationSize,
    is_in_place: bool,
    types: Vec<ColumnType>,
}

/// A scan over such a table, page by page.
struct HeapStream<'x> {
    relation: &'x HeapRelation<'x>,
    execution: &'x Execution,
    reader: BlockReader<'x>,
    next_page: u32,
    /// Where to go on within the page before `next_page`.
    next_cell: usize,
    cells: Vec<u64>,
    long_row: Vec<u8>,
    page_count: u64,
}

impl<'t> HeapRelation<'t> {
    /// A table of an open database. Finds its leaves, and looks at some to estimate its rows.
    ///
    /// # Errors
    /// If there is no such heap table, or the device fails.
    pub fn open(tables: &'t Tables, table: &str) -> Result<Self, QueryError> {
        let tree = tables.heap_tree(table)?;
        let engine = tables.engine();
        let is_in_place = engine.settle(tree.file())? && tree.is_utf8();
        let (runs, size) = leaves_of(engine, &tree)?;
        let runs = runs.into();
        let (name, io) = (table.to_owned(), engine.data_io());
        let types = super::types_of(tables, &name)?;
        Ok(Self { name, engine, io, tree, runs, size, is_in_place, types })
    }

    /// The file of the table.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.tree.file()
    }
}

/// The leaves of a heap, and how large it is by some of them.
pub(crate) fn leaves_of(
    engine: &EngineView,
    tree: &TableTree,
) -> Result<(Vec<Range<u32>>, RelationSize), QueryError> {
    let runs = tree.leaf_runs(engine, u32::MAX)?;
    let page_count = runs.iter().map(|run| u64::from(run.end - run.start)).sum();
    let (tuple_count, cell_bytes) = sample(engine, tree, &runs, page_count)?;
    Ok((runs, RelationSize { page_count, tuple_count, cell_bytes }))
}

/// Rows and bytes of all cells, from some leaves.
fn sample(
    engine: &EngineView,
    tree: &TableTree,
    runs: &[Range<u32>],
    page_count: u64,
) -> Result<(u64, u64), QueryError> {
    let (mut rows, mut bytes, mut looked) = (0, 0, 0_u64);
    let count = SAMPLE_COUNT.min(nandu_base::to_index(page_count));
    for index in 0..count {
        let at = place_in(runs, index as u64 * page_count / count as u64);
        let page = runs[at.run as usize].start + at.page;
        let address = PageAddress::new(tree.file(), page);
        engine.read(address, |page| -> Result<(), StorageError> {
            let view = TreePage::new(page, tree.usable_bytes(), address)?;
            for cell in 0..view.cell_count() {
                bytes += view.leaf_cell(cell)?.payload_bytes + 4;
            }
            rows += view.cell_count() as u64;
            Ok(())
        })??;
        looked += 1;
    }
    if looked == 0 {
        return Ok((0, 0));
    }
    // An estimate from all leaves is exact.
    Ok((rows * page_count / looked, bytes * page_count / looked))
}

/// Where page `at` of the runs lies.
fn place_in(runs: &[Range<u32>], mut at: u64) -> Position {
    for (run, pages) in (0..).zip(runs) {
        let length = u64::from(pages.end - pages.start);
        if at < length {
            return Position { run, page: nandu_base::to_u32(at) };
        }
        at -= length;
    }
    unreachable!("the runs have all pages")
}

/// The runs up to a place in one of them.
fn runs_until(runs: &[Range<u32>], to: Position) -> Arc<[Range<u32>]> {
    let last = &runs[to.run as usize];
    let cut = last.start..last.start + to.page;
    runs[..to.run as usize].iter().cloned().chain([cut]).collect()
}

impl Relation for HeapRelation<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> RelationSize {
        self.size
    }

    fn column_types(&self) -> Option<&[ColumnType]> {
        Some(&self.types)
    }

    fn parts(&self, count: u32) -> Vec<Span> {
        Span::cut(self.size.page_count, count, |page| place_in(&self.runs, page))
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        execution.check_page_bytes(self.engine)?;
        let fetch: Option<super::Fetch<'x>> = match self.is_in_place {
            true => None,
            false => Some(Box::new(|pages, target| {
                execution.through_pool(self.engine, || {
                    copy_pages(self.engine, self.tree.file(), pages, target)
                })
            })),
        };
        let place = (&self.io, self.tree.file());
        let runs = match span.to {
            None => Arc::clone(&self.runs),
            Some(to) => runs_until(&self.runs, to),
        };
        let reader = BlockReader::new(execution, memory, place, runs, span.from, fetch)?;
        let reader = if self.is_in_place { reader.seen_by(self.engine) } else { reader };
        Ok(Box::new(HeapStream {
            relation: self,
            execution,
            reader,
            next_page: 0,
            next_cell: 0,
            cells: Vec::new(),
            long_row: Vec::new(),
            page_count: 0,
        }))
    }
}

impl HeapStream<'_> {
    /// Collects the cells of the page at hand from `next_cell` on, up to a row that passes its page.
    fn collect_cells(&mut self) -> Result<(), QueryError> {
        let Self { relation, reader, cells, long_row, next_cell, next_page, .. } = self;
        cells.clear();
        long_row.clear();
        let (number, page) = reader.page(*next_page - 1).expect("the page was begun");
        let address = PageAddress::new(relation.tree.file(), number);
        let view = TreePage::new(page, relation.tree.usable_bytes(), address)?;
        let base = page.as_ptr().addr();
        let cell_count = view.cell_count();
        while *next_cell < cell_count {
            let cell = view.leaf_cell(*next_cell)?;
            if cell.overflow_page != 0 {
                if cells.is_empty() {
                    let payload = relation.tree.read_whole(relation.engine, &cell)?;
                    Tuple { row_number: cell.rowid, record: &payload }.push_cell(long_row);
                    cells.push(0);
                    *next_cell += 1;
                }
                return Ok(());
            }
            let start = view.cell_start(*next_cell)?;
            debug_assert!(cell.local.as_ptr().addr() > base + start, "the row follows its head");
            cells.push(start as u64);
            *next_cell += 1;
        }
        Ok(())
    }

    /// Makes the next page the one at hand; false at the end.
    fn turn_page(&mut self) -> Result<bool, QueryError> {
        if self.next_page >= self.reader.page_count() {
            self.next_page = 0;
            if !self.reader.advance()? {
                return Ok(false);
            }
        }
        self.next_page += 1;
        self.next_cell = 0;
        self.page_count += 1;
        let relation = self.relation;
        let (number, page) = self.reader.page(self.next_page - 1).expect("the block has pages");
        let address = PageAddress::new(relation.tree.file(), number);
        if relation.is_in_place && !page_is_sound(page, address) {
            let file = relation.name.clone();
            return Err(StorageError::ChecksumMismatch { file, address }.into());
        }
        let view = TreePage::new(page, relation.tree.usable_bytes(), address)?;
        if view.kind() != TreePageKind::TableLeaf {
            let (place, what) = (address.to_string(), "it is no leaf of a table".to_owned());
            return Err(StorageError::Corrupt { place, what }.into());
        }
        Ok(true)
    }
}

impl TupleStream for HeapStream<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        loop {
            if self.next_page > 0 {
                self.collect_cells()?;
                if !self.cells.is_empty() {
                    break;
                }
            }
            if !self.turn_page()? {
                self.cells.clear();
                return Ok(false);
            }
        }
        self.execution.work(Work::Scan, self.cells.len() as u64);
        Ok(true)
    }

    fn batch(&self) -> TupleBatch<'_> {
        let piece = match self.cells.is_empty() || !self.long_row.is_empty() {
            true => self.long_row.as_slice(),
            false => self.reader.page(self.next_page - 1).expect("it is at hand").1,
        };
        TupleBatch { area: Area::Piece(piece), cells: &self.cells }
    }

    fn page_count(&self) -> u64 {
        self.page_count
    }

    fn position(&self) -> Option<Position> {
        if self.next_page < self.reader.page_count() {
            return None;
        }
        let at_end = match self.reader.page(self.next_page.checked_sub(1)?) {
            None => true,
            Some((number, page)) => {
                let address = PageAddress::new(self.relation.tree.file(), number);
                TreePage::new(page, self.relation.tree.usable_bytes(), address)
                    .is_ok_and(|view| self.next_cell >= view.cell_count())
            }
        };
        at_end.then(|| self.reader.end())
    }
}
