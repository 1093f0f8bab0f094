//! Header and directory of a table in PAX pages: how many rows each PAX page has, and how long the minipage
//! of each column is. Minipages lie one behind the other, so that their lengths say where.
//!
//! ```text
//!   header     magic 8 │ version │ columns │ span │ pages │ PAX pages │ directory's page │ its bytes 8 │ rows 8
//!   directory  for each column: bytes of its values in records
//!              for each PAX page: rows, and for each column: form, bytes        numbers are varints
//! ```
//!
//! 1. Nothing is as large as the bytes read say without there being as many bytes.

use super::{ROW_COUNT_MAX, SPAN_PAGES_MAX, minipage};
use crate::sqlite::varint::{VARINT_BYTES_MAX, read_varint, write_varint};
use nandu_base::to_u32;

/// What the file begins with.
const MAGIC: &[u8; 8] = b"nanduPAX";
const VERSION: u32 = 2;
/// The page after the header.
pub(super) const FIRST_PAGE: u32 = 2;
/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 48;

/// The rows of a PAX page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaxPage {
    /// Rows of the table in front of its first one.
    pub first_row: u64,
    /// How many rows it has.
    pub row_count: u32,
}

/// Where a column's values of a PAX page lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minipage {
    /// Its first page; where it has none, that of the next minipage.
    pub first_page: u32,
    /// How many pages it has; 0 if its bytes need none.
    pub page_count: u32,
    /// Its bytes, without what its pages add.
    pub byte_count: u32,
    pub(super) form: u8,
}

/// The table's header, which is on page 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) column_count: u32,
    pub(super) span_pages: u32,
    pub(super) page_count: u32,
    pub(super) pax_page_count: u32,
    pub(super) directory_page: u32,
    pub(super) directory_bytes: u64,
    pub(super) row_count: u64,
}

/// Bytes of values, PAX pages, minipages.
pub(super) type Directory = (Vec<u64>, Vec<PaxPage>, Vec<Minipage>);

impl Header {
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let words = [
            VERSION,
            self.column_count,
            self.span_pages,
            self.page_count,
            self.pax_page_count,
            self.directory_page,
        ];
        bytes[..8].copy_from_slice(MAGIC);
        for (index, word) in words.into_iter().enumerate() {
            bytes[8 + 4 * index..12 + 4 * index].copy_from_slice(&word.to_be_bytes());
        }
        bytes[32..40].copy_from_slice(&self.directory_bytes.to_be_bytes());
        bytes[40..].copy_from_slice(&self.row_count.to_be_bytes());
        bytes
    }

    pub(super) fn parse(page: &[u8], payload_bytes: usize) -> Result<Self, &'static str> {
        let bytes: &[u8; HEADER_BYTES] = page.first_chunk().ok_or("the page is too short")?;
        if &bytes[..8] != MAGIC {
            return Err("it is no table in PAX pages");
        }
        let word = |index: usize| {
            let at = 8 + 4 * index;
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from_be_bytes(std::array::from_fn(|index| bytes[at + index]));
        if word(0) != VERSION {
            return Err("it is of another version of the format");
        }
        let header = Self {
            column_count: word(1),
            span_pages: word(2),
            page_count: word(3),
            pax_page_count: word(4),
            directory_page: word(5),
            directory_bytes: long(32),
            row_count: long(40),
        };
        let directory_pages = header.directory_bytes.div_ceil(payload_bytes as u64);
        let end = u64::from(header.directory_page).saturating_add(directory_pages);
        let is_sound = header.directory_page >= FIRST_PAGE
            && end == u64::from(header.page_count) + 1
            && header.page_count < u32::MAX
            && (1..=SPAN_PAGES_MAX).contains(&header.span_pages);
        if is_sound { Ok(header) } else { Err("its header contradicts itself") }
    }
}

/// Appends a number to a directory.
pub(super) fn push_number(bytes: &mut Vec<u8>, number: u64) {
    let mut varint = [0; VARINT_BYTES_MAX];
    let length = write_varint(number, &mut varint);
    bytes.extend_from_slice(&varint[..length]);
}

/// Reads a directory.
pub(super) fn parse(
    mut bytes: &[u8],
    header: &Header,
    payload_bytes: usize,
) -> Result<Directory, &'static str> {
    const CUT_OFF: &str = "it is cut off";
    let number = |bytes: &mut &[u8]| -> Result<u64, &'static str> {
        let (number, length) = read_varint(bytes).ok_or(CUT_OFF)?;
        *bytes = &bytes[length..];
        Ok(number)
    };
    let column_count = header.column_count as usize;
    // Each PAX page takes at least a byte of its own and two for each column. Compared with what
    // there is before memory is taken for them.
    let pax_page_count = header.pax_page_count as usize;
    let least = pax_page_count.saturating_mul(1 + 2 * column_count).saturating_add(column_count);
    if least > bytes.len() {
        return Err(CUT_OFF);
    }
    let value_bytes: Result<Vec<u64>, _> = (0..column_count).map(|_| number(&mut bytes)).collect();
    let mut pax_pages = Vec::with_capacity(pax_page_count);
    let mut minipages = Vec::with_capacity(pax_page_count * column_count);
    let (mut first_row, mut first_page) = (0_u64, u64::from(FIRST_PAGE));
    for _ in 0..pax_page_count {
        let row_count = number(&mut bytes)?;
        let row_count =
            u32::try_from(row_count).ok().filter(|count| (1..=ROW_COUNT_MAX).contains(count));
        let row_count = row_count.ok_or("a PAX page has a wrong number of rows")?;
        pax_pages.push(PaxPage { first_row, row_count });
        first_row += u64::from(row_count);
        for _ in 0..column_count {
            let (&form, rest) = bytes.split_first().ok_or(CUT_OFF)?;
            bytes = rest;
            let byte_count = u32::try_from(number(&mut bytes)?).ok();
            let byte_count = byte_count.filter(|&count| minipage::fits(form, row_count, count));
            let byte_count = byte_count.ok_or("a minipage has a wrong length")?;
            let page_count = byte_count.div_ceil(to_u32(payload_bytes as u64));
            if first_page + u64::from(page_count) > u64::from(header.directory_page) {
                return Err("minipages pass the directory");
            }
            let at = to_u32(first_page);
            minipages.push(Minipage { first_page: at, page_count, byte_count, form });
            first_page += u64::from(page_count);
        }
    }
    let is_all = first_page == u64::from(header.directory_page)
        && first_row == header.row_count
        && bytes.is_empty();
    if !is_all {
        return Err("it does not say all");
    }
    let value_bytes = value_bytes?;
    for (column, &bytes) in value_bytes.iter().enumerate() {
        // A number takes nine bytes at most, a text its bytes and what says how many.
        let of_column = minipages.iter().skip(column).step_by(column_count);
        let stored: u64 = of_column.map(|minipage| u64::from(minipage.byte_count)).sum();
        if bytes > stored.saturating_add(header.row_count.saturating_mul(9)) {
            return Err("its values are longer than its minipages");
        }
    }
    Ok((value_bytes, pax_pages, minipages))
}
