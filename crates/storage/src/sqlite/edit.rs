//! Changes of one page of a table that this engine writes: done and redone by the same function.
//!
//! ```text
//!   │ header │ pointers ──►  gap  ◄── cells, packed │     removing a cell moves those before it up
//! ```
//!
//! 1. Cells are packed: there are no freeblocks and no fragments, so the gap is all free space. That
//!    costs a memmove within a page when a row goes, and saves SQLite's free-space list.
//! 2. Rowids of a page rise; an operation that would break this, or that does not fit, is an error.
//!    It changes nothing then, unless the page was unsound before.
//! 3. The same operation on the same bytes gives the same bytes: nothing else is consulted.

use super::tree_page::{
    FILE_HEADER_BYTES, INTERIOR_HEADER_BYTES, LEAF_HEADER_BYTES, POINTER_BYTES, TreePageKind,
    be_u16, be_u32, local_payload_bytes,
};
use super::varint::read_varint;
use crate::{PageOperation, StorageError};

/// Makes an empty leaf, or with a right child in `first` an empty interior page.
pub const FORMAT: u8 = 0x10;
/// Inserts the cell `first` followed by `second` at index `operand`.
pub const INSERT_CELL: u8 = 0x11;
/// Removes the cell at index `operand`.
pub const REMOVE_CELL: u8 = 0x12;
/// Replaces the cell at index `operand` by `first` followed by `second`.
pub const REPLACE_CELL: u8 = 0x13;
/// Makes `first` (a page number of 4 bytes) the child at index `operand`; past the last cell, the
/// right child.
pub const SET_CHILD: u8 = 0x14;
/// Removes all cells from index `operand` on.
pub const TRUNCATE_CELLS: u8 = 0x15;
/// On page 1: the file has `operand` pages; `first` is the first trunk and the number of free pages,
/// 4 bytes each. Counts one change.
pub const SET_HEADER: u8 = 0x16;

/// Applies an operation of this structure, codes 0x10..=0x1F, to the usable bytes of a page.
///
/// # Errors
/// If the code is unknown, or the operation does not fit the page; a sound page is as it was then.
pub fn apply(page: &mut [u8], operation: &PageOperation<'_>) -> Result<(), StorageError> {
    apply_inner(page, operation).map_err(|what| StorageError::Corrupt {
        place: "a change to a table's page".to_owned(),
        what: format!("operation {:#04x}: {what}", operation.code),
    })
}

fn apply_inner(page: &mut [u8], operation: &PageOperation<'_>) -> Result<(), &'static str> {
    let PageOperation { code, operand, first, second } = *operation;
    let index = operand as usize;
    match code {
        FORMAT => format(page, first),
        SET_HEADER => set_header(page, operand, first),
        INSERT_CELL => insert(page, Shape::of(page)?, index, first, second),
        REMOVE_CELL => remove(page, Shape::of(page)?, index),
        REPLACE_CELL => replace(page, Shape::of(page)?, index, first, second),
        SET_CHILD => set_child(page, Shape::of(page)?, index, first),
        TRUNCATE_CELLS => truncate(page, Shape::of(page)?, index),
        _ => Err("no structure knows it"),
    }
}

/// The bytes of an interior cell, and how many they are.
pub(super) fn interior_cell(child: u32, key: i64) -> ([u8; 13], usize) {
    let mut cell = [0; 13];
    cell[..4].copy_from_slice(&child.to_be_bytes());
    let length = 4 + super::varint::write_varint(key.cast_unsigned(), &mut cell[4..]);
    (cell, length)
}

/// The usable bytes of a page with these cells; an interior one has a right child.
pub(super) fn page_image<'c>(
    usable_bytes: usize,
    right_child: Option<u32>,
    cells: impl Iterator<Item = &'c [u8]>,
) -> Vec<u8> {
    let mut page = vec![0; usable_bytes];
    let kind =
        if right_child.is_some() { TreePageKind::TableInterior } else { TreePageKind::TableLeaf };
    let header_bytes = header_bytes(kind);
    let mut content = usable_bytes;
    let mut count = 0;
    for cell in cells {
        content -= cell.len().max(CELL_BYTES_MIN);
        page[content..content + cell.len()].copy_from_slice(cell);
        let at = header_bytes + count * POINTER_BYTES;
        put_u16(&mut page, at, content);
        count += 1;
    }
    page[0] = kind as u8;
    put_u16(&mut page, 3, count);
    put_u16(&mut page, 5, content);
    if let Some(child) = right_child {
        page[8..12].copy_from_slice(&child.to_be_bytes());
    }
    page
}

/// The least bytes that a cell takes: a freeblock has to fit when SQLite frees it.
pub(super) const CELL_BYTES_MIN: usize = 4;

/// A page's header, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    kind: TreePageKind,
    cell_count: usize,
    content: usize,
}

impl Shape {
    pub(super) fn of(page: &[u8]) -> Result<Self, &'static str> {
        let kind = match page.first() {
            Some(0x0D) => TreePageKind::TableLeaf,
            Some(0x05) => TreePageKind::TableInterior,
            _ => return Err("the page is none of a table"),
        };
        if page.len() < FILE_HEADER_BYTES || page[1] != 0 || page[2] != 0 || page[7] != 0 {
            return Err("the page has freeblocks, as SQLite makes them when it changes a file");
        }
        let cell_count = usize::from(be_u16(&page[3..]));
        let content = match be_u16(&page[5..]) {
            0 => 65_536,
            content => usize::from(content),
        };
        let shape = Self { kind, cell_count, content };
        if content > page.len() || shape.pointers_end() > content {
            return Err("the page's cells overlap its pointers");
        }
        Ok(shape)
    }

    fn pointers_end(&self) -> usize {
        header_bytes(self.kind) + self.cell_count * POINTER_BYTES
    }

    fn gap_bytes(&self) -> usize {
        self.content - self.pointers_end()
    }

    fn pointer_at(&self, index: usize) -> usize {
        header_bytes(self.kind) + index * POINTER_BYTES
    }

    fn cell_at(&self, page: &[u8], index: usize) -> Result<usize, &'static str> {
        if index >= self.cell_count {
            return Err("the page has fewer cells");
        }
        let at = usize::from(be_u16(&page[self.pointer_at(index)..]));
        if at < self.content || at + CELL_BYTES_MIN > page.len() {
            return Err("a cell lies outside of the content");
        }
        Ok(at)
    }

    fn key(&self, page: &[u8], index: usize) -> Result<i64, &'static str> {
        let at = self.cell_at(page, index)?;
        key_of(self.kind, &page[at..])
    }

    fn write(&self, page: &mut [u8]) {
        put_u16(page, 3, self.cell_count);
        put_u16(page, 5, self.content);
    }
}

fn header_bytes(kind: TreePageKind) -> usize {
    match kind {
        TreePageKind::TableInterior => INTERIOR_HEADER_BYTES,
        _ => LEAF_HEADER_BYTES,
    }
}

fn key_of(kind: TreePageKind, cell: &[u8]) -> Result<i64, &'static str> {
    let start = match kind {
        TreePageKind::TableInterior => 4,
        _ => read_varint(cell).ok_or("a cell is cut off")?.1,
    };
    let key = cell.get(start..).and_then(read_varint).ok_or("a cell is cut off")?;
    Ok(key.0.cast_signed())
}

/// Bytes that the cell at the start of `cell` takes on its page.
fn cell_bytes(kind: TreePageKind, cell: &[u8], usable_bytes: usize) -> Result<usize, &'static str> {
    if kind == TreePageKind::TableInterior {
        let key = cell.get(4..).and_then(read_varint).ok_or("a cell is cut off")?;
        return Ok(4 + key.1);
    }
    let (payload, first) = read_varint(cell).ok_or("a cell is cut off")?;
    let (_, second) = read_varint(&cell[first..]).ok_or("a cell is cut off")?;
    let local = local_payload_bytes(payload, usable_bytes);
    let link = if local as u64 == payload { 0 } else { 4 };
    Ok((first + second + local + link).max(CELL_BYTES_MIN))
}

fn put_u16(page: &mut [u8], at: usize, value: usize) {
    // The only value past 16 bits is 65,536, which the format writes as 0.
    let [low, high, ..] = value.to_le_bytes();
    page[at] = high;
    page[at + 1] = low;
}

fn format(page: &mut [u8], first: &[u8]) -> Result<(), &'static str> {
    if page.len() < FILE_HEADER_BYTES || !matches!(first.len(), 0 | 4) {
        return Err("the operands do not fit");
    }
    page.fill(0);
    page[0] = if first.is_empty() { 0x0D } else { 0x05 };
    put_u16(page, 5, page.len());
    page[8..8 + first.len()].copy_from_slice(first);
    Ok(())
}

fn set_header(page: &mut [u8], page_count: u32, first: &[u8]) -> Result<(), &'static str> {
    if page.len() < FILE_HEADER_BYTES || !page.starts_with(b"SQLite format 3\0") {
        return Err("the page has no file header");
    }
    if first.len() != 8 {
        return Err("the operands do not fit");
    }
    let counter = be_u32(&page[24..]).wrapping_add(1).to_be_bytes();
    page[24..28].copy_from_slice(&counter);
    page[28..32].copy_from_slice(&page_count.to_be_bytes());
    page[32..40].copy_from_slice(first);
    page[92..96].copy_from_slice(&counter);
    Ok(())
}

fn insert(
    page: &mut [u8],
    mut shape: Shape,
    index: usize,
    first: &[u8],
    second: &[u8],
) -> Result<(), &'static str> {
    let given = first.len() + second.len();
    let taken = given.max(CELL_BYTES_MIN);
    if index > shape.cell_count || taken + POINTER_BYTES > shape.gap_bytes() {
        return Err("the cell does not fit");
    }
    let content = shape.content - taken;
    // Written into the gap first, so that it can be looked at in one piece.
    page[content + given..shape.content].fill(0);
    page[content..content + first.len()].copy_from_slice(first);
    page[content + first.len()..content + given].copy_from_slice(second);
    let cell = &page[content..shape.content];
    let checked = match cell_bytes(shape.kind, cell, page.len()) {
        Ok(bytes) if bytes == taken => key_of(shape.kind, cell),
        Ok(_) => Err("the cell is longer or shorter than it says"),
        Err(error) => Err(error),
    };
    let rises = checked.and_then(|key| keys_rise(page, &shape, index, key));
    if let Err(error) = rises {
        page[content..shape.content].fill(0);
        return Err(error);
    }
    let pointer = shape.pointer_at(index);
    page.copy_within(pointer..shape.pointers_end(), pointer + POINTER_BYTES);
    put_u16(page, pointer, content);
    shape.content = content;
    shape.cell_count += 1;
    shape.write(page);
    Ok(())
}

/// Whether `key` fits between the cells before `index` and from it on.
fn keys_rise(page: &[u8], shape: &Shape, index: usize, key: i64) -> Result<(), &'static str> {
    if index > 0 && shape.key(page, index - 1)? >= key {
        return Err("the rowid does not come after the one before it");
    }
    if index < shape.cell_count && shape.key(page, index)? <= key {
        return Err("the rowid does not come before the one after it");
    }
    Ok(())
}

fn remove(page: &mut [u8], mut shape: Shape, index: usize) -> Result<(), &'static str> {
    let at = shape.cell_at(page, index)?;
    let bytes = cell_bytes(shape.kind, &page[at..], page.len())?;
    if at + bytes > page.len() {
        return Err("a cell passes the end of the page");
    }
    page.copy_within(shape.content..at, shape.content + bytes);
    page[shape.content..shape.content + bytes].fill(0);
    let pointer = shape.pointer_at(index);
    page.copy_within(pointer + POINTER_BYTES..shape.pointers_end(), pointer);
    put_u16(page, shape.pointers_end() - POINTER_BYTES, 0);
    shape.cell_count -= 1;
    shape.content += bytes;
    for other in 0..shape.cell_count {
        let pointer = shape.pointer_at(other);
        let cell = usize::from(be_u16(&page[pointer..]));
        if cell < at {
            put_u16(page, pointer, cell + bytes);
        }
    }
    shape.write(page);
    Ok(())
}

fn replace(
    page: &mut [u8],
    shape: Shape,
    index: usize,
    first: &[u8],
    second: &[u8],
) -> Result<(), &'static str> {
    let at = shape.cell_at(page, index)?;
    let old = cell_bytes(shape.kind, &page[at..], page.len())?;
    let new = (first.len() + second.len()).max(CELL_BYTES_MIN);
    if at + old > page.len() {
        return Err("a cell passes the end of the page");
    }
    if new > shape.gap_bytes() + old {
        return Err("the cell does not fit");
    }
    let mut head = [0; 32];
    for (target, &source) in head.iter_mut().zip(first.iter().chain(second)) {
        *target = source;
    }
    // A key takes part in the order only from the first 18 bytes, which `head` holds.
    let key = key_of(shape.kind, &head)?;
    if index > 0 && shape.key(page, index - 1)? >= key {
        return Err("the rowid does not come after the one before it");
    }
    if index + 1 < shape.cell_count && shape.key(page, index + 1)? <= key {
        return Err("the rowid does not come before the one after it");
    }
    if cell_bytes(shape.kind, &head, page.len())? != new {
        return Err("the cell is longer or shorter than it says");
    }
    if new == old {
        page[at..at + first.len()].copy_from_slice(first);
        page[at + first.len()..at + first.len() + second.len()].copy_from_slice(second);
        return Ok(());
    }
    remove(page, shape, index)?;
    insert(page, Shape::of(page)?, index, first, second)
}

fn set_child(
    page: &mut [u8],
    shape: Shape,
    index: usize,
    first: &[u8],
) -> Result<(), &'static str> {
    if shape.kind != TreePageKind::TableInterior || first.len() != 4 {
        return Err("the operands do not fit");
    }
    let at = if index == shape.cell_count { 8 } else { shape.cell_at(page, index)? };
    page[at..at + 4].copy_from_slice(first);
    Ok(())
}

fn truncate(page: &mut [u8], shape: Shape, index: usize) -> Result<(), &'static str> {
    if index > shape.cell_count {
        return Err("the page has fewer cells");
    }
    let mut new = vec![0; page.len()];
    new[..header_bytes(shape.kind)].copy_from_slice(&page[..header_bytes(shape.kind)]);
    let mut content = page.len();
    for kept in 0..index {
        let at = shape.cell_at(page, kept)?;
        let bytes = cell_bytes(shape.kind, &page[at..], page.len())?;
        let cell = page.get(at..at + bytes).filter(|_| content >= shape.content + bytes);
        let cell = cell.ok_or("a cell passes the end of the page")?;
        content -= bytes;
        new[content..content + bytes].copy_from_slice(cell);
        put_u16(&mut new, shape.pointer_at(kept), content);
    }
    Shape { cell_count: index, content, ..shape }.write(&mut new);
    page.copy_from_slice(&new);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf_cell(rowid: i64, payload: &[u8]) -> Vec<u8> {
        let mut cell = Vec::new();
        super::super::varint::push_varint(payload.len() as u64, &mut cell);
        super::super::varint::push_varint(rowid.cast_unsigned(), &mut cell);
        cell.extend_from_slice(payload);
        cell.resize(cell.len().max(CELL_BYTES_MIN), 0);
        cell
    }

    fn change(page: &mut [u8], code: u8, operand: u32, first: &[u8]) -> Result<(), StorageError> {
        apply(page, &PageOperation { code, operand, first, second: &[] })
    }

    #[test]
    fn operations_that_do_not_fit_are_errors() {
        let mut page = vec![0; 496];
        assert!(change(&mut page, INSERT_CELL, 0, &leaf_cell(1, b"x")).is_err(), "no page yet");
        change(&mut page, FORMAT, 0, &[]).unwrap();
        change(&mut page, INSERT_CELL, 0, &leaf_cell(5, b"five")).unwrap();
        let before = page.clone();
        for (code, operand, first) in [
            (INSERT_CELL, 0, leaf_cell(5, b"again")),
            (INSERT_CELL, 1, leaf_cell(4, b"out of order")),
            (INSERT_CELL, 2, leaf_cell(9, b"past the end")),
            (INSERT_CELL, 1, vec![1]),
            (INSERT_CELL, 1, leaf_cell(9, &[0; 490])),
            (INSERT_CELL, 1, leaf_cell(9, b"cut")[..4].to_vec()),
            (REMOVE_CELL, 1, Vec::new()),
            (REPLACE_CELL, 1, leaf_cell(5, b"")),
            (REPLACE_CELL, 0, leaf_cell(5, &[0; 490])),
            (SET_CHILD, 0, vec![0; 4]),
            (TRUNCATE_CELLS, 2, Vec::new()),
            (SET_HEADER, 2, vec![0; 8]),
            (FORMAT, 0, vec![0; 3]),
            (0x1F, 0, Vec::new()),
        ] {
            assert!(change(&mut page, code, operand, &first).is_err(), "{code:#x} {first:?}");
            assert_eq!(page, before);
        }
    }

    proptest! {
        #[test]
        fn no_operation_on_no_page_makes_it_panic(
            mut page in proptest::collection::vec(any::<u8>(), 496..497),
            kind in prop_oneof![Just(0x0D_u8), Just(0x05), any::<u8>()],
            tame: bool, count in 0_u8..40, operations in proptest::collection::vec(
                (0x10_u8..0x18, 0_u32..50, proptest::collection::vec(any::<u8>(), 0..40)), 1..30)
        ) {
            page[0] = kind;
            if tame {
                page[1..3].fill(0);
                page[3..5].copy_from_slice(&[0, count]);
                page[5..8].copy_from_slice(&[0, 120, 0]);
            }
            for (code, operand, first) in operations {
                let _ = change(&mut page, code, operand, &first);
            }
        }
    }
}
