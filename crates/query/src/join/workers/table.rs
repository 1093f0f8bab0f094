//! The hash table of several workers: filled and built in parts, then read by all.
//!
//! ```text
//!   rows of worker 0   │ piece 0 │ piece 1 │ …      piece by piece behind each other:
//!   rows of worker 1   │ piece 0 │ piece 1 │ …  ──► ranges, each built by one worker ──► table
//! ```
//!
//! Which rows were met is noted beside the table: a bit for each eight bytes of a segment, of which a row has
//! the one where it begins.

use crate::Key;
use crate::QueryError;
use crate::join::hash_table::{HashTable, Range};
use crate::join::row_store::{RowStore, unpack};
use nandu_workers::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// No two rows begin within so many bytes: a link alone takes them.
const BYTES_PER_MARK: usize = 8;
const BYTES_PER_WORD: usize = 64 * BYTES_PER_MARK;

/// Bytes that marks take for a segment of so many.
pub(super) const fn mark_bytes(segment_bytes: usize) -> usize {
    (segment_bytes / BYTES_PER_WORD + 1) * 8
}

/// Ranges that wait to be built, each for one worker.
#[derive(Debug)]
pub(super) struct Unbuilt {
    ranges: Vec<Mutex<Option<Range>>>,
    /// The largest first, so that nobody waits long for the last.
    order: Vec<usize>,
    next: AtomicUsize,
}

/// A table that is read by all.
#[derive(Debug)]
pub(super) struct SharedTable {
    pub(super) table: HashTable,
    /// By segment, if anybody asks which rows were met.
    marks: Vec<Box<[AtomicU64]>>,
}

impl Unbuilt {
    /// Of the rows of each piece, from all workers.
    pub(super) fn new(pieces: Vec<Vec<RowStore>>) -> Self {
        let mut first_segment = 0;
        let ranges = pieces.into_iter().map(|stores| {
            let mut rows = RowStore::new(0);
            for mut store in stores {
                rows.append(&mut store);
            }
            let range = Range::new(rows, first_segment);
            first_segment = range.end_segment();
            range
        });
        let ranges: Vec<_> = ranges.collect();
        let mut order: Vec<_> = (0..ranges.len()).collect();
        order.sort_by_key(|&range| std::cmp::Reverse(ranges[range].row_count()));
        let ranges = ranges.into_iter().map(|range| Mutex::new(Some(range))).collect();
        Self { ranges, order, next: AtomicUsize::new(0) }
    }

    /// Builds ranges that nobody has, until there are none; each with its number.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(super) fn build(&self, key: &Key) -> Result<Vec<(usize, Range)>, QueryError> {
        let mut built = Vec::new();
        while let Some(&number) = self.order.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let mut range = self.ranges[number].lock().take().expect("each is taken once");
            range.build(key)?;
            built.push((number, range));
        }
        Ok(built)
    }
}

impl SharedTable {
    /// Of all ranges, which come from all workers; with marks, if rows are asked whether they were met.
    pub(super) fn new(built: Vec<Vec<(usize, Range)>>, has_marks: bool) -> Self {
        let mut ranges: Vec<_> = built.into_iter().flatten().collect();
        ranges.sort_by_key(|(number, _)| *number);
        let table = HashTable::of_ranges(ranges.into_iter().map(|(_, range)| range).collect());
        let words = |segment: &Vec<u8>| {
            (0..=segment.len() / BYTES_PER_WORD).map(|_| AtomicU64::new(0)).collect()
        };
        let marks = match has_marks {
            true => table.segments().iter().map(words).collect(),
            false => Vec::new(),
        };
        Self { table, marks }
    }

    /// Notes that a row was met.
    #[inline]
    pub(super) fn mark(&self, address: u64) {
        let (word, bit) = self.mark_of(address);
        // Most rows that are met again and again are read from one's own cache then.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether a row was met, of a table with marks that nobody adds to.
    pub(super) fn is_marked(&self, address: u64) -> bool {
        let (word, bit) = self.mark_of(address);
        word.load(Ordering::Relaxed) & bit != 0
    }

    fn mark_of(&self, address: u64) -> (&AtomicU64, u64) {
        let (segment, offset) = unpack(address);
        let bit = 1 << (offset / BYTES_PER_MARK % 64);
        (&self.marks[segment][offset / BYTES_PER_WORD], bit)
    }

    /// The segments that one of so many workers goes through.
    pub(super) fn share(&self, worker: usize, worker_count: usize) -> std::ops::Range<usize> {
        let count = self.table.segments().len();
        count * worker / worker_count..count * (worker + 1) / worker_count
    }
}
