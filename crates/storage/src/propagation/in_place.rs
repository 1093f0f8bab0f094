//! In-place propagation: page n of a file lies at (n - 1) · page_bytes of it, always.
//!
//! 1. A page is never written while a request for it is in flight: the pool reads and writes each page
//!    at most once at a time.
//! 2. A file is synced if something was written to it since its last sync that succeeded.
//! 3. Pages of a batch that lie one behind the other go in one request.
//! 4. After a cut a page that was being written may be torn. What is done about that is the setting of
//!    the engine: its log, or the double write.

use super::double_write::DoubleWrite;
use super::{ChangedRanges, PagePlace, PageRead, PageWrite, Propagation};
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

/// Where copies of pages go before the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoubleWriteFile {
    /// A file of its own.
    pub file: FileId,
    /// How long it may become, at least two pages. The longer, the less often pages in place have to
    /// be synced so that it can be used again.
    pub lap_bytes: u64,
    /// A number that no earlier run with this file had.
    pub epoch: u32,
}

/// Pages at fixed places.
#[derive(Debug)]
pub struct InPlace {
    page_bytes: u32,
    double_write: Option<DoubleWrite>,
    /// Whether a write in place failed, and may have torn pages, since the lap began.
    has_failed: bool,
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
    /// Pages of `page_bytes` on a volume of `sector_bytes`. With a `double_write` copies go to that
    /// file first, but for pages that the log can make anew.
    ///
    /// # Errors
    /// If the page size is out of range or smaller than a sector.
    pub fn new(
        page_bytes: u32,
        sector_bytes: u32,
        double_write: Option<DoubleWriteFile>,
    ) -> Result<Self, StorageError> {
        check_page_bytes(page_bytes)?;
        if page_bytes < sector_bytes {
            let what = format!(
                "pages of {page_bytes} bytes cannot be written in place on sectors of \
                 {sector_bytes}; choose pages of {sector_bytes} or log-structured propagation"
            );
            return Err(StorageError::InvalidSetting { what });
        }
        let double_write = double_write.map(|file| DoubleWrite::new(page_bytes, file));
        let (reads, unsynced, writer) = (Vec::new(), BTreeSet::new(), Writer::new(page_bytes));
        Ok(Self { page_bytes, double_write, has_failed: false, reads, unsynced, writer })
    }

    /// Restores torn pages from the double-write file, to be called before redo, and gives back how
    /// many there were. Without a double write there is nothing to do.
    ///
    /// # Errors
    /// If the device fails.
    pub fn recover(&mut self, io: &Io) -> Result<u32, StorageError> {
        match &mut self.double_write {
            Some(double_write) => double_write.recover(io),
            None => Ok(0),
        }
    }
}

impl Propagation for InPlace {
    fn places_by_address(&self) -> bool {
        true
    }

    fn locate(&self, address: PageAddress) -> Option<PagePlace> {
        let offset_bytes = address.offset_bytes(self.page_bytes);
        Some(PagePlace::Whole { file: address.file, offset_bytes })
    }

    fn start_read(
        &mut self,
        io: &Io,
        address: PageAddress,
        buffer: IoBuffer,
    ) -> Result<(), StorageError> {
        let offset = address.offset_bytes(self.page_bytes);
        let ticket = io.submit(IoOwner::PoolRead, address.file, Operation::Read, offset, buffer)?;
        self.reads.push((ticket, address));
        Ok(())
    }

    fn next_read(&mut self, io: &Io) -> Option<PageRead> {
        if self.reads.is_empty() {
            return None;
        }
        let completion = io.wait_any(IoOwner::PoolRead).expect("a read is in flight");
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

    fn write(&mut self, io: &Io, pages: &mut Vec<PageWrite>) -> Result<(), StorageError> {
        pages.iter_mut().for_each(PageWrite::seal);
        let all = pages.len().max(1);
        let part_count_max = self.double_write.as_ref().map_or(all, DoubleWrite::batch_count_max);
        for part in pages.chunks_mut(part_count_max) {
            if let Some(double_write) = &mut self.double_write {
                let copied = part.iter().filter(|page| !page.is_new);
                let is_due = double_write.is_lap_due();
                if !double_write.prepare(io, copied) || is_due {
                    if is_planted(EngineBug::LapUnsynced) {
                        double_write.end_lap();
                    } else {
                        self.sync(io)?;
                    }
                }
            }
            if let Some(double_write) = &mut self.double_write {
                double_write.write(io)?;
                double_write.note_writes(part);
            }
            self.unsynced.extend(part.iter().map(|page| page.address.file));
            self.writer.write(io, part).inspect_err(|_| self.has_failed = true)?;
            part.iter_mut().for_each(|page| page.changed.clear());
        }
        Ok(())
    }

    fn sync(&mut self, io: &Io) -> Result<(), StorageError> {
        while let Some(&file) = self.unsynced.first() {
            io.sync(file)?;
            self.unsynced.remove(&file);
            if is_planted(EngineBug::OneFileSynced) {
                self.unsynced.clear();
            }
        }
        if let Some(double_write) = &mut self.double_write {
            // Pages that could not be written in their places have their only good copies in the
            // lap that ends here: put them back before it is overwritten.
            if self.has_failed {
                double_write.recover(io)?;
                self.has_failed = false;
            }
            double_write.end_lap();
        }
        Ok(())
    }

    fn truncate(&mut self, io: &Io, file: FileId, first_page: u32) -> Result<(), StorageError> {
        let end = PageAddress::new(file, first_page).offset_bytes(self.page_bytes);
        if first_page == 1 {
            // The whole file is cut off, so that none of its pages waits for a sync any more; the
            // file itself may be removed next.
            self.unsynced.remove(&file);
        }
        if io.byte_count(file) > end {
            io.set_byte_count(file, end)?;
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
