//! Which pages of a table's file are in use: the end of the file and SQLite's freelist (sqlite.org,
//! Database File Format, section 1.5).
//!
//! ```text
//!   page 1 ──► trunk: next trunk 4 │ count 4 │ free pages, 4 each … ──► trunk … ──► 0
//! ```
//!
//! 1. A page is in the tree, in an overflow chain, on the freelist, page 1, or the lock-byte page.
//! 2. The last pages of a trunk stay unused, since old versions of SQLite did not expect them there.

use super::edit::SET_HEADER;
use super::header::{FileHeader, lock_byte_page};
use super::tree_page::{be_u32, corrupt};
use crate::{ChangePages, FileId, PageAddress, PageOperation, ReadPages, StorageError};

/// Bytes of a trunk before its page numbers.
const TRUNK_HEADER_BYTES: usize = 8;
/// Words of a trunk that stay unused.
const TRUNK_UNUSED_WORDS: usize = 6;
/// The largest page number of the format.
const PAGE_MAX: u32 = 0xFFFF_FFFE;

/// The header's account of the file's pages, ahead of page 1 until the end of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    file: FileId,
    page_bytes: u32,
    page_count: u32,
    first_trunk: u32,
    free_count: u32,
    changed: bool,
}

impl Space {
    pub(super) fn of(file: FileId, header: &FileHeader, page_count: u32) -> Self {
        Self {
            file,
            page_bytes: header.page_bytes,
            page_count,
            first_trunk: header.first_trunk,
            free_count: header.free_count,
            changed: false,
        }
    }

    pub(super) fn page_count(&self) -> u32 {
        self.page_count
    }

    pub(super) fn free_count(&self) -> u32 {
        self.free_count
    }

    /// The page after `page` at the end of the file.
    ///
    /// # Errors
    /// If the format has no larger number.
    pub(super) fn page_after(&self, page: u32) -> Result<u32, StorageError> {
        let next = page.checked_add(1).filter(|&next| next < PAGE_MAX);
        let Some(next) = next else {
            let what = "the table's file has as many pages as its format allows".to_owned();
            return Err(StorageError::NoSpace { what });
        };
        Ok(if next == lock_byte_page(self.page_bytes) { next + 1 } else { next })
    }

    /// Takes a page, of zeros: a free one, or the next at the end.
    pub(super) fn allocate<P: ChangePages>(
        &mut self,
        pages: &mut P,
    ) -> Result<PageAddress, StorageError> {
        let is_free = self.free_count > 0;
        let page = if is_free {
            self.take_free(pages)?
        } else {
            self.page_count = self.page_after(self.page_count)?;
            self.page_count
        };
        self.changed = true;
        let address = PageAddress::new(self.file, page);
        if is_free {
            pages.create(address)?;
        } else {
            pages.create_at_end(address)?;
        }
        Ok(address)
    }

    /// Gives a page back.
    pub(super) fn free<P: ChangePages>(
        &mut self,
        pages: &mut P,
        address: PageAddress,
    ) -> Result<(), StorageError> {
        self.changed = true;
        self.free_count += 1;
        let capacity = pages.usable_bytes() / 4 - 2 - TRUNK_UNUSED_WORDS;
        if self.first_trunk != 0 {
            let trunk = self.trunk(self.first_trunk)?;
            let count = pages.read(trunk, |bytes| be_u32(&bytes[4..]))?;
            if (count as usize) < capacity {
                let at = TRUNK_HEADER_BYTES + 4 * count as usize;
                put(pages, trunk, at, address.page)?;
                return put(pages, trunk, 4, count + 1);
            }
        }
        pages.create(address)?;
        put(pages, address, 0, self.first_trunk)?;
        self.first_trunk = address.page;
        Ok(())
    }

    /// Writes the account to page 1, if it changed.
    pub(super) fn flush<P: ChangePages>(&mut self, pages: &mut P) -> Result<(), StorageError> {
        if !self.changed {
            return Ok(());
        }
        let mut first = [0; 8];
        first[..4].copy_from_slice(&self.first_trunk.to_be_bytes());
        first[4..].copy_from_slice(&self.free_count.to_be_bytes());
        let operation = PageOperation {
            code: SET_HEADER,
            operand: self.page_count,
            first: &first,
            second: &[],
        };
        pages.change(PageAddress::new(self.file, 1), operation)?;
        self.changed = false;
        Ok(())
    }

    /// All pages of the freelist, for checks.
    pub(super) fn free_pages<P: ReadPages>(&self, pages: &P) -> Result<Vec<u32>, StorageError> {
        let mut found = Vec::new();
        let mut trunk = self.first_trunk;
        while trunk != 0 {
            let address = self.trunk(trunk)?;
            found.push(trunk);
            trunk = pages.read(address, |bytes| {
                let count = be_u32(&bytes[4..]) as usize;
                let words = bytes[TRUNK_HEADER_BYTES..].chunks_exact(4);
                if count > words.len() {
                    return Err(corrupt(address, "its list of free pages passes its end"));
                }
                found.extend(words.take(count).map(be_u32));
                Ok(be_u32(bytes))
            })??;
            if found.len() as u64 > u64::from(self.free_count) {
                return Err(corrupt(address, "the freelist is longer than the header says"));
            }
        }
        Ok(found)
    }

    fn take_free<P: ChangePages>(&mut self, pages: &mut P) -> Result<u32, StorageError> {
        let trunk = self.trunk(self.first_trunk)?;
        let (next, count, last) = pages.read(trunk, |bytes| {
            let count = be_u32(&bytes[4..]);
            let at = TRUNK_HEADER_BYTES + 4 * (count.max(1) as usize - 1);
            let last = bytes.get(at..at + 4).map(be_u32);
            (be_u32(bytes), count, last)
        })?;
        self.free_count -= 1;
        if count == 0 {
            self.first_trunk = next;
            return Ok(trunk.page);
        }
        put(pages, trunk, 4, count - 1)?;
        match last {
            Some(page) if (2..=self.page_count).contains(&page) => Ok(page),
            _ => Err(corrupt(trunk, "it lists a free page that the file has not")),
        }
    }

    fn trunk(&self, page: u32) -> Result<PageAddress, StorageError> {
        let address = PageAddress::new(self.file, page);
        if !(2..=self.page_count).contains(&page) {
            return Err(corrupt(address, "the freelist names it, but the file has no such page"));
        }
        Ok(address)
    }
}

fn put<P: ChangePages>(
    pages: &mut P,
    address: PageAddress,
    at: usize,
    word: u32,
) -> Result<(), StorageError> {
    let code = PageOperation::BYTES;
    let operand = nandu_base::to_u32(at as u64);
    pages.change(address, PageOperation { code, operand, first: &word.to_be_bytes(), second: &[] })
}
