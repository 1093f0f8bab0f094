//! Which pages of a file are in use: the meta page, and a list of free pages.
//!
//! ```text
//!   page 1   kind │ version │ 4 magic (8) │ 12 page count │ 16 first free │ 20 free count
//!                                             free page or freed overflow page ─► next ─► … ─► 0
//! ```
//!
//! 1. Every page from 1 to the page count is the meta page, a node, an overflow page or free, and is
//!    only one of these. Pages past the count are nobody's, whatever they hold.
//! 2. A freed chain joins the list as a whole, with its pages as they are.

use super::node::{HEADER_BYTES, KIND_FREE, KIND_META, KIND_OVERFLOW, NEXT_AT, Shape, read_u32};
use super::{corrupt, edit::write_u32, operation, overflow::Chain};
use crate::{ChangePages, FileId, PageAddress, PageOperation, ReadPages, StorageError};
use nandu_base::to_index;

/// The page that tells which pages are in use.
pub(super) const META_PAGE: u32 = 1;
/// The root of the tree, for life.
pub(super) const ROOT_PAGE: u32 = 2;
const VERSION: u8 = 1;
const MAGIC: &[u8; 8] = b"nanduB+t";
const MAGIC_AT: usize = 4;

/// What the meta page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) page_count: u32,
    pub(super) free_first: u32,
    pub(super) free_count: u32,
}

impl Meta {
    /// Reads the meta page of `file`.
    pub(super) fn read<P: ReadPages>(pages: &P, file: FileId) -> Result<Self, StorageError> {
        let address = PageAddress::new(file, META_PAGE);
        pages.read(address, Self::from_page)?.map_err(|what| StorageError::NotADatabase {
            place: address.to_string(),
            what: what.to_owned(),
        })
    }

    fn from_page(page: &[u8]) -> Shape<Self> {
        if page.len() < HEADER_BYTES || page[0] != KIND_META || page[4..12] != *MAGIC {
            return Err("it does not begin a tree");
        }
        if page[1] != VERSION {
            return Err("it begins a tree of another version");
        }
        let word = |index: usize| read_u32(page, 12 + 4 * index);
        let meta = Self { page_count: word(0), free_first: word(1), free_count: word(2) };
        if meta.page_count < ROOT_PAGE || meta.free_count > meta.page_count - ROOT_PAGE {
            return Err("it counts fewer pages than there are");
        }
        if (meta.free_first == 0) != (meta.free_count == 0) {
            return Err("it counts free pages wrongly");
        }
        Ok(meta)
    }

    /// Makes `page` a meta page that says so.
    pub(super) fn write_to(self, page: &mut [u8]) -> Shape<()> {
        if page.len() < HEADER_BYTES {
            return Err("the page is too small");
        }
        page.fill(0);
        page[0] = KIND_META;
        page[1] = VERSION;
        page[MAGIC_AT..MAGIC_AT + 8].copy_from_slice(MAGIC);
        for (index, word) in
            [self.page_count, self.free_first, self.free_count].into_iter().enumerate()
        {
            write_u32(page, 12 + 4 * index, word);
        }
        Ok(())
    }

    /// Logs it as the new meta page of `file`.
    pub(super) fn write<P: ChangePages>(
        self,
        pages: &mut P,
        file: FileId,
    ) -> Result<(), StorageError> {
        let mut words = [0; 8];
        words[..4].copy_from_slice(&self.free_first.to_be_bytes());
        words[4..].copy_from_slice(&self.free_count.to_be_bytes());
        let code = operation::META;
        let change = PageOperation { code, operand: self.page_count, first: &words, second: &[] };
        pages.change(PageAddress::new(file, META_PAGE), change)
    }

    /// Takes `count` pages past the end.
    pub(super) fn extend(&mut self, count: usize) -> Result<std::ops::Range<u32>, StorageError> {
        let first = u64::from(self.page_count) + 1;
        let end = u32::try_from(first + count as u64).map_err(|_| StorageError::NoSpace {
            what: "a tree has at most 4,294,967,294 pages; choose a larger page size".to_owned(),
        })?;
        let pages = self.page_count + 1..end;
        self.page_count = end - 1;
        Ok(pages)
    }
}

/// Takes `count` pages, free ones first, and fills them with zeros.
pub(super) fn allocate<P: ChangePages>(
    pages: &mut P,
    file: FileId,
    count: usize,
) -> Result<Vec<u32>, StorageError> {
    let mut meta = Meta::read(pages, file)?;
    let mut taken = Vec::with_capacity(count.min(to_index(u64::from(meta.free_count))));
    while taken.len() < count && meta.free_count > 0 {
        let address = PageAddress::new(file, meta.free_first);
        if address.page <= ROOT_PAGE || address.page > meta.page_count {
            return Err(corrupt(address, "it is listed as free, but is no page of the tree"));
        }
        let next = pages.read(address, free_page)?.map_err(|what| corrupt(address, what))?;
        taken.push(address.page);
        meta.free_first = next;
        meta.free_count -= 1;
        if (meta.free_first == 0) != (meta.free_count == 0) {
            return Err(corrupt(address, "the list of free pages is not as long as counted"));
        }
    }
    for &page in &taken {
        pages.create(PageAddress::new(file, page))?;
    }
    for page in meta.extend(count - taken.len())? {
        pages.create_at_end(PageAddress::new(file, page))?;
        taken.push(page);
    }
    meta.write(pages, file)?;
    Ok(taken)
}

/// Takes one page, filled with zeros.
pub(super) fn allocate_one<P: ChangePages>(
    pages: &mut P,
    file: FileId,
) -> Result<u32, StorageError> {
    Ok(allocate(pages, file, 1)?[0])
}

/// The successor of a page in the list of free pages.
pub(super) fn free_page(page: &[u8]) -> Shape<u32> {
    match page.first() {
        Some(&(KIND_FREE | KIND_OVERFLOW)) if page.len() >= HEADER_BYTES => {
            Ok(read_u32(page, NEXT_AT))
        }
        _ => Err("it is listed as free, but in use"),
    }
}

/// Puts a page on the list of free ones.
pub(super) fn release<P: ChangePages>(
    pages: &mut P,
    file: FileId,
    page: u32,
) -> Result<(), StorageError> {
    let mut meta = Meta::read(pages, file)?;
    let free =
        PageOperation { code: operation::FREE, operand: meta.free_first, first: &[], second: &[] };
    pages.change(PageAddress::new(file, page), free)?;
    meta.free_first = page;
    meta.free_count = meta.free_count.saturating_add(1);
    meta.write(pages, file)
}

/// Gives the pages of a chain back, touching only the last one.
pub(super) fn release_chain<P: ChangePages>(
    pages: &mut P,
    file: FileId,
    chain: Chain,
) -> Result<(), StorageError> {
    let mut meta = Meta::read(pages, file)?;
    let link =
        PageOperation { code: operation::LINK, operand: meta.free_first, first: &[], second: &[] };
    pages.change(PageAddress::new(file, chain.last), link)?;
    meta.free_first = chain.first;
    meta.free_count = meta.free_count.saturating_add(chain.page_count(pages.usable_bytes()));
    meta.write(pages, file)
}
