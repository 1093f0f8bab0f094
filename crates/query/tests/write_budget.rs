//! A plan that was made for a write budget keeps to it: every plan for every budget of a sweep runs under the
//! budget for which it was planned.
//!
//! 1. No run ends with `WriteBudget`, and none writes more than its budget.
//! 2. The margin is no excuse: a budget of twice what a plan is thought to write allows its kind.
//! 3. Rows of one length and of many, keys by chance and one that a tenth of the rows have: statistics are those
//!    that relations give, from samples of their leaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{count_pairs, execution_on, memory_device};
use nandu_base::{Rng, to_index};
use nandu_query::cost::{CostModel, CpuCosts, DeviceCosts, RelationStats};
use nandu_query::join::{Join, JoinInput, JoinType};
use nandu_query::plan::{
    Budget, ChunkRule, Indexes, JoinQuestion, JoinSide, Plan, PoolShape, plans,
};
use nandu_query::relation::HeapRelation;
use nandu_query::{JoinKind, Key, Limits, Relation};
use nandu_storage::database::{
    Column, ColumnType, Database, LoadOptions, NewTable, TableKind, Tables, WriteTransaction,
};
use nandu_storage::sqlite::ValueRef;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Settings, StorageError, Volumes};
use std::collections::BTreeMap;

const PAGE_BYTES: u32 = 4096;
const LEFT_COUNT: u64 = 3000;
const ORDERS_EACH: u64 = 6;
/// What budgets are tried beside the estimate of each plan, in thousandths of it.
const AROUND: [u64; 8] = [970, 1000, 1010, 1040, 1080, 1150, 1330, 2000];

/// What the rows of both tables are like.
#[derive(Clone, Copy, Debug)]
enum Rows {
    /// Of one length each, keys by chance.
    Even,
    /// From a few bytes to half a page, most of them short.
    Ragged,
    /// One key in a tenth of the rows of the right side.
    Skewed,
}

fn database(rows: Rows) -> Database {
    let data = Box::new(DeviceVolume::format(memory_device(64 << 20)).unwrap());
    let settings = Settings {
        page_bytes: PAGE_BYTES,
        pool_bytes: u64::from(PAGE_BYTES) * 256,
        log_bytes: 4 << 20,
        checkpoint_bytes: 256 << 10,
        ..Settings::default()
    };
    let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
    let mut writing = database.write().unwrap();
    let mut rng = Rng::new(17);
    load(&mut writing, "left", LEFT_COUNT, rows, &mut rng);
    load(&mut writing, "right", LEFT_COUNT * ORDERS_EACH, rows, &mut rng);
    writing.commit().unwrap();
    database.flush().unwrap();
    database
}

fn load(tables: &mut WriteTransaction<'_>, name: &str, count: u64, rows: Rows, rng: &mut Rng) {
    let table = NewTable {
        name: name.to_owned(),
        columns: vec![
            Column::new("key", ColumnType::Integer),
            Column::new("pad", ColumnType::Blob),
        ],
        kind: TableKind::Heap,
        indexes: Vec::new(),
    };
    let is_right = name == "right";
    let loaded = tables.load_table(&table, &LoadOptions::default(), |load| {
        for row in 0..count {
            let key = match rows {
                Rows::Skewed if is_right && rng.below(10) == 0 => 7,
                _ if is_right => rng.below(LEFT_COUNT),
                _ => row,
            };
            let pad = match rows {
                Rows::Ragged if rng.below(12) == 0 => rng.below(2000),
                Rows::Ragged => rng.below(120),
                Rows::Even | Rows::Skewed => 110,
            };
            let key = ValueRef::Integer(key.cast_signed());
            load.push(&[key, ValueRef::Blob(&vec![7; to_index(pad)])])?;
        }
        Ok::<_, StorageError>(())
    });
    loaded.unwrap();
}

/// The tables, opened, and how they are planned for.
struct Subject<'t> {
    tables: &'t Tables,
    left: HeapRelation<'t>,
    right: HeapRelation<'t>,
    key: Key,
    join_type: JoinType,
    memory_pages: u32,
    reads_ahead: bool,
}

impl Subject<'_> {
    fn plans(&self, write_bytes: Option<u64>) -> Vec<Plan> {
        let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
        let model = CostModel {
            device: &device,
            processor: &CpuCosts::NONE,
            reads_ahead: self.reads_ahead,
        };
        let side = |relation: &HeapRelation<'_>| {
            JoinSide::new(RelationStats::of(relation.size(), u64::from(PAGE_BYTES)))
        };
        let question = JoinQuestion::new(side(&self.left), side(&self.right), ORDERS_EACH)
            .with_join_type(self.join_type);
        let budget = Budget {
            memory_pages: u64::from(self.memory_pages),
            write_bytes,
            pool: PoolShape::NONE,
            worker_count: 1,
        };
        let mut found = plans(&model, &question, &budget).feasible;
        found.retain(|plan| plan.kind != JoinKind::NestedLoops);
        found
    }

    /// Runs a plan under a budget. Answers what it wrote, or why it ended.
    fn run(&self, plan: &Plan, budget: u64) -> Result<u64, String> {
        let limits = Limits {
            write_budget_bytes: Some(budget),
            ..crate::common::limits(PAGE_BYTES, self.memory_pages, self.reads_ahead)
        };
        let execution = execution_on(self.tables, limits);
        let input = |relation| JoinInput { relation, key: &self.key };
        let (left, right) = (input(&self.left), input(&self.right));
        let join = Join { left, right, join_type: self.join_type };
        let stream = plan.open(&execution, join, Indexes::NONE, ChunkRule::ByBytes);
        let pairs = count_pairs(stream.unwrap().as_mut()).map_err(|error| error.to_string())?;
        assert!(pairs >= LEFT_COUNT * ORDERS_EACH, "{}: {pairs} pairs", plan.kind);
        execution.audit();
        Ok(execution.io_counts().write_bytes)
    }

    /// Plans for each of the budgets, and runs what was not run with the same division before.
    fn check(&self, told: &str, wrong: &mut Vec<String>) -> usize {
        let free = self.plans(None);
        let mut budgets = vec![0];
        budgets.extend(free.iter().flat_map(|plan| AROUND.map(|it| plan.written.0 * it / 1000)));
        budgets.sort_unstable();
        budgets.dedup();
        let mut written: BTreeMap<String, u64> = BTreeMap::new();
        for budget in budgets {
            let found = self.plans(Some(budget));
            for plan in &found {
                assert!(plan.written.0 <= budget, "{told}: {plan:?} for {budget}");
                let name = format!("{} {} {:?}", plan.kind, plan.is_swapped, plan.division);
                if written.get(&name).is_some_and(|written| *written <= budget) {
                    continue;
                }
                match self.run(plan, budget) {
                    Ok(bytes) if bytes <= budget => {
                        written.insert(name, bytes);
                    }
                    Ok(bytes) => wrong.push(format!("{told}, {budget}: {name} wrote {bytes}")),
                    Err(error) => wrong.push(format!(
                        "{told}, {budget}, thought to write {}: {name}: {error}",
                        plan.written.0
                    )),
                }
            }
            for plan in free.iter().filter(|plan| plan.written.0 * 2 <= budget) {
                let is_there = found.iter().any(|it| it.kind == plan.kind);
                assert!(is_there, "{told}: {} writes {} of {budget}", plan.kind, plan.written.0);
            }
        }
        written.len()
    }
}

#[test]
fn every_plan_keeps_to_the_budget_it_was_planned_for() {
    let mut wrong = Vec::new();
    let mut run_count = 0;
    for rows in [Rows::Even, Rows::Ragged, Rows::Skewed] {
        let database = database(rows);
        let tables = database.read();
        for (memory_pages, reads_ahead, join_type) in [
            (12, true, JoinType::Inner),
            (24, false, JoinType::Left),
            (50, true, JoinType::Full),
            (90, true, JoinType::Inner),
            (130, false, JoinType::Inner),
            (160, true, JoinType::Left),
            (400, false, JoinType::Full),
        ] {
            let subject = Subject {
                tables: &tables,
                left: HeapRelation::open(&tables, "left").unwrap(),
                right: HeapRelation::open(&tables, "right").unwrap(),
                key: Key::of(&[0]),
                join_type,
                memory_pages,
                reads_ahead,
            };
            let told = format!("{rows:?}, {} in {memory_pages} pages", join_type.name());
            run_count += subject.check(&told, &mut wrong);
        }
    }
    println!("{run_count} plans were run");
    assert!(wrong.is_empty(), "{} of {run_count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(run_count >= 60, "{run_count} plans");
}
