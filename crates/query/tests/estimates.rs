//! Estimated requests and pages beside those of a run, for every join over a sweep of buffers from the
//! square-root bound to all of memory.
//!
//! 1. Pages and requests, read and written, are within 2 %, or within what chance decides: where in its last
//!    block each bucket or run ends, half a request for each.
//! 2. Joins by index read through the pool, which is taken to be empty: what opening left there may
//!    be less. With LRU they are within 3 %.
//! 3. Below the square-root bound (of F|R| for hash joins, F|S| for sorts) chance decides which bucket
//!    still fits and how many runs there are: 8 %.

use crate::common::{
    Inputs, Scale, count_pairs, database, database_with_pool, execution_on, memory_device, plans_in,
};
use nandu_query::cost::{CostModel, CpuCosts, DeviceCosts, RelationStats};
use nandu_query::execution::IoCounts;
use nandu_query::join::{Join, JoinInput, JoinType};
use nandu_query::plan::{
    Budget, ChunkRule, Division, Indexes, JoinQuestion, JoinSide, Plan, PoolShape, plans,
};
use nandu_query::relation::HeapRelation;
use nandu_query::{JoinKind, Key, Limits, Relation};
use nandu_storage::Database;
use nandu_storage::pool::ReplacementKind;

const PAGE_BYTES: u32 = 4096;
const SCALE: Scale = Scale { customer_count: 4000, orders_each: 10, page_bytes: PAGE_BYTES };

/// Buckets or runs of a plan; those of the kernel of a late join are no excuse.
fn part_count(plan: &Plan) -> u64 {
    match plan.division {
        Division::FlashJoin(_) | Division::RareJoin(_) => 0,
        division => division.part_count(),
    }
}

/// Whether memory is so little that one cut or one merge may not be enough.
fn is_below_the_bound(plan: &Plan, question: &JoinQuestion, memory_pages: u64) -> bool {
    let pages = |stats: &RelationStats, is_sorted: bool| {
        let bytes = if is_sorted { stats.sort_bytes() } else { stats.area_bytes() };
        bytes / stats.page_bytes
    };
    let (outer, inner) = (&question.outer.stats, &question.inner.stats);
    let needed = match plan.kind {
        JoinKind::SortMerge => pages(inner, true),
        _ => pages(outer, false),
    };
    // A third more: parts are not equal.
    memory_pages * memory_pages < needed * 4 / 3
}

#[test]
fn joins_read_and_write_as_much_as_estimated_in_any_memory() {
    let database = database(memory_device(64 << 20), SCALE);
    let tables = database.read();
    let left = HeapRelation::open(&tables, "customer").unwrap();
    let right = HeapRelation::open(&tables, "orders").unwrap();
    let key = Key::of(&[0]);
    let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
    let side = |relation: &HeapRelation<'_>| {
        JoinSide::new(RelationStats::of(relation.size(), u64::from(PAGE_BYTES)))
    };
    let question = JoinQuestion::new(side(&left), side(&right), SCALE.orders_each);
    let input = |relation| JoinInput { relation, key: &key };
    let join = Join { left: input(&left), right: input(&right), join_type: JoinType::Inner };
    let mut wrong = Vec::new();
    let mut run_count = 0;
    for (memory_pages, reads_ahead) in [14, 20, 33, 60, 110, 150, 200, 350, 700]
        .into_iter()
        .flat_map(|pages| [(pages, false), (pages, true)])
    {
        let model = CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead };
        let budget = Budget {
            memory_pages: u64::from(memory_pages),
            write_bytes: None,
            pool: PoolShape::NONE,
            worker_count: 1,
        };
        for plan in plans(&model, &question, &budget).feasible {
            if plan.kind == JoinKind::NestedLoops {
                continue;
            }
            let limits = crate::common::limits(PAGE_BYTES, memory_pages, reads_ahead);
            let execution = execution_on(&tables, limits);
            let mut stream =
                plan.open(&execution, join, Indexes::NONE, ChunkRule::ByBytes).unwrap();
            assert_eq!(count_pairs(stream.as_mut()).unwrap(), 40_000);
            drop(stream);
            execution.audit();
            run_count += 1;
            let (counts, estimate) = (execution.io_counts(), plan.estimate);
            let page_bytes = u64::from(PAGE_BYTES);
            let percent =
                if is_below_the_bound(&plan, &question, budget.memory_pages) { 8 } else { 2 };
            for (what, actual, estimated) in [
                ("requests to read", counts.read_requests, estimate.read_requests),
                ("pages read", counts.read_bytes / page_bytes, estimate.pages_read),
                ("requests to write", counts.write_requests, estimate.write_requests),
                ("pages written", counts.write_bytes / page_bytes, estimate.pages_written),
            ] {
                let chance = part_count(&plan) / 2 + 3;
                if actual.abs_diff(estimated) > actual * percent / 100 + chance {
                    let kind = plan.kind;
                    wrong.push(format!(
                        "{kind} (swapped: {}) in {memory_pages} pages, ahead: {reads_ahead}: \
                         {actual} {what}, estimated {estimated}",
                        plan.is_swapped
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run_count >= 100, "{run_count} runs");
}

/// A run of a join by index, or of nested loops, with a pool that is empty but for what opening read. Answers
/// what it did, and how many pages were there.
fn run_cold(database: &Database, plan: &Plan, limits: Limits, pairs: u64) -> (IoCounts, u64) {
    database.drop_cached_pages().expect("the device is sound");
    let tables = database.read();
    let reads = || tables.engine().pool_counters().read_count;
    let before = reads();
    let inputs = Inputs::open(&tables).expect("the device is sound");
    let opened_count = reads() - before;
    let execution = execution_on(&tables, limits);
    let join = inputs.join(JoinType::Inner);
    let stream = plan.open(&execution, join, inputs.indexes(), ChunkRule::ByBytes);
    let mut stream = stream.expect("the plan was made for so much memory");
    assert_eq!(count_pairs(stream.as_mut()), Ok(pairs));
    drop(stream);
    execution.audit();
    (execution.io_counts(), opened_count)
}

#[test]
fn joins_by_index_read_as_much_as_estimated_with_any_pool() {
    let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
    let mut wrong = Vec::new();
    let mut run_count = 0;
    let pools = [100, 256, 2000].into_iter().flat_map(|page_count| {
        ReplacementKind::ALL.map(|replacement| PoolShape { page_count, replacement })
    });
    for pool in pools {
        let database = database_with_pool(memory_device(64 << 20), SCALE, pool);
        let question = Inputs::open(&database.read()).unwrap().question(SCALE);
        for (memory_pages, reads_ahead) in [(14, false), (60, true), (200, false), (700, true)] {
            let model = CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead };
            let budget = Budget {
                memory_pages: u64::from(memory_pages),
                write_bytes: None,
                pool,
                worker_count: 1,
            };
            for plan in plans(&model, &question, &budget).feasible {
                if !matches!(plan.kind, JoinKind::IndexNestedLoops | JoinKind::IndexSortMerge) {
                    continue;
                }
                let limits = crate::common::limits(PAGE_BYTES, memory_pages, reads_ahead);
                let (counts, opened_count) = run_cold(&database, &plan, limits, 40_000);
                run_count += 1;
                let pages = counts.read_bytes / u64::from(PAGE_BYTES);
                for (what, actual, estimated) in [
                    ("requests", counts.read_requests, plan.estimate.read_requests),
                    ("pages", pages, plan.estimate.pages_read),
                ] {
                    let part = if pool.replacement == ReplacementKind::Lru { 33 } else { 50 };
                    let least = actual - actual / part;
                    let most = actual + actual / part + opened_count;
                    if !(least..=most).contains(&estimated) {
                        wrong.push(format!(
                            "{} (swapped: {}) in {memory_pages} pages, {pool:?}: \
                             {actual} {what}, estimated {estimated}",
                            plan.kind, plan.is_swapped
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run_count >= 108, "{run_count} runs");
}

#[test]
fn nested_loops_read_the_inner_side_once_for_each_outer_row() {
    // Few enough pages that all are looked at when rows are counted.
    let scale = Scale { customer_count: 45, orders_each: 10, page_bytes: PAGE_BYTES };
    let database = database(memory_device(16 << 20), scale);
    let question = Inputs::open(&database.read()).unwrap().question(scale);
    for (memory_pages, reads_ahead) in [(2, false), (2, true), (7, false), (7, true), (40, true)] {
        let plans = plans_in(&question, memory_pages, reads_ahead);
        let plans = plans.iter().filter(|plan| plan.kind == JoinKind::NestedLoops);
        for plan in plans {
            let limits = crate::common::limits(PAGE_BYTES, memory_pages, reads_ahead);
            let (counts, _) = run_cold(&database, plan, limits, 450);
            let pages = counts.read_bytes / u64::from(PAGE_BYTES);
            let estimate = plan.estimate;
            assert_eq!(
                (counts.read_requests, pages),
                (estimate.read_requests, estimate.pages_read)
            );
        }
    }
}
