//! Every join against one that looks at every pair of rows, over random rows, types and memories.

mod block_nested_loops;
mod hash_joins;
mod index;
mod sort_merge;
mod sqlite;

use crate::testing::RowShape;
use proptest::prelude::*;

/// From no row to some, short ones or such as take several pages.
fn shape() -> impl Strategy<Value = RowShape> {
    shape_of(200, 60)
}

/// The same up to so many rows and keys.
pub(in crate::join) fn shape_of(rows_end: usize, keys_end: u64) -> impl Strategy<Value = RowShape> {
    let payload_bytes_max = prop_oneof![3 => 0_u64..300, 1 => 300_u64..4000];
    (0..rows_end, 1..keys_end, any::<bool>(), 0_u64..20, payload_bytes_max).prop_map(
        |(row_count, key_count, is_skewed, null_percent, payload_bytes_max)| RowShape {
            row_count,
            key_count,
            is_skewed,
            null_percent,
            payload_bytes_max,
        },
    )
}
