//! Every join against SQLite itself: random tables in both, the same joins in SQL.
//!
//! Tables are heaps and trees, from no row to many, with few keys or one that half of the rows have,
//! NULLs, numbers that no double holds, and rows longer than several pages; keys have one column or
//! two. Memory goes from the least that a join takes, a page for each of its parts. The same rows lie in PAX
//! pages, too, for joins that put rows together late, and for any other in the memory that these take.
//!
//! 1. A row tells its `id`, and every row that a join hands on is the row of that `id`, byte for byte.
//! 2. Every join that a plan opens runs to its end in the memory that it was planned for.
//! 3. Joins whose settings are drawn here, too, are lists; any other is tested by its plans, in the type of join
//!    that is drawn.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod workers;

use crate::allocation::RunFormation;
use crate::cost::{CostModel, CpuCosts, DeviceCosts, IndexStats, RelationStats};
use crate::index::{ClusteredIndex, FetchOrder, IndexLookup, KeyRange, SecondaryIndex};
use crate::join::{
    BlockNestedLoops, FlashJoin, GraceHash, HybridHash, IndexNestedLoops, IndexSortMerge, Join,
    JoinInput, JoinKind, JoinStream, JoinType, NestedLoops, RareJoin, Side, SortMerge,
    block_nested_loops, flash_join, grace_hash, hybrid_hash, index_nested_loops, index_sort_merge,
    nested_loops, rare_join, sort_merge,
};
use crate::plan::{
    Budget, ChunkRule, Indexes, JoinQuestion, JoinSide, PoolShape, Rejection, plans,
};
use crate::relation::{ClusteredRelation, HeapRelation, PaxRelation};
use crate::testing::limits;
use crate::testing::tables::{database, execution_on};
use crate::{Execution, Key, Limits, PairBatch, QueryError, Relation, Tuple, sort};
use nandu_base::{Rng, to_index, to_u32};
use nandu_storage::StorageError;
use nandu_storage::database::{
    Column, ColumnType, Database, LoadOptions, NewTable, TableKind, Tables,
};
use nandu_storage::pool::ReplacementKind;
use nandu_storage::propagation::PropagationKind;
use nandu_storage::sqlite::{Value, ValueRef};
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::ToSqlOutput;

/// The pool that plans are made for.
const POOL: PoolShape = PoolShape { page_count: 64, replacement: ReplacementKind::TwoQ };
/// The columns of both tables. The first one or two are compared.
const COLUMNS: [&str; 4] = ["key", "second", "payload", "id"];
const ID: usize = 3;
/// The names of the tables, in both databases.
const TABLES: [&str; 2] = ["l", "r"];
/// The same tables in PAX pages.
const PAX_TABLES: [&str; 2] = ["l_pax", "r_pax"];
/// The index of a heap by what is compared.
const INDEX: &str = "by_keys";
/// Integers from here on have no double of their own: every other one lies between two.
const BEYOND_DOUBLES: i64 = 1 << 53;
/// The most pages of memory.
const MEMORY_PAGES_MAX: u32 = 60;
/// Joins of heaps and trees whose settings are drawn.
const DRAWN: [JoinKind; 7] = [
    JoinKind::NestedLoops,
    JoinKind::BlockNestedLoops,
    JoinKind::IndexNestedLoops,
    JoinKind::IndexSortMerge,
    JoinKind::SortMerge,
    JoinKind::GraceHash,
    JoinKind::HybridHash,
];
/// Joins of tables in PAX pages whose settings are.
const DRAWN_LATE: [JoinKind; 2] = [JoinKind::FlashJoin, JoinKind::RareJoin];

/// What the rows of one side are like.
#[derive(Clone, Copy, Debug)]
struct Shape {
    row_count: usize,
    key_count: u64,
    /// Whether half of the rows have the same key.
    is_skewed: bool,
    null_percent: u64,
    /// How many rows have a payload of up to `long_bytes`, in percent; others have a short one.
    long_percent: u64,
    long_bytes: u64,
    /// Whether it is a tree by what is compared, else a heap with an index.
    is_clustered: bool,
}

/// One case: two tables, and what is done with them.
#[derive(Clone, Debug)]
struct Case {
    shapes: [Shape; 2],
    /// The types of the columns that are compared, on both sides; of one column, or two.
    types: Vec<[ColumnType; 2]>,
    first_number: i64,
    page_bytes: u32,
    memory_pages: u32,
    /// How memory is divided, in thousandths.
    division: u32,
    /// The side that is outside where both may be.
    outer: Side,
    reads_ahead: bool,
    seed: u64,
}

type Rows = Vec<Vec<Value>>;
/// A pair as its rows' `id`.
type Pair = (Option<i64>, Option<i64>);

fn shape() -> impl Strategy<Value = Shape> {
    (
        prop_oneof![1 => Just(0), 2 => 1_usize..12, 6 => 12_usize..110],
        1_u64..70,
        any::<bool>(),
        0_u64..25,
        prop_oneof![Just(0_u64), 1_u64..30],
        1_u64..5000,
        any::<bool>(),
    )
        .prop_map(
            |(
                row_count,
                key_count,
                is_skewed,
                null_percent,
                long_percent,
                long_bytes,
                is_clustered,
            )| Shape {
                row_count,
                key_count,
                is_skewed,
                null_percent,
                long_percent,
                long_bytes,
                is_clustered,
            },
        )
}

/// Text never meets numbers here: SQLite would make a number of "1" first.
fn types() -> impl Strategy<Value = [ColumnType; 2]> {
    use ColumnType::{Blob, Integer, Real, Text};
    prop_oneof![
        2 => Just([Integer, Integer]),
        1 => Just([Integer, Real]),
        1 => Just([Real, Integer]),
        1 => Just([Real, Real]),
        1 => Just([Text, Text]),
        1 => Just([Blob, Blob]),
        1 => Just([Blob, Text]),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    (
        [shape(), shape()],
        proptest::collection::vec(types(), 1..=2),
        prop_oneof![Just(-3), Just(BEYOND_DOUBLES)],
        prop_oneof![Just(512_u32), Just(1024)],
        prop_oneof![0_u32..8, 0_u32..=MEMORY_PAGES_MAX],
        0_u32..=1000,
        prop_oneof![Just(Side::Left), Just(Side::Right)],
        any::<bool>(),
        any::<u64>(),
    )
        .prop_map(
            |(
                shapes,
                types,
                first_number,
                page_bytes,
                memory_pages,
                division,
                outer,
                reads_ahead,
                seed,
            )| Case {
                shapes,
                types,
                first_number,
                page_bytes,
                memory_pages,
                division,
                outer,
                reads_ahead,
                seed,
            },
        )
}

/// One of the values that a column of this type has.
#[expect(clippy::cast_precision_loss, reason = "what is lost makes values that differ by little")]
fn value_of(column_type: ColumnType, number: u64, first_number: i64) -> Value {
    let integer = first_number + number.cast_signed();
    match column_type {
        ColumnType::Integer => Value::Integer(integer),
        // Every third is no integer, where doubles have halves.
        ColumnType::Real if number % 3 == 2 => Value::Real(integer as f64 + 0.5),
        ColumnType::Real => Value::Real(integer as f64),
        ColumnType::Text if number == 0 => Value::Text(String::new()),
        ColumnType::Text => Value::Text(format!("key {number}")),
        ColumnType::Blob if number == 0 => Value::Blob(Vec::new()),
        ColumnType::Blob => Value::Blob(format!("key {number}").into_bytes()),
    }
}

impl Case {
    fn types_of(&self, side: usize) -> Vec<ColumnType> {
        let compared = self.types.iter().map(|types| types[side]);
        let mut all: Vec<ColumnType> = compared.collect();
        all.resize(2, ColumnType::Integer);
        all.extend([ColumnType::Blob, ColumnType::Integer]);
        all
    }

    fn rows(&self, side: usize, rng: &mut Rng) -> Rows {
        let shape = self.shapes[side];
        let types = self.types_of(side);
        let row = |id: usize| {
            let number = match shape.is_skewed && rng.below(2) == 0 {
                true => 0,
                false => rng.below(shape.key_count),
            };
            let numbers = [number, rng.below(3)];
            let mut row: Vec<Value> = types
                .iter()
                .zip(numbers)
                .map(|(&column_type, number)| match rng.below(100) < shape.null_percent {
                    true => Value::Null,
                    false => value_of(column_type, number, self.first_number),
                })
                .collect();
            let is_long = rng.below(100) < shape.long_percent;
            let payload = rng.below(if is_long { shape.long_bytes } else { 50 });
            let fill = u8::try_from(id % 251).expect("it is below 251");
            row.push(Value::Blob(vec![fill; to_index(payload)]));
            row.push(Value::Integer(i64::try_from(id).expect("there are few")));
            row
        };
        (0..shape.row_count).map(row).collect()
    }

    /// Stores the rows of one side.
    fn store(&self, database: &Database, side: usize, rows: &Rows) {
        let columns = COLUMNS.iter().zip(self.types_of(side));
        let columns = columns.map(|(name, kind)| Column::new(name, kind)).collect();
        let compared: Vec<usize> = (0..self.types.len()).collect();
        let kind = match self.shapes[side].is_clustered {
            true => TableKind::Clustered { key: [compared.as_slice(), &[ID]].concat() },
            false => TableKind::Heap,
        };
        let is_heap = kind == TableKind::Heap;
        let mut writing = database.write().unwrap();
        writing.create_table(TABLES[side], columns, kind).unwrap();
        if is_heap {
            writing.create_index(TABLES[side], INDEX, &COLUMNS[..compared.len()]).unwrap();
        }
        for row in rows {
            let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            writing.insert(TABLES[side], &row).unwrap();
        }
        writing.commit().unwrap();
    }

    /// The same in PAX pages.
    fn store_in_pax(&self, database: &Database, side: usize, rows: &Rows) {
        let columns = COLUMNS.iter().zip(self.types_of(side));
        let table = NewTable {
            name: PAX_TABLES[side].to_owned(),
            columns: columns.map(|(name, kind)| Column::new(name, kind)).collect(),
            kind: TableKind::Pax { span_pages: 8 + self.division % 12 },
            indexes: Vec::new(),
        };
        let mut writing = database.write().unwrap();
        let loaded: Result<_, StorageError> =
            writing.load_table(&table, &LoadOptions::default(), |load| {
                rows.iter().try_for_each(|row| {
                    let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                    load.push(&row)
                })
            });
        loaded.unwrap();
        writing.commit().unwrap();
    }

    /// The same in SQLite.
    fn store_in_sqlite(&self, connection: &Connection, side: usize, rows: &Rows) {
        let types = self.types_of(side).into_iter().map(ColumnType::sql_name);
        let columns: Vec<String> =
            COLUMNS.iter().zip(types).map(|(name, kind)| format!("{name} {kind}")).collect();
        let table = TABLES[side];
        connection.execute(&format!("CREATE TABLE {table} ({})", columns.join(", ")), []).unwrap();
        let insert = format!("INSERT INTO {table} VALUES (?, ?, ?, ?)");
        let mut insert = connection.prepare(&insert).unwrap();
        for row in rows {
            let values = row.iter().map(|value| match value {
                Value::Null => ToSqlOutput::Owned(rusqlite::types::Value::Null),
                Value::Integer(number) => ToSqlOutput::from(*number),
                Value::Real(number) => ToSqlOutput::from(*number),
                Value::Text(text) => ToSqlOutput::from(text.as_str()),
                Value::Blob(bytes) => ToSqlOutput::from(bytes.as_slice()),
            });
            insert.execute(rusqlite::params_from_iter(values)).unwrap();
        }
    }

    /// The same join in SQL.
    fn sql(&self, join_type: JoinType) -> String {
        let equal = COLUMNS[..self.types.len()].iter().map(|name| format!("l.{name} = r.{name}"));
        let equal = equal.collect::<Vec<_>>().join(" AND ");
        let word = match join_type {
            JoinType::Inner => "INNER",
            JoinType::Left => "LEFT",
            JoinType::Right => "RIGHT",
            JoinType::Full => "FULL",
            JoinType::Semi | JoinType::Anti => {
                let not = if join_type == JoinType::Anti { "NOT " } else { "" };
                return format!(
                    "SELECT l.id, NULL FROM l WHERE {not}EXISTS (SELECT 1 FROM r WHERE {equal})"
                );
            }
        };
        format!("SELECT l.id, r.id FROM l {word} JOIN r ON {equal}")
    }

    /// Memory of a join: what was drawn, but the least it takes.
    fn memory_of(&self, kind: JoinKind, join_type: JoinType) -> u32 {
        let least = match kind {
            JoinKind::NestedLoops | JoinKind::BlockNestedLoops => 2,
            JoinKind::IndexNestedLoops | JoinKind::SortMerge => 3,
            JoinKind::IndexSortMerge => 4,
            // What a probing row has met in some chunk takes a page.
            JoinKind::GraceHash | JoinKind::HybridHash => {
                if join_type == JoinType::Inner {
                    3
                } else {
                    4
                }
            }
            other => unreachable!("{other} is not drawn"),
        };
        self.memory_pages.max(least)
    }

    /// The part of `pages` that was drawn, at least one, so that `others` are left.
    fn part_of(&self, pages: u32, others: u32) -> u32 {
        1 + (pages - others - 1) * self.division / 1000
    }

    fn limits(&self, memory_pages: u32) -> Limits {
        Limits { reads_ahead: self.reads_ahead, ..limits(self.page_bytes, memory_pages) }
    }
}

/// The two tables that a test joins.
struct Inputs<'r> {
    relations: [&'r dyn Relation; 2],
    indexes: [&'r dyn IndexLookup; 2],
    key: &'r Key,
}

impl<'r> Inputs<'r> {
    fn join(&self, join_type: JoinType) -> Join<'r> {
        let [left, right] = self.relations.map(|relation| JoinInput { relation, key: self.key });
        Join { left, right, join_type }
    }
}

/// Begins a join in all memory of the execution; `None` for a kind that cannot do this type.
fn open<'x>(
    case: &Case,
    (kind, join_type): (JoinKind, JoinType),
    execution: &'x Execution,
    inputs: &Inputs<'x>,
) -> Option<Result<Box<dyn JoinStream + 'x>, QueryError>> {
    let pages = execution.limits().memory_pages;
    let mut outers = [case.outer, case.outer.other()].into_iter();
    let outer = outers.find(|side| kind.does(join_type, *side))?;
    let order = if case.division.is_multiple_of(2) { FetchOrder::Address } else { FetchOrder::Key };
    let join = inputs.join(join_type);
    let [left_index, right_index] = inputs.indexes;
    Some(match kind {
        JoinKind::NestedLoops => {
            let outer_pages = case.part_of(pages, 1);
            let inner_pages = pages - outer_pages;
            let settings =
                nested_loops::Settings { outer, outer_pages, inner_pages, inner_is_unique: false };
            NestedLoops::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
        JoinKind::BlockNestedLoops => {
            let table_pages = case.part_of(pages, 1);
            let input_pages = pages - table_pages;
            let settings =
                block_nested_loops::Settings { outer, table_pages, input_pages, chunk_pages: None };
            BlockNestedLoops::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
        JoinKind::IndexNestedLoops => {
            let batch_pages = case.part_of(pages, 2);
            let settings = index_nested_loops::Settings {
                outer,
                input_pages: 1,
                batch_pages,
                inner_pages: pages - 1 - batch_pages,
                batch_rows_max: None,
                order,
            };
            let index = if outer == Side::Left { right_index } else { left_index };
            IndexNestedLoops::new(execution, join, index, settings).map(|join| Box::new(join) as _)
        }
        JoinKind::IndexSortMerge => {
            let left_pages = 1 + case.part_of(pages, 3);
            let settings = index_sort_merge::Settings {
                left_pages,
                right_pages: pages - left_pages,
                order,
                left_range: KeyRange::default(),
                right_range: KeyRange::default(),
            };
            let indexes = (left_index, right_index);
            IndexSortMerge::new(execution, join, indexes, &settings).map(|join| Box::new(join) as _)
        }
        JoinKind::SortMerge | JoinKind::GraceHash | JoinKind::HybridHash => {
            open_spilling(case, kind, execution, join)
        }
        other => unreachable!("{other} is not drawn"),
    })
}

/// Begins a join that spills.
fn open_spilling<'x>(
    case: &Case,
    kind: JoinKind,
    execution: &'x Execution,
    join: Join<'x>,
) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
    let pages = execution.limits().memory_pages;
    match kind {
        JoinKind::SortMerge => {
            let input_pages = case.part_of(pages / 2, 0).min(pages - 2);
            let output_pages = case.part_of(pages - input_pages, 1);
            let workspace_pages = pages - input_pages - output_pages;
            let formation = match case.division % 3 {
                0 => RunFormation::Quicksort,
                _ => RunFormation::ReplacementSelection,
            };
            let sort = sort::Settings { input_pages, output_pages, workspace_pages, formation };
            let group_pages = sort_merge::group_pages(pages);
            let settings = sort_merge::Settings { sort, group: case.outer, group_pages };
            SortMerge::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
        JoinKind::GraceHash => {
            let bucket_count = case.part_of(pages, 1).min(24);
            let output_pages = ((pages - 1) / bucket_count).min(4);
            let input_pages = pages - bucket_count * output_pages;
            let settings = grace_hash::Settings { bucket_count, input_pages, output_pages };
            GraceHash::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
        _ => {
            let input_pages = case.part_of((pages / 2).max(1), 0).min(pages - 2);
            let settings = hybrid_hash::Settings {
                build: case.outer,
                pages,
                input_pages,
                output_pages: 1 + case.division % 2,
                bucket_count: case.division % 7,
                resident_ppm: case.division * 1000,
            };
            HybridHash::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
    }
}

fn of_sqlite(connection: &Connection, sql: &str) -> Vec<Pair> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut pairs: Vec<Pair> = rows.collect::<Result<_, _>>().unwrap();
    pairs.sort_unstable();
    pairs
}

/// Memory of a join that puts rows together late, at least, and what of it fetches and scans.
fn late_memory(case: &Case, relations: &[PaxRelation<'_>; 2]) -> [u32; 3] {
    let of = |part: fn(&PaxRelation<'_>) -> u32| part(&relations[0]).max(part(&relations[1]));
    let fetch = of(|it| it.late().unwrap().rows.slot_pages());
    let scan = of(|it| it.late().unwrap().keys.scan_pages_min());
    [case.memory_pages.max(fetch + scan + 11), fetch, scan]
}

/// Begins a join that puts rows together late, in so many pages.
fn open_late<'x>(
    case: &Case,
    kind: JoinKind,
    execution: &'x Execution,
    join: Join<'x>,
    [pages, fetch_pages, scan_pages]: [u32; 3],
) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
    let share = |pages: u32| pages * case.division / 1000;
    let kernel = |pages: u32| hybrid_hash::Settings {
        build: case.outer,
        pages,
        input_pages: scan_pages + share(pages - scan_pages - 4),
        output_pages: 1 + case.division % 2,
        bucket_count: case.division % 7,
        resident_ppm: case.division * 1000,
    };
    if kind == JoinKind::FlashJoin {
        let batch_pages = 1 + share(pages - fetch_pages - scan_pages - 5);
        let kernel = kernel(pages - fetch_pages - batch_pages);
        let settings = flash_join::Settings { kernel, batch_pages, fetch_pages };
        return FlashJoin::new(execution, join, settings).map(|join| Box::new(join) as _);
    }
    let sort_pages = 3 + share(pages - fetch_pages - scan_pages - 11) / 2;
    let kernel = kernel(pages - sort_pages);
    let row_pages = pages - fetch_pages - 2 * sort_pages;
    let settings = rare_join::Settings { kernel, sort_pages, fetch_pages, row_pages };
    RareJoin::new(execution, join, settings).map(|join| Box::new(join) as _)
}

/// The pairs of a join.
fn of_join(stream: &mut dyn JoinStream, rows: &[Rows; 2]) -> Result<Vec<Pair>, QueryError> {
    let mut pairs = Vec::new();
    while stream.advance()? {
        pairs.extend(ids_of(stream.batch(), rows));
    }
    pairs.sort_unstable();
    Ok(pairs)
}

/// Some pairs; each row is compared with what was stored.
fn ids_of(batch: PairBatch<'_>, rows: &[Rows; 2]) -> impl Iterator<Item = Pair> {
    let id = |tuple: Option<Tuple<'_>>, rows: &Rows| {
        let values: Vec<ValueRef<'_>> = tuple?.view().unwrap().columns().collect();
        let ValueRef::Integer(id) = values[ID] else { panic!("{values:?} has no id") };
        let stored = &rows[usize::try_from(id).unwrap()];
        let is_stored = stored.iter().map(Value::as_ref).eq(values.iter().copied());
        assert!(is_stored, "{values:?} was stored as {stored:?}");
        Some(id)
    };
    batch.tuples().map(move |(left, right)| (id(left, &rows[0]), id(right, &rows[1])))
}

fn relation<'t>(tables: &'t Tables, case: &Case, side: usize) -> Box<dyn Relation + 't> {
    match case.shapes[side].is_clustered {
        true => Box::new(ClusteredRelation::open(tables, TABLES[side]).unwrap()),
        false => Box::new(HeapRelation::open(tables, TABLES[side]).unwrap()),
    }
}

fn index<'t>(tables: &'t Tables, case: &Case, side: usize) -> Box<dyn IndexLookup + 't> {
    match case.shapes[side].is_clustered {
        true => Box::new(ClusteredIndex::open(tables, TABLES[side]).unwrap()),
        false => Box::new(SecondaryIndex::open(tables, TABLES[side], INDEX, false).unwrap()),
    }
}

/// Runs a join, and compares. All memory comes back.
fn check(
    stream: Result<Box<dyn JoinStream + '_>, QueryError>,
    execution: &Execution,
    rows: &[Rows; 2],
    (wanted, told): (&[Pair], &str),
) {
    let mut stream = stream.unwrap_or_else(|error| panic!("{told}: {error}"));
    let found = of_join(stream.as_mut(), rows).unwrap_or_else(|error| panic!("{told}: {error}"));
    drop(stream);
    assert_eq!(found.len(), wanted.len(), "{told}");
    assert!(found == wanted, "{told} gives other pairs");
    execution.audit();
    assert_eq!(execution.free_pages(), execution.limits().memory_pages, "{told}");
}

/// Runs joins over tables in PAX pages: those that put rows together late in memory as it was drawn, and every
/// plan.
fn check_pax(
    case: &Case,
    tables: &Tables,
    (relations, key): (&[PaxRelation<'_>; 2], &Key),
    rows: &[Rows; 2],
    (join_type, wanted): (JoinType, &[Pair]),
    with_plans: bool,
) {
    let [left, right] = [&relations[0], &relations[1]];
    let join = Join {
        left: JoinInput { relation: left, key },
        right: JoinInput { relation: right, key },
        join_type,
    };
    let memory = late_memory(case, relations);
    for kind in DRAWN_LATE {
        let execution = execution_on(tables, case.limits(memory[0]));
        let stream = open_late(case, kind, &execution, join, memory);
        let told = format!("{kind} {} in {memory:?} pages", join_type.name());
        check(stream, &execution, rows, (wanted, &told));
    }
    if !with_plans {
        return;
    }
    let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
    let model =
        CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead: case.reads_ahead };
    let page_bytes = u64::from(case.page_bytes);
    let side = |it: &PaxRelation<'_>| JoinSide::of(it, page_bytes);
    let question = JoinQuestion::new(side(left), side(right), 2).with_join_type(join_type);
    for memory_pages in [memory[0], 4 * memory[0]] {
        let budget = Budget {
            memory_pages: memory_pages.into(),
            write_bytes: None,
            pool: POOL,
            worker_count: 1,
        };
        for plan in &plans(&model, &question, &budget).feasible {
            let execution = execution_on(tables, case.limits(memory_pages));
            let stream = plan.open(&execution, join, Indexes::NONE, ChunkRule::ByBytes);
            let told = format!("{} {case:?} of PAX pages by {plan:?}", join_type.name());
            check(stream, &execution, rows, (wanted, &told));
            if plan.kind.is_shared() {
                let join = (join, Indexes::NONE);
                workers::check(case, tables, join, rows, (plan, memory_pages), wanted);
            }
        }
    }
    let budget = Budget { memory_pages: 4000, write_bytes: None, pool: POOL, worker_count: 1 };
    let found = plans(&model, &question, &budget).feasible;
    let has = |kind: JoinKind| found.iter().any(|plan| plan.kind == kind);
    assert!(DRAWN_LATE.into_iter().all(has), "they are among the plans");
}

/// Runs every plan for a type of join.
fn check_plans(
    case: &Case,
    tables: &Tables,
    inputs: &Inputs<'_>,
    rows: &[Rows; 2],
    (join_type, wanted): (JoinType, &[Pair]),
) {
    let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
    let model =
        CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead: case.reads_ahead };
    let side = |side: usize| {
        let stats = RelationStats::of(inputs.relations[side].size(), u64::from(case.page_bytes));
        JoinSide::new(stats).with_index(IndexStats::of(inputs.indexes[side]).unwrap())
    };
    let question = JoinQuestion::new(side(0), side(1), 2).with_join_type(join_type);
    let memory_pages = case.memory_pages.max(2);
    let budget = Budget {
        memory_pages: memory_pages.into(),
        write_bytes: None,
        pool: POOL,
        worker_count: 1,
    };
    let plans = plans(&model, &question, &budget);
    let indexes = Indexes { left: Some(inputs.indexes[0]), right: Some(inputs.indexes[1]) };
    for plan in &plans.feasible {
        let execution = execution_on(tables, case.limits(memory_pages));
        let stream = plan.open(&execution, inputs.join(join_type), indexes, ChunkRule::ByBytes);
        let told = format!("{} {case:?} by {plan:?}", join_type.name());
        check(stream, &execution, rows, (wanted, &told));
        let memory_pages = case.memory_pages.max(2);
        let join = (inputs.join(join_type), indexes);
        workers::check(case, tables, join, rows, (plan, memory_pages), wanted);
    }
    for (kind, why) in &plans.rejected {
        let is_right = match why {
            Rejection::JoinType(_) => {
                [Side::Left, Side::Right].iter().all(|side| !kind.does(join_type, *side))
            }
            Rejection::TooLittleMemory { needed_pages } => *needed_pages > budget.memory_pages,
            Rejection::NoColumns => !DRAWN.contains(kind),
            Rejection::NoIndex | Rejection::UnknownPairs | Rejection::WriteBudget { .. } => false,
        };
        assert!(is_right, "{} {kind} {why}", join_type.name());
    }
    assert_eq!(plans.feasible.is_empty(), join_type == JoinType::Full && memory_pages < 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_join_gives_the_pairs_that_sqlite_gives(case in case(), planned_type in 0_usize..6) {
        let mut rng = Rng::new(case.seed);
        let database = database(case.page_bytes, PropagationKind::InPlace);
        let connection = Connection::open_in_memory().unwrap();
        let rows = [case.rows(0, &mut rng), case.rows(1, &mut rng)];
        for (side, rows) in rows.iter().enumerate() {
            case.store(&database, side, rows);
            case.store_in_pax(&database, side, rows);
            case.store_in_sqlite(&connection, side, rows);
        }
        let tables = database.read();
        let relations = [relation(&tables, &case, 0), relation(&tables, &case, 1)];
        let indexes = [index(&tables, &case, 0), index(&tables, &case, 1)];
        let columns: Vec<usize> = (0..case.types.len()).collect();
        let inputs = Inputs {
            relations: [relations[0].as_ref(), relations[1].as_ref()],
            indexes: [indexes[0].as_ref(), indexes[1].as_ref()],
            key: &Key::of(&columns),
        };
        for (number, join_type) in JoinType::ALL.into_iter().enumerate() {
            let wanted = of_sqlite(&connection, &case.sql(join_type));
            for kind in DRAWN {
                let memory_pages = case.memory_of(kind, join_type);
                let execution = execution_on(&tables, case.limits(memory_pages));
                let Some(stream) = open(&case, (kind, join_type), &execution, &inputs) else {
                    prop_assert!(join_type == JoinType::Full, "{} {}", kind, join_type.name());
                    continue;
                };
                let told = format!("{kind} {} in {memory_pages} pages", join_type.name());
                check(stream, &execution, &rows, (&wanted, &told));
            }
            if number == planned_type {
                check_plans(&case, &tables, &inputs, &rows, (join_type, &wanted));
            }
            let pax = PAX_TABLES.map(|name| {
                PaxRelation::open(&tables, name, inputs.key, None).unwrap()
            });
            let wanted = (join_type, wanted.as_slice());
            let is_planned = number == planned_type;
            check_pax(&case, &tables, (&pax, inputs.key), &rows, wanted, is_planned);
        }
    }
}

/// What the cases above have to hold some of, whatever is drawn.
#[test]
fn cases_have_empty_sides_long_rows_and_both_numbers_of_columns() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    const CASE_COUNT: u32 = 1000;
    let mut runner = TestRunner::deterministic();
    let cases: Vec<Case> =
        (0..CASE_COUNT).map(|_| case().new_tree(&mut runner).unwrap().current()).collect();
    let holds = |what: &str, is_it: &dyn Fn(&Case) -> bool| {
        let count = to_u32(cases.iter().filter(|case| is_it(case)).count() as u64);
        assert!(count >= 3, "{count} of {CASE_COUNT} cases have {what}");
    };
    let is_empty = |case: &Case, side: usize| case.shapes[side].row_count == 0;
    holds("an empty left side alone", &|case| is_empty(case, 0) && !is_empty(case, 1));
    holds("an empty right side alone", &|case| is_empty(case, 1) && !is_empty(case, 0));
    holds("two empty sides", &|case| is_empty(case, 0) && is_empty(case, 1));
    holds("one column", &|case| case.types.len() == 1);
    holds("two columns", &|case| case.types.len() == 2);
    holds("the least memory", &|case| case.memory_pages < 3);
    let mut rng = Rng::new(1);
    let long = cases.iter().filter(|case| {
        let page_bytes = to_index(u64::from(case.page_bytes));
        case.rows(0, &mut rng)
            .iter()
            .any(|row| matches!(&row[2], Value::Blob(payload) if payload.len() > 2 * page_bytes))
    });
    let count = long.count();
    assert!(count >= 100, "{count} of {CASE_COUNT} cases have rows longer than two pages");
}
