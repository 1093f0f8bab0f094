//! Joins by several workers beside looking at all pairs, over random rows, memories and numbers of workers.

use super::columns::{ColumnJoin, ColumnPairs, ColumnSink, PairDecoder};
use super::hash::HashSettings;
use super::task::Shares;
use super::{ChunkSettings, MergeSettings, PairSink, SharedJoin};
use crate::columns::ColumnRows;
use crate::execution::Memory;
use crate::join::tests::shape_of;
use crate::join::{JoinType, Side, block_nested_loops, hybrid_hash, sort_merge};
use crate::key::KeyColumn;
use crate::relation::{RelationSize, Rows, Span, TupleStream};
use crate::sort::{self, RunFormation};
use crate::testing::{PlainPair, RowShape, execution, expected, join, limits, random_rows};
use crate::tuple::{PairBatch, Tuple};
use crate::{Execution, Key, Limits, QueryError, Relation, Work};
use nandu_base::Rng;
use nandu_storage::database::ColumnType;
use nandu_storage::sqlite::{Value, ValueRef};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn shape() -> impl Strategy<Value = RowShape> {
    shape_of(400, 150)
}

/// Notes all pairs that one worker finds.
#[derive(Default)]
struct Noted(Vec<PlainPair>);

impl PairSink for Noted {
    fn take(&mut self, pairs: PairBatch<'_>) -> Result<(), QueryError> {
        let plain = |tuple: Tuple<'_>| (tuple.row_number, tuple.record.to_vec());
        self.0.extend(pairs.tuples().map(|(left, right)| (left.map(plain), right.map(plain))));
        Ok(())
    }
}

/// All pairs of a join, sorted.
fn run(
    shared: &SharedJoin,
    execution: &Execution,
    join: crate::join::Join<'_>,
    worker_count: usize,
) -> Result<Vec<PlainPair>, QueryError> {
    let mut sinks: Vec<Noted> = (0..worker_count).map(|_| Noted::default()).collect();
    shared.run(execution, join, &mut sinks)?;
    let mut pairs: Vec<PlainPair> = sinks.into_iter().flat_map(|sink| sink.0).collect();
    pairs.sort();
    Ok(pairs)
}

fn check(
    join_type: JoinType,
    shapes: (RowShape, RowShape),
    seed: u64,
    (limits, worker_count): (Limits, usize),
    shared: &SharedJoin,
) {
    let mut rng = Rng::new(seed);
    let left = random_rows("left", shapes.0, 512, &mut rng);
    let right = random_rows("right", shapes.1, 512, &mut rng);
    let key = Key::of(&[0]);
    let pages = limits.memory_pages;
    let execution = execution(limits);
    let io = execution.spill_io().clone();
    match run(shared, &execution, join(&left, &right, &key, join_type), worker_count) {
        Ok(pairs) => assert_eq!(pairs, expected(&left, &right, &key, join_type)),
        Err(QueryError::Invalid { what }) => {
            assert!(what.contains("in chunks; make chunks of the other side"), "{what}");
            assert!(matches!(shared, SharedJoin::Chunks(_)), "{what}");
        }
        Err(error) => panic!("{error}"),
    }
    execution.audit();
    assert_eq!(execution.free_pages(), pages, "all memory came back");
    drop(execution);
    assert!(io.files().is_empty(), "the spill file is gone");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn workers_that_hash_give_what_looking_at_all_pairs_gives(
        shapes in (shape(), shape()),
        seed: u64,
        worker_count in 1_usize..5,
        share_pages in 16_u32..60,
        input_pages in 1_u32..4,
        output_pages in 1_u32..3,
        bucket_count in 0_u32..7,
        resident_ppm in 0_u32..=1_000_000,
        build in prop_oneof![Just(Side::Left), Just(Side::Right)],
        reads_ahead: bool,
        type_index in 0_usize..6,
    ) {
        let share = hybrid_hash::Settings {
            build, pages: share_pages, input_pages, output_pages, bucket_count, resident_ppm,
        };
        let pages = share_pages * u32::try_from(worker_count).unwrap();
        let limits = Limits { reads_ahead, ..limits(512, pages) };
        let shared = SharedJoin::Hash(HashSettings { share });
        check(JoinType::ALL[type_index], shapes, seed, (limits, worker_count), &shared);
    }

    #[test]
    fn workers_with_chunks_give_what_looking_at_all_pairs_gives(
        shapes in (shape(), shape()),
        seed: u64,
        worker_count in 1_usize..5,
        share_pages in 8_u32..60,
        input_part in 1_u32..8,
        outer in prop_oneof![Just(Side::Left), Just(Side::Right)],
        reads_ahead: bool,
        type_index in 0_usize..6,
    ) {
        let pages = share_pages * u32::try_from(worker_count).unwrap();
        let input_pages = (pages / 8 * input_part / 8).max(1);
        let table_pages = pages - input_pages;
        let settings =
            block_nested_loops::Settings { outer, table_pages, input_pages, chunk_pages: None };
        let (empty, key) = (Rows::new("none", 512), Key::of(&[0]));
        let of = join(&empty, &empty, &key, JoinType::Inner);
        let shared = SharedJoin::Chunks(ChunkSettings::of(&settings, &of, worker_count).unwrap());
        let limits = Limits { reads_ahead, ..limits(512, pages) };
        check(JoinType::ALL[type_index], shapes, seed, (limits, worker_count), &shared);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn workers_that_sort_and_merge_give_what_looking_at_all_pairs_gives(
        shapes in (shape(), shape()),
        seed: u64,
        worker_count in 1_usize..5,
        share_pages in 24_u32..200,
        (input_pages, output_pages, group_pages) in (1_u32..4, 1_u32..4, 1_u32..6),
        is_stored: bool,
        group in prop_oneof![Just(Side::Left), Just(Side::Right)],
        reads_ahead: bool,
        type_index in 0_usize..6,
    ) {
        let workers = u32::try_from(worker_count).unwrap();
        let pages = share_pages * workers;
        let formation =
            if is_stored { RunFormation::Quicksort } else { RunFormation::ReplacementSelection };
        let (input_pages, output_pages) = (input_pages * workers, output_pages * workers);
        let workspace_pages = pages - input_pages - output_pages;
        let sort = sort::Settings { input_pages, output_pages, workspace_pages, formation };
        let settings = sort_merge::Settings { sort, group, group_pages: group_pages * workers };
        let (empty, key) = (Rows::new("none", 512), Key::of(&[0]));
        let of = join(&empty, &empty, &key, JoinType::Inner);
        let shared = SharedJoin::Merge(MergeSettings::of(&settings, &of, worker_count).unwrap());
        let limits = Limits { reads_ahead, ..limits(512, pages) };
        check(JoinType::ALL[type_index], shapes, seed, (limits, worker_count), &shared);
    }
}

fn rows_of(row_count: usize, key_count: u64, is_skewed: bool) -> RowShape {
    RowShape { row_count, key_count, is_skewed, null_percent: 0, payload_bytes_max: 60 }
}

fn hash_in(share_pages: u32, bucket_count: u32) -> SharedJoin {
    let share = hybrid_hash::Settings {
        build: Side::Left,
        pages: share_pages,
        input_pages: 2,
        output_pages: 1,
        bucket_count,
        resident_ppm: if bucket_count == 0 { 1_000_000 } else { 300_000 },
    };
    SharedJoin::Hash(HashSettings { share })
}

#[test]
fn what_fits_is_not_written_and_what_does_not_is_written_once() {
    let mut rng = Rng::new(6);
    let left = random_rows("left", rows_of(3000, 4000, false), 1024, &mut rng);
    let right = random_rows("right", rows_of(9000, 4000, false), 1024, &mut rng);
    let key = Key::of(&[0]);
    let wanted = expected(&left, &right, &key, JoinType::Inner);
    let bytes = left.size().cell_bytes + right.size().cell_bytes;
    let needed_pages = u32::try_from((left.size().cell_bytes + 3000 * 20) / 1024).unwrap();
    for worker_count in 1..=4 {
        let workers = u32::try_from(worker_count).unwrap();
        let written = |pages: u32, bucket_count: u32| {
            let execution = execution(limits(1024, pages));
            let inner = join(&left, &right, &key, JoinType::Inner);
            let shared = hash_in(pages / workers, bucket_count);
            let pairs = run(&shared, &execution, inner, worker_count).unwrap();
            assert_eq!(pairs, wanted);
            let counts = execution.work_counts();
            let copied = counts.get(Work::Copy);
            assert_eq!(counts.get(Work::Probe) + counts.get(Work::Build), 12_000, "{copied}");
            assert_eq!(counts.get(Work::Emit), wanted.len() as u64);
            (execution.io_counts().write_bytes, copied)
        };
        assert_eq!(written(needed_pages * 3 / 2 + 16 * workers, 0), (0, 0));
        let (nearly, _) = written(needed_pages * 4 / 5 + 10 * workers, 0);

        assert!(nearly > 0 && nearly < bytes * 2 / 3, "{nearly} of {bytes}");
        let (most, copied) = written(needed_pages / 3 + 16 * workers, 6);
        assert!(most > nearly && copied <= 12_000, "{most}, {copied}");
        let ends = u64::from(16 * workers) * 1024;
        assert!(most <= bytes * 102 / 100 + ends, "{most} of {bytes}: nothing is written twice");
    }
}

#[test]
fn a_key_that_most_rows_have_is_joined_in_every_type() {
    let mut rng = Rng::new(9);
    let left = random_rows("left", rows_of(2500, 50, true), 1024, &mut rng);
    let right = random_rows("right", rows_of(700, 50, true), 1024, &mut rng);
    let key = Key::of(&[0]);
    for join_type in JoinType::ALL {
        let wanted = expected(&left, &right, &key, join_type);
        let execution = execution(limits(1024, 3 * 16));
        let join = join(&left, &right, &key, join_type);
        let pairs = run(&hash_in(16, 3), &execution, join, 3).unwrap();
        assert!(pairs == wanted, "{}", join_type.name());
        execution.audit();
    }
}

/// Counts pairs, and with the first ones lets two other workers find some, too.
struct Patient<'b> {
    busy_count: &'b AtomicUsize,
    pair_count: usize,
}

impl PairSink for Patient<'_> {
    fn take(&mut self, pairs: PairBatch<'_>) -> Result<(), QueryError> {
        if self.pair_count == 0 {
            self.busy_count.fetch_add(1, Ordering::Relaxed);
            for _ in 0..20_000 {
                if self.busy_count.load(Ordering::Relaxed) == 3 {
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        self.pair_count += pairs.pairs.len();
        Ok(())
    }
}

#[test]
fn a_key_that_all_rows_have_keeps_all_workers_busy() {
    let mut rng = Rng::new(9);
    let left = random_rows("left", rows_of(500, 1, true), 1024, &mut rng);
    let right = random_rows("right", rows_of(2500, 1, true), 1024, &mut rng);
    let key = Key::of(&[0]);
    let inner = join(&left, &right, &key, JoinType::Inner);
    let settings = block_nested_loops::Settings {
        outer: Side::Left,
        table_pages: 3 * 14,
        input_pages: 3 * 2,
        chunk_pages: None,
    };
    let chunks = ChunkSettings::of(&settings, &inner, 3).unwrap();
    for shared in [hash_in(64, 0), SharedJoin::Chunks(chunks)] {
        let execution = execution(limits(1024, 3 * 64));
        let busy_count = AtomicUsize::new(0);
        let mut sinks = [(); 3].map(|()| Patient { busy_count: &busy_count, pair_count: 0 });
        shared.run(&execution, inner, &mut sinks).unwrap();
        let counts = sinks.map(|sink| sink.pair_count);
        let wanted = expected(&left, &right, &key, JoinType::Inner).len();
        assert_eq!(counts.iter().sum::<usize>(), wanted);
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    }
}

/// Keeps all pairs that one worker finds, by column.
#[derive(Default)]
struct Kept(Vec<[Option<Vec<Value>>; 2]>);

impl ColumnSink for Kept {
    fn take(&mut self, pairs: ColumnPairs<'_>) -> Result<(), QueryError> {
        for place in 0..pairs.row_count() {
            let row = |side: Option<ColumnRows<'_>>| {
                let ColumnRows { batch, places } = side?;
                let row = places[place] as usize;
                Some(batch.columns()[..2].iter().map(|it| it.value(row).to_value()).collect())
            };
            self.0.push([row(pairs.left), row(pairs.right)]);
        }
        Ok(())
    }
}

/// Rows of a key of integers, some NULL, and a text.
fn typed_rows(name: &str, shape: RowShape, rng: &mut Rng) -> Rows {
    let types = vec![ColumnType::Integer, ColumnType::Text];
    let mut rows = Rows::new(name, 512).with_types(types);
    for number in 0..shape.row_count {
        let key = if shape.is_skewed && rng.below(2) == 0 { 0 } else { rng.below(shape.key_count) };
        let key = match rng.below(100) < shape.null_percent {
            true => Value::Null,
            false => Value::Integer(key.cast_signed()),
        };
        rows.push(&[key, Value::Text(format!("row {number}"))]);
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn joins_by_column_give_what_looking_at_all_pairs_gives(
        shapes in (shape(), shape()),
        seed: u64,
        worker_count in 1_usize..5,
        share_pages in 16_u32..200,
        built in prop_oneof![Just(Side::Left), Just(Side::Right)],
        type_index in 0_usize..6,
    ) {
        let mut rng = Rng::new(seed);
        let left = typed_rows("left", shapes.0, &mut rng);
        let right = typed_rows("right", shapes.1, &mut rng);
        let (key, join_type) = (Key::of(&[0]), JoinType::ALL[type_index]);
        let pages = share_pages * u32::try_from(worker_count).unwrap();
        let execution = execution(limits(512, pages));
        let wanted = [KeyColumn::Stored(0), KeyColumn::Stored(1)];
        let join = join(&left, &right, &key, join_type);
        let mut sinks: Vec<Kept> = (0..worker_count).map(|_| Kept::default()).collect();
        let Some(by_column) =
            ColumnJoin::new(&execution, join, built, [&wanted; 2], worker_count)
        else {
            return Ok(());
        };
        let has_run = by_column.run(&execution, &mut sinks).unwrap();
        prop_assert_eq!(execution.free_pages(), pages);
        let mut found: Vec<_> = sinks.into_iter().flat_map(|sink| sink.0).collect();
        prop_assert!(has_run || found.is_empty(), "nothing was handed on");
        if has_run {
            let row = |row: Option<(i64, Vec<u8>)>| {
                let (row_number, record) = row?;
                let view = Tuple { row_number, record: &record }.view().unwrap();
                Some(view.columns().map(ValueRef::to_value).collect::<Vec<Value>>())
            };
            let wanted = expected(&left, &right, &key, join_type).into_iter();
            let mut wanted: Vec<_> = wanted.map(|(left, right)| [row(left), row(right)]).collect();
            let told = |rows: &[Option<Vec<Value>>; 2]| format!("{rows:?}");
            found.sort_by_key(told);
            wanted.sort_by_key(told);
            prop_assert_eq!(found, wanted);
        }
    }
}

/// Rows that say they are a hundredth of what they are.
struct Understated(Rows);

impl Relation for Understated {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn size(&self) -> RelationSize {
        let RelationSize { page_count, tuple_count, cell_bytes } = self.0.size();
        RelationSize { page_count, tuple_count: tuple_count / 100, cell_bytes: cell_bytes / 100 }
    }

    fn column_types(&self) -> Option<&[ColumnType]> {
        self.0.column_types()
    }

    fn parts(&self, count: u32) -> Vec<Span> {
        self.0.parts(count)
    }

    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        self.0.scan(execution, memory, span)
    }
}

#[test]
fn a_side_that_does_not_fit_after_all_is_told_before_anything_is_handed_on() {
    let rows = typed_rows("left", rows_of(4000, 100, false), &mut Rng::new(7));
    let (left, key) = (Understated(rows), Key::of(&[0]));
    let wanted = [KeyColumn::Stored(0), KeyColumn::Stored(1)];
    let inner = join(&left, &left, &key, JoinType::Inner);
    for worker_count in 1..4 {
        let run = |pages: u32| {
            let execution = execution(limits(512, pages));
            let mut sinks: Vec<Kept> = (0..worker_count).map(|_| Kept::default()).collect();
            let by_column =
                ColumnJoin::new(&execution, inner, Side::Left, [&wanted; 2], worker_count);
            let has_run = by_column.unwrap().run(&execution, &mut sinks).unwrap();
            let count: usize = sinks.iter().map(|sink| sink.0.len()).sum();
            assert_eq!(has_run, count > 0);
            assert_eq!(execution.free_pages(), pages);
            has_run
        };
        assert!(run(2000));
        assert!(!run(100), "4000 rows are not in 50 KB");
    }
}

#[test]
fn a_side_that_does_not_fit_is_joined_in_passes_that_write_nothing() {
    let rows = typed_rows("left", rows_of(4000, 900, false), &mut Rng::new(7));
    let key = Key::of(&[0]);
    let wanted = [KeyColumn::Stored(0), KeyColumn::Stored(1)];
    let inner = join(&rows, &rows, &key, JoinType::Inner);
    let mut counts = Vec::new();
    for (pages, worker_count) in [(2000, 2), (450, 1), (450, 2), (450, 3), (300, 2)] {
        let execution = execution(limits(512, pages));
        let mut sinks: Vec<Kept> = (0..worker_count).map(|_| Kept::default()).collect();
        let by_column = ColumnJoin::new(&execution, inner, Side::Left, [&wanted; 2], worker_count);
        assert!(by_column.unwrap().run(&execution, &mut sinks).unwrap(), "{pages} pages");
        assert_eq!(execution.io_counts().write_bytes, 0);
        counts.push(sinks.iter().map(|sink| sink.0.len()).sum::<usize>());
    }
    assert!(counts.iter().all(|&count| count == counts[0]), "{counts:?}");
    let execution = execution(limits(512, 60));
    let by_column = ColumnJoin::new(&execution, inner, Side::Left, [&wanted; 2], 2);
    assert!(by_column.is_none(), "four passes at most");
}

#[test]
fn a_sink_that_refuses_ends_the_join() {
    let mut rng = Rng::new(3);
    let rows = random_rows("rows", rows_of(3000, 300, false), 1024, &mut rng);
    let key = Key::of(&[0]);
    let execution = execution(limits(1024, 4 * 32));
    let refused = QueryError::Invalid { what: "enough".to_owned() };
    let mut sinks: Vec<_> = (0..4)
        .map(|_| {
            let (mut count, refused) = (0, refused.clone());
            move |_: PairBatch<'_>| {
                count += 1;
                if count > 3 { Err(refused.clone()) } else { Ok(()) }
            }
        })
        .collect();
    let join = join(&rows, &rows, &key, JoinType::Inner);
    assert_eq!(hash_in(32, 4).run(&execution, join, &mut sinks), Err(refused));
    assert_eq!(execution.free_pages(), 4 * 32);
}

#[test]
fn a_table_has_no_more_segments_than_addresses_tell() {
    let mut rng = Rng::new(12);
    let shape = RowShape { payload_bytes_max: 300, ..rows_of(1500, 300, false) };
    let left = random_rows("left", shape, 1024, &mut rng);
    let right = random_rows("right", shape, 1024, &mut rng);
    let (key, worker_count) = (Key::of(&[0]), 3);
    let settings = block_nested_loops::Settings {
        outer: Side::Left,
        table_pages: 3000,
        input_pages: 6,
        chunk_pages: None,
    };
    for join_type in [JoinType::Inner, JoinType::Left] {
        let join = join(&left, &right, &key, join_type);
        let chunks = ChunkSettings::of(&settings, &join, worker_count).unwrap();
        for shared in [hash_in(1000, 4), SharedJoin::Chunks(chunks)] {
            let execution = execution(limits(1024, 3006));
            let share_pages = nandu_base::to_u32(3006 / worker_count as u64);
            let shares = Shares::new(&execution, &join, share_pages, worker_count);
            let mut task = match &shared {
                SharedJoin::Hash(settings) => settings.task(&join, &shares),
                SharedJoin::Chunks(settings) => settings.task(&join, &shares),
                SharedJoin::Merge(_) => unreachable!("it has no table"),
            };
            task.filling.segment_count_max = 40;
            let mut sinks: Vec<Noted> = (0..worker_count).map(|_| Noted::default()).collect();
            SharedJoin::run_task(&execution, join, (shares, task), &mut sinks).unwrap();
            let mut pairs: Vec<PlainPair> = sinks.into_iter().flat_map(|sink| sink.0).collect();
            pairs.sort();
            assert!(pairs == expected(&left, &right, &key, join_type), "{shared:?}");
            let has_written = execution.io_counts().write_bytes > 0;
            assert_eq!(has_written, matches!(shared, SharedJoin::Hash(_)), "it would have fit");
        }
    }
}

#[test]
fn texts_that_offsets_cannot_tell_are_joined_by_row() {
    let left = typed_rows("left", rows_of(400, 100, false), &mut Rng::new(7));
    let key = Key::of(&[0]);
    let wanted = [KeyColumn::Stored(0), KeyColumn::Stored(1)];
    let inner = join(&left, &left, &key, JoinType::Inner);
    for worker_count in 1..4 {
        let run = |range_max: usize| {
            let execution = execution(limits(512, 2000));
            let mut sinks: Vec<Kept> = (0..worker_count).map(|_| Kept::default()).collect();
            let by_column =
                ColumnJoin::new(&execution, inner, Side::Left, [&wanted; 2], worker_count);
            let mut by_column = by_column.unwrap();
            by_column.range_max = range_max;
            let has_run = by_column.run(&execution, &mut sinks).unwrap();
            assert_eq!(has_run, sinks.iter().any(|sink| !sink.0.is_empty()));
            has_run
        };
        assert!(run(1 << 20));
        assert!(!run(50), "no range has that little");
    }
}

/// The most bytes of texts that came at once.
#[derive(Default)]
struct Longest(usize);

impl ColumnSink for Longest {
    fn take(&mut self, pairs: ColumnPairs<'_>) -> Result<(), QueryError> {
        let bytes = |rows: ColumnRows<'_>| rows.batch.value_bytes();
        self.0 = self.0.max(pairs.left.map_or(0, bytes) + pairs.right.map_or(0, bytes));
        Ok(())
    }
}

#[test]
fn a_long_row_that_many_rows_meet_is_not_there_as_often() {
    let types = vec![ColumnType::Integer, ColumnType::Text];
    let mut one = Rows::new("one", 1024).with_types(types.clone());
    one.push(&[Value::Integer(7), Value::Text("x".repeat(100_000))]);
    let mut many = Rows::new("many", 1024).with_types(types);
    (0..1000).for_each(|_| many.push(&[Value::Integer(7), Value::Text("y".to_owned())]));
    let (key, wanted) = (Key::of(&[0]), [KeyColumn::Stored(1)]);
    let inner = join(&one, &many, &key, JoinType::Inner);
    let execution = execution(limits(1024, 400));
    let mut longest = Longest::default();
    let mut sinks = [PairDecoder::new(&inner, [&wanted; 2], &mut longest).unwrap()];
    hash_in(400, 0).run(&execution, inner, &mut sinks).unwrap();
    assert!((100_000..600_000).contains(&longest.0), "{}", longest.0);
}
