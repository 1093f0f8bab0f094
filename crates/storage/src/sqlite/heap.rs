//! A table in a file of its own, to be changed: rows in the order of their arrival, in SQLite's
//! format, 80 % full (S001, section 4: heap files in SQLite's page format).
//!
//! ```text
//!   page 1: header, schema    page 2: root, for ever    then leaves, interior and overflow pages
//!                               ┌───────┐
//!                               │ 2     │ keys │ right child ──► the edge, where rows are appended
//!                               └─┬───┬─┘
//!                              leaf   leaf …
//! ```
//!
//! 1. Interior levels are valid after every call, so the file is a database after every action.
//! 2. No page of the tree but the root is empty, and interior pages have two children or more, which
//!    SQLite wants. A leaf goes when its last row goes; leaves are not merged before.
//! 3. What is cached (`space`, `edge`) is what the pages say, unless `loaded` is false: after an
//!    error, and after [`HeapTable::invalidate`], it is read again.

use super::edit::{FORMAT, INSERT_CELL, REMOVE_CELL, REPLACE_CELL};
use super::file::SqliteFile;
use super::header::{APPLICATION_ID, FileHeader};
use super::record::{RecordView, encode_record};
use super::schema::TableSchema;
use super::space::Space;
use super::tree::TableTree;
use super::tree_page::{
    FILE_HEADER_BYTES, LEAF_HEADER_BYTES, POINTER_BYTES, TreePage, local_payload_bytes,
};
use super::undo::{self, Undo};
use super::value::ValueRef;
use super::varint::push_varint;
use crate::page::TRAILER_BYTES;
use crate::{ChangePages, FileId, PageAddress, PageOperation, ReadPages, StorageError};
use nandu_base::{Rng, to_u32};
use serde::{Deserialize, Serialize};

/// The root of every table that this engine makes.
pub(super) const ROOT: u32 = 2;

/// How full leaves are made by appending and loading, in thousandths of the usable bytes; drawn for
/// each page from `low_permille..=high_permille`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillFactor {
    /// The least that is drawn.
    pub low_permille: u32,
    /// The highest fill of a page, at most 1000 thousandths.
    pub high_permille: u32,
    /// The seed by which the fill of each page is drawn.
    #[serde(default)]
    pub seed: u64,
}

/// A table that can be changed.
#[derive(Debug)]
pub struct HeapTable {
    pub(super) tree: TableTree,
    pub(super) schema: TableSchema,
    pub(super) fill: FillFactor,
    pub(super) space: Space,
    pub(super) edge: Option<Edge>,
    pub(super) cell: Vec<u8>,
    loaded: bool,
    place: String,
}

/// The leaf to which rows are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) leaf: PageAddress,
    pub(super) cell_count: usize,
    pub(super) used_bytes: usize,
    pub(super) limit_bytes: usize,
    pub(super) last_rowid: i64,
}

impl Default for FillFactor {
    fn default() -> Self {
        Self { low_permille: 800, high_permille: 800, seed: 0 }
    }
}

impl FillFactor {
    /// S001's jitter: uniform from 70 to 90 %.
    #[must_use]
    pub fn jittered(seed: u64) -> Self {
        Self { low_permille: 700, high_permille: 900, seed }
    }

    /// How many bytes of `page` may be used.
    pub(super) fn limit_bytes(&self, page: u32, usable_bytes: usize) -> usize {
        let high = u64::from(self.high_permille.min(1000));
        let low = u64::from(self.low_permille).min(high);
        let mut permille = low;
        if low < high {
            let mut rng = Rng::new(self.seed ^ u64::from(page) << 20);
            permille += rng.below(high - low + 1);
        }
        nandu_base::to_index(usable_bytes as u64 * permille / 1000)
    }
}

impl HeapTable {
    /// Makes a table in an empty file, with `schema` as SQLite shall see it. `place` is the file's
    /// name for errors.
    ///
    /// # Errors
    /// If the schema is of another kind of table, or a page cannot be made.
    pub fn create<P: ChangePages>(
        pages: &mut P,
        file: FileId,
        schema: TableSchema,
        fill: FillFactor,
        place: &str,
    ) -> Result<Self, StorageError> {
        if schema.without_rowid || schema.columns.is_empty() {
            let what = format!("{place}: a heap file has rowids, and columns that are stored");
            return Err(StorageError::InvalidSetting { what });
        }
        let usable_bytes = pages.usable_bytes();
        let page_bytes = to_u32((usable_bytes + TRAILER_BYTES) as u64);
        let header = FileHeader::of_table(page_bytes, ROOT);
        let mut table = Self {
            tree: TableTree::new(file, ROOT, &header, ROOT),
            space: Space::of(file, &header, ROOT),
            schema,
            fill,
            edge: None,
            cell: Vec::new(),
            loaded: true,
            place: place.to_owned(),
        };
        let root = PageAddress::new(file, ROOT);
        pages.create(root)?;
        pages.change(root, PageOperation { code: FORMAT, operand: 0, first: &[], second: &[] })?;
        table.write_schema(pages, &header)?;
        table.finish(pages)?;
        Ok(table)
    }

    /// Opens a table that [`Self::create`] made. `file_bytes` is its file's length, or `u64::MAX`
    /// where its last pages may not be written yet.
    ///
    /// # Errors
    /// If the file is another program's, or its first pages break a rule.
    pub fn open<P: ReadPages>(
        pages: &P,
        file: FileId,
        file_bytes: u64,
        fill: FillFactor,
        place: &str,
    ) -> Result<Self, StorageError> {
        let opened = SqliteFile::open(pages, file, file_bytes, place)?;
        let header = *opened.header();
        if header.application_id != APPLICATION_ID
            || usize::from(header.reserved_bytes) != TRAILER_BYTES
        {
            let what = "another program wrote it; it can be read, but not changed".to_owned();
            return Err(StorageError::NotADatabase { place: place.to_owned(), what });
        }
        let name = match opened.entries() {
            [entry] if entry.kind == "table" && entry.root == ROOT => entry.name.clone(),
            _ => {
                let what = "its schema is not one table with root page 2".to_owned();
                return Err(StorageError::NotADatabase { place: place.to_owned(), what });
            }
        };
        let (schema, tree) = opened.table(&name)?;
        let space = Space::of(file, &header, opened.page_count());
        let (cell, edge, place) = (Vec::new(), None, place.to_owned());
        Ok(Self { tree, schema, fill, space, edge, cell, loaded: true, place })
    }

    /// The table, as readers see it.
    #[must_use]
    pub fn tree(&self) -> &TableTree {
        &self.tree
    }

    /// The columns of the table.
    #[must_use]
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Pages of the file, and how many of them are free.
    #[must_use]
    pub fn page_counts(&self) -> (u32, u32) {
        (self.space.page_count(), self.space.free_count())
    }

    /// Forgets what is cached: the engine took changes back.
    pub fn invalidate(&mut self) {
        self.loaded = false;
        self.edge = None;
    }

    /// Appends a row with the next rowid, which comes back. `undo` gets what [`Self::apply_undo`]
    /// needs, as with every change.
    ///
    /// # Errors
    /// If a page cannot be read or made, or the record is longer than the format allows.
    #[inline]
    pub fn append<P: ChangePages>(
        &mut self,
        pages: &mut P,
        record: &[u8],
        undo: &mut Vec<u8>,
    ) -> Result<i64, StorageError> {
        self.append_after(pages, 0, record, undo)
    }

    /// As [`Self::append`], with a rowid larger than `floor`: those up to it may be somebody's still.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn append_after<P: ChangePages>(
        &mut self,
        pages: &mut P,
        floor: i64,
        record: &[u8],
        undo: &mut Vec<u8>,
    ) -> Result<i64, StorageError> {
        self.guarded(pages, |table, pages| {
            let edge = match table.edge {
                Some(edge) => edge,
                None => table.load_edge(pages)?,
            };
            let Some(rowid) = edge.last_rowid.max(floor).max(0).checked_add(1) else {
                let what = format!("{}: the largest rowid is taken", table.place);
                return Err(StorageError::NoSpace { what });
            };
            table.build_cell(pages, rowid, record)?;
            table.append_cell(pages, edge, rowid)?;
            undo::inserted(rowid, undo);
            Ok(rowid)
        })
    }

    /// Inserts a row with a rowid of the caller's choice.
    ///
    /// # Errors
    /// As [`Self::append`], and if there is such a row.
    pub fn insert<P: ChangePages>(
        &mut self,
        pages: &mut P,
        rowid: i64,
        record: &[u8],
        undo: &mut Vec<u8>,
    ) -> Result<(), StorageError> {
        self.guarded(pages, |table, pages| {
            let mut path = table.descend(pages, rowid)?;
            let Err(index) = path.found else {
                let what = format!("row {rowid} of {}", table.place);
                return Err(StorageError::Exists { what });
            };
            table.edge = None;
            table.build_cell(pages, rowid, record)?;
            table.insert_cell(pages, &mut path, index, rowid)?;
            undo::inserted(rowid, undo);
            Ok(())
        })
    }

    /// Replaces the record of a row, on its page if it fits there.
    ///
    /// # Errors
    /// As [`Self::append`], and if there is no such row.
    pub fn update<P: ChangePages>(
        &mut self,
        pages: &mut P,
        rowid: i64,
        record: &[u8],
        undo: &mut Vec<u8>,
    ) -> Result<(), StorageError> {
        self.guarded(pages, |table, pages| {
            let (mut path, index) = table.find(pages, rowid)?;
            table.edge = None;
            let old_bytes = table.release(pages, path.leaf(), index, |old| {
                undo::updated(rowid, old, undo);
            })?;
            table.build_cell(pages, rowid, record)?;
            let gap = table.look(pages, path.leaf(), |view| Ok(view.gap_bytes()))?;
            if table.cell.len() <= gap + old_bytes {
                let operation = cell_operation(REPLACE_CELL, index, &table.cell);
                return pages.change(path.leaf(), operation);
            }
            pages.change(path.leaf(), cell_operation(REMOVE_CELL, index, &[]))?;
            table.insert_cell(pages, &mut path, index, rowid)
        })
    }

    /// Removes a row.
    ///
    /// # Errors
    /// As [`Self::append`], and if there is no such row.
    pub fn delete<P: ChangePages>(
        &mut self,
        pages: &mut P,
        rowid: i64,
        undo: &mut Vec<u8>,
    ) -> Result<(), StorageError> {
        self.guarded(pages, |table, pages| {
            let (mut path, index) = table.find(pages, rowid)?;
            table.edge = None;
            table.release(pages, path.leaf(), index, |old| undo::deleted(rowid, old, undo))?;
            pages.change(path.leaf(), cell_operation(REMOVE_CELL, index, &[]))?;
            if path.leaf_cell_count == 1 && path.steps.len() > 1 {
                table.remove_leaf(pages, &mut path)?;
            }
            Ok(())
        })
    }

    /// Takes back one change, as an action of its own.
    ///
    /// # Errors
    /// If `undo` is not what a change gave, or the row is not as that left it.
    pub fn apply_undo<P: ChangePages>(
        &mut self,
        pages: &mut P,
        undo: &[u8],
    ) -> Result<(), StorageError> {
        let mut ignored = Vec::new();
        match Undo::parse(undo)? {
            Undo::Inserted { rowid } => self.delete(pages, rowid, &mut ignored),
            Undo::Updated { rowid, record } => self.update(pages, rowid, record, &mut ignored),
            Undo::Deleted { rowid, record } => self.insert(pages, rowid, record, &mut ignored),
        }
    }

    /// Lends the record of a row to `look`, as [`TableTree::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get<P: ReadPages, R>(
        &self,
        pages: &P,
        rowid: i64,
        look: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>, StorageError> {
        self.tree.get(pages, rowid, look)
    }

    /// The largest rowid; `None` for an empty table.
    ///
    /// # Errors
    /// If a page cannot be read, or breaks a rule of the format.
    pub fn last_rowid<P: ReadPages>(&mut self, pages: &P) -> Result<Option<i64>, StorageError> {
        self.refresh(pages)?;
        self.tree.last_rowid(pages)
    }

    /// Reads again what is cached, if it is in doubt: readers that look at the table through
    /// [`Self::tree`] want that after [`Self::invalidate`].
    ///
    /// # Errors
    /// If page 1 cannot be read, or breaks a rule.
    pub fn refresh<P: ReadPages>(&mut self, pages: &P) -> Result<(), StorageError> {
        if self.loaded { Ok(()) } else { self.reload(pages) }
    }

    /// Runs a change on what the pages say, and forgets that if it fails.
    #[inline]
    pub(super) fn guarded<P: ChangePages, R>(
        &mut self,
        pages: &mut P,
        change: impl FnOnce(&mut Self, &mut P) -> Result<R, StorageError>,
    ) -> Result<R, StorageError> {
        self.refresh(pages)?;
        let result = change(self, pages).and_then(|answer| {
            self.finish(pages)?;
            Ok(answer)
        });
        if result.is_err() {
            self.invalidate();
        }
        result
    }

    /// Puts the cell of a row into `self.cell`, and what does not fit there on overflow pages.
    pub(super) fn build_cell<P: ChangePages>(
        &mut self,
        pages: &mut P,
        rowid: i64,
        record: &[u8],
    ) -> Result<(), StorageError> {
        /// SQLite's own limit of a row's length.
        const RECORD_BYTES_MAX: u64 = 0x7FFF_FFFF;
        let record_bytes = record.len() as u64;
        if record_bytes > RECORD_BYTES_MAX {
            let what = format!("a row of {}", self.place);
            let limit_bytes = RECORD_BYTES_MAX;
            return Err(StorageError::TooLarge { what, found_bytes: record_bytes, limit_bytes });
        }
        self.cell.clear();
        push_varint(record_bytes, &mut self.cell);
        push_varint(rowid.cast_unsigned(), &mut self.cell);
        let local = local_payload_bytes(record_bytes, self.tree.usable_bytes());
        self.cell.extend_from_slice(&record[..local]);
        if local < record.len() {
            let first = self.write_chain(pages, &record[local..])?;
            self.cell.extend_from_slice(&first.to_be_bytes());
        }
        let padded = self.cell.len().max(super::edit::CELL_BYTES_MIN);
        self.cell.resize(padded, 0);
        Ok(())
    }

    /// Looks at a page of the tree.
    pub(super) fn look<P: ReadPages, R>(
        &self,
        pages: &P,
        address: PageAddress,
        look: impl FnOnce(&TreePage<'_>) -> Result<R, StorageError>,
    ) -> Result<R, StorageError> {
        let usable_bytes = self.tree.usable_bytes();
        pages.read(address, |bytes| look(&TreePage::new(bytes, usable_bytes, address)?))?
    }

    /// Takes a page of zeros.
    pub(super) fn allocate<P: ChangePages>(
        &mut self,
        pages: &mut P,
    ) -> Result<PageAddress, StorageError> {
        let address = self.space.allocate(pages)?;
        self.tree.set_page_count(self.space.page_count());
        Ok(address)
    }

    fn finish<P: ChangePages>(&mut self, pages: &mut P) -> Result<(), StorageError> {
        self.space.flush(pages)
    }

    fn reload<P: ReadPages>(&mut self, pages: &P) -> Result<(), StorageError> {
        let file = self.tree.file();
        let header = pages
            .read(PageAddress::new(file, 1), |bytes| FileHeader::parse(bytes, &self.place))??;
        let Some(page_count) = header.page_count else {
            let what = "its header does not say how many pages it has".to_owned();
            return Err(StorageError::Corrupt { place: self.place.clone(), what });
        };
        self.space = Space::of(file, &header, page_count);
        self.tree.set_page_count(page_count);
        self.loaded = true;
        Ok(())
    }

    /// Writes page 1: the header, and the row of the schema.
    fn write_schema<P: ChangePages>(
        &mut self,
        pages: &mut P,
        header: &FileHeader,
    ) -> Result<(), StorageError> {
        let name = self.schema.name.clone();
        let (name, sql) = (name.as_bytes(), self.schema.sql.clone());
        let values = [
            ValueRef::Text(b"table"),
            ValueRef::Text(name),
            ValueRef::Text(name),
            ValueRef::Integer(i64::from(ROOT)),
            ValueRef::Text(sql.as_bytes()),
        ];
        let mut record = Vec::new();
        encode_record(values, &mut record);
        let file = self.tree.file();
        self.build_cell(pages, 1, &record)?;
        let usable_bytes = self.tree.usable_bytes();
        let room = usable_bytes - FILE_HEADER_BYTES - LEAF_HEADER_BYTES - POINTER_BYTES;
        let mut first = header.encode().to_vec();
        let mut content = usable_bytes;
        if self.cell.len() <= room {
            content -= self.cell.len();
            let [high, low] = two_bytes(content);
            first.extend_from_slice(&[0x0D, 0, 0, 0, 1, high, low, 0, high, low]);
        } else {
            // Only on page 1 SQLite accepts an interior page with one child.
            let leaf = self.allocate(pages)?;
            pages.change(
                leaf,
                PageOperation { code: FORMAT, operand: 0, first: &[], second: &[] },
            )?;
            pages.change(leaf, cell_operation(INSERT_CELL, 0, &self.cell))?;
            let [high, low] = two_bytes(content);
            first.extend_from_slice(&[0x05, 0, 0, 0, 0, high, low, 0]);
            first.extend_from_slice(&leaf.page.to_be_bytes());
        }
        let page_one = PageAddress::new(file, 1);
        let second: &[u8] = if content < usable_bytes { &self.cell } else { &[] };
        let operand = to_u32((content - first.len()) as u64);
        pages.create(page_one)?;
        let code = PageOperation::IMAGE;
        pages.change(page_one, PageOperation { code, operand, first: &first, second })
    }
}

/// An operation on a cell.
pub(super) fn cell_operation(code: u8, index: usize, cell: &[u8]) -> PageOperation<'_> {
    PageOperation { code, operand: to_u32(index as u64), first: cell, second: &[] }
}

fn two_bytes(value: usize) -> [u8; 2] {
    let [low, high, ..] = value.to_le_bytes();
    [high, low]
}
