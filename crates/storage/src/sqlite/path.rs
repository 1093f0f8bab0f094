//! The way from a table's root to one of its leaves, and what is found there.
//!
//! ```text
//!   steps:  (root, child index) (interior, child index) … (leaf, –)
//! ```

use super::heap::{Edge, HeapTable};
use super::tree::LongRow;
use super::tree_page::{DEPTH_MAX, TreePageKind, be_u32, corrupt};
use crate::{ChangePages, PageAddress, PageOperation, ReadPages, StorageError};

/// A way from the root of a tree down to a cell.
#[derive(Debug)]
pub(super) struct Path {
    /// Each page with the index of the child that was taken; the leaf is the last.
    pub(super) steps: Vec<(PageAddress, usize)>,
    /// Rows of the leaf.
    pub(super) leaf_cell_count: usize,
    /// The row's cell on the leaf, or the one before which it belongs.
    pub(super) found: Result<usize, usize>,
}

impl Path {
    pub(super) fn leaf(&self) -> PageAddress {
        self.steps.last().expect("a path has the root at least").0
    }
}

impl HeapTable {
    /// Goes down to where `rowid` is or belongs.
    pub(super) fn descend<P: ReadPages>(
        &self,
        pages: &P,
        rowid: i64,
    ) -> Result<Path, StorageError> {
        let mut steps = Vec::with_capacity(4);
        let mut address = self.tree.address(self.tree.root())?;
        for _ in 0..DEPTH_MAX {
            let (child, leaf) = self.look(pages, address, |view| match view.kind() {
                TreePageKind::TableLeaf => {
                    Ok((0, Some((view.cell_count(), view.find_row(rowid)?))))
                }
                TreePageKind::TableInterior => {
                    let index = view.find_child(rowid)?;
                    steps.push((address, index));
                    Ok((view.child(index)?, None))
                }
                _ => Err(view.corrupt("it belongs to an index")),
            })?;
            if let Some((leaf_cell_count, found)) = leaf {
                steps.push((address, 0));
                return Ok(Path { steps, leaf_cell_count, found });
            }
            address = self.tree.address(child)?;
        }
        Err(self.tree.too_deep())
    }

    /// Goes down to a row that is there.
    pub(super) fn find<P: ReadPages>(
        &self,
        pages: &P,
        rowid: i64,
    ) -> Result<(Path, usize), StorageError> {
        let path = self.descend(pages, rowid)?;
        match path.found {
            Ok(index) => Ok((path, index)),
            Err(_) => {
                let what = format!("row {rowid} of table {}", self.schema.name);
                Err(StorageError::NotFound { what })
            }
        }
    }

    /// Finds the leaf to which rows are appended.
    pub(super) fn load_edge<P: ReadPages>(&self, pages: &P) -> Result<Edge, StorageError> {
        let leaf = self.descend(pages, i64::MAX)?.leaf();
        let usable_bytes = self.tree.usable_bytes();
        self.look(pages, leaf, |view| {
            let cell_count = view.cell_count();
            let last_rowid = match cell_count.checked_sub(1) {
                Some(last) => view.leaf_rowid(last)?,
                None => 0,
            };
            // Cells are packed, so all but the gap is used.
            let used_bytes = usable_bytes.saturating_sub(view.gap_bytes());
            let limit_bytes = self.fill.limit_bytes(leaf.page, usable_bytes);
            Ok(Edge { leaf, cell_count, used_bytes, limit_bytes, last_rowid })
        })
    }

    /// Shows the record of a row that is going to be replaced or removed, frees its overflow pages,
    /// and gives back the bytes of its cell.
    pub(super) fn release<P: ChangePages>(
        &mut self,
        pages: &mut P,
        leaf: PageAddress,
        index: usize,
        show: impl FnOnce(&[u8]),
    ) -> Result<usize, StorageError> {
        let mut show = Some(show);
        let (cell_bytes, long) = self.look(pages, leaf, |view| {
            let cell = view.leaf_cell(index)?;
            let bytes = view.leaf_cell_bytes(&cell);
            if cell.overflow_page != 0 {
                return Ok((bytes, Some(LongRow::of(&cell))));
            }
            if let Some(show) = show.take() {
                show(cell.local);
            }
            Ok((bytes, None))
        })?;
        let Some(row) = long else {
            return Ok(cell_bytes);
        };
        let count = self.tree.chain_page_count(row.payload_bytes(), row.local_bytes())?;
        let mut page = row.overflow_page();
        let record = self.tree.read_long(pages, row)?;
        if let Some(show) = show.take() {
            show(&record);
        }
        for _ in 0..count {
            let address = self.tree.address(page)?;
            page = pages.read(address, be_u32)?;
            self.space.free(pages, address)?;
        }
        if page != 0 {
            return Err(corrupt(leaf, "the chain of a row is longer than the row"));
        }
        Ok(cell_bytes)
    }

    /// Writes the end of a record to overflow pages, and gives back the first.
    pub(super) fn write_chain<P: ChangePages>(
        &mut self,
        pages: &mut P,
        rest: &[u8],
    ) -> Result<u32, StorageError> {
        let page_data_bytes = self.tree.usable_bytes() - 4;
        let addresses = (0..rest.len().div_ceil(page_data_bytes))
            .map(|_| self.allocate(pages))
            .collect::<Result<Vec<_>, _>>()?;
        for (index, chunk) in rest.chunks(page_data_bytes).enumerate() {
            let next = addresses.get(index + 1).map_or(0, |address| address.page).to_be_bytes();
            let operation = if chunk.len() == page_data_bytes {
                let code = PageOperation::IMAGE;
                PageOperation { code, operand: 0, first: &next, second: chunk }
            } else {
                // The last page of the chain. Its link to the next one has to be zero, which it is
                // in a fresh page, so only the bytes behind it are written.
                let code = PageOperation::BYTES;
                PageOperation { code, operand: 4, first: chunk, second: &[] }
            };
            pages.change(addresses[index], operation)?;
        }
        Ok(addresses[0].page)
    }
}
