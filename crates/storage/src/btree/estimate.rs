//! How many keys lie in a range, guessed from the two paths to its ends: what a planner needs to choose
//! between an index and a scan of the table.
//!
//! ```text
//!   root     ─────┬───────────┬─────    1 child apart
//!   inner     ────┘·····   ···└─────    those after the one and before the other
//!   leaves   ────┘                └──   as above, plus for each node between them the mean of both
//! ```
//!
//! 1. The answer is exact if both ends lie in one leaf, or in leaves side by side under one parent.

use super::allocate::ROOT_PAGE;
use super::node::{Node, Shape};
use super::tree::{Tree, check_level};
use crate::{ReadPages, StorageError};
use std::ops::Bound;

/// Where an end of a range is in a node: so many children, or keys, come before it.
#[derive(Clone, Copy)]
struct Stop {
    page: u32,
    level: u8,
    index: usize,
    count: usize,
    child: u32,
}

impl Tree {
    /// About how many keys there are from `lower` to `upper`; reads two pages of each level.
    ///
    /// # Errors
    /// If a page cannot be read, or is no page of a tree.
    pub fn estimate<P: ReadPages>(
        &self,
        pages: &P,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<u64, StorageError> {
        if let (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Included(high) | Bound::Excluded(high),
        ) = (lower, upper)
            && low > high
        {
            return Ok(0);
        }
        let (mut left_page, mut right_page, mut above) = (ROOT_PAGE, ROOT_PAGE, None);
        let mut apart: u64 = 0;
        loop {
            let left = self.stop(pages, left_page, above, |node| before_lower(node, lower))?;
            let right = self.stop(pages, right_page, above, |node| before_upper(node, upper))?;
            apart = if left.page == right.page {
                right.index.saturating_sub(left.index) as u64
            } else {
                let ends = left.count.saturating_sub(left.index) + right.index;
                let mean = ((left.count + right.count) as u64).div_ceil(2);
                (ends as u64).saturating_add(apart.saturating_sub(1).saturating_mul(mean))
            };
            if left.level == 0 {
                return Ok(apart);
            }
            (left_page, right_page, above) = (left.child, right.child, Some(left.level));
        }
    }

    fn stop<P: ReadPages>(
        &self,
        pages: &P,
        page: u32,
        above: Option<u8>,
        before: impl FnOnce(&Node<'_>) -> Shape<usize>,
    ) -> Result<Stop, StorageError> {
        self.node(pages, page, |node| {
            check_level(&node, above)?;
            let (level, index) = (node.level(), before(&node)?);
            let child = if node.is_leaf() { 0 } else { node.child(index)? };
            // An inner node has one more child than it has separators.
            let count = node.count() + usize::from(!node.is_leaf());
            Ok(Stop { page, level, index, count, child })
        })
    }
}

fn before_lower(node: &Node<'_>, bound: Bound<&[u8]>) -> Shape<usize> {
    match bound {
        Bound::Unbounded => Ok(0),
        Bound::Included(key) if node.is_leaf() => Ok(node.search(key)?.slot),
        Bound::Included(key) | Bound::Excluded(key) => node.child_index(key),
    }
}

fn before_upper(node: &Node<'_>, bound: Bound<&[u8]>) -> Shape<usize> {
    match bound {
        Bound::Unbounded => Ok(node.count()),
        Bound::Excluded(key) if node.is_leaf() => Ok(node.search(key)?.slot),
        Bound::Included(key) | Bound::Excluded(key) => node.child_index(key),
    }
}
