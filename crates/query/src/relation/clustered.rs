//! A clustered table in the order of its key: along the chain of leaves, through the buffer pool.
//! Rows are copied out of the leaves into a block as large as the memory.
//!
//! Random insertion scatters the leaves, so this reads pages at random (S000 section 5, the "B-tree
//! data"). With reading ahead the device has several of them to do at once.
//!
//! 1. The table does not change while the relation lives: a read transaction protects it.
//! 2. Parts for workers begin with leaves that were looked at when it was opened: there are no more than these.
//! 3. One page of the memory holds the leaf at hand, the rest holds rows. A block ends with a leaf
//!    where the next might not fit.

use super::{PageOrder, Position, Relation, RelationSize, RelationStats, Span, TupleStream};
use crate::execution::Memory;
use crate::tuple::{Area, Tuple, TupleBatch};
use crate::work::Work;
use crate::{Execution, QueryError};
use nandu_storage::StorageError;
use nandu_storage::btree::{Cursor, Direction, LeafPlace, Tree};
use nandu_storage::database::{ColumnType, EngineView, Tables};
use std::ops::Bound;

/// Leaves that are asked for ahead.
pub(crate) const LEAVES_AHEAD: u64 = 32;
/// Rows of a block at most: what operators note of each row of a batch does not grow with their memory.
const BLOCK_ROWS_MAX: usize = 1024;
/// Leaves that are looked at to estimate the size.
const SAMPLE_COUNT: u32 = 16;
/// What a cell has before a short record.
const CELL_HEAD_BYTES: u64 = 3;

/// A table that is a tree by its key.
#[derive(Debug)]
pub struct ClusteredRelation<'t> {
    name: String,
    engine: &'t EngineView,
    tree: Tree,
    size: RelationSize,
    types: Vec<ColumnType>,
    /// Where some leaves begin, spread evenly over the tree: there parts of it do.
    leaves: Vec<LeafPlace>,
}

/// A scan over such a table, in the order of its key.
struct ClusteredStream<'x> {
    relation: &'x ClusteredRelation<'x>,
    execution: &'x Execution,
    cursor: Cursor,
    /// Where the first row that was not given yet lies.
    place: Option<LeafPlace>,
    /// Whether the cursor's entry is yet to be given.
    is_pending: bool,
    area: Vec<u8>,
    area_bytes: usize,
    cells: Vec<u64>,
    page_count: u64,
    is_at_end: bool,
    _memory: Memory<'x>,
}

impl<'t> ClusteredRelation<'t> {
    /// A table of an open database. Looks at some leaves to estimate its size.
    ///
    /// # Errors
    /// If there is no such clustered table, or the device fails.
    pub fn open(tables: &'t Tables, table: &str) -> Result<Self, QueryError> {
        let (engine, tree) = (tables.engine(), tables.clustered_tree(table)?);
        let (size, leaves) = clustered_size(engine, tree)?;
        let types = super::types_of(tables, table)?;
        Ok(Self { name: table.to_owned(), engine, tree, size, types, leaves })
    }
}

/// How large a clustered table is, from some of its leaves, and where these begin.
pub(crate) fn clustered_size(
    engine: &EngineView,
    tree: Tree,
) -> Result<(RelationSize, Vec<LeafPlace>), QueryError> {
    let (sample, leaves) = tree.sample_leaves(engine, SAMPLE_COUNT)?;
    let size = RelationSize {
        page_count: u64::from(tree.used_page_count(engine)?),
        tuple_count: sample.entry_count,
        cell_bytes: sample.value_bytes + CELL_HEAD_BYTES * sample.entry_count,
    };
    Ok((size, leaves))
}

impl ClusteredRelation<'_> {
    /// The same, looked at leaf by leaf: each that has entries begins a part.
    #[cfg(test)]
    pub(super) fn with_all_leaves(mut self) -> Self {
        const PATH_COUNT: u32 = 5000;
        self.leaves = self.tree.sample_leaves(self.engine, PATH_COUNT).expect("it is sound").1;
        self
    }

    /// A scan from one place to another. It ends by the key there: leaves without entries may lie before it.
    fn cursor(
        &self,
        start: Option<LeafPlace>,
        end: Option<LeafPlace>,
    ) -> Result<Cursor, StorageError> {
        let end = match end {
            None => None,
            Some(place) => self.tree.key_at(self.engine, place)?,
        };
        let upper = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        match start {
            None => Ok(self.tree.scan((Bound::Unbounded, upper), Direction::Forward)),
            Some(place) => self.tree.scan_from(self.engine, place, upper),
        }
    }
}

impl Relation for ClusteredRelation<'_> {
    fn column_types(&self) -> Option<&[ColumnType]> {
        Some(&self.types)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> RelationSize {
        self.size
    }

    fn stats(&self, page_bytes: u64) -> RelationStats {
        RelationStats { order: PageOrder::Scattered, ..RelationStats::of(self.size, page_bytes) }
    }

    fn parts(&self, count: u32) -> Vec<Span> {
        // The one leaf of a small tree is where all of it begins.
        let known = self.leaves.get(1..).unwrap_or_default();
        let place_of = |part: u64| match part.checked_sub(1) {
            None => Position::default(),
            Some(before) => Position::at_leaf(Some(known[nandu_base::to_index(before)]), false),
        };
        Span::cut(known.len() as u64 + 1, count, place_of)
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        execution.check_page_bytes(self.engine)?;
        let (start, is_at_end) = span.from.leaf_place();
        let end = span.to.and_then(|to| to.leaf_place().0);
        let cursor = execution.through_pool(self.engine, || self.cursor(start, end))?;
        let ahead_count = if execution.limits().reads_ahead { LEAVES_AHEAD } else { 0 };
        let area_bytes = memory.bytes().saturating_sub(execution.page_bytes());
        Ok(Box::new(ClusteredStream {
            relation: self,
            execution,
            cursor: cursor.with_ahead_count(nandu_base::to_index(ahead_count)),
            place: start,
            is_pending: false,
            area: Vec::with_capacity(area_bytes),
            area_bytes,
            cells: Vec::new(),
            page_count: 0,
            is_at_end,
            _memory: memory,
        }))
    }
}

impl ClusteredStream<'_> {
    /// Copies rows while there is room.
    fn fill(&mut self) -> Result<(), QueryError> {
        let engine = self.relation.engine;
        let leaf_bytes = self.execution.page_bytes();
        while !self.is_at_end && self.cells.len() < BLOCK_ROWS_MAX {
            if !self.is_pending {
                let is_new_leaf = self.cursor.is_at_leaf_end();
                let room = self.area_bytes.saturating_sub(self.area.len());
                if is_new_leaf && !self.cells.is_empty() && room < leaf_bytes {
                    return Ok(());
                }
                if self.cursor.next(engine)?.is_none() {
                    (self.is_at_end, self.place) = (true, None);
                    return Ok(());
                }
                self.page_count += u64::from(is_new_leaf);
                self.is_pending = true;
            }
            let (_, record) = self.cursor.current();
            let tuple = Tuple { row_number: 0, record };
            if !self.cells.is_empty() && self.area.len() + tuple.cell_bytes() > self.area_bytes {
                return Ok(());
            }
            self.cells.push(self.area.len() as u64);
            tuple.push_cell(&mut self.area);
            self.is_pending = false;
            self.place = self.cursor.place();
            self.is_at_end = self.place.is_none();
        }
        Ok(())
    }
}

impl TupleStream for ClusteredStream<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.execution.check_stop()?;
        self.cells.clear();
        if self.area.capacity() > self.area_bytes {
            // A row that was longer than the block does not stay in memory.
            self.area = Vec::with_capacity(self.area_bytes);
        }
        self.area.clear();
        let (execution, engine) = (self.execution, self.relation.engine);
        execution.through_pool(engine, || self.fill())?;
        execution.work(Work::Scan, self.cells.len() as u64);
        Ok(!self.cells.is_empty())
    }

    fn batch(&self) -> TupleBatch<'_> {
        TupleBatch { area: Area::Piece(&self.area), cells: &self.cells }
    }

    fn page_count(&self) -> u64 {
        self.page_count
    }

    fn position(&self) -> Option<Position> {
        Some(Position::at_leaf(self.place, self.is_at_end))
    }
}
