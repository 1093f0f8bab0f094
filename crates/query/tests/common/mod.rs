//! Tables and runs for tests of whole joins: customers and their orders in random order on any device.

#![allow(dead_code, reason = "each test uses a part of it")]

use nandu_base::{Nanos, Permutation, to_u32};
use nandu_device::{
    Completion, Counters, Device, DeviceInfo, Geometry, MemoryConfig, MemoryDevice, Operation,
    Rejected, Request,
};
use nandu_query::cost::{CostModel, CpuCosts, DeviceCosts, IndexStats, RelationStats};
use nandu_query::index::SecondaryIndex;
use nandu_query::join::{Join, JoinInput, JoinStream, JoinType};
use nandu_query::plan::{Budget, Indexes, JoinQuestion, JoinSide, Plan, PoolShape, plans};
use nandu_query::relation::HeapRelation;
use nandu_query::{Execution, Key, Limits, QueryError, Relation};
use nandu_storage::database::{
    Column, ColumnType, Database, LoadOptions, NewTable, TableKind, Tables, WriteTransaction,
};
use nandu_storage::pool::ReplacementKind;
use nandu_storage::sqlite::ValueRef;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Settings, StorageError, Volumes};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How large the tables are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Customers, each with one key.
    pub(crate) customer_count: u64,
    /// Orders of each.
    pub(crate) orders_each: u64,
    /// Bytes of a page.
    pub(crate) page_bytes: u32,
}

/// Bytes of a customer's and an order's filling, as S001 has them.
pub(crate) const PAD_BYTES: [usize; 2] = [130, 90];

/// One in so many customers is in the table `some`.
pub(crate) const SOME_PART: u64 = 100;

/// Pages of the pool.
pub(crate) const POOL_PAGES: u64 = 256;

/// The pool as a planner sees it.
pub(crate) const POOL: PoolShape =
    PoolShape { page_count: POOL_PAGES, replacement: ReplacementKind::TwoQ };

/// A device in memory.
pub(crate) fn memory_device(capacity_bytes: u64) -> Box<dyn Device + Send> {
    let geometry = Geometry { sector_bytes: 512, sector_count: capacity_bytes / 512 };
    Box::new(MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() }))
}

/// A database on a device with both tables, `customer` and `orders`: a key, and filling.
pub(crate) fn database(device: Box<dyn Device + Send>, scale: Scale) -> Database {
    database_with_pool(device, scale, POOL)
}

/// The same with another pool.
pub(crate) fn database_with_pool(
    device: Box<dyn Device + Send>,
    scale: Scale,
    pool: PoolShape,
) -> Database {
    database_of(device, scale, pool, Layout::Heaps)
}

/// The same with another pool, and rows that lie in the order of their keys.
pub(crate) fn sorted_database(
    device: Box<dyn Device + Send>,
    scale: Scale,
    pool: PoolShape,
) -> Database {
    database_of(device, scale, pool, Layout::SortedHeaps)
}

/// The same tables in PAX pages that span so many pages, and `some`, a part of the customers.
pub(crate) fn pax_database(
    device: Box<dyn Device + Send>,
    scale: Scale,
    span_pages: u32,
) -> Database {
    database_of(device, scale, POOL, Layout::Pax(span_pages))
}

/// How tables lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Heaps,
    /// Heaps whose rows are in the order of their keys.
    SortedHeaps,
    /// PAX pages that span so many pages.
    Pax(u32),
}

fn database_of(
    device: Box<dyn Device + Send>,
    scale: Scale,
    pool: PoolShape,
    layout: Layout,
) -> Database {
    let data = Box::new(DeviceVolume::format(device).expect("the device is empty"));
    let settings = Settings {
        page_bytes: scale.page_bytes,
        pool_bytes: u64::from(scale.page_bytes) * pool.page_count,
        replacement: pool.replacement,
        log_bytes: 4 << 20,
        checkpoint_bytes: 256 << 10,
        ..Settings::default()
    };
    let database = Database::create(Volumes::new(data, None), &settings, 1).expect("it is empty");
    let mut writing = database.write().expect("nobody else writes");
    let counts = [scale.customer_count, scale.customer_count * scale.orders_each];
    for (table, (name, count)) in ["customer", "orders"].into_iter().zip(counts).enumerate() {
        load(&mut writing, name, (count, scale.customer_count), table, layout);
    }
    if matches!(layout, Layout::Pax(_)) {
        // Some of the customers, any of them.
        load(
            &mut writing,
            "some",
            (scale.customer_count / SOME_PART, scale.customer_count),
            0,
            layout,
        );
    }
    writing.commit().expect("the device is sound");
    database.flush().expect("the device is sound");
    database
}

fn load(
    tables: &mut WriteTransaction<'_>,
    name: &str,
    (count, key_count): (u64, u64),
    table: usize,
    layout: Layout,
) {
    let columns =
        vec![Column::new("key", ColumnType::Integer), Column::new("pad", ColumnType::Blob)];
    let table_of = NewTable {
        name: name.to_owned(),
        columns,
        kind: match layout {
            Layout::Heaps | Layout::SortedHeaps => TableKind::Heap,
            Layout::Pax(span_pages) => TableKind::Pax { span_pages },
        },
        indexes: match layout {
            Layout::Heaps | Layout::SortedHeaps => {
                vec![("by_key".to_owned(), vec!["key".to_owned()])]
            }
            Layout::Pax(_) => Vec::new(),
        },
    };
    let all = count.max(key_count);
    let order = Permutation::new(all, 7 + all);
    let pad = vec![7; PAD_BYTES[table]];
    tables
        .load_table(&table_of, &LoadOptions::default(), |load| {
            for row in 0..count {
                // Keys of one length, so that all rows are as long.
                let key = match layout {
                    Layout::SortedHeaps => row * key_count / count,
                    Layout::Heaps | Layout::Pax(_) => order.apply(row) % key_count,
                };
                let key = 1_000_000 + i64::from(to_u32(key));
                load.push(&[ValueRef::Integer(key), ValueRef::Blob(&pad)])?;
            }
            Ok::<_, StorageError>(())
        })
        .expect("the device has room");
}

/// The tables and their indexes, opened.
pub(crate) struct Inputs<'t> {
    pub(crate) left: HeapRelation<'t>,
    pub(crate) right: HeapRelation<'t>,
    left_index: SecondaryIndex<'t>,
    right_index: SecondaryIndex<'t>,
    key: Key,
}

impl<'t> Inputs<'t> {
    /// Those of [`database`].
    pub(crate) fn open(tables: &'t Tables) -> Result<Self, QueryError> {
        Ok(Self {
            left: HeapRelation::open(tables, "customer")?,
            right: HeapRelation::open(tables, "orders")?,
            left_index: SecondaryIndex::open(tables, "customer", "by_key", false)?,
            right_index: SecondaryIndex::open(tables, "orders", "by_key", false)?,
            key: Key::of(&[0]),
        })
    }

    pub(crate) fn join(&self, join_type: JoinType) -> Join<'_> {
        let input = |relation| JoinInput { relation, key: &self.key };
        Join { left: input(&self.left), right: input(&self.right), join_type }
    }

    pub(crate) fn indexes(&self) -> Indexes<'_> {
        Indexes { left: Some(&self.left_index), right: Some(&self.right_index) }
    }

    /// What a planner knows of them.
    pub(crate) fn question(&self, scale: Scale) -> JoinQuestion {
        let side = |relation: &HeapRelation<'_>, index: &SecondaryIndex<'_>| {
            let stats = RelationStats::of(relation.size(), u64::from(scale.page_bytes));
            JoinSide::new(stats).with_index(IndexStats::of(index).expect("the device is sound"))
        };
        let sides = (side(&self.left, &self.left_index), side(&self.right, &self.right_index));
        JoinQuestion::new(sides.0, sides.1, scale.orders_each)
    }
}

/// Limits of memory alone.
pub(crate) const fn limits(page_bytes: u32, memory_pages: u32, reads_ahead: bool) -> Limits {
    Limits { page_bytes, memory_pages, write_budget_bytes: None, reads_ahead, work_costs: None }
}

/// An execution on the volume of a database.
pub(crate) fn execution_on(tables: &Tables, limits: Limits) -> Execution {
    let io = tables.engine().data_io();
    Execution::new(limits, io.clone(), io, None, Arc::new(AtomicBool::new(false)))
}

/// How many pairs come.
pub(crate) fn count_pairs(stream: &mut dyn JoinStream) -> Result<u64, QueryError> {
    let mut count = 0;
    while stream.advance()? {
        count += stream.batch().pairs.len() as u64;
    }
    Ok(count)
}

/// What a device under test is made to do.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// The read, counted from 1 from now on, whose bytes come back damaged; 0 for none.
    pub(crate) damaged_read: AtomicU64,
    /// The request, likewise, with which `stop` is set.
    pub(crate) stopping_request: AtomicU64,
    /// The flag of the run.
    pub(crate) stop: Arc<AtomicBool>,
}

thread_local! {
    /// Set while the device works in this thread: its memory is not the operators'.
    static IS_DEVICE_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Whether the device works in this thread.
pub(crate) fn is_device_at_work() -> bool {
    IS_DEVICE_AT_WORK.try_with(Cell::get).unwrap_or(false)
}

/// Counts down to zero; true when it gets there.
fn strikes(counter: &AtomicU64) -> bool {
    let before = counter.load(Ordering::Relaxed);
    counter.store(before.saturating_sub(1), Ordering::Relaxed);
    before == 1
}

/// A device that does what its control says.
#[derive(Debug)]
struct ControlledDevice {
    inner: MemoryDevice,
    control: Arc<Control>,
    damaged: Option<u64>,
}

/// A device in memory with its control.
pub(crate) fn controlled_device(capacity_bytes: u64) -> (Box<dyn Device + Send>, Arc<Control>) {
    let geometry = Geometry { sector_bytes: 512, sector_count: capacity_bytes / 512 };
    let inner = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let control = Arc::new(Control::default());
    (Box::new(ControlledDevice { inner, control: Arc::clone(&control), damaged: None }), control)
}

impl Device for ControlledDevice {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if request.operation == Operation::Read && strikes(&self.control.damaged_read) {
            self.damaged = Some(request.id);
        }
        if strikes(&self.control.stopping_request) {
            self.control.stop.store(true, Ordering::Relaxed);
        }
        IS_DEVICE_AT_WORK.set(true);
        let submitted = self.inner.submit(now, request);
        IS_DEVICE_AT_WORK.set(false);
        submitted
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let mut completion = self.inner.next_completion(until)?;
        if self.damaged == Some(completion.id)
            && let Some(buffer) = &mut completion.buffer
        {
            let middle = buffer.len() / 2;
            buffer[middle] ^= 0x55;
            self.damaged = None;
        }
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

/// The cheapest plan of each kind and role in so much memory.
pub(crate) fn plans_in(question: &JoinQuestion, memory_pages: u32, reads_ahead: bool) -> Vec<Plan> {
    let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
    let model = CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead };
    let budget = Budget {
        memory_pages: u64::from(memory_pages),
        write_bytes: None,
        pool: POOL,
        worker_count: 1,
    };
    plans(&model, question, &budget).feasible
}
