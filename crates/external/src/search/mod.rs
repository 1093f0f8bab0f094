//! Search trees that are written once and searched often: records in an order in which a search reads
//! few blocks, built in one pass over a sorted stream, for devices on which a write costs more than a
//! read (S002, chapter 5, asks for such trees).
//!
//! ```text
//!   sorted stream ──► Layout: where each record lies ──► places of a vector
//!                        │
//!   key ──► walk: place ──► before the key? ──► next place ──► … ──► the first record not before it
//! ```
//!
//! | kind | knows blocks | blocks that a search reads | records written for n, nodes of f |
//! | --- | --- | --- | --- |
//! | by halves | no | log2(n / B) or so | n |
//! | B-tree | as its nodes | its levels: log_f n | n (1 + 2 / f) |
//! | van Emde Boas | no | at most 4 log_B n, for any B | n |
//!
//! 1. A search finds the first record not before its key.
//! 2. What a search reads follows from the kind, the number of records, and where its key belongs.

mod b_tree;
mod batch;
mod halves;
mod searcher;
mod van_emde_boas;

pub use searcher::Searcher;

use crate::{ExternalError, Record, RecordStream, Store, Vector};
use b_tree::BTree;
use halves::Halves;
use std::fmt::Debug;
use van_emde_boas::VanEmdeBoas;

/// In which order records lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchKind {
    /// As they are sorted: a search halves them, as in S002 table 2.1.
    Halves,
    /// In nodes of records, over each level but the first the last record of each of its nodes.
    BTree {
        /// Records of a node, 2 at least; a block of them for `None`.
        node_records: Option<u64>,
    },
    /// A binary tree whose halves of levels lie together, and theirs, and so on.
    VanEmdeBoas,
}

/// Records that were written to be searched.
#[derive(Debug)]
pub struct SearchTree<R> {
    layout: Box<dyn Layout>,
    places: Vector<R>,
    len: u64,
}

/// Where a search stands: the place of the record that it looks at, and what else its layout knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    at: u64,
    level: u32,
    low: u64,
    high: u64,
}

/// Where records lie, and how a search goes from one to the next.
trait Layout: Debug + Send + Sync {
    /// Where a search begins; nowhere without records.
    fn begin(&self) -> Option<Walk>;

    /// Where it goes on, once it is known whether the record at hand comes before its key; nowhere at
    /// its end. The last record that did not come before the key is the answer then.
    fn turn(&self, walk: Walk, is_before: bool) -> Option<Walk>;

    /// Asserts that the layout is one of `len` records at `place_count` places.
    fn audit(&self, len: u64, place_count: u64);

    /// Writes the records of a stream where they lie.
    fn write<S: RecordStream>(
        &self,
        store: &Store,
        records: &mut InOrder<S>,
    ) -> Result<Vector<S::Record>, ExternalError>
    where
        Self: Sized;
}

/// A stream that has to be sorted, and as long as it said.
#[derive(Debug)]
struct InOrder<S: RecordStream> {
    stream: S,
    last: Option<S::Record>,
    count: u64,
    len: u64,
}

impl SearchKind {
    /// Each kind, the B-tree with a block for a node.
    pub const ALL: [Self; 3] =
        [Self::Halves, Self::BTree { node_records: None }, Self::VanEmdeBoas];

    /// Writes the records of a sorted stream to be searched, each once but for the upper levels of a
    /// B-tree. One that does not know how long it is, is written to a vector first.
    ///
    /// # Errors
    /// If the stream fails, is not sorted, or is not as long as it says; if there is no memory (blocks in
    /// flight, and for van Emde Boas about 3 sqrt(n) records), no room, or the device fails; if nodes
    /// have fewer than two records.
    pub fn build<S: RecordStream>(
        self,
        store: &Store,
        sorted: S,
    ) -> Result<SearchTree<S::Record>, ExternalError> {
        match sorted.left_count() {
            Some(len) => self.build_of(store, sorted, len),
            None => {
                let vector = sorted.store_in(store)?;
                let len = vector.len();
                self.build_of(store, vector.into_stream()?, len)
            }
        }
    }

    fn build_of<S: RecordStream>(
        self,
        store: &Store,
        stream: S,
        len: u64,
    ) -> Result<SearchTree<S::Record>, ExternalError> {
        let per_block = store.per_block::<S::Record>()?;
        let mut records = InOrder { stream, last: None, count: 0, len };
        let (layout, places): (Box<dyn Layout>, _) = match self {
            Self::Halves => {
                let layout = Halves::new(len);
                let places = layout.write(store, &mut records)?;
                (Box::new(layout), places)
            }
            Self::BTree { node_records } => {
                let layout = BTree::new(len, node_records.unwrap_or(per_block), per_block)?;
                let places = layout.write(store, &mut records)?;
                (Box::new(layout), places)
            }
            Self::VanEmdeBoas => {
                let layout = VanEmdeBoas::new(len);
                let places = layout.write(store, &mut records)?;
                (Box::new(layout), places)
            }
        };
        records.end()?;
        Ok(SearchTree { layout, places, len })
    }
}

impl<R: Record> SearchTree<R> {
    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many blocks they take.
    #[must_use]
    pub const fn block_count(&self) -> u64 {
        self.places.block_count()
    }

    /// Searches one key at a time, through `frames` blocks in memory.
    ///
    /// # Errors
    /// If there is no memory for them and for one more, or no frame.
    pub fn searcher(self, frames: u32) -> Result<Searcher<R>, ExternalError> {
        Searcher::new(self, frames)
    }

    /// Asserts that there is a place for each record.
    ///
    /// # Panics
    /// If there is none.
    pub fn audit(&self) {
        self.places.audit();
        self.layout.audit(self.len, self.places.len());
    }
}

impl<S: RecordStream> InOrder<S> {
    /// The next record.
    fn next(&mut self) -> Result<S::Record, ExternalError> {
        let Some(record) = self.stream.next_record()? else {
            return self.refuse("it ends there, and was said to be longer");
        };
        if self.last.is_some_and(|last| record < last) {
            return self.refuse("that comes before the one ahead of it; sort the stream");
        }
        self.last = Some(record);
        self.count += 1;
        Ok(record)
    }

    /// Whether the stream is as long as it said.
    fn end(mut self) -> Result<(), ExternalError> {
        match self.stream.next_record()? {
            Some(_) => self.refuse("it goes on there, and was said to be shorter"),
            None => Ok(()),
        }
    }

    fn refuse<T>(&self, why: &str) -> Result<T, ExternalError> {
        let (count, len) = (self.count, self.len);
        let what = format!("what is to be searched, at record {count} of {len}: {why}");
        Err(ExternalError::Invalid { what })
    }
}

#[cfg(test)]
mod tests;
