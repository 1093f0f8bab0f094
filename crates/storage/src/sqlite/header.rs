//! The first 100 bytes of a database file (sqlite.org, Database File Format, section 1.3), and what
//! lies beside a file that must not be ignored.
//!
//! ```text
//!   0 "SQLite format 3\0" │ 16 page size (1 = 65,536) │ 18 write, 19 read version (1, or 2 = WAL)
//!   20 reserved │ 21 64, 32, 32 │ 24 change counter │ 28 pages │ 32 first trunk │ 36 free pages
//!   40 schema cookie │ 44 schema format │ 52 largest root │ 56 encoding │ 68 application
//!   92 the change counter for which "pages" is valid │ 96 SQLite's version
//! ```
//!
//! 1. Usable bytes are the page less the reserved ones, and at least 480.
//! 2. The lock-byte page, that with byte 2^30, holds nothing.

use super::tree_page::{FILE_HEADER_BYTES, be_u16, be_u32};
use crate::StorageError;
use crate::page::{TRAILER_BYTES, check_page_bytes};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// What a rollback journal starts with while it is needed.
const JOURNAL_MAGIC: &[u8; 8] = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
/// The application id of files that this engine writes: "nand".
pub const APPLICATION_ID: u32 = 0x6E61_6E64;
/// The SQLite version whose format is written, 3.45.0; readers only show it.
const SQLITE_VERSION: u32 = 3_045_000;
/// The least usable bytes that SQLite accepts.
const USABLE_BYTES_MIN: usize = 480;

/// How text is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8, which is what this engine writes.
    #[default]
    Utf8,
    /// UTF-16, the low byte first.
    Utf16Le,
    /// UTF-16, the high byte first.
    Utf16Be,
}

/// What the first 100 bytes of a file say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Bytes of a page, reserved ones included.
    pub page_bytes: u32,
    /// Bytes at the end of each page that are not SQLite's.
    pub reserved_bytes: u8,
    /// 1 for a rollback journal, 2 for a write-ahead log.
    pub write_version: u8,
    /// As `write_version`, for readers.
    pub read_version: u8,
    /// Counts changes, for caches.
    pub change_counter: u32,
    /// Pages of the file; `None` where an old SQLite wrote it last and did not say.
    pub page_count: Option<u32>,
    /// The first trunk of the freelist, or 0.
    pub first_trunk: u32,
    /// Free pages, trunks included.
    pub free_count: u32,
    /// Which schema statements may occur, 0 to 4.
    pub schema_format: u32,
    /// Not 0 where the file has pointer-map pages (auto-vacuum).
    pub largest_root: u32,
    /// How text is stored.
    pub encoding: TextEncoding,
    /// Which program the file belongs to.
    pub application_id: u32,
}

impl FileHeader {
    /// The header of a file of this engine.
    #[must_use]
    pub fn of_table(page_bytes: u32, page_count: u32) -> Self {
        Self {
            page_bytes,
            reserved_bytes: TRAILER_BYTES.to_le_bytes()[0],
            write_version: 1,
            read_version: 1,
            change_counter: 1,
            page_count: Some(page_count),
            first_trunk: 0,
            free_count: 0,
            schema_format: 4,
            largest_root: 0,
            encoding: TextEncoding::Utf8,
            application_id: APPLICATION_ID,
        }
    }

    /// Reads the header at the start of a file, called `place` in errors.
    ///
    /// # Errors
    /// If it is not one, is damaged, or asks for a newer reader.
    pub fn parse(bytes: &[u8], place: &str) -> Result<Self, StorageError> {
        let refuse =
            |what: String| Err(StorageError::NotADatabase { place: place.to_owned(), what });
        let Some(bytes) = bytes.first_chunk::<FILE_HEADER_BYTES>() else {
            return refuse(format!("it has {} bytes, less than a header", bytes.len()));
        };
        if !bytes.starts_with(MAGIC) {
            return refuse("it does not start as SQLite 3 files do, or is encrypted".to_owned());
        }
        let page_bytes = match be_u16(&bytes[16..]) {
            1 => 65_536,
            size => u32::from(size),
        };
        let usable_bytes = (page_bytes as usize).saturating_sub(usize::from(bytes[20]));
        if check_page_bytes(page_bytes).is_err() || usable_bytes < USABLE_BYTES_MIN {
            let reserved = bytes[20];
            return refuse(format!(
                "its pages have {page_bytes} bytes, {reserved} of them reserved"
            ));
        }
        if bytes[21..24] != [64, 32, 32] {
            return refuse("its payload fractions are none that SQLite writes".to_owned());
        }
        if !(1..=2).contains(&bytes[19]) {
            return refuse(format!("it is for readers of version {}", bytes[19]));
        }
        let word = |at: usize| be_u32(&bytes[at..]);
        let encoding = match word(56) {
            // Zero stands in a file whose first table was not made yet, which leaves the choice to
            // its writer.
            0 | 1 => TextEncoding::Utf8,
            2 => TextEncoding::Utf16Le,
            3 => TextEncoding::Utf16Be,
            code => return refuse(format!("its text encoding {code} is unknown")),
        };
        let page_count = Some(word(28)).filter(|&count| count > 0 && word(24) == word(92));
        Ok(Self {
            page_bytes,
            reserved_bytes: bytes[20],
            write_version: bytes[18],
            read_version: bytes[19],
            change_counter: word(24),
            page_count,
            first_trunk: word(32),
            free_count: word(36),
            schema_format: word(44),
            largest_root: word(52),
            encoding,
            application_id: word(68),
        })
    }

    /// The bytes of this header.
    #[must_use]
    pub fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..16].copy_from_slice(MAGIC);
        let [_, high, middle, low] = self.page_bytes.to_be_bytes();
        // 65,536 is written as 1, which is where its only bit goes.
        bytes[16..18].copy_from_slice(&[middle, low | high]);
        bytes[18..24].copy_from_slice(&[
            self.write_version,
            self.read_version,
            self.reserved_bytes,
            64,
            32,
            32,
        ]);
        let encoding = match self.encoding {
            TextEncoding::Utf8 => 1,
            TextEncoding::Utf16Le => 2,
            TextEncoding::Utf16Be => 3,
        };
        for (at, word) in [
            (24, self.change_counter),
            (28, self.page_count.unwrap_or(0)),
            (32, self.first_trunk),
            (36, self.free_count),
            (40, 1),
            (44, self.schema_format),
            (52, self.largest_root),
            (56, encoding),
            (68, self.application_id),
            (92, self.change_counter),
            (96, SQLITE_VERSION),
        ] {
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Bytes of a page that a tree may use.
    #[must_use]
    pub fn usable_bytes(&self) -> usize {
        self.page_bytes as usize - usize::from(self.reserved_bytes)
    }

    /// Pages of a file of `file_bytes`, called `place` in errors.
    ///
    /// # Errors
    /// If the file is shorter than its header says.
    pub fn page_count_of(&self, file_bytes: u64, place: &str) -> Result<u32, StorageError> {
        let there = file_bytes / u64::from(self.page_bytes);
        let there = u32::try_from(there).unwrap_or(u32::MAX);
        match self.page_count {
            Some(count) if count > there => {
                let what = format!("it is cut off: {there} pages are there, not {count}");
                Err(StorageError::Corrupt { place: place.to_owned(), what })
            }
            Some(count) => Ok(count),
            None => Ok(there),
        }
    }
}

/// The page that must stay unused, because programs lock bytes there: that with byte 2^30.
#[must_use]
pub const fn lock_byte_page(page_bytes: u32) -> u32 {
    (1 << 30) / page_bytes + 1
}

/// Whether a file can be read without what lies beside it. Its opener says how long FILE-wal is, 0
/// where there is none, and how FILE-journal starts.
///
/// # Errors
/// If the log has changes that are not in the file yet, or a writer died in the middle.
pub fn check_beside(
    header: &FileHeader,
    wal_bytes: u64,
    journal_start: &[u8],
    place: &str,
) -> Result<(), StorageError> {
    let what = if header.read_version == 2 && wal_bytes > 0 {
        format!(
            "{place} is in WAL mode and has {wal_bytes} bytes beside it in {place}-wal; run `PRAGMA \
             wal_checkpoint(TRUNCATE)` on it with sqlite3 first"
        )
    } else if journal_start.starts_with(JOURNAL_MAGIC) {
        format!(
            "{place} was left in the middle of a transaction, to be undone from {place}-journal; \
             open it with sqlite3 once"
        )
    } else {
        return Ok(());
    };
    Err(StorageError::InvalidSetting { what })
}

/// UTF-16 text as UTF-8, appended to `out`. What is no text becomes U+FFFD.
pub(super) fn push_utf16(text: &[u8], big_endian: bool, out: &mut Vec<u8>) {
    let units = text.chunks_exact(2).map(|pair| match big_endian {
        true => u16::from_be_bytes([pair[0], pair[1]]),
        false => u16::from_le_bytes([pair[0], pair[1]]),
    });
    let mut buffer = [0; 4];
    for unit in char::decode_utf16(units) {
        let character = unit.unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_parsed_for_every_page_size() {
        for page_bytes in (9..=16).map(|shift| 1_u32 << shift) {
            let header = FileHeader::of_table(page_bytes, 7);
            assert_eq!(FileHeader::parse(&header.encode(), "x"), Ok(header));
            let lock = u64::from(lock_byte_page(page_bytes) - 1) * u64::from(page_bytes);
            assert_eq!(lock, 1 << 30);
        }
    }

    #[test]
    fn files_of_other_programs_are_refused() {
        let good = FileHeader::of_table(4096, 7).encode();
        let mut cases = vec![good[..99].to_vec(), vec![0; 4096], b"PK\x03\x04".repeat(100)];
        for (at, byte) in [(0, b's'), (16, 3), (20, 255), (21, 65), (19, 3), (59, 4)] {
            let mut bytes = good;
            bytes[at] = byte;
            if at == 20 {
                bytes[16..18].copy_from_slice(&[2, 0]);
            }
            cases.push(bytes.to_vec());
        }
        for bytes in cases {
            let error = FileHeader::parse(&bytes, "x").unwrap_err();
            assert!(matches!(error, StorageError::NotADatabase { .. }), "{error}");
        }
    }

    #[test]
    fn a_cut_file_is_corrupt_and_an_old_one_is_measured() {
        let header = FileHeader::of_table(4096, 7);
        assert_eq!(header.page_count_of(7 * 4096 + 5, "x"), Ok(7));
        assert!(header.page_count_of(7 * 4096 - 1, "x").is_err());
        let old = FileHeader { page_count: None, ..header };
        assert_eq!(old.page_count_of(5 * 4096, "x"), Ok(5));
    }

    #[test]
    fn what_lies_beside_a_file_is_not_ignored() {
        let rollback = FileHeader::of_table(4096, 7);
        let wal = FileHeader { read_version: 2, write_version: 2, ..rollback };
        assert!(check_beside(&wal, 0, b"", "x").is_ok());
        assert!(check_beside(&rollback, 100, b"", "x").is_ok(), "a log of an older life");
        assert!(check_beside(&wal, 100, b"", "x").unwrap_err().to_string().contains("checkpoint"));
        assert!(check_beside(&rollback, 0, &[0; 8], "x").is_ok(), "a journal that was finished");
        assert!(check_beside(&rollback, 0, JOURNAL_MAGIC, "x").is_err());
    }
}
