//! How many keys lie in a range, guessed from the two paths to its ends: what a planner needs to
//! choose between an index and a scan of the table.
//!
//! ```text
//!   root     ─────┬───────────┬─────    1 child apart
//!   inner     ────┘·····   ···└─────    those after the one and before the other
//!   leaves   ────┘                └──   as above, plus for each node between them the mean of both
//! ```
//!
//! How large a tree is, is guessed from leaves: `sample` goes down so many paths, spread evenly. A
//! path that chose among a, b, … children stands for a·b·… leaves (Olken, "Random Sampling from
//! Databases", 1993), so the guess is right in the mean.
//!
//! 1. The answer is exact if both ends lie in one leaf, or in leaves side by side under one parent.

use super::allocate::ROOT_PAGE;
use super::node::{Node, Payload, Shape};
use super::overflow::Chain;
use super::scan::LeafPlace;
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

/// How large a tree is, guessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSample {
    /// Keys of the tree.
    pub entry_count: u64,
    /// Pages of the lowest level.
    pub leaf_count: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Levels above the leaves.
    pub height: u32,
}

impl Tree {
    /// How large the tree is, about, from `path_count` of its leaves. Exact if it has one leaf.
    ///
    /// # Errors
    /// If a page cannot be read, or is no page of a tree.
    pub fn sample<P: ReadPages>(
        &self,
        pages: &P,
        path_count: u32,
    ) -> Result<TreeSample, StorageError> {
        self.sample_each(pages, path_count, |_, _| Ok(()))
    }

    /// The same, and lends the keys of the leaves that are looked at, in order, each with its leaf.
    ///
    /// # Errors
    /// As [`Self::sample`].
    pub fn sample_keys<P: ReadPages>(
        &self,
        pages: &P,
        path_count: u32,
        mut look: impl FnMut(u32, &[u8]),
    ) -> Result<TreeSample, StorageError> {
        let mut key = Vec::new();
        self.sample_each(pages, path_count, |leaf, node| {
            for slot in 0..node.count() {
                key.clear();
                node.copy_key(slot, &mut key)?;
                look(leaf, &key);
            }
            Ok(())
        })
    }

    /// The same, and where the leaves begin that were looked at and have an entry, each once, in the order of keys.
    ///
    /// # Errors
    /// As [`Self::sample`].
    pub fn sample_leaves<P: ReadPages>(
        &self,
        pages: &P,
        path_count: u32,
    ) -> Result<(TreeSample, Vec<LeafPlace>), StorageError> {
        let mut leaves: Vec<LeafPlace> = Vec::new();
        let sample = self.sample_each(pages, path_count, |page, node| {
            let is_new = leaves.last().is_none_or(|last| last.page != page);
            if is_new && node.count() > 0 {
                leaves.push(LeafPlace { page, slot: 0 });
            }
            Ok(())
        })?;
        Ok((sample, leaves))
    }

    /// Goes down so many paths; `at_leaf` gets the page of each leaf.
    fn sample_each<P: ReadPages>(
        &self,
        pages: &P,
        path_count: u32,
        mut at_leaf: impl FnMut(u32, &Node<'_>) -> Shape<()>,
    ) -> Result<TreeSample, StorageError> {
        const ONE: u128 = 1 << 64;
        let count = u128::from(path_count.max(1));
        let mut sums = [0_u128; 3];
        let mut height = 0;
        for path in 0..count {
            // Where the path goes, as a fraction of the tree's width; of each node's width, the
            // rest.
            let mut at = (2 * path + 1) * ONE / (2 * count);
            let (mut page, mut above, mut weight) = (ROOT_PAGE, None, 1_u128);
            loop {
                let down = self.node(pages, page, |node| {
                    check_level(&node, above)?;
                    if node.is_leaf() {
                        at_leaf(page, &node)?;
                        sums[0] = sums[0].saturating_add(weight * node.count() as u128);
                        sums[1] = sums[1].saturating_add(weight);
                        let bytes = u128::from(value_bytes(&node)?);
                        sums[2] = sums[2].saturating_add(weight.saturating_mul(bytes));
                        return Ok(None);
                    }
                    let width = node.count() as u128 + 1;
                    let index = usize::try_from(at * width / ONE).unwrap_or(0);
                    at = at * width % ONE;
                    // As many leaves as there are pages at most; a damaged tree says more.
                    weight = (weight * width).min(u128::from(u32::MAX));
                    Ok(Some((node.child(index)?, node.level())))
                })?;
                match down {
                    Some((child, level)) => {
                        height = height.max(u32::from(level));
                        (page, above) = (child, Some(level));
                    }
                    None => break,
                }
            }
        }
        let [entry_count, leaf_count, value_bytes] =
            sums.map(|sum| u64::try_from(sum / count).unwrap_or(u64::MAX));
        Ok(TreeSample { entry_count, leaf_count, value_bytes, height })
    }

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

/// Bytes of a leaf's values, those in chains included.
fn value_bytes(leaf: &Node<'_>) -> Shape<u64> {
    let mut sum = 0;
    for slot in 0..leaf.count() {
        sum += match leaf.payload(slot)? {
            Payload::Inline(value) => value.len() as u64,
            Payload::Chain(chain) => Chain::from_bytes(chain)?.byte_count,
            Payload::Child(_) => return Err("a leaf has no children"),
        };
    }
    Ok(sum)
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
