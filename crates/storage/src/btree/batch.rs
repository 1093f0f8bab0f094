//! Lookups of many keys at once: all go down together, level by level, and each level's pages are read
//! as one batch, so that the device's queue stays full.

use super::allocate::ROOT_PAGE;
use super::corrupt;
use super::node::{Node, Payload, Shape};
use super::overflow::{self, Chain};
use super::tree::{Tree, check_level};
use crate::{PageAddress, ReadPages, StorageError};
use std::ops::Range;

impl Tree {
    /// Lends `look` the value of each of `keys`, or `None` for those that are not there, with the
    /// key's index and in no particular order. As in [`ReadPages::read`], `look` must not read pages.
    ///
    /// # Errors
    /// If a page cannot be read, or is no page of a tree; some values may have been looked at then.
    pub fn get_batch<P: ReadPages, K: AsRef<[u8]>>(
        &self,
        pages: &P,
        keys: &[K],
        mut look: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StorageError> {
        let mut chains = Vec::new();
        self.descend(pages, keys, |node, index| {
            let chain = look_in_leaf(node, keys[index].as_ref(), index, &mut look)?;
            chains.extend(chain.map(|chain| (index, chain)));
            Ok(())
        })?;
        let mut value = Vec::new();
        for (index, chain) in chains {
            value.clear();
            overflow::read(pages, self.file(), chain, &mut value)?;
            look(index, Some(&value));
        }
        Ok(())
    }

    /// Brings the leaves where `keys` belong into memory, with the device's queue full, so that changing
    /// those keys afterwards waits for no read. Keys for as many leaves as a quarter of the memory
    /// holds are enough for a call; more push each other out.
    ///
    /// # Errors
    /// If a page cannot be read, or is no page of a tree.
    pub fn fetch_leaves<P: ReadPages, K: AsRef<[u8]>>(
        &self,
        pages: &P,
        keys: &[K],
    ) -> Result<(), StorageError> {
        self.descend(pages, keys, |_, _| Ok(()))
    }

    /// Goes down to the leaf of each key, level by level; `at_leaf` gets the index of the key.
    fn descend<P: ReadPages, K: AsRef<[u8]>>(
        &self,
        pages: &P,
        keys: &[K],
        mut at_leaf: impl FnMut(&Node<'_>, usize) -> Shape<()>,
    ) -> Result<(), StorageError> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by(|&one, &other| keys[one].as_ref().cmp(keys[other].as_ref()));
        let mut front = vec![ROOT_PAGE; keys.len()];
        let mut above = None;
        while !front.is_empty() {
            let (addresses, groups) = self.group(&front);
            let mut level = None;
            let mut trouble = None;
            pages.read_batch(&addresses, |group, bytes| {
                let Some(range) = groups.get(group).cloned() else { return };
                let front = &mut front[range.clone()];
                let mut visit = |node: Node<'_>| -> Shape<()> {
                    check_level(&node, above)?;
                    level = Some(node.level());
                    for (page, &index) in front.iter_mut().zip(&order[range.clone()]) {
                        let key = keys[index].as_ref();
                        if !node.is_leaf() {
                            *page = node.child(node.child_index(key)?)?;
                        } else {
                            at_leaf(&node, index)?;
                        }
                    }
                    Ok(())
                };
                if let Err(what) = Node::open(bytes).and_then(&mut visit) {
                    trouble = Some(corrupt(addresses[group], what));
                }
            })?;
            if let Some(trouble) = trouble {
                return Err(trouble);
            }
            above = level;
            if level.is_none_or(|level| level == 0) {
                break;
            }
        }
        Ok(())
    }

    /// Each page once, and the places in `front` that want it.
    pub(super) fn group(&self, front: &[u32]) -> (Vec<PageAddress>, Vec<Range<usize>>) {
        let mut addresses = Vec::new();
        let mut groups = Vec::new();
        let mut start = 0;
        for same in front.chunk_by(|one, other| one == other) {
            addresses.push(self.address(same[0]));
            groups.push(start..start + same.len());
            start += same.len();
        }
        (addresses, groups)
    }
}

/// Lends the value of a key, unless it lies in a chain.
fn look_in_leaf(
    node: &Node<'_>,
    key: &[u8],
    index: usize,
    look: &mut impl FnMut(usize, Option<&[u8]>),
) -> Shape<Option<Chain>> {
    let place = node.search(key)?;
    if !place.found {
        look(index, None);
        return Ok(None);
    }
    match node.payload(place.slot)? {
        Payload::Inline(value) => look(index, Some(value)),
        Payload::Chain(chain) => return Chain::from_bytes(chain).map(Some),
        Payload::Child(_) => return Err("a leaf has no children"),
    }
    Ok(None)
}
