//! Part of a table by an index: the rows themselves, fetched in the order of their keys or, a
//! buffer at a time, of their addresses; or only what the entries hold.
//!
//! 1. The table does not change while the relation lives: a read transaction protects it.
//! 2. One page of the memory holds the leaf at hand, the rest holds rows.

use super::{Position, Relation, RelationSize, Span, TupleStream};
use crate::execution::Memory;
use crate::index::{FetchOrder, IndexLookup, KeyRange, RowBuffer, as_bytes};
use crate::key::KeyColumn;
use crate::tuple::{Tuple, TupleBatch};
use crate::work::Work;
use crate::{Execution, QueryError};
use nandu_storage::btree::{Cursor, Direction, Entry, LeafPlace};
use nandu_storage::database::key::{decode_key, split_row_number};
use nandu_storage::sqlite::{Value, encode_record};

/// Leaves that are asked for ahead.
const AHEAD_COUNT: usize = 32;

/// The rows in a range of an index.
pub struct IndexScan<'r> {
    index: &'r dyn IndexLookup,
    range: KeyRange,
    order: FetchOrder,
    size: RelationSize,
}

/// What a range of an index says about its rows: their values in its columns, in the order of the
/// index, and their numbers. The table is not read.
pub struct IndexOnlyScan<'r> {
    index: &'r dyn IndexLookup,
    range: KeyRange,
    size: RelationSize,
}

/// What becomes of entries.
enum Rows {
    Fetched(FetchOrder),
    OfEntries { values: Vec<Value>, record: Vec<u8> },
}

/// A scan of either kind.
struct IndexStream<'x> {
    index: &'x dyn IndexLookup,
    execution: &'x Execution,
    rows: Rows,
    buffer: RowBuffer,
    cursor: Cursor,
    /// Where the first entry that was not noted yet lies.
    place: Option<LeafPlace>,
    is_pending: bool,
    is_at_end: bool,
    page_count: u64,
    _memory: Memory<'x>,
}

/// How much of a table is in a range of an index.
fn size_of(index: &dyn IndexLookup, range: &KeyRange) -> Result<RelationSize, QueryError> {
    let bounds = index.key().bounds(range)?;
    let count = index.tree().estimate(index.engine(), as_bytes(&bounds))?;
    let table = index.size();
    let part = |whole: u64| {
        let product = u128::from(whole) * u128::from(count) / u128::from(table.tuple_count.max(1));
        u64::try_from(product).unwrap_or(u64::MAX).min(whole)
    };
    let (page_count, cell_bytes) = (part(table.page_count), part(table.cell_bytes));
    Ok(RelationSize { page_count, tuple_count: count, cell_bytes })
}

impl<'r> IndexScan<'r> {
    /// The rows in `range`. Looks at two paths of the tree to estimate how many they are.
    ///
    /// # Errors
    /// If the range has more columns than the index, or the device fails.
    pub fn new(
        index: &'r dyn IndexLookup,
        range: KeyRange,
        order: FetchOrder,
    ) -> Result<Self, QueryError> {
        let size = size_of(index, &range)?;
        Ok(Self { index, range, order, size })
    }
}

impl<'r> IndexOnlyScan<'r> {
    /// The entries in `range`. Looks at two paths of the tree to estimate how many they are.
    ///
    /// # Errors
    /// If the range has more columns than the index, or the device fails.
    pub fn new(index: &'r dyn IndexLookup, range: KeyRange) -> Result<Self, QueryError> {
        let size = size_of(index, &range)?;
        Ok(Self { index, range, size })
    }

    /// The place in its rows of a column of the table, if the index has it.
    #[must_use]
    pub fn column(&self, column: usize) -> Option<KeyColumn> {
        let place = self.index.key().columns().iter().position(|&own| own == column);
        place.map(KeyColumn::Stored)
    }
}

impl Relation for IndexScan<'_> {
    fn name(&self) -> &str {
        self.index.name()
    }

    fn size(&self) -> RelationSize {
        self.size
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        let rows = Rows::Fetched(self.order);
        IndexStream::begin(execution, self.index, (&self.range, span.from), memory, rows)
    }
}

impl Relation for IndexOnlyScan<'_> {
    fn name(&self) -> &str {
        self.index.name()
    }

    fn size(&self) -> RelationSize {
        self.size
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        let rows = Rows::OfEntries { values: Vec::new(), record: Vec::new() };
        IndexStream::begin(execution, self.index, (&self.range, span.from), memory, rows)
    }
}

impl<'x> IndexStream<'x> {
    fn begin(
        execution: &'x Execution,
        index: &'x dyn IndexLookup,
        (range, from): (&KeyRange, Position),
        mut memory: Memory<'x>,
        rows: Rows,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        execution.check_page_bytes(index.engine())?;
        let bounds = index.key().bounds(range)?;
        let (engine, tree) = (index.engine(), index.tree());
        let (place, is_at_end) = from.leaf_place();
        let cursor = match place {
            None => tree.scan(as_bytes(&bounds), Direction::Forward),
            Some(place) => execution
                .through_pool(engine, || tree.scan_from(engine, place, as_bytes(&bounds).1))?,
        };
        let ahead_count = if execution.limits().reads_ahead { AHEAD_COUNT } else { 0 };
        let leaf = memory.split_off(memory.pages().min(1));
        let buffer = match rows {
            Rows::Fetched(_) => RowBuffer::for_index(index, &memory),
            Rows::OfEntries { .. } => {
                RowBuffer::new(memory.bytes(), 8 * index.key().columns().len())
            }
        };
        memory.join(leaf);
        Ok(Box::new(Self {
            index,
            execution,
            rows,
            buffer,
            cursor: cursor.with_ahead_count(ahead_count),
            place,
            is_pending: false,
            is_at_end,
            page_count: 0,
            _memory: memory,
        }))
    }

    /// Notes entries while there is room.
    fn collect(&mut self) -> Result<(), QueryError> {
        let engine = self.index.engine();
        while !self.is_at_end {
            if !self.is_pending {
                let is_new_leaf = self.cursor.is_at_leaf_end();
                if self.cursor.next(engine)?.is_none() {
                    (self.is_at_end, self.place) = (true, None);
                    break;
                }
                self.page_count += u64::from(is_new_leaf);
                self.is_pending = true;
            }
            let entry = self.cursor.current();
            let is_taken = match &mut self.rows {
                Rows::Fetched(_) => self.index.take(entry, 0, &mut self.buffer)?,
                Rows::OfEntries { values, record } => {
                    let row_number = read_entry(self.index, entry, values)?;
                    record.clear();
                    encode_record(values.iter().map(Value::as_ref), record);
                    self.buffer.note_row(Tuple { row_number, record }, 0)
                }
            };
            if !is_taken {
                break;
            }
            self.is_pending = false;
            self.place = self.cursor.place();
            self.is_at_end = self.place.is_none();
        }
        Ok(())
    }

    fn load(&mut self) -> Result<bool, QueryError> {
        match self.rows {
            Rows::Fetched(order) => self.index.load(self.execution, order, &mut self.buffer),
            Rows::OfEntries { .. } => Ok(self.buffer.begin_load()),
        }
    }
}

/// The values of an entry, and the number of its row.
fn read_entry(
    index: &dyn IndexLookup,
    (entry, _): Entry<'_>,
    values: &mut Vec<Value>,
) -> Result<i64, QueryError> {
    let mut rest = entry;
    values.clear();
    for _ in index.key().columns() {
        let (value, after) = decode_key(rest)?;
        values.push(value);
        rest = after;
    }
    Ok(if rest.is_empty() { 0 } else { split_row_number(entry)?.1 })
}

impl TupleStream for IndexStream<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.execution.check_stop()?;
        if !self.load()? {
            self.buffer.clear();
            let (execution, engine) = (self.execution, self.index.engine());
            execution.through_pool(engine, || self.collect())?;
            if !self.load()? {
                return Ok(false);
            }
        }
        self.execution.work(Work::Fetch, self.buffer.batch().cells.len() as u64);
        Ok(true)
    }

    fn batch(&self) -> TupleBatch<'_> {
        self.buffer.batch()
    }

    fn page_count(&self) -> u64 {
        self.page_count
    }

    fn position(&self) -> Option<Position> {
        self.buffer.is_handed_on().then(|| Position::at_leaf(self.place, self.is_at_end))
    }
}
