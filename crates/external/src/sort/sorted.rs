//! What a sort gives: records in order, from memory or from the last merge.

use super::merge::Merging;
use super::pieces::PieceMerge;
use super::{Division, Sorter};
use crate::{ExternalError, Memory, Order, Record, RecordStream, Store};

/// Records in order.
#[derive(Debug)]
pub struct SortedStream<R, O> {
    source: Source<R, O>,
    store: Store,
    order: O,
    division: Division,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one of them for a sort")]
pub(super) enum Source<R, O> {
    /// All of them, the next one, and at how many a sorter has something to do.
    Memory { records: Vec<R>, next: usize, mark: usize, memory: Memory },
    /// Pieces of memory.
    Pieces(PieceMerge<R, O>),
    /// The last merge.
    Merge(Merging<R, O>),
}

impl<R: Record, O: Order<R>> SortedStream<R, O> {
    pub(super) const fn new(
        source: Source<R, O>,
        store: Store,
        order: O,
        division: Division,
    ) -> Self {
        Self { source, store, order, division }
    }

    /// Where the runs lie.
    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// Bytes of the records that are still in runs: their blocks are given back as they are read.
    pub(crate) fn stored_bytes(&self) -> u64 {
        match &self.source {
            Source::Merge(merge) => merge.left_count().saturating_mul(R::BYTES as u64),
            Source::Memory { .. } | Source::Pieces(_) => 0,
        }
    }

    /// An empty sorter with the same memory; what was not given yet is forgotten. Whoever sorts
    /// often and little takes memory once.
    #[must_use]
    pub fn into_sorter(self) -> Sorter<R, O> {
        let Self { source, store, order, division } = self;
        let (records, mark, memory) = match source {
            Source::Memory { mut records, mark, memory, .. } => {
                records.clear();
                (records, mark, memory)
            }
            Source::Pieces(pieces) => (Vec::new(), 0, pieces.into_memory()),
            Source::Merge(merge) => (Vec::new(), 0, merge.into_memory()),
        };
        Sorter { records, mark, ..Sorter::with_division(store, order, division, memory) }
    }
}

impl<R: Record, O: Order<R>> RecordStream for SortedStream<R, O> {
    type Record = R;

    #[inline]
    fn next_record(&mut self) -> Result<Option<R>, ExternalError> {
        match &mut self.source {
            Source::Memory { records, next, .. } => {
                let record = records.get(*next).copied();
                *next += usize::from(record.is_some());
                Ok(record)
            }
            Source::Pieces(pieces) => Ok(pieces.next()),
            Source::Merge(merge) => merge.next(),
        }
    }

    fn left_count(&self) -> Option<u64> {
        Some(match &self.source {
            Source::Memory { records, next, .. } => (records.len() - next) as u64,
            Source::Pieces(pieces) => pieces.left_count(),
            Source::Merge(merge) => merge.left_count(),
        })
    }
}
