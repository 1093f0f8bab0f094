//! Bulk load: a tree from sorted keys, each page written once, in the order of its number (Graefe 2011,
//! section 4.5).
//!
//! ```text
//!   level 2   [ staged                      ]        a full node is written, and its separator
//!   level 1   [ full ] [ staged             ]        and page go to the node staged above
//!   leaves    [ full ] [ full ] [ staged    ] ◄── push
//! ```
//!
//! 1. Until `finish` the tree is empty: pages are taken past those that the meta page counts, so they
//!    are nobody's, and what becomes of them does not matter. A load may take many actions.
//! 2. A node is filled as far as was asked for, but has at least one cell; the last one of each level
//!    takes what is left.

use super::allocate::{Meta, ROOT_PAGE};
use super::edit::{self, Links};
use super::node::{HEADER_BYTES, Payload, SLOT_BYTES, Shape, common_bytes, fits_inline, rest_of};
use super::overflow;
use super::shape::write_image;
use super::{Tree, Undo, corrupt};
use crate::{ChangePages, ReadPages, StorageError};
use std::cmp::Ordering;
use std::ops::Range;

/// The least fill that makes sense, in percent: a node with less would be merged.
const FILL_PERCENT_MIN: usize = 50;

/// A load on its way; see [`Tree::bulk_load`].
#[derive(Debug)]
pub struct BulkLoader {
    tree: Tree,
    /// The meta page as it was, and as it will be.
    before: Meta,
    meta: Meta,
    fill_bytes: usize,
    levels: Vec<Staged>,
    last_key: Option<Vec<u8>>,
    image: Vec<u8>,
}

/// A node that is being gathered.
#[derive(Debug, Default)]
struct Staged {
    /// Where it will lie; 0 as long as that is open.
    page: u32,
    first_child: u32,
    /// The separator that stands before the node in its parent; no key of the node is smaller.
    lower: Vec<u8>,
    /// Keys and payloads, one after the other.
    bytes: Vec<u8>,
    cells: Vec<StagedCell>,
    prefix_bytes: usize,
    /// Bytes of slots and cells under that prefix.
    cells_bytes: usize,
}

#[derive(Debug)]
struct StagedCell {
    key: Range<usize>,
    payload: Range<usize>,
    kind: CellKind,
}

#[derive(Clone, Copy, Debug)]
enum CellKind {
    Inline,
    Chain,
    Child(u32),
}

impl Tree {
    /// Begins to fill this tree, which is empty, with sorted records, nodes to `fill_percent` of their
    /// bytes (50 to 100). Nothing else may change the tree until the load is finished or given up.
    ///
    /// # Errors
    /// If the tree has keys, the fill is out of range, or pages cannot be read.
    pub fn bulk_load<P: ReadPages>(
        &self,
        pages: &P,
        fill_percent: usize,
    ) -> Result<BulkLoader, StorageError> {
        if !(FILL_PERCENT_MIN..=100).contains(&fill_percent) {
            let what = format!("a fill of {fill_percent} % is not from 50 to 100");
            return Err(StorageError::InvalidSetting { what });
        }
        self.check_empty(pages)?;
        let meta = Meta::read(pages, self.file())?;
        let image = vec![0; pages.usable_bytes()];
        Ok(BulkLoader {
            tree: *self,
            before: meta,
            meta,
            fill_bytes: (image.len() - HEADER_BYTES) * fill_percent / 100,
            levels: vec![Staged::default()],
            last_key: None,
            image,
        })
    }

    fn check_empty<P: ReadPages>(&self, pages: &P) -> Result<(), StorageError> {
        if self.node(pages, ROOT_PAGE, |root| Ok(root.is_leaf() && root.count() == 0))? {
            return Ok(());
        }
        Err(StorageError::Exists { what: "the content of a tree that is to be loaded".to_owned() })
    }
}

impl BulkLoader {
    /// Adds a record; its key is larger than the last one.
    ///
    /// # Errors
    /// If it is not, the key or value is too large, or pages cannot be made.
    pub fn push<P: ChangePages>(
        &mut self,
        pages: &mut P,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StorageError> {
        self.tree.check_sizes(pages, key, value)?;
        let separator = match &self.last_key {
            Some(last) => {
                let common = common_bytes(last, key);
                match last[common..].first().cmp(&key[common..].first()) {
                    Ordering::Less => &key[..common + 1],
                    Ordering::Equal => {
                        let what = "a key of a bulk load".to_owned();
                        return Err(StorageError::Exists { what });
                    }
                    Ordering::Greater => {
                        let what = "the keys of a bulk load are not in ascending order".to_owned();
                        return Err(StorageError::InvalidSetting { what });
                    }
                }
            }
            None => &[],
        };
        let chain;
        let (payload, kind) = if fits_inline(pages.usable_bytes(), key, value) {
            (value, CellKind::Inline)
        } else {
            let numbers: Vec<u32> =
                self.meta.extend(overflow::page_count(pages.usable_bytes(), value))?.collect();
            for &number in &numbers {
                pages.create(self.tree.address(number))?;
            }
            chain = overflow::write_to(pages, self.tree.file(), value, &numbers)?.to_bytes();
            (&chain[..], CellKind::Chain)
        };
        if !self.levels[0].add(key, payload, kind, self.fill_bytes) {
            if self.levels[0].page == 0 {
                self.levels[0].page = self.meta.extend(1)?.start;
            }
            let next = self.meta.extend(1)?.start;
            self.flush(pages, 0, next)?;
            self.levels[0].page = next;
            self.levels[0].lower = separator.to_vec();
            self.levels[0].add(key, payload, kind, self.fill_bytes);
        }
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    /// Makes what was pushed the content of the tree. What takes that back is appended to `undo`.
    ///
    /// # Errors
    /// If the tree was changed since the load began, or pages cannot be read or changed.
    pub fn finish<P: ChangePages>(
        mut self,
        pages: &mut P,
        undo: &mut Vec<u8>,
    ) -> Result<(), StorageError> {
        self.tree.check_empty(pages)?;
        if Meta::read(pages, self.tree.file())? != self.before {
            let what = "the content of a tree that is being loaded".to_owned();
            return Err(StorageError::Exists { what });
        }
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.flush(pages, level, 0)?;
            level += 1;
        }
        let root = std::mem::take(&mut self.levels[level]);
        self.build(&root, level, 0)?;
        write_image(&self.tree, pages, ROOT_PAGE, &self.image)?;
        self.meta.write(pages, self.tree.file())?;
        Undo::Clear.encode(undo);
        Ok(())
    }

    /// Writes the node staged at `level`, and tells the one above.
    fn flush<P: ChangePages>(
        &mut self,
        pages: &mut P,
        level: usize,
        next: u32,
    ) -> Result<(), StorageError> {
        let node = std::mem::take(&mut self.levels[level]);
        let page = if node.page == 0 { self.meta.extend(1)?.start } else { node.page };
        self.build(&node, level, next)?;
        pages.create(self.tree.address(page))?;
        write_image(&self.tree, pages, page, &self.image)?;
        if self.levels.len() == level + 1 {
            self.levels.push(Staged { first_child: page, ..Staged::default() });
            return Ok(());
        }
        let kind = CellKind::Child(page);
        if !self.levels[level + 1].add(&node.lower, &[], kind, self.fill_bytes) {
            self.flush(pages, level + 1, 0)?;
            let (first_child, lower) = (page, node.lower);
            self.levels[level + 1] = Staged { first_child, lower, ..Staged::default() };
        }
        Ok(())
    }

    fn build(&mut self, node: &Staged, level: usize, next: u32) -> Result<(), StorageError> {
        let level = u8::try_from(level).expect("a level has at least twice the pages of the next");
        let links = Links { level, next, first_child: node.first_child };
        node.write(&mut self.image, links)
            .map_err(|what| corrupt(self.tree.address(node.page), what))
    }
}

impl CellKind {
    fn payload(self, bytes: &[u8]) -> Payload<'_> {
        match self {
            Self::Inline => Payload::Inline(bytes),
            Self::Chain => Payload::Chain(bytes),
            Self::Child(page) => Payload::Child(page),
        }
    }
}

impl Staged {
    fn key(&self, cell: usize) -> &[u8] {
        &self.bytes[self.cells[cell].key.clone()]
    }

    /// The prefix with one more key.
    fn prefix_with(&self, key: &[u8]) -> usize {
        match self.cells.len() {
            0 => key.len(),
            _ => common_bytes(&self.key(0)[..self.prefix_bytes], key),
        }
    }

    /// Bytes of slots and cells under a prefix of another length.
    fn cells_bytes_under(&self, prefix_bytes: usize) -> usize {
        if prefix_bytes == self.prefix_bytes {
            return self.cells_bytes;
        }
        let bytes = |cell: &StagedCell| {
            let suffix = &self.bytes[cell.key.clone()][prefix_bytes..];
            cell_bytes(suffix, &self.bytes[cell.payload.clone()], cell.kind)
        };
        self.cells.iter().map(bytes).sum()
    }

    /// Adds a cell, if it stays within `fill_bytes`; the first one always does.
    fn add(&mut self, key: &[u8], payload: &[u8], kind: CellKind, fill_bytes: usize) -> bool {
        let prefix_bytes = self.prefix_with(key);
        let cells_bytes =
            self.cells_bytes_under(prefix_bytes) + cell_bytes(&key[prefix_bytes..], payload, kind);
        if !self.cells.is_empty() && prefix_bytes + cells_bytes > fill_bytes {
            return false;
        }
        (self.cells_bytes, self.prefix_bytes) = (cells_bytes, prefix_bytes);
        let key_at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let payload_at = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        let payload = payload_at..self.bytes.len();
        self.cells.push(StagedCell { key: key_at..payload_at, payload, kind });
        true
    }

    fn write(&self, page: &mut [u8], links: Links) -> Shape<()> {
        let prefix = if self.cells.is_empty() { &[] } else { &self.key(0)[..self.prefix_bytes] };
        edit::format(page, links, prefix)?;
        for cell in &self.cells {
            let payload = cell.kind.payload(&self.bytes[cell.payload.clone()]);
            edit::append(page, &self.bytes[cell.key.clone()], &payload)?;
        }
        Ok(())
    }
}

fn cell_bytes(suffix: &[u8], payload: &[u8], kind: CellKind) -> usize {
    SLOT_BYTES + rest_of(suffix).len() + kind.payload(payload).stored_bytes()
}
