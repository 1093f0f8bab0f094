//! A join of two tables through a short door: what is cheapest is found, run in bounded memory, and its
//! pairs are lent to a closure.
//!
//! ```text
//!   join(tables, left, right).on(…) ─► open both sides ─► plans, cheapest first ─► for_each(pairs)
//!                                     indexes that serve     CostModel              memory of the pool
//! ```
//!
//! 1. The memory of a join is frames of the pool, lent while it runs, so the process takes no more than
//!    its database does.
//! 2. Whatever plan runs, and in however many threads, the pairs are the same; in which order they come is the
//!    plan's business.

use nandu_base::{ByteCount, to_index, to_u32};
use nandu_query::cost::{CostModel, CpuCosts};
use nandu_query::join::PairSink;
use nandu_query::plan::{Budget, ChunkRule, StoredSides, StoredTable, plans};
use nandu_query::{Execution, Limits, PairBatch};
use nandu_storage::database::{Flow, Row, Tables};
use nandu_storage::pool::Grant;
use nandu_storage::sqlite::{RecordView, ValueRef};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use nandu_query::allocation::{
    BlockNestedLoops, Fudge, GraceHash, HybridHash, JoinSizes, RequestTimes, RunFormation,
    RunSeeks, SortMerge,
};
pub use nandu_query::cost::join::{
    FlashMemory, IndexMemory, IndexMergeMemory, OuterAccess, RareMemory,
};
pub use nandu_query::cost::{
    AccessCurves, Curve, CurvePoint, DeviceCosts, Estimate, MeasuredStream, MeasuredTime, Pattern,
    StreamCosts, StreamKind, StreamTimes,
};
pub use nandu_query::join::{JoinType, Side};
pub use nandu_query::plan::joins::{IndexLoopsMemory, LoopsMemory};
pub use nandu_query::plan::{Division, Plan, PoolShape};
pub use nandu_query::{JoinKind, QueryError};

/// The drive that plans are priced by unless another is given: chosen, about what an NVMe drive of some
/// years does.
const REQUEST_NS: u64 = 100_000;
const READ_BYTES_PER_SECOND: u64 = 2_000_000_000;
const WRITE_BYTES_PER_SECOND: u64 = 1_000_000_000;

/// A join that is being described: see [`join`].
#[derive(Clone, Debug)]
pub struct TableJoin<'t> {
    tables: &'t Tables,
    left: String,
    right: String,
    on: Vec<(String, String)>,
    join_type: JoinType,
    memory_bytes: Option<u64>,
    write_bytes_max: Option<u64>,
    thread_count: u32,
    device: DeviceCosts,
}

/// A join that is about to run: its memory is lent.
struct Ready<'t> {
    sides: StoredSides<'t>,
    plan: Plan,
    grant: Grant,
}

/// A pair of rows; one side is `None` where a row has no partner, and of semi and anti joins the right one.
pub type Pair<R> = (Option<R>, Option<R>);

/// Begins to describe a join of two tables of a snapshot or of a transaction.
///
/// ```
/// use nandu::{Column, ColumnType, DatabaseOptions, Flow, TableKind};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let mut options = DatabaseOptions::default();
/// # (options.settings.log_bytes, options.settings.checkpoint_bytes) = (4 << 20, 1 << 20);
/// let database = nandu::create_database(&place.path().join("shop"), &options)?;
/// let integers = |names: [&str; 2]| names.map(|name| Column::new(name, ColumnType::Integer)).to_vec();
/// let mut write = database.write()?;
/// write.create_table("customer", integers(["c_custkey", "c_nation"]), TableKind::Heap)?;
/// write.create_table("orders", integers(["o_orderkey", "o_custkey"]), TableKind::Heap)?;
/// write.insert_as("customer", &(7, 3))?;
/// write.insert_as("orders", &(1, 7))?;
/// write.insert_as("orders", &(2, 7))?;
/// write.commit()?;
///
/// let snapshot = database.snapshot();
/// let join = nandu::join(&snapshot, "customer", "orders").on("c_custkey", "o_custkey");
/// let mut count = 0;
/// let kind = join.memory_bytes(1 << 20).for_each(|_customer, _order| {
///     count += 1;
///     Flow::Continue(())
/// })?;
/// println!("{count} pairs, by a {kind}");
/// # assert_eq!(count, 2);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn join<'t>(tables: &'t Tables, left: &str, right: &str) -> TableJoin<'t> {
    TableJoin {
        tables,
        left: left.to_owned(),
        right: right.to_owned(),
        on: Vec::new(),
        join_type: JoinType::Inner,
        memory_bytes: None,
        write_bytes_max: None,
        thread_count: 1,
        device: DeviceCosts::from_rates(
            0,
            REQUEST_NS,
            READ_BYTES_PER_SECOND,
            WRITE_BYTES_PER_SECOND,
        ),
    }
}

impl TableJoin<'_> {
    /// A column of the left table and the one of the right table that it has to equal; once for each pair
    /// of columns. Nulls equal nothing.
    #[must_use]
    pub fn on(mut self, left: &str, right: &str) -> Self {
        self.on.push((left.to_owned(), right.to_owned()));
        self
    }

    /// Which rows come out: pairs without it.
    #[must_use]
    pub const fn join_type(mut self, join_type: JoinType) -> Self {
        self.join_type = join_type;
        self
    }

    /// Memory of the join in bytes, which the pool lends: half of it without this. The pool keeps some
    /// frames for itself.
    #[must_use]
    pub const fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// The most bytes that the join may write to files of its own, as many as it takes without this.
    #[must_use]
    pub const fn write_bytes_max(mut self, bytes: u64) -> Self {
        self.write_bytes_max = Some(bytes);
        self
    }

    /// Threads that do the join, one without this, in the same memory: as many of them as its kind and its
    /// memory can be divided among. 0 stands for as many as there are cores.
    #[must_use]
    pub const fn threads(mut self, count: u32) -> Self {
        self.thread_count = count;
        self
    }

    /// What the drive takes for a request, by which plans are compared.
    #[must_use]
    pub fn device(mut self, costs: DeviceCosts) -> Self {
        self.device = costs;
        self
    }

    /// The plan that would run, with what it is thought to cost.
    ///
    /// # Errors
    /// As [`Self::for_each`], but for what happens while it runs.
    pub fn plan(&self) -> Result<Plan, QueryError> {
        self.best(&self.open()?)
    }

    /// Runs the join and lends its pairs, left and right, until there are no more or `look` breaks off. Gives
    /// how it was done. Several threads take turns at `look`; with [`Self::fold`] they need not.
    ///
    /// # Errors
    /// If there is no such table or column, the columns can never be equal, no join can be done in so much
    /// memory with so many bytes written, the pool cannot lend that memory, or the device fails.
    pub fn for_each(
        &self,
        look: impl FnMut(Option<RecordView<'_>>, Option<RecordView<'_>>) -> Flow + Send,
    ) -> Result<JoinKind, QueryError> {
        let ready = self.prepare()?;
        let (look, stop) = (Mutex::new(look), Arc::new(AtomicBool::new(false)));
        let lend = |batch: PairBatch<'_>| {
            let mut look = look.lock().unwrap_or_else(PoisonError::into_inner);
            lend_pairs(batch, &stop, &mut *look)
        };
        self.run(ready, &mut vec![lend; self.sink_count()], &stop)
    }

    /// Runs the join with something of its own for each thread, which `start` makes and `look` gets with each
    /// pair, until there are no more pairs or `look` breaks off. Gives what became of each.
    ///
    /// ```
    /// # use nandu::{Column, ColumnType, DatabaseOptions, Flow, TableKind};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let mut options = DatabaseOptions::default();
    /// # (options.settings.log_bytes, options.settings.checkpoint_bytes) = (4 << 20, 1 << 20);
    /// # let database = nandu::create_database(&place.path().join("shop"), &options)?;
    /// # let mut write = database.write()?;
    /// # let key = || vec![Column::new("key", ColumnType::Integer)];
    /// # write.create_table("customer", key(), TableKind::Heap)?;
    /// # write.create_table("orders", key(), TableKind::Heap)?;
    /// # (0..9).try_for_each(|key| write.insert_as("customer", &(key,)).map(drop))?;
    /// # (5..12).try_for_each(|key| write.insert_as("orders", &(key,)).map(drop))?;
    /// # write.commit()?;
    /// # let snapshot = database.snapshot();
    /// let join = nandu::join(&snapshot, "customer", "orders").on("key", "key").threads(2);
    /// let counts = join.fold(|| 0, |count, _customer, _order| {
    ///     *count += 1;
    ///     Flow::Continue(())
    /// })?;
    /// println!("{} pairs", counts.iter().sum::<u64>());
    /// # assert_eq!(counts.iter().sum::<u64>(), 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::for_each`].
    pub fn fold<T: Send>(
        &self,
        mut start: impl FnMut() -> T,
        look: impl Fn(&mut T, Option<RecordView<'_>>, Option<RecordView<'_>>) -> Flow + Sync,
    ) -> Result<Vec<T>, QueryError> {
        let ready = self.prepare()?;
        let (look, stop) = (&look, Arc::new(AtomicBool::new(false)));
        let mut all: Vec<T> = (0..self.sink_count()).map(|_| start()).collect();
        let mut sinks = Vec::with_capacity(all.len());
        for one in &mut all {
            let stop = &stop;
            sinks.push(move |batch: PairBatch<'_>| {
                lend_pairs(batch, stop, &mut |left, right| look(&mut *one, left, right))
            });
        }
        self.run(ready, &mut sinks, &stop)?;
        drop(sinks);
        Ok(all)
    }

    /// All pairs, in memory.
    ///
    /// # Errors
    /// As [`Self::for_each`].
    pub fn pairs(&self) -> Result<Vec<Pair<Row>>, QueryError> {
        let row = |record: RecordView<'_>| record.columns().map(ValueRef::to_value).collect();
        let found = self.fold(Vec::new, |pairs, left, right| {
            pairs.push((left.map(row), right.map(row)));
            Flow::Continue(())
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The cheapest plan, and the memory for it.
    fn prepare(&self) -> Result<Ready<'_>, QueryError> {
        let sides = self.open()?;
        let plan = self.best(&sides)?;
        let grant = self.tables.engine().grant(self.memory_pages())?;
        Ok(Ready { sides, plan, grant })
    }

    /// Runs a plan, with a thread for each sink as far as it can be divided. A sink that sets
    /// `stop` ends it early.
    fn run<S: PairSink>(
        &self,
        ready: Ready<'_>,
        sinks: &mut [S],
        stop: &Arc<AtomicBool>,
    ) -> Result<JoinKind, QueryError> {
        let Ready { sides, plan, grant } = ready;
        let engine = self.tables.engine();
        let limits = Limits {
            page_bytes: self.page_bytes(),
            memory_pages: self.memory_pages(),
            write_budget_bytes: self.write_bytes_max,
            reads_ahead: true,
            work_costs: None,
        };
        let io = engine.data_io();
        let execution = Execution::new(limits, io.clone(), io, Some(grant), Arc::clone(stop));
        let (join, indexes) = (sides.join(self.join_type), sides.indexes());
        match plan.run(&execution, join, indexes, ChunkRule::ByBytes, sinks) {
            Err(QueryError::Cancelled) if stop.load(Ordering::Relaxed) => Ok(plan.kind),
            outcome => outcome.map(|_| plan.kind),
        }
    }

    /// How many threads are wanted.
    fn worker_count(&self) -> u32 {
        let cores =
            || std::thread::available_parallelism().map_or(1, |count| to_u32(count.get() as u64));
        if self.thread_count == 0 { cores() } else { self.thread_count }
    }

    /// One for each thread. There are never more of these than pages of memory, which have to be
    /// there before sinks are made: so many pages may be asked for that even the sinks would not
    /// fit.
    fn sink_count(&self) -> usize {
        to_index(self.worker_count().min(self.memory_pages()).max(1).into())
    }

    fn page_bytes(&self) -> u32 {
        self.tables.engine().settings().page_bytes
    }

    fn memory_pages(&self) -> u32 {
        let pool_bytes = self.tables.engine().settings().pool_bytes;
        let bytes = self.memory_bytes.unwrap_or(pool_bytes / 2);
        u32::try_from(bytes / u64::from(self.page_bytes())).unwrap_or(u32::MAX)
    }

    fn open(&self) -> Result<StoredSides<'_>, QueryError> {
        if self.on.is_empty() {
            let (left, right) = (&self.left, &self.right);
            let what =
                format!("the join of {left} and {right} compares nothing; name columns with `on`");
            return Err(QueryError::Invalid { what });
        }
        let definitions = [&self.left, &self.right].map(|table| self.tables.definition(table));
        let [left, right] = definitions;
        let (left, right) = (left?, right?);
        let (mut left_columns, mut right_columns) = (Vec::new(), Vec::new());
        for (of_left, of_right) in &self.on {
            left_columns.push(left.column(of_left)?);
            right_columns.push(right.column(of_right)?);
        }
        let stored = |table, columns| StoredTable { table, columns, wanted: None };
        StoredSides::open(
            self.tables,
            stored(&self.left, &left_columns),
            stored(&self.right, &right_columns),
        )
    }

    /// The cheapest plan that the indexes there are can carry out.
    fn best(&self, sides: &StoredSides<'_>) -> Result<Plan, QueryError> {
        let page_bytes = self.page_bytes();
        let question = sides.question(self.join_type, None)?;
        let model =
            CostModel { device: &self.device, processor: &CpuCosts::MODELLED, reads_ahead: true };
        let memory_pages = u64::from(self.memory_pages());
        let pool = PoolShape::of(self.tables.engine().settings(), memory_pages);
        let write_bytes = self.write_bytes_max;
        let worker_count = self.worker_count();
        let budget = Budget { memory_pages, write_bytes, pool, worker_count };
        let found = plans(&model, &question, &budget);
        let best = found.feasible.iter().find(|plan| plan.is_opened_with(sides.indexes()));
        best.copied().ok_or_else(|| {
            let why = found.rejected.iter().map(|(kind, why)| format!("{kind} {why}"));
            let memory = ByteCount(memory_pages * u64::from(page_bytes));
            let why = why.collect::<Vec<_>>().join(", ");
            let what = format!("no join can be done in {memory} of memory: {why}");
            QueryError::Invalid { what }
        })
    }
}

/// Lends the pairs of a batch until `look` breaks off, which sets `stop`.
fn lend_pairs(
    batch: PairBatch<'_>,
    stop: &AtomicBool,
    look: &mut impl FnMut(Option<RecordView<'_>>, Option<RecordView<'_>>) -> Flow,
) -> Result<(), QueryError> {
    for (left, right) in batch.tuples() {
        let left = left.map(|tuple| tuple.view()).transpose()?;
        let right = right.map(|tuple| tuple.view()).transpose()?;
        // Who waited for its turn meanwhile looks no more.
        if stop.load(Ordering::Relaxed) || look(left, right).is_break() {
            stop.store(true, Ordering::Relaxed);
            return Err(QueryError::Cancelled);
        }
    }
    Ok(())
}
