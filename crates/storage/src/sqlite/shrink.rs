//! How a table shrinks: leaves that lost their last row go, and interior pages that lost all children
//! but one give it to a sibling.
//!
//! ```text
//!   parent      L │ k │ page │ k2        page has one child c left
//!   merge       L takes c; page goes     or, where L is full, page takes L's last child
//! ```

use super::edit::{INSERT_CELL, REMOVE_CELL, SET_CHILD, interior_cell};
use super::grow::{format_operation, image_operation};
use super::heap::{HeapTable, cell_operation};
use super::path::Path;
use super::tree_page::POINTER_BYTES;
use crate::{ChangePages, PageAddress, StorageError};

impl HeapTable {
    /// Takes the path's leaf, which is empty, out of the tree.
    pub(super) fn remove_leaf<P: ChangePages>(
        &mut self,
        pages: &mut P,
        path: &mut Path,
    ) -> Result<(), StorageError> {
        self.space.free(pages, path.leaf())?;
        let mut level = path.steps.len() - 2;
        let (page, index) = path.steps[level];
        let mut left = self.remove_child(pages, page, index)?;
        while left == 0 {
            if level == 0 {
                return self.flatten(pages);
            }
            let Some(parent_left) = self.join_sibling(pages, path, level)? else {
                return Ok(());
            };
            left = parent_left;
            level -= 1;
        }
        Ok(())
    }

    /// Removes child `index` of a page, and gives back how many cells are left.
    fn remove_child<P: ChangePages>(
        &mut self,
        pages: &mut P,
        page: PageAddress,
        index: usize,
    ) -> Result<usize, StorageError> {
        let count = self.look(pages, page, |view| Ok(view.cell_count()))?;
        let Some(last) = count.checked_sub(1) else {
            return Err(super::tree_page::corrupt(page, "it has one child only"));
        };
        if index < count {
            pages.change(page, cell_operation(REMOVE_CELL, index, &[]))?;
        } else {
            let (child, _) = self.look(pages, page, |view| view.interior_cell(last))?;
            pages.change(page, cell_operation(REMOVE_CELL, last, &[]))?;
            pages.change(page, cell_operation(SET_CHILD, last, &child.to_be_bytes()))?;
        }
        Ok(last)
    }

    /// The root has one child left: its content moves up.
    fn flatten<P: ChangePages>(&mut self, pages: &mut P) -> Result<(), StorageError> {
        let root = self.tree.address(self.tree.root())?;
        let child = self.look(pages, root, |view| Ok(view.right_child()))?;
        let child = self.tree.address(child)?;
        let usable_bytes = self.tree.usable_bytes();
        let bytes = pages.read(child, |bytes| bytes[..usable_bytes].to_vec())?;
        pages.change(root, image_operation(&bytes))?;
        self.space.free(pages, child)
    }

    /// The page at `level`, not the root, has one child left: it gives it to a sibling and goes, or
    /// takes one from it. In the first case the answer is how many cells its parent has left.
    fn join_sibling<P: ChangePages>(
        &mut self,
        pages: &mut P,
        path: &mut Path,
        level: usize,
    ) -> Result<Option<usize>, StorageError> {
        let page = path.steps[level].0;
        let (parent, index) = path.steps[level - 1];
        let only = self.look(pages, page, |view| Ok(view.right_child()))?;
        // The separator between the page and its sibling: the one on its left, but for the first.
        let between = index.saturating_sub(1);
        let (left, key) = self.look(pages, parent, |view| view.interior_cell(between))?;
        let sibling = match index {
            0 => self.look(pages, parent, |view| view.child(1))?,
            _ => left,
        };
        let sibling = self.tree.address(sibling)?;
        let (gap, count, right) = self.look(pages, sibling, |view| {
            Ok((view.gap_bytes(), view.cell_count(), view.right_child()))
        })?;
        let (moved, at) = if index == 0 { (only, 0) } else { (right, count) };
        let (cell, length) = interior_cell(moved, key);
        if length + POINTER_BYTES <= gap {
            pages.change(sibling, cell_operation(INSERT_CELL, at, &cell[..length]))?;
            if index > 0 {
                pages.change(sibling, cell_operation(SET_CHILD, count + 1, &only.to_be_bytes()))?;
            }
            self.space.free(pages, page)?;
            let left = self.remove_child(pages, parent, between)?;
            if index > 0 {
                // The child that is left at `between` was the page that is gone. Its sibling to the
                // left holds the rows of both now.
                let number = sibling.page.to_be_bytes();
                pages.change(parent, cell_operation(SET_CHILD, between, &number))?;
            }
            return Ok(Some(left));
        }
        let (borrowed, new_key) =
            self.borrow(pages, sibling, if index == 0 { 0 } else { count - 1 })?;
        let (first, second) = if index == 0 { (only, borrowed) } else { (right, only) };
        let (cell, length) = interior_cell(first, key);
        pages.change(page, format_operation(&second.to_be_bytes()))?;
        pages.change(page, cell_operation(INSERT_CELL, 0, &cell[..length]))?;
        // The new separator may be longer than the old one and split the parent, so it is taken out
        // and inserted like any new one.
        pages.change(parent, cell_operation(REMOVE_CELL, between, &[]))?;
        path.steps[level - 1].1 = between;
        let pair = if index == 0 { (page, new_key, sibling) } else { (sibling, new_key, page) };
        self.insert_separator(pages, path, level - 1, pair)?;
        Ok(None)
    }

    /// Takes the first or the last child from a full interior page: with `at` 0 the first, otherwise
    /// the last, in whose place its left neighbour becomes the right child. Gives back the first
    /// child, and the key that stands between now.
    fn borrow<P: ChangePages>(
        &mut self,
        pages: &mut P,
        sibling: PageAddress,
        at: usize,
    ) -> Result<(u32, i64), StorageError> {
        let (child, key) = self.look(pages, sibling, |view| view.interior_cell(at))?;
        pages.change(sibling, cell_operation(REMOVE_CELL, at, &[]))?;
        if at > 0 {
            pages.change(sibling, cell_operation(SET_CHILD, at, &child.to_be_bytes()))?;
        }
        Ok((child, key))
    }
}
