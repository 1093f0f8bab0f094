//! Sort-merge against a look at every pair of rows, and its pages against their closed form.

use super::shape;
use crate::join::sort_merge::{Settings, SortMerge};
use crate::join::{JoinStream, JoinType, Side};
use crate::relation::{Relation, Rows};
use crate::sort::{self, RunFormation, SortCounts};
use crate::spill::CHECKSUM_BYTES;
use crate::testing::{collect, execution, expected, join, limits, random_rows};
use crate::{Key, Limits, QueryError, Tuple};
use nandu_base::Rng;
use nandu_storage::sqlite::Value;
use proptest::prelude::*;

fn settings() -> impl Strategy<Value = Settings> {
    (1_u32..3, 1_u32..3, prop_oneof![1_u32..12, 1_u32..150], any::<bool>(), any::<bool>(), 1_u32..4)
        .prop_map(|(input_pages, output_pages, workspace_pages, by_selection, by_left, pages)| {
            let formation = match by_selection {
                true => RunFormation::ReplacementSelection,
                false => RunFormation::Quicksort,
            };
            Settings {
                sort: sort::Settings { input_pages, output_pages, workspace_pages, formation },
                group: if by_left { Side::Left } else { Side::Right },
                group_pages: pages,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_type_gives_what_looking_at_all_pairs_gives(
        shapes in (shape(), shape()),
        seed: u64,
        settings in settings(),
        reads_ahead: bool,
        type_index in 0_usize..6,
    ) {
        let mut rng = Rng::new(seed);
        let left = random_rows("left", shapes.0, 512, &mut rng);
        let right = random_rows("right", shapes.1, 512, &mut rng);
        let key = Key::of(&[0]);
        let join_type = JoinType::ALL[type_index];
        let pages = settings.sort.memory_pages();
        let execution = execution(Limits { reads_ahead, ..limits(512, pages) });
        let io = execution.spill_io().clone();
        let join = join(&left, &right, &key, join_type);
        let mut stream = SortMerge::new(&execution, join, settings).unwrap();
        let pairs = collect(&mut stream).unwrap();
        prop_assert_eq!(pairs, expected(&left, &right, &key, join_type));
        prop_assert!(!stream.advance().unwrap() && stream.batch().pairs.is_empty());
        drop(stream);
        execution.audit();
        prop_assert_eq!(execution.free_pages(), pages);
        drop(execution);
        prop_assert!(io.files().is_empty());
    }

    #[test]
    fn keys_of_several_columns_with_nulls_in_some(
        keys in proptest::collection::vec((0_i64..4, 0_i64..4, any::<bool>()), 0..60),
        settings in settings(),
        type_index in 0_usize..6,
    ) {
        // NULL where the last column is 3.
        let mut sides = [Rows::new("left", 512), Rows::new("right", 512)];
        for (one, other, is_left) in keys {
            let other = if other == 3 { Value::Null } else { Value::Integer(other) };
            let payload = Value::Blob(vec![1; 40]);
            sides[usize::from(is_left)].push(&[payload, other, Value::Integer(one)]);
        }
        let [left, right] = sides;
        let key = Key::of(&[2, 1]);
        let join_type = JoinType::ALL[type_index];
        let execution = execution(limits(512, settings.sort.memory_pages()));
        let join = join(&left, &right, &key, join_type);
        let mut stream = SortMerge::new(&execution, join, settings).unwrap();
        let mut pair_count = 0;
        while stream.advance().unwrap() {
            stream.audit();
            pair_count += stream.batch().pairs.len();
        }
        drop(stream);
        let mut stream = SortMerge::new(&execution, join, settings).unwrap();
        let pairs = collect(&mut stream).unwrap();
        prop_assert_eq!(pairs.len(), pair_count);
        prop_assert_eq!(pairs, expected(&left, &right, &key, join_type));
    }
}

/// Rows of random keys below `key_count`, and as many bytes each.
fn rows_of(row_count: usize, key_count: u64, rng: &mut Rng) -> Rows {
    let mut rows = Rows::new("rows", 1024);
    for _ in 0..row_count {
        let key = rng.below(key_count).cast_signed();
        rows.push(&[Value::Integer(key), Value::Blob(vec![5; 80])]);
    }
    rows
}

const SETTINGS: Settings = Settings {
    sort: sort::Settings {
        input_pages: 4,
        output_pages: 4,
        workspace_pages: 52,
        formation: RunFormation::ReplacementSelection,
    },
    group: Side::Left,
    group_pages: 2,
};

#[test]
fn two_passes_write_and_read_each_side_once() {
    let mut rng = Rng::new(4);
    let (left, right) = (rows_of(4000, 1 << 40, &mut rng), rows_of(9000, 1 << 40, &mut rng));
    let key = Key::of(&[0]);
    let execution = execution(limits(1024, 60));
    let join = join(&left, &right, &key, JoinType::Full);
    let mut stream = SortMerge::new(&execution, join, SETTINGS).unwrap();
    let mut pair_count = 0;
    while stream.advance().unwrap() {
        stream.audit();
        pair_count += stream.batch().pairs.len();
    }
    assert!(pair_count > 12_900);
    let SortCounts { run_count, merge_count } = stream.counts();
    assert!((6..=40).contains(&run_count), "{run_count} runs");
    assert_eq!(merge_count, 0);
    let io = execution.io_counts();
    let page_bytes = 1024 - CHECKSUM_BYTES as u64;
    let cell_bytes = left.size().cell_bytes + right.size().cell_bytes;
    let least = cell_bytes.div_ceil(page_bytes);
    let pages = io.write_bytes / 1024;
    assert!((least..=least + run_count).contains(&pages), "{pages} pages, not {least}");
    assert_eq!(io.read_bytes, io.write_bytes);
    // A run's buffer is an equal part of what groups and copies leave.
    let run_pages = (60 - 2 * 2 - 1) / run_count;
    let requests = pages.div_ceil(run_pages)..=pages.div_ceil(run_pages) + run_count;
    assert!(requests.contains(&io.read_requests), "{} requests", io.read_requests);
    assert_eq!(execution.peak_pages(), 60);
}

#[test]
fn a_side_that_fits_is_not_written() {
    let mut rng = Rng::new(4);
    let (small, large) = (rows_of(100, 1 << 40, &mut rng), rows_of(9000, 1 << 40, &mut rng));
    let key = Key::of(&[0]);
    for (left, right) in [(&small, &large), (&large, &small), (&small, &small)] {
        let execution = execution(limits(1024, 60));
        let join = join(left, right, &key, JoinType::Full);
        let mut stream = SortMerge::new(&execution, join, SETTINGS).unwrap();
        while stream.advance().unwrap() {}
        let sides = [left, right].map(|side| side.size().cell_bytes);
        let bytes: u64 = sides.iter().filter(|&&bytes| bytes > 50_000).sum();
        let pages = bytes.div_ceil(1020);
        let written = execution.io_counts().write_bytes / 1024;
        assert!((pages..=pages + 40).contains(&written), "{written} pages, not {pages}");
        assert_eq!(written == 0, stream.counts().run_count == 0);
    }
}

#[test]
fn a_group_larger_than_its_buffer_is_written_once() {
    let mut rng = Rng::new(4);
    // 400 and 300 rows of one key among others.
    let (left, right) = (rows_of(1200, 3, &mut rng), rows_of(900, 3, &mut rng));
    let key = Key::of(&[0]);
    let settings =
        Settings { sort: sort::Settings { workspace_pages: 16, ..SETTINGS.sort }, ..SETTINGS };
    let execution = execution(limits(1024, 24));
    let join = join(&left, &right, &key, JoinType::Inner);
    let mut stream = SortMerge::new(&execution, join, settings).unwrap();
    let mut pair_count = 0;
    while stream.advance().unwrap() {
        pair_count += stream.batch().pairs.len();
    }
    let count = |rows: &Rows, number: i64| {
        let number = Value::Integer(number);
        let is_equal = |&tuple: &Tuple<'_>| key.values(tuple).unwrap()[0] == number.as_ref();
        rows.tuples().filter(is_equal).count()
    };
    let expected: usize = (0..3).map(|number| count(&left, number) * count(&right, number)).sum();
    assert_eq!(pair_count, expected);
    // Both sides once, the left one's groups once more, and the part of a page that ends each.
    let (left_bytes, right_bytes) = (left.size().cell_bytes, right.size().cell_bytes);
    let least = (2 * left_bytes + right_bytes).div_ceil(1020);
    let SortCounts { run_count, merge_count } = stream.counts();
    assert_eq!(merge_count, 0);
    let written = execution.io_counts().write_bytes / 1024;
    assert!((least..=least + run_count + 3).contains(&written), "{written} pages, not {least}");
}

#[test]
fn trouble_is_told_and_leaves_no_memory_taken() {
    let mut rng = Rng::new(4);
    let (left, right) = (rows_of(1200, 300, &mut rng), rows_of(900, 300, &mut rng));
    let (key, longer) = (Key::of(&[0]), Key::of(&[0, 1]));
    let execution = execution(Limits { write_budget_bytes: Some(9000), ..limits(1024, 60) });
    let mut unequal = join(&left, &right, &key, JoinType::Inner);
    unequal.right.key = &longer;
    let error = SortMerge::new(&execution, unequal, SETTINGS).err();
    assert!(matches!(error, Some(QueryError::Invalid { .. })));
    let join = join(&left, &right, &key, JoinType::Inner);
    let mut stream = SortMerge::new(&execution, join, SETTINGS).unwrap();
    assert!(matches!(collect(&mut stream), Err(QueryError::WriteBudget { .. })));
    drop(stream);
    assert_eq!(execution.free_pages(), 60);
    let more =
        Settings { sort: sort::Settings { workspace_pages: 53, ..SETTINGS.sort }, ..SETTINGS };
    let error = SortMerge::new(&execution, join, more).err();
    assert!(matches!(error, Some(QueryError::TooLittleMemory { needed_pages: 61, .. })));
}
