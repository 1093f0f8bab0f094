//! Scans of stored tables against a plain scan: sizes of pages and of memory, places of pages,
//! dirty pages, damage, and going on where another scan stopped.

use super::{
    ClusteredRelation, Filtered, HeapRelation, IndexOnlyScan, IndexScan, Position, Relation, Rows,
    Span,
};
use crate::index::{ClusteredIndex, FetchOrder, IndexLookup, KeyRange, SecondaryIndex};
use crate::testing::tables::{INDEXES, database, execution_on, store, typed_rows};
use crate::testing::{RowShape, limits, random_rows};
use crate::{Execution, Key, QueryError};
use nandu_base::Rng;
use nandu_device::{IoBuffer, Operation};
use nandu_storage::database::{ColumnType, Flow, Tables};
use nandu_storage::propagation::PropagationKind;
use nandu_storage::sqlite::{Value, ValueRef, encode_record};
use nandu_storage::volume::IoOwner;
use nandu_storage::{Database, StorageError};
use std::ops::Bound;

type PlainRow = (i64, Vec<u8>);
/// Where a scan can go on, after so many rows.
type Stop = (usize, Position);

const KEY_TYPE: ColumnType = ColumnType::Integer;

fn shape(row_count: usize) -> RowShape {
    RowShape {
        row_count,
        key_count: 90,
        is_skewed: true,
        null_percent: 5,
        payload_bytes_max: if row_count.is_multiple_of(2) { 120 } else { 1500 },
    }
}

fn stored(page_bytes: u32, propagation: PropagationKind, row_count: usize) -> Database {
    let database = database(page_bytes, propagation);
    let (_, mut values) =
        typed_rows("rows", shape(row_count), KEY_TYPE, page_bytes as usize, &mut Rng::new(5));
    store(&database, "heap", KEY_TYPE, false, &values);
    // In random order, so that leaves split and lie anywhere.
    Rng::new(6).shuffle(&mut values);
    store(&database, "tree", KEY_TYPE, true, &values);
    database
}

/// What a plain scan gives.
fn plain(tables: &Tables, table: &str) -> Vec<PlainRow> {
    let mut rows = Vec::new();
    tables
        .scan(table, |number, record| {
            rows.push((number, record.bytes().to_vec()));
            Flow::Continue(())
        })
        .unwrap();
    rows
}

/// All rows of a relation, and the position after each batch with the number of rows up to there.
fn scan(
    relation: &dyn Relation,
    execution: &Execution,
    pages: u32,
    span: impl Into<Span>,
) -> Result<(Vec<PlainRow>, Vec<Stop>), QueryError> {
    let memory = execution.take("a test", pages)?;
    let mut stream = relation.scan(execution, memory, span.into())?;
    let (mut rows, mut stops) = (Vec::new(), Vec::new());
    while stream.advance()? {
        let tuples = stream.batch().tuples();
        rows.extend(tuples.map(|tuple| (tuple.row_number, tuple.record.to_vec())));
        stops.extend(stream.position().map(|position| (rows.len(), position)));
    }
    assert!(!stream.advance()?, "the end is the end");
    assert_eq!(stream.batch().cells.len(), 0);
    drop(stream);
    execution.audit();
    assert_eq!(execution.free_pages(), execution.limits().memory_pages);
    Ok((rows, stops))
}

fn execution(tables: &Tables, reads_ahead: bool) -> Execution {
    let mut limits = limits(tables.engine().settings().page_bytes, 32);
    limits.reads_ahead = reads_ahead;
    execution_on(tables, limits)
}

#[test]
fn scans_give_what_a_plain_scan_gives_and_go_on_where_one_stopped() {
    for (page_bytes, row_count) in [(512, 301), (1024, 600), (4096, 800), (8192, 401)] {
        for propagation in PropagationKind::all_on_data_alone() {
            let database = stored(page_bytes, propagation, row_count);
            let tables = database.read();
            let heap = HeapRelation::open(&tables, "heap").unwrap();
            let tree = ClusteredRelation::open(&tables, "tree").unwrap();
            let relations: [(&dyn Relation, &str); 2] = [(&heap, "heap"), (&tree, "tree")];
            for (relation, table) in relations {
                let wanted = plain(&tables, table);
                assert_eq!(wanted.len(), row_count);
                for (pages, reads_ahead) in [(1, false), (2, true), (5, false), (16, true)] {
                    let execution = execution(&tables, reads_ahead);
                    let told = format!("{table}, pages of {page_bytes}, {pages} of memory");
                    let start = Position::default();
                    let (rows, stops) = scan(relation, &execution, pages, start).unwrap();
                    assert!(rows == wanted, "{told}");
                    assert!(!stops.is_empty(), "{told}: no place to go on");
                    for &(row_count, position) in stops.iter().step_by(stops.len() / 7 + 1) {
                        let (rest, _) = scan(relation, &execution, pages, position).unwrap();
                        assert!(rest == wanted[row_count..], "{told}: from row {row_count}");
                    }
                    let end = stops.last().unwrap().1;
                    let (rest, _) = scan(relation, &execution, pages, end).unwrap();
                    assert_eq!(rest.len(), wanted.len() - stops.last().unwrap().0, "{told}");
                }
                let size = relation.size();
                let is_close = size.tuple_count * 2 > row_count as u64
                    && size.tuple_count < row_count as u64 * 2;
                assert!(is_close, "{table}: {size:?} for {row_count} rows");
            }
        }
    }
}

#[test]
fn a_scan_in_parts_reads_each_page_once() {
    let database = stored(1024, PropagationKind::InPlace, 900);
    let tables = database.read();
    let heap = HeapRelation::open(&tables, "heap").unwrap();
    let whole = execution(&tables, false);
    let (rows, stops) = scan(&heap, &whole, 4, Position::default()).unwrap();
    let parts = execution(&tables, false);
    let mut position = Position::default();
    let (mut row_count, mut requests) = (0, 0);
    while row_count < rows.len() {
        // One block of each scan, the next from where it ended.
        let memory = parts.take("a test", 4).unwrap();
        let mut stream = heap.scan(&parts, memory, Span::from(position)).unwrap();
        loop {
            assert!(stream.advance().unwrap());
            row_count += stream.batch().cells.len();
            if let Some(next) = stream.position() {
                position = next;
                break;
            }
        }
        requests += 1;
    }
    assert_eq!(row_count, rows.len());
    assert_eq!(requests, stops.len());
    assert_eq!(parts.io_counts().read_bytes, whole.io_counts().read_bytes);
    assert_eq!(parts.io_counts().read_requests, whole.io_counts().read_requests);
}

/// The rows of all parts, one after the other.
fn scan_parts(relation: &dyn Relation, execution: &Execution, count: u32) -> Vec<PlainRow> {
    let pages = relation.scan_pages_min() + 2;
    let scan = |part| scan(relation, execution, pages, part).unwrap().0;
    relation.parts(count).into_iter().flat_map(scan).collect()
}

#[test]
fn parts_have_every_row_once_in_order_and_are_about_as_large() {
    for propagation in PropagationKind::all_on_data_alone() {
        let database = stored(512, propagation, 700);
        let tables = database.read();
        let heap = HeapRelation::open(&tables, "heap").unwrap();
        let tree = ClusteredRelation::open(&tables, "tree").unwrap();
        let odd = |tuple: crate::Tuple<'_>| Ok(tuple.row_number % 2 == 1);
        let filtered = Filtered::new(&heap, 500_000, &odd);
        let rows = random_rows("rows", shape(700), 512, &mut Rng::new(9));
        let none = Rows::new("none", 512);
        let relations: [&dyn Relation; 5] = [&heap, &tree, &filtered, &rows, &none];
        for relation in relations {
            let execution = execution(&tables, true);
            let whole = scan_parts(relation, &execution, 1);
            for count in [2, 3, 7, 64, 1_000_000] {
                assert!(scan_parts(relation, &execution, count) == whole, "{count} parts");
            }
        }
        assert_eq!(tree.parts(5).len(), 5, "leaves divide a tree");
        // Each part of the heap is read by itself, and nothing twice.
        let pages = heap.size().page_count;
        for count in [1, 2, 5] {
            let parts = heap.parts(count);
            assert_eq!(parts.len(), count as usize);
            let whole = execution(&tables, false);
            for part in parts {
                let one = whole.fork();
                scan(&heap, &one, 4, part).unwrap();
                if propagation == PropagationKind::InPlace {
                    let read = one.io_counts().read_bytes / 512;
                    assert!(read.abs_diff(pages / u64::from(count)) <= 5, "{read} of {pages}");
                }
                whole.absorb(one);
            }
            if propagation == PropagationKind::InPlace {
                // Pages between two runs may be read as well, but not where a part ends there.
                let undivided = execution(&tables, false);
                scan(&heap, &undivided, 4, Span::ALL).unwrap();
                let (least, most) = (pages * 512, undivided.io_counts().read_bytes);
                let read = whole.io_counts().read_bytes;
                assert!((least..=most).contains(&read), "{count} parts: {read}, not up to {most}");
            }
        }
    }
}

/// A tree from which ranges of rows were deleted, so that it has leaves without entries.
fn with_gaps(seed: u64) -> Database {
    let database = database(512, PropagationKind::InPlace);
    let row = |number: i64| {
        // Long keys make nodes with few children.
        let key = Value::Text(format!("{number:080}"));
        vec![key, Value::Integer(0), Value::Null, Value::Integer(number)]
    };
    let rows: Vec<_> = (0..500).map(row).collect();
    store(&database, "tree", ColumnType::Text, true, &rows);
    let mut rng = Rng::new(seed);
    let mut writing = database.write().unwrap();
    for _ in 0..3 {
        let from = rng.below(500).cast_signed();
        for number in from..(from + rng.below(200).cast_signed()).min(500) {
            let row = row(number);
            writing.delete_by_key("tree", &[row[0].as_ref(), row[3].as_ref()]).unwrap();
        }
    }
    writing.commit().unwrap();
    database
}

#[test]
fn parts_of_a_tree_whose_leaves_lost_their_entries_have_every_row_once() {
    for seed in 0..60 {
        let database = with_gaps(seed);
        let tables = database.read();
        let tree = ClusteredRelation::open(&tables, "tree").unwrap();
        let execution = execution(&tables, seed % 2 == 0);
        let wanted = plain(&tables, "tree");
        for count in [1, 2, 5, 64] {
            assert!(scan_parts(&tree, &execution, count) == wanted, "{count} parts, seed {seed}");
        }
        let tree = tree.with_all_leaves();
        let parts = scan_parts(&tree, &execution, u32::MAX);
        assert!(parts == wanted, "{} of {} rows, seed {seed}", parts.len(), wanted.len());
        let (_, stops) = scan(&tree, &execution, 1, Span::ALL).unwrap();
        for (row_count, position) in stops {
            let (rest, _) = scan(&tree, &execution, 1, position).unwrap();
            assert!(rest == wanted[row_count..], "from row {row_count}, seed {seed}");
        }
    }
}

#[test]
fn rows_that_only_the_pool_has_are_seen() {
    let database = stored(512, PropagationKind::InPlace, 300);
    let mut writing = database.write().unwrap();
    for number in (1..300).step_by(3) {
        let row =
            [ValueRef::Integer(-number), ValueRef::Integer(1), ValueRef::Null, ValueRef::Null];
        writing.update("heap", number, &row).unwrap();
    }
    // Nothing was committed, but the writer sees it.
    let heap = HeapRelation::open(&writing, "heap").unwrap();
    let execution = execution(&writing, false);
    let (rows, _) = scan(&heap, &execution, 8, Position::default()).unwrap();
    assert!(rows == plain(&writing, "heap"));
    drop(heap);
    drop(execution);
    writing.rollback().unwrap();
}

#[test]
fn a_damaged_page_is_told_with_its_place() {
    for reads_ahead in [false, true] {
        let database = stored(1024, PropagationKind::InPlace, 600);
        database.drop_cached_pages().unwrap();
        let tables = database.read();
        let heap = HeapRelation::open(&tables, "heap").unwrap();
        let io = tables.engine().data_io();
        // The leaf of the last row: a bit of it.
        let leaves = tables.heap_tree("heap").unwrap().leaf_runs(tables.engine(), u32::MAX);
        let page = u64::from(leaves.unwrap().last().unwrap().end - 1);
        let transfer = |operation, buffer| {
            let owner = IoOwner::Operator;
            let at = (page - 1) * 1024;
            let ticket = io.submit(owner, heap.file(), operation, at, buffer).unwrap();
            io.wait(ticket).buffer.unwrap()
        };
        let mut bytes = transfer(Operation::Read, IoBuffer::with_alignment(1024, 512));
        bytes[700] ^= 4;
        transfer(Operation::Write, bytes);
        let execution = execution(&tables, reads_ahead);
        let error = scan(&heap, &execution, 4, Position::default()).unwrap_err();
        let QueryError::Storage(StorageError::ChecksumMismatch { file, address }) = error else {
            panic!("{error}")
        };
        assert_eq!((file.as_str(), u64::from(address.page)), ("heap", page));
        assert_eq!(execution.free_pages(), 32);
    }
}

fn value_range(rng: &mut Rng) -> KeyRange {
    let mut bound = || {
        let value = vec![Value::Integer(rng.below(100).cast_signed() - 5)];
        match rng.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(value),
            _ => Bound::Excluded(value),
        }
    };
    KeyRange { lower: bound(), upper: bound() }
}

fn is_within(range: &KeyRange, value: ValueRef<'_>) -> bool {
    let above = match &range.lower {
        Bound::Unbounded => true,
        Bound::Included(bound) => value.compare(&bound[0].as_ref()).is_ge(),
        Bound::Excluded(bound) => value.compare(&bound[0].as_ref()).is_gt(),
    };
    above
        && match &range.upper {
            Bound::Unbounded => true,
            Bound::Included(bound) => value.compare(&bound[0].as_ref()).is_le(),
            Bound::Excluded(bound) => value.compare(&bound[0].as_ref()).is_lt(),
        }
}

/// The values of columns of a stored row.
fn values_of(record: &[u8], columns: &[usize]) -> Vec<Value> {
    let tuple = crate::Tuple { row_number: 0, record };
    let values = Key::of(columns).values(tuple).unwrap();
    values.into_iter().map(ValueRef::to_value).collect()
}

#[test]
fn index_scans_give_the_rows_of_their_range_in_the_order_asked_for() {
    let mut rng = Rng::new(77);
    for (page_bytes, row_count) in [(512, 301), (4096, 700)] {
        let database = stored(page_bytes, PropagationKind::InPlace, row_count);
        let tables = database.read();
        let by_key = SecondaryIndex::open(&tables, "heap", INDEXES[0], false).unwrap();
        let clustered = ClusteredIndex::open(&tables, "tree").unwrap();
        let indexes: [(&dyn IndexLookup, &str); 2] = [(&by_key, "heap"), (&clustered, "tree")];
        for round in 0..40 {
            let (index, table) = indexes[round % 2];
            let range = value_range(&mut rng);
            let key_of = |row: &PlainRow| values_of(&row.1, &[0]).remove(0);
            let mut wanted = plain(&tables, table);
            wanted.retain(|row| is_within(&range, key_of(row).as_ref()));
            // Rows of one key are in the order of their numbers, those of the tree have them
            // inside.
            wanted.sort_by(|one, other| key_of(one).as_ref().compare(&key_of(other).as_ref()));
            let execution = execution(&tables, round % 3 == 0);
            let pages = [2, 4, 30][round % 3];
            let by_address = IndexScan::new(index, range.clone(), FetchOrder::Address).unwrap();
            let (mut rows, _) = scan(&by_address, &execution, pages, Position::default()).unwrap();
            rows.sort();
            let mut sorted = wanted.clone();
            sorted.sort();
            assert!(rows == sorted, "{range:?} of {table} by address");
            let in_order = IndexScan::new(index, range.clone(), FetchOrder::Key).unwrap();
            let (rows, stops) = scan(&in_order, &execution, pages, Position::default()).unwrap();
            assert!(rows == wanted, "{range:?} of {table} by key");
            for &(count, position) in stops.iter().step_by(stops.len() / 3 + 1) {
                let (rest, _) = scan(&in_order, &execution, pages, position).unwrap();
                assert!(rest == wanted[count..], "{range:?} of {table} from row {count}");
            }
            let only = IndexOnlyScan::new(index, range.clone()).unwrap();
            let (rows, _) = scan(&only, &execution, pages, Position::default()).unwrap();
            let as_entry = |row: &PlainRow| {
                let values = values_of(&row.1, index.key().columns());
                let mut record = Vec::new();
                let refs: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
                encode_record(refs.iter().copied(), &mut record);
                (row.0, record)
            };
            assert!(rows == wanted.iter().map(as_entry).collect::<Vec<_>>(), "{range:?} only");
        }
    }
}

#[test]
fn what_the_pool_reads_for_a_scan_is_booked() {
    let database = stored(1024, PropagationKind::InPlace, 600);
    database.drop_cached_pages().unwrap();
    let tables = database.read();
    let tree = ClusteredRelation::open(&tables, "tree").unwrap();
    for reads_ahead in [false, true] {
        let before = tables.engine().pool_counters().read_count;
        let execution = execution(&tables, reads_ahead);
        scan(&tree, &execution, 8, Position::default()).unwrap();
        let read = tables.engine().pool_counters().read_count - before;
        let counts = execution.io_counts();
        assert_eq!((counts.read_requests, counts.read_bytes), (read, read * 1024));
        assert!(read + 70 > tree.size().page_count, "{read} of {:?}", tree.size());
        assert!(read <= tree.size().page_count, "{read} of {:?}", tree.size());
    }
}

#[test]
fn limits_of_another_page_size_are_an_error_that_says_so_and_no_damage() {
    let database = stored(1024, PropagationKind::InPlace, 100);
    let tables = database.read();
    let heap = HeapRelation::open(&tables, "heap").unwrap();
    let tree = ClusteredRelation::open(&tables, "tree").unwrap();
    let by_key = SecondaryIndex::open(&tables, "heap", INDEXES[0], false).unwrap();
    let by_index = IndexScan::new(&by_key, KeyRange::ALL, FetchOrder::Key).unwrap();
    let only = IndexOnlyScan::new(&by_key, KeyRange::ALL).unwrap();
    for page_bytes in [512, 2048] {
        let execution = execution_on(&tables, limits(page_bytes, 32));
        for relation in [&heap as &dyn Relation, &tree, &by_index, &only] {
            let refused = scan(relation, &execution, 8, Position::default()).unwrap_err();
            let said = refused.to_string();
            let theirs = "the database has pages of 1024 bytes, the limits of this run say ";
            assert!(said.starts_with(&format!("{theirs}{page_bytes};")), "{said}");
        }
    }
}
