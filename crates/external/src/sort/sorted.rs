//! What a sort gives: records in order, from memory or from the last merge.

use super::merge::Merge;
use super::{Division, Sorter};
use crate::error::Failure;
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
    /// All of them, the next one, and how many there is memory for.
    Memory { records: Vec<R>, next: usize, limit: usize, memory: Memory },
    /// The last merge.
    Merge(Merge<R, O>),
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

    /// An empty sorter with the same memory; what was not given yet is forgotten. Whoever sorts
    /// often and little takes memory once.
    #[must_use]
    pub fn into_sorter(self) -> Sorter<R, O> {
        let Self { source, store, order, division } = self;
        let (records, limit, memory) = match source {
            Source::Memory { mut records, limit, memory, .. } => {
                records.clear();
                (records, limit, memory)
            }
            Source::Merge(merge) => (Vec::new(), 0, merge.into_memory()),
        };
        let (runs, len, failure) = (Vec::new(), 0, Failure::default());
        Sorter { store, order, division, records, limit, runs, memory, len, failure }
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
            Source::Merge(merge) => merge.next(),
        }
    }

    fn left_count(&self) -> Option<u64> {
        Some(match &self.source {
            Source::Memory { records, next, .. } => (records.len() - next) as u64,
            Source::Merge(merge) => merge.left_count(),
        })
    }
}
