//! In-place propagation: page n of a file lies at (n - 1) · page_bytes of it, always.
//!
//! 1. A page is never written while a request for it is in flight: the pool reads and writes each page
//!    at most once at a time.
//! 2. A file is synced if something was written to it since its last sync that succeeded.
//! 3. Pages of a batch that lie one behind the other go in one request.
//! 4. After a cut a page that was being written may be torn. What is done about that is the setting of
//!    the engine: its log, or the double write before any kind that overwrites pages.

use super::{ChangedRanges, Media, PagePlace, PageRead, PageWrite, Propagation};
use crate::page::check_page_bytes;
use crate::plant::{EngineBug, is_planted};
use crate::volume::{Io, IoOwner};
use crate::{FileId, PageAddress, StorageError};
use nandu_device::{Completion, IoBuffer, Operation};
use std::collections::BTreeSet;

/// The most bytes of one request: from here on no drive gains from longer ones.
const REQUEST_BYTES_MAX: usize = 128 << 10;
/// Buffers for runs that are kept from one batch to the next.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Pages at fixed places.
#[derive(Debug)]
pub struct InPlace {
    io: Io,
    page_bytes: u32,
    /// Tickets of the reads in flight, with their pages.
    reads: Vec<(u64, PageAddress)>,
    unsynced: BTreeSet<FileId>,
    writer: Writer,
}

/// Takes pages to their places.
#[derive(Debug)]
struct Writer {
    page_bytes: u32,
    /// Requests in flight; none between two calls.
    runs: Vec<Run>,
    /// Kept for runs of several pages.
    spare_buffers: Vec<IoBuffer>,
}

impl InPlace {
    /// Pages of `page_bytes` on the volume of the data.
    ///
    /// # Errors
    /// If the page size is out of range or smaller than a sector.
    pub fn new(media: Media, page_bytes: u32) -> Result<Self, StorageError> {
        check_page_bytes(page_bytes)?;
        let io = media.into_data();
        let sector_bytes = io.sector_bytes();
        if page_bytes < sector_bytes {
            let what = format!(
                "pages of {page_bytes} bytes cannot be written in place on sectors of \
                 {sector_bytes}; choose pages of {sector_bytes} or log-structured propagation"
            );
            return Err(StorageError::InvalidSetting { what });
        }
        let (reads, unsynced, writer) = (Vec::new(), BTreeSet::new(), Writer::new(page_bytes));
        Ok(Self { io, page_bytes, reads, unsynced, writer })
    }
}

impl Propagation for InPlace {
    fn data(&self) -> &Io {
        &self.io
    }

    fn locate(&self, address: PageAddress) -> Option<PagePlace> {
        let offset_bytes = address.offset_bytes(self.page_bytes);
        Some(PagePlace::Whole { file: address.file, offset_bytes })
    }

    fn needs_room_in_files(&self) -> bool {
        true
    }

    fn counts_pages_by_length(&self) -> bool {
        true
    }

    fn lets_read_past_pool(&self) -> bool {
        true
    }

    fn places_by_address(&self) -> bool {
        true
    }

    fn keeps_places(&self) -> bool {
        true
    }

    fn leaves_blank_what_was_never_written(&self) -> bool {
        true
    }

    fn uses_changes(&self) -> bool {
        false
    }

    fn start_read(&mut self, address: PageAddress, buffer: IoBuffer) -> Result<(), StorageError> {
        let offset = address.offset_bytes(self.page_bytes);
        let (owner, operation) = (IoOwner::PoolRead, Operation::Read);
        let ticket = self.io.submit(owner, address.file, operation, offset, buffer)?;
        self.reads.push((ticket, address));
        Ok(())
    }

    fn next_read(&mut self) -> Option<PageRead> {
        if self.reads.is_empty() {
            return None;
        }
        let completion = self.io.wait_any(IoOwner::PoolRead).expect("a read is in flight");
        let place = self.reads.iter().position(|&(ticket, _)| ticket == completion.id);
        let (_, address) = self.reads.swap_remove(place.expect("only the pool reads pages"));
        let Completion { result, buffer, .. } = completion;
        let buffer = buffer.unwrap_or_else(|| IoBuffer::with_alignment(0, 1));
        let result = result.map_err(|error| {
            let what = format!("cannot read {address}");
            StorageError::Device { what, error }
        });
        let changed = ChangedRanges::default();
        Some(PageRead { address, buffer, changed, result })
    }

    fn write(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        self.unsynced.extend(pages.iter().map(|page| page.address.file));
        self.writer.write(&self.io, pages)?;
        pages.iter_mut().for_each(|page| page.changed.clear());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        while let Some(&file) = self.unsynced.first() {
            self.io.sync(file)?;
            self.unsynced.remove(&file);
            if is_planted(EngineBug::OneFileSynced) {
                self.unsynced.clear();
            }
        }
        Ok(())
    }

    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        let end = PageAddress::new(file, first_page).offset_bytes(self.page_bytes);
        if first_page == 1 {
            // The whole file is cut off, so that none of its pages waits for a sync any more; the
            // file itself may be removed next.
            self.unsynced.remove(&file);
        }
        if self.io.byte_count(file) > end {
            self.io.set_byte_count(file, end)?;
        }
        Ok(())
    }

    fn audit(&self) {
        let pages: BTreeSet<PageAddress> = self.reads.iter().map(|&(_, page)| page).collect();
        assert_eq!(pages.len(), self.reads.len(), "a page is read once at a time");
    }
}

/// Neighbours that go to the device in one request.
#[derive(Clone, Copy, Debug)]
struct Run {
    ticket: u64,
    /// In the batch.
    first: usize,
    page_count: usize,
}

impl Writer {
    fn new(page_bytes: u32) -> Self {
        Self { page_bytes, runs: Vec::new(), spare_buffers: Vec::new() }
    }

    /// Writes pages to their places with the queue full, neighbours that follow each other in `pages`
    /// in one request, and waits for all. The first error counts; buffers that the volume lost come
    /// back empty.
    fn write(&mut self, io: &Io, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        let mut first_error = None;
        let mut next = 0;
        loop {
            let may_start = next < pages.len() && first_error.is_none();
            if !may_start && self.runs.is_empty() {
                break;
            }
            if may_start && (io.has_room() || self.runs.is_empty()) {
                let page_count = self.neighbours(&pages[next..]);
                let run = &mut pages[next..next + page_count];
                let (file, offset) = (run[0].address.file, self.offset_of(&run[0]));
                let buffer = self.take_buffer(io, run);
                match io.submit(IoOwner::PageWrite, file, Operation::Write, offset, buffer) {
                    Ok(ticket) => self.runs.push(Run { ticket, first: next, page_count }),
                    Err(error) => first_error = Some(error),
                }
                next += page_count;
                continue;
            }
            let Some(completion) = io.wait_any(IoOwner::PageWrite) else { break };
            let known = self.runs.iter().position(|run| run.ticket == completion.id);
            let run = self.runs.swap_remove(known.expect("only this writes pages"));
            match completion.buffer {
                Some(buffer) if run.page_count == 1 => pages[run.first].buffer = buffer,
                Some(buffer) => self.keep_buffer(buffer),
                None => {}
            }
            if let Err(error) = completion.result {
                let address = pages[run.first].address;
                let what = match run.page_count {
                    1 => format!("cannot write {address}"),
                    count => format!("cannot write {address} and {} pages after it", count - 1),
                };
                first_error.get_or_insert(StorageError::Device { what, error });
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    fn offset_of(&self, page: &PageWrite) -> u64 {
        page.address.offset_bytes(self.page_bytes)
    }

    /// How many of `pages` lie one behind the other from the first on, at least one.
    fn neighbours(&self, pages: &[PageWrite]) -> usize {
        let follows = |pair: &[PageWrite]| {
            let (before, after) = (pair[0].address, pair[1].address);
            before.file == after.file && before.page.checked_add(1) == Some(after.page)
        };
        let count_max = (REQUEST_BYTES_MAX / self.page_bytes as usize).max(1);
        let pairs = pages.windows(2).take(count_max - 1);
        1 + pairs.take_while(|pair| follows(pair)).count()
    }

    /// The bytes of a run in one buffer: its own where it is one page.
    fn take_buffer(&mut self, io: &Io, run: &mut [PageWrite]) -> IoBuffer {
        if let [page] = run {
            return std::mem::replace(&mut page.buffer, IoBuffer::with_alignment(0, 1));
        }
        let bytes = run.len() * self.page_bytes as usize;
        let fits = self.spare_buffers.iter().position(|spare| spare.capacity() >= bytes);
        let mut buffer = match fits {
            Some(index) => self.spare_buffers.swap_remove(index),
            None => {
                let alignment = io.buffer_alignment().max(1) as usize;
                IoBuffer::with_alignment(bytes.next_power_of_two(), alignment)
            }
        };
        buffer.resize(bytes);
        for (place, page) in buffer.chunks_exact_mut(self.page_bytes as usize).zip(run) {
            place.copy_from_slice(&page.buffer);
        }
        buffer
    }

    fn keep_buffer(&mut self, buffer: IoBuffer) {
        let kept_bytes: usize = self.spare_buffers.iter().map(IoBuffer::capacity).sum();
        if kept_bytes + buffer.capacity() <= SPARE_BYTES_MAX {
            self.spare_buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests;
