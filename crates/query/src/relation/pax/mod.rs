//! A table in PAX pages: scanned by the columns that somebody wants, or fetched by row number, one PAX page
//! after the other, with all of its minipages that are wanted on their way at once.
//!
//! ```text
//!   PaxRelation ─┬─ whole: columns asked for and key     Relation, for any join
//!                ├─ keys:  key                           scanned by joins that fetch late
//!                └─ rows:  columns asked for             fetched by them
//! ```
//!
//! 1. Rows have all their columns up to the last that is wanted; the others are NULL.
//! 2. The table does not change while the relation lives.
//! 3. Every page is checked: its checksum, then every value before it is handed on.

mod columns;
mod fetch;
mod reader;
#[cfg(test)]
mod tests;

pub(crate) use fetch::PaxFetch;
pub(crate) use reader::slot_count;

use super::{
    Late, LateStats, PageOrder, Position, Relation, RelationSize, RelationStats, Span, TupleStream,
};
use crate::columns::ColumnStream;
use crate::execution::Memory;
use crate::key::KeyColumn;
use crate::tuple::{Area, Tuple, TupleBatch};
use crate::work::Work;
use crate::{Execution, Key, QueryError};
use nandu_base::to_u32;
use nandu_base::words::counted;
use nandu_storage::database::ColumnType;
use nandu_storage::database::EngineView;
use nandu_storage::database::Tables;
use nandu_storage::pax::{MinipageView, PaxTable};
use nandu_storage::sqlite::varint::varint_bytes;
use nandu_storage::sqlite::{ValueRef, encode_record};
use nandu_storage::volume::Io;
use reader::PaxReader;
use std::ops::Range;

/// A table in PAX pages, as one query sees it.
#[derive(Debug)]
pub struct PaxRelation<'t> {
    whole: PaxView<'t>,
    keys: PaxView<'t>,
    rows: PaxView<'t>,
}

/// Some of its columns.
#[derive(Debug)]
pub struct PaxView<'t> {
    name: String,
    engine: &'t EngineView,
    io: Io,
    table: &'t PaxTable,
    is_in_place: bool,
    /// The columns that are read, rising.
    columns: Vec<usize>,
    /// Those of `columns` that lie side by side, by place.
    runs: Vec<Range<usize>>,
    /// Pages of the longest of each run.
    run_pages: Vec<u32>,
    size: RelationSize,
}

/// A scan over a table in PAX pages.
struct PaxStream<'x> {
    view: &'x PaxView<'x>,
    execution: &'x Execution,
    reader: PaxReader<'x>,
    next_pax_page: usize,
    /// The PAX page behind the last one that is read.
    end: usize,
    /// The row of the PAX page at hand that comes next.
    place: usize,
    rows: RowMaker,
    copies: Vec<u8>,
    cells: Vec<u64>,
    page_count: u64,
    _copies_memory: Memory<'x>,
}

/// Makes records of values.
#[derive(Debug, Default)]
pub(super) struct RowMaker {
    record: Vec<u8>,
    values: Vec<ValueRef<'static>>,
}

impl<'t> PaxRelation<'t> {
    /// A table of an open database, to be joined by `key`, of which `columns` are wanted; all of them if
    /// `None`. Joins that scan all rows hand on the columns of the key besides, those that fetch late do not.
    ///
    /// # Errors
    /// If there is no such table in PAX pages, it has no such column, or the device fails.
    pub fn open(
        tables: &'t Tables,
        table: &str,
        key: &Key,
        columns: Option<&[usize]>,
    ) -> Result<Self, QueryError> {
        let count = tables.pax_table(table)?.column_types().len();
        let stored = key.columns().iter().filter_map(|column| match column {
            KeyColumn::Stored(index) => Some(*index),
            KeyColumn::RowNumber => None,
        });
        let keys: Vec<usize> = stored.collect();
        let rows = columns.map_or_else(|| (0..count).collect(), <[usize]>::to_vec);
        let whole = [keys.as_slice(), &rows].concat();
        let open = |columns: Vec<usize>| PaxView::open(tables, table, columns);
        Ok(Self { whole: open(whole)?, keys: open(keys)?, rows: open(rows)? })
    }
}

impl<'t> PaxView<'t> {
    fn open(tables: &'t Tables, name: &str, mut columns: Vec<usize>) -> Result<Self, QueryError> {
        let (engine, table) = (tables.engine(), tables.pax_table(name)?);
        columns.sort_unstable();
        columns.dedup();
        let count = table.column_types().len();
        if let Some(column) = columns.iter().find(|&&column| column >= count) {
            let what = format!(
                "table {name} has {} and no column {column}",
                counted(count as u64, "column")
            );
            return Err(QueryError::Invalid { what });
        }
        let is_in_place = engine.settle(table.file())?;
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (place, &column) in columns.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if columns[run.end - 1] + 1 == column => run.end = place + 1,
                _ => runs.push(place..place + 1),
            }
        }
        let (name, io) = (name.to_owned(), engine.data_io());
        let mut view = Self {
            name,
            engine,
            io,
            table,
            is_in_place,
            columns,
            runs,
            run_pages: Vec::new(),
            size: RelationSize::default(),
        };
        let longest = |run: &Range<usize>| {
            let pages = (0..table.pax_pages().len()).map(|at| view.pages_of(at, run).len());
            to_u32(pages.max().unwrap_or(0) as u64)
        };
        view.run_pages = view.runs.iter().map(longest).collect();
        view.size = view.measured();
        Ok(view)
    }

    /// The pages of a PAX page that hold a run of columns.
    fn pages_of(&self, pax_page: usize, run: &Range<usize>) -> Range<u32> {
        let first = self.table.minipage(pax_page, self.columns[run.start]);
        let last = self.table.minipage(pax_page, self.columns[run.end - 1]);
        first.first_page..last.first_page + last.page_count
    }

    /// Pages of memory for what is wanted of one PAX page.
    pub(crate) fn slot_pages(&self) -> u32 {
        self.run_pages.iter().sum()
    }

    /// Bytes of a row in memory, on average, rounded up.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.size.cell_bytes.div_ceil(self.size.tuple_count.max(1))
    }

    /// PAX pages, the runs of pages that are read of each, and pages of all of them.
    pub(crate) fn shape(&self) -> (u64, u64, u64) {
        (self.table.pax_pages().len() as u64, self.runs.len() as u64, self.size.page_count)
    }

    fn measured(&self) -> RelationSize {
        let tuple_count = self.table.row_count();
        let pages_of = |at| self.runs.iter().map(move |run| self.pages_of(at, run).len() as u64);
        let page_count = (0..self.table.pax_pages().len()).flat_map(pages_of).sum();
        let values: u64 = self.columns.iter().map(|&column| self.table.value_bytes(column)).sum();
        let skipped = self.columns.last().map_or(0, |last| last + 1 - self.columns.len());
        // A head of one byte, one for each column that is NULL, and what a cell puts in front.
        let record_bytes = values + tuple_count * (1 + skipped as u64);
        let heads = varint_bytes(record_bytes / tuple_count.max(1)) + varint_bytes(tuple_count);
        let heads = heads as u64;
        RelationSize { page_count, tuple_count, cell_bytes: record_bytes + tuple_count * heads }
    }

    /// What the planner knows of a scan.
    pub(crate) fn stats_of(&self, page_bytes: u64) -> RelationStats {
        let (pax_pages, runs, pages) = self.shape();
        let is_whole = self.columns.len() == self.table.column_types().len();
        let order = PageOrder::Apart {
            request_count: pax_pages * runs,
            run_count: runs,
            slot_pages: self.slot_pages(),
            column_count: to_u32(self.columns.len() as u64),
            is_whole,
        };
        let order = if pages == 0 { PageOrder::Contiguous } else { order };
        RelationStats { order, ..RelationStats::of(self.size, page_bytes) }
    }

    /// What the planner knows of fetches from it, beside a scan of `keys`.
    pub(super) fn late_stats(&self, keys: RelationStats) -> LateStats {
        let (pax_page_count, run_count, page_count) = self.shape();
        LateStats {
            keys,
            pax_page_count,
            run_count,
            page_count,
            slot_pages: u64::from(self.slot_pages()),
            column_count: self.columns.len() as u64,
            row_count: self.size.tuple_count,
            cell_bytes: self.size.cell_bytes,
        }
    }

    /// Puts the values of a row together.
    fn make_row<'m>(
        &self,
        views: &[MinipageView<'_>],
        (pax_page, place): (usize, usize),
        maker: &'m mut RowMaker,
    ) -> Result<Tuple<'m>, QueryError> {
        // The vector keeps its memory from row to row, but nothing that is lent.
        let mut values: Vec<ValueRef<'_>> = std::mem::take(&mut maker.values);
        for (view, &column) in views.iter().zip(&self.columns) {
            values.resize(column, ValueRef::Null);
            let value = view.value(place);
            values.push(value.map_err(|what| self.table.damaged(pax_page, column, what))?);
        }
        maker.record.clear();
        encode_record(values.iter().copied(), &mut maker.record);
        values.clear();
        maker.values = values.into_iter().map(|_| ValueRef::Null).collect();
        let row_number =
            self.table.pax_pages()[pax_page].first_row.cast_signed() + place as i64 + 1;
        Ok(Tuple { row_number, record: &maker.record })
    }
}

impl Relation for PaxView<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> RelationSize {
        self.size
    }

    fn stats(&self, page_bytes: u64) -> RelationStats {
        self.stats_of(page_bytes)
    }

    fn scan_pages_min(&self) -> u32 {
        self.slot_pages() + 1
    }

    fn parts(&self, count: u32) -> Vec<Span> {
        let place_of = |pax_page| Position { run: to_u32(pax_page), page: 0 };
        Span::cut(self.table.pax_pages().len() as u64, count, place_of)
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        mut memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        execution.check_page_bytes(self.engine)?;
        self.check_memory(&memory, self.scan_pages_min())?;
        let copies_memory = memory.split_off(1);
        Ok(Box::new(PaxStream {
            view: self,
            execution,
            reader: PaxReader::new(execution, self, memory),
            next_pax_page: span.from.run as usize,
            end: span.to.map_or(self.table.pax_pages().len(), |to| to.run as usize),
            place: 0,
            rows: RowMaker::default(),
            copies: Vec::with_capacity(execution.page_bytes()),
            cells: Vec::new(),
            page_count: 0,
            _copies_memory: copies_memory,
        }))
    }
}

impl<'t> PaxView<'t> {
    /// # Errors
    /// If there is less memory than so many pages.
    fn check_memory(&self, memory: &Memory<'_>, needed_pages: u32) -> Result<(), QueryError> {
        if memory.pages() >= needed_pages {
            return Ok(());
        }
        Err(QueryError::TooLittleMemory {
            operator: format!("a scan of {}, which is in PAX pages,", self.name),
            needed_pages: u64::from(needed_pages),
            granted_pages: u64::from(memory.pages()),
        })
    }

    /// A scan by columns, for which a page more is not needed: no row is made.
    fn scan_columns<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
        columns: &[KeyColumn],
    ) -> Result<Box<dyn ColumnStream + 'x>, QueryError> {
        execution.check_page_bytes(self.engine)?;
        self.check_memory(&memory, self.slot_pages())?;
        Ok(Box::new(columns::PaxColumns::new(self, execution, memory, span, columns)?))
    }
}

impl PaxStream<'_> {
    /// Puts rows of the PAX page at hand into the batch, up to a page of them.
    fn copy_rows(&mut self) -> Result<(), QueryError> {
        let Self { view, reader, place, rows, copies, cells, execution, .. } = self;
        let Some(pax_page) = reader.pax_page() else { return Ok(()) };
        let row_count = view.table.pax_pages()[pax_page].row_count as usize;
        let views = reader.views()?;
        while *place < row_count {
            let tuple = view.make_row(&views, (pax_page, *place), rows)?;
            if !copies.is_empty() && copies.len() + tuple.cell_bytes() > execution.page_bytes() {
                break;
            }
            cells.push(copies.len() as u64);
            tuple.push_cell(copies);
            *place += 1;
        }
        Ok(())
    }
}

impl TupleStream for PaxStream<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.cells.clear();
        self.copies.clear();
        // A row that was longer than the page does not stay in memory.
        self.copies.shrink_to(self.execution.page_bytes());
        loop {
            self.copy_rows()?;
            if !self.cells.is_empty() {
                let rows = self.cells.len() as u64;
                self.execution.work(Work::Scan, rows);
                self.execution.work(Work::Assemble, rows * self.view.columns.len() as u64);
                return Ok(true);
            }
            if !self.reader.turn(&mut self.next_pax_page, self.end)? {
                return Ok(false);
            }
            self.place = 0;
            let pax_page = self.reader.pax_page().expect("it is at hand");
            let runs = self.view.runs.iter();
            self.page_count +=
                runs.map(|run| self.view.pages_of(pax_page, run).len() as u64).sum::<u64>();
        }
    }

    fn batch(&self) -> TupleBatch<'_> {
        TupleBatch { area: Area::Piece(&self.copies), cells: &self.cells }
    }

    fn page_count(&self) -> u64 {
        self.page_count
    }

    fn position(&self) -> Option<Position> {
        let pax_page = self.reader.pax_page()?;
        let is_done = self.place == self.view.table.pax_pages()[pax_page].row_count as usize;
        is_done.then(|| Position { run: to_u32(pax_page as u64) + 1, page: 0 })
    }
}

impl Relation for PaxRelation<'_> {
    fn name(&self) -> &str {
        &self.whole.name
    }

    fn size(&self) -> RelationSize {
        self.whole.size
    }

    fn stats(&self, page_bytes: u64) -> RelationStats {
        self.whole.stats_of(page_bytes)
    }

    fn scan_pages_min(&self) -> u32 {
        self.whole.scan_pages_min()
    }

    fn late(&self) -> Option<Late<'_>> {
        Some(Late { keys: &self.keys, rows: &self.rows })
    }

    fn parts(&self, count: u32) -> Vec<Span> {
        self.whole.parts(count)
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        self.whole.scan(execution, memory, span)
    }

    fn column_types(&self) -> Option<&[ColumnType]> {
        Some(self.whole.table.column_types())
    }

    fn scan_columns<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
        columns: &[KeyColumn],
    ) -> Result<Box<dyn ColumnStream + 'x>, QueryError> {
        self.whole.scan_columns(execution, memory, span, columns)
    }
}
