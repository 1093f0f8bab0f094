//! The nodes of one level of a search, ascending: in memory while a block holds them, a vector
//! beyond that.
//!
//! 1. What is not settled is not streamed: a level is written, then read.
//! 2. It takes a block of memory for good, and what a writer or a scanner takes while it is long.

use crate::vector::Scanner;
use crate::{ExternalError, Memory, Record, RecordStream, Store, Vector, VectorWriter};
use nandu_base::to_index;

/// Nodes of a level, each a record.
#[derive(Debug)]
pub(super) struct Level<R> {
    store: Store,
    records: Vec<R>,
    limit: usize,
    writer: Option<VectorWriter<R>>,
    vector: Option<Vector<R>>,
    _memory: Memory,
}

/// The records of a level in order.
pub(super) enum LevelStream<'l, R> {
    Memory(std::slice::Iter<'l, R>),
    Vector(Box<Scanner<'l, R>>),
}

impl<R: Record> RecordStream for LevelStream<'_, R> {
    type Record = R;

    #[inline]
    fn next_record(&mut self) -> Result<Option<R>, ExternalError> {
        match self {
            Self::Memory(records) => Ok(records.next().copied()),
            Self::Vector(scanner) => scanner.next_record(),
        }
    }
}

impl<R: Record> Level<R> {
    pub(super) fn new(store: &Store) -> Result<Self, ExternalError> {
        let memory = store.grant().take("a level", store.block_bytes())?;
        let limit = to_index(store.block_bytes()) / size_of::<R>();
        let (store, records) = (store.clone(), Vec::with_capacity(limit));
        Ok(Self { store, records, limit, writer: None, vector: None, _memory: memory })
    }

    pub(super) fn push(&mut self, record: R) -> Result<(), ExternalError> {
        if let Some(writer) = &mut self.writer {
            return writer.push(record);
        }
        if self.records.len() < self.limit {
            self.records.push(record);
            return Ok(());
        }
        let mut writer = Vector::writer(&self.store)?;
        for &earlier in &self.records {
            writer.push(earlier)?;
        }
        self.records.clear();
        self.writer.insert(writer).push(record)
    }

    /// Ends what was pushed.
    pub(super) fn settle(&mut self) -> Result<(), ExternalError> {
        if let Some(writer) = self.writer.take() {
            self.vector = Some(writer.finish()?);
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.vector = None;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many records were settled.
    pub(super) fn len(&self) -> u64 {
        self.records.len() as u64 + self.vector.as_ref().map_or(0, Vector::len)
    }

    pub(super) fn stream(&self) -> Result<LevelStream<'_, R>, ExternalError> {
        match &self.vector {
            Some(vector) => Ok(LevelStream::Vector(Box::new(vector.scanner()?))),
            None => Ok(LevelStream::Memory(self.records.iter())),
        }
    }
}
