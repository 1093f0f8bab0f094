//! What is read and written as it is built, closed forms, and laws that hold for any question.

use super::join::*;
use super::scan::*;
use super::sort::{divide_sort, external_sort};
use super::*;
use crate::allocation::{
    BlockNestedLoops, GraceHash, HYBRID_BUFFER_PPM, HybridHash, RunFormation, RunSeeks, SortMerge,
};
use crate::index::FetchOrder;
use crate::work::WorkCosts;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const PAGE_BYTES: u64 = 8192;
/// The relations of S001 table 2.
fn customers_and_orders() -> JoinQuestion {
    let customers = RelationStats::heap(93_440, 4_500_000, 134, PAGE_BYTES);
    let orders = RelationStats::heap(655_360, 45_000_000, 94, PAGE_BYTES);
    JoinQuestion::new(JoinSide::new(customers), JoinSide::new(orders), 10)
}

/// The devices of S001 table 2.
fn disk() -> DeviceCosts {
    DeviceCosts::from_rates(12_000_000, 5_560_000, 34 * MIB, 34 * MIB)
}

fn flash() -> DeviceCosts {
    DeviceCosts::from_rates(0, 350_000, 120 * MIB, 80 * MIB)
}

fn model(device: &DeviceCosts) -> CostModel<'_> {
    CostModel { device, processor: &CpuCosts::NONE, reads_ahead: false }
}

fn seconds(estimate: &Estimate) -> f64 {
    estimate.time().as_seconds_f64()
}

#[test]
fn as_built_block_nested_loops_reads_by_the_buffer_of_the_inner_side() {
    // 4000 cells of 80 bytes, 100 bytes each in memory, 40 to a page. An area of 100 pages of 4096 bytes has
    // room for as many as 102 pages of the table, in segments of 12800 bytes.
    let outer = JoinSide::new(RelationStats::heap(1000, 40_000, 80, 4096));
    let inner = JoinSide::new(RelationStats::heap(50, 500, 84, 4096));
    let device = DeviceCosts::from_rates(7, 100, 0, 0);
    let question = JoinQuestion::new(outer, inner, 1);
    let sizes = question.sizes();
    let at = |reads_ahead: bool| {
        let parts = BlockNestedLoops::with_inner(&sizes, 104, 4).unwrap();
        let model = CostModel { reads_ahead, ..model(&device) };
        block_nested_loops(&model, &question, &parts)
    };
    // A block of 4 pages takes 16000 bytes; after 23 of them one of 16384 bytes and its links, in three
    // segments, is not sure to fit: 250 blocks make 11 chunks.
    let found = at(false);
    assert_eq!(found.read_requests, 250 + 11 * 13);
    assert_eq!(found.pages_read, 1000 + 11 * 50);
    assert_eq!(found.seeks, 22);
    assert_eq!(found.io_ns, found.read_requests * 100 + 22 * 7);
    assert_eq!((found.write_requests, found.pages_written), (0, 0));
    // Reading ahead, blocks have half the buffer, and each chunk but the last has begun one too many.
    let found = at(true);
    let chunk_count = found.seeks / 2;
    assert!((10..=12).contains(&chunk_count), "{chunk_count} chunks");
    assert_eq!(found.read_requests, 500 + (chunk_count - 1) + chunk_count * 25);
    assert_eq!(found.pages_read, 1000 + 2 * (chunk_count - 1) + chunk_count * 50);
}

#[test]
fn a_block_that_does_not_fit_is_read_for_several_chunks() {
    let outer = JoinSide::new(RelationStats::heap(100, 4000, 80, 4096));
    let question = JoinQuestion::new(outer, outer, 1);
    let device = flash();
    let parts = BlockNestedLoops::with_inner(&question.sizes(), 24, 20).unwrap();
    let found = block_nested_loops(&model(&device), &question, &parts);
    // Each of 5 blocks has 800 rows, of which 163 fit at a time, and is a little fuller at times: 6 chunks.
    assert_eq!(found.seeks, 60);
    assert_eq!(found.read_requests, 30 + 30 * 5);
}

#[test]
fn as_built_joins_spill_full_pages() {
    // 80 % filled: 10 000 cells of 103 bytes on 154 pages spill to 126 pages.
    let side = JoinSide::new(RelationStats::heap(154, 10_000, 103, PAGE_BYTES));
    let question = JoinQuestion::new(side, side, 1);
    let device = flash();
    let model = model(&device);
    let sizes = question.sizes();
    let bytes = 1_030_000_u64;
    let pages = bytes.div_ceil(PAGE_BYTES - 4);

    let grace = GraceHash::allocate(&sizes, 40).unwrap();
    let found = grace_hash(&model, &question, 40, &grace);
    // Each bucket ends within a page.
    let ends = grace.bucket_count;
    assert!(found.pages_written.abs_diff(2 * pages + ends) <= ends / 2, "{found:?}");
    assert_eq!(found.pages_read, 2 * 154 + found.pages_written);

    let times = device.request_times(PAGE_BYTES);
    let merge = SortMerge::allocate(&sizes, 40, &times, RunSeeks::Charged).unwrap();
    let found = sort_merge(&model, &question, 40, &merge);
    let ends = merge.outer_run_count / 2 + merge.inner_run_count / 2;
    assert!(found.pages_written.abs_diff(2 * pages + ends) <= ends + 1, "{found:?}");
    assert_eq!(found.pages_read, 2 * 154 + found.pages_written);
}

#[test]
fn hybrid_hash_that_fits_reads_both_once() {
    let question = customers_and_orders();
    let device = disk();
    let model = model(&device);
    let parts = HybridHash::allocate(&question.sizes(), 130_000, HYBRID_BUFFER_PPM).unwrap();
    let found = hybrid_hash(&model, &question, 130_000, &parts);
    assert_eq!((found.pages_read, found.pages_written), (748_800, 0));
    assert_eq!(found.seeks, 2);
}

#[test]
fn runs_that_are_too_many_are_merged_before() {
    let relation = RelationStats::heap(10_000, 100_000, 816, PAGE_BYTES);
    let device = flash();
    let model = model(&device);
    let footprint = Footprint::new(&relation, 1_000_000);
    let written = |memory: u64, formation: RunFormation| {
        let parts = divide_sort(&model, &footprint, memory, formation).unwrap();
        let found = external_sort(&model, &footprint, memory, &parts);
        found.pages_written as f64 / footprint.spilled_pages() as f64
    };
    // In memory with a page to read and one to write by; in two passes; with merges in between.
    assert_eq!(footprint.sort_pages(), 10_401);
    assert!(written(10_403, RunFormation::ReplacementSelection) < 0.001);
    assert!(written(10_402, RunFormation::ReplacementSelection) > 0.999);
    assert!((written(400, RunFormation::ReplacementSelection) - 1.0).abs() < 0.002);
    let replacement = written(20, RunFormation::ReplacementSelection);
    let quicksort = written(20, RunFormation::Quicksort);
    assert!((2.0..4.0).contains(&replacement), "{replacement} times");
    assert!(quicksort > replacement, "{quicksort} times");
    assert!(divide_sort(&model, &footprint, 2, RunFormation::Quicksort).is_err());
}

#[test]
fn merging_in_between_moves_the_fewest_pages() {
    // 6 runs of 10 pages with buffers for 3 in the end and fan-in 3: two of them first, then three.
    let relation = RelationStats::heap(60, 600, 100, PAGE_BYTES);
    let relation = RelationStats { cell_bytes: 60 * (PAGE_BYTES - 4), ..relation };
    let device = flash();
    let model = model(&device);
    let footprint = Footprint::new(&relation, 1_000_000);
    let memory = super::sort::MergeMemory { memory_pages: 4, run_count_max: 3 };
    let (found, left) = super::sort::merge_runs(&model, &footprint, 6, &memory);
    // The last pages of three runs that are gone were half full.
    assert_eq!((left, found.pages_written, found.pages_read), (3, 20 + 30, 50 + 2));
}

#[test]
fn distinct_pages_are_those_of_the_closed_form() {
    assert_eq!(distinct_pages(1000, 0), 0);
    assert_eq!(distinct_pages(1000, 1), 1);
    assert_eq!(distinct_pages(1, 50), 1);
    assert_eq!(distinct_pages(0, 50), 0);
    for (pages, accesses) in [(1000_u64, 1000_u64), (50_000, 10_000), (1000, 5000)] {
        let expected = pages as f64 * (1.0 - (-(accesses as f64) / pages as f64).exp());
        let found = distinct_pages(pages, accesses) as f64;
        assert!((found - expected).abs() <= expected * 0.001 + 1.0, "{found} for {expected}");
    }
}

#[test]
fn a_cache_that_is_too_small_is_read_into_again() {
    // A cache simulated page by page, least recently used.
    let (pages, accesses, cache) = (500_u64, 4000_u64, 100_u64);
    let mut random = nandu_base::Rng::for_part(7, "cache");
    let mut held: std::collections::VecDeque<u64> = std::collections::VecDeque::new();
    let mut reads = 0_u64;
    for _ in 0..accesses {
        let page = random.below(pages);
        if let Some(at) = held.iter().position(|it| *it == page) {
            held.remove(at);
        } else {
            reads += 1;
            if held.len() as u64 == cache {
                held.pop_front();
            }
        }
        held.push_back(page);
    }
    let found = cached_reads(pages, accesses, cache);
    assert!(found.abs_diff(reads) * 50 <= reads, "{found} reads, simulated {reads}");
    assert_eq!(cached_reads(pages, accesses, pages), distinct_pages(pages, accesses));
    assert_eq!(cached_reads(pages, accesses, 0), accesses);
}

#[test]
fn scans_by_an_index_read_leaves_and_pages() {
    let relation = RelationStats::heap(1000, 100_000, 70, PAGE_BYTES);
    let index = IndexStats {
        leaf_page_count: 200,
        height: 2,
        entry_count: 100_000,
        order: PageOrder::Contiguous,
        is_clustered: false,
        row_bytes: 0,
        run_rows: 0,
    };
    let device = DeviceCosts::from_rates(1000, 100, 0, 0)
        .with_queue_gain(&[(1, 1_000_000), (16, 8_000_000)])
        .unwrap();
    let model = model(&device);
    let alone = index_only_scan(&model, &index, 1000, PAGE_BYTES);
    assert_eq!((alone.pages_read, alone.seeks), (2 + 2, 3));

    let keyed = index_scan(&model, &relation, &index, 1000, 10);
    assert_eq!(keyed.pages_read, 4 + cached_reads(1000, 1000, 10));

    let mut memory = AddressMemory { list_pages: 1, request_pages: 1, queue_depth: 1 };
    let sorted = address_order_scan(&model, &relation, &index, 1000, &memory);
    assert_eq!(sorted.pages_read, 4 + distinct_pages(1000, 1000));
    assert_eq!(sorted.read_requests, sorted.pages_read);
    memory.queue_depth = 16;
    let queued = address_order_scan(&model, &relation, &index, 1000, &memory);
    assert_eq!(queued.pages_read, sorted.pages_read);
    assert_eq!(queued.io_ns - alone.io_ns, (sorted.io_ns - alone.io_ns).div_ceil(8));
    memory.request_pages = 64;
    memory.list_pages = 10;
    let grouped = address_order_scan(&model, &relation, &index, 10_000, &memory);
    assert!(grouped.read_requests < 100, "all 1000 pages are neighbours");

    // 100 000 addresses are 98 times what a page holds.
    memory.request_pages = 1;
    memory.list_pages = 1;
    let batched = address_order_scan(&model, &relation, &index, 100_000, &memory);
    let full = distinct_pages(1000, 1024);
    assert_eq!(batched.pages_read, 202 + 97 * full + distinct_pages(1000, 100_000 - 97 * 1024));
}

#[test]
fn a_scattered_table_costs_a_seek_for_each_page() {
    let mut stats = RelationStats::heap(1000, 100_000, 70, PAGE_BYTES);
    let device = disk();
    let model = model(&device);
    let ordered = table_scan(&model, &Footprint::new(&stats, 1_000_000), 100);
    assert_eq!((ordered.read_requests, ordered.seeks), (10, 1));
    stats.order = PageOrder::Scattered;
    let scattered = table_scan(&model, &Footprint::new(&stats, 1_000_000), 100);
    assert_eq!((scattered.read_requests, scattered.seeks), (1000, 1000));
}

#[test]
fn index_joins_read_what_qualifies() {
    let index = |leaf_page_count, entry_count| IndexStats {
        leaf_page_count,
        height: 1,
        entry_count,
        order: PageOrder::Contiguous,
        is_clustered: false,
        row_bytes: 0,
        run_rows: 0,
    };
    let customers = JoinSide::new(RelationStats::heap(1000, 50_000, 130, PAGE_BYTES))
        .with_index(index(100, 50_000));
    let orders = JoinSide::new(RelationStats::heap(8000, 500_000, 104, PAGE_BYTES))
        .with_index(index(1000, 500_000));
    let question = JoinQuestion::new(customers, orders, 10).with_key_range(1000);
    let device = flash();
    let model = model(&device);
    let merging = IndexMergeMemory { outer_pages: 1000, inner_pages: 1000, pool: PoolShape::NONE };
    // 50 customers, 500 orders; a leaf of each index and its root.
    let merged = index_sort_merge(&model, &question, &merging).unwrap();
    let expected = 2 + 2 + distinct_pages(1000, 50) + distinct_pages(8000, 500);
    assert_eq!(merged.pages_read, expected);
    let memory = IndexMemory {
        input_pages: 10,
        batch_pages: 1000,
        inner_pages: 1000,
        pool: PoolShape::NONE,
    };
    let cost = |question: &JoinQuestion, access| {
        index_nested_loops(&model, question, access, &memory, FetchOrder::Key)
    };
    let by_key = cost(&question, OuterAccess::KeyOrder).unwrap().pages_read;
    let scanned = cost(&question, OuterAccess::TableScan).unwrap().pages_read;
    assert!(by_key < 700 && scanned > 1000 + 500, "{by_key} and {scanned} pages");
    let without = JoinQuestion { inner: JoinSide::new(orders.stats), ..question };
    assert_eq!(index_sort_merge(&model, &without, &merging), None);
    assert_eq!(cost(&without, OuterAccess::TableScan), None);
}

#[test]
fn nested_loops_reads_the_inner_side_for_each_tuple() {
    let outer = JoinSide::new(RelationStats::heap(10, 300, 100, PAGE_BYTES));
    let inner = JoinSide::new(RelationStats::heap(20, 600, 100, PAGE_BYTES));
    let question = JoinQuestion::new(outer, inner, 2);
    let device = flash();
    let model = model(&device);
    assert_eq!(nested_loops(&model, &question, 20).pages_read, 10 + 300 * 20);
    assert_eq!(nested_loops(&model, &question, 20).read_requests, 10 + 300 * 2);
    assert_eq!(nested_loops(&model, &question, 21).read_requests, 10 + 300);
}

#[test]
fn the_processor_is_charged_for_tuples_and_requests() {
    let work = WorkCosts::NONE.with(Work::Scan, 1_000_000_000);
    let processor = CpuCosts { work, request_ps: 1000, visit_ps: 0, large: None };
    let device = flash();
    let model = CostModel { device: &device, processor: &processor, reads_ahead: false };
    let relation = Footprint::new(&customers_and_orders().outer.stats, 1_000_000);
    let found = table_scan(&model, &relation, 1000);
    assert_eq!(found.cpu_ns, 4_500_000 * 1_000_000 + 94);
}

#[test]
fn what_leaves_the_range_stays_at_its_end() {
    let huge = JoinSide::new(RelationStats::heap(u64::MAX, u64::MAX, u64::MAX, u64::MAX));
    let question = JoinQuestion::new(huge, huge, u64::MAX);
    let device = disk();
    let model = CostModel { device: &device, processor: &CpuCosts::MODELLED, reads_ahead: false };
    assert_eq!(nested_loops(&model, &question, 3).io_ns, u64::MAX);
}

/// Any two relations, from none to a million tuples.
fn any_question() -> impl Strategy<Value = JoinQuestion> {
    let side = || {
        (0..1_000_000_u64, 20..500_u64, 50..=100_u64).prop_map(|(tuples, bytes, fill)| {
            let pages = (tuples * bytes * 100).div_ceil(fill * PAGE_BYTES);
            JoinSide::new(RelationStats::heap(pages, tuples, bytes, PAGE_BYTES))
        })
    };
    (side(), side(), 1..20_u64)
        .prop_map(|(outer, inner, duplicates)| JoinQuestion::new(outer, inner, duplicates))
}

#[test]
fn with_more_memory_sort_merge_does_not_write_the_larger_side_for_the_smaller_one() {
    let device = flash();
    let model = model(&device);
    let side = |page_count, tuple_count, cell_bytes| {
        let stats = RelationStats::heap(page_count, tuple_count, 0, PAGE_BYTES);
        JoinSide::new(RelationStats { cell_bytes, ..stats })
    };
    let outer = side(1535, 23_713, 6_283_945);
    let question = JoinQuestion::new(outer, side(481, 98_305, 1_966_100), 4);
    let sizes = question.sizes();
    let times = device.request_times(PAGE_BYTES);
    let written = |memory: u64| {
        let parts = SortMerge::allocate(&sizes, memory, &times, RunSeeks::Charged).unwrap();
        sort_merge(&model, &question, memory, &parts).pages_written
    };
    let [little, much] = [7438, 2 * 7438].map(written);
    assert!(much <= little, "{much} pages and {little}");
}

proptest! {
    #[test]
    fn each_join_reads_both_sides_and_writes_only_what_it_reads_again(
        question in any_question(), memory in 3..20_000_u64
    ) {
        let device = disk();
        let model = model(&device);
        let sizes = question.sizes();
        let times = device.request_times(PAGE_BYTES);
        let both = question.outer.stats.page_count + question.inner.stats.page_count;
        let nested = BlockNestedLoops::allocate_whole_scans(&sizes, memory, &times).unwrap();
        let nested = block_nested_loops(&model, &question, &nested);
        prop_assert_eq!(nested.pages_written, 0);
        let merge = SortMerge::allocate(&sizes, memory, &times, RunSeeks::Charged).unwrap();
        let grace = GraceHash::allocate(&sizes, memory).unwrap();
        let hybrid = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).unwrap();
        let fits = hybrid.fits;
        let merge = sort_merge(&model, &question, memory, &merge);
        let grace = grace_hash(&model, &question, memory, &grace);
        let hybrid = hybrid_hash(&model, &question, memory, &hybrid);
        for found in [merge, grace, hybrid] {
            prop_assert!(found.pages_read >= both, "{:?}", found);
            // But for the ends of runs.
            let read = found.pages_read + found.pages_read / 20 + 20;
            prop_assert!(read >= both + found.pages_written, "{:?}", found);
            prop_assert!(found.request_count() <= found.page_count(), "{:?}", found);
        }
        // Grace hash writes everything; hybrid hash never more, but for ends of pages.
        prop_assert!(
            !fits || hybrid.pages_written <= grace.pages_written + grace.pages_written / 20 + 60,
            "{:?} and {:?}", hybrid, grace
        );
    }

    #[test]
    fn more_memory_never_costs_much_more(
        question in any_question(), memory in 100..20_000_u64
    ) {
        let device = flash();
        let model = model(&device);
        let sizes = question.sizes();
        let times = device.request_times(PAGE_BYTES);
        let at = |memory: u64| {
            let nested = BlockNestedLoops::allocate(&sizes, memory, &times).unwrap();
            let merge = SortMerge::allocate(&sizes, memory, &times, RunSeeks::Charged).unwrap();
            let grace = GraceHash::allocate(&sizes, memory).unwrap();
            let hybrid = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).unwrap();
            [
                block_nested_loops(&model, &question, &nested),
                sort_merge(&model, &question, memory, &merge),
                grace_hash(&model, &question, memory, &grace),
                hybrid_hash(&model, &question, memory, &hybrid),
            ]
        };
        // Close to the square root, one pass by single pages costs more than two by many: not asked.
        let is_ample = sizes.hashes_in_two_phases(memory / 4) && sizes.sorts_in_two_passes(memory / 4);
        prop_assume!(is_ample);
        // Rounding up of runs, buckets and last requests makes small steps the other way.
        for (little, much) in at(memory).into_iter().zip(at(memory * 2)) {
            prop_assert!(
                seconds(&much) <= seconds(&little) * 1.1 + 0.02,
                "{:?} with twice the memory of {:?}", much, little
            );
        }
    }
}
