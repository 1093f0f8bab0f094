//! Pages in blocks: runs of pages of one file, read in requests as large as the memory, synchronously or
//! one block ahead.
//!
//! ```text
//!   runs      [3..90] [92..300] [17..20]        in the order of the rows
//!   blocks    │ 3..90 · 92..105 │ 105..207 │ …  at most `block_pages` each; gaps up to GAP are read, too
//! ```
//!
//! 1. Every page of a run is in exactly one block, in order.
//! 2. At most one block is being read while one is looked at; whoever drops the reader waits for it.

use super::Position;
use crate::execution::Memory;
use crate::{Execution, QueryError};
use nandu_device::{IoBuffer, Operation};
use nandu_storage::database::EngineView;
use nandu_storage::volume::{Io, IoOwner};
use nandu_storage::{FileId, PageAddress, ReadPages, StorageError};
use std::ops::Range;
use std::sync::Arc;

/// Pages between two runs that are read rather than passed over: what divides the leaves of a table.
const GAP_PAGES_MAX: u32 = 4;

/// Copies pages out of a buffer pool, where no file holds them in order, and books what that reads.
pub(crate) type Fetch<'x> = Box<dyn Fn(Range<u32>, &mut [u8]) -> Result<(), StorageError> + 'x>;

/// Copies the usable bytes of pages out of the pool, each to where it is in a run of whole pages.
pub(crate) fn copy_pages(
    engine: &EngineView,
    file: FileId,
    pages: Range<u32>,
    target: &mut [u8],
) -> Result<(), StorageError> {
    let addresses: Vec<PageAddress> = pages.map(|page| PageAddress::new(file, page)).collect();
    let page_bytes = target.len() / addresses.len();
    engine.read_batch(&addresses, |index, bytes| {
        let at = index * page_bytes;
        target[at..at + bytes.len()].copy_from_slice(bytes);
    })
}

/// Where the bytes come from.
enum Source<'x> {
    Volume(Io),
    Pool(Fetch<'x>),
}

/// One block of pages: which pages it spans, and which of them belong to runs.
#[derive(Debug, Default)]
struct PageRun {
    span: Range<u32>,
    parts: Vec<Range<u32>>,
    buffer: Option<IoBuffer>,
    end: Position,
}

/// A reader of blocks.
pub(crate) struct BlockReader<'x> {
    execution: &'x Execution,
    source: Source<'x>,
    file: FileId,
    /// Of a table: what puts pages right that changed meanwhile.
    view: Option<&'x EngineView>,
    runs: Arc<[Range<u32>]>,
    /// Where the block after the last one that was begun starts.
    next: Position,
    block_pages: u32,
    current: PageRun,
    ahead: PageRun,
    ticket: Option<u64>,
    /// The second buffer of a reader that reads ahead, while no block is being read.
    spare: Option<IoBuffer>,
    /// Whether `ahead` is being read.
    is_begun: bool,
    /// Whether buffers to read ahead are lent by somebody who knows when the next block is needed.
    borrows: bool,
    _memory: Memory<'x>,
}

impl<'x> BlockReader<'x> {
    /// A reader of `runs` of a file on `io`, or through `fetch`.
    ///
    /// # Errors
    /// If there is not a page of memory.
    pub(crate) fn new(
        execution: &'x Execution,
        memory: Memory<'x>,
        (io, file): (&Io, FileId),
        runs: Arc<[Range<u32>]>,
        from: Position,
        fetch: Option<Fetch<'x>>,
    ) -> Result<Self, QueryError> {
        if memory.pages() == 0 {
            return Err(QueryError::TooLittleMemory {
                operator: "a scan".to_owned(),
                needed_pages: 1,
                granted_pages: 0,
            });
        }
        let reads_ahead = execution.limits().reads_ahead && memory.pages() > 1 && fetch.is_none();
        let block_pages = if reads_ahead { memory.pages() / 2 } else { memory.pages() };
        let spare = reads_ahead.then(|| execution.buffer(block_pages));
        let source = fetch.map_or_else(|| Source::Volume(io.clone()), Source::Pool);
        let current = PageRun { buffer: Some(execution.buffer(block_pages)), ..PageRun::default() };
        Ok(Self {
            execution,
            source,
            file,
            view: None,
            runs,
            next: from,
            block_pages,
            current,
            ahead: PageRun::default(),
            ticket: None,
            spare,
            is_begun: false,
            borrows: false,
            _memory: memory,
        })
    }

    /// The same reader of a table's file, which others may change meanwhile.
    pub(crate) const fn seen_by(mut self, view: &'x EngineView) -> Self {
        self.view = Some(view);
        self
    }

    /// The same reader with blocks of all its memory, which reads ahead only into buffers that are lent.
    pub(crate) fn borrowing(mut self) -> Self {
        if self.spare.take().is_some() {
            self.block_pages = self._memory.pages();
            self.current.buffer = None;
            self.current.buffer = Some(self.execution.buffer(self.block_pages));
        }
        self.borrows = true;
        self
    }

    /// Whether there are pages after the last block that was begun.
    pub(crate) fn has_more(&self) -> bool {
        let runs = self.runs.iter().enumerate().skip(self.next.run as usize);
        runs.into_iter().any(|(index, run)| {
            let begun = if index == self.next.run as usize { self.next.page } else { 0 };
            run.start + begun < run.end
        })
    }

    /// Begins to read the next block into a buffer that is lent, of the size of a block; gives it back if
    /// there is no such block.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) fn lend(&mut self, buffer: IoBuffer) -> Result<Option<IoBuffer>, QueryError> {
        assert!(self.borrows && !self.is_begun, "one block is read ahead");
        if !self.plan_next() {
            return Ok(Some(buffer));
        }
        self.ahead.buffer = Some(buffer);
        self.begin_read()?;
        self.is_begun = true;
        Ok(None)
    }

    /// The buffer that is not needed since a lent one was filled.
    pub(crate) const fn take_spare(&mut self) -> Option<IoBuffer> {
        self.spare.take()
    }

    /// Reads the next block; false at the end.
    ///
    /// # Errors
    /// If the device fails or the user asked to stop.
    pub(crate) fn advance(&mut self) -> Result<bool, QueryError> {
        self.execution.check_stop()?;
        if !self.is_begun {
            if !self.plan_next() {
                self.current.parts.clear();
                return Ok(false);
            }
            self.ahead.buffer = self.spare.take().or_else(|| self.current.buffer.take());
            self.begin_read()?;
        }
        self.end_read()?;
        self.is_begun = false;
        std::mem::swap(&mut self.current, &mut self.ahead);
        self.spare = self.ahead.buffer.take();
        if !self.borrows && self.spare.is_some() && self.plan_next() {
            self.ahead.buffer = self.spare.take();
            self.begin_read()?;
            self.is_begun = true;
        }
        Ok(true)
    }

    /// Pages of runs in the block at hand.
    pub(crate) fn page_count(&self) -> u32 {
        self.current.parts.iter().map(|part| part.end - part.start).sum()
    }

    /// The number and the bytes of page `index` of the block at hand, counting pages of runs only.
    pub(crate) fn page(&self, mut index: u32) -> Option<(u32, &[u8])> {
        for part in &self.current.parts {
            let length = part.end - part.start;
            if index < length {
                let page = part.start + index;
                let page_bytes = self.execution.page_bytes();
                let at = (page - self.current.span.start) as usize * page_bytes;
                let buffer = self.current.buffer.as_ref().expect("the block was read");
                return Some((page, &buffer[at..at + page_bytes]));
            }
            index -= length;
        }
        None
    }

    /// Where the block at hand ends.
    pub(crate) fn end(&self) -> Position {
        self.current.end
    }

    /// Plans the block after the last one; false at the end.
    fn plan_next(&mut self) -> bool {
        let PageRun { span, parts, end, .. } = &mut self.ahead;
        parts.clear();
        *span = 0..0;
        while let Some(run) = self.runs.get(self.next.run as usize) {
            let start = run.start + self.next.page;
            if parts.is_empty() {
                *span = start..start;
            } else if start < span.end || start - span.end > GAP_PAGES_MAX {
                break;
            }
            let room = (span.start + self.block_pages).saturating_sub(start);
            let take = room.min(run.end - start);
            if take == 0 && start < run.end {
                break;
            }
            if take > 0 {
                parts.push(start..start + take);
                span.end = start + take;
            }
            if start + take == run.end {
                self.next = Position { run: self.next.run + 1, page: 0 };
            } else {
                self.next.page += take;
                break;
            }
        }
        *end = self.next;
        !parts.is_empty()
    }

    fn begin_read(&mut self) -> Result<(), QueryError> {
        let page_bytes = self.execution.page_bytes();
        let PageRun { span, buffer, .. } = &mut self.ahead;
        let length = (span.end - span.start) as usize * page_bytes;
        let mut bytes = buffer.take().expect("a block has a buffer");
        bytes.resize(length);
        match &self.source {
            Source::Pool(fetch) => {
                fetch(span.clone(), &mut bytes)?;
                *buffer = Some(bytes);
            }
            Source::Volume(io) => {
                let offset = (u64::from(span.start) - 1) * page_bytes as u64;
                self.ticket = Some(io.submit_ahead(
                    IoOwner::Operator,
                    self.file,
                    Operation::Read,
                    offset,
                    bytes,
                )?);
                self.execution.note_request(false, self.file.0, offset, length as u64);
            }
        }
        Ok(())
    }

    fn end_read(&mut self) -> Result<(), QueryError> {
        let (Source::Volume(io), Some(ticket)) = (&self.source, self.ticket.take()) else {
            return Ok(());
        };
        let completion = self.execution.wait(io, ticket);
        if let Err(error) = completion.result {
            let Range { start, end } = self.ahead.span;
            let what = format!("cannot read pages {start} to {} of file {}", end - 1, self.file.0);
            return Err(StorageError::Device { what, error }.into());
        }
        let mut buffer = completion.buffer.expect("a read brings its buffer back");
        if let Some(view) = self.view {
            let page_bytes = self.execution.page_bytes();
            let PageRun { span, parts, .. } = &self.ahead;
            for page in parts.iter().flat_map(Clone::clone) {
                let at = (page - span.start) as usize * page_bytes;
                let address = PageAddress::new(self.file, page);
                view.mend(address, &mut buffer[at..at + page_bytes])?;
            }
        }
        self.ahead.buffer = Some(buffer);
        Ok(())
    }
}

impl Drop for BlockReader<'_> {
    fn drop(&mut self) {
        if let (Source::Volume(io), Some(ticket)) = (&self.source, self.ticket.take()) {
            io.wait(ticket);
        }
    }
}
