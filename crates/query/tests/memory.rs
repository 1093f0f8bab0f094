//! No join and no sort takes more memory than it was allotted, counted by the allocator of this program.
//!
//! 1. What is counted is everything but the device's own memory: buffers, rows, tables, trees, keys.
//! 2. On top of the allotment an operator has its fixed parts: batches of pairs, addresses of the rows of a
//!    batch, the spill file's books. They do not grow with tables or memory: [`fixed_bytes`].
//! 3. It has a row for each of its inputs besides, which may be longer than its memory, and a merge one for
//!    each of its runs: [`Shape::row_bytes`]. Of several workers each merges a range of all runs.
//!
//! Tables have rows of one length; one key in a third of the rows of both sides, so that buckets are joined in
//! chunks with a bit for each row that met a partner, and groups do not fit; rows of up to four pages; one key in four
//! fifths of the smaller side; or they are trees, or lie in PAX pages.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; it hands everything on")]

mod common;

use common::{POOL_PAGES, controlled_device, execution_on, is_device_at_work};
use nandu_base::{Permutation, Rng, to_index};
use nandu_query::cost::{CostModel, CpuCosts, DeviceCosts, IndexStats, JoinQuestion, JoinSide};
use nandu_query::index::{ClusteredIndex, IndexLookup, SecondaryIndex};
use nandu_query::join::{ColumnPairs, ColumnSink, Join, JoinInput, JoinStream, JoinType};
use nandu_query::key::KeyColumn;
use nandu_query::plan::{Budget, ChunkRule, Indexes, Plan, plans};
use nandu_query::relation::{ClusteredRelation, HeapRelation, PaxRelation, TupleStream};
use nandu_query::sort::{RunFormation, Settings, Sort, sort_by_workers};
use nandu_query::{JoinKind, Key, Limits, PairBatch, QueryError, Relation, TupleBatch};
use nandu_storage::database::{
    Column, ColumnType, Database, LoadOptions, NewTable, TableKind, Tables, WriteTransaction,
};
use nandu_storage::sqlite::ValueRef;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{StorageError, Volumes};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

const PAGE_BYTES: u32 = 4096;
/// Workers of joins that several can do; each has its own fixed parts and rows.
const WORKER_COUNT: i64 = 3;

/// What the rows of a pair of tables are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Even,
    Skewed,
    Long,
    Trees,
    Pax,
    /// Four fifths of the smaller side have one key.
    Heavy,
}

/// What operators take beside their allotment, as measured, rounded up to whole KiB and a quarter more; a join that
/// is not named may take what the largest of the others do.
fn fixed_bytes(kind: Option<JoinKind>) -> i64 {
    let kib = match kind {
        None => 64,
        Some(JoinKind::NestedLoops) => 96,
        Some(JoinKind::BlockNestedLoops) => 64,
        Some(JoinKind::IndexNestedLoops) => 128,
        Some(JoinKind::IndexSortMerge) => 200,
        Some(JoinKind::SortMerge) => 64,
        Some(JoinKind::GraceHash) => 80,
        Some(JoinKind::HybridHash) => 240,
        Some(_) => 260,
    };
    kib << 10
}

/// The system's allocator, and how much it has given.
struct Counting;

/// One test at a time counts.
static COUNTING: Mutex<()> = Mutex::new(());
static HELD_BYTES: AtomicI64 = AtomicI64::new(0);
static PEAK_BYTES: AtomicI64 = AtomicI64::new(0);

fn count(bytes: i64) {
    if !is_device_at_work() {
        let held = HELD_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK_BYTES.fetch_max(held, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(i64::try_from(layout.size()).unwrap_or(0));
        // SAFETY: the caller keeps the rules of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-i64::try_from(layout.size()).unwrap_or(0));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that was held at once while `work` was done, beyond what was held before.
fn peak_of(work: impl FnOnce()) -> i64 {
    let before = HELD_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    work();
    PEAK_BYTES.load(Ordering::Relaxed) - before
}

impl Shape {
    const ALL: [Self; 6] =
        [Self::Even, Self::Skewed, Self::Long, Self::Trees, Self::Pax, Self::Heavy];

    const fn row_counts(self) -> [u64; 2] {
        match self {
            Self::Even | Self::Pax => [1500, 12_000],
            Self::Trees => [4000, 40_000],
            Self::Skewed => [900, 6000],
            Self::Long => [250, 1000],
            Self::Heavy => [12_000, 6000],
        }
    }

    fn table(self, side: usize) -> String {
        format!("{self:?}_{}", ["left", "right"][side]).to_lowercase()
    }

    fn pad(self, side: usize, rng: &mut Rng) -> usize {
        match self {
            Self::Long if rng.below(4) == 0 => to_index(rng.below(4 * u64::from(PAGE_BYTES))),
            Self::Heavy => [4, 200][side],
            _ => common::PAD_BYTES[side],
        }
    }

    fn key(self, side: usize, number: u64, rng: &mut Rng) -> u64 {
        match self {
            Self::Skewed if rng.below(3) == 0 => 7,
            Self::Heavy if side == 0 && rng.below(5) > 0 => 7,
            Self::Heavy => number % 6000,
            _ if side == 0 => number,
            _ => number % self.row_counts()[0],
        }
    }

    /// Bytes of rows that are held besides: one of each input, or, in a merge, one of each run, which is as
    /// long as the memory at least, and of which there are no more than pages. No row to speak of where rows are
    /// short.
    fn row_bytes(self, kind: Option<JoinKind>, memory_pages: u32) -> i64 {
        if self != Self::Long {
            return 0;
        }
        let longest = 4 * i64::from(PAGE_BYTES);
        match kind {
            None | Some(JoinKind::SortMerge) => {
                let [left, right] = self.row_counts().map(u64::cast_signed);
                let mean = longest / 2 / 4 + 128;
                let memory = i64::from(memory_pages) * i64::from(PAGE_BYTES);
                // A sort is one of the right side.
                let rows = if kind.is_none() { right } else { left + right };
                (rows * mean / memory + 2).min(i64::from(memory_pages)) * longest
            }
            _ => 2 * longest,
        }
    }

    /// The types of join that are gone through; what does not concern rows is the same for all.
    fn join_types(self) -> Vec<JoinType> {
        match self {
            Self::Even | Self::Trees | Self::Pax => vec![JoinType::Inner, JoinType::Full],
            Self::Heavy => vec![JoinType::Inner],
            Self::Skewed | Self::Long => JoinType::ALL.to_vec(),
        }
    }

    fn load(self, tables: &mut WriteTransaction<'_>) {
        let mut rng = Rng::new(5);
        for side in 0..2 {
            let columns = ["key", "pad", "id"].into_iter().zip([
                ColumnType::Integer,
                ColumnType::Blob,
                ColumnType::Integer,
            ]);
            let table = NewTable {
                name: self.table(side),
                columns: columns.map(|(name, kind)| Column::new(name, kind)).collect(),
                kind: match self {
                    Self::Trees => TableKind::Clustered { key: vec![0, 2] },
                    Self::Pax => TableKind::Pax { span_pages: 8 },
                    Self::Even | Self::Skewed | Self::Long | Self::Heavy => TableKind::Heap,
                },
                indexes: match self {
                    Self::Trees | Self::Pax => Vec::new(),
                    Self::Even | Self::Skewed | Self::Long | Self::Heavy => {
                        vec![("by_key".to_owned(), vec!["key".to_owned()])]
                    }
                },
            };
            let count = self.row_counts()[side];
            let order = Permutation::new(count, 7 + count);
            let loaded = tables.load_table(&table, &LoadOptions::default(), |load| {
                for row in 0..count {
                    let number = order.apply(row);
                    let key = self.key(side, number, &mut rng).cast_signed();
                    let pad = vec![7; self.pad(side, &mut rng)];
                    let id = ValueRef::Integer(number.cast_signed());
                    load.push(&[ValueRef::Integer(key), ValueRef::Blob(&pad), id])?;
                }
                Ok::<_, StorageError>(())
            });
            loaded.expect("the device has room");
        }
    }
}

fn database(device: Box<dyn nandu_device::Device + Send>) -> Database {
    let data = Box::new(DeviceVolume::format(device).expect("the device is empty"));
    let settings = nandu_storage::Settings {
        page_bytes: PAGE_BYTES,
        pool_bytes: u64::from(PAGE_BYTES) * POOL_PAGES,
        log_bytes: 4 << 20,
        checkpoint_bytes: 256 << 10,
        ..nandu_storage::Settings::default()
    };
    let database = Database::create(Volumes::new(data, None), &settings, 1).expect("it is empty");
    let mut writing = database.write().expect("nobody else writes");
    Shape::ALL.into_iter().for_each(|shape| shape.load(&mut writing));
    writing.commit().expect("the device is sound");
    database.flush().expect("the device is sound");
    database
}

/// One side, opened.
struct Side<'t> {
    relation: Box<dyn Relation + 't>,
    index: Option<Box<dyn IndexLookup + 't>>,
}

impl<'t> Side<'t> {
    fn open(tables: &'t Tables, shape: Shape, side: usize) -> Self {
        let name = shape.table(side);
        match shape {
            Shape::Trees => Self {
                relation: Box::new(ClusteredRelation::open(tables, &name).unwrap()),
                index: Some(Box::new(ClusteredIndex::open(tables, &name).unwrap())),
            },
            Shape::Pax => Self {
                relation: Box::new(PaxRelation::open(tables, &name, &Key::of(&[0]), None).unwrap()),
                index: None,
            },
            _ => Self {
                relation: Box::new(HeapRelation::open(tables, &name).unwrap()),
                index: Some(Box::new(
                    SecondaryIndex::open(tables, &name, "by_key", false).unwrap(),
                )),
            },
        }
    }

    fn known(&self) -> JoinSide {
        let side = JoinSide::of(self.relation.as_ref(), u64::from(PAGE_BYTES));
        match &self.index {
            Some(index) => side.with_index(IndexStats::of(index.as_ref()).unwrap()),
            None => side,
        }
    }
}

fn plans_of(
    sides: &[Side<'_>; 2],
    join_type: JoinType,
    memory: (u32, bool),
    worker_count: u32,
) -> Vec<Plan> {
    let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
    let model = CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead: memory.1 };
    let question = JoinQuestion::new(sides[0].known(), sides[1].known(), 10);
    let question = question.with_join_type(join_type);
    let memory_pages = u64::from(memory.0);
    let budget = Budget { memory_pages, write_bytes: None, pool: common::POOL, worker_count };
    plans(&model, &question, &budget).feasible
}

/// Goes through a join; through nested loops, which take no more later than at first, only for a while.
fn go_through(stream: &mut dyn JoinStream, kind: JoinKind) {
    let mut left = if kind == JoinKind::NestedLoops { 50 } else { u32::MAX };
    while left > 0 && stream.advance().expect("nothing is wrong") {
        left -= 1;
    }
}

/// The most that was taken beyond an allotment, and by what, for each kind.
#[derive(Default)]
struct Extras(BTreeMap<Option<JoinKind>, (i64, String)>);

impl Extras {
    fn note(&mut self, kind: Option<JoinKind>, bytes: i64, told: String) {
        let most = self.0.entry(kind).or_insert((i64::MIN, String::new()));
        if bytes > most.0 {
            *most = (bytes, told);
        }
    }

    /// Tells all; what passes its limit comes back.
    #[allow(clippy::print_stdout, reason = "how near to its limits each is")]
    fn wrong(self, who: &str, limit_of: impl Fn(Option<JoinKind>) -> i64) -> Vec<String> {
        let told = self.0.into_iter().map(|(kind, (bytes, told))| {
            let (name, limit) = (kind.map_or("a sort", JoinKind::name), limit_of(kind));
            let line = format!("{name}, {who}: {bytes} bytes more, {limit} allowed: {told}");
            println!("{line}");
            (bytes > limit).then_some(line)
        });
        told.flatten().collect()
    }
}

/// The most that workers take for a plan.
fn peak_of_workers(
    tables: &Tables,
    plan: &Plan,
    limits: &Limits,
    (join, indexes): (Join<'_>, Indexes<'_>),
) -> i64 {
    peak_of(|| {
        let execution = execution_on(tables, limits.clone());
        let mut sinks: Vec<_> = (0..WORKER_COUNT).map(|_| |_: PairBatch<'_>| Ok(())).collect();
        let used = plan.run(&execution, join, indexes, ChunkRule::ByBytes, &mut sinks).unwrap();
        assert_several(used, limits);
    })
}

/// Not one did it alone, but where a share would be too little for a table in PAX pages.
fn assert_several(worker_count: usize, limits: &Limits) {
    let least = if limits.memory_pages < 150 { 1 } else { 2 };
    assert!(worker_count >= least, "{worker_count} of {WORKER_COUNT} in {}", limits.memory_pages);
}

/// The most that workers take for a plan of which the keys and the numbers of rows are wanted, by column.
fn peak_of_columns(
    tables: &Tables,
    plan: &Plan,
    limits: &Limits,
    (join, indexes): (Join<'_>, Indexes<'_>),
) -> i64 {
    let wanted = [KeyColumn::Stored(0), KeyColumn::Stored(2)];
    let rule = (indexes, ChunkRule::ByBytes);
    peak_of(|| {
        let execution = execution_on(tables, limits.clone());
        let mut sinks: Vec<_> = (0..WORKER_COUNT).map(|_| Ignored).collect();
        let used = plan.run_columns(&execution, join, [&wanted; 2], rule, &mut sinks).unwrap();
        assert_several(used, limits);
    })
}

/// The most that several workers take for a sort.
fn peak_of_sort(tables: &Tables, relation: &dyn Relation, limits: &Limits, sort: Settings) -> i64 {
    let key = Key::of(&[0]);
    peak_of(|| {
        let execution = execution_on(tables, limits.clone());
        let mut sinks: Vec<_> = (0..WORKER_COUNT).map(|_| |_: TupleBatch<'_>| Ok(())).collect();
        let used = sort_by_workers(&execution, relation, &key, sort, &mut sinks).unwrap();
        assert_several(used, limits);
    })
}

/// Takes pairs and forgets them.
struct Ignored;

impl ColumnSink for Ignored {
    fn take(&mut self, _: ColumnPairs<'_>) -> Result<(), QueryError> {
        Ok(())
    }
}

/// What was taken beyond allotments, by one and by several.
#[derive(Default)]
struct Measured {
    of_one: Extras,
    of_workers: Extras,
    of_columns: Extras,
}

/// Tables of one shape, and how much memory there is for what is done with them.
struct Trial<'t> {
    tables: &'t Tables,
    shape: Shape,
    sides: &'t [Side<'t>; 2],
    memory: (u32, bool),
    limits: Limits,
}

impl Trial<'_> {
    fn allotted(&self, kind: Option<JoinKind>) -> i64 {
        let memory_pages = self.memory.0;
        i64::from(memory_pages) * i64::from(PAGE_BYTES) + self.shape.row_bytes(kind, memory_pages)
    }

    /// Each worker merges a range of the runs of all, which are as long as a share; of so many, the rows at hand are
    /// no more than half as long as the longest on average.
    fn allotted_to_workers(&self, kind: Option<JoinKind>) -> i64 {
        let memory_pages = self.memory.0;
        let share_pages = memory_pages / u32::try_from(WORKER_COUNT).unwrap();
        let row_bytes = match kind {
            None | Some(JoinKind::SortMerge) => self.shape.row_bytes(kind, share_pages) / 2,
            kind => self.shape.row_bytes(kind, memory_pages),
        };
        i64::from(memory_pages) * i64::from(PAGE_BYTES) + WORKER_COUNT * row_bytes
    }

    fn measure_joins(&self, join_type: JoinType, measured: &mut Measured) {
        let (Self { tables, shape, sides, memory, limits }, key) = (self, Key::of(&[0]));
        let input = |side: usize| JoinInput { relation: sides[side].relation.as_ref(), key: &key };
        let join = Join { left: input(0), right: input(1), join_type };
        let index = |side: usize| sides[side].index.as_deref();
        let indexes = Indexes { left: index(0), right: index(1) };
        let (memory_pages, reads_ahead) = *memory;
        let told =
            format!("{shape:?} {} in {memory_pages} pages, ahead: {reads_ahead}", join_type.name());
        for plan in plans_of(sides, join_type, *memory, 1) {
            let kind = Some(plan.kind);
            let peak = peak_of(|| {
                let execution = execution_on(tables, limits.clone());
                let stream = plan.open(&execution, join, indexes, ChunkRule::ByBytes);
                go_through(stream.unwrap().as_mut(), plan.kind);
            });
            measured.of_one.note(kind, peak - self.allotted(kind), told.clone());
        }
        if memory_pages < 64 {
            return;
        }
        for plan in plans_of(sides, join_type, *memory, u32::try_from(WORKER_COUNT).unwrap()) {
            let kind = Some(plan.kind);
            if plan.kind.is_shared() {
                let allotted = self.allotted_to_workers(kind);
                let peak = peak_of_workers(tables, &plan, limits, (join, indexes));
                measured.of_workers.note(kind, peak - allotted, told.clone());
                let peak = peak_of_columns(tables, &plan, limits, (join, indexes));
                measured.of_columns.note(kind, peak - allotted, told.clone());
            }
        }
    }

    fn measure_sorts(&self, measured: &mut Measured) {
        let (Self { tables, shape, sides, limits, .. }, key) = (self, Key::of(&[0]));
        let memory_pages = self.memory.0;
        for formation in [RunFormation::ReplacementSelection, RunFormation::Quicksort] {
            let relation = sides[1].relation.as_ref();
            let input_pages = relation.scan_pages_min().max(4);
            let workspace_pages = memory_pages - input_pages - 4;
            let settings = Settings { input_pages, output_pages: 4, workspace_pages, formation };
            let peak = peak_of(|| {
                let execution = execution_on(tables, limits.clone());
                let mut sort = Sort::new(&execution, relation, &key, settings).unwrap();
                while sort.advance().unwrap() {}
            });
            let told = format!("{shape:?} {formation:?} in {memory_pages} pages");
            measured.of_one.note(None, peak - self.allotted(None), told.clone());
            if memory_pages >= 64 {
                let peak = peak_of_sort(tables, relation, limits, settings);
                measured.of_workers.note(None, peak - self.allotted_to_workers(None), told);
            }
        }
    }
}

#[test]
fn joins_and_sorts_stay_within_their_allotment() {
    let _turn = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let database = database(controlled_device(128 << 20).0);
    let tables = database.read();
    let mut measured = Measured::default();
    for shape in Shape::ALL {
        let sides = [0, 1].map(|side| Side::open(&tables, shape, side));
        for memory in [(20, false), (20, true), (64, true), (150, true), (200, false), (300, true)]
        {
            let limits = common::limits(PAGE_BYTES, memory.0, memory.1);
            let trial = Trial { tables: &tables, shape, sides: &sides, memory, limits };
            for join_type in shape.join_types() {
                trial.measure_joins(join_type, &mut measured);
            }
            trial.measure_sorts(&mut measured);
        }
    }
    let Measured { of_one, of_workers, of_columns } = measured;
    assert_eq!(of_one.0.len(), JoinKind::ALL.len() + 1, "every join and a sort");
    assert_eq!(of_workers.0.len(), 4, "block nested loops, hybrid hash, sort-merge and a sort");
    let of_worker = |kind| WORKER_COUNT * fixed_bytes(kind);
    let wrong = [
        of_one.wrong("one", fixed_bytes),
        of_workers.wrong("workers", of_worker),
        // Pairs of rows are decoded, a batch at a time.
        of_columns.wrong("workers by column", |kind| of_worker(kind) + WORKER_COUNT * (16 << 10)),
    ]
    .concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn columns_of_texts_stay_within_their_allotment_however_near_they_come_to_it() {
    let _turn = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let database = database(controlled_device(128 << 20).0);
    let tables = database.read();
    let (key, wanted) = (Key::of(&[0]), [0, 1, 2].map(KeyColumn::Stored));
    let (mut wrong, mut by_column_count) = (Vec::new(), 0);
    for shape in [Shape::Even, Shape::Heavy, Shape::Pax] {
        let sides = [0, 1].map(|side| Side::open(&tables, shape, side));
        for memory_pages in (80..400).step_by(20) {
            let limits = common::limits(PAGE_BYTES, memory_pages, true);
            let plans = plans_of(&sides, JoinType::Inner, (memory_pages, true), 1);
            let plan = plans.iter().find(|plan| plan.kind == JoinKind::HybridHash).unwrap();
            let input =
                |side: usize| JoinInput { relation: sides[side].relation.as_ref(), key: &key };
            let join = Join { left: input(0), right: input(1), join_type: JoinType::Inner };
            for worker_count in [1, WORKER_COUNT] {
                let mut written_bytes = 0;
                let peak = peak_of(|| {
                    let execution = execution_on(&tables, limits.clone());
                    let mut sinks: Vec<_> = (0..worker_count).map(|_| Ignored).collect();
                    let rule = (Indexes { left: None, right: None }, ChunkRule::ByBytes);
                    plan.run_columns(&execution, join, [&wanted; 2], rule, &mut sinks).unwrap();
                    written_bytes = execution.io_counts().write_bytes;
                });
                by_column_count += i64::from(written_bytes == 0);
                let more = peak - i64::from(memory_pages) * i64::from(PAGE_BYTES);
                // Of pairs that are joined by row, 256 KiB are decoded at once.
                let decoded_bytes = 256 << 10;
                let limit =
                    worker_count * (fixed_bytes(Some(JoinKind::HybridHash)) + decoded_bytes);
                if more > limit {
                    wrong.push(format!(
                        "{shape:?} in {memory_pages} pages by {worker_count}: {more} of {limit}"
                    ));
                }
            }
        }
    }
    assert!(by_column_count > 20, "{by_column_count} wrote nothing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
