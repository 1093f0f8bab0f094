//! Whether a table is sound: every page of its tree, its overflow chains and its freelist, each used
//! once; and how full it is.
//!
//! 1. What is sound here is sound for SQLite's `integrity_check`, as far as one table goes.
//! 2. After a page that is damaged the rest is looked at, unless the device does not answer any more.

use super::header::lock_byte_page;
use super::heap::HeapTable;
use super::record::RecordView;
use super::tree::{LongRow, TableTree};
use super::tree_page::{DEPTH_MAX, TreePage, TreePageKind, be_u32, corrupt};
use crate::page::TRAILER_BYTES;
use crate::{PageAddress, ReadPages, StorageError};
use nandu_base::to_u32;

/// What a table is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStat {
    /// Rows that the table holds.
    pub row_count: u64,
    /// Levels, leaves included.
    pub level_count: u32,
    /// Pages of the lowest level, which hold the rows.
    pub leaf_count: u32,
    /// Pages above them.
    pub interior_count: u32,
    /// Pages of long rows.
    pub overflow_count: u32,
    /// Pages of the freelist; 0 where only the tree was looked at.
    pub free_count: u32,
    /// Bytes of leaves that are in use.
    pub leaf_used_bytes: u64,
    /// Bytes of leaves that could be.
    pub leaf_usable_bytes: u64,
}

/// Findings of one table that are kept.
const FINDING_COUNT_MAX: usize = 100;

/// A page of the tree that is still to be looked at: rowids below it lie in `low..=high`, where `low`
/// itself belongs to its left neighbour.
struct Pending {
    page: u32,
    level: u32,
    low: Option<i64>,
    high: i64,
}

impl TableTree {
    /// Looks at every page of the tree and lends every row that can be read to `look`, which must not
    /// read pages itself. `used` has an entry for each page of the file, and is set for those that were
    /// met; `findings` gets what is wrong.
    fn examine<P: ReadPages>(
        &self,
        pages: &P,
        used: &mut [bool],
        findings: &mut Vec<StorageError>,
        look: &mut impl FnMut(i64, RecordView<'_>),
    ) -> TableStat {
        let mut stat = TableStat::default();
        let root = Pending { page: self.root(), level: 1, low: None, high: i64::MAX };
        let mut pending = vec![root];
        while let Some(next) = pending.pop() {
            let looked = self.examine_page(pages, &next, &mut pending, used, &mut stat, look);
            if let Err(error) = looked {
                let is_over = !error.is_damage() || findings.len() >= FINDING_COUNT_MAX;
                findings.push(error);
                if is_over {
                    break;
                }
            }
        }
        stat
    }

    fn examine_page<P: ReadPages>(
        &self,
        pages: &P,
        next: &Pending,
        pending: &mut Vec<Pending>,
        used: &mut [bool],
        stat: &mut TableStat,
        look: &mut impl FnMut(i64, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let address = self.mark(next.page, used)?;
        if next.level as usize > DEPTH_MAX {
            return Err(self.too_deep());
        }
        let mut long = Vec::new();
        let is_leaf = pages.read(address, |bytes| {
            let view = TreePage::new(bytes, self.usable_bytes(), address)?;
            match view.kind() {
                TreePageKind::TableLeaf => {
                    check_leaf(&view, next, stat, &mut long)?;
                    for index in 0..view.cell_count() {
                        let cell = view.leaf_cell(index)?;
                        if cell.overflow_page == 0 {
                            let lend = |record: RecordView<'_>| look(cell.rowid, record);
                            self.with_record(cell.local, address, lend)?;
                        }
                    }
                    Ok(true)
                }
                TreePageKind::TableInterior => {
                    push_children(&view, next, pending)?;
                    Ok(false)
                }
                _ => Err(view.corrupt("it belongs to an index")),
            }
        })??;
        if !is_leaf {
            stat.interior_count += 1;
            return Ok(());
        }
        stat.leaf_count += 1;
        stat.leaf_usable_bytes += self.usable_bytes() as u64;
        if stat.level_count != 0 && stat.level_count != next.level {
            return Err(corrupt(address, "it is a leaf at another level than the first"));
        }
        stat.level_count = next.level;
        for row in long {
            stat.overflow_count += self.check_chain(pages, &row, used)?;
            let rowid = row.rowid();
            let payload = self.read_long(pages, row)?;
            self.with_record(&payload, address, |record| look(rowid, record))?;
        }
        Ok(())
    }

    fn mark(&self, page: u32, used: &mut [bool]) -> Result<PageAddress, StorageError> {
        let address = self.address(page)?;
        match used.get_mut(page as usize) {
            Some(mark) if !*mark => *mark = true,
            _ => return Err(corrupt(address, "it is used twice")),
        }
        Ok(address)
    }

    fn check_chain<P: ReadPages>(
        &self,
        pages: &P,
        row: &LongRow,
        used: &mut [bool],
    ) -> Result<u32, StorageError> {
        let count = self.chain_page_count(row.payload_bytes(), row.local_bytes())?;
        let mut page = row.overflow_page();
        for _ in 0..count {
            let address = self.mark(page, used)?;
            page = pages.read(address, |bytes| bytes.get(..4).map_or(0, be_u32))?;
        }
        if page != 0 {
            let address = PageAddress::new(self.file(), page);
            return Err(corrupt(address, "an overflow chain goes on after its row's end"));
        }
        Ok(count)
    }
}

impl HeapTable {
    /// Looks at every page of the file.
    ///
    /// # Errors
    /// If a page cannot be read, breaks a rule, is used twice or not at all: the first that is found.
    pub fn check<P: ReadPages>(&self, pages: &P) -> Result<TableStat, StorageError> {
        let (stat, findings) = self.examine(pages, |_, _| ());
        findings.into_iter().next().map_or(Ok(stat), Err)
    }

    /// Looks at every page of the file, also behind one that is damaged, and lends every row that can
    /// be read to `look`, which must not read pages itself. What is wrong comes back, as far as it is
    /// not the consequence of something else, and about a hundred findings at most; an error that
    /// [is no damage](StorageError::is_damage) is the last.
    pub fn examine<P: ReadPages>(
        &self,
        pages: &P,
        mut look: impl FnMut(i64, RecordView<'_>),
    ) -> (TableStat, Vec<StorageError>) {
        let page_count = self.space.page_count();
        let mut used = vec![false; page_count as usize + 1];
        used[0] = true;
        let lock_page = lock_byte_page(to_u32((self.tree.usable_bytes() + TRAILER_BYTES) as u64));
        if let Some(mark) = used.get_mut(lock_page as usize) {
            *mark = true;
        }
        // A schema too long for page 1 has pages of its own.
        let schema = TableTree::schema_of(&self.tree);
        let mut findings = Vec::new();
        schema.examine(pages, &mut used, &mut findings, &mut |_, _| ());
        let mut stat = self.tree.examine(pages, &mut used, &mut findings, &mut look);
        if findings.iter().all(StorageError::is_damage) {
            match self.examine_free_pages(pages, &mut used) {
                Ok(count) => stat.free_count = count,
                Err(error) => findings.push(error),
            }
        }
        // Only without findings: a damaged page hides all pages below it, which would then be told
        // as unused.
        if let (Some(page), []) = (used.iter().position(|used| !used), &findings[..]) {
            let address = PageAddress::new(self.tree.file(), to_u32(page as u64));
            findings.push(corrupt(address, "it is not used"));
        }
        (stat, findings)
    }

    fn examine_free_pages<P: ReadPages>(
        &self,
        pages: &P,
        used: &mut [bool],
    ) -> Result<u32, StorageError> {
        let free_pages = self.space.free_pages(pages)?;
        for &page in &free_pages {
            self.tree.mark(page, used)?;
        }
        let count = to_u32(free_pages.len() as u64);
        if count != self.space.free_count() {
            let address = PageAddress::new(self.tree.file(), 1);
            return Err(corrupt(address, "it counts other free pages than the freelist has"));
        }
        Ok(count)
    }

    /// Asserts that what is cached is what the pages say.
    ///
    /// # Panics
    /// If it is not, or the table does not pass [`Self::check`].
    pub fn audit<P: ReadPages>(&self, pages: &P) {
        if let Err(error) = self.check(pages) {
            panic!("{error}");
        }
        if let Some(edge) = self.edge {
            let found = self.load_edge(pages).expect("the table was just checked");
            assert_eq!(edge, found, "the cached edge is that of the pages");
        }
    }
}

fn check_leaf(
    view: &TreePage<'_>,
    pending: &Pending,
    stat: &mut TableStat,
    long: &mut Vec<LongRow>,
) -> Result<(), StorageError> {
    if view.cell_count() == 0 && pending.level > 1 {
        return Err(view.corrupt("it is an empty leaf"));
    }
    let mut last = pending.low;
    let mut used_bytes = 0;
    for index in 0..view.cell_count() {
        let cell = view.leaf_cell(index)?;
        if last.is_some_and(|last| last >= cell.rowid) || cell.rowid > pending.high {
            return Err(view.corrupt("a rowid is out of order"));
        }
        last = Some(cell.rowid);
        used_bytes += view.leaf_cell_bytes(&cell);
        if cell.overflow_page != 0 {
            long.push(LongRow::of(&cell));
        }
    }
    let free = view.free_bytes(used_bytes);
    if free.is_none_or(|free| free < view.gap_bytes()) {
        return Err(view.corrupt("its cells overlap"));
    }
    stat.row_count += view.cell_count() as u64;
    stat.leaf_used_bytes += view.used_bytes(used_bytes) as u64;
    Ok(())
}

fn push_children(
    view: &TreePage<'_>,
    pending: &Pending,
    queue: &mut Vec<Pending>,
) -> Result<(), StorageError> {
    let count = view.cell_count();
    // Only the schema's root may have one child: page 1 has less room than others.
    if count == 0 && view.address().page != 1 {
        return Err(view.corrupt("it has one child only"));
    }
    let mut low = pending.low;
    let first = queue.len();
    for index in 0..count {
        let (page, high) = view.interior_cell(index)?;
        if low.is_some_and(|low| low >= high) || high > pending.high {
            return Err(view.corrupt("a separator is out of order"));
        }
        queue.push(Pending { page, level: pending.level + 1, low, high });
        low = Some(high);
    }
    let (page, level, high) = (view.right_child(), pending.level + 1, pending.high);
    queue.push(Pending { page, level, low, high });
    queue[first..].reverse();
    Ok(())
}
