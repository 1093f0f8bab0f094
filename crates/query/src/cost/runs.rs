//! Estimates beside runs of the operators, over rows in memory, which say how often each side was looked at.

use super::join::block_nested_loops;
use super::{Convention, CostModel, CpuCosts, DeviceCosts, JoinQuestion, JoinSide, RelationStats};
use crate::allocation::BlockNestedLoops as Parts;
use crate::join::block_nested_loops::{BlockNestedLoops, Settings};
use crate::join::{JoinType, Side};
use crate::relation::Rows;
use crate::testing::{collect, execution, join, limits};
use crate::work::Work;
use crate::{Key, Relation};
use nandu_base::to_u32;
use nandu_storage::sqlite::Value;

const PAGE_BYTES: u32 = 4096;

/// Rows of a key and so many bytes, each key once.
fn rows(name: &str, row_count: i64, payload_bytes: usize) -> Rows {
    let mut rows = Rows::new(name, PAGE_BYTES as usize);
    for number in 0..row_count {
        // A key of one length, so that all rows are as long as the mean.
        let payload = vec![7; payload_bytes];
        rows.push(&[Value::Integer(1_000_000 + number), Value::Blob(payload)]);
    }
    rows
}

#[test]
fn chunks_of_block_nested_loops_are_as_many_as_estimated() {
    let (left, right) = (rows("left", 30_000, 90), rows("right", 1000, 90));
    let key = Key::of(&[0]);
    let device = DeviceCosts::from_rates(0, 0, 0, 0);
    let convention = Convention::AsBuilt { reads_ahead: false };
    let model = CostModel { device: &device, processor: &CpuCosts::NONE, convention };
    let side = |rows: &Rows| JoinSide::new(RelationStats::of(rows.size(), u64::from(PAGE_BYTES)));
    let question = JoinQuestion::new(side(&left), side(&right), 1);
    for memory_pages in [20, 33, 50, 100, 200, 400, 700, 1200] {
        let parts = Parts::with_inner(&question.sizes(convention), memory_pages, 1).unwrap();
        let estimate = block_nested_loops(&model, &question, &parts);
        let execution = execution(limits(PAGE_BYTES, to_u32(memory_pages)));
        let settings = Settings {
            outer: Side::Left,
            table_pages: to_u32(parts.outer_pages),
            input_pages: 1,
            chunk_pages: None,
        };
        let join = join(&left, &right, &key, JoinType::Inner);
        let mut stream = BlockNestedLoops::new(&execution, join, settings).unwrap();
        assert_eq!(collect(&mut stream).unwrap().len(), 1000);
        drop(stream);
        let scanned = execution.work_counts().get(Work::Scan);
        let chunk_count = (scanned - 30_000) / 1000;
        let estimated = estimate.seeks / 2;
        assert!(
            chunk_count.abs_diff(estimated) * 50 <= chunk_count,
            "{memory_pages} pages: {chunk_count} chunks, estimated {estimated}"
        );
        assert_eq!(scanned, 30_000 + chunk_count * 1000, "no outer row is read twice");
    }
}
