//! Entry points for bytes of unknown origin: everything in here reads as much as it can make sense
//! of, and answers bad bytes with an error. Fuzz targets (`fuzz/`) and the tests of mutated files
//! (`tests/hostile_bytes.rs`) share them.
//!
//! 1. Whatever the bytes, no panic, no endless walk, no memory out of proportion to them.

use crate::btree::{self, Direction, Tree};
use crate::database::ColumnType;
use crate::engine::{Settings, settings};
use crate::log::{LogFile, LogRecord, decode_record};
use crate::pax::PaxTable;
use crate::sqlite::{self, SqliteFile};
use crate::volume::{DeviceVolume, Io, IoOwner};
use crate::{FileId, Lsn, PageAddress, ReadPages, StorageError, Volume};
use nandu_base::to_index;
use nandu_device::{Geometry, IoBuffer, MemoryConfig, MemoryDevice, Operation};
use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

const FILE: FileId = FileId(1);
const SECTOR_BYTES: usize = 512;

/// How much was made sense of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Rows, entries or records.
    pub item_count: u64,
    /// Pages that were read, each time counted.
    pub page_read_count: u64,
}

/// A file as pages, without checksums.
struct FilePages<'b> {
    bytes: &'b [u8],
    page_bytes: usize,
    read_count: Cell<u64>,
}

impl ReadPages for FilePages<'_> {
    fn usable_bytes(&self) -> usize {
        self.page_bytes
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.read_count.set(self.read_count.get() + 1);
        let start = to_index(u64::from(address.page.saturating_sub(1)) * self.page_bytes as u64);
        let mut page = vec![0; self.page_bytes];
        let there = self.bytes.get(start..).unwrap_or_default();
        let length = there.len().min(self.page_bytes);
        page[..length].copy_from_slice(&there[..length]);
        Ok(look(&page))
    }
}

/// Reads a file in SQLite's format: its header, its schema, all rows of all its tables.
///
/// # Errors
/// If the bytes break a rule of the format.
pub fn read_sqlite_file(bytes: &[u8]) -> Result<Seen, StorageError> {
    let page_bytes = sqlite::FileHeader::parse(bytes, "the bytes")?.page_bytes as usize;
    let pages = FilePages { bytes, page_bytes, read_count: Cell::new(0) };
    let file = SqliteFile::open(&pages, FILE, bytes.len() as u64, "the bytes")?;
    let mut seen = Seen::default();
    for entry in file.entries() {
        if entry.kind != "table" {
            continue;
        }
        let (schema, tree) = file.table(&entry.name)?;
        tree.scan_all(&pages, |number, record| {
            seen.item_count += 1;
            for index in 0..schema.columns.len() {
                let _ = schema.value(number, &record, index).to_value();
            }
        })?;
    }
    seen.page_read_count = pages.read_count.get();
    Ok(seen)
}

/// Reads a file of tree pages without trailers: the check of all pages, then a scan.
///
/// # Errors
/// If the bytes break a rule of the format.
///
/// # Panics
/// If `page_bytes` is zero.
pub fn read_tree(page_bytes: usize, bytes: &[u8]) -> Result<Seen, StorageError> {
    assert!(page_bytes > 0, "a page has bytes");
    let pages = FilePages { bytes, page_bytes, read_count: Cell::new(0) };
    let _ = btree::check(&pages, FILE);
    let tree = Tree::open(&pages, FILE)?;
    let mut seen = Seen::default();
    let mut scan = tree.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward);
    let mut last = Vec::new();
    while let Some((key, _)) = scan.next(&pages)? {
        seen.item_count += 1;
        last.clear();
        last.extend_from_slice(key);
        // Pages may lead in a circle; a scan of the engine ends with its caller's patience.
        if seen.item_count > bytes.len() as u64 {
            break;
        }
    }
    tree.get(&pages, &last, |_| ())?;
    seen.page_read_count = pages.read_count.get();
    Ok(seen)
}

/// The columns of the tables that [`read_pax`] reads.
pub const PAX_COLUMNS: [ColumnType; 4] =
    [ColumnType::Integer, ColumnType::Real, ColumnType::Text, ColumnType::Blob];

/// Reads a table in PAX pages without trailers: its directory, then every value.
///
/// # Errors
/// If the bytes break a rule of the format.
///
/// # Panics
/// If `page_bytes` is zero.
pub fn read_pax(page_bytes: usize, bytes: &[u8]) -> Result<Seen, StorageError> {
    assert!(page_bytes > 0, "a page has bytes");
    let pages = FilePages { bytes, page_bytes, read_count: Cell::new(0) };
    let page_count = (bytes.len() / page_bytes) as u64;
    let table = PaxTable::open(&pages, FILE, Some(page_count), PAX_COLUMNS.to_vec())?;
    let mut seen = Seen::default();
    for pax_page in 0..table.pax_pages().len() {
        table.look_at(&pages, pax_page, |_, _| {
            seen.item_count += 1;
            // Rows of NULLs take no bytes; a reader's patience ends.
            seen.item_count < 16 * bytes.len() as u64
        })?;
    }
    seen.page_read_count = pages.read_count.get();
    Ok(seen)
}

/// Takes a log record apart, with all that it holds.
///
/// # Errors
/// If the bytes are no record.
pub fn read_log_record(bytes: &[u8]) -> Result<Seen, StorageError> {
    let item_count = match decode_record(bytes)? {
        LogRecord::Action { changes, .. } | LogRecord::Compensation { changes, .. } => {
            changes.iter().count()
        }
        LogRecord::EndCheckpoint(part) => part.dirty_pages().count() + part.transactions().count(),
        _ => 1,
    };
    Ok(Seen { item_count: item_count as u64, page_read_count: 0 })
}

/// Reads the file of a database's settings: the bytes as they are, then as text with a right checksum;
/// settings that are there are checked as an opening does.
///
/// # Errors
/// If they are none, or cannot work together.
pub fn read_settings(bytes: &[u8]) -> Result<Seen, StorageError> {
    let read = |bytes: &[u8]| -> Result<Seen, StorageError> {
        let Some(fixed) = settings::decode(bytes, "the bytes")? else { return Ok(Seen::default()) };
        let settings = fixed.with(&Settings::default());
        settings.check()?;
        let sector_bytes = nandu_base::to_u32(SECTOR_BYTES as u64);
        settings.propagation.config().check(settings.page_bytes, sector_bytes)?;
        Ok(Seen { item_count: 1, page_read_count: 0 })
    };
    read(bytes).or_else(|_| read(&settings::encode(bytes)))
}

/// Opens a log's file and reads it to its end.
///
/// # Errors
/// If it is no log, or damaged.
pub fn read_log(bytes: &[u8]) -> Result<Seen, StorageError> {
    let length = bytes.len().next_multiple_of(SECTOR_BYTES);
    let sector_count = (2 * length as u64 + (4 << 20)) / SECTOR_BYTES as u64;
    let geometry = Geometry { sector_bytes: 512, sector_count };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let mut volume = DeviceVolume::format(Box::new(device))?;
    let file = volume.create("log")?;
    let io = Io::new(Box::new(volume), Arc::default());
    if length > 0 {
        let mut buffer = IoBuffer::zeroed(length);
        buffer[..bytes.len()].copy_from_slice(bytes);
        let ticket = io.submit(IoOwner::Operator, file, Operation::Write, 0, buffer)?;
        let done = io.wait(ticket);
        let what = "write the bytes".to_owned();
        done.result.map_err(|error| StorageError::Device { what, error })?;
    }
    let log = LogFile::open(io, file)?;
    let mut reader = log.scan(Lsn(0))?;
    let mut seen = Seen::default();
    while reader.next_record()?.is_some() {
        seen.item_count += 1;
    }
    reader.find_end()?;
    Ok(seen)
}
