//! The entries that begin with any of many prefixes: what a join finds in an index for a batch of
//! rows.
//!
//! All prefixes go down together, level by level, and each level's pages are read as one batch, so
//! that the device's queue stays full. On the leaves each prefix goes its own way, along the chain
//! where its entries pass the end of a leaf.
//!
//! ```text
//!   begin ─► all at the root ─levels─► each in a leaf ─entries─► in the next leaf … ─► done
//!                                        ▲     │ the user has no room: stays where it is
//!                                        └─────┘
//! ```
//!
//! 1. Prefixes rise, and none is the beginning of another; so each entry belongs to one at most.
//! 2. Each entry is taken once, and those of one prefix in the order of their keys.
//! 3. The tree must not change meanwhile; if it does, entries may be missed, but the search ends.

use super::allocate::ROOT_PAGE;
use super::corrupt;
use super::node::{Node, Payload, Shape};
use super::overflow::{self, Chain};
use super::scan::Entry;
use super::tree::{Tree, check_level};
use crate::{PageAddress, ReadPages, StorageError};
use std::ops::ControlFlow;

/// Leaves that are read as one batch.
const LEAF_COUNT_MAX: usize = 256;
/// How often the number of leaves that were followed along the chain is compared with the pages.
const TURN_CHECK_COUNT: u32 = 1024;
/// A slot that has to be searched for.
const UNKNOWN: u32 = u32::MAX;

/// A search for several prefixes, on its way.
#[derive(Debug)]
pub struct PrefixScan {
    tree: Tree,
    bytes: Vec<u8>,
    /// The end of each prefix in `bytes`.
    ends: Vec<u32>,
    /// The prefixes that may have more entries, in order.
    open: Vec<Open>,
    stops_at_first: bool,
    is_on_leaves: bool,
    turn_count: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A prefix and the place of its next entry.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: u32,
    /// 0 once there is no more entry.
    page: u32,
    slot: u32,
    chain: Option<Chain>,
}

impl PrefixScan {
    /// A search in `tree` that has nothing to do yet.
    #[must_use]
    pub const fn new(tree: Tree) -> Self {
        Self {
            tree,
            bytes: Vec::new(),
            ends: Vec::new(),
            open: Vec::new(),
            stops_at_first: false,
            is_on_leaves: false,
            turn_count: 0,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Begins to look for `prefixes`, which must be as invariant 1 says; of each for one entry only
    /// if `stops_at_first`.
    pub fn begin<'k>(&mut self, prefixes: impl Iterator<Item = &'k [u8]>, stops_at_first: bool) {
        self.bytes.clear();
        self.ends.clear();
        self.open.clear();
        for prefix in prefixes {
            let index = nandu_base::to_u32(self.ends.len() as u64);
            self.open.push(Open { index, page: ROOT_PAGE, slot: UNKNOWN, chain: None });
            self.bytes.extend_from_slice(prefix);
            self.ends.push(nandu_base::to_u32(self.bytes.len() as u64));
        }
        self.stops_at_first = stops_at_first;
        self.is_on_leaves = false;
        self.turn_count = 0;
    }

    /// Lends entries to `look`, each with the index of its prefix, until `look` breaks, for want of
    /// room say, or all were taken; says whether they were. An entry at which `look` breaks is not
    /// taken and comes again. As in [`ReadPages::read`], `look` must not read pages.
    ///
    /// # Errors
    /// If a page cannot be read, or is no page of a tree.
    pub fn advance<P: ReadPages>(
        &mut self,
        pages: &P,
        mut look: impl FnMut(usize, Entry<'_>) -> ControlFlow<()>,
    ) -> Result<bool, StorageError> {
        if !self.is_on_leaves {
            self.descend(pages)?;
            self.is_on_leaves = true;
        }
        let mut flow = ControlFlow::Continue(());
        while !self.open.is_empty() && flow.is_continue() {
            flow = self.visit_leaves(pages, &mut look)?;
            if flow.is_continue() {
                flow = self.visit_chains(pages, &mut look)?;
            }
            self.open.retain(|open| open.page != 0);
        }
        Ok(self.open.is_empty())
    }

    /// Brings all prefixes to their leaves.
    fn descend<P: ReadPages>(&mut self, pages: &P) -> Result<(), StorageError> {
        let mut front: Vec<u32> = self.open.iter().map(|open| open.page).collect();
        let mut above = None;
        while !front.is_empty() {
            let (addresses, groups) = self.tree.group(&front);
            let mut level = None;
            let mut trouble = None;
            pages.read_batch(&addresses, |group, bytes| {
                let mut visit = |node: Node<'_>| -> Shape<()> {
                    check_level(&node, above)?;
                    level = Some(node.level());
                    if node.is_leaf() {
                        return Ok(());
                    }
                    for index in groups[group].clone() {
                        let prefix = prefix_of(&self.bytes, &self.ends, index);
                        front[index] = node.child(node.child_index(prefix)?)?;
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
            if level.is_none_or(|level| level <= 1) {
                break;
            }
        }
        // What is left in `front` are leaves: the root of a tree of one page, or the children of
        // the lowest inner nodes.
        for (open, page) in self.open.iter_mut().zip(front) {
            open.page = page;
        }
        Ok(())
    }

    /// Looks at the next leaves.
    fn visit_leaves<P: ReadPages>(
        &mut self,
        pages: &P,
        look: &mut impl FnMut(usize, Entry<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StorageError> {
        let Self { tree, bytes, ends, open, stops_at_first, turn_count, key, .. } = self;
        let mut addresses: Vec<PageAddress> = Vec::new();
        let mut groups: Vec<(usize, usize)> = Vec::new();
        for (at, next) in open.iter().enumerate() {
            let is_full = groups.len() == LEAF_COUNT_MAX;
            match groups.last_mut() {
                Some((start, end)) if open[*start].page == next.page => *end = at + 1,
                _ if is_full => break,
                _ => {
                    addresses.push(tree.address(next.page));
                    groups.push((at, at + 1));
                }
            }
        }
        let mut flow = ControlFlow::Continue(());
        let mut trouble = None;
        pages.read_batch(&addresses, |group, page| {
            let (start, end) = groups[group];
            let mut visit = |node: Node<'_>| -> Shape<()> {
                if !node.is_leaf() {
                    return Err("it is not at the level that its parent says");
                }
                for open in &mut open[start..end] {
                    if flow.is_break() {
                        break;
                    }
                    let index = open.index as usize;
                    let prefix = prefix_of(bytes, ends, index);
                    let mut take = |entry: Entry<'_>| look(index, entry);
                    flow = open.visit(&node, prefix, *stops_at_first, key, &mut take)?;
                    *turn_count += u32::from(open.page != 0 && open.slot == 0);
                }
                Ok(())
            };
            if let Err(what) = Node::open(page).and_then(&mut visit) {
                trouble = Some(corrupt(addresses[group], what));
            }
        })?;
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        if self.turn_count >= TURN_CHECK_COUNT {
            // The ranges of prefixes follow each other, so together they pass the end of each leaf
            // once, and one end more for each that finds nothing. More turns than that mean a
            // circle.
            let most = u64::from(self.tree.page_count(pages)?) + self.ends.len() as u64;
            if u64::from(self.turn_count) > most {
                return Err(corrupt(addresses[0], "its leaves are chained in a circle"));
            }
        }
        Ok(flow)
    }

    /// Takes the entries whose values lie in chains, at which prefixes have stopped.
    fn visit_chains<P: ReadPages>(
        &mut self,
        pages: &P,
        look: &mut impl FnMut(usize, Entry<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StorageError> {
        let Self { tree, open, stops_at_first, key, value, .. } = self;
        for open in open {
            let Some(chain) = open.chain else { continue };
            value.clear();
            overflow::read(pages, tree.file(), chain, value)?;
            tree.node(pages, open.page, |node| node.copy_key(open.slot as usize, key))?;
            if look(open.index as usize, (key, value)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            open.chain = None;
            open.slot += 1;
            if *stops_at_first {
                open.page = 0;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Open {
    /// Goes through the entries of a leaf, up to one in a chain; breaks if `look` does.
    fn visit(
        &mut self,
        leaf: &Node<'_>,
        prefix: &[u8],
        stops_at_first: bool,
        key: &mut Vec<u8>,
        look: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Shape<ControlFlow<()>> {
        if self.chain.is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        if self.slot == UNKNOWN {
            self.slot = nandu_base::to_u32(leaf.search(prefix)?.slot as u64);
        }
        while (self.slot as usize) < leaf.count() {
            let slot = self.slot as usize;
            leaf.copy_key(slot, key)?;
            if !key.starts_with(prefix) {
                self.page = 0;
                return Ok(ControlFlow::Continue(()));
            }
            match leaf.payload(slot)? {
                Payload::Inline(value) => {
                    if look((key, value)).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Payload::Chain(chain) => {
                    self.chain = Some(Chain::from_bytes(chain)?);
                    return Ok(ControlFlow::Continue(()));
                }
                Payload::Child(_) => return Err("a leaf has no children"),
            }
            self.slot += 1;
            if stops_at_first {
                self.page = 0;
                return Ok(ControlFlow::Continue(()));
            }
        }
        (self.page, self.slot) = (leaf.next(), 0);
        Ok(ControlFlow::Continue(()))
    }
}

/// A prefix by its index.
fn prefix_of<'b>(bytes: &'b [u8], ends: &[u32], index: usize) -> &'b [u8] {
    let start = if index == 0 { 0 } else { ends[index - 1] as usize };
    &bytes[start..ends[index] as usize]
}
