//! B+-trees of variable-length keys and values: Bayer and McCreight, "Organization and Maintenance of
//! Large Ordered Indexes" (1972), with the refinements of Graefe, "Modern B-Tree Techniques" (2011).
//!
//! ```text
//!   page 1  meta: page count, free pages          tree ──► descend, insert, delete
//!   page 2  root, for life                          │         │
//!              │ separators                       shape: split, merge   scan, batch, bulk, check
//!      ┌───────┴───────┐                            └────┬────┘
//!    inner …         inner                        operation ──► edit ──► node      (bytes of a page)
//!   ┌──┴──┐         ┌──┴──┐                       allocate, overflow               (other pages)
//!  leaf─►leaf─►…─►leaf─►leaf ─► 0
//! ```
//!
//! 1. One tree a file. Keys are compared as bytes; keys and values may be empty; a key is there once.
//! 2. A child holds the keys from the separator before it up to, not including, the one after it.
//!    A separator is the shortest key that tells two leaves apart.
//! 3. Leaves are chained in the order of their keys. Every leaf is at level 0, and a child is one
//!    level below its parent, so that no walk is longer than the root is high.
//! 4. Each page is the meta page, a node, part of one overflow chain, or free.
//! 5. The handle keeps nothing of what the pages say: whoever restores pages need not tell it.
//!
//! A table has its primary key as key; a secondary index has the indexed columns and then the primary
//! key as key, and empty values. Both are batches, scans and bulk loads of the same tree.
//!
//! A leaf that overflows at the end of the tree is not split but followed by an empty one, and one that
//! overflows where the last keys came in order is split there, so that records in order fill their
//! pages, at the end of the tree or between others. A node that is less than half full is merged with a neighbour if
//! both leave a sixteenth of the page free.

mod allocate;
mod batch;
mod bulk;
mod check;
mod edit;
mod estimate;
mod node;
mod operation;
mod overflow;
mod prefix;
mod run;
mod scan;
mod shape;
mod tree;
mod undo;

pub use bulk::BulkLoader;
pub use check::{LevelStatistics, TreeReport, check};
pub use estimate::TreeSample;
pub use operation::apply;
pub use overflow::VALUE_BYTES_MAX;
pub use prefix::PrefixScan;
pub use scan::{Cursor, Direction, Entry, LeafPlace};
pub use tree::Tree;
pub use undo::{Undo, apply_undo};

#[cfg(test)]
mod tests;

use crate::{PageAddress, StorageError};

/// An error about the bytes of a page.
fn corrupt(address: PageAddress, what: &str) -> StorageError {
    StorageError::Corrupt { place: address.to_string(), what: what.to_owned() }
}
