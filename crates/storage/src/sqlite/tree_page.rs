//! A page of a B-tree in SQLite's format (sqlite.org, Database File Format, section 1.6), looked at
//! in place.
//!
//! ```text
//!   ┌ 0, or 100 on page 1                                              usable bytes ┐
//!   │ kind 1 │ freeblock 2 │ cells 2 │ content 2 │ fragments 1 │ right child 4 (interior)
//!   │ pointers, 2 each, in key order ──►    gap    ◄── cells, in any order          │ reserved
//!   table leaf cell      payload bytes P (varint) │ rowid (varint) │ local │ overflow page 4
//!   table interior cell  left child 4 │ largest rowid below it (varint)
//! ```
//!
//! 1. A view that could be made has its pointers inside the page; each cell is checked when it is
//!    looked at, so that no page whatever makes it panic.
//! 2. The page is told its usable bytes: files of other programs reserve what they like.

use super::edit::CELL_BYTES_MIN;
use super::varint::{read_varint, varint_bytes};
use crate::{PageAddress, StorageError};
use nandu_base::to_u32;

/// Bytes of the header that only page 1 has.
pub const FILE_HEADER_BYTES: usize = 100;
/// Bytes of a leaf's header.
pub(super) const LEAF_HEADER_BYTES: usize = 8;
/// Bytes of an interior page's header.
pub(super) const INTERIOR_HEADER_BYTES: usize = 12;
/// Bytes of a cell pointer.
pub(super) const POINTER_BYTES: usize = 2;
/// Most levels of a tree: with two children each, more than any file has pages for.
pub(super) const DEPTH_MAX: usize = 32;

/// What a page of a B-tree is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TreePageKind {
    /// Separators of an index, with children.
    IndexInterior = 0x02,
    /// Rowids of a table, with children.
    TableInterior = 0x05,
    /// Entries of an index.
    IndexLeaf = 0x0A,
    /// Rows of a table.
    TableLeaf = 0x0D,
}

/// A B-tree page in place.
#[derive(Clone, Copy, Debug)]
pub struct TreePage<'a> {
    bytes: &'a [u8],
    pointers: &'a [u8],
    address: PageAddress,
    kind: TreePageKind,
    right_child: u32,
}

/// A row as it lies on a leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafCell<'a> {
    /// The number of the row, its key in the tree.
    pub rowid: i64,
    /// Bytes of the whole record.
    pub payload_bytes: u64,
    /// The part of the record that lies on the leaf.
    pub local: &'a [u8],
    /// The first page of the rest; 0 where there is none.
    pub overflow_page: u32,
}

impl TreePageKind {
    fn of(byte: u8) -> Option<Self> {
        match byte {
            0x02 => Some(Self::IndexInterior),
            0x05 => Some(Self::TableInterior),
            0x0A => Some(Self::IndexLeaf),
            0x0D => Some(Self::TableLeaf),
            _ => None,
        }
    }
}

impl<'a> TreePage<'a> {
    /// Looks at a page of which the first `usable_bytes` count.
    ///
    /// # Errors
    /// If it is shorter than that, or no page of a B-tree.
    #[inline]
    pub fn new(
        page: &'a [u8],
        usable_bytes: usize,
        address: PageAddress,
    ) -> Result<Self, StorageError> {
        let Some(bytes) = page.get(..usable_bytes) else {
            return Err(corrupt(address, "it is shorter than its file's header says"));
        };
        let start = if address.page == 1 { FILE_HEADER_BYTES } else { 0 };
        let Some(header) = bytes.get(start..start + INTERIOR_HEADER_BYTES) else {
            return Err(corrupt(address, "it has no room for a header"));
        };
        let Some(kind) = TreePageKind::of(header[0]) else {
            return Err(corrupt(address, "it is no page of a tree"));
        };
        let cell_count = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let interior = matches!(kind, TreePageKind::TableInterior | TreePageKind::IndexInterior);
        let (header_bytes, right_child) = if interior {
            (INTERIOR_HEADER_BYTES, be_u32(&header[8..]))
        } else {
            (LEAF_HEADER_BYTES, 0)
        };
        let first = start + header_bytes;
        let Some(pointers) = bytes.get(first..first + cell_count * POINTER_BYTES) else {
            return Err(corrupt(address, "its cell pointers pass its end"));
        };
        Ok(Self { bytes, pointers, address, kind, right_child })
    }

    /// What the page is for.
    #[must_use]
    pub fn kind(&self) -> TreePageKind {
        self.kind
    }

    /// How many cells it has.
    #[inline]
    #[must_use]
    pub fn cell_count(&self) -> usize {
        self.pointers.len() / POINTER_BYTES
    }

    /// The child of an interior page past its last cell; 0 on a leaf.
    #[must_use]
    pub fn right_child(&self) -> u32 {
        self.right_child
    }

    /// Bytes between the pointers and the first cell, as far as the header can be believed.
    #[must_use]
    pub fn gap_bytes(&self) -> usize {
        let start = if self.address.page == 1 { FILE_HEADER_BYTES } else { 0 };
        let content = match be_u16(&self.bytes[start + 5..]) {
            0 => 65_536,
            content => usize::from(content),
        };
        let pointers_end = start + self.header_bytes() + self.pointers.len();
        content.saturating_sub(pointers_end)
    }

    /// Bytes that are neither header nor pointers nor cells of `cell_bytes` together; `None` where
    /// those do not fit.
    pub(super) fn free_bytes(&self, cell_bytes: usize) -> Option<usize> {
        self.bytes.len().checked_sub(self.used_bytes(cell_bytes))
    }

    /// Bytes of header, pointers and cells of `cell_bytes` together.
    pub(super) fn used_bytes(&self, cell_bytes: usize) -> usize {
        let start = if self.address.page == 1 { FILE_HEADER_BYTES } else { 0 };
        start + self.header_bytes() + self.pointers.len() + cell_bytes
    }

    /// Bytes that a row takes as a cell.
    pub(super) fn leaf_cell_bytes(&self, cell: &LeafCell<'_>) -> usize {
        let head = varint_bytes(cell.payload_bytes) + varint_bytes(cell.rowid.cast_unsigned());
        let link = if cell.overflow_page == 0 { 0 } else { 4 };
        (head + cell.local.len() + link).max(CELL_BYTES_MIN)
    }

    pub(super) fn address(&self) -> PageAddress {
        self.address
    }

    /// The row of cell `index` of a table leaf.
    ///
    /// # Errors
    /// If there is none, or its bytes pass the end of the page.
    #[inline]
    pub fn leaf_cell(&self, index: usize) -> Result<LeafCell<'a>, StorageError> {
        let (rowid, payload_bytes, rest) = self.row_start(index)?;
        let local_bytes = local_payload_bytes(payload_bytes, self.bytes.len());
        let Some((local, rest)) = rest.split_at_checked(local_bytes) else {
            return Err(self.corrupt("a row passes its end"));
        };
        if local_bytes as u64 == payload_bytes {
            return Ok(LeafCell { rowid, payload_bytes, local, overflow_page: 0 });
        }
        match rest.first_chunk::<4>() {
            Some(&page) if page != [0; 4] => {
                let overflow_page = u32::from_be_bytes(page);
                Ok(LeafCell { rowid, payload_bytes, local, overflow_page })
            }
            _ => Err(self.corrupt("a long row has no overflow page")),
        }
    }

    /// Where cell `index` starts on the page.
    ///
    /// # Errors
    /// If there is none.
    #[inline]
    pub fn cell_start(&self, index: usize) -> Result<usize, StorageError> {
        Ok(self.bytes.len() - self.cell(index)?.len())
    }

    /// The rowid of cell `index` of a table leaf.
    ///
    /// # Errors
    /// If there is none, or its bytes pass the end of the page.
    #[inline]
    pub fn leaf_rowid(&self, index: usize) -> Result<i64, StorageError> {
        Ok(self.row_start(index)?.0)
    }

    /// Left child and largest rowid of cell `index` of a table interior.
    ///
    /// # Errors
    /// If there is none, or its bytes pass the end of the page.
    #[inline]
    pub fn interior_cell(&self, index: usize) -> Result<(u32, i64), StorageError> {
        let cell = self.cell(index)?;
        let key = cell.get(4..).and_then(read_varint);
        match key {
            Some((key, _)) => Ok((be_u32(cell), key.cast_signed())),
            None => Err(self.corrupt("a separator passes its end")),
        }
    }

    /// The child `index`, where the last is the right child.
    ///
    /// # Errors
    /// As [`Self::interior_cell`].
    pub fn child(&self, index: usize) -> Result<u32, StorageError> {
        if index == self.cell_count() {
            return Ok(self.right_child);
        }
        Ok(self.interior_cell(index)?.0)
    }

    /// The cell of a table leaf with `rowid`, or the one before which it belongs.
    ///
    /// # Errors
    /// If a cell passes the end of the page.
    #[inline]
    pub fn find_row(&self, rowid: i64) -> Result<Result<usize, usize>, StorageError> {
        let (mut low, mut high) = (0, self.cell_count());
        while low < high {
            let middle = low.midpoint(high);
            match self.leaf_rowid(middle)?.cmp(&rowid) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Ok(middle)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// The index of the child of a table interior below which `rowid` belongs.
    ///
    /// # Errors
    /// If a cell passes the end of the page.
    #[inline]
    pub fn find_child(&self, rowid: i64) -> Result<usize, StorageError> {
        let (mut low, mut high) = (0, self.cell_count());
        while low < high {
            let middle = low.midpoint(high);
            if self.interior_cell(middle)?.1 < rowid {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The error that this page breaks a rule.
    #[cold]
    pub(super) fn corrupt(&self, what: &str) -> StorageError {
        corrupt(self.address, what)
    }

    fn header_bytes(&self) -> usize {
        match self.kind {
            TreePageKind::TableInterior | TreePageKind::IndexInterior => INTERIOR_HEADER_BYTES,
            TreePageKind::TableLeaf | TreePageKind::IndexLeaf => LEAF_HEADER_BYTES,
        }
    }

    /// Rowid, payload length and what follows them.
    #[inline]
    fn row_start(&self, index: usize) -> Result<(i64, u64, &'a [u8]), StorageError> {
        let cell = self.cell(index)?;
        if let Some((payload_bytes, first)) = read_varint(cell)
            && let Some((rowid, second)) = read_varint(&cell[first..])
        {
            return Ok((rowid.cast_signed(), payload_bytes, &cell[first + second..]));
        }
        Err(self.corrupt("a row passes its end"))
    }

    /// The page from cell `index` on.
    #[inline]
    fn cell(&self, index: usize) -> Result<&'a [u8], StorageError> {
        let at = index * POINTER_BYTES;
        let Some(pointer) = self.pointers.get(at..at + POINTER_BYTES) else {
            return Err(self.corrupt("it has fewer cells than its parent counts on"));
        };
        match self.bytes.get(usize::from(be_u16(pointer))..) {
            Some(cell) if cell.len() >= 4 => Ok(cell),
            _ => Err(self.corrupt("a cell starts past its end")),
        }
    }
}

/// How much of a payload lies on a table leaf: all, or what leaves whole overflow pages.
#[inline]
#[must_use]
pub fn local_payload_bytes(payload_bytes: u64, usable_bytes: usize) -> usize {
    let all_max = usable_bytes - 35;
    match usize::try_from(payload_bytes) {
        Ok(bytes) if bytes <= all_max => bytes,
        _ => {
            let least = (usable_bytes - 12) * 32 / 255 - 23;
            let chunk = usable_bytes as u64 - 4;
            // Both are below the page's length after the remainder was taken.
            let extra = to_u32((payload_bytes - least as u64) % chunk) as usize;
            if least + extra <= all_max { least + extra } else { least }
        }
    }
}

/// The error that a page breaks a rule.
#[cold]
pub(super) fn corrupt(address: PageAddress, what: &str) -> StorageError {
    StorageError::Corrupt { place: address.to_string(), what: what.to_owned() }
}

/// The two bytes at the start of `bytes`, which has them.
#[inline]
pub(super) fn be_u16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// The four bytes at the start of `bytes`, which has them.
#[inline]
pub(super) fn be_u32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
