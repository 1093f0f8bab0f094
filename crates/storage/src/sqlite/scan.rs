//! All rows of a table in the order of their rowids, leaf by leaf, with the next leaves fetched while
//! one is looked at; and the leaves' page numbers in runs, for those who read in larger pieces.
//!
//! ```text
//!   levels[0]  children of the root:     a [b] c
//!   levels[1]  children of b:            d  e [f] g h …   ◄── FETCH_AHEAD of them asked for early
//!                                             └ the leaf that comes next
//! ```
//!
//! 1. `levels[..depth]` is the path to the next leaf; each keeps those children that still come.
//! 2. Rowids rise strictly from leaf to leaf; the tree's other limits are those of `tree.rs`.

use super::record::RecordView;
use super::tree::{LongRow, TableTree};
use super::tree_page::{DEPTH_MAX, TreePage, TreePageKind, corrupt};
use crate::{PageAddress, ReadPages, StorageError};
use std::ops::{Range, RangeInclusive};

/// How many leaves are asked for before they are wanted.
const FETCH_AHEAD: usize = 32;

/// A scan under way. It holds no page between two calls.
#[derive(Debug)]
pub struct Scan {
    tree: TableTree,
    rowids: RangeInclusive<i64>,
    levels: Vec<Level>,
    depth: usize,
    started: bool,
    last_rowid: Option<i64>,
    overflow_pages_left: u32,
}

/// The children of one interior page.
#[derive(Debug, Default)]
struct Level {
    children: Vec<PageAddress>,
    next: usize,
    above_leaves: bool,
}

/// What was found on a page.
enum Found {
    Interior,
    Leaf,
    Long(LongRow, usize),
}

impl TableTree {
    /// Begins to scan the rows whose rowids lie in `rowids`.
    #[must_use]
    pub fn scan(&self, rowids: RangeInclusive<i64>) -> Scan {
        Scan {
            tree: *self,
            rowids,
            levels: Vec::new(),
            depth: 0,
            started: false,
            last_rowid: None,
            overflow_pages_left: self.page_count(),
        }
    }

    /// All rows, in the order of their rowids. `look` must not read pages itself.
    ///
    /// # Errors
    /// As [`Scan::next_leaf`].
    pub fn scan_all<P: ReadPages>(
        &self,
        pages: &P,
        mut look: impl FnMut(i64, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let mut scan = self.scan(i64::MIN..=i64::MAX);
        while scan.next_leaf(pages, &mut look)? {}
        Ok(())
    }

    /// The page numbers of all leaves in scan order, as runs of consecutive ones, each of at most
    /// `run_pages_max`; found from interior pages alone, but for one leaf.
    ///
    /// # Errors
    /// If a page cannot be read, or breaks a rule of the format.
    pub fn leaf_runs<P: ReadPages>(
        &self,
        pages: &P,
        run_pages_max: u32,
    ) -> Result<Vec<Range<u32>>, StorageError> {
        let mut level = vec![self.address(self.root())?];
        for _ in 0..self.interior_level_count(pages)? {
            let mut below = Vec::new();
            pages.prefetch(&level);
            for &address in &level {
                pages.read(address, |bytes| {
                    let view = TreePage::new(bytes, self.usable_bytes(), address)?;
                    for index in 0..=view.cell_count() {
                        below.push(self.address(view.child(index)?)?);
                    }
                    Ok(())
                })??;
                if below.len() as u64 > u64::from(self.page_count()) {
                    return Err(corrupt(
                        address,
                        "its tree has more leaves than the file has pages",
                    ));
                }
            }
            level = below;
        }
        let mut runs: Vec<Range<u32>> = Vec::new();
        for PageAddress { page, .. } in level {
            match runs.last_mut() {
                Some(run) if run.end == page && run.end - run.start < run_pages_max => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        Ok(runs)
    }

    /// How many levels lie above the leaves.
    ///
    /// # Errors
    /// If a page cannot be read, or breaks a rule of the format.
    pub fn interior_level_count<P: ReadPages>(&self, pages: &P) -> Result<usize, StorageError> {
        let mut address = self.address(self.root())?;
        for depth in 0..=DEPTH_MAX {
            let child = pages.read(address, |bytes| {
                let view = TreePage::new(bytes, self.usable_bytes(), address)?;
                match view.kind() {
                    TreePageKind::TableLeaf => Ok(None),
                    TreePageKind::TableInterior => view.child(0).map(Some),
                    _ => Err(view.corrupt("it belongs to an index")),
                }
            })??;
            match child {
                Some(page) => address = self.address(page)?,
                None => return Ok(depth),
            }
        }
        Err(self.too_deep())
    }
}

impl Scan {
    /// Lends the rows of the next leaf to `look`, which must not read pages itself; false at the end.
    ///
    /// # Errors
    /// If a page cannot be read, or breaks a rule of the format.
    pub fn next_leaf<P: ReadPages>(
        &mut self,
        pages: &P,
        mut look: impl FnMut(i64, RecordView<'_>),
    ) -> Result<bool, StorageError> {
        while let Some(address) = self.next_page(pages)? {
            let mut start = 0;
            loop {
                match pages
                    .read(address, |bytes| self.visit(bytes, address, start, &mut look))??
                {
                    Found::Interior => break,
                    Found::Leaf => {
                        self.note_leaf(pages);
                        return Ok(true);
                    }
                    Found::Long(row, next) => {
                        self.visit_long(pages, address, row, &mut look)?;
                        start = next;
                    }
                }
            }
        }
        Ok(false)
    }

    /// The page that comes next, and the fetching of those after it.
    fn next_page<P: ReadPages>(&mut self, pages: &P) -> Result<Option<PageAddress>, StorageError> {
        if !self.started {
            self.started = true;
            return self.tree.address(self.tree.root()).map(Some);
        }
        while self.depth > 0 {
            let level = &mut self.levels[self.depth - 1];
            if let Some(&address) = level.children.get(level.next) {
                level.next += 1;
                if level.above_leaves && level.next.is_multiple_of(FETCH_AHEAD / 2) {
                    let first = level.next + FETCH_AHEAD / 2;
                    let end = level.children.len().min(first + FETCH_AHEAD / 2);
                    if first < end {
                        pages.prefetch(&level.children[first..end]);
                    }
                }
                return Ok(Some(address));
            }
            self.depth -= 1;
        }
        Ok(None)
    }

    /// After the first leaf below a parent: the ones after it are going to be wanted.
    fn note_leaf<P: ReadPages>(&mut self, pages: &P) {
        let Some(level) = self.depth.checked_sub(1).map(|index| &mut self.levels[index]) else {
            return;
        };
        if !level.above_leaves {
            level.above_leaves = true;
            let end = level.children.len().min(level.next + FETCH_AHEAD);
            pages.prefetch(&level.children[level.next..end]);
        }
    }

    fn visit(
        &mut self,
        bytes: &[u8],
        address: PageAddress,
        start: usize,
        look: &mut impl FnMut(i64, RecordView<'_>),
    ) -> Result<Found, StorageError> {
        let view = TreePage::new(bytes, self.tree.usable_bytes(), address)?;
        match view.kind() {
            TreePageKind::TableInterior => {
                self.push_level(&view, address)?;
                return Ok(Found::Interior);
            }
            TreePageKind::TableLeaf => {}
            _ => return Err(view.corrupt("it belongs to an index")),
        }
        if view.cell_count() == 0 && self.depth > 0 {
            return Err(view.corrupt("it is an empty leaf"));
        }
        let first = match view.find_row(*self.rowids.start())? {
            Ok(index) | Err(index) => index.max(start),
        };
        for index in first..view.cell_count() {
            let cell = view.leaf_cell(index)?;
            if cell.rowid > *self.rowids.end() {
                self.depth = 0;
                break;
            }
            if self.last_rowid.is_some_and(|last| last >= cell.rowid) {
                return Err(view.corrupt("its rowids do not rise"));
            }
            self.last_rowid = Some(cell.rowid);
            if cell.overflow_page != 0 {
                return Ok(Found::Long(LongRow::of(&cell), index + 1));
            }
            self.tree.with_record(cell.local, address, |record| look(cell.rowid, record))?;
        }
        Ok(Found::Leaf)
    }

    fn visit_long<P: ReadPages>(
        &mut self,
        pages: &P,
        address: PageAddress,
        row: LongRow,
        look: &mut impl FnMut(i64, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let rowid = row.rowid();
        let chain = self.tree.chain_page_count(row.payload_bytes(), row.local_bytes())?;
        let Some(left) = self.overflow_pages_left.checked_sub(chain) else {
            let what = "its rows have more overflow pages than the file has pages";
            return Err(corrupt(address, what));
        };
        self.overflow_pages_left = left;
        let payload = self.tree.read_long(pages, row)?;
        self.tree.with_record(&payload, address, |record| look(rowid, record))
    }

    /// Makes the children of an interior page those that come next.
    fn push_level(
        &mut self,
        view: &TreePage<'_>,
        address: PageAddress,
    ) -> Result<(), StorageError> {
        // Only the schema's root may have one child: page 1 has less room than others.
        if view.cell_count() == 0 && address.page != 1 {
            return Err(view.corrupt("it has one child only"));
        }
        if self.depth == DEPTH_MAX {
            return Err(self.tree.too_deep());
        }
        let first = view.find_child(*self.rowids.start())?;
        let last = view.find_child(*self.rowids.end())?;
        if self.levels.len() == self.depth {
            self.levels.push(Level::default());
        }
        let level = &mut self.levels[self.depth];
        self.depth += 1;
        level.next = 0;
        level.above_leaves = false;
        level.children.clear();
        for index in first..=last.max(first) {
            level.children.push(self.tree.address(view.child(index)?)?);
        }
        Ok(())
    }
}
