//! Block nested loops beside looking at all pairs.

use super::shape;
use crate::join::block_nested_loops::{BlockNestedLoops, Settings};
use crate::join::{JoinType, Side};
use crate::testing::{RowShape, collect, execution, expected, join, limits, random_rows};
use crate::{Key, QueryError, Relation};
use nandu_base::Rng;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_type_gives_what_looking_at_all_pairs_gives(
        shapes in (shape(), shape()),
        seed: u64,
        table_pages in 1_u32..40,
        input_pages in 1_u32..5,
        chunk_pages in proptest::option::of(1_u32..20),
        outer in prop_oneof![Just(Side::Left), Just(Side::Right)],
        type_index in 0_usize..6,
    ) {
        let mut rng = Rng::new(seed);
        let left = random_rows("left", shapes.0, 1024, &mut rng);
        let right = random_rows("right", shapes.1, 1024, &mut rng);
        let key = Key::of(&[0]);
        let join_type = JoinType::ALL[type_index];
        let execution = execution(limits(1024, table_pages + input_pages));
        let settings = Settings { outer, table_pages, input_pages, chunk_pages };
        let join = join(&left, &right, &key, join_type);
        let mut stream = BlockNestedLoops::new(&execution, join, settings).unwrap();
        let preserved = match join_type {
            JoinType::Inner => None,
            JoinType::Left | JoinType::Semi | JoinType::Anti => Some(Side::Left),
            JoinType::Right => Some(Side::Right),
            JoinType::Full => Some(outer.other()),
        };
        match collect(&mut stream) {
            Ok(pairs) => prop_assert_eq!(pairs, expected(&left, &right, &key, join_type)),
            // Only a side that is looked up may fail, and only if the other is in several chunks.
            Err(QueryError::Invalid { .. }) => prop_assert_eq!(preserved, Some(outer.other())),
            Err(error) => panic!("{error}"),
        }
        drop(stream);
        execution.audit();
        prop_assert_eq!(execution.free_pages(), table_pages + input_pages);
    }
}

#[test]
fn the_inner_side_is_read_once_for_each_chunk_and_the_outer_side_once() {
    let shape = RowShape {
        row_count: 2000,
        key_count: 5000,
        is_skewed: false,
        null_percent: 0,
        payload_bytes_max: 200,
    };
    let mut rng = Rng::new(7);
    let left = random_rows("left", shape, 1024, &mut rng);
    let right = random_rows("right", shape, 1024, &mut rng);
    let key = Key::of(&[0]);
    let execution = execution(limits(1024, 74));
    let settings =
        Settings { outer: Side::Left, table_pages: 70, input_pages: 4, chunk_pages: Some(50) };
    let join = join(&left, &right, &key, JoinType::Inner);
    let mut stream = BlockNestedLoops::new(&execution, join, settings).unwrap();
    collect(&mut stream).unwrap();
    let chunks = left.size().page_count.div_ceil(40);
    let scanned = execution.work_counts().get(crate::Work::Scan);
    let least = left.size().tuple_count + (chunks - 1) * right.size().tuple_count;
    assert!(scanned >= least, "{scanned} rows scanned in {chunks} chunks");
    assert!(scanned <= least + right.size().tuple_count, "{scanned} in {chunks} chunks");
}
