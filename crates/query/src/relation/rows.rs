//! Rows in memory: for tests, and for what is too small to be stored.

use super::{Position, Relation, RelationSize, Span, TupleStream};
use crate::execution::Memory;
use crate::tuple::{Area, Tuple, TupleBatch};
use crate::work::Work;
use crate::{Execution, QueryError};
use nandu_storage::database::ColumnType;
use nandu_storage::sqlite::{Value, ValueRef, encode_record};
use std::ops::Range;

/// Rows that somebody keeps in memory; it is not counted.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    name: String,
    bytes: Vec<u8>,
    cells: Vec<u64>,
    page_bytes: usize,
    types: Option<Vec<ColumnType>>,
}

struct RowStream<'x> {
    rows: &'x Rows,
    execution: &'x Execution,
    block_bytes: usize,
    first: usize,
    end: usize,
    next: Range<usize>,
    _memory: Memory<'x>,
}

impl Rows {
    /// No rows yet. A scan gives them in pages of `page_bytes`.
    #[must_use]
    pub fn new(name: &str, page_bytes: usize) -> Self {
        Self { name: name.to_owned(), page_bytes, ..Self::default() }
    }

    /// The same rows, whose columns have these types, or NULL.
    #[must_use]
    pub fn with_types(self, types: Vec<ColumnType>) -> Self {
        Self { types: Some(types), ..self }
    }

    /// Appends a row; its number is its place, counted from 1.
    pub fn push(&mut self, values: &[Value]) {
        let mut record = Vec::new();
        let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        encode_record(values.iter().copied(), &mut record);
        self.push_record(&record);
    }

    /// Appends a row that is a record already.
    pub fn push_record(&mut self, record: &[u8]) {
        self.cells.push(self.bytes.len() as u64);
        let row_number = self.cells.len().cast_signed() as i64;
        Tuple { row_number, record }.push_cell(&mut self.bytes);
    }

    /// The rows, in the order in which they were added.
    pub fn tuples(&self) -> impl Iterator<Item = Tuple<'_>> {
        let batch = TupleBatch { area: Area::Piece(&self.bytes), cells: &self.cells };
        batch.tuples()
    }
}

impl Relation for Rows {
    fn column_types(&self) -> Option<&[ColumnType]> {
        self.types.as_deref()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> RelationSize {
        RelationSize {
            page_count: self.bytes.len().div_ceil(self.page_bytes) as u64,
            tuple_count: self.cells.len() as u64,
            cell_bytes: self.bytes.len() as u64,
        }
    }

    fn parts(&self, count: u32) -> Vec<Span> {
        let place_of = |row| Position { run: 0, page: nandu_base::to_u32(row) };
        Span::cut(self.cells.len() as u64, count, place_of)
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        let block_bytes = memory.bytes().max(1);
        let first = span.from.page as usize;
        let end = span.to.map_or(self.cells.len(), |to| to.page as usize);
        let next = first..first;
        let rows = self;
        Ok(Box::new(RowStream { rows, execution, block_bytes, first, end, next, _memory: memory }))
    }
}

impl TupleStream for RowStream<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.execution.check_stop()?;
        let Rows { cells, page_bytes, .. } = self.rows;
        let start = self.next.end;
        let limit = self.block_bytes.min(*page_bytes) as u64;
        let rest = &cells[start..self.end];
        let count = rest.iter().take_while(|&&cell| cell < rest[0] + limit).count();
        self.next = start..start + count;
        self.execution.work(Work::Scan, count as u64);
        Ok(count > 0)
    }

    fn batch(&self) -> TupleBatch<'_> {
        let Rows { bytes, cells, .. } = self.rows;
        TupleBatch { area: Area::Piece(bytes), cells: &cells[self.next.clone()] }
    }

    fn page_count(&self) -> u64 {
        let Rows { bytes, cells, page_bytes, .. } = self.rows;
        let offset = |row: usize| cells.get(row).map_or(bytes.len() as u64, |&cell| cell);
        (offset(self.next.end) - offset(self.first)).div_ceil(*page_bytes as u64)
    }

    fn position(&self) -> Option<Position> {
        Some(Position { run: 0, page: nandu_base::to_u32(self.next.end as u64) })
    }
}
