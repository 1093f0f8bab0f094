//! A static B-tree (Bayer and McCreight 1972): the records in nodes, and over each level the last record
//! of each of its nodes, until one node is enough.
//!
//! ```text
//!   places:  leaves, one after the other │ pad │ their last records │ pad │ … │ root
//! ```
//!
//! 1. The record i of a level is the last one of the node i below. So a search that found the first
//!    record not before its key goes to the node of that number, and knows of the last record there.
//! 2. A level begins with a block; what is between repeats its first record.
//!
//! Upper levels come last, so that all is written in order; they wait in a vector of their own.

use super::{InOrder, Layout, Walk};
use crate::{ExternalError, Record, RecordStream, Store, Vector, VectorWriter};

/// Where the levels lie.
#[derive(Debug)]
pub(super) struct BTree {
    node_records: u64,
    /// The leaves first.
    levels: Vec<Level>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    start: u64,
    len: u64,
}

impl BTree {
    /// Of `len` records in nodes of `node_records`, with `per_block` in a block.
    pub(super) fn new(len: u64, node_records: u64, per_block: u64) -> Result<Self, ExternalError> {
        if node_records < 2 {
            let what = format!(
                "nodes of {node_records} of these records make no tree; make blocks or nodes larger"
            );
            return Err(ExternalError::Invalid { what });
        }
        let mut level = Level { start: 0, len };
        let mut levels = vec![level];
        while level.len > node_records {
            let start = (level.start + level.len).next_multiple_of(per_block);
            level = Level { start, len: level.len.div_ceil(node_records) };
            levels.push(level);
        }
        Ok(Self { node_records, levels })
    }

    /// The middle of the records from `low` on that come before `high`, on a level; without any the
    /// answer is the record `high`, below which the search goes on.
    fn between(&self, mut level: u32, mut low: u64, mut high: u64) -> Option<Walk> {
        while low == high {
            // The last record of the node below is known.
            level = level.checked_sub(1)?;
            let below = self.levels[level as usize];
            (low, high) =
                (low * self.node_records, below.len.min((low + 1) * self.node_records) - 1);
        }
        let at = self.levels[level as usize].start + low + (high - low) / 2;
        Some(Walk { at, level, low, high })
    }

    fn root(&self) -> (u32, Level) {
        let level = self.levels.len() - 1;
        (u32::try_from(level).expect("levels are few"), self.levels[level])
    }
}

impl Layout for BTree {
    fn begin(&self) -> Option<Walk> {
        let (level, root) = self.root();
        // What comes after all records has no answer: the last one is looked at, too.
        (root.len > 0).then(|| self.between(level, 0, root.len).expect("a root has records"))
    }

    fn turn(&self, walk: Walk, is_before: bool) -> Option<Walk> {
        let looked_at = walk.at - self.levels[walk.level as usize].start;
        if !is_before {
            return self.between(walk.level, walk.low, looked_at);
        }
        let (level, root) = self.root();
        let is_after_all = walk.level == level && looked_at + 1 == root.len;
        if is_after_all { None } else { self.between(walk.level, looked_at + 1, walk.high) }
    }

    fn audit(&self, len: u64, place_count: u64) {
        let (_, root) = self.root();
        assert_eq!((self.levels[0].len, root.start + root.len), (len, place_count), "places");
        assert!(root.len <= self.node_records, "the root is one node");
        for pair in self.levels.windows(2) {
            assert_eq!(pair[1].len, pair[0].len.div_ceil(self.node_records), "invariant 1");
            assert!(pair[1].start >= pair[0].start + pair[0].len, "levels do not overlap");
        }
    }

    fn write<S: RecordStream>(
        &self,
        store: &Store,
        records: &mut InOrder<S>,
    ) -> Result<Vector<S::Record>, ExternalError> {
        let (_, root) = self.root();
        let mut writer = Vector::writer_of(store, root.start + root.len)?;
        let mut above = self.write_level(store, &mut writer, 0, || records.next())?;
        for level in 1..self.levels.len() {
            let mut stream = above.into_stream()?;
            above = self.write_level(store, &mut writer, level, || {
                Ok(stream.next_record()?.expect("a level above has a record for each node"))
            })?;
        }
        writer.finish()
    }
}

impl BTree {
    /// Writes a level, and gives the one above it.
    fn write_level<R: Record>(
        &self,
        store: &Store,
        writer: &mut VectorWriter<R>,
        level: usize,
        mut next: impl FnMut() -> Result<R, ExternalError>,
    ) -> Result<Vector<R>, ExternalError> {
        let Level { start, len } = self.levels[level];
        let above_len = self.levels.get(level + 1).map_or(0, |above| above.len);
        let mut above = Vector::writer_of(store, above_len)?;
        for index in 0..len {
            let record = next()?;
            while writer.len() < start {
                writer.push(record)?;
            }
            writer.push(record)?;
            let ends_node = (index + 1) % self.node_records == 0 || index + 1 == len;
            if ends_node && above_len > 0 {
                above.push(record)?;
            }
        }
        above.finish()
    }
}
