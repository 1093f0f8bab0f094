//! What every page of the engine has in common: an address, a trailer, logged changes.
//!
//! ```text
//!   ┌────────────────────────────────────────────┬──────────┬─────────┬──────────┐
//!   │ usable bytes: the structure's own layout   │ LSN 8 BE │ epoch 4 │ CRC 4 BE │
//!   └────────────────────────────────────────────┴──────────┴─────────┴──────────┘
//!                                                 └ TRAILER_BYTES, SQLite's reserved bytes ┘
//! ```
//!
//! 1. The LSN is that of the last record that changed the page; it never falls.
//! 2. The checksum covers everything before it and the page's address, so that a page written to the
//!    wrong place is found. A page of zeros is valid and empty: it was never written.
//! 3. Page numbers start at 1, as SQLite's do; 0 means "none".
//! 4. The epoch is that of the log's run that changed the page last. A page of an earlier run is older
//!    than the end at which that run's log was found; one that is not has changes that the log lost.

use crate::StorageError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes at the end of each page that belong to the engine.
pub const TRAILER_BYTES: usize = 16;
/// The smallest size of a page, in bytes.
pub const PAGE_BYTES_MIN: u32 = 512;
/// The largest size of a page, in bytes.
pub const PAGE_BYTES_MAX: u32 = 65_536;

/// Checks a page size.
///
/// # Errors
/// If it is no power of two from 512 to 65,536.
pub fn check_page_bytes(page_bytes: u32) -> Result<(), StorageError> {
    if page_bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) {
        return Ok(());
    }
    let what = format!("page size {page_bytes} is not a power of two from 512 to 65536");
    Err(StorageError::InvalidSetting { what })
}

/// A file of a volume, by the number that it keeps for life.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct FileId(pub u16);

/// A page of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddress {
    /// The file that the page is of.
    pub file: FileId,
    /// Which page of it, from 1.
    pub page: u32,
}

impl PageAddress {
    /// The page `page` of `file`.
    #[must_use]
    pub const fn new(file: FileId, page: u32) -> Self {
        Self { file, page }
    }

    /// Both in one word, in the order of (file, page).
    #[must_use]
    pub const fn to_word(self) -> u64 {
        (self.file.0 as u64) << 32 | self.page as u64
    }

    /// The inverse of [`Self::to_word`].
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self { file: FileId((word >> 32 & 0xFFFF) as u16), page: (word & 0xFFFF_FFFF) as u32 }
    }

    /// Where the page starts in its file, in bytes.
    ///
    /// # Panics
    /// For page 0, which no file has.
    #[must_use]
    pub const fn offset_bytes(self, page_bytes: u32) -> u64 {
        assert!(self.page > 0, "pages are counted from 1");
        (self.page as u64 - 1) * page_bytes as u64
    }
}

impl fmt::Display for PageAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "page {} of file {}", self.page, self.file.0)
    }
}

/// Log sequence number: the byte position of a record in the endless log; 0 is before all records.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Lsn(pub u64);

/// Whether pages carry the trailer. Files of other programs do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Pages carry it, with their checksum in it.
    #[default]
    Trailer,
    /// The whole page is the structure's.
    None,
}

/// One change to one page, as structures make it and the log keeps it: physiological, that is, of
/// this page, but in terms of what lies on it. Applied to the same bytes it gives the same bytes.
///
/// `code` says which structure reads the operands: 0x00..=0x0F the engine, 0x10..=0x1F `sqlite`,
/// 0x20..=0x2F `btree`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOperation<'a> {
    /// What is to be done, as a code of the structure that reads the operands.
    pub code: u8,
    /// A slot, an offset, a kind: as the code says.
    pub operand: u32,
    /// Bytes: the key, say.
    pub first: &'a [u8],
    /// More bytes: the value, say.
    pub second: &'a [u8],
}

impl PageOperation<'_> {
    /// Overwrites the usable bytes from `operand` on by `first`.
    pub const BYTES: u8 = 0x00;
    /// Replaces the usable bytes by `first`, then `operand` zeros, then `second`.
    pub const IMAGE: u8 = 0x01;
    /// Fills the usable bytes with zeros.
    pub const CLEAR: u8 = 0x02;
}

/// The LSN in the trailer of a whole page.
///
/// # Panics
/// If `page` is shorter than a trailer.
#[must_use]
pub fn page_lsn(page: &[u8]) -> Lsn {
    let trailer = page.last_chunk::<TRAILER_BYTES>().expect("a page is longer than its trailer");
    Lsn(u64::from_be_bytes(*trailer.first_chunk().expect("the trailer begins with the LSN")))
}

/// The epoch in the trailer of a whole page.
///
/// # Panics
/// If `page` is shorter than a trailer.
#[must_use]
pub fn page_epoch(page: &[u8]) -> u32 {
    let tail = page.last_chunk::<8>().expect("a page is longer than its trailer");
    u32::from_be_bytes(*tail.first_chunk().expect("the epoch comes before the checksum"))
}

/// What a whole page holds, without its trailer.
///
/// # Panics
/// If `page` is shorter than a trailer.
#[inline]
pub(crate) fn page_contents(page: &[u8]) -> &[u8] {
    &page[..page.len() - TRAILER_BYTES]
}

/// Stores the epoch in the trailer of a whole page.
pub fn set_page_epoch(page: &mut [u8], epoch: u32) {
    let tail = page.len() - 8;
    page[tail..tail + 4].copy_from_slice(&epoch.to_be_bytes());
}

/// Stores the LSN in the trailer of a whole page.
pub fn set_page_lsn(page: &mut [u8], lsn: Lsn) {
    let trailer = page.len() - TRAILER_BYTES;
    page[trailer..trailer + 8].copy_from_slice(&lsn.0.to_be_bytes());
}

/// Makes the checksum of a whole page match. Done once, just before the page is written.
pub fn seal_page(page: &mut [u8], address: PageAddress) {
    let end = page.len() - 4;
    let sum = checksum_of(&page[..end], address);
    page[end..].copy_from_slice(&sum.to_be_bytes());
}

/// Whether a whole page, as read, belongs to `address` and is what was sealed; or never was written.
#[must_use]
pub fn page_is_sound(page: &[u8], address: PageAddress) -> bool {
    let (body, sum) = page.split_at(page.len() - 4);
    sum == checksum_of(body, address).to_be_bytes() || page_is_blank(page)
}

/// Whether a whole page is zeros, as no page is that was sealed.
pub(crate) fn page_is_blank(page: &[u8]) -> bool {
    page.iter().all(|&byte| byte == 0)
}

fn checksum_of(body: &[u8], address: PageAddress) -> u32 {
    let salt = crc32c::crc32c(&address.to_word().to_be_bytes());
    crc32c::crc32c_append(salt, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_page_is_sound_at_its_address_only() {
        let here = PageAddress::new(FileId(3), 7);
        let mut page = vec![9_u8; 512];
        set_page_lsn(&mut page, Lsn(0x0102_0304_0506));
        set_page_epoch(&mut page, 0x0708_090A);
        seal_page(&mut page, here);
        assert!(page_is_sound(&page, here));
        assert_eq!(page_lsn(&page), Lsn(0x0102_0304_0506));
        assert_eq!(page_epoch(&page), 0x0708_090A);
        assert!(!page_is_sound(&page, PageAddress::new(FileId(3), 8)));
        assert!(!page_is_sound(&page, PageAddress::new(FileId(2), 7)));
        for at in [0, 255, 500, 511] {
            page[at] ^= 1;
            assert!(!page_is_sound(&page, here), "a flipped bit at {at} is found");
            page[at] ^= 1;
        }
    }

    #[test]
    fn a_page_that_was_never_written_is_sound() {
        assert!(page_is_sound(&[0; 512], PageAddress::new(FileId(1), 1)));
    }

    #[test]
    fn addresses_pack_in_order() {
        let addresses = [(0, 1), (0, u32::MAX), (1, 1), (u16::MAX, 5)]
            .map(|(file, page)| PageAddress::new(FileId(file), page));
        assert!(addresses.windows(2).all(|pair| pair[0].to_word() < pair[1].to_word()));
        for address in addresses {
            assert_eq!(PageAddress::from_word(address.to_word()), address);
        }
    }
}
