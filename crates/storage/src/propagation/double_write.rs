//! The double write (as InnoDB's) before any propagation that overwrites pages: copies of pages, or of
//! what changed on them, go to a file of their own first, one batch behind the other, so that a page that
//! a power cut tore can be put together again. Torn ones are read and written as the kind does it.
//!
//! ```text
//!   file    │ batch 0 │ batch 1 │ … │ batch n │ what an earlier lap left │
//!   batch   │ magic 8 │ CRC 4 │ page bytes 4 │ lap 8 │ number 4 │ count 4 │ length 8 │
//!           │ (word 8, kind and record bytes 4)… │ records │ zeros to a sector │
//!   record  whole: the page without its hole      changes: as in `changes`
//!
//!   batch ─► sync ─► pages in place            lap full: sync what is in place ─► next lap
//! ```
//!
//! 1. Pages are written in place only after the batch with their copies is durable.
//! 2. A lap begins at the start of the file, after everything written in place is durable, and what a
//!    write that failed tore there is put together again: its copies are in the lap alone. So at any
//!    cut, each sector of a torn page is of some write of this lap or of the durable page before it.
//!    Bytes that none of these writes changed are alike in all of them; laying the changes over them,
//!    in order and from the last whole copy on, gives the last write.
//! 3. A page whose first write of a lap had no copy, being new, gets a whole one at its next write.
//! 4. A batch counts only if its checksum fits and it goes on where the one before ended, in the same
//!    lap; so what an earlier lap left never counts. Laps of different runs differ by their epoch.
//!
//! A new page may get a copy that is of a file which had the number before, where a cut tore its first
//! write. It is sound then, and older than the record of its making, which redo applies.
//!
//! Rule 2 takes a sector to be old or new after a cut. One that is neither needs a whole copy.

use super::log_structured::record::{hole_of, pack, packed_bytes, unpack};
use super::{ChangedRanges, PageWrite, Propagation};
use crate::page::page_is_sound;
use crate::plant::{EngineBug, is_planted};
use crate::volume::{Io, IoOwner};
use crate::{FileId, PageAddress, StorageError};
use nandu_base::{to_index, to_u32};
use nandu_device::{IoBuffer, Operation};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const MAGIC: [u8; 8] = *b"nanduDW3";
const HEADER_BYTES: usize = 40;
const ENTRY_BYTES: usize = 12;
/// The checksum covers what follows it.
const SUM: Range<usize> = 8..12;
/// The most bytes of one request.
const REQUEST_BYTES_MAX: usize = 256 << 10;
/// Pages that recovery has in flight.
const READ_COUNT_MAX: usize = 32;
/// In an entry's record bytes: the record holds what changed, not the page.
const CHANGES: u32 = 1 << 31;
/// A lap ends when so many new pages were written in it: they are remembered one by one.
const NEW_PAGE_COUNT_MAX: usize = 1 << 16;

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

/// The file for copies.
#[derive(Debug)]
pub(super) struct DoubleWrite {
    io: Io,
    file: FileId,
    page_bytes: u32,
    lap_bytes: u64,
    /// Of pages that are read, and of copies.
    buffer_alignment: u32,
    /// The lap: the epoch, then how many there were in it.
    lap: u64,
    /// The batch that comes next, and where.
    number: u32,
    offset: u64,
    /// The pages of the batch, one behind the other.
    batch: Vec<u8>,
    /// Pages that this lap wrote without a copy, and not since with one.
    new_pages: BTreeSet<PageAddress>,
}

/// Whether the lap has room for the batch that was put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Batch {
    Fits,
    HasNoRoom,
}

/// How a page is copied.
enum CopyPlan {
    /// Without this hole.
    Whole(Range<usize>),
    /// What changed, in so many bytes.
    Changes(usize),
}

/// What stands at the head of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Header {
    lap: u64,
    number: u32,
    count: u32,
    length_bytes: u64,
}

/// Where a copy of a page lies.
#[derive(Clone, Copy)]
struct Copy {
    offset: u64,
    record_bytes: u32,
    is_whole: bool,
}

/// The copies of each page that count: a whole one or none, then changes, in their order.
type Copies = BTreeMap<PageAddress, Vec<Copy>>;

/// A page as the cut left it, and what its copies say.
type TornPage<'c> = (PageAddress, IoBuffer, &'c [Copy]);

impl DoubleWrite {
    /// Copies of pages of `page_bytes`, in a file of the volume of `io`.
    pub(super) fn new(io: Io, page_bytes: u32, file: DoubleWriteFile) -> Self {
        let DoubleWriteFile { file, lap_bytes, epoch } = file;
        let buffer_alignment = io.buffer_alignment().max(1);
        Self {
            io,
            file,
            page_bytes,
            lap_bytes,
            buffer_alignment,
            lap: u64::from(epoch) << 32,
            number: 0,
            offset: 0,
            batch: Vec::new(),
            new_pages: BTreeSet::new(),
        }
    }

    /// The same with pages and copies aligned in memory to `buffer_alignment` bytes.
    pub(super) fn aligned_to(self, buffer_alignment: u32) -> Self {
        Self { buffer_alignment, ..self }
    }

    /// How many pages of any content a lap has room for, at least one.
    pub(super) fn batch_count_max(&self) -> usize {
        let page_bytes = self.page_bytes as usize + 2 * ENTRY_BYTES;
        (to_index(self.lap_bytes).saturating_sub(HEADER_BYTES) / page_bytes).max(1)
    }

    /// Puts a batch of sealed pages together, and says whether the lap has room for it.
    pub(super) fn prepare<'a>(
        &mut self,
        pages: impl Iterator<Item = &'a PageWrite> + Clone,
    ) -> Batch {
        let Self { batch, new_pages, .. } = self;
        batch.clear();
        batch.resize(HEADER_BYTES, 0);
        let mut count = 0;
        for page in pages.clone() {
            let record_bytes = match plan_of(page, new_pages) {
                CopyPlan::Whole(hole) => packed_bytes(&page.buffer, &hole),
                CopyPlan::Changes(bytes) => CHANGES | to_u32(bytes as u64),
            };
            batch.extend_from_slice(&page.address.to_word().to_be_bytes());
            batch.extend_from_slice(&record_bytes.to_be_bytes());
            count += 1;
        }
        if count == 0 {
            batch.clear();
            return Batch::Fits;
        }
        for page in pages {
            match plan_of(page, new_pages) {
                CopyPlan::Whole(hole) => {
                    let at = batch.len();
                    batch.resize(at + packed_bytes(&page.buffer, &hole) as usize, 0);
                    pack(&page.buffer, &hole, &mut batch[at..]);
                }
                CopyPlan::Changes(bytes) => {
                    let at = batch.len();
                    batch.resize(at + bytes, 0);
                    page.changed.pack(&page.buffer, &mut batch[at..]);
                }
            }
        }
        let sector_bytes = self.io.sector_bytes() as usize;
        batch.resize(batch.len().next_multiple_of(sector_bytes), 0);
        batch[..8].copy_from_slice(&MAGIC);
        batch[12..16].copy_from_slice(&self.page_bytes.to_be_bytes());
        batch[28..32].copy_from_slice(&to_u32(count).to_be_bytes());
        let length_bytes = batch.len() as u64;
        batch[32..40].copy_from_slice(&length_bytes.to_be_bytes());
        match self.offset == 0 || self.offset + length_bytes <= self.lap_bytes {
            true => Batch::Fits,
            false => Batch::HasNoRoom,
        }
    }

    /// Everything written in place is durable: the next batch begins a lap.
    pub(super) fn end_lap(&mut self) {
        (self.number, self.offset) = (0, 0);
        self.new_pages.clear();
    }

    /// Whether the lap should end for the new pages in it.
    pub(super) fn is_lap_due(&self) -> bool {
        self.new_pages.len() >= NEW_PAGE_COUNT_MAX
    }

    /// Takes note of pages that go to their places now: those that are new have no copy, and those
    /// that had none before have a whole one.
    pub(super) fn note_writes(&mut self, pages: &[PageWrite]) {
        for page in pages {
            if page.is_new {
                self.new_pages.insert(page.address);
            } else {
                self.new_pages.remove(&page.address);
            }
        }
    }

    /// Makes the batch that was put together durable.
    pub(super) fn write(&mut self) -> Result<(), StorageError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let lap = if self.number == 0 { self.lap + 1 } else { self.lap };
        self.batch[16..24].copy_from_slice(&lap.to_be_bytes());
        self.batch[24..28].copy_from_slice(&self.number.to_be_bytes());
        let sum = crc32c::crc32c(&self.batch[SUM.end..]);
        self.batch[SUM].copy_from_slice(&sum.to_be_bytes());
        // Taken before the write, so that a batch that fails half way never shares its lap's number
        // with a later one.
        self.lap = lap;
        self.write_batch()?;
        if !is_planted(EngineBug::BatchUnsynced) {
            self.io.sync(self.file)?;
        }
        self.number += 1;
        self.offset += self.batch.len() as u64;
        Ok(())
    }

    /// Writes pages of `propagation` anew that are torn, from their copies, makes them durable, and counts
    /// them. Nothing that somebody else reads may be under way.
    pub(super) fn recover(&self, propagation: &mut dyn Propagation) -> Result<u32, StorageError> {
        if is_planted(EngineBug::NothingPutBack) {
            return Ok(0);
        }
        let files: BTreeSet<FileId> = self.io.files().into_iter().map(|(file, _)| file).collect();
        let mut copies: Vec<(PageAddress, Vec<Copy>)> = self.find_copies()?.into_iter().collect();
        // Copies of pages whose file was removed since then have no place to go to.
        copies.retain(|(address, _)| files.contains(&address.file));
        let mut restored_count = 0;
        for part in copies.chunks(READ_COUNT_MAX) {
            for (address, buffer, copies) in self.torn_of(propagation, part)? {
                let Some(buffer) = self.lay_over(buffer, copies)? else { continue };
                if page_is_sound(&buffer, address) {
                    let changed = ChangedRanges::default();
                    let page = PageWrite { address, buffer, changed, is_new: false };
                    propagation.write(&mut [page])?;
                    restored_count += 1;
                }
            }
        }
        if restored_count > 0 {
            propagation.sync()?;
        }
        Ok(restored_count)
    }

    /// The page with what its copies say; `None` if one of them makes no sense.
    fn lay_over(
        &self,
        mut page: IoBuffer,
        copies: &[Copy],
    ) -> Result<Option<IoBuffer>, StorageError> {
        let mut is_sensible = true;
        for &Copy { offset, record_bytes, is_whole } in copies {
            let record = self.read_bytes(offset, record_bytes as usize)?;
            let laid = match is_whole {
                true => unpack(&record, &mut page),
                false => ChangedRanges::unpack(&record, &mut page).map(drop),
            };
            is_sensible &= laid.is_some();
        }
        Ok(is_sensible.then_some(page))
    }

    /// The copies of each page in the lap that is there.
    fn find_copies(&self) -> Result<Copies, StorageError> {
        let mut copies = BTreeMap::new();
        let end = self.io.byte_count(self.file);
        let (mut offset, mut number, mut lap) = (0, 0, None);
        while offset + (HEADER_BYTES as u64) < end {
            let head = self.read_bytes(offset, HEADER_BYTES)?;
            let Some(header) = self.parse(&head) else { break };
            let follows = header.number == number && lap.is_none_or(|lap| lap == header.lap);
            if !follows || header.length_bytes > end - offset {
                break;
            }
            let batch = self.read_bytes(offset, to_index(header.length_bytes))?;
            let sum = crc32c::crc32c(&batch[SUM.end..]);
            if batch[SUM] != sum.to_be_bytes() {
                break;
            }
            note_copies(&batch, header.count as usize, offset, &mut copies);
            (lap, number) = (Some(header.lap), number + 1);
            offset += header.length_bytes;
        }
        Ok(copies)
    }

    fn parse(&self, head: &[u8]) -> Option<Header> {
        let word = |at: usize| head[at..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let long = |at: usize| head[at..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let (lap, number, count, length_bytes) = (long(16)?, word(24)?, word(28)?, long(32)?);
        let is_whole = head[..8] == MAGIC && word(12)? == self.page_bytes;
        let least = HEADER_BYTES as u64 + u64::from(count) * ENTRY_BYTES as u64;
        (is_whole && length_bytes > least).then_some(Header { lap, number, count, length_bytes })
    }

    /// Those of a few pages that are torn, read with the queue full, as they are and in their order.
    fn torn_of<'c>(
        &self,
        propagation: &mut dyn Propagation,
        copies: &'c [(PageAddress, Vec<Copy>)],
    ) -> Result<Vec<TornPage<'c>>, StorageError> {
        let mut result = Ok(());
        for &(address, _) in copies {
            let buffer = self.buffer_of(self.page_bytes as usize);
            if let Err(error) = propagation.start_read(address, buffer) {
                result = Err(error);
                break;
            }
        }
        let mut pages = BTreeMap::new();
        while let Some(read) = propagation.next_read() {
            match read.result {
                Ok(()) => _ = pages.insert(read.address, read.buffer),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result?;
        let torn = copies.iter().filter_map(|(address, copies)| {
            let page = pages.remove(address)?;
            (!page_is_sound(&page, *address)).then_some((*address, page, copies.as_slice()))
        });
        Ok(torn.collect())
    }

    fn write_batch(&self) -> Result<(), StorageError> {
        let mut tickets = Vec::new();
        let mut result = Ok(());
        let mut offset = self.offset;
        for piece in self.batch.chunks(REQUEST_BYTES_MAX) {
            let mut buffer = self.buffer_of(piece.len());
            buffer.copy_from_slice(piece);
            match self.io.submit(IoOwner::PageWrite, self.file, Operation::Write, offset, buffer) {
                Ok(ticket) => tickets.push(ticket),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            offset += piece.len() as u64;
        }
        for ticket in tickets {
            result = result.and(self.finish(ticket, Operation::Write).map(drop));
        }
        result
    }

    /// Bytes of the file, by whole sectors.
    fn read_bytes(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, StorageError> {
        let sector_bytes = u64::from(self.io.sector_bytes());
        let start = offset - offset % sector_bytes;
        let end = (offset + bytes as u64).next_multiple_of(sector_bytes);
        let mut found = Vec::new();
        let mut at = start;
        while at < end {
            let length = to_index(end - at).min(REQUEST_BYTES_MAX);
            let buffer = self.buffer_of(length);
            let ticket =
                self.io.submit(IoOwner::PageWrite, self.file, Operation::Read, at, buffer)?;
            found.extend_from_slice(&self.finish(ticket, Operation::Read)?);
            at += length as u64;
        }
        found.drain(..to_index(offset - start));
        found.truncate(bytes);
        Ok(found)
    }

    fn finish(&self, ticket: u64, operation: Operation) -> Result<IoBuffer, StorageError> {
        let completion = self.io.wait(ticket);
        if let Err(error) = completion.result {
            let (label, file) = (operation.label(), self.file.0);
            let what = format!("double write: cannot {label} file {file}");
            return Err(StorageError::Device { what, error });
        }
        Ok(completion.buffer.expect("a request that is done hands its buffer back"))
    }

    fn buffer_of(&self, bytes: usize) -> IoBuffer {
        IoBuffer::with_alignment(bytes, self.buffer_alignment as usize)
    }
}

/// Notes what a batch at `offset`, whole by its checksum, has copies of.
fn note_copies(batch: &[u8], count: usize, offset: u64, copies: &mut Copies) {
    let mut at = offset + (HEADER_BYTES + count * ENTRY_BYTES) as u64;
    for entry in batch[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).take(count) {
        let (Some(word), Some(bytes)) = (entry.first_chunk(), entry.last_chunk()) else { return };
        let address = PageAddress::from_word(u64::from_be_bytes(*word));
        let kind_and_bytes = u32::from_be_bytes(*bytes);
        let (is_whole, record_bytes) = (kind_and_bytes & CHANGES == 0, kind_and_bytes & !CHANGES);
        let end = at + u64::from(record_bytes);
        if address.page == 0 || end > offset + batch.len() as u64 {
            return;
        }
        let of_page = copies.entry(address).or_default();
        if is_whole {
            of_page.clear();
        }
        of_page.push(Copy { offset: at, record_bytes, is_whole });
        at = end;
    }
}

/// What changed, if it is known and little and the page before is on the device; else the whole page.
fn plan_of(page: &PageWrite, new_pages: &BTreeSet<PageAddress>) -> CopyPlan {
    let bytes = page.changed.record_bytes();
    if page.changed.as_slice().is_empty()
        || bytes > page.buffer.len() / 2
        || new_pages.contains(&page.address)
    {
        return CopyPlan::Whole(hole_of(&page.buffer));
    }
    CopyPlan::Changes(bytes)
}
