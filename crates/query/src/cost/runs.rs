//! Estimates beside runs of the operators, over rows in memory, which say how often each side was looked at.

use super::join::block_nested_loops;
use super::sort::{divide_sort, external_sort};
use super::{CostModel, CpuCosts, DeviceCosts, Footprint, JoinQuestion, JoinSide, RelationStats};
use crate::allocation::{BlockNestedLoops as Parts, RunFormation};
use crate::join::block_nested_loops::{BlockNestedLoops, Settings};
use crate::join::{JoinType, Side};
use crate::relation::{Rows, TupleStream};
use crate::sort::{self, Sort};
use crate::testing::{collect, execution, join, limits};
use crate::work::Work;
use crate::{Key, Relation};
use nandu_base::{Rng, to_u32};
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
    let model = CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead: false };
    let side = |rows: &Rows| JoinSide::new(RelationStats::of(rows.size(), u64::from(PAGE_BYTES)));
    let question = JoinQuestion::new(side(&left), side(&right), 1);
    for memory_pages in [20, 33, 50, 100, 200, 400, 700, 1200] {
        let parts = Parts::with_inner(&question.sizes(), memory_pages, 1).unwrap();
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

#[test]
fn sorts_write_and_read_as_much_as_estimated() {
    let mut rng = Rng::new(11);
    let mut rows = Rows::new("rows", PAGE_BYTES as usize);
    for _ in 0..40_000 {
        let key = (1 << 40) + rng.below(1 << 30).cast_signed();
        rows.push(&[Value::Integer(key), Value::Blob(vec![7; 90])]);
    }
    let key = Key::of(&[0]);
    let device = DeviceCosts::from_rates(100_000, 100_000, 1 << 30, 1 << 30);
    let model = CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead: false };
    let stats = RelationStats::of(rows.size(), u64::from(PAGE_BYTES));
    let relation = Footprint::new(&stats, 1_000_000);
    for formation in [RunFormation::ReplacementSelection, RunFormation::Quicksort] {
        for memory_pages in [12, 30, 100, 300, 1000, 3000] {
            let parts = divide_sort(&model, &relation, memory_pages, formation).unwrap();
            let estimate = external_sort(&model, &relation, memory_pages, &parts);
            let execution = execution(limits(PAGE_BYTES, to_u32(memory_pages)));
            let settings = sort::Settings::of(&parts, formation);
            let mut sorted = Sort::new(&execution, &rows, &key, settings).unwrap();
            while sorted.advance().unwrap() {}
            let run_count = sorted.counts().run_count;
            drop(sorted);
            let counts = execution.io_counts();
            let page_bytes = u64::from(PAGE_BYTES);
            // Rows in memory are read without requests.
            let input_requests = stats.page_count.div_ceil(parts.input_pages);
            let pairs = [
                (counts.write_bytes / page_bytes, estimate.pages_written),
                (counts.read_bytes / page_bytes, estimate.pages_read - stats.page_count),
                (counts.write_requests, estimate.write_requests),
                (counts.read_requests, estimate.read_requests - input_requests),
            ];
            for (index, (actual, estimated)) in pairs.into_iter().enumerate() {
                // Whether the last request of a run is a short one or none, only the rows know.
                let ends = if index < 2 { 4 } else { run_count / 2 + 2 };
                assert!(
                    actual.abs_diff(estimated) <= actual / 50 + ends,
                    "{formation:?}, {memory_pages} pages, {index}: {actual}, estimated {estimated}"
                );
            }
        }
    }
}
