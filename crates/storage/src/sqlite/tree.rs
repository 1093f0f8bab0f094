//! Reading a table: one row, many rows at once, all rows in order; of any file in SQLite's format.
//!
//! ```text
//!            root ── interior ── interior …          get        root to leaf
//!                    │   │   │                       get_batch  level by level, each as one batch
//!                   leaf leaf leaf …                 Scan       leaf by leaf, the next ones fetched
//! ```
//!
//! Whatever the file says, reading ends, in memory that its true length bounds:
//!
//! 1. No page past the end of the file is asked for, no path is longer than `DEPTH_MAX`.
//! 2. Rowids rise strictly along a scan, and no leaf is empty; so no page comes twice.
//! 3. A payload is no longer than the file, and the overflow pages of all rows of a scan are no more
//!    than its pages.

use super::header::{FileHeader, TextEncoding, push_utf16};
use super::record::{RecordView, encode_record};
use super::tree_page::{DEPTH_MAX, LeafCell, TreePage, TreePageKind, be_u32, corrupt};
use super::value::ValueRef;
use crate::{FileId, PageAddress, ReadPages, StorageError};
use nandu_base::to_u32;
use std::ops::Range;

/// A table of a file, to be read through any [`ReadPages`] that holds the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableTree {
    file: FileId,
    root: u32,
    usable_bytes: usize,
    page_count: u32,
    encoding: TextEncoding,
}

/// A row of which a part lies on overflow pages.
#[derive(Debug)]
pub(super) struct LongRow {
    rowid: i64,
    payload: Vec<u8>,
    payload_bytes: u64,
    overflow_page: u32,
}

/// What one page says about a rowid.
enum Step<R> {
    Child(u32),
    Found(R),
    Long(LongRow),
    Missing,
}

impl TableTree {
    /// The table with this root in a file with this header and as many pages as are really there.
    #[must_use]
    pub fn new(file: FileId, root: u32, header: &FileHeader, page_count: u32) -> Self {
        let (usable_bytes, encoding) = (header.usable_bytes(), header.encoding);
        Self { file, root, usable_bytes, page_count, encoding }
    }

    /// The tree of `sqlite_schema` in the same file.
    pub(super) fn schema_of(table: &Self) -> Self {
        Self { root: 1, ..*table }
    }

    /// The number of the tree's root page.
    #[must_use]
    pub fn root(&self) -> u32 {
        self.root
    }

    /// The file that holds it.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Bytes of a page that count.
    #[must_use]
    pub fn usable_bytes(&self) -> usize {
        self.usable_bytes
    }

    /// Pages of the file.
    #[must_use]
    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// The same table in a file that has so many pages.
    #[must_use]
    pub(crate) fn with_page_count(self, page_count: u32) -> Self {
        Self { page_count, ..self }
    }

    /// Notes that the file has grown.
    pub(super) fn set_page_count(&mut self, page_count: u32) {
        self.page_count = page_count;
    }

    /// Lends the record of `rowid` to `look`, which must not read pages itself; `None` where there is
    /// no such row.
    ///
    /// # Errors
    /// If a page cannot be read, or breaks a rule of the format.
    #[inline]
    pub fn get<P: ReadPages, R>(
        &self,
        pages: &P,
        rowid: i64,
        look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>, StorageError> {
        let mut look = Some(look);
        let mut page = self.root;
        for _ in 0..DEPTH_MAX {
            let address = self.address(page)?;
            let step = pages.read(address, |bytes| {
                let view = TreePage::new(bytes, self.usable_bytes, address)?;
                let cell = match find_cell(&view, rowid)? {
                    Step::Found(cell) => cell,
                    Step::Child(child) => return Ok(Step::Child(child)),
                    _ => return Ok(Step::Missing),
                };
                if cell.overflow_page != 0 {
                    return Ok(Step::Long(LongRow::of(&cell)));
                }
                let look = look.take().expect("a row is found once");
                self.with_record(cell.local, address, look).map(Step::Found)
            })??;
            match step {
                Step::Child(child) => page = child,
                Step::Found(answer) => return Ok(Some(answer)),
                Step::Missing => return Ok(None),
                Step::Long(row) => {
                    let payload = self.read_long(pages, row)?;
                    let look = look.take().expect("a row is found once");
                    return self.with_record(&payload, address, look).map(Some);
                }
            }
        }
        Err(self.too_deep())
    }

    /// Lends the records of several rowids, which rise, to `look`, with each one's index in
    /// `rowids`; rowids that are not there are passed over. Level by level all pages are read as one
    /// batch, so that the device's queue stays full. `look` must not read pages itself, and gets the
    /// rows as they come.
    ///
    /// # Errors
    /// As [`Self::get`], and if `rowids` do not rise.
    pub fn get_batch<P: ReadPages>(
        &self,
        pages: &P,
        rowids: &[i64],
        mut look: impl FnMut(usize, RecordView<'_>),
    ) -> Result<(), StorageError> {
        if !rowids.is_sorted() {
            let what = "a batch of rowids has to be sorted".to_owned();
            return Err(StorageError::InvalidSetting { what });
        }
        let mut batch = Batch { rowids, below: Vec::new(), long: Vec::new() };
        let mut level = vec![Wanted { page: self.root, rowids: 0..rowids.len() }];
        for _ in 0..DEPTH_MAX {
            if rowids.is_empty() || level.is_empty() {
                return self.look_at_long(pages, batch.long, look);
            }
            let addresses = level
                .iter()
                .map(|wanted| self.address(wanted.page))
                .collect::<Result<Vec<_>, _>>()?;
            let mut result = Ok(());
            pages.read_batch(&addresses, |index, bytes| {
                let rowids = level[index].rowids.clone();
                let found = batch.visit(self, bytes, addresses[index], rowids, &mut look);
                result = std::mem::replace(&mut result, Ok(())).and(found);
            })?;
            result?;
            level.clear();
            level.append(&mut batch.below);
            level.sort_unstable_by_key(|wanted| wanted.rowids.start);
        }
        Err(self.too_deep())
    }

    /// Lends all rows of a leaf that was read in another way, in larger pieces of the file say.
    /// `bytes` is the page as [`ReadPages`] would give it. Rows that pass the end of the page are left to
    /// [`Self::get`]: their rowids are appended to `long`.
    ///
    /// # Errors
    /// If the page breaks a rule of the format.
    #[inline]
    pub fn visit_leaf(
        &self,
        bytes: &[u8],
        page: u32,
        long: &mut Vec<i64>,
        mut look: impl FnMut(i64, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let address = self.address(page)?;
        let view = TreePage::new(bytes, self.usable_bytes, address)?;
        if view.kind() != TreePageKind::TableLeaf {
            return Err(view.corrupt("it is no leaf of a table"));
        }
        for index in 0..view.cell_count() {
            let cell = view.leaf_cell(index)?;
            if cell.overflow_page != 0 {
                long.push(cell.rowid);
                continue;
            }
            self.with_record(cell.local, address, |record| look(cell.rowid, record))?;
        }
        Ok(())
    }

    /// The largest rowid; `None` for an empty table.
    ///
    /// # Errors
    /// If a page cannot be read, or breaks a rule of the format.
    pub fn last_rowid<P: ReadPages>(&self, pages: &P) -> Result<Option<i64>, StorageError> {
        let mut page = self.root;
        for _ in 0..DEPTH_MAX {
            let address = self.address(page)?;
            let step = pages.read(address, |bytes| {
                let view = TreePage::new(bytes, self.usable_bytes, address)?;
                match (view.kind(), view.cell_count()) {
                    (TreePageKind::TableInterior, _) => Ok(Step::Child(view.right_child())),
                    (TreePageKind::TableLeaf, 0) => Ok(Step::Missing),
                    (TreePageKind::TableLeaf, count) => view.leaf_rowid(count - 1).map(Step::Found),
                    _ => Err(view.corrupt("it belongs to an index")),
                }
            })??;
            match step {
                Step::Child(child) => page = child,
                Step::Found(rowid) => return Ok(Some(rowid)),
                Step::Missing | Step::Long(_) => return Ok(None),
            }
        }
        Err(self.too_deep())
    }

    /// The address of a page that a link names.
    ///
    /// # Errors
    /// If the file has no such page.
    #[inline]
    pub(super) fn address(&self, page: u32) -> Result<PageAddress, StorageError> {
        let address = PageAddress::new(self.file, page);
        if page == 0 || page > self.page_count {
            return Err(corrupt(address, "a link names it, but the file has no such page"));
        }
        Ok(address)
    }

    /// The whole payload of a row of which a part lies on overflow pages.
    ///
    /// # Errors
    /// If a page cannot be read, or the chain breaks a rule of the format.
    pub fn read_whole<P: ReadPages>(
        &self,
        pages: &P,
        cell: &LeafCell<'_>,
    ) -> Result<Vec<u8>, StorageError> {
        self.read_long(pages, LongRow::of(cell))
    }

    /// Whether texts are stored in UTF-8, so that records need no translation.
    #[must_use]
    pub fn is_utf8(&self) -> bool {
        self.encoding == TextEncoding::Utf8
    }

    /// The whole payload of a row, read along its chain.
    pub(super) fn read_long<P: ReadPages>(
        &self,
        pages: &P,
        row: LongRow,
    ) -> Result<Vec<u8>, StorageError> {
        let LongRow { mut payload, payload_bytes, mut overflow_page, .. } = row;
        self.chain_page_count(payload_bytes, payload.len())?;
        while (payload.len() as u64) < payload_bytes {
            let address = self.address(overflow_page)?;
            overflow_page = pages.read(address, |bytes| {
                let Some(bytes) = bytes.get(..self.usable_bytes) else {
                    return Err(corrupt(address, "it is shorter than its file's header says"));
                };
                let rest = payload_bytes - payload.len() as u64;
                let here = usize::try_from(rest).unwrap_or(usize::MAX).min(bytes.len() - 4);
                payload.extend_from_slice(&bytes[4..4 + here]);
                Ok(be_u32(bytes))
            })??;
        }
        Ok(payload)
    }

    /// How many overflow pages a payload has of which `local_bytes` lie elsewhere.
    ///
    /// # Errors
    /// If that is more than the file has.
    pub(super) fn chain_page_count(
        &self,
        payload_bytes: u64,
        local_bytes: usize,
    ) -> Result<u32, StorageError> {
        let rest = payload_bytes - local_bytes as u64;
        let count = rest.div_ceil(self.usable_bytes as u64 - 4);
        if count > u64::from(self.page_count) {
            let what = format!("a row of {payload_bytes} bytes is longer than the file");
            return Err(StorageError::Corrupt { place: format!("file {}", self.file.0), what });
        }
        Ok(to_u32(count))
    }

    /// Lends a record to `look`, its text in UTF-8.
    #[inline]
    pub(super) fn with_record<R>(
        &self,
        payload: &[u8],
        address: PageAddress,
        look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<R, StorageError> {
        let record = RecordView::new(payload).map_err(|what| corrupt(address, what))?;
        if self.encoding == TextEncoding::Utf8 {
            return Ok(look(record));
        }
        let bytes = transcode(record, self.encoding == TextEncoding::Utf16Be);
        let record = RecordView::new(&bytes).expect("a record that was just encoded is sound");
        Ok(look(record))
    }

    #[cold]
    pub(super) fn too_deep(&self) -> StorageError {
        let address = PageAddress::new(self.file, self.root);
        corrupt(address, "the tree below it has more levels than any file needs")
    }

    fn look_at_long<P: ReadPages>(
        &self,
        pages: &P,
        long: Vec<(usize, LongRow)>,
        mut look: impl FnMut(usize, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let address = PageAddress::new(self.file, self.root);
        for (index, row) in long {
            let payload = self.read_long(pages, row)?;
            self.with_record(&payload, address, |record| look(index, record))?;
        }
        Ok(())
    }
}

impl LongRow {
    pub(super) fn of(cell: &LeafCell<'_>) -> Self {
        Self {
            rowid: cell.rowid,
            payload: cell.local.to_vec(),
            payload_bytes: cell.payload_bytes,
            overflow_page: cell.overflow_page,
        }
    }

    pub(super) fn rowid(&self) -> i64 {
        self.rowid
    }

    pub(super) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    pub(super) fn overflow_page(&self) -> u32 {
        self.overflow_page
    }

    pub(super) fn local_bytes(&self) -> usize {
        self.payload.len()
    }
}

/// A page, and which of the wanted rowids lie below it.
struct Wanted {
    page: u32,
    rowids: Range<usize>,
}

/// A batch of lookups under way.
struct Batch<'a> {
    rowids: &'a [i64],
    below: Vec<Wanted>,
    long: Vec<(usize, LongRow)>,
}

impl Batch<'_> {
    /// Takes what one page knows of some of the rowids.
    fn visit(
        &mut self,
        tree: &TableTree,
        bytes: &[u8],
        address: PageAddress,
        range: Range<usize>,
        look: &mut impl FnMut(usize, RecordView<'_>),
    ) -> Result<(), StorageError> {
        let view = TreePage::new(bytes, tree.usable_bytes, address)?;
        let mut start = range.start;
        while start < range.end {
            let rowid = self.rowids[start];
            match find_cell(&view, rowid)? {
                Step::Found(cell) if cell.overflow_page != 0 => {
                    self.long.push((start, LongRow::of(&cell)));
                }
                Step::Found(cell) => {
                    tree.with_record(cell.local, address, |record| look(start, record))?;
                }
                Step::Child(page) => {
                    let child = view.find_child(rowid)?;
                    let mut end = range.end;
                    if child < view.cell_count() {
                        let largest = view.interior_cell(child)?.1;
                        let inside = &self.rowids[start..range.end];
                        end = start + inside.partition_point(|&rowid| rowid <= largest);
                    }
                    self.below.push(Wanted { page, rowids: start..end });
                    start = end;
                    continue;
                }
                Step::Missing | Step::Long(_) => {}
            }
            start += 1;
        }
        Ok(())
    }
}

/// What a page of a table knows of a rowid: its cell, or the child to ask.
#[inline]
fn find_cell<'a>(view: &TreePage<'a>, rowid: i64) -> Result<Step<LeafCell<'a>>, StorageError> {
    match view.kind() {
        TreePageKind::TableLeaf => match view.find_row(rowid)? {
            Ok(index) => view.leaf_cell(index).map(Step::Found),
            Err(_) => Ok(Step::Missing),
        },
        TreePageKind::TableInterior => {
            let child = view.find_child(rowid)?;
            view.child(child).map(Step::Child)
        }
        _ => Err(view.corrupt("it belongs to an index; WITHOUT ROWID tables are not read")),
    }
}

/// The record with its text in UTF-8.
fn transcode(record: RecordView<'_>, big_endian: bool) -> Vec<u8> {
    let mut text = Vec::new();
    let mut ends = Vec::new();
    for value in record.columns() {
        if let ValueRef::Text(bytes) = value {
            push_utf16(bytes, big_endian, &mut text);
        }
        ends.push(text.len());
    }
    let starts = std::iter::once(&0).chain(&ends);
    let values =
        record.columns().zip(starts.zip(&ends)).map(|(value, (&start, &end))| match value {
            ValueRef::Text(_) => ValueRef::Text(&text[start..end]),
            other => other,
        });
    let mut bytes = Vec::new();
    encode_record(values, &mut bytes);
    bytes
}
