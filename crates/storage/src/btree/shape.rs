//! Splits and merges: each is complete by itself and leaves a whole tree.
//!
//! ```text
//!   split   parent has room for the separator?  no ──► split the parent instead, and look again
//!                                               yes ─► new page: image │ old page: cut │ parent: insert
//!   at the root   its cells move to a new page, and the root is the only parent of that
//! ```
//!
//! 1. The root stays on its page: it grows and shrinks by taking the contents of others.

use super::allocate::{ROOT_PAGE, allocate_one, release};
use super::edit::{self, Links};
use super::node::{Node, Payload, Shape, common_bytes};
use super::operation::{self, pack};
use super::tree::{Path, Tree};
use crate::{ChangePages, PageOperation, ReadPages, StorageError};
use nandu_base::to_u32;

/// Of a page: what a merge leaves free, so that the next insert does not split it again.
const MERGE_SLACK_DIVISOR: usize = 16;

/// Makes room at or above the leaf at the end of `path` for a cell of `key`.
pub(super) fn split<P: ChangePages>(
    tree: &Tree,
    pages: &mut P,
    path: &Path,
    key: &[u8],
) -> Result<(), StorageError> {
    let mut depth = path.length() - 1;
    let at_end = tree.node(pages, path.page(depth), |node| {
        let slot = node.search(key)?.slot;
        Ok(slot > 0 && slot == node.count() && (node.next() == 0 || node.ascends_before(slot)?))
    })?;
    // Going up while the parent has no room costs a copy of each node on the way, which is rare.
    loop {
        if depth == 0 {
            return grow_root(tree, pages);
        }
        let page = path.page(depth);
        let before = copy_of(tree, pages, page)?;
        let plan = Node::open(&before)
            .and_then(|node| SplitPlan::choose(&node, key, at_end))
            .map_err(|what| super::corrupt(tree.address(page), what))?;
        let parent = path.page(depth - 1);
        let payload = Payload::Child(0);
        if tree.node(pages, parent, |node| node.has_room(&plan.separator, &payload))? {
            let slot = path.child_index(depth - 1);
            return plan.carry_out(tree, pages, page, &before, (parent, slot));
        }
        depth -= 1;
    }
}

/// Where a node is cut.
struct SplitPlan {
    /// Cells that stay.
    keep: usize,
    /// The first cell that moves; in inner nodes the one before it goes up.
    move_from: usize,
    /// What tells the two nodes apart.
    separator: Vec<u8>,
    /// The length of the new node's prefix, of its first key or else of the separator.
    prefix_bytes: usize,
}

impl SplitPlan {
    // Where the last keys came in order the next ones probably follow: the leaf is cut there, and they
    // fill it, at the end of the tree or in a gap between others (as in PostgreSQL since 12). Random
    // keys rarely look so.

    /// Chooses for a key to come; `at_end` says that it is larger than all others of its leaf.
    fn choose(node: &Node<'_>, key: &[u8], at_end: bool) -> Shape<Self> {
        let count = node.count();
        let place = node.search(key)?;
        if !node.is_leaf() {
            let at_end = at_end && place.slot == count;
            let keep = if at_end && count > 2 { count - 2 } else { middle(node, place.slot)? };
            let cells = keep + 1..count;
            let prefix_bytes = edit::shared_prefix(node, cells)?;
            let separator = node.key(keep)?;
            return Ok(Self { keep, move_from: keep + 1, separator, prefix_bytes });
        }
        if at_end {
            let last = node.key(count.saturating_sub(1))?;
            let prefix_bytes = common_bytes(&last, key);
            let separator = key[..(prefix_bytes + 1).min(key.len())].to_vec();
            return Ok(Self { keep: count, move_from: count, separator, prefix_bytes });
        }
        let follows = node.ascends_before(place.slot)?;
        let keep = if follows { place.slot } else { middle(node, place.slot)? };
        let left = if follows { key.to_vec() } else { node.key(keep - 1)? };
        let mut separator = node.key(keep)?;
        separator.truncate(common_bytes(&left, &separator) + 1);
        let prefix_bytes = edit::shared_prefix(node, keep..count)?;
        Ok(Self { keep, move_from: keep, separator, prefix_bytes })
    }

    fn carry_out<P: ChangePages>(
        self,
        tree: &Tree,
        pages: &mut P,
        page: u32,
        before: &[u8],
        (parent, slot): (u32, usize),
    ) -> Result<(), StorageError> {
        let address = tree.address(page);
        let right = allocate_one(pages, tree.file())?;
        let mut image = vec![0; before.len()];
        let is_leaf =
            self.write_right(before, &mut image).map_err(|what| super::corrupt(address, what))?;
        write_image(tree, pages, right, &image)?;
        let next = if is_leaf { right } else { 0 }.to_be_bytes();
        let cut = PageOperation {
            code: operation::CUT,
            operand: to_u32(self.keep as u64),
            first: &next,
            second: &[],
        };
        pages.change(address, cut)?;
        let insert = PageOperation {
            code: operation::INSERT,
            operand: to_u32(slot as u64),
            first: &self.separator,
            second: &right.to_be_bytes(),
        };
        pages.change(tree.address(parent), insert)
    }

    /// Fills the new right neighbour; returns whether it is a leaf.
    fn write_right(&self, before: &[u8], image: &mut [u8]) -> Shape<bool> {
        let node = Node::open(before)?;
        let mut links = Links::of(before);
        if !node.is_leaf() {
            links.first_child = node.child(self.move_from)?;
        }
        if self.move_from == node.count() {
            let prefix = self.separator.get(..self.prefix_bytes).unwrap_or(&self.separator);
            edit::format(image, links, prefix)?;
        } else {
            let cells = self.move_from..node.count();
            edit::copy_cells(&node, cells, image, links, self.prefix_bytes)?;
        }
        Ok(node.is_leaf())
    }
}

/// How many cells stay, so that both halves get about as many bytes, with `extra` an average cell to
/// come at that slot. At least one stays, and one moves; in inner nodes one more goes up.
fn middle(node: &Node<'_>, extra: usize) -> Shape<usize> {
    let count = node.count();
    let most = if node.is_leaf() { count.saturating_sub(1) } else { count.saturating_sub(2) };
    if most == 0 {
        return Err("it is full with too few cells");
    }
    let mut sum = node.prefix().len();
    let total = node.used_bytes() - sum;
    let average = total / count;
    sum = 0;
    for keep in 1..=most {
        sum += node.cell_bytes(keep - 1, 0)?;
        let come = if extra < keep { average } else { 0 };
        if 2 * (sum + come) >= total + average || keep == most {
            return Ok(keep);
        }
    }
    Ok(most)
}

fn copy_of<P: ReadPages>(tree: &Tree, pages: &P, page: u32) -> Result<Vec<u8>, StorageError> {
    pages.read(tree.address(page), <[u8]>::to_vec)
}

/// Logs the bytes of a node as those of `page`, without the free ones.
pub(super) fn write_image<P: ChangePages>(
    tree: &Tree,
    pages: &mut P,
    page: u32,
    image: &[u8],
) -> Result<(), StorageError> {
    let address = tree.address(page);
    let node = Node::open(image).map_err(|what| super::corrupt(address, what))?;
    let (front, back) = node.parts();
    let operand = to_u32((image.len() - front.len() - back.len()) as u64);
    let code = PageOperation::IMAGE;
    pages.change(address, PageOperation { code, operand, first: front, second: back })
}

/// Moves what the root holds to a page of its own, one level down.
fn grow_root<P: ChangePages>(tree: &Tree, pages: &mut P) -> Result<(), StorageError> {
    let before = copy_of(tree, pages, ROOT_PAGE)?;
    let child = allocate_one(pages, tree.file())?;
    write_image(tree, pages, child, &before)?;
    let mut links = [0; 8];
    links[4..].copy_from_slice(&child.to_be_bytes());
    let operand = u32::from(Links::of(&before).level) + 1;
    let root = PageOperation { code: operation::FORMAT, operand, first: &links, second: &[] };
    pages.change(tree.address(ROOT_PAGE), root)
}

/// Merges the node at the end of `path` with a neighbour if both are small, then its parent, and so
/// on; lowers the tree if the root has only one child.
pub(super) fn shrink<P: ChangePages>(
    tree: &Tree,
    pages: &mut P,
    path: &Path,
) -> Result<(), StorageError> {
    for depth in (1..path.length()).rev() {
        let page = path.page(depth);
        let small =
            tree.node(pages, page, |node| Ok(2 * node.used_bytes() < node.capacity_bytes()))?;
        if !small || !merge_somewhere(tree, pages, path, depth)? {
            return Ok(());
        }
    }
    lower_root(tree, pages)
}

/// Merges the node so far below the root with the one after it, or the one before it.
fn merge_somewhere<P: ChangePages>(
    tree: &Tree,
    pages: &mut P,
    path: &Path,
    depth: usize,
) -> Result<bool, StorageError> {
    let (parent, index) = (path.page(depth - 1), path.child_index(depth - 1));
    let count = tree.node(pages, parent, |node| Ok(node.count()))?;
    let after = (index < count).then_some(index);
    for slot in [after, index.checked_sub(1)].into_iter().flatten() {
        if merge(tree, pages, parent, slot)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Merges the two children beside a separator of `parent`, if they leave some room.
fn merge<P: ChangePages>(
    tree: &Tree,
    pages: &mut P,
    parent: u32,
    slot: usize,
) -> Result<bool, StorageError> {
    let (left, right, separator) = tree.node(pages, parent, |node| {
        Ok((node.child(slot)?, node.child(slot + 1)?, node.key(slot)?))
    })?;
    let right_bytes = copy_of(tree, pages, right)?;
    let right_node =
        Node::open(&right_bytes).map_err(|what| super::corrupt(tree.address(right), what))?;
    let is_leaf = right_node.is_leaf();
    let separator = if is_leaf { &[][..] } else { &separator };
    let fits = tree.node(pages, left, |left_node| {
        if left_node.level() != right_node.level() {
            return Err("it is not at the level of its neighbour");
        }
        let (_, bytes) = edit::merged_bytes(&left_node, &right_node, separator)?;
        let capacity = left_node.capacity_bytes();
        let empty = is_leaf && (left_node.count() == 0 || right_node.count() == 0);
        let slack = if empty { 0 } else { capacity / MERGE_SLACK_DIVISOR };
        Ok(bytes + slack <= capacity)
    })?;
    if !fits {
        return Ok(false);
    }
    let first = [&right_node.next().to_be_bytes()[..], separator].concat();
    let packed = pack(&right_node);
    let operand = to_u32((right_bytes.len() - packed.len()) as u64);
    let code = operation::MERGE;
    pages.change(
        tree.address(left),
        PageOperation { code, operand, first: &first, second: &packed },
    )?;
    let remove = PageOperation {
        code: operation::REMOVE,
        operand: to_u32(slot as u64),
        first: &[],
        second: &[],
    };
    pages.change(tree.address(parent), remove)?;
    release(pages, tree.file(), right)?;
    Ok(true)
}

/// While the root has only one child, it takes that one's contents.
fn lower_root<P: ChangePages>(tree: &Tree, pages: &mut P) -> Result<(), StorageError> {
    loop {
        let only = tree.node(pages, ROOT_PAGE, |node| match (node.is_leaf(), node.count()) {
            (false, 0) => node.child(0).map(|child| Some((node.level(), child))),
            _ => Ok(None),
        })?;
        let Some((level, child)) = only else { return Ok(()) };
        let image = copy_of(tree, pages, child)?;
        Node::open(&image)
            .and_then(|node| super::tree::check_level(&node, Some(level)))
            .map_err(|what| super::corrupt(tree.address(child), what))?;
        write_image(tree, pages, ROOT_PAGE, &image)?;
        release(pages, tree.file(), child)?;
    }
}
