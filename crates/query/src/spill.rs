//! Rows that do not fit into memory: written to one file per run, in buckets of large extents, read back
//! once, gone at the end.
//!
//! ```text
//!   SpillWriter ──pages, buffer by buffer──►  extents of the file: [A A A][B B B][A A A] …
//!       │ finish                                                      │
//!       ▼                                                             ▼
//!     Bucket: extents, rows, bytes ────────── scan ──────────► SpillStream (a TupleStream)
//!
//!   page:  ┌ cells, one after the other; one may go on on the next page ┬ checksum, 4 bytes ┐
//! ```
//!
//! 1. A bucket's pages are full but for the last; its extents are disjoint from those of all others.
//! 2. A page that is not what was written is an error, never other rows.
//! 3. The file is removed with the execution. After a crash nothing refers to it, and the next opening
//!    of the database removes it.

mod fence;

use fence::{Fence, Fences};
pub(crate) use fence::{FencedRuns, beginning, limit_fences};

use crate::execution::{Limits, Memory};
use crate::relation::{BlockReader, Position, TupleStream};
use crate::tuple::{Area, Tuple, TupleBatch, read_cell};
use crate::work::Work;
use crate::{Execution, QueryError};
use nandu_base::{to_index, to_u32};
use nandu_device::{IoBuffer, Operation};
use nandu_external::{FileKind, TemporaryFile};
use nandu_storage::page::{page_is_sound, seal_page};
use nandu_storage::sqlite::varint::VARINT_BYTES_MAX;
use nandu_storage::volume::Io;
use nandu_storage::{FileId, PageAddress, StorageError};
use std::ops::Range;
use std::sync::Arc;

/// What spill files are called.
const FILE_KIND: FileKind = FileKind { noun: "spill file", prefix: "spill-" };
/// Bytes of a page that hold its checksum.
pub(crate) const CHECKSUM_BYTES: usize = 4;
/// Extents are not made longer than this.
const EXTENT_BYTES_MAX: u64 = 64 << 20;

/// The file of one execution.
#[derive(Debug)]
pub(crate) struct SpillFile {
    io: Io,
    budget_bytes: Option<u64>,
    file: Option<Arc<TemporaryFile>>,
    /// Page after the last extent; pages are counted from 1.
    end: u32,
    free: Vec<Range<u32>>,
    written_bytes: u64,
}

/// Rows that were written.
#[derive(Debug, Default)]
pub struct Bucket {
    extents: Vec<Range<u32>>,
    page_count: u64,
    cell_bytes: u64,
    tuple_count: u64,
    /// There may be very many buckets: without fences it takes little.
    fences: Box<[Fence]>,
}

/// Writes rows to a bucket.
#[derive(Debug)]
pub struct SpillWriter<'x> {
    execution: &'x Execution,
    memory: Memory<'x>,
    buffer: IoBuffer,
    /// A second buffer, while the first is being written.
    other: Option<IoBuffer>,
    /// What is being written: the file, the ticket, and where.
    flight: Option<(Arc<TemporaryFile>, u64, u64)>,
    used: usize,
    bucket: Bucket,
    /// Pages that the bucket is expected to have.
    expected_pages: u32,
    extent_used: u32,
    /// Whether the last extent was never written before.
    is_fresh: bool,
    fences: Option<Fences>,
}

/// Reads back the rows of a bucket.
pub struct SpillStream<'x> {
    execution: &'x Execution,
    reader: BlockReader<'x>,
    next_page: u32,
    /// Bytes of the bucket that were not looked at yet.
    left_bytes: u64,
    /// Offset on the first page at which it begins.
    first_offset: usize,
    /// Offset on the page at hand, where cells go on after a row that began on an earlier page.
    start: usize,
    cells: Vec<u64>,
    /// The beginning of a row that goes on on the next page, or such a row as a whole.
    carry: Vec<u8>,
    carry_is_whole: bool,
    page_count: u64,
    block_count: u64,
}

impl SpillFile {
    pub(crate) fn new(io: Io, limits: &Limits) -> Self {
        let (budget_bytes, free) = (limits.write_budget_bytes, Vec::new());
        Self { io, budget_bytes, file: None, end: 1, free, written_bytes: 0 }
    }

    /// The file, made when it is needed for the first time.
    fn file(&mut self) -> Result<Arc<TemporaryFile>, QueryError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => Arc::new(TemporaryFile::create(&self.io, FILE_KIND)?),
        };
        Ok(Arc::clone(self.file.insert(file)))
    }

    /// Its number; any where nothing was written.
    fn id(&self) -> FileId {
        self.file.as_ref().map(|file| file.id()).unwrap_or_default()
    }

    /// An extent of `wanted` pages, and whether none of them was written before.
    fn allocate(&mut self, wanted: u32) -> Result<(Range<u32>, bool), QueryError> {
        if let Some(index) = self.free.iter().position(|run| run.end - run.start >= wanted) {
            let run = &mut self.free[index];
            let extent = run.start..run.start + wanted;
            run.start = extent.end;
            if run.start == run.end {
                self.free.swap_remove(index);
            }
            return Ok((extent, false));
        }
        let Some(end) = self.end.checked_add(wanted) else {
            let what = "a spill file has no more than 2^32 pages; use larger pages".to_owned();
            return Err(StorageError::NoSpace { what }.into());
        };
        let extent = self.end..end;
        self.end = end;
        Ok((extent, true))
    }

    /// Takes back what a bucket did not need. Fresh pages between those of buckets stay as they are: a drive
    /// that maps chunks would move all that lies around them for each write there.
    fn take_back(&mut self, rest: Range<u32>, is_fresh: bool) {
        if rest.end == self.end {
            self.end = rest.start;
        } else if !is_fresh && rest.start < rest.end {
            self.free.push(rest);
        }
    }

    /// Gives the extents of a bucket back, without writing anything.
    pub(crate) fn release(&mut self, bucket: &mut Bucket) {
        self.free.append(&mut bucket.extents);
    }

    fn book(&mut self, operator: &str, bytes: u64) -> Result<(), QueryError> {
        let total = self.written_bytes + bytes;
        match self.budget_bytes {
            Some(budget_bytes) if total > budget_bytes => {
                Err(QueryError::WriteBudget { operator: operator.to_owned(), budget_bytes })
            }
            _ => {
                self.written_bytes = total;
                Ok(())
            }
        }
    }

    pub(crate) fn audit(&self) {
        assert!(self.budget_bytes.is_none_or(|budget| self.written_bytes <= budget), "budget");
        assert!(self.free.iter().all(|run| run.end <= self.end), "invariant 1");
    }
}

impl Bucket {
    /// Pages that it has.
    #[must_use]
    pub const fn page_count(&self) -> u64 {
        self.page_count
    }

    /// Bytes of all its cells.
    #[must_use]
    pub const fn cell_bytes(&self) -> u64 {
        self.cell_bytes
    }

    /// Rows that it has.
    #[must_use]
    pub const fn tuple_count(&self) -> u64 {
        self.tuple_count
    }

    /// Reads it, in blocks of `memory`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn scan<'x>(
        &self,
        execution: &'x Execution,
        memory: Memory<'x>,
    ) -> Result<SpillStream<'x>, QueryError> {
        self.scan_at(execution, memory, Position::default())
    }

    /// Reads it from a page on, of which extent, in blocks of `memory`.
    fn scan_at<'x>(
        &self,
        execution: &'x Execution,
        memory: Memory<'x>,
        from: Position,
    ) -> Result<SpillStream<'x>, QueryError> {
        let file = execution.spill().id();
        let place = (execution.spill_io(), file);
        let runs = self.extents.as_slice().into();
        let reader = BlockReader::new(execution, memory, place, runs, from, None)?;
        Ok(SpillStream {
            execution,
            reader,
            next_page: 0,
            left_bytes: self.cell_bytes,
            first_offset: 0,
            start: 0,
            cells: Vec::new(),
            carry: Vec::new(),
            carry_is_whole: false,
            page_count: 0,
            block_count: 0,
        })
    }

    /// Gives its pages back: nobody is going to read them again.
    pub fn release(mut self, execution: &Execution) {
        execution.spill().release(&mut self);
    }

    /// The same by one of several who read it. Called once, when all are done.
    pub(crate) fn release_shared(&self, execution: &Execution) {
        execution.spill().free.extend_from_slice(&self.extents);
    }
}

impl<'x> SpillWriter<'x> {
    /// A writer whose requests are as large as `memory`; `expected_pages` sizes the extents.
    ///
    /// # Errors
    /// If there is no page of memory.
    pub fn new(
        execution: &'x Execution,
        memory: Memory<'x>,
        expected_pages: u64,
    ) -> Result<Self, QueryError> {
        if memory.pages() == 0 {
            return Err(QueryError::TooLittleMemory {
                operator: "spilling".to_owned(),
                needed_pages: 1,
                granted_pages: 0,
            });
        }
        let writes_behind = execution.limits().reads_ahead && memory.pages() > 1;
        let buffer_pages = if writes_behind { memory.pages() / 2 } else { memory.pages() };
        Ok(Self {
            execution,
            buffer: execution.buffer(buffer_pages),
            other: writes_behind.then(|| execution.buffer(buffer_pages)),
            memory,
            flight: None,
            used: 0,
            bucket: Bucket::default(),
            expected_pages: u32::try_from(expected_pages).unwrap_or(u32::MAX),
            extent_used: 0,
            is_fresh: false,
            fences: None,
        })
    }

    /// How many rows were written so far.
    #[must_use]
    pub const fn tuple_count(&self) -> u64 {
        self.bucket.tuple_count
    }

    /// Bytes of all cells so far.
    #[must_use]
    pub const fn cell_bytes(&self) -> u64 {
        self.bucket.cell_bytes
    }

    /// Appends a row.
    ///
    /// # Errors
    /// If the write budget is used up, the device is full or fails.
    #[inline]
    pub fn push(&mut self, tuple: Tuple<'_>) -> Result<(), QueryError> {
        let mut head = [0; 2 * VARINT_BYTES_MAX];
        let length = tuple.write_head(&mut head);
        self.push_bytes(&head[..length])?;
        self.push_bytes(tuple.record)?;
        self.bucket.tuple_count += 1;
        self.bucket.cell_bytes += (length + tuple.record.len()) as u64;
        Ok(())
    }

    #[inline]
    fn push_bytes(&mut self, mut bytes: &[u8]) -> Result<(), QueryError> {
        let page_bytes = self.execution.page_bytes();
        loop {
            // The checksum of each page is stepped over.
            let page_end = self.used - self.used % page_bytes + page_bytes - CHECKSUM_BYTES;
            let room = page_end - self.used;
            let here = room.min(bytes.len());
            self.buffer[self.used..self.used + here].copy_from_slice(&bytes[..here]);
            self.used += here;
            bytes = &bytes[here..];
            if self.used == page_end {
                self.used += CHECKSUM_BYTES;
                if self.used == self.buffer.len() {
                    self.write_buffer()?;
                }
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Writes what is in the buffer, in as many requests as extents it touches.
    fn write_buffer(&mut self) -> Result<(), QueryError> {
        self.execution.check_stop()?;
        let page_bytes = self.execution.page_bytes();
        let pages = to_u32(self.used.div_ceil(page_bytes) as u64);
        if pages == 0 {
            return Ok(());
        }
        let end = pages as usize * page_bytes;
        self.buffer[self.used..end].fill(0);
        let is_whole = |extent: &Range<u32>| extent.end - extent.start == self.extent_used;
        if self.bucket.extents.last().is_none_or(is_whole) {
            self.begin_extent(pages)?;
        }
        let extent = self.bucket.extents.last().expect("it was begun");
        let room = extent.end - extent.start - self.extent_used;
        assert!(pages <= room, "extents are multiples of the buffer");
        let first = extent.start + self.extent_used;
        let mut spill = self.execution.spill();
        let file = spill.file()?;
        spill.book("this operator", end as u64)?;
        drop(spill);
        for (page, bytes) in (first..).zip(self.buffer[..end].chunks_exact_mut(page_bytes)) {
            seal_page(bytes, PageAddress::new(file.id(), page));
        }
        self.wait()?;
        let replacement = match self.other.take() {
            Some(other) => other,
            None => IoBuffer::zeroed(0),
        };
        let full_bytes = self.buffer.len();
        let mut buffer = std::mem::replace(&mut self.buffer, replacement);
        buffer.resize(end);
        let offset = (u64::from(first) - 1) * page_bytes as u64;
        let ticket = file.submit(Operation::Write, offset, buffer)?;
        self.execution.note_request(true, file.id().0, offset, end as u64);
        self.flight = Some((file, ticket, offset));
        self.extent_used += pages;
        self.bucket.page_count += u64::from(pages);
        self.used = 0;
        if self.buffer.is_empty() {
            self.wait()?;
            self.buffer = self.other.take().expect("the wait gave the buffer back");
            self.buffer.resize(full_bytes);
        }
        Ok(())
    }

    /// An extent for at least `pages`, a multiple of the buffer.
    fn begin_extent(&mut self, pages: u32) -> Result<(), QueryError> {
        let buffer_pages = to_u32((self.buffer.len() / self.execution.page_bytes()) as u64);
        let written = u32::try_from(self.bucket.page_count).unwrap_or(u32::MAX);
        let expected = self.expected_pages.saturating_sub(written).max(pages);
        let longest = EXTENT_BYTES_MAX / self.execution.page_bytes() as u64;
        let count = u64::from(expected)
            .min(longest)
            .next_multiple_of(u64::from(buffer_pages))
            .max(u64::from(buffer_pages));
        let (extent, is_fresh) = self.execution.spill().allocate(to_u32(count))?;
        self.is_fresh = is_fresh;
        self.bucket.extents.push(extent);
        self.extent_used = 0;
        Ok(())
    }

    /// Waits for the buffer that is being written.
    fn wait(&mut self) -> Result<(), QueryError> {
        let Some((file, ticket, offset)) = self.flight.take() else { return Ok(()) };
        let completion = self.execution.wait(file.io(), ticket);
        self.execution.note_write_end();
        if let Err(error) = completion.result {
            return Err(file.failed(Operation::Write, offset, error).into());
        }
        let mut buffer = completion.buffer.expect("a write gives its buffer back");
        if !self.buffer.is_empty() {
            buffer.resize(self.buffer.len());
        }
        self.other = Some(buffer);
        Ok(())
    }

    /// Writes the rest, and gives back the bucket and the memory.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self) -> Result<(Bucket, Memory<'x>), QueryError> {
        self.write_buffer()?;
        self.wait()?;
        let mut bucket = std::mem::take(&mut self.bucket);
        bucket.fences = self.take_fences();
        bucket.extents.shrink_to_fit();
        if let Some(last) = bucket.extents.last_mut() {
            let used = last.start + self.extent_used;
            let rest = used..last.end;
            last.end = used;
            self.execution.spill().take_back(rest, self.is_fresh);
        }
        let pages = self.memory.pages();
        let memory = self.memory.split_off(pages);
        Ok((bucket, memory))
    }
}

impl Drop for SpillWriter<'_> {
    fn drop(&mut self) {
        if let Some((file, ticket, _)) = self.flight.take() {
            file.io().wait(ticket);
        }
    }
}

impl SpillStream<'_> {
    /// The same stream for a merge that forecasts: see [`BlockReader::borrowing`].
    pub(crate) fn borrowing(mut self) -> Self {
        self.reader = self.reader.borrowing();
        self
    }

    /// Blocks that were read.
    pub(crate) const fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Whether there are blocks after the last one that was begun.
    pub(crate) fn has_more_blocks(&self) -> bool {
        self.reader.has_more()
    }

    /// Lends a buffer to the reader: see [`BlockReader::lend`].
    pub(crate) fn lend(&mut self, buffer: IoBuffer) -> Result<Option<IoBuffer>, QueryError> {
        self.reader.lend(buffer)
    }

    /// Takes back a buffer: see [`BlockReader::take_spare`].
    pub(crate) const fn take_spare(&mut self) -> Option<IoBuffer> {
        self.reader.take_spare()
    }

    /// The last row of the block at hand that lies on one page, as far as heads of rows lead to it: when
    /// it has been given, the next block is needed.
    pub(crate) fn last_of_block(&self) -> Option<Tuple<'_>> {
        let batch = self.batch();
        let mut last = batch.cells.last().map(|&cell| batch.area.tuple(cell));
        let mut left = to_index(self.left_bytes);
        // Of the row that goes on on the page to look at: its first bytes, or how many are passed over.
        let (mut page, mut head, mut skipped) = match self.carry_is_whole {
            true => (self.next_page - 1, [].as_slice(), self.start),
            false => (self.next_page, self.carry.as_slice(), 0),
        };
        while let Some((_, bytes)) = self.reader.page(page) {
            let first = if page + 1 == self.next_page { self.start } else { 0 };
            let held = first + left.min(bytes.len() - CHECKSUM_BYTES - first);
            left -= held - first;
            page += 1;
            let mut at = match head.is_empty() {
                true => skipped,
                false => match joined_cell_bytes(head, &bytes[..held]) {
                    Some(length) => length - head.len(),
                    None => break,
                },
            };
            while at < held
                && let Some((tuple, length)) = read_cell(&bytes[at..held])
            {
                last = Some(tuple);
                at += length;
            }
            (head, skipped) = (&bytes[at.min(held)..held], at.saturating_sub(held));
        }
        last
    }

    /// Rows that were not given yet have so many bytes.
    #[must_use]
    pub const fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Makes the next page the one at hand and joins what it begins with to the carry; false at the
    /// end.
    fn turn_page(&mut self) -> Result<bool, QueryError> {
        if self.next_page >= self.reader.page_count() {
            self.next_page = 0;
            if !self.reader.advance()? {
                return Ok(false);
            }
            self.block_count += 1;
        }
        self.next_page += 1;
        self.page_count += 1;
        let (number, page) = self.reader.page(self.next_page - 1).expect("the block has pages");
        let file = self.execution.spill().id();
        let address = PageAddress::new(file, number);
        if !page_is_sound(page, address) {
            let file = "the spill file".to_owned();
            return Err(StorageError::ChecksumMismatch { file, address }.into());
        }
        self.start = std::mem::take(&mut self.first_offset);
        let room = page.len() - CHECKSUM_BYTES - self.start;
        let held = self.start + to_index(self.left_bytes.min(room as u64));
        if !self.carry.is_empty() {
            // The head first: it says how much is missing.
            let before = self.carry.len();
            let missing = loop {
                match missing_bytes(&self.carry) {
                    Some(missing) => break missing,
                    None if self.start == held => break 0,
                    None => {
                        self.carry.push(page[self.start]);
                        self.start += 1;
                    }
                }
            };
            let here = missing.min(held - self.start);
            // Each run that is merged has one: it is no longer than the row.
            self.carry.reserve_exact(to_index(self.left_bytes.min(missing as u64)));
            self.carry.extend_from_slice(&page[self.start..self.start + here]);
            self.start += here;
            self.carry_is_whole = missing_bytes(&self.carry) == Some(0);
            self.left_bytes -= (self.carry.len() - before) as u64;
        }
        Ok(true)
    }

    /// Collects the cells of the page at hand; what is left of it begins the carry.
    fn collect_cells(&mut self) {
        let Self { reader, next_page, left_bytes, start, cells, carry, .. } = self;
        let (_, page) = reader.page(*next_page - 1).expect("the page was begun");
        let held = to_index(*left_bytes).min(page.len() - CHECKSUM_BYTES - *start);
        let body = &page[..*start + held];
        let mut at = *start;
        cells.clear();
        while let Some((_, length)) = read_cell(&body[at..]) {
            cells.push(at as u64);
            at += length;
        }
        carry.clear();
        // A row that was longer than a page does not stay in memory.
        carry.shrink_to(page.len());
        carry.reserve_exact(body.len() - at);
        carry.extend_from_slice(&body[at..]);
        *left_bytes -= held as u64;
        *start = body.len();
    }
}

/// The length of a cell that begins with `head` and goes on with `rest`; `None` where not even its head is
/// whole.
fn joined_cell_bytes(head: &[u8], rest: &[u8]) -> Option<usize> {
    use nandu_storage::sqlite::varint::VARINT_BYTES_MAX;
    let mut joined = [0; 2 * VARINT_BYTES_MAX];
    let count =
        joined.iter_mut().zip(head.iter().chain(rest)).map(|(to, from)| *to = *from).count();
    cell_length(&joined[..count])
}

/// How many bytes a cell lacks of which these are the first; `None` where not even its head is whole.
fn missing_bytes(bytes: &[u8]) -> Option<usize> {
    Some(cell_length(bytes)?.saturating_sub(bytes.len()))
}

/// The length of the cell of which these are the first bytes; `None` where not even its head is whole.
fn cell_length(bytes: &[u8]) -> Option<usize> {
    use nandu_storage::sqlite::varint::read_varint;
    let (record_bytes, first) = read_varint(bytes)?;
    let (_, second) = read_varint(&bytes[first..])?;
    // Forecasts look at pages that were not checked yet.
    Some((first + second).saturating_add(to_index(record_bytes)))
}

impl TupleStream for SpillStream<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.cells.clear();
        if self.carry_is_whole {
            self.carry_is_whole = false;
            self.collect_cells();
        }
        while self.cells.is_empty() {
            if self.left_bytes == 0 {
                return Ok(false);
            }
            if !self.turn_page()? {
                let (place, what) = ("a spill file".to_owned(), "it ends early".to_owned());
                return Err(StorageError::Corrupt { place, what }.into());
            }
            if self.carry_is_whole {
                self.cells.push(0);
            } else if self.carry.is_empty() {
                self.collect_cells();
            }
        }
        self.execution.work(Work::Scan, self.cells.len() as u64);
        Ok(true)
    }

    fn batch(&self) -> TupleBatch<'_> {
        let piece = match self.carry_is_whole || self.cells.is_empty() {
            true => self.carry.as_slice(),
            false => self.reader.page(self.next_page - 1).expect("it is at hand").1,
        };
        TupleBatch { area: Area::Piece(piece), cells: &self.cells }
    }

    fn page_count(&self) -> u64 {
        self.page_count
    }

    fn position(&self) -> Option<Position> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{execution, limits};
    use nandu_storage::volume::IoOwner;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn rows_come_back_in_order_whatever_their_length_and_the_buffers(
            lengths in proptest::collection::vec(prop_oneof![0_usize..80, 0_usize..3000], 0..200),
            (write_pages, read_pages, expected_pages) in (1_u32..6, 1_u32..6, 0_u64..20),
            reads_ahead: bool,
        ) {
            let limits = Limits { reads_ahead, ..limits(512, 20) };
            let execution = execution(limits);
            let records: Vec<Vec<u8>> = (0_u8..=255).cycle().zip(&lengths)
                .map(|(fill, &length)| vec![fill; length]).collect();
            let mut buckets = Vec::new();
            for parity in 0..2 {
                let memory = execution.take("test", write_pages).unwrap();
                let mut writer = SpillWriter::new(&execution, memory, expected_pages).unwrap();
                for (row_number, record) in (0_i64..).zip(&records).skip(parity).step_by(2) {
                    writer.push(Tuple { row_number, record }).unwrap();
                }
                buckets.push(writer.finish().unwrap().0);
            }
            for (parity, bucket) in buckets.iter().enumerate() {
                let memory = execution.take("test", read_pages).unwrap();
                let mut stream = bucket.scan(&execution, memory).unwrap();
                let mut expected = (0_i64..).zip(&records).skip(parity).step_by(2);
                let mut count = 0;
                while stream.advance().unwrap() {
                    for tuple in stream.batch().tuples() {
                        let (row_number, record) = expected.next().unwrap();
                        prop_assert_eq!(tuple, Tuple { row_number, record });
                        count += 1;
                    }
                }
                prop_assert!(expected.next().is_none());
                prop_assert_eq!(count, bucket.tuple_count());
                prop_assert_eq!(stream.page_count(), bucket.page_count());
            }
            execution.audit();
            prop_assert_eq!(execution.free_pages(), 20);
        }
    }

    #[test]
    fn the_write_budget_is_kept_and_the_file_goes_with_the_execution() {
        let limits = Limits { write_budget_bytes: Some(2048), ..limits(512, 4) };
        let execution = execution(limits);
        let io = execution.spill_io().clone();
        let memory = execution.take("test", 2).unwrap();
        let mut writer = SpillWriter::new(&execution, memory, 10).unwrap();
        let record = [1; 100];
        let error = (0..100)
            .find_map(|row_number| writer.push(Tuple { row_number, record: &record }).err());
        assert!(matches!(error, Some(QueryError::WriteBudget { budget_bytes: 2048, .. })));
        drop(writer);
        assert_eq!(execution.io_counts().write_bytes, 2048);
        assert_eq!(io.files().len(), 1);
        drop(execution);
        assert!(io.files().is_empty());
    }

    #[test]
    fn a_damaged_page_is_an_error() {
        let execution = execution(limits(512, 4));
        let memory = execution.take("test", 2).unwrap();
        let mut writer = SpillWriter::new(&execution, memory, 10).unwrap();
        for row_number in 0..50 {
            writer.push(Tuple { row_number, record: &[7; 60] }).unwrap();
        }
        let (bucket, memory) = writer.finish().unwrap();
        let file = execution.spill().id();
        let mut page = execution.buffer(1);
        page.fill(9);
        let io = execution.spill_io();
        let ticket = io.submit(IoOwner::Operator, file, Operation::Write, 512 * 3, page).unwrap();
        io.wait(ticket);
        let mut stream = bucket.scan(&execution, memory).unwrap();
        let error = loop {
            match stream.advance() {
                Ok(true) => {}
                Ok(false) => panic!("the damage was not found"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("checksum"), "{error}");
    }
}
