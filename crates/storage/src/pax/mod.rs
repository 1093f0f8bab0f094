//! Tables in PAX pages (Ailamaki and others, VLDB 2001): the values of a column lie side by side in a
//! minipage, so that few columns can be read without the others, and rows by their number.
//!
//! ```text
//!   file       │ header │ PAX page │ PAX page │ … │ directory │
//!   PAX page   │ minipage of column 0 │ of column 1 │ … │         up to `span_pages` database pages
//!   minipage   │ presence bits │ values of a width                each begins a database page
//!              │ presence bits │ ends, 4 BE each │ bytes           and is cut into payloads
//!   each page behind the header:  payload │ its own number, 4 BE
//! ```
//!
//! The paper's page is one of the disk's, and all of its minipages are read together. Here it spans many
//! database pages, so that a minipage is as long as what flash reads at once (FlashScan: Tsirogiannis and
//! others, SIGMOD 2009). The directory says where minipages lie and stays in memory.
//!
//! 1. Rows are numbered from 1, in the order in which they were loaded.
//! 2. A PAX page has a row at least. It spans more than `span_pages` only if it has one row alone.
//! 3. A table is written once, as a whole, past the log; nothing of it changes then.
//! 4. What the directory says is checked when it is read, what a minipage says when a value is.
//! 5. Every page says its own number, which is not 0: one of zeros, whose checksum is in order, was lost.

mod directory;
mod minipage;
mod write;

pub use directory::{Minipage, PaxPage};
pub use minipage::MinipageView;
pub use write::PaxWriter;

use crate::database::ColumnType;
use crate::sqlite::{ValueRef, encode_record};
use crate::{FileId, PageAddress, ReadPages, StorageError};
use directory::Header;
use nandu_base::words::counted;
use nandu_base::{to_index, to_u32};

/// Database pages that a PAX page may span.
pub const SPAN_PAGES_MAX: u32 = 1 << 14;
/// Bytes behind the payload of a page, where it says its number.
const NUMBER_BYTES: usize = 4;
/// Pages that are read at once.
const PIECE_PAGES: usize = 256;
/// Rows of a PAX page at most: of columns of NULLs there could be any number.
const ROW_COUNT_MAX: u32 = 1 << 16;

/// A table in PAX pages that is open.
#[derive(Debug)]
pub struct PaxTable {
    file: FileId,
    column_types: Vec<ColumnType>,
    header: Header,
    /// Bytes that the values of each column take in records.
    value_bytes: Vec<u64>,
    pax_pages: Vec<PaxPage>,
    /// Of each PAX page, those of all columns.
    minipages: Vec<Minipage>,
}

/// Bytes of minipages and of the directory on a page of so many usable bytes.
#[must_use]
pub const fn payload_bytes_of(usable_bytes: usize) -> usize {
    usable_bytes - NUMBER_BYTES
}

/// The payload of a page behind the header, of its usable bytes.
///
/// # Errors
/// If the page does not say that it is this one: it was never written, or is another.
///
/// # Panics
/// If the bytes are too few to say a number.
#[inline]
pub fn payload_of(usable: &[u8], address: PageAddress) -> Result<&[u8], StorageError> {
    let (payload, number) = usable.split_last_chunk().expect("a page has room for its number");
    let number: &[u8; NUMBER_BYTES] = number;
    match u32::from_be_bytes(*number) {
        number if number == address.page => Ok(payload),
        number => Err(lost_page(address, number)),
    }
}

#[cold]
fn lost_page(address: PageAddress, number: u32) -> StorageError {
    let found = match number {
        0 => "it was never written".to_owned(),
        number => format!("it says that it is page {number}"),
    };
    let what = format!("{found}; drop the table and load it anew");
    StorageError::Corrupt { place: address.to_string(), what }
}

/// Checks how many database pages a PAX page is to span.
///
/// # Errors
/// If it is none, or more than [`SPAN_PAGES_MAX`].
pub fn check_span_pages(span_pages: u32) -> Result<(), StorageError> {
    if (1..=SPAN_PAGES_MAX).contains(&span_pages) {
        return Ok(());
    }
    let what = format!("a PAX page spans from 1 to {SPAN_PAGES_MAX} pages, not {span_pages}");
    Err(StorageError::InvalidSetting { what })
}

impl PaxTable {
    /// Reads header and directory of a file of so many pages, as far as that is known.
    ///
    /// # Errors
    /// If the file holds no such table, another number of columns, is shorter than it says, or damaged.
    pub fn open(
        pages: &impl ReadPages,
        file: FileId,
        page_count: Option<u64>,
        column_types: Vec<ColumnType>,
    ) -> Result<Self, StorageError> {
        let payload_bytes = payload_bytes_of(pages.usable_bytes());
        let first = PageAddress::new(file, 1);
        let header = pages.read(first, |bytes| Header::parse(bytes, payload_bytes))?;
        let damaged = |what: String| StorageError::Corrupt { place: first.to_string(), what };
        let header = header.map_err(|what| damaged(what.to_owned()))?;
        if header.column_count as usize != column_types.len() {
            let (here, known) = (header.column_count, column_types.len());
            let here = counted(here, "column");
            return Err(damaged(format!("it has {here}, the catalogue {known}")));
        }
        StorageError::check_length(PageAddress::new(file, header.page_count), page_count)?;
        let bytes = read_bytes(pages, file, header.directory_page, header.directory_bytes)?;
        let read = directory::parse(&bytes, &header, payload_bytes);
        let (value_bytes, pax_pages, minipages) = read.map_err(|what| {
            let place = PageAddress::new(file, header.directory_page).to_string();
            StorageError::Corrupt { place, what: format!("the directory: {what}") }
        })?;
        Ok(Self { file, column_types, header, value_bytes, pax_pages, minipages })
    }

    /// The file that the table lies in.
    #[must_use]
    pub const fn file(&self) -> FileId {
        self.file
    }

    /// Pages of the file.
    #[must_use]
    pub const fn page_count(&self) -> u32 {
        self.header.page_count
    }

    /// How many rows the table has.
    #[must_use]
    pub const fn row_count(&self) -> u64 {
        self.header.row_count
    }

    /// The types of its columns.
    #[must_use]
    pub fn column_types(&self) -> &[ColumnType] {
        &self.column_types
    }

    /// Its PAX pages, in the order of rows.
    #[must_use]
    pub fn pax_pages(&self) -> &[PaxPage] {
        &self.pax_pages
    }

    /// Bytes that the values of a column take in records, all together.
    #[must_use]
    pub fn value_bytes(&self, column: usize) -> u64 {
        self.value_bytes[column]
    }

    /// Where a PAX page has its values of a column.
    ///
    /// # Panics
    /// If there is no such PAX page or column.
    #[must_use]
    pub fn minipage(&self, pax_page: usize, column: usize) -> Minipage {
        assert!(column < self.column_types.len(), "the table has the column");
        self.minipages[pax_page * self.column_types.len() + column]
    }

    /// The PAX page of a row and the row's place there; `None` without such a row.
    #[must_use]
    pub fn place_of(&self, row_number: i64) -> Option<(usize, usize)> {
        let row = u64::try_from(row_number).ok()?.checked_sub(1)?;
        let at = self.pax_pages.partition_point(|page| page.first_row <= row).checked_sub(1)?;
        let place = row - self.pax_pages[at].first_row;
        (place < u64::from(self.pax_pages[at].row_count)).then(|| (at, to_index(place)))
    }

    /// The same, quicker if the PAX page is that one or the next.
    #[must_use]
    pub fn place_near(&self, row_number: i64, pax_page: usize) -> Option<(usize, usize)> {
        let row = u64::try_from(row_number).ok()?.checked_sub(1)?;
        let around = self.pax_pages.iter().enumerate().skip(pax_page).take(2);
        for (at, page) in around {
            if (page.first_row..page.first_row + u64::from(page.row_count)).contains(&row) {
                return Some((at, to_index(row - page.first_row)));
            }
        }
        self.place_of(row_number)
    }

    /// The values that a minipage has, of whose bytes `bytes` are those that the directory counts.
    ///
    /// # Errors
    /// If they are not as many.
    pub fn view<'a>(
        &self,
        pax_page: usize,
        column: usize,
        bytes: &'a [u8],
    ) -> Result<MinipageView<'a>, StorageError> {
        let minipage = self.minipage(pax_page, column);
        let row_count = self.pax_pages[pax_page].row_count as usize;
        let column_type = self.column_types[column];
        MinipageView::new(bytes, column_type, minipage.form, row_count)
            .map_err(|what| self.damaged(pax_page, column, what))
    }

    /// The error that a minipage breaks a rule.
    #[cold]
    #[must_use]
    pub fn damaged(&self, pax_page: usize, column: usize, what: &str) -> StorageError {
        let page = self.minipage(pax_page, column).first_page;
        let place = PageAddress::new(self.file, page).to_string();
        StorageError::Corrupt { place, what: format!("the minipage of column {column}: {what}") }
    }

    /// Lends all rows of a PAX page to `look`, in their order, until it says no.
    ///
    /// # Errors
    /// If a page cannot be read or breaks a rule.
    pub fn look_at(
        &self,
        pages: &impl ReadPages,
        pax_page: usize,
        mut look: impl FnMut(i64, &[u8]) -> bool,
    ) -> Result<(), StorageError> {
        let mut contents = Vec::with_capacity(self.column_types.len());
        for column in 0..self.column_types.len() {
            let Minipage { first_page, byte_count, .. } = self.minipage(pax_page, column);
            contents.push(read_bytes(pages, self.file, first_page, u64::from(byte_count))?);
        }
        let views = contents.iter().enumerate();
        let views: Result<Vec<_>, _> =
            views.map(|(column, bytes)| self.view(pax_page, column, bytes)).collect();
        let views = views?;
        let PaxPage { first_row, row_count } = self.pax_pages[pax_page];
        let (mut record, mut values) = (Vec::new(), Vec::<ValueRef<'_>>::new());
        for place in 0..row_count as usize {
            values.clear();
            for (column, view) in views.iter().enumerate() {
                let value = view.value(place);
                values.push(value.map_err(|what| self.damaged(pax_page, column, what))?);
            }
            record.clear();
            encode_record(values.iter().copied(), &mut record);
            let number = (first_row + place as u64).cast_signed() + 1;
            if !look(number, &record) {
                break;
            }
        }
        Ok(())
    }
}

/// Bytes that begin at the front of a page and go on on the next ones.
fn read_bytes(
    pages: &impl ReadPages,
    file: FileId,
    first_page: u32,
    byte_count: u64,
) -> Result<Vec<u8>, StorageError> {
    let payload_bytes = payload_bytes_of(pages.usable_bytes());
    let end_page = first_page + to_u32(byte_count.div_ceil(payload_bytes as u64));
    let mut bytes = Vec::new();
    // Piece by piece: a page that is not there ends it before memory does.
    for start in (first_page..end_page).step_by(PIECE_PAGES) {
        let addresses: Vec<PageAddress> =
            (start..end_page).take(PIECE_PAGES).map(|page| PageAddress::new(file, page)).collect();
        let at = bytes.len();
        bytes.resize(at + addresses.len() * payload_bytes, 0);
        let mut is_lost = None;
        pages.read_batch(&addresses, |index, page| match payload_of(page, addresses[index]) {
            Ok(payload) => {
                bytes[at + index * payload_bytes..][..payload_bytes].copy_from_slice(payload);
            }
            Err(error) => is_lost = Some(error),
        })?;
        is_lost.map_or(Ok(()), Err)?;
    }
    bytes.truncate(to_index(byte_count));
    Ok(bytes)
}

#[cfg(test)]
mod tests;
