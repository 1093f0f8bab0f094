//! One run of a plan: the memory it may use, the bytes it may write, what it did, and how it is stopped.
//!
//! ```text
//!   Grant of pool frames ──► Execution ──take(pages)──► Memory (given back when dropped)
//!                               │
//!                 spill file ◄──┘  removed with the execution, however it ends
//! ```
//!
//! 1. The pages taken never pass the pages granted. What an operator allocates, it took before:
//!    buffers, cells, directories and trees; not its own fixed fields.
//! 2. The bytes written to spill files never pass the write budget.
//! 3. With modelled processor time everything follows from the data and the settings.

use crate::QueryError;
use crate::work::{Work, WorkCosts, WorkCounts};
use nandu_base::Nanos;
use nandu_device::{Completion, IoBuffer};
use nandu_storage::database::EngineView;
use nandu_storage::pool::Grant;
use nandu_storage::volume::Io;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What one run may do, and how.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a page, as many as those of the database that is read; pages are the unit of memory and of
    /// the cost formulas.
    pub page_bytes: u32,
    /// Pages of memory.
    pub memory_pages: u32,
    /// Bytes that may be written to spill files; `None` for as many as it takes.
    pub write_budget_bytes: Option<u64>,
    /// Whether a stream reads its next block while the operator works on this one. Each block is half
    /// the buffer then.
    pub reads_ahead: bool,
    /// Modelled time of the processor, spent on the virtual clock; `None` spends none.
    pub work_costs: Option<WorkCosts>,
}

/// What a run did to the devices, and how long it waited for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IoCounts {
    /// Requests to read.
    pub read_requests: u64,
    /// Requests to write.
    pub write_requests: u64,
    /// Bytes that the requests read.
    pub read_bytes: u64,
    /// Bytes that the requests wrote.
    pub write_bytes: u64,
    /// Requests that did not begin where the last one of the run ended.
    pub seeks: u64,
    /// Time spent waiting.
    pub wait_ns: u64,
}

/// One run of a plan.
#[derive(Debug)]
pub struct Execution {
    limits: Limits,
    io: Io,
    spill_io: Io,
    taken_pages: Cell<u32>,
    peak_pages: Cell<u32>,
    work: RefCell<WorkCounts>,
    counts: Cell<IoCounts>,
    at_last_write: Cell<IoCounts>,
    head: Cell<Option<(u16, u64)>>,
    stop: Arc<AtomicBool>,
    pub(crate) spill: RefCell<crate::spill::SpillFile>,
    /// Keeps the pool from using the memory meanwhile.
    _grant: Option<Grant>,
}

/// Pages of memory that an operator took.
#[derive(Debug)]
pub struct Memory<'x> {
    execution: &'x Execution,
    pages: u32,
}

impl Execution {
    /// A run over tables that lie behind `io`, spilling to `spill_io`, often the same. `stop` ends it
    /// with [`QueryError::Cancelled`]. The memory is the pool's where there is a grant.
    #[must_use]
    pub fn new(
        limits: Limits,
        io: Io,
        spill_io: Io,
        grant: Option<Grant>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        // The frames stay lent, their buffers go: operators need memory in other pieces.
        let grant = grant.map(|mut grant| {
            *grant.buffers_mut() = Vec::new();
            grant
        });
        let spill = RefCell::new(crate::spill::SpillFile::new(spill_io.clone(), &limits));
        Self {
            limits,
            io,
            spill_io,
            taken_pages: Cell::new(0),
            peak_pages: Cell::new(0),
            work: RefCell::default(),
            counts: Cell::default(),
            at_last_write: Cell::default(),
            head: Cell::new(None),
            stop,
            spill,
            _grant: grant,
        }
    }

    /// What the run may do.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Bytes of a page.
    #[must_use]
    pub const fn page_bytes(&self) -> usize {
        self.limits.page_bytes as usize
    }

    /// Checks that pages of the run are as large as those of a database that it is to read.
    ///
    /// # Errors
    /// If not: what lies on the pages would seem to be damaged.
    pub(crate) fn check_page_bytes(&self, engine: &EngineView) -> Result<(), QueryError> {
        let (ours, theirs) = (self.limits.page_bytes, engine.settings().page_bytes);
        if ours == theirs {
            return Ok(());
        }
        let what = format!(
            "the database has pages of {theirs} bytes, the limits of this run say {ours}; set \
             Limits.page_bytes to the database's"
        );
        Err(QueryError::Invalid { what })
    }

    /// The volume of the tables.
    #[must_use]
    pub const fn io(&self) -> &Io {
        &self.io
    }

    /// The volume of the spill file.
    #[must_use]
    pub const fn spill_io(&self) -> &Io {
        &self.spill_io
    }

    /// Takes memory.
    ///
    /// # Errors
    /// If less than that is left.
    pub fn take(&self, operator: &str, pages: u32) -> Result<Memory<'_>, QueryError> {
        let taken = self.taken_pages.get();
        let left = self.limits.memory_pages - taken;
        if pages > left {
            return Err(QueryError::TooLittleMemory {
                operator: operator.to_owned(),
                needed_pages: u64::from(pages),
                granted_pages: u64::from(left),
            });
        }
        self.taken_pages.set(taken + pages);
        self.peak_pages.set(self.peak_pages.get().max(taken + pages));
        Ok(Memory { execution: self, pages })
    }

    /// Pages that nobody took.
    #[must_use]
    pub const fn free_pages(&self) -> u32 {
        self.limits.memory_pages - self.taken_pages.get()
    }

    /// The most pages that were taken at once.
    #[must_use]
    pub const fn peak_pages(&self) -> u32 {
        self.peak_pages.get()
    }

    /// Books work of the processor and spends its modelled time. Called once for a batch.
    pub fn work(&self, work: Work, count: u64) {
        self.work.borrow_mut().add(work, count);
        if let Some(costs) = &self.limits.work_costs {
            self.io.spend(costs.time(work, count));
        }
    }

    /// What the processor did.
    #[must_use]
    pub fn work_counts(&self) -> WorkCounts {
        *self.work.borrow()
    }

    /// What the devices did.
    #[must_use]
    pub const fn io_counts(&self) -> IoCounts {
        self.counts.get()
    }

    /// What the devices had done when the last write to a spill file was over. Where a join reads and
    /// writes first and only reads then, and no bucket is cut again, this is its first phase.
    #[must_use]
    pub const fn io_counts_at_last_write(&self) -> IoCounts {
        self.at_last_write.get()
    }

    /// The present, on the devices' clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.io.now()
    }

    /// # Errors
    /// If the user asked to stop. Operators call it once for a block.
    pub fn check_stop(&self) -> Result<(), QueryError> {
        if self.stop.load(Ordering::Relaxed) { Err(QueryError::Cancelled) } else { Ok(()) }
    }

    /// Books a request of the execution in its counts.
    pub(crate) fn note_request(&self, is_write: bool, file: u16, offset_bytes: u64, bytes: u64) {
        let mut counts = self.counts.get();
        let (requests, total) = match is_write {
            true => (&mut counts.write_requests, &mut counts.write_bytes),
            false => (&mut counts.read_requests, &mut counts.read_bytes),
        };
        *requests += 1;
        *total += bytes;
        if self.head.get() != Some((file, offset_bytes)) {
            counts.seeks += 1;
        }
        self.head.set(Some((file, offset_bytes + bytes)));
        self.counts.set(counts);
    }

    /// Makes `call`, which reads through the pool of `engine`, and books what came from the device
    /// meanwhile: each page as a request in a place of its own. What other threads read in the same
    /// time is booked, too.
    pub(crate) fn through_pool<R>(&self, engine: &EngineView, call: impl FnOnce() -> R) -> R {
        let (pages_before, before) = (engine.pool_counters().read_count, self.now());
        let result = call();
        let pages = engine.pool_counters().read_count - pages_before;
        let mut counts = self.counts.get();
        counts.read_requests += pages;
        counts.read_bytes += pages * u64::from(engine.settings().page_bytes);
        counts.seeks += pages;
        counts.wait_ns += (self.now() - before).0;
        self.counts.set(counts);
        if pages > 0 {
            self.head.set(None);
        }
        result
    }

    /// Waits for a request of this run, and books the time.
    pub(crate) fn wait(&self, io: &Io, ticket: u64) -> Completion {
        // The engine's clock stood still while the processor worked.
        let before = io.present();
        let completion = io.wait(ticket);
        let waited = io.now().saturating_sub(before);
        self.note_wait(waited);
        completion
    }

    /// Books time spent waiting.
    fn note_wait(&self, time: Nanos) {
        let mut counts = self.counts.get();
        counts.wait_ns += time.0;
        self.counts.set(counts);
    }

    /// Notes that a write to a spill file is over.
    pub(crate) fn note_write_end(&self) {
        self.at_last_write.set(self.counts.get());
    }

    /// A buffer for requests to either volume, of whole pages.
    pub(crate) fn buffer(&self, pages: u32) -> IoBuffer {
        let alignment = |io: &Io| io.buffer_alignment();
        let alignment = alignment(&self.io).max(alignment(&self.spill_io)).max(512);
        IoBuffer::with_alignment(pages as usize * self.page_bytes(), alignment as usize)
    }

    /// Asserts invariants 1 and 2.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        assert!(self.peak_pages.get() <= self.limits.memory_pages, "invariant 1");
        assert!(self.taken_pages.get() <= self.peak_pages.get(), "invariant 1");
        self.spill.borrow().audit();
    }
}

impl Memory<'_> {
    /// How many pages were granted.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// How many bytes were granted.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.pages as usize * self.execution.page_bytes()
    }

    /// Bytes of one of them.
    #[must_use]
    pub const fn page_bytes(&self) -> usize {
        self.execution.page_bytes()
    }

    /// Splits so many pages off.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn split_off(&mut self, pages: u32) -> Self {
        assert!(pages <= self.pages, "an operator splits what it took");
        self.pages -= pages;
        Self { execution: self.execution, pages }
    }

    /// Puts `other` to this.
    pub fn join(&mut self, mut other: Self) {
        self.pages += std::mem::take(&mut other.pages);
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        let taken = &self.execution.taken_pages;
        taken.set(taken.get() - self.pages);
    }
}
