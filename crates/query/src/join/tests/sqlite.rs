//! Every join against SQLite itself: the same tables in both, the same joins in SQL.

use crate::allocation::RunFormation;
use crate::cost::{Convention, CostModel, CpuCosts, DeviceCosts, IndexStats, RelationStats};
use crate::index::{ClusteredIndex, FetchOrder, IndexLookup, KeyRange, SecondaryIndex};
use crate::join::{
    BlockNestedLoops, GraceHash, HybridHash, IndexNestedLoops, IndexSortMerge, Join, JoinInput,
    JoinKind, JoinStream, JoinType, NestedLoops, Side, SortMerge, block_nested_loops, grace_hash,
    hybrid_hash, index_nested_loops, index_sort_merge, nested_loops, sort_merge,
};
use crate::plan::{Budget, ChunkRule, Indexes, JoinQuestion, JoinSide, plans};
use crate::relation::{ClusteredRelation, HeapRelation};
use crate::testing::tables::{INDEXES, database, execution_on, store, typed_rows};
use crate::testing::{RowShape, limits};
use crate::{Execution, Key, QueryError, Relation, Tuple, sort};
use nandu_base::Rng;
use nandu_storage::database::{ColumnType, Tables};
use nandu_storage::propagation::PropagationKind;
use nandu_storage::sqlite::{Value, ValueRef};
use rusqlite::Connection;
use rusqlite::types::ToSqlOutput;

/// Pages of memory of each join.
const MEMORY_PAGES: u32 = 12;

/// What a join kind may use.
struct Inputs<'r> {
    join: Join<'r>,
    /// An index of each side, by the key.
    left_index: &'r dyn IndexLookup,
    right_index: &'r dyn IndexLookup,
}

/// Begins a join; `None` for a kind that cannot do this type.
fn open<'x>(
    kind: JoinKind,
    execution: &'x Execution,
    Inputs { join, left_index, right_index }: Inputs<'x>,
) -> Option<Result<Box<dyn JoinStream + 'x>, QueryError>> {
    let order = FetchOrder::Address;
    // The side whose rows may come out alone is outside.
    let outer = if join.join_type == JoinType::Right { Side::Right } else { Side::Left };
    let is_full = join.join_type == JoinType::Full;
    Some(match kind {
        JoinKind::NestedLoops if !is_full => {
            let settings = nested_loops::Settings {
                outer,
                outer_pages: 6,
                inner_pages: 6,
                inner_is_unique: false,
            };
            NestedLoops::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
        JoinKind::BlockNestedLoops if !is_full => {
            let settings = block_nested_loops::Settings {
                outer,
                table_pages: 8,
                input_pages: 4,
                chunk_pages: None,
            };
            BlockNestedLoops::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
        JoinKind::IndexNestedLoops if !is_full => {
            let settings = index_nested_loops::Settings {
                outer,
                input_pages: 4,
                batch_pages: 4,
                inner_pages: 4,
                batch_rows_max: None,
                order,
            };
            let index = if outer == Side::Left { right_index } else { left_index };
            IndexNestedLoops::new(execution, join, index, settings).map(|join| Box::new(join) as _)
        }
        JoinKind::IndexSortMerge => {
            let settings = index_sort_merge::Settings {
                left_pages: 6,
                right_pages: 6,
                order,
                left_range: KeyRange::default(),
                right_range: KeyRange::default(),
            };
            let indexes = (left_index, right_index);
            IndexSortMerge::new(execution, join, indexes, &settings).map(|join| Box::new(join) as _)
        }
        JoinKind::SortMerge | JoinKind::GraceHash | JoinKind::HybridHash => {
            open_spilling(kind, execution, join)
        }
        JoinKind::NestedLoops | JoinKind::BlockNestedLoops | JoinKind::IndexNestedLoops => {
            return None;
        }
    })
}

/// Begins a join that spills; these can do all types.
fn open_spilling<'x>(
    kind: JoinKind,
    execution: &'x Execution,
    join: Join<'x>,
) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
    match kind {
        JoinKind::SortMerge => {
            let formation = RunFormation::ReplacementSelection;
            let sort =
                sort::Settings { input_pages: 2, output_pages: 2, workspace_pages: 8, formation };
            let settings = sort_merge::Settings { sort, group: Side::Left, group_pages: 2 };
            SortMerge::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
        JoinKind::GraceHash => {
            let settings =
                grace_hash::Settings { bucket_count: 8, input_pages: 4, output_pages: 1 };
            GraceHash::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
        _ => {
            let settings = hybrid_hash::Settings {
                build: Side::Left,
                pages: MEMORY_PAGES,
                input_pages: 3,
                output_pages: 1,
                bucket_count: 3,
                resident_ppm: 300_000,
            };
            HybridHash::new(execution, join, settings).map(|join| Box::new(join) as _)
        }
    }
}

/// The same join in SQL. All columns of both sides come out; those of a semi or anti join's right
/// side as nulls.
fn sql_of(join_type: JoinType) -> String {
    let nothing = "NULL, NULL, NULL, NULL";
    let partner = "SELECT 1 FROM r WHERE l.key = r.key";
    match join_type {
        JoinType::Inner => "SELECT * FROM l JOIN r ON l.key = r.key".to_owned(),
        JoinType::Left => "SELECT * FROM l LEFT JOIN r ON l.key = r.key".to_owned(),
        JoinType::Right => "SELECT * FROM l RIGHT JOIN r ON l.key = r.key".to_owned(),
        JoinType::Full => "SELECT * FROM l FULL JOIN r ON l.key = r.key".to_owned(),
        JoinType::Semi => format!("SELECT l.*, {nothing} FROM l WHERE EXISTS ({partner})"),
        JoinType::Anti => format!("SELECT l.*, {nothing} FROM l WHERE NOT EXISTS ({partner})"),
    }
}

/// A value as text that tells it from all others.
fn told(value: ValueRef<'_>) -> String {
    format!("{value:?}")
}

fn of_sqlite(connection: &Connection, join_type: JoinType) -> Vec<Vec<String>> {
    use rusqlite::types::ValueRef as Found;
    let mut statement = connection.prepare(&sql_of(join_type)).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let value = |column| match row.get_ref(column).unwrap() {
            Found::Null => told(ValueRef::Null),
            Found::Integer(number) => told(ValueRef::Integer(number)),
            Found::Real(number) => told(ValueRef::Real(number)),
            Found::Text(text) => told(ValueRef::Text(text)),
            Found::Blob(bytes) => told(ValueRef::Blob(bytes)),
        };
        all.push((0..8).map(value).collect());
    }
    all.sort();
    all
}

fn of_join(stream: &mut dyn JoinStream) -> Result<Vec<Vec<String>>, QueryError> {
    let mut all = Vec::new();
    let values = |tuple: Option<Tuple<'_>>| match tuple {
        Some(tuple) => tuple.view().unwrap().columns().map(told).collect(),
        None => vec![told(ValueRef::Null); 4],
    };
    while stream.advance()? {
        for (left, right) in stream.batch().tuples() {
            all.push([values(left), values(right)].concat());
        }
    }
    all.sort();
    Ok(all)
}

fn fill(connection: &Connection, table: &str, key_type: ColumnType, rows: &[Vec<Value>]) {
    let key = key_type.sql_name();
    let statement = format!("CREATE TABLE {table} (key {key}, second INT, payload BLOB, id INT)");
    connection.execute(&statement, []).unwrap();
    let mut insert =
        connection.prepare(&format!("INSERT INTO {table} VALUES (?, ?, ?, ?)")).unwrap();
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

#[test]
fn every_join_gives_the_rows_that_sqlite_gives() {
    use ColumnType::{Integer, Real, Text};
    let shape = |row_count, key_count, is_skewed, payload_bytes_max| RowShape {
        row_count,
        key_count,
        is_skewed,
        null_percent: 6,
        payload_bytes_max,
    };
    let key = Key::of(&[0]);
    // Text never meets integers here: SQLite would make a number of "1" first.
    for (seed, types, shapes) in [
        (1, [Integer, Integer], [shape(300, 120, false, 200), shape(200, 100, true, 1800)]),
        (2, [Integer, Real], [shape(200, 60, true, 100), shape(250, 90, false, 100)]),
        (3, [Text, Text], [shape(150, 400, false, 60), shape(150, 300, false, 900)]),
        (4, [Real, Real], [shape(0, 1, false, 9), shape(40, 30, false, 60)]),
    ] {
        let mut rng = Rng::new(seed);
        let stored = database(1024, PropagationKind::InPlace);
        let connection = Connection::open_in_memory().unwrap();
        for (side, name) in ["l", "r"].into_iter().enumerate() {
            let (_, values) = typed_rows(name, shapes[side], types[side], 1024, &mut rng);
            fill(&connection, name, types[side], &values);
            store(&stored, name, types[side], side == 1, &values);
        }
        let tables = stored.read();
        let left = HeapRelation::open(&tables, "l").unwrap();
        let right = ClusteredRelation::open(&tables, "r").unwrap();
        let left_index = SecondaryIndex::open(&tables, "l", INDEXES[0], false).unwrap();
        let right_index = ClusteredIndex::open(&tables, "r").unwrap();
        for join_type in JoinType::ALL {
            let wanted = of_sqlite(&connection, join_type);
            for kind in JoinKind::ALL {
                let execution = execution_on(&tables, limits(1024, MEMORY_PAGES));
                let (left, right) = (
                    JoinInput { relation: &left, key: &key },
                    JoinInput { relation: &right, key: &key },
                );
                let inputs = Inputs {
                    join: Join { left, right, join_type },
                    left_index: &left_index,
                    right_index: &right_index,
                };
                let Some(stream) = open(kind, &execution, inputs) else { continue };
                let found = of_join(stream.unwrap().as_mut()).unwrap();
                let told = format!("{kind} {} of {types:?}", join_type.name());
                assert_eq!(found.len(), wanted.len(), "{told}");
                assert!(found == wanted, "{told} gives other rows");
                execution.audit();
            }
            let tables = Planned { tables: &tables, left: &left, right: &right, key: &key };
            let indexes = Indexes { left: Some(&left_index), right: Some(&right_index) };
            tables.check(join_type, indexes, &wanted);
        }
    }
}

/// Tables that are joined as a planner says.
struct Planned<'t> {
    tables: &'t Tables,
    left: &'t dyn Relation,
    right: &'t dyn Relation,
    key: &'t Key,
}

impl Planned<'_> {
    /// Runs every plan for a type of join.
    fn check(&self, join_type: JoinType, indexes: Indexes<'_>, wanted: &[Vec<String>]) {
        let device = DeviceCosts::from_rates(0, 100_000, 500_000_000, 300_000_000);
        let convention = Convention::AsBuilt { reads_ahead: false };
        let model = CostModel { device: &device, processor: &CpuCosts::NONE, convention };
        let side = |relation: &dyn Relation, index: Option<&dyn IndexLookup>| {
            let stats = IndexStats::of(index.unwrap()).unwrap();
            JoinSide::new(RelationStats::of(relation.size(), 1024)).with_index(stats)
        };
        let (left, right) = (side(self.left, indexes.left), side(self.right, indexes.right));
        let question = JoinQuestion::new(left, right, 2).with_join_type(join_type);
        for memory_pages in [14, 60] {
            let budget =
                Budget { memory_pages: memory_pages.into(), write_bytes: None, pool_pages: 64 };
            let plans = plans(&model, &question, &budget);
            for plan in &plans.feasible {
                let execution = execution_on(self.tables, limits(1024, memory_pages));
                let input = |relation| JoinInput { relation, key: self.key };
                let join = Join { left: input(self.left), right: input(self.right), join_type };
                let mut stream = plan.open(&execution, join, indexes, ChunkRule::ByBytes).unwrap();
                let found = of_join(stream.as_mut()).unwrap();
                let told =
                    format!("{} {} of {}: {plan:?}", join_type.name(), found.len(), wanted.len());
                assert!(found == wanted, "{told}");
            }
            let refused = plans.rejected.iter().map(|(kind, _)| *kind);
            let expected: &[JoinKind] = match join_type {
                JoinType::Full => &JoinKind::ALL[..3],
                _ => &[],
            };
            assert!(
                refused.eq(expected.iter().copied()),
                "{} {:?}",
                join_type.name(),
                plans.rejected
            );
        }
    }
}
