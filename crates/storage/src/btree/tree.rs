//! The handle of a tree: finding, inserting, replacing and deleting one key.
//!
//! 1. A change is one operation on one leaf, unless the leaf has to be split or merged first or after;
//!    each split and merge by itself leaves a whole tree, and the change looks for its place again.

use super::allocate::{META_PAGE, Meta, ROOT_PAGE, release_chain};
use super::node::{Node, Payload, Shape, fits_inline, key_bytes_max};
use super::operation::{CHAIN, FORMAT, INSERT, LEVEL_MAX, REMOVE, REPLACE};
use super::overflow::{self, Chain, VALUE_BYTES_MAX};
use super::undo::Undo;
use super::{corrupt, edit, shape};
use crate::{ChangePages, FileId, PageAddress, PageOperation, ReadPages, StorageError};
use nandu_base::to_u32;

/// Splits that one change may need. A node of 65,520 bytes is halved to two cells in 13 steps, on each
/// of at most 32 levels.
pub(super) const SPLIT_COUNT_MAX: u32 = 512;

/// A B+-tree in a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    file: FileId,
}

/// The nodes from the root to a leaf, and which child of each was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    steps: [(u32, u16); LEVEL_MAX as usize + 1],
    length: usize,
}

impl Path {
    pub(super) const fn new() -> Self {
        Self { steps: [(0, 0); LEVEL_MAX as usize + 1], length: 0 }
    }

    fn push(&mut self, page: u32) {
        self.steps[self.length] = (page, 0);
        self.length += 1;
    }

    /// How many nodes there are; the leaf is the last one.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The page of the node so far below the root.
    pub(super) fn page(&self, depth: usize) -> u32 {
        self.steps[depth].0
    }

    /// Which child of the node so far below the root was taken.
    pub(super) fn child_index(&self, depth: usize) -> usize {
        usize::from(self.steps[depth].1)
    }

    pub(super) fn leaf(&self) -> u32 {
        self.steps[self.length - 1].0
    }
}

/// What a walk does after a node.
enum Step<T> {
    Down { level: u8, child: u32, index: usize },
    Leaf(T),
}

/// What stands for a key.
enum Found {
    Inline,
    Chain(Chain),
}

/// What an insert finds in the leaf.
enum Room {
    Taken,
    Free(usize),
    None,
}

impl Tree {
    /// Makes an empty tree in a file without pages.
    ///
    /// # Errors
    /// If pages cannot be made.
    pub fn create<P: ChangePages>(pages: &mut P, file: FileId) -> Result<Self, StorageError> {
        pages.create(PageAddress::new(file, META_PAGE))?;
        pages.create(PageAddress::new(file, ROOT_PAGE))?;
        let tree = Self { file };
        tree.clear(pages)?;
        Ok(tree)
    }

    /// The tree in `file`.
    ///
    /// # Errors
    /// If the file does not begin as a tree does.
    pub fn open<P: ReadPages>(pages: &P, file: FileId) -> Result<Self, StorageError> {
        Meta::read(pages, file)?;
        Ok(Self { file })
    }

    /// The tree in `file`, which is known to be one.
    #[must_use]
    pub const fn at(file: FileId) -> Self {
        Self { file }
    }

    /// The file that the tree lies in.
    #[must_use]
    pub const fn file(&self) -> FileId {
        self.file
    }

    /// The longest key on pages with so many usable bytes: about a quarter of them.
    #[must_use]
    pub const fn key_bytes_max(usable_bytes: usize) -> usize {
        key_bytes_max(usable_bytes)
    }

    /// Pages of the file that are the tree's, the meta page and free ones included.
    ///
    /// # Errors
    /// If the meta page cannot be read.
    pub fn page_count<P: ReadPages>(&self, pages: &P) -> Result<u32, StorageError> {
        Ok(Meta::read(pages, self.file)?.page_count)
    }

    /// Pages of nodes and chains: those that are neither the meta page nor free.
    ///
    /// # Errors
    /// If the meta page cannot be read.
    pub fn used_page_count<P: ReadPages>(&self, pages: &P) -> Result<u32, StorageError> {
        let Meta { page_count, free_count, .. } = Meta::read(pages, self.file)?;
        Ok(page_count.saturating_sub(free_count + META_PAGE))
    }

    /// Forgets all keys and all pages but the first two.
    ///
    /// # Errors
    /// If pages cannot be changed.
    pub fn clear<P: ChangePages>(&self, pages: &mut P) -> Result<(), StorageError> {
        Meta { page_count: ROOT_PAGE, free_first: 0, free_count: 0 }.write(pages, self.file)?;
        let root = PageOperation { code: FORMAT, operand: 0, first: &[0; 8], second: &[] };
        pages.change(self.address(ROOT_PAGE), root)
    }

    pub(super) fn address(&self, page: u32) -> PageAddress {
        PageAddress::new(self.file, page)
    }

    /// Lends a node to `look`.
    pub(super) fn node<P: ReadPages, R>(
        &self,
        pages: &P,
        page: u32,
        look: impl FnOnce(Node<'_>) -> Shape<R>,
    ) -> Result<R, StorageError> {
        let address = self.address(page);
        pages
            .read(address, |bytes| Node::open(bytes).and_then(look))?
            .map_err(|what| corrupt(address, what))
    }

    /// Lends the value of `key` to `look`, unless there is no such key. As in [`ReadPages::read`],
    /// `look` must not read pages.
    ///
    /// # Errors
    /// If a page cannot be read, or is no page of a tree.
    pub fn get<P: ReadPages, R>(
        &self,
        pages: &P,
        key: &[u8],
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StorageError> {
        let mut look = Some(look);
        let mut answer = None;
        let found = self.walk(pages, |node| {
            if !node.is_leaf() {
                return down(&node, key);
            }
            let place = node.search(key)?;
            if !place.found {
                return Ok(Step::Leaf(None));
            }
            match node.payload(place.slot)? {
                Payload::Chain(chain) => {
                    Ok(Step::Leaf(Some(Found::Chain(Chain::from_bytes(chain)?))))
                }
                Payload::Inline(value) => {
                    answer = look.take().map(|look| look(value));
                    Ok(Step::Leaf(Some(Found::Inline)))
                }
                Payload::Child(_) => Err("a leaf has no children"),
            }
        })?;
        if let Some(Found::Chain(chain)) = found {
            let mut value = Vec::new();
            overflow::read(pages, self.file, chain, &mut value)?;
            answer = look.take().map(|look| look(&value));
        }
        Ok(answer)
    }

    /// Goes down from the root; `visit` says where.
    fn walk<P: ReadPages, T>(
        &self,
        pages: &P,
        mut visit: impl FnMut(Node<'_>) -> Shape<Step<T>>,
    ) -> Result<T, StorageError> {
        let (mut page, mut above) = (ROOT_PAGE, None);
        loop {
            let step = self.node(pages, page, |node| {
                check_level(&node, above)?;
                visit(node)
            })?;
            match step {
                Step::Leaf(answer) => return Ok(answer),
                Step::Down { level, child, .. } => (page, above) = (child, Some(level)),
            }
        }
    }

    /// As [`Self::walk`], and notes the path to the leaf that is the place of `key`; `visit` looks at
    /// the leaf.
    pub(super) fn walk_to<P: ReadPages, T>(
        &self,
        pages: &P,
        key: &[u8],
        path: &mut Path,
        visit: impl FnOnce(Node<'_>) -> Shape<T>,
    ) -> Result<T, StorageError> {
        path.length = 0;
        let mut visit = Some(visit);
        let (mut page, mut above) = (ROOT_PAGE, None);
        loop {
            let step = self.node(pages, page, |node| {
                check_level(&node, above)?;
                match (node.is_leaf(), visit.take()) {
                    (true, Some(visit)) => Ok(Step::Leaf(visit(node)?)),
                    (_, unused) => {
                        visit = unused;
                        down(&node, key)
                    }
                }
            })?;
            path.push(page);
            match step {
                Step::Leaf(answer) => return Ok(answer),
                Step::Down { level, child, index } => {
                    path.steps[path.length - 1].1 = u16::try_from(index).unwrap_or(u16::MAX);
                    (page, above) = (child, Some(level));
                }
            }
        }
    }

    /// Adds a key that is not there yet. Returns `false`, and changes nothing, if it is.
    /// What takes the change back is appended to `undo`.
    ///
    /// # Errors
    /// If the key or value is too large, or pages cannot be read or changed.
    pub fn insert<P: ChangePages>(
        &self,
        pages: &mut P,
        key: &[u8],
        value: &[u8],
        undo: &mut Vec<u8>,
    ) -> Result<bool, StorageError> {
        self.check_sizes(pages, key, value)?;
        let mut path = Path::new();
        let fits_inline = fits_inline(pages.usable_bytes(), key, value);
        let mut chain_bytes = None;
        for _ in 0..SPLIT_COUNT_MAX {
            let room = self.walk_to(pages, key, &mut path, |node| {
                let place = node.search(key)?;
                let payload =
                    if fits_inline { Payload::Inline(value) } else { Payload::Chain(&[]) };
                Ok(match place.found {
                    true => Room::Taken,
                    false if node.has_room(key, &payload)? => Room::Free(place.slot),
                    false => Room::None,
                })
            })?;
            match room {
                Room::Taken => return Ok(false),
                Room::None => shape::split(self, pages, &path, key)?,
                Room::Free(slot) => {
                    if !fits_inline && chain_bytes.is_none() {
                        chain_bytes = Some(overflow::write(pages, self.file, value)?.to_bytes());
                    }
                    let (flag, payload) = stored(&chain_bytes, value);
                    let operand = to_u32(slot as u64) | flag;
                    let code = INSERT;
                    let operation = PageOperation { code, operand, first: key, second: payload };
                    pages.change(self.address(path.leaf()), operation)?;
                    Undo::Delete { key }.encode(undo);
                    return Ok(true);
                }
            }
        }
        Err(corrupt(self.address(path.leaf()), "it has no room after many splits"))
    }

    /// Gives a key that is there another value. Returns `false`, and changes nothing, if it is not.
    /// What takes the change back is appended to `undo`.
    ///
    /// # Errors
    /// If the value is too large, or pages cannot be read or changed.
    pub fn update<P: ChangePages>(
        &self,
        pages: &mut P,
        key: &[u8],
        value: &[u8],
        undo: &mut Vec<u8>,
    ) -> Result<bool, StorageError> {
        self.check_sizes(pages, key, value)?;
        let mut path = Path::new();
        let Some((slot, old)) = self.find_old(pages, key, &mut path, undo)? else {
            return Ok(false);
        };
        if let Found::Chain(chain) = old {
            release_chain(pages, self.file, chain)?;
        }
        let fits_inline = fits_inline(pages.usable_bytes(), key, value);
        let chain_bytes = match fits_inline {
            true => None,
            false => Some(overflow::write(pages, self.file, value)?.to_bytes()),
        };
        let (flag, payload) = stored(&chain_bytes, value);
        let leaf = path.leaf();
        let fits = self.node(pages, leaf, |node| {
            let payload =
                if fits_inline { Payload::Inline(payload) } else { Payload::Chain(payload) };
            edit::has_room_instead(&node, slot, &payload)
        })?;
        let operand = to_u32(slot as u64) | flag;
        if fits {
            let operation = PageOperation { code: REPLACE, operand, first: &[], second: payload };
            pages.change(self.address(leaf), operation)?;
            shape::shrink(self, pages, &path)?;
            return Ok(true);
        }
        let operation =
            PageOperation { code: REMOVE, operand: operand & !CHAIN, first: &[], second: &[] };
        pages.change(self.address(leaf), operation)?;
        self.put_back(pages, key, flag, payload, &mut path)?;
        Ok(true)
    }

    /// Adds a cell for a key whose cell was just taken out.
    fn put_back<P: ChangePages>(
        &self,
        pages: &mut P,
        key: &[u8],
        flag: u32,
        payload: &[u8],
        path: &mut Path,
    ) -> Result<(), StorageError> {
        for _ in 0..SPLIT_COUNT_MAX {
            let slot = self.walk_to(pages, key, path, |node| {
                let cell =
                    if flag == 0 { Payload::Inline(payload) } else { Payload::Chain(payload) };
                let slot = node.search(key)?.slot;
                Ok(node.has_room(key, &cell)?.then_some(slot))
            })?;
            let Some(slot) = slot else {
                shape::split(self, pages, path, key)?;
                continue;
            };
            let operand = to_u32(slot as u64) | flag;
            let operation = PageOperation { code: INSERT, operand, first: key, second: payload };
            return pages.change(self.address(path.leaf()), operation);
        }
        Err(corrupt(self.address(path.leaf()), "it has no room after many splits"))
    }

    /// Adds a key, or gives it another value if it is there already; returns whether it was. What
    /// takes the change back is appended to `undo`.
    ///
    /// # Errors
    /// If the key or value is too large, or pages cannot be read or changed.
    pub fn upsert<P: ChangePages>(
        &self,
        pages: &mut P,
        key: &[u8],
        value: &[u8],
        undo: &mut Vec<u8>,
    ) -> Result<bool, StorageError> {
        Ok(!self.insert(pages, key, value, undo)? && self.update(pages, key, value, undo)?)
    }

    /// Takes a key out. Returns `false` if it is not there. What takes the change back is appended to
    /// `undo`.
    ///
    /// # Errors
    /// If pages cannot be read or changed.
    pub fn delete<P: ChangePages>(
        &self,
        pages: &mut P,
        key: &[u8],
        undo: &mut Vec<u8>,
    ) -> Result<bool, StorageError> {
        let mut path = Path::new();
        let Some((slot, old)) = self.find_old(pages, key, &mut path, undo)? else {
            return Ok(false);
        };
        if let Found::Chain(chain) = old {
            release_chain(pages, self.file, chain)?;
        }
        let operand = to_u32(slot as u64);
        let operation = PageOperation { code: REMOVE, operand, first: &[], second: &[] };
        pages.change(self.address(path.leaf()), operation)?;
        shape::shrink(self, pages, &path)?;
        Ok(true)
    }

    /// Finds a key, and appends what puts its present value back to `undo`.
    fn find_old<P: ReadPages>(
        &self,
        pages: &P,
        key: &[u8],
        path: &mut Path,
        undo: &mut Vec<u8>,
    ) -> Result<Option<(usize, Found)>, StorageError> {
        let found = self.walk_to(pages, key, path, |node| {
            let place = node.search(key)?;
            if !place.found {
                return Ok(None);
            }
            Undo::encode_put(key, undo);
            Ok(Some((
                place.slot,
                match node.payload(place.slot)? {
                    Payload::Chain(chain) => Found::Chain(Chain::from_bytes(chain)?),
                    Payload::Inline(value) => {
                        undo.extend_from_slice(value);
                        Found::Inline
                    }
                    Payload::Child(_) => return Err("a leaf has no children"),
                },
            )))
        })?;
        if let Some((_, Found::Chain(chain))) = found {
            overflow::read(pages, self.file, chain, undo)?;
        }
        Ok(found)
    }

    pub(super) fn check_sizes<P: ReadPages>(
        &self,
        pages: &P,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StorageError> {
        for (what, found, limit) in [
            ("a key", key.len(), key_bytes_max(pages.usable_bytes())),
            ("a value", value.len(), VALUE_BYTES_MAX),
        ] {
            if found > limit {
                let (found_bytes, limit_bytes) = (found as u64, limit as u64);
                return Err(StorageError::TooLarge {
                    what: what.to_owned(),
                    found_bytes,
                    limit_bytes,
                });
            }
        }
        Ok(())
    }
}

/// The step from an inner node towards a key.
fn down<T>(node: &Node<'_>, key: &[u8]) -> Shape<Step<T>> {
    let index = node.child_index(key)?;
    Ok(Step::Down { level: node.level(), child: node.child(index)?, index })
}

/// Invariant 3: walks end.
#[inline]
pub(super) fn check_level(node: &Node<'_>, above: Option<u8>) -> Shape<()> {
    match above {
        None if node.level() <= LEVEL_MAX => Ok(()),
        Some(above) if above.checked_sub(1) == Some(node.level()) => Ok(()),
        _ => Err("it is not at the level that its parent says"),
    }
}

/// A cell's flag and bytes for a value.
fn stored<'a>(chain: &'a Option<[u8; 16]>, value: &'a [u8]) -> (u32, &'a [u8]) {
    match chain {
        Some(chain) => (CHAIN, chain),
        None => (0, value),
    }
}
