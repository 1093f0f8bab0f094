//! The rows of a relation that satisfy a condition.
//!
//! 1. Rows may be put together late only where the condition looks at the columns that are compared alone
//!    ([`Filtered::by_key`]): the others are not there yet.

use super::{Late, Position, Relation, RelationSize, RelationStats, Span, TupleStream};
use crate::execution::Memory;
use crate::tuple::{Tuple, TupleBatch};
use crate::{Execution, QueryError};
use nandu_storage::database::ColumnType;

/// What decides about a row.
pub type Condition<'c> = dyn Fn(Tuple<'_>) -> Result<bool, QueryError> + Send + Sync + 'c;

/// A relation and a condition.
pub struct Filtered<'r> {
    relation: &'r dyn Relation,
    condition: &'r Condition<'r>,
    /// The part of the rows that is expected to pass, in millionths.
    kept_ppm: u64,
    /// The same of the keys, where rows may be put together late.
    keys: Option<Box<Self>>,
}

struct FilteredStream<'x> {
    stream: Box<dyn TupleStream + 'x>,
    condition: &'x Condition<'x>,
    kept: Vec<u64>,
}

impl<'r> Filtered<'r> {
    /// The rows of `relation` for which `condition` holds, about `kept_ppm` millionths of them.
    #[must_use]
    pub fn new(relation: &'r dyn Relation, kept_ppm: u64, condition: &'r Condition<'r>) -> Self {
        Self { relation, condition, kept_ppm, keys: None }
    }

    /// The same for a condition that looks at nothing but the columns that are compared, so that rows may be put
    /// together late if those of `relation` may.
    #[must_use]
    pub fn by_key(relation: &'r dyn Relation, kept_ppm: u64, condition: &'r Condition<'r>) -> Self {
        let keys = relation.late().map(|late| Box::new(Self::new(late.keys, kept_ppm, condition)));
        Self { keys, ..Self::new(relation, kept_ppm, condition) }
    }
}

impl Relation for Filtered<'_> {
    fn column_types(&self) -> Option<&[ColumnType]> {
        self.relation.column_types()
    }

    fn name(&self) -> &str {
        self.relation.name()
    }

    fn size(&self) -> RelationSize {
        let RelationSize { page_count, tuple_count, cell_bytes } = self.relation.size();
        let part = |count: u64| {
            let product = u128::from(count) * u128::from(self.kept_ppm);
            u64::try_from(product / 1_000_000).unwrap_or(u64::MAX)
        };
        RelationSize { page_count, tuple_count: part(tuple_count), cell_bytes: part(cell_bytes) }
    }

    fn stats(&self, page_bytes: u64) -> RelationStats {
        let order = self.relation.stats(page_bytes).order;
        RelationStats { order, ..RelationStats::of(self.size(), page_bytes) }
    }

    fn scan_pages_min(&self) -> u32 {
        self.relation.scan_pages_min()
    }

    fn late(&self) -> Option<Late<'_>> {
        let keys = self.keys.as_deref()?;
        Some(Late { keys, ..self.relation.late()? })
    }

    fn parts(&self, count: u32) -> Vec<Span> {
        self.relation.parts(count)
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        let stream = self.relation.scan(execution, memory, span)?;
        Ok(Box::new(FilteredStream { stream, condition: self.condition, kept: Vec::new() }))
    }
}

impl TupleStream for FilteredStream<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        let Self { stream, condition, kept } = self;
        kept.clear();
        if !stream.advance()? {
            return Ok(false);
        }
        let TupleBatch { area, cells } = stream.batch();
        for &cell in cells {
            if condition(area.tuple(cell))? {
                kept.push(cell);
            }
        }
        Ok(true)
    }

    fn batch(&self) -> TupleBatch<'_> {
        TupleBatch { cells: &self.kept, ..self.stream.batch() }
    }

    fn page_count(&self) -> u64 {
        self.stream.page_count()
    }

    fn position(&self) -> Option<Position> {
        self.stream.position()
    }
}
