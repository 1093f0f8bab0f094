//! The double write of in-place propagation (as InnoDB's): each batch of pages goes to a file of its
//! own first, so that a page that a power cut tore has a whole copy there.
//!
//! ```text
//!   ┌ header ───────────────────────────────────────────────┬ copy 0 ┬ copy 1 ┬ … ┐
//!   │ magic 8 │ page bytes 4 │ count 4 │ (word 8, sum 4)… │ CRC 4 │ page   │ page   │   │
//!   └ HEADER_BYTES, or a sector where that is more ──────────┴────────┴────────┴───┘
//!
//!   batch: sync what the last batch wrote in place ─► header, copies ─► sync ─► in place
//! ```
//!
//! 1. Pages of a batch are written in place only after the header and all copies are durable.
//! 2. The area is used again only after the pages of the batch before are durable in place. So at any
//!    cut, a page that is torn in place has its copy here, and the header names it.
//! 3. A copy counts only if it ends in the sum that the header gives: one from an earlier batch does
//!    not.

use super::PageWrite;
use super::in_place::write_pages;
use crate::page::page_is_sound;
use crate::volume::{Io, IoOwner};
use crate::{FileId, PageAddress, StorageError};
use nandu_device::{IoBuffer, Operation};

const MAGIC: [u8; 8] = *b"nanduDW1";
const HEADER_BYTES: u32 = 4096;
/// Magic, page size and count.
const HEADER_FIXED_BYTES: usize = 16;
const ENTRY_BYTES: usize = 12;
const SUM_BYTES: usize = 4;
/// Most pages of one batch.
pub(super) const BATCH_COUNT_MAX: usize =
    (HEADER_BYTES as usize - HEADER_FIXED_BYTES - SUM_BYTES) / ENTRY_BYTES;

/// The area for copies.
#[derive(Debug)]
pub(super) struct DoubleWrite {
    file: FileId,
    page_bytes: u32,
}

impl DoubleWrite {
    /// Copies of pages of `page_bytes` in `file`.
    pub(super) const fn new(file: FileId, page_bytes: u32) -> Self {
        Self { file, page_bytes }
    }

    /// Makes copies of sealed pages durable.
    pub(super) fn write(
        &mut self,
        io: &mut Io,
        pages: &mut [PageWrite],
    ) -> Result<(), StorageError> {
        assert!(pages.len() <= BATCH_COUNT_MAX, "whoever writes keeps to the header's size");
        let mut header = self.header_buffer(io);
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&self.page_bytes.to_be_bytes());
        let count = nandu_base::to_u32(pages.len() as u64);
        header[12..16].copy_from_slice(&count.to_be_bytes());
        let entries = header[HEADER_FIXED_BYTES..].chunks_exact_mut(ENTRY_BYTES);
        for (entry, page) in entries.zip(pages.iter()) {
            entry[..8].copy_from_slice(&page.address.to_word().to_be_bytes());
            entry[8..].copy_from_slice(sum_of(&page.buffer));
        }
        let end = header.len() - SUM_BYTES;
        let sum = crc32c::crc32c(&header[..end]);
        header[end..].copy_from_slice(&sum.to_be_bytes());
        let header_bytes = header.len() as u64;
        self.transfer(io, Operation::Write, self.file, 0, header)?;
        let place = |index: usize, _: &PageWrite| {
            (self.file, header_bytes + index as u64 * u64::from(self.page_bytes))
        };
        write_pages(io, pages, place)?;
        io.sync(self.file)
    }

    /// Puts copies in the place of pages that are torn, makes them durable, and counts them.
    pub(super) fn recover(&mut self, io: &mut Io) -> Result<u32, StorageError> {
        let header = self.header_buffer(io);
        let header_bytes = header.len() as u64;
        let header = self.transfer(io, Operation::Read, self.file, 0, header)?;
        let Some(entries) = self.entries(&header) else { return Ok(0) };
        let mut restored_count = 0;
        let files: Vec<FileId> = io.volume().files().into_iter().map(|(file, _)| file).collect();
        for (index, (address, sum)) in (0_u64..).zip(entries) {
            if !files.contains(&address.file) {
                // It was removed after the batch.
                continue;
            }
            let page = |io: &mut Io, file, offset| {
                let buffer = buffer_for(io, self.page_bytes);
                self.transfer(io, Operation::Read, file, offset, buffer)
            };
            let offset = address.offset_bytes(self.page_bytes);
            if page_is_sound(&page(io, address.file, offset)?, address) {
                continue;
            }
            let copy = page(io, self.file, header_bytes + index * u64::from(self.page_bytes))?;
            if sum_of(&copy) == sum && page_is_sound(&copy, address) {
                self.transfer(io, Operation::Write, address.file, offset, copy)?;
                io.sync(address.file)?;
                restored_count += 1;
            }
        }
        Ok(restored_count)
    }

    /// The pages that a header names, with their sums; `None` if it is no whole header.
    fn entries(&self, header: &[u8]) -> Option<Vec<(PageAddress, [u8; SUM_BYTES])>> {
        let (body, sum) = header.split_last_chunk::<SUM_BYTES>()?;
        let word = |at: usize| body[at..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let count = word(12)? as usize;
        let is_whole = u32::from_be_bytes(*sum) == crc32c::crc32c(body)
            && body[..8] == MAGIC
            && word(8)? == self.page_bytes
            && count <= BATCH_COUNT_MAX;
        let entries = body[HEADER_FIXED_BYTES..].chunks_exact(ENTRY_BYTES);
        let entry = |entry: &[u8]| {
            let word = u64::from_be_bytes(*entry.first_chunk()?);
            let address = PageAddress::from_word(word);
            (address.page > 0).then_some((address, *entry.last_chunk()?))
        };
        is_whole.then(|| entries.take(count).map_while(entry).collect())
    }

    fn header_buffer(&self, io: &mut Io) -> IoBuffer {
        let bytes = HEADER_BYTES.max(io.volume().sector_bytes());
        buffer_for(io, bytes)
    }

    /// Reads or writes in one request, and waits.
    fn transfer(
        &self,
        io: &mut Io,
        operation: Operation,
        file: FileId,
        offset: u64,
        buffer: IoBuffer,
    ) -> Result<IoBuffer, StorageError> {
        io.wait_for_room();
        let ticket = io.submit(IoOwner::PageWrite, file, operation, offset, buffer)?;
        let completion = io.wait(ticket);
        let label = operation.label();
        match completion.result {
            Ok(()) => Ok(completion.buffer.expect("a request that is done hands its buffer back")),
            Err(error) => {
                let what = format!("double write: cannot {label} file {} at {offset}", file.0);
                Err(StorageError::Device { what, error })
            }
        }
    }
}

fn buffer_for(io: &mut Io, bytes: u32) -> IoBuffer {
    let alignment = io.volume().buffer_alignment().max(1) as usize;
    IoBuffer::with_alignment(bytes as usize, alignment)
}

/// The last bytes of a sealed page.
fn sum_of(page: &[u8]) -> &[u8] {
    &page[page.len() - SUM_BYTES..]
}
