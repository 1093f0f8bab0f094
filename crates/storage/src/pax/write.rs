//! Writing a table in PAX pages: rows are gathered until a PAX page is full, its minipages written one behind
//! the other; the directory comes last, and the header that leads to it.

use super::directory::{FIRST_PAGE, Header, push_number};
use super::minipage::MinipageBuffer;
use super::{ROW_COUNT_MAX, check_span_pages, directory, payload_bytes_of};
use crate::database::ColumnType;
use crate::sqlite::{ValueRef, value_bytes};
use crate::{ChangePages, FileId, PageAddress, PageOperation, StorageError};
use nandu_base::to_u32;

/// A table that is being written.
#[derive(Debug)]
pub struct PaxWriter {
    file: FileId,
    payload_bytes: usize,
    span_pages: u32,
    columns: Vec<MinipageBuffer>,
    value_bytes: Vec<u64>,
    /// Rows of the PAX page that is being gathered.
    gathered: u32,
    row_count: u64,
    pax_page_count: u32,
    next_page: u32,
    /// What the directory says of PAX pages.
    directory: Vec<u8>,
    minipage: Vec<u8>,
}

impl PaxWriter {
    /// Begins in an empty file.
    ///
    /// # Errors
    /// If a PAX page cannot span so many pages, a page is too short for the header, or there is no frame.
    pub fn create(
        pages: &mut impl ChangePages,
        file: FileId,
        column_types: &[ColumnType],
        span_pages: u32,
    ) -> Result<Self, StorageError> {
        check_span_pages(span_pages)?;
        let payload_bytes = payload_bytes_of(pages.usable_bytes());
        assert!(payload_bytes >= directory::HEADER_BYTES, "every page has room for the header");
        pages.create(PageAddress::new(file, 1))?;
        Ok(Self {
            file,
            payload_bytes,
            span_pages,
            columns: column_types.iter().map(|&kind| MinipageBuffer::new(kind)).collect(),
            value_bytes: vec![0; column_types.len()],
            gathered: 0,
            row_count: 0,
            pax_page_count: 0,
            next_page: FIRST_PAGE,
            directory: Vec::new(),
            minipage: Vec::new(),
        })
    }

    /// Adds a row of values of the columns' types, and answers its number.
    ///
    /// # Errors
    /// If there is no frame or no room.
    ///
    /// # Panics
    /// If the row has another number of columns.
    pub fn push<'v>(
        &mut self,
        pages: &mut impl ChangePages,
        row: impl Iterator<Item = ValueRef<'v>> + Clone,
    ) -> Result<i64, StorageError> {
        assert_eq!(row.clone().count(), self.columns.len(), "a row has the table's columns");
        let values = self.columns.iter().zip(row.clone());
        let sizes = values.map(|(column, value)| column.bytes_with(value));
        let span: usize = sizes.map(|bytes| bytes.div_ceil(self.payload_bytes)).sum();
        if self.gathered > 0 && (span > self.span_pages as usize || self.gathered == ROW_COUNT_MAX)
        {
            self.flush(pages)?;
        }
        for ((column, bytes), value) in self.columns.iter_mut().zip(&mut self.value_bytes).zip(row)
        {
            column.push(value);
            *bytes += value_bytes(value);
        }
        self.gathered += 1;
        self.row_count += 1;
        Ok(self.row_count.cast_signed())
    }

    /// Writes what is left, the directory and the header.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self, pages: &mut impl ChangePages) -> Result<(), StorageError> {
        if self.gathered > 0 {
            self.flush(pages)?;
        }
        let mut bytes = Vec::new();
        self.value_bytes.iter().for_each(|&number| push_number(&mut bytes, number));
        bytes.append(&mut self.directory);
        let directory_page = self.next_page;
        self.write(pages, &bytes)?;
        let header = Header {
            column_count: to_u32(self.columns.len() as u64),
            span_pages: self.span_pages,
            page_count: self.next_page - 1,
            pax_page_count: self.pax_page_count,
            directory_page,
            directory_bytes: bytes.len() as u64,
            row_count: self.row_count,
        };
        let (code, first) = (PageOperation::BYTES, &header.to_bytes()[..]);
        let operation = PageOperation { code, operand: 0, first, second: &[] };
        pages.change(PageAddress::new(self.file, 1), operation)
    }

    /// Ends a PAX page.
    fn flush(&mut self, pages: &mut impl ChangePages) -> Result<(), StorageError> {
        push_number(&mut self.directory, u64::from(std::mem::take(&mut self.gathered)));
        self.pax_page_count += 1;
        let mut minipage = std::mem::take(&mut self.minipage);
        for index in 0..self.columns.len() {
            minipage.clear();
            let form = self.columns[index].take(&mut minipage);
            self.directory.push(form);
            push_number(&mut self.directory, minipage.len() as u64);
            self.write(pages, &minipage)?;
        }
        self.minipage = minipage;
        Ok(())
    }

    /// Writes bytes to pages of their own.
    fn write(&mut self, pages: &mut impl ChangePages, bytes: &[u8]) -> Result<(), StorageError> {
        for part in bytes.chunks(self.payload_bytes) {
            let address = PageAddress::new(self.file, self.next_page);
            self.next_page = self.next_page.checked_add(1).ok_or_else(|| {
                let what = "a file has no more than 2^32 pages; take larger ones".to_owned();
                StorageError::InvalidSetting { what }
            })?;
            pages.create(address)?;
            let (code, number) = (PageOperation::IMAGE, address.page.to_be_bytes());
            let operand = to_u32((self.payload_bytes - part.len()) as u64);
            pages.change(address, PageOperation { code, operand, first: part, second: &number })?;
        }
        Ok(())
    }
}
