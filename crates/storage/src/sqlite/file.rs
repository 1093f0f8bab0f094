//! A file in SQLite's format, of any program: its header, and the tables that its schema names.
//!
//! 1. Only what `sqlite_schema` (rooted at page 1) lists is there; views, virtual tables and tables
//!    WITHOUT ROWID are named in the error of whoever asks for their rows.

use super::header::FileHeader;
use super::schema::TableSchema;
use super::tree::TableTree;
use super::tree_page::FILE_HEADER_BYTES;
use super::value::ValueRef;
use crate::{FileId, PageAddress, ReadPages, StorageError};

/// Most entries of a schema that are read.
const SCHEMA_ENTRIES_MAX: usize = 1 << 16;

/// A row of `sqlite_schema`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaEntry {
    /// `table`, `index`, `view` or `trigger`.
    pub kind: String,
    /// The name of the table or index.
    pub name: String,
    /// The table that it belongs to.
    pub table_name: String,
    /// Its root page; 0 where it has none.
    pub root: u32,
    /// The statement that made it; empty for what SQLite made by itself.
    pub sql: String,
}

/// An open file in SQLite's format.
#[derive(Clone, Debug)]
pub struct SqliteFile {
    file: FileId,
    header: FileHeader,
    page_count: u32,
    entries: Vec<SchemaEntry>,
    place: String,
}

impl SqliteFile {
    /// Reads header and schema. `file_bytes` is the file's true length; `place` names it in errors.
    /// Call [`super::check_beside`] before.
    ///
    /// # Errors
    /// If it is no such file, is cut off, or a page of its schema breaks a rule.
    pub fn open<P: ReadPages>(
        pages: &P,
        file: FileId,
        file_bytes: u64,
        place: &str,
    ) -> Result<Self, StorageError> {
        let header = pages.read(PageAddress::new(file, 1), |bytes| {
            FileHeader::parse(&bytes[..bytes.len().min(FILE_HEADER_BYTES)], place)
        })??;
        if header.usable_bytes() > pages.usable_bytes() {
            let (found, wanted) = (pages.usable_bytes(), header.usable_bytes());
            let what = format!("it is read in pages of {found} usable bytes, but has {wanted}");
            return Err(StorageError::NotADatabase { place: place.to_owned(), what });
        }
        let page_count = header.page_count_of(file_bytes, place)?;
        let mut entries = Vec::new();
        let schema = TableTree::new(file, 1, &header, page_count);
        schema.scan_all(pages, |_, record| {
            let text = |index| match record.get(index) {
                ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            };
            let root = match record.get(3) {
                ValueRef::Integer(page) => u32::try_from(page).unwrap_or(u32::MAX),
                _ => 0,
            };
            if entries.len() < SCHEMA_ENTRIES_MAX {
                let (kind, name, table_name, sql) = (text(0), text(1), text(2), text(4));
                entries.push(SchemaEntry { kind, name, table_name, root, sql });
            }
        })?;
        Ok(Self { file, header, page_count, entries, place: place.to_owned() })
    }

    /// The header of the file, as it was read.
    #[must_use]
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Pages of the file.
    #[must_use]
    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Everything that the schema lists.
    #[must_use]
    pub fn entries(&self) -> &[SchemaEntry] {
        &self.entries
    }

    /// The columns and the rows of a table.
    ///
    /// # Errors
    /// If there is no table of that name, or one whose rows are not in a rowid tree.
    pub fn table(&self, name: &str) -> Result<(TableSchema, TableTree), StorageError> {
        let same = |entry: &&SchemaEntry| {
            entry.name.eq_ignore_ascii_case(name) && matches!(&entry.kind[..], "table" | "view")
        };
        let Some(entry) = self.entries.iter().find(same) else {
            let what = format!("table {name} in {}", self.place);
            return Err(StorageError::NotFound { what });
        };
        let refuse = |kind: &str, remedy: &str| {
            let what = format!("{name} in {} is {kind}; {remedy}", self.place);
            Err(StorageError::InvalidSetting { what })
        };
        let copy = "copy it into an ordinary table first";
        if entry.kind == "view" {
            return refuse("a view", copy);
        }
        if entry.root == 0 {
            return refuse("a virtual table", copy);
        }
        let schema = TableSchema::parse(&entry.sql)?;
        if schema.without_rowid {
            return refuse("a table WITHOUT ROWID, whose rows lie in an index", copy);
        }
        let tree = TableTree::new(self.file, entry.root, &self.header, self.page_count);
        Ok((schema, tree))
    }
}
