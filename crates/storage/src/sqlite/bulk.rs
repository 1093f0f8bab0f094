//! Loading a new table: leaves one after the other in scan order, interior levels after them, so that
//! a scan reads the file in large sequential pieces (S001, section 4).
//!
//! ```text
//!   1 header │ 2 root │ 3 … leaves, between them the overflow pages of their rows │ interior levels
//! ```
//!
//! 1. Nothing is reachable before [`BulkLoad::finish`]: the header counts the pages before, the root
//!    is an empty leaf. A load that stops in the middle leaves an empty table, whatever the actions
//!    that it was cut into.
//! 2. A load that is dropped unfinished leaves the table as it was.

use super::edit::{interior_cell, page_image};
use super::grow::image_operation;
use super::heap::HeapTable;
use super::tree_page::{INTERIOR_HEADER_BYTES, LEAF_HEADER_BYTES, POINTER_BYTES};
use crate::{ChangePages, PageAddress, ReadPages, StorageError};

/// A load under way.
#[derive(Debug)]
pub struct BulkLoad<'t> {
    table: &'t mut HeapTable,
    /// Cells of the leaf that is filled, back to back, and where each ends.
    cells: Vec<u8>,
    ends: Vec<usize>,
    limit_bytes: usize,
    last_rowid: i64,
    /// Each leaf that was written, with its largest rowid.
    leaves: Vec<(u32, i64)>,
    finished: bool,
}

impl HeapTable {
    /// Begins to load a table that was just made. The caller may end actions between any two calls;
    /// what [`BulkLoad::finish`] does has to be one action. A load has no undo but to remove the file.
    ///
    /// # Errors
    /// If the table has or had rows.
    pub fn bulk_load<P: ReadPages>(&mut self, pages: &P) -> Result<BulkLoad<'_>, StorageError> {
        self.refresh(pages)?;
        let edge = self.load_edge(pages)?;
        if edge.cell_count > 0 || self.space.free_count() > 0 {
            let what = format!("table {} is not new: append its rows", self.schema.name);
            return Err(StorageError::InvalidSetting { what });
        }
        let limit_bytes = self.fill.limit_bytes(0, self.tree.usable_bytes());
        Ok(BulkLoad {
            table: self,
            cells: Vec::new(),
            ends: Vec::new(),
            limit_bytes,
            last_rowid: 0,
            leaves: Vec::new(),
            finished: false,
        })
    }
}

impl BulkLoad<'_> {
    /// Adds a row with the next rowid, which comes back. Every now and then a leaf is written.
    ///
    /// # Errors
    /// As [`HeapTable::append`].
    #[inline]
    pub fn push<P: ChangePages>(
        &mut self,
        pages: &mut P,
        record: &[u8],
    ) -> Result<i64, StorageError> {
        let rowid = self.last_rowid.saturating_add(1);
        self.push_at(pages, rowid, record)?;
        Ok(rowid)
    }

    /// Adds a row with a rowid above all before it.
    ///
    /// # Errors
    /// As [`HeapTable::append`], and if the rowid is not above those before it, or not above 0.
    #[inline]
    pub fn push_at<P: ChangePages>(
        &mut self,
        pages: &mut P,
        rowid: i64,
        record: &[u8],
    ) -> Result<(), StorageError> {
        if rowid <= self.last_rowid {
            let (last, table) = (self.last_rowid, &self.table.schema.name);
            let what =
                format!("row {rowid} of table {table} comes behind row {last}: let them rise");
            return Err(StorageError::InvalidSetting { what });
        }
        self.table.build_cell(pages, rowid, record)?;
        let cell_count = self.ends.len() + 1;
        let used = LEAF_HEADER_BYTES + self.cells.len() + cell_count * POINTER_BYTES;
        if !self.ends.is_empty() && used + self.table.cell.len() > self.limit_bytes {
            self.write_leaf(pages)?;
        }
        self.cells.extend_from_slice(&self.table.cell);
        self.ends.push(self.cells.len());
        self.last_rowid = rowid;
        Ok(())
    }

    /// Writes the last leaf and the interior levels, and makes all rows visible. Gives back the last
    /// rowid.
    ///
    /// # Errors
    /// If a page cannot be made.
    pub fn finish<P: ChangePages>(mut self, pages: &mut P) -> Result<i64, StorageError> {
        let root = PageAddress::new(self.table.tree.file(), self.table.tree.root());
        let mut level = std::mem::take(&mut self.leaves);
        if level.is_empty() {
            let image = self.leaf_image();
            pages.change(root, image_operation(&image))?;
        } else {
            self.write_leaf(pages)?;
            level.append(&mut self.leaves);
        }
        while level.len() > 1 {
            let groups = self.groups_of(&level);
            let mut above = Vec::new();
            for group in groups.windows(2) {
                let children = &level[group[0]..group[1]];
                let image = interior_image(self.table.tree.usable_bytes(), children);
                let page = if groups.len() == 2 { root } else { self.next_page(pages)? };
                pages.change(page, image_operation(&image))?;
                above.push((page.page, children[children.len() - 1].1));
            }
            level = above;
        }
        self.table.space.flush(pages)?;
        self.finished = true;
        Ok(self.last_rowid)
    }

    fn write_leaf<P: ChangePages>(&mut self, pages: &mut P) -> Result<(), StorageError> {
        let image = self.leaf_image();
        let page = self.next_page(pages)?;
        pages.change(page, image_operation(&image))?;
        self.leaves.push((page.page, self.last_rowid));
        let ordinal = nandu_base::to_u32(self.leaves.len() as u64);
        self.limit_bytes = self.table.fill.limit_bytes(ordinal, self.table.tree.usable_bytes());
        self.cells.clear();
        self.ends.clear();
        Ok(())
    }

    fn leaf_image(&self) -> Vec<u8> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let cells = starts.zip(&self.ends).map(|(&start, &end)| &self.cells[start..end]);
        page_image(self.table.tree.usable_bytes(), None, cells)
    }

    /// A new page at the end of the file; the header does not count it yet.
    fn next_page<P: ChangePages>(&mut self, pages: &mut P) -> Result<PageAddress, StorageError> {
        self.table.allocate(pages)
    }

    /// Where the children of one level are cut into pages: as many as fit, and two at least.
    fn groups_of(&self, level: &[(u32, i64)]) -> Vec<usize> {
        let room = self.table.tree.usable_bytes() - INTERIOR_HEADER_BYTES;
        let mut cuts = vec![0];
        let mut used = 0;
        for (index, &(page, key)) in level.iter().enumerate() {
            // A page's last child has no cell; so the cell counts when another child follows.
            if used > room {
                cuts.push(index);
                used = 0;
            }
            used += interior_cell(page, key).1 + POINTER_BYTES;
        }
        let last = cuts.len() - 1;
        if last > 0 && level.len() - cuts[last] == 1 {
            cuts[last] -= 1;
        }
        cuts.push(level.len());
        cuts
    }
}

impl Drop for BulkLoad<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.table.invalidate();
        }
    }
}

fn interior_image(usable_bytes: usize, children: &[(u32, i64)]) -> Vec<u8> {
    let (&(right, _), rest) = children.split_last().expect("a group has two children at least");
    let cells: Vec<_> = rest.iter().map(|&(page, key)| interior_cell(page, key)).collect();
    let cells = cells.iter().map(|(cell, length)| &cell[..*length]);
    page_image(usable_bytes, Some(right), cells)
}
