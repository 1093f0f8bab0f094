//! How a table grows: cells into leaves, separators into interior pages, splits, a deeper tree.
//!
//! ```text
//!   a row past the edge           a row into a full leaf           a full interior page
//!   leaf │ new leaf: the row      leaf: lower │ new: upper rows    lower │ up │ upper
//! ```
//!
//! 1. The root keeps its page: when it is full, its content moves to a child.
//! 2. At the right edge an interior page stays full and its new sibling starts with two children, so
//!    that appending fills interior pages; elsewhere it is halved.

use super::edit::{FORMAT, INSERT_CELL, SET_CHILD, TRUNCATE_CELLS, interior_cell, page_image};
use super::heap::{Edge, HeapTable, cell_operation};
use super::path::Path;
use super::tree_page::{LEAF_HEADER_BYTES, POINTER_BYTES, TreePage, TreePageKind};
use super::varint::push_varint;
use crate::{ChangePages, PageAddress, PageOperation, StorageError};

/// A copy of a leaf's cells, to be dealt out anew.
struct Cells {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    rowids: Vec<i64>,
}

impl Cells {
    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of a leaf with cells `first..end`.
    fn used_bytes(&self, first: usize, end: usize) -> usize {
        let start = if first == 0 { 0 } else { self.ends[first - 1] };
        let stop = if end == 0 { 0 } else { self.ends[end - 1] };
        LEAF_HEADER_BYTES + (stop - start) + (end - first) * POINTER_BYTES
    }
}

impl HeapTable {
    /// Puts `self.cell` at the end of the table.
    #[inline]
    pub(super) fn append_cell<P: ChangePages>(
        &mut self,
        pages: &mut P,
        mut edge: Edge,
        rowid: i64,
    ) -> Result<(), StorageError> {
        let taken = self.cell.len() + POINTER_BYTES;
        if edge.cell_count > 0 && edge.used_bytes + taken > edge.limit_bytes {
            let leaf = self.allocate(pages)?;
            pages.change(leaf, format_operation(&[]))?;
            let mut path = self.descend(pages, edge.last_rowid)?;
            if path.steps.len() == 1 {
                self.deepen(pages, &mut path)?;
            }
            let level = path.steps.len() - 2;
            let left = path.leaf();
            self.insert_separator(pages, &mut path, level, (left, edge.last_rowid, leaf))?;
            edge.leaf = leaf;
            edge.cell_count = 0;
            edge.used_bytes = LEAF_HEADER_BYTES;
            edge.limit_bytes = self.fill.limit_bytes(leaf.page, self.tree.usable_bytes());
        }
        pages.change(edge.leaf, cell_operation(INSERT_CELL, edge.cell_count, &self.cell))?;
        edge.cell_count += 1;
        edge.used_bytes += taken;
        edge.last_rowid = rowid;
        self.edge = Some(edge);
        Ok(())
    }

    /// Puts `self.cell` before cell `index` of the path's leaf, which is split if it is full.
    pub(super) fn insert_cell<P: ChangePages>(
        &mut self,
        pages: &mut P,
        path: &mut Path,
        index: usize,
        rowid: i64,
    ) -> Result<(), StorageError> {
        let gap = self.look(pages, path.leaf(), |view| Ok(view.gap_bytes()))?;
        if self.cell.len() + POINTER_BYTES <= gap {
            return pages.change(path.leaf(), cell_operation(INSERT_CELL, index, &self.cell));
        }
        if path.steps.len() == 1 {
            self.deepen(pages, path)?;
        }
        let cells = self.look(pages, path.leaf(), copy_cells)?;
        let split = self.split_point(&cells, index);
        let left = path.leaf();
        let taken = self.cell.len() + POINTER_BYTES;
        let room = self.tree.usable_bytes();
        let on_left = index <= split && cells.used_bytes(0, split) + taken <= room;
        let on_right = !on_left && cells.used_bytes(split, cells.count()) + taken <= room;
        let level = path.steps.len() - 2;
        // All cells from `split` on move to a new leaf, with the new one if it belongs there.
        let mut upper: Vec<&[u8]> = (split..cells.count()).map(|at| cells.get(at)).collect();
        if on_right {
            upper.insert(index - split, &self.cell);
        }
        let image = page_image(room, None, upper.into_iter());
        let right = self.allocate(pages)?;
        pages.change(right, image_operation(&image))?;
        pages.change(left, cell_operation(TRUNCATE_CELLS, split, &[]))?;
        let mut left_key = split.checked_sub(1).map_or(rowid, |last| cells.rowids[last]);
        if on_left {
            pages.change(left, cell_operation(INSERT_CELL, index, &self.cell))?;
            left_key = left_key.max(rowid);
        }
        self.insert_separator(pages, path, level, (left, left_key, right))?;
        if !on_left && !on_right {
            self.insert_alone(pages, left_key, right, rowid)?;
        }
        Ok(())
    }

    /// Gives a cell that fits neither half of a leaf a leaf of its own, between them.
    fn insert_alone<P: ChangePages>(
        &mut self,
        pages: &mut P,
        left_key: i64,
        right: PageAddress,
        rowid: i64,
    ) -> Result<(), StorageError> {
        let middle = self.allocate(pages)?;
        pages.change(middle, format_operation(&[]))?;
        pages.change(middle, cell_operation(INSERT_CELL, 0, &self.cell))?;
        // The path to the upper half: its rows come right after `left_key`.
        let mut path = self.descend(pages, left_key + 1)?;
        assert_eq!(path.leaf(), right, "the upper half follows the lower one");
        let level = path.steps.len() - 2;
        self.insert_separator(pages, &mut path, level, (middle, rowid, right))
    }

    /// Where to split a leaf so that a cell at `index` fits into one of the halves: in the middle, or
    /// right there.
    fn split_point(&self, cells: &Cells, index: usize) -> usize {
        let taken = self.cell.len() + POINTER_BYTES;
        let room = self.tree.usable_bytes();
        let total = cells.used_bytes(0, cells.count());
        let middle =
            (1..cells.count()).find(|&at| cells.used_bytes(0, at) * 2 >= total).unwrap_or(index);
        let target = if index <= middle {
            cells.used_bytes(0, middle)
        } else {
            cells.used_bytes(middle, cells.count())
        };
        if index < cells.count() && target + taken <= room { middle } else { index }
    }

    /// Books a new child: in the page at `level` of the path, `left` is followed by `right`, and
    /// `key` is the largest rowid below `left`. One of both is the child that the path took; the
    /// other is new.
    pub(super) fn insert_separator<P: ChangePages>(
        &mut self,
        pages: &mut P,
        path: &mut Path,
        level: usize,
        (left, key, right): (PageAddress, i64, PageAddress),
    ) -> Result<(), StorageError> {
        let (cell, length) = interior_cell(left.page, key);
        let (page, index) = path.steps[level];
        let (gap, count) =
            self.look(pages, page, |view| Ok((view.gap_bytes(), view.cell_count())))?;
        if length + POINTER_BYTES <= gap {
            return put_separator(pages, page, index, &cell[..length], right);
        }
        let mut level = level;
        if level == 0 {
            self.deepen(pages, path)?;
            level = 1;
        }
        let page = path.steps[level].0;
        let sibling = self.allocate(pages)?;
        let split = if index == count { count - 1 } else { count / 2 };
        let (child, up_key, upper, right_child) = self.look(pages, page, |view| {
            let (child, key) = view.interior_cell(split)?;
            Ok((child, key, copy_separators(view, split + 1)?, view.right_child()))
        })?;
        let upper = upper.iter().map(|(cell, length)| &cell[..*length]);
        let image = page_image(self.tree.usable_bytes(), Some(right_child), upper);
        pages.change(sibling, image_operation(&image))?;
        pages.change(page, cell_operation(TRUNCATE_CELLS, split, &[]))?;
        pages.change(page, cell_operation(SET_CHILD, split, &child.to_be_bytes()))?;
        if index <= split {
            put_separator(pages, page, index, &cell[..length], right)?;
        } else {
            put_separator(pages, sibling, index - split - 1, &cell[..length], right)?;
        }
        self.insert_separator(pages, path, level - 1, (page, up_key, sibling))
    }

    /// Moves the root's content to a child of its own; the path gets one step longer.
    pub(super) fn deepen<P: ChangePages>(
        &mut self,
        pages: &mut P,
        path: &mut Path,
    ) -> Result<(), StorageError> {
        let root = path.steps[0].0;
        let child = self.allocate(pages)?;
        let usable_bytes = self.tree.usable_bytes();
        let bytes = pages.read(root, |bytes| bytes[..usable_bytes].to_vec())?;
        pages.change(child, image_operation(&bytes))?;
        pages.change(root, format_operation(&child.page.to_be_bytes()))?;
        path.steps[0].0 = child;
        path.steps.insert(0, (root, 0));
        Ok(())
    }
}

pub(super) fn format_operation(right_child: &[u8]) -> PageOperation<'_> {
    PageOperation { code: FORMAT, operand: 0, first: right_child, second: &[] }
}

/// The operation that makes a page look like `bytes`, without the zeros in its gap.
pub(super) fn image_operation(bytes: &[u8]) -> PageOperation<'_> {
    let gap = {
        let pointers = if bytes[0] == TreePageKind::TableInterior as u8 { 12 } else { 8 };
        let count = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        let start = pointers + count * POINTER_BYTES;
        let content = match u16::from_be_bytes([bytes[5], bytes[6]]) {
            0 => 65_536,
            content => usize::from(content),
        };
        start.min(content)..content.min(bytes.len())
    };
    PageOperation {
        code: PageOperation::IMAGE,
        operand: nandu_base::to_u32(gap.len() as u64),
        first: &bytes[..gap.start],
        second: &bytes[gap.end..],
    }
}

/// Inserts the separator `cell` before child `index`, and makes `right` the child after it.
fn put_separator<P: ChangePages>(
    pages: &mut P,
    page: PageAddress,
    index: usize,
    cell: &[u8],
    right: PageAddress,
) -> Result<(), StorageError> {
    pages.change(page, cell_operation(INSERT_CELL, index, cell))?;
    pages.change(page, cell_operation(SET_CHILD, index + 1, &right.page.to_be_bytes()))
}

fn copy_separators(
    view: &TreePage<'_>,
    first: usize,
) -> Result<Vec<([u8; 13], usize)>, StorageError> {
    (first..view.cell_count())
        .map(|index| view.interior_cell(index).map(|(child, key)| interior_cell(child, key)))
        .collect()
}

fn copy_cells(view: &TreePage<'_>) -> Result<Cells, StorageError> {
    let mut cells = Cells { bytes: Vec::new(), ends: Vec::new(), rowids: Vec::new() };
    for index in 0..view.cell_count() {
        let cell = view.leaf_cell(index)?;
        push_varint(cell.payload_bytes, &mut cells.bytes);
        push_varint(cell.rowid.cast_unsigned(), &mut cells.bytes);
        cells.bytes.extend_from_slice(cell.local);
        if cell.overflow_page != 0 {
            cells.bytes.extend_from_slice(&cell.overflow_page.to_be_bytes());
        }
        let start = cells.ends.last().copied().unwrap_or(0);
        cells.bytes.resize(start + view.leaf_cell_bytes(&cell), 0);
        cells.ends.push(cells.bytes.len());
        cells.rowids.push(cell.rowid);
    }
    Ok(cells)
}
