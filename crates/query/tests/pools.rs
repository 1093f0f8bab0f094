//! Pages that joins by index read through pools of all kinds and sizes, beside the estimate, which
//! asks the pool's own replacement, and beside a closed form, after Mackert and Lohman (ACM TODS
//! 14(3), 1989) and Che, Tung and Wang (IEEE JSAC 20(7), 2002).
//!
//! ```text
//!   closed form   each call wants a share of the leaves, or of the pages of S; until the pool
//!                 is full, each is read once; then a page is gone that was not wanted for T,
//!                 where the pages wanted within T fill the pool
//!   2Q            a page goes round: recent for T1, a ghost for T2, frequent until it is not
//!                 wanted for T3
//! ```
//!
//! 1. Whether rows lie in the order of keys or in any, estimates are within [`MEAN_PERMILLE`] on
//!    average, and none is off by more than [`MOST_PERMILLE`].
//! 2. The closed form is off by several times as much where rows lie in any order, which is why the
//!    planner draws keys and asks a replacement; it knows of no other order.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "how far off each is")]

use crate::common::{
    Inputs, Scale, count_pairs, database_with_pool, execution_on, memory_device, sorted_database,
};
use nandu_query::cost::join::{IndexMemory, IndexMergeMemory};
use nandu_query::cost::{CostModel, CpuCosts, DeviceCosts};
use nandu_query::index::FetchOrder;
use nandu_query::join::JoinType;
use nandu_query::plan::{
    Budget, ChunkRule, Division, JoinQuestion, JoinSide, Plan, PoolShape, plans,
};
use nandu_storage::Database;
use nandu_storage::pool::ReplacementKind;
use serde::Serialize;
use std::collections::BTreeMap;

const PAGE_BYTES: u32 = 4096;
const SCALE: Scale = Scale { customer_count: 4000, orders_each: 10, page_bytes: PAGE_BYTES };
/// Pages of the pool: from a sixteenth of the orders and their index to twice as many.
const POOL_PAGES: [u64; 6] = [80, 160, 320, 640, 1280, 2560];
/// Those of the gate, where [`RESULT`] asks for nothing.
const FEW_POOL_PAGES: [u64; 2] = [160, 640];
const MEMORY_PAGES: [u32; 4] = [14, 60, 200, 700];
/// Names the file to which all points are written.
const RESULT: &str = "NANDU_POOLS_RESULT";

/// By how many thousandths estimates may be off on average, and at most.
const MEAN_PERMILLE: u64 = 20;
const MOST_PERMILLE: u64 = 120;
/// By how many times as much the closed form is off.
const CLOSED_FORM_TIMES: u64 = 4;

/// One join through one pool.
#[derive(Debug, Serialize)]
struct Point {
    keys: &'static str,
    pool: PoolShape,
    memory_pages: u32,
    join: &'static str,
    is_swapped: bool,
    pages_read: u64,
    /// Pages that opening the tables left in the pool.
    opened_pages: u64,
    estimated: u64,
    by_closed_form: u64,
}

impl Point {
    /// By how many thousandths something is off. What opening left in the pool may be wanted or
    /// not.
    fn error_permille(&self, estimated: u64) -> i64 {
        let nearest = estimated.clamp(self.pages_read, self.pages_read + self.opened_pages);
        let off = estimated.cast_signed() - nearest.cast_signed();
        off * 1000 / self.pages_read.max(1).cast_signed()
    }
}

fn points_of(
    database: &Database,
    (keys, pool): (&'static str, PoolShape),
    points: &mut Vec<Point>,
) {
    let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
    let model = CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead: true };
    let question = Inputs::open(&database.read()).unwrap().question(SCALE);
    for memory_pages in MEMORY_PAGES {
        let budget = Budget {
            memory_pages: u64::from(memory_pages),
            write_bytes: None,
            pool,
            worker_count: 1,
        };
        for plan in plans(&model, &question, &budget).feasible {
            let roles = if plan.is_swapped { question.swapped() } else { question };
            let by_closed_form = match plan.division {
                Division::IndexNestedLoops(parts) => {
                    looked_up(&roles, &parts.memory, parts.order == FetchOrder::Key)
                }
                Division::IndexSortMerge(parts) => merged(&roles, &parts),
                _ => continue,
            };
            let (pages_read, opened_pages) = run(database, &plan, memory_pages);
            let (join, is_swapped) = (plan.kind.name(), plan.is_swapped);
            let estimated = plan.estimate.pages_read;
            points.push(Point {
                keys,
                pool,
                memory_pages,
                join,
                is_swapped,
                pages_read,
                opened_pages,
                estimated,
                by_closed_form,
            });
        }
    }
}

/// Pages that a join reads from a pool that is empty but for what opening read, and how many that
/// is.
fn run(database: &Database, plan: &Plan, memory_pages: u32) -> (u64, u64) {
    database.drop_cached_pages().unwrap();
    let tables = database.read();
    let reads = || tables.engine().pool_counters().read_count;
    let before = reads();
    let inputs = Inputs::open(&tables).unwrap();
    let opened_pages = reads() - before;
    let execution = execution_on(&tables, crate::common::limits(PAGE_BYTES, memory_pages, true));
    let join = inputs.join(JoinType::Inner);
    let mut stream = plan.open(&execution, join, inputs.indexes(), ChunkRule::ByBytes).unwrap();
    assert_eq!(count_pairs(stream.as_mut()), Ok(SCALE.customer_count * SCALE.orders_each));
    drop(stream);
    (execution.io_counts().read_bytes / u64::from(PAGE_BYTES), opened_pages)
}

/// Pages of one kind, a share of which each of some calls wants, in the course of a join.
#[derive(Clone, Copy, Debug)]
struct Class {
    pages: f64,
    share: f64,
    calls: f64,
}

/// What is wanted of a pool.
#[derive(Debug)]
struct Wanted {
    classes: Vec<Class>,
    /// Pages that are wanted once, one after the other.
    streamed: f64,
    pool: PoolShape,
}

/// Rows that are fetched at once in the order of keys.
const KEY_ORDER_ROWS: f64 = 128.0;
/// Leaves that a search asks for at once.
const LEAVES_PER_CALL: f64 = 256.0;
/// Leaves that opening a heap looks at.
const SAMPLE_COUNT: f64 = 16.0;

/// Pages of so many that are met by so many accesses.
fn distinct(pages: f64, accesses: f64) -> f64 {
    pages * (1.0 - (1.0 - 1.0 / pages.max(1.0)).powf(accesses))
}

impl Class {
    /// Pages of which so many different ones are wanted by each of some calls.
    fn new(pages: f64, wanted: f64, calls: f64) -> Self {
        Self { pages, share: (wanted / pages.max(1.0)).clamp(1e-9, 1.0), calls }
    }

    /// How often each of them is wanted.
    fn rate(&self) -> f64 {
        self.share * self.calls
    }

    /// How likely one is not wanted in such a part of the join. A call wants them in their order.
    fn is_left_out(&self, time: f64) -> f64 {
        let calls = self.calls * time;
        let rest = 1.0 - self.share * calls.fract();
        ((1.0 - self.share).powf(calls.floor()) * rest).max(1e-12)
    }
}

fn row_bytes(side: &JoinSide) -> f64 {
    side.stats.cell_bytes as f64 / side.stats.tuple_count.max(1) as f64
}

/// Rows that are noted in so many pages.
fn noted_rows(side: &JoinSide, pages: u64) -> f64 {
    (pages as f64 * f64::from(PAGE_BYTES) / (row_bytes(side) * 1.25 + 64.0)).floor().max(1.0)
}

/// Index nested loops, with the scan of R.
fn looked_up(question: &JoinQuestion, memory: &IndexMemory, is_in_key_order: bool) -> u64 {
    let (outer, inner) = (&question.outer, &question.inner);
    let index = inner.index.unwrap();
    let (rows, pairs) = (outer.stats.tuple_count as f64, question.pair_count as f64);
    let entries = inner.stats.tuple_count as f64;
    let (leaves, heap) = (index.leaf_page_count as f64, inner.stats.page_count as f64);
    let per_key = (pairs / rows).round().max(1.0);
    let key_count = entries / per_key;
    let batch_bytes = memory.batch_pages as f64 * f64::from(PAGE_BYTES);
    let batch_rows = (batch_bytes / (row_bytes(outer) + 144.0)).floor().clamp(1.0, rows);
    let batches = rows / batch_rows;
    let keys = if rows <= key_count { batch_rows } else { distinct(key_count, batch_rows) };
    let items = noted_rows(inner, memory.inner_pages);
    let found = keys * per_key;
    let loops = (found / items).ceil();
    let window = if is_in_key_order { KEY_ORDER_ROWS } else { items }.min(found);
    let fetches = found / window;
    let leaves_of_key = 1.0 + (per_key - 1.0) * leaves / entries;
    let of_batch = leaves * (1.0 - (1.0 - leaves_of_key / leaves).max(0.0).powf(keys));
    let mut asked = 0.0;
    let mut done = 0.0;
    while done < loops {
        // After each fetch the search goes on, and asks for the leaves that are left.
        asked += (of_batch * (1.0 - done * items / found)).min(LEAVES_PER_CALL);
        done += 1.0;
    }
    let of_fetch = distinct(heap, window);
    let wanted = Wanted {
        classes: vec![
            Class::new(leaves, asked / loops, loops * batches),
            Class::new(heap, of_fetch, fetches * batches),
        ],
        streamed: 0.0,
        pool: memory.pool,
    };
    let reads = wanted.read_count() - SAMPLE_COUNT.min(heap) * wanted.met_before_full(1);
    outer.stats.page_count + rounded(reads)
}

/// Pages that index sort-merge reads by the closed form.
fn merged(question: &JoinQuestion, memory: &IndexMergeMemory) -> u64 {
    let sides = [(&question.outer, memory.outer_pages), (&question.inner, memory.inner_pages)];
    let shares =
        sides.map(|(side, pages)| noted_rows(side, pages - 1) / side.stats.tuple_count as f64);
    // Both are fetched where one is full.
    let share = shares[0].min(shares[1]).min(1.0);
    let classes = sides.map(|(side, _)| {
        let heap = side.stats.page_count as f64;
        let of_fetch = distinct(heap, side.stats.tuple_count as f64 * share);
        Class::new(heap, of_fetch, 1.0 / share)
    });
    let streamed = sides.map(|(side, _)| side.index.unwrap().leaf_page_count as f64);
    let wanted = Wanted {
        classes: classes.to_vec(),
        streamed: streamed[0] + streamed[1],
        pool: memory.pool,
    };
    let opened: f64 = (0..2)
        .map(|side| SAMPLE_COUNT.min(wanted.classes[side].pages) * wanted.met_before_full(side))
        .sum();
    rounded(wanted.read_count() - opened)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of pages")]
fn rounded(pages: f64) -> u64 {
    pages.max(0.0).round() as u64
}

impl Wanted {
    fn frames(&self) -> f64 {
        self.pool.page_count as f64
    }

    /// Pages that are met in such a part of the join.
    fn met(&self, time: f64) -> f64 {
        let classes = self.classes.iter();
        let met: f64 = classes.map(|it| it.pages * (1.0 - it.is_left_out(time))).sum();
        met + self.streamed * time
    }

    /// When the pool is full; 1 if it never is.
    fn full_at(&self) -> f64 {
        bisected(1.0, |time| self.met(time) < self.frames())
    }

    /// The part of a class that is met before the pool is full.
    fn met_before_full(&self, class: usize) -> f64 {
        1.0 - self.classes[class].is_left_out(self.full_at())
    }

    /// Pages that are read.
    fn read_count(&self) -> f64 {
        if self.met(1.0) <= self.frames() {
            return self.met(1.0);
        }
        let full_at = self.full_at();
        let missed = match self.pool.replacement {
            ReplacementKind::TwoQ => self.missed_by_two_queues(),
            ReplacementKind::Lru | ReplacementKind::Clock => {
                let classes = self.classes.iter();
                let missed = classes.map(|it| it.pages * it.rate() * it.is_left_out(full_at));
                missed.sum::<f64>() + self.streamed
            }
        };
        self.frames() + (1.0 - full_at) * missed
    }

    /// Pages that 2Q misses in the course of a whole join once it is full: how long a page stays in
    /// each queue follows from how many have room there.
    fn missed_by_two_queues(&self) -> f64 {
        let [recent, ghosts] = [self.frames() / 4.0, self.frames() / 2.0];
        let frequent = self.frames() - recent;
        // Times in the queues of recent pages, of ghosts, and since a frequent page was wanted.
        let mut times = [0.1, 0.1, 0.1];
        for _ in 0..100 {
            for (queue, room) in [recent, ghosts, frequent].into_iter().enumerate() {
                times[queue] = bisected(64.0, |time| {
                    let mut tried = times;
                    tried[queue] = time;
                    self.in_queue(queue, tried) < room
                });
            }
        }
        let missed = self.classes.iter().map(|class| {
            let Cycle { length, comes_back, .. } = Cycle::of(class, times);
            class.pages * (1.0 + comes_back) / length
        });
        missed.sum::<f64>() + self.streamed
    }

    /// Pages in one of the queues.
    fn in_queue(&self, queue: usize, times: [f64; 3]) -> f64 {
        let classes = self.classes.iter().map(|class| {
            let cycle = Cycle::of(class, times);
            class.pages * cycle.stays[queue] / cycle.length
        });
        let streamed = if queue < 2 { self.streamed * times[queue] } else { 0.0 };
        classes.sum::<f64>() + streamed
    }
}

/// The way of a page through 2Q, from when it comes until it comes again.
struct Cycle {
    /// How long it is in each of the queues, on average.
    stays: [f64; 3],
    length: f64,
    /// How likely it is wanted while it is a ghost.
    comes_back: f64,
}

impl Cycle {
    fn of(class: &Class, [recent, ghost, frequent]: [f64; 3]) -> Self {
        let rate = class.rate();
        let comes_back = 1.0 - class.is_left_out(ghost);
        let stay = (1.0 / class.is_left_out(frequent) - 1.0) / rate;
        let stays = [recent, comes_back / rate, comes_back * stay];
        Self { stays, length: stays.iter().sum::<f64>() + 1.0 / rate, comes_back }
    }
}

/// The last place up to `most` where something holds that holds from zero on.
fn bisected(most: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

fn mean_and_most(errors: &[u64]) -> (u64, u64) {
    let count = errors.len().max(1) as u64;
    (errors.iter().sum::<u64>() / count, errors.iter().copied().max().unwrap_or(0))
}

/// What is written where [`RESULT`] asks for it.
#[derive(Serialize)]
struct PoolsResult<'a> {
    command: String,
    customer_count: u64,
    orders_each: u64,
    page_bytes: u32,
    points: &'a [Point],
}

#[test]
fn estimates_that_ask_the_replacement_are_closer_than_a_closed_form() {
    let result = std::env::var(RESULT);
    let pool_pages = if result.is_ok() { &POOL_PAGES[..] } else { &FEW_POOL_PAGES };
    let mut points = Vec::new();
    for &page_count in pool_pages {
        for replacement in ReplacementKind::ALL {
            let pool = PoolShape { page_count, replacement };
            let database = database_with_pool(memory_device(64 << 20), SCALE, pool);
            points_of(&database, ("any order", pool), &mut points);
            let database = sorted_database(memory_device(64 << 20), SCALE, pool);
            points_of(&database, ("sorted", pool), &mut points);
        }
    }
    if let Ok(path) = result {
        let result = PoolsResult {
            command: format!("{RESULT}=FILE cargo test -p nandu-query --test all pools"),
            customer_count: SCALE.customer_count,
            orders_each: SCALE.orders_each,
            page_bytes: PAGE_BYTES,
            points: &points,
        };
        let json = serde_json::to_string_pretty(&result).unwrap();
        std::fs::write(path, format!("{json}\n")).unwrap();
    }
    judge(&points);
}

/// Shows all errors, and asserts what the head says.
fn judge(points: &[Point]) {
    let mut errors: BTreeMap<String, [Vec<u64>; 2]> = BTreeMap::new();
    for point in points {
        let found = [point.estimated, point.by_closed_form].map(|it| point.error_permille(it));
        let Point { pool, memory_pages, join, is_swapped, pages_read, .. } = point;
        let group = format!("{}, {:?}", point.keys, pool.replacement);
        let pool_pages = pool.page_count;
        println!(
            "{group:16} {pool_pages:5} pages, {memory_pages:4} of memory, {join}, swapped: \
             {is_swapped}: {pages_read:6} pages, off by {:4} and {:4} permille",
            found[0], found[1]
        );
        let errors = errors.entry(group).or_default();
        found.into_iter().zip(errors).for_each(|(it, errors)| errors.push(it.unsigned_abs()));
    }
    for (group, errors) in &errors {
        let [estimate, closed_form] = errors.each_ref().map(|errors| mean_and_most(errors));
        println!("{group:16} mean and most, permille: {estimate:?}, closed form {closed_form:?}");
        let is_close = estimate.0 <= MEAN_PERMILLE && estimate.1 <= MOST_PERMILLE;
        assert!(is_close, "{group}: {estimate:?} permille");
        let times = closed_form.0 / estimate.0.max(1);
        assert!(times >= CLOSED_FORM_TIMES, "{group}: {closed_form:?} permille are close, too");
    }
}
