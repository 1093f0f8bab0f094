//! A side of a join in parts that workers take one after the other, so that who is faster does more (morsels:
//! Leis, Boncz, Kemper and Neumann, SIGMOD 2014).
//!
//! 1. Every row is in one part, and every part is taken once between two calls of [`Morsels::rewind`].

use crate::columns::ColumnStream;
use crate::execution::Memory;
use crate::join::hash_table::HashTable;
use crate::key::KeyColumn;
use crate::relation::{Relation, Span, TupleStream};
use crate::spill::Bucket;
use crate::{Execution, QueryError};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A worker takes about so many parts of a relation.
const PARTS_PER_WORKER: u32 = 8;

/// Something that one worker reads from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Part {
    stored: Stored,
    /// How many rows the parts before it have, of a side that was written.
    pub(crate) first_row: u64,
}

#[derive(Debug)]
enum Stored {
    Span(Span),
    Bucket(Bucket),
}

/// The parts of a side.
#[derive(Debug)]
pub(crate) struct Morsels {
    parts: Vec<Part>,
    next: AtomicUsize,
    tuple_count: u64,
    cell_bytes: u64,
}

impl Morsels {
    /// A relation for so many workers that read it through so many pages each.
    pub(crate) fn of_relation(
        relation: &dyn Relation,
        worker_count: usize,
        input_pages: u32,
    ) -> Self {
        let size = relation.size();
        let workers = nandu_base::to_u32(worker_count as u64);
        // Each part begins with a wait for its first block.
        let most = size.page_count / (4 * u64::from(input_pages.max(1)));
        let count = u32::try_from(most).unwrap_or(u32::MAX);
        let spans = relation.parts(count.clamp(workers, workers * PARTS_PER_WORKER));
        let parts = spans.into_iter().map(|span| Part { stored: Stored::Span(span), first_row: 0 });
        Self {
            parts: parts.collect(),
            next: AtomicUsize::new(0),
            tuple_count: size.tuple_count,
            cell_bytes: size.cell_bytes,
        }
    }

    /// What was written of a piece, in as many parts as workers wrote some.
    pub(crate) fn of_buckets(buckets: Vec<Bucket>) -> Self {
        let (mut first_row, mut cell_bytes) = (0, 0);
        let parts = buckets.into_iter().map(|bucket| {
            let before = first_row;
            first_row += bucket.tuple_count();
            cell_bytes += bucket.cell_bytes();
            Part { stored: Stored::Bucket(bucket), first_row: before }
        });
        let parts = parts.collect();
        Self { parts, next: AtomicUsize::new(0), tuple_count: first_row, cell_bytes }
    }

    /// The next part that nobody took.
    pub(crate) fn next(&self) -> Option<&Part> {
        self.parts.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// All parts are there to be taken again. Called while nobody takes any.
    pub(crate) fn rewind(&self) {
        self.next.store(0, Ordering::Relaxed);
    }

    /// Rows, of a relation perhaps estimated.
    pub(crate) const fn tuple_count(&self) -> u64 {
        self.tuple_count
    }

    /// Bytes of their cells.
    pub(crate) const fn cell_bytes(&self) -> u64 {
        self.cell_bytes
    }

    /// Bytes of a hash table of all of it.
    pub(crate) fn table_bytes(&self) -> u64 {
        HashTable::bytes_of(self.tuple_count, self.cell_bytes)
    }

    /// Gives back the pages that were written for it: nobody reads them again.
    pub(crate) fn release(&self, execution: &Execution) {
        for part in &self.parts {
            if let Stored::Bucket(bucket) = &part.stored {
                bucket.release_shared(execution);
            }
        }
    }
}

impl Part {
    /// Begins to read some columns of it; it is a part of `relation`.
    ///
    /// # Errors
    /// As [`Relation::scan_columns`].
    pub(crate) fn scan_columns<'x>(
        &self,
        relation: &'x dyn Relation,
        execution: &'x Execution,
        memory: Memory<'x>,
        columns: &[KeyColumn],
    ) -> Result<Box<dyn ColumnStream + 'x>, QueryError> {
        match &self.stored {
            Stored::Span(span) => relation.scan_columns(execution, memory, *span, columns),
            Stored::Bucket(_) => unreachable!("columns are of relations"),
        }
    }

    /// Begins to read it, in blocks of `memory`; `relation` is what it may be a part of.
    ///
    /// # Errors
    /// As [`Relation::scan`].
    pub(crate) fn scan<'x>(
        &self,
        relation: &'x dyn Relation,
        execution: &'x Execution,
        memory: Memory<'x>,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        match &self.stored {
            Stored::Span(span) => relation.scan(execution, memory, *span),
            Stored::Bucket(bucket) => Ok(Box::new(bucket.scan(execution, memory)?)),
        }
    }
}
