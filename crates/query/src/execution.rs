//! One run of a plan: the memory it may use, the bytes it may write, what it did, and how it is stopped.
//!
//! ```text
//!                     ┌ what the workers of a run share ┐
//!   Grant of frames ──► memory · write budget · stop     ├──► spill file, removed with the last of them
//!                     └──────▲───────────────▲──────────┘
//!                        Execution ──fork──► Execution      one for each worker: its work, its requests
//!                            │   ◄──absorb──     │
//!                       take(pages)         take(pages)
//!                            ▼                   ▼
//!                         Memory              Memory        given back when dropped
//! ```
//!
//! 1. The pages taken by all workers never pass the pages granted. What an operator allocates, it took
//!    before: buffers, cells, directories and trees; not its own fixed fields.
//! 2. The bytes written to spill files by all workers never pass the write budget.
//! 3. With modelled processor time everything follows from the data and the settings.
//! 4. What was counted is in one execution: a worker's counts are its own until they are absorbed.

use crate::QueryError;
use crate::work::{Work, WorkCosts, WorkCounts};
use nandu_base::{Nanos, to_index, to_u32};
use nandu_device::{Completion, IoBuffer};
use nandu_external::ExternalError;
use nandu_storage::database::EngineView;
use nandu_storage::pool::Grant;
use nandu_storage::volume::Io;
use nandu_workers::sync::{Mutex, MutexGuard};
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

impl IoCounts {
    /// What two workers did together.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            read_requests: self.read_requests + other.read_requests,
            write_requests: self.write_requests + other.write_requests,
            read_bytes: self.read_bytes + other.read_bytes,
            write_bytes: self.write_bytes + other.write_bytes,
            seeks: self.seeks + other.seeks,
            wait_ns: self.wait_ns + other.wait_ns,
        }
    }
}

/// One run of a plan, as one of its workers sees it.
#[derive(Debug)]
pub struct Execution {
    run: Arc<Run>,
    io: Io,
    spill_io: Io,
    work: RefCell<WorkCounts>,
    counts: Cell<IoCounts>,
    at_last_write: Cell<IoCounts>,
    head: Cell<Option<(u16, u64)>>,
}

/// What all workers of a run share.
#[derive(Debug)]
struct Run {
    limits: Limits,
    /// What operators take, in whole pages.
    memory: nandu_external::Grant,
    stop: Arc<AtomicBool>,
    spill: Mutex<crate::spill::SpillFile>,
    /// Keeps the pool from using the memory meanwhile.
    _grant: Option<Grant>,
}

/// Pages of memory that an operator took.
#[derive(Debug)]
pub struct Memory<'x> {
    execution: &'x Execution,
    memory: nandu_external::Memory,
}

impl Run {
    fn page_bytes(&self) -> u64 {
        u64::from(self.limits.page_bytes)
    }

    /// What the account of bytes refused, in pages.
    fn in_pages(&self, error: ExternalError) -> QueryError {
        match error {
            ExternalError::TooLittleMemory { operator, needed_bytes, granted_bytes } => {
                let needed_pages = needed_bytes / self.page_bytes();
                let granted_pages = granted_bytes / self.page_bytes();
                QueryError::TooLittleMemory { operator, needed_pages, granted_pages }
            }
            error => QueryError::Invalid { what: error.to_string() },
        }
    }
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
        let spill = Mutex::new(crate::spill::SpillFile::new(spill_io.clone(), &limits));
        let memory_bytes = u64::from(limits.memory_pages) * u64::from(limits.page_bytes);
        let memory = nandu_external::Grant::new(memory_bytes);
        let run = Run { limits, memory, stop, spill, _grant: grant };
        Self::of(Arc::new(run), io, spill_io)
    }

    fn of(run: Arc<Run>, io: Io, spill_io: Io) -> Self {
        Self {
            run,
            io,
            spill_io,
            work: RefCell::default(),
            counts: Cell::default(),
            at_last_write: Cell::default(),
            head: Cell::new(None),
        }
    }

    /// The same run for another worker: memory, write budget, spill file and stop are shared, nothing is
    /// counted yet.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::of(Arc::clone(&self.run), self.io.clone(), self.spill_io.clone())
    }

    /// Adds to this worker's counts what another one did. The time that both waited for the device is
    /// summed, too, though it may have been the same.
    ///
    /// # Panics
    /// If the other one belongs to another run.
    pub fn absorb(&self, other: Self) {
        assert!(Arc::ptr_eq(&self.run, &other.run), "workers of one run are summed");
        self.work.borrow_mut().add_all(&other.work.into_inner());
        self.counts.set(self.counts.get().plus(&other.counts.get()));
        self.at_last_write.set(self.at_last_write.get().plus(&other.at_last_write.get()));
    }

    /// What the run may do.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.run.limits
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.run.limits.page_bytes as usize
    }

    /// Checks that pages of the run are as large as those of a database that it is to read.
    ///
    /// # Errors
    /// If not: what lies on the pages would seem to be damaged.
    pub(crate) fn check_page_bytes(&self, engine: &EngineView) -> Result<(), QueryError> {
        let (ours, theirs) = (self.run.limits.page_bytes, engine.settings().page_bytes);
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
        let bytes = u64::from(pages) * self.run.page_bytes();
        match self.run.memory.take(operator, bytes) {
            Ok(memory) => Ok(Memory { execution: self, memory }),
            Err(error) => Err(self.run.in_pages(error)),
        }
    }

    /// Pages that nobody took.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        to_u32(self.run.memory.free_bytes() / self.run.page_bytes())
    }

    /// The most pages that were taken at once, by all workers.
    #[must_use]
    pub fn peak_pages(&self) -> u32 {
        to_u32(self.run.memory.peak_bytes() / self.run.page_bytes())
    }

    /// The spill file of the run.
    pub(crate) fn spill(&self) -> MutexGuard<'_, crate::spill::SpillFile> {
        self.run.spill.lock()
    }

    /// Books work of the processor and spends its modelled time. Called once for a batch.
    pub fn work(&self, work: Work, count: u64) {
        self.work.borrow_mut().add(work, count);
        if let Some(costs) = &self.run.limits.work_costs {
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
    /// writes first and only reads then, and no bucket is cut again, this is its first phase. Of several
    /// workers it is the sum of what each had done then.
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
        if self.run.stop.load(Ordering::Relaxed) { Err(QueryError::Cancelled) } else { Ok(()) }
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
        self.run.memory.audit();
        self.spill().audit();
    }
}

impl Memory<'_> {
    /// How many pages were granted.
    #[must_use]
    pub fn pages(&self) -> u32 {
        to_u32(self.memory.bytes() / self.execution.run.page_bytes())
    }

    /// How many bytes were granted.
    #[must_use]
    pub fn bytes(&self) -> usize {
        to_index(self.memory.bytes())
    }

    /// Bytes of one of them.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.execution.page_bytes()
    }

    /// Splits so many pages off.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn split_off(&mut self, pages: u32) -> Self {
        let bytes = u64::from(pages) * self.execution.run.page_bytes();
        Self { execution: self.execution, memory: self.memory.split_off(bytes) }
    }

    /// Puts `other` to this.
    ///
    /// # Panics
    /// If it is of another run.
    pub fn join(&mut self, other: Self) {
        self.memory.join(other.memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spill::SpillWriter;
    use crate::testing::{execution, limits};
    use crate::tuple::Tuple;

    #[test]
    fn workers_share_memory_and_the_write_budget_and_count_apart() {
        let limits = Limits { write_budget_bytes: Some(8 * 1024), ..limits(1024, 10) };
        let main = execution(limits);
        let (first, second) = (main.fork(), main.fork());
        let seven = first.take("a test", 7).unwrap();
        let refused = second.take("a test", 4).unwrap_err();
        let told = QueryError::TooLittleMemory {
            operator: "a test".to_owned(),
            needed_pages: 4,
            granted_pages: 3,
        };
        assert_eq!(refused, told);
        drop(seven);
        let record = [b'x'; 700];
        let write = |worker: &Execution, rows: u32| {
            let memory = worker.take("a test", 1).unwrap();
            let mut writer = SpillWriter::new(worker, memory, 4)?;
            for number in 0..rows {
                writer.push(Tuple { row_number: number.into(), record: &record })?;
            }
            writer.finish().map(|(bucket, _)| bucket)
        };
        let one = write(&first, 5).unwrap();
        let other = write(&second, 3).unwrap();
        assert!(matches!(write(&main, 3), Err(QueryError::WriteBudget { .. })));
        assert_eq!((one.tuple_count(), other.tuple_count()), (5, 3));
        first.work(Work::Copy, 5);
        second.work(Work::Copy, 3);
        assert_eq!(main.work_counts().get(Work::Copy), 0);
        let pages = one.page_count() + other.page_count();
        main.absorb(first);
        main.absorb(second);
        assert_eq!(main.work_counts().get(Work::Copy), 8);
        assert!(main.io_counts().write_bytes >= pages * 1024);
        assert_eq!(main.free_pages(), 10);
        main.audit();
    }

    #[test]
    fn pages_are_never_taken_twice_by_threads() {
        let main = execution(limits(1024, 64));
        std::thread::scope(|scope| {
            for thread in 1..=4_u32 {
                let worker = main.fork();
                scope.spawn(move || {
                    for round in 0..2000 {
                        let pages = 1 + (round * thread) % 40;
                        if let Ok(memory) = worker.take("a test", pages) {
                            assert!(worker.free_pages() <= 64 - memory.pages());
                            worker.audit();
                        }
                    }
                });
            }
        });
        assert_eq!(main.free_pages(), 64);
        assert!(main.peak_pages() <= 64);
    }

    #[test]
    fn counts_of_another_run_are_refused() {
        let sum = || execution(limits(1024, 8)).absorb(execution(limits(1024, 8)));
        let told = std::panic::catch_unwind(sum).unwrap_err();
        assert_eq!(told.downcast_ref(), Some(&"workers of one run are summed"));
    }
}
