//! A SQLite file as pages, and what lies beside it.
//!
//! 1. It is read as it lies there, without a lock: who writes to it meanwhile is found out by the
//!    change counter of its header and by what lies beside it.

use crate::LoadError;
use crate::source::open_file;
use nandu_storage::sqlite::{FileHeader, SqliteFile, TableSchema, TableTree, check_beside};
use nandu_storage::{FileId, PageAddress, ReadPages, StorageError};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The number under which its pages go.
const FILE: FileId = FileId(1);
/// Bytes of the file's header.
const HEADER_BYTES: usize = 100;
/// Bytes at the start of a journal that tell whether it is needed.
const JOURNAL_START_BYTES: u64 = 8;
/// Names that begin so are of SQLite's own tables.
const OWN_PREFIX: &str = "sqlite_";

/// A file that was found readable.
#[derive(Debug)]
pub(super) struct OpenFile {
    path: PathBuf,
    name: String,
    pages: FilePages,
    content: SqliteFile,
}

/// The pages of a file, without checksums.
#[derive(Debug)]
pub(super) struct FilePages {
    file: File,
    page_bytes: usize,
    /// The page that was read last: a scan comes back to it after each long row.
    last: RefCell<DbPage>,
    /// Why a page could not be read.
    trouble: RefCell<Option<io::Error>>,
}

#[derive(Debug)]
struct DbPage {
    /// 0 where there is none.
    number: u32,
    bytes: Vec<u8>,
}

impl OpenFile {
    /// Reads header and schema.
    ///
    /// # Errors
    /// If the system refuses, the file is not in SQLite's format or damaged, or is nothing without what
    /// lies beside it.
    pub(super) fn open(path: &Path) -> Result<Self, LoadError> {
        let name = path.display().to_string();
        let failed = |error| LoadError::File { file: name.clone(), error };
        let file = open_file(path)?;
        let byte_count = file.metadata().map_err(failed)?.len();
        let header = read_header(&file, &name)?;
        look_beside(path, &header, &name)?;
        let bytes = vec![0; header.page_bytes as usize];
        let pages = FilePages {
            file,
            page_bytes: bytes.len(),
            last: RefCell::new(DbPage { number: 0, bytes }),
            trouble: RefCell::default(),
        };
        let content = SqliteFile::open(&pages, FILE, byte_count, &name)
            .map_err(|error| pages.explain(error, &name))?;
        Ok(Self { path: path.to_path_buf(), name, pages, content })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn pages(&self) -> &FilePages {
        &self.pages
    }

    /// The names of its tables.
    pub(super) fn tables(&self) -> Vec<String> {
        let tables = self.content.entries().iter().filter(|entry| entry.kind == "table");
        let names = tables.map(|entry| entry.name.clone());
        names.filter(|name| !name.to_ascii_lowercase().starts_with(OWN_PREFIX)).collect()
    }

    /// One of them.
    ///
    /// # Errors
    /// If there is none of that name, or one whose rows are not in a rowid tree.
    pub(super) fn table(&self, name: &str) -> Result<(TableSchema, TableTree), LoadError> {
        self.content.table(name).map_err(|error| match error {
            StorageError::NotFound { .. } => {
                let tables = self.tables();
                let what = match tables.is_empty() {
                    true => format!("it has no table {name}, nor any other"),
                    false => {
                        format!("it has no table {name}; its tables are {}", tables.join(", "))
                    }
                };
                LoadError::input(&self.name, what)
            }
            other => self.explain(other),
        })
    }

    /// What an error of a reader means to who named the file.
    pub(super) fn explain(&self, error: StorageError) -> LoadError {
        self.pages.explain(error, &self.name)
    }

    /// Whether the file is still what it was when it was opened.
    ///
    /// # Errors
    /// If it is not, or cannot be read.
    pub(super) fn check_unchanged(&self) -> Result<(), LoadError> {
        let header = read_header(&self.pages.file, &self.name)?;
        let beside = look_beside(&self.path, &header, &self.name);
        if header == *self.content.header() && beside.is_ok() {
            return Ok(());
        }
        let what = "it was changed while it was read; load it when nobody writes to it";
        Err(LoadError::input(&self.name, what))
    }
}

impl FilePages {
    fn explain(&self, error: StorageError, name: &str) -> LoadError {
        if let Some(error) = self.trouble.take() {
            return LoadError::File { file: name.to_owned(), error };
        }
        match error {
            StorageError::Corrupt { place, what } if place == name => damaged(name, &what),
            StorageError::Corrupt { place, what } => {
                let page = place.strip_suffix(&format!(" of file {}", FILE.0)).unwrap_or(&place);
                damaged(name, &format!("{page}: {what}"))
            }
            StorageError::NotADatabase { what, .. } => {
                LoadError::input(name, format!("it is no SQLite file: {what}"))
            }
            StorageError::InvalidSetting { what } if what.contains(name) => {
                LoadError::invalid(what)
            }
            StorageError::InvalidSetting { what } => LoadError::input(name, what),
            other => other.into(),
        }
    }
}

impl ReadPages for FilePages {
    fn usable_bytes(&self) -> usize {
        self.page_bytes
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        let mut last = self.last.borrow_mut();
        if last.number != address.page {
            last.number = 0;
            let offset = u64::from(address.page.saturating_sub(1)) * self.page_bytes as u64;
            if let Err(error) = self.file.read_exact_at(&mut last.bytes, offset) {
                *self.trouble.borrow_mut() = Some(error);
                let (place, what) = (address.to_string(), "it cannot be read".to_owned());
                return Err(StorageError::Corrupt { place, what });
            }
            last.number = address.page;
        }
        Ok(look(&last.bytes))
    }
}

fn damaged(name: &str, what: &str) -> LoadError {
    let what = format!("it is damaged, {what}; `PRAGMA integrity_check` of sqlite3 says more");
    LoadError::input(name, what)
}

fn read_header(file: &File, name: &str) -> Result<FileHeader, LoadError> {
    let mut bytes = [0; HEADER_BYTES];
    let mut length = 0;
    // A shorter file is none; how short it is belongs into the message.
    while length < HEADER_BYTES {
        let read = file.read_at(&mut bytes[length..], length as u64);
        match read.map_err(|error| LoadError::File { file: name.to_owned(), error })? {
            0 => break,
            count => length += count,
        }
    }
    FileHeader::parse(&bytes[..length], name).map_err(|error| match error {
        StorageError::NotADatabase { what, .. } => {
            LoadError::input(name, format!("it is no SQLite file: {what}"))
        }
        other => other.into(),
    })
}

/// Looks at the write-ahead log and the rollback journal.
fn look_beside(path: &Path, header: &FileHeader, name: &str) -> Result<(), LoadError> {
    let wal = beside(path, "-wal");
    let wal_bytes = match std::fs::metadata(&wal) {
        Ok(wal) => wal.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(LoadError::File { file: wal.display().to_string(), error }),
    };
    let journal = beside(path, "-journal");
    let mut start = Vec::new();
    match File::open(&journal)
        .and_then(|file| file.take(JOURNAL_START_BYTES).read_to_end(&mut start))
    {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(LoadError::File { file: journal.display().to_string(), error });
        }
        _ => {}
    }
    check_beside(header, wal_bytes, &start, name).map_err(|error| match error {
        StorageError::InvalidSetting { what } => LoadError::invalid(what),
        other => other.into(),
    })
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
