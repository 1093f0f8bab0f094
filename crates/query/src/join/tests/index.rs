//! Joins by index, and nested loops, over stored tables: heaps with indexes and clustered tables in
//! every combination, against a join that looks at all pairs.

use crate::index::{ClusteredIndex, FetchOrder, IndexLookup, KeyRange, SecondaryIndex};
use crate::join::{
    IndexNestedLoops, IndexSortMerge, Join, JoinInput, JoinStream, JoinType, NestedLoops, Side,
    index_nested_loops, index_sort_merge, nested_loops,
};
use crate::relation::{ClusteredRelation, Filtered, HeapRelation, Rows};
use crate::testing::tables::{INDEXES, database, execution_on, store, typed_rows};
use crate::testing::{PlainPair, RowShape, collect, expected, limits};
use crate::{Execution, Key, QueryError, Relation};
use nandu_base::Rng;
use nandu_storage::Database;
use nandu_storage::database::{ColumnType, Tables};
use nandu_storage::propagation::PropagationKind;
use nandu_storage::sqlite::Value;

/// Two tables, each in both forms, and their rows.
struct Fixture {
    database: Database,
    rows: [Rows; 2],
}

const HEAPS: [&str; 2] = ["left_heap", "right_heap"];
const TREES: [&str; 2] = ["left_tree", "right_tree"];

fn fixture(page_bytes: u32, types: [ColumnType; 2], shapes: [RowShape; 2], seed: u64) -> Fixture {
    let mut rng = Rng::new(seed);
    let database = database(page_bytes, PropagationKind::InPlace);
    let mut side = |index: usize| {
        let (rows, values) =
            typed_rows("rows", shapes[index], types[index], page_bytes as usize, &mut rng);
        store(&database, HEAPS[index], types[index], false, &values);
        store(&database, TREES[index], types[index], true, &values);
        rows
    };
    let rows = [side(0), side(1)];
    Fixture { database, rows }
}

fn shape(row_count: usize, key_count: u64, is_skewed: bool, payload: u64) -> RowShape {
    RowShape { row_count, key_count, is_skewed, null_percent: 7, payload_bytes_max: payload }
}

/// Rows of clustered tables have no number.
fn without_numbers(mut pairs: Vec<PlainPair>) -> Vec<PlainPair> {
    for (left, right) in &mut pairs {
        for row in [left, right].into_iter().flatten() {
            row.0 = 0;
        }
    }
    pairs.sort();
    pairs
}

fn relation<'t>(tables: &'t Tables, side: usize, is_clustered: bool) -> Box<dyn Relation + 't> {
    match is_clustered {
        true => Box::new(ClusteredRelation::open(tables, TREES[side]).unwrap()),
        false => Box::new(HeapRelation::open(tables, HEAPS[side]).unwrap()),
    }
}

fn index<'t>(tables: &'t Tables, side: usize, is_clustered: bool) -> Box<dyn IndexLookup + 't> {
    match is_clustered {
        true => Box::new(ClusteredIndex::open(tables, TREES[side]).unwrap()),
        false => Box::new(SecondaryIndex::open(tables, HEAPS[side], INDEXES[0], false).unwrap()),
    }
}

/// Fixtures that differ in everything that matters.
fn fixtures() -> Vec<Fixture> {
    use ColumnType::{Blob, Integer, Real, Text};
    let sizes = [
        // Long rows have overflow pages; skew makes groups that pass the memory.
        (512, [Integer, Integer], [shape(150, 40, false, 700), shape(200, 40, true, 90)]),
        (1024, [Integer, Real], [shape(200, 60, true, 60), shape(90, 50, false, 2500)]),
        (512, [Real, Integer], [shape(120, 10, false, 60), shape(120, 12, true, 200)]),
        (2048, [Text, Text], [shape(150, 100, false, 300), shape(120, 100, false, 300)]),
        (8192, [Blob, Blob], [shape(70, 20, false, 100), shape(0, 5, false, 100)]),
        (4096, [Integer, Text], [shape(60, 5, false, 100), shape(60, 5, false, 100)]),
    ];
    let fixtures = sizes.into_iter().enumerate();
    fixtures
        .map(|(seed, (page_bytes, types, shapes))| fixture(page_bytes, types, shapes, seed as u64))
        .collect()
}

/// Every combination of forms, types of join, orders and sizes of memory.
fn for_all_cases(mut check: impl FnMut(&Fixture, Case)) {
    for fixture in &fixtures() {
        for case in 0..4 * JoinType::ALL.len() * 2 * 3 {
            let (form, rest) = (case % 4, case / 4);
            let (type_index, rest) = (rest % JoinType::ALL.len(), rest / JoinType::ALL.len());
            let order = if rest % 2 == 0 { FetchOrder::Key } else { FetchOrder::Address };
            check(
                fixture,
                Case {
                    are_clustered: [form % 2 == 1, form / 2 == 1],
                    join_type: JoinType::ALL[type_index],
                    order,
                    memory_pages: [1, 3, 40][rest / 2],
                    reads_ahead: rest % 2 == 1,
                },
            );
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    are_clustered: [bool; 2],
    join_type: JoinType,
    order: FetchOrder,
    memory_pages: u32,
    reads_ahead: bool,
}

impl Case {
    fn execution(&self, tables: &Tables, memory_pages: u32) -> Execution {
        let mut limits = limits(tables.engine().settings().page_bytes, memory_pages);
        limits.reads_ahead = self.reads_ahead;
        execution_on(tables, limits)
    }

    /// Runs a join, and compares.
    fn check<'x>(
        &self,
        execution: &'x Execution,
        stream: Result<impl JoinStream + 'x, QueryError>,
        rows: [&Rows; 2],
        may_refuse: bool,
    ) {
        let mut stream = match stream {
            Ok(stream) => stream,
            Err(QueryError::Invalid { .. }) if may_refuse => return,
            Err(error) => panic!("{self:?}: {error}"),
        };
        assert!(!may_refuse, "{self:?} cannot be done");
        let pairs = without_numbers(collect(&mut stream).unwrap());
        let key = Key::of(&[0]);
        let wanted = without_numbers(expected(rows[0], rows[1], &key, self.join_type));
        assert_eq!(pairs.len(), wanted.len(), "{self:?}");
        assert!(pairs == wanted, "{self:?} gives other pairs");
        assert!(!stream.advance().unwrap(), "{self:?} has an end");
        drop(stream);
        execution.audit();
        assert_eq!(execution.free_pages(), execution.limits().memory_pages);
    }

    fn may_refuse(&self, outer: Side) -> bool {
        match self.join_type {
            JoinType::Inner => false,
            JoinType::Left | JoinType::Semi | JoinType::Anti => outer == Side::Right,
            JoinType::Right => outer == Side::Left,
            JoinType::Full => true,
        }
    }
}

fn join_of<'r>(
    left: &'r dyn Relation,
    right: &'r dyn Relation,
    key: &'r Key,
    join_type: JoinType,
) -> Join<'r> {
    let (left, right) = (JoinInput { relation: left, key }, JoinInput { relation: right, key });
    Join { left, right, join_type }
}

#[test]
fn index_nested_loops_give_what_looking_at_all_pairs_gives() {
    for_all_cases(|fixture, case| {
        let tables = fixture.database.read();
        let relations = [0, 1].map(|side| relation(&tables, side, case.are_clustered[side]));
        let key = Key::of(&[0]);
        let join = join_of(relations[0].as_ref(), relations[1].as_ref(), &key, case.join_type);
        let outer = if case.memory_pages == 3 { Side::Right } else { Side::Left };
        let inner = usize::from(outer == Side::Left);
        let index = index(&tables, inner, case.are_clustered[inner]);
        let execution = case.execution(&tables, 3 * case.memory_pages);
        let settings = index_nested_loops::Settings {
            outer,
            input_pages: case.memory_pages,
            batch_pages: case.memory_pages,
            inner_pages: case.memory_pages,
            batch_rows_max: (case.memory_pages == 1).then_some(5),
            order: case.order,
        };
        let stream = IndexNestedLoops::new(&execution, join, index.as_ref(), settings);
        let rows = [&fixture.rows[0], &fixture.rows[1]];
        case.check(&execution, stream, rows, case.may_refuse(outer));
    });
}

#[test]
fn index_sort_merge_gives_what_looking_at_all_pairs_gives() {
    for_all_cases(|fixture, case| {
        let tables = fixture.database.read();
        let key = Key::of(&[0]);
        let indexes = [0, 1].map(|side| index(&tables, side, case.are_clustered[side]));
        let join = join_of(&fixture.rows[0], &fixture.rows[1], &key, case.join_type);
        let pages = case.memory_pages + 1;
        let execution = case.execution(&tables, 2 * pages);
        let settings = index_sort_merge::Settings {
            left_pages: pages,
            right_pages: pages,
            order: case.order,
            left_range: KeyRange::default(),
            right_range: KeyRange::default(),
        };
        let indexes = (indexes[0].as_ref(), indexes[1].as_ref());
        let stream = IndexSortMerge::new(&execution, join, indexes, &settings);
        case.check(&execution, stream, [&fixture.rows[0], &fixture.rows[1]], false);
    });
}

#[test]
fn nested_loops_give_what_looking_at_all_pairs_gives() {
    for_all_cases(|fixture, case| {
        if case.order == FetchOrder::Address || case.memory_pages == 40 {
            return;
        }
        let tables = fixture.database.read();
        let relations = [0, 1].map(|side| relation(&tables, side, case.are_clustered[side]));
        let key = Key::of(&[0]);
        let join = join_of(relations[0].as_ref(), relations[1].as_ref(), &key, case.join_type);
        let outer = if case.memory_pages == 3 { Side::Right } else { Side::Left };
        let execution = case.execution(&tables, 2 * case.memory_pages);
        let settings = nested_loops::Settings {
            outer,
            outer_pages: case.memory_pages,
            inner_pages: case.memory_pages,
            inner_is_unique: false,
        };
        let stream = NestedLoops::new(&execution, join, settings);
        let rows = [&fixture.rows[0], &fixture.rows[1]];
        case.check(&execution, stream, rows, case.may_refuse(outer));
    });
}

#[test]
fn a_bound_on_the_key_ends_the_walk_early_and_joins_what_lies_below() {
    use ColumnType::{Integer, Real};
    let shapes = [shape(1500, 700, false, 90), shape(1500, 700, false, 90)];
    let fixture = fixture(512, [Integer, Real], shapes, 9);
    let tables = fixture.database.read();
    let key = Key::of(&[0]);
    // Below 12.25: a bound that no integer equals.
    let bound = Value::Real(12.25);
    let below = |rows: &Rows| {
        let mut kept = Rows::new("kept", 512);
        for tuple in rows.tuples() {
            let value = key.values(tuple).unwrap()[0];
            if !value.is_null() && value.compare(&bound.as_ref()).is_lt() {
                kept.push_record(tuple.record);
            }
        }
        kept
    };
    let kept = [below(&fixture.rows[0]), below(&fixture.rows[1])];
    for join_type in JoinType::ALL {
        for are_clustered in [[false, false], [true, true], [false, true]] {
            fixture_is_cold(&fixture.database);
            let indexes = [0, 1].map(|side| index(&tables, side, are_clustered[side]));
            let join = join_of(&fixture.rows[0], &fixture.rows[1], &key, join_type);
            let (order, memory_pages) = (FetchOrder::Key, 4);
            let case = Case { are_clustered, join_type, order, memory_pages, reads_ahead: false };
            let execution = case.execution(&tables, 8);
            let settings = index_sort_merge::Settings {
                left_pages: 4,
                right_pages: 4,
                order,
                left_range: KeyRange::below(bound.clone()),
                right_range: KeyRange::below(bound.clone()),
            };
            let indexes = (indexes[0].as_ref(), indexes[1].as_ref());
            let stream = IndexSortMerge::new(&execution, join, indexes, &settings);
            case.check(&execution, stream, [&kept[0], &kept[1]], false);
            let walked = execution.work_counts().get(crate::Work::Compare);
            let most = kept[0].size().tuple_count + kept[1].size().tuple_count;
            // A group that does not fit is walked more than once on the right.
            let limit = most + most / 4;
            assert!(walked <= limit, "{walked} entries walked of {most} below the bound");
            let pages = execution.io_counts().read_requests;
            assert!(pages < 250, "{pages} pages read for {most} rows of 3000");
        }
    }
}

/// Reads start from the device where the pool is too small to hold what was read last.
fn fixture_is_cold(database: &Database) {
    let tables = database.read();
    for table in HEAPS {
        tables.scan(table, |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    }
}

#[test]
fn index_nested_loops_take_a_filtered_outer_side_and_keys_of_several_columns() {
    use ColumnType::{Integer, Real};
    let shapes = [shape(300, 40, false, 90), shape(300, 40, false, 90)];
    let fixture = fixture(1024, [Integer, Real], shapes, 3);
    let tables = fixture.database.read();
    // The index is by second column and key; the join names them the other way round.
    let key = Key::of(&[0, 1]);
    let even = |tuple: crate::Tuple<'_>| Ok(tuple.row_number % 2 == 0);
    let outer = HeapRelation::open(&tables, HEAPS[0]).unwrap();
    let filtered = Filtered::new(&outer, 500_000, &even);
    let index = SecondaryIndex::open(&tables, HEAPS[1], INDEXES[1], false).unwrap();
    let mut kept = Rows::new("kept", 1024);
    for tuple in fixture.rows[0].tuples().filter(|tuple| tuple.row_number % 2 == 0) {
        kept.push_record(tuple.record);
    }
    let execution = execution_on(&tables, limits(1024, 12));
    let join = join_of(&filtered, &fixture.rows[1], &key, JoinType::Left);
    let settings = index_nested_loops::Settings {
        outer: Side::Left,
        input_pages: 4,
        batch_pages: 4,
        inner_pages: 4,
        batch_rows_max: None,
        order: FetchOrder::Address,
    };
    let mut stream = IndexNestedLoops::new(&execution, join, &index, settings).unwrap();
    let pairs = without_numbers(collect(&mut stream).unwrap());
    let wanted = expected(&kept, &fixture.rows[1], &key, JoinType::Left);
    assert!(pairs.iter().any(|pair| pair.1.is_some()) && pairs.iter().any(|pair| pair.1.is_none()));
    assert_eq!(pairs, without_numbers(wanted));
    // The first column of the index is not in this key.
    let other_key = Key::of(&[0]);
    let join = join_of(&filtered, &fixture.rows[1], &other_key, JoinType::Inner);
    let refused = IndexNestedLoops::new(&execution, join, &index, settings).map(|_| ());
    assert!(matches!(
        refused,
        Err(QueryError::TooLittleMemory { .. } | QueryError::Invalid { .. })
    ));
}
