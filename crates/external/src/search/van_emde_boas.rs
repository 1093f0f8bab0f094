//! A binary search tree in the order of van Emde Boas (Prokop 1999; Bender, Demaine, Farach-Colton 2000;
//! Brodal, Fagerberg, Jacob 2002): a tree is cut at half of its height, and what is above and each tree
//! below lie together, cut in the same way. Whatever a block holds, a path lies in few of them.
//!
//! ```text
//!   height h:    top, h / 2 levels        places:  below 0 │ below 1 │ … │ below 2^(h/2) - 1 │ top
//!               ╱   │    ╲
//!          below  below … below           each part again: belows, then its top
//! ```
//!
//! 1. Levels are full but the last, which is filled from the left; the top of a part is always full.
//! 2. A path goes to lower places only.
//! 3. Each part is whole when its last record came: memory has one below and the top, about 3 sqrt(n)
//!    records, and each record is written once, in order.

use super::{InOrder, Layout, Walk};
use crate::{ExternalError, RecordStream, Store, Vector};
use nandu_base::to_index;
use std::ops::Range;

/// The shape of the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct VanEmdeBoas {
    len: u64,
    height: u32,
    /// Nodes of the last level.
    last_count: u64,
}

/// A node: its level from the root, and its number there from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    depth: u32,
    index: u64,
}

impl VanEmdeBoas {
    pub(super) const fn new(len: u64) -> Self {
        if len == 0 {
            return Self { len, height: 0, last_count: 0 };
        }
        let height = len.ilog2() + 1;
        Self { len, height, last_count: len - ((1 << (height - 1)) - 1) }
    }

    /// How many levels of a tree so high lie above the cut.
    const fn top_height(height: u32) -> u32 {
        height / 2
    }

    /// How many nodes there are in the `height` levels of the trees that begin with these nodes of a
    /// level.
    fn size(&self, depth: u32, roots: Range<u64>, height: u32) -> u64 {
        let root_count = roots.end - roots.start;
        if depth + height < self.height {
            return root_count * ((1 << height) - 1);
        }
        let filled = |index: u64| (index << (height - 1)).min(self.last_count);
        root_count * ((1 << (height - 1)) - 1) + filled(roots.end) - filled(roots.start)
    }

    /// Where a node lies.
    fn place(&self, node: Node) -> u64 {
        let (mut depth, mut height, mut place) = (0, self.height, 0);
        while height > 1 {
            let top = Self::top_height(height);
            let within = node.depth - depth;
            let first = (node.index >> within) << top;
            if within < top {
                place += self.size(depth + top, first..first + (1 << top), height - top);
                height = top;
            } else {
                let below = node.index >> (within - top);
                place += self.size(depth + top, first..below, height - top);
                (depth, height) = (depth + top, height - top);
            }
        }
        place
    }

    fn walk(&self, node: Node) -> Option<Walk> {
        let Node { depth, index } = node;
        let is_there =
            depth + 1 < self.height || depth + 1 == self.height && index < self.last_count;
        is_there.then(|| Walk { at: self.place(node), level: depth, low: index, high: 0 })
    }

    /// The node that has the record `rank` of those below a node, which is the root of `height` levels.
    fn node_of(&self, root: Node, height: u32, rank: u64) -> Node {
        let leaf_count = match root.depth + height < self.height {
            true => 1 << (height - 1),
            false => {
                let filled = |index: u64| (index << (height - 1)).min(self.last_count);
                filled(root.index + 1) - filled(root.index)
            }
        };
        // Behind the last leaf that is there, every other node of a full tree is missing.
        let full = if rank < 2 * leaf_count { rank } else { 2 * (rank - leaf_count) + 1 };
        let above_leaves = (full + 1).trailing_zeros();
        let within = height - 1 - above_leaves;
        let index = (root.index << within) + ((full + 1) >> (above_leaves + 1));
        Node { depth: root.depth + within, index }
    }
}

impl Layout for VanEmdeBoas {
    fn begin(&self) -> Option<Walk> {
        self.walk(Node { depth: 0, index: 0 })
    }

    fn turn(&self, walk: Walk, is_before: bool) -> Option<Walk> {
        self.walk(Node { depth: walk.level + 1, index: 2 * walk.low + u64::from(is_before) })
    }

    fn audit(&self, len: u64, place_count: u64) {
        assert_eq!((self.len, self.len), (len, place_count), "a place for each record");
        let all = if self.height == 0 { 0 } else { self.size(0, 0..1, self.height) };
        assert_eq!(all, len, "invariant 1");
    }

    fn write<S: RecordStream>(
        &self,
        store: &Store,
        records: &mut InOrder<S>,
    ) -> Result<Vector<S::Record>, ExternalError> {
        let mut writer = Vector::writer_of(store, self.len)?;
        if self.len == 0 {
            return writer.finish();
        }
        let top_height = Self::top_height(self.height);
        let height = self.height - top_height;
        let top_len = (1_u64 << top_height) - 1;
        let below_len = (1_u64 << height) - 1;
        let bytes = (top_len + below_len) * size_of::<S::Record>() as u64;
        let _memory = store.grant().take("building a search tree", bytes)?;
        let mut top = Vec::with_capacity(to_index(top_len));
        let mut below = Vec::with_capacity(to_index(below_len));
        let top_place = self.len - top_len;
        for index in 0..1_u64 << top_height {
            let root = Node { depth: top_height, index };
            let first_place = self.size(top_height, 0..index, height);
            below.clear();
            for rank in 0..self.size(top_height, index..index + 1, height) {
                let place = self.place(self.node_of(root, height, rank));
                put(&mut below, to_index(place - first_place), records.next()?);
            }
            for &record in &below {
                writer.push(record)?;
            }
            if index < top_len {
                let node = self.node_of(Node { depth: 0, index: 0 }, top_height, index);
                put(&mut top, to_index(self.place(node) - top_place), records.next()?);
            }
        }
        top.into_iter().try_for_each(|record| writer.push(record))?;
        writer.finish()
    }
}

/// Puts a record where it lies; what is not there yet is any record until then.
fn put<R: Copy>(records: &mut Vec<R>, at: usize, record: R) {
    if records.len() <= at {
        records.resize(at + 1, record);
    }
    records[at] = record;
}
